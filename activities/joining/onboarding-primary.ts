import type { Authority, ChangeResult, OfKind, OnCluster } from '../../src/contracts/activities';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RunbookError } from '../../src/errors';
import type { ClusterEntry, Deployment } from '../../src/inventory';
import { verifyBeginning, verifyOneOf } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { describeReplication } from '../observe';
import type { BothKinds } from './onboarding-read';
import { kindName, readBothKinds, rolesText } from './onboarding-read';
import { readClusterId } from '../tokens/operation-token';
import { beforeSending, readActConfirm, resultOf, withCredential } from '../read-act-confirm';

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
      // It is primary and not yet running: enabling it again would be refused.
      if (seen[kind].mode === 'primary') throw notReady(name, kind, rolesText(seen), true);
      throw notReady(name, kind, rolesText(seen), false);
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
