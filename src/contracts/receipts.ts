import { nextCommandOf, shellLine } from './next-commands';
import type { Attestation } from './run-facts';

/** What became of an envelope that a holder sent, with the text that people see. What he does next: {@link nextOfShare}. */
export const ENVELOPE_VERDICTS = {
  accepted: 'accepted',
  'too-large': 'refused: larger than 16 KiB',
  malformed: 'refused: not an envelope as `runbook share` makes it',
  'plain-text-share': 'refused: it seems to hold a key share in plain text. Treat that share as exposed',
  'wrong-ceremony': 'refused: made for another invitation',
  'wrong-epoch': 'refused: made for an earlier or later round of this ceremony',
  'not-invited': 'refused: the named holder is not invited to this ceremony',
  'not-signed': 'refused: the inventory demands a signature of this holder',
  'wrong-signer': 'refused: not sent or signed by the named holder',
  expired: 'refused: arrived after the invitation expired',
  'other-kind': 'refused: made for a run that asks for something else: a key share, a token or a rehearsal',
  'wrong-cluster': 'refused: this run asks for no operation token of that cluster',
  'not-a-token': 'refused: it holds no operation token. A key share, a batch token or another token is not taken',
  'ordinary-token':
    'refused: a primary knows this token, so it is a root token or another ordinary one, and no operation token',
  'plain-text-token': 'refused: it seems to hold a token in plain text. Treat that token as exposed',
  'does-not-open': 'refused: not encrypted to this invitation and to nothing else',
  mismatch: 'refused: the encrypted part says something else than the envelope around it',
  'wrong-length': 'refused: the key share does not have the length of a key share of this cluster',
  'same-share-as-another': 'refused: another holder already gave this key share',
  repeated: 'already received: this very envelope is in hand',
  superseded: 'replaced by a later envelope of the same holder',
  'keys-gone': 'refused: the keys of this ceremony were destroyed',
} as const;

/** A stable code for what became of an envelope. */
export type EnvelopeVerdictCode = keyof typeof ENVELOPE_VERDICTS;

/** Who sent something to which run, as far as it is known. */
export interface Sent {
  readonly workflowId: string;
  readonly holder?: string | undefined;
  readonly how?: Attestation | undefined;
  /** An operation token is asked for, in place of a key share. */
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
  'too-large': (sent) => `send the one line, whole and alone, that ${give(sent)} or the page makes`,
  malformed: (sent) => `send the one line, whole and alone, that ${give(sent)} or the page makes`,
  undecodable: (sent) => `send the one line that ${give(sent)} or the page makes, encoding json/plain`,
  'plain-text-share': () => RIGHT_ORDER,
  'wrong-ceremony': giveOrPage,
  'wrong-epoch': giveOrPage,
  'not-invited': (sent) =>
    `${status(sent)} shows who is asked: give your name exactly so; not in it, you are not asked`,
  'not-signed': (sent) => `${giveSigned(sent)}, or the page with your key under "I have a signing key"`,
  'wrong-signer': (sent) =>
    sent.how === 'principal'
      ? `send it yourself, with your own login to Temporal: ${give(sent)}; that was yours: the operators correct your principal in the inventory`
      : `sign with the key whose public line the inventory lists for you: ${giveSigned(sent)}`,
  expired: (sent) => `${status(sent)} shows whether the holders are asked anew; then ${give(sent)}`,
  'other-kind': (sent) => `${status(sent)} shows what this run asks for; give that: ${giveOrPage(sent)}`,
  'wrong-cluster': (sent) => `${status(sent)} shows of which cluster; then ${give(sent)}`,
  'not-a-token': (sent) => `keep key shares to yourself; with the decoded operation token ${give(sent)}`,
  'ordinary-token': (sent) =>
    `revoke it where nobody needs it; with the operation token, generated on the DR secondary, ${give(sent)}`,
  'plain-text-token': () =>
    'end that token now (operation-token/delete on its cluster, any other by revoking it), then call the operators: they finish this run, then delete it and its resets, exports and backups',
  'does-not-open': giveOrPage,
  mismatch: giveOrPage,
  'wrong-length': (sent) => `look whether your key share is complete and of this cluster, then ${giveOrPage(sent)}`,
  'same-share-as-another': (sent) =>
    `find out by voice which of you holds which share, without saying one; whoever mistook it: ${giveOrPage(sent)}`,
  repeated: () => 'nothing is left to do for you',
  superseded: () => 'nothing is left to do for you',
  'keys-gone': (sent) => `when you are asked anew: ${giveOrPage(sent)}`,
  'no-ceremony': (sent) => `nothing is asked of you now; ${status(sent)} shows what the run waits for`,
  'not-checked': giveOrPage,
};

/** What the sender of an envelope does next, in one sentence without its end; undefined where it counts. */
export function nextOfShare(verdict: string, sent: Sent): string | undefined {
  return verdict in NEXT_OF_SHARE ? NEXT_OF_SHARE[verdict as keyof typeof NEXT_OF_SHARE](sent) : undefined;
}

/** A refusal with what its sender does next. */
export function withNext(text: string, next: string | undefined): string {
  return next === undefined ? text : `${text.replace(/\.$/, '')}. Next: ${next}`;
}

/** All that may be said of an envelope outside the process that checked it. */
export interface EnvelopeReceipt {
  /** Name from the inventory; missing where what arrived names nobody whom the inventory knows. */
  readonly holder?: string;
  /** The envelope's sequence number; missing where it could not be read. */
  readonly seq?: number;
  /** Base64url SHA-256 of the envelope; empty where what arrived is no envelope. */
  readonly envelopeDigest: string;
  readonly verdict: EnvelopeVerdictCode;
}
