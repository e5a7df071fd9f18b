import type { ActivationTokenResult, ChangeResult } from '../../src/contracts/activities';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { requireFilter } from '../filters/wanted-filter';
import { CHANGE_TIMEOUT_MS, awaitSettled, awaitState, resultOf, withCredential } from '../read-act-confirm';
import { awaitClusterId, readClusterId } from '../tokens/operation-token';
import { primaryAddresses } from './following';
import type { JoinInput, JoinTarget } from './joining';
import { ANSWER_BUDGET_MS, joiningOf, readPrimary, useActivation } from './joining';
import type { BothKinds } from './onboarding-read';
import { kindName, readBothKinds, rolesText } from './onboarding-read';
import { allUnsealed, readSealsOf, sealedNodes } from './onboarding-seals';
import { verifyJoining } from './repoint-authority';

/** How long the role of a secondary that was just enabled is waited for, ms. */
const ENABLED_BUDGET_MS = 60_000;

/** What a cluster that is to become a secondary is at the moment. */
interface JoinState {
  /** Absent while no node is active: the standbys that seal themselves may cost the cluster its quorum. */
  readonly roles?: BothKinds;
  readonly sealed: readonly string[];
}

interface EnableSecondary extends Omit<JoinInput, 'use'> {
  readonly activation: ActivationTokenResult;
  /** Whether this run may have sent `secondary/enable` before: then sealed nodes are its effect. Permits nothing. */
  readonly calledBefore?: boolean;
}

type Enabling = Pick<EnableSecondary, 'deployment' | 'kind' | 'primary' | 'secondary' | 'calledBefore'>;

/**
 * Enables the secondary: **everything on it is wiped**. Approved for exactly this cluster ID, and right before the call
 * read again: the cluster ID, no replication of any kind, all nodes unsealed, its primary is one, its filter is in place.
 *
 * @returns outcome `not-done` where the token is of no use any more: public key, token and call are done again together
 */
export async function enableSecondary(input: EnableSecondary): Promise<ChangeResult> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { deployment, kind, primary, secondary } = input;
  const target = clusters.of(deployment, secondary);
  const underWayMs = execution.changeUnderWayMs ?? CHANGE_TIMEOUT_MS;
  const calledBefore = input.calledBefore === true || execution.doubt.mayHaveSent;
  const before = await awaitJoinState({ ...input, calledBefore }, underWayMs);
  if (before.joined) return resultOf({ outcome: 'already', calls: 0 }, describeJoin(target, before));
  refuseReplicating(target, before.roles);
  const clusterId = await awaitClusterId(target, execution, ANSWER_BUDGET_MS);
  const joining = joiningOf({ ...input, use: 'enable' }, clusterId);
  await verifyJoining(joining, { begun: true });
  const addresses = await primaryAddresses(joining.source, signal);
  return useActivation<JoinState>(joining, input.activation, {
    read: (called) => readJoinState(target, signal, called),
    until: (state, called) => hasJoined(kind, state, addresses, called),
    budgetMs: ENABLED_BUDGET_MS,
    describe: (state) => describeJoin(target, state),
    observed: (state) => describeJoin(target, state),
    needed: `${secondary} is ${kindName(kind)} secondary of ${primary}`,
    allow: ({ roles }) => refuseReplicating(target, roles),
    prepare: async () => {
      await lookBeforeWipe(joining);
      await verifyJoining(joining, { begun: false });
      const options = await withCredential(target, execution);
      return (parameters) => target.client[kind].secondary.enable(parameters, options);
    },
  });
}

/**
 * Before an activation token is issued: the cluster replicates with nobody.
 *
 * @returns whether it joined already
 */
export async function demandUnused(input: Enabling): Promise<boolean> {
  const state = await awaitJoinState(input);
  if (!state.joined) refuseReplicating(currentExecution().clusters.of(input.deployment, input.secondary), state.roles);
  return state.joined;
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

/** @param underWayMs where given, an enable of an attempt before this one is waited for that long */
async function awaitJoinState(
  { deployment, kind, primary, secondary, calledBefore = false }: Enabling,
  underWayMs?: number,
): Promise<JoinState & { readonly joined: boolean }> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const [source, target] = [clusters.of(deployment, primary), clusters.of(deployment, secondary)];
  const addresses = await awaitState(execution, {
    read: () => primaryAddresses(source, signal),
    until: () => true,
    budgetMs: ANSWER_BUDGET_MS,
    describe: () => '',
    needed: `${primary} answers`,
    cluster: primary,
  });
  const polling = {
    // Only a run that may have called can take sealed nodes for the effect of its call.
    read: () => readJoinState(target, signal, calledBefore),
    budgetMs: ANSWER_BUDGET_MS,
    describe: (seen: JoinState) => describeJoin(target, seen),
    needed: `${secondary} answers`,
    cluster: secondary,
  };
  const joined = (seen: JoinState) => hasJoined(kind, seen, addresses, calledBefore);
  const state =
    underWayMs === undefined
      ? await awaitState(execution, { ...polling, until: () => true })
      : await awaitSettled(execution, { ...polling, until: joined }, underWayMs);
  return { ...state, joined: joined(state) };
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
  const { mode, primaryClusterAddress, knownPrimaryClusterAddresses } = roles[kind];
  if (mode !== 'secondary' && mode !== 'bootstrapping') return false;
  const told = [primaryClusterAddress ?? '', ...(knownPrimaryClusterAddresses ?? [])].filter((each) => each !== '');
  return told.length === 0 ? mayHaveCalled : told.some((each) => addresses.has(each));
}

/** @throws RunbookError PRECONDITION_FAILED where the cluster has a role of any kind */
function refuseReplicating(target: ClusterAccess, roles: BothKinds | undefined): void {
  if (roles?.dr.mode === 'disabled' && roles.performance.mode === 'disabled') return;
  throw refused(
    target,
    roles ? rolesText(roles) : 'no active node',
    'no replication of any kind: what replicates is never wiped',
  );
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
