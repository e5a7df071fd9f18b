import { mkdir } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, WorkflowNotFoundError } from '@temporalio/client';
import { NativeConnection, Runtime, Worker } from '@temporalio/worker';
import type { WorkflowBundleOption } from '@temporalio/worker';
import type { ActivityDependencies } from '../../activities';
import {
  Clusters,
  Records,
  activities,
  interceptActivities,
  sweepLedger,
  notifyOverdueReadiness,
  watchSampler,
  TIMING,
  raiseRecordAlarm,
} from '../../activities';
import type { Log } from '../contracts/log';
import { ceremonyWorkflowId, deploymentWorkflowId, keyTaskQueue } from '../contracts/names';
import { InventoryInForce, inventoryDigest, readSigningKey } from '../inventory';
import type { Inventory } from '../inventory';
import { directoryOfNamespace, KeyRecords, missingSealKeys, prepareKeyDirectory, SealKeyring } from '../keys';
import { DATA_CONVERTER } from './data-converter';
import { connectionSettings } from './connection';
import { workerIdentity, workerSettings } from './settings';
import { createLogger } from './logging';
import { installLogger } from './sdk-logging';
import { measureActivities } from './measure-activities';
import type { WorkerSettings } from './settings';
import { temporalError } from './temporal-away';
import { replayOpenRuns, workflowCode, WORKFLOW_TURN_LIMIT } from './workflow-code';
import type { WorkflowCode } from './workflow-code';

/** Options of a worker; an embedding program can set them instead of environment variables. */
export interface WorkerOptions {
  /** Default: the environment of this process. */
  readonly env?: NodeJS.ProcessEnv;
  /** Replaces the settings from the environment. */
  readonly settings?: WorkerSettings;
  /** Default: the inventory file in the settings, read again when it changes. */
  readonly inventory?: Inventory;
  /** Default: a connection according to the profile file and `TEMPORAL_*`. A connection that is passed in stays open. */
  readonly connection?: NativeConnection;
  readonly namespace?: string;
  /** The bundled workflows. Default: the bundle of the build, or else the sources. */
  readonly bundle?: WorkflowBundleOption;
  /** Default: redacted JSON lines on standard error; the SDK uses the same log. */
  readonly log?: Log;
  /** Whether to replay all open runs before the first poll. Default: true. */
  readonly replay?: boolean;
  /** For tests: shorter durations of fixed waits. */
  readonly timing?: ActivityDependencies['timing'];
  /** Start even if a run that holds a lock does not replay. Default: false. */
  readonly ignoreReplayFailures?: boolean | undefined;
}

/** A worker that is ready to poll. */
export interface RunningWorker {
  /** Polls until {@link shutdown} or a failure, then closes everything that the worker opened. Call it once. */
  run(): Promise<void>;
  /** Waits up to 30 s for running activities to end, then ends {@link run}. */
  shutdown(): void;
  readonly taskQueue: string;
  /** Identifier of the key directory; part of the name of the second task queue. */
  readonly keyHome: string;
}

const SWEEP_INTERVAL_MS = 3 * 60_000;
/** How often the inventory file is checked for changes. */
const INVENTORY_POLL_MS = 2_000;
/** Cached runs; each uses some MiB. The SDK's own default grows with the heap, and workers have run out of memory. */
const MAX_CACHED_WORKFLOWS = 100;
/** How long a run waits for the worker that has it in its cache; that worker may have been killed during an outage. */
const STICKY_TIMEOUT = '2s';
/** Short, so that heartbeats reach the server almost at once: a missing one reveals a lost worker during an outage. */
const HEARTBEAT_THROTTLE = '500ms';
const SHUTDOWN_GRACE = '30s';
const SHUTDOWN_FORCE = '40s';

/**
 * Prepares a worker: reads settings, inventory, and keys, connects to Temporal, and checks that all open runs replay
 * with this version. The worker serves the main task queue and the queue of its key directory. It does not poll before
 * `run`.
 *
 * A core dump of this process would contain ceremony keys: disable core dumps on the host (`ulimit -c 0`).
 *
 * @throws RunbookError that names the wrong setting, the wrong lines of the inventory, or the open run that does not
 *   replay.
 */
export async function startWorker(options: WorkerOptions = {}): Promise<RunningWorker> {
  const env = options.env ?? process.env;
  const settings = options.settings ?? workerSettings(env);
  if (options.log !== undefined) return prepare(options, { env, settings, log: options.log });
  const log = createLogger(settings.logLevel);
  installLogger(log, settings.metricsAddress);
  try {
    return await prepare(options, { env, settings, log });
  } catch (error) {
    // Otherwise the SDK's runtime keeps the process alive until its last client or worker is closed, and there is none.
    await Runtime.instance().shutdown();
    throw error;
  }
}

async function prepare(
  options: WorkerOptions,
  { env, settings, log }: Required<Pick<WorkerOptions, 'env' | 'settings' | 'log'>>,
): Promise<RunningWorker> {
  const inForce = options.inventory
    ? InventoryInForce.fixed(options.inventory)
    : await InventoryInForce.open(settings.inventoryPath);
  const inventory = inForce.current;
  const sealKeyring = SealKeyring.parse(settings.sealKeys.reveal());
  const signingKey = await readSigningKey(inventory.workers.signingKey);
  const { reportDirectory, taskQueue, keyStorage: storage } = settings;
  const keyDirectory = await prepareKeyDirectory({ directory: settings.keyDirectory, storage });
  if (reportDirectory !== undefined) await mkdir(reportDirectory, { recursive: true });

  const given = options.connection;
  const opened = given === undefined ? await connect(env) : { connection: given, way: undefined };
  const { connection } = opened;
  const namespace = options.namespace ?? opened.way?.namespace ?? 'default';
  const close = async (): Promise<void> => (given === undefined ? connection.close() : undefined);
  try {
    const temporal = new Client({ connection, namespace, dataConverter: DATA_CONVERTER });
    const { namespaceInfo } = await temporal.workflowService.describeNamespace({ namespace });
    const directory = directoryOfNamespace(keyDirectory, namespaceInfo?.id ?? '');
    const keyRecords = await KeyRecords.open({ directory, storage });
    const code = workflowCode(options.bundle);
    const rules = {
      locks: locksOf(inventory),
      ignoreFailures: options.ignoreReplayFailures ?? false,
      log,
      look: warnOfSealKeys(sealKeyring, log),
    };
    const openRuns = options.replay === false ? 0 : await replayOpenRuns(temporal, taskQueue, code, rules);
    const dependencies: ActivityDependencies = {
      get inventory() {
        return inForce.current;
      },
      get inventoryRefusal() {
        return inForce.refusal?.message;
      },
      ...{ keyRecords, sealKeyring, signingKey, temporal, reportDirectory, log, timing: options.timing },
      records: new Records({
        ...{ temporal, namespace, taskQueue, keyring: sealKeyring },
        alarm: (deployment, finding, id) => raiseRecordAlarm(dependencies, namespace, deployment, finding, id),
      }),
    };
    const clusters = new Clusters(dependencies);
    const workers = await createWorkers(dependencies, clusters, { connection, namespace }, code, taskQueue);
    await sweepKeys(dependencies, namespace);
    const { keyHome } = keyRecords;
    log.info({ taskQueue, namespace, keyHome, openRuns }, 'Worker ready; open runs were replayed');
    let stopping = false;
    return {
      taskQueue,
      keyHome,
      shutdown: () => {
        stopping = true;
        workers.forEach(shutDown);
      },
      run: async () => {
        const running = runTogether(workers);
        const stopSweeping = startSweeping(dependencies, namespace);
        const reload = () => void reloadInventory(inForce, dependencies, namespace);
        const reloading = setInterval(reload, INVENTORY_POLL_MS).unref();
        try {
          // `shutdown` was called before `run`: a worker must run once to release its connection.
          if (stopping) workers.forEach(shutDown);
          await running;
        } finally {
          clearInterval(reloading);
          await stopSweeping();
          await clusters.close();
          await close();
        }
      },
    };
  } catch (error) {
    await close();
    throw opened.way === undefined ? error : await temporalError(error, opened.way);
  }
}

const CONNECT_TIMEOUT_MS = 5_000;

async function connect(env: NodeJS.ProcessEnv) {
  const { connectionOptions, way } = connectionSettings(env);
  const connecting = NativeConnection.connect(connectionOptions);
  const late = new AbortController();
  try {
    // The attempt itself has no limit: a server that accepts a connection and never answers would hold it forever.
    const none = delay(CONNECT_TIMEOUT_MS, undefined, { signal: late.signal });
    const connection = await Promise.race([connecting, none]);
    if (connection !== undefined) return { connection, way };
    void connecting.then(
      (opened) => opened.close(),
      () => undefined,
    );
    throw new Error(`no connection within ${CONNECT_TIMEOUT_MS / 1_000} s`);
  } catch (cause) {
    throw await temporalError(cause, way, { connecting: true });
  } finally {
    late.abort();
  }
}

/** One process serves two task queues: the main queue of all workers and the queue of its own key directory. */
async function createWorkers(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  server: { readonly connection: NativeConnection; readonly namespace: string },
  code: WorkflowCode,
  taskQueue: string,
): Promise<readonly Worker[]> {
  const interceptors = { activity: [measureActivities, interceptActivities(dependencies, clusters)] };
  const common = {
    ...server,
    identity: workerIdentity(),
    dataConverter: DATA_CONVERTER,
    activities,
    maxHeartbeatThrottleInterval: HEARTBEAT_THROTTLE,
    shutdownGraceTime: SHUTDOWN_GRACE,
    shutdownForceTime: SHUTDOWN_FORCE,
  } as const;
  const main = await Worker.create({
    ...common,
    ...code,
    interceptors: { ...code.interceptors, ...interceptors },
    taskQueue,
    maxCachedWorkflows: MAX_CACHED_WORKFLOWS,
    stickyQueueScheduleToStartTimeout: STICKY_TIMEOUT,
    ...WORKFLOW_TURN_LIMIT,
  });
  const keys = keyTaskQueue(dependencies.keyRecords.keyHome);
  return [main, await Worker.create({ ...common, interceptors, taskQueue: keys })];
}

/** Runs all workers. When one ends, by failure or shutdown, the others are shut down too. */
async function runTogether(workers: readonly Worker[]): Promise<void> {
  const runs = workers.map((worker) => worker.run().finally(() => workers.forEach(shutDown)));
  const results = await Promise.allSettled(runs);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}

function shutDown(worker: Worker): void {
  if (worker.getState() === 'RUNNING') worker.shutdown();
}

/**
 * Sweeps the tokens in the records once now, when this worker polls: no other worker may be running. After that, sweeps
 * ceremony keys and tokens every {@link SWEEP_INTERVAL_MS}, and looks after `walSampler`. Returns a function that stops the sweeps.
 */
function startSweeping(dependencies: ActivityDependencies, namespace: string): () => Promise<unknown> {
  const { log } = dependencies;
  const sweepRecords = async (): Promise<void> => {
    for (const deployment of dependencies.inventory.deployments.keys())
      await sweepLedger(dependencies, deployment)
        .then(() => notifyOverdueReadiness(dependencies, namespace, deployment))
        .catch((error: unknown) => log.warn({ error }, 'Sweeping the records failed; the next sweep tries again'));
  };
  // Separate sweeps: clusters that do not answer must not delay the destruction of keys.
  const keys = againAndAgain(() => sweepKeys(dependencies, namespace));
  const records = againAndAgain(sweepRecords);
  const upSince = Date.now();
  const watchSamplers = async (): Promise<void> => {
    for (const deployment of dependencies.inventory.deployments.keys())
      await watchSampler(dependencies, namespace, deployment, upSince).catch((error: unknown) =>
        log.warn({ deployment, error }, 'unknown whether walSampler records samples'),
      );
  };
  const samplers = againAndAgain(watchSamplers, (dependencies.timing ?? TIMING).samplerWatchMs);
  records.begin();
  return () => Promise.all([keys.stop(), records.stop(), samplers.stop()]);
}

/** Repeats a sweep, but never runs two at the same time: the second would only repeat the work. */
export function againAndAgain(sweep: () => Promise<void>, intervalMs = SWEEP_INTERVAL_MS) {
  let underWay: Promise<void> | undefined;
  const begin = () => {
    underWay ??= sweep().finally(() => {
      underWay = undefined;
    });
  };
  const timer = setInterval(begin, intervalMs).unref();
  const stop = async () => {
    clearInterval(timer);
    await underWay;
  };
  return { begin, stop };
}

/** Puts a changed inventory into force. If the file is refused, reports that; the previous inventory then stays in force. */
export async function reloadInventory(
  inForce: InventoryInForce,
  dependencies: Pick<ActivityDependencies, 'inventory' | 'log'>,
  namespace: string,
): Promise<void> {
  const became = await inForce.look();
  if (became === undefined) return;
  const { inventory, log } = dependencies;
  const deployments = [...inventory.deployments.keys()];
  if (became === 'taken') {
    const digests = deployments.map((name) => `${name} ${inventoryDigest(inventory, name)}`).join(', ');
    return log.info({ digests }, 'The inventory file has changed: the new inventory is in force now');
  }
  const text = `The inventory file has changed and is refused; the previous inventory stays in force. ${inForce.refusal?.message ?? ''}`;
  const next = 'Correct the file with `runbook inventory check`. The workers read it again within seconds.';
  const finding = { severity: 'warning', code: 'inventory-refused', text, next } as const;
  for (const deployment of deployments) raiseRecordAlarm(dependencies, namespace, deployment, finding);
}

const DESCRIBE_DEADLINE_MS = 5_000;

/** Destroys ceremony keys that have expired or belong to ended runs. A failure is logged; the next sweep tries again. */
export async function sweepKeys(
  { keyRecords, temporal, log }: Pick<ActivityDependencies, 'keyRecords' | 'temporal' | 'log'>,
  namespace: string,
): Promise<void> {
  const isClosed = async (wid: string, rid: string, ns: string): Promise<boolean> => {
    // This worker cannot see runs in other namespaces.
    if (ns !== namespace) return false;
    try {
      const handle = temporal.workflow.getHandle(wid, rid);
      const { status } = await temporal.withDeadline(Date.now() + DESCRIBE_DEADLINE_MS, () => handle.describe());
      return status.name !== 'RUNNING';
    } catch (error) {
      // A run that the server no longer knows has ended too. If the server does not answer, the keys expire later.
      if (error instanceof WorkflowNotFoundError) return true;
      throw error;
    }
  };
  try {
    const destroyed = await keyRecords.sweep(Date.now(), isClosed);
    for (const { cid, epoch, why } of destroyed) log.info({ cid, epoch, state: why }, 'Ceremony keys destroyed');
  } catch (error) {
    log.warn({ error }, 'Sweeping the ceremony keys failed; the next sweep tries again');
  }
}

/** The Workflow IDs that runbooks of this inventory use as locks. */
function locksOf({ deployments }: Inventory): ReadonlySet<string> {
  return new Set(
    [...deployments.values()].flatMap(({ name, clusters }) => [
      deploymentWorkflowId(name),
      ...[...clusters.keys()].map(ceremonyWorkflowId),
    ]),
  );
}

/** Reports a seal key that was removed too early, before the run parks at the step that needs the key. */
function warnOfSealKeys(keyring: SealKeyring, log: Log) {
  return ({ workflowId, history }: { readonly workflowId: string; readonly history: unknown }): void => {
    for (const kid of missingSealKeys(keyring, history)) {
      const text = `An open run has values sealed with key ${kid}, which RUNBOOKS_SEAL_KEYS_FILE does not contain: add that entry again, after the first entry, and restart the worker`;
      log.error({ workflowId, code: 'SEAL_KEY_MISSING' }, text);
    }
  };
}
