import { askedInWords } from '../contracts/asked';
import { RunbookError } from '../errors';
import type { Secret } from '../secret';
import { createEnvelope, createTokenEnvelope } from './envelope';
import type { EnvelopePayload, TokenEnvelopePayload } from './envelope';
import { verifyInvitation } from './invitation';
import type { Invitation, VerifiedInvitation } from './invitation';
import { plainFacts, plainRehearsalFacts } from './plain-words';
import type { PlainFact } from './plain-words';
import { claimsRehearsal, createRehearsalEnvelope, verifyRehearsal } from './rehearsal';
import type { Rehearsal, VerifiedRehearsal } from './rehearsal';
import type { HolderChecks } from './signed-invitation';
import type { SigningKey } from './signing-keys';
import { said } from './words';

/** What a holder is asked for, verified: his key share in a ceremony, or an answer to a rehearsal of one. */
export type Asked =
  ({ readonly kind: 'ceremony' } & VerifiedInvitation) | ({ readonly kind: 'rehearsal' } & VerifiedRehearsal);

/**
 * What a holder's tool checks before it asks for anything. What the document says of itself only chooses the check: each
 * refuses the other kind.
 *
 * @throws RunbookError `DOCUMENT_INVALID` with a text for the holder.
 */
export async function verifyAsked(jws: string, checks: HolderChecks): Promise<Asked> {
  return claimsRehearsal(jws)
    ? { kind: 'rehearsal', ...(await verifyRehearsal(jws, checks)) }
    : { kind: 'ceremony', ...(await verifyInvitation(jws, checks)) };
}

/** What both kinds of invitation say. */
export function askedMembers(asked: Asked): Pick<Invitation & Rehearsal, keyof Invitation & keyof Rehearsal> {
  return asked.kind === 'rehearsal' ? asked.rehearsal : asked.invitation;
}

/** The run takes operation tokens that people generated themselves, and no key share. */
export function asksForToken(asked: Asked): boolean {
  return asked.kind === 'ceremony' && asked.invitation.collects === 'tokens';
}

/** Every member in plain words, in the order in which a holder should read them. Nothing in them makes a line of its own. */
export function askedFacts(asked: Asked, now: number): PlainFact[] {
  const facts = asked.kind === 'rehearsal' ? plainRehearsalFacts(asked, now) : plainFacts(asked, now);
  return facts.map((fact) => ({ ...fact, lines: fact.lines.map(said) }));
}

/** What is asked, by whom and why, in a line each, as the run's own status says it: what a holder reads first, and compares with what he was told. */
export function askedInShort(asked: Asked): string[] {
  if (asked.kind === 'ceremony') return askedInWords(asked.invitation);
  const { deployment, requestedBy, reason } = asked.rehearsal;
  return [`For ${said(deployment)}`, ...askedInWords({ kind: 'rehearsal', targets: [], requestedBy, reason })];
}

/** What has to be typed so that nobody agrees without having read. */
export function confirmationOf(asked: Asked): { readonly what: string; readonly wanted: readonly string[] } {
  if (asked.kind === 'rehearsal') return { what: 'the name of the deployment', wanted: [asked.rehearsal.deployment] };
  const names = asked.invitation.targets.map(({ cluster }) => cluster);
  if (asksForToken(asked)) return { what: 'the name of the cluster of the token', wanted: names };
  return { what: `the name of the ${names.length > 1 ? 'first ' : ''}cluster`, wanted: names.slice(0, 1) };
}

/**
 * The answer of a person who gives an operation token.
 *
 * @param cluster on which it was generated.
 * @returns the JWS, or the plain members for a person without a signing key.
 * @throws RunbookError `INVALID_INPUT` where it is none, or the run takes none of that cluster.
 */
export async function answerWithToken(
  asked: Asked,
  given: {
    readonly holder: string;
    readonly signingKey: SigningKey | undefined;
    readonly cluster: string;
    readonly token: Secret<'operation-token'>;
  },
): Promise<string | TokenEnvelopePayload> {
  if (asked.kind === 'rehearsal')
    throw new RunbookError('INVALID_INPUT', 'A rehearsal takes no operation token.', {
      next: 'Wait until a run asks for a token; its details name the command.',
    });
  const { invitation, digest: invitationDigest } = asked;
  return createTokenEnvelope({ ...given, invitation, invitationDigest, seq: Date.now() });
}

/** What a holder answers with. */
interface Answer {
  readonly holder: string;
  /** Name and version of the program, for the result of a rehearsal. */
  readonly tool: string;
  readonly signingKey: SigningKey | undefined;
  /** Asked for only where it is needed. */
  readonly share: () => Promise<Secret<'key-share'>> | Secret<'key-share'>;
}

/**
 * The holder's answer. To a rehearsal there is no way to hand a share in: the value in it is made on the spot.
 *
 * @returns the JWS, or the plain members for a holder without a signing key.
 * @throws RunbookError `INVALID_INPUT` where the share is none.
 */
export async function answerAsked(
  asked: Asked,
  { holder, tool, signingKey, share }: Answer,
): Promise<string | EnvelopePayload> {
  // The highest counts: a later envelope of the same holder replaces an earlier one.
  const common = { holder, signingKey, seq: Date.now() };
  return asked.kind === 'rehearsal'
    ? createRehearsalEnvelope({ ...common, rehearsal: asked.rehearsal, rehearsalDigest: asked.digest, tool })
    : createEnvelope({
        ...common,
        invitation: asked.invitation,
        invitationDigest: asked.digest,
        share: await share(),
      });
}
