import { stat } from 'node:fs/promises';
import { RunbookError } from '../errors';
import type { Secret } from '../secret';
import { parseOperationToken } from '../documents';
import { parseShare } from '../keys';
import { askAgain } from './ask-again';
import type { CliContext } from './context';
import { readTextFile } from './run-input';

/** Where a key share may come from. Never from an argument: those are visible to every user of the machine. */
export interface ShareOptions {
  readonly shareFile?: string;
  readonly shareStdin?: boolean;
}

/**
 * Reads a key share from a hidden prompt, a file, or standard input. A person at a terminal may mistype it twice.
 *
 * @throws RunbookError `INVALID_INPUT` where it is no key share; what was typed is never repeated.
 */
export async function readShare(context: CliContext, options: ShareOptions): Promise<Secret<'key-share'>> {
  if (options.shareFile !== undefined && options.shareStdin === true) {
    throw new RunbookError('INVALID_INPUT', 'Both --share-file and --share-stdin are given.', {
      needed: 'one of them',
      next: 'Give the same command with one of them, or with none: then you are asked.',
    });
  }
  if (options.shareFile !== undefined) {
    await warnAboutOpenFile(context, options.shareFile);
    return parseShare(await readTextFile(options.shareFile));
  }
  if (options.shareStdin === true) return parseShare(await context.readInput());
  const ask = async () => parseShare(await context.askHidden('Your key share'));
  return askAgain(context, ask, ({ code }) => code === 'INVALID_INPUT');
}

/** Where an operation token may come from, never from an argument either. */
export interface TokenOptions {
  readonly tokenFile?: string;
  readonly tokenStdin?: boolean;
}

/**
 * Reads an operation token as {@link readShare} does.
 *
 * @throws RunbookError `INVALID_INPUT` where it is none; what was typed is never repeated.
 */
export async function readOperationToken(
  context: CliContext,
  { tokenFile, tokenStdin }: TokenOptions,
  cluster: string,
): Promise<Secret<'operation-token'>> {
  if (tokenFile !== undefined) {
    await warnAboutOpenFile(context, tokenFile);
    return parseOperationToken(await readTextFile(tokenFile));
  }
  if (tokenStdin === true) return parseOperationToken(await context.readInput());
  const ask = async () => parseOperationToken(await context.askHidden(`The operation token of ${cluster}`));
  return askAgain(context, ask, ({ code }) => code === 'INVALID_INPUT');
}

/** A secret's file that others can read is a mistake, but not ours to refuse in the middle of a ceremony. */
export async function warnAboutOpenFile(context: CliContext, path: string): Promise<void> {
  const mode = (await stat(path).catch(() => undefined))?.mode;
  if (mode !== undefined && (mode & 0o077) !== 0)
    context.err(`Warning: other users of this machine may read ${path} (chmod 600).`);
}
