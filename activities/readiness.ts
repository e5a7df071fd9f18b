import { deploymentWorkflowId } from '../src/contracts/names';
import type { ReadinessActivities } from '../src/contracts/activities';
import type { ReadinessPoint } from '../src/contracts/readiness';
import { findDeployment } from '../src/inventory';
import { attest } from '../src/secrets';
import type { ActivityDependencies } from './dependencies';
import { sealKeys } from './readiness/keys';
import { certificates } from './readiness/certificates';
import { credentials } from './readiness/credentials';
import { lastReadiness } from './readiness/earlier';
import { pathsFilters } from './readiness/filters';
import type { Look } from './readiness/look';
import { inspect, within } from './readiness/look';
import { judgeNodes } from './readiness/nodes';
import { judgePeople } from './readiness/people';
import { rehearsals } from './readiness/rehearsals';
import { judgeReplication } from './readiness/replication';
import { judgeRoles } from './readiness/roles';
import { summarise } from './readiness/summary';
import {
  ceremonyRuns,
  judgeAttested,
  judgeClocks,
  judgeIndependence,
  judgeSampler,
  keyStorage,
  ledger,
  lock,
  openRun,
  placeOf,
} from './readiness/site';
import { tokenSources } from './readiness/token-source';
import { upkeep } from './readiness/upkeep';
import { judgeVersions } from './readiness/versions';
import { readWorld } from './readiness/world';
import type { Clusters } from './support/clusters';
import { execute } from './support/execution';
import { siteFacts } from './support/approvals/planning';
import { readWalSamples } from './support/failover/wal-samples';

/** Whether a switchover and a failover would start now. Only reads: of the service, of Temporal, of the worker. */
export function createReadinessActivities(dependencies: ActivityDependencies, clusters: Clusters): ReadinessActivities {
  return {
    assessReadiness: execute(async ({ deployment: name }, execution) => {
      const { signal } = execution;
      const deployment = findDeployment(dependencies.inventory, name);
      const look: Look = { dependencies, clusters, signal, now: Date.now() };
      execution.progress(`reading ${deployment.clusters.size} clusters`);
      const held = within(look, () => openRun(look, deploymentWorkflowId(name)));
      const runWorks = held.then(
        (run) => run !== undefined,
        () => false,
      );
      const [world, sampled, before] = await Promise.all([
        readWorld(look, deployment),
        within(look, (within) => readWalSamples(dependencies, name, within)).catch(() => ({
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
        judgedFrom('people', () => judgePeople(dependencies.inventory, world, look.now)),
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
        judgedFrom('attested-results', () => judgeAttested('results', sampled.unattested + before.unattested)),
      ]);
      const readiness = summarise(world, points.flat(), before.earlier, look.now);
      const facts = { deployment: name, kind: 'readiness', time: look.now } as const;
      return {
        site: siteFacts(dependencies, name),
        observations: world.clusters.map(({ observation }) => observation),
        readiness: { ...readiness, attested: attest(dependencies.sealKeyring, facts, readiness) },
      };
    }),
  };
}
