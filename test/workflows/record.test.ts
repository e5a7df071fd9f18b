/** The record of a deployment on a real server: nothing that was written is lost, and nothing counts that no worker wrote. */
import { WorkflowUpdateRPCTimeoutOrCancelledError } from '@temporalio/client';
import type { Client, WorkflowHandle } from '@temporalio/client';
import type { Records } from '../../activities';
import { RECORD_QUERY, RECORD_UPDATE, RECORD_WORKFLOW, recordWorkflowId } from '../../src/contracts/record';
import type { RecordState } from '../../src/contracts/record';
import type { Finding } from '../../src/contracts/run-facts';
import { newSealKey, SealKeyring } from '../../src/keys';
import { until } from '../support/by-hand';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

let scenario: Scenario;
/** Each test has a record of its own. */
let deployment: string;
let handle: WorkflowHandle;
let alarms: Finding[];
/** The IDs of the alarms. */
let raised: string[];
let count = 0;

const worker = (client?: Client, readMs?: number) =>
  scenario.recordsOfAWorker(alarms, client, readMs, undefined, raised);
const put = (records: Records, key: string) => records.change(deployment, () => ({ put: { [key]: key } }));
const keys = async (records: Records) => [...(await records.read(deployment)).values.keys()].sort();
const codes = () => alarms.map(({ code }) => code);
const stateOf = (name: string) =>
  scenario.client.workflow.getHandle(recordWorkflowId(name)).query<RecordState>(RECORD_QUERY);
const stored = () => stateOf(deployment);

/** A client whose first update goes through `how`. */
function withFirstUpdate(how: (send: () => Promise<unknown>) => Promise<unknown>): Client {
  let isFirst = true;
  const workflow = new Proxy(scenario.client.workflow, {
    get: (target, name) =>
      name !== 'getHandle'
        ? (Reflect.get(target, name) as unknown)
        : (...args: Parameters<typeof target.getHandle>) => {
            const real = target.getHandle(...args);
            const executeUpdate = (...update: Parameters<typeof real.executeUpdate>) => {
              const send = () => real.executeUpdate(...update);
              if (!isFirst) return send();
              isFirst = false;
              return how(send);
            };
            return { ...real, executeUpdate };
          },
  });
  return new Proxy(scenario.client, {
    get: (target, name) => (name === 'workflow' ? workflow : (Reflect.get(target, name) as unknown)),
  });
}

describe('the record', () => {
  openScenario((opened) => (scenario = opened));
  beforeEach(() => {
    deployment = `${scenario.name}-${(count += 1)}`;
    handle = scenario.client.workflow.getHandle(recordWorkflowId(deployment));
    alarms = [];
    raised = [];
  });
  afterEach(() => handle.terminate('end of the test').catch(() => undefined));

  it('two workers that write at once, over the end of its runs, lose no entry', async () => {
    const [one, other] = [worker(), worker()];
    const names = Array.from({ length: 60 }, (_each, index) => `token:${String(index).padStart(2, '0')}`);
    await Promise.all(names.map((name, index) => put(index % 2 === 0 ? one : other, name)));
    expect(await keys(worker())).toEqual(names);
    expect((await stored()).head?.counter).toBe(60);
    // It has continued as new meanwhile.
    const { runId, raw } = await handle.describe();
    expect(raw.workflowExecutionInfo?.firstRunId).not.toBe(runId);
    expect(codes()).toEqual([]);
  });

  it('one that somebody ends continues from its last state, also in the middle of writing, and it is an alarm', async () => {
    const [one, other] = [worker(), worker()];
    await put(one, 'a');
    await Promise.all([put(one, 'b'), handle.terminate('by hand'), put(other, 'c'), put(other, 'd')]);
    expect(await keys(one)).toEqual(['a', 'b', 'c', 'd']);
    expect(codes()).toContain('record-ended');
    expect((await stored()).head?.counter).toBe(4);
    alarms.length = 0;
    await handle.terminate('again');
    const { values, alarms: told } = await worker().read(deployment);
    expect([...values.keys()].sort()).toEqual(['a', 'b', 'c', 'd']);
    expect(told.map(({ code }) => code)).toEqual(['record-ended']);
    await put(other, 'e');
    expect(await keys(other)).toEqual(['a', 'b', 'c', 'd', 'e']);
  });

  it('a cancellation does not end it, and an unknown update is refused', async () => {
    await put(worker(), 'a');
    await handle.cancel();
    for (const bad of [undefined, 'x', {}, { head: { counter: 2 } }, { head: { counter: 7 }, put: {}, removed: [] }])
      await expect(handle.executeUpdate(RECORD_UPDATE, { args: [bad] })).rejects.toThrow();
    await put(worker(), 'b');
    expect(await keys(worker())).toEqual(['a', 'b']);
    expect(codes()).toEqual([]);
  });

  it('a write whose answer was lost is sent again with the same ID, and takes effect once', async () => {
    const lost = worker(
      withFirstUpdate(async (send) => {
        await send();
        throw new WorkflowUpdateRPCTimeoutOrCancelledError('lost');
      }),
    );
    await put(lost, 'a');
    await put(lost, 'b');
    expect((await stored()).head?.counter).toBe(2);
    expect(await keys(lost)).toEqual(['a', 'b']);
  });

  it('without a worker no entry counts as absent: reading fails, and a write waits for the worker, once', async () => {
    await put(worker(), 'a');
    let back: Promise<void> | undefined;
    const waits = worker(
      withFirstUpdate(async (send) => {
        await scenario.stopWorker();
        await expect(worker(undefined, 1_000).read(deployment)).rejects.toMatchObject({
          ...{ code: 'RECORD_UNAVAILABLE', retryable: true },
        });
        const sent = send();
        sent.catch(() => (back = scenario.startWorker()));
        return sent;
      }),
    );
    await put(waits, 'b');
    await back;
    expect((await stored()).head?.counter).toBe(2);
    expect(await keys(waits)).toEqual(['a', 'b']);
    expect(codes()).toEqual([]);
  });

  it('unmarked content does not count and is an alarm; the next write is whole again', async () => {
    const records = worker();
    await put(records, 'a');
    const { head, entries } = await stored();
    const forged = { ...entries['a'], value: 'forged' };
    const next = { ...head, counter: 2 };
    const write = { head: next, put: { b: forged, c: entries['a'] }, removed: [] };
    await handle.executeUpdate(RECORD_UPDATE, { args: [write] });
    expect(await keys(records)).toEqual(['a']);
    expect(codes()).toEqual(['record-not-ours']);
    expect(alarms[0]?.text).toContain('2 entries');
    await put(records, 'd');
    alarms.length = 0;
    expect(await keys(worker())).toEqual(['a', 'd']);
    // An entry that was taken away leaves a head that does not fit.
    const { head: whole } = await stored();
    const removal = { head: { ...whole, counter: (whole?.counter ?? 0) + 1 }, put: {}, removed: ['a'] };
    await handle.executeUpdate(RECORD_UPDATE, { args: [removal] });
    expect(await keys(worker())).toEqual(['a', 'd']);
    expect(codes()).toEqual(['record-not-ours']);
  });

  /** What a writer to the namespace without keys may send: under the next revision, with nothing that a worker marked. */
  const forge = async (write: object, head: object = {}) => {
    const now = (await stored()).head;
    const next = { ...now, counter: (now?.counter ?? 0) + 1, ...head };
    await handle.executeUpdate(RECORD_UPDATE, { args: [{ put: {}, removed: [], head: next, ...write }] });
  };
  const MARK = 'kid.AAAA';

  it.each([
    ['an entry that is null', { put: { a: null } }],
    ['an entry without a mark', { put: { a: { value: 1, at: 1 } } }],
    ['an entry with a time that is none', { put: { a: { value: 1, at: 'now', mark: MARK } } }],
    ['a mark without end', { put: { a: { value: 1, at: 1, mark: 'x'.repeat(201) } } }],
    ['a key without end', { put: { ['x'.repeat(301)]: { value: 1, at: 1, mark: MARK } } }],
    ['removed keys that are none', { removed: [null] }],
    ['a head that is null', { head: null }],
  ])('refuses a write with %s', async (_what, write) => {
    await put(worker(), 'a');
    await expect(forge(write)).rejects.toThrow();
    expect(await keys(worker())).toEqual(['a']);
    expect(codes()).toEqual([]);
  });

  it.each([
    ['in the future of all calendars', { since: 9e15 }],
    ['before all time', { at: -1 }],
    ['that is a text', { since: '1' }],
  ])('refuses a head with a time %s', async (_what, head) => {
    await put(worker(), 'a');
    await expect(forge({}, head)).rejects.toThrow();
    expect(await keys(worker())).toEqual(['a']);
  });

  it('does not grow beyond a readable size, and the next write of a worker is whole again', async () => {
    await put(worker(), 'a');
    const large = { value: 'x'.repeat(100_000), at: 1, mark: MARK };
    const fill = async () => {
      for (let number = 1; number < 20; number += 1) await forge({ put: { [`f${number}`]: large } });
    };
    await expect(fill()).rejects.toThrow();
    const records = worker();
    expect(await keys(records)).toEqual(['a']);
    expect(codes()).toEqual(['record-not-ours']);
    await put(records, 'b');
    alarms.length = 0;
    expect(await keys(worker())).toEqual(['a', 'b']);
    expect(codes()).toEqual([]);
  });

  it('keeps its entries if somebody else removes them all: they are read, and written, from its history', async () => {
    const records = worker();
    await put(records, 'a');
    await put(records, 'b');
    await forge({ removed: ['a', 'b'] });
    expect((await stored()).entries).toEqual({});
    expect(await keys(worker())).toEqual(['a', 'b']);
    const writer = worker();
    await put(writer, 'c');
    alarms.length = 0;
    expect(await keys(worker())).toEqual(['a', 'b', 'c']);
    expect(codes()).toEqual([]);
  });

  it('trusts no old entry of a worker that somebody puts back', async () => {
    const records = worker();
    await put(records, 'a');
    const { entries } = await stored();
    await records.change(deployment, () => ({ removed: ['a'], put: { b: 1 } }));
    await forge({ put: { a: entries['a'] } });
    expect(await keys(worker())).toEqual(['b']);
    await put(worker(), 'c');
    expect(await keys(worker())).toEqual(['b', 'c']);
  });

  it('trusts no value but the marked one, although head and marks are from a worker', async () => {
    await put(worker(), 'a');
    const state = await stored();
    await handle.terminate('to put another one in its place');
    const forged = { ...state, entries: { a: { ...state.entries['a'], value: 'forged' } } };
    const { taskQueue } = scenario;
    const workflowId = recordWorkflowId(deployment);
    await scenario.client.workflow.start(RECORD_WORKFLOW, { workflowId, taskQueue, args: [forged] });
    expect([...(await worker().read(deployment)).values.values()]).not.toContain('forged');
    expect(codes()).toEqual(['record-not-ours']);
  });

  it('does not keep wrong content if somebody ends it', async () => {
    await put(worker(), 'a');
    await forge({ removed: ['a'] });
    await handle.terminate('to keep the poison');
    expect(await keys(worker())).toEqual(['a']);
    expect(codes()).toEqual(['record-ended']);
  });

  it('raises one alarm by kind and state, with one ID for all workers', async () => {
    await put(worker(), 'a');
    await forge({ removed: ['a'] });
    const [one, other] = [worker(), worker()];
    for (const each of [one, one, one, other]) await keys(each);
    expect(codes()).toEqual(['record-not-ours', 'record-not-ours']);
    expect(new Set(raised).size).toBe(1);
  });

  it('an entry of a seal key that was removed too early is reported, and is there again with its key', async () => {
    await put(worker(), 'a');
    const another = SealKeyring.parse(newSealKey().reveal());
    await put(scenario.recordsOfAWorker(alarms, undefined, undefined, another), 'b');
    expect(codes()).toEqual(['record-not-ours']);
    expect((await worker().read(deployment)).values.get('a')).toBe('a');
  });

  it('one that went back, or is away, is an alarm for every reader of a later state, and by the state that a run or the marker kept', async () => {
    const records = worker();
    await put(records, 'a');
    const old = await stored();
    await put(records, 'b');
    const seen = records.seen(deployment);
    await handle.terminate('to put an older one in its place');
    const start = { taskQueue: scenario.taskQueue, workflowId: recordWorkflowId(deployment) };
    await scenario.client.workflow.start(RECORD_WORKFLOW, { ...start, args: [old] });
    expect(await keys(records)).toEqual(['a']);
    expect(codes()).toEqual(['record-went-back']);
    alarms.length = 0;
    // A worker that has just started, with what the last run kept; what no worker marked is not compared.
    const fresh = await worker().read(deployment, [seen, { ...seen, counter: 1_000 }, 'x', undefined]);
    expect(fresh.alarms.map(({ code }) => code)).toEqual(['record-went-back']);
    expect((await worker().read(deployment, [old.head])).alarms).toEqual([]);

    const away = await worker().read(`${deployment}-never`, [seen]);
    expect([away.values.size, away.alarms]).toEqual([0, []]);
  });

  it('another workflow in its place is no record, and is never written to', async () => {
    const records = worker();
    await put(records, 'a');
    await handle.terminate('to take its place');
    const start = { workflowId: recordWorkflowId(deployment), taskQueue: 'nobody-polls-this' };
    await scenario.client.workflow.start(RECORD_WORKFLOW, { ...start, args: [] });
    await expect(put(records, 'b')).rejects.toMatchObject({ code: 'PRECONDITION_FAILED' });
    await handle.terminate('it is none of ours');
    expect(await keys(records)).toEqual(['a']);
    expect(codes()).toEqual(['record-ended']);
  });

  it('every run says in its result how far the record has come, and the next one compares it', async () => {
    const run = async () => (await scenario.run('operationTokenDisposal', { cluster: 'west' })).report();
    const records = worker();
    await records.change(scenario.name, () => ({ put: { 'a note': 1 } }));
    const before = await stateOf(scenario.name);
    await records.change(scenario.name, () => ({ put: { 'a note': 2 } }));
    const first = await run();
    expect(first).toMatchObject({ outcome: 'completed', findings: [], record: records.seen(scenario.name) });
    // A worker that has just started: it has seen nothing itself.
    await scenario.stopWorker();
    const { taskQueue } = scenario;
    const workflowId = recordWorkflowId(scenario.name);
    await scenario.client.workflow.getHandle(workflowId).terminate('to put an older one in its place');
    await scenario.client.workflow.start(RECORD_WORKFLOW, { workflowId, taskQueue, args: [before] });
    await scenario.startWorker();
    const next = await run();
    expect(next.findings).toEqual([expect.objectContaining({ severity: 'critical', code: 'record-went-back' })]);
    // The next one looks at the newest completed run, which the server lists a moment later.
    await until('both runs are listed', async () => {
      const query = `WorkflowId = "${next.workflowId}" AND ExecutionStatus = "Completed"`;
      return (await scenario.client.workflow.count(query)).count === 2;
    });
    expect(await run()).toMatchObject({ findings: [] });
  });

  it('delays no failover, whatever somebody put into it', async () => {
    const { taskQueue, service } = scenario;
    const workflowId = recordWorkflowId(scenario.name);
    const handle = scenario.client.workflow.getHandle(workflowId);
    await service.cluster('east').kill();
    await scenario.recordsOfAWorker().change(scenario.name, () => ({ put: { 'a note': 3 } }));
    const { head } = await stateOf(scenario.name);
    const forged = { put: { 'a note': { value: 1, at: 1, mark: '' } }, removed: [], head };
    await handle.executeUpdate(RECORD_UPDATE, {
      args: [{ ...forged, head: { ...head, counter: 1 + (head?.counter ?? 0) } }],
    });
    const poisoned = await scenario.run('drFailover', { dryRun: true });
    expect(await poisoned.report()).toMatchObject({ outcome: 'planned' });

    await handle.terminate('to put another one in its place');
    const entries = { a: null, b: { value: 1, at: 9e15, mark: 1 } };
    await scenario.client.workflow.start(RECORD_WORKFLOW, { workflowId, taskQueue, args: [{ entries, head: 1 }] });
    const replaced = await scenario.run('drFailover', { dryRun: true });
    const report = await replaced.report();
    expect(report).toMatchObject({ outcome: 'planned' });
    expect(report.findings).toContainEqual(expect.objectContaining({ severity: 'critical', code: 'record-went-back' }));
  });
});
