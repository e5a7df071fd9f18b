import type { RunbookActivities } from '../../src/contracts/activities';
import { RunbookError } from '../../src/errors';
import { drSetOf } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import { awaitReady } from './await-ready';
import type { Clusters } from '../clusters';
import { executeChange } from '../execution';

/** The end of the outage: the new primary serves. */
export function createServiceReadinessActivities(clusters: Clusters): Pick<RunbookActivities, 'awaitServiceReady'> {
  return {
    awaitServiceReady: executeChange((input, execution) => {
      const { deployment, kind, cluster } = input;
      // Tokens of another cluster are not known on a performance secondary.
      const credentialOf = kind === 'dr' ? (input.credentialOf ?? cluster) : cluster;
      requireSameDrSet(clusters.deployment(deployment), cluster, credentialOf);
      return awaitReady(clusters, { ...input, credentialOf }, execution);
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
