import type { Check } from '../../src/contracts/plan';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { Deployment } from '../../src/inventory';
import { inWords, isIn } from '../ceremony/ceremony-access';
import { refuses } from '../checks/check';
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
import { majorVersion } from '../checks/versions';
import { checkMarker } from '../evidence/marker';
import { proofOf, provenBefore } from '../tokens/batch-token-proof';
import { readBatchToken } from '../tokens/operation-token';
import { NotRead, answer, holds, readPoints, unknowable, unread, within } from './point';
import type { Answer, Verdicts } from './point';
import { whyNotRead } from './topology';
import type { ClusterReading, DrSet, ServiceContext } from './topology';

const WRITE = 'create|update';
const PERFORMANCE = 'sys/replication/performance';

/** The workers' credentials: of each member of a DR set, and of performance secondaries for their re-pointing. */
export async function credentialPoints(context: ServiceContext): Promise<ReadinessPoint[]> {
  const { access, deployment, execution } = context;
  const { signal } = execution;
  const points = await Promise.all([
    ...context.sets.flatMap((set) => {
      const [primary] = set.primaries;
      // One look for all members of the set: the engine is the primary's.
      const marker = primary && within(signal, (limited) => checkMarker(access(primary.name), deployment, limited));
      const judgedMarker =
        marker &&
        readPoints(signal, marker, {
          id: 'marker',
          cluster: primary.name,
          needed: 'a value written beside the marker, and read back: a switchover begins with that',
          judge: ({ judged: { verdict, observed, next } }) =>
            holds(verdict === 'ok', { switchover: 'fail' }, observed, { next }),
        });
      return [...set.members.map((each) => credentialOf(context, each, set, marker)), judgedMarker ?? []];
    }),
    ...context.clusters
      .filter(({ observation }) => observation.performance?.mode === 'secondary')
      .map((each) => repointing(context, each)),
  ]);
  return points.flat();
}

/** Asked on the primary of the set by lookup-self and capabilities-self: what it knows of tokens holds on its successor. */
function credentialOf(
  context: ServiceContext,
  { name, part }: ClusterReading,
  { primaries: [primary] }: DrSet,
  marker: ReturnType<typeof checkMarker> | undefined,
): Promise<ReadinessPoint[]> {
  const own = context.access(name);
  const otherwise: Verdicts = part === 'primary' ? { switchover: 'fail' } : 'fail';
  const read = async () => {
    if (primary === undefined) throw new NotRead('there is no primary that could look the token up');
    const ofMarker = await marker?.catch(() => undefined);
    const rights: Rights = { ...neededRights(context, primary, part === 'primary'), ...ofMarker?.rights };
    const asked = context.access(primary.name);
    const ask = (limited: AbortSignal) => credentialFacts(asked, () => own.credential(), Object.keys(rights), limited);
    return { rights, facts: await within(context.execution.signal, ask) };
  };
  return readPoints(
    context.execution.signal,
    read(),
    {
      id: 'credential-life',
      cluster: name,
      needed: `a token that the primary accepts, for at least ${neededLife(own.entry)} s`,
      next: mendCredential(own.entry),
      judge: ({ facts }) => {
        if (!facts.usable) return answer(otherwise, notUsable(facts));
        const { verdict, observed } = credentialLives(own.entry, facts);
        if (verdict === 'ok' && endsSoon(facts, context.deployment.readiness.tokenLifeMs))
          return answer(part === 'primary' ? { switchover: 'warn' } : 'warn', `${observed}: its end is near`);
        return holds(verdict === 'ok', otherwise, observed);
      },
    },
    {
      id: 'credential-rights',
      cluster: name,
      needed: 'the rights that switchover and failover use on the primary',
      judge: ({ facts, rights }) => (facts.usable ? mayCall(name, facts, rights, otherwise) : answer({}, '')),
    },
  );
}

const notUsable = ({ error }: CredentialFacts): string => `not usable: ${error ?? 'refused'}`;

function mayCall(name: string, facts: CredentialFacts, rights: Rights, otherwise: Verdicts): Answer {
  const lacking = missingRights(facts, rights);
  const inFull = lacking.map((path) => `${path}: ${rightsText(facts, path)} instead of ${rights[path]?.join(', ')}`);
  const observed = inFull.join('; ') || `all ${Object.keys(rights).length} paths`;
  const lines = lacking.map((path) => lineFor(path, rights[path] ?? []));
  return holds(lacking.length === 0, otherwise, observed, {
    next: `Add to the policy of the credential of ${name}: \`${lines.join(' ')}\``,
  });
}

/** What is renewed keeps more than a quarter of its life. */
export function endsSoon({ ttlSeconds, creationTtlSeconds }: CredentialFacts, tokenLifeMs: number): boolean {
  if (ttlSeconds === undefined || creationTtlSeconds === undefined) return false;
  return ttlSeconds * 1_000 < Math.min(tokenLifeMs, creationTtlSeconds * 250);
}

/** What the credential of a DR primary does in a switchover, and that of its successor in switchover and failover. */
function neededRights({ clusters }: ServiceContext, { observation }: ClusterReading, demotes: boolean): Rights {
  const { mode, setId } = observation.performance ?? {};
  const ids = clusters.flatMap(({ observation: { performance, clusterId } }) =>
    mode === 'primary' && performance?.mode === 'secondary' && performance.setId === setId ? (clusterId ?? []) : [],
  );
  const filters = ids.flatMap((id) => [
    [`${PERFORMANCE}/primary/paths-filter/${id}`, ['read', WRITE]] as const,
    [`${PERFORMANCE}/primary/dynamic-filter/${id}`, ['read']] as const,
  ]);
  return {
    ...(demotes && { [DEMOTE]: [WRITE] }),
    [SECONDARY_TOKEN]: [WRITE, 'sudo'],
    [REVOKE]: [WRITE],
    ...(ids.length > 0 && {
      [`${PERFORMANCE}/primary/secondary-token`]: [WRITE, 'sudo'],
      [`${PERFORMANCE}/primary/revoke-secondary`]: [WRITE],
      ...Object.fromEntries<readonly string[]>(filters),
    }),
  };
}

/** A performance secondary has tokens of its own: where it does not follow by itself it is re-pointed with one of these. */
function repointing({ access, execution }: ServiceContext, { name }: ClusterReading): Promise<ReadinessPoint[]> {
  const own = access(name);
  const base = `${PERFORMANCE}/secondary`;
  const rights: Rights = { [`${base}/generate-public-key`]: [WRITE], [`${base}/update-primary`]: [WRITE] };
  const read = (signal: AbortSignal) => credentialFacts(own, () => own.credential(), Object.keys(rights), signal);
  return readPoints(execution.signal, read, {
    id: 'credential-repointing',
    cluster: name,
    needed: 'a token of its own that may point it at the new primary',
    next: mendCredential(own.entry),
    judge: (facts) => (facts.usable ? mayCall(name, facts, rights, 'warn') : answer('warn', notUsable(facts))),
  });
}

/** Where the operation token of each DR secondary comes from, and whether that way is open. */
export async function tokenPoints(context: ServiceContext, runWorks: Promise<boolean>): Promise<ReadinessPoint[]> {
  const points = context.sets.flatMap((set) => set.secondaries.map((each) => tokensOf(context, each, set, runWorks)));
  return (await Promise.all(points)).flat();
}

function tokensOf(
  context: ServiceContext,
  reading: ClusterReading,
  { primaries: [primary] }: DrSet,
  runWorks: Promise<boolean>,
): Promise<ReadinessPoint[]> {
  const { deployment, access, execution } = context;
  const { name, drSet } = reading;
  const hasBatch = access(name).entry.batchToken !== undefined;
  const { ttlMs } = rotationOf(deployment, drSet) ?? {};
  const renewed = ttlMs === undefined ? '' : `, renewed at half of its ${Math.round(ttlMs / 1000)} s`;
  const batchPoint = {
    id: 'batch-token',
    cluster: name,
    needed: `alive, with its rights${renewed}`,
    next: 'Start batchTokenRotation, and see that its Schedule runs. Was the policy emptied on purpose? Then take batch out of tokenSource.',
    judge: ({ batch, batchChecks }: TokenWays) =>
      batch ? judgeBatchToken(deployment, drSet, batch, batchChecks) : unread('it was not looked up'),
  };
  return readPoints(
    execution.signal,
    (signal) => tokenWays(context, reading, primary, { runWorks, signal }),
    {
      id: 'token-source',
      cluster: name,
      needed: 'a batch token that lives on, or a ceremony that can be held',
      next: `Make a batch token for ${name} on the primary, or see to its holders and ceremonyCredential.`,
      judge: (ways) => judgeSource(reading, deployment, ways, hasBatch),
    },
    {
      id: 'stored-credential',
      cluster: name,
      needed: 'from version 2.0: a stored credential that a DR secondary accepts for the four ceremony calls',
      next: `Let batchTokenRotation keep a batch token, or give ceremonyCredential of ${name}. Without either a ceremony begins with a break-glass: people open the calls in the configuration of every node.`,
      judge: (ways) => judgeStored(reading, ways),
    },
    {
      id: 'generation-slot',
      cluster: name,
      needed: 'no generation attempt under way',
      next: 'Let its owner finish or cancel it. Never cancel an attempt of somebody else.',
      judge: (ways) => judgeSlot(reading, ways),
    },
    ...(primary && hasBatch ? [batchPoint] : []),
  );
}

type TokenWays = Awaited<ReturnType<typeof tokenWays>>;

/** What is found out about the ways to a DR operation token on one secondary; a batch token that is proven is noted. */
async function tokenWays(
  { deployment, access, proofs }: ServiceContext,
  reading: ClusterReading,
  primary: ClusterReading | undefined,
  { runWorks, signal }: { readonly runWorks: Promise<boolean>; readonly signal: AbortSignal },
) {
  const why = whyNotRead(reading);
  if (why !== undefined) throw new NotRead(why);
  const { name, observation } = reading;
  const own = access(name);
  const paths = [PROMOTE, UPDATE_PRIMARY];
  const kept = own.entry.batchToken === undefined ? undefined : readBatchToken(own);
  kept?.catch(() => undefined);
  /** By the primary; where none answers by what the last check that saw one kept. */
  const lookUp = async (): Promise<CredentialFacts | undefined> => {
    if (!kept) return undefined;
    if (primary) return credentialFacts(access(primary.name), () => kept, [...paths, ATTEMPT], signal);
    const known = await provenBefore(deployment.name, own);
    return 'facts' in known ? known.facts : undefined;
  };
  const [batch, entry] = await Promise.all([lookUp(), ceremonyEntryOf(own, observation, signal)]);
  const batchChecks = batch ? batchTokenReady(batch, name, deployment, paths) : [];
  const [lives, others] = [batchChecks.filter(isOfLife), batchChecks.filter((each) => !isOfLife(each))];
  if (primary && kept && batch) {
    if (!refuses(batchChecks)) proofs.set(name, proofOf(await kept, batch));
    // What a primary refuses, or gives no rights, is proven no more. When it ends the proof says by itself.
    else if (batch.error === 'PERMISSION_DENIED' || (batch.usable && refuses(others))) proofs.set(name, undefined);
  }
  return {
    /** Looked up on the primary, or by what the record keeps of that; undefined where neither is there. */
    batch,
    batchChecks,
    entry,
    /** The batch token opens the ceremony, and is about to end: that is a way in now, and not on the day. */
    ending: entry.from === 'batchToken' && refuses(lives),
    /** A run of the deployment works: an attempt may be its own. */
    runWorks: await runWorks,
  };
}

const isOfLife = ({ name }: Check): boolean => name.includes('lives');

function judgeSource(
  { observation }: ClusterReading,
  deployment: Deployment,
  { batch, batchChecks, entry, ending }: TokenWays,
  hasBatch: boolean,
): Answer {
  const wanted = deployment.ceremony.tokenSource;
  const bad = batchChecks.filter(({ verdict }) => verdict !== 'ok').map(inFull);
  if (wanted === 'provided') return answer('ok', 'people generate the tokens themselves, and provide them');
  if (wanted !== 'ceremony' && batch && bad.length === 0)
    return answer('ok', `batch token, ${batchChecks.find(isOfLife)?.observed ?? ''}`);
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
  if (entry.access === 'open')
    return answer(runWorks ? 'warn' : 'fail', observed, {
      reason: runWorks
        ? 'a run of this deployment works: it may be its break-glass'
        : 'anybody may occupy the one slot',
      next: `Take enable_unauthenticated_access out of the configuration of every node of ${name} and send SIGHUP.`,
    });
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

/**
 * The batch token that is kept for a DR secondary: how long it lives on, since when it is in use, what it may do, and
 * whether it is renewed in time. Where its rotation is in the inventory people rely on it, unless the key holders are
 * always asked: a token without rights, as after its policy was emptied, is red then. Pure.
 */
export function judgeBatchToken(
  deployment: Deployment,
  drSet: string,
  facts: CredentialFacts,
  checks: readonly Check[],
): Answer {
  const { usable, ttlSeconds, creationTtlSeconds } = facts;
  const rotation = rotationOf(deployment, drSet);
  const { tokenSource } = deployment.ceremony;
  const reliedOn = tokenSource === 'batch' || (rotation !== undefined && tokenSource === 'auto');
  const bad = checks.filter(({ verdict }) => verdict === 'fail');
  const made =
    ttlSeconds === undefined || creationTtlSeconds === undefined
      ? []
      : [`made ${Math.max(0, creationTtlSeconds - ttlSeconds)} s ago`];
  const rights = bad.length === 0 ? ['with its rights'] : bad.map((each) => `${each.name}: ${each.observed}`);
  const left = ttlSeconds === undefined ? 'no end' : `${ttlSeconds} s left`;
  const observed = usable ? [left, ...made, ...rights].join(', ') : notUsable(facts);
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
