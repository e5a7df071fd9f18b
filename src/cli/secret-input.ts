import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { CommanderError } from 'commander';
import { plainSecretIn } from '../contracts/plain-shares';
import { mayBeMistyped, readHolderKey } from '../documents/signing-keys';
import type { SigningKey } from '../documents/signing-keys';
import { errnoOf, isRunbookError, RunbookError } from '../errors';
import { Secret } from '../secret';
import type { CliContext } from './context';
import { EXIT, printError } from './errors';

/** The source of a share or a token. Never an argument: every user of the machine can see those. */
interface SecretSource {
  readonly file: string | undefined;
  /** The text of the hidden prompt, if no file is given. */
  readonly question: string;
}

/**
 * Reads a secret from a file (`-`: standard input) or a hidden prompt. A person at a terminal has three attempts.
 *
 * @throws RunbookError `INVALID_INPUT` if the text is not such a secret; the text is never repeated
 */
export async function readSecret<T>(
  context: CliContext,
  { file, question }: SecretSource,
  parse: (text: string) => T,
): Promise<T> {
  if (file === '-') return parse(await context.readInput());
  if (file === undefined) return askAgain(context, async () => parse(await context.askHidden(question)));
  const mode = (await stat(file).catch(() => undefined))?.mode ?? 0;
  // Only a warning: this is no reason to interrupt a ceremony.
  if ((mode & 0o077) !== 0) context.err(`Warning: other users of this machine can read ${file} (chmod 600).`);
  return parse(await readTextFile(file));
}

/** Options of the commands that sign. */
export interface SigningOptions {
  readonly keyFile?: string;
  readonly passphraseFile?: string;
}

/** The folder of a person's files on this machine: pinned keys, and their own key. */
export function personalFolder(env: NodeJS.ProcessEnv): string {
  return join(env['XDG_CONFIG_HOME'] || join(homedir(), '.config'), 'replication-runbooks');
}

/** Where `runbook join` stores a person's key, and other commands find it: `RUNBOOKS_KEY_FILE`, otherwise a file with their name. */
export function personalKeyFile(env: NodeJS.ProcessEnv, name: string): string {
  return env['RUNBOOKS_KEY_FILE'] || join(personalFolder(env), `${basename(name)}.key`);
}

/**
 * Opens the person's signing key: from the option, `RUNBOOKS_KEY_FILE`, or the file that `runbook join` created, if any.
 * The passphrase comes from a file or a hidden prompt, never from an argument. A person has three attempts.
 *
 * @param name - of the person who signs
 * @returns undefined if there is no key
 * @throws RunbookError `DOCUMENT_INVALID` for a wrong passphrase, `NOT_FOUND` for a missing file
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
    throw new RunbookError('INVALID_INPUT', 'A passphrase was given without a key: --key-file is missing.', {
      next: 'Run the same command with --key-file, or without --passphrase-file if the inventory lists no key of yours.',
    });
  }
  const file = await readTextFile(keyFile);
  const passphraseOf = (text: string) => new Secret('passphrase', text.trim());
  if (passphraseFile !== undefined) return readHolderKey(file, passphraseOf(await readTextFile(passphraseFile)));
  const ask = async () => {
    const passphrase = passphraseOf(await context.askHidden('Passphrase of the signing key'));
    context.err('Opening the key; this takes a second or more.');
    // This blocks the program. An impatient person may type the next answer meanwhile, which must not be shown.
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
 * Asks a person up to three times, because they may mistype. Without a terminal the first answer counts.
 *
 * @param mistyped - whether a different answer may succeed
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
      context.err(`Try again (${tries + 1} of ${TRIES}); Ctrl-C ends the command.`);
    }
  }
}

/** The name of the person who runs the command: from the option or RUNBOOKS_PERSON, otherwise from a prompt. */
export function personOf(context: CliContext, given: string | undefined, option = '--name'): Promise<string> {
  const named = given || context.env['RUNBOOKS_PERSON'];
  return givenOrAsked(context, named, `${option} or RUNBOOKS_PERSON`, 'Your name, as the inventory lists it');
}

/** The value of an option, otherwise the answer of the person at the terminal. */
export async function givenOrAsked(
  context: CliContext,
  given: string | undefined,
  option: string,
  question: string,
): Promise<string> {
  const answer = given || (context.interactive ? await context.ask(question) : '');
  if (answer !== '') return answer;
  context.err(`error: ${option} is required`);
  throw new CommanderError(EXIT.usage, 'commander.missingMandatoryOptionValue', option);
}

interface Confirmation {
  readonly word?: string;
  /** What was not done because the word is missing. */
  readonly refused: string;
  readonly next: string;
  /** The options that replace the word if there is no terminal. */
  readonly withoutTerminal?: string;
}

/**
 * Requires a person to type a word before something is done.
 *
 * @throws RunbookError `INVALID_INPUT` if they type anything else, or there is no terminal
 */
export async function confirmed(
  context: CliContext,
  question: string,
  { word = 'yes', refused, next, withoutTerminal = '`--yes`, after you compared what it shows' }: Confirmation,
): Promise<void> {
  if (!context.interactive)
    throw new RunbookError('INVALID_INPUT', `There is no terminal for a confirmation; ${refused}.`, {
      needed: `"${word}", typed by a person`,
      next: `Run the same command in a terminal, or with ${withoutTerminal}.`,
    });
  if ((await context.ask(question)) === word) return;
  throw new RunbookError('INVALID_INPUT', `Not confirmed; ${refused}.`, { needed: word, next });
}

/** @throws RunbookError `NOT_FOUND`, naming the file */
export async function readTextFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new RunbookError('NOT_FOUND', `The file ${path} cannot be read (${errnoOf(error) ?? 'unknown reason'}).`, {
      needed: 'a file that exists and that you can read',
      next: 'Correct the path or the permissions of the file, and run the same command again.',
    });
  }
}

/** Writes a file that may be there already. Never through a link: the old one is removed first, and the new one created. */
export async function replaceFile(path: string, content: string, mode: number): Promise<void> {
  await rm(path, { force: true });
  await writeFile(path, content, { mode, flag: 'wx' });
}

/** @throws RunbookError `INVALID_INPUT` if the file exists: a key is never overwritten */
export async function writeSecretFile(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  try {
    await writeFile(path, content, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    throw new RunbookError('INVALID_INPUT', `The file ${path} exists; a key is never overwritten.`, {
      needed: 'the path of a new file',
      next: 'Choose another path, or move the old file away if it is no longer needed.',
    });
  }
}

/**
 * Keeps what looks like a key share or a token from leaving this machine in plain text: Temporal records everything that
 * people send, and many can read it there.
 *
 * @throws RunbookError `PLAIN_TEXT_SHARE`; never repeats any part of the secret
 */
export function refusePlainShare(input: unknown): void {
  const plain = plainSecretIn(input);
  if (!plain) return;
  const [what, command] = plain === 'plain-text-token' ? ['token', 'provide-token'] : ['key share', 'share'];
  throw new RunbookError('PLAIN_TEXT_SHARE', `This seems to contain a ${what} in plain text. Nothing was sent.`, {
    needed: `a text without ${what}s`,
    next: `Give a ${what} only with "runbook ${command}", which encrypts it. It is now in your shell history: remove it there.`,
  });
}
