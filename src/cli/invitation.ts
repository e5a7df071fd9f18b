import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { QUERIES } from '../contracts/signals';
import { RunbookError } from '../errors';
import {
  namedSigner,
  plainFacts,
  plainRehearsalFacts,
  spokenFingerprint,
  verifyInvitation,
  verifyRehearsal,
} from '../holder';
import type { PinnedKey, PlainFact, VerifiedInvitation, VerifiedRehearsal } from '../holder';
import { readPins } from '../secrets';
import { activityResults, fetchEvents } from './history';
import type { RunReference } from './history';
import { queryRun } from './run-view';

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
  const recorded = ['createCeremony', 'createRootTokenCeremony', 'createRehearsal']
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
export type CheckedInvitation = VerifiedInvitation;

/** What an invitation is checked against. */
export interface CheckOptions {
  readonly pinsFile: string;
  readonly holder: string;
  /** The run that the holder named; without a connection nobody knows the namespace. */
  readonly expected?: { readonly namespace?: string; readonly workflowId: string };
}

/**
 * Checks an invitation as a holder's tool must (protocol: "Invitation").
 *
 * @throws RunbookError `DOCUMENT_INVALID`, with what to do about it.
 */
export async function checkInvitation(jws: string, options: CheckOptions): Promise<CheckedInvitation> {
  const pins = await pinsOfSigner(jws, options);
  const checked = await verifyInvitation(jws, { pins, now: Date.now(), holder: options.holder });
  needRun(checked.invitation, options);
  return checked;
}

/** As {@link checkInvitation}, of an invitation to a rehearsal. */
export async function checkRehearsal(jws: string, options: CheckOptions): Promise<VerifiedRehearsal> {
  const pins = await pinsOfSigner(jws, options);
  const checked = await verifyRehearsal(jws, { pins, now: Date.now(), holder: options.holder });
  needRun(checked.rehearsal, options);
  return checked;
}

async function pinsOfSigner(jws: string, options: CheckOptions): Promise<readonly PinnedKey[]> {
  const pins = await readPins(options.pinsFile);
  const signer = namedSigner(jws);
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
  return pins;
}

function needRun({ ns, wid }: { readonly ns: string; readonly wid: string }, { expected }: CheckOptions): void {
  if (expected !== undefined && ((expected.namespace ?? ns) !== ns || wid !== expected.workflowId)) {
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation belongs to another run than the one that you named.', {
      observed: `${wid} in namespace ${ns}`,
      needed: `${expected.workflowId}${expected.namespace === undefined ? '' : ` in namespace ${expected.namespace}`}`,
    });
  }
}

/** Every member of an invitation, in plain words, for the holder to read before he gives his share. */
export function invitationLines(checked: CheckedInvitation, now = Date.now()): string[] {
  return factLines(plainFacts(checked, now));
}

/** Every member of an invitation to a rehearsal, in plain words. */
export function rehearsalLines(checked: VerifiedRehearsal, now = Date.now()): string[] {
  return factLines(plainRehearsalFacts(checked, now));
}

function factLines(facts: readonly PlainFact[]): string[] {
  const width = Math.max(...facts.map(({ label }) => label.length));
  return [
    'Invitation: the signature verifies with a key that is pinned on this machine.',
    ...facts.flatMap(({ label, lines, warning }) =>
      lines.map((line, index) => {
        const margin = index === 0 && warning ? '!' : ' ';
        return `${margin} ${(index === 0 ? label : '').padEnd(width)}  ${line}`;
      }),
    ),
  ];
}
