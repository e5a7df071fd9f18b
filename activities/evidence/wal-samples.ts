import { setTimeout as delay } from 'node:timers/promises';
import type { ReplicationObservation } from '../../src/contracts/observations';
import type { SampledCluster, SampledReplication, WalSample, WalSampling } from '../../src/contracts/wal-samples';
import { isRunbookError } from '../../src/errors';
import { attest } from '../../src/keys';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { heartbeatAge, observeReplication, withServerTime } from '../observe';

/** Rows of one cluster at one time that a result keeps: some 300 bytes each, far below Temporal's limit of a payload. */
const ROWS_KEPT = 1_000;
const TIMEOUT_MS = 3_000;
/* Samples of WAL indexes, heartbeats and canaries (interface 4.1 and 4.2: `status`; unauthenticated). */

/**
 * Takes samples of all clusters at once, `everyMs` from start to start. Never fails because a cluster does not answer.
 */
export async function sampleWal(input: {
  readonly deployment: string;
  readonly samples: number;
  readonly everyMs: number;
}): Promise<WalSampling> {
  const { deployment, samples: wanted, everyMs } = input;
  const execution = currentExecution();
  const { clusters, sealKeyring, signal } = execution;
  const accesses = clusters.all(deployment);
  const samples: WalSample[] = [];
  const from = Date.now();
  while (samples.length < wanted) {
    const due = from + samples.length * everyMs;
    if (due > Date.now()) await delay(due - Date.now(), undefined, { signal });
    const at = Date.now();
    samples.push({ at, clusters: await Promise.all(accesses.map((access) => sampleCluster(access, signal))) });
    execution.progress(`${samples.length} of ${wanted} samples taken`);
  }
  const sampling: WalSampling = {
    deployment,
    from,
    to: Date.now(),
    taken: samples.length,
    samples: thinned(samples, Math.max(2, Math.floor(ROWS_KEPT / accesses.length))),
  };
  const facts = { deployment, kind: 'wal-samples', time: sampling.to } as const;
  return { ...sampling, attested: attest(sealKeyring, facts, sampling) };
}

/** At most `most` samples, evenly spread, the last one always among them. */
export function thinned(samples: readonly WalSample[], most: number): WalSample[] {
  let stride = 1;
  while (Math.ceil(samples.length / stride) > most) stride *= 2;
  return samples.filter((_, index) => (samples.length - 1 - index) % stride === 0);
}

async function sampleCluster({ entry, client }: ClusterAccess, signal: AbortSignal): Promise<SampledCluster> {
  const cluster = entry.name;
  try {
    const options = { signal, timeoutMs: TIMEOUT_MS };
    const node = await client.activeNode(options);
    const { status, serverNow } = await withServerTime(client, node, signal, () =>
      client.sys.replicationStatus({ ...options, node }),
    );
    return {
      cluster,
      answered: true,
      ...(serverNow === undefined ? {} : { clockSkewMs: serverNow - Date.now() }),
      dr: sampled(observeReplication(status.dr, serverNow)),
      performance: sampled(observeReplication(status.performance, serverNow)),
    };
  } catch (error) {
    if (signal.aborted) throw error;
    client.forgetActiveNode();
    return { cluster, answered: false, error: isRunbookError(error) ? error.code : 'INTERNAL' };
  }
}

function sampled(replication: ReplicationObservation): SampledReplication | undefined {
  const { mode, state, setId, lastWal, lastRemoteWal, peers } = replication;
  if (mode === 'disabled' || mode === 'unsupported') return undefined;
  const canaries = peers.flatMap(({ canaryAgeMs }) => canaryAgeMs ?? []);
  return {
    mode,
    state,
    setId,
    lastWal,
    lastRemoteWal,
    connected: peers.length === 0 ? undefined : peers.some((peer) => peer.connected),
    heartbeatAgeMs: heartbeatAge(replication),
    canaryAgeMs: canaries.length === 0 ? undefined : Math.min(...canaries),
  };
}
