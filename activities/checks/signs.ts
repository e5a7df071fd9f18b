import type { ClusterObservation, NodeObservation, ReplicationObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { drSetOf } from '../../src/inventory';
import { describeReplication, heartbeatAge } from '../observe';
import type { ClusterAccess } from '../clusters';
import { check, notCheckable } from './check';
import { BROKEN, credentialFacts, fixServerError } from './credentials';
import { heartbeatText, isConnected, mayBeOneSet, soundTree, streams } from './replication';
import { DEMOTE } from './rights';

/*
 * The signs that a primary is gone. `stream-wals` proves nothing: it stays with a dead primary (facts 3.2). If the
 * heartbeats stopped, but not long enough ago, a DR check is `warn`: the run waits for it.
 */

/** The next step for a sign that only needs time. */
export const WAITED_FOR = 'The run waits for it before it opens the gate.';

/** What to do if the primary answers: only people can say whether it serves anybody. */
export const PLANNED_OR_STOP =
  'For a planned change start drSwitchover. If the primary answers but does not serve (its audit device is blocked, its storage is full), or must not serve any more: stop or seal all of its nodes, keep it cut off from its clients, then start drFailover again.';

/** Health status of a node that is active and unsealed. */
const ACTIVE = 200;

/** A cluster, with the replication through which it hears the primary. */
export interface Observer {
  readonly cluster: string;
  readonly at: number;
  readonly hears: ReplicationObservation | undefined;
}

export function observerOf(observation: ClusterObservation, kind: ReplicationKind): Observer {
  return { cluster: observation.cluster, at: observation.at, hears: observation[kind] };
}

interface SignsOfLoss {
  readonly from: ClusterObservation;
  readonly to: ClusterObservation;
  /** Other DR secondaries of the set, and performance secondaries of the primary. */
  readonly observers: readonly Observer[];
  /** After how long without a heartbeat the primary counts as gone, ms. */
  readonly primaryGoneMs: number;
}

/** The two signs that the DR primary is gone, and whether another observer agrees. */
export function judgeSigns({ from, to, observers, primaryGoneMs }: SignsOfLoss): Check[] {
  return [
    silence(from, 'dr'),
    heartbeatsStopped(observerOf(to, 'dr'), from.cluster, primaryGoneMs),
    agreement(observers, from.cluster, to.cluster, primaryGoneMs),
  ];
}

/** Whether the signs agree: nothing contradicts them, and the heartbeats stopped long enough ago. */
export function signsAgree(signs: readonly Check[]): boolean {
  return signs.every(({ verdict }) => verdict === 'ok' || verdict === 'not-checkable');
}

/** When any observer last heard the primary, epoch ms by the worker's clock. */
export function lastHeardAt(observers: readonly Observer[]): number | undefined {
  const times = observers.flatMap(({ at, hears }) => {
    const age = heartbeatAge(hears);
    return age === undefined ? [] : [at - age];
  });
  return times.length === 0 ? undefined : Math.max(...times);
}

/** No node answers as an unsealed active primary. A demoted primary may answer: it is a primary no more. */
function silence(from: ClusterObservation, kind: ReplicationKind): Check {
  const { cluster, nodes, reachable, [kind]: seen } = from;
  const claims = ({ sealed, standby, healthStatus }: NodeObservation) => healthStatus === ACTIVE && !sealed && !standby;
  const nodesText = nodes.map((node) => {
    if (!node.reachable) return `${node.address} does not answer`;
    if (claims(node)) return `${node.address} reports that it is active`;
    return `${node.address} ${node.sealed ? 'sealed' : `answers (${node.healthStatus ?? 'no status'}) and is not active`}`;
  });
  // A DR secondary that knows a primary is not the cluster that is gone; a performance secondary is a witness itself.
  const detached = seen?.mode === 'secondary' && (kind === 'performance' || !seen.primaryClusterAddress);
  const demoted = reachable && (detached || seen?.mode === 'disabled');
  return check('the primary does not answer', cluster, demoted || (!reachable && !nodes.some(claims)), {
    observed: reachable ? describeReplication(seen) : nodesText.join('; '),
    needed: 'no node answers as an unsealed active primary',
    next:
      kind === 'dr' && seen?.mode === 'primary'
        ? `${cluster} answers as DR primary. ${PLANNED_OR_STOP}`
        : `Find out which role ${cluster} has. If it must not serve any more, stop or seal its nodes.`,
  });
}

/** Whether a secondary has not heard the primary for long enough. */
function heartbeatsStopped({ cluster, hears }: Observer, from: string, primaryGoneMs: number): Check {
  const name = 'heartbeats of the primary stopped';
  const needed = `none for more than ${primaryGoneMs / 1000} s`;
  const observed = heartbeatText(hears);
  switch (hearing(hears, primaryGoneMs)) {
    case 'unknown':
      return notCheckable(name, cluster, { observed, needed, next: `The approvers attest that ${from} is gone.` });
    case 'early':
      return check(name, cluster, false, { observed, needed, next: WAITED_FOR, otherwise: 'warn' });
    case 'stopped':
      return check(name, cluster, true, { observed, needed });
    case 'hears': {
      const next = `${cluster} is still connected to ${from}: perhaps only the path from here to ${from} is broken. Check ${from} from another location. If it hangs, stop its nodes: that ends the connection.`;
      return check(name, cluster, false, { observed, needed, next });
    }
  }
}

function agreement(observers: readonly Observer[], from: string, to: string, primaryGoneMs: number): Check {
  const name = 'another observer agrees';
  const needed = `a cluster other than ${to} that no longer receives heartbeats from ${from}`;
  const known = observers
    .map(({ cluster, hears }) => ({ cluster, heard: hearing(hears, primaryGoneMs), text: heartbeatText(hears) }))
    .filter(({ heard }) => heard !== 'unknown');
  const observed = known.map(({ cluster, text }) => `${cluster}: ${text}`).join('; ');
  if (known.length === 0) {
    const next = `No other cluster can confirm that ${from} is gone: the approvers of gate promote attest it.`;
    return notCheckable(name, undefined, { observed: 'no other observer', needed, next });
  }
  const still = known.filter(({ heard }) => heard === 'hears').map(({ cluster }) => cluster);
  if (still.length === 0 && known.every(({ heard }) => heard === 'early'))
    return check(name, undefined, false, { observed, needed, next: WAITED_FOR, otherwise: 'warn' });
  const next = still.includes(from)
    ? `${from} is connected to another primary: ${from} is not the primary that is gone.`
    : `${from} is still connected to ${still.join(', ')}: perhaps only ${to} is cut off. Check ${from} from another location.`;
  return check(name, undefined, still.length === 0, { observed, needed, next });
}

/** Whether a cluster hears the primary. `early`: it no longer does, but not for long enough. */
function hearing(
  replication: ReplicationObservation | undefined,
  primaryGoneMs: number,
): 'hears' | 'early' | 'stopped' | 'unknown' {
  if (replication?.mode !== 'secondary') return 'unknown';
  // A connection wins over an old heartbeat: the primary may only hang.
  if (isConnected(replication)) return 'hears';
  const age = heartbeatAge(replication);
  if (age !== undefined && age > primaryGoneMs) return 'stopped';
  return age === undefined ? 'unknown' : 'early';
}

/** What is judged before a performance secondary is promoted without its primary: all clusters of the deployment. */
interface PrimaryLost extends Pick<SignsOfLoss, 'from' | 'to'> {
  readonly deployment: Deployment;
  readonly observations: readonly ClusterObservation[];
  readonly overrideDrSecondary: boolean;
}

/**
 * The signs that the performance primary is gone: it does not answer as primary, no other cluster of its set is primary,
 * and every secondary has heard nothing from it for longer than the limit. Pure.
 */
export function goneChecks({ deployment, from, to, observations, overrideDrSecondary }: PrimaryLost): Check[] {
  const setId = to.performance?.setId;
  const { mode } = from.performance ?? {};
  const primaries = observations
    .filter((each) => each.performance?.mode === 'primary' && mayBeOneSet(each.performance.setId, setId))
    .map(({ cluster }) => cluster);
  const witnesses = observations.filter((each) => each === to || mayHear(each, from, setId));
  return [
    check('performance replication set is known', to.cluster, setId !== undefined && setId !== '', {
      observed: setId || 'not reported',
      needed: 'the replication set of the new primary, which shows which clusters belong to it',
      next: `Find out why ${to.cluster} does not report its replication set.`,
    }),
    check('no cluster answers as performance primary', undefined, primaries.length === 0 && mode !== 'primary', {
      observed: primaries.join(', ') || 'none',
      needed: 'none',
      next: 'If the primary answers, start performancePromotion with {"mode": "planned"}.',
    }),
    silence(from, 'performance'),
    ...witnesses.map((each) => silentNow(each, from.cluster, deployment.limits.primaryGoneMs)),
    noUsableDrSecondary(deployment, from.cluster, observations, overrideDrSecondary),
  ];
}

/** No step waits for this sign: a primary that was heard a moment ago is not gone. */
function silentNow(witness: ClusterObservation, from: string, primaryGoneMs: number): Check {
  const judged = heartbeatsStopped(observerOf(witness, 'performance'), from, primaryGoneMs);
  const next = `Heartbeats of ${from} stopped only a moment ago. Check ${from} from another location, then start again.`;
  return judged.verdict === 'warn' ? { ...judged, verdict: 'fail', next } : judged;
}

/**
 * Whether a cluster is a witness that the primary is silent: a secondary that may be of the same set. The cluster that
 * is said to be gone is a witness too if it is a secondary that knows a primary: a demoted one knows none.
 */
function mayHear(each: ClusterObservation, from: ClusterObservation, setId: string | undefined): boolean {
  const seen = each.performance;
  if (seen?.mode !== 'secondary' || !mayBeOneSet(seen.setId, setId)) return false;
  return each !== from || Boolean(seen.primaryClusterAddress) || seen.peers.length > 0;
}

/** A usable DR secondary of the failed primary could take its place, with every token and lease. */
function noUsableDrSecondary(
  deployment: Deployment,
  from: string,
  observations: readonly ClusterObservation[],
  override: boolean,
): Check {
  const { members } = drSetOf(deployment, from);
  const isUsable = (each: ClusterObservation) =>
    each.reachable &&
    streams(each, 'dr').verdict === 'ok' &&
    soundTree(each, 'dr').verdict === 'ok' &&
    each.nodes.some((node) => node.reachable && node.sealed === false);
  const usable = observations.flatMap((each) =>
    each.cluster !== from && members.includes(each.cluster) && isUsable(each) ? [each.cluster] : [],
  );
  return check('no DR secondary of the failed primary is usable', from, usable.length === 0, {
    observed:
      usable.length === 0 ? 'none that answers, streams and is unsealed' : `${usable.join(', ')} could be promoted`,
    needed: 'none: a DR secondary has every token, lease and local mount',
    next: override
      ? 'The input sets overrideDrSecondary: it is not promoted.'
      : `Start drFailover to ${usable[0] ?? 'it'}, or start again with {"overrideDrSecondary": true}.`,
    otherwise: override ? 'warn' : 'fail',
  });
}

/** Primaries that answer, which rules out a failover, but serve nobody: what people do about each. */
export async function brokenPrimaries(
  {
    observations,
    access,
  }: { readonly observations: readonly ClusterObservation[]; readonly access: (cluster: string) => ClusterAccess },
  signal: AbortSignal,
): Promise<Check[]> {
  const primaries = observations.filter(({ dr }) => dr?.mode === 'primary');
  const judged = primaries.map(async ({ cluster }) => {
    const primary = access(cluster);
    const { error = '', httpStatus } = await credentialFacts(primary, () => primary.credential(), [DEMOTE], signal);
    const observed = `it answers as primary, but calls with a token fail (${error})`;
    const needed = 'a primary that serves, or one that does not answer';
    const next = fixServerError(cluster, { code: error, httpStatus });
    return check('no primary is broken', cluster, !BROKEN.has(error), { observed, needed, next });
  });
  return (await Promise.all(judged)).filter(({ verdict }) => verdict === 'fail');
}
