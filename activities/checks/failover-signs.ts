import type { ClusterObservation, ReplicationObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import { describeReplication, heartbeatAge } from '../observe';
import { check } from './switchover-rule';

/** What is next where a sign only needs time. */
export const WAITED_FOR = 'The run waits for it before it opens the gate.';

/** Health of a node that is active and unsealed. */
const ACTIVE = 200;

/** A cluster with the replication through which it hears the primary. */
export interface Observer {
  readonly cluster: string;
  readonly at: number;
  readonly hears: ReplicationObservation | undefined;
}

interface SignsOfLoss {
  readonly from: ClusterObservation;
  readonly to: ClusterObservation;
  /** Other DR secondaries of the set, and performance secondaries of the primary. */
  readonly observers: readonly Observer[];
  /** For how long nobody must have heard the primary, ms. */
  readonly primaryGoneMs: number;
}

/** What a cluster says of whether it hears the primary. `early`: not any more, but not for long enough. */
type Hearing = 'hears' | 'early' | 'stopped' | 'not-told';

/**
 * The two signs that the primary is gone, and whether somebody else agrees. `stream-wals` proves nothing: it stays with a
 * dead primary (facts 3.2). `warn` of the heartbeats means "not for long enough yet": it is waited for.
 */
export function judgeSigns({ from, to, observers, primaryGoneMs }: SignsOfLoss): Precondition[] {
  return [
    silence(from),
    heartbeats(to, from.cluster, primaryGoneMs),
    agreement(observers, from.cluster, to.cluster, primaryGoneMs),
  ];
}

/** Whether every sign is there: nothing speaks against it, and the heartbeats stopped for long enough. */
export function signsAgree(signs: readonly Precondition[]): boolean {
  return signs.every(({ verdict }) => verdict === 'ok' || verdict === 'not-checkable');
}

/** When anybody heard the primary last, epoch ms of the worker. */
export function lastHeardAt(observers: readonly Observer[]): number | undefined {
  const times = observers.flatMap(({ at, hears }) => {
    const age = heartbeatAge(hears);
    return age === undefined ? [] : [at - age];
  });
  return times.length === 0 ? undefined : Math.max(...times);
}

/** As an observer: through which replication does it hear the primary? */
export function observerOf(observation: ClusterObservation, kind: 'dr' | 'performance'): Observer {
  return { cluster: observation.cluster, at: observation.at, hears: observation[kind] };
}

/** No node answers as an unsealed active primary. One that was demoted answers, and is none. */
function silence(from: ClusterObservation): Precondition {
  const { cluster, dr, nodes, reachable } = from;
  const told = reachable
    ? describeReplication(dr)
    : nodes
        .map(({ address, sealed, reachable: answers, healthStatus }) =>
          answers
            ? `${address} ${sealed ? 'sealed' : `answers (${healthStatus ?? 'no status'}) and is not active`}`
            : `${address} does not answer`,
        )
        .join('; ');
  const claims = nodes.some(({ sealed, standby, healthStatus }) => healthStatus === ACTIVE && !sealed && !standby);
  // A secondary that knows a primary was not the one that is gone.
  const detached = dr?.mode === 'secondary' && (dr.primaryClusterAddress ?? '') === '';
  const demoted = reachable && (detached || dr?.mode === 'disabled');
  const gone = demoted || (!reachable && !claims);
  return check(
    'the primary does not answer',
    cluster,
    gone,
    claims && !reachable ? `${told}; a node says that it is active` : told,
    'no node answers as an unsealed active primary',
    dr?.mode === 'primary'
      ? `${cluster} answers as DR primary. A planned change is a drSwitchover; where ${cluster} must not serve any more, fence and stop or seal it, then start again.`
      : `Find out what ${cluster} is; where it must not serve any more, stop or seal its nodes.`,
  );
}

function heartbeats(to: ClusterObservation, from: string, primaryGoneMs: number): Precondition {
  const name = 'heartbeats of the primary stopped';
  const needed = `none for more than ${primaryGoneMs / 1000} s`;
  const heard = hearing(to.dr, primaryGoneMs);
  const observed = hearingText(to.dr);
  if (heard === 'not-told') {
    const next = `${to.cluster} tells no heartbeat: the approvers of gate promote attest that ${from} is gone.`;
    return { name, cluster: to.cluster, observed, needed, verdict: 'not-checkable', next };
  }
  if (heard === 'early') {
    const next = WAITED_FOR;
    return { name, cluster: to.cluster, observed, needed, verdict: 'warn', next };
  }
  return check(
    name,
    to.cluster,
    heard === 'stopped',
    observed,
    needed,
    `${to.cluster} still hears ${from}: only the way from here to ${from} may be broken. Look at ${from} from elsewhere.`,
  );
}

function agreement(observers: readonly Observer[], from: string, to: string, primaryGoneMs: number): Precondition {
  const name = 'another observer agrees';
  const needed = `a cluster beside ${to} that hears ${from} no more`;
  const said = observers
    .map(({ cluster, hears }) => ({ cluster, heard: hearing(hears, primaryGoneMs), text: hearingText(hears) }))
    .filter(({ heard }) => heard !== 'not-told');
  const observed = said.map(({ cluster, text }) => `${cluster}: ${text}`).join('; ');
  if (said.length === 0) {
    const next = `No other cluster can say whether ${from} is gone: the approvers of gate promote attest it.`;
    return { name, observed: 'no other observer', needed, verdict: 'not-checkable', next };
  }
  const still = said.filter(({ heard }) => heard === 'hears').map(({ cluster }) => cluster);
  if (still.includes(from)) {
    const next = `${from} follows another primary, which it hears: ${from} is not the one that is gone.`;
    return check(name, undefined, false, observed, needed, next);
  }
  const next = `${still.join(', ')} still hears ${from}: only ${to} may be cut off. Look at ${from} from elsewhere.`;
  if (still.length > 0) return check(name, undefined, false, observed, needed, next);
  if (said.every(({ heard }) => heard === 'early'))
    return { name, observed, needed, verdict: 'warn', next: WAITED_FOR };
  return check(name, undefined, true, observed, needed);
}

function hearing(replication: ReplicationObservation | undefined, primaryGoneMs: number): Hearing {
  if (replication?.mode !== 'secondary') return 'not-told';
  const connected = replication.peers.some((peer) => peer.connected);
  const age = heartbeatAge(replication);
  if (age === undefined) return connected ? 'hears' : 'not-told';
  if (age > primaryGoneMs) return 'stopped';
  return connected ? 'hears' : 'early';
}

function hearingText(replication: ReplicationObservation | undefined): string {
  if (!replication) return 'not readable';
  const age = heartbeatAge(replication);
  const connected = replication.peers.some((peer) => peer.connected);
  return `${connected ? 'connected' : 'disconnected'}, last heartbeat ${age === undefined ? 'not told' : `${Math.round(age / 1000)} s ago`}`;
}
