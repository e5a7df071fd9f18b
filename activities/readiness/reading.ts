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

/** Time limit for reading one cluster, ms. */
const CLUSTER_MS = 12_000;

/** The part of a cluster in a switchover and a failover. `gone`: it does not answer, and no other one of its DR set is primary. */
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

/** Time limit for one read, ms. All reads run at the same time. */
const READING_MS = 8_000;

/** Why something was not read, as text that may be shown. */
export class NotRead extends Error {}

/** @throws {NotRead} if `read` takes too long, even if it ignores its signal; what `read` throws; the reason of the caller's signal */
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

/** A fact that can be known but was not read this time: it never counts as good. */
export function unread({ name, cluster, needed }: Asked, why: string): Judged {
  // The checks of the nodes show the full error; here its code is enough.
  const short = /^[A-Z][A-Z_]+(?=: )/.exec(why)?.[0] ?? why;
  return { ...notCheckable(name, cluster, { observed: `could not be read: ${short}`, needed }), unread: true };
}

type Asked = Pick<Check, 'name' | 'cluster' | 'needed'>;

/** The checks of one read. A read that fails or takes too long becomes a check with the code of the error: never nothing, and never `ok`. */
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

/** How an error may be shown: by its code, or by the name of an internal error; never by its text. */
export function codeOf(error: unknown): string {
  if (error instanceof NotRead) return error.message;
  if (isRunbookError(error)) return error.code;
  return `INTERNAL (${error instanceof Error ? error.name : 'unknown'})`;
}
