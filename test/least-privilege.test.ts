/** The policies of docs/operations.md: derived from what the activities call, and enough to do it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BATCH_TOKEN_GRANTS } from '../activities/tokens/batch-token-policy';
import { ServiceClient } from '../src/vault';
import { Secret } from '../src/secret';
import { startSimulatedService } from '../src/simulator';
import { parsePolicy } from '../src/simulator/routes/policies';
import { callersOnPage, INTERFACE_ROWS } from './support/endpoint-page';
import {
  BATCH_GRANTS,
  BATCH_ROLE_GRANTS,
  BATCH_SINK_GRANTS,
  credentialOf,
  ENOUGH_FOR,
  hclOf,
  leastPrivilegePolicies,
  policiesPart,
  POLICIES_BEGIN,
  POLICIES_END,
  SYS_GRANTS,
} from './support/least-privilege';
import { readSources, ROOT } from './support/source-graph';

/** Calls of the client that need no token (facts 1.5, 1.6). */
const WITHOUT_TOKEN = ['sys.health', 'sys.leader', 'sys.sealStatus', 'sys.replicationStatus', 'sys.generateRoot'];

const policies = leastPrivilegePolicies();
const rulesOf = (name: string) => {
  const policy = policies.find((each) => each.name === name);
  return policy ? (parsePolicy(hclOf(policy)) ?? []) : [];
};

it('docs/operations.md has the policies as they are derived', () => {
  const file = join(ROOT, 'docs', 'operations.md');
  const page = readFileSync(file, 'utf8');
  const [before = '', rest = ''] = page.split(POLICIES_BEGIN);
  const [, after = '\n'] = rest.split(POLICIES_END);
  const wanted = `${rest === '' ? `${before.trimEnd()}\n\n` : before}${policiesPart()}${after}`;
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(file, wanted);
  expect(readFileSync(file, 'utf8')).toBe(wanted);
});

it('no activity makes a call with a token that no policy knows', () => {
  const texts = [...readSources('activities').values()].map(({ syntax }) => syntax.text).join('\n');
  const made = new Set([...texts.matchAll(/client\.((?:sys|keyValue)\.\w+)/g)].map(([, call = '']) => call));
  expect(made.size).toBeGreaterThan(5);
  const known = { ...SYS_GRANTS, ...BATCH_GRANTS, ...BATCH_ROLE_GRANTS, ...BATCH_SINK_GRANTS };
  expect([...made].filter((call) => !(call in known) && !WITHOUT_TOKEN.includes(call))).toEqual([]);
});

it('the policies for some runbooks allow every call that these were seen to make', () => {
  const callers = callersOnPage();
  const missing = ENOUGH_FOR.flatMap(({ runbooks, allows }) =>
    INTERFACE_ROWS.filter((row) => ['token', 'sudo'].includes(credentialOf(row)) && !allows(row.method)).flatMap(
      (row) =>
        runbooks.filter((name) => callers.get(row.endpoint)?.includes(name)).map((name) => `${name}: ${row.endpoint}`),
    ),
  );
  expect(missing).toEqual([]);
});

it('every policy is HCL that names exact paths; sudo only where the service asks for it', () => {
  for (const policy of policies) {
    const rules = parsePolicy(hclOf(policy)) ?? [];
    expect(rules.map(({ path }) => path)).toEqual(policy.grants.map(({ path }) => path));
    expect(rules.filter(({ path }) => path.includes('*'))).toEqual([]);
    for (const { path, capabilities } of rules)
      expect([path, capabilities.includes('sudo')]).toEqual([path, /secondary-token$|sys\/audit$/.test(path)]);
  }
});

it('the policy that a rotation demands and writes is the documented one', () => {
  const documented = policies.find(({ name }) => name === 'runbooks-batch');
  expect(BATCH_TOKEN_GRANTS).toEqual(documented?.grants);
  const broad = rulesOf('runbooks-all').filter(({ path }) => /^sys\/policies|^auth\/token\/(roles|create)/.test(path));
  expect(broad).toEqual([]);
});

it('what wipes, cuts off or ends replication is in the policy for every runbook only', () => {
  const dangerous = /enable$|disable$/;
  expect(rulesOf('runbooks-switchover').filter(({ path }) => dangerous.test(path))).toEqual([]);
  expect(rulesOf('runbooks-all').filter(({ path }) => dangerous.test(path)).length).toBeGreaterThan(3);
  const changing = rulesOf('runbooks-readiness').filter(
    ({ path, capabilities }) => !capabilities.includes('read') && path !== 'sys/capabilities-self',
  );
  expect(changing).toEqual([]);
});

it('from version 2.0 an orphan batch token with the policy for ceremonies holds one, and nothing else', async () => {
  const service = await startSimulatedService({
    clusters: ['east', 'west'].map((name) => ({ name, nodes: 1, version: '2.0.3+ent' })),
    dr: [{ primary: 'east', secondaries: ['west'] }],
  });
  const west = new ServiceClient({ name: 'west', addresses: service.cluster('west').addresses });
  try {
    const east = service.cluster('east');
    east.writePolicy(
      'runbooks-ceremony',
      rulesOf('runbooks-ceremony').map((rule) => ({ ...rule, capabilities: [...rule.capabilities] })),
    );
    const token = new Secret('batch-token', east.createToken({ policies: ['runbooks-ceremony'], type: 'batch' }));
    service.advanceClock(1_000);
    const { generateOperationToken } = west.dr.secondary;
    expect((await generateOperationToken.startAttempt({}, { token })).started).toBe(true);
    expect((await generateOperationToken.readAttempt({ token })).started).toBe(true);
    await generateOperationToken.cancelAttempt({ token });
    const promotion = west.dr.secondary.promote({ drOperationToken: token });
    await expect(promotion).rejects.toMatchObject({ httpStatus: 403 });
  } finally {
    await west.close();
    await service.stop();
  }
});
