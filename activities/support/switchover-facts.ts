import { diagnoseServerError } from '../../src/client';
import type { ClusterObservation } from '../../src/contracts/observations';
import { isRunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { ClusterAccess } from './clusters';
import { ceremonyToken, majorVersion } from './clusters';
import { readBatchToken } from './operation-token';

/** What was found out about a credential without using it. */
export interface CredentialFacts {
  readonly usable: boolean;
  /** Code of the error where it is not. */
  readonly error?: string;
  /** Seconds left; undefined = no end. */
  readonly ttlSeconds?: number;
  /** Of the whole life of the token, seconds. */
  readonly creationTtlSeconds?: number;
  readonly type?: string;
  readonly orphan?: boolean;
  readonly capabilities: Readonly<Record<string, readonly string[]>>;
}

export const DEMOTE = 'sys/replication/dr/primary/demote';
export const SECONDARY_TOKEN = 'sys/replication/dr/primary/secondary-token';
export const PROMOTE = 'sys/replication/dr/secondary/promote';
export const UPDATE_PRIMARY = 'sys/replication/dr/secondary/update-primary';

/** Asks the primary what a token may do; the token itself is never shown. */
export async function credentialFacts(
  primary: ClusterAccess,
  read: () => Promise<Secret>,
  paths: readonly string[],
  signal: AbortSignal,
): Promise<CredentialFacts> {
  let token: Secret | undefined;
  try {
    token = await read();
    const facts = await primary.client.sys.lookupSelf({ token, signal });
    const capabilities = await primary.client.sys.capabilitiesSelf(paths, { token, signal });
    const { ttlSeconds, creationTtlSeconds, type, orphan } = facts;
    return {
      usable: true,
      ttlSeconds: ttlSeconds === 0 ? undefined : ttlSeconds,
      ...(creationTtlSeconds === undefined ? {} : { creationTtlSeconds }),
      type,
      orphan,
      capabilities,
    };
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    const named = token === undefined ? error : await diagnoseServerError(primary.client, error, { token, signal });
    return { usable: false, error: isRunbookError(named) ? named.code : error.code, capabilities: {} };
  }
}

/** What the rules need beside the observations. */
export interface SwitchoverFacts {
  readonly credential: CredentialFacts;
  readonly batchToken: CredentialFacts;
  /** From service version 2.0: whether the DR secondary accepts the token for the calls of an attempt. */
  readonly ceremonyAccess: 'not-needed' | 'accepted' | 'refused' | 'no-credential';
}

export async function readSwitchoverFacts(
  primary: ClusterAccess,
  secondary: ClusterAccess,
  observation: ClusterObservation,
  markerPath: string,
  signal: AbortSignal,
): Promise<SwitchoverFacts> {
  const [credential, batchToken, access] = await Promise.all([
    credentialFacts(primary, () => primary.credential(), [DEMOTE, SECONDARY_TOKEN, markerPath], signal),
    credentialFacts(primary, () => readBatchToken(secondary), [PROMOTE, UPDATE_PRIMARY], signal),
    ceremonyAccess(secondary, observation, signal),
  ]);
  return { credential, batchToken, ceremonyAccess: access };
}

export async function ceremonyAccess(
  secondary: ClusterAccess,
  observation: ClusterObservation,
  signal: AbortSignal,
): Promise<SwitchoverFacts['ceremonyAccess']> {
  if (majorVersion(observation.version) < 2) return 'not-needed';
  try {
    const token = await ceremonyToken(secondary, observation.version);
    if (!token) return 'no-credential';
    await secondary.client.dr.secondary.generateOperationToken.readAttempt({ token, signal });
    return 'accepted';
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    return error.code === 'CREDENTIAL_UNAVAILABLE' ? 'no-credential' : 'refused';
  }
}
