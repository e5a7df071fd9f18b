import { setTimeout as delay } from 'node:timers/promises';
import type {
  ReplicationObservation,
  SampledCluster,
  SampledReplication,
  WalSample,
  WalSampling,
} from '../../src/contracts/observations';
import { isRunbookError } from '../../src/errors';
import { attest, isAttested } from '../../src/keys';
import type { Finding } from '../../src/contracts/run-facts';
import { walSamplerIdPrefix, walSampling } from '../../src/contracts/observations';
import type { SealKeyring } from '../../src/keys';
import { ServiceWatch } from '../alarms/watch';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { healthOf, heartbeatAge, observeReplication, serverTime } from '../observe';
import type { ActivityDependencies } from '../dependencies';

const TIMEOUT_MS = 3_000;
/** Maximum rows (one cluster at one time) of a result: Temporal's limit is 2 MB. */
const MAX_ROWS = 2_500;
/* Samples of WAL indexes, heartbeats and canaries (interface 4.1 and 4.2: `status`; unauthenticated). */

/**
 * Samples all clusters at once, every `everyMs` from start to start, and notifies people of what the samples show. A
 * cluster that does not answer is never a failure.
 * With many clusters, it takes fewer samples, so that the result does not become too large.
 */
export async function sampleWal(input: {
  readonly deployment: string;
  readonly samples: number;
  readonly everyMs: number;
}): Promise<WalSampling> {
  const { deployment, samples: asked, everyMs } = input;
  const execution = currentExecution();
  const { clusters, sealKeyring, signal } = execution;
  const accesses = clusters.all(deployment);
  const wanted = Math.min(asked, Math.max(1, Math.floor(MAX_ROWS / accesses.length)));
  const samples: WalSample[] = [];
  const from = Date.now();
  const watch = new ServiceWatch(execution, deployment);
  while (samples.length < wanted) {
    const due = from + samples.length * everyMs;
    if (due > Date.now()) await delay(due - Date.now(), undefined, { signal });
    const at = Date.now();
    const sample = { at, clusters: await Promise.all(accesses.map((access) => sampleCluster(access, signal))) };
    samples.push(sample);
    watch.look(sample);
    execution.progress(`${samples.length} of ${wanted} samples taken`);
  }
  await watch.end();
  const sampling: WalSampling = { deployment, from, to: Date.now(), samples };
  const facts = { deployment, kind: 'wal-samples', time: sampling.to } as const;
  return { ...sampling, attested: attest(sealKeyring, facts, sampling) };
}

async function sampleCluster({ entry, client }: ClusterAccess, signal: AbortSignal): Promise<SampledCluster> {
  const cluster = entry.name;
  try {
    const options = { signal, timeoutMs: TIMEOUT_MS };
    const node = await client.activeNode(options);
    const [status, health] = await Promise.all([
      client.sys.replicationStatus({ ...options, node }),
      healthOf(client, node, signal),
    ]);
    const serverNow = serverTime(health);
    return {
      cluster,
      answered: true,
      dr: sampled(observeReplication(status.dr, serverNow)),
      performance: sampled(observeReplication(status.performance, serverNow)),
    };
  } catch (error) {
    if (signal.aborted) throw error;
    client.forgetActiveNode();
    return { cluster, answered: false, error: isRunbookError(error) ? error.code : 'INTERNAL' };
  }
}

/** The connection of a secondary that lists no primary. */
const BROKEN_OFF: readonly string[] = ['transient_failure', 'shutdown'];

function sampled(replication: ReplicationObservation): SampledReplication | undefined {
  const { mode, state, setId, lastWal, lastRemoteWal, peers, connectionState = '' } = replication;
  if (mode === 'disabled' || mode === 'unsupported') return undefined;
  const canaries = peers.flatMap(({ canaryAgeMs }) => canaryAgeMs ?? []);
  return {
    mode,
    state,
    setId,
    lastWal,
    lastRemoteWal,
    connected:
      peers.length > 0
        ? peers.some((peer) => peer.connected)
        : BROKEN_OFF.includes(connectionState)
          ? false
          : undefined,
    heartbeatAgeMs: heartbeatAge(replication),
    canaryAgeMs: canaries.length === 0 ? undefined : Math.min(...canaries),
  };
}

/** Maximum number of runs whose results are read: with the defaults (one run per minute), the last hour. */
const RUNS = 60;
const DEADLINE_MS = 5_000;

type Sources = Pick<ActivityDependencies, 'temporal' | 'log' | 'sealKeyring'>;

/** The samples of the sampler's runs. */
interface KnownSamples {
  /** The samples that a worker attested, oldest first. */
  readonly samples: readonly WalSample[];
  /** The number of runs whose results no worker attested: their contents count as unknown. */
  readonly unattested: number;
}

/** The finding about results that were left out because no worker attested them; empty if there are none. */
export function unattestedSamples({ unattested }: KnownSamples): Finding[] {
  const found: Finding = {
    severity: 'warning',
    code: 'samples-not-attested',
    text: `${unattested} walSampler results were not written by these workers, or were changed since. Their contents count as unknown.`,
    next: 'Find out who writes to this namespace. If a seal key was removed, add its entry back after the others.',
  };
  return unattested === 0 ? [] : [found];
}

/**
 * The samples of the latest closed `walSampler` runs of a deployment, oldest first. Runs are found by their Workflow
 * ID, which begins with `walSampler:<deployment>:`, so that no result of another deployment is read.
 *
 * @param startedBefore - only runs that began before this time, epoch ms: a loss bound uses samples from before the
 *   primary fell silent, no matter how long the run waits for people
 * @returns no samples if there are none, or if Temporal's visibility store does not answer: samples help, but are never
 *   required
 */
export async function readWalSamples(
  dependencies: Sources,
  deployment: string,
  signal: AbortSignal,
  startedBefore?: number,
): Promise<KnownSamples> {
  const { temporal, log } = dependencies;
  try {
    const found = await temporal.withAbortSignal(signal, () =>
      temporal.withDeadline(Date.now() + DEADLINE_MS, () => readLatest(dependencies, deployment, startedBefore)),
    );
    return { ...found, samples: found.samples.toSorted((a, b) => a.at - b.at) };
  } catch (error) {
    if (signal.aborted) throw error;
    log.warn({ deployment, why: error instanceof Error ? error.name : 'unknown' }, 'WAL samples cannot be read');
    return { samples: [], unattested: 0 };
  }
}

async function readLatest(
  { temporal, sealKeyring }: Sources,
  deployment: string,
  startedBefore: number | undefined,
): Promise<KnownSamples> {
  const query = [
    'WorkflowType = "walSampler"',
    'ExecutionStatus = "Completed"',
    `WorkflowId STARTS_WITH "${walSamplerIdPrefix(deployment)}"`,
    ...(startedBefore === undefined ? [] : [`StartTime < "${new Date(startedBefore).toISOString()}"`]),
  ].join(' AND ');
  const runs: { readonly workflowId: string; readonly runId: string }[] = [];
  // The newest come first.
  for await (const { workflowId, runId } of temporal.workflow.list({ query, pageSize: RUNS })) {
    runs.push({ workflowId, runId });
    if (runs.length === RUNS) break;
  }
  const results = await Promise.allSettled(
    runs.map(({ workflowId, runId }) => temporal.workflow.getHandle(workflowId, runId, { followRuns: false }).result()),
  );
  const found = results.flatMap((each) =>
    each.status === 'fulfilled' ? [samplesOf(each.value, deployment, sealKeyring)] : [],
  );
  return {
    samples: found.flatMap((each) => each ?? []),
    unattested: found.filter((each) => each === undefined).length,
  };
}

/** Anybody who can write to the namespace may have made a result: undefined if no worker attested this content. */
function samplesOf(value: unknown, deployment: string, keyring: SealKeyring): readonly WalSample[] | undefined {
  const result: unknown = (value as { readonly result?: unknown } | null)?.result;
  // A run that was stopped has no samples.
  if (result === undefined) return [];
  const parsed = walSampling.safeParse(result);
  if (!parsed.success || parsed.data.deployment !== deployment) return undefined;
  const { attested, ...content } = result as { readonly attested?: unknown };
  const facts = { deployment, kind: 'wal-samples', time: parsed.data.to } as const;
  return isAttested(keyring, facts, content, attested) ? parsed.data.samples : undefined;
}

export type LossBound = ReturnType<typeof lossBound>;

/** The DR replication of one cluster in a sample; undefined if it did not answer or does not replicate. */
function sampledDr(sample: WalSample, cluster: string): SampledReplication | undefined {
  const found = sample.clusters.find((each) => each.cluster === cluster)?.dr;
  return found?.mode === 'unknown' ? undefined : found;
}

/**
 * The samples since the two clusters have had their present roles, oldest first: WAL indexes from before a primary
 * change must not be compared with later ones.
 */
function sinceRoles(samples: readonly WalSample[], primary: string, secondary: string): WalSample[] {
  const sorted = samples.toSorted((a, b) => a.at - b.at);
  const other = sorted.findLastIndex((sample) => {
    const [from, to] = [sampledDr(sample, primary), sampledDr(sample, secondary)];
    return (
      (from && from.mode !== 'primary') ||
      (to && to.mode !== 'secondary') ||
      (from?.setId !== undefined && to?.setId !== undefined && from.setId !== to.setId)
    );
  });
  return sorted.slice(other + 1);
}

/**
 * The part of a failover's loss that samples prove: what the primary had written at its last sample and the secondary
 * does not have. It is never the full loss: writes after that sample are not known. `bound` counts WAL entries, in
 * decimal; it is undefined if even this is not known.
 *
 * @param now.received - `last_remote_wal` of the secondary, in the same set as the samples, if it still answers
 */
export function lossBound(
  samples: readonly WalSample[],
  primary: string,
  secondary: string,
  now: { readonly at: number; readonly received?: string | undefined },
): { readonly bound: string | undefined; readonly why: string } {
  if (samples.length === 0) return { bound: undefined, why: 'there are no WAL samples of this deployment' };
  const counting = sinceRoles(samples, primary, secondary);
  const written = counting.flatMap((sample) => {
    const wal = sampledDr(sample, primary)?.lastWal;
    return wal === undefined ? [] : [{ at: sample.at, entries: BigInt(wal) }];
  });
  const last = written.at(-1);
  const unseen = `no WAL sample shows ${primary} as primary and ${secondary} as its secondary since their last role change`;
  if (!last) return { bound: undefined, why: unseen };
  const age = `${Math.max(0, Math.round((now.at - last.at) / 1_000))} s old`;
  const receivedThen = counting
    .flatMap((sample) => sampledDr(sample, secondary)?.lastRemoteWal ?? [])
    .reduce((most, each) => (BigInt(each) > most ? BigInt(each) : most), 0n);
  const received = now.received === undefined ? receivedThen : BigInt(now.received);
  const wrote = `${primary} had written up to WAL ${last.entries} at its last sample (${age})`;
  const after = `what ${primary} wrote after that sample is unknown`;
  const unreported = `${wrote}; what ${secondary} received is not reported; ${after}`;
  if (received === 0n) return { bound: undefined, why: unreported };
  const missing = last.entries - received;
  const bound = String(missing > 0n ? missing : 0n);
  const [seen, lacks] = now.received === undefined ? ['by its last sample', 'lacked'] : ['by now', 'lacks'];
  const has = missing > 0n ? `${lacks} ${bound} of these entries` : 'has every entry up to that sample';
  const why = `${wrote}; ${secondary} had received up to ${received} ${seen} and ${has}; ${after}`;
  return { bound, why };
}
