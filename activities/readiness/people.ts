import type { Check, GateName } from '../../src/contracts/plan';
import { canSatisfyGroups } from '../../src/contracts/share-groups';
import { escapeUntrusted } from '../../src/contracts/words';
import type { Deployment, GatePolicy, Inventory, Person, RosterAt } from '../../src/inventory';
import { approversOf, endOfTerm, holdersOf, rosterAt } from '../../src/inventory';
import { evaluateGate } from '../../src/keys';
import type { DeclinedRehearsal, RehearsalRecord } from '../ceremony/rehearsal';
import { declinedRehearsals, rehearsals } from '../ceremony/rehearsal';
import { judgeRoster, rehearsingPeople } from '../ceremony/ceremony-roster';
import { check } from '../checks/check';
import { readChecks, unread } from './point';
import type { Judged } from './point';
import type { DrSet, ReadinessContext, Topology } from './topology';

const DAY_MS = 86_400_000;

/** The gates that a switchover, a failover and what follows them open, and what one means that cannot be met. */
const GATES = [
  ['plan', 'switchover', 'fail'],
  ['go', 'switchover', 'fail'],
  ['promote', 'failover', 'fail'],
  ['force', 'failover', 'fail'],
  ['unfence', 'failover', 'warn'],
] as const;

/** Holders for the threshold, approvers for each gate, and how it is known who they are. Pure. */
export function peopleChecks(inventory: Inventory, { deployment, sets }: Topology, now: number): Judged[] {
  return [
    ...sets.flatMap((set) => {
      const thresholds = set.secondaries.flatMap(({ observation }) => observation.attempt?.required ?? []);
      const needed = thresholds.length === 0 ? undefined : Math.max(...thresholds);
      return [holders(deployment, set, needed, now), ...terms(deployment, set, needed, now)];
    }),
    ...GATES.map(([gate, about, otherwise]) => ({ ...gateCheck(inventory, deployment, gate, otherwise), about })),
    ...attestations(inventory, deployment),
  ];
}

/** Whether those in office suffice for the threshold and the groups, and whether one of them may be missing. */
function holders(deployment: Deployment, { name: set }: DrSet, threshold: number | undefined, now: number): Judged {
  const { good, observed, needed: least, next } = judgeRoster(deployment, threshold, now);
  const name = `holders.${set}`;
  const needed = `as many holders as the service requires key shares (${least}), and one more for each`;
  if (deployment.ceremony.tokenSource === 'batch')
    return check(name, undefined, true, { observed: `${observed}; none needed: the token source is batch`, needed });
  if (threshold === undefined) return unread({ name, needed }, 'no DR secondary tells its threshold');
  const roster = rosterAt(deployment, now);
  const names = everybody(roster);
  const without = (each: string) => names.filter((one) => one !== each);
  const alone = names.filter((each) => !canSatisfyGroups(roster.groups, without(each), threshold));
  const why = () => {
    if (!good) return names.length < threshold ? undefined : `no ${threshold} of them satisfy the groups`;
    if (names.length === threshold) return 'all of them must be there, at any hour';
    return alone.length === 0 ? undefined : `the groups cannot be satisfied without ${alone.join(', nor without ')}`;
  };
  const reason = why();
  return check(name, undefined, good && reason === undefined, {
    observed: reason === undefined ? observed : `${observed}: ${reason}`,
    ...{ needed, next },
    otherwise: good ? 'warn' : 'fail',
  });
}

/** Whose term ends soon. A site without terms is not told of them. */
function terms(deployment: Deployment, { name: set }: DrSet, threshold: number | undefined, now: number): Judged[] {
  const { ceremony, readiness } = deployment;
  if (ceremony.terms.length === 0) return [];
  const inOffice = everybody(rosterAt(deployment, now));
  const soon = now + readiness.termWarningMs;
  const ending = ceremony.terms.filter((term) => {
    const end = endOfTerm(term);
    return end !== undefined && end > now && end <= soon && inOffice.includes(term.name);
  });
  const then = judgeRoster(deployment, threshold, soon);
  const names = ending.map(({ name, until }) => `${name} until ${until ?? ''}`).join(', ');
  const left = `${names}; then ${everybody(rosterAt(deployment, soon)).length} in office`;
  return [
    check(`terms.${set}`, undefined, ending.length === 0, {
      observed:
        ending.length === 0
          ? `${inOffice.length} in office, no term ends soon`
          : `${left}${then.good ? '' : `: the roster would be too small: ${then.needed}`}`,
      needed: `terms of office that last longer than ${Math.round(readiness.termWarningMs / DAY_MS)} days`,
      next: 'Elect who comes next and list them in the inventory, or prolong the term there.',
      otherwise: 'warn',
    }),
  ];
}

function everybody({ holders: asked, standBy }: RosterAt): string[] {
  return [...asked, ...standBy];
}

function gateCheck(inventory: Inventory, deployment: Deployment, gate: GateName, otherwise: 'fail' | 'warn'): Check {
  const policy = deployment.gates[gate];
  const members = approversOf(inventory, deployment, gate);
  const names = members.map(({ name }) => name);
  const blocked = names.filter((name) => !canBeMet(policy, members, name));
  // Somebody must be left who may ask.
  const mayAsk = [...inventory.people.keys()].some((name) => !blocked.includes(name));
  const canBe = canBeMet(policy, members, undefined);
  const reason = canBe && blocked.length > 0 ? `; it cannot be met where ${blocked.join(' or ')} asks` : '';
  return check(`gate.${gate}`, undefined, canBe && mayAsk, {
    observed: `${names.length} may approve: ${names.join(', ') || 'nobody'}${reason}`,
    needed: `${policy.approvals} of ${policy.groups.join(' and ')}${policy.excludeRequester ? ', without the one who asks' : ''}`,
    next: `Put more people into the groups of gate ${gate}, or change its policy.`,
    otherwise,
  });
}

/** Whether the gate opens when everybody who may approve does; `requester` is undefined for one who may approve nothing. */
function canBeMet(policy: GatePolicy, members: readonly Person[], requester: string | undefined): boolean {
  const approvals = members.map(({ name, groups }) => ({ name, groups, verdict: 'approve' as const }));
  return evaluateGate(policy, requester, approvals).satisfied;
}

/** A claim is a name that anybody may use. */
function attestations(inventory: Inventory, deployment: Deployment): Judged[] {
  const groups = new Set(GATES.flatMap(([gate]) => deployment.gates[gate].groups));
  const about = {
    holders: holdersOf(inventory, deployment),
    approvers: [...inventory.people.values()].filter((person) => person.groups.some((group) => groups.has(group))),
  };
  return Object.entries(about).map(([who, people]) => {
    const claimed = people.filter(({ attestation }) => attestation === 'claimed').map(({ name }) => name);
    const laboratory = deployment.laboratory ? '; this is a laboratory' : '';
    return check(`${who}-proven`, undefined, claimed.length === 0 || deployment.laboratory, {
      observed: claimed.length === 0 ? `all ${people.length}` : `only claimed: ${claimed.join(', ')}${laboratory}`,
      needed: `${who} sign with a key, or are known by the server's principal`,
      next: 'Each runs `runbook join` with a line of yours; `runbook inventory add-person` lists what it prints.',
      otherwise: 'warn',
    });
  });
}

/** Whether every holder and stand-by holder has gone the whole way not long ago, with the keys that count now. */
export async function rehearsalChecks({ deployment, execution, now }: ReadinessContext): Promise<Judged[]> {
  const { inventory, signingKey, records, signal } = execution;
  const facts = { people: inventory.people, workers: signingKey.kid };
  return readChecks(signal, { name: 'rehearsed', needed: 'the rehearsals in the record' }, async () => {
    const successes = await rehearsals.all(records, deployment.name);
    const declines = await declinedRehearsals.all(records, deployment.name);
    return rehearsingPeople(deployment, now).map(({ name, standBy }) => {
      const last = { success: successes.get(name), declined: declines.get(name), standBy };
      return judgeRehearsal(deployment, facts, name, last, now);
    });
  });
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
  { name: deployment, ceremony: { tokenSource }, laboratory, readiness }: Deployment,
  facts: RehearsalFacts,
  name: string,
  { success, declined, standBy }: Rehearsed,
  now: number,
): Check {
  const who = standBy ? ' (stand-by)' : '';
  const needed = `a rehearsal at most ${Math.round(readiness.rehearsalAgeMs / DAY_MS)} days ago`;
  const rehearsed = (good: boolean, observed: string) => {
    const input = JSON.stringify({ deployment, holders: [name], reason: 'WHY' });
    const next = `Rehearse: \`runbook start ceremonyRehearsal --input '${input}'\``;
    return check(`rehearsed.${name}`, undefined, good, { observed, needed, next, otherwise: 'warn' });
  };
  if (tokenSource === 'batch' || tokenSource === 'provided')
    return rehearsed(true, `none needed${who}: the token source is ${tokenSource}`);
  const last = success === undefined ? 'never' : inWords(success, now);
  const observed = `${last}${who}${declinedSince(success, declined)}`;
  if (laboratory) return rehearsed(true, `${observed}; this is a laboratory`);
  if (success === undefined) return rehearsed(false, observed);
  const reason = whatChanged(success, facts);
  const recent = now - Date.parse(success.at) <= readiness.rehearsalAgeMs;
  return rehearsed(reason === undefined && recent, reason === undefined ? observed : `${observed}; ${reason}`);
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
