import type { ClusterObservation } from '../../src/contracts/observations';
import { drSetOf } from '../../src/inventory';
import { observeDeployment } from '../approvals/planning';
import { brokenPrimaries } from '../checks/signs';
import { currentExecution } from '../execution';
import { describeReplication } from '../observe';
import { awaitState, seenInTime } from '../read-act-confirm';

/** A member of the DR set of the cluster that was lost. */
interface OfLostPrimary {
  readonly deployment: string;
  readonly from: string;
}

/** Shorter than the time limit of the activity: the run orders the next look itself, ms. */
const LOOK_MS = 5 * 3_600_000;

/**
 * While a failover waits for people: looks at the set until a member is a primary that serves, which may also be another
 * cluster than the lost one.
 *
 * @throws RunbookError CONFIRMATION_TIMEOUT if there was none for hours
 */
export async function awaitPrimaryBack(input: OfLostPrimary) {
  const execution = currentExecution();
  const found = await awaitState(execution, {
    read: () => servingPrimary(input),
    until: ({ primary }) => primary !== undefined,
    budgetMs: LOOK_MS,
    describe: () => 'none',
    needed: 'a DR primary that serves',
    cluster: input.from,
    pollMs: execution.timing.watchMs,
  });
  return { cluster: found.primary?.cluster ?? input.from, backAt: found.at, observed: found.observed };
}

/** Whether the set keeps a primary that serves for a minute. */
export async function awaitPrimaryStays(input: OfLostPrimary) {
  const execution = currentExecution();
  const { steadyMs, watchMs } = execution.timing;
  const gone = await seenInTime(execution, {
    read: () => servingPrimary(input),
    until: ({ primary }) => primary === undefined,
    budgetMs: steadyMs,
    describe: ({ observed }) => observed,
    needed: 'no DR primary',
    cluster: input.from,
    pollMs: watchMs,
  });
  return 'late' in gone ? { stays: true, observed: gone.late } : { stays: false, observed: gone.observed };
}

/** A primary whose calls fail serves nobody: it ends no outage. */
async function servingPrimary({ deployment: name, from }: OfLostPrimary) {
  const { clusters, signal } = currentExecution();
  const { members } = drSetOf(clusters.deployment(name), from);
  const isPrimary = ({ cluster, dr }: ClusterObservation) => members.includes(cluster) && dr?.mode === 'primary';
  const primaries = (await observeDeployment(name)).filter(isPrimary);
  const at = Date.now();
  const access = (cluster: string) => clusters.of(name, cluster);
  const broken = await brokenPrimaries({ observations: primaries, access }, signal);
  const primary = primaries.find(({ cluster }) => broken.every((each) => each.cluster !== cluster));
  const observed = primary ? `${primary.cluster}: ${describeReplication(primary.dr)}` : 'no DR primary that serves';
  return { primary, at, observed };
}
