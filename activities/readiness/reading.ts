import type { Check } from '../../src/contracts/plan';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import { isRunbookError } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import { asWarning, notCheckable } from '../checks/check';
import type { ClusterAccess } from '../clusters';
import type { ActivityContext } from '../execution';
import { observeWithHealths } from '../observe';
import type { NodeHealth } from '../observe';
import type { BatchTokenProof } from '../tokens/batch-token-proof';

/** What reading one cluster may take, ms. */
const CLUSTER_MS = 12_000;

/** What a cluster is for switchover and failover. `gone`: it does not answer and the others of its DR set have no primary. */
export type Part = 'primary' | 'secondary' | 'gone' | 'other';

/** What was read of one cluster. */
export interface ClusterReading {
  readonly name: string;
  readonly drSet: string;
  readonly part: Part;
  readonly observation: ClusterObservation;
  /** Every node for itself: clocks are a node's own. */
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

/** What the points of readiness look at, and with what they read more. */
export interface ReadinessContext extends ServiceContext {
  readonly execution: ActivityContext;
}

/** As far as the clusters themselves answer: neither a run nor a worker is needed for it. */
export interface ServiceContext extends Topology {
  readonly execution: Pick<ActivityContext, 'signal'>;
  readonly access: (cluster: string) => ClusterAccess;
  /** Of the worker, epoch ms. */
  readonly now: number;
  /**
   * Of the batch tokens that a primary looked up, by DR secondary: kept for when none answers. Undefined where it refused
   * one for certain, or its rights are gone: an earlier proof is withdrawn then.
   */
  readonly proofs: Map<string, BatchTokenProof | undefined>;
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

/** Who is primary is read, never configured. Pure. */
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

/** A check with the question that it concerns: both where it names none. */
export type Judged = Check & Partial<Pick<ReadinessPoint, 'unread'>> & { readonly about?: Question };

/** The same checks for one question alone. */
export function concerning(about: Question, checks: readonly Judged[]): Judged[] {
  return checks.map((each) => ({ ...each, about }));
}

/** What a defect of a cluster stops, by its part. The primary of a failover is gone anyway. */
export function stops(part: Part, judged: Check): Judged {
  if (part === 'other') return asWarning(judged);
  return part === 'secondary' ? judged : { ...judged, about: 'switchover' };
}

/** What one reading may take, ms. All of them run at the same time. */
const READING_MS = 8_000;

/** Why something was not read, in words that may be told. */
export class NotRead extends Error {}

/** @throws {NotRead} of what takes too long, also where `read` does not heed its signal; what `read` throws; the reason of the caller's signal */
export async function within<T>(
  signal: AbortSignal,
  read: (signal: AbortSignal) => Promise<T>,
  limitMs: number = READING_MS,
): Promise<T> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
  const tooSlow = new NotRead(`no answer within ${limitMs / 1_000} s`);
  const ended = new Promise<never>((_, reject) => {
    limited.addEventListener('abort', () => reject(tooSlow), { once: true });
  });
  try {
    return await Promise.race([read(limited), ended]);
  } catch (error) {
    signal.throwIfAborted();
    throw limited.aborted ? tooSlow : error;
  }
}

/** It could be known, and was not this time: never taken for good. */
export function unread({ name, cluster, needed }: Asked, why: string): Judged {
  // The checks of the nodes tell the error in full; here its code is enough.
  const short = /^[A-Z][A-Z_]+(?=: )/.exec(why)?.[0] ?? why;
  return { ...notCheckable(name, cluster, { observed: `could not be read: ${short}`, needed }), unread: true };
}

type Asked = Pick<Check, 'name' | 'cluster' | 'needed'>;

/** What one reading shows. One that fails or takes too long is a check that says so with the code of the error: never nothing, and never `ok`. */
export async function readChecks(
  signal: AbortSignal,
  asked: Asked,
  read: (signal: AbortSignal) => Promise<Judged | readonly Judged[]>,
): Promise<Judged[]> {
  try {
    return [await within(signal, read)].flat();
  } catch (error) {
    if (signal.aborted) throw error;
    return [unread(asked, codeOf(error))];
  }
}

/** What an error may be told as: a code of the family, or the name of a defect; never its text. */
export function codeOf(error: unknown): string {
  if (error instanceof NotRead) return error.message;
  if (isRunbookError(error)) return error.code;
  return `INTERNAL (${error instanceof Error ? error.name : 'unknown'})`;
}
