import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { plainSecretIn } from '../contracts/plain-shares';
import { mayBeMistyped, readHolderKey } from '../documents/signing-keys';
import type { SigningKey } from '../documents/signing-keys';
import { errnoOf, isRunbookError, RunbookError } from '../errors';
import { Secret } from '../secret';
import type { CliContext } from './context';
import { printError } from './errors';

/** Where a share or a token may come from. Never from an argument: those are visible to every user of the machine. */
interface SecretSource {
  readonly file: string | undefined;
  /** Of the hidden prompt, where it comes from no file. */
  readonly question: string;
}

/**
 * Reads a secret from a file (`-`: standard input) or a hidden prompt. A person at a terminal may mistype it twice.
 *
 * @throws RunbookError `INVALID_INPUT` where it is none; what was typed is never repeated.
 */
export async function readSecret<T>(
  context: CliContext,
  { file, question }: SecretSource,
  parse: (text: string) => T,
): Promise<T> {
  if (file === '-') return parse(await context.readInput());
  if (file === undefined) return askAgain(context, async () => parse(await context.askHidden(question)));
  const mode = (await stat(file).catch(() => undefined))?.mode ?? 0;
  // A mistake, but not ours to refuse in the middle of a ceremony.
  if ((mode & 0o077) !== 0) context.err(`Warning: other users of this machine may read ${file} (chmod 600).`);
  return parse(await readTextFile(file));
}

/** Options of the commands that sign. */
export interface SigningOptions {
  readonly keyFile?: string;
  readonly passphraseFile?: string;
}

/** The folder of what belongs to a person on this machine: pinned keys, and their own. */
export function personalFolder(env: NodeJS.ProcessEnv): string {
  return join(env['XDG_CONFIG_HOME'] || join(homedir(), '.config'), 'replication-runbooks');
}

/** Where `runbook join` puts a person's key, and where it is found again: `RUNBOOKS_KEY_FILE`, else a file of their name. */
export function personalKeyFile(env: NodeJS.ProcessEnv, name: string): string {
  return env['RUNBOOKS_KEY_FILE'] || join(personalFolder(env), `${basename(name)}.key`);
}

/**
 * Opens the person's signing key: by option, `RUNBOOKS_KEY_FILE`, or from where `runbook join` put it, where there is one.
 * The passphrase comes from a file or a hidden prompt, never from an argument. A person may mistype it twice.
 *
 * @param name of the person who signs.
 * @throws RunbookError `DOCUMENT_INVALID` for a wrong passphrase, `NOT_FOUND` for a missing file.
 */
export async function signingKey(
  context: CliContext,
  options: SigningOptions,
  name?: string,
): Promise<SigningKey | undefined> {
  const { passphraseFile } = options;
  const keyFile = options.keyFile ?? (await knownKeyFile(context.env, name));
  if (keyFile === undefined) {
    if (passphraseFile === undefined) return undefined;
    throw new RunbookError('INVALID_INPUT', 'A passphrase without a key: --key-file is missing.', {
      next: 'Give the same command with --key-file, or without --passphrase-file where the inventory lists no key of yours.',
    });
  }
  const file = await readTextFile(keyFile);
  const passphraseOf = (text: string) => new Secret('passphrase', text.trim());
  if (passphraseFile !== undefined) return readHolderKey(file, passphraseOf(await readTextFile(passphraseFile)));
  const ask = async () => {
    const passphrase = passphraseOf(await context.askHidden('Passphrase of the signing key'));
    context.err('Opening the key: this takes a second or more.');
    // It holds the program up: an impatient person types the next answer, which must not be shown.
    return context.quietly(() => readHolderKey(file, passphrase));
  };
  return askAgain(context, ask, mayBeMistyped);
}

async function knownKeyFile(env: NodeJS.ProcessEnv, name: string | undefined): Promise<string | undefined> {
  if (name === undefined) return env['RUNBOOKS_KEY_FILE'] || undefined;
  const file = personalKeyFile(env, name);
  const isThere = env['RUNBOOKS_KEY_FILE'] || (await stat(file).catch(() => undefined));
  return isThere ? file : undefined;
}

const TRIES = 3;

/**
 * Asks a person up to three times, where they may have mistyped. Where no person is asked, the first answer counts.
 *
 * @param mistyped whether another answer may do
 * @throws the error of the last answer
 */
export async function askAgain<T>(
  context: CliContext,
  ask: () => Promise<T>,
  mistyped = (error: RunbookError) => error.code === 'INVALID_INPUT',
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (!context.interactive || !isRunbookError(error) || !mistyped(error) || tries === TRIES) throw error;
      printError(context, error);
      context.err(`Again (${tries + 1} of ${TRIES}); Ctrl-C ends it.`);
    }
  }
}

interface Confirmation {
  readonly word?: string;
  /** What did not happen without the word. */
  readonly refused: string;
  readonly next: string;
  /** What stands for the word where nobody can be asked. */
  readonly withoutTerminal?: string;
}

/**
 * Has a person type a word before something is done.
 *
 * @throws RunbookError `INVALID_INPUT` where they type anything else, or nobody can be asked
 */
export async function confirmed(
  context: CliContext,
  question: string,
  { word = 'yes', refused, next, withoutTerminal = '`--yes`, once you compared what it shows' }: Confirmation,
): Promise<void> {
  if (!context.interactive)
    throw new RunbookError('INVALID_INPUT', `There is no terminal to ask at; ${refused}.`, {
      needed: `"${word}", typed by a person`,
      next: `Give the same command in a terminal, or with ${withoutTerminal}.`,
    });
  if ((await context.ask(question)) === word) return;
  throw new RunbookError('INVALID_INPUT', `Not confirmed; ${refused}.`, { needed: word, next });
}

/** @throws RunbookError `NOT_FOUND`, naming the file. */
export async function readTextFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new RunbookError('NOT_FOUND', `The file ${path} cannot be read (${errnoOf(error) ?? 'unknown reason'}).`, {
      needed: 'a file that exists, and that you may read',
      next: 'Correct the path, or the rights of the file, and give the same command again.',
    });
  }
}

/** @throws RunbookError `INVALID_INPUT` where the file exists: a key is never overwritten. */
export async function writeSecretFile(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  try {
    await writeFile(path, content, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    throw new RunbookError('INVALID_INPUT', `The file ${path} exists; a key is never overwritten.`, {
      needed: 'the path of a new file',
      next: 'Give another path, or move the old file away if it is no longer needed.',
    });
  }
}

/**
 * What people send is recorded for ever where many can read it: what seems to be a key share or a token does not leave this machine
 * in plain text.
 *
 * @throws RunbookError `PLAIN_TEXT_SHARE`. Nothing of it is repeated.
 */
export function refusePlainShare(input: unknown): void {
  const plain = plainSecretIn(input);
  if (!plain) return;
  const [what, command] = plain === 'plain-text-token' ? ['token', 'provide-token'] : ['key share', 'share'];
  throw new RunbookError('PLAIN_TEXT_SHARE', `This seems to hold a ${what} in plain text. Nothing was sent.`, {
    needed: `a text without ${what}s`,
    next: `A ${what} is given by "runbook ${command}" alone, which encrypts it. It is now in the history of your shell: remove it there.`,
  });
}
