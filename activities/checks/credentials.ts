import { diagnoseServerError } from '../../src/vault';
import type { Check } from '../../src/contracts/plan';
import { isRunbookError } from '../../src/errors';
import { describeSource } from '../../src/inventory';
import type { ClusterEntry } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import type { ClusterAccess } from '../clusters';
import { LOGIN_LIFE_MS, describeLogin } from '../logins';
import { hclOf } from '../tokens/policies';
import { check } from './check';

/** Seconds for which a credential must live on: at least twice what a run may take. */
export const CREDENTIAL_LIFE_SECONDS = 1_800;
/** A token that was renewed a moment ago lives a little shorter than it should. */
const LOGIN_SLACK_SECONDS = 60;

/** What was found out about a credential without using it. */
export interface CredentialFacts {
  readonly usable: boolean;
  /** Code of the error where it is not; of a login what it failed at. */
  readonly error?: string;
  readonly httpStatus?: number | undefined;
  /** Seconds left; undefined = no end. */
  readonly ttlSeconds?: number;
  /** Of the whole life of the token, seconds. */
  readonly creationTtlSeconds?: number;
  readonly type?: string;
  readonly orphan?: boolean;
  readonly capabilities: Readonly<Record<string, readonly string[]>>;
}

/** Paths with the capabilities that are needed there, all of them; `create|update` is one of both. */
export type Rights = Readonly<Record<string, readonly string[]>>;

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
    const { ttlSeconds, creationTtlSeconds, type, orphan } = facts;
    return { usable: true, ttlSeconds: ttlSeconds || undefined, creationTtlSeconds, type, orphan, capabilities };
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    const named = token === undefined ? error : await diagnoseServerError(primary.client, error, { token, signal });
    const { code, message, httpStatus } = isRunbookError(named) ? named : error;
    return { usable: false, error: code === 'CREDENTIAL_UNAVAILABLE' ? message : code, httpStatus, capabilities: {} };
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

/** How people mend a credential. */
function mendCredential({ name, deployment, credential }: ClusterEntry): string {
  return 'method' in credential
    ? `Correct the ${describeLogin(credential)} of ${name}: its role, or what the worker logs in with.`
    : `Renew the credential of ${name} at its source: ${describeSource(credential)}. \`runbook policy ${deployment} --commands\` says how to make one.`;
}

export function credentialWorks(entry: ClusterEntry, { usable, error, httpStatus }: CredentialFacts): Check {
  return check('credential works', entry.name, usable, {
    observed: usable ? 'accepted' : (error ?? 'not usable'),
    needed: 'a token that the cluster accepts',
    next: BROKEN.has(error ?? '') ? stopBroken(entry.name, httpStatus) : mendCredential(entry),
  });
}

/** Codes of a cluster that answers and cannot serve, whatever the token. */
export const BROKEN: ReadonlySet<string> = new Set(['AUDIT_DEVICE_BLOCKED', 'SERVICE_ERROR']);

/** The way out where a primary answers and serves nobody. Sealing by its API needs a call that works. */
export function stopBroken(cluster: string, httpStatus: number | undefined): string {
  // With 501 or 502 it is something else.
  const [why, mend] =
    httpStatus === 500
      ? [
          `Either the storage of ${cluster} is full (\`df\` on its nodes, "no space left on device" in the log of the service), or its audit device is blocked (no new line in the audit log).`,
          'free its audit devices and its storage',
        ]
      : [`Calls to ${cluster} fail inside of the service: read its log.`, 'mend what it says'];
  return `${why} A drSwitchover writes on ${cluster} and cannot work until it serves again: ${mend}. Where that takes too long: stop the service on every node of ${cluster} (\`systemctl stop vault\`; sealing it by a call fails while its audit device is blocked), keep it cut off from its clients, then start drFailover.`;
}

/** Seconds for which a credential must live on: one that the worker renews, or replaces by another login, may be shorter. */
function neededLife({ credential }: ClusterEntry): number {
  return 'method' in credential ? LOGIN_LIFE_MS / 1_000 - LOGIN_SLACK_SECONDS : CREDENTIAL_LIFE_SECONDS;
}

export function credentialLives(entry: ClusterEntry, { type, ttlSeconds }: CredentialFacts): Check {
  const { name, credential } = entry;
  const login = 'method' in credential ? credential : undefined;
  const left = `${type ?? 'token'}, ${ttlSeconds === undefined ? 'no end' : `${ttlSeconds} s left`}`;
  return check('credential lives long enough', name, ttlSeconds === undefined || ttlSeconds >= neededLife(entry), {
    observed: login ? `${left}; ${describeLogin(login)}, renewed by the worker or replaced by another login` : left,
    needed: `at least ${neededLife(entry)} s`,
    next: login ? `Raise token_ttl of the role of the ${describeLogin(login)} to 10m or more.` : mendCredential(entry),
  });
}

/** That a credential works and has each right, by the word of the cluster that looked it up. */
export function credentialMay(entry: ClusterEntry, facts: CredentialFacts, needed: Rights): Check[] {
  if (!facts.usable) return [credentialWorks(entry, facts)];
  const missing = missingRights(facts, needed);
  return Object.entries(needed).map(([path, rights]) =>
    check(`credential may call ${path}`, entry.name, !missing.includes(path), {
      observed: rightsText(facts, path),
      needed: rights.map((right) => right.replace('|', ' or ')).join(' and '),
      next: `Add to the policy of the workers' credential for ${entry.name}: \`${lineFor(path, rights)}\``,
    }),
  );
}

/** The line of a policy with these rights. */
function lineFor(path: string, rights: readonly string[]): string {
  return hclOf([{ path, capabilities: rights.flatMap((right) => right.split('|')) }]);
}

/** As {@link credentialMay}, asked of the cluster itself. For clusters that serve look-ups: a DR secondary does not. */
export async function mayCall(access: ClusterAccess, needed: Rights, signal: AbortSignal): Promise<Check[]> {
  if (Object.keys(needed).length === 0) return [];
  const facts = await credentialFacts(access, () => access.credential(), Object.keys(needed), signal);
  return credentialMay(access.entry, facts, needed);
}
