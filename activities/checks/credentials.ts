import { diagnoseServerError } from '../../src/vault';
import type { Check } from '../../src/contracts/plan';
import { isRunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { ClusterAccess } from '../clusters';
import { check } from './check';

/** Seconds for which a credential must live on: at least twice what a run may take. */
export const CREDENTIAL_LIFE_SECONDS = 1_800;

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

export const CREDENTIAL_WORKS = 'credential works';

export function credentialWorks(cluster: string, { usable, error }: CredentialFacts): Check {
  return check(CREDENTIAL_WORKS, cluster, usable, {
    observed: usable ? 'accepted' : (error ?? 'not usable'),
    needed: 'a token that the cluster accepts',
    next: BROKEN.has(error ?? '') ? stopBroken(cluster) : `Renew the credential of ${cluster} at its source.`,
  });
}

/** Codes of a cluster that answers and cannot serve, whatever the token. */
export const BROKEN: ReadonlySet<string> = new Set(['AUDIT_DEVICE_BLOCKED', 'SERVICE_ERROR']);

/** The way out where a primary answers and serves nobody. Sealing by its API needs a call that works. */
export function stopBroken(cluster: string): string {
  return `A drSwitchover writes on ${cluster} and cannot work until it serves again: free its audit devices and its storage. Where that takes too long: stop the service on every node of ${cluster} (\`systemctl stop vault\`; sealing it by a call fails while its audit device is blocked), keep it cut off from its clients, then start drFailover.`;
}

export function credentialLives(cluster: string, { type, ttlSeconds }: CredentialFacts): Check {
  return check(
    'credential lives long enough',
    cluster,
    ttlSeconds === undefined || ttlSeconds >= CREDENTIAL_LIFE_SECONDS,
    {
      observed: `${type ?? 'token'}, ${ttlSeconds === undefined ? 'no end' : `${ttlSeconds} s left`}`,
      needed: `at least ${CREDENTIAL_LIFE_SECONDS} s`,
      next: `Renew the credential of ${cluster} at its source.`,
    },
  );
}

/** That a credential works and has each right, by the word of the cluster that looked it up. */
export function credentialMay(cluster: string, facts: CredentialFacts, needed: Rights): Check[] {
  if (!facts.usable) return [credentialWorks(cluster, facts)];
  const missing = missingRights(facts, needed);
  return Object.entries(needed).map(([path, rights]) =>
    check(`credential may call ${path}`, cluster, !missing.includes(path), {
      observed: rightsText(facts, path),
      needed: rights.map((right) => right.replace('|', ' or ')).join(' and '),
      next: `Give the policy of the workers' credential for ${cluster} these rights on ${path}.`,
    }),
  );
}

/** As {@link credentialMay}, asked of the cluster itself. For clusters that serve look-ups: a DR secondary does not. */
export async function mayCall(access: ClusterAccess, needed: Rights, signal: AbortSignal): Promise<Check[]> {
  if (Object.keys(needed).length === 0) return [];
  const facts = await credentialFacts(access, () => access.credential(), Object.keys(needed), signal);
  return credentialMay(access.entry.name, facts, needed);
}
