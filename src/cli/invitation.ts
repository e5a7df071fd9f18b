import { join } from 'node:path';
import type { Command } from 'commander';
import {
  asksForToken,
  confirmationOf,
  requestFacts,
  requestInShort,
  verifyRequest,
} from '../documents/ceremony-request';
import { findInvitation } from '../documents/pasted';
import { formatPublicKey, parsePublicKey, spokenFingerprint } from '../documents/public-keys';
import { namedSigner } from '../documents/invitation';
import { noShareWanted } from '../documents/envelope';
import type { CeremonyRequest } from '../documents/ceremony-request';
import type { PinnedKey, PublicKeyEntry } from '../documents/public-keys';
import { nextCommandOf } from '../contracts/next-commands';
import { RunbookError } from '../errors';
import { addPin, notAKey, readPins } from '../keys';
import type { CliContext } from './context';
import { readAnsweredView } from './run';
import type { RunReference, TemporalSession } from './run';
import { askAgain, confirmed, personalFolder } from './secret-input';
import { oneLine, shellLine } from './text';

/** Pinned workers' keys, and how one is pinned on the way. */
export interface PinOptions {
  readonly workersKey?: string;
  readonly environment: string;
  readonly pins?: string;
}

/** The run that a holder named; without a connection nobody knows the namespace. */
export type ExpectedRun = RunReference & { readonly namespace?: string };

/** Who answers, and what they trust. */
export interface HolderOptions extends PinOptions {
  readonly holder: string;
  readonly confirm?: string;
  readonly shareFile?: string;
}

export const PINS_OPTION = [
  '--pins <file>',
  "pinned workers' keys (default: RUNBOOKS_PINS, ~/.config/replication-runbooks/pins.json)",
] as const;

/** What the workers' environment is called unless a person names it. */
export const DEFAULT_ENVIRONMENT = 'production';

/** The options with which the workers' key is pinned on the way, once. */
export function withPinningOptions(command: Command): Command {
  return command
    .option(
      '--workers-key <key>',
      'the workers\' public key "<kid>:<x>", to be pinned after its fingerprint is compared',
    )
    .option('--environment <name>', 'what you call the environment of these workers', DEFAULT_ENVIRONMENT)
    .option(...PINS_OPTION);
}

/** The file of pinned workers' keys: `--pins`, else `RUNBOOKS_PINS`, else in the user's configuration directory. */
export function pinsPath(env: NodeJS.ProcessEnv, given?: string): string {
  return given || env['RUNBOOKS_PINS'] || join(personalFolder(env), 'pins.json');
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
 * Pins a workers' key after the person compared its fingerprint, with an operator by voice or with their own note.
 *
 * @param line `<kid>:<x>`, from anywhere: what counts is the fingerprint.
 * @param compared the person has already said that it is the right one.
 * @throws RunbookError `INVALID_INPUT` where the line is no key, or the person does not confirm it.
 */
export async function pinAfterComparing(
  context: CliContext,
  { pins: path, environment }: PinOptions,
  line: string,
  compared = false,
) {
  const file = pinsPath(context.env, path);
  const key = parsePublicKey(line.trim());
  if (key === undefined) throw notAKey();
  const pinned = (await readPins(file)).filter((pin) => pin.environment === environment);
  // Nobody is called about a key that was compared before.
  if (!compared && !pinned.some(({ kid }) => kid === key.kid)) {
    for (const { kid } of pinned)
      context.err(`Pinned for "${environment}" so far: ${spokenFingerprint(kid)}. This is ANOTHER key.`);
    context.err(`Fingerprint of the workers' key: ${spokenFingerprint(key.kid)}`);
    await confirmed(
      context,
      'Compare it with an operator by voice, or with your own note. Type "yes" if it is the same',
      {
        refused: 'nothing was pinned',
        next: 'Is the fingerprint different from the one that you were told? Stop, and call the operators at a number that you know.',
      },
    );
  }
  return { pin: await addPin(file, environment, line), file };
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
  const { jws, keys } = findInvitation(text);
  const pins = await pinsFor(context, options, namedSigner(jws), keys);
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
  if (request.kind === 'rehearsal') refuseShare(options);
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

/** A rehearsal asks for no share: one that is handed in all the same is not even read. */
function refuseShare({ shareFile }: HolderOptions): void {
  if (shareFile === undefined) return;
  throw new RunbookError('INVALID_INPUT', 'This is a REHEARSAL: it asks for no key share, and none was read.', {
    needed: 'the same command without --share-file',
    next: 'Never give your key share to a rehearsal: this command makes a value that means nothing.',
  });
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

/**
 * The pinned keys, the signer's among them. The very first signer is pinned here, where its key is at hand and the holder
 * compares the fingerprint; a different signer later takes a command of its own ("runbook keys trust").
 */
async function pinsFor(
  context: CliContext,
  options: HolderOptions,
  signer: string | undefined,
  keys: readonly PublicKeyEntry[],
): Promise<readonly PinnedKey[]> {
  const { workersKey, environment } = options;
  const file = pinsPath(context.env, options.pins);
  const observed = signer === undefined ? 'no readable signer' : `key ${spokenFingerprint(signer)}`;
  const given = workersKey === undefined ? undefined : parsePublicKey(workersKey.trim());
  if (workersKey !== undefined && given === undefined) throw notAKey();
  if (given !== undefined && given.kid !== signer)
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation is not signed with the key that you gave.', {
      observed,
      needed: `key ${spokenFingerprint(given.kid)}`,
      next: 'Your share was not asked for. Call the operators, at a number that you know.',
    });
  const key = given ?? keys.find(({ kid }) => kid === signer);
  if (key !== undefined && context.interactive && (await readPins(file)).length === 0)
    await pinAfterComparing(context, options, formatPublicKey(key));
  const pins = await readPins(file);
  if (pins.some(({ kid }) => kid === signer)) return pins;

  const words = ['runbook', 'keys', 'trust', environment, key ? formatPublicKey(key) : 'KID:KEY'];
  const command = shellLine(...words, ...(options.pins === undefined ? [] : ['--pins', options.pins]));
  const other = pins.length > 0;
  const message = other
    ? 'STOP. The invitation is signed with another key than the one pinned on this machine.'
    : 'The invitation is signed with a key that is not pinned on this machine.';
  const trusted = pins.map((pin) => `key ${spokenFingerprint(pin.kid)} of "${pin.environment}"`).join(', or ');
  const how = other
    ? 'Call the operators, at a number that you know. Only if they tell you that the workers have a new key, compare its fingerprint with them by voice'
    : "Get the workers' public key from the operators by another route, and compare its fingerprint by voice";
  throw new RunbookError('DOCUMENT_INVALID', `${message} Your share was not asked for.`, {
    observed,
    needed: other ? trusted : "the workers' key, pinned once",
    next: `${how}: ${command}`,
  });
}
