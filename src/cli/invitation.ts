import { join } from 'node:path';
import {
  asksForToken,
  confirmationOf,
  requestFacts,
  requestSummary,
  verifyRequest,
} from '../documents/ceremony-request';
import { spokenFingerprint } from '../documents/public-keys';
import { findInvitation, namedSigner } from '../documents/invitation';
import { noShareWanted } from '../documents/envelope';
import type { CeremonyRequest } from '../documents/ceremony-request';
import type { PinnedKey } from '../documents/public-keys';
import { nextCommandOf, shellLine } from '../contracts/next-commands';
import { RunbookError } from '../errors';
import { readPins } from '../keys';
import type { CliContext } from './context';
import { readAnsweredView } from './run';
import type { RunReference } from './run';
import type { RunSession } from './run-session';
import { askAgain, personalFolder } from './secret-input';
import { oneLine } from '../contracts/words';

/** The run that a holder named. Without a connection the namespace is unknown. */
export type ExpectedRun = RunReference & { readonly namespace?: string };

/** The options of a holder who answers an invitation. */
export interface HolderOptions {
  readonly holder: string;
  readonly confirm?: string;
  readonly shareFile?: string;
}

/** The name of the workers' environment, unless a person chooses another. */
export const DEFAULT_ENVIRONMENT = 'production';

/** The file of pinned workers' keys: `RUNBOOKS_PINS`, otherwise in the user's configuration directory. */
export function pinsPath(env: NodeJS.ProcessEnv): string {
  return env['RUNBOOKS_PINS'] || join(personalFolder(env), 'pins.json');
}

/**
 * The newest invitation of a run.
 *
 * @throws RunbookError `NOT_FOUND` if the run has none; see also {@link readAnsweredView}
 */
export async function fetchInvitation(session: Pick<RunSession, 'view'>, workflowId: string) {
  const { namespace, status } = await readAnsweredView(session, { workflowId });
  if (status.invitation !== undefined) return { namespace, invitation: status.invitation };
  throw new RunbookError('NOT_FOUND', `The run ${workflowId} has no invitation: it does not ask for key shares now.`, {
    next: `Check what it is doing: ${nextCommandOf.status(workflowId)}`,
  });
}

/**
 * Checks an invitation as the protocol requires of a holder's tool ("Invitation"), shows it, and asks the holder to
 * confirm it.
 *
 * @param text - the invitation from the run or from a person; surrounding text is ignored
 * @throws RunbookError with the next action, before any share was asked for
 */
export async function readAndConfirm(
  context: CliContext,
  options: HolderOptions,
  gives: 'share' | 'provide-token',
  text: string,
  expected: ExpectedRun,
) {
  const jws = findInvitation(text);
  const pins = await pinsFor(context, namedSigner(jws));
  const request = await verifyRequest(jws, { pins, now: Date.now(), holder: options.holder });
  const { ns, wid, rid } = request.invitation;
  if ((expected.namespace ?? ns) !== ns || wid !== expected.workflowId)
    throw new RunbookError(
      'DOCUMENT_INVALID',
      'The invitation belongs to a different run from the one that you named.',
      {
        observed: oneLine(`${wid} in namespace ${ns}`),
        needed: `${expected.workflowId}${expected.namespace === undefined ? '' : ` in namespace ${expected.namespace}`}`,
        next: 'Ask the operators which run is correct. If it is the run of the invitation, name that run.',
      },
    );
  if ((expected.runId ?? rid) !== rid)
    throw new RunbookError(
      'DOCUMENT_INVALID',
      'The invitation is from an earlier run. You were not asked for your share.',
      {
        observed: oneLine(`run ${rid}`),
        needed: `the invitation of run ${expected.runId ?? ''}`,
        next: `Run the command without --invitation-file, or get the current invitation: \`${shellLine('runbook', 'invitation', wid)}\``,
      },
    );
  if (request.kind === 'rehearsal' && options.shareFile !== undefined)
    throw new RunbookError('INVALID_INPUT', 'This is a REHEARSAL: it asks for no key share, and none was read.', {
      needed: 'the same command without --share-file',
      next: 'Never give your key share to a rehearsal. This command generates a meaningless value instead.',
    });
  // On standard error: standard output carries only the result of --print and --json.
  for (const line of requestLines(request)) context.err(line);
  if (gives === 'provide-token' && !asksForToken(request))
    throw new RunbookError('INVALID_INPUT', 'This run asks for no operation token. You were not asked for yours.', {
      needed: 'a run that was started with token source "provided"',
      next: `Check what it asks for: ${nextCommandOf.status(expected.workflowId)}`,
    });
  if (gives === 'share' && asksForToken(request)) throw noShareWanted();
  return { request, confirmed: await confirm(context, options.confirm, request) };
}

/** Every member of the request in plain words. Its purpose is shown first, and again at the end, nearest to the prompt. */
export function requestLines(request: CeremonyRequest, now = Date.now()): string[] {
  const facts = requestFacts(request, now);
  const width = Math.max(...facts.map(({ label }) => label.length));
  return [
    ...(request.kind === 'rehearsal' ? ['REHEARSAL: no key share is asked for. Keep yours where it is.'] : []),
    'Invitation: the signature verifies with a key that is pinned on this machine.',
    ...facts.flatMap(({ label, lines: [first = '', ...others], warning }) => [
      `${warning ? '!' : ' '} ${label.padEnd(width)}  ${first}`,
      ...others.map((line) => `  ${''.padEnd(width)}  ${line}`),
    ]),
    '',
    'In short:',
    ...requestSummary(request).map((line) => `  ${line}`),
    'If this is not what you were told, stop (Ctrl-C) and call the operators at a number that you know.',
  ];
}

async function confirm(context: CliContext, given: string | undefined, request: CeremonyRequest): Promise<string> {
  const { what, wanted } = confirmationOf(request);
  const compare = (typed: string, needed?: string): string => {
    if (wanted.includes(typed)) return typed;
    throw new RunbookError('INVALID_INPUT', `This is not ${what}. It was the only thing you were asked for.`, {
      needed,
      next: 'If you expected a different one, stop and call the operators at a number that you know.',
    });
  };
  if (given !== undefined) return compare(given, wanted.join(' or '));
  // The question does not reveal the name: the person must have read it above.
  const question = `To continue${request.kind === 'rehearsal' ? ' with the REHEARSAL' : ''}, type ${what}`;
  return askAgain(context, async () => compare(await context.ask(question)));
}

/** The pinned keys. @throws RunbookError `DOCUMENT_INVALID` if the signer's key is not one of them */
async function pinsFor({ env }: CliContext, signer: string | undefined): Promise<readonly PinnedKey[]> {
  const pins = await readPins(pinsPath(env));
  if (pins.some(({ kid }) => kid === signer)) return pins;

  const [{ environment } = { environment: DEFAULT_ENVIRONMENT }] = pins;
  const command = shellLine('runbook', 'keys', 'trust', environment, 'KID:KEY');
  const other = pins.length > 0;
  const message = other
    ? 'STOP. The invitation is signed with a different key from the one pinned on this machine.'
    : 'The invitation is signed with a key that is not pinned on this machine.';
  const trusted = pins.map((pin) => `key ${spokenFingerprint(pin.kid)} of "${pin.environment}"`).join(', or ');
  const how = other
    ? 'Call the operators at a number that you know. Only if they tell you that the workers have a new key, compare its fingerprint with them by voice'
    : "Get the workers' public key from the operators through another channel, and compare its fingerprint by voice";
  throw new RunbookError('DOCUMENT_INVALID', `${message} You were not asked for your share.`, {
    observed: signer === undefined ? 'no readable signer' : `key ${spokenFingerprint(signer)}`,
    needed: other ? trusted : "the workers' key, pinned once",
    next: `${how}: ${command}`,
  });
}
