import type { ClusterObservation, NodeObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import { asWarning, check } from './check';

export function everyNodeAnswers({ cluster, nodes }: ClusterObservation): Check {
  const good = nodes.every(({ reachable }) => reachable);
  return check('every node answers', cluster, good, {
    observed: inWords(nodes, ({ reachable, error }) => (reachable ? 'answers' : (error ?? 'does not answer'))),
    needed: 'every node of the inventory answers',
    next: `Bring the missing nodes of ${cluster} back, or take them out of the inventory.`,
  });
}

/** Of the nodes that answer; those that do not are for {@link everyNodeAnswers}. */
export function everyNodeUnsealed(observation: ClusterObservation): Check {
  const { cluster, nodes } = observation;
  const good = nodes.every(({ sealed, initialized }) => sealed !== true && initialized !== false);
  return check('every node is unsealed', cluster, good, {
    observed: inWords(nodes, ({ sealed }) => (sealed === undefined ? 'not read' : sealed ? 'sealed' : 'unsealed')),
    needed: 'every node is initialised and unsealed',
    next: unsealing(observation),
  });
}

/** How sealed nodes of a cluster are unsealed, by its seal. */
function unsealing({ cluster, seal }: ClusterObservation): string {
  if (seal?.recovery !== true)
    return `Unseal the nodes of ${cluster}; a secondary takes the primary's key shares (recovery key shares where the primary unseals itself).`;
  return `${cluster} unseals itself (${seal.type ?? 'auto-unseal'}), and recovery key shares open no node: see that its sealed nodes reach their key service, and restart the service on those that stay sealed.`;
}

export function quorum({ cluster, nodes }: ClusterObservation): Check {
  const majority = Math.floor(nodes.length / 2) + 1;
  const serving = nodes.filter(({ reachable, sealed }) => reachable && sealed === false).length;
  return check('quorum', cluster, serving >= majority, {
    observed: `${serving} of ${nodes.length}`,
    needed: `at least ${majority} of ${nodes.length} nodes answer and are unsealed`,
    next: `Start or unseal nodes of ${cluster}.`,
  });
}

export function oneActiveNode({ cluster, reachable, activeNode, error }: ClusterObservation): Check {
  return check('one active node', cluster, reachable, {
    observed: activeNode ?? error ?? 'none',
    needed: 'the nodes agree on one active node',
    next: `Look at the nodes of ${cluster}.`,
  });
}

/** A cluster that takes part in a change: a node that is down or sealed is for the approvers to see, as long as the rest is a quorum. */
export function takesPart(observation: ClusterObservation): Check[] {
  const enough = quorum(observation);
  const nodes = [everyNodeAnswers(observation), everyNodeUnsealed(observation)];
  const judged = enough.verdict === 'ok' ? nodes.map((each) => asWarning(each)) : nodes;
  return [oneActiveNode(observation), enough, ...judged];
}

/** What the approvers must know of a side. Without the error, which may be another one at the next reading. */
export function missingNodes({ cluster, nodes, seal }: ClusterObservation): string[] {
  const missing = nodes.filter(({ reachable, sealed }) => !reachable || sealed !== false);
  if (missing.length === 0) return [];
  const addresses = missing.map(({ address }) => address).join(', ');
  const heals = seal?.recovery === true ? ' They unseal themselves once they run and reach their key service.' : '';
  return [`Nodes of ${cluster} that are down or sealed: ${addresses}. Another one less may cost its quorum.${heals}`];
}

/** A cluster beside the change that does not answer. */
export function otherReadable({ cluster, error }: ClusterObservation, next: string): Check {
  const observed = error ?? 'not readable';
  return check('other clusters can be read', cluster, false, { observed, needed: 'readable', next, otherwise: 'warn' });
}

function inWords(nodes: readonly NodeObservation[], text: (node: NodeObservation) => string): string {
  return nodes.map((node) => `${node.address} ${text(node)}`).join('; ');
}
