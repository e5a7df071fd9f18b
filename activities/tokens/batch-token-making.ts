import type { Finding } from '../../src/contracts/run-facts';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { BatchTokenRotationEntry } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import type { TokenFacts } from '../../src/vault';
import { missingRights, rightsText } from '../checks/credentials';
import type { ClusterAccess } from '../clusters';
import type { Execution } from '../execution';
import { CHANGE_TIMEOUT_MS } from '../read-act-confirm';
import { TOO_MUCH, policyCommand, rightsIn, roleCommand } from './batch-token-policy';
import type { PolicyGrant } from './batch-token-policy';

/** What may be told of a batch token. */
export interface BatchTokenFacts {
  readonly ttlSeconds?: number;
  /** Since it was made. */
  readonly ageSeconds?: number;
}

/** Requests for one token: after a lost answer another one is made, and the one before ends with its lifetime. */
const MAX_REQUESTS = 3;
/** A token may live this much shorter than was asked for, seconds: the time of the calls, and clocks. */
const SHORTER_SECONDS = 60;

/** A token that exists now, held by this activity alone. */
interface MadeToken {
  readonly token: Secret<'batch-token'>;
  /** Tokens that lost answers may have left: nobody holds them. */
  readonly extra: number;
}

/** Makes a token by the role. A refusal is final; a lost answer is not: the next request makes another token. */
export async function makeToken(
  execution: Execution,
  primary: ClusterAccess,
  { role, policy, ttlMs }: BatchTokenRotationEntry,
): Promise<MadeToken> {
  const { client } = primary;
  const seconds = Math.ceil(ttlMs / 1000);
  for (let tries = 1, extra = 0; ; tries += 1) {
    execution.throwIfCancelled();
    try {
      const made = await client.sys.createBatchToken(
        { role, policies: [policy], ttl: `${seconds}s` },
        { token: await primary.credential(), timeoutMs: CHANGE_TIMEOUT_MS },
      );
      return { token: made.token, extra };
    } catch (error) {
      if (!isRunbookError(error) || (error.outcomeKnown && !error.retryable) || tries === MAX_REQUESTS) throw error;
      if (!error.outcomeKnown) extra += 1;
      execution.progress(`${error.code}; another token is asked for`);
    }
  }
}

/** What a token is proven to be, on the primary, by itself. */
interface ProvenToken {
  readonly expiresAt: string;
  readonly ttlSeconds: number;
  readonly rights: Readonly<Record<string, readonly string[]>>;
  readonly findings: readonly Finding[];
}

/**
 * The token says of itself what it is: an orphan batch token of the asked life with every right that is needed.
 *
 * @throws RunbookError PRECONDITION_FAILED: the token is not kept then, and ends with its lifetime
 */
export async function proveToken(
  primary: ClusterAccess,
  token: Secret<'batch-token'>,
  { role, policy, ttlMs }: BatchTokenRotationEntry,
  needed: readonly PolicyGrant[],
  signal: AbortSignal,
): Promise<ProvenToken> {
  const cluster = primary.entry.name;
  const facts = await primary.client.sys.lookupSelf({ token, signal });
  const paths = needed.map(({ path }) => path);
  const rights = await primary.client.sys.capabilitiesSelf([...paths, ...TOO_MUCH], { token, signal });
  const refuse = (observed: string, wanted: string, next: string): RunbookError =>
    new RunbookError(
      'PRECONDITION_FAILED',
      `The new batch token of ${cluster} is not what is needed; it was not kept.`,
      {
        cluster,
        observed,
        needed: wanted,
        next: `${next} The token that was in use before stays; the new one ends with its lifetime.`,
      },
    );
  const kind = `${facts.type ?? 'type not told'}, ${facts.orphan === true ? 'orphan' : 'not orphan'}`;
  if (facts.type !== 'batch' || facts.orphan !== true)
    throw refuse(kind, 'an orphan batch token', `Correct the role: \`${roleCommand(role, policy)}\`.`);
  const asked = ttlMs / 1000;
  const ttlSeconds = facts.ttlSeconds ?? 0;
  if (ttlSeconds < Math.min(asked - SHORTER_SECONDS, asked * 0.9))
    throw refuse(`${ttlSeconds} s`, `${asked} s`, `Raise max_lease_ttl of auth/token on ${cluster}, or lower the ttl.`);
  const missing = missingRights({ capabilities: rights }, rightsIn(needed));
  if (missing.length > 0) {
    const observed = missing.map((path) => `${path}: ${rightsText({ capabilities: rights }, path)}`).join('; ');
    const wanted = missing.map((path) => `${rightsIn(needed)[path]?.join(', ')} on ${path}`).join('; ');
    throw refuse(
      observed,
      wanted,
      `Was the policy emptied on purpose? Otherwise write it: \`${policyCommand(policy)}\``,
    );
  }
  return {
    expiresAt: facts.expireTime ?? new Date(Date.now() + ttlSeconds * 1000).toISOString(),
    ttlSeconds,
    rights: Object.fromEntries(paths.map((path) => [path, rights[path] ?? []])),
    findings: tooMuch(cluster, policy, rights),
  };
}

/** Least privilege: a token that cannot be revoked must not be able to do more than it is for. */
function tooMuch(
  cluster: string,
  policy: string,
  rights: Readonly<Record<string, readonly string[]>>,
): readonly Finding[] {
  const broad = TOO_MUCH.filter((path) => (rights[path] ?? []).some((right) => right !== 'deny'));
  if (broad.length === 0) return [];
  return [
    {
      severity: 'warning',
      code: 'batch-token-too-broad',
      text: `The batch token of ${cluster} may do more than DR operations need: ${broad.join(', ')}. It cannot be revoked.`,
      next: `Write policy ${policy} as docs/operations.md has it, and look at policy "default".`,
    },
  ];
}

/** What may be told of a token that is in use. */
function tokenTimes({ ttlSeconds, creationTtlSeconds }: TokenFacts): BatchTokenFacts {
  return {
    ...(ttlSeconds === undefined ? {} : { ttlSeconds }),
    ...(ttlSeconds === undefined || creationTtlSeconds === undefined
      ? {}
      : { ageSeconds: Math.max(0, creationTtlSeconds - ttlSeconds) }),
  };
}

/** The token before, as the primary knows it: for the result alone. */
export async function replacedToken(
  primary: ClusterAccess,
  token: Secret<'batch-token'> | undefined,
  signal: AbortSignal,
): Promise<(BatchTokenFacts & { readonly usable: boolean }) | undefined> {
  if (token === undefined) return undefined;
  try {
    return { usable: true, ...tokenTimes(await primary.client.sys.lookupSelf({ token, signal })) };
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    return { usable: false };
  }
}
