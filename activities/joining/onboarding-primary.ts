import type { ChangeResult, EnablePrimary } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RunbookError } from '../../src/errors';
import type { ClusterEntry, Deployment } from '../../src/inventory';
import type { ActivityDependencies } from '../dependencies';
import { verifyBeginning, verifyOneOf } from '../approvals/authority';
import type { ClusterAccess, Clusters } from '../clusters';
import type { Execution } from '../execution';
import { describeReplication } from '../observe';
import type { BothKinds } from './onboarding-read';
import { kindName, readBothKinds, rolesText } from './onboarding-read';
import { readClusterId } from '../tokens/operation-token';
import { beforeSending, readActConfirm, withCredential } from '../read-act-confirm';
import { credentialFacts } from '../checks/switchover-facts';
import { check } from '../checks/switchover-rule';

/** The clusters among which at most one may be primary: the DR set of a cluster, or the whole deployment. */
function othersOfSet(deployment: Deployment, kind: ReplicationKind, cluster: string): readonly string[] {
  const members =
    kind === 'dr'
      ? (deployment.drSets.get(deployment.clusters.get(cluster)?.drSet ?? '') ?? [])
      : [...deployment.clusters.keys()];
  return members.filter((name) => name !== cluster);
}

/** What must hold for a cluster that is, or becomes, primary of a kind of replication. */
export function primaryRules(
  deployment: Deployment,
  kind: ReplicationKind,
  primary: ClusterObservation,
  observations: readonly ClusterObservation[],
): Precondition[] {
  const others = othersOfSet(deployment, kind, primary.cluster);
  const inSet = observations.filter((each) => others.includes(each.cluster));
  const primaries = inSet.filter((each) => each[kind]?.mode === 'primary').map((each) => each.cluster);
  const mode = primary[kind]?.mode;
  return [
    check(
      'one active node',
      primary.cluster,
      primary.reachable,
      primary.activeNode ?? primary.error ?? 'none',
      'the nodes agree on one active node',
      `Look at the nodes of ${primary.cluster}.`,
    ),
    check(
      'no DR secondary',
      primary.cluster,
      primary.dr !== undefined && primary.dr.mode !== 'secondary' && primary.dr.mode !== 'bootstrapping',
      rolesText(primary),
      'a cluster that is no DR secondary: that one has the roles of its primary and none of its own',
      `Name the DR primary of ${primary.cluster} instead.`,
    ),
    check(
      `${kindName(kind)} replication is disabled, or primary already`,
      primary.cluster,
      mode === 'disabled' || mode === 'primary',
      describeReplication(primary[kind]),
      'disabled or primary',
      `${primary.cluster} follows another primary: that one is the primary of the set.`,
    ),
    check(
      `no other ${kindName(kind)} primary`,
      undefined,
      primaries.length === 0,
      primaries.length === 0 ? 'none' : `${primaries.join(', ')} ${primaries.length === 1 ? 'is' : 'are'} primary`,
      'none beside it: two primaries of one set lose data',
      `Find out which one clients write to. A set has one primary.`,
    ),
    ...inSet
      .filter((each) => isSilent(each, kind))
      .map((each) =>
        check(
          'other clusters can be read',
          each.cluster,
          false,
          each.error ?? 'not readable',
          `whether ${each.cluster} is ${kindName(kind)} primary`,
          `Let ${each.cluster} be read again. One that is gone for good is taken out of the inventory.`,
          // Where this is primary already nothing is done that could make two of them.
          mode === 'primary' ? 'warn' : 'fail',
        ),
      ),
  ];
}

/** Whether what a cluster is for a kind of replication is not known: it may be primary. A DR secondary is none. */
function isSilent(seen: ClusterObservation, kind: ReplicationKind): boolean {
  if (!seen.reachable) return true;
  return (seen[kind]?.mode ?? 'unknown') === 'unknown' && seen.dr?.mode !== 'secondary';
}

/** Whether the worker's credential on a cluster may do what is needed there, by its own word. */
export async function mayCall(
  access: ClusterAccess,
  needed: Readonly<Record<string, readonly string[]>>,
  signal: AbortSignal,
): Promise<Precondition[]> {
  const paths = Object.keys(needed);
  const { name } = access.entry;
  const { usable, error, capabilities } = await credentialFacts(access, () => access.credential(), paths, signal);
  if (!usable) {
    return [
      check(
        'credential works',
        name,
        false,
        error ?? 'not usable',
        `a token that ${name} knows`,
        `Put a valid token where the inventory's credential of ${name} is read from.`,
      ),
    ];
  }
  return paths.map((path) => {
    const has = capabilities[path] ?? [];
    const wanted = needed[path] ?? [];
    return check(
      `credential may call ${path}`,
      name,
      has.includes('root') || wanted.every((right) => right.split('|').some((each) => has.includes(each))),
      has.join(', ') || 'none',
      wanted.map((right) => right.replace('|', ' or ')).join(' and '),
      `Give the policy of the workers' credential for ${name} these rights on ${path}.`,
    );
  });
}

/** What a plan may call it: on its own, or as a part of an onboarding. */
async function verifyEnabling(
  { inventory }: ActivityDependencies,
  { run }: Execution,
  { deployment, cluster, kind, authority }: EnablePrimary,
  clusterId: string,
): Promise<void> {
  const ways = [`${kind}.primary.enable`, `${kind}.primary.enable-for-secondary`] as const;
  await verifyOneOf(
    ways.map((operation) => () => {
      return verifyBeginning(inventory, run, deployment, authority, { operation, on: { cluster, clusterId } });
    }),
  );
}

/** Makes a cluster primary of one kind: approved, disabled for it before, no DR secondary, and every other cluster of its set says that it is none. */
export async function enablePrimaryOn(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  execution: Execution,
  input: EnablePrimary,
): Promise<ChangeResult> {
  const { deployment, cluster: name, kind } = input;
  const { signal } = execution;
  const access = clusters.of(deployment, name);
  const options = await withCredential(access, execution);
  const changed = await readActConfirm<BothKinds>(execution, {
    read: () => readBothKinds(access, signal),
    until: (seen) => seen.dr.mode !== 'secondary' && seen[kind].mode === 'primary' && seen[kind].state !== 'idle',
    budgetMs: clusters.deployment(deployment).limits.serviceReadyMs,
    describe: rolesText,
    needed: `${name} is ${kindName(kind)} primary, running`,
    cluster: name,
    allow: (seen) => {
      if (seen[kind].mode === 'disabled' && seen.dr.mode !== 'secondary') return;
      // It is primary and not yet running: enabling it again would be refused.
      if (seen[kind].mode === 'primary') throw notReady(name, kind, rolesText(seen), true);
      throw notReady(name, kind, rolesText(seen), false);
    },
    act: async () => {
      await beforeSending(async () =>
        verifyEnabling(dependencies, execution, input, await readClusterId(access, signal)),
      );
      for (const other of othersOfSet(clusters.deployment(deployment), kind, name))
        await beforeSending(() => refusePrimary(clusters.of(deployment, other), kind, signal));
      execution.throwIfCancelled();
      return access.client[kind].primary.enable({ primaryClusterAddr: primaryClusterAddrOf(access.entry) }, options);
    },
  });
  const { entry } = access;
  return {
    outcome: changed.outcome,
    observed: `${name}: ${kindName(kind)} ${describeReplication(changed.state[kind])}; secondaries are given ${advertised(entry)}`,
    calledAt: changed.calledAt,
    confirmedAt: Date.now(),
    calls: changed.calls,
  };
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
  const seen = await readBothKinds(access, signal).catch((error: unknown) => {
    if (signal.aborted || !(error instanceof RunbookError)) throw error;
    return error;
  });
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

function notReady(cluster: string, kind: ReplicationKind, observed: string, retryable: boolean): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', `${cluster} cannot be made ${kindName(kind)} primary.`, {
    cluster,
    observed,
    needed: `${kindName(kind)} replication disabled, and no DR secondary`,
    next: `Look at the status of ${cluster}.`,
    retryable,
  });
}
