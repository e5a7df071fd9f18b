import { nextCommandOf, shellLine } from './next-commands';
import type { Attestation } from './run-facts';

/** The verdicts on an envelope that a holder sent, with the text that people see. What the holder does next: {@link nextOfShare}. */
export const ENVELOPE_VERDICTS = {
  accepted: 'accepted',
  'too-large': 'refused: larger than 16 KiB',
  malformed: 'refused: not an envelope made by `runbook share`',
  'plain-text-share': 'refused: it seems to contain a key share in plain text. Treat that share as exposed',
  'wrong-ceremony': 'refused: made for another invitation',
  'wrong-epoch': 'refused: made for an earlier or later round of this ceremony',
  'not-invited': 'refused: the named holder is not invited to this ceremony',
  'not-signed': 'refused: the inventory requires a signature from this holder',
  'wrong-signer': 'refused: not sent or signed by the named holder',
  expired: 'refused: arrived after the invitation expired',
  'other-kind': 'refused: made for a run that asks for something else: a key share, a token or a rehearsal',
  'wrong-cluster': 'refused: this run does not ask for an operation token of that cluster',
  'not-a-token':
    'refused: it contains no operation token. A key share, a batch token or any other token is not accepted',
  'plain-text-token': 'refused: it seems to contain a token in plain text. Treat that token as exposed',
  'does-not-open': 'refused: not encrypted to this invitation alone',
  mismatch: 'refused: the encrypted part contradicts the envelope around it',
  'wrong-length': 'refused: the key share does not have the length of a key share of this cluster',
  'same-share-as-another': 'refused: another holder already gave this key share',
  repeated: 'already received: the run has this envelope',
  superseded: 'replaced by a later envelope from the same holder',
  'keys-gone': 'refused: the keys of this ceremony were destroyed',
} as const;

/** A stable code for the verdict on an envelope. */
export type EnvelopeVerdictCode = keyof typeof ENVELOPE_VERDICTS;

/** The sender of something and the run that it was sent to, as far as known. */
export interface Sent {
  readonly workflowId: string;
  readonly holder?: string | undefined;
  readonly how?: Attestation | undefined;
  /** The run asks for an operation token instead of a key share. */
  readonly gives?: 'token' | undefined;
}

const RIGHT_ORDER =
  'call the operators now: they finish this run, rekey, then delete it and its resets, exports and backups';

const code = (command: string): string => `\`${command}\``;
const command = ({ workflowId, holder, gives }: Sent): string =>
  gives === 'token' ? nextCommandOf.provideToken(workflowId, holder) : nextCommandOf.share(workflowId, holder);
const give = (sent: Sent): string => code(command(sent));
const giveOrPage = (sent: Sent): string =>
  sent.gives === 'token' ? give(sent) : `${give(sent)}, or the page with the current invitation`;
const giveSigned = (sent: Sent): string => code(`${command(sent)} --key-file YOUR-KEY-FILE`);
const status = ({ workflowId }: Sent): string => code(shellLine('runbook', 'status', workflowId));

const NEXT_OF_SHARE: Readonly<
  Record<
    Exclude<EnvelopeVerdictCode, 'accepted'> | 'undecodable' | 'no-ceremony' | 'not-checked',
    (sent: Sent) => string
  >
> = {
  'too-large': (sent) => `send the complete line, and nothing else, that ${give(sent)} or the page makes`,
  malformed: (sent) => `send the complete line, and nothing else, that ${give(sent)} or the page makes`,
  undecodable: (sent) => `send the one line that ${give(sent)} or the page makes, encoding json/plain`,
  'plain-text-share': () => RIGHT_ORDER,
  'wrong-ceremony': giveOrPage,
  'wrong-epoch': giveOrPage,
  'not-invited': (sent) =>
    `${status(sent)} shows who is asked: give your name exactly as it is there; if it is not there, you are not asked`,
  'not-signed': (sent) => `${giveSigned(sent)}, or the page with your key under "I have a signing key"`,
  'wrong-signer': (sent) =>
    sent.how === 'principal'
      ? `send it yourself, with your own login to Temporal: ${give(sent)}; if that was your login, ask the operators to correct your principal in the inventory`
      : `sign with the key whose public line the inventory lists for you: ${giveSigned(sent)}`,
  expired: (sent) => `${status(sent)} shows whether the holders are asked again; then ${give(sent)}`,
  'other-kind': (sent) => `${status(sent)} shows what this run asks for; give that: ${giveOrPage(sent)}`,
  'wrong-cluster': (sent) => `${status(sent)} shows which cluster's token is needed; then ${give(sent)}`,
  'not-a-token': (sent) => `keep key shares to yourself; give the decoded operation token: ${give(sent)}`,
  'plain-text-token': () =>
    'end that token now (operation-token/delete on its cluster, any other by revoking it), then call the operators: they finish this run, then delete it and its resets, exports and backups',
  'does-not-open': giveOrPage,
  mismatch: giveOrPage,
  'wrong-length': (sent) =>
    `check that your key share is complete and belongs to this cluster, then ${giveOrPage(sent)}`,
  'same-share-as-another': (sent) =>
    `find out by voice which of you holds which share, without reading one out; the holder who mixed them up: ${giveOrPage(sent)}`,
  repeated: () => 'you have nothing left to do',
  superseded: () => 'you have nothing left to do',
  'keys-gone': (sent) => `when you are asked again: ${giveOrPage(sent)}`,
  'no-ceremony': (sent) => `nothing is asked of you now; ${status(sent)} shows what the run waits for`,
  'not-checked': giveOrPage,
};

/** What the sender of an envelope does next, as one sentence without its period; undefined if the envelope counts. */
export function nextOfShare(verdict: string, sent: Sent): string | undefined {
  return verdict in NEXT_OF_SHARE ? NEXT_OF_SHARE[verdict as keyof typeof NEXT_OF_SHARE](sent) : undefined;
}

/** A refusal, with what its sender does next. */
export function withNext(text: string, next: string | undefined): string {
  return next === undefined ? text : `${text.replace(/\.$/, '')}. Next: ${next}`;
}

/** Everything that may be reported about an envelope outside the process that checked it. */
export interface EnvelopeReceipt {
  /** Name from the inventory; absent if what arrived names nobody in the inventory. */
  readonly holder?: string;
  /** The envelope's sequence number; absent if it could not be read. */
  readonly seq?: number;
  /** Base64url SHA-256 of the envelope; empty if what arrived is not an envelope. */
  readonly envelopeDigest: string;
  readonly verdict: EnvelopeVerdictCode;
}
