import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import type { WorkflowStartOptions } from '@temporalio/client';
import { historyText } from '../support/secret-search';
import { startWithPayload, UNREADABLE, UNREADABLE_CONTENT } from '../support/raw-payloads';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

/** The one POST among the reads: it asks what a token may do. */
const READING_POST = '/v1/sys/capabilities-self';

/** The one key that a plan writes. */
const WRITE_PROOF = 'east POST /v1/kv/data/runbooks-marker-after';

describe('before any change', () => {
  let scenario: Scenario;

  openScenario((opened) => (scenario = opened), { topology: { readings: { optionalFieldMissingChance: 0 } } });

  /** Nothing was touched but this. */
  function expectUntouched(...but: readonly string[]): void {
    const changing = scenario.service.calls
      .filter(({ method, path }) => !['GET', 'LIST'].includes(method) && path !== READING_POST)
      .map(({ cluster, method, path }) => `${cluster} ${method} ${path}`);
    expect(changing.filter((call) => !but.includes(call))).toEqual([]);
  }

  const input = (more: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, unknown>> => ({
    deployment: scenario.name,
    to: 'west',
    reason: 'a test of the input',
    ...more,
  });

  describe('a wrong start input fails the run, names what is wrong, and changes nothing', () => {
    afterEach(() => expectUntouched());

    it.each<[string, () => unknown, string, RegExp]>([
      ['an unknown field', () => input({ forse: true }), 'INVALID_INPUT', /forse is not a known field/],
      ['a text instead of an object', () => 'west', 'INVALID_INPUT', /input: .*object/],
      ['no input at all', () => undefined, 'INVALID_INPUT', /none was given/],
    ])('%s', async (_what, raw, code, message) => {
      const { client, taskQueue } = scenario;
      const given = raw();
      const started = { taskQueue, workflowId: `input-${randomUUID()}`, args: given === undefined ? [] : [given] };
      const { workflowId } = await client.workflow.start('drSwitchover', started);
      expect(await scenario.attach(workflowId).failure()).toMatchObject({
        code,
        message: expect.stringMatching(message) as string,
      });
    });

    it.each(Object.entries(UNREADABLE))('an input that cannot be decoded: %s', async (_encoding, payload) => {
      const run = scenario.attach(await startWithPayload(scenario, 'drSwitchover', payload));
      const failure = await run.failure();
      expect(failure).toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining('could not be read') as string,
      });
      const later = { events: (await run.events()).slice(1) };
      expect(historyText(later)).not.toContain(UNREADABLE_CONTENT);
      expect(scenario.logLines.join('\n')).not.toContain(UNREADABLE_CONTENT);
    });

    it('an unknown runbook is answered with the list of those that exist', async () => {
      const run = await scenario.startRunbook('drSwitchOver', input(), `input-${randomUUID()}`);
      const failure = await run.failure();
      expect(failure.code).toBe('UNKNOWN_RUNBOOK');
      expect(failure.message).toMatch(/drSwitchOver.*drSwitchover, drFailover, .*walSampler/);
    });

    it.each<[string, Partial<WorkflowStartOptions>]>([
      ['a run timeout', { workflowRunTimeout: '1 hour' }],
      ['a retry policy', { retry: { maximumAttempts: 2 } }],
    ])('%s would end the run without clean-up', async (what, options) => {
      const handle = await scenario.client.workflow.start('drSwitchover', {
        taskQueue: scenario.taskQueue,
        workflowId: scenario.workflowId,
        args: [input()],
        ...options,
      });
      const failure = await scenario.attach(handle.workflowId, handle.firstExecutionRunId).failure();
      expect(failure.code).toBe('RUN_TIMEOUT_SET');
      expect(failure.message).toContain(what);
    });

    it('a deployment that the inventory does not have', async () => {
      const run = await scenario.startRunbook(
        'drSwitchover',
        input({ deployment: 'no-such-deployment' }),
        'deployment:no-such-deployment',
      );
      expect((await run.failure()).code).toBe('UNKNOWN_DEPLOYMENT');
    });

    it.each([
      ['drSwitchover', { to: 'atlantis' }],
      ['operationTokenCeremony', { cluster: 'atlantis', uses: ['dr.promote'], keepFor: '1h' }],
    ] as const)('a cluster that the deployment does not have: %s', async (runbook, asked) => {
      const { code, message } = await (await scenario.run(runbook, asked)).failure();
      expect([code, message]).toEqual(['UNKNOWN_CLUSTER', expect.stringContaining('atlantis')]);
    });
  });

  describe('a deployment that is not ready is refused with what was observed and what is needed', () => {
    // A plan proves that the primary takes writes, on the key beside the marker.
    afterEach(() => expectUntouched(WRITE_PROOF));

    it('a token file that holds something else', async () => {
      const token = scenario.workersToken('east');
      await writeFile(scenario.tokenFile, 'hvs.notAtokenThatAnyClusterKnows');
      const message = await scenario.refusal('drSwitchover', { to: 'west' });
      await writeFile(scenario.tokenFile, token);
      expect(message).toContain(
        'credential works (east): observed PERMISSION_DENIED: an expired token, or one that the cluster does not recognize, needed a token that the cluster accepts',
      );
      expect(message).not.toContain('hvs.');
    });

    it('dryRun shows the plan and every precondition, takes no lock, and makes no changes', async () => {
      const report = await (await scenario.start({ dryRun: true }, `dry-${randomUUID()}`)).report();
      expect(report.outcome).toBe('planned');
      expect(report.plan?.content.operations[0]).toMatchObject({
        ...{ kind: 'dr', endpoint: 'primary/demote', gate: 'plan' },
        on: { cluster: 'east' },
        with: { cluster: 'west' },
      });
      expect(report.plan?.content.steps).toContainEqual({ step: 'Demote east', note: 'the OUTAGE begins' });
      expect(report.preconditions.filter(({ verdict }) => verdict === 'fail')).toEqual([]);
      expect(report.preconditions.length).toBeGreaterThan(10);
      expect(report.preconditions.filter(({ observed, needed }) => observed === '' || needed === '')).toEqual([]);
      await expect(scenario.client.workflow.getHandle(scenario.workflowId).describe()).resolves.toMatchObject({
        status: { name: 'FAILED' },
      });
    });
  });
});
