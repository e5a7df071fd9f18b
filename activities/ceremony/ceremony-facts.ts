import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { ClusterAccess } from '../clusters';
import { ceremonyToken } from '../clusters';

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
export async function readThreshold(access: ClusterAccess, signal: AbortSignal): Promise<number> {
  const { version } = await access.client.sys.health({ signal });
  try {
    const attempt = await access.client.dr.secondary.generateOperationToken.readAttempt({
      token: await ceremonyToken(access, version),
      signal,
    });
    if (attempt.required > 0) return attempt.required;
  } catch (error) {
    if (!(error instanceof RunbookError) || signal.aborted) throw error;
  }
  const { threshold } = await access.client.sys.sealStatus({ signal });
  if (threshold !== undefined && threshold > 0) return threshold;
  throw notTold(access);
}

/** As {@link readThreshold}, for root tokens. Where nothing in hand reads the attempt, people open it before the burst. */
export async function readRootThreshold(
  access: ClusterAccess,
  version: string | undefined,
  signal: AbortSignal,
): Promise<number> {
  try {
    const token = await ceremonyToken(access, version, 'root-token', signal);
    return (await access.client.sys.generateRoot.readAttempt({ token, signal })).required;
  } catch (error) {
    if (!isRunbookError(error, 'CEREMONY_CLOSED')) throw error;
  }
  const { threshold } = await access.client.sys.sealStatus({ signal });
  if (threshold !== undefined && threshold > 0) return threshold;
  throw notTold(access);
}

function notTold(access: ClusterAccess): RunbookError {
  return new RunbookError('RESPONSE_INVALID', `${access.entry.name} does not tell how many key shares it requires.`, {
    cluster: access.entry.name,
  });
}
