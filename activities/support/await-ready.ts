import { diagnoseServerError } from '../../src/client';
import type { MarkerResult, ServiceReadyResult } from '../../src/contracts/activities';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { Budget } from './budget';
import type { Clusters } from './clusters';
import type { Execution } from './execution';
import { describeReplication } from './observe';
import { readKind } from './onboarding-read';
import { CHANGE_TIMEOUT_MS, awaitState } from './read-act-confirm';

/** Reads in a row that must name the same active node. */
const STABLE_LEADER_READS = 3;

/** What is to serve, and with whose credential that is tried. */
export interface ToServe {
  readonly deployment: string;
  readonly cluster: string;
  readonly credentialOf: string;
  readonly marker?: MarkerResult;
}

/**
 * Waits until a cluster serves as primary of its kind: running, one stable active node, the marker is there, and an
 * authenticated write is taken.
 */
export async function awaitReady(
  clusters: Clusters,
  kind: ReplicationKind,
  { deployment, cluster, credentialOf, marker }: ToServe,
  execution: Execution,
): Promise<ServiceReadyResult> {
  const { signal } = execution;
  const access = clusters.of(deployment, cluster);
  const { limits, marker: markerEntry } = clusters.deployment(deployment);
  const budget = new Budget(limits.serviceReadyMs);
  let primaryAt = 0;
  let sameNode = { node: '', reads: 0 };
  await awaitState(execution, {
    read: async () => ({
      state: await readKind(access, kind, signal),
      node: await access.client.activeNode({ signal }),
    }),
    until: ({ state, node }) => {
      const serves = state.mode === 'primary' && state.state === 'running';
      if (serves && primaryAt === 0) primaryAt = Date.now();
      sameNode =
        serves && node === sameNode.node ? { node, reads: sameNode.reads + 1 } : { node, reads: serves ? 1 : 0 };
      return sameNode.reads >= STABLE_LEADER_READS;
    },
    budgetMs: budget.ms,
    budget,
    describe: ({ state, node }) => `${describeReplication(state)}, active node ${node}`,
    needed: `${cluster} is primary and running with one stable active node`,
    cluster,
    pollMs: 200,
  });

  // The token is from before the switchover: it also proves that tokens came along.
  const token = await awaitState(execution, {
    read: () => clusters.of(deployment, credentialOf).credential(),
    until: () => true,
    budgetMs: budget.ms,
    budget,
    describe: () => 'read',
    needed: `the credential of ${credentialOf}`,
    cluster: credentialOf,
  });
  let markerReadAt: number | undefined;
  // A blocked audit device looks like a cluster that never gets ready: it is named.
  const named = <T>(call: Promise<T>): Promise<T> =>
    call.catch(async (error: unknown): Promise<never> => {
      throw await diagnoseServerError(access.client, error, { token, signal });
    });
  if (marker) {
    await awaitState(execution, {
      read: () => named(access.client.keyValue.read(markerEntry.path, { token, signal })),
      until: (data) => data?.['value'] === marker.value,
      budgetMs: budget.ms,
      budget,
      describe: (data) => (data === undefined ? 'no marker' : 'another marker'),
      needed: `the marker of this run on ${cluster}`,
      cluster,
      pollMs: 200,
    });
    markerReadAt = Date.now();
  }
  await awaitState(execution, {
    read: async () => {
      await named(
        access.client.keyValue.write(
          `${markerEntry.path}-after`,
          { writtenOn: cluster },
          { token, signal, timeoutMs: CHANGE_TIMEOUT_MS },
        ),
      );
      return true;
    },
    until: (written) => written,
    budgetMs: budget.ms,
    budget,
    describe: () => 'written',
    needed: `an authenticated write on ${cluster}`,
    cluster,
    pollMs: 200,
  });
  const readyAt = Date.now();
  return { primaryAt, stableActiveNode: sameNode.node, markerReadAt, writtenAt: readyAt, readyAt };
}
