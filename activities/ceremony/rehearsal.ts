import { z } from 'zod';
import type { CeremonyHandle, EnvelopeVerdict } from '../../src/contracts/ceremony';
import { duration } from '../../src/inventory/schema-values';
import { createInvitation, openRehearsalAnswer, readOwnInvitation } from '../../src/keys';
import type { RehearsalAnswer } from '../../src/keys';
import { ArrivedSignals } from '../approvals/arrived-signals';
import { currentExecution } from '../execution';
import { siteFacts } from '../approvals/planning';
import type { Records } from '../record';
import { RecordTable } from '../record-table';
import { handleOf, rosterOfRehearsal, signersAmong } from './ceremony';
import { verdictOf } from './shares';
import type { Collecting } from './shares';

const RUNBOOK = 'ceremonyRehearsal';

/* A rehearsal follows a ceremony up to the token generation, which it omits: nothing here calls the service. */

/** A person who is asked to rehearse. */
export type RehearsingPerson = Awaited<ReturnType<typeof assessRehearsal>>['people'][number];
/** What an accepted answer proves. */
export type RehearsalProof = Pick<RehearsalAnswer, 'how' | 'tool'> & {
  readonly name: string;
  /** ISO time of the signal's event. */
  readonly at: string;
};

/** Finds who is asked: all holders and stand-by holders, or those who are named. */
export async function assessRehearsal(input: {
  readonly deployment: string;
  readonly holders?: readonly string[] | undefined;
}) {
  const { clusters, records } = currentExecution();
  const roster = rosterOfRehearsal(clusters.deployment(input.deployment), input.holders);
  const known = await rehearsals.all(records, input.deployment);
  const people = roster.map(({ name, standBy }) => {
    /** ISO time of the last success that this site knows of. */
    const before = known.get(name)?.at;
    return { name, standBy, ...(before !== undefined && { before }) };
  });
  return { site: await siteFacts(input.deployment), people };
}

/** Creates the rehearsal's key and its signed invitation. `threshold` of the handle is the number of people invited. */
export async function createRehearsal(input: {
  readonly deployment: string;
  readonly holders: readonly string[];
  readonly reason: string;
  readonly requestedBy: string;
  /** A duration such as `2d`. */
  readonly collectFor: string;
  readonly epoch: number;
  readonly cid: string;
  readonly inputDigest: string;
}): Promise<CeremonyHandle> {
  const { run, clusters, inventory, keyRecords, signingKey } = currentExecution();
  const { deployment, reason, epoch, cid, inputDigest } = input;
  const roster = rosterOfRehearsal(clusters.deployment(deployment), input.holders);
  const holders = roster.map(({ name }) => name);
  const created = await createInvitation(keyRecords, signingKey, run, 'rehearsal', {
    ...{ deployment, reason, epoch, cid, inputDigest, runbook: RUNBOOK },
    requestedBy: { name: input.requestedBy, how: 'claimed' },
    ...{ holders, ...signersAmong(inventory, holders) },
    collectForMs: duration.parse(input.collectFor).ms,
  });
  return handleOf(created, created.invitation.holders.length);
}

/** Checks and opens the answers. Each success is in the record before this returns. */
export async function openRehearsal(input: Collecting) {
  const { run, inventory, keyRecords, signingKey, records } = currentExecution();
  const { cid, epoch } = input.ceremony;
  const record = await keyRecords.read({ run, cid, epoch });
  const { invitation } = await readOwnInvitation(record, signingKey, 'rehearsal');
  const { deployment } = invitation;
  const verdicts: EnvelopeVerdict[] = [];
  const proofs: RehearsalProof[] = [];
  for (const signal of await new ArrivedSignals().of('share', input.arrived)) {
    const { receipt, answer } = await openRehearsalAnswer(record, signal, inventory.people);
    const seen = verdictOf(inventory.people, signal, receipt);
    const verdict = seen.code === 'accepted' ? { ...seen, text: 'rehearsed: tool, key and access work' } : seen;
    if (answer) {
      const { holder, how, kid, tool } = answer;
      const at = new Date(signal.at).toISOString();
      const facts = { deployment, holder, at, how, kid, tool, workers: signingKey.kid };
      await keepRehearsal(records, { version: 1, ...facts, wid: run.wid, rid: run.rid });
      proofs.push({ name: holder, how, tool, at });
    }
    verdicts.push(verdict);
  }
  return { verdicts, proofs };
}

/** A person's last successful rehearsal. */
const rehearsalRecord = z.strictObject({
  version: z.literal(1),
  deployment: z.string().regex(/^[a-z0-9-]+$/),
  holder: z.string().regex(/^[a-z0-9-]+$/),
  /** Time of the signal's event. */
  at: z.iso.datetime(),
  how: z.enum(['signed', 'principal', 'claimed']),
  wid: z.string(),
  rid: z.string(),
  /** The person's key, if the answer was signed. */
  kid: z.string().optional(),
  tool: z.string(),
  /** The workers' key that signed the invitation; the person has pinned it. */
  workers: z.string(),
});
export type RehearsalRecord = z.infer<typeof rehearsalRecord>;
/** By person. */
export const rehearsals = new RecordTable('rehearsed', rehearsalRecord);

/**
 * Records a person's last successful rehearsal, unless a newer one is known.
 *
 * @throws ZodError if it is not a valid record; nothing is written then
 */
export async function keepRehearsal(records: Records, last: RehearsalRecord): Promise<void> {
  await rehearsals.put(records, last.deployment, last.holder, last, (now) => now === undefined || now.at < last.at);
}
