/** What readiness says of a batch token, when it is renewed, what a lost worker leaves, and what proves it where no primary answers. */
import { judgeDue } from '../../activities/plans/batch-token-rotation';
import { neededGrants } from '../../activities/tokens/policies';
import { judgeBatchToken } from '../../activities/readiness/credentials';
import type { CredentialFacts } from '../../activities/checks/credentials';
import { batchTokenReady } from '../../activities/ceremony/token-source';
import { keptBatchTokens, openBatchToken, sealBatchToken } from '../../activities/tokens/kept-batch-token';
import pino from 'pino';
import { assessService } from '../../activities/readiness/readiness';
import { provenBefore } from '../../activities/tokens/batch-token-proof';
import { Clusters } from '../../activities/clusters';
import { findDeployment } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import { Secret } from '../../src/secret';
import { DEPLOYMENT, failing, holding, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

const PROMOTE = 'sys/replication/dr/secondary/promote';
const UPDATE_PRIMARY = 'sys/replication/dr/secondary/update-primary';
const RIGHTS = { [PROMOTE]: ['update'], [UPDATE_PRIMARY]: ['update'] };
const GOOD: CredentialFacts = {
  usable: true,
  type: 'batch',
  orphan: true,
  ttlSeconds: 20_000,
  creationTtlSeconds: 28_800,
  capabilities: RIGHTS,
};

describe('readiness', () => {
  const deployment = (tokenSource: 'auto' | 'batch' | 'ceremony', rotated = true) =>
    ({
      ceremony: { tokenSource, batchMarginMs: 1_800_000 },
      batchTokens: rotated ? { main: { ttlMs: 28_800_000 } } : {},
    }) as unknown as Deployment;
  const point = (more: Partial<CredentialFacts>, of = deployment('auto'), opensCalls = false) => {
    const facts = { ...GOOD, ...more };
    const rules = batchTokenReady(facts, 'west', of, [PROMOTE, UPDATE_PRIMARY]);
    return judgeBatchToken(of, { drSet: 'main', cluster: 'west', opensCalls }, facts, rules);
  };
  const emptied = { capabilities: { [PROMOTE]: ['deny'], [UPDATE_PRIMARY]: ['deny'] } };

  it('shows its remaining TTL, its creation time, and that it has its rights', () => {
    expect(point({})).toMatchObject({ verdict: 'ok', observed: '20000 s left, with its rights' });
  });

  it('fails after the kill switch if people rely on the token, although it is still valid', () => {
    expect(point(emptied)).toMatchObject({ verdict: 'fail', observed: holding('deny') });
    expect(point(emptied, deployment('batch', false))).toMatchObject({ verdict: 'fail' });
    expect(point(emptied, deployment('ceremony'))).toMatchObject({ verdict: 'warn' });
    expect(point({ usable: false, error: 'PERMISSION_DENIED' })).toMatchObject({ verdict: 'fail' });
  });

  it('that expires soon fails if it authorizes the calls of a ceremony, though the holders are always asked', () => {
    const ending = { ttlSeconds: 1_000 };
    expect(point(ending, deployment('ceremony'))).toMatchObject({ verdict: 'warn' });
    expect(point(ending, deployment('ceremony'), true)).toMatchObject({ verdict: 'fail' });
    expect(point(emptied, deployment('ceremony'), true)).toMatchObject({ verdict: 'warn' });
  });

  it('warns if the rotation is overdue, before the token expires', () => {
    expect(point({ ttlSeconds: 7_000 })).toMatchObject({ verdict: 'warn' });
    expect(point({ ttlSeconds: 1_000 })).toMatchObject({ verdict: 'fail' });
  });
});

it.each([
  ['it cannot be used', { ...GOOD, usable: false }, true],
  ['it is no batch token', { ...GOOD, type: 'service' }, true],
  ['it lacks a right', { ...GOOD, capabilities: { [PROMOTE]: ['update'] } }, true],
  ['less than half of its TTL is left', { ...GOOD, ttlSeconds: 14_000 }, true],
  ['more than half of its TTL is left', { ...GOOD, ttlSeconds: 15_000 }, false],
] as const)('whether a rotation is due: %s', (_name, present, due) => {
  expect(judgeDue(present, neededGrants(false), { ttlMs: 28_800_000 }).due).toBe(due);
});

describe('on a simulated deployment', () => {
  let bench: ActivityBench;
  openBench((opened) => (bench = opened), { deployment: { batchTokens: { main: {} } } });
  beforeAll(() => {
    const east = bench.cluster('east');
    const rules = neededGrants(false).map(({ path, capabilities }) => ({ path, capabilities: [...capabilities] }));
    east.writePolicy('runbooks-batch', rules);
    const role = { allowedPolicies: ['runbooks-batch'], orphan: true, renewable: false, tokenType: 'batch' } as const;
    east.storage.write('token-role/runbooks-batch', { type: 'token-role', role }, bench.service.now());
  });
  const log = pino({ level: 'silent' });
  const asked = { deployment: DEPLOYMENT, cluster: 'east', drSet: 'main' };
  const inRecord = async () => (await bench.records.read(DEPLOYMENT)).values.get('kept-batch-token:main');
  const rotation = () => bench.assess('batchTokenRotation');
  const failed = async () => failing(await rotation()).map(({ name }) => name);

  it('before 2.0 no check proves it on the secondary; if the record cannot be written none is created', async () => {
    bench.recordServer.failure = new Error('silent');
    await bench.refused('rotateBatchToken', asked, 'RECORD_UNAVAILABLE');
    expect(bench.calls('east', 'auth/token/create/runbooks-batch')).toBe(0);
    bench.recordServer.failure = undefined;
    // An attempt before this one was lost: another token is made, and ends by itself where nobody holds it.
    const made = await bench.call('rotateBatchToken', asked, { attempt: 2 });
    expect(made).toMatchObject({ notCheckableOn: ['west'], provenOn: [], findings: [] });
    await bench.refusedUnsent('rotateBatchToken', { ...asked, cluster: 'west' }, 'PRECONDITION_FAILED');
  });

  it('one with a policy beside its own is not kept, whatever added it', async () => {
    const before = await inRecord();
    const data = { type: 'batch', orphan: true, ttl: 28_800, policies: ['default', 'runbooks-batch', 'everything'] };
    bench.service.faults.add({
      ...{ cluster: 'east', endpoint: 'GET /v1/auth/token/lookup-self' },
      action: { status: 200, body: { data } },
    });
    await bench.refused('rotateBatchToken', asked, 'PRECONDITION_FAILED', {
      ...{ retryable: false, details: { needed: 'policy runbooks-batch and no other' } },
    });
    expect(await inRecord()).toEqual(before);
  });

  it('during an outage of a run, and while the primary does not answer, the existing token stays', async () => {
    const before = await inRecord();
    const open = { type: 'drSwitchover', runId: 'another-run' };
    bench.openRuns = new Map([[`deployment:${DEPLOYMENT}`, { ...open, memo: { phase: 'outage' } }]]);
    expect(await failed()).toEqual(['no run moves the primary now']);
    bench.openRuns = new Map([[`deployment:${DEPLOYMENT}`, { ...open, memo: { phase: 'preparing' } }]]);
    expect(await failed()).toEqual([]);
    bench.openRuns = undefined;

    const silent = bench.always(/./, 'reset', 'east');
    expect((await rotation()).preconditions).toEqual([
      expect.objectContaining({
        ...{ name: 'one primary that makes the token', verdict: 'fail' },
        observed: holding('west secondary'),
        next: holding('The existing one is valid until it expires'),
      }),
    ]);
    expect(await bench.failure('rotateBatchToken', asked)).toMatchObject({ retryable: true });
    silent.remove();
    expect(await inRecord()).toEqual(before);
    expect(before).toBeDefined();
  });

  it('is rejected for another deployment or set, and once it has expired', async () => {
    const { records, sealKeyring } = bench;
    const moved = { 'kept-batch-token:other': await inRecord() };
    await bench.records.change(DEPLOYMENT, () => ({ put: moved }));
    const keeper = { records, sealKeyring };
    const refused = { code: 'SEALED_VALUE_INVALID' };
    await expect(openBatchToken(keeper, { deployment: DEPLOYMENT, drSet: 'other' })).rejects.toMatchObject(refused);
    const elsewhere = { namespace: 'another', read: () => records.read(DEPLOYMENT) } as unknown as typeof records;
    const main = { deployment: DEPLOYMENT, drSet: 'main' };
    await expect(openBatchToken({ records: elsewhere, sealKeyring }, main)).rejects.toMatchObject(refused);
    // One that has ended says who makes another.
    const now = jest.spyOn(Date, 'now').mockReturnValueOnce(Date.now() - 7_200_000);
    const sealed = await sealBatchToken(bench, main, new Secret('batch-token', 'hvb.ended'), 3_600);
    now.mockRestore();
    await keptBatchTokens.put(records, DEPLOYMENT, 'main', { sealed, at: new Date().toISOString() });
    await expect(openBatchToken(keeper, main)).rejects.toMatchObject({
      ...refused,
      next: holding('start batchTokenRotation. Otherwise'),
    });
  });

  it('a check from a shell, which has neither record nor seal keys, reports the token as unknown and does not fail', async () => {
    Object.assign(findDeployment(bench.inventory, DEPLOYMENT).ceremony, { tokenSource: 'batch' });
    const points = await assessService(bench.inventory, log, DEPLOYMENT, AbortSignal.timeout(30_000));
    const told = points.filter(({ id }) => id.startsWith('batch-token'));
    expect(told.map(({ id, verdict, cluster }) => [id, verdict, cluster])).toEqual([
      ['batch-token', 'not-checkable', 'west'],
    ]);
    expect(told[0]?.observed).toBe('it is in the record, which is not read from here');
    const west = new Clusters({ inventory: bench.inventory, log }).of(DEPLOYMENT, 'west');
    expect(await provenBefore(DEPLOYMENT, west)).toEqual({ why: holding('from here') });
  });
});

describe('without a primary a batch token counts only as far as a primary confirmed it before', () => {
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
    const { route, plan, preconditions } = await bench.assess('drFailover', more);
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

  it('readiness keeps the answer of the primary about it, and never the token', async () => {
    expect(Object.keys(proof).sort()).toEqual(['at', 'capabilities', 'digest', 'endsAt']);
    const { source, warnings, digest } = await assess();
    expect(source).toBe('batch');
    expect(warnings[0]).toContain(
      `proven by the primary at ${String(proof['at'])}, and expires at ${String(proof['endsAt'])}`,
    );
    // A check without a primary proves nothing, and takes nothing away: the plan stays the one that people sign.
    await bench.call('assessReadiness', { deployment: DEPLOYMENT });
    expect(await kept()).toEqual(proof);
    expect((await assess()).digest).toBe(digest);
  });

  it('a token that the primary refuses, or that lacks rights, is no longer proven; a token that cannot be read is not proven', () => {
    expect(withdrawn.map(([is]) => is)).toEqual(withdrawn.map(([, should]) => should));
  });

  const ago = (ms: number) => new Date(Date.now() - ms).toISOString();
  it.each([
    ['ends before the run would by the margin', () => keep({ ...proof, endsAt: ago(-2_000_000) }), 'lives long enough'],
    ['has ended', () => keep({ ...proof, endsAt: ago(1_000) }), 'lives long enough'],
    ['was proven more than a day ago', () => keep({ ...proof, at: ago(25 * 3_600_000) }), 'its last proof, at'],
    ['had no right to promote', () => keep({ ...proof, capabilities: {} }), 'may promote and update-primary'],
    ['was never proven', () => bench.records.change(DEPLOYMENT, () => ({ removed: [KEY] })), 'no readiness check'],
    [
      'is another one than was proven',
      async () => (await keepToken('hvb.another'), keep(proof)),
      'it is not the token that was proven',
    ],
  ] as const)('a token that %s is left to the holders, and the plan says why', async (_what, arrange, why) => {
    await arrange();
    const { source, warnings } = await assess();
    expect(source).toBe('ceremony');
    expect(warnings).toContainEqual(expect.stringMatching(new RegExp(`batch token of west is not used: .*${why}`)));
  });

  it('a token that is requested by name is used without a proof, and the approvers see that it is unverified', async () => {
    const { source, preconditions } = await assess({ tokenSource: 'batch' });
    expect(source).toBe('batch');
    expect(preconditions.find(({ name }) => name === 'batch token')).toMatchObject({ verdict: 'not-checkable' });
  });
});
