import { GIVEN_AS_TOKEN, usesText, askedText } from '../contracts/next-commands';
import { attestedName, clock, durationText, spelled, escapeUntrusted } from '../contracts/words';
import type { Invitation, InvitationUse, Rehearsal, VerifiedInvitation, HolderChecks } from './invitation';
import { RunbookError } from '../errors';
import type { Secret } from '../secret';
import { claimedHeader, DOCUMENT_TYPES } from './documents';
import { createEnvelope, createRehearsalEnvelope, sealEnvelope } from './envelope';
import type { EnvelopePayload, TokenEnvelopePayload } from './envelope';
import { verifyInvitation } from './invitation';
import { parseOperationToken } from './key-shares';
import type { SigningKey } from './signing-keys';

/** A verified request to a holder: for a key share or a token in a ceremony, or for an answer to a rehearsal. */
export type CeremonyRequest =
  | ({ readonly kind: 'ceremony' } & VerifiedInvitation)
  | ({ readonly kind: 'rehearsal' } & VerifiedInvitation<'rehearsal'>);

/**
 * What a holder's tool checks before it asks for anything. The unverified header only selects the check; each check
 * refuses the other kind of document.
 *
 * @throws RunbookError `DOCUMENT_INVALID` with a text for the holder.
 */
export async function verifyRequest(jws: string, checks: HolderChecks): Promise<CeremonyRequest> {
  return claimedHeader(jws).typ === DOCUMENT_TYPES.rehearsal
    ? { kind: 'rehearsal', ...(await verifyInvitation(jws, checks, 'rehearsal')) }
    : { kind: 'ceremony', ...(await verifyInvitation(jws, checks)) };
}

/** Whether an answer of this holder counts only with their signature. */
export function mustSign({ invitation }: CeremonyRequest, holder: string): boolean {
  return invitation.mustSign?.includes(holder) === true;
}

/**
 * Called before anything secret is asked for.
 *
 * @throws RunbookError `INVALID_INPUT` for a holder without a key whose answer would not count
 */
export function demandSigningKey(request: CeremonyRequest, holder: string, hasKey: boolean): void {
  if (hasKey || !mustSign(request, holder)) return;
  throw new RunbookError('INVALID_INPUT', 'You must sign your answer: the operators list a public key for you.', {
    observed: 'no key file',
    needed: 'the key file that "runbook join" created for you, and its passphrase',
    next: 'Use the device that has your key file. If you have none, call the operators now, at a number that you already know: another holder must give a share, or they list you as a holder without a key.',
  });
}

/** Whether the run asks for operation tokens that people generated themselves, and for no key share. */
export function asksForToken(request: CeremonyRequest): boolean {
  return request.kind === 'ceremony' && request.invitation.collects === 'tokens';
}

/** Whether the first cluster unseals itself, so that holders have shares of its recovery key. */
export function asksForRecoveryShare(request: CeremonyRequest): boolean {
  return request.kind === 'ceremony' && request.invitation.targets[0]?.recovery === true;
}

/** Every member in plain words, in the order in which a holder should read them. Escaped: no text can add a line. */
export function requestFacts(request: CeremonyRequest, now: number): PlainFact[] {
  const facts = request.kind === 'rehearsal' ? plainRehearsalFacts(request, now) : plainFacts(request, now);
  return facts.map((fact) => ({ ...fact, lines: fact.lines.map(escapeUntrusted) }));
}

/**
 * What is asked, who asks and why: one line each, worded as in the status of the run. A holder reads this first and
 * compares it with what others said.
 */
export function requestSummary(request: CeremonyRequest): string[] {
  if (request.kind === 'ceremony') return askedText(request.invitation);
  const { deployment, requestedBy, reason } = request.invitation;
  return [`For ${escapeUntrusted(deployment)}`, ...askedText({ kind: 'rehearsal', targets: [], requestedBy, reason })];
}

/** What the holder must type, so that nobody agrees without reading. */
export function confirmationOf(request: CeremonyRequest) {
  if (request.kind === 'rehearsal')
    return { what: 'the name of the deployment', wanted: [request.invitation.deployment] };
  const names = request.invitation.targets.map(({ cluster }) => cluster);
  if (asksForToken(request)) return { what: 'the name of the cluster of the token', wanted: names };
  return { what: `the name of the ${names.length > 1 ? 'first ' : ''}cluster`, wanted: names.slice(0, 1) };
}

/**
 * The answer of a person who gives an operation token.
 *
 * @param cluster on which the token was generated.
 * @returns the JWS, or the plain members for a person without a signing key.
 * @throws RunbookError `INVALID_INPUT` if it is not an operation token, or the run does not ask for one of that
 * cluster.
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
    throw new RunbookError('INVALID_INPUT', 'A rehearsal accepts no operation token.', {
      next: "Wait until a run asks for a token. The run's details show the command.",
    });
  const { cluster, token, holder, signingKey } = given;
  const { invitation, digest: invitationDigest } = request;
  demandSigningKey(request, holder, signingKey !== undefined);
  if (!asksForToken(request) || !invitation.targets.some((target) => target.cluster === cluster))
    throw new RunbookError('INVALID_INPUT', 'This run does not ask for an operation token of that cluster.', {
      next: 'Name the cluster on which the token was generated. The invitation must list it.',
    });
  const envelope = { invitation, invitationDigest, holder, signingKey, seq: Date.now() };
  return sealEnvelope('tokens', envelope, { token: parseOperationToken(token.reveal()).reveal() }, { cluster });
}

/** What a holder answers with. */
interface Answer {
  readonly holder: string;
  /** Name and version of the program, shown in the result of a rehearsal. */
  readonly tool: string;
  readonly signingKey: SigningKey | undefined;
  /** Called only if the share is needed. */
  readonly share: () => Promise<Secret<'key-share'>> | Secret<'key-share'>;
}

/**
 * The holder's answer. An answer to a rehearsal cannot contain a share: its value is generated here.
 *
 * @returns the JWS, or the plain members for a holder without a signing key.
 * @throws RunbookError `INVALID_INPUT` if it is not a key share.
 */
export async function answerRequest(
  request: CeremonyRequest,
  { holder, tool, signingKey, share }: Answer,
): Promise<string | EnvelopePayload> {
  demandSigningKey(request, holder, signingKey !== undefined);
  // The highest `seq` counts: a later envelope of the same holder replaces an earlier one.
  const common = { holder, signingKey, invitationDigest: request.digest, seq: Date.now() };
  return request.kind === 'rehearsal'
    ? createRehearsalEnvelope({ ...common, invitation: request.invitation, tool })
    : createEnvelope({ ...common, invitation: request.invitation, share: await share() });
}

/** One thing that a holder must read before giving anything. */
interface PlainFact {
  readonly label: string;
  /** The first line is the fact; the others explain it. */
  readonly lines: readonly string[];
  /** Unusual: must be shown so that nobody overlooks it. */
  readonly warning?: true;
  /** Compared by experts: may be folded. Never a warning. */
  readonly technical?: true;
}

const DRASTIC: readonly InvitationUse[] = ['dr.disable', 'root-token.generate'];

function fact(label: string, lines: readonly string[], warning = false): PlainFact {
  return { label, lines, ...(warning ? { warning } : {}) };
}

const technical = (each: PlainFact): PlainFact => (each.warning ? each : { ...each, technical: true });

/**
 * Every member of an invitation in plain words, in the order in which a holder should read them: what, on which
 * cluster, who asks and why; then who else is asked and until when; last, what only an expert compares. The terminal
 * and the page show the same.
 *
 * @param now milliseconds since 1970.
 */
function plainFacts({ invitation, environment, digest }: VerifiedInvitation, now: number): PlainFact[] {
  const { targets, erasure, useFor, recipient, pgp } = invitation;
  const root = invitation.kind === 'root-token';
  const number = targets.length === 1 ? 'one cluster' : `each of ${targets.length} clusters`;
  const kept =
    erasure === 'memory' ? 'kept in memory' : 'kept on a file system, which may retain traces (erasure: best effort)';
  const life = durationText(useFor * 1000);
  const whose = `goes to the person who has the private key of OpenPGP ${spelled(pgp)}`;
  const forPerson = fact('THE TOKEN', [whose, 'compare this fingerprint with that person'], true);
  return [
    fact('Purpose', [`one ${root ? 'ROOT token' : 'DR operation token'} on ${number}`], root),
    ...(invitation.collects ? [fact('TOKEN', [GIVEN_AS_TOKEN], true)] : []),
    ...targets.map(({ cluster, uses, recovery }) => {
      const drastic = uses.some((use) => DRASTIC.includes(use));
      const share = recovery ? ['it unseals itself, so your share is a RECOVERY key share'] : [];
      return fact('Cluster', [cluster, `to ${usesText(uses)}`, ...share], drastic);
    }),
    ...whoAndWhy(invitation),
    ...(root || invitation.forPerson ? [forPerson] : []),
    ...(invitation.keepFor === undefined ? [] : [fact('Kept', keptLines(invitation.keepFor), true)]),
    signedBy(environment),
    fact('Holders', holderLines(invitation)),
    collected(invitation, now),
    ...[
      fact('Used', [`for at most ${life}; then the key that opens your share is destroyed`]),
      fact('Key', [kept, `recipient ${recipient.slice(0, 20)}...; OpenPGP ${pgp}`], erasure !== 'memory'),
      theRun(invitation),
      ...targets.map(({ cluster, clusterId, addresses, caSha256 }) =>
        fact('Details', [
          `cluster ${cluster}: cluster ID ${clusterId}`,
          `at ${addresses.join(', ')}`,
          `CA ${caSha256 === '' ? 'trusted by the system' : `SHA-256 ${caSha256}`}`,
        ]),
      ),
      theCeremony(invitation, digest),
    ].map(technical),
  ];
}

const keptLines = (seconds: number): string[] => [
  `sealed for the next run, for at most ${durationText(seconds * 1000)}`,
  'people must approve that run',
];

function signerLines(names: readonly string[] = []): string[] {
  return names.length > 0 ? [`with their signature: ${names.join(', ')}`] : [];
}

function holderLines({ holders, standBy = [], threshold, mustSign: signers }: Invitation): string[] {
  const asked = holders.filter((name) => !standBy.includes(name));
  return [
    `${asked.join(', ')}; ${threshold} needed`,
    ...(standBy.length > 0 ? [`standing by, to be asked later: ${standBy.join(', ')}`] : []),
    ...signerLines(signers),
  ];
}

/**
 * Every member of an invitation to a rehearsal in plain words.
 *
 * @param now milliseconds since 1970.
 */
function plainRehearsalFacts(
  { invitation, environment, digest }: VerifiedInvitation<'rehearsal'>,
  now: number,
): PlainFact[] {
  const { deployment, holders, erasure, useFor, recipient, pgp } = invitation;
  const kept = erasure === 'memory' ? 'kept in memory' : 'kept on a file system';
  return [
    fact('REHEARSAL', ['do NOT give your key share', 'your tool generates a meaningless value instead']),
    fact('Purpose', [`to verify that the tool, key and access of each holder of ${deployment} work`]),
    ...whoAndWhy(invitation),
    signedBy(environment),
    fact('Holders', [holders.join(', '), ...signerLines(invitation.mustSign)]),
    collected(invitation, now),
    ...[
      fact('Key', [
        `${kept}, and destroyed ${durationText(useFor * 1000)} after collection ends`,
        `recipient ${recipient.slice(0, 20)}...; OpenPGP ${pgp}`,
      ]),
      theRun(invitation),
      theCeremony(invitation, digest),
    ].map(technical),
  ];
}

type Either = Pick<Invitation & Rehearsal, keyof Invitation & keyof Rehearsal>;

function whoAndWhy({ requestedBy, reason }: Either): PlainFact[] {
  const claimed = requestedBy.how === 'claimed';
  const unproven = claimed ? ['nobody has proven that name: if it matters, ask that person'] : [];
  return [
    fact('Reason', [reason === '' ? 'none given' : reason]),
    fact('Requested by', [attestedName(requestedBy), ...unproven], claimed),
  ];
}

/** The environment's name was given by the holder when they pinned the key; the page has no name for it. */
function signedBy(environment: string): PlainFact {
  if (environment === '')
    return fact('Signed by', ['the workers whose key you wrote down', 'the signature verifies with that key']);
  return fact('Signed by', [
    `the workers of "${environment}"`,
    'their key was trusted here under that name; the signature verifies with it',
  ]);
}

function collected({ exp, iat }: Either, now: number): PlainFact {
  return fact('Collected', [
    `until ${clock(exp * 1000, now)}, ${durationText(exp * 1000 - now)} from now`,
    `invited at ${clock(iat * 1000, now)}`,
  ]);
}

function theRun({ runbook, wid, rid, ns }: Either): PlainFact {
  return fact('Runbook', [runbook, `Workflow ID ${wid}`, `run ${rid}, namespace ${ns}`]);
}

function theCeremony({ cid, epoch, inputDigest }: Either, digest: string): PlainFact {
  return fact('Ceremony', [`${cid}, epoch ${epoch}`, `input ${inputDigest}`, `invitation ${digest}`]);
}
