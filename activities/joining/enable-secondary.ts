import type { Authority, ChangeResult, OfKind, OnCluster } from '../../src/contracts/activities';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { isRunbookError, RunbookError, orElse } from '../../src/errors';
import { drSetOf } from '../../src/inventory';
import type { ClusterEntry, Deployment } from '../../src/inventory';
import type { ClusterAccess } from '../clusters';
import { check, demand } from '../checks/check';
import { noReplication } from '../checks/replication';
import { betweenClusters, currentExecution, onCluster } from '../execution';
import { requireFilter } from '../filters/paths-filters';
import { awaitSettled, awaitAnswer, readActConfirm, resultOf, withCredential } from '../read-act-confirm';
import { ANSWER_BUDGET_MS, awaitIdentity, readClusterId } from '../tokens/operation-token';
import { verifyBeginning, verifyOneOf } from '../approvals/authority';
import { describeReplication, kindName, rolesText } from '../observe';
import { knowsPrimary, readSource, reportedPrimaries, readBothKinds, readSealsOf } from './following';
import type { TokenParameters } from './join-by-token';
import { joinByToken, readPrimary } from './join-by-token';
import type { BothKinds } from './following';
import { verifyJoining } from './repoint-authority';
import type { JoinTarget, JoinInput } from './join-target';

/** How long to wait for the role of a newly enabled secondary, ms. */
const ENABLED_BUDGET_MS = 60_000;

/** The present state of a cluster that is about to become a secondary. */
interface JoinState {
  /** Absent while no node is active: standbys that seal themselves may cost the cluster its quorum. */
  readonly roles?: BothKinds;
  readonly sealed: readonly string[];
}

/**
 * Enables the secondary: **everything on it is wiped**. The approval is for exactly this cluster ID. Checked again
 * right before the call: the cluster ID, no replication of any kind, all nodes unsealed, the primary is primary, the
 * filter is in place.
 */
export async function enableSecondary(input: JoinInput): Promise<ChangeResult & { readonly nodes: readonly string[] }> {
  const { kind, primary, secondary } = input;
  const { execution, signal, source, target } = betweenClusters(input);
  const nodes = target.entry.addresses;
  // Sealed nodes count as the effect of a call only if a call may have been sent.
  const calledBefore = execution.doubt.mayHaveSent || input.calledBefore === true;
  const { addresses } = await awaitAnswer(execution, {
    ...{ read: () => readSource(source, kind, signal), budgetMs: ANSWER_BUDGET_MS },
    ...{ needed: `${primary} answers`, cluster: primary },
  });
  const joined = (state: JoinState, called: boolean) => hasJoined(kind, state, addresses, called);
  const reading = {
    describe: (state: JoinState) => describeJoin(target, state),
    needed: `${secondary} is ${kindName(kind)} secondary of ${primary}`,
  };
  // The state once a call of an earlier attempt has taken effect, or no longer can.
  const before = await awaitSettled(execution, {
    ...{ ...reading, budgetMs: ANSWER_BUDGET_MS, needed: `${secondary} answers`, cluster: secondary },
    // Sealed nodes count as the effect of a call only if this run may have sent one.
    read: () => readJoinState(target, signal, calledBefore),
    until: (seen) => joined(seen, calledBefore),
  });
  if (joined(before, calledBefore))
    return { ...resultOf({ outcome: 'already', calls: 0 }, describeJoin(target, before)), nodes };
  refuseReplicating(target, before.roles);
  const { clusterId } = await awaitIdentity(target, ANSWER_BUDGET_MS);
  const joining = { input, use: 'enable', source, target, clusterId } as const;
  const use = {
    ...reading,
    read: (called: boolean) => readJoinState(target, signal, called),
    until: joined,
    budgetMs: ENABLED_BUDGET_MS,
    allow: ({ roles }: JoinState) => refuseReplicating(target, roles),
    prepare: async () => {
      await lookBeforeWipe(joining);
      await verifyJoining(joining, { begun: false });
      const options = await withCredential(target, execution);
      return (parameters: TokenParameters) => target.client[kind].secondary.enable(parameters, options);
    },
  };
  return { ...(await joinByToken(joining, use, calledBefore)), nodes };
}

/** The last check of both clusters: refuses if the target replicates, is sealed, or would get more than approved. */
async function lookBeforeWipe(joining: JoinTarget): Promise<void> {
  const { input, source, target, clusterId } = joining;
  const { signal } = currentExecution();
  refuseReplicating(target, await readBothKinds(target, signal));
  const seals = await readSealsOf(target, signal);
  if (!seals.nodes.every(({ sealed }) => sealed === false))
    throw refused(target, seals.observed, 'every node answers and is unsealed: sealed nodes are the sign of the join');
  if ((await readClusterId(target, signal)) !== clusterId)
    throw refused(target, 'a different cluster ID than a moment ago', `cluster ID ${clusterId}`);
  await readPrimary(source, input.kind);
  if (input.kind === 'dr') return;
  const { filter = 'none' } = input.expected ?? {};
  await requireFilter(source, input.secondary, clusterId, { filter }, signal);
}

/** Reads the roles. If no node is active, the sealed nodes are the state, if a call of ours may have sealed them. */
async function readJoinState(target: ClusterAccess, signal: AbortSignal, mayHaveCalled: boolean): Promise<JoinState> {
  try {
    return { roles: await readBothKinds(target, signal), sealed: [] };
  } catch (error) {
    if (!mayHaveCalled || !isRunbookError(error) || !error.retryable) throw error;
    const { nodes } = await readSealsOf(target, signal);
    const sealed = nodes.flatMap((node) => (node.sealed === true ? [node.address] : []));
    if (sealed.length === 0) throw error;
    return { sealed };
  }
}

/**
 * Whether the cluster is a secondary of this primary, as far as is visible. A cluster that is being initialized may not
 * yet report which primary it follows. After a call of ours that is enough: right before it, the cluster did not
 * replicate.
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
  const reported = reportedPrimaries(roles[kind]);
  return reported.length === 0 ? mayHaveCalled : knowsPrimary(roles[kind], addresses);
}

/** @throws RunbookError PRECONDITION_FAILED if the cluster has a role of any kind */
function refuseReplicating({ entry: { name: cluster } }: ClusterAccess, roles: BothKinds | undefined): void {
  demand([noReplication({ cluster, ...roles, error: 'no active node' })], `${cluster} must not be wiped`);
}

function refused({ entry }: ClusterAccess, observed: string, needed: string): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', `${entry.name} does not meet the conditions for the wipe.`, {
    cluster: entry.name,
    observed,
    needed,
    next: `Check ${entry.name}, then retry or abort: nothing was sent to it after this check.`,
  });
}

function describeJoin({ entry }: ClusterAccess, { roles, sealed }: JoinState): string {
  if (roles) return `${entry.name}: ${rolesText(roles)}`;
  return `${entry.name}: no active node, ${sealed.length} of ${entry.addresses.length} nodes sealed`;
}

/** The clusters among which at most one may be primary: the DR set of a cluster, or the whole deployment. */
export function othersOfSet(deployment: Deployment, kind: ReplicationKind, cluster: string): readonly string[] {
  const members = kind === 'dr' ? drSetOf(deployment, cluster).members : [...deployment.clusters.keys()];
  return members.filter((name) => name !== cluster);
}

/**
 * Makes a cluster primary of one kind. It must be approved, disabled for that kind before, and not a DR secondary;
 * every other cluster of its set must report that it is not primary.
 */
export async function enablePrimary(
  input: OnCluster & OfKind & { readonly authority: Authority },
): Promise<ChangeResult> {
  const { deployment, cluster: name, kind } = input;
  const { execution, clusters, signal, limits, access } = onCluster(input);
  const { entry } = access;
  const changed = await readActConfirm<BothKinds>(execution, {
    read: () => readBothKinds(access, signal),
    until: (seen) => seen.dr.mode !== 'secondary' && seen[kind].mode === 'primary' && seen[kind].state !== 'idle',
    budgetMs: limits.serviceReadyMs,
    describe: rolesText,
    needed: `${name} is ${kindName(kind)} primary, running`,
    cluster: name,
    allow: (seen) => {
      if (seen[kind].mode === 'disabled' && seen.dr.mode !== 'secondary') return;
      throw new RunbookError('PRECONDITION_FAILED', `${name} cannot become ${kindName(kind)} primary.`, {
        cluster: name,
        observed: rolesText(seen),
        needed: `${kindName(kind)} replication disabled, and not a DR secondary`,
        next: `Check the status of ${name}.`,
        // It is primary but not running yet: enabling it again would be refused.
        retryable: seen[kind].mode === 'primary',
      });
    },
    prepare: async () => {
      const options = await withCredential(access, execution);
      const on = { cluster: name, clusterId: await readClusterId(access, signal) };
      // On its own, or as part of an onboarding.
      const endpoint = 'primary/enable';
      const gates = ['plan', 'wipe'] as const;
      await verifyOneOf(gates.map((gate) => () => verifyBeginning(input, { kind, endpoint, gate, on })));
      for (const other of othersOfSet(clusters.deployment(deployment), kind, name))
        await refusePrimary(clusters.of(deployment, other), kind, signal);
      return () => access.client[kind].primary.enable({ primaryClusterAddr: primaryClusterAddrOf(entry) }, options);
    },
  });
  const role = `${kindName(kind)} ${describeReplication(changed.state[kind])}`;
  return resultOf(changed, `${name}: ${role}; secondaries receive ${advertised(entry)}`);
}

/** The cluster address that a primary gives to its secondaries, as text. */
export function advertised({ advertisedClusterAddress }: ClusterEntry): string {
  return advertisedClusterAddress === 'node-address' ? 'the node address' : `the address ${advertisedClusterAddress}`;
}

/** `primary_cluster_addr` of a call; absent if secondaries receive the node's own address. */
export function primaryClusterAddrOf({ advertisedClusterAddress }: ClusterEntry): string | undefined {
  return advertisedClusterAddress === 'node-address' ? undefined : advertisedClusterAddress;
}

/** Refuses if another cluster of the set reports that it is primary, or does not report that it is not. */
async function refusePrimary(access: ClusterAccess, kind: ReplicationKind, signal: AbortSignal): Promise<void> {
  const { name } = access.entry;
  const seen = await readBothKinds(access, signal).catch(orElse(signal, (error) => error));
  const silent = seen instanceof RunbookError;
  const isNone = !silent && (seen[kind].mode !== 'primary' || seen.dr.mode === 'secondary');
  const judged = check(`no other ${kindName(kind)} primary in the set`, name, isNone, {
    observed: silent ? `${seen.code}: ${seen.message}` : rolesText(seen),
    needed: `${name} reports that it is not ${kindName(kind)} primary`,
    next: silent ? `Make ${name} readable again, then retry.` : 'Find out which cluster clients write to.',
  });
  demand([judged], 'No primary was enabled, because a set has only one', silent);
}
