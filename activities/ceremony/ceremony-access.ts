import type { GeneratedTokenKind, GenerationEndpoints } from '../../src/vault';
import type { Check } from '../../src/contracts/plan';
import { RunbookError, isRunbookError } from '../../src/errors';
import { readCredential } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import type { ClusterAccess } from '../clusters';
import { check } from '../checks/check';
import { NO_VERSION, isBeforeMajor } from '../checks/versions';

/**
 * Whether the calls of a generation attempt have access. `open`: the cluster's configuration gives everybody access, as
 * in a break-glass.
 */
type CeremonyAccess = 'not-needed' | 'accepted' | 'open' | 'refused' | 'no-credential';

/** The access of the calls, and the token to send. */
export interface CeremonyWay {
  readonly access: CeremonyAccess;
  /** X-Vault-Token of the calls, if one is sent. */
  readonly token?: Secret | undefined;
  /** The inventory's name for the source that the cluster accepts. */
  readonly from?: string;
}

/** The values of `enable_unauthenticated_access` that open the calls of each kind of ceremony. */
const OPENED_BY: Readonly<Record<GeneratedTokenKind, string>> = {
  'operation-token': 'generate-operation-token',
  'root-token': 'generate-root',
};

interface AccessQuestion {
  readonly kind: GeneratedTokenKind;
  /** Version of the service; before 2.0 no credential is needed. Where it is not known, the calls are tried as from 2.0 on. */
  readonly version: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Finds the access for the calls of a generation attempt (facts 5.6). Before version 2.0 of the service they need
 * nothing. From 2.0 on, tries each source of the inventory by reading the attempt: the ceremony credential, the batch
 * token, the cluster's own credential, and finally no credential at all.
 */
async function findCeremonyWay(access: ClusterAccess, asking: AccessQuestion): Promise<CeremonyWay> {
  const { kind, version } = asking;
  const { ceremonyCredential } = access.entry;
  if (isBeforeMajor(2, version))
    return { access: 'not-needed', token: ceremonyCredential && (await readCredential(ceremonyCredential)) };
  const batch = kind === 'operation-token' ? access.batchToken() : undefined;
  batch?.catch(() => undefined);
  const sources = {
    ceremonyCredential: ceremonyCredential && (() => readCredential(ceremonyCredential)),
    batchToken: batch && (() => batch),
    credential: () => access.credential(),
  };
  let refused = false;
  for (const [from, read] of Object.entries(sources)) {
    const token = await read?.().catch((error: unknown) => {
      if (!isRunbookError(error)) throw error;
      return undefined;
    });
    if (!token) continue;
    if (await letsIn(access, asking, token)) return { access: 'accepted', token, from };
    refused = true;
  }
  if (await letsIn(access, asking, undefined)) return { access: 'open' };
  return { access: refused ? 'refused' : 'no-credential' };
}

/**
 * As {@link findCeremonyWay}, but also detects open access: such a cluster ignores tokens, so that one that it seems to
 * accept proves nothing.
 */
export async function judgeCeremonyWay(access: ClusterAccess, asking: AccessQuestion): Promise<CeremonyWay> {
  const way = await findCeremonyWay(access, asking);
  const isOpen = way.access === 'accepted' && (await letsIn(access, asking, undefined).catch(() => false));
  return isOpen ? { access: 'open', token: way.token } : way;
}

/** The generation endpoints of a kind of token. */
export function endpointsOf(access: ClusterAccess, kind: GeneratedTokenKind): GenerationEndpoints<GeneratedTokenKind> {
  return kind === 'root-token' ? access.client.sys.generateRoot : access.client.dr.secondary.generateOperationToken;
}

/** Whether the read has access. Its answer does not matter, for example that it is not served now. */
async function letsIn(access: ClusterAccess, { kind, signal }: AccessQuestion, token: Secret | undefined) {
  try {
    await endpointsOf(access, kind).readAttempt({ token, signal });
    return true;
  } catch (error) {
    if (isRunbookError(error, 'PERMISSION_DENIED')) return false;
    if (isRunbookError(error, 'BAD_REQUEST')) return true;
    throw error;
  }
}

/**
 * The token to send with the calls now.
 *
 * @throws RunbookError CEREMONY_CLOSED if no available credential gives access
 */
export async function ceremonyToken(
  access: ClusterAccess,
  version: string | undefined,
  kind: GeneratedTokenKind,
  signal: AbortSignal,
): Promise<Secret | undefined> {
  const way = await findCeremonyWay(access, { kind, version, signal });
  if (way.access !== 'refused' && way.access !== 'no-credential') return way.token;
  const { name } = access.entry;
  throw new RunbookError(
    'CEREMONY_CLOSED',
    `No credential of the worker gives access to the ceremony calls of ${name}.`,
    {
      cluster: name,
      observed: `${accessText(way)}; version ${version ?? NO_VERSION}`,
      needed: NEEDED[kind],
      next: openingText(access, kind),
    },
  );
}

/** What people do, and on which nodes, to give a ceremony access. */
function openingText({ entry }: ClusterAccess, kind: GeneratedTokenKind): string {
  const { name, addresses } = entry;
  return [
    `Preferred: set an orphan batch token as batchToken or ceremonyCredential of ${name}, then retry.`,
    `Only if none is available: on every node of ${name} (${addresses.join(', ')}), including standbys, put \`enable_unauthenticated_access = ["${OPENED_BY[kind]}"]\` at the top level of the server's configuration file. On each of them run \`kill -HUP $(pidof vault)\` (no restart: a node that does not unseal itself would stay sealed), then retry.`,
    'Meanwhile anybody who can reach the cluster can occupy or cancel its single generation slot; without the key shares they cannot get a token. Remove the line after the run.',
  ].join(' ');
}

const NEEDED: Readonly<Record<GeneratedTokenKind, string>> = {
  'operation-token':
    'from version 2.0: an orphan batch token, or a root token of the primary, for the four generate-operation-token calls',
  'root-token': 'from version 2.0: a token with rights on sys/generate-root/attempt and sys/generate-root/update',
};

/** The access as text, for plans. */
function accessText({ access, from = 'a stored credential' }: Pick<CeremonyWay, 'access' | 'from'>): string {
  return access === 'accepted' ? `accepted: ${from}` : IN_WORDS[access];
}

const IN_WORDS: Readonly<Record<Exclude<CeremonyAccess, 'accepted'>, string>> = {
  'not-needed': 'no credential is needed before version 2.0',
  open: 'open to everybody through enable_unauthenticated_access',
  refused: 'refused: every credential that the inventory names',
  'no-credential': 'no-credential: no credential that the inventory names can be read',
};

/**
 * Whether a ceremony has access, checked before it begins. Without access the run is not refused: the step parks and
 * shows how people open the calls, which the approvers of the plan have permitted.
 */
export function ceremonyCallsAllowed(
  cluster: string,
  kind: GeneratedTokenKind,
  version: string | undefined,
  way: Pick<CeremonyWay, 'access' | 'from'>,
): Check {
  const rotation = kind === 'operation-token' ? 'start batchTokenRotation while a primary serves, or ' : '';
  return check('ceremony calls allowed', cluster, way.access === 'not-needed' || way.access === 'accepted', {
    observed:
      version === undefined ? `${accessText(way)}; version ${NO_VERSION}` : `${accessText(way)} (version ${version})`,
    needed: NEEDED[kind],
    otherwise: 'warn',
    next:
      way.access === 'open'
        ? `Anybody can occupy the slot of ${cluster} now. ${version === undefined ? 'Before version 2.0 that cannot be changed; from 2.0 on, remove' : 'Remove'} enable_unauthenticated_access after the ceremony.`
        : `Preferred, before the run: ${rotation}set ceremonyCredential of ${cluster}. Otherwise the step parks until people open the calls for the duration of the ceremony (break-glass: enable_unauthenticated_access on every node).`,
  });
}

/**
 * Warnings of plans about ceremonies on these clusters. They depend on versions only, so that a re-read plan is the
 * same.
 */
export function breakGlassWarnings(
  kind: GeneratedTokenKind,
  clusters: readonly { readonly cluster: string; readonly version?: string | undefined }[],
): readonly string[] {
  const newer = clusters.filter(({ version }) => !isBeforeMajor(2, version)).map(({ cluster }) => cluster);
  if (newer.length === 0) return [];
  return [
    `From version 2.0 the ceremony calls of ${newer.join(', ')} need a credential. If no available credential is accepted, people open the calls for the duration of the ceremony with \`enable_unauthenticated_access = ["${OPENED_BY[kind]}"]\`. Meanwhile anybody who can reach the cluster can occupy or cancel its single generation slot, but without the key shares they cannot get a token. People remove the line after the run.`,
  ];
}
