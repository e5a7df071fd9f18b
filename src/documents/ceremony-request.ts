import { askedInWords } from '../contracts/asked';
import { RunbookError } from '../errors';
import type { Secret } from '../secret';
import { claimedHeader, DOCUMENT_TYPES } from './documents';
import { createEnvelope, createRehearsalEnvelope, sealEnvelope } from './envelope';
import type { EnvelopePayload, TokenEnvelopePayload } from './envelope';
import { verifyInvitation } from './invitation';
import type { HolderChecks, VerifiedInvitation } from './invitation';
import { parseOperationToken } from './operation-tokens';
import { plainFacts, plainRehearsalFacts } from './plain-words';
import type { PlainFact } from './plain-words';
import type { SigningKey } from './signing-keys';
import { escapeUntrusted } from '../contracts/words';

/** What a holder is asked for, verified: the key share or a token in a ceremony, or an answer to a rehearsal of one. */
export type CeremonyRequest =
  | ({ readonly kind: 'ceremony' } & VerifiedInvitation)
  | ({ readonly kind: 'rehearsal' } & VerifiedInvitation<'rehearsal'>);

/**
 * What a holder's tool checks before it asks for anything. What the document says of itself only chooses the check: each
 * refuses the other kind.
 *
 * @throws RunbookError `DOCUMENT_INVALID` with a text for the holder.
 */
export async function verifyRequest(jws: string, checks: HolderChecks): Promise<CeremonyRequest> {
  return claimedHeader(jws).typ === DOCUMENT_TYPES.rehearsal
    ? { kind: 'rehearsal', ...(await verifyInvitation(jws, checks, 'rehearsal')) }
    : { kind: 'ceremony', ...(await verifyInvitation(jws, checks)) };
}

/** The run takes operation tokens that people generated themselves, and no key share. */
export function asksForToken(request: CeremonyRequest): boolean {
  return request.kind === 'ceremony' && request.invitation.collects === 'tokens';
}

/** The cluster that is named first unseals itself: what holders have is a share of its recovery key. */
export function asksForRecoveryShare(request: CeremonyRequest): boolean {
  return request.kind === 'ceremony' && request.invitation.targets[0]?.recovery === true;
}

/** Every member in plain words, in the order in which a holder should read them. Nothing in them makes a line of its own. */
export function requestFacts(request: CeremonyRequest, now: number): PlainFact[] {
  const facts = request.kind === 'rehearsal' ? plainRehearsalFacts(request, now) : plainFacts(request, now);
  return facts.map((fact) => ({ ...fact, lines: fact.lines.map(escapeUntrusted) }));
}

/** What is asked, by whom and why, in a line each, as the run's own status says it: what a holder reads first, and compares with what others said. */
export function requestInShort(request: CeremonyRequest): string[] {
  if (request.kind === 'ceremony') return askedInWords(request.invitation);
  const { deployment, requestedBy, reason } = request.invitation;
  return [
    `For ${escapeUntrusted(deployment)}`,
    ...askedInWords({ kind: 'rehearsal', targets: [], requestedBy, reason }),
  ];
}

/** What has to be typed so that nobody agrees without having read. */
export function confirmationOf(request: CeremonyRequest): {
  readonly what: string;
  readonly wanted: readonly string[];
} {
  if (request.kind === 'rehearsal')
    return { what: 'the name of the deployment', wanted: [request.invitation.deployment] };
  const names = request.invitation.targets.map(({ cluster }) => cluster);
  if (asksForToken(request)) return { what: 'the name of the cluster of the token', wanted: names };
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
  request: CeremonyRequest,
  given: {
    readonly holder: string;
    readonly signingKey: SigningKey | undefined;
    readonly cluster: string;
    readonly token: Secret<'operation-token'>;
  },
): Promise<string | TokenEnvelopePayload> {
  if (request.kind === 'rehearsal')
    throw new RunbookError('INVALID_INPUT', 'A rehearsal takes no operation token.', {
      next: 'Wait until a run asks for a token; its details name the command.',
    });
  const { cluster, token, holder, signingKey } = given;
  const { invitation, digest: invitationDigest } = request;
  if (!asksForToken(request) || !invitation.targets.some((target) => target.cluster === cluster))
    throw new RunbookError('INVALID_INPUT', 'This run asks for no operation token of that cluster.', {
      next: 'Name a cluster of the invitation, on which the token was generated.',
    });
  const envelope = { invitation, invitationDigest, holder, signingKey, seq: Date.now() };
  return sealEnvelope('tokens', envelope, { token: parseOperationToken(token.reveal()).reveal() }, { cluster });
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
export async function answerRequest(
  request: CeremonyRequest,
  { holder, tool, signingKey, share }: Answer,
): Promise<string | EnvelopePayload> {
  // The highest counts: a later envelope of the same holder replaces an earlier one.
  const common = { holder, signingKey, invitationDigest: request.digest, seq: Date.now() };
  return request.kind === 'rehearsal'
    ? createRehearsalEnvelope({ ...common, invitation: request.invitation, tool })
    : createEnvelope({ ...common, invitation: request.invitation, share: await share() });
}
