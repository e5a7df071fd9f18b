import type { Check } from '../../src/contracts/plan';
import type { Deployment } from '../../src/inventory';
import { asWarning, check, refuses } from '../checks/check';
import { credentialFacts, credentialLives, credentialMay, credentialWorks, mayCall } from '../checks/credentials';
import type { CredentialFacts } from '../checks/credentials';
import { batchTokenElsewhere, batchTokenReady, ceremonyEntryOf } from '../ceremony/token-source';
import type { Rights } from '../checks/rights';
import { ATTEMPT, PROMOTE, UPDATE_PRIMARY } from '../checks/rights';
import { issuingRights } from '../plans/observed';
import { proofOf } from '../tokens/batch-token-proof';
import { readBatchToken } from '../tokens/operation-token';
import { concerning, readChecks, stops, unread } from './reading';
import type { ClusterReading, DrSet, Judged, ServiceContext } from './reading';

const PERFORMANCE = 'sys/replication/performance';

/** Credentials and batch tokens: what the primary of a DR set knows about tokens also holds on the next primary. */
export async function credentialChecks(context: ServiceContext): Promise<Judged[]> {
  const { clusters, access, execution } = context;
  const checks = await Promise.all([
    ...context.sets.flatMap((set) => [
      ...set.members.filter(({ part }) => part !== 'other').map((each) => credentialOf(context, each, set)),
      ...set.secondaries.map((each) => batchToken(context, each, set)),
    ]),
    // A performance secondary has its own tokens: if it does not follow by itself, it is re-pointed with one of them.
    ...clusters
      .filter(({ observation }) => observation.performance?.mode === 'secondary')
      .map(({ name }) => {
        const base = `${PERFORMANCE}/secondary`;
        const rights = { [`${base}/generate-public-key`]: ['update'], [`${base}/update-primary`]: ['update'] };
        const asked = { name: 'credential-repointing', cluster: name, needed: 'a token that may re-point it' };
        return readChecks(execution.signal, asked, async (signal) =>
          (await mayCall(access(name), rights, signal)).map((each) => asWarning(each)),
        );
      }),
  ]);
  // Only missing rights are shown: there are many.
  return checks.flat().filter(({ name, verdict }) => verdict !== 'ok' || !name.startsWith('credential may call'));
}

/** The workers' credential for a member of a DR set, by lookup-self and capabilities-self on its primary. */
async function credentialOf(context: ServiceContext, { name, part }: ClusterReading, { primaries: [primary] }: DrSet) {
  const own = context.access(name);
  const asked = { name: 'credential works', cluster: name, needed: 'a token that the primary accepts' };
  // While the primary is gone nobody can know it, and a failover starts anyway.
  if (primary === undefined) {
    const judged = unread(asked, 'no primary can look the token up');
    return [...concerning('switchover', [judged]), ...concerning('failover', [asWarning(judged)])];
  }
  const rights = rightsAfterwards(context, primary);
  const source = context.access(primary.name);
  const judged = await readChecks(context.execution.signal, asked, async (signal) => {
    const facts = await credentialFacts(source, () => own.credential(), Object.keys(rights), signal);
    if (!facts.usable) return credentialWorks(own.entry, facts);
    // A login is repeated by the workers.
    if (facts.ttlSeconds !== undefined && !('method' in own.entry.credential))
      context.expiries.set(name, context.now + facts.ttlSeconds * 1_000);
    const lives = credentialLives(own.entry, facts);
    const near = lives.verdict === 'ok' && endsSoon(facts, context.deployment.readiness.tokenLifeMs);
    const next = 'Nothing renews it: make sure that its source gets a new one before it expires.';
    const ending = { ...lives, verdict: 'warn' as const, observed: `${lives.observed}: it expires soon`, next };
    return [credentialWorks(own.entry, facts), near ? ending : lives, ...credentialMay(own.entry, facts, rights)];
  });
  return judged.map((each) => stops(part, each));
}

/** A token that is renewed always has more than a quarter of its TTL left. */
export function endsSoon({ ttlSeconds, creationTtlSeconds }: CredentialFacts, tokenLifeMs: number): boolean {
  if (ttlSeconds === undefined || creationTtlSeconds === undefined) return false;
  return ttlSeconds * 1_000 < Math.min(tokenLifeMs, creationTtlSeconds * 250);
}

/** The rights that a primary needs for its followers, also after a change of roles. */
function rightsAfterwards({ clusters }: ServiceContext, { observation }: ClusterReading): Rights {
  const { mode, setId } = observation.performance ?? {};
  const ids = clusters.flatMap(({ observation: { performance, clusterId } }) =>
    mode === 'primary' && performance?.mode === 'secondary' && performance.setId === setId ? (clusterId ?? []) : [],
  );
  const ofPerformance = ids.flatMap((id) => [
    ...Object.entries(issuingRights('performance', id)),
    [`${PERFORMANCE}/primary/dynamic-filter/${id}`, ['read']] as const,
  ]);
  return { ...issuingRights('dr'), ...Object.fromEntries(ofPerformance) };
}

/** The batch token of a DR secondary, looked up on the primary; the proof is recorded for when no primary answers. */
async function batchToken(
  { deployment, access, proofs, execution }: ServiceContext,
  { name, drSet, observation }: ClusterReading,
  { primaries: [primary] }: DrSet,
): Promise<Judged[]> {
  const own = access(name);
  if (primary === undefined || own.entry.batchToken === undefined) return [];
  const asked = { name: 'batch-token', cluster: name, needed: 'valid, with its rights' };
  if (own.batchTokenIsElsewhere) return [batchTokenElsewhere(name, asked.name)];
  return readChecks(execution.signal, asked, async (signal) => {
    const token = await readBatchToken(own);
    const paths = [PROMOTE, UPDATE_PRIMARY];
    const read = () => Promise.resolve(token);
    const facts = await credentialFacts(access(primary.name), read, [...paths, ATTEMPT], signal);
    const checks = batchTokenReady(facts, name, deployment, paths);
    const ofRights = checks.filter((each) => !each.name.includes('lives'));
    if (!refuses(checks)) proofs.set(name, proofOf(token, facts));
    // A token that the primary refuses, or that lost its rights, is no longer proven. The proof says when it expires.
    else if (facts.error === 'PERMISSION_DENIED' || (facts.usable && refuses(ofRights))) proofs.set(name, undefined);
    const { access: entry, from } = await ceremonyEntryOf(own, observation, signal);
    const opensCalls = entry === 'accepted' && from === 'batchToken';
    return judgeBatchToken(deployment, { drSet, cluster: name, opensCalls }, facts, checks);
  });
}

/**
 * The batch token that is kept for a DR secondary: how long it is valid, what it may do, and whether it is renewed in
 * time. If the inventory has its rotation, people rely on it, unless the key holders are always asked: a token without
 * rights, as after its policy was emptied, then fails. So does one that expires soon and authorizes the calls of a
 * ceremony. Pure.
 */
export function judgeBatchToken(
  { batchTokens, ceremony: { tokenSource } }: Deployment,
  { drSet, cluster, opensCalls }: { readonly drSet: string; readonly cluster: string; readonly opensCalls: boolean },
  { usable, error, ttlSeconds }: CredentialFacts,
  checks: readonly Check[],
): Check {
  const rotation = Object.hasOwn(batchTokens, drSet) ? batchTokens[drSet] : undefined;
  const bad = checks.filter(({ verdict }) => verdict === 'fail');
  const reliedOn =
    tokenSource === 'batch' ||
    (rotation !== undefined && tokenSource === 'auto') ||
    (opensCalls && bad.some(({ name }) => name.includes('lives')));
  const rights = bad.length === 0 ? ['with its rights'] : bad.map((each) => `${each.name}: ${each.observed}`);
  const left = ttlSeconds === undefined ? 'no expiry' : `${ttlSeconds} s left`;
  // It is renewed at half of its TTL: with another quarter gone, the Schedule has not run for a while.
  const overdue = rotation !== undefined && ttlSeconds !== undefined && ttlSeconds * 4000 < rotation.ttlMs;
  const renewed = rotation === undefined ? '' : `, renewed at half of its ${Math.round(rotation.ttlMs / 1000)} s`;
  return check('batch-token', cluster, bad.length === 0 && !overdue, {
    observed: usable ? [left, ...rights].join(', ') : `not usable: ${error ?? 'refused'}`,
    needed: `valid, with its rights${renewed}`,
    next: 'Start batchTokenRotation, and make sure that its Schedule runs. If the policy was emptied on purpose, change tokenSource so that no batch token is used.',
    otherwise: bad.length > 0 && reliedOn ? 'fail' : 'warn',
  });
}
