import { diagnoseServerError } from '../../src/vault';
import type { Check } from '../../src/contracts/plan';
import { isRunbookError } from '../../src/errors';
import { describeSource } from '../../src/inventory';
import type { ClusterEntry } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import type { ClusterAccess } from '../clusters';
import { LOGIN_LIFE_MS, describeLogin } from '../logins';
import { causeOf, check } from './check';
import type { Rights } from './rights';
import { hclOf } from './rights';

/** Seconds that a credential must still be valid for: at least twice what a run may take. */
export const CREDENTIAL_LIFE_SECONDS = 1_800;
/** Tolerance: a token that was just renewed has slightly less than its full TTL left. */
const LOGIN_SLACK_SECONDS = 60;

/** What is known about a credential without using it. */
export interface CredentialFacts {
  readonly usable: boolean;
  /** The error code if it is not usable; for a login, what failed. */
  readonly error?: string;
  readonly httpStatus?: number | undefined;
  /** The error as people read it: its code, and what the answer said. */
  readonly cause?: string;
  /** Calls left; undefined if they are not counted. */
  readonly usesLeft?: number | undefined;
  /** Seconds left; undefined if it does not expire. */
  readonly ttlSeconds?: number;
  /** The full TTL of the token, seconds. */
  readonly creationTtlSeconds?: number;
  readonly type?: string;
  readonly orphan?: boolean;
  readonly capabilities: Readonly<Record<string, readonly string[]>>;
}

/** Asks a cluster what a token may do; the token itself is never shown. */
export async function credentialFacts(
  primary: ClusterAccess,
  read: () => Promise<Secret>,
  paths: readonly string[],
  signal: AbortSignal,
): Promise<CredentialFacts> {
  let token: Secret | undefined;
  try {
    token = await read();
    const { sys } = primary.client;
    const [facts, capabilities] = await Promise.all([
      sys.lookupSelf({ token, signal }),
      sys.capabilitiesSelf(paths, { token, signal }),
    ]);
    const { ttlSeconds, creationTtlSeconds, type, orphan, usesLeft } = facts;
    return {
      ...{ usable: true, ttlSeconds: ttlSeconds || undefined, creationTtlSeconds, type, orphan, capabilities },
      usesLeft: usesLeft || undefined,
    };
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    const named = token === undefined ? error : await diagnoseServerError(primary.client, error, { token, signal });
    const { code, message, httpStatus, answerText, observed } = isRunbookError(named) ? named : error;
    const cause = observed === undefined ? causeOf({ code, answerText }) : `${code}: ${observed}`;
    const isSource = code === 'CREDENTIAL_UNAVAILABLE';
    return {
      usable: false,
      error: isSource ? message : code,
      cause: isSource ? message : cause,
      httpStatus,
      capabilities: {},
    };
  }
}

/** The paths on which a needed right is missing. */
export function missingRights({ capabilities }: Pick<CredentialFacts, 'capabilities'>, needed: Rights): string[] {
  return Object.keys(needed).filter((path) => {
    const given = capabilities[path] ?? [];
    const has = (right: string) => right.split('|').some((each) => given.includes(each));
    return !given.includes('root') && !needed[path]?.every(has);
  });
}

export function rightsText({ capabilities }: Pick<CredentialFacts, 'capabilities'>, path: string): string {
  return (capabilities[path] ?? []).join(', ') || 'none';
}

/** How operators fix a credential. */
function fixCredential({ name, deployment, credential }: ClusterEntry): string {
  return 'method' in credential
    ? `Correct the ${describeLogin(credential)} of ${name}: its role, or the secret that the worker logs in with.`
    : `Renew the credential of ${name} at its source: ${describeSource(credential)}. \`runbook policy ${deployment} --commands\` prints the commands that create one.`;
}

/** What stops the workers without being a fault of their credential. */
function fixOf(entry: ClusterEntry, { error = '', httpStatus }: CredentialFacts): string {
  if (BROKEN.has(error)) return fixServerError(entry.name, { code: error, httpStatus });
  if (error === 'RATE_LIMITED')
    return `A rate-limit quota of ${entry.name} refuses the workers ("vault list sys/quotas/rate-limit"): raise it, or exempt the paths that the workers call. During an outage it would refuse them too.`;
  return fixCredential(entry);
}

export function credentialWorks(entry: ClusterEntry, facts: CredentialFacts): Check {
  const { usable, error, cause } = facts;
  return check('credential works', entry.name, usable, {
    observed: usable ? 'accepted' : (cause ?? error ?? 'not usable'),
    needed: 'a token that the cluster accepts',
    next: fixOf(entry, facts),
  });
}

/** Codes of a cluster that answers but cannot serve, whatever the token. */
export const BROKEN: ReadonlySet<string> = new Set(['AUDIT_DEVICE_BLOCKED', 'SERVICE_ERROR']);

/** A performance secondary without a connection to its primary (facts 13.11). */
export const CANNOT_FORWARD =
  'Until it does, it serves reads and refuses the writes that belong to the primary (500 "cannot forward").';

/** How a cluster that refuses writes for that reason gets its primary back. It must not be stopped: it serves reads. */
export function followPrimary(cluster: string): string {
  return `Make sure that ${cluster} reaches the cluster port of its performance primary. If it does not connect by itself, start secondaryRepointing of ${cluster} to that primary with {"kind": "performance"}. Do not stop ${cluster}, and start no failover from it.`;
}

/** The likely causes of an error of the service itself, and what ends them. */
function causesOf(cluster: string, httpStatus: number | undefined): readonly [why: string, fix: string] {
  // 501 and 502 have other causes.
  return httpStatus === 500
    ? [
        `Either the storage of ${cluster} is full (check \`df\` on its nodes, and the service log for "no space left on device"), or its audit device is blocked (no new line in the audit log).`,
        'unblock its audit devices and free its storage',
      ]
    : [`Calls to ${cluster} fail inside the service: read its log.`, 'fix the problems that it reports'];
}

/** After one answer or one failed write, which is no reason to stop a cluster. */
function lookAgain(cluster: string, httpStatus: number | undefined): string {
  const [why, fix] = causesOf(cluster, httpStatus);
  return `${why} If so, ${fix}. Then look again: \`runbook readiness\`. If every write or every call with a token still fails, follow "The primary answers, but is broken" in docs/on-call.md.`;
}

/**
 * What helps against an error of the service itself. That the audit device is blocked is concluded from several agreeing
 * facts: health 200, and two calls with a token that fail at the same node.
 */
export function fixServerError(
  cluster: string,
  { code, httpStatus }: { readonly code: string; readonly httpStatus?: number | undefined },
): string {
  return code === 'AUDIT_DEVICE_BLOCKED' ? stopBroken(cluster, httpStatus) : lookAgain(cluster, httpStatus);
}

/** The way out if a primary answers but serves nobody. Sealing it through its API needs a call that works. */
export function stopBroken(cluster: string, httpStatus: number | undefined): string {
  const [why, fix] = causesOf(cluster, httpStatus);
  return `${why} A drSwitchover writes to ${cluster} and cannot work until it serves again: ${fix}. If that takes too long, stop the service on every node of ${cluster} (\`systemctl stop vault\`; a seal call fails while its audit device is blocked), keep it cut off from its clients, then start drFailover.`;
}

/** Seconds that a credential must still be valid for: fewer for one that the worker renews or replaces with a new login. */
function neededLife({ credential }: ClusterEntry): number {
  return 'method' in credential ? LOGIN_LIFE_MS / 1_000 - LOGIN_SLACK_SECONDS : CREDENTIAL_LIFE_SECONDS;
}

export function credentialLives(entry: ClusterEntry, { type, ttlSeconds, usesLeft }: CredentialFacts): Check {
  const { name, credential } = entry;
  if (usesLeft !== undefined)
    return check('credential lives long enough', name, false, {
      observed: `${type ?? 'token'}, ${usesLeft} uses left`,
      needed: 'a token without a limit of uses: every call of a run uses one up',
      next:
        'method' in credential
          ? `Set token_num_uses=0 on the role of the ${describeLogin(credential)}.`
          : fixCredential(entry),
    });
  const login = 'method' in credential ? credential : undefined;
  const left = `${type ?? 'token'}, ${ttlSeconds === undefined ? 'no expiry' : `${ttlSeconds} s left`}`;
  return check('credential lives long enough', name, ttlSeconds === undefined || ttlSeconds >= neededLife(entry), {
    observed: login ? `${left}; ${describeLogin(login)}, renewed by the worker or replaced with a new login` : left,
    needed: `at least ${neededLife(entry)} s`,
    next: login ? `Raise token_ttl on the role of the ${describeLogin(login)} to 10m or more.` : fixCredential(entry),
  });
}

/** Whether a credential works and has each right, according to the cluster that looked it up. */
export function credentialMay(entry: ClusterEntry, facts: CredentialFacts, needed: Rights): Check[] {
  if (!facts.usable) return [credentialWorks(entry, facts)];
  const missing = missingRights(facts, needed);
  return Object.entries(needed).map(([path, rights]) => {
    const line = hclOf([{ path, capabilities: rights.flatMap((right) => right.split('|')) }]);
    return check(`credential may call ${path}`, entry.name, !missing.includes(path), {
      observed: rightsText(facts, path),
      needed: rights.map((right) => right.replace('|', ' or ')).join(' and '),
      next: `Add to the policy of the workers' credential for ${entry.name}: \`${line}\``,
    });
  });
}

/** As {@link credentialMay}, but asks the cluster itself. Only for clusters that serve lookups: a DR secondary does not. */
export async function mayCall(access: ClusterAccess, needed: Rights, signal: AbortSignal): Promise<Check[]> {
  if (Object.keys(needed).length === 0) return [];
  const facts = await credentialFacts(access, () => access.credential(), Object.keys(needed), signal);
  return credentialMay(access.entry, facts, needed);
}
