import type { ReadinessPoint } from '../../src/contracts/readiness';
import { holds, unread } from './point';
import type { Question, Verdicts } from './point';
import type { ClusterView, Part, World } from './world';

/** What a defect of a cluster means for the two questions. The primary of a failover is gone anyway. */
export function severity(part: Part, ofSecondary: Verdicts = 'fail'): Verdicts {
  switch (part) {
    case 'secondary':
      return ofSecondary;
    case 'primary':
    case 'gone':
      return { switchover: 'fail' };
    case 'other':
      return { switchover: 'warn', failover: 'warn' };
  }
}

/** Every node reachable and unsealed, quorum, one stable active node. Pure. */
export function judgeNodes({ clusters }: World): ReadinessPoint[] {
  return clusters.flatMap((view) => [
    ...reachable(view),
    ...unsealed(view),
    ...quorum(view),
    ...stableActiveNode(view),
  ]);
}

const STARTS_WITH_DEFECT: Verdicts = { switchover: 'fail', failover: 'warn' };

function reachable({ name, part, observation: { nodes } }: ClusterView): ReadinessPoint[] {
  const question: Question = {
    id: 'nodes-reachable',
    cluster: name,
    source: 'api',
    needed: 'every node of the inventory answers',
    next: `Bring the missing nodes of ${name} back, or take them out of the inventory.`,
  };
  const text = nodes.map((node) => `${node.address} ${node.reachable ? 'answers' : (node.error ?? 'does not answer')}`);
  return holds(
    question,
    nodes.every((node) => node.reachable),
    severity(part, STARTS_WITH_DEFECT),
    text.join('; '),
  );
}

function unsealed({ name, part, observation: { nodes } }: ClusterView): ReadinessPoint[] {
  const question: Question = {
    id: 'nodes-unsealed',
    cluster: name,
    source: 'api',
    needed: 'every node is initialised and unsealed',
    next: `Unseal the nodes of ${name}; a secondary takes the primary's key shares.`,
  };
  const told = nodes.filter((node) => node.reachable);
  if (told.length === 0) return unread(question, 'no node answers');
  const bad = told.filter((node) => node.sealed !== false || node.initialized === false);
  return holds(
    question,
    bad.length === 0,
    severity(part, STARTS_WITH_DEFECT),
    bad.length === 0
      ? `${told.length} of ${nodes.length} told, all unsealed`
      : bad.map((node) => `${node.address} ${node.initialized === false ? 'not initialised' : 'sealed'}`).join('; '),
  );
}

function quorum({ name, part, observation: { nodes } }: ClusterView): ReadinessPoint[] {
  const majority = Math.floor(nodes.length / 2) + 1;
  const good = nodes.filter((node) => node.reachable && node.sealed === false).length;
  const question: Question = {
    id: 'quorum',
    cluster: name,
    source: 'api',
    needed: `at least ${majority} of ${nodes.length} nodes answer and are unsealed`,
    next: `Start or unseal nodes of ${name}.`,
  };
  return holds(question, good >= majority, severity(part), `${good} of ${nodes.length}`);
}

function stableActiveNode({ name, part, observation, activeNodes }: ClusterView): ReadinessPoint[] {
  const question: Question = {
    id: 'stable-active-node',
    cluster: name,
    source: 'api',
    needed: 'the nodes agree on the same active node on every reading',
    next: `Find out why leadership of ${name} changes or is missing (network, clocks, storage).`,
  };
  const seen = [...new Set(activeNodes)];
  const good = observation.reachable && seen.length === 1 && seen[0] !== undefined;
  const told = activeNodes.map((node) => node ?? 'none').join(', then ');
  return holds(
    question,
    good,
    severity(part),
    good ? `${seen[0]}, ${activeNodes.length} times` : (observation.error ?? told),
  );
}
