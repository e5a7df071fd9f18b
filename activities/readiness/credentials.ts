import type { Check } from '../../src/contracts/plan';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { Deployment } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import { inWords, isIn } from '../ceremony/ceremony-access';
import {
  credentialFacts,
  credentialLives,
  lineFor,
  mendCredential,
  missingRights,
  neededLife,
  rightsText,
} from '../checks/credentials';
import type { CredentialFacts, Rights } from '../checks/credentials';
import type { ClusterAccess } from '../clusters';
import { refuses } from '../checks/check';
import {
  ATTEMPT,
  DEMOTE,
  PROMOTE,
  REVOKE,
  SECONDARY_TOKEN,
  UPDATE_PRIMARY,
  batchTokenReady,
  ceremonyEntryOf,
  enoughHolders,
  freeSlot,
} from '../checks/tokens';
import type { CeremonyEntry } from '../checks/tokens';
import { majorVersion } from '../checks/versions';
import { proofOf, provenBefore } from '../tokens/batch-token-proof';
import { readBatchToken } from '../tokens/operation-token';
import { checkMarker } from '../evidence/marker';
import { answer, holds, pointsOf, readPoints, unknowable, unread, within } from './point';
import type { Answer, Question, Verdicts } from './point';
import type { ClusterReading, DrSet, ServiceContext } from './topology';

const WRITE = 'create|update';
const PERFORMANCE = 'sys/replication/performance';

/** The workers' credentials: of each member of a DR set, and of performance secondaries for their re-pointing. */
export async function credentialPoints(context: ServiceContext): Promise<ReadinessPoint[]> {
  const points = await Promise.all([
    ...context.sets.flatMap((set) => {
      const [primary] = set.primaries;
      const marker = primary && markerOf(context, primary);
      const judged = set.members.map((each) => credentialOf(context, each, set, marker));
      return primary && marker ? [...judged, markerPoint(context, primary, marker)] : judged;
    }),
    ...context.clusters
      .filter(({ observation }) => observation.performance?.mode === 'secondary')
      .map((each) => repointing(context, each)),
  ]);
  return points.flat();
}

type MarkerFacts = ReturnType<typeof checkMarker>;

/** One look for all members of the set: the engine is the primary's. */
function markerOf({ access, deployment, execution: { signal } }: ServiceContext, primary: ClusterReading): MarkerFacts {
  const marker = within(signal, (limited) => checkMarker(access(primary.name), deployment, limited));
  marker.catch(() => undefined);
  return marker;
}

function markerPoint(
  { execution: { signal } }: ServiceContext,
  { name }: ClusterReading,
  marker: MarkerFacts,
): Promise<ReadinessPoint[]> {
  const question: Question = {
    id: 'marker',
    cluster: name,
    needed: 'a value written beside the marker, and read back: a switchover begins with that',
  };
  return readPoints(signal, question, marker, ({ judged }) =>
    holds(judged.verdict === 'ok', { switchover: 'fail' }, judged.observed, { next: judged.next }),
  );
}

/** Asked on the primary of the set by lookup-self and capabilities-self: what it knows of tokens holds on its successor. */
async function credentialOf(
  context: ServiceContext,
  { name, part }: ClusterReading,
  { primaries: [primary] }: DrSet,
  marker: MarkerFacts | undefined,
): Promise<ReadinessPoint[]> {
  const { signal } = context.execution;
  const { entry } = context.access(name);
  const life = {
    id: 'credential-life',
    cluster: name,
    needed: `a token that the primary accepts, for at least ${neededLife(entry)} s`,
    next: mendCredential(entry),
  };
  const may = {
    id: 'credential-rights',
    cluster: name,
    needed: 'the rights that switchover and failover use on the primary',
    next: `Correct the policy of the credential of ${name}: \`runbook policy ${entry.deployment}\` prints it.`,
  };
  if (primary === undefined) {
    const none = unread('there is no primary that could look the token up');
    return [life, may].flatMap((question) => pointsOf(question, none));
  }
  const found = await marker?.catch(() => undefined);
  const rights = { ...neededRights(context, primary, part === 'primary'), ...found?.rights };
  const [asked, own] = [context.access(primary.name), context.access(name)];
  const facts = within(signal, (limited) =>
    credentialFacts(asked, () => own.credential(), Object.keys(rights), limited),
  );
  const otherwise: Verdicts = part === 'primary' ? { switchover: 'fail' } : 'fail';
  const points = await Promise.all([
    readPoints(signal, life, facts, (found) => {
      if (!found.usable) return answer(otherwise, `not usable: ${found.error ?? 'refused'}`);
      const { verdict, observed } = credentialLives(entry, found);
      if (verdict === 'ok' && endsSoon(found, context.deployment.readiness.tokenLifeMs))
        return answer(part === 'primary' ? { switchover: 'warn' } : 'warn', `${observed}: its end is near`);
      return holds(verdict === 'ok', otherwise, observed);
    }),
    readPoints(signal, may, facts, (found) => {
      if (!found.usable) return answer({}, '');
      const lacking = missingRights(found, rights).map(
        (path) => `${path}: ${rightsText(found, path)} instead of ${rights[path]?.join(', ')}`,
      );
      const lines = missingRights(found, rights).map((path) => lineFor(path, rights[path] ?? []));
      const all = `all ${Object.keys(rights).length} paths`;
      return holds(lacking.length === 0, otherwise, lacking.join('; ') || all, {
        next: `Add to the policy of the credential of ${name}: \`${lines.join(' ')}\``,
      });
    }),
  ]);
  return points.flat();
}

/** What is renewed keeps more than a quarter of its life. */
export function endsSoon({ ttlSeconds, creationTtlSeconds }: CredentialFacts, tokenLifeMs: number): boolean {
  if (ttlSeconds === undefined || creationTtlSeconds === undefined) return false;
  return ttlSeconds * 1_000 < Math.min(tokenLifeMs, creationTtlSeconds * 250);
}

/** What the credential of a DR primary does in a switchover, and that of its successor in switchover and failover. */
function neededRights({ clusters }: ServiceContext, { observation }: ClusterReading, demotes: boolean) {
  const { mode, setId } = observation.performance ?? {};
  const ids = clusters.flatMap(({ observation: { performance, clusterId } }) =>
    mode === 'primary' && performance?.mode === 'secondary' && performance.setId === setId ? (clusterId ?? []) : [],
  );
  const filters = ids.flatMap((id) => [
    [`${PERFORMANCE}/primary/paths-filter/${id}`, ['read', WRITE]] as const,
    [`${PERFORMANCE}/primary/dynamic-filter/${id}`, ['read']] as const,
  ]);
  const performance: Rights = {
    [`${PERFORMANCE}/primary/secondary-token`]: [WRITE, 'sudo'],
    [`${PERFORMANCE}/primary/revoke-secondary`]: [WRITE],
    ...Object.fromEntries<readonly string[]>(filters),
  };
  const rights: Rights = {
    ...(demotes && { [DEMOTE]: [WRITE] }),
    [SECONDARY_TOKEN]: [WRITE, 'sudo'],
    [REVOKE]: [WRITE],
    ...(ids.length > 0 && performance),
  };
  return rights;
}

/** A performance secondary has tokens of its own: where it does not follow by itself it is re-pointed with one of these. */
function repointing({ access, execution }: ServiceContext, { name }: ClusterReading): Promise<ReadinessPoint[]> {
  const own = access(name);
  const base = `${PERFORMANCE}/secondary`;
  const rights: Rights = { [`${base}/generate-public-key`]: [WRITE], [`${base}/update-primary`]: [WRITE] };
  return readPoints(
    execution.signal,
    {
      id: 'credential-repointing',
      cluster: name,
      needed: 'a token of its own that may point it at the new primary',
      next: `Correct the credential of ${name} or its policy: \`runbook policy ${own.entry.deployment}\` prints it.`,
    },
    (signal) => credentialFacts(own, () => own.credential(), Object.keys(rights), signal),
    (facts) => {
      if (!facts.usable) return answer('warn', `not usable: ${facts.error ?? 'refused'}`);
      const missing = missingRights(facts, rights);
      return holds(
        missing.length === 0,
        'warn',
        missing.length === 0 ? 'it may' : `no update on ${missing.join(' and ')}`,
      );
    },
  );
}

/** What was found out about the ways to a DR operation token on one secondary. */
interface TokenWays {
  /** Looked up on the primary, or by what the record keeps of that; undefined where neither is there. */
  readonly batch: CredentialFacts | undefined;
  readonly batchChecks: readonly Check[];
  readonly entry: CeremonyEntry;
  /** The batch token opens the ceremony, and is about to end: that is a way in now, and not on the day. */
  readonly ending: boolean;
  /** A run of the deployment works: an attempt may be its own. */
  readonly runWorks: boolean;
}

/** Where the operation token of each DR secondary comes from, and whether that way is open. */
export async function tokenPoints(context: ServiceContext, runWorks: Promise<boolean>): Promise<ReadinessPoint[]> {
  const points = context.sets.flatMap((set) => set.secondaries.map((each) => tokensOf(context, each, set, runWorks)));
  return (await Promise.all(points)).flat();
}

async function tokensOf(
  { deployment, access, execution: { signal }, proofs }: ServiceContext,
  reading: ClusterReading,
  { primaries: [primary] }: DrSet,
  runWorks: Promise<boolean>,
): Promise<ReadinessPoint[]> {
  const { name, observation } = reading;
  const own = access(name);
  const hasBatch = own.entry.batchToken !== undefined;
  const paths = [PROMOTE, UPDATE_PRIMARY];
  const source = {
    id: 'token-source',
    cluster: name,
    needed: 'a batch token that lives on, or a ceremony that can be held',
    next: `Make a batch token for ${name} on the primary, or see to its holders and ceremonyCredential.`,
  };
  const slot = {
    id: 'generation-slot',
    cluster: name,
    needed: 'no generation attempt under way',
    next: 'Let its owner finish or cancel it. Never cancel an attempt of somebody else.',
  };
  const stored = {
    id: 'stored-credential',
    cluster: name,
    needed: 'from version 2.0: a stored credential that a DR secondary accepts for the four ceremony calls',
    next: `Let batchTokenRotation keep a batch token, or give ceremonyCredential of ${name}. Without either a ceremony begins with a break-glass: people open the calls in the configuration of every node.`,
  };
  if (!observation.reachable)
    return [source, slot].flatMap((question) => pointsOf(question, unread(observation.error ?? 'no answer')));
  const read = async (limited: AbortSignal): Promise<TokenWays> => {
    const kept = hasBatch ? readBatchToken(own) : undefined;
    kept?.catch(() => undefined);
    const [batch, entry] = await Promise.all([
      kept && batchFacts(deployment, primary && access(primary.name), { own, kept }, paths, limited),
      ceremonyEntryOf(own, observation, limited),
    ]);
    const batchChecks = batch ? batchTokenReady(batch, name, deployment, paths) : [];
    if (primary && kept && batch) {
      if (!refuses(batchChecks)) proofs.set(name, proofOf(await kept, batch));
      // What a primary refuses, or gives no rights, is proven no more. When it ends the proof says by itself.
      else if (
        batch.error === 'PERMISSION_DENIED' ||
        (batch.usable && refuses(batchChecks.filter((each) => !each.name.includes('lives'))))
      )
        proofs.set(name, undefined);
    }
    const ending = batchChecks.some((each) => each.name.includes('lives') && each.verdict !== 'ok');
    return { batch, batchChecks, entry, ending: entry.from === 'batchToken' && ending, runWorks: await runWorks };
  };
  const ways = within(signal, read);
  const points = [
    readPoints(signal, source, ways, (found) => judgeSource(reading, deployment, found, hasBatch)),
    readPoints(signal, stored, ways, (found) => judgeStored(reading, found)),
    readPoints(signal, slot, ways, (found) => judgeSlot(reading, found)),
    ...(primary && hasBatch ? [batchPoint(reading, deployment, ways, signal)] : []),
  ];
  return (await Promise.all(points)).flat();
}

/** By the primary; where none answers by what the last check that saw one kept. */
async function batchFacts(
  { name }: Deployment,
  primary: ClusterAccess | undefined,
  { own, kept }: { readonly own: ClusterAccess; readonly kept: Promise<Secret<'batch-token'>> },
  paths: readonly string[],
  signal: AbortSignal,
): Promise<CredentialFacts | undefined> {
  if (primary) return credentialFacts(primary, () => kept, [...paths, ATTEMPT], signal);
  const known = await provenBefore(name, own);
  return 'facts' in known ? known.facts : undefined;
}

function judgeSource(
  { observation }: ClusterReading,
  deployment: Deployment,
  { batch, batchChecks, entry, ending }: TokenWays,
  hasBatch: boolean,
): Answer {
  const wanted = deployment.ceremony.tokenSource;
  const bad = batchChecks.filter(({ verdict }) => verdict !== 'ok').map(inFull);
  if (wanted === 'provided') return answer('ok', 'people generate the tokens themselves, and provide them');
  if (wanted !== 'ceremony' && batch && bad.length === 0) {
    const life = batchChecks.find(({ name }) => name.includes('lives'))?.observed ?? '';
    return answer('ok', `batch token, ${life}`);
  }
  if (wanted === 'batch') {
    if (hasBatch && !batch) return unread('no primary answers that could look the batch token up');
    return answer('fail', bad.join('; ') || 'the inventory names no batch token');
  }
  const closed = ending ? 'a batch token that ends soon' : entry.access;
  const holders = enoughHolders(observation, deployment);
  const ceremonyBad = [
    ...(isIn(entry.access) && !ending ? [] : [`the DR secondary accepts no stored credential (${closed})`]),
    ...(holders.verdict === 'fail' ? [inFull(holders)] : []),
  ];
  if (ceremonyBad.length > 0) return answer('fail', [...ceremonyBad, ...bad].join('; '));
  if (bad.length > 0) return answer('warn', `ceremony; the batch token is of no use: ${bad.join('; ')}`);
  return answer('ok', 'ceremony of the key holders');
}

/** From version 2.0 even the calls of a ceremony need a token that a DR secondary accepts, and it serves no logins. */
function judgeStored({ name, observation: { version } }: ClusterReading, ways: TokenWays): Answer {
  const { batch, batchChecks, entry, ending, runWorks } = ways;
  if (version === undefined) return unread('the version is not told');
  if (majorVersion(version) < 2) return answer('ok', `not needed by ${version}`);
  if (entry.access === 'accepted' && !ending)
    return answer('ok', `${entry.from ?? 'accepted'}, accepted by ${version}`);
  const observed = `${inWords(entry)}${ending ? ', which ends soon' : ''}, version ${version}`;
  if (entry.access === 'open') {
    return answer(runWorks ? 'warn' : 'fail', observed, {
      reason: runWorks
        ? 'a run of this deployment works: it may be its break-glass'
        : 'anybody may occupy the one slot',
      next: `Take enable_unauthenticated_access out of the configuration of every node of ${name} and send SIGHUP.`,
    });
  }
  return batch && batchChecks.every(({ verdict }) => verdict === 'ok')
    ? answer('ok', `the batch token, instead of a ceremony by ${version}`)
    : answer('fail', observed);
}

function judgeSlot({ observation }: ClusterReading, { runWorks }: TokenWays): Answer {
  const { verdict, observed } = freeSlot(observation, undefined);
  if (verdict === 'not-checkable')
    return unknowable('the slot can be read with a credential that the DR secondary accepts only');
  if (verdict === 'ok' || !runWorks) return holds(verdict === 'ok', 'fail', observed);
  return answer('warn', observed.replace(' of somebody else', ''), {
    reason: 'a run of this deployment works: the attempt may be its own',
  });
}

function batchPoint(
  { name, drSet }: ClusterReading,
  deployment: Deployment,
  ways: Promise<TokenWays>,
  signal: AbortSignal,
): Promise<ReadinessPoint[]> {
  const { ttlMs } = rotationOf(deployment, drSet) ?? {};
  const renewed = ttlMs === undefined ? '' : `, renewed at half of its ${Math.round(ttlMs / 1000)} s`;
  return readPoints(
    signal,
    {
      id: 'batch-token',
      cluster: name,
      needed: `alive, with its rights${renewed}`,
      next: 'Start batchTokenRotation, and see that its Schedule runs. Was the policy emptied on purpose? Then take batch out of tokenSource.',
    },
    ways,
    ({ batch, batchChecks }) =>
      batch ? judgeBatchToken(deployment, drSet, batch, batchChecks) : unread('it was not looked up'),
  );
}

/**
 * The batch token that is kept for a DR secondary: how long it lives on, since when it is in use, what it may do, and
 * whether it is renewed in time. Where its rotation is in the inventory people rely on it, unless the key holders are
 * always asked: a token without rights, as after its policy was emptied, is red then. Pure.
 */
export function judgeBatchToken(
  deployment: Deployment,
  drSet: string,
  { usable, ttlSeconds, creationTtlSeconds, error }: CredentialFacts,
  checks: readonly Check[],
): Answer {
  const rotation = rotationOf(deployment, drSet);
  const { tokenSource } = deployment.ceremony;
  const reliedOn = tokenSource === 'batch' || (rotation !== undefined && tokenSource === 'auto');
  const bad = checks.filter(({ verdict }) => verdict === 'fail');
  const made =
    ttlSeconds === undefined || creationTtlSeconds === undefined
      ? []
      : [`made ${Math.max(0, creationTtlSeconds - ttlSeconds)} s ago`];
  const rights = bad.length === 0 ? ['with its rights'] : bad.map((each) => `${each.name}: ${each.observed}`);
  const observed = usable
    ? [ttlSeconds === undefined ? 'no end' : `${ttlSeconds} s left`, ...made, ...rights].join(', ')
    : `not usable: ${error ?? 'refused'}`;
  if (bad.length > 0) return answer(reliedOn ? 'fail' : 'warn', observed);
  // Renewed at half its life: with a quarter gone beyond that, the Schedule has not come for a while.
  const overdue = rotation !== undefined && ttlSeconds !== undefined && ttlSeconds * 4000 < rotation.ttlMs;
  return holds(!overdue, 'warn', observed, {
    reason: 'its rotation is overdue: two tokens no longer overlap by half',
  });
}

function rotationOf({ batchTokens }: Deployment, drSet: string) {
  return Object.hasOwn(batchTokens, drSet) ? batchTokens[drSet] : undefined;
}

function inFull({ name, observed, needed }: Check): string {
  return `${name}: ${observed} (needed: ${needed})`;
}
