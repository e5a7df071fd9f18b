/** `runbook policy`: what it prints goes straight into the service, and says what it is for. */
import { writeFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parsePolicy } from '../../src/simulator/routes/policies';
import { temporaryDirectory } from '../support/directory';
import { LOOPBACK_CERTIFICATE } from '../vault/support/loopback-certificate';
import { cli } from './support';

const directory = temporaryDirectory('policy');
const file = join(directory, 'inventory.yaml');
const cluster = (port: number) =>
  `{ addresses: [https://10.1.0.4:${port}], advertisedClusterAddress: node-address, credential: { env: T } }`;
writeFileSync(
  file,
  `version: 1
workers: { signingKey: { env: K } }
people: { ada: { groups: [ops], attestation: principal, principal: ada } }
deployments:
  payments:
    clusters:
      east: ${cluster(1).replace('{ env: T }', '{ cert: { certificateFile: /absent.pem, keyFile: /absent.key } }')}
      west: ${cluster(2)}
    drSets: { main: [east, west] }
    ceremony: { holders: [ada] }
    gates: { plan: { approvals: 1, groups: [ops], validFor: 1h }, go: { approvals: 1, groups: [ops], validFor: 1h } }
    marker: { path: team/kv/marker }
    batchTokens: { main: { role: dr, policy: dr-only } }
`,
);
const policy = async (...words: string[]) => cli(['policy', ...words], { env: { RUNBOOKS_INVENTORY: file } });
const rulesOf = (text: string) =>
  new Map(parsePolicy(text)?.map(({ path, capabilities }) => [path, capabilities.join(' ')]));

it('prints HCL for the everyday runbooks: own marker for both engine versions, without performance replication if there is none', async () => {
  const { code, out } = await policy('payments');
  const rules = rulesOf(out);
  expect(code).toBe(0);
  expect(out).toMatch(/# Not for .*drSecondaryOnboarding, /);
  expect(rules.get('team/kv/marker')).toBe('create read update');
  expect(rules.get('team/kv/data/marker-after')).toBe('create read update');
  expect(rules.get('auth/token/create/dr')).toBe('update');
  expect([...rules.keys()].filter((path) => /performance|enable$|disable$/.test(path))).toEqual([]);
});

it('inventory check names the missing files, those of a login too', async () => {
  const { code, out } = await cli(['inventory', 'check', file]);
  expect([code, out]).toEqual([0, expect.stringMatching(/\/absent\.pem is not on[^]*\/absent\.key is not on/)]);
});

it('inventory check names the defects of a CA file', async () => {
  const caFile = join(directory, 'ca.pem');
  const other = join(directory, 'with-ca.yaml');
  await writeFile(
    caFile,
    `${LOOPBACK_CERTIFICATE}-----BEGIN CERTIFICATE-----\nMIIBbroken\n-----END CERTIFICATE-----\n`,
  );
  await writeFile(other, (await readFile(file, 'utf8')).replace('{ addresses', `{ caFile: ${caFile}, addresses`));
  const { code, out } = await cli(['inventory', 'check', other]);
  expect([code, out]).toEqual([0, expect.stringContaining(`${caFile}: certificate 2 of 2 is damaged`)]);
});

it('allows exactly the calls of the named runbooks', async () => {
  const failover = rulesOf((await policy('payments', '--runbook', 'drFailover')).out);
  expect([...failover.keys()].filter((path) => path.includes('demote'))).toEqual([]);
  expect(failover.get('sys/replication/dr/primary/secondary-token')).toBe('update sudo');
  expect(rulesOf((await policy('payments', '--runbook', 'all')).out).has('sys/replication/dr/primary/disable')).toBe(
    true,
  );
  const unknown = await policy('payments', '--runbook', 'switchover');
  expect(unknown).toMatchObject({ code: 2, out: '' });
  expect(unknown.err).toContain('Allowed choices are all, drSwitchover,');
});

it('prints the commands that set it up, with the names of the inventory, and JSON', async () => {
  const { out } = await policy('payments', '--commands');
  expect(out.split('\n')).toEqual(
    expect.arrayContaining([
      'runbook policy payments | vault policy write runbooks -',
      'runbook policy payments --for batchToken | vault policy write dr-only -',
      expect.stringMatching(/^vault write auth\/approle\/role\/runbooks token_policies=runbooks /) as string,
    ]),
  );
  const json = JSON.parse((await policy('payments', '--json', '--for', 'batchToken')).out) as { name: string };
  expect(json.name).toBe('dr-only');
});

it('writes the rights of a selection under another name, beside the everyday policy', async () => {
  const { out } = await policy('payments', '--commands', '--runbook', 'drSecondaryOnboarding', 'drFailover');
  expect(out).toContain(
    'runbook policy payments --runbook drSecondaryOnboarding drFailover | vault policy write runbooks-dr-secondary-onboarding-dr-failover -',
  );
  expect(out).toContain(' token_policies=runbooks,runbooks-dr-secondary-onboarding-dr-failover ');
  expect(out).not.toMatch(/policy write runbooks -/);
  const named = await policy('payments', '--json', '--runbook', 'all');
  expect(JSON.parse(named.out)).toMatchObject({ name: 'runbooks-all' });
  expect((await policy('payments', '--commands')).out).not.toContain('stays as it is');
});
