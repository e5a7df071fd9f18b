import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { Deployment, Inventory } from '../../src/inventory';
import { rehearsingPeople } from '../ceremony/ceremony-roster';
import { lastRehearsals } from '../ceremony/rehearsal-records';
import type { DeclinedRehearsal, RehearsalRecord } from '../ceremony/rehearsal-records';
import type { Look } from './look';
import { inspect } from './look';
import { holds, judged } from './point';
import type { Question } from './point';
import { escapeUntrusted } from '../../src/contracts/words';

const DAY_MS = 86_400_000;

/** What the workers know of themselves and of their people. */
interface RehearsalFacts {
  readonly people: Inventory['people'];
  /** Thumbprint of the key with which the workers sign invitations. */
  readonly workers: string;
}

/** Whether every holder and stand-by holder has gone the whole way not long ago, with the keys that count now. */
export function rehearsals(look: Look, deployment: Deployment): Promise<ReadinessPoint[]> {
  const { inventory, signingKey, records } = look.dependencies;
  const facts = { people: inventory.people, workers: signingKey.kid };
  const questions = rehearsingPeople(deployment, look.now).map(({ name }) => questionOf(deployment, name));
  return inspect(
    look,
    questions,
    async () => ({
      successes: await lastRehearsals(records, 'rehearsed', deployment.name),
      declines: await lastRehearsals(records, 'declined', deployment.name),
    }),
    ({ successes, declines }) => judgeRehearsals(deployment, facts, successes, look.now, declines),
  );
}

function questionOf({ name: deployment, readiness }: Deployment, holder: string): Question {
  const input = JSON.stringify({ deployment, holders: [holder], reason: 'WHY' });
  return {
    id: `rehearsed.${holder}`,
    source: 'worker',
    needed: `a rehearsal at most ${Math.round(readiness.rehearsalAgeMs / DAY_MS)} days ago`,
    next: `Rehearse: \`runbook start ceremonyRehearsal --input '${input}'\``,
  };
}

/** One point for each person on the roster. Pure. */
export function judgeRehearsals(
  deployment: Deployment,
  facts: RehearsalFacts,
  successes: ReadonlyMap<string, RehearsalRecord>,
  now: number,
  declines: ReadonlyMap<string, DeclinedRehearsal> = new Map(),
): ReadinessPoint[] {
  return rehearsingPeople(deployment, now).flatMap(({ name, standBy }) => {
    const question = questionOf(deployment, name);
    const who = standBy ? ' (stand-by)' : '';
    const { tokenSource } = deployment.ceremony;
    if (tokenSource === 'batch' || tokenSource === 'provided')
      return judged(question, 'ok', `none needed${who}: the token source is ${tokenSource}`);
    const success = successes.get(name);
    const observed = `${success === undefined ? 'never' : inWords(success, now)}${who}${declinedSince(success, declines.get(name))}`;
    if (deployment.laboratory) return judged(question, 'ok', `${observed}; this is a laboratory`);
    if (success === undefined) return judged(question, 'warn', observed);
    const reason = whatChanged(success, facts);
    const age = now - Date.parse(success.at);
    return holds(question, reason === undefined && age <= deployment.readiness.rehearsalAgeMs, 'warn', observed, {
      reason,
    });
  });
}

/** Who said that he cannot answer did not forget: the operators see why. */
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
