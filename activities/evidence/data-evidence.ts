import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { LossEvidence, OfKind, OnCluster } from '../../src/contracts/activities';
import type { Finding } from '../../src/contracts/run-facts';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { ReplicationObservation, WalIndex } from '../../src/contracts/observations';
import { RunbookError, orElse } from '../../src/errors';
import type { KeyPlace } from '../../src/vault';
import { COMPARE } from '../../src/moves/primary';
import type { RecordedActivity } from '../../src/report/run-history';
import { readHistory } from '../../src/report/run-history';
import { clusterOf, fieldsOf } from '../../src/report/run-record';
import type { ClusterAccess } from '../clusters';
import { betweenClusters, currentExecution, onCluster } from '../execution';
import { describeReplication, kindName, readStatus, replicationOf, streamsAndLives } from '../observe';
import { awaitState } from '../read-act-confirm';
import type { Execution } from '../execution';
import type { ActivityDependencies } from '../dependencies';
import { decisionsOf } from '../approvals/people';
import { ownHistory } from '../approvals/arrived-signals';
import { believedEvidence } from '../quiesce/held-writes';
import { orderedRelease } from '../quiesce/releases';
import { MARKER_TIMEOUT_MS, lookUpMarker } from './marker';

export interface MarkerResult {
  /** Where the marker was written. Known before the outage, so that it is not looked up during it. */
  readonly place: KeyPlace;
  /** The written value: random, not a secret. */
  readonly value: string;
  /** W: the primary's `last_dr_wal` (or `last_performance_wal`) read after the write. */
  readonly wal: WalIndex;
  /** The secondary's `last_remote_wal` when it had reached W; absent if no secondary was waited for. */
  readonly reached?: WalIndex;
  /** Findings about the deployment's record, compared with what the previous marker says about it. */
  readonly findings?: readonly Finding[];
}

/* Evidence that the new primary has every write of the old one (facts 3.3). */

/**
 * Compares the record of the deployment with what the marker says about it: the marker is outside of Temporal. A
 * problem never prevents the marker from being written.
 */
async function recordByMarker(access: ClusterAccess, deployment: string, place: KeyPlace) {
  const { records, log, signal } = currentExecution();
  const compared = async () => {
    const before = await access.client.keyValue.read(place, { token: await access.credential(), signal });
    return records.read(deployment, [parsed(before?.['record'])]);
  };
  const ifSilent = orElse(signal, ({ code }) => {
    log.warn({ deployment, code }, 'the record was not compared with the marker');
    return { head: undefined, alarms: [] };
  });
  return compared().catch(ifSilent);
}

function parsed(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}

/**
 * Writes a marker on a primary. If a secondary is given, waits until the secondary has the marker, and so every write
 * before it. Repeating it writes another marker, which is harmless: the last value counts, and the WAL index is read
 * after it.
 */
export async function writeMarker(
  input: OnCluster & OfKind & { readonly secondary?: string | undefined },
): Promise<MarkerResult> {
  const { deployment, cluster, kind, secondary } = input;
  const { execution, clusters, signal, access } = onCluster(input);
  const { run } = execution;
  // The marker of an earlier attempt no longer matters.
  execution.doubt.mayHaveSent = false;
  const { marker: place } = await lookUpMarker(access, clusters.deployment(deployment), signal);
  const token = await access.credential();
  const value = randomUUID();
  const { head, alarms } = await recordByMarker(access, deployment, place);
  // An abandoned attempt must not overwrite the marker of its replacement.
  await execution.assertCurrentAttempt();
  await access.client.keyValue.write(
    { ...place, data: { value, run: run.rid, ...(head && { record: JSON.stringify(head) }) } },
    { token, signal, timeoutMs: MARKER_TIMEOUT_MS },
  );
  const { mode, lastWal: wal, ...rest } = await readStatus(access, kind, signal);
  if (mode !== 'primary' || wal === undefined)
    throw new RunbookError('PRECONDITION_FAILED', `${cluster} does not report its last ${kindName(kind)} WAL index.`, {
      ...{ cluster, observed: describeReplication({ mode, ...rest }) },
      needed: `a primary that reports last_${kind}_wal`,
      next: `Check the status of ${cluster}.`,
    });
  const reached = secondary === undefined ? {} : await awaitReached(input, secondary, wal);
  return { place, value, wal, ...reached, ...(alarms.length > 0 && { findings: alarms }) };
}

/** One such read is enough: the demotion checks the same conditions again right before it is sent. */
async function awaitReached({ deployment, kind }: Parameters<typeof writeMarker>[0], secondary: string, wal: WalIndex) {
  const { execution, signal, limits, access } = onCluster({ deployment, cluster: secondary });
  const { lastRemoteWal: reached } = await awaitState(execution, {
    ...replicationOf(access, kind, signal),
    until: (seen) => mayTakeOver(seen, limits.heartbeatAgeMs, wal),
    budgetMs: limits.catchUpMs,
    needed: `last_remote_wal of ${secondary} at least ${wal}, streaming, connected, fresh heartbeat`,
  });
  return { reached };
}

/** Whether one read shows a live secondary that has every write of its primary up to `wal`. */
export function mayTakeOver(seen: ReplicationObservation, heartbeatAgeMs: number, wal: WalIndex | undefined): boolean {
  return streamsAndLives(seen, heartbeatAgeMs) && hasReached(seen, wal);
}

export function hasReached({ lastRemoteWal }: ReplicationObservation, wal: WalIndex | undefined): boolean {
  return wal === undefined || BigInt(lastRemoteWal ?? '0') >= BigInt(wal);
}

/** The evidence of two Merkle roots after a demotion; undefined if they are not equal or not reported. */
export function equalRoots(
  oldPrimary: string,
  oldPrimaryRoot: string | undefined,
  newPrimary: string,
  newPrimaryRoot: string | undefined,
): LossEvidence | undefined {
  if (oldPrimaryRoot === undefined || oldPrimaryRoot !== newPrimaryRoot) return undefined;
  const why = `the Merkle roots of ${oldPrimary} and ${newPrimary} were equal after the demotion`;
  return { loss: 'none', oldPrimaryRoot, newPrimaryRoot, why };
}

/**
 * Compares the Merkle roots of both clusters of a demotion, for the short time that an outage allows, counted from the
 * first attempt of this activity. What cannot be read in that time is not proven, and is no reason to wait for a
 * person.
 */
export async function compareAfterDemotion(
  input: OfKind & {
    readonly deployment: string;
    readonly oldPrimary: string;
    readonly newPrimary: string;
    readonly walBefore?: WalIndex;
  },
): Promise<LossEvidence> {
  const { deployment, oldPrimary, newPrimary, walBefore, kind } = input;
  const sides = { deployment, primary: newPrimary, secondary: oldPrimary };
  const { execution, limits, source: next, target: former } = betweenClusters(sides);
  const { merkleEvidenceMs } = limits;
  const inTime = AbortSignal.timeout(Math.max(ONE_LOOK_MS, merkleEvidenceMs - execution.spentMs));
  const signal = AbortSignal.any([execution.signal, inTime]);
  let reached: string | undefined;
  let observed = 'nothing was read in time';
  while (!inTime.aborted) {
    execution.throwIfCancelled();
    const ifSilent = orElse(execution.signal, () => undefined);
    const read = [former, next].map((each) => readStatus(each, kind, signal).catch(ifSilent));
    const [before, after] = await Promise.all(read);
    reached = after?.lastRemoteWal ?? reached;
    const evidence = equalRoots(oldPrimary, before?.merkleRoot, newPrimary, after?.merkleRoot);
    if (evidence) return evidence;
    if (before || after)
      observed = `roots ${before?.merkleRoot ?? 'not reported'} and ${after?.merkleRoot ?? 'not reported'}`;
    // A secondary that still applies received entries reaches the same root a moment later.
    await delay(LOOK_PAUSE_MS, undefined, { signal }).catch(() => undefined);
  }
  execution.throwIfCancelled();
  const behind = walBefore === undefined || reached === undefined ? undefined : BigInt(walBefore) - BigInt(reached);
  const entries = behind === undefined ? undefined : String(behind > 0n ? behind : 0n);
  const missing =
    entries === undefined
      ? `how far ${newPrimary} is behind is unknown`
      : `${newPrimary} is behind by at most ${entries} WAL entries up to the last read before the demotion, plus the writes between that read and the demotion`;
  return {
    loss: 'bounded',
    ...(entries !== undefined && { boundWalEntries: entries }),
    why: `equal Merkle roots were not observed within ${merkleEvidenceMs / 1_000} s (${observed}); ${missing}`,
  };
}

/** Minimum time, so that a later attempt reads at least once, ms. */
const ONE_LOOK_MS = 500;
const LOOK_PAUSE_MS = 100;

interface Evidence {
  readonly deployment: string;
  readonly kind: ReplicationKind;
  readonly oldPrimary: ClusterAccess;
  readonly newPrimary: ClusterAccess;
  /** The Merkle roots that both clusters reported a moment ago, while the call was prepared. */
  readonly roots: { readonly former: string | undefined; readonly next: string | undefined };
}

/**
 * A plan that accepts no data loss binds the activity itself: inputs and results in a history may be made up, so what
 * the clusters report right before the call counts first. Required before a promotion: both clusters have the same
 * Merkle root; or a worker of ours marked that clients were quiesced at the demotion, and the new primary has W; or a
 * person decided to continue anyway.
 *
 * @throws RunbookError PRECONDITION_FAILED
 */
export async function demandNoLoss(
  { sealKeyring }: ActivityDependencies,
  { run, signal }: Execution,
  { deployment, kind, oldPrimary, newPrimary, roots }: Evidence,
): Promise<void> {
  if (roots.former !== undefined && roots.former === roots.next) return;
  const [from, to] = [oldPrimary.entry.name, newPrimary.entry.name];
  const ifSilent = orElse(signal, () => undefined);
  const seen = await Promise.all(
    [oldPrimary, newPrimary].map((each) => readStatus(each, kind, signal).catch(ifSilent)),
  );
  const [former, next] = seen.map((each) => each?.merkleRoot);
  if (former !== undefined && former === next) return;
  const { activities } = readHistory(await ownHistory());
  const evidence = orderedRelease(activities) ? {} : evidenceOf(activities, kind, from);
  const held = believedEvidence(sealKeyring, run, { deployment, kind, from, to }, evidence);
  if (held !== undefined && hasReached(await readStatus(newPrimary, kind, signal), held)) return;
  const decisions = await decisionsOf(deployment);
  const goesOn = decisions.some(
    ({ action, step }) => action === 'promote-secondary' || (action === 'skip' && step === COMPARE),
  );
  if (goesOn) return;
  throw new RunbookError(
    'PRECONDITION_FAILED',
    `The plan accepts no data loss, and it is not proven that ${to} has every write.`,
    {
      cluster: to,
      observed: `Merkle roots (${kindName(kind)}) ${former ?? 'not reported'} and ${next ?? 'not reported'}`,
      needed: `clients that were quiesced at the demotion, or equal Merkle roots of ${from} and ${to} after it`,
      next: `Promote ${from} back: it has every write. Or let a person who signs decide to promote ${to} anyway.`,
    },
  );
}

/** The evidence of the old primary's last demotion; empty if it may have been promoted since. */
function evidenceOf(activities: readonly RecordedActivity[], kind: ReplicationKind, from: string) {
  const last = activities.findLast(
    (each) =>
      (each.type === 'demotePrimary' || each.type === 'promoteSecondary') &&
      each.input['kind'] === kind &&
      !(each.state === 'failed' && each.failure?.outcomeKnown === true) &&
      clusterOf(each) === from,
  );
  return last?.type === 'demotePrimary' && last.state === 'completed' ? fieldsOf(last.result['evidence']) : {};
}
