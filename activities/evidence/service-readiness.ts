import type { OnCluster, OfKind } from '../../src/contracts/activities';
import type { Finding } from '../../src/contracts/run-facts';
import { RunbookError } from '../../src/errors';
import { drSetOf } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import { diagnoseServerError } from '../../src/vault';
import { currentExecution } from '../execution';
import { describeReplication, readStatus } from '../observe';
import { CHANGE_TIMEOUT_MS, awaitState } from '../read-act-confirm';
import type { MarkerResult } from './data-evidence';

export interface ServiceReadyResult {
  readonly primaryAt: number;
  /** The same node was active on several reads. */
  readonly stableActiveNode: string;
  /** The marker was read with a token from before the switchover. */
  readonly markerReadAt?: number;
  readonly writtenAt: number;
  /** Service ready: all of the above. */
  readonly readyAt: number;
  readonly findings?: readonly Finding[];
}

/** The cluster that is to serve as primary of this kind. */
interface ServeInput extends OnCluster, OfKind {
  /** Its value is looked for at the path that the inventory names. */
  readonly marker?: MarkerResult;
  /** Of kind `dr`: the cluster of the same DR set whose credential, from before the change, is used; else its own. */
  readonly credentialOf?: string;
}

/** What one try to use the cluster as its clients would has shown. */
interface Tried {
  readonly missing?: string;
  readonly ready?: Omit<ServiceReadyResult, 'primaryAt'>;
}

/**
 * Waits until a cluster serves as primary of its kind: running, the marker is there, an authenticated write is taken, and
 * the node that was active before is active after it. The reads and the write between the two looks are the evidence that
 * it stays so: nothing is waited for.
 */
export async function awaitServiceReady(input: ServeInput): Promise<ServiceReadyResult> {
  const { deployment, kind, cluster, marker } = input;
  const execution = currentExecution();
  const { clusters, signal } = execution;
  // Tokens of another cluster are not known on a performance secondary.
  const credentialOf = kind === 'dr' ? (input.credentialOf ?? cluster) : cluster;
  requireSameDrSet(clusters.deployment(deployment), cluster, credentialOf);
  const access = clusters.of(deployment, cluster);
  const { client } = access;
  const { limits, marker: markerEntry } = clusters.deployment(deployment);
  let primaryAt = 0;

  const tryToUse = async (): Promise<Tried> => {
    const state = await readStatus(access, kind, signal);
    const node = await client.activeNode({ signal });
    if (state.mode !== 'primary' || state.state !== 'running')
      return { missing: `${describeReplication(state)}, active node ${node}` };
    if (primaryAt === 0) primaryAt = Date.now();
    // From before the change of roles: it also proves that tokens came along.
    const token = await clusters.of(deployment, credentialOf).credential();
    // A blocked audit device looks like a cluster that never gets ready: it is named.
    const named = <T>(call: Promise<T>): Promise<T> =>
      call.catch(async (error: unknown): Promise<never> => {
        throw await diagnoseServerError(client, error, { token, signal });
      });
    let markerReadAt: number | undefined;
    if (marker) {
      const data = await named(client.keyValue.read(markerEntry.path, { token, signal }));
      if (data?.['value'] !== marker.value) return { missing: data === undefined ? 'no marker' : 'another marker' };
      markerReadAt = Date.now();
    }
    const proof = { token, signal, timeoutMs: CHANGE_TIMEOUT_MS };
    await named(client.keyValue.write({ path: `${markerEntry.path}-after`, data: { writtenOn: cluster } }, proof));
    const writtenAt = Date.now();
    client.forgetActiveNode();
    const after = await client.activeNode({ signal });
    if (after !== node) return { missing: `active node ${node} before a write, ${after} after it` };
    return { ready: { stableActiveNode: node, markerReadAt, writtenAt, readyAt: Date.now() } };
  };
  const { ready } = await awaitState(execution, {
    read: tryToUse,
    until: (tried) => tried.ready !== undefined,
    budgetMs: limits.serviceReadyMs,
    describe: ({ missing }) => missing ?? 'ready',
    needed: `${cluster} is primary and running, ${marker ? 'the marker of this run is read, ' : ''}an authenticated write is taken, and its active node is the same before and after`,
    cluster,
    pollMs: 200,
  });
  if (ready === undefined) throw new TypeError('ready without evidence');
  return { primaryAt, ...ready };
}

/** A credential is shown to clusters of its own DR set only: those share their tokens. */
function requireSameDrSet(deployment: Deployment, cluster: string, credentialOf: string): void {
  const set = drSetOf(deployment, cluster);
  if (set.members.includes(credentialOf)) return;
  throw new RunbookError('PRECONDITION_FAILED', `The credential of ${credentialOf} is not for ${cluster}.`, {
    cluster,
    observed: `${credentialOf} is not in DR set ${set.name}`,
    needed: `one of ${set.members.join(', ')}`,
  });
}
