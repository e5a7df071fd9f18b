/** Clients are kept still by the service's own quota, or by people's word; what the demotion saw of it is what proves no loss. */
import type { QuotasBefore } from '../../src/contracts/activities';
import { quotaName } from '../../src/contracts/names';
import {
  clusters,
  DEPLOYMENT,
  drDemotion,
  drPromotion,
  failing,
  holding,
  openBench,
  replicating,
} from '../support/activity-environment';
import type { ActivityBench, SignedPlan } from '../support/activity-environment';
import { findDeployment } from '../../src/inventory';
import type { ActivityEnd } from '../support/activity-events';
import { keepWriting } from '../support/faults';

const LICENCE = 'GET /v1/sys/license/status';

let bench: ActivityBench;
let quota: SignedPlan;
let name: string;
openBench((opened) => (bench = opened), {
  ...replicating(
    { main: ['east', 'west'], eu: ['europe'] },
    {},
    {
      clusters: clusters({ east: 3, west: 1, europe: 1 }),
      readings: { leaderChangeChance: 0, optionalFieldMissingChance: 0 },
      // A busy primary: something of its own is always written after W.
      timing: { canaryMs: 100 },
    },
  ),
  deployment: { quiesce: { by: 'quota', exempt: ['kv/always'] } },
});
beforeAll(async () => {
  quota = await bench.authority();
  name = quotaName(bench.run.rid);
});
afterEach(async () => {
  bench.service.faults.clear();
  bench.limit();
  if (bench.cluster('east').snapshotState().dr.mode === 'primary') await release('east');
});

const east = () => bench.cluster('east');
const sides = { deployment: DEPLOYMENT, kind: 'dr', cluster: 'east', otherCluster: 'west' } as const;
const quiesce = (authority = quota) => bench.call('quiesceByQuota', { ...sides, authority });
const readQuotas = () => bench.call('readQuotas', { deployment: DEPLOYMENT, cluster: 'east' });
const release = (cluster: string, before?: QuotasBefore) =>
  bench.call('releaseQuota', { ...releasing(cluster), ...(before && { quotas: before }) });
const releasing = (cluster: string) => ({ deployment: DEPLOYMENT, cluster, credentialOf: 'east' });
const configOf = ({ at: _at, attested: _mark, ...config }: QuotasBefore) => config;
const quotas = (cluster = 'east') => bench.cluster(cluster).storage.keys('quota/');
const ask = async (cluster: string, path: string, node = 0) =>
  (await fetch(`${bench.cluster(cluster).addresses[node] ?? ''}/v1/${path}`)).status;
const asksAll = () => Promise.all([0, 1, 2].map((node) => ask('east', 'kv/a', node)));
const order = () =>
  bench.changes().flatMap((call) => (/sys\/quotas/.test(call) ? call.replace(/^\w+: (\w+) .*quotas\//, '$1 ') : []));
const refuses = (code: string, expected: object = {}) =>
  bench.refused('quiesceByQuota', { ...sides, authority: quota }, code, expected);
const assess = (more: object = {}) => bench.assess('drSwitchover', { to: 'west', ...more });

describe("the service's own quota", () => {
  it('exempts the calls of runs, then stops every client at every node, and those of performance secondaries; all is as before after it', async () => {
    const before = await readQuotas();
    bench.service.calls.length = 0;
    const { observed } = await quiesce();
    expect(order()).toEqual(['POST config', `POST rate-limit/${name}`]);
    for (const address of [...east().addresses, ...bench.cluster('europe').addresses])
      expect(observed).toContain(address);
    expect([...(await asksAll()), await ask('europe', 'kv/a'), await ask('east', 'auth/approle/login')]).toEqual(
      Array(5).fill(429),
    );
    expect([await ask('east', 'kv/always'), await ask('east', 'sys/leader')]).toEqual([403, 200]);

    await release('east', before);
    expect(order().slice(2)).toEqual([`DELETE rate-limit/${name}`, 'POST config']);
    expect(configOf(await readQuotas())).toEqual(configOf(before));
    expect(await asksAll()).toEqual([403, 403, 403]);
    expect(await release('east', before)).toMatchObject({ outcome: 'already' });
  });

  it('releases clients although the exempt paths cannot be restored, and says so', async () => {
    const before = await readQuotas();
    await quiesce();
    bench.always('POST /v1/sys/quotas/config', { status: 403 });
    expect(await release('east', before)).toMatchObject({
      outcome: 'done',
      findings: [{ severity: 'warning', code: 'exempt-paths-not-restored' }],
    });
    expect([quotas(), await asksAll()]).toEqual([[], [403, 403, 403]]);
    bench.service.faults.clear();
    await release('east', before);
    expect(configOf(await readQuotas())).toEqual(configOf(before));
  });

  it('removes only the paths that it added: a list from before that no worker marked for this run makes no changes', async () => {
    const before = await readQuotas();
    await quiesce();
    const held = await readQuotas();
    const another = { ...bench.run, rid: 'another' };
    const elsewhere = await bench.call('readQuotas', { deployment: DEPLOYMENT, cluster: 'east' }, { run: another });
    for (const forged of [{ ...before, exempt: [] }, { exempt: [], auditLogging: false }, elsewhere]) {
      const findings = [{ code: 'exempt-paths-not-restored', text: holding('no worker marked the list') }];
      expect(await release('east', forged)).toMatchObject({ findings });
      expect((await readQuotas()).exempt).toEqual(held.exempt);
    }
    await release('east', before);
    expect((await readQuotas()).exempt).toEqual(before.exempt);
  });

  it('leaves no change behind if a worker is lost between configuration and quota: the previous state is in the history', async () => {
    const before = await readQuotas();
    bench.service.faults.add({ endpoint: `POST /v1/sys/quotas/rate-limit/${name}`, action: { status: 500 }, times: 9 });
    await bench.failure('quiesceByQuota', { ...sides, authority: quota });
    expect((await readQuotas()).exempt).toContain('sys/quotas');
    bench.service.faults.clear();
    await quiesce();
    await release('east', before);
    expect(configOf(await readQuotas())).toEqual(configOf(before));
  });

  it('stops no client if it cannot be confirmed to stop all of them: a cluster that does not respond refuses it, in the plan too', async () => {
    const before = await readQuotas();
    bench.always('GET /v1/sys/replication/performance/status', { status: 503 }, 'europe');
    const silent = { observed: expect.stringMatching(/^europe/) as string };
    expect(await bench.failure('quiesceByQuota', { ...sides, authority: quota })).toMatchObject({ details: silent });
    const name = 'clients can be stopped by a quota';
    expect(failing(await assess())).toContainEqual(expect.objectContaining({ ...silent, name }));
    expect([configOf(await readQuotas()), quotas()]).toEqual([configOf(before), []]);
    bench.service.faults.clear();
    bench.always('GET /v1/sys/quotas/config', { status: 503 }, 'east');
    const next = 'Find out why the quotas of east cannot be read, then start again.';
    const unread = { observed: 'SERVICE_UNAVAILABLE', name, next };
    expect(failing(await assess())).toContainEqual(expect.objectContaining(unread));
  });

  it('counts only once every node has been confirmed to refuse', async () => {
    const body = { data: { autoloaded: { expiration_time: 'a time' } } };
    const through = { cluster: 'east', node: 2, action: { status: 200, body }, times: Infinity };
    bench.service.faults.add({ ...through, endpoint: LICENCE });
    const details = { observed: holding(`${east().addresses[2] ?? ''}: admitted`) };
    await refuses('CONFIRMATION_TIMEOUT', { details });
    // Nobody is held for nothing until a person decides.
    expect([quotas(), await asksAll()]).toEqual([[], [403, 403, 403]]);
  });

  it('is refused beside quotas of the site, on the community edition, and if answers carry rate-limit headers', async () => {
    const { storage } = east();
    const theirs = { path: 'kv/', rate: 1000, intervalMs: 1_000, groupBy: 'ip' } as const;
    storage.write('quota/theirs', { type: 'quota', quota: theirs }, bench.service.now());
    await refuses('PRECONDITION_FAILED', { details: { observed: 'theirs', next: holding('hooks.quiesce') } });
    expect(failing(await assess())[0]).toMatchObject({ observed: 'theirs' });
    storage.write('quota/theirs', null, bench.service.now());

    const { version } = east();
    east().version = '1.21.4';
    await refuses('PRECONDITION_FAILED', { details: { needed: holding('Enterprise') } });
    east().version = version;
    await release('east');
    expect(quotas()).toEqual([]);
  });

  it('is refused by the plan below 1.20, which has no bucket for all clients; an unknown version does not count as older', async () => {
    const name = 'a quota can refuse every client';
    const { version } = east();
    east().version = '1.19.8+ent';
    const next = holding('Quiesce by hook');
    expect(failing(await assess())).toContainEqual(
      expect.objectContaining({ name, observed: 'east 1.19.8+ent', needed: holding('1.20.0'), next }),
    );
    await refuses('PRECONDITION_FAILED', { details: { needed: holding('one bucket') } });
    east().version = '';
    const seen = (await assess()).preconditions.find((each) => each.name === name);
    expect(seen).toMatchObject({
      verdict: 'not-checkable',
      observed: expect.stringMatching(/^east not reported /) as string,
    });
    east().version = version;
    expect(failing(await assess())).toEqual([]);
  });

  it('is removed by the run that holds the lock alone', async () => {
    const asked = { deployment: DEPLOYMENT, cluster: 'east' };
    await bench.refused('releaseQuota', asked, 'PRECONDITION_FAILED', {}, { run: { ...bench.run, wid: 'another' } });
  });

  it('one that a run left behind refuses the next plan with the command, and is deleted on the cluster that becomes primary', async () => {
    await quiesce();
    bench.openRuns = new Map();
    for (const input of [{}, { quiesce: 'attested' }]) {
      const nexts = failing(await assess(input)).map(({ next }) => next);
      expect(nexts).toEqual([holding('vault delete sys/quotas/rate-limit/runbooks-')]);
    }
    const { points } = await bench.readiness();
    const point = points.find(({ id }) => id === 'no-quota-of-a-run-that-ended');
    expect(point).toMatchObject({ verdict: 'fail', next: holding('vault delete') });
    await release('east');
    expect(quotas()).toEqual([]);
  });
});

describe('a quota on a performance secondary', () => {
  let other: ActivityBench;
  openBench((opened) => (other = opened), {
    ...replicating({ main: ['east'], eu: ['europe', 'berlin'] }),
    deployment: { quiesce: 'quota' },
  });

  it('is refused by the plan and by the activity: it would stop the clients of the whole performance set', async () => {
    const assessed = await other.assess('drSwitchover', { to: 'berlin' });
    const needed = holding('the whole performance set');
    const name = 'a quota stops only its own clients';
    expect(failing(assessed)).toContainEqual(expect.objectContaining({ name, cluster: 'europe', needed }));
    const [on, candidate] = [other.named('europe'), other.named('berlin')];
    const plan = other.planOf([{ kind: 'dr', endpoint: 'quotas/rate-limit', gate: 'plan', on, with: candidate }]);
    const approvals = [await other.approval('plan', plan.digest)];
    const asked = { ...sides, cluster: 'europe', otherCluster: 'berlin', authority: { plan, approvals } };
    await other.refusedUnsent('quiesceByQuota', asked, 'PRECONDITION_FAILED', { details: { needed } });
  });
});

describe('a quiesce without effect', () => {
  it.each([
    ['hook', /hooks\.quiesce and hooks\.release/],
    ['quota', undefined],
    ['attested', undefined],
  ])('quiesce %s', async (means, refused) => {
    const assessed = await assess({ quiesce: means });
    expect(JSON.stringify(assessed.plan ?? {}).includes('until each secondary follows west')).toBe(means === 'quota');
    expect(failing(assessed).map(({ needed }) => needed)).toEqual(refused ? [expect.stringMatching(refused)] : []);
  });
});

describe('a run with foreign workflow tasks', () => {
  const DEMOTING = { kind: 'dr', cluster: 'east', otherCluster: 'west' };
  const HOOK = { command: ['/bin/true'], kind: 'command', timeoutMs: 1_000, idempotent: false } as const;
  const RELEASES = [
    ['releaseQuota', { cluster: 'east' }],
    ['runHook', { hook: 'release', from: 'west', to: 'east' }],
    ['runHook', { hook: 'traffic', from: 'west', to: 'east' }],
  ] as const;
  const demoting = (end: ActivityEnd = 'running') => bench.happened('demotePrimary', DEMOTING, end);
  let restore: () => void;
  beforeEach(() => {
    bench.history = { events: [] };
    restore = bench.rolesKept();
  });
  afterEach(() => {
    bench.history = { events: [] };
    bench.service.heal();
    restore();
  });

  it('releases no client, and creates no quota again, while a demotion of the run is open', async () => {
    await quiesce();
    demoting();
    const open = { retryable: false, details: { observed: holding('a demotion that has not ended') } };
    await bench.refusedUnsent('releaseQuota', releasing('east'), 'PRECONDITION_FAILED', open);
    await bench.refusedUnsent('quiesceByQuota', { ...sides, authority: quota }, 'PRECONDITION_FAILED', open);
    const { hooks } = findDeployment(bench.inventory, DEPLOYMENT);
    Object.assign(hooks, { release: HOOK, traffic: HOOK });
    for (const name of ['release', 'traffic'] as const) {
      const asked = { deployment: DEPLOYMENT, hook: name, from: 'west', to: 'east' };
      await bench.refusedUnsent('runHook', asked, 'PRECONDITION_FAILED', open);
    }
    Object.assign(hooks, { release: undefined, traffic: undefined });
    expect(await asksAll()).toEqual([429, 429, 429]);
  });

  it.each<[string, () => void]>([
    ['before a demotion', () => undefined],
    ['after one that was refused', () => demoting({ code: 'PRECONDITION_FAILED', outcomeKnown: true })],
    ['after one whose outcome people judged', () => demoting({ code: 'ACTIVITY_TIMEOUT', outcomeKnown: false })],
    ['after one that took effect', () => demoting({ result: { outcome: 'done' } })],
    [
      'beside that of a former primary',
      () => bench.happened('demotePrimary', { ...DEMOTING, former: true }, 'running'),
    ],
  ])('releases them %s', async (_when, happened) => {
    await quiesce();
    happened();
    expect(await release('east')).toMatchObject({ outcome: 'done' });
  });

  /** Demotes east; what the run ordered meanwhile is in its history by then. A canary after W keeps the roots apart. */
  const demoted = (ordered: () => void, authority = quota) => {
    bench.service.faults.add({
      ...{ cluster: 'east', endpoint: 'POST /v1/sys/replication/dr/primary/demote' },
      action: (cluster) => {
        bench.service.partition('east', 'west');
        cluster.writeCanary(bench.service.now());
        ordered();
      },
    });
    return bench.call('demotePrimary', drDemotion(authority));
  };

  it.each([
    ...RELEASES.flatMap(([type, input]) =>
      (['running', { result: {} }, { code: 'HOOK_FAILED', outcomeKnown: true }] as const).map(
        (end) => [`${type} ${JSON.stringify(input)}, ${JSON.stringify(end)}`, type, input, end] as const,
      ),
    ),
    ['quiesceByQuota', 'quiesceByQuota', { cluster: 'east' }, { result: {} }] as const,
  ])('proves no loss if it ordered a release, whatever the outcome of that: %s', async (_name, type, input, end) => {
    const { evidence, observed } = await demoted(() => bench.happened(type, input, end));
    expect([evidence, observed]).toEqual([undefined, holding('not proven that clients stayed held')]);
  });

  it('proves no loss if a second demotion created the quota again, or if its history cannot be read', async () => {
    const twice = () => {
      demoting();
      demoting();
    };
    expect((await demoted(twice)).evidence).toBeUndefined();
    restore();
    bench.service.heal();
    bench.history = { events: [] };
    const { observed } = await demoted(() => (bench.historyError = new Error('unavailable'))).finally(
      () => (bench.historyError = undefined),
    );
    expect(observed).toContain('the history of the run cannot be read');
  });

  it('proves no loss by a hook that it never ran', async () => {
    const { hooks } = findDeployment(bench.inventory, DEPLOYMENT);
    Object.assign(hooks, { quiesce: HOOK, release: HOOK });
    const authority = await bench.authority({ quiesce: 'hook' });
    const quiesced = (hook: string) =>
      bench.happened('runHook', { hook, from: 'east', to: 'west' }, { result: { outcome: 'done' } });
    expect((await demoted(() => undefined, authority)).evidence).toBeUndefined();
    restore();
    bench.service.heal();
    quiesced('quiesce');
    expect((await demoted(() => undefined, authority)).evidence).toMatchObject({ loss: 'none' });
    Object.assign(hooks, { quiesce: undefined, release: undefined });
  });

  it('promotes no cluster by a mark from before a release', async () => {
    const result = await demoted(() => demoting());
    expect(result.evidence).toMatchObject({ loss: 'none' });
    bench.service.heal();
    demoting({ result });
    const promotion = drPromotion(await bench.operationToken('west'), quota);
    bench.happened(...RELEASES[0], { code: 'PRECONDITION_FAILED', outcomeKnown: true });
    await bench.refused('promoteSecondary', promotion, 'PRECONDITION_FAILED', { message: holding('no data loss') });
  });
});

describe('a demotion that accepts no loss, of a primary that keeps writing canaries', () => {
  it('is not sent while the WAL index still rises, although every node refuses clients: a slow write is not over', async () => {
    bench.limit({ walStillMs: 500 });
    const authority = await bench.authority();
    const stopWriting = keepWriting(bench, 'east');
    const failed = await bench.failure('demotePrimary', drDemotion(authority)).finally(stopWriting);
    expect(failed).toMatchObject({
      code: 'PRECONDITION_FAILED',
      details: { observed: holding('its WAL index rose by') },
    });
    expect(east().snapshotState().dr.mode).toBe('primary');
  });

  it('counts only writes from its own reading on, not earlier ones, as while a login was waited for', async () => {
    const authority = await bench.authority({ quiesce: 'attested' });
    const busy = bench.service.faults.add({
      ...{ cluster: 'east', endpoint: 'GET /v1/sys/replication/dr/status', when: 'after' },
      action: (cluster) => {
        for (let each = 0; each < 9; each += 1) cluster.write('kv/before', { each });
      },
    });
    const sent = bench.service.faults.add({
      ...{ cluster: 'east', endpoint: 'POST /v1/sys/replication/dr/primary/demote' },
      action: { status: 403 },
    });
    await bench.refused('demotePrimary', drDemotion(authority), 'PERMISSION_DENIED');
    expect([busy.hits, sent.hits]).toEqual([1, 1]);
  });

  it('proves it by clients that it saw refused; the promotion trusts only the mark of a worker', async () => {
    bench.service.calls.length = 0;
    bench.service.faults.add({
      ...{ cluster: 'east', endpoint: 'POST /v1/sys/replication/dr/primary/demote' },
      // A canary after W that never arrives: the roots differ.
      action: (cluster) => {
        bench.service.partition('east', 'west');
        cluster.writeCanary(bench.service.now());
      },
    });
    const demoted = await bench.call('demotePrimary', drDemotion(quota));
    bench.service.heal();
    expect(order()).toContain(`POST rate-limit/${name}`);
    const why = expect.stringMatching(
      /429.*rose by \d within .* \(at most 2 allowed\).*west had reached that index/,
    ) as string;
    expect(demoted.evidence).toMatchObject({ loss: 'none', why });
    const roots = ['east', 'west'].map((each) => bench.cluster(each).snapshotState().dr.merkleRoot);
    const promotion = drPromotion(await bench.operationToken('west'), quota);
    const found = (result: object) =>
      bench.happened('demotePrimary', { kind: 'dr', cluster: 'east', otherCluster: 'west' }, { result });
    expect(roots[0]).not.toBe(roots[1]);
    for (const evidence of [{ loss: 'none' }, { ...demoted.evidence, wal: '1' }, { ...demoted.evidence, at: 1 }]) {
      found({ ...demoted, evidence });
      await bench.refused('promoteSecondary', promotion, 'PRECONDITION_FAILED');
    }
    found(demoted);
    expect(await bench.call('promoteSecondary', promotion)).toMatchObject({ outcome: 'done' });
    // Configuration is replicated: clients are refused until it is deleted where they are served now.
    bench.service.advanceClock(5_000);
    expect([await ask('west', 'kv/a'), await ask('west', 'kv/a')]).toContain(429);
    await release('west');
    expect([await ask('west', 'kv/a'), quotas('west')]).toEqual([403, []]);
  });
});
