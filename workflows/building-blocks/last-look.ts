import type { ClusterObservation } from '../../src/contracts/observations';
import type { Run } from './run';

/** What clusters said last of who is DR primary. */
export interface LastLook {
  readonly primaries: readonly string[];
  /** Clusters that did not say. */
  readonly silent: readonly string[];
}

/** Reads the roles once more, for a run that ends without knowing that a cluster serves. A failure never holds the end. */
export async function lastLook(run: Run, deployment: string, clusters: readonly string[]): Promise<LastLook> {
  let seen: readonly ClusterObservation[] = [];
  await run.cleanUp('Read the roles', async (call) => {
    seen = (await call.readDeployment({ deployment })).observations.filter(({ cluster }) => clusters.includes(cluster));
  });
  return {
    primaries: seen.filter(({ dr }) => dr?.mode === 'primary').map(({ cluster }) => cluster),
    silent: clusters.filter((cluster) => !seen.some((each) => each.cluster === cluster && each.dr)),
  };
}
