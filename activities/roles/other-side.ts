import type { Authority, ChangeResult } from '../../src/contracts/activities';
import type { Check, RunbookPlan } from '../../src/contracts/plan';
import type { Finding } from '../../src/contracts/run-facts';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RunbookError, orElse } from '../../src/errors';
import { demandSameOutage } from '../approvals/age';
import { verifyOperation } from '../approvals/authority';
import { observeDeployment } from '../approvals/planning';
import { demand } from '../checks/check';
import { mayBeOneSet, servesAsPrimary } from '../checks/replication';
import { goneChecks, signsAgree, judgeSigns, observerOf } from '../checks/signs';
import type { ClusterAccess } from '../clusters';
import { currentExecution, onCluster } from '../execution';
import { callHook } from '../hooks/run-hook';
import { othersOfSet } from '../joining/enable-secondary';
import { kindName, readKind, readStatus } from '../observe';
import { identityOfLostPrimary, findFailoverSides } from '../checks/failover-sides';
import { awaitAnswer, awaitState, beforeSending } from '../read-act-confirm';
import { awaitIdentityOf } from '../tokens/operation-token';
import type { FailoverSides } from '../checks/failover-sides';
import * as proof from './prove-not-primary';
import { opinionsText, refusePrimary } from './prove-not-primary';

/** The cluster whose role changes, and the other cluster of the change. */
export interface Sides {
  readonly deployment: string;
  readonly kind: ReplicationKind;
  readonly cluster: string;
  readonly otherCluster: string;
}

/** The DR status of a cluster; waits until it answers. */
export function awaitDrStatus(access: ClusterAccess, budgetMs: number) {
  const execution = currentExecution();
  const { name: cluster } = access.entry;
  const read = () => readStatus(access, 'dr', execution.signal);
  return awaitAnswer(execution, { read, cluster, budgetMs, needed: `${cluster} reports its DR role` });
}

/** No node of the lost primary reports that it is primary, and every sign that it is gone still holds. */
export async function demandGone(sides: Sides, plan: RunbookPlan, memory: proof.ProofMemory = {}): Promise<void> {
  const execution = currentExecution();
  const { clusters } = execution;
  const { deployment, kind, cluster, otherCluster } = sides;
  const [candidate, lost] = [clusters.of(deployment, cluster), clusters.of(deployment, otherCluster)];
  // Each read of a cluster that drops packets costs a timeout: both reads run at once.
  const judge = kind === 'dr' ? signsAgainst : performanceSignsAgainst;
  const judging = judge(sides, plan);
  judging.catch(() => undefined);
  const opinions = await proof.askRole(lost, kind);
  refusePrimary(otherCluster, opinions, kind);
  // A cluster that answers was demoted or was never the primary, as the signs show. A promotion of it by this run whose
  // answer was lost must not take effect late.
  const promotion = { deployment, kind, gate: 'promote', candidate, other: lost } as const;
  if (opinions.active !== undefined) await proof.proveNotPrimary(execution, promotion, memory);
  // That proof may have waited: the signs of the outage are read after it.
  const against = await (opinions.active === undefined ? judging : judge(sides, plan));
  if (against.length > 0) throw contradictedBy(against);
}

async function signsAgainst({ deployment, cluster: to, otherCluster: from }: Sides, { choices }: RunbookPlan) {
  // The further silent members that serve nobody, as the approvers of the plan attested.
  const { alsoGone } = choices;
  const named = typeof alsoGone === 'string' ? alsoGone.split(', ') : [];
  const signs = await readSigns({ deployment, from, to, alsoGone: named });
  return signsAgree(signs) ? [] : signs.filter(({ verdict }) => verdict === 'fail' || verdict === 'warn');
}

async function performanceSignsAgainst({ deployment: name, cluster, otherCluster }: Sides, { choices }: RunbookPlan) {
  const observations = await observeDeployment(name);
  const [from, to] = [otherCluster, cluster].map((each) => observations.find((seen) => seen.cluster === each));
  if (!from || !to) throw new TypeError('a cluster of the deployment was not read');
  const overrideDrSecondary = choices['overrideDrSecondary'] === true;
  const deployment = currentExecution().clusters.deployment(name);
  const signs = goneChecks({ deployment, from, to, observations, overrideDrSecondary });
  return signs.filter(({ verdict }) => verdict === 'fail');
}

/** The other members of the DR set: none may be primary; a silent one becomes a finding. */
export async function refusePrimaryMember({ deployment, cluster, otherCluster }: Sides): Promise<Finding[]> {
  const { clusters } = currentExecution();
  const others = othersOfSet(clusters.deployment(deployment), 'dr', cluster).filter((name) => name !== otherCluster);
  const opinions = await Promise.all(
    others.map(async (name) => ({ name, ...(await proof.askRole(clusters.of(deployment, name))) })),
  );
  for (const each of opinions) refusePrimary(each.name, each);
  const silent = opinions.filter(({ active }) => active === undefined);
  await proof.refusePossiblyPromoted(silent);
  return silent.map(({ name, nodes }) => ({
    severity: 'warning',
    code: 'dr-member-silent',
    text: `${name}, a member of the DR set, did not report its role before the promotion (${nodes.join(', ')}).`,
    next: `Make sure that ${name} does not come back as a primary.`,
  }));
}

/**
 * No other cluster of the set reports that it is primary. The plan showed the clusters that cannot be read.
 *
 * @returns the Merkle roots that the clusters reported meanwhile
 */
export async function refuseSecondPrimary({ deployment, kind, cluster }: Sides, setId: string | undefined) {
  const { clusters, signal } = currentExecution();
  const roots = await Promise.all(
    othersOfSet(clusters.deployment(deployment), kind, cluster).map(async (name) => {
      const state = await readStatus(clusters.of(deployment, name), kind, signal).catch(
        orElse(signal, () => undefined),
      );
      if (state?.mode !== 'primary' || (kind === 'performance' && !mayBeOneSet(state.setId, setId)))
        return [name, state?.merkleRoot] as const;
      throw new RunbookError('STATE_DIVERGED', `${name} is ${kindName(kind)} primary in the same set.`, {
        cluster: name,
        observed: 'primary',
        needed: `no ${kindName(kind)} primary besides ${cluster}`,
        next: 'Do not promote anything. Find out which cluster clients write to.',
      });
    }),
  );
  return new Map(roots);
}

/** The cluster must serve as primary: demoting the only primary would leave clients without one. */
export async function demandServing(access: ClusterAccess, kind: ReplicationKind, consequence: string): Promise<void> {
  const { name: cluster } = access.entry;
  const state = await readStatus(access, kind, currentExecution().signal);
  const next = `Find out which cluster clients write to. Retry only once ${cluster} serves again.`;
  demand([servesAsPrimary({ cluster, [kind]: state }, kind, next)], consequence);
}

/** Standby nodes report their old mode for a while: only later do their reports count. */
export async function demandNoNodePrimary(access: ClusterAccess, kind: ReplicationKind, budgetMs: number) {
  const { name } = access.entry;
  const opinions = await proof.askUntilSettled(access, kind, budgetMs);
  if (!opinions.nodes.includes('primary')) return opinions;
  throw new RunbookError('STATE_DIVERGED', `A node of ${name} still reports that it is ${kindName(kind)} primary.`, {
    cluster: name,
    observed: opinionsText(opinions),
    needed: 'no node reports primary',
    next: `Keep ${name} fenced; if it was unfenced, fence it again. Check the node that reports primary, and retry once it reports the demotion.`,
  });
}

/** How long the signs may take to agree, in addition to the required silence, ms. */
const SIGNS_BUDGET_MS = 30_000;

/** A primary that is gone, and the cluster that may take its place. */
interface LostPrimary {
  readonly deployment: string;
  readonly from: string;
  readonly to: string;
  /** Further silent members that people named as gone. */
  readonly alsoGone?: readonly string[] | undefined;
}

/** Waits until every sign shows that the primary has been gone for long enough. Fails if the primary answers. */
export async function awaitPrimaryGone(input: LostPrimary): Promise<{ readonly observed: string }> {
  const { deployment, from, to } = input;
  const { execution, limits } = onCluster({ deployment, cluster: to });
  const signs = await awaitState(execution, {
    read: async () => {
      const judged = await readSigns(input);
      const [silence] = judged;
      if (silence?.verdict === 'fail') throw contradictedBy([silence]);
      return judged;
    },
    until: signsAgree,
    budgetMs: limits.primaryGoneMs + SIGNS_BUDGET_MS,
    describe: signsText,
    needed: `every sign that ${from} is gone`,
    cluster: from,
    pollMs: execution.timing.pollMs * 2,
  });
  return { observed: signsText(signs) };
}

/**
 * Runs the `fence` hook for a primary that is gone. The approved plan must allow it. The signs are read again right
 * before the hook, because the approval may be hours old: a primary that serves again is not cut off.
 */
export async function fenceLostPrimary(input: LostPrimary & { readonly authority: Authority }): Promise<ChangeResult> {
  const { deployment, from, to, authority } = input;
  const { clusters, signal, limits, access } = onCluster({ deployment, cluster: to });
  const candidate = await awaitIdentityOf(access, limits.promoteMs);
  const { setId } = await awaitDrStatus(access, limits.promoteMs);
  const on = identityOfLostPrimary(clusters.of(deployment, from).entry, setId);
  const gate = 'promote';
  const plan = await verifyOperation(input, { endpoint: 'hook/fence', gate, on, with: candidate });
  const passed = { deployment, authority, plan, gate } as const;
  await beforeSending(async () => {
    await demandGone({ deployment, kind: 'dr', cluster: to, otherCluster: from }, plan);
    await demandSameOutage(passed, await readKind(access, 'dr', signal));
  });
  return callHook({ deployment, hook: 'fence', from, to });
}

/**
 * Reads the whole deployment and judges the signs that `from` is gone.
 *
 * @throws RunbookError PRECONDITION_FAILED if another cluster is primary; SERVICE_UNAVAILABLE (retryable) if the
 *   candidate does not report whether it hears from the primary
 */
async function readSigns(named: LostPrimary): Promise<readonly Check[]> {
  const { deployment: name, from, to } = named;
  const deployment = currentExecution().clusters.deployment(name);
  const found = findFailoverSides(deployment, named, await observeDeployment(name));
  if ('verdict' in found) throw contradictedBy([found]);
  if (!found.to.dr) {
    throw new RunbookError(
      'SERVICE_UNAVAILABLE',
      `${to} does not report whether it receives heartbeats from ${from}.`,
      {
        cluster: to,
        observed: found.to.error ?? 'no status',
        needed: 'its DR status',
      },
    );
  }
  return judgeSigns({ ...witnesses(found), primaryGoneMs: deployment.limits.primaryGoneMs });
}

/** The clusters that can report whether the primary is heard. */
export function witnesses({ from, to, others, performanceSecondaries }: FailoverSides) {
  const observers = [
    ...others.map((each) => observerOf(each, 'dr')),
    ...performanceSecondaries.map((each) => observerOf(each, 'performance')),
    // A cluster that follows a primary was not the lost primary, and reports whether it hears from the real one.
    ...(from.dr?.mode === 'secondary' && from.dr.primaryClusterAddress ? [observerOf(from, 'dr')] : []),
  ];
  return { from, to, observers };
}

function signsText(signs: readonly Check[]): string {
  return signs.map(({ name, observed, verdict }) => `${name}: ${verdict} (${observed})`).join('; ');
}

/** The error for signs that contradict a failover: nobody is asked to approve it, and nothing is promoted. */
function contradictedBy(signs: readonly Check[]): RunbookError {
  const [first] = signs;
  return new RunbookError('PRECONDITION_FAILED', `It is not proven that the primary is gone. ${signsText(signs)}`, {
    retryable: false,
    outcomeKnown: true,
    ...(first?.cluster === undefined ? {} : { cluster: first.cluster }),
    observed: first?.observed ?? '',
    needed: first?.needed ?? '',
    next: signs.flatMap(({ next }) => next ?? []).join(' '),
  });
}
