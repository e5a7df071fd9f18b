import type { Listed, Move, Named } from '../../src/moves/move';
import type { Assessment } from '../../src/contracts/activities';
import type { ClusterObservation, WalIndex } from '../../src/contracts/observations';
import type { Check, PlanDocument } from '../../src/contracts/plan';
import type { Finding } from '../../src/contracts/run-facts';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { findCluster } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import { asWarning, check } from '../checks/check';
import {
  asPinned,
  everyNodeAnswers,
  everyNodeUnsealed,
  hasRole,
  healthyTree,
  ofAnotherSet,
  otherReadable,
} from '../checks/replication';
import { clientHooksOf } from '../checks/quiesce';
import { WAITED_FOR, brokenPrimaries, judgeSigns, lastHeardAt, observerOf } from '../checks/signs';
import type { TokenAssessment } from '../ceremony/token-source';
import { canFollow, supportedVersion, versionsAfterLoss } from '../checks/versions';
import { witnesses } from '../roles/other-side';
import { lossBound, readWalSamples, unattestedSamples } from '../evidence/wal-samples';
import type { LossBound } from '../evidence/wal-samples';
import { currentExecution } from '../execution';
import { findFailoverSides, furthestAhead, identityOfLostPrimary, identityOfMember } from '../checks/failover-sides';
import type { FailoverSides } from '../checks/failover-sides';
import { PROMOTE, UPDATE_PRIMARY } from '../checks/rights';
import { directing } from '../../src/moves/clients';
import { finalReading, secondReading } from '../../src/moves/every-run';
import { followsAsDr } from '../../src/moves/following';
import {
  confirmGone,
  fence,
  promote,
  promoteByForce,
  verifyWrite,
  waitFollowsPerformance,
  waitServes,
} from '../../src/moves/primary';
import { asking, claiming, disposing, obtaining } from '../../src/moves/tokens';
import { snapshotWanted } from '../snapshots/snapshots';
import { followingPerformance, observe, repointing } from './observed';
import type { Observed, Observing, PlanInput } from './observed';

/** What is known in advance about the loss of a failover. It changes over time, so a plan never contains it. */
interface FailoverLoss {
  /** `none` only if the old primary was demoted, answers, and has the same Merkle root. */
  readonly loss: 'none' | 'bounded' | 'unknown';
  readonly why: string;
  /** WAL entries, decimal, that the old primary had reported and the new one has not received. */
  readonly boundWalEntries?: WalIndex;
}

/** States in which a secondary is not in step with its primary, and never will be once the primary is gone. */
const NOT_IN_STEP: readonly string[] = ['merkle-diff', 'merkle-sync'];

/** Unplanned change of the DR primary: the signs that it is gone, the candidate, and what may be lost. */
export async function assessDrFailover(request: PlanInput<'drFailover'>): Promise<Assessment<FailoverRoute>> {
  const { input } = request;
  const context = currentExecution();
  const observed = await observe('drFailover', request);
  const { deployment, observations, signal } = observed;
  const base = observed.base('promote', 'force');
  const found = findFailoverSides(deployment, input, observations);
  const broken = await brokenPrimaries(observed, signal);
  if ('verdict' in found) return { ...base, preconditions: [found, ...broken] };
  const { from, to } = found;
  const heard = lastHeardAt([observerOf(to, 'dr'), ...witnesses(found).observers]);
  const known = await readWalSamples(context, input.deployment, signal, heard);
  const bound = lossBound(known.samples, from.cluster, to.cluster, { at: to.at, received: to.dr?.lastRemoteWal });
  const loss = lossOf(from, to, bound, heard);
  const tokens = await observed.tokens(to.cluster, [PROMOTE, UPDATE_PRIMARY], true);
  const judged = [
    ...judgeSigns({ ...witnesses(found), primaryGoneMs: deployment.limits.primaryGoneMs }),
    ...broken,
    ...candidateChecks(input, observed, found),
    // Not for readiness: while the primary serves, clients write between two reads.
    ...furthestAhead(found.to, found.secondaries),
  ];
  const route = {
    ...routeOf(input, deployment, found, tokens),
    /** When a secondary last heard the primary, epoch ms by the worker's clock; absent if none reports it. */
    lastHeardAt: heard,
    loss,
    /** What approvers must know in addition to the plan. */
    findings: [...findingsFor(from.cluster, loss, judged), ...unattestedSamples(known)],
  };
  return {
    ...base,
    preconditions: [...judged, ...tokens.checks],
    route,
    plan: failoverPlan(input, observed, found, route, tokens.warnings),
  };
}

/** What the workflow follows, and what people are shown next to the plan. */
export interface FailoverRoute extends ReturnType<typeof routeOf> {
  readonly lastHeardAt?: number | undefined;
  readonly loss: FailoverLoss;
  readonly findings: readonly Finding[];
}

function routeOf(
  { fencing }: InputOf<'drFailover'>,
  deployment: Deployment,
  { from, to, others, silent, silentOutside, performanceSecondaries }: FailoverSides,
  { source, kept }: TokenAssessment,
) {
  return {
    /** The primary that is gone. */
    from: from.cluster,
    to: to.cluster,
    /** Other DR secondaries of the set that answer: they get an activation token from the new primary. */
    otherDrSecondaries: others.map(({ cluster }) => cluster),
    /** Those that do not answer: people re-point them later. */
    silentDrSecondaries: silent.map(({ cluster }) => cluster),
    performanceSecondaries: performanceSecondaries.map(({ cluster }) => cluster),
    /** Clusters outside the set that do not answer: they may have to follow too. */
    silent: silentOutside.map(({ cluster }) => cluster),
    tokenSource: source,
    /** The operation token of `to`, if the record keeps one. */
    kept,
    /** `attested`: the approvers of gate `promote` attest it. */
    fencing: deployment.hooks.fence && fencing !== 'attested' ? ('hook' as const) : ('attested' as const),
    /** Whether to take one of the new primary before a forced promotion. */
    snapshot: snapshotWanted(deployment, 'forced-promotion', to.cluster, true).wanted,
    hooks: clientHooksOf(deployment),
  };
}

/** Whether the candidate can become primary, and what people must know about it and the clusters that have to follow. */
export function candidateChecks(
  input: InputOf<'drFailover'>,
  { deployment }: Observed,
  { from, to, others, silent, silentOutside, strangers, performanceSecondaries }: FailoverSides,
): Check[] {
  const { cluster } = to;
  const other = `${cluster} cannot be promoted in this state: check its nodes, or name another candidate with {"to": ...}.`;
  return [
    hasRole(to, 'dr', 'secondary', other),
    check('was in step with the primary', cluster, !NOT_IN_STEP.includes(to.dr?.state ?? ''), {
      observed: to.dr?.state ?? 'not reported',
      needed: 'stream-wals or idle',
      next: `${cluster} was still comparing or copying data when its primary failed: its promotion may be refused, and its data may be incomplete.`,
      otherwise: 'warn',
    }),
    // It is read at its active node: other missing nodes do not stop a promotion.
    ...[everyNodeAnswers(to), everyNodeUnsealed(to)].map((each) =>
      asWarning(each, `Bring back the missing nodes of ${cluster}: it has to carry the full load alone.`),
    ),
    ...healthyTree(to, 'dr'),
    versionsAfterLoss(from, to),
    asWarning(supportedVersion(to)),
    ...asPinned(to),
    ...[...others, ...performanceSecondaries].map((each) => asWarning(canFollow(to, each))),
    ...strangers.map((each) => ofAnotherSet(to, each)),
    ...fenceHook(input, deployment),
    ...silent.map((each) =>
      otherReadable(each, `This run does not re-point ${each.cluster}. Make sure that it is not a primary.`),
    ),
    ...silentOutside.map((each) =>
      otherReadable(each, `If ${each.cluster} followed ${from.cluster}, re-point it later with secondaryRepointing.`),
    ),
  ];
}

function fenceHook({ fencing }: InputOf<'drFailover'>, { hooks }: Deployment): Check[] {
  if (fencing !== 'hook') return [];
  const observed = hooks.fence ? 'configured' : 'none';
  const needed = 'hooks.fence in the inventory';
  const next = 'Add the hook, or start with {"fencing": "attested"}.';
  return [check('fence hook', undefined, hooks.fence !== undefined, { observed, needed, next })];
}

/** If the old primary was demoted and still answers, its tree shows more than any sample. */
function lossOf(
  from: ClusterObservation,
  to: ClusterObservation,
  { bound, why }: LossBound,
  heard: number | undefined,
): FailoverLoss {
  const demoted = from.dr?.mode === 'secondary' && from.dr.merkleRoot !== undefined;
  if (demoted && from.dr?.merkleRoot === to.dr?.merkleRoot)
    return { loss: 'none', why: `${from.cluster} was demoted, and both clusters have the same Merkle root` };
  // Only the loss names the time of the last heartbeat: the signs show its age at each read.
  const last = heard === undefined ? 'not reported' : new Date(heard).toISOString();
  const known = `${why}; last remote WAL of ${to.cluster}: ${to.dr?.lastRemoteWal ?? 'not reported'}; last heartbeat of ${from.cluster}: ${last}`;
  return bound === undefined
    ? { loss: 'unknown', why: known }
    : { loss: 'bounded', boundWalEntries: bound, why: known };
}

function lossText({ loss, boundWalEntries: bound, why }: FailoverLoss): string {
  if (loss === 'none') return `Nothing is lost: ${why}.`;
  const sampled = `By the samples, ${bound ?? ''} WAL entries are lost; later writes may be lost as well`;
  return `${bound === undefined ? 'How much may be lost is unknown' : sampled}: ${why}.`;
}

/** Shown to the approvers next to the plan, which contains nothing that changes over time. */
function findingsFor(from: string, loss: FailoverLoss, judged: readonly Check[]): Finding[] {
  const findings = judged.flatMap(({ name, cluster = '', verdict, observed, next }): Finding[] => {
    const severity = 'warning';
    if (verdict === 'not-checkable') {
      const text = `"${name}" could not be read: ${observed}.`;
      const attested = `The approvers of gate promote attest that ${from} is gone.`;
      return [{ severity, code: 'sign-attested-by-people', text, next: next ?? attested }];
    }
    // A separate step before the gate waits for a sign that only needs time.
    if (verdict !== 'warn' || next === undefined || next === WAITED_FOR) return [];
    const where = cluster === '' ? '' : ` (${cluster})`;
    return [{ severity, code: 'failover-warning', text: `${name}${where}: ${observed}.`, next }];
  });
  return [
    { severity: loss.loss === 'none' ? 'info' : 'warning', code: 'loss-bound', text: lossText(loss) },
    ...findings,
  ];
}

/** A count rounded up to a power of ten, so that a plan made again is the same; 0 stays 0. */
function roundedUp(entries: string): string {
  const value = BigInt(entries);
  if (value === 0n) return '0';
  const power = 10n ** BigInt(value.toString().length - 1);
  return (value === power ? value : power * 10n).toString();
}

/** The loss that people sign, as far as samples show it: a different sample makes a different plan. */
function lossWarning(from: string, to: string, { loss, boundWalEntries }: FailoverLoss): string {
  if (loss === 'none') return `Nothing is lost: ${from} was demoted, and both clusters have the same Merkle root.`;
  const what = `Writes on ${from} that ${to} did not receive are lost.`;
  if (boundWalEntries === undefined) return `${what} How many is unknown.`;
  return `${what} Up to the last sample of ${from}, that is at most ${roundedUp(boundWalEntries)} WAL entries (rounded up to a power of ten); how much ${from} wrote later is unknown.`;
}

/** The plan leaves out what changes over time, such as which of the other clusters answer now. */
function failoverPlan(
  input: InputOf<'drFailover'>,
  observed: Observing,
  sides: FailoverSides,
  route: FailoverRoute,
  ofTokens: readonly string[],
): PlanDocument {
  const { deployment, plan } = observed;
  const { to } = sides;
  const [from, now] = [sides.from.cluster, to.cluster];
  const { tokenSource, fencing, loss } = route;
  const followers = sides.performanceSecondaries.map(({ cluster }) => cluster).toSorted();
  const alsoGone = [...new Set(input.alsoGone ?? [])].sort();
  const former = identityOfLostPrimary(findCluster(deployment, from), to.dr?.setId);
  return plan({
    clusters: [to, { ...former, at: 0, reachable: false, nodes: [] }],
    moves: movesOf(deployment, sides, route, former),
    warnings: [
      ...ofTokens,
      `${fencing === 'hook' ? `The fence hook cuts ${from} off. By approving you attest` : `This run does not fence ${from}. By approving you attest that it is fenced:`} that its clients, its own egress and its cluster port are cut off, and that it does not serve clients.`,
      ...alsoGone.map(
        (cluster) =>
          `The role of ${cluster} is unknown: it could be the primary too, and this run does not fence it. By approving you attest that ${cluster} is fenced as well, and does not serve clients.`,
      ),
      lossWarning(from, now, loss),
      `When ${from} comes back it still believes that it is primary: keep it fenced until drRejoin has demoted it. It may revoke leases and rotate credentials that were renewed in the meantime.`,
      followers.length > 0 && `${now} takes over the performance role too: ${followers.join(', ')} must follow it.`,
    ],
    choices: {
      fencing,
      tokenSource,
      loss: loss.loss,
      ...(alsoGone.length > 0 && { alsoGone: alsoGone.join(', ') }),
    },
  });
}

function movesOf(
  deployment: Deployment,
  { from: { cluster: from }, to, others, silent, performanceSecondaries }: FailoverSides,
  { tokenSource: source, fencing, hooks, kept }: FailoverRoute,
  former: Named,
): Listed<Move> {
  const now = to.cluster;
  const byName = (a: Named, b: Named) => a.cluster.localeCompare(b.cluster);
  const members = [...others, ...silent].toSorted(byName);
  // Which of the others answer now may be different in a minute.
  const tokens = { source, kept, recovery: to.seal?.recovery, clusters: [now], andOthers: members.length > 0 };
  const snapshot = snapshotWanted(deployment, 'forced-promotion', now, true);
  const identity = ({ cluster }: Named) => identityOfMember(findCluster(deployment, cluster), to.dr?.setId);
  const promotion = (gate: 'promote' | 'force') =>
    ({ kind: 'dr', endpoint: 'secondary/promote', gate, on: to, with: former }) as const;
  const taking = kept && ({ endpoint: 'operation-token/take', gate: 'promote', on: to, detail: kept.entry } as const);
  return [
    ...asking(tokens),
    { step: confirmGone(from) },
    ...claiming(tokens).map((each) => ({ ...each, operations: [taking] })),
    secondReading,
    ...obtaining(tokens, now),
    fencing === 'hook' && {
      step: fence(from),
      operations: [{ endpoint: 'hook/fence', gate: 'promote', on: former, with: to }],
    },
    { step: promote(now), note: 'if it refuses beyond its time budget, park', operations: [promotion('promote')] },
    snapshot.move && { ...snapshot.move, when: 'people ask for a forced promotion' },
    {
      step: promoteByForce(now),
      when: 'people ask for a forced promotion, which gate "force" must approve',
      operations: [promotion('force')],
      warnings: [
        `If ${now} refuses because it lacks writes, a forced promotion can be requested at gate force; it needs its own approvals.`,
        snapshot.warning,
      ],
    },
    { step: waitServes(now), note: 'the OUTAGE ends, unless a probe follows' },
    ...directing('none', hooks),
    to.performance?.mode === 'secondary' && { step: waitFollowsPerformance(now) },
    { step: verifyWrite(now) },
    ...members.flatMap((each) =>
      followsAsDr(tokens, each.cluster, now, {
        when: `${each.cluster} answers`,
        operations: [repointing('dr', 'promote', identity(each), to)],
      }),
    ),
    ...followingPerformance(performanceSecondaries.toSorted(byName), to, 'promote'),
    ...disposing(tokens),
    finalReading,
  ];
}
