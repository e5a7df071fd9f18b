import type { ClusterObservation } from '../../../src/contracts/observations';
import type { Precondition } from '../../../src/contracts/plan';
import type { SharesChoice } from '../../../src/contracts/runbook-inputs';
import { groupRule } from '../../../src/contracts/share-groups';
import type { Deployment } from '../../../src/inventory';
import { majorVersion } from '../versions';

/** Whether the holders enter their shares in the service themselves: as the run was started, else as the deployment says. */
export function isDirect({ ceremony }: Deployment, shares: SharesChoice | undefined): boolean {
  return (shares ?? ceremony.shares) === 'direct';
}

/** What is judged before anybody is asked to enter a share himself: nobody here will see who gave one. */
export function directPreconditions(
  { shareGroups }: Pick<Deployment, 'shareGroups'>,
  observation: Pick<ClusterObservation, 'cluster' | 'version'>,
): Precondition[] {
  const reach = holdersReach(observation);
  if (shareGroups.length === 0) return [reach];
  const groups: Precondition = {
    name: 'groups of key holders',
    cluster: observation.cluster,
    observed: 'shares: direct, where nobody here sees who gave a share',
    needed: `${groupRule(shareGroups)}, which sealed shares prove`,
    verdict: 'fail',
    next: 'Start again with sealed shares, or take ceremony.groups out of the inventory.',
  };
  return [groups, reach];
}

/** What cannot be looked up before: whether each holder gets through to the service himself. */
function holdersReach({ cluster, version }: Pick<ClusterObservation, 'cluster' | 'version'>): Precondition {
  const token = majorVersion(version) >= 2 ? ', and has a token that it accepts for the ceremony calls' : '';
  return {
    name: 'holders can enter their shares themselves',
    cluster,
    observed: 'not known before they do',
    needed: `each holder reaches ${cluster} with the official command line or curl${token}`,
    verdict: 'not-checkable',
  };
}

/** What the plan says of it. The same each time it is read. */
export function directWarning({ ceremony }: Pick<Deployment, 'ceremony'>, cluster: string): string {
  const minutes = Math.round(ceremony.collectForMs / 6_000) / 10;
  return `The key holders enter their shares on ${cluster} themselves, and whoever enters the last one hands in the encoded token. They have ${minutes} min from the moment at which they are asked; the run tells the time. No share is kept: for each further cluster, and after a lost attempt, they enter them again.`;
}

/** The way back to the old primary, where no share is kept for it. */
export function directWayBack({ cluster }: Pick<ClusterObservation, 'cluster'>): Precondition {
  return {
    name: 'exit: a token for the way back',
    cluster,
    observed: 'no share is kept: the holders would enter theirs again, on the demoted cluster and INSIDE the outage',
    needed: 'an operation token on the old primary',
    verdict: 'warn',
    next: 'Have the holders at their keyboards until service is back, prepare a batch token, or let them seal their shares (shares: sealed).',
  };
}
