import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { RecipientKey } from '../../src/keys';
import { readRecipientKey } from '../../src/keys';
import type { GeneratedTokenKind } from '../../src/vault';
import type { ClusterAccess } from '../clusters';
import { ceremonyToken, endpointsOf } from './ceremony-access';

/** SHA-256 of the CA file, base64url, as the invitation shows it; empty where the system's roots are used. */
export async function fileDigest(file: string | undefined): Promise<string> {
  if (file === undefined) return '';
  try {
    return createHash('sha256')
      .update(await readFile(file))
      .digest('base64url');
  } catch {
    throw new RunbookError('TLS_FAILED', `The CA file ${file} cannot be read.`, {
      observed: 'not readable',
      needed: 'a PEM file',
    });
  }
}

/** The key shares that the service requires: of the generation attempt where it can be read, else of the seal. */
export async function readThreshold(
  access: ClusterAccess,
  kind: GeneratedTokenKind,
  signal: AbortSignal,
): Promise<number> {
  const { version } = await access.client.sys.health({ signal });
  try {
    const token = await ceremonyToken(access, version, kind, signal);
    const { required } = await endpointsOf(access, kind).readAttempt({ token, signal });
    if (required > 0) return required;
  } catch (error) {
    // Where nothing in hand reads the attempt of a root token, people open it before the shares are given.
    const passes = kind === 'operation-token' || isRunbookError(error, 'CEREMONY_CLOSED');
    if (!isRunbookError(error) || signal.aborted || !passes) throw error;
  }
  const { threshold } = await access.client.sys.sealStatus({ signal });
  if (threshold !== undefined && threshold > 0) return threshold;
  throw new RunbookError('RESPONSE_INVALID', `${access.entry.name} does not tell how many key shares it requires.`, {
    cluster: access.entry.name,
  });
}

/** @throws RunbookError PRECONDITION_FAILED where nothing can be encrypted to the key */
export async function usableRecipient(text: string): Promise<RecipientKey> {
  const recipient = await readRecipientKey(text);
  if (!('refused' in recipient)) return recipient;
  throw new RunbookError('PRECONDITION_FAILED', "The recipient's key cannot be used.", {
    observed: recipient.refused,
    needed: 'an OpenPGP public key of version 4 that can encrypt',
    next: 'Start again with such a key; nothing was touched.',
  });
}
