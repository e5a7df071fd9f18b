/** Every point of a readiness check: good where all is well, and the red one that each fault must give. */
import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ReadinessResult } from '../../src/contracts/readiness';
import type { SimulatedCluster } from '../../src/simulator';
import type { JsonObject, JsonValue, ServiceAnswer } from '../../src/simulator/messages';
import { clusters, DEPLOYMENT, holding, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
import { closedSampling, pointsOf } from '../support/readiness';

/** Until every cluster has an active node again. */
async function settled(bench: ActivityBench): Promise<void> {
  for (const cluster of bench.service.clusters.values()) {
    while (cluster.leadership.serving(bench.service.now()) === undefined) {
      bench.service.advance();
      await delay(5);
    }
  }
}

type Undo = () => unknown;

interface Fault {
  readonly name: string;
  readonly arrange: (bench: ActivityBench) => Undo | Promise<Undo>;
  /** All of them, and no other. */
  readonly fail?: readonly string[];
  readonly warn?: readonly string[];
  /** Of the first red point. */
  readonly next?: string;
  /** What the point of this name shows. */
  readonly observed?: readonly [point: string, RegExp];
  /** Of switchover and failover. */
  readonly verdicts: readonly [ReadinessResult['switchover'], ReadinessResult['failover']];
}

/** A member of a simulated cluster becomes another value. */
function becomes<K extends keyof SimulatedCluster>(name: string, key: K, value: SimulatedCluster[K]): Fault['arrange'] {
  return ({ service }) => {
    const cluster = service.cluster(name);
    const before = cluster[key];
    cluster[key] = value;
    return () => (cluster[key] = before);
  };
}

/** A credential of the inventory becomes another token. */
async function credentialBecomes(bench: ActivityBench, token: string): Promise<Undo> {
  const file = join(bench.directory, 'token');
  if (token.trim() !== '') bench.canary(`credential ${randomUUID()}`, token);
  const before = await readFile(file);
  await writeFile(file, token);
  return () => writeFile(file, before);
}

async function orphanInTheRecord(bench: ActivityBench): Promise<Undo> {
  const run = { ns: 'default', wid: `deployment:${DEPLOYMENT}`, rid: 'an-earlier-run' };
  const entry = { version: 1, id: randomUUID(), deployment: DEPLOYMENT, cluster: 'west', clusterId: 'x' } as const;
  await bench.ledger.write({ ...entry, ...run, state: 'orphan', at: new Date().toISOString() });
  return () => bench.forgetTokens();
}

/** A cluster answers a call in another way, as long as the fault lasts. */
function answers(cluster: string, endpoint: string, status: number, body: JsonValue): Fault['arrange'] {
  return (bench) => {
    bench.always(endpoint, { status, body }, cluster);
    return () => bench.service.faults.clear();
  };
}

/** Further members of a cluster's answer to a call. */
function tells(cluster: string, endpoint: string, more: JsonObject): Fault['arrange'] {
  return ({ service }) => {
    const action = (_: SimulatedCluster, answer?: ServiceAnswer) => void Object.assign(answer?.body ?? {}, more);
    service.faults.add({ cluster, endpoint, action, when: 'after', times: Infinity });
    return () => service.faults.clear();
  };
}

/** The service refuses the write beside the marker for a reason of its own. */
function markerRefused(text: string): Fault['arrange'] {
  return answers('east', 'POST /v1/kv/data/runbooks-marker-after', 400, { errors: [text] });
}

const LOOKUP = 'GET /v1/auth/token/lookup-self';
const MARKER = 'marker-written-and-read-back';

/** Several faults at once, which have nothing to do with each other. */
function together(...each: readonly Fault['arrange'][]): Fault['arrange'] {
  return async (bench) => {
    const undos: Undo[] = [];
    for (const arrange of each) undos.push(await arrange(bench));
    return async () => {
      for (const undo of undos) await undo();
    };
  };
}

const READY = 'ready';
const WARNED = 'ready-with-warnings';
const NOT = 'not-ready';

const FAULTS: readonly Fault[] = [
  {
    name: 'two of three nodes of the DR secondary are sealed',
    arrange: ({ service }) => {
      const west = service.cluster('west');
      [1, 2].forEach((index) => west.sealNode(index));
      return () => [1, 2].forEach((index) => west.unsealNode(index));
    },
    fail: ['every-node-is-unsealed (west) both', 'one-active-node (west) both', 'quorum (west) both'],
    verdicts: [NOT, NOT],
  },
  {
    name: 'the link between both is cut',
    arrange: ({ service }) => {
      service.partition('east', 'west');
      return () => service.heal();
    },
    fail: ['connection-alive-by-heartbeat (west) switchover'],
    warn: ['connection-alive-by-heartbeat (west) failover'],
    verdicts: [NOT, WARNED],
  },
  {
    name: 'much is weak at once: a node that is gone, old samples, one audit device, an orphan token',
    arrange: together(
      async ({ service }) => {
        await service.cluster('west').killNode(2);
        return () => service.cluster('west').startNode(2);
      },
      (bench) => {
        const before = bench.closedRuns;
        bench.closedRuns = [closedSampling(bench.sealKeyring, DEPLOYMENT, [0, 0], Date.now() - 3_600_000)];
        return () => (bench.closedRuns = before);
      },
      ({ service }) => {
        const { auditDevices } = service.cluster('east');
        auditDevices.delete('socket/');
        return () => auditDevices.set('socket/', { type: 'socket', local: false });
      },
      orphanInTheRecord,
    ),
    warn: ['audit-devices (east) both', 'every-node-answers (west) both', 'recorded-tokens both', 'wal-sampler both'],
    verdicts: [WARNED, WARNED],
  },
  {
    name: 'much is broken at once: a corrupted tree, a reindex, no audit device, a foreign attempt',
    arrange: together(
      async ({ service }) => {
        const { apiAddress } = service.cluster('west');
        const slot = `${apiAddress}/v1/sys/replication/dr/secondary/generate-operation-token/attempt`;
        await fetch(slot, { method: 'POST', body: '{}' });
        return () => fetch(slot, { method: 'DELETE' });
      },
      becomes('west', 'corruptedPages', { tree: 'replicated', page: 1, subpages: [1] }),
      becomes('west', 'reindex', { startedAt: Date.now(), endsAt: Date.now() + 3_600_000 }),
      ({ service }) => {
        const { auditDevices } = service.cluster('east');
        const devices = [...auditDevices];
        auditDevices.clear();
        return () => devices.forEach(([path, device]) => auditDevices.set(path, device));
      },
    ),
    fail: [
      'audit-devices (east) both',
      'generation-slot-free (west) both',
      'merkle-tree-not-corrupted (west) both',
      'no-reindex-under-way (west) both',
    ],
    verdicts: [NOT, NOT],
  },
  {
    name: 'a node of the primary is gone: its raft tolerates no other loss',
    arrange: async ({ service }) => {
      await service.cluster('east').killNode(2);
      return () => service.cluster('east').startNode(2);
    },
    warn: ['autopilot (east) both', 'every-node-answers (east) switchover'],
    verdicts: [WARNED, WARNED],
  },
  {
    name: 'the only audit device blocks',
    arrange: becomes('east', 'auditBlocked', true),
    fail: [
      'audit-devices (east) both',
      'autopilot (east) both',
      'credential-works (east) switchover',
      'credential-works (west) both',
    ],
    verdicts: [NOT, NOT],
  },
  {
    name: 'the storage of the primary is full: it answers reads, and refuses every write with 500',
    arrange: ({ service }) => {
      service.cluster('east').storage.isFull = true;
      return () => (service.cluster('east').storage.isFull = false);
    },
    fail: ['marker-written-and-read-back (east) switchover'],
    next: 'Either the storage of east is full (check `df` on its nodes',
    verdicts: [NOT, READY],
  },
  {
    name: 'the key-value engine demands check-and-set: its own text is shown',
    arrange: markerRefused('check-and-set parameter required for this call'),
    fail: [`${MARKER} (east) switchover`],
    observed: [MARKER, /BAD_REQUEST, answered "check-and-set parameter required for this call"$/],
    next: 'cas_required=false',
    verdicts: [NOT, READY],
  },
  {
    name: 'the key-value engine is being upgraded: its own text is shown',
    arrange: markerRefused('Upgrading from non-versioned to versioned data.'),
    fail: [`${MARKER} (east) switchover`],
    observed: [MARKER, /answered "Upgrading from non-versioned/],
    verdicts: [NOT, READY],
  },
  {
    name: 'the engine of the marker cannot be looked up: its own reason is shown, without advice to stop the service',
    arrange: answers('east', 'GET /v1/sys/internal/ui/mounts/kv/runbooks-marker', 500, {
      errors: ['unable to find the path for mount kv/'],
    }),
    fail: [`${MARKER} (east) switchover`],
    observed: [MARKER, /answered "unable to find the path/],
    next: 'Check that east accepts',
    verdicts: [NOT, READY],
  },
  {
    name: 'an older value is read beside the marker: one point says it, and the others of its group are there',
    arrange: answers('east', 'GET /v1/kv/data/runbooks-marker-after', 200, {
      data: { data: { value: 'older' }, metadata: { version: 1 } },
    }),
    fail: [`${MARKER} (east) switchover`],
    observed: [MARKER, /a different value than the one written, for 6 s$/],
    next: 'which cache between',
    verdicts: [NOT, READY],
  },
  {
    name: 'a slow cluster: no value is read back in time, and that is no green point',
    arrange: (bench) => {
      for (const method of ['GET', 'POST'])
        bench.always(`${method} /v1/kv/data/runbooks-marker-after`, { delayMs: 4_500 }, 'east');
      return () => bench.service.faults.clear();
    },
    fail: [`${MARKER} (east) switchover`],
    observed: [MARKER, /no value written and read back, for 6 s$/],
    verdicts: [NOT, READY],
  },
  {
    name: 'a rate-limit quota of the site refuses the look at the token',
    arrange: answers('east', LOOKUP, 429, { errors: ['rate limit quota exceeded'] }),
    fail: ['credential-works (east) switchover', 'credential-works (west) both'],
    observed: ['credential-works', /RATE_LIMITED, answered "rate limit quota exceeded"/],
    next: 'rate-limit quota of',
    verdicts: [NOT, NOT],
  },
  {
    name: 'the token has few uses left: every call uses one up',
    arrange: answers('east', LOOKUP, 200, {
      data: { policies: ['root'], ttl: 3_600, creation_ttl: 3_600, type: 'service', orphan: true, num_uses: 5 },
    }),
    fail: ['credential-lives-long-enough (east) switchover', 'credential-lives-long-enough (west) both'],
    observed: ['credential-lives-long-enough', /5 uses left/],
    verdicts: [NOT, NOT],
  },
  {
    name: 'a seal migration is under way',
    arrange: tells('east', 'GET /v1/sys/seal-status', { migration: true }),
    fail: ['no-seal-migration (east) switchover'],
    next: 'vault operator unseal -migrate',
    verdicts: [NOT, READY],
  },
  {
    name: 'the license of a cluster ends within 30 days',
    arrange: tells('west', 'GET /v1/sys/health', {
      license: { state: 'autoloaded', expiry_time: new Date(Date.now() + 86_400_000).toISOString(), terminated: false },
    }),
    warn: ['license (west) both'],
    observed: ['license', /^ends soon \(2/],
    verdicts: [WARNED, WARNED],
  },
  {
    name: 'the license of a cluster has ended',
    arrange: tells('west', 'GET /v1/sys/health', { license: { state: 'autoloaded', terminated: true } }),
    fail: ['license (west) both'],
    observed: ['license', /^ended$/],
    verdicts: [NOT, NOT],
  },
  {
    name: 'a license without an end is none that ends',
    arrange: tells('west', 'GET /v1/sys/health', {
      license: { expiry_time: '0001-01-01T00:00:00Z', terminated: false },
    }),
    verdicts: [READY, READY],
  },
  {
    name: 'a node was removed from its cluster: it is not to be unsealed',
    arrange: (bench) => {
      const body = { initialized: true, sealed: true, standby: true, removed_from_cluster: true };
      bench.service.faults.add({
        ...{ cluster: 'west', node: 2, endpoint: 'GET /v1/sys/health', times: Infinity },
        action: { status: 530, body },
      });
      return () => bench.service.faults.clear();
    },
    warn: ['every-node-is-unsealed (west) both'],
    observed: ['every-node-is-unsealed', /removed from its raft cluster/],
    next: 'cannot be unsealed',
    verdicts: [WARNED, WARNED],
  },
  {
    name: 'the secondary was demoted and never attached',
    arrange: async (bench) => {
      const address = bench.cluster('west').leadership.active?.address ?? '';
      const told = (await (await fetch(`${address}/v1/sys/replication/status`)).json()) as { data: { dr: JsonObject } };
      const dr = { ...told.data.dr, state: 'idle', secondary_id: '', primaries: [], known_primary_cluster_addrs: null };
      return answers('west', 'GET /v1/sys/replication/status', 200, { data: { ...told.data, dr } as JsonObject })(
        bench,
      );
    },
    fail: ['connection-alive-by-heartbeat (west) switchover', 'dr-secondary-streaming (west) switchover'],
    observed: ['dr-secondary-streaming', /attached to no primary$/],
    next: 'belongs to no primary. Start secondaryRepointing',
    verdicts: [NOT, WARNED],
  },
  {
    name: 'the credential lacks rights',
    arrange: (bench) => credentialBecomes(bench, bench.cluster('east').createToken({ policies: ['default'] })),
    fail: [
      'audit-devices (east) both',
      'autopilot (east) both',
      'credential-may-call-sys-replication-dr-primary-demote (east) switchover',
      'credential-may-call-sys-replication-dr-primary-revoke-secondary (east) switchover',
      'credential-may-call-sys-replication-dr-primary-revoke-secondary (west) both',
      'credential-may-call-sys-replication-dr-primary-secondary-token (east) switchover',
      'credential-may-call-sys-replication-dr-primary-secondary-token (west) both',
      'marker-written-and-read-back (east) switchover',
    ],
    verdicts: [NOT, NOT],
  },
  {
    name: 'the primary is gone: no switchover, but a failover would start',
    arrange: async ({ service }) => {
      await service.cluster('east').kill();
      return async () => service.cluster('east').restart();
    },
    fail: [
      'a-dr-primary-and-its-secondary (west) switchover',
      'credential-works (east) switchover',
      'credential-works (west) switchover',
      'every-node-answers (east) switchover',
      'one-active-node (east) switchover',
      'one-dr-primary.main switchover',
      'quorum (east) switchover',
    ],
    verdicts: [NOT, WARNED],
  },
  {
    name: 'the clocks of the service go wrong (they stay so)',
    arrange: ({ service }) => {
      service.advanceClock(120_000);
      return () => undefined;
    },
    fail: ['clock (west) both'],
    warn: ['clock (east) both'],
    verdicts: [NOT, NOT],
  },
];

describe('one deployment of two clusters', () => {
  let bench: ActivityBench;
  openBench((opened) => (bench = opened), {
    topology: { clusters: clusters({ east: 3, west: 3 }) },
    deployment: { laboratory: true },
    limits: { lagWalEntries: 20 },
  });
  beforeAll(() => {
    bench.openRuns = new Map();
    bench.closedRuns = [closedSampling(bench.sealKeyring, DEPLOYMENT, [0, 3, 0])];
  });

  it('is ready if all is well, changes only a value beside the marker, and lists what cannot be known', async () => {
    const result = await bench.readiness();
    expect([pointsOf(result, 'fail'), pointsOf(result, 'warn')]).toEqual([[], []]);
    expect(result).toMatchObject({ switchover: READY, failover: READY, changes: [] });
    expect(result.candidates).toEqual([{ drSet: 'main', cluster: 'west', switchover: READY, failover: READY }]);
    expect(pointsOf(result, 'not-checkable')).toEqual([
      // The plan says it to its approvers.
      'zero-loss-can-be-proven (east) switchover',
    ]);
    const changes = bench.changes().filter((each) => !/capabilities-self$|: LIST /.test(each));
    expect(changes).toEqual(['east: POST /v1/kv/data/runbooks-marker-after']);
    const marker = result.points.find(({ id }) => id === 'marker-written-and-read-back');
    expect(marker?.observed).toBe('kv/data/runbooks-marker-after, version 2');
    // Information: such a site works.
    const named = result.points.filter(({ id }) => id.startsWith('leader-address'));
    const foreign = 'the leader names https://vault.east.example:8200 (api_addr), which is not among the addresses';
    expect(named.map(({ verdict }) => verdict)).toEqual(['ok', 'ok']);
    expect(named.map(({ observed }) => observed)).toContainEqual(holding(foreign));
    // To be compared with the plan's: nothing of it is blacked out.
    const inventory = result.points.find(({ id }) => id === 'inventory');
    expect(inventory?.observed).toMatch(/^its digest begins with [\w-]{12}$/);
  });

  it('reports that autopilot finds every node healthy, and omits it if the storage is not Raft', async () => {
    const autopilot = async () => (await bench.readiness()).points.find(({ id }) => id === 'autopilot');
    expect(await autopilot()).toMatchObject({ verdict: 'ok', observed: 'healthy; failure tolerance 1' });
    const missing = { status: 404, body: { errors: ['1 error occurred:\n\t* unsupported path\n\n'] } };
    bench.always('GET /v1/sys/storage/raft/autopilot/state', missing, 'east');
    expect(await autopilot()).toBeUndefined();
    bench.service.faults.clear();
  });

  it.each(FAULTS)('$name', async ({ arrange, fail = [], warn, next: todo = '', observed, verdicts }) => {
    const undo = await arrange(bench);
    const result = await bench.readiness();
    await undo();
    await settled(bench);
    expect(pointsOf(result, 'fail')).toEqual(fail);
    if (warn) expect(pointsOf(result, 'warn')).toEqual(expect.arrayContaining([...warn]));
    const [shown, text] = observed ?? [];
    if (shown) expect(result.points.find(({ id }) => id === shown)?.observed).toMatch(text ?? '');
    expect([result.switchover, result.failover]).toEqual(verdicts);
    // Red points come first, and each says what is needed and who can do what.
    expect(result.points[0]?.verdict).not.toBe('ok');
    expect(result.points[0]?.next ?? '').toContain(todo);
    for (const { verdict, needed, next } of result.points) {
      expect(needed).not.toBe('');
      if (verdict === 'fail') expect(next).toBeDefined();
    }
  });
});
