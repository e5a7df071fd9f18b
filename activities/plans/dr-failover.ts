import type { Assessment } from '../../src/contracts/activities';
import type { ClusterObservation, WalIndex } from '../../src/contracts/observations';
import type { Check, PlanDocument } from '../../src/contracts/plan';
import type { Finding } from '../../src/contracts/run-facts';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { findCluster } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import { asWarning, check } from '../checks/check';
import { BROKEN, credentialFacts, stopBroken } from '../checks/credentials';
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
import { WAITED_FOR, judgeSigns, lastHeardAt, observerOf } from '../checks/signs';
import { DEMOTE, PROMOTE, UPDATE_PRIMARY } from '../checks/tokens';
import type { TokenAssessment } from '../checks/tokens';
import { canFollow, supportedVersion, versionsAfterLoss } from '../checks/versions';
import { witnesses } from '../roles/other-side';
import { lossBound, readWalSamples, unattestedSamples } from '../evidence/wal-samples';
import type { LossBound } from '../evidence/wal-samples';
import { currentExecution } from '../execution';
import { findFailoverSides, furthestAhead, identityOfLost, identityOfMember } from '../checks/failover-sides';
import type { FailoverSides } from '../checks/failover-sides';
import { snapshotWanted } from '../snapshots/snapshots';
import { followingSteps, observe, repointed, tokenSteps } from './observed';
import type { Observed, Observing, PlanInput } from './observed';

/** What is known beforehand of what a failover loses. Changes by itself: never in a plan. */
export interface FailoverLoss {
  /** `none` only where the old primary was demoted, answers, and has the same Merkle root. */
  readonly loss: 'none' | 'bounded' | 'unknown';
  readonly why: string;
  /** WAL entries, decimal, that the old primary had told of and the new one has not received. */
  readonly boundWalEntries?: WalIndex;
}

/** States in which a secondary is not in step with its primary, and never will be once that is gone. */
const NOT_IN_STEP: readonly string[] = ['merkle-diff', 'merkle-sync'];

/** Unplanned change of the DR primary: the signs that it is gone, its successor, and what may be lost. */
export async function assessDrFailover(request: PlanInput<InputOf<'drFailover'>>): Promise<Assessment<FailoverRoute>> {
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
    ...successorChecks(input, observed, found),
    // Not while the primary serves, as for readiness: clients write between two reads.
    ...furthestAhead(found.to, found.secondaries),
  ];
  const route = {
    ...routeOf(input, deployment, found, tokens),
    /** When a secondary heard the primary last, epoch ms of the worker; absent where none tells it. */
    lastHeardAt: heard,
    loss,
    /** What approvers must know beside the plan. */
    findings: [...findingsFor(from.cluster, loss, judged), ...unattestedSamples(known)],
  };
  return {
    ...base,
    preconditions: [...judged, ...tokens.checks],
    route,
    plan: failoverPlan(input, observed, found, route, tokens.warnings),
  };
}

/** What the workflow follows, and what people are shown beside the plan. */
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
    /** Those that do not: people re-point them later. */
    silentDrSecondaries: silent.map(({ cluster }) => cluster),
    performanceSecondaries: performanceSecondaries.map(({ cluster }) => cluster),
    /** Outside of the set, and they do not answer: they may have to follow too. */
    silent: silentOutside.map(({ cluster }) => cluster),
    tokenSource: source,
    /** The operation token of `to`, where the record keeps one. */
    kept,
    /** `attested`: whoever approves gate `promote` says so. */
    fencing: deployment.hooks.fence && fencing !== 'attested' ? ('hook' as const) : ('attested' as const),
    /** Of the new primary, before a forced promotion. */
    snapshot: snapshotWanted(deployment, 'forced-promotion', to.cluster, true).wanted,
    hooks: clientHooksOf(deployment),
  };
}

/** Primaries that answer, so that nothing fails over, and that serve nobody: what people do about each. */
async function brokenPrimaries({ observations, access }: Observed, signal: AbortSignal): Promise<Check[]> {
  const primaries = observations.filter(({ dr }) => dr?.mode === 'primary');
  const judged = primaries.map(async ({ cluster }) => {
    const primary = access(cluster);
    const { error = '', httpStatus } = await credentialFacts(primary, () => primary.credential(), [DEMOTE], signal);
    const observed = `it answers as primary, and calls with a token fail (${error})`;
    const needed = 'a primary that serves, or one that does not answer';
    const next = stopBroken(cluster, httpStatus);
    return check('no primary is broken', cluster, !BROKEN.has(error), { observed, needed, next });
  });
  return (await Promise.all(judged)).filter(({ verdict }) => verdict === 'fail');
}

/** Whether the successor can become primary, and what people must know of it and of those that have to follow. */
export function successorChecks(
  input: InputOf<'drFailover'>,
  { deployment }: Observed,
  { from, to, others, silent, silentOutside, strangers, performanceSecondaries }: FailoverSides,
): Check[] {
  const { cluster } = to;
  const other = `${cluster} cannot be promoted as it is: look at its nodes, or name another one with {"to": ...}.`;
  return [
    hasRole(to, 'dr', 'secondary', other),
    check('was in step with the primary', cluster, !NOT_IN_STEP.includes(to.dr?.state ?? ''), {
      observed: to.dr?.state ?? 'not told',
      needed: 'stream-wals or idle',
      next: `${cluster} was still comparing or copying data when its primary went: its promotion may be refused, and hold only a part.`,
      otherwise: 'warn',
    }),
    // It is read at its active node: what else of it is missing stops no promotion.
    ...[everyNodeAnswers(to), everyNodeUnsealed(to)].map((each) =>
      asWarning(each, `Bring the missing nodes of ${cluster} back: it has to carry everything alone.`),
    ),
    ...healthyTree(to, 'dr'),
    versionsAfterLoss(from, to),
    asWarning(supportedVersion(to)),
    ...asPinned(to),
    ...[...others, ...performanceSecondaries].map((each) => asWarning(canFollow(to, each))),
    ...strangers.map((each) => ofAnotherSet(to, each)),
    ...fenceHook(input, deployment),
    ...silent.map((each) =>
      otherReadable(each, `${each.cluster} is not re-pointed by this run; make sure that it is not a primary.`),
    ),
    ...silentOutside.map((each) =>
      otherReadable(
        each,
        `Where ${each.cluster} followed ${from.cluster}, re-point it later with secondaryRepointing.`,
      ),
    ),
  ];
}

function fenceHook({ fencing }: InputOf<'drFailover'>, { hooks }: Deployment): Check[] {
  if (fencing !== 'hook') return [];
  const observed = hooks.fence ? 'there is one' : 'none';
  const needed = 'hooks.fence in the inventory';
  const next = 'Add the hook, or start with {"fencing": "attested"}.';
  return [check('fence hook', undefined, hooks.fence !== undefined, { observed, needed, next })];
}

/** Where the old primary was demoted and still answers, its tree tells more than any sample. */
function lossOf(
  from: ClusterObservation,
  to: ClusterObservation,
  { bound, why }: LossBound,
  heard: number | undefined,
): FailoverLoss {
  const demoted = from.dr?.mode === 'secondary' && from.dr.merkleRoot !== undefined;
  if (demoted && from.dr?.merkleRoot === to.dr?.merkleRoot)
    return { loss: 'none', why: `${from.cluster} was demoted, and both have the same Merkle root` };
  // The last heartbeat is told with the loss alone: the signs tell how long ago it was when each was read.
  const last = heard === undefined ? 'at no time that is told' : `at ${new Date(heard).toISOString()}`;
  const told = `${why}; ${to.cluster} has last remote WAL ${to.dr?.lastRemoteWal ?? 'not told'}; a secondary heard ${from.cluster} last ${last}`;
  return bound === undefined ? { loss: 'unknown', why: told } : { loss: 'bounded', boundWalEntries: bound, why: told };
}

function lossText({ loss, boundWalEntries: bound, why }: FailoverLoss): string {
  if (loss === 'none') return `Nothing is lost: ${why}.`;
  const sampled = `Of what was sampled, ${bound ?? ''} WAL entries are lost; what was written later may be lost as well`;
  return `${bound === undefined ? 'What may be lost is not known' : sampled}: ${why}.`;
}

/** Shown to the approvers beside the plan, which holds nothing that changes by itself. */
function findingsFor(from: string, loss: FailoverLoss, judged: readonly Check[]): Finding[] {
  const findings = judged.flatMap(({ name, cluster = '', verdict, observed, next }): Finding[] => {
    const severity = 'warning';
    if (verdict === 'not-checkable') {
      const text = `"${name}" could not be read: ${observed}.`;
      const attested = `The approvers of gate promote attest that ${from} is gone.`;
      return [{ severity, code: 'sign-attested-by-people', text, next: next ?? attested }];
    }
    // A sign that only needs time is waited for in a step of its own, before the gate.
    if (verdict !== 'warn' || next === undefined || next === WAITED_FOR) return [];
    const where = cluster === '' ? '' : ` (${cluster})`;
    return [{ severity, code: 'failover-warning', text: `${name}${where}: ${observed}.`, next }];
  });
  return [
    { severity: loss.loss === 'none' ? 'info' : 'warning', code: 'loss-bound', text: lossText(loss) },
    ...findings,
  ];
}

/** A count rounded up to a power of ten, so that a plan that was read again is the same; 0 stays 0. */
function roundedUp(entries: string): string {
  const value = BigInt(entries);
  if (value === 0n) return '0';
  const power = 10n ** BigInt(value.toString().length - 1);
  return (value === power ? value : power * 10n).toString();
}

/** People sign what is lost as far as samples tell: another sample makes another plan. */
function lossWarning(from: string, to: string, { loss, boundWalEntries }: FailoverLoss): string {
  if (loss === 'none') return `Nothing is lost: ${from} was demoted, and both have the same Merkle root.`;
  const what = `What ${from} wrote and ${to} did not receive is lost.`;
  if (boundWalEntries === undefined) return `${what} How much that is is not known.`;
  return `${what} Of what the last sample of ${from} showed, that is at most ${roundedUp(boundWalEntries)} WAL entries (rounded up to a power of ten); what ${from} wrote later is not known.`;
}

/** What changes by itself, such as who of the others answers now, is not in it. */
function failoverPlan(
  input: InputOf<'drFailover'>,
  { deployment, plan }: Observing,
  { from: lost, to, others, silent, performanceSecondaries }: FailoverSides,
  { tokenSource, fencing, hooks, loss, kept }: FailoverRoute,
  ofTokens: readonly string[],
): PlanDocument {
  const snapshot = snapshotWanted(deployment, 'forced-promotion', to.cluster, true);
  const from = lost.cluster;
  const byName = (a: { readonly cluster: string }, b: { readonly cluster: string }) =>
    a.cluster.localeCompare(b.cluster);
  const members = [...others, ...silent].toSorted(byName);
  const followers = performanceSecondaries.toSorted(byName);
  const hook = fencing === 'hook';
  const token = tokenSteps(to, tokenSource, kept);
  const alsoGone = [...new Set(input.alsoGone ?? [])].sort();
  const identity = ({ cluster }: ClusterObservation) =>
    identityOfMember(findCluster(deployment, cluster), to.dr?.setId);
  const former = identityOfLost(findCluster(deployment, from), to.dr?.setId);
  return plan({
    clusters: [to, { ...former, at: 0, reachable: false, nodes: [] }],
    operations: [
      kept && { operation: 'operation-token.take-for-failover', on: to, detail: kept.entry },
      hook && { operation: 'hook.fence', on: former, with: to },
      { operation: 'dr.secondary.promote', on: to, with: former },
      { operation: 'dr.secondary.promote-force', on: to, with: former },
      ...repointed('dr', 'promotion', to, members.map(identity)),
      ...repointed('performance', 'promotion', to, followers),
    ],
    warnings: [
      ...ofTokens,
      `${hook ? `The fence hook cuts ${from} off. Whoever approves attests` : `Nothing here fences ${from}. Whoever approves attests that it is fenced:`} that its clients, its own egress and its cluster port are cut off, and that it serves nobody.`,
      ...alsoGone.map(
        (cluster) =>
          `${cluster} says nothing and could be the primary too; nothing here fences it. Whoever approves attests that ${cluster} is fenced as well, and serves nobody.`,
      ),
      lossWarning(from, to.cluster, loss),
      `${from} believes that it is primary when it comes back: keep it fenced until drRejoin has demoted it. It may revoke or rotate what was renewed meanwhile.`,
      followers.length > 0 &&
        `${to.cluster} takes over the performance role too: ${followers.map(({ cluster }) => cluster).join(', ')} must follow it.`,
      `Where ${to.cluster} refuses because it knows to lack writes, a forced promotion can be asked for at gate force; it needs approvals of its own.`,
      snapshot.warning,
    ],
    steps: [
      token.begin,
      hook && `Fence ${from}`,
      `Promote ${to.cluster}; where it refuses beyond its budget, park`,
      snapshot.step,
      `Wait until ${to.cluster} serves${hooks.traffic ? ', lead the clients there' : ''} (OUTAGE ends)`,
      `Verify that ${to.cluster} accepts a write`,
      ...members.map(({ cluster }) => `Point ${cluster} at ${to.cluster}, where it answers`),
      ...followingSteps(followers, to.cluster),
      token.end,
    ],
    choices: {
      fencing,
      tokenSource,
      loss: loss.loss,
      ...(alsoGone.length > 0 && { alsoGone: alsoGone.join(', ') }),
    },
  });
}
