import { RunbookError } from '../errors';
import {
  asksForToken,
  confirmationOf,
  findInvitation,
  formatPublicKey,
  namedSigner,
  noShareWanted,
  parsePublicKey,
  requestFacts,
  requestInShort,
  spokenFingerprint,
  verifyRequest,
} from '../documents';
import type { CeremonyRequest, PinnedKey, PublicKeyEntry } from '../documents';
import { notAKey, readPins } from '../keys';
import type { CliContext } from './context';
import { pinAfterComparing, pinsPath } from './invitation';
import { askAgain } from './secret-input';
import { oneLine, shellLine } from './text';

/** What the holder says of himself and of what he trusts. */
export interface HolderOptions {
  readonly holder: string;
  readonly workersKey?: string;
  readonly environment: string;
  readonly pins?: string;
  readonly confirm?: string;
  readonly shareFile?: string;
  readonly shareStdin?: boolean;
  /** What this command gives: a key share where it is not said. */
  readonly gives?: 'token';
}

/** The run that the holder named; without a connection nobody knows the namespace. */
export interface ExpectedRun {
  readonly namespace?: string;
  readonly workflowId: string;
}

/**
 * Checks what a holder was sent as his tool must (protocol: "Invitation"), shows it, and lets him confirm it.
 *
 * @param text the invitation as the run or somebody gave it, with what came along.
 * @throws RunbookError with what to do about it; no share was asked for.
 */
export async function readAndConfirm(
  context: CliContext,
  options: HolderOptions,
  text: string,
  expected: ExpectedRun,
): Promise<{ readonly request: CeremonyRequest; readonly confirmed: string }> {
  const { jws, keys } = findInvitation(text);
  const pinsFile = pinsPath(context.env, options.pins);
  await pinFirstSigner(context, options, { pinsFile, signer: namedSigner(jws), keys });
  const request = await checkRequest(jws, { pins: await readPins(pinsFile), keys, options, expected });
  if (request.kind === 'rehearsal') refuseShare(options);
  // To standard error: standard output stays clean for --print and --json.
  for (const line of requestLines(request)) context.err(line);
  if (options.gives === 'token') {
    if (!asksForToken(request)) throw asksForNoToken(expected);
  } else if (asksForToken(request)) throw noShareWanted();
  return { request, confirmed: await confirm(context, options, request) };
}

/** The run collects key shares, or rehearses: a token is not even asked for. */
function asksForNoToken({ workflowId }: ExpectedRun): RunbookError {
  return new RunbookError('INVALID_INPUT', 'This run asks for no operation token. Yours was not asked for.', {
    needed: 'a run that was started with token source "provided"',
    next: `What it asks for: ${shellLine('runbook', 'status', workflowId)}`,
  });
}

/** Every member of what is asked, in plain words; what it is about stands first, and again where the eye rests at last. */
export function requestLines(request: CeremonyRequest, now = Date.now()): string[] {
  const facts = requestFacts(request, now);
  const width = Math.max(...facts.map(({ label }) => label.length));
  return [
    ...(request.kind === 'rehearsal' ? ['REHEARSAL: no key share is asked for. Keep yours where it is.'] : []),
    'Invitation: the signature verifies with a key that is pinned on this machine.',
    ...facts.flatMap(({ label, lines, warning }) =>
      lines.map((line, index) => {
        const margin = index === 0 && warning ? '!' : ' ';
        return `${margin} ${(index === 0 ? label : '').padEnd(width)}  ${line}`;
      }),
    ),
    '',
    'In short:',
    ...requestInShort(request).map((line) => `  ${line}`),
    'Is this not what you were told? Stop (Ctrl-C), and call the operators at a number that you know.',
  ];
}

async function checkRequest(
  jws: string,
  given: {
    readonly pins: readonly PinnedKey[];
    readonly keys: readonly PublicKeyEntry[];
    readonly options: HolderOptions;
    readonly expected: ExpectedRun;
  },
): Promise<CeremonyRequest> {
  const { pins, options, expected } = given;
  const { holder } = options;
  const signer = namedSigner(jws);
  if (!pins.some(({ kid }) => kid === signer)) throw notPinned(signer, given);
  const request = await verifyRequest(jws, { pins, now: Date.now(), holder });
  const { ns, wid } = request.invitation;
  if ((expected.namespace ?? ns) !== ns || wid !== expected.workflowId) {
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation belongs to another run than the one that you named.', {
      observed: oneLine(`${wid} in namespace ${ns}`),
      needed: `${expected.workflowId}${expected.namespace === undefined ? '' : ` in namespace ${expected.namespace}`}`,
      next: 'Ask the operators which run it is about. Is it the one of the invitation? Name that one.',
    });
  }
  return request;
}

/** The workers sign with a key that this machine does not trust: the holder stops, and pins it by a command of its own. */
function notPinned(
  signer: string | undefined,
  {
    pins,
    keys,
    options,
  }: {
    readonly pins: readonly PinnedKey[];
    readonly keys: readonly PublicKeyEntry[];
    readonly options: HolderOptions;
  },
): RunbookError {
  const key = keys.find(({ kid }) => kid === signer);
  const file = options.pins === undefined ? [] : ['--pins', options.pins];
  const command = shellLine(
    'runbook',
    'keys',
    'trust',
    options.environment,
    key ? formatPublicKey(key) : 'KID:KEY',
    ...file,
  );
  const observed = signer === undefined ? 'no readable signer' : `key ${spokenFingerprint(signer)}`;
  if (pins.length === 0) {
    return new RunbookError(
      'DOCUMENT_INVALID',
      'The invitation is signed with a key that is not pinned on this machine. Your share was not asked for.',
      {
        observed,
        needed: "the workers' key, pinned once",
        next: `Ask the operators for the workers' public key on another way, and compare its fingerprint by voice: ${command}`,
      },
    );
  }
  return new RunbookError(
    'DOCUMENT_INVALID',
    'STOP. The invitation is signed with another key than the one pinned on this machine. Your share was not asked for.',
    {
      observed,
      needed: pins.map(({ kid, environment }) => `key ${spokenFingerprint(kid)} of "${environment}"`).join(', or '),
      next: `Call the operators, at a number that you know. Only where they tell you that the workers have a new key, compare its fingerprint with them by voice: ${command}`,
    },
  );
}

/** A rehearsal asks for no share: one that is handed in all the same is not even read. */
function refuseShare({ shareFile, shareStdin }: HolderOptions): void {
  if (shareFile === undefined && shareStdin !== true) return;
  throw new RunbookError('INVALID_INPUT', 'This is a REHEARSAL: it asks for no key share, and none was read.', {
    needed: 'the same command without --share-file and --share-stdin',
    next: 'Never give your key share to a rehearsal: this command makes a value that means nothing.',
  });
}

async function confirm(context: CliContext, options: HolderOptions, request: CeremonyRequest): Promise<string> {
  const { what, wanted } = confirmationOf(request);
  // Asked for, the name is not given away: who types it has read above for which one it is.
  const compare = (typed: string, needed: { readonly needed?: string } = {}): string => {
    if (wanted.includes(typed)) return typed;
    throw new RunbookError('INVALID_INPUT', `This is not ${what}. Nothing else was asked for.`, {
      ...needed,
      next: 'If you expected another one, stop and call the operators, at a number that you know.',
    });
  };
  if (options.confirm !== undefined) {
    return compare(options.confirm, { needed: wanted.join(' or ') });
  }
  const question = `To go on${request.kind === 'rehearsal' ? ' with the REHEARSAL' : ''}, type ${what}`;
  return askAgain(
    context,
    async () => compare(await context.ask(question)),
    ({ code }) => code === 'INVALID_INPUT',
  );
}

/**
 * The first signer of all is pinned where its key is at hand and the holder compared the fingerprint. Another one later is
 * not: that takes a command of its own ({@link notPinned}).
 */
async function pinFirstSigner(
  context: CliContext,
  options: HolderOptions,
  found: {
    readonly pinsFile: string;
    readonly signer: string | undefined;
    readonly keys: readonly PublicKeyEntry[];
  },
): Promise<void> {
  const { pinsFile, signer } = found;
  const given = options.workersKey === undefined ? undefined : parsePublicKey(options.workersKey.trim());
  if (options.workersKey !== undefined && given === undefined) throw notAKey();
  if (given !== undefined && given.kid !== signer) {
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation is not signed with the key that you gave.', {
      observed: signer === undefined ? 'no readable signer' : `key ${spokenFingerprint(signer)}`,
      needed: `key ${spokenFingerprint(given.kid)}`,
      next: 'Your share was not asked for. Call the operators, at a number that you know.',
    });
  }
  if ((await readPins(pinsFile)).length > 0) return;
  const key = given ?? found.keys.find(({ kid }) => kid === signer);
  // Where there is no key, or nobody to compare it, the check of the invitation says what to do.
  if (key === undefined || !context.interactive) return;
  await pinAfterComparing(context, { pinsFile, environment: options.environment, line: formatPublicKey(key) });
}
