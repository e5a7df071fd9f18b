import { diagnoseServerError } from '../../src/vault';
import type { MarkerResult, ServiceReadyResult } from '../../src/contracts/activities';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { Clusters } from '../clusters';
import type { Execution } from '../execution';
import { describeReplication } from '../observe';
import { readKind } from '../joining/onboarding-read';
import { CHANGE_TIMEOUT_MS, awaitState } from '../read-act-confirm';

/** What is to serve, and with whose credential that is tried. */
interface ToServe {
  readonly deployment: string;
  readonly kind: ReplicationKind;
  readonly cluster: string;
  readonly credentialOf: string;
  readonly marker?: MarkerResult;
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
export async function awaitReady(
  clusters: Clusters,
  { deployment, kind, cluster, credentialOf, marker }: ToServe,
  execution: Execution,
): Promise<ServiceReadyResult> {
  const { signal } = execution;
  const access = clusters.of(deployment, cluster);
  const { client } = access;
  const { limits, marker: markerEntry } = clusters.deployment(deployment);
  let primaryAt = 0;

  const tryToUse = async (): Promise<Tried> => {
    const state = await readKind(access, kind, signal);
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
