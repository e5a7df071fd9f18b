import { diagnoseServerError } from '../../src/vault';
import type { ClusterObservation } from '../../src/contracts/observations';
import { isRunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { ClusterAccess } from '../clusters';
import type { CeremonyAccess, CeremonyWay } from '../ceremony/ceremony-access';
import { judgeCeremonyWay } from '../ceremony/ceremony-access';
import { majorVersion } from './versions';
import { readBatchToken } from '../tokens/operation-token';

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
export const ATTEMPT = 'sys/replication/dr/secondary/generate-operation-token/attempt';

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
  /** From service version 2.0: whether the DR secondary accepts the token for the calls of an attempt, and which one. */
  readonly ceremonyAccess: CeremonyAccess;
  readonly ceremonyFrom?: string;
  /** Whether the DR secondary takes the batch token, as far as that can be known before it is used. */
  readonly batchOnSecondary?: 'taken' | 'refused' | 'not-checkable';
  /** The same as for the successor, of the other DR secondaries of the set. */
  readonly otherCeremonies?: readonly (Pick<CeremonyWay, 'access' | 'from'> & {
    readonly cluster: string;
    readonly version?: string | undefined;
  })[];
}

export async function readSwitchoverFacts(
  primary: ClusterAccess,
  secondary: ClusterAccess,
  observation: ClusterObservation,
  markerPath: string,
  signal: AbortSignal,
): Promise<SwitchoverFacts> {
  const [credential, batchToken, batchOnSecondary, way] = await Promise.all([
    credentialFacts(primary, () => primary.credential(), [DEMOTE, SECONDARY_TOKEN, markerPath], signal),
    credentialFacts(primary, () => readBatchToken(secondary), [PROMOTE, UPDATE_PRIMARY, ATTEMPT], signal),
    batchTokenOn(secondary, observation, signal),
    ceremonyAccess(secondary, observation, signal),
  ]);
  const { access, from } = way;
  return {
    credential,
    batchToken,
    batchOnSecondary,
    ceremonyAccess: access,
    ...(from === undefined ? {} : { ceremonyFrom: from }),
  };
}

/** How the ceremony calls of a DR secondary are let in. What cannot be found out counts as refused. */
export async function ceremonyAccess(
  secondary: ClusterAccess,
  { version }: Pick<ClusterObservation, 'version'>,
  signal: AbortSignal,
): Promise<Pick<CeremonyWay, 'access' | 'from'>> {
  try {
    const { access, from } = await judgeCeremonyWay(secondary, { kind: 'operation-token', version, signal });
    return { access, ...(from === undefined ? {} : { from }) };
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    return { access: 'refused' };
  }
}

/** Whether a DR secondary takes its batch token. */
export async function batchTokenOn(
  secondary: ClusterAccess,
  observation: Pick<ClusterObservation, 'version'>,
  signal: AbortSignal,
): Promise<'taken' | 'refused' | 'not-checkable'> {
  try {
    if (secondary.entry.batchToken === undefined) return 'not-checkable';
    return await takenBy(secondary, observation, await readBatchToken(secondary), signal);
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    return 'not-checkable';
  }
}

/**
 * Whether a DR secondary takes a batch token. From version 2.0 on it does so for reading its generation slot; before, it
 * serves nothing that a batch token opens without doing something.
 */
export async function takenBy(
  secondary: ClusterAccess,
  { version }: Pick<ClusterObservation, 'version'>,
  token: Secret<'batch-token'>,
  signal: AbortSignal,
): Promise<'taken' | 'refused' | 'not-checkable'> {
  if (majorVersion(version) < 2) return 'not-checkable';
  try {
    await secondary.client.dr.secondary.generateOperationToken.readAttempt({ token, signal });
    return 'taken';
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    return error.code === 'PERMISSION_DENIED' ? 'refused' : 'not-checkable';
  }
}
