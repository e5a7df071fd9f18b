import type { OnDeployment } from '../../src/contracts/activities';
import { deploymentWorkflowId } from '../../src/contracts/names';
import type { ReadinessPoint, ReadinessResult } from '../../src/contracts/readiness';
import { findDeployment } from '../../src/inventory';
import type { Inventory } from '../../src/inventory';
import { Clusters } from '../clusters';
import { siteFacts } from '../approvals/planning';
import { coolDown, openRun } from '../checks/runs';
import { within } from '../checks/within';
import { readWalSamples } from '../evidence/wal-samples';
import { currentExecution } from '../execution';
import type { ActivityContext } from '../execution';
import { batchTokenProofs } from '../tokens/batch-token-proof';
import { lastPrimaryChange } from '../roles/primary-changes';
import { advertisedChecks, auditChecks, autopilotChecks, clusterChecks, filterChecks } from './clusters';
import { credentialChecks } from './credentials';
import { planChecks } from './plans';
import { READING_MS, codeOf, concerning, readTopology, unread } from './reading';
import type { Judged, ServiceContext } from './reading';
import { peopleChecks, rehearsalChecks, runChecks, samplerChecks, scheduleChecks, workerChecks } from './site';
import { lastCheck, pointsOf, summarize, notifyChange } from './summary';

/**
 * Whether a switchover and a failover would start now. Reads the service, Temporal and the worker, compares the result
 * with the last check, and records it for the next one. What could not be read becomes a point that says so.
 */
export async function assessReadiness({ deployment: name }: OnDeployment) {
  const execution = currentExecution();
  const began = Date.now();
  const { clusters, signal } = execution;
  const deployment = findDeployment(execution.inventory, name);
  execution.progress(`reading ${deployment.clusters.size} clusters`);
  const held = within(signal, () => openRun(deploymentWorkflowId(name)), READING_MS);
  const runWorks = held.then(
    (run) => run !== undefined,
    () => false,
  );
  const [topology, sampled, earlier] = await Promise.all([
    readTopology(execution, deployment),
    within(signal, (limited) => readWalSamples(execution, name, limited), READING_MS).catch(() => ({
      samples: [],
      unattested: 0,
    })),
    // A check is complete on its own: if the last one cannot be read, there is nothing to compare with.
    recorded('the last readiness check cannot be read', () => lastCheck.get(execution.records, name)),
  ]);
  const access = (cluster: string) => clusters.of(name, cluster);
  const context: ServiceContext = {
    ...topology,
    execution,
    access,
    now: Date.now(),
    proofs: new Map(),
    expiries: new Map(),
  };
  execution.progress('reading credentials and filters');
  const checks = await allChecks(signal, {
    ...serviceGroups(execution.inventory, context),
    plans: () => planChecks(context, runWorks, true),
    'cool-down': async () => {
      const judged = coolDown(await lastPrimaryChange(execution, name), deployment.limits.coolDownMs, context.now);
      return concerning('switchover', [judged]);
    },
    'wal-sampler': () => samplerChecks(deployment, sampled, context.now),
    schedules: () => scheduleChecks(deployment),
    runs: () => runChecks(name, held),
    worker: () => workerChecks(deployment),
    rehearsals: () => rehearsalChecks(context),
  });
  const credentials = [...context.expiries].map(([cluster, at]) => ({
    cluster,
    expiresAt: new Date(at).toISOString(),
  }));
  const readiness = { ...summarize(topology, pointsOf(checks), earlier, context.now), credentials };
  await notifyChange(readiness, earlier);
  await keepReadiness(context, readiness, began);
  return {
    site: await siteFacts(name),
    observations: topology.clusters.map(({ observation }) => observation),
    readiness,
  };
}

/** The checks that need only the clusters, their credentials and the inventory. */
function serviceGroups(inventory: Inventory, context: ServiceContext): Groups {
  return {
    clusters: () => clusterChecks(context),
    'leader-addresses': () => advertisedChecks(context),
    people: () => peopleChecks(inventory, context),
    'audit-devices': () => auditChecks(context),
    autopilot: () => autopilotChecks(context),
    credentials: () => credentialChecks(context),
    'paths-filters': () => filterChecks(context),
  };
}

/**
 * The points of readiness that need neither Temporal nor a worker, as seen from this machine.
 *
 * @param signal cancels it; nothing is judged then.
 */
export async function assessService(
  inventory: Inventory,
  log: ActivityContext['log'],
  name: string,
  signal: AbortSignal,
): Promise<readonly ReadinessPoint[]> {
  const clusters = new Clusters({ inventory, log });
  try {
    const topology = await readTopology({ clusters, signal }, findDeployment(inventory, name));
    const access = (cluster: string) => clusters.of(name, cluster);
    const context: ServiceContext = {
      ...topology,
      execution: { signal },
      access,
      now: Date.now(),
      proofs: new Map(),
      expiries: new Map(),
    };
    const plans = { plans: () => planChecks(context, Promise.resolve(false), false) };
    return pointsOf(await allChecks(signal, { ...serviceGroups(inventory, context), ...plans }));
  } finally {
    await clusters.close();
    await Promise.all(clusters.all(name).map(({ client }) => client.close()));
  }
}

type Groups = Readonly<Record<string, () => readonly Judged[] | Promise<readonly Judged[]>>>;

/** Runs all checks at once; a group that throws becomes a check that says so. */
async function allChecks(signal: AbortSignal, groups: Groups): Promise<readonly Judged[]> {
  const checks = Object.entries(groups).map(async ([name, group]) => {
    try {
      return await group();
    } catch (error) {
      if (signal.aborted) throw error;
      return [unread({ name, needed: 'judged' }, codeOf(error))];
    }
  });
  return (await Promise.all(checks)).flat();
}

/**
 * Records a check for the next one. If that fails, the next one has less to compare, and this one is unaffected. A batch
 * token that its rotation proved after this check began is not the one that was looked up here: its proof stays.
 */
async function keepReadiness({ proofs }: ServiceContext, result: ReadinessResult, began: number): Promise<void> {
  await recorded('this readiness check cannot be recorded', () => {
    const { put } = lastCheck.changes([['', result]]);
    return currentExecution().records.change(result.deployment, (values) => {
      const isNewer = (cluster: string) => Date.parse(batchTokenProofs.from(values, cluster)?.at ?? '') > began;
      const proven = batchTokenProofs.changes([...proofs].filter(([cluster]) => !isNewer(cluster)));
      return { ...proven, put: { ...put, ...proven.put } };
    });
  });
}

/** Reads or writes the record; a failure is logged, and does not affect the check. */
async function recorded<T>(failure: string, act: () => Promise<T>): Promise<T | undefined> {
  const { log, signal } = currentExecution();
  try {
    return await within(signal, act, READING_MS);
  } catch (error) {
    if (signal.aborted) throw error;
    log.warn({ code: codeOf(error) }, failure);
    return undefined;
  }
}
