import type { Mistake } from './checks';
import type { ParsedInventory } from './schema';

type ParsedDeployment = ParsedInventory['deployments'][string];

/** What `batchTokens` says of the rest of the inventory. A token must not be kept where it is gone with its cluster. */
export function* checkBatchTokens({ deployments }: ParsedInventory): Generator<Mistake> {
  const owners = new Map<string, string>();
  for (const [deploymentName, deployment] of Object.entries(deployments)) {
    for (const [set, rotation] of Object.entries(deployment.batchTokens)) {
      const at = ['deployments', deploymentName, 'batchTokens', set];
      const members = Object.hasOwn(deployment.drSets, set) ? deployment.drSets[set] : undefined;
      if (members === undefined) yield { path: at, message: `this deployment has no DR set ${set}` };
      if (rotation.ttlMs < 2 * deployment.ceremony.batchMarginMs) {
        yield {
          path: [...at, 'ttl'],
          message: 'a token is renewed at half its life, which must still be longer than ceremony.batchMargin',
        };
      }
      const { sink } = rotation;
      const place = JSON.stringify('file' in sink ? sink.file : sink.keyValue);
      const owner = owners.get(place);
      if (owner !== undefined) yield { path: [...at, 'sink'], message: `${owner} keeps its token there already` };
      owners.set(place, `DR set ${set} of ${deploymentName}`);
      if ('keyValue' in sink)
        yield* checkPlace(deployments, deploymentName, sink.keyValue, [...at, 'sink', 'keyValue']);
      else yield* checkReaders(deploymentName, deployment, members ?? [], sink.file);
    }
  }
}

function* checkPlace(
  deployments: ParsedInventory['deployments'],
  own: string,
  { deployment, drSet }: { readonly deployment: string; readonly drSet?: string | undefined },
  at: readonly string[],
): Generator<Mistake> {
  const other = Object.hasOwn(deployments, deployment) ? deployments[deployment] : undefined;
  if (deployment === own) {
    yield {
      path: [...at, 'deployment'],
      message: 'a token is kept by another deployment: here it would be gone with its cluster',
    };
  } else if (other === undefined) {
    yield { path: [...at, 'deployment'], message: `this inventory has no deployment ${deployment}` };
  } else if (drSet === undefined ? Object.keys(other.drSets).length > 1 : !Object.hasOwn(other.drSets, drSet)) {
    yield {
      path: drSet === undefined ? at : [...at, 'drSet'],
      message: `drSet is one of ${Object.keys(other.drSets).join(', ')}`,
    };
  }
}

/** A cluster whose token is rotated reads it where it is put, or names no source of its own. */
function* checkReaders(
  deploymentName: string,
  { clusters }: ParsedDeployment,
  members: readonly string[],
  file: string,
): Generator<Mistake> {
  for (const member of members) {
    const source = clusters[member]?.batchToken;
    if (source === undefined || ('file' in source && source.file === file)) continue;
    yield {
      path: ['deployments', deploymentName, 'clusters', member, 'batchToken'],
      message: `the token of this DR set is put into ${file}: name that file, or leave batchToken out`,
    };
  }
}
