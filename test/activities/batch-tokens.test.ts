/** Where a batch token may be kept, what readiness says of it, and what a lost worker leaves. */
import { chmod, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ActivityDependencies } from '../../activities/dependencies';
import { BatchTokenFile, BatchTokenKey } from '../../activities/tokens/batch-token-store';
import { Clusters } from '../../activities/clusters';
import { judgeDue } from '../../activities/plans/batch-token-rotation';
import { neededGrants } from '../../activities/tokens/batch-token-policy';
import { judgeBatchToken } from '../../activities/readiness/credentials';
import type { CredentialFacts } from '../../activities/checks/credentials';
import { batchTokenReady } from '../../activities/checks/tokens';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { Secret } from '../../src/secret';
import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';

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
  const point = (more: Partial<CredentialFacts>, of = deployment('auto')) => {
    const facts = { ...GOOD, ...more };
    const rules = batchTokenReady(facts, 'west', of, [PROMOTE, UPDATE_PRIMARY]);
    return judgeBatchToken(of, { drSet: 'main', cluster: 'west' }, facts, rules);
  };
  const emptied = { capabilities: { [PROMOTE]: ['deny'], [UPDATE_PRIMARY]: ['deny'] } };

  it('shows what is left, when it was made, and that it has its rights', () => {
    expect(point({})).toMatchObject({
      verdict: 'ok',
      observed: '20000 s left, made 8800 s ago, with its rights',
    });
  });

  it('is red after the kill switch where people rely on the token, although it lives on', () => {
    expect(point(emptied)).toMatchObject({ verdict: 'fail', observed: expect.stringContaining('deny') as string });
    expect(point(emptied, deployment('batch', false))).toMatchObject({ verdict: 'fail' });
    expect(point(emptied, deployment('ceremony'))).toMatchObject({ verdict: 'warn' });
    expect(point({ usable: false, error: 'PERMISSION_DENIED' })).toMatchObject({ verdict: 'fail' });
  });

  it('warns where the rotation is overdue, before the token ends', () => {
    expect(point({ ttlSeconds: 7_000 })).toMatchObject({ verdict: 'warn' });
    expect(point({ ttlSeconds: 1_000 })).toMatchObject({ verdict: 'fail' });
  });
});

it.each([
  ['there is none', undefined, true],
  ['it cannot be used', { ...GOOD, usable: false }, true],
  ['it is no batch token', { ...GOOD, type: 'service' }, true],
  ['it lacks a right', { ...GOOD, capabilities: { [PROMOTE]: ['update'] } }, true],
  ['less than half of its life is left', { ...GOOD, ttlSeconds: 14_000 }, true],
  ['more than half of its life is left', { ...GOOD, ttlSeconds: 15_000 }, false],
] as const)('whether a rotation is due: %s', (_name, present, due) => {
  expect(judgeDue(present, neededGrants(false), { ttlMs: 28_800_000 }).due).toBe(due);
});

describe('on a simulated deployment', () => {
  let bench: ActivityBench;
  let place: string;
  const token = new Secret('batch-token', 'hvb.A-CANARY-THAT-IS-KEPT');
  beforeAll(async () => {
    place = await mkdtemp(join(tmpdir(), 'batch-token-place-'));
    bench = await ActivityBench.start({
      topology: { mounts: ['kv/', { path: 'old/', version: 1 }] },
      deployment: { batchTokens: { main: { sink: { file: join(place, 'token') } } } },
    });
    bench.canary('a batch token', token.reveal());
  });
  afterAll(async () => {
    await bench.stop();
    await rm(place, { recursive: true, force: true });
  });

  it('a directory that others may enter or its group may write to is refused, and so is a link or a folder', async () => {
    const file = new BatchTokenFile(join(place, 'token'));
    for (const mode of [0o755, 0o701, 0o770]) {
      await chmod(place, mode);
      await expect(file.replace(token)).rejects.toMatchObject({ code: 'PRECONDITION_FAILED' });
    }
    await chmod(place, 0o700);
    await symlink('/dev/null', join(place, 'link'));
    await expect(new BatchTokenFile(join(place, 'link')).replace(token)).rejects.toMatchObject({
      observed: expect.stringContaining('symbolic link') as string,
    });
    await mkdir(join(place, 'folder'));
    await expect(new BatchTokenFile(join(place, 'folder')).check()).rejects.toMatchObject({ needed: 'a file' });
    await symlink(place, join(place, 'way'));
    await expect(new BatchTokenFile(join(place, 'way', 'x')).check()).rejects.toMatchObject({ needed: 'a directory' });
  });

  it('a file that others may read becomes one of mode 0600; what a dead worker left is replaced, never followed', async () => {
    const file = join(place, 'token');
    await writeFile(file, 'the one before', { mode: 0o644 });
    await writeFile(join(place, 'elsewhere'), 'untouched');
    await symlink(join(place, 'elsewhere'), `${file}.new`);
    await new BatchTokenFile(file).replace(token);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readFile(join(place, 'elsewhere'), 'utf8')).toBe('untouched');
    expect((await new BatchTokenFile(file).read())?.reveal()).toBe(token.reveal());
  });

  const rotation = (more: object = {}) =>
    bench.call('assessBatchTokenRotation', {
      input: RUNBOOK_INPUTS.batchTokenRotation.parse({ deployment: DEPLOYMENT, reason: 'a test', ...more }),
    });
  const failed = async () =>
    (await rotation()).preconditions.filter(({ verdict }) => verdict === 'fail').map(({ name }) => name);

  it('while a run is in its outage, and while the primary says nothing, the token that is there stays', async () => {
    const before = await readFile(join(place, 'token'), 'utf8');
    const open = { type: 'drSwitchover', runId: 'another-run' };
    bench.openRuns = new Map([[`deployment:${DEPLOYMENT}`, { ...open, memo: { phase: 'outage' } }]]);
    expect(await failed()).toContain('no run moves the primary now');
    bench.openRuns = new Map([[`deployment:${DEPLOYMENT}`, { ...open, memo: { phase: 'preparing' } }]]);
    expect(await failed()).not.toContain('no run moves the primary now');
    bench.openRuns = undefined;

    const silent = bench.service.faults.add({ cluster: 'east', endpoint: /./, action: 'reset', times: Infinity });
    expect((await rotation()).preconditions).toEqual([
      expect.objectContaining({
        ...{ name: 'one primary that makes the token', verdict: 'fail' },
        observed: expect.stringContaining('west secondary') as string,
        next: expect.stringContaining('the one that is there counts until its end') as string,
      }),
    ]);
    const asked = { deployment: DEPLOYMENT, cluster: 'east', drSet: 'main' };
    expect(await bench.failure('rotateBatchToken', asked)).toMatchObject({ retryable: true });
    silent.remove();
    expect(await readFile(join(place, 'token'), 'utf8')).toBe(before);
    expect(bench.calls('east', 'auth/token/create/runbooks-batch')).toBe(0);
  });

  it('a key of a version 1 engine is replaced too, and read back; what somebody else writes in between is told', async () => {
    const engine = { deployment: DEPLOYMENT, mount: 'old', path: 'runbooks/batch-token', field: 'token' };
    // What the printed policy has where another deployment keeps its token here.
    const east = bench.cluster('east');
    east.writePolicy('keeper', [{ path: 'old/runbooks/batch-token', capabilities: ['create', 'read', 'update'] }]);
    const own = join(bench.directory, 'token');
    const before = await readFile(own);
    await writeFile(own, east.createToken({ policies: ['keeper'] }));
    const key = new BatchTokenKey(new Clusters({ inventory: bench.inventory } as ActivityDependencies), engine);
    const { signal } = new AbortController();
    await key.check(signal);
    expect(await key.read(signal)).toBeUndefined();
    await key.replace(token, signal);
    expect((await key.read(signal))?.reveal()).toBe(token.reveal());
    const write = { cluster: 'east', endpoint: 'POST /v1/old/runbooks/batch-token' };
    const lost = bench.service.faults.add({ ...write, action: 'lose-answer' });
    const next = new Secret('batch-token', 'hvb.ANOTHER-CANARY-THAT-IS-KEPT');
    await key.replace(next, signal);
    expect(lost.hits).toBe(1);
    expect((await key.read(signal))?.reveal()).toBe(next.reveal());
    await writeFile(own, before);
  });

  it('after a lost worker another token is made, and the one that may exist is told', async () => {
    const east = bench.cluster('east');
    east.writePolicy('runbooks-batch', [
      ...neededGrants(false).map(({ path, capabilities }) => ({ path, capabilities: [...capabilities] })),
    ]);
    const role = { allowedPolicies: ['runbooks-batch'], orphan: true, renewable: false, tokenType: 'batch' } as const;
    east.storage.write('token-role/runbooks-batch', { type: 'token-role', role }, bench.service.now());
    const input = { deployment: DEPLOYMENT, cluster: 'east', drSet: 'main' };
    const made = await bench.call('rotateBatchToken', input, { attempt: 2 });
    expect(made).toMatchObject({ extraTokens: 1, findings: [{ code: 'extra-batch-token', severity: 'info' }] });
    await expect(bench.call('rotateBatchToken', { ...input, cluster: 'west' })).rejects.toMatchObject({
      type: 'PRECONDITION_FAILED',
    });
    expect(bench.calls('west', 'auth/token/create/runbooks-batch')).toBe(0);
    expect(bench.leaks()).toEqual([]);
  });
});
