/** People behind the gateway, on a real server: what a writer to the namespace could do, and they cannot. */
import { randomUUID } from 'node:crypto';
import { isGrpcDeadlineError } from '@temporalio/client';
import type { Client } from '@temporalio/client';
import { temporal } from '@temporalio/proto';
import { RECORD_WORKFLOW, recordWorkflowId } from '../../src/contracts/record';
import { openTestDoor } from '../support/door';
import type { TestDoor } from '../support/door';
import { temporalClient, temporalServer, uniqueTaskQueue } from '../support/temporal-server';

type Start = temporal.api.workflowservice.v1.IStartWorkflowExecutionRequest;

const taskQueue = uniqueTaskQueue('door');
const { namespace } = temporalServer();
const payload = (value: unknown) => ({
  metadata: { encoding: Buffer.from('json/plain') },
  data: Buffer.from(JSON.stringify(value)),
});
const payloads = (value: unknown) => ({ payloads: [payload(value)] });
const { WorkflowIdReusePolicy, WorkflowIdConflictPolicy } = temporal.api.enums.v1;

let door: TestDoor;
let direct: Client;
let olga: Client;
let ada: Client;
/** Each test has a deployment of its own, with a run that waits, and a record. */
let deployment: string;
let lock: string;
const started = new Set<string>();

/** As the official client sends it. */
const request = (changes: Start = {}): Start => ({
  ...{ namespace, workflowId: lock, workflowType: { name: 'drSwitchover' }, taskQueue: { name: taskQueue, kind: 1 } },
  ...{ input: payloads({ deployment, to: 'west', reason: 'a test' }), identity: 'olga', requestId: randomUUID() },
  ...changes,
});
const starts = (changes: Start, client = olga) => client.workflowService.startWorkflowExecution(request(changes));
const seconds = (value: number) => ({ seconds: value as never });
const denied = (details: string | RegExp) => ({ code: 7, details: expect.stringMatching(details) as string });
const invalid = (details: string | RegExp) => ({ code: 3, details: expect.stringMatching(details) as string });
const statusOf = async (workflowId: string) => (await direct.workflow.getHandle(workflowId).describe()).status.name;
const events = async (workflowId: string) =>
  (await direct.workflow.getHandle(workflowId).fetchHistory()).events?.length ?? 0;

async function begin(workflowId: string, type = 'drSwitchover') {
  started.add(workflowId);
  return direct.workflow.start(type, { taskQueue, workflowId, args: [{ deployment }] });
}

beforeAll(async () => {
  door = await openTestDoor(taskQueue);
  direct = await temporalClient();
});
beforeEach(async () => {
  deployment = `door-${randomUUID().slice(0, 8)}`;
  lock = `deployment:${deployment}`;
  olga = await door.through('operators', `olga ${deployment}`);
  ada = await door.through('people', `ada ${deployment}`);
});
afterEach(async () => {
  for (const workflowId of started)
    await direct.workflow
      .getHandle(workflowId)
      .terminate()
      .catch(() => undefined);
  started.clear();
});
afterAll(() => door.close());

describe('a start', () => {
  it.each<[name: string, changes: Start, field: RegExp]>([
    [
      'the conflict policy TERMINATE_EXISTING',
      { workflowIdConflictPolicy: WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING },
      /workflowIdConflictPolicy/,
    ],
    [
      'the reuse policy TERMINATE_IF_RUNNING',
      { workflowIdReusePolicy: WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_TERMINATE_IF_RUNNING },
      /workflowIdReusePolicy/,
    ],
    ['an unknown policy', { workflowIdConflictPolicy: 9 as never }, /workflowIdConflictPolicy/],
  ])('with %s ends no open run', async (_name, changes, field) => {
    const run = await begin(lock);
    await expect(starts(changes)).rejects.toMatchObject(denied(field));
    expect(await statusOf(lock)).toBe('RUNNING');
    expect((await direct.workflow.getHandle(lock).describe()).runId).toBe(run.firstExecutionRunId);
  });

  it.each<[field: string, changes: Start]>([
    ['workflowStartDelay', { workflowStartDelay: seconds(315_360_000) }],
    ['cronSchedule', { cronSchedule: '* * * * *' }],
    ['retryPolicy', { retryPolicy: { maximumAttempts: 3 } }],
    ['workflowExecutionTimeout', { workflowExecutionTimeout: seconds(60) }],
    ['workflowRunTimeout', { workflowRunTimeout: seconds(60) }],
    ['workflowTaskTimeout', { workflowTaskTimeout: seconds(1) }],
    ['completionCallbacks', { completionCallbacks: [{ nexus: { url: 'http://127.0.0.1:1/' } }] }],
    ['versioningOverride', { versioningOverride: { autoUpgrade: true } }],
    ['requestEagerExecution', { requestEagerExecution: true }],
    ['searchAttributes', { searchAttributes: { indexedFields: { BuildIds: payload(['x']) } } }],
    ['header', { header: { fields: { tracer: payload('x') } } }],
    ['links', { links: [{ workflowEvent: { namespace, workflowId: 'x', runId: 'y' } }] }],
    ['onConflictOptions', { onConflictOptions: { attachRequestId: true } }],
    ['continuedFailure', { continuedFailure: { message: 'x' } }],
    ['lastCompletionResult', { lastCompletionResult: payloads('x') }],
    ['priority', { priority: { priorityKey: 5 } }],
    [
      'input.payloads.externalPayloads',
      { input: { payloads: [{ ...payload({}), externalPayloads: [{ sizeBytes: 9 as never }] }] } },
    ],
  ])('that sets %s is refused by the name of the field', async (field, changes) => {
    await expect(starts(changes)).rejects.toMatchObject(denied(`^Field ${field} `));
    await expect(statusOf(lock)).rejects.toThrow('not found');
  });

  it.each<[name: string, changes: () => Start, why: RegExp]>([
    [
      'of a record',
      () => ({ workflowId: recordWorkflowId(deployment), workflowType: { name: RECORD_WORKFLOW } }),
      /workflowType/,
    ],
    ["under a record's Workflow ID", () => ({ workflowId: recordWorkflowId(deployment) }), /not one of a run/],
    ["under another deployment's lock", () => ({ workflowId: 'deployment:other' }), /is a lock/],
    ["under another lock's kind", () => ({ workflowId: `readiness:${deployment}` }), /is a lock/],
    [
      'whose input is of another deployment than its lock',
      () => ({ input: payloads({ deployment: 'other' }) }),
      /is a lock/,
    ],
    ["under another runbook's Workflow ID", () => ({ workflowId: `walSampler:${deployment}:1` }), /another runbook/],
    ["under a Workflow ID of the server's own", () => ({ workflowId: 'temporal-sys-scheduler:x' }), /not one of a run/],
    ['of an activity as a workflow', () => ({ workflowType: { name: 'promoteCluster' } }), /workflowType/],
    ['on another task queue', () => ({ taskQueue: { name: 'runbooks.keys.x' } }), /task queue/],
    ['on a sticky task queue', () => ({ taskQueue: { name: taskQueue, kind: 2 } }), /taskQueue.kind/],
    ['in another namespace', () => ({ namespace: 'temporal-system' }), /Only namespace/],
  ])('%s is refused', async (_name, changes, why) => {
    await expect(starts(changes())).rejects.toMatchObject(denied(why));
  });

  it('without one JSON object as its input is refused, and so is one larger than 64 KiB', async () => {
    for (const input of [{ payloads: [] }, payloads('text'), payloads([deployment]), payloads(null)])
      await expect(starts({ input })).rejects.toMatchObject(invalid(/one JSON object/));
    const large = payloads({ deployment, reason: 'x'.repeat(70_000) });
    await expect(starts({ input: large })).rejects.toMatchObject(invalid(/larger than 64 KiB/));
  });

  it('is not for holders and approvers', async () => {
    await expect(starts({}, ada)).rejects.toMatchObject(denied(/for operators/));
  });

  it('of a runbook under its lock, under its own name, as a plan and under a UUID passes', async () => {
    for (const workflowId of [lock, `drSwitchover:${deployment}:1`, `plan:${deployment}:1`, randomUUID()]) {
      started.add(workflowId);
      // The "temporal" command sends empty time-outs, and the default of the workflow task.
      await starts({ workflowId, workflowRunTimeout: seconds(0), workflowTaskTimeout: seconds(10), retryPolicy: {} });
      expect(await statusOf(workflowId)).toBe('RUNNING');
      const [first] = (await direct.workflow.getHandle(workflowId).fetchHistory()).events ?? [];
      expect(first?.workflowExecutionStartedEventAttributes?.retryPolicy ?? undefined).toBeUndefined();
    }
  });
});

describe('a signal or an update', () => {
  it('is refused for a record, for a workflow of the server, and under a name that no run has', async () => {
    const record = recordWorkflowId(deployment);
    const run = await begin(record, RECORD_WORKFLOW);
    for (const client of [ada, olga]) {
      const handle = client.workflow.getHandle(record);
      await expect(handle.signal('abort', {})).rejects.toMatchObject({ cause: denied(/not one of a run/) });
      await expect(handle.executeUpdate('approve', { args: [{}] })).rejects.toMatchObject({
        cause: denied(/not one of a run/),
      });
      await expect(handle.executeUpdate('write', { args: [{}] })).rejects.toMatchObject({
        cause: denied(/input.name/),
      });
      const scheduler = client.workflow.getHandle('temporal-sys-scheduler:readiness');
      await expect(scheduler.signal('pause')).rejects.toMatchObject({ cause: denied(/not one of a run/) });
      await expect(client.workflow.getHandle(lock).signal('patch')).rejects.toMatchObject({
        cause: denied(/signalName/),
      });
    }
    // Started, and its first task scheduled.
    expect(await events(run.workflowId)).toBe(2);
  });

  it('larger than 20 KiB is refused; one of 16 KiB arrives', async () => {
    await begin(lock);
    const handle = ada.workflow.getHandle(lock);
    const large = 'x'.repeat(20 * 1024);
    await expect(handle.signal('share', large)).rejects.toMatchObject({ cause: invalid(/larger than 20 KiB/) });
    await expect(handle.executeUpdate('approve', { args: [large] })).rejects.toMatchObject({
      cause: invalid(/larger than 20 KiB/),
    });
    expect(await events(lock)).toBe(2);
    await handle.signal('share', 'x'.repeat(16 * 1024));
    expect(await events(lock)).toBe(3);
  });

  it('with more than clients send is refused by the name of the field', async () => {
    const service = ada.workflowService;
    const signal = { namespace, workflowExecution: { workflowId: lock }, signalName: 'abort' };
    const two = { payloads: [payload({}), payload({})] };
    await expect(service.signalWorkflowExecution({ ...signal, input: two })).rejects.toMatchObject(
      denied(/more than one/),
    );
    await expect(service.signalWorkflowExecution({ ...signal, control: 'x' })).rejects.toMatchObject(denied(/control/));
    const update = (more: object, first = '') =>
      service.updateWorkflowExecution({
        ...{ namespace, workflowExecution: { workflowId: lock }, firstExecutionRunId: first },
        request: { meta: { updateId: 'u' }, input: { name: 'approve', args: payloads({}) }, ...more },
      });
    await expect(update({}, 'r')).rejects.toMatchObject(denied(/firstExecutionRunId/));
    const callbacks = { completionCallbacks: [{ nexus: { url: 'http://127.0.0.1:1/' } }] };
    await expect(update(callbacks)).rejects.toMatchObject(denied(/request.completionCallbacks/));
  });

  it('counts against one budget by certificate: three connections flood no more than one, and others get through', async () => {
    await begin(lock);
    const certificate = `mallory ${deployment}`;
    const connections = await Promise.all([1, 2, 3].map(() => door.through('people', certificate)));
    const sent = connections.flatMap((client) =>
      Array.from({ length: 30 }, (_, index) =>
        client.workflow.getHandle(lock).signal(index % 2 ? 'approve' : 'decide', {}),
      ),
    );
    const settled = await Promise.allSettled(sent);
    const refused = settled.filter((each) => each.status === 'rejected');
    for (const { reason } of refused)
      expect(reason).toMatchObject({ cause: { code: 8, details: expect.stringMatching(/^Too many/) as string } });
    // A burst of twenty, and one for every ten seconds that this took.
    expect(90 - refused.length).toBeGreaterThanOrEqual(20);
    expect(90 - refused.length).toBeLessThanOrEqual(24);
    await ada.workflow.getHandle(lock).signal('abort', { reason: 'a test' });
  });
});

it('no sender can terminate, cancel, reset, delete, start together with a signal or update, poll, complete, or schedule', async () => {
  await begin(lock);
  const execution = { workflowId: lock };
  for (const client of [ada, olga]) {
    const { workflowService: service } = client;
    const all = { namespace, workflowExecution: execution };
    const tried = [
      () => service.terminateWorkflowExecution(all),
      () => service.requestCancelWorkflowExecution(all),
      () => service.resetWorkflowExecution({ ...all, workflowTaskFinishEventId: 3 as never }),
      () => service.deleteWorkflowExecution(all),
      () => service.signalWithStartWorkflowExecution({ ...request(), signalName: 'abort' }),
      () => service.executeMultiOperation({ namespace, operations: [{ startWorkflow: request() }] }),
      () => service.startActivityExecution({ namespace, activityId: 'a', activityType: { name: 'promoteCluster' } }),
      () => service.pollWorkflowTaskQueue({ namespace, taskQueue: { name: taskQueue } }),
      () => service.pollActivityTaskQueue({ namespace, taskQueue: { name: taskQueue } }),
      () => service.respondActivityTaskCompletedById({ namespace, workflowId: lock, activityId: '1' }),
      () => service.respondWorkflowTaskCompleted({ namespace }),
      () => service.startBatchOperation({ namespace, visibilityQuery: 'true' }),
      () => service.createSchedule({ namespace, scheduleId: 's' }),
      () => service.updateWorkflowExecutionOptions(all),
      () => service.pauseWorkflowExecution({ namespace, workflowId: lock }),
      () => client.connection.operatorService.deleteNamespace({ namespace }),
    ];
    for (const attempt of tried)
      await expect(attempt()).rejects.toMatchObject(denied(/^This method is not for people$/));
  }
  expect(await statusOf(lock)).toBe('RUNNING');
  expect(await events(lock)).toBe(2);
});

it('a sender without a certificate is refused, if a proxy names certificates', async () => {
  await expect(door.through('people', '')).rejects.toMatchObject({
    cause: { code: 16, details: 'This address needs a client certificate' },
  });
});

it('a long poll ends when its caller gives up, and one with an answer brings it', async () => {
  const run = await begin(lock);
  const handle = ada.workflow.getHandle(lock);
  const waiting = ada.withDeadline(Date.now() + 500, () => handle.result());
  expect(await waiting.catch((error: unknown) => isGrpcDeadlineError(error))).toBe(true);
  const result = handle.result();
  await run.terminate('over');
  await expect(result).rejects.toMatchObject({ cause: { name: 'TerminatedFailure' } });
});
