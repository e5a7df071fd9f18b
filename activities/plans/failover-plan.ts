import type { FailoverLoss, FailoverRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { AllowedOperation, PlanDocument } from '../../src/contracts/plan';
import type { DrFailoverInput } from '../../src/contracts/runbook-inputs';
import type { ClusterEntry } from '../../src/inventory';
import type { FailoverSides } from '../checks/failover-sides';
import { identityOf, planDocument } from '../approvals/planning';

/**
 * How plans and activities name the primary that is gone: it cannot be asked for its cluster ID. The inventory's pin
 * where there is one, else what it was, by the ID of the DR set that its secondary tells.
 */
export function identityOfLost({ name, clusterId }: ClusterEntry, setId: string | undefined): AllowedOperation['on'] {
  return { cluster: name, clusterId: clusterId ?? (setId === undefined ? '' : `primary of DR set ${setId}`) };
}

/**
 * How plans and activities name another member of the DR set, which may not answer while people are asked: the
 * inventory's pin where there is one, else by the ID of the set that it tells once it does.
 */
export function identityOfMember({ name, clusterId }: ClusterEntry, setId: string | undefined): AllowedOperation['on'] {
  return { cluster: name, clusterId: clusterId ?? (setId === undefined ? '' : `member of DR set ${setId}`) };
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

/** The plan of a failover. What changes by itself, such as who of the others answers now, is not in it. */
export function failoverPlan(
  input: DrFailoverInput,
  { from, to, others, silent, performanceSecondaries }: FailoverSides,
  entryOf: (cluster: string) => ClusterEntry,
  route: Pick<FailoverRoute, 'tokenSource' | 'fencing' | 'hooks' | 'loss'> & { readonly warnings?: readonly string[] },
): PlanDocument {
  const pair = { on: identityOf(to), with: identityOfLost(entryOf(from.cluster), to.dr?.setId) };
  const gone: ClusterObservation = {
    cluster: from.cluster,
    clusterId: pair.with.clusterId,
    at: 0,
    reachable: false,
    nodes: [],
  };
  const members = [...others, ...silent].map(({ cluster }) => cluster).sort();
  const followers = performanceSecondaries.map(({ cluster }) => cluster).sort();
  const hook = route.fencing === 'hook';
  const alsoGone = [...new Set(input.alsoGone ?? [])].sort();
  const follow = members.map((cluster) => ({
    operation: 'dr.secondary.repoint-after-promotion' as const,
    on: identityOfMember(entryOf(cluster), to.dr?.setId),
    with: pair.on,
  }));
  const followToo = performanceSecondaries
    .toSorted((a, b) => a.cluster.localeCompare(b.cluster))
    .map((each) => ({
      operation: 'performance.secondary.repoint-after-promotion' as const,
      on: identityOf(each),
      with: pair.on,
    }));
  return planDocument({
    runbook: 'drFailover',
    input,
    clusters: [to, gone],
    operations: [
      ...(hook ? [{ operation: 'hook.fence' as const, on: pair.with, with: pair.on }] : []),
      { operation: 'dr.secondary.promote', ...pair },
      ...(input.offerForce ? [{ operation: 'dr.secondary.promote-force' as const, ...pair }] : []),
      ...follow,
      ...followToo,
    ],
    warnings: [
      ...(route.warnings ?? []),
      `${hook ? `The fence hook cuts ${from.cluster} off. Whoever approves attests` : `Nothing here fences ${from.cluster}. Whoever approves attests that it is fenced:`} that its clients, its own egress and its cluster port are cut off, and that it serves nobody.`,
      ...alsoGone.map(
        (cluster) =>
          `${cluster} says nothing and could be the primary too; nothing here fences it. Whoever approves attests that ${cluster} is fenced as well, and serves nobody.`,
      ),
      lossWarning(from.cluster, to.cluster, route.loss),
      `${from.cluster} believes that it is primary when it comes back: keep it fenced until drRejoin has demoted it. It may revoke or rotate what was renewed meanwhile.`,
      ...(followers.length > 0
        ? [`${to.cluster} takes over the performance role too: ${followers.join(', ')} must follow it.`]
        : []),
      ...(input.offerForce
        ? [
            `Where ${to.cluster} refuses because it knows to lack writes, a forced promotion can be asked for at gate force; it needs approvals of its own.`,
          ]
        : []),
    ],
    steps: [
      ...(route.tokenSource === 'ceremony'
        ? [`Generate an operation token on ${to.cluster} from the holders' key shares`]
        : []),
      ...(hook ? [`Fence ${from.cluster}`] : []),
      `Promote ${to.cluster}; where it refuses beyond its budget, park`,
      `Wait until ${to.cluster} serves reads and writes${route.hooks.traffic ? ', lead the clients there' : ''} (OUTAGE ends)`,
      ...members.map((cluster) => `Point ${cluster} at ${to.cluster}, where it answers`),
      ...followers.map(
        (cluster) =>
          `See that performance secondary ${cluster} follows ${to.cluster}, else re-point it with its paths filter`,
      ),
      ...(route.tokenSource !== 'batch' ? ['Delete the operation tokens and destroy the ceremony keys'] : []),
    ],
    choices: {
      fencing: route.fencing,
      tokenSource: route.tokenSource,
      offerForce: input.offerForce,
      loss: route.loss.loss,
      ...(alsoGone.length > 0 ? { alsoGone: alsoGone.join(', ') } : {}),
    },
  });
}
