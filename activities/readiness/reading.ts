import type { Check } from '../../src/contracts/plan';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import { isRunbookError } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import { asWarning, causeOf, check } from '../checks/check';
import { NotRead, within } from '../checks/within';
import { MARKER_CHECK_MS } from '../evidence/marker';
import type { ClusterAccess } from '../clusters';
import type { ActivityContext } from '../execution';
import { observeWithHealths } from '../observe';
import type { NodeHealth } from '../observe';
import type { BatchTokenProof } from '../tokens/batch-token-proof';

/** Time limit for reading one cluster, ms. */
const CLUSTER_MS = 12_000;

/**
 * The part of a cluster in a switchover and a failover. `gone`: it does not answer, and no other one of its DR set is
 * primary. `other`: alone in its set, or not in it yet.
 */
export type Part = 'primary' | 'secondary' | 'gone' | 'other';

/** What was read of one cluster. */
export interface ClusterReading {
  readonly name: string;
  readonly drSet: string;
  readonly part: Part;
  readonly observation: ClusterObservation;
  /** Of each node: every node has its own clock. */
  readonly healths: readonly NodeHealth[];
}

/** One DR set: membership from the inventory, roles as read. */
export interface DrSet {
  readonly name: string;
  readonly members: readonly ClusterReading[];
  readonly primaries: readonly ClusterReading[];
  readonly secondaries: readonly ClusterReading[];
}

/** A deployment as it was read for readiness. */
export interface Topology {
  readonly deployment: Deployment;
  readonly clusters: readonly ClusterReading[];
  /** DR sets of more than one cluster: only these have anything to switch to. */
  readonly sets: readonly DrSet[];
}

/** What the readiness checks use, and what they need for further reads: neither a run nor a worker. */
export interface ServiceContext extends Topology {
  readonly execution: Pick<ActivityContext, 'signal'>;
  readonly access: (cluster: string) => ClusterAccess;
  /** By the worker's clock, epoch ms. */
  readonly now: number;
  /**
   * The proofs of batch tokens that a primary looked up, by DR secondary, recorded for when no primary answers. Undefined
   * if it refused a token for certain, or the rights of a token are gone: then an earlier proof is withdrawn.
   */
  readonly proofs: Map<string, BatchTokenProof | undefined>;
  /** When the workers' tokens expire that nothing renews, by cluster, epoch ms. */
  readonly expiries: Map<string, number>;
}

type Reading = Omit<ClusterReading, 'part' | 'drSet'>;

/** Reads every cluster; one that does not answer is a reading too. */
export async function readTopology(
  { clusters, signal }: Pick<ActivityContext, 'clusters' | 'signal'>,
  deployment: Deployment,
): Promise<Topology> {
  return topologyOf(
    deployment,
    await Promise.all(clusters.all(deployment.name).map((each) => readCluster(each, signal))),
  );
}

/** Which cluster is primary is read, never configured. Pure. */
export function topologyOf(deployment: Deployment, readings: readonly Reading[]): Topology {
  const sets = [...deployment.drSets].map(([name, names]) => {
    const inSet = readings.filter((each) => names.includes(each.name));
    const hasPrimary = inSet.some((each) => each.observation.dr?.mode === 'primary');
    const members = inSet.map((each) => ({ ...each, drSet: name, part: partOf(each, inSet.length, hasPrimary) }));
    return {
      name,
      members,
      primaries: members.filter(({ observation }) => observation.dr?.mode === 'primary'),
      secondaries: members.filter(({ part }) => part === 'secondary'),
    };
  });
  return {
    deployment,
    clusters: sets.flatMap(({ members }) => members),
    sets: sets.filter(({ members }) => members.length > 1),
  };
}

function partOf({ observation }: Reading, members: number, hasPrimary: boolean): Part {
  if (members < 2) return 'other';
  if (observation.dr?.mode === 'primary') return 'primary';
  // The primary knows no credential of a cluster that is still to be onboarded, and nobody would switch to it.
  if (observation.dr?.mode === 'disabled' && hasPrimary) return 'other';
  return observation.reachable || hasPrimary ? 'secondary' : 'gone';
}

async function readCluster(access: ClusterAccess, signal: AbortSignal): Promise<Reading> {
  const { client, entry } = access;
  const { name, addresses } = entry;
  client.forgetActiveNode();
  try {
    return { name, ...(await within(signal, (limited) => observeWithHealths(access, limited), CLUSTER_MS)) };
  } catch (error) {
    if (signal.aborted) throw error;
    const code = codeOf(error);
    const nodes = addresses.map((address) => ({ address, reachable: false, error: code }));
    return { name, observation: { cluster: name, at: Date.now(), reachable: false, error: code, nodes }, healths: [] };
  }
}

export const QUESTIONS = ['switchover', 'failover'] as const;
export type Question = (typeof QUESTIONS)[number];

/** A check with the question that it concerns: both if it names none. */
export type Judged = Check & Partial<Pick<ReadinessPoint, 'unread'>> & { readonly about?: Question };

/** The same checks for one question only. */
export function concerning(about: Question, checks: readonly Judged[]): Judged[] {
  return checks.map((each) => ({ ...each, about }));
}

/** What a failed check of a cluster stops, by its part. In a failover the primary is gone anyway. */
export function stops(part: Part, judged: Check): Judged {
  if (part === 'other') return asWarning(judged);
  return part === 'secondary' ? judged : { ...judged, about: 'switchover' };
}

/*
 * Time limits nest: each is longer than what it limits, so that a slow part becomes a point of its own and never takes
 * its group with it.
 */

/** Time limit for one read, ms. All reads run at the same time. */
export const READING_MS = 8_000;
/** What a switchover does on the primary: the other reads, and the write beside the marker. */
export const FORMER_MS = MARKER_CHECK_MS + READING_MS;
/** The clusters of a deployment, then all checks of them, which write beside the marker of one DR set after the other. */
export function serviceMs({ drSets }: Pick<Deployment, 'drSets'>): number {
  return CLUSTER_MS + drSets.size * FORMER_MS + MARGIN_MS;
}
/** For what is not a call, ms. */
const MARGIN_MS = 2_000;

/** A fact that can be known but was not read this time: nobody may rely on it, so it counts like one that does not hold. */
export function unread({ name, cluster, needed }: Asked, why: string, next?: string): Judged {
  // The checks of the nodes show the full error; here its code is enough.
  const short = /^[A-Z][A-Z_]+(?=: )/.exec(why)?.[0] ?? why;
  const again = `Check again. If it stays, find out why ${cluster ?? 'it'} does not answer this.`;
  const observed = `could not be read: ${short}`;
  return { ...check(name, cluster, false, { observed, needed, next: next ?? again }), unread: true };
}

type Asked = Pick<Check, 'name' | 'cluster' | 'needed'>;

/** The checks of one read. A read that fails or takes too long becomes a check with the code of the error: never nothing, and never `ok`. */
export async function readChecks(
  signal: AbortSignal,
  asked: Asked,
  read: (signal: AbortSignal) => Promise<Judged | readonly Judged[]>,
  limitMs = READING_MS,
): Promise<Judged[]> {
  try {
    return [await within(signal, read, limitMs)].flat();
  } catch (error) {
    if (signal.aborted) throw error;
    return [isRunbookError(error) ? unread(asked, causeOf(error), error.next) : unread(asked, codeOf(error))];
  }
}

/** How an error may be shown: by its code, or by the name of an internal error; never by its own message. */
export function codeOf(error: unknown): string {
  if (error instanceof NotRead) return error.message;
  if (isRunbookError(error)) return error.code;
  return `INTERNAL (${error instanceof Error ? error.name : 'unknown'})`;
}
