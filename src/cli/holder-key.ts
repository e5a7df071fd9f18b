import { RunbookError } from '../errors';
import { Secret } from '../secret';
import { readHolderKey } from '../secrets';
import type { SigningKey } from '../secrets';
import type { CliContext } from './context';
import { readTextFile } from './run-input';

/** Options of the commands that sign. */
export interface SigningOptions {
  readonly keyFile?: string;
  readonly passphraseFile?: string;
}

/**
 * Opens the person's signing key, where one is given. The passphrase comes from a file or a hidden prompt, never from
 * an argument.
 *
 * @throws RunbookError `DOCUMENT_INVALID` for a wrong passphrase, `NOT_FOUND` for a missing file.
 */
export async function signingKey(context: CliContext, options: SigningOptions): Promise<SigningKey | undefined> {
  if (options.keyFile === undefined) {
    if (options.passphraseFile === undefined) return undefined;
    throw new RunbookError('INVALID_INPUT', 'A passphrase without a key: --key-file is missing.');
  }
  const file = await readTextFile(options.keyFile);
  return readHolderKey(file, await readPassphrase(context, options));
}

async function readPassphrase(context: CliContext, { passphraseFile }: SigningOptions): Promise<Secret<'passphrase'>> {
  const text =
    passphraseFile === undefined
      ? await context.askHidden('Passphrase of the signing key')
      : (await readTextFile(passphraseFile)).trim();
  return new Secret('passphrase', text);
}
