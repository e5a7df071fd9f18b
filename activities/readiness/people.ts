import type { GateName } from '../../src/contracts/plan';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import { canSatisfyGroups } from '../../src/contracts/share-groups';
import { escapeUntrusted } from '../../src/contracts/words';
import type { Deployment, GatePolicy, Inventory, Person, RosterAt } from '../../src/inventory';
import { approversOf, endOfTerm, holdersOf, rosterAt } from '../../src/inventory';
import { evaluateGate } from '../../src/keys';
import type { DeclinedRehearsal, RehearsalRecord } from '../ceremony/rehearsal';
import { declinedRehearsals, rehearsals } from '../ceremony/rehearsal';
import { judgeRoster, rehearsingPeople } from '../ceremony/ceremony-roster';
import { answer, holds, judged, readPoints, unread } from './point';
import type { Answer, Asked, Verdicts } from './point';
import type { DrSet, ReadinessContext, Topology } from './topology';

const DAY_MS = 86_400_000;

/** The gates that a switchover, a failover and what follows them open. */
const GATES: readonly (readonly [GateName, Verdicts])[] = [
  ['plan', { switchover: 'fail' }],
  ['go', { switchover: 'fail' }],
  ['promote', { failover: 'fail' }],
  ['force', { failover: 'fail' }],
  ['unfence', { failover: 'warn' }],
];

/** Holders for the threshold, approvers for each gate, and how it is known who they are. Pure. */
export function peoplePoints(inventory: Inventory, { deployment, sets }: Topology, now: number): ReadinessPoint[] {
  return [
    ...sets.flatMap((set) => {
      const thresholds = set.secondaries.flatMap(({ observation }) => observation.attempt?.required ?? []);
      const needed = thresholds.length === 0 ? undefined : Math.max(...thresholds);
      return [...holders(deployment, set, needed, now), ...terms(deployment, set, needed, now)];
    }),
    ...GATES.flatMap(([gate, otherwise]) => gatePoint(inventory, deployment, gate, otherwise)),
    ...attestations(inventory, deployment),
  ];
}

/** Whether those in office suffice for the threshold and the groups, and whether one of them may be missing. */
function holders(deployment: Deployment, { name: set }: DrSet, threshold: number | undefined, now: number) {
  const { good, observed, needed, next } = judgeRoster(deployment, threshold, now);
  return judged({
    id: `holders.${set}`,
    source: 'attested',
    needed: `as many holders as the service requires key shares (${needed}), and one more for each`,
    next,
    judge: () => {
      if (deployment.ceremony.tokenSource === 'batch')
        return answer('ok', `${observed}; none needed: the token source is batch`);
      if (threshold === undefined) return unread('no DR secondary tells its threshold');
      const roster = rosterAt(deployment, now);
      const names = everybody(roster);
      if (!good)
        return answer('fail', observed, {
          reason: names.length < threshold ? undefined : `no ${threshold} of them satisfy the groups`,
        });
      if (names.length === threshold)
        return answer('warn', observed, { reason: 'all of them must be there, at any hour' });
      const without = (name: string) => names.filter((each) => each !== name);
      const alone = names.filter((name) => !canSatisfyGroups(roster.groups, without(name), threshold));
      const reason = `the groups cannot be satisfied without ${alone.join(', nor without ')}`;
      return holds(alone.length === 0, 'warn', observed, { reason });
    },
  });
}

/** Whose term ends soon. A site without terms is not told of them. */
function terms(deployment: Deployment, { name: set }: DrSet, threshold: number | undefined, now: number) {
  const { ceremony, readiness } = deployment;
  if (ceremony.terms.length === 0) return [];
  const inOffice = everybody(rosterAt(deployment, now));
  const soon = now + readiness.termWarningMs;
  return judged({
    id: `terms.${set}`,
    source: 'attested',
    needed: `terms of office that last longer than ${Math.round(readiness.termWarningMs / DAY_MS)} days`,
    next: 'Elect who comes next and list them in the inventory, or prolong the term there.',
    judge: () => {
      const ending = ceremony.terms.filter((term) => {
        const end = endOfTerm(term);
        return end !== undefined && end > now && end <= soon && inOffice.includes(term.name);
      });
      if (ending.length === 0) return answer('ok', `${inOffice.length} in office, no term ends soon`);
      const then = judgeRoster(deployment, threshold, soon);
      const names = ending.map(({ name, until }) => `${name} until ${until ?? ''}`).join(', ');
      return answer('warn', `${names}; then ${everybody(rosterAt(deployment, soon)).length} in office`, {
        reason: then.good ? undefined : `the roster would be too small: ${then.needed}`,
      });
    },
  });
}

function everybody({ holders: asked, standBy }: RosterAt): string[] {
  return [...asked, ...standBy];
}

function gatePoint(inventory: Inventory, deployment: Deployment, gate: GateName, otherwise: Verdicts) {
  const policy = deployment.gates[gate];
  const members = approversOf(inventory, deployment, gate);
  const names = members.map(({ name }) => name);
  return judged({
    id: `gate.${gate}`,
    source: 'attested',
    needed: `${policy.approvals} of ${policy.groups.join(' and ')}${policy.excludeRequester ? ', without the one who asks' : ''}`,
    next: `Put more people into the groups of gate ${gate}, or change its policy.`,
    judge: () => {
      const observed = `${names.length} may approve: ${names.join(', ') || 'nobody'}`;
      if (!canBeMet(policy, members, undefined)) return answer(otherwise, observed);
      const blocked = names.filter((name) => !canBeMet(policy, members, name));
      const reason = `it cannot be met where ${blocked.join(' or ')} asks`;
      // Somebody must be left who may ask.
      const mayAsk = [...inventory.people.keys()].some((name) => !blocked.includes(name));
      return holds(mayAsk, otherwise, mayAsk && blocked.length > 0 ? `${observed}; ${reason}` : observed, { reason });
    },
  });
}

/** Whether the gate opens when everybody who may approve does; `requester` is undefined for one who may approve nothing. */
function canBeMet(policy: GatePolicy, members: readonly Person[], requester: string | undefined): boolean {
  const approvals = members.map(({ name, groups }) => ({ name, groups, verdict: 'approve' as const }));
  return evaluateGate(policy, requester, approvals).satisfied;
}

/** A claim is a name that anybody may use. */
function attestations(inventory: Inventory, deployment: Deployment): ReadinessPoint[] {
  const groups = new Set(GATES.flatMap(([gate]) => deployment.gates[gate].groups));
  const about = {
    holders: holdersOf(inventory, deployment),
    approvers: [...inventory.people.values()].filter((person) => person.groups.some((group) => groups.has(group))),
  };
  return Object.entries(about).flatMap(([who, people]) =>
    judged({
      id: `${who}-proven`,
      source: 'attested',
      needed: `${who} sign with a key, or are known by the server's principal`,
      next: 'Each runs `runbook join` with a line of yours; `runbook inventory add-person` lists what it prints.',
      judge: () => {
        const claimed = people.filter(({ attestation }) => attestation === 'claimed').map(({ name }) => name);
        if (claimed.length === 0) return answer('ok', `all ${people.length}`);
        const only = `only claimed: ${claimed.join(', ')}`;
        return holds(deployment.laboratory, 'warn', deployment.laboratory ? `${only}; this is a laboratory` : only);
      },
    }),
  );
}

/** Whether every holder and stand-by holder has gone the whole way not long ago, with the keys that count now. */
export async function rehearsalPoints({ deployment, execution, now }: ReadinessContext): Promise<ReadinessPoint[]> {
  const { inventory, signingKey, records, signal } = execution;
  const facts = { people: inventory.people, workers: signingKey.kid };
  const read = async () => ({
    successes: await rehearsals.all(records, deployment.name),
    declines: await declinedRehearsals.all(records, deployment.name),
  });
  const asked = rehearsingPeople(deployment, now).map(({ name, standBy }): Asked<Awaited<ReturnType<typeof read>>> => {
    const input = JSON.stringify({ deployment: deployment.name, holders: [name], reason: 'WHY' });
    return {
      id: `rehearsed.${name}`,
      source: 'worker',
      needed: `a rehearsal at most ${Math.round(deployment.readiness.rehearsalAgeMs / DAY_MS)} days ago`,
      next: `Rehearse: \`runbook start ceremonyRehearsal --input '${input}'\``,
      judge: ({ successes, declines }) =>
        judgeRehearsal(deployment, facts, { success: successes.get(name), declined: declines.get(name), standBy }, now),
    };
  });
  return readPoints(signal, read, ...asked);
}

/** What the workers know of themselves and of their people. */
interface RehearsalFacts {
  readonly people: Inventory['people'];
  /** Thumbprint of the key with which the workers sign invitations. */
  readonly workers: string;
}

interface Rehearsed {
  readonly success?: RehearsalRecord | undefined;
  readonly declined?: DeclinedRehearsal | undefined;
  readonly standBy: boolean;
}

/** Pure. */
export function judgeRehearsal(
  { ceremony, laboratory, readiness }: Deployment,
  facts: RehearsalFacts,
  { success, declined, standBy }: Rehearsed,
  now: number,
): Answer {
  const who = standBy ? ' (stand-by)' : '';
  const { tokenSource } = ceremony;
  if (tokenSource === 'batch' || tokenSource === 'provided')
    return answer('ok', `none needed${who}: the token source is ${tokenSource}`);
  const last = success === undefined ? 'never' : inWords(success, now);
  const observed = `${last}${who}${declinedSince(success, declined)}`;
  if (laboratory) return answer('ok', `${observed}; this is a laboratory`);
  if (success === undefined) return answer('warn', observed);
  const reason = whatChanged(success, facts);
  const recent = now - Date.parse(success.at) <= readiness.rehearsalAgeMs;
  return holds(reason === undefined && recent, 'warn', observed, { reason });
}

/** Who said that they cannot answer did not forget: the operators see why. */
function declinedSince(success: RehearsalRecord | undefined, declined: DeclinedRehearsal | undefined): string {
  if (declined === undefined || (success !== undefined && success.at > declined.at)) return '';
  return `; declined on ${declined.at.slice(0, 10)} (${declined.how === 'claimed' ? 'UNVERIFIED: ' : ''}${escapeUntrusted(declined.reason)})`;
}

function inWords({ at, how, tool }: RehearsalRecord, now: number): string {
  const days = Math.max(0, Math.floor((now - Date.parse(at)) / DAY_MS));
  const when = days === 0 ? 'today' : days === 1 ? 'yesterday' : `${days} days ago`;
  return `${when}, ${how}, with ${tool}`;
}

/** What was proven with keys that do not count any more is not proven. */
function whatChanged(
  { holder, how, kid, workers }: RehearsalRecord,
  { people, workers: now }: RehearsalFacts,
): string | undefined {
  const person = people.get(holder);
  if (workers !== now) return "the workers sign with another key since: the holder's pin of the new one is not proven";
  if (person?.attestation === 'signed' && person.publicKeys.every((key) => key.kid !== kid))
    return 'the key that signed then is not in the inventory any more';
  if (person !== undefined && person.attestation !== how)
    return `the inventory demands ${person.attestation} of this person since`;
  return undefined;
}
