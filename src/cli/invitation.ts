import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { QUERIES } from '../contracts/signals';
import { RunbookError } from '../errors';
import { readPins, spokenFingerprint, verifyInvitation } from '../secrets';
import type { Invitation, InvitationUse } from '../secrets';
import { activityResults, fetchEvents } from './history';
import type { RunReference } from './history';
import { queryRun } from './run-view';
import { attestedName, clock, inWords } from './text';

/** The file of pinned workers' keys: `--pins`, else `RUNBOOKS_PINS`, else in the user's configuration directory. */
export function pinsPath(env: NodeJS.ProcessEnv, given?: string): string {
  const named = given ?? env['RUNBOOKS_PINS'];
  if (named !== undefined && named !== '') return named;
  const base = env['XDG_CONFIG_HOME'];
  return join(
    base !== undefined && base !== '' ? base : join(homedir(), '.config'),
    'replication-runbooks',
    'pins.json',
  );
}

/**
 * The newest invitation of a run: from the query, or from the history where no worker answers.
 *
 * @throws RunbookError `NOT_FOUND` where the run has none.
 */
export async function fetchInvitation(client: Client, run: RunReference): Promise<string> {
  const answered = await queryRun<unknown>(client, run, QUERIES.invitation);
  if (typeof answered === 'string') return answered;
  const events = await fetchEvents(client, run);
  const recorded = ['createCeremony', 'createRootTokenCeremony']
    .flatMap((activity) => activityResults(events, activity))
    .findLast(hasInvitation);
  if (recorded !== undefined) return recorded.invitation;
  throw new RunbookError('NOT_FOUND', `The run ${run.workflowId} has no invitation: it asks for no key shares now.`, {
    next: `Look at what it does: "runbook status ${run.workflowId}".`,
  });
}

function hasInvitation(value: unknown): value is { readonly invitation: string } {
  return typeof value === 'object' && value !== null && 'invitation' in value && typeof value.invitation === 'string';
}

/** An invitation that a pinned key signed for this holder and this run. */
export interface CheckedInvitation {
  readonly invitation: Invitation;
  readonly digest: string;
  /** The name under which the signer's key is pinned. */
  readonly environment: string;
}

/**
 * Checks an invitation as a holder's tool must (protocol: "Invitation").
 *
 * @param expected the run that the holder named; absent where the invitation came as a file.
 * @throws RunbookError `DOCUMENT_INVALID`, with what to do about it.
 */
export async function checkInvitation(
  jws: string,
  options: {
    readonly pinsFile: string;
    readonly holder: string;
    readonly expected?: { readonly namespace: string; readonly workflowId: string };
  },
): Promise<CheckedInvitation> {
  const pins = await readPins(options.pinsFile);
  const signer = signerOf(jws);
  if (!pins.some(({ kid }) => kid === signer)) {
    throw new RunbookError(
      'DOCUMENT_INVALID',
      'The invitation is signed with a key that is not pinned on this machine. Your share was not asked for.',
      {
        observed: signer === undefined ? 'no readable signer' : `key ${spokenFingerprint(signer)}`,
        needed: `a key in ${options.pinsFile}`,
        next: 'Ask the operators for the workers\' public key on another way, compare its fingerprint by voice, then "runbook keys trust <environment> <key>".',
      },
    );
  }
  const checked = await verifyInvitation(jws, { pins, now: Date.now(), holder: options.holder });
  const { ns, wid } = checked.invitation;
  const { expected } = options;
  if (expected !== undefined && (ns !== expected.namespace || wid !== expected.workflowId)) {
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation belongs to another run than the one that you named.', {
      observed: `${wid} in namespace ${ns}`,
      needed: `${expected.workflowId} in namespace ${expected.namespace}`,
    });
  }
  return checked;
}

/** The key that a document names, unverified: only to tell a person which fingerprint to compare. */
function signerOf(jws: string): string | undefined {
  try {
    const header: unknown = JSON.parse(Buffer.from(jws.split('.')[0] ?? '', 'base64url').toString('utf8'));
    const kid: unknown = typeof header === 'object' && header !== null && 'kid' in header ? header.kid : undefined;
    return typeof kid === 'string' && /^[A-Za-z0-9_-]{43}$/.test(kid) ? kid : undefined;
  } catch {
    return undefined;
  }
}

const USES: Record<InvitationUse, string> = {
  'dr.promote': 'promote it to DR primary',
  'dr.update-primary': 'point it to another primary',
  'dr.disable': 'DISABLE replication on it',
  'dr.reindex': 'reindex it',
  'dr.merkle-check': 'check its Merkle tree',
  'dr.operation-token.delete': 'delete that token again',
  'root-token.generate': 'do ANYTHING on it, without an end',
};

/** A fingerprint in groups, to be read aloud. */
function spelled(fingerprint: string): string {
  return (fingerprint.match(/.{1,4}/g) ?? []).join(' ');
}

/** Every member of an invitation, in plain words, for the holder to read before he gives his share. */
export function invitationLines({ invitation, environment, digest }: CheckedInvitation, now = Date.now()): string[] {
  const { kind, targets, requestedBy, reason, runbook, holders, threshold, erasure, exp, iat, useFor, epoch } =
    invitation;
  const token = kind === 'operation-token' ? 'DR operation token' : 'ROOT token';
  return [
    `Invitation of environment "${environment}" (pinned key; signature verified)`,
    `  What for       one ${token} on each of ${targets.length} cluster${targets.length === 1 ? '' : 's'}:`,
    ...targets.flatMap((target) => [
      `    ${target.cluster}  (cluster ID ${target.clusterId})`,
      `      at       ${target.addresses.join(', ')}`,
      `      CA       ${target.caSha256 === '' ? "the system's roots" : `SHA-256 ${target.caSha256}`}`,
      `      to       ${target.uses.map((use) => USES[use]).join('; ')}`,
    ]),
    `  Runbook        ${runbook} (${invitation.wid}, run ${invitation.rid}, namespace ${invitation.ns})`,
    `  Requested by   ${attestedName(requestedBy)}`,
    `  Reason         ${reason}`,
    `  Holders        ${holders.join(', ')}; ${threshold} needed`,
    `  Collected      from ${clock(iat * 1000, now)} until ${clock(exp * 1000, now)} (${inWords(exp * 1000 - now)} left)`,
    `  Then used for  at most ${inWords(useFor * 1000)}, after which the key that opens your share is destroyed`,
    `  Key kept in    ${erasure === 'memory' ? 'memory' : 'a file system that may keep traces (erasure: best effort)'}`,
    `  Recipient      ${invitation.recipient.slice(0, 20)}... ; OpenPGP ${invitation.pgp}`,
    ...(kind === 'root-token'
      ? [
          `  THE TOKEN goes to whoever has the private key of OpenPGP ${spelled(invitation.pgp)}: compare it with that person`,
        ]
      : []),
    `  Ceremony       ${invitation.cid}, epoch ${epoch}, input ${invitation.inputDigest}, invitation ${digest}`,
  ];
}
