import { RunbookError } from '../errors';
import { mayBeMistyped } from '../documents';
import { Secret } from '../secret';
import { readHolderKey } from '../keys';
import type { SigningKey } from '../keys';
import { askAgain } from './ask-again';
import type { CliContext } from './context';
import { readTextFile } from './run-input';

/** Options of the commands that sign. */
export interface SigningOptions {
  readonly keyFile?: string;
  readonly passphraseFile?: string;
}

/**
 * Opens the person's signing key, where one is given by option or `RUNBOOKS_KEY_FILE`. The passphrase comes from a file or a hidden prompt, never from
 * an argument. A person at a terminal may mistype it twice.
 *
 * @throws RunbookError `DOCUMENT_INVALID` for a wrong passphrase, `NOT_FOUND` for a missing file.
 */
export async function signingKey(context: CliContext, options: SigningOptions): Promise<SigningKey | undefined> {
  const { passphraseFile } = options;
  const keyFile = options.keyFile ?? (context.env['RUNBOOKS_KEY_FILE'] || undefined);
  if (keyFile === undefined) {
    if (passphraseFile === undefined) return undefined;
    throw new RunbookError('INVALID_INPUT', 'A passphrase without a key: --key-file is missing.', {
      next: 'Give the same command with --key-file, or without --passphrase-file where the inventory lists no key of yours.',
    });
  }
  const file = await readTextFile(keyFile);
  if (passphraseFile !== undefined) return readHolderKey(file, passphraseOf(await readTextFile(passphraseFile)));
  const ask = async () => {
    const passphrase = passphraseOf(await context.askHidden('Passphrase of the signing key'));
    context.err('Opening the key: this takes a second or more.');
    // It holds the program up: an impatient person types the next answer, which must not be shown.
    return context.quietly(() => readHolderKey(file, passphrase));
  };
  return askAgain(context, ask, mayBeMistyped);
}

function passphraseOf(text: string): Secret<'passphrase'> {
  return new Secret('passphrase', text.trim());
}
