import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import { groupRule } from '../../src/contracts/share-groups';
import type { Deployment } from '../../src/inventory';
import { providersNow } from '../ceremony/ceremony-roster';
import { compareVersions } from './versions';

/** The first version whose Merkle check proves a token without changing anything. */
const PROVES_FROM = '1.15.0';

type Providing = Pick<ClusterObservation, 'cluster' | 'version'>;

/** What is judged before people are asked for an operation token that they generate themselves. */
export function providedPreconditions(deployment: Deployment, { cluster, version }: Providing): Precondition[] {
  const { holders } = providersNow(deployment).facts;
  const { shareGroups, ceremony } = deployment;
  const unseen = shareGroups.length > 0 && ceremony.tokenProviders === undefined;
  const proves = version !== undefined && compareVersions(version, PROVES_FROM) >= 0;
  return [
    {
      name: 'people who may provide tokens',
      cluster,
      observed: unseen
        ? 'nobody is listed, and who gives a key share to the service itself is seen by nobody here'
        : holders.join(', ') || 'nobody',
      needed: unseen
        ? `ceremony.tokenProviders in the inventory, because of ceremony.groups (${groupRule(shareGroups)})`
        : 'at least one',
      ...(holders.length > 0 && !unseen
        ? { verdict: 'ok' }
        : { verdict: 'fail', next: 'List them in ceremony.tokenProviders of the inventory.' }),
    },
    {
      name: 'a provided token can be proven',
      cluster,
      observed: version === undefined ? 'version not told' : `version ${version}`,
      needed: `${PROVES_FROM} or newer, whose Merkle check takes the token and changes nothing`,
      verdict: proves ? 'ok' : 'warn',
      ...(proves ? {} : { next: 'Let the holders seal their shares, or prepare a batch token.' }),
    },
  ];
}

/** What the plan says of it. The same each time it is read. */
export function providedWarning(deployment: Deployment, cluster: string): string {
  const { holders } = providersNow(deployment).facts;
  return `People generate an operation token of ${cluster} themselves, and one of ${holders.join(', ')} gives it to this run, which proves it by a Merkle check (long on a large store), uses it and deletes it.`;
}

/** No way back is prepared: a token of the old primary can be generated only once it is demoted. */
export function providedWayBack({ cluster }: Pick<ClusterObservation, 'cluster'>): Precondition {
  return {
    name: 'exit: a token for the way back',
    cluster,
    observed: 'none can be provided before: people would generate it on the demoted cluster, INSIDE the outage',
    needed: 'an operation token on the old primary',
    verdict: 'warn',
    next: 'Have as many holders as the threshold at their keyboards until service is back, or prepare a batch token.',
  };
}
