import { diagnoseServerError } from '../src/client';
import type { RunbookActivities } from '../src/contracts/activities';
import { RunbookError } from '../src/errors';
import { drSetOf } from '../src/inventory';
import type { Deployment } from '../src/inventory';
import { readDr } from './dr-roles';
import type { Clusters } from './support/clusters';
import { executeChange } from './support/execution';
import { describeReplication } from './support/observe';
import { CHANGE_TIMEOUT_MS, awaitState } from './support/read-act-confirm';

/** Reads in a row that must name the same active node. */
const STABLE_LEADER_READS = 3;

/** The end of the outage: the new primary serves. */
export function createServiceReadinessActivities(clusters: Clusters): Pick<RunbookActivities, 'awaitServiceReady'> {
  return {
    awaitServiceReady: executeChange(async ({ deployment, cluster, credentialOf, marker }, execution) => {
      const { signal } = execution;
      const access = clusters.of(deployment, cluster);
      const entry = clusters.deployment(deployment);
      const { limits, marker: markerEntry } = entry;
      requireSameDrSet(entry, cluster, credentialOf);
      const deadline = Date.now() + limits.serviceReadyMs;
      const left = () => Math.max(1_000, deadline - Date.now());
      let primaryAt = 0;
      let sameNode = { node: '', reads: 0 };
      await awaitState(execution, {
        read: async () => ({ dr: await readDr(access, signal), node: await access.client.activeNode({ signal }) }),
        until: ({ dr, node }) => {
          const serves = dr.mode === 'primary' && dr.state === 'running';
          if (serves && primaryAt === 0) primaryAt = Date.now();
          sameNode =
            serves && node === sameNode.node ? { node, reads: sameNode.reads + 1 } : { node, reads: serves ? 1 : 0 };
          return sameNode.reads >= STABLE_LEADER_READS;
        },
        budgetMs: left(),
        describe: ({ dr, node }) => `${describeReplication(dr)}, active node ${node}`,
        needed: `${cluster} is primary and running with one stable active node`,
        cluster,
        pollMs: 200,
      });

      // The token is from before the switchover: it also proves that tokens came along.
      const token = await awaitState(execution, {
        read: () => clusters.of(deployment, credentialOf).credential(),
        until: () => true,
        budgetMs: left(),
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
          budgetMs: left(),
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
        budgetMs: left(),
        describe: () => 'written',
        needed: `an authenticated write on ${cluster}`,
        cluster,
        pollMs: 200,
      });
      const readyAt = Date.now();
      return { primaryAt, stableActiveNode: sameNode.node, markerReadAt, writtenAt: readyAt, readyAt };
    }),
  };
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
