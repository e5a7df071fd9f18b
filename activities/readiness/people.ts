import type { GateName } from '../../src/contracts/plan';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { Deployment, GatePolicy, Inventory, Person } from '../../src/inventory';
import { approversOf, holdersOf } from '../../src/inventory';
import { evaluateGate } from '../../src/keys';
import { judged } from './point';
import type { Question, Verdicts } from './point';
import { judgeRosters } from './roster';
import type { World } from './world';

/** The gates that a switchover, a failover and what follows them open. */
const GATES: readonly (readonly [GateName, Verdicts])[] = [
  ['plan', { switchover: 'fail' }],
  ['go', { switchover: 'fail' }],
  ['promote', { failover: 'fail' }],
  ['force', { failover: 'fail' }],
  ['unfence', { failover: 'warn' }],
];

/** Somebody who asks and may approve nothing. */
const OUTSIDER = '';

/** Holders for the threshold, approvers for each gate, and how it is known who they are. Pure. */
export function judgePeople(inventory: Inventory, world: World, now: number): ReadinessPoint[] {
  const { deployment } = world;
  return [
    ...judgeRosters(world, now),
    ...GATES.flatMap(([gate, otherwise]) => gatePoint(inventory, deployment, gate, otherwise)),
    ...keys(inventory, deployment),
  ];
}

function gatePoint(
  inventory: Inventory,
  deployment: Deployment,
  gate: GateName,
  otherwise: Verdicts,
): ReadinessPoint[] {
  const policy = deployment.gates[gate];
  const members = approversOf(inventory, deployment, gate);
  const names = members.map(({ name }) => name);
  const question: Question = {
    id: `gate.${gate}`,
    source: 'attested',
    needed: `${policy.approvals} of ${policy.groups.join(' and ')}${policy.excludeRequester ? ', without the one who asks' : ''}`,
    next: `Put more people into the groups of gate ${gate}, or change its policy.`,
  };
  const observed = `${names.length} may approve: ${names.join(', ') || 'nobody'}`;
  if (!canBeMet(policy, members, OUTSIDER)) return judged(question, otherwise, observed);
  const blocked = names.filter((name) => !canBeMet(policy, members, name));
  // Somebody must be left who may ask.
  const askers = [...inventory.people.values()].filter(({ name }) => !blocked.includes(name));
  const reason = `it cannot be met where ${blocked.join(' or ')} asks`;
  if (askers.length === 0) return judged(question, otherwise, observed, { reason });
  return judged(question, okFor(otherwise), blocked.length === 0 ? observed : `${observed}; ${reason}`);
}

function okFor(verdicts: Verdicts): Verdicts {
  if (typeof verdicts === 'string') return 'ok';
  return { switchover: verdicts.switchover && 'ok', failover: verdicts.failover && 'ok' };
}

/** Whether the gate opens when everybody who may approve does. */
function canBeMet(policy: GatePolicy, members: readonly Person[], requester: string): boolean {
  const approvals = members.map(({ name, groups }) => ({ name, groups, verdict: 'approve' as const }));
  return evaluateGate(policy, requester === OUTSIDER ? undefined : requester, approvals).satisfied;
}

/** A claim is a name that anybody may use. */
function keys(inventory: Inventory, deployment: Deployment): ReadinessPoint[] {
  const groups = new Set(GATES.flatMap(([gate]) => deployment.gates[gate].groups));
  const approvers = [...inventory.people.values()].filter((person) => person.groups.some((group) => groups.has(group)));
  const about: readonly (readonly [string, readonly Person[]])[] = [
    ['holders', holdersOf(inventory, deployment)],
    ['approvers', approvers],
  ];
  return about.flatMap(([who, people]) => {
    const question: Question = {
      id: `${who}-proven`,
      source: 'attested',
      needed: `${who} sign with a key, or are known by the server's principal`,
      next: 'Each runs `runbook keys init`, and you put the printed line into the inventory.',
    };
    const claimed = people.filter(({ attestation }) => attestation === 'claimed').map(({ name }) => name);
    if (claimed.length === 0) return judged(question, 'ok', `all ${people.length}`);
    const observed = `only claimed: ${claimed.join(', ')}`;
    return deployment.laboratory
      ? judged(question, 'ok', `${observed}; this is a laboratory`)
      : judged(question, 'warn', observed);
  });
}
