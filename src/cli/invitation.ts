import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { QUERIES } from '../contracts/signals';
import { RunbookError } from '../errors';
import { namedSigner, plainFacts, spokenFingerprint, verifyInvitation } from '../holder';
import type { VerifiedInvitation } from '../holder';
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
export type CheckedInvitation = VerifiedInvitation;

/**
 * Checks an invitation as a holder's tool must (protocol: "Invitation").
 *
 * @param expected the run that the holder named; without a connection nobody knows the namespace.
 * @throws RunbookError `DOCUMENT_INVALID`, with what to do about it.
 */
export async function checkInvitation(
  jws: string,
  options: {
    readonly pinsFile: string;
    readonly holder: string;
    readonly expected?: { readonly namespace?: string; readonly workflowId: string };
  },
): Promise<CheckedInvitation> {
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
  const checked = await verifyInvitation(jws, { pins, now: Date.now(), holder: options.holder });
  const { ns, wid } = checked.invitation;
  const { expected } = options;
  if (expected !== undefined && ((expected.namespace ?? ns) !== ns || wid !== expected.workflowId)) {
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation belongs to another run than the one that you named.', {
      observed: `${wid} in namespace ${ns}`,
      needed: `${expected.workflowId}${expected.namespace === undefined ? '' : ` in namespace ${expected.namespace}`}`,
    });
  }
  return checked;
}

/** Every member of an invitation, in plain words, for the holder to read before he gives his share. */
export function invitationLines(checked: CheckedInvitation, now = Date.now()): string[] {
  const facts = plainFacts(checked, now);
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
