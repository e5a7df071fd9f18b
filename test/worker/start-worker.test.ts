import { mkdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { bundleWorkflowCode, NativeConnection, Worker } from '@temporalio/worker';
import type { WorkflowBundle } from '@temporalio/worker';
import pino from 'pino';
import { createCeremonyKeys, KeyRecords, newSealKey, newSigningKey } from '../../src/keys';
import type { NewKeyRecord } from '../../src/keys/key-records';
import { deploymentWorkflowId } from '../../src/contracts/names';
import { freePorts } from '../../src/dev-server/child-process';
import { projectRoot } from '../../src/dev-server/locations';
import { obtainTemporalServer } from '../../src/dev-server/start-dev-server';
import { InventoryInForce, parseInventory } from '../../src/inventory';
import type { WorkerSettings } from '../../src/worker/settings';
import { againAndAgain, reloadInventory, startWorker, sweepKeys } from '../../src/worker/start-worker';
import type { RunningWorker, WorkerOptions } from '../../src/worker/start-worker';
import { until } from '../support/by-hand';
import { keyHomes, temporaryDirectory } from '../support/directory';
import { Program } from '../support/program';
import { quietRuntime, workflowBundle } from '../support/workflow-bundle';
import { temporalClient, temporalNativeConnection, temporalServer, uniqueTaskQueue } from '../support/temporal-server';

quietRuntime();

const log = pino({ level: 'silent' });
const directory = temporaryDirectory('worker');
const signingKeyFile = join(directory, 'workers.key');
/** The temporary directory may be memory. */
const cache = join(projectRoot(), 'node_modules', '.cache');
mkdirSync(cache, { recursive: true });
const onDisk = temporaryDirectory('worker', cache);
beforeAll(() => writeFile(signingKeyFile, newSigningKey().jwk.reveal(), { mode: 0o600 }));

function settings(taskQueue: string): WorkerSettings {
  return {
    inventoryPath: '',
    sealKeys: newSealKey(),
    keyDirectory: join(directory, 'keys'),
    keyStorage: 'disk',
    reportDirectory: join(directory, 'reports'),
    taskQueue,
    logLevel: 'silent',
  };
}

/** One cluster that nobody answers for: these tests never get as far as calling it. */
function inventoryText(deployment = 'payments'): string {
  return JSON.stringify({
    version: 1,
    workers: { signingKey: { file: signingKeyFile } },
    people: { ada: { attestation: 'claimed', groups: ['approvers'] } },
    deployments: {
      [deployment]: {
        laboratory: true,
        clusters: {
          east: {
            addresses: ['http://127.0.0.1:1'],
            advertisedClusterAddress: 'node-address',
            credential: { env: 'NONE' },
          },
        },
        drSets: { main: ['east'] },
        ceremony: { holders: ['ada'] },
        gates: {
          plan: { approvals: 1, groups: ['approvers'], excludeRequester: false, validFor: '1h' },
          go: { approvals: 1, groups: ['approvers'], excludeRequester: false, validFor: '1h' },
        },
      },
    },
  });
}

async function start(taskQueue: string, deployment?: string, options: WorkerOptions = {}): Promise<RunningWorker> {
  return startWorker({
    settings: settings(taskQueue),
    inventory: parseInventory(inventoryText(deployment), 'inventory'),
    connection: await temporalNativeConnection(),
    namespace: temporalServer().namespace,
    bundle: await workflowBundle(),
    log,
    ...options,
  });
}

/**
 * Some promises of Node 24's cryptography have no constructor. The SDK's hook on promises throws at them, which ends the
 * process: the replay of open runs must not leave it in the thread where ceremonies are opened.
 */
function settlePromiseLikeNode24(): void {
  let settle = (): void => undefined;
  const promise = new Promise<void>((resolve) => (settle = resolve));
  void Object.defineProperty(promise, 'constructor', { value: undefined });
  settle();
}

describe('starting a worker', () => {
  it('refuses under a lock of this inventory an open run that does not replay; starts, and warns, if it is no runbook, holds no such lock, or is ordered to', async () => {
    const own = `misfit-${process.pid}`;
    const lock = deploymentWorkflowId(own);
    const taskQueue = uniqueTaskQueue('misfit');
    const strangers = [`somebody-${own}`, deploymentWorkflowId(`else-${own}`)];
    const left = await misfits('drSwitchover', [lock, ...strangers], taskQueue);
    const warned = async (workflowIds: readonly string[], options: WorkerOptions = {}) => {
      const { log, lines } = toldBy();
      await endOf(await start(taskQueue, own, { log, ...options }));
      for (const workflowId of workflowIds)
        expect(lines()).toContainEqual(expect.objectContaining({ code: 'STATE_DIVERGED', workflowId, level: 50 }));
    };
    await expect(start(taskQueue, own)).rejects.toMatchObject({
      code: 'STATE_DIVERGED',
      observed: `does not replay: ${lock} (run ${left[0]?.firstExecutionRunId})`,
      next: expect.stringContaining('--ignore-replay-failures') as string,
    });
    await warned([lock, ...strangers], { ignoreReplayFailures: true });
    await left[0]?.terminate('end of the test');
    left.push(...(await misfits('nothingOfOurs', [lock], taskQueue)));
    await warned([lock, ...strangers]);
    for (const handle of left.slice(1)) await handle.terminate('end of the test');
    settlePromiseLikeNode24();
  });

  it('serves runs until it is shut down, with the same key home when it starts again', async () => {
    const taskQueue = uniqueTaskQueue('restart');
    const first = await start(taskQueue);
    const running = first.run();
    const options = { taskQueue, workflowId: `deployment:restart-${process.pid}`, args: ['not an object'] };
    const handle = await (await temporalClient()).workflow.start('drSwitchover', options);
    await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'INVALID_INPUT' } });
    first.shutdown();
    await running;
    const second = await start(taskQueue);
    await endOf(second);
    expect(second.keyHome).toBe(first.keyHome);
  });

  it('reads the inventory again, and reports a file that it refuses in its log', async () => {
    const file = join(directory, 'inventory.yaml');
    await writeFile(file, inventoryText());
    const inForce = await InventoryInForce.open(file);
    const told = toldBy();
    const dependencies = {
      log: told.log,
      get inventory() {
        return inForce.current;
      },
    };
    const look = async () => {
      for (let looks = 0; looks < 2; looks += 1) await reloadInventory(inForce, dependencies, 'default');
    };
    await writeFile(file, inventoryText().replace('"approvals":1', '"approvals":7'));
    await look();
    const refused = { level: 50, code: 'inventory-refused', deployment: 'payments' };
    expect(told.lines()).toEqual([expect.objectContaining(refused)]);
    expect(inForce.current.deployments.get('payments')?.gates.plan.approvals).toBe(1);
    await writeFile(file, inventoryText().replace('"validFor":"1h"', '"validFor":"2h"'));
    await look();
    expect(dependencies.inventory.deployments.get('payments')?.gates.plan.validForMs).toBe(7_200_000);
  });

  /** The program, as a supervisor starts it. */
  async function program(more: Readonly<Record<string, string>>) {
    const [inventoryFile, sealKeysFile] = [join(directory, 'inventory.json'), join(directory, 'seal-keys')];
    await writeFile(inventoryFile, inventoryText());
    await writeFile(sealKeysFile, newSealKey().reveal());
    const environment = {
      ...{ RUNBOOKS_INVENTORY: inventoryFile, RUNBOOKS_SEAL_KEYS_FILE: sealKeysFile },
      ...{ RUNBOOKS_KEY_STORAGE: 'disk', RUNBOOKS_KEY_DIR: join(onDisk, 'keys'), ...more },
    };
    return new Program(directory, environment, ['worker']);
  }

  it('ends its process if it is refused: a supervisor must notice it', async () => {
    const refused = await program({ RUNBOOKS_KEY_STORAGE: 'memory' });
    expect(await refused.ended).toBe(3);
    expect(refused.output).toContain('Error KEY_STORAGE_REFUSED');
  });

  it('waits for a Temporal server that is not there yet, and says so each time; SIGTERM ends it with 143', async () => {
    const { namespace, address } = temporalServer();
    const [host = '', port = ''] = address.split(':');
    const later = createServer((client) => {
      const server = connect(Number(port), host);
      client.pipe(server).pipe(client);
      for (const each of [client, server]) each.on('error', () => [client, server].forEach((end) => end.destroy()));
    });
    const [free = 0] = await freePorts(1);
    const TEMPORAL_ADDRESS = `127.0.0.1:${free}`;
    const queue = { TEMPORAL_NAMESPACE: namespace, RUNBOOKS_TASK_QUEUE: uniqueTaskQueue('late') };
    const waiting = `No Temporal server answers at ${TEMPORAL_ADDRESS}: nothing listens there`;
    const waits = async (times: number) => {
      const started = await program({ TEMPORAL_ADDRESS, ...queue });
      await until('another try', () => started.output.split(waiting).length > times);
      return started;
    };
    const [one, two] = await Promise.all([waits(2), waits(1)]);
    await two.end('SIGTERM');
    expect(await two.ended).toBe(143);
    later.listen(free, '127.0.0.1');
    await one.says('Worker ready on task queue');
    await one.end('SIGTERM');
    expect(await one.ended).toBe(143);
    later.close();
  });
});

/** The keys of a ceremony that an open run of this test's namespace began. */
async function recordOf(wid: string, rid: string, changes: Partial<NewKeyRecord> = {}): Promise<NewKeyRecord> {
  const { namespace: ns } = temporalServer();
  const exp = Math.floor(Date.now() / 1000) + 600;
  return {
    ...{ run: { ns, wid, rid }, cid: '00000000-0000-4000-8000-000000000000', epoch: 1, kind: 'operation-token' },
    ...{ keys: await createCeremonyKeys(), invitation: 'x', invitationDigest: 'x' },
    ...{ holders: ['ada'], threshold: 1, exp, useFor: 600, ...changes },
  };
}

describe('workers of one user with one key directory, and other servers or namespaces', () => {
  const keyDirectory = join(directory, 'shared');
  const ownKeys = { ...settings(uniqueTaskQueue('shared')), keyDirectory };

  it('never destroy the keys of an open run of each other; expired ones are removed', async () => {
    const first = await start('', undefined, { settings: ownKeys });
    const wid = `ceremony:shared-${process.pid}`;
    const options = { taskQueue: uniqueTaskQueue('nobody'), workflowId: wid, args: [{}] };
    const run = await (await temporalClient()).workflow.start('operationTokenCeremony', options);
    const home = keyHomes(keyDirectory).get(first.keyHome) ?? '';
    const records = await KeyRecords.open({ directory: home, storage: 'disk' });
    const { firstExecutionRunId: rid } = run;
    await records.create(await recordOf(wid, rid));
    const expired = await records.create(await recordOf(wid, rid, { epoch: 2, exp: 1_000_000_000 }));

    const { TEMPORAL_ADDRESS: _given, ...environment } = process.env;
    const ns = temporalServer().namespace;
    const other = await obtainTemporalServer({ environment, moreNamespaces: [ns, 'another'] });
    const connection = await NativeConnection.connect({ address: other.address });
    const elsewhere = [
      await start('', undefined, { settings: ownKeys, connection, namespace: ns }),
      await start('', undefined, { settings: ownKeys, connection, namespace: 'another' }),
    ];
    const homes = [first, ...elsewhere].map(({ keyHome }) => keyHome);
    expect(new Set(homes).size).toBe(3);
    expect(keyHomes(keyDirectory).size).toBe(3);
    // For the other server, the run of this record is one that has ended.
    expect((await records.ofRun({ ns, wid, rid })).map(({ epoch }) => epoch)).toEqual([1]);
    expect(await records.destroy(expired)).toBe(false);
    for (const worker of [first, ...elsewhere]) await endOf(worker);
    await connection.close();
    await other.stop();
    await run.terminate('end of the test');
  });
});

describe('the sweeper of ceremony keys', () => {
  it('destroys the keys of a run that has ended, and leaves those of an open one', async () => {
    const client = await temporalClient();
    const { namespace: ns } = temporalServer();
    const records = await KeyRecords.open({ directory: join(directory, 'swept'), storage: 'disk' });
    const runs = await Promise.all(
      ['open', 'ended'].map(async (state, index) => {
        const wid = `ceremony:${state}-${process.pid}`;
        const options = { taskQueue: uniqueTaskQueue('nobody'), workflowId: wid, args: [{}] };
        const handle = await client.workflow.start('operationTokenCeremony', options);
        const run = { ns, wid, rid: handle.firstExecutionRunId };
        const cid = `00000000-0000-4000-8000-00000000000${index}`;
        await records.create(await recordOf(wid, run.rid, { cid }));
        return { handle, run };
      }),
    );
    await runs[1]?.handle.terminate('ended');
    await sweepKeys({ keyRecords: records, temporal: client, log }, ns);
    const left = await Promise.all(runs.map(async ({ run }) => (await records.ofRun(run)).length));
    expect(left).toEqual([1, 0]);
    await runs[0]?.handle.terminate('end of the test');
  });
});

describe('a sweep of the worker', () => {
  afterEach(() => jest.useRealTimers());

  it('does not start again while it is under way, and the worker waits for it when it stops', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate'] });
    const ends: (() => void)[] = [];
    const { begin, stop } = againAndAgain(() => new Promise((resolve) => void ends.push(resolve)));
    begin();
    jest.advanceTimersByTime(3_600_000);
    expect(ends).toHaveLength(1);
    ends[0]?.();
    await new Promise(setImmediate);
    jest.advanceTimersByTime(3_600_000);
    expect(ends).toHaveLength(2);
    let stopped = false;
    const stopping = stop().then(() => (stopped = true));
    await new Promise(setImmediate);
    expect(stopped).toBe(false);
    ends[1]?.();
    await stopping;
    jest.advanceTimersByTime(3_600_000);
    expect(ends).toHaveLength(2);
  });
});

let otherCode: WorkflowBundle | undefined;

/** Runs of other code: they wait where this version reads the deployment first. Whoever polls the queue can leave some. */
async function misfits(type: string, workflowIds: readonly string[], taskQueue: string) {
  const client = await temporalClient();
  const workflowsPath = join(directory, 'other.js');
  const sleeps = `() => require('@temporalio/workflow').sleep('1 day')`;
  await writeFile(workflowsPath, `exports.drSwitchover = exports.nothingOfOurs = ${sleeps};`);
  await writeFile(join(directory, 'package.json'), '{}');
  const modules = [join(projectRoot(), 'node_modules')];
  otherCode ??= await bundleWorkflowCode({
    workflowsPath,
    webpackConfigHook: (config) => ({ ...config, resolve: { ...config.resolve, modules } }),
  });
  const old = await Worker.create({
    connection: await temporalNativeConnection(),
    namespace: temporalServer().namespace,
    taskQueue,
    workflowBundle: otherCode,
  });
  const args = [{ deployment: 'payments', to: 'west', reason: 'of another version' }];
  const handles = await old.runUntil(async () => {
    const started = await Promise.all(
      workflowIds.map((workflowId) => client.workflow.start(type, { taskQueue, workflowId, args })),
    );
    for (const run of started)
      await until('it sleeps', async () =>
        (await run.fetchHistory()).events?.some((event) => event.timerStartedEventAttributes),
      );
    return started;
  });
  // What is found by searching appears a moment after it exists.
  const open = `TaskQueue = '${taskQueue}' AND WorkflowType = '${type}' AND ExecutionStatus = 'Running'`;
  await until('all listed', async () => (await client.workflow.count(open)).count === workflowIds.length);
  return handles;
}

function toldBy(): { readonly log: pino.Logger; readonly lines: () => unknown[] } {
  const lines: string[] = [];
  return {
    log: pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) }),
    lines: () => lines.map((line) => JSON.parse(line) as unknown),
  };
}

async function endOf(worker: RunningWorker): Promise<void> {
  worker.shutdown();
  await worker.run();
}
