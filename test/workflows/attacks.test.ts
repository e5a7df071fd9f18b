/**
 * Somebody who may write to the namespace attacks the workers of a real run: with activities that he starts alone, and
 * with a workflow of his own that calls the workers' activities with what he copied from the run's history.
 */
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { defaultPayloadConverter } from '@temporalio/common';
import type { temporal } from '@temporalio/proto';
import { Worker } from '@temporalio/worker';
import type { RunbookActivities } from '../../activities';
import { keyTaskQueue } from '../../src/contracts/names';
import { GUARDS } from '../support/activity-guards';
import { temporaryDirectory } from '../support/directory';
import { CHANGING, drPrimaries, statuses } from '../support/faults';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';
import { temporalNativeConnection, temporalServer, uniqueTaskQueue } from '../support/temporal-server';

jest.setTimeout(240_000);

/** The attacker's workflow: once the documents are in its history, every call at once, each as a step of its own run. */
const ATTACK = `
const { condition, defaultPayloadConverter, defineSignal, proxyActivities, setHandler, workflowInfo } = require('@temporalio/workflow');
exports.interceptors = () => ({ outbound: [{
  scheduleActivity(input, next) {
    const { runId } = workflowInfo();
    const step = { name: 'x', number: 1, attempt: 1, originalRunId: runId, acknowledgedRunId: runId };
    return next({ ...input, headers: { step: defaultPayloadConverter.toPayload(step) } });
  },
}] });
exports.attack = async (calls, documents) => {
  let arrived = 0;
  setHandler(defineSignal('approve'), () => { arrived += 1; });
  await condition(() => arrived >= documents);
  return Promise.all(calls.map(async ({ name, taskQueue, input }) => {
    const activities = proxyActivities({ taskQueue, startToCloseTimeout: '90s', retry: { maximumAttempts: 1 } });
    try {
      return { name, result: await activities[name](input) };
    } catch (error) {
      return { name, code: error.cause && error.cause.type };
    }
  }));
};`;

interface Call {
  readonly name: keyof RunbookActivities;
  readonly taskQueue: string;
  readonly input: Readonly<Record<string, unknown>>;
}
interface Result {
  readonly plan?: unknown;
  readonly sealed?: unknown;
}
interface Outcome {
  readonly name: keyof RunbookActivities;
  readonly result?: unknown;
  readonly code?: string;
}

const REFUSED = ['NOT_APPROVED', 'SEALED_VALUE_INVALID', 'KEY_RECORD_MISSING', 'DOCUMENT_INVALID'];
const ENDPOINTS = [CHANGING.demote, CHANGING.promote, CHANGING.startAttempt];

describe('a writer to the namespace', () => {
  const directory = temporaryDirectory('attacker');
  let scenario: Scenario;
  let attacker: Worker;
  let attacking: Promise<void>;
  let run: TestRun;
  const queue = uniqueTaskQueue('attacker');
  beforeAll(async () => {
    await writeFile(join(directory, 'workflows.js'), ATTACK);
    await writeFile(join(directory, 'package.json'), '{}');
    await symlink(join(__dirname, '..', '..', 'node_modules'), join(directory, 'node_modules'));
    [scenario, attacker] = await Promise.all([
      Scenario.start(),
      Worker.create({
        connection: await temporalNativeConnection(),
        namespace: temporalServer().namespace,
        taskQueue: queue,
        workflowsPath: join(directory, 'workflows.js'),
        interceptors: { workflowModules: [join(directory, 'workflows.js')] },
      }),
    ]);
    attacking = attacker.run();
    run = await scenario.start();
  });
  afterAll(async () => {
    attacker.shutdown();
    await attacking;
    await scenario.stop();
  });

  /** What every reader of the history has: inputs and results of activities, and what people sent. */
  async function copied() {
    const { events } = await run.handle.fetchHistory();
    const decode = <T>(sent?: temporal.api.common.v1.IPayloads | null): T | undefined =>
      sent?.payloads?.[0] ? defaultPayloadConverter.fromPayload<T>(sent.payloads[0]) : undefined;
    const calls: Call[] = [];
    const approvals: unknown[] = [];
    const results: Result[] = [];
    for (const event of events ?? []) {
      const scheduled = event.activityTaskScheduledEventAttributes;
      const signal = event.workflowExecutionSignaledEventAttributes;
      if (scheduled) {
        const name = scheduled.activityType?.name as Call['name'];
        const taskQueue = scheduled.taskQueue?.name ?? '';
        calls.push({ name, taskQueue, input: decode<Call['input']>(scheduled.input) ?? {} });
      }
      if (signal?.signalName === 'approve') approvals.push(decode(signal.input));
      results.push(decode<Result | null>(event.activityTaskCompletedEventAttributes?.result) ?? {});
    }
    const plan = results.findLast((each) => each.plan !== undefined)?.plan;
    const token = results.find(({ sealed }) => typeof sealed === 'string')?.sealed;
    return { calls, approvals, plan, token };
  }

  /** The calls name approvals by their numbers, so the attacker sends the documents in the same order to his own run. */
  async function attack(calls: readonly Call[], workflowId: string, documents: readonly unknown[]) {
    const attacking = await scenario.client.workflow.start<
      (calls: readonly Call[], sent: number) => Promise<Outcome[]>
    >('attack', { taskQueue: queue, workflowId, args: [calls, documents.length] });
    for (const each of documents) await attacking.signal('approve', each);
    return attacking.result();
  }

  const sent = () =>
    ENDPOINTS.flatMap((path) => ['east', 'west'].map((cluster) => statuses(scenario, cluster, path).length));

  const dangerous = ({ name }: Call) => ['approval', 'envelopes'].includes(GUARDS[name]);

  it('cannot use a run that waits for its last approval: sealed token, approvals and plan are of that run', async () => {
    await run.people({ go: false });
    await run.waitsFor('approval', ({ gate }) => gate === 'go');
    const { calls, approvals, plan, token } = await copied();
    const { taskQueue } = scenario;
    const numbers = [...approvals.keys()].map((index) => index + 1);
    const authority = { plan, approvals: { plan: numbers, go: numbers } };
    const base = { deployment: scenario.name, authority, kind: 'dr' };
    const promotion = { mode: 'planned', token: { source: 'sealed', cluster: 'west', value: token } };
    const made: Call[] = [
      { name: 'demotePrimary', taskQueue, input: { ...base, cluster: 'east', otherCluster: 'west' } },
      { name: 'promoteSecondary', taskQueue, input: { ...base, ...promotion, cluster: 'west', otherCluster: 'east' } },
    ];
    expect([typeof token, approvals.length, typeof plan]).toEqual(['string', 1, 'object']);
    const before = sent();
    const outcomes = await attack([...made, ...calls.filter(dangerous)], `attack-${scenario.name}`, approvals);
    expect(outcomes.length).toBeGreaterThan(2);
    for (const { name, code } of outcomes) expect([name, REFUSED.includes(code ?? '')]).toEqual([name, true]);
    expect(sent()).toEqual(before);
    expect(drPrimaries(scenario)).toEqual(['east']);
  });

  it('is refused every activity that they start alone, on both queues of the workers', async () => {
    const { calls } = await copied();
    const before = scenario.service.calls.length;
    const names = [...new Set(calls.map(({ name }) => name))];
    const outcomes = await Promise.all(
      names.map(async (name) => {
        const { taskQueue, input } = calls.find((each) => each.name === name) ?? { taskQueue: '', input: {} };
        return scenario.client.activity
          .execute(name, {
            id: `alone-${scenario.name}-${name}`,
            ...{ taskQueue, args: [input], startToCloseTimeout: '90s', retry: { maximumAttempts: 1 } },
          })
          .then(
            () => 'done',
            (error: { cause?: { type?: string } }) => error.cause?.type ?? 'another error',
          );
      }),
    );
    expect(names).toContain('createCeremony');
    expect(calls.some(({ taskQueue }) => taskQueue.startsWith(keyTaskQueue('')))).toBe(true);
    expect(new Set(outcomes)).toEqual(new Set(['NOT_APPROVED']));
    expect(scenario.service.calls.length).toBe(before);
  });

  it('cannot use data that the whole run left in its history, even under its Workflow ID', async () => {
    await run.approve('go', 'henry');
    expect(await run.report()).toMatchObject({ outcome: 'completed', loss: { loss: 'none' } });
    const { calls, approvals } = await copied();
    const tried = calls.filter(({ name }) => !['reads', 'people', 'open'].includes(GUARDS[name]));
    const roles = ['demotePrimary', 'promoteSecondary', 'updatePrimary'];
    const tokens = ['startGeneration', 'completeGeneration', 'deleteOperationTokens'];
    expect(tried.map(({ name }) => name)).toEqual(expect.arrayContaining([...roles, ...tokens]));
    const before = scenario.service.calls.filter(({ method }) => method !== 'GET').length;
    // Apart from the rest: with keys of his own in place a copied generation would be refused for another reason.
    const inviting = ({ name }: Call) => name === 'createCeremony';
    const others = tried.filter((call) => !inviting(call));
    const outcomes = [...(await attack(others, scenario.workflowId, approvals))];
    outcomes.push(...(await attack(tried.filter(inviting), scenario.workflowId, approvals)));
    for (const { name, code, result } of outcomes) {
      if (GUARDS[name] === 'own run') {
        // It may tidy up after itself: there is nothing of its own.
        if (name === 'destroyCeremonyKeys') expect(result).toMatchObject({ text: 'already gone' });
        continue;
      }
      expect([name, code, REFUSED.includes(code ?? '')]).toEqual([name, code, true]);
    }
    // An invitation of his own is all that he gets: it names him as nobody, and takes no key of his.
    const changing = scenario.service.calls.filter(({ method }) => method !== 'GET').slice(before);
    expect(changing.map(({ path }) => path).filter((path) => !path.endsWith('operation-token/delete'))).toEqual([]);
    expect(drPrimaries(scenario)).toEqual(['west']);
  });
});
