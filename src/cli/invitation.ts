import { join } from 'node:path';
import {
  asksForToken,
  confirmationOf,
  requestFacts,
  requestInShort,
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
import type { RunReference, TemporalSession } from './run';
import { askAgain, personalFolder } from './secret-input';
import { oneLine } from '../contracts/words';

/** The run that a holder named; without a connection nobody knows the namespace. */
export type ExpectedRun = RunReference & { readonly namespace?: string };

/** Who answers, and what they trust. */
export interface HolderOptions {
  readonly holder: string;
  readonly confirm?: string;
  readonly shareFile?: string;
}

/** What the workers' environment is called unless a person names it. */
export const DEFAULT_ENVIRONMENT = 'production';

/** The file of pinned workers' keys: `RUNBOOKS_PINS`, else in the user's configuration directory. */
export function pinsPath(env: NodeJS.ProcessEnv): string {
  return env['RUNBOOKS_PINS'] || join(personalFolder(env), 'pins.json');
}

/**
 * The newest invitation of a run, as it says now.
 *
 * @throws RunbookError `NOT_FOUND` where the run has none; see {@link readAnsweredView}.
 */
export async function fetchInvitation(session: TemporalSession, workflowId: string) {
  const { runId, status } = await readAnsweredView(session, { workflowId });
  if (status.invitation !== undefined) return { runId, invitation: status.invitation };
  throw new RunbookError('NOT_FOUND', `The run ${workflowId} has no invitation: it asks for no key shares now.`, {
    next: `Look at what it does: ${nextCommandOf.status(workflowId)}`,
  });
}

/**
 * Checks what a holder was sent as their tool must (protocol: "Invitation"), shows it, and lets them confirm it.
 *
 * @param text the invitation as the run or somebody gave it, with what came along.
 * @throws RunbookError with what to do about it; no share was asked for.
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
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation belongs to another run than the one that you named.', {
      observed: oneLine(`${wid} in namespace ${ns}`),
      needed: `${expected.workflowId}${expected.namespace === undefined ? '' : ` in namespace ${expected.namespace}`}`,
      next: 'Ask the operators which run it is. If it is the one of the invitation, name that one.',
    });
  if ((expected.runId ?? rid) !== rid)
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation is of an earlier run. Your share was not asked for.', {
      observed: oneLine(`run ${rid}`),
      needed: `the invitation of run ${expected.runId ?? ''}`,
      next: `Give the command without --invitation-file; or get the invitation of now: \`${shellLine('runbook', 'invitation', wid)}\``,
    });
  if (request.kind === 'rehearsal' && options.shareFile !== undefined)
    throw new RunbookError('INVALID_INPUT', 'This is a REHEARSAL: it asks for no key share, and none was read.', {
      needed: 'the same command without --share-file',
      next: 'Never give your key share to a rehearsal: this command makes a value that means nothing.',
    });
  // To standard error: standard output stays clean for --print and --json.
  for (const line of requestLines(request)) context.err(line);
  if (gives === 'provide-token' && !asksForToken(request))
    throw new RunbookError('INVALID_INPUT', 'This run asks for no operation token. Yours was not asked for.', {
      needed: 'a run that was started with token source "provided"',
      next: `What it asks for: ${nextCommandOf.status(expected.workflowId)}`,
    });
  if (gives === 'share' && asksForToken(request)) throw noShareWanted();
  return { request, confirmed: await confirm(context, options.confirm, request) };
}

/** Every member of the request in plain words; what it is about stands first, and again at the end, where the eye rests. */
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
    ...requestInShort(request).map((line) => `  ${line}`),
    'Is this not what you were told? Stop (Ctrl-C), and call the operators at a number that you know.',
  ];
}

async function confirm(context: CliContext, given: string | undefined, request: CeremonyRequest): Promise<string> {
  const { what, wanted } = confirmationOf(request);
  const compare = (typed: string, needed?: string): string => {
    if (wanted.includes(typed)) return typed;
    throw new RunbookError('INVALID_INPUT', `This is not ${what}. Nothing else was asked for.`, {
      needed,
      next: 'If you expected another one, stop and call the operators, at a number that you know.',
    });
  };
  if (given !== undefined) return compare(given, wanted.join(' or '));
  // The question does not give the name away: the person has read it above.
  const question = `To go on${request.kind === 'rehearsal' ? ' with the REHEARSAL' : ''}, type ${what}`;
  return askAgain(context, async () => compare(await context.ask(question)));
}

/** The pinned keys, the signer's among them. */
async function pinsFor({ env }: CliContext, signer: string | undefined): Promise<readonly PinnedKey[]> {
  const pins = await readPins(pinsPath(env));
  if (pins.some(({ kid }) => kid === signer)) return pins;

  const [{ environment } = { environment: DEFAULT_ENVIRONMENT }] = pins;
  const command = shellLine('runbook', 'keys', 'trust', environment, 'KID:KEY');
  const other = pins.length > 0;
  const message = other
    ? 'STOP. The invitation is signed with another key than the one pinned on this machine.'
    : 'The invitation is signed with a key that is not pinned on this machine.';
  const trusted = pins.map((pin) => `key ${spokenFingerprint(pin.kid)} of "${pin.environment}"`).join(', or ');
  const how = other
    ? 'Call the operators, at a number that you know. Only if they tell you that the workers have a new key, compare its fingerprint with them by voice'
    : "Get the workers' public key from the operators by another route, and compare its fingerprint by voice";
  throw new RunbookError('DOCUMENT_INVALID', `${message} Your share was not asked for.`, {
    observed: signer === undefined ? 'no readable signer' : `key ${spokenFingerprint(signer)}`,
    needed: other ? trusted : "the workers' key, pinned once",
    next: `${how}: ${command}`,
  });
}
