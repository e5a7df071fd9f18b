import type { ClusterObservation, NodeObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import { check } from './check';

export function everyNodeAnswers({ cluster, nodes }: ClusterObservation): Check {
  return check(
    'every node answers',
    cluster,
    nodes.every(({ reachable }) => reachable),
    inWords(nodes, ({ reachable, error }) => (reachable ? 'answers' : (error ?? 'does not answer'))),
    'every node of the inventory answers',
    `Bring the missing nodes of ${cluster} back, or take them out of the inventory.`,
  );
}

/** Of the nodes that answer; those that do not are for {@link everyNodeAnswers}. */
export function everyNodeUnsealed({ cluster, nodes }: ClusterObservation): Check {
  return check(
    'every node is unsealed',
    cluster,
    nodes.every(({ sealed, initialized }) => sealed !== true && initialized !== false),
    inWords(nodes, ({ sealed }) => (sealed === undefined ? 'not read' : sealed ? 'sealed' : 'unsealed')),
    'every node is initialised and unsealed',
    `Unseal the nodes of ${cluster}; a secondary takes the primary's key shares.`,
  );
}

export function oneActiveNode({ cluster, reachable, activeNode, error }: ClusterObservation): Check {
  return check(
    'one active node',
    cluster,
    reachable,
    activeNode ?? error ?? 'none',
    'the nodes agree on one active node',
    `Look at the nodes of ${cluster}.`,
  );
}

/** A cluster that takes part in a change: it answers with one active node, and none of its nodes is sealed. */
export function takesPart(observation: ClusterObservation): Check[] {
  return [oneActiveNode(observation), everyNodeUnsealed(observation)];
}

/** A cluster beside the change that does not answer. */
export function otherReadable({ cluster, error }: ClusterObservation, next: string): Check {
  return check('other clusters can be read', cluster, false, error ?? 'not readable', 'readable', next, 'warn');
}

function inWords(nodes: readonly NodeObservation[], text: (node: NodeObservation) => string): string {
  return nodes.map((node) => `${node.address} ${text(node)}`).join('; ');
}
