import type { ReadinessPoint } from '../../src/contracts/readiness';
import { everyNodeAnswers, everyNodeUnsealed } from '../checks/nodes';
import { holds, pointOf, questionOf, unread } from './point';
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

const STARTS_WITH_DEFECT: Verdicts = { switchover: 'fail', failover: 'warn' };

/** Every node reachable and unsealed, quorum, one stable active node. Pure. */
export function judgeNodes({ clusters }: World): ReadinessPoint[] {
  return clusters.flatMap((view) => {
    const { part, observation } = view;
    const otherwise = severity(part, STARTS_WITH_DEFECT);
    const unsealed = everyNodeUnsealed(observation);
    const answers = observation.nodes.some(({ reachable }) => reachable);
    return [
      ...pointOf('nodes-reachable', everyNodeAnswers(observation), otherwise),
      ...(answers
        ? pointOf('nodes-unsealed', unsealed, otherwise)
        : unread(questionOf('nodes-unsealed', unsealed), 'no node answers')),
      ...quorum(view),
      ...stableActiveNode(view),
    ];
  });
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
