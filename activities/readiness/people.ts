import type { Check, GateName } from '../../src/contracts/plan';
import type { Deployment, Inventory } from '../../src/inventory';
import { approversOf } from '../../src/inventory';
import { evaluateGate } from '../../src/keys';
import type { RehearsalRecord } from '../ceremony/rehearsal';
import { rehearsals } from '../ceremony/rehearsal';
import { judgeRoster, rosterOfRehearsal } from '../ceremony/ceremony-roster';
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

/** Holders for the threshold, and approvers for each gate. Pure. */
export function peopleChecks(inventory: Inventory, { deployment, sets }: Topology): Judged[] {
  return [
    ...sets.flatMap((set) => {
      const thresholds = set.secondaries.flatMap(({ observation }) => observation.attempt?.required ?? []);
      const needed = thresholds.length === 0 ? undefined : Math.max(...thresholds);
      return holders(deployment, set, needed);
    }),
    ...GATES.map(([gate, about, otherwise]) => ({ ...gateCheck(inventory, deployment, gate, otherwise), about })),
  ];
}

/** Whether those who have joined suffice for the threshold, and whether one of them may be missing. */
function holders(deployment: Deployment, { name: set }: DrSet, threshold: number | undefined): Judged {
  const { names, good, observed, needed: least, next } = judgeRoster(deployment, threshold);
  const name = `holders.${set}`;
  const needed = `as many holders as the service requires key shares (${least}), and one more`;
  if (deployment.ceremony.tokenSource === 'batch')
    return check(name, undefined, true, { observed: `${observed}; none needed: the token source is batch`, needed });
  if (threshold === undefined) return unread({ name, needed }, 'no DR secondary tells its threshold');
  return check(name, undefined, names.length > threshold, {
    observed: names.length === threshold ? `${observed}: all of them must be there, at any hour` : observed,
    ...{ needed, next },
    otherwise: good ? 'warn' : 'fail',
  });
}

/** Whether the gate opens when everybody who may approve does, and somebody is left who may ask. */
function gateCheck(inventory: Inventory, deployment: Deployment, gate: GateName, otherwise: 'fail' | 'warn'): Check {
  const policy = deployment.gates[gate];
  const members = approversOf(inventory, deployment, gate);
  const names = members.map(({ name }) => name);
  const approvals = members.map(({ name, groups }) => ({ name, groups, verdict: 'approve' as const }));
  const canBeMet = (requester?: string) => evaluateGate(policy, requester, approvals).satisfied;
  const blocked = names.filter((name) => !canBeMet(name));
  const mayAsk = [...inventory.people.keys()].some((name) => !blocked.includes(name));
  const reason = canBeMet() && blocked.length > 0 ? `; it cannot be met where ${blocked.join(' or ')} asks` : '';
  return check(`gate.${gate}`, undefined, canBeMet() && mayAsk, {
    observed: `${names.length} may approve: ${names.join(', ') || 'nobody'}${reason}`,
    needed: `${policy.approvals} of ${policy.groups.join(' and ')}${policy.excludeRequester ? ', without the one who asks' : ''}`,
    next: `Put more people into the groups of gate ${gate}, or change its policy.`,
    otherwise,
  });
}

/** Whether every holder and stand-by holder has gone the whole way not long ago, with the keys that count now. */
export async function rehearsalChecks({ deployment, execution, now }: ReadinessContext): Promise<Judged[]> {
  const { inventory, signingKey, records, signal } = execution;
  const facts = { people: inventory.people, workers: signingKey.kid };
  return readChecks(signal, { name: 'rehearsed', needed: 'the rehearsals in the record' }, async () => {
    const last = await rehearsals.all(records, deployment.name);
    return rosterOfRehearsal(deployment).map(({ name, standBy }) =>
      judgeRehearsal(deployment, facts, name, last.get(name), standBy, now),
    );
  });
}

/** What the workers know of themselves and of their people. */
interface RehearsalFacts {
  readonly people: Inventory['people'];
  /** Thumbprint of the key with which the workers sign invitations. */
  readonly workers: string;
}

/** Pure. */
export function judgeRehearsal(
  { name: deployment, ceremony: { tokenSource }, laboratory, readiness }: Deployment,
  facts: RehearsalFacts,
  name: string,
  success: RehearsalRecord | undefined,
  standBy: boolean,
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
  const observed = `${success === undefined ? 'never' : inWords(success, now)}${who}`;
  if (laboratory) return rehearsed(true, `${observed}; this is a laboratory`);
  if (success === undefined) return rehearsed(false, observed);
  const reason = whatChanged(success, facts);
  const recent = now - Date.parse(success.at) <= readiness.rehearsalAgeMs;
  return rehearsed(reason === undefined && recent, reason === undefined ? observed : `${observed}; ${reason}`);
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
