import { hostname, networkInterfaces } from 'node:os';
import { ceremonyWorkflowId, deploymentWorkflowId } from '../../src/contracts/names';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { WalSample } from '../../src/contracts/wal-samples';
import type { Deployment } from '../../src/inventory';
import { openEntries } from '../ceremony/alarms';
import type { LedgerEntry } from '../ceremony/token-ledger';
import type { OpenRun } from '../checks/runs';
import { openRun } from '../checks/runs';
import type { Look } from './look';
import { inspect } from './look';
import type { Question } from './point';
import { holds, judged, notCheckable, unread } from './point';
import type { World } from './world';

/* The site around the service: runs that work, the ledger, the worker's storage, samples, where everything stands. */

const LOCK: Question = {
  id: 'lock',
  source: 'temporal',
  needed: 'no other run of the deployment works',
};

/** Whether the lock of the deployment is free. */
export function lock(look: Look, { name }: Deployment, held: Promise<OpenRun | undefined>): Promise<ReadinessPoint[]> {
  return inspect(
    look,
    [LOCK],
    () => held,
    (run) => judgeLock(name, run),
  );
}

/** Pure. */
function judgeLock(deployment: string, run: OpenRun | undefined): ReadinessPoint[] {
  if (!run) return judged(LOCK, 'ok', 'free');
  const id = deploymentWorkflowId(deployment);
  const observed = `held by ${run.type}, run ${run.runId}${run.phase === undefined ? '' : `, ${run.phase}`}`;
  const failover =
    run.type === 'drFailover'
      ? { reason: 'a failover works already' }
      : { reason: 'a failover takes it over with {"takeOver": true}' };
  return [
    ...judged(LOCK, { switchover: 'fail' }, observed, { next: `Look at it: \`runbook status ${id}\`` }),
    ...judged(LOCK, { failover: 'warn' }, observed, { ...failover, next: `Look at it: \`runbook status ${id}\`` }),
  ];
}

/** Ceremonies that are runs of their own occupy the slot of their cluster. */
export async function ceremonyRuns(look: Look, { sets }: World, deployment: string): Promise<ReadinessPoint[]> {
  const points = await Promise.all(
    sets.flatMap(({ secondaries }) =>
      secondaries.map(({ name }) => {
        const question: Question = {
          id: 'ceremony-run',
          cluster: name,
          source: 'temporal',
          needed: 'no ceremony of its own',
          next: `Look at it: \`runbook status ${ceremonyWorkflowId(name)}\``,
        };
        return inspect(
          look,
          [question],
          async () => {
            const run = await openRun(look.dependencies, ceremonyWorkflowId(name));
            // Another inventory of this namespace may have a cluster of the same name.
            return run?.deployment === undefined || run.deployment === deployment ? run : undefined;
          },
          (run) => holds(question, run === undefined, 'warn', run ? `${run.type}, run ${run.runId}` : 'none'),
        );
      }),
    ),
  );
  return points.flat();
}

const LEDGER: Question = {
  id: 'token-ledger',
  source: 'worker',
  needed: 'no operation token is left behind by an earlier run',
  next: 'Run operationTokenDisposal; for an orphan token follow the finding of the run that reported it.',
};

export function ledger(
  look: Look,
  { name }: Deployment,
  held: Promise<OpenRun | undefined>,
): Promise<ReadinessPoint[]> {
  return inspect(
    look,
    [LEDGER],
    async () => {
      const entries = await openEntries(look.dependencies, name);
      const run = await held.catch(() => undefined);
      return { entries, working: run?.runId };
    },
    ({ entries, working }) => judgeLedger(entries, working),
  );
}

/** Tokens of the run that works are its own matter; a kept one waits for the next change of roles. Pure. */
export function judgeLedger(entries: readonly LedgerEntry[], working: string | undefined): ReadinessPoint[] {
  const left = entries.filter(({ rid, state }) => state === 'orphan' || rid !== working);
  const bad = left.filter(({ state }) => state !== 'kept');
  const observed = left.map(({ cluster, state, wid }) => `${cluster}: ${state}, from ${wid}`).join('; ');
  return holds(LEDGER, bad.length === 0, 'warn', observed === '' ? 'none' : observed, {
    reason: 'an operation token has no lifetime',
  });
}

const KEY_STORAGE: Question = {
  id: 'key-storage',
  source: 'worker',
  needed: 'the directory of ceremony keys is usable and memory-backed',
  next: 'Set RUNBOOKS_KEY_STORAGE=memory and RUNBOOKS_KEY_DIR to a directory on a tmpfs.',
};

export function keyStorage(look: Look, { laboratory }: Deployment): Promise<ReadinessPoint[]> {
  const { keyRecords } = look.dependencies;
  return inspect(
    look,
    [KEY_STORAGE],
    () => keyRecords.ofRun({ ns: '', wid: '', rid: '' }),
    () => judgeKeyStorage(keyRecords.erasure, laboratory),
  );
}

/** Pure. */
export function judgeKeyStorage(erasure: 'memory' | 'best-effort', laboratory: boolean): ReadinessPoint[] {
  const observed = erasure === 'memory' ? 'usable, in memory' : 'usable, on disk: erasing keys is best effort';
  return holds(KEY_STORAGE, erasure === 'memory' || laboratory, 'warn', observed);
}

/** Whether `walSampler` runs: without samples the loss of a failover is "unknown". Pure. */
export function judgeSampler({ readiness }: Deployment, samples: readonly WalSample[], now: number): ReadinessPoint[] {
  const question: Question = {
    id: 'wal-sampler',
    source: 'temporal',
    needed: `a sample at most ${Math.round(readiness.sampleAgeMs / 1_000)} s old`,
    next: 'Start walSampler by a Temporal Schedule.',
  };
  const newest = samples.reduce((latest, { at }) => Math.max(latest, at), 0);
  if (newest === 0)
    return judged(question, 'warn', 'no samples', { reason: 'the loss of a failover could not be bounded' });
  const age = Math.max(0, now - newest);
  return holds(question, age <= readiness.sampleAgeMs, 'warn', `the newest is ${Math.round(age / 1_000)} s old`);
}

/** What earlier runs left, and no worker attested: told only where there are some. Pure. */
export function judgeAttested(unattested: number): ReadinessPoint[] {
  if (unattested === 0) return [];
  const question: Question = {
    id: 'attested-results',
    source: 'temporal',
    needed: 'results of walSampler that these workers made',
    next: 'Find out who writes them; where a seal key was taken away, put its entry back behind the others.',
  };
  return judged(question, 'warn', `${unattested} that no worker attested; they count for nothing`);
}

/** Clocks this far apart make tokens and certificates wrong, ms. */
const BROKEN_CLOCK_MS = 60_000;

/** The clock of every node against the worker's. `server_time_utc` has whole seconds. Pure. */
export function judgeClocks({ clusters, deployment }: World): ReadinessPoint[] {
  const limit = deployment.readiness.clockSkewMs;
  return clusters.flatMap(({ name, part, healths }) => {
    const question: Question = {
      id: 'clock',
      cluster: name,
      source: 'api',
      needed: `at most ${limit / 1_000} s from the worker's clock`,
      next: `See to the time synchronisation of ${name} and of the workers.`,
    };
    const skews = healths.flatMap(({ address, health, askedAt, answeredAt }) =>
      health.serverTimeUtc === undefined
        ? []
        : [{ address, skew: skewOf(health.serverTimeUtc * 1_000, askedAt, answeredAt) }],
    );
    const worst = skews.toSorted((a, b) => Math.abs(b.skew) - Math.abs(a.skew))[0];
    if (healths.length === 0) return unread(question, 'no node answers');
    if (!worst) return notCheckable(question, 'no node tells its time');
    const observed = worst.skew === 0 ? 'no difference seen' : `${worst.address}: ${(worst.skew / 1_000).toFixed(1)} s`;
    const size = Math.abs(worst.skew);
    if (size <= limit) return judged(question, 'ok', observed);
    return judged(question, size > BROKEN_CLOCK_MS && part === 'secondary' ? 'fail' : 'warn', observed);
  });
}

/** The least difference that explains what was seen, ms; the server's second may have begun up to a second before. */
export function skewOf(serverSecond: number, askedAt: number, answeredAt: number): number {
  const least = serverSecond - answeredAt;
  const most = serverSecond + 999 - askedAt;
  if (least > 0) return least;
  return most < 0 ? most : 0;
}

/** Where worker and Temporal run. */
interface Place {
  /** `host:port` of the Temporal server, where the worker knows it. */
  readonly temporal: string | undefined;
  /** Names and addresses of the worker's machine, without loopback. */
  readonly worker: readonly string[];
}

export function placeOf({ dependencies }: Look): Place {
  const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  return {
    temporal: dependencies.temporalAddress,
    worker: [hostname(), ...addresses.filter(({ internal }) => !internal).map(({ address }) => address)],
  };
}

/** Worker and Temporal must outlive the cluster that fails. Equal hosts disprove it; nothing read here proves it. Pure. */
export function judgeIndependence(deployment: Deployment, place: Place): ReadinessPoint[] {
  const question: Question = {
    id: 'independent',
    source: 'worker',
    needed: 'worker and Temporal depend on no cluster of the deployment',
    next: 'Move them: docs/operations.md says where they may run.',
  };
  const hosts = [...deployment.clusters.values()].flatMap(({ addresses }) =>
    addresses.map((each) => new URL(each).hostname),
  );
  const remote = new Set(hosts.filter((host) => !isLoopback(host)));
  const temporal = place.temporal?.replace(/^\w+:\/\//, '').replace(/:\d+$/, '');
  const shared = [
    ...(temporal !== undefined && remote.has(temporal) ? [`Temporal (${temporal})`] : []),
    ...place.worker.filter((host) => remote.has(host)).map((host) => `this worker (${host})`),
  ];
  if (shared.length > 0)
    return judged(
      question,
      { switchover: 'warn', failover: 'fail' },
      `on a host of the deployment: ${shared.join(', ')}`,
    );
  if (deployment.readiness.independent)
    return judged(question, 'ok', 'attested by the inventory; no host is shared', { source: 'attested' });
  return notCheckable(
    question,
    'storage, names and credential sources may depend on it without sharing a host; attest readiness.independent once you know',
  );
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || host.startsWith('127.');
}
