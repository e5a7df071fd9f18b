/** Without a primary a batch token counts only as far as a primary proved it before. */
import { keptBatchTokens, sealBatchToken } from '../../activities/tokens/kept-batch-token';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
import { Secret } from '../../src/secret';

const KEY = 'batch-token:west';
let bench: ActivityBench;
let proof: Readonly<Record<string, unknown>>;

openBench((opened) => (bench = opened), {
  limits: { primaryGone: '1s' },
  deployment: {
    batchTokens: { main: { ttl: '2h' } },
    ceremony: { holders: ['ada', 'bert', 'cleo', 'dora'], batchMargin: '40m' },
  },
});

/** As a rotation leaves it in the record. */
const keepToken = async (token: string) => {
  bench.canary('batch token', token);
  const on = { deployment: DEPLOYMENT, drSet: 'main' };
  const sealed = await sealBatchToken(bench, on, new Secret('batch-token', token), 3_600);
  await keptBatchTokens.put(bench.records, DEPLOYMENT, 'main', { sealed, at: new Date().toISOString() });
};
const makeToken = (ttlMs: number) =>
  keepToken(bench.cluster('east').createToken({ policies: ['dr'], type: 'batch', ttlMs }));
const assess = async (more = {}) => {
  const input = RUNBOOK_INPUTS.drFailover.parse({ deployment: DEPLOYMENT, reason: 'a test', ...more });
  const { route, plan, preconditions } = await bench.call('assessDrFailover', { input });
  const { warnings } = JSON.parse(plan?.text ?? '{}') as { readonly warnings: readonly string[] };
  return { source: route?.tokenSource, warnings, preconditions, digest: plan?.digest };
};
const kept = async () => (await bench.records.read(DEPLOYMENT)).values.get(KEY);
const keep = (value: unknown) => bench.records.change(DEPLOYMENT, () => ({ put: { [KEY]: value } }));

const writePolicy = (right: 'read' | 'update') =>
  bench.cluster('east').writePolicy('dr', [{ path: 'sys/replication/dr/secondary/*', capabilities: [right] }]);
/** What the record had after a check, and what it should have. */
const withdrawn: (readonly [unknown, unknown])[] = [];

beforeAll(async () => {
  writePolicy('update');
  await makeToken(3_600_000);
  const check = () => bench.call('assessReadiness', { deployment: DEPLOYMENT });
  await check();
  proof = (await kept()) as typeof proof;
  // One that the primary refuses, or whose rights are gone, is proven no more; one that is not looked up still is.
  const newer = { ...proof, at: new Date(Date.now() + 600_000).toISOString(), digest: 'of the next one' };
  for (const [arrange, what] of [
    // Its rotation put another one in its place while the check was under way.
    [() => keep(newer), newer],
    [() => keepToken('hvb.refused'), undefined],
    [() => keptBatchTokens.put(bench.records, DEPLOYMENT, 'main', undefined), proof],
    [() => (writePolicy('read'), makeToken(3_600_000)), undefined],
  ] as const) {
    await keep(proof);
    await arrange();
    await check();
    withdrawn.push([await kept(), what]);
  }
  writePolicy('update');
  await makeToken(3_600_000);
  await check();
  proof = (await kept()) as typeof proof;
  await bench.cluster('east').kill();
  bench.service.advanceClock(5_000);
});

it('readiness keeps what the primary says of it, and never the token', async () => {
  expect(Object.keys(proof).sort()).toEqual(['at', 'capabilities', 'digest', 'endsAt']);
  const { source, warnings, digest } = await assess();
  expect(source).toBe('batch');
  expect(warnings[0]).toContain(`proven by the primary at ${String(proof['at'])}, ends at ${String(proof['endsAt'])}`);
  // A check without a primary proves nothing, and takes nothing away: the plan stays the one that people sign.
  await bench.call('assessReadiness', { deployment: DEPLOYMENT });
  expect(await kept()).toEqual(proof);
  expect((await assess()).digest).toBe(digest);
});

it('what the primary refuses, or gives no rights, is proven no more; a token that cannot be read proves nothing', () => {
  expect(withdrawn.map(([is]) => is)).toEqual(withdrawn.map(([, should]) => should));
});

const ago = (ms: number) => new Date(Date.now() - ms).toISOString();
it.each([
  ['ends before the run would by the margin', () => keep({ ...proof, endsAt: ago(-2_000_000) }), 'lives long enough'],
  ['has ended', () => keep({ ...proof, endsAt: ago(1_000) }), 'lives long enough'],
  ['was proven more than a day ago', () => keep({ ...proof, at: ago(25 * 3_600_000) }), 'it was proven last at'],
  ['had no right to promote', () => keep({ ...proof, capabilities: {} }), 'may promote and update-primary'],
  ['was never proven', () => bench.records.change(DEPLOYMENT, () => ({ removed: [KEY] })), 'no readiness check'],
  ['is another one than was proven', async () => (await keepToken('hvb.another'), keep(proof)), 'another token'],
] as const)('a token that %s is left to the holders, and the plan says why', async (_what, arrange, why) => {
  await arrange();
  const { source, warnings } = await assess();
  expect(source).toBe('ceremony');
  expect(warnings).toContainEqual(expect.stringMatching(new RegExp(`batch token of west is not used: .*${why}`)));
});

it('asked for by name it is used without a proof, and the approvers see that nothing is known of it', async () => {
  const { source, preconditions } = await assess({ tokenSource: 'batch' });
  expect(source).toBe('batch');
  expect(preconditions.find(({ name }) => name === 'batch token')).toMatchObject({ verdict: 'not-checkable' });
});
