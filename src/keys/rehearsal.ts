import { randomUUID } from 'node:crypto';
import type { EnvelopeReceipt } from '../contracts/receipts';
import type { Attestation } from '../contracts/run-facts';
import { unwrapDocument } from '../contracts/signals';
import { RunbookError, isRunbookError } from '../errors';
import { claimedHeader } from '../documents/documents';
import { SHARE_CONTEXT } from '../documents/envelope';
import { readRehearsal, rehearsalPayload, rehearsalPlaintext } from '../documents/rehearsal';
import type { Rehearsal } from '../documents/rehearsal';
import { createCeremonyKeys } from './ceremony-keys';
import { DOCUMENT_TYPES, documentDigest, signDocument } from './documents';
import { examineEnvelope, receiptOf } from './envelope';
import type { Arrival } from './envelope';
import type { KeyRecord, KeyRecords } from './key-records';
import { contextOf, decryptEnvelope } from './opening';
import type { PersonLookup } from './people';
import type { RunContext } from './sealing';
import type { PublicKeyEntry, SigningKey } from './signing-keys';

export { claimsRehearsal, createRehearsalEnvelope, verifyRehearsal } from '../documents/rehearsal';
export type { Rehearsal } from '../documents/rehearsal';

/** How long the key outlives the collecting, so that an answer of the last second can still be opened. */
const GRACE_SECONDS = 120;

/** What the invitation to a rehearsal is made of. The activity reads it from the inventory; nothing here is a key. */
interface RehearsalFacts extends Pick<Rehearsal, 'deployment' | 'requestedBy' | 'reason' | 'runbook'> {
  readonly inputDigest: string;
  readonly holders: readonly string[];
  readonly epoch: number;
  readonly cid?: string;
  readonly collectForMs: number;
}

/** A signed invitation to a rehearsal and where its key is. */
export interface CreatedRehearsal {
  readonly jws: string;
  readonly digest: string;
  readonly rehearsal: Rehearsal;
  readonly keyHome: string;
}

/**
 * Makes the keys of one epoch of a rehearsal, signs the invitation and stores the record. Called again by the same run
 * for the same epoch and people (a retry after a lost answer) it returns the invitation that exists.
 *
 * @param run the activity's own run, never from input.
 * @throws RunbookError `DOCUMENT_INVALID` where the invitation would be larger than 16 KiB; `STATE_DIVERGED` where the
 * epoch exists for other people.
 */
export async function createRehearsal(
  records: KeyRecords,
  signingKey: SigningKey,
  run: RunContext,
  facts: RehearsalFacts,
  now = Date.now(),
): Promise<CreatedRehearsal> {
  const existing = await findExisting(records, signingKey, run, facts, now);
  if (existing !== undefined) return existing;

  await records.demandRoom(run, now);
  const keys = await createCeremonyKeys();
  const iat = Math.floor(now / 1000);
  const { ns, wid, rid } = run;
  const { epoch, deployment, requestedBy, reason, runbook, inputDigest } = facts;
  const rehearsal = rehearsalPayload.parse({
    cid: facts.cid ?? randomUUID(),
    ...{ epoch, ns, wid, rid, deployment, requestedBy, reason, runbook, inputDigest },
    holders: [...facts.holders],
    recipient: keys.recipient,
    pgp: keys.pgpFingerprint,
    erasure: records.erasure,
    iat,
    exp: iat + Math.ceil(facts.collectForMs / 1000),
    useFor: GRACE_SECONDS,
  });
  const jws = await signDocument(DOCUMENT_TYPES.rehearsal, rehearsal, signingKey);
  const digest = documentDigest(jws);
  const { cid, holders, exp, useFor } = rehearsal;
  try {
    await records.create({
      ...{ run, cid, epoch, kind: 'rehearsal', keys, holders, exp, useFor },
      invitation: jws,
      invitationDigest: digest,
      // Nothing is made of the answers: there is no number at which they would be combined.
      threshold: holders.length,
    });
  } catch (error) {
    // An attempt that was given up for lost went on and was first: its invitation is the one of this epoch.
    const first = isRunbookError(error, 'STATE_DIVERGED')
      ? await findExisting(records, signingKey, run, facts, now)
      : undefined;
    if (first === undefined) throw error;
    return first;
  }
  return { jws, digest, rehearsal, keyHome: records.keyHome };
}

async function findExisting(
  records: KeyRecords,
  signingKey: SigningKey,
  run: RunContext,
  facts: RehearsalFacts,
  now: number,
): Promise<CreatedRehearsal | undefined> {
  for (const record of await records.ofRun(run, now)) {
    const { kind, epoch, cid, exp } = record;
    if (kind !== 'rehearsal' || epoch !== facts.epoch || cid !== (facts.cid ?? cid) || exp * 1000 <= now) continue;
    const { rehearsal, digest } = await readOwnRehearsal(record, signingKey);
    const same =
      rehearsal.deployment === facts.deployment &&
      rehearsal.reason === facts.reason &&
      rehearsal.inputDigest === facts.inputDigest &&
      rehearsal.holders.join('\n') === facts.holders.join('\n');
    if (same) return { jws: record.invitation, digest, rehearsal, keyHome: records.keyHome };
  }
  return undefined;
}

/**
 * The invitation of a rehearsal's key record, verified with the workers' own key.
 *
 * @throws RunbookError `DOCUMENT_INVALID`.
 */
export async function readOwnRehearsal(
  record: Pick<KeyRecord, 'invitation'>,
  signingKey: PublicKeyEntry,
): Promise<{ readonly rehearsal: Rehearsal; readonly digest: string }> {
  return readRehearsal(record.invitation, [{ environment: 'workers', ...signingKey }]);
}

/** What one answer to a rehearsal proves: this person's tool, key and access work. */
export interface RehearsalAnswer {
  readonly holder: string;
  readonly how: Attestation;
  /** The key with which it was signed; absent where it was not signed. */
  readonly kid?: string;
  /** What the holder's tool says of itself. */
  readonly tool: string;
}

/** What became of one envelope. */
interface OpenedAnswer {
  readonly receipt: EnvelopeReceipt;
  /** Present where the verdict is `accepted`. */
  readonly answer?: RehearsalAnswer;
}

/**
 * Checks and opens one answer, where the key is: everything that is checked of an envelope of a ceremony, with the
 * types and the context of a rehearsal. The value in it is dropped.
 *
 * @param envelope as it arrived; anything at all.
 * @throws RunbookError `DOCUMENT_INVALID` where the record is a ceremony's.
 */
export async function openRehearsalAnswer(
  record: KeyRecord,
  envelope: unknown,
  context: { readonly person: PersonLookup } & Arrival,
): Promise<OpenedAnswer> {
  if (record.kind !== 'rehearsal')
    throw new RunbookError('DOCUMENT_INVALID', 'The keys of a ceremony open no answer to a rehearsal.');
  const { cid, epoch, invitationDigest, holders, exp } = record;
  const ceremony = { cid, epoch, invitationDigest, holders, exp, envelopes: 'rehearsal' } as const;
  const inspected = await examineEnvelope(envelope, { ...context, ceremony });
  if ('refused' in inspected) return { receipt: inspected.refused };
  const { payload, person } = inspected;

  const plaintext = await decryptEnvelope(record, payload.ct);
  if (plaintext === undefined) return { receipt: receiptOf(inspected, 'does-not-open') };
  const inner = rehearsalPlaintext.safeParse(parsed(plaintext));
  if (!inner.success) {
    const verdict = contextOf(plaintext) === SHARE_CONTEXT ? 'share-in-rehearsal' : 'mismatch';
    return { receipt: receiptOf(inspected, verdict) };
  }
  const repeated = (['inv', 'cid', 'epoch', 'holder', 'seq'] as const).every(
    (member) => inner.data[member] === payload[member],
  );
  if (!repeated) return { receipt: receiptOf(inspected, 'mismatch') };
  const kid = signerOf(envelope);
  return {
    receipt: receiptOf(inspected, 'accepted'),
    answer: {
      holder: person.name,
      how: person.attestation,
      tool: inner.data.tool,
      ...(kid === undefined ? {} : { kid }),
    },
  };
}

function parsed(plaintext: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(plaintext));
  } catch {
    return undefined;
  }
}

/** The key that an envelope names, whose signature was verified before. */
function signerOf(envelope: unknown): string | undefined {
  const document = unwrapDocument(envelope);
  if (typeof document !== 'string') return undefined;
  return claimedHeader(document).kid;
}
