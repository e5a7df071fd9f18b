/** Which documents the mailbox passes on. It verifies them to keep rubbish out of histories; the run's activities decide. */
import { z } from 'zod';
import { plainSecretIn } from '../../contracts/plain-shares';
import { approvalPayload, controlPayload, decisionPayload } from '../../contracts/payloads';
import { jsonIn } from '../../contracts/words';
import {
  claimedHeader,
  claimedPayload,
  DOCUMENT_TYPES,
  SIGNED_DOCUMENT,
  verifyDocument,
} from '../../documents/documents';
import type { DocumentType } from '../../documents/documents';
import { envelopePayload, tokenEnvelopePayload } from '../../documents/envelope';
import { RunbookError } from '../../errors';
import type { Inventory } from '../../inventory';
import { keyOfPerson } from '../../keys/people';
import type { RunId } from './runs';

/** What may be sent to a run, each with the types of its document. */
const STATEMENTS = {
  approve: { typ: DOCUMENT_TYPES.approval, members: approvalPayload },
  decide: { typ: DOCUMENT_TYPES.decision, members: decisionPayload },
  pause: { typ: DOCUMENT_TYPES.control, members: controlPayload },
  resume: { typ: DOCUMENT_TYPES.control, members: controlPayload },
  abort: { typ: DOCUMENT_TYPES.control, members: controlPayload },
} as const;
const ENVELOPES: Readonly<Partial<Record<string, z.ZodType<{ readonly holder: string }>>>> = {
  [DOCUMENT_TYPES.share]: envelopePayload,
  [DOCUMENT_TYPES.rehearsalShare]: envelopePayload,
  [DOCUMENT_TYPES.token]: tokenEnvelopePayload,
};

/** The signals that the mailbox sends. A take-over is not among them: it begins a failover. */
export const PASSED = [...(Object.keys(STATEMENTS) as (keyof typeof STATEMENTS)[]), 'share'] as const;
export type PassedSignal = (typeof PASSED)[number];

const sentBody = z.strictObject({ document: z.string().regex(SIGNED_DOCUMENT) });

/** A document that may be sent. */
export interface Passing {
  /** The signal's input. */
  readonly input: { readonly document: string };
  readonly digest: string;
  /** Who signed it. A share may be passed on by somebody else: it is sealed and signed. */
  readonly signer: string;
}

interface Addressed extends Required<RunId> {
  readonly namespace: string;
  /** Name of the person who sends it. */
  readonly sender: string;
}

/**
 * Verifies the document in a body, and that it is for this run.
 *
 * @throws RunbookError; its text quotes nothing from the document
 */
export async function passable(
  signal: PassedSignal,
  body: Uint8Array,
  to: Addressed,
  people: Inventory['people'],
): Promise<Passing> {
  const { data: input } = sentBody.safeParse(jsonIn(Buffer.from(body).toString('utf8')));
  if (input === undefined)
    throw refused('The body is not one signed document.', { needed: 'the JSON object {"document": "eyJ..."}, signed' });
  return signal === 'share' ? passableEnvelope(input, people) : passableStatement(signal, input, to, people);
}

type Input = Passing['input'];

async function passableEnvelope(input: Input, people: Inventory['people']): Promise<Passing> {
  const typ = claimedHeader(input.document).typ ?? '';
  const members = Object.hasOwn(ENVELOPES, typ) ? ENVELOPES[typ] : undefined;
  if (members === undefined) throw refused('The document is not an envelope made by `runbook share` or the page.');
  const holder = members.safeParse(claimedPayload(input.document)).data?.holder;
  // An entry of ENVELOPES.
  const { payload, digest } = await verified(input, typ as DocumentType, holder, people);
  if (!members.safeParse(payload).success) throw refused('The envelope does not have the required members.');
  return { input, digest, signer: holder ?? '' };
}

async function passableStatement(
  signal: Exclude<PassedSignal, 'share'>,
  input: Input,
  { namespace, workflowId, runId, sender }: Addressed,
  people: Inventory['people'],
): Promise<Passing> {
  const { typ, members } = STATEMENTS[signal];
  const { payload, digest } = await verified(input, typ, sender, people);
  const parsed = members.safeParse(payload);
  if (!parsed.success) throw refused('The document does not have the required members.');
  const { data } = parsed;
  if (data.name !== sender)
    throw new RunbookError('REQUEST_REFUSED', 'The document names another person than the one who sends it.', {
      ...{ httpStatus: 403, needed: 'a document of your own' },
      next: 'Each person sends their own documents, with their own key.',
    });
  if (data.ns !== namespace || data.wid !== workflowId || data.rid !== runId)
    throw refused('The document is for another run than the one that it is sent to.', {
      next: 'Read what waits for you again. If this happens again, call the operators at a number that you know.',
    });
  if ('action' in data && typ === DOCUMENT_TYPES.control && data.action !== signal)
    throw refused('The document orders something else than the address says.');
  if (plainSecretIn(data))
    throw new RunbookError('PLAIN_TEXT_SHARE', 'This seems to contain a key share or a token in plain text.', {
      httpStatus: 400,
      next: 'Nothing was recorded. Give key shares and tokens only with `runbook share`, `runbook provide-token` or the page.',
    });
  return { input, digest, signer: sender };
}

async function verified(input: Input, typ: DocumentType, name: string | undefined, people: Inventory['people']) {
  const person = name === undefined ? undefined : people.get(name);
  if (person?.attestation === 'principal')
    throw new RunbookError('REQUEST_REFUSED', 'Your documents count only if Temporal recorded you as their sender.', {
      ...{ httpStatus: 403, observed: 'attestation: principal' },
      needed: 'attestation: signed',
      next: 'Send it with your own login to Temporal, or ask the operators to change your attestation in the inventory.',
    });
  try {
    return await verifyDocument(input.document, typ, (kid) => keyOfPerson(person, kid));
  } catch (error) {
    throw refused(error instanceof RunbookError ? error.message : 'The document cannot be verified.');
  }
}

function refused(message: string, more: Partial<Record<'needed' | 'next', string>> = {}): RunbookError {
  const next = 'Nothing was sent. Make the document again with `runbook` or the page.';
  return new RunbookError('DOCUMENT_INVALID', message, { httpStatus: 400, next, ...more });
}
