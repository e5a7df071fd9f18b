import type { SecondaryPublicKey } from '../../src/vault';
import type {
  ActivationTokenResult,
  ChangeResult,
  EnableSecondary,
  IssueEnableToken,
  PathsFilterFacts,
} from '../../src/contracts/activities';
import type { AllowedOperation } from '../../src/contracts/plan';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RunbookError, isRunbookError } from '../../src/errors';
import { openValue } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';
import { verifyBeginning, verifyOperation } from '../approvals/authority';
import type { ClusterAccess, Clusters } from '../clusters';
import type { Execution } from '../execution';
import type { Joining } from './join-secondary';
import { clusterAddressesOf, issueFor, readPrimary, useOf } from './join-secondary';
import type { BothKinds } from './onboarding-read';
import { kindName, readBothKinds, readKind, rolesText } from './onboarding-read';
import { allUnsealed, readSealsOf, sealedNodes } from './onboarding-seals';
import { awaitClusterId, readClusterId } from '../tokens/operation-token';
import { describeFilter } from '../filters/paths-filters';
import {
  CHANGE_TIMEOUT_MS,
  awaitSettled,
  awaitState,
  beforeSending,
  readActConfirm,
  withCredential,
} from '../read-act-confirm';

/** How long a cluster that does not answer is waited for before its step parks, ms. */
const ANSWER_BUDGET_MS = 30_000;
/** How long the role of a secondary that was just enabled is waited for, ms. */
const ENABLED_BUDGET_MS = 60_000;
/** What of an enable says that the token was not taken; it serves once, so that another one is needed. */
const NOT_TAKEN: ReadonlySet<string> = new Set(['OUTCOME_UNKNOWN', 'CONFIRMATION_TIMEOUT', 'BAD_REQUEST']);

/** What a cluster that is to become a secondary is at the moment. */
interface JoinState {
  /** Absent while no node is active: the standbys that seal themselves may cost the cluster its quorum. */
  readonly roles?: BothKinds;
  readonly sealed: readonly string[];
}

/** Both sides of an onboarding, as the activities of it need them. */
interface Onboarding {
  readonly dependencies: ActivityDependencies;
  readonly clusters: Clusters;
  readonly execution: Execution;
  readonly kind: ReplicationKind;
}

/**
 * Issues the activation token under the cluster ID of the secondary: encrypted to its public key, or wrapped. None where
 * the cluster joined already. An id whose token nobody knows is revoked first.
 */
export async function issueEnableToken(
  onboarding: Onboarding,
  { deployment, primary, secondary, form, calledBefore }: IssueEnableToken,
): Promise<ActivationTokenResult> {
  const { dependencies, clusters, execution, kind } = onboarding;
  const target = clusters.of(deployment, secondary);
  const source = clusters.of(deployment, primary);
  const state = await awaitJoinState(onboarding, source, target, { mayHaveCalled: calledBefore });
  if (state.joined) return { id: '', form: 'none', revokedBefore: false };
  refuseReplicating(target, state.roles);
  const clusterId = await awaitClusterId(target, execution, ANSWER_BUDGET_MS);
  const joining = joiningOf(onboarding, source, target, clusterId);
  const publicKey = async (): Promise<SecondaryPublicKey | undefined> => {
    if (form === 'wrapped') return undefined;
    try {
      return await target.client[kind].secondary.generatePublicKey(await withCredential(target, execution));
    } catch (error) {
      // `auto`: a service that makes no key here issues a wrapped token. A lost answer is tried again.
      if (form === 'auto' && isRunbookError(error) && error.outcomeKnown && !error.retryable) return undefined;
      throw error;
    }
  };
  return issueFor(dependencies, execution, joining, publicKey);
}

/**
 * Enables the secondary: **everything on it is wiped**. Approved for exactly this cluster ID, and right before the call
 * read again: the cluster ID, no replication of any kind, all nodes unsealed, its primary is one, its filter is in place.
 *
 * @returns outcome `not-done` where the token is of no use any more: public key, token and call are done again together
 */
export async function enableSecondaryOn(onboarding: Onboarding, input: EnableSecondary): Promise<ChangeResult> {
  const { dependencies, clusters, execution, kind } = onboarding;
  const { deployment: name, activation, authority, filter } = input;
  const { signal, run } = execution;
  const target = clusters.of(name, input.secondary);
  const source = clusters.of(name, input.primary);
  let calls = 0;
  let calledAt: number | undefined;
  const result = (outcome: ChangeResult['outcome'], observed: string): ChangeResult => ({
    ...{ outcome, observed, calledAt, calls },
    confirmedAt: Date.now(),
  });

  const underWayMs = dependencies.changeUnderWayMs ?? CHANGE_TIMEOUT_MS;
  const mayHaveCalled = input.calledBefore || execution.doubt.mayHaveSent;
  const before = await awaitJoinState(onboarding, source, target, { mayHaveCalled, underWayMs });
  if (before.joined) return result('already', describeJoin(target, before));
  refuseReplicating(target, before.roles);
  const clusterId = await awaitClusterId(target, execution, ANSWER_BUDGET_MS);
  const joining = joiningOf(onboarding, source, target, clusterId);
  const doing = {
    operation: `${kind}.secondary.enable`,
    on: { cluster: target.entry.name, clusterId },
    with: { cluster: source.entry.name, clusterId: await awaitClusterId(source, execution, ANSWER_BUDGET_MS) },
    ...filterDetail(kind, filter),
  } as const;
  await verifyOperation(dependencies.inventory, run, name, authority, doing);
  if (activation.token === undefined) return result('not-done', 'there is no activation token yet');
  const token = await openValue(dependencies.sealKeyring, run, activation.token, {
    kind: 'activation-token',
    cluster: target.entry.name,
    clusterId,
    use: useOf(joining),
    expectedSource: source.entry.name,
  });
  if (activation.keyNode !== undefined && (await target.client.activeNode({ signal })) !== activation.keyNode)
    return result(
      'not-done',
      `the active node of ${target.entry.name} changed: the private key of the activation is gone`,
    );
  const addresses = await clusterAddressesOf(source, signal);
  const wrapped = activation.form === 'wrapped';

  try {
    const changed = await readActConfirm<JoinState>(execution, {
      read: () => readJoinState(target, signal, calls > 0),
      until: (state) => hasJoined(kind, state, addresses, calls > 0),
      budgetMs: ENABLED_BUDGET_MS,
      describe: (state) => describeJoin(target, state),
      needed: `${target.entry.name} is ${kindName(kind)} secondary of ${source.entry.name}`,
      cluster: target.entry.name,
      underWayMs,
      allow: (state) => refuseReplicating(target, state.roles),
      act: async () => {
        await beforeSending(async () => {
          await lookBeforeWipe(joining, execution, filter);
          await verifyBeginning(dependencies.inventory, run, name, authority, doing);
        });
        execution.throwIfCancelled();
        calls += 1;
        calledAt ??= Date.now();
        const primaryApiAddr = wrapped ? source.entry.apiAddressForPeers : undefined;
        const caFile = wrapped ? source.entry.caFileOnPeers : undefined;
        const parameters = { token, primaryApiAddr, caFile };
        return target.client[kind].secondary.enable(parameters, await withCredential(target, execution));
      },
    });
    return result(changed.outcome, describeJoin(target, changed.state));
  } catch (error) {
    // While it may be under way, another token would revoke the id that it uses: the wiped cluster would follow nobody.
    if (isRunbookError(error) && NOT_TAKEN.has(error.code) && calls > 0 && !execution.doubt.mayHaveSent)
      return result('not-done', `${target.entry.name} did not take the activation token (${error.code})`);
    throw error;
  }
}

/** The last look at both sides: nothing that replicates, is sealed, or would be sent more than was approved, is wiped. */
async function lookBeforeWipe(
  joining: Joining,
  execution: Execution,
  filter: PathsFilterFacts | undefined,
): Promise<void> {
  const { kind, source, target, clusterId } = joining;
  const { signal } = execution;
  refuseReplicating(target, await readBothKinds(target, signal));
  const seals = await readSealsOf(target, signal);
  if (!allUnsealed(seals))
    throw refused(target, seals.observed, 'every node answers and is unsealed, so that sealed ones show the join');
  if ((await readClusterId(target, signal)) !== clusterId)
    throw refused(target, 'another cluster ID than a moment ago', `cluster ID ${clusterId}`);
  await readPrimary(joining);
  if (kind === 'dr') return;
  const options = await withCredential(source, execution);
  requireFilter(
    source,
    clusterId,
    await source.client.performance.primary.pathsFilter.read(clusterId, options),
    filter,
  );
}

/** What an approved plan says of the filter, for performance secondaries. */
export function filterDetail(
  kind: ReplicationKind,
  filter: PathsFilterFacts | undefined,
): Pick<AllowedOperation, 'detail'> {
  return kind === 'performance' ? { detail: describeFilter(filter) } : {};
}

/**
 * @param options.mayHaveCalled only a run that may have called can take sealed nodes for the effect of its call
 * @param options.underWayMs where given, an enable of an attempt before this one is waited for that long
 */
async function awaitJoinState(
  { execution, kind }: Onboarding,
  source: ClusterAccess,
  target: ClusterAccess,
  { mayHaveCalled, underWayMs }: { readonly mayHaveCalled: boolean; readonly underWayMs?: number },
): Promise<JoinState & { readonly joined: boolean }> {
  const { signal } = execution;
  const { name } = target.entry;
  const addresses = await awaitState(execution, {
    read: () => clusterAddressesOf(source, signal),
    until: () => true,
    budgetMs: ANSWER_BUDGET_MS,
    describe: () => '',
    needed: `${source.entry.name} answers`,
    cluster: source.entry.name,
  });
  const polling = {
    read: () => readJoinState(target, signal, mayHaveCalled),
    budgetMs: ANSWER_BUDGET_MS,
    describe: (seen: JoinState) => describeJoin(target, seen),
    needed: `${name} answers`,
    cluster: name,
  };
  const joined = (seen: JoinState) => hasJoined(kind, seen, addresses, mayHaveCalled);
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

function joiningOf(
  { clusters, execution, kind }: Onboarding,
  source: ClusterAccess,
  target: ClusterAccess,
  clusterId: string,
): Joining {
  const { heartbeatAgeMs } = clusters.deployment(target.entry.deployment).limits;
  const read = (access: ClusterAccess) => readKind(access, kind, execution.signal);
  return { kind, use: 'enable', source, target, clusterId, heartbeatAgeMs, read };
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

/** @throws RunbookError PRECONDITION_FAILED where the primary would send something else than what was approved */
function requireFilter(
  source: ClusterAccess,
  id: string,
  found: PathsFilterFacts | undefined,
  filter: PathsFilterFacts | undefined,
): void {
  if (describeFilter(found) !== describeFilter(filter))
    throw refused(source, `${describeFilter(found)} under ${id}`, `${describeFilter(filter)} under ${id}`);
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
