import type { OnDeployment, SiteFacts } from '../../src/contracts/activities';
import { deploymentWorkflowId } from '../../src/contracts/names';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { ReadinessResult, ReadinessPoint } from '../../src/contracts/readiness';
import { findDeployment } from '../../src/inventory';
import { siteFacts } from '../approvals/planning';
import { openRun } from '../checks/runs';
import { readWalSamples } from '../evidence/wal-sample-series';
import { currentExecution } from '../execution';
import { certificates } from './certificates';
import { credentials } from './credentials';
import { keepReadiness, lastReadiness } from './earlier';
import { pathsFilters } from './filters';
import { sealKeys } from './keys';
import { inspect, within } from './look';
import type { Look } from './look';
import { judgeNodes } from './nodes';
import { judgePeople } from './people';
import { rehearsals } from './rehearsals';
import { judgeReplication } from './replication';
import { judgeRoles } from './roles';
import {
  ceremonyRuns,
  judgeAttested,
  judgeClocks,
  judgeIndependence,
  judgeSampler,
  keyStorage,
  ledger,
  lock,
  placeOf,
} from './site';
import { summarise } from './summary';
import { tokenSources } from './token-source';
import { upkeep } from './upkeep';
import { judgeVersions } from './versions';
import { readWorld } from './world';

/** What one check of a deployment gave. */
export interface ReadinessAssessment {
  readonly site: SiteFacts;
  readonly observations: readonly ClusterObservation[];
  readonly readiness: ReadinessResult;
}

/**
 * Whether a switchover and a failover would start now: reads of the service, of Temporal, of the worker, judged and compared
 * with the last check. What could not be read is a point that says so.
 */
export async function assessReadiness({ deployment: name }: OnDeployment): Promise<ReadinessAssessment> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const deployment = findDeployment(execution.inventory, name);
  const look: Look = { dependencies: execution, clusters, signal, now: Date.now() };
  execution.progress(`reading ${deployment.clusters.size} clusters`);
  const held = within(look, () => openRun(execution, deploymentWorkflowId(name)));
  const runWorks = held.then(
    (run) => run !== undefined,
    () => false,
  );
  const [world, sampled, before] = await Promise.all([
    readWorld(look, deployment),
    within(look, (within) => readWalSamples(execution, name, within)).catch(() => ({
      samples: [],
      unattested: 0,
    })),
    lastReadiness(look, name),
  ]);

  const { samples } = sampled;
  execution.progress('reading credentials, certificates, filters');
  const judgedFrom = (id: string, judge: () => readonly ReadinessPoint[]) =>
    inspect(look, [{ id, source: 'worker', needed: 'judged' }], () => Promise.resolve(), judge);
  const points = await Promise.all([
    judgedFrom('nodes', () => judgeNodes(world)),
    judgedFrom('roles', () => judgeRoles(world)),
    judgedFrom('replication', () => judgeReplication(world, samples)),
    judgedFrom('versions', () => judgeVersions(world)),
    judgedFrom('clocks', () => judgeClocks(world)),
    judgedFrom('people', () => judgePeople(execution.inventory, world, look.now)),
    judgedFrom('wal-sampler', () => judgeSampler(deployment, samples, look.now)),
    judgedFrom('independent', () => judgeIndependence(deployment, placeOf(look))),
    certificates(look, world),
    upkeep(look, world),
    credentials(look, world),
    tokenSources(look, world, runWorks),
    pathsFilters(look, world),
    lock(look, deployment, held),
    ceremonyRuns(look, world, deployment.name),
    ledger(look, deployment, held),
    keyStorage(look, deployment),
    sealKeys(look, deployment, held, deploymentWorkflowId(name)),
    rehearsals(look, deployment),
    judgedFrom('attested-results', () => judgeAttested(sampled.unattested)),
  ]);
  const readiness = summarise(world, points.flat(), before, look.now);
  await keepReadiness(look, execution.run.rid, readiness);
  return {
    site: await siteFacts(execution, name),
    observations: world.clusters.map(({ observation }) => observation),
    readiness,
  };
}
