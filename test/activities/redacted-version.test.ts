/** Listeners with `redact_version` name no version without a token: it is asked for with a credential, and an unknown one is never taken for an older one. */
import type { Check } from '../../src/contracts/plan';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
import { ceremonyToken } from '../support/least-privilege';

const [BATCH, CEREMONY] = ['TEST_REDACTED_BATCH', 'TEST_REDACTED_CEREMONY'];

let bench: ActivityBench;
openBench((opened) => (bench = opened), {
  topology: {
    readings: { leaderChangeChance: 0 },
    clusters: ['east', 'west'].map((name) => ({ name, nodes: 3, redactVersion: true })),
    dr: [{ primary: 'east', secondaries: ['west'] }],
  },
  cluster: (name) => (name === 'west' ? { batchToken: { env: BATCH }, ceremonyCredential: { env: CEREMONY } } : {}),
});
afterEach(() => {
  delete process.env[BATCH];
  delete process.env[CEREMONY];
  for (const cluster of bench.service.clusters.values())
    [cluster.version, cluster.redactsVersion] = ['1.21.4+ent', true];
  bench.service.faults.clear();
});

const running = (version: string) => {
  for (const cluster of bench.service.clusters.values()) cluster.version = version;
};
const giveBatchToken = () => {
  bench.cluster('east').writePolicy('dr', [
    ...['promote', 'update-primary'].map((call) => ({
      path: `sys/replication/dr/secondary/${call}`,
      capabilities: ['update'],
    })),
    { path: 'sys/replication/dr/secondary/generate-operation-token/attempt', capabilities: ['read'] },
  ]);
  process.env[BATCH] = bench.cluster('east').createToken({ policies: ['dr'], type: 'batch', ttlMs: 7_200_000 });
};
const assess = (input = {}) => bench.call('assessDrSwitchover', { input: bench.input(input) });
const named = ({ preconditions }: { preconditions: readonly Check[] }, name: string) =>
  preconditions.find((each) => each.name === name);
const REDACTED = 'not reported (the listener redacts its version: `redact_version`)';

it('asks a cluster that serves for its version with the credential', async () => {
  const { observations } = await bench.call('readDeployment', { deployment: DEPLOYMENT });
  expect(observations.map(({ cluster, version }) => [cluster, version])).toEqual([
    ['east', '1.21.4+ent'],
    ['west', undefined],
  ]);
  expect(observations[0]?.nodes.map(({ version }) => version)).toEqual(Array(3).fill('1.21.4+ent'));
});

it('asks a DR secondary for its version with the batch token', async () => {
  giveBatchToken();
  const { observations } = await bench.call('readDeployment', { deployment: DEPLOYMENT });
  expect(observations.map(({ version }) => version)).toEqual(['1.21.4+ent', '1.21.4+ent']);
});

it('plans a switchover to a cluster whose version is unknown: approvers compare, and the old primary rejoins', async () => {
  const { preconditions, plan } = await assess();
  expect(preconditions.filter(({ verdict }) => verdict === 'fail')).toEqual([]);
  expect(named({ preconditions }, 'versions in order')).toMatchObject({
    verdict: 'warn',
    observed: `east 1.21.4+ent; west ${REDACTED}`,
    next: expect.stringContaining('`vault version`') as string,
  });
  expect(JSON.parse(plan?.text ?? '')).toMatchObject({ choices: { rejoin: true } });
});

it('tries the sources of a ceremony as from version 2.0 on if the version is unknown', async () => {
  running('2.0.3+ent');
  process.env[CEREMONY] = ceremonyToken(bench.cluster('east'), bench.inventory, DEPLOYMENT);
  expect(named(await assess({ tokenSource: 'ceremony' }), 'ceremony calls allowed')).toMatchObject({
    verdict: 'ok',
    observed: `accepted: ceremonyCredential; version ${REDACTED}`,
  });

  process.env[CEREMONY] = bench.cluster('east').createToken({ policies: ['default'] });
  expect(named(await assess({ tokenSource: 'ceremony' }), 'ceremony calls allowed')).toMatchObject({
    verdict: 'warn',
    observed: `refused: every credential that the inventory names; version ${REDACTED}`,
  });
});

it('says of calls without a credential that this is normal before version 2.0', async () => {
  const open = named(await assess({ tokenSource: 'ceremony' }), 'ceremony calls allowed');
  expect(open?.observed).toContain('version not reported');
  expect(open?.next).toContain('Before version 2.0 that cannot be changed; from 2.0 on, remove');
});

it('does not count the calls of a service that needs no credential as proof of a batch token', async () => {
  running('');
  giveBatchToken();
  const taken = named(await assess({ tokenSource: 'batch' }), 'batch token accepted by the secondary');
  expect(taken).toMatchObject({
    verdict: 'not-checkable',
    observed: 'not checkable: west does not report its version, and before 2.0 everybody may read the generation slot',
  });
});
