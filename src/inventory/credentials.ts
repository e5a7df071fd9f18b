import { readFile } from 'node:fs/promises';
import { errnoOf, RunbookError } from '../errors';
import { Secret } from '../secret';
import type { SecretKind } from '../secret';
import { importSigningKey } from '../documents/signing-keys';
import type { SigningKey } from '../documents/signing-keys';
import type { CredentialSource } from './schema';

/** The source in words, for messages: it names the variable or the file, never the value. */
export function describeSource(source: CredentialSource): string {
  return 'env' in source ? `environment variable ${source.env}` : `file ${source.file}`;
}

/**
 * Reads a secret from its source; a file is read again at every call. Trailing line ends are cut off.
 *
 * @throws RunbookError `CREDENTIAL_UNAVAILABLE`, naming the source and never the value.
 */
export async function readSecret<K extends SecretKind>(source: CredentialSource, kind: K): Promise<Secret<K>> {
  const value = (await readSource(source)).replace(/(?<![\r\n])[\r\n]+$/, '');
  if (value === '') throw unavailable(source, 'it is empty');
  return new Secret(kind, value);
}

/** Reads a token of the service from its source. As {@link readSecret}; a token with spaces or line breaks is refused. */
export async function readCredential(source: CredentialSource): Promise<Secret<'service-token'>> {
  const token = await readSecret(source, 'service-token');
  // Such a value could not be a header, and the HTTP library's error would quote it.
  if (!/^[\x21-\x7e]+$/.test(token.reveal())) throw unavailable(source, 'it does not hold one token');
  return token;
}

/**
 * Reads the workers' signing key (an Ed25519 private JWK).
 *
 * @throws RunbookError `CREDENTIAL_UNAVAILABLE` or `DOCUMENT_INVALID`.
 */
export async function readSigningKey(source: CredentialSource): Promise<SigningKey> {
  return importSigningKey(await readSecret(source, 'private-key'));
}

async function readSource(source: CredentialSource): Promise<string> {
  if ('env' in source) {
    const value = process.env[source.env];
    if (value === undefined) throw unavailable(source, 'it is not set');
    return value;
  }
  try {
    return await readFile(source.file, 'utf8');
  } catch (error) {
    throw unavailable(source, errnoOf(error) ?? 'it cannot be read');
  }
}

function unavailable(source: CredentialSource, why: string): RunbookError {
  return new RunbookError(
    'CREDENTIAL_UNAVAILABLE',
    `The credential of ${describeSource(source)} is not available: ${why}.`,
    {
      next: 'Correct the source; it is read again at the next try.',
    },
  );
}
