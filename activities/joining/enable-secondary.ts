import type { Authority, ChangeResult, OfKind, OnCluster } from '../../src/contracts/activities';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { isRunbookError, RunbookError, orElse } from '../../src/errors';
import type { ClusterEntry, Deployment } from '../../src/inventory';
import type { ClusterAccess } from '../clusters';
import { demand } from '../checks/check';
import { noReplication } from '../checks/replication';
import { currentExecution } from '../execution';
import { requireFilter } from '../filters/paths-filters';
import { awaitSettled, awaitState, beforeSending, readActConfirm, resultOf, withCredential } from '../read-act-confirm';
import { ANSWER_BUDGET_MS, awaitClusterId, readClusterId } from '../tokens/operation-token';
import { verifyBeginning, verifyOneOf } from '../approvals/authority';
import { describeReplication, kindName, rolesText } from '../observe';
import { primaryAddresses, toldPrimaries } from './following';
import type { JoinInput, JoinTarget, TokenParameters } from './join-by-token';
import { joinByToken, joinTargetOf, readPrimary } from './join-by-token';
import type { BothKinds } from './onboarding-read';
import { allUnsealed, readBothKinds, readSealsOf, sealedNodes } from './onboarding-read';
import { verifyJoining } from './repoint-authority';

/** How long the role of a secondary that was just enabled is waited for, ms. */
const ENABLED_BUDGET_MS = 60_000;

/** What a cluster that is to become a secondary is at the moment. */
interface JoinState {
  /** Absent while no node is active: the standbys that seal themselves may cost the cluster its quorum. */
  readonly roles?: BothKinds;
  readonly sealed: readonly string[];
}

/**
 * Enables the secondary: **everything on it is wiped**. Approved for exactly this cluster ID, and right before the call
 * read again: the cluster ID, no replication of any kind, all nodes unsealed, its primary is one, its filter is in place.
 */
export async function enableSecondary(input: JoinInput): Promise<ChangeResult & { readonly nodes: readonly string[] }> {
  const { clusters, signal } = currentExecution();
  const { deployment, kind, primary, secondary } = input;
  const [source, target] = [clusters.of(deployment, primary), clusters.of(deployment, secondary)];
  const nodes = target.entry.addresses;
  // A try that failed before it sent anything is no reason to take sealed nodes for the effect of a call.
  const calledBefore = currentExecution().doubt.mayHaveSent || input.calledBefore === true;
  const addresses = await awaitAnswer(primary, () => primaryAddresses(source, signal));
  const before = await awaitJoinState(input, addresses, calledBefore);
  if (hasJoined(kind, before, addresses, calledBefore))
    return { ...resultOf({ outcome: 'already', calls: 0 }, describeJoin(target, before)), nodes };
  refuseReplicating(target, before.roles);
  const joining = joinTargetOf(input, 'enable', await awaitClusterId(target, currentExecution(), ANSWER_BUDGET_MS));
  const use = {
    read: (called: boolean) => readJoinState(target, signal, called),
    until: (state: JoinState, called: boolean) => hasJoined(kind, state, addresses, called),
    budgetMs: ENABLED_BUDGET_MS,
    describe: (state: JoinState) => describeJoin(target, state),
    needed: `${secondary} is ${kindName(kind)} secondary of ${primary}`,
    allow: ({ roles }: JoinState) => refuseReplicating(target, roles),
    prepare: async () => {
      await lookBeforeWipe(joining);
      await verifyJoining(joining, { begun: false });
      const options = await withCredential(target, currentExecution());
      return (parameters: TokenParameters) => target.client[kind].secondary.enable(parameters, options);
    },
  };
  return { ...(await joinByToken(joining, use, calledBefore)), nodes };
}

/** The last look at both sides: nothing that replicates, is sealed, or would be sent more than was approved, is wiped. */
async function lookBeforeWipe(joining: JoinTarget): Promise<void> {
  const { input, source, target, clusterId } = joining;
  const { signal } = currentExecution();
  refuseReplicating(target, await readBothKinds(target, signal));
  const seals = await readSealsOf(target, signal);
  if (!allUnsealed(seals))
    throw refused(target, seals.observed, 'every node answers and is unsealed, so that sealed ones show the join');
  if ((await readClusterId(target, signal)) !== clusterId)
    throw refused(target, 'another cluster ID than a moment ago', `cluster ID ${clusterId}`);
  await readPrimary(joining);
  if (input.kind === 'dr') return;
  const { filter = 'none' } = input.expected ?? {};
  await requireFilter(source, input.secondary, clusterId, { filter }, signal);
}

/** What the cluster is, once a call of an attempt before this one took effect or cannot any more. */
function awaitJoinState(
  { deployment, kind, secondary }: JoinInput,
  addresses: ReadonlySet<string>,
  calledBefore: boolean,
): Promise<JoinState> {
  const execution = currentExecution();
  const target = execution.clusters.of(deployment, secondary);
  const polling = {
    // Only a run that may have called can take sealed nodes for the effect of its call.
    read: () => readJoinState(target, execution.signal, calledBefore),
    until: (seen: JoinState) => hasJoined(kind, seen, addresses, calledBefore),
    budgetMs: ANSWER_BUDGET_MS,
    describe: (seen: JoinState) => describeJoin(target, seen),
    needed: `${secondary} answers`,
    cluster: secondary,
  };
  return awaitSettled(execution, polling);
}

function awaitAnswer<T>(cluster: string, read: () => Promise<T>): Promise<T> {
  const polling = { read, until: () => true, budgetMs: ANSWER_BUDGET_MS, describe: () => '' };
  return awaitState(currentExecution(), { ...polling, needed: `${cluster} answers`, cluster });
}

/** Reads the roles. Where no node is active, that nodes are sealed is the state if a call of ours may have done it. */
async function readJoinState(target: ClusterAccess, signal: AbortSignal, mayHaveCalled: boolean): Promise<JoinState> {
  try {
    return { roles: await readBothKinds(target, signal), sealed: [] };
  } catch (error) {
    if (!mayHaveCalled || !isRunbookError(error) || !error.retryable) throw error;
    const sealed = sealedNodes(await readSealsOf(target, signal));
    if (sealed.length === 0) throw error;
    return { sealed };
  }
}

/**
 * Whether it is a secondary of this primary, as far as can be told. A cluster that is being initialised may not tell whom
 * it follows yet: after a call of ours, right before which it replicated with nobody, that is enough.
 */
function hasJoined(
  kind: ReplicationKind,
  { roles, sealed }: JoinState,
  addresses: ReadonlySet<string>,
  mayHaveCalled: boolean,
): boolean {
  if (!roles) return mayHaveCalled && sealed.length > 0;
  const { mode } = roles[kind];
  if (mode !== 'secondary' && mode !== 'bootstrapping') return false;
  const told = toldPrimaries(roles[kind]);
  return told.length === 0 ? mayHaveCalled : told.some((each) => addresses.has(each));
}

/** @throws RunbookError PRECONDITION_FAILED where the cluster has a role of any kind */
function refuseReplicating({ entry: { name: cluster } }: ClusterAccess, roles: BothKinds | undefined): void {
  demand([noReplication({ cluster, ...roles, error: 'no active node' })], `${cluster} was not wiped`);
}

function refused({ entry }: ClusterAccess, observed: string, needed: string): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', `${entry.name} is not as it must be right before the wipe.`, {
    cluster: entry.name,
    observed,
    needed,
    next: 'Nothing was sent. Look at the cluster, then retry or abort.',
  });
}

function describeJoin({ entry }: ClusterAccess, { roles, sealed }: JoinState): string {
  if (roles) return `${entry.name}: ${rolesText(roles)}`;
  return `${entry.name}: no active node, ${sealed.length} of ${entry.addresses.length} nodes sealed`;
}

/** The clusters among which at most one may be primary: the DR set of a cluster, or the whole deployment. */
export function othersOfSet(deployment: Deployment, kind: ReplicationKind, cluster: string): readonly string[] {
  const members =
    kind === 'dr'
      ? (deployment.drSets.get(deployment.clusters.get(cluster)?.drSet ?? '') ?? [])
      : [...deployment.clusters.keys()];
  return members.filter((name) => name !== cluster);
}

type EnablePrimary = OnCluster & OfKind & { readonly authority: Authority };

/** What a plan may call it: on its own, or as a part of an onboarding. */
async function verifyEnabling(input: EnablePrimary, clusterId: string): Promise<void> {
  const { cluster, kind } = input;
  const ways = [`${kind}.primary.enable`, `${kind}.primary.enable-for-secondary`] as const;
  const doing = ways.map((operation) => ({ operation, on: { cluster, clusterId } }));
  await verifyOneOf(doing.map((each) => () => verifyBeginning(input, each)));
}

/** Makes a cluster primary of one kind: approved, disabled for it before, no DR secondary, and every other cluster of its set says that it is none. */
export async function enablePrimary(input: EnablePrimary): Promise<ChangeResult> {
  const { deployment, cluster: name, kind } = input;
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const access = clusters.of(deployment, name);
  const changed = await readActConfirm<BothKinds>(execution, {
    read: () => readBothKinds(access, signal),
    until: (seen) => seen.dr.mode !== 'secondary' && seen[kind].mode === 'primary' && seen[kind].state !== 'idle',
    budgetMs: clusters.deployment(deployment).limits.serviceReadyMs,
    describe: rolesText,
    needed: `${name} is ${kindName(kind)} primary, running`,
    cluster: name,
    allow: (seen) => {
      if (seen[kind].mode === 'disabled' && seen.dr.mode !== 'secondary') return;
      throw new RunbookError('PRECONDITION_FAILED', `${name} cannot be made ${kindName(kind)} primary.`, {
        cluster: name,
        observed: rolesText(seen),
        needed: `${kindName(kind)} replication disabled, and no DR secondary`,
        next: `Look at the status of ${name}.`,
        // It is primary and not yet running: enabling it again would be refused.
        retryable: seen[kind].mode === 'primary',
      });
    },
    act: async () => {
      const options = await beforeSending(() => withCredential(access, execution));
      await beforeSending(async () => verifyEnabling(input, await readClusterId(access, signal)));
      for (const other of othersOfSet(clusters.deployment(deployment), kind, name))
        await beforeSending(() => refusePrimary(clusters.of(deployment, other), kind, signal));
      execution.throwIfCancelled();
      return access.client[kind].primary.enable({ primaryClusterAddr: primaryClusterAddrOf(access.entry) }, options);
    },
  });
  const { entry } = access;
  const role = `${kindName(kind)} ${describeReplication(changed.state[kind])}`;
  return resultOf(changed, `${name}: ${role}; secondaries are given ${advertised(entry)}`);
}

/** The cluster address that a primary gives to its secondaries, in words. */
export function advertised({ advertisedClusterAddress }: ClusterEntry): string {
  return advertisedClusterAddress === 'node-address' ? 'the node address' : `the address ${advertisedClusterAddress}`;
}

/** `primary_cluster_addr` of a call; absent where the node's own address is given. */
export function primaryClusterAddrOf({ advertisedClusterAddress }: ClusterEntry): string | undefined {
  return advertisedClusterAddress === 'node-address' ? undefined : advertisedClusterAddress;
}

/** Another cluster of the set that says that it is primary, or does not say that it is none. */
async function refusePrimary(access: ClusterAccess, kind: ReplicationKind, signal: AbortSignal): Promise<void> {
  const { name } = access.entry;
  const seen = await readBothKinds(access, signal).catch(orElse(signal, (error) => error));
  if (seen instanceof RunbookError) {
    throw new RunbookError('PRECONDITION_FAILED', `Whether ${name} is ${kindName(kind)} primary is not known.`, {
      cluster: name,
      observed: `${seen.code}: ${seen.message}`,
      needed: `${name} says that it is no ${kindName(kind)} primary`,
      next: `Let ${name} be read again, then retry. A set has one primary.`,
      retryable: true,
    });
  }
  if (seen[kind].mode !== 'primary' || seen.dr.mode === 'secondary') return;
  throw new RunbookError('PRECONDITION_FAILED', `${access.entry.name} is ${kindName(kind)} primary already.`, {
    cluster: access.entry.name,
    observed: rolesText(seen),
    needed: `no other ${kindName(kind)} primary in the set`,
    next: 'Find out which one clients write to. A set has one primary.',
  });
}
