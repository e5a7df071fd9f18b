import type { GeneratedTokenKind, GenerationEndpoints } from '../../src/vault';
import type { Check } from '../../src/contracts/plan';
import { RunbookError, isRunbookError } from '../../src/errors';
import { readCredential } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import type { ClusterAccess } from '../clusters';
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

/** The kinds of ceremony, with the value of `enable_unauthenticated_access` that opens their calls. */
type CeremonyKind = GeneratedTokenKind;
const OPENED_BY: Readonly<Record<CeremonyKind, string>> = {
  'operation-token': 'generate-operation-token',
  'root-token': 'generate-root',
};

interface AccessQuestion {
  readonly kind: CeremonyKind;
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
  const sources: readonly (readonly [string, () => Promise<Secret>])[] = [
    ...(ceremonyCredential ? [['ceremonyCredential', () => readCredential(ceremonyCredential)] as const] : []),
    ...(batch ? [['batchToken', () => batch] as const] : []),
    ['credential', () => access.credential()],
  ];
  let refused = false;
  for (const [from, read] of sources) {
    let token: Secret;
    try {
      token = await read();
    } catch (error) {
      if (!isRunbookError(error)) throw error;
      continue;
    }
    if (await letsIn(access, asking, token)) return { access: 'accepted', token, from };
    refused = true;
  }
  if (await letsIn(access, asking, undefined)) return { access: 'open' };
  return { access: refused ? 'refused' : 'no-credential' };
}

/**
 * As {@link findCeremonyWay}, for judging: a cluster that lets everybody in does not look at tokens, so that one that it
 * seems to accept says nothing.
 */
export async function judgeCeremonyWay(access: ClusterAccess, asking: AccessQuestion): Promise<CeremonyWay> {
  const way = await findCeremonyWay(access, asking);
  return way.access === 'accepted' && (await letsIn(access, asking, undefined)) ? { access: 'open' } : way;
}

/** The generation endpoints of a kind of token. */
export function endpointsOf(access: ClusterAccess, kind: CeremonyKind): GenerationEndpoints<GeneratedTokenKind> {
  return kind === 'root-token' ? access.client.sys.generateRoot : access.client.dr.secondary.generateOperationToken;
}

/** Whether the read is let in; what it then answers, such as that it is not served now, is not the question. */
async function letsIn(
  access: ClusterAccess,
  { kind, signal }: AccessQuestion,
  token: Secret | undefined,
): Promise<boolean> {
  const endpoints = endpointsOf(access, kind);
  try {
    await endpoints.readAttempt({ ...(token && { token }), ...(signal && { signal }) });
    return true;
  } catch (error) {
    if (isRunbookError(error, 'PERMISSION_DENIED')) return false;
    if (isRunbookError(error, 'BAD_REQUEST')) return true;
    throw error;
  }
}

/**
 * As {@link findCeremonyWay}, for whoever makes the calls now.
 *
 * @throws RunbookError CEREMONY_CLOSED where nothing in hand lets them in
 */
export async function ceremonyToken(
  access: ClusterAccess,
  version: string | undefined,
  kind: CeremonyKind = 'operation-token',
  signal?: AbortSignal,
): Promise<Secret | undefined> {
  return (await requireCeremonyWay(access, { kind, version, signal })).token;
}

/** As {@link ceremonyToken}, and how the calls are let in. */
async function requireCeremonyWay(access: ClusterAccess, asking: AccessQuestion): Promise<CeremonyWay> {
  const { kind, version } = asking;
  const way = await findCeremonyWay(access, asking);
  if (isIn(way.access)) return way;
  const { name } = access.entry;
  throw new RunbookError('CEREMONY_CLOSED', `${name} lets nobody hold a ceremony with what the worker has.`, {
    cluster: name,
    observed: `${inWords(way)}; version ${version ?? 'not told'}`,
    needed: neededFor(kind),
    next: openingInWords(access, kind),
  });
}

/**
 * As {@link ceremonyToken}, for a burst: with what people do to close the calls again, where the cluster lets everybody
 * in, whoever opened them.
 */
export async function ceremonyEntry(
  access: ClusterAccess,
  asking: AccessQuestion,
): Promise<{ readonly token: Secret | undefined; readonly closeAfterwards?: readonly string[] }> {
  const way = await requireCeremonyWay(access, asking);
  const { token } = way;
  const open =
    way.access === 'open' ||
    (way.access === 'accepted' && (await letsIn(access, asking, undefined).catch(() => false)));
  return open ? { token, closeAfterwards: closingInWords(access, asking.kind) } : { token };
}

/** What people do at which node so that a ceremony is let in. */
function openingInWords({ entry }: ClusterAccess, kind: CeremonyKind): string {
  const { name, addresses } = entry;
  return [
    `Better: give an orphan batch token as batchToken or ceremonyCredential of ${name}, then retry.`,
    `Only where none can be had: on every node of ${name} (${addresses.join(', ')}), standbys too, put \`enable_unauthenticated_access = ["${OPENED_BY[kind]}"]\` into the server's configuration file, at its top level, then \`kill -HUP $(pidof vault)\` (no restart: a node that does not unseal itself would stay sealed), then retry.`,
    'Meanwhile anybody who reaches the cluster may occupy or cancel its one generation slot; nobody gets a token without the key shares. Take it back after the run.',
  ].join(' ');
}

/** What people do at which node so that nobody is let in without a token any more. */
function closingInWords({ entry }: ClusterAccess, kind: CeremonyKind): string[] {
  return [
    `On every node of ${entry.name} (${entry.addresses.join(', ')}) take "${OPENED_BY[kind]}" out of enable_unauthenticated_access again, and send SIGHUP: \`kill -HUP $(pidof vault)\`.`,
    '`runbook readiness` sees whether the active node refuses a call without a token. Standbys cannot be asked: look at their files.',
  ];
}

export function isIn(access: CeremonyAccess): boolean {
  return access === 'not-needed' || access === 'accepted' || access === 'open';
}

function neededFor(kind: CeremonyKind): string {
  return kind === 'operation-token'
    ? 'from version 2.0: an orphan batch token, or a root token of the primary, for the four generate-operation-token calls'
    : 'from version 2.0: a token with rights on sys/generate-root/attempt and sys/generate-root/update';
}

/** What is known of the way in, in words that people read in a plan. */
export function inWords({ access, from }: Pick<CeremonyWay, 'access' | 'from'>): string {
  switch (access) {
    case 'not-needed':
      return 'no credential is needed before version 2.0';
    case 'accepted':
      return `accepted: ${from ?? 'a stored credential'}`;
    case 'open':
      return 'open to everybody by enable_unauthenticated_access';
    case 'refused':
      return 'refused: what the inventory names';
    case 'no-credential':
      return 'no-credential: nothing that the inventory names can be read';
  }
}

/**
 * Whether a ceremony can begin, said before it does. Where nothing lets it in that is no refusal: the step parks, and says
 * how people open the calls, which those who approve the plan allow.
 */
export function ceremonyCallsAllowed(
  cluster: string,
  kind: CeremonyKind,
  version: string | undefined,
  way: Pick<CeremonyWay, 'access' | 'from'>,
): Check {
  const good = way.access === 'not-needed' || way.access === 'accepted';
  const remedy =
    kind === 'operation-token'
      ? `Better before: start batchTokenRotation while a primary serves, or give ceremonyCredential of ${cluster}.`
      : `Better before: give ceremonyCredential of ${cluster}.`;
  return {
    name: 'ceremony calls allowed',
    cluster,
    observed: version === undefined ? inWords(way) : `${inWords(way)} (version ${version})`,
    needed: neededFor(kind),
    verdict: good ? 'ok' : 'warn',
    ...(good
      ? {}
      : {
          next:
            way.access === 'open'
              ? `Anybody may occupy the slot of ${cluster} now: take enable_unauthenticated_access back after the ceremony.`
              : `${remedy} Otherwise the step parks until people opened the calls for the time of the ceremony (break-glass: enable_unauthenticated_access on every node).`,
        }),
  };
}

/** What plans say of the ceremonies on these clusters. It depends on versions alone: a plan read again stays the same. */
export function breakGlassWarnings(
  kind: CeremonyKind,
  clusters: readonly { readonly cluster: string; readonly version?: string | undefined }[],
): readonly string[] {
  const newer = clusters.filter(({ version }) => majorVersion(version) >= 2).map(({ cluster }) => cluster);
  if (newer.length === 0) return [];
  return [
    `From version 2.0 the ceremony calls of ${newer.join(', ')} need a credential. Where none in hand is accepted, people open them for the time of the ceremony by \`enable_unauthenticated_access = ["${OPENED_BY[kind]}"]\`: meanwhile anybody who reaches the cluster may occupy or cancel its one generation slot, and nobody gets a token without the key shares. They take it back after the run.`,
  ];
}
