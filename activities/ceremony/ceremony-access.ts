import type { GeneratedTokenKind, GenerationEndpoints } from '../../src/vault';
import type { Check } from '../../src/contracts/plan';
import { RunbookError, isRunbookError } from '../../src/errors';
import { readCredential } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import type { ClusterAccess } from '../clusters';
import { check } from '../checks/check';
import { majorVersion } from '../checks/versions';

/**
 * How the calls of a generation attempt are let in. `open`: the cluster's configuration lets everybody in, as in a
 * break-glass.
 */
export type CeremonyAccess = 'not-needed' | 'accepted' | 'open' | 'refused' | 'no-credential';

/** With what the calls are made. */
export interface CeremonyWay {
  readonly access: CeremonyAccess;
  /** X-Vault-Token of the calls, where one is sent. */
  readonly token?: Secret | undefined;
  /** The source that the cluster accepts, as the inventory names it. */
  readonly from?: string;
}

/** The values of `enable_unauthenticated_access` that open the calls of each kind of ceremony. */
const OPENED_BY: Readonly<Record<GeneratedTokenKind, string>> = {
  'operation-token': 'generate-operation-token',
  'root-token': 'generate-root',
};

interface AccessQuestion {
  readonly kind: GeneratedTokenKind;
  /** Of the service; before 2.0 nothing is asked for. */
  readonly version: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * What the calls of a generation attempt need (facts 5.6): nothing before version 2.0 of the service. From then on each
 * source of the inventory is tried by reading the attempt: what it has for this, the batch token, the cluster's own
 * credential; at last nothing at all.
 */
async function findCeremonyWay(access: ClusterAccess, asking: AccessQuestion): Promise<CeremonyWay> {
  const { kind, version } = asking;
  const { ceremonyCredential } = access.entry;
  if (majorVersion(version) < 2)
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
 * As {@link findCeremonyWay}, and whether everybody is let in: such a cluster does not look at tokens, so that one that it
 * seems to accept says nothing.
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

/** Whether the read is let in; what it then answers, such as that it is not served now, is not the question. */
async function letsIn(
  access: ClusterAccess,
  { kind, signal }: AccessQuestion,
  token: Secret | undefined,
): Promise<boolean> {
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
 * With what the calls are made now.
 *
 * @throws RunbookError CEREMONY_CLOSED where nothing in hand lets them in
 */
export async function ceremonyToken(
  access: ClusterAccess,
  version: string | undefined,
  kind: GeneratedTokenKind,
  signal: AbortSignal,
): Promise<Secret | undefined> {
  const way = await findCeremonyWay(access, { kind, version, signal });
  if (isIn(way.access)) return way.token;
  const { name } = access.entry;
  throw new RunbookError('CEREMONY_CLOSED', `${name} lets nobody hold a ceremony with what the worker has.`, {
    cluster: name,
    observed: `${inWords(way)}; version ${version ?? 'not told'}`,
    needed: NEEDED[kind],
    next: openingInWords(access, kind),
  });
}

/** What people do at which node so that a ceremony is let in. */
function openingInWords({ entry }: ClusterAccess, kind: GeneratedTokenKind): string {
  const { name, addresses } = entry;
  return [
    `Better: give an orphan batch token as batchToken or ceremonyCredential of ${name}, then retry.`,
    `Only where none can be had: on every node of ${name} (${addresses.join(', ')}), standbys too, put \`enable_unauthenticated_access = ["${OPENED_BY[kind]}"]\` into the server's configuration file, at its top level, then \`kill -HUP $(pidof vault)\` (no restart: a node that does not unseal itself would stay sealed), then retry.`,
    'Meanwhile anybody who reaches the cluster may occupy or cancel its one generation slot; nobody gets a token without the key shares. Take it back after the run.',
  ].join(' ');
}

export function isIn(access: CeremonyAccess): boolean {
  return access === 'not-needed' || access === 'accepted' || access === 'open';
}

const NEEDED: Readonly<Record<GeneratedTokenKind, string>> = {
  'operation-token':
    'from version 2.0: an orphan batch token, or a root token of the primary, for the four generate-operation-token calls',
  'root-token': 'from version 2.0: a token with rights on sys/generate-root/attempt and sys/generate-root/update',
};

/** What is known of the way in, in words that people read in a plan. */
function inWords({ access, from = 'a stored credential' }: Pick<CeremonyWay, 'access' | 'from'>): string {
  return access === 'accepted' ? `accepted: ${from}` : IN_WORDS[access];
}

const IN_WORDS: Readonly<Record<Exclude<CeremonyAccess, 'accepted'>, string>> = {
  'not-needed': 'no credential is needed before version 2.0',
  open: 'open to everybody by enable_unauthenticated_access',
  refused: 'refused: what the inventory names',
  'no-credential': 'no-credential: nothing that the inventory names can be read',
};

/**
 * Whether a ceremony can begin, said before it does. Where nothing lets it in that is no refusal: the step parks, and says
 * how people open the calls, which those who approve the plan allow.
 */
export function ceremonyCallsAllowed(
  cluster: string,
  kind: GeneratedTokenKind,
  version: string | undefined,
  way: Pick<CeremonyWay, 'access' | 'from'>,
): Check {
  const rotation = kind === 'operation-token' ? 'start batchTokenRotation while a primary serves, or ' : '';
  return check('ceremony calls allowed', cluster, way.access === 'not-needed' || way.access === 'accepted', {
    observed: version === undefined ? inWords(way) : `${inWords(way)} (version ${version})`,
    needed: NEEDED[kind],
    otherwise: 'warn',
    next:
      way.access === 'open'
        ? `Anybody may occupy the slot of ${cluster} now: take enable_unauthenticated_access back after the ceremony.`
        : `Better before: ${rotation}give ceremonyCredential of ${cluster}. Otherwise the step parks until people opened the calls for the time of the ceremony (break-glass: enable_unauthenticated_access on every node).`,
  });
}

/** What plans say of the ceremonies on these clusters. It depends on versions alone: a plan read again stays the same. */
export function breakGlassWarnings(
  kind: GeneratedTokenKind,
  clusters: readonly { readonly cluster: string; readonly version?: string | undefined }[],
): readonly string[] {
  const newer = clusters.filter(({ version }) => majorVersion(version) >= 2).map(({ cluster }) => cluster);
  if (newer.length === 0) return [];
  return [
    `From version 2.0 the ceremony calls of ${newer.join(', ')} need a credential. Where none in hand is accepted, people open them for the time of the ceremony by \`enable_unauthenticated_access = ["${OPENED_BY[kind]}"]\`: meanwhile anybody who reaches the cluster may occupy or cancel its one generation slot, and nobody gets a token without the key shares. They take it back after the run.`,
  ];
}
