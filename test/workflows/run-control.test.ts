import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunMemo } from '../../src/contracts/run-status';
import { replayRun } from '../support/replay';
import { reportOf } from '../support/reports';
import { openScenario } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';
import { temporalServer } from '../support/temporal-server';
import { cell } from '../support/matrix';

const MARKER_STEP = 'Write a marker on east and wait until west has it';
const HOLDERS = ['ada', 'bert', 'cleo', 'dora', 'emil'];

/** The text that the tab User Metadata of the Web UI shows. */
async function currentDetails(run: TestRun): Promise<string> {
  return run.handle.query<string>('__temporal_workflow_metadata').then((metadata) => {
    const { currentDetails: details } = metadata as unknown as { readonly currentDetails?: string };
    return details ?? '';
  });
}

async function memoOf(run: TestRun): Promise<RunMemo> {
  return (await run.handle.describe()).memo as unknown as RunMemo;
}

/** Nothing of the run's ceremony is left on the disk. */
async function keyRecords(scenario: Scenario): Promise<string[]> {
  const names = await readdir(join(scenario.directory, 'keys'), { recursive: true });
  return names.filter((name) => name.endsWith('.json'));
}

describe('people control a run', () => {
  let scenario: Scenario;
  const told: string[] = [];
  openScenario((opened) => (scenario = opened));
  afterEach(() => scenario.shows(...told));

  it(
    cell('drSwitchover', 'abort at', 'abort while people are waited for: clean-ups run, the report says so'),
    async () => {
      const run = await scenario.start();
      await run.share('ada');
      await run.waitsFor('shares', ({ held }) => held.length === 1);
      await run.waitsFor('approval');
      await showsWhatItWaitsFor(run);
      await run.control('abort', { reason: 'another day' });
      const report = await run.report();
      told.push(JSON.stringify(report));
      expect(report.outcome).toBe('aborted');
      expect(report.controls).toMatchObject([{ control: 'abort', by: 'grace', reason: 'another day' }]);
      expect(report.leftToDo).toEqual(['The run was stopped by grace: another day']);
      expect(report.steps.find(({ name }) => name === 'Destroy the ceremony keys')?.outcome).toBe('done');
      expect(await keyRecords(scenario)).toEqual([]);
      expect((await run.handle.describe()).status.name).toBe('COMPLETED');
    },
  );

  /** What describe, the Web UI and the status query show while people are waited for. */
  async function showsWhatItWaitsFor(run: TestRun): Promise<void> {
    const status = await run.status();
    expect(status).toMatchObject({ phase: 'waiting-for-people', runbook: 'drSwitchover', paused: false });
    expect(status.planText).toContain('Demote east');
    const described = await run.handle.describe();
    const { name } = scenario;
    expect(described.memo).toMatchObject({
      ...{ runbook: 'drSwitchover', deployment: name, phase: 'waiting-for-people' },
      waitingFor: expect.stringMatching(
        /approval of gate plan.*key shares|key shares.*approval of gate plan/,
      ) as string,
    });
    const details = await currentDetails(run);
    expect(details).not.toMatch(/^\s*\|.*\|/m);
    expect(details).toContain(`runbook approve ${scenario.workflowId} --gate plan`);
    for (const holder of HOLDERS.slice(1))
      expect(details).toContain(`runbook share ${scenario.workflowId} --holder ${holder}`);
    told.push(details, JSON.stringify(status));
  }

  it(
    cell(
      'drSwitchover',
      'abort at',
      'a change window is waited for once everything is approved; a cancel request ends the wait with its report',
    ),
    async () => {
      const notBefore = new Date(Date.now() + 3_600_000).toISOString();
      const notAfter = new Date(Date.now() + 7_200_000).toISOString();
      const run = await scenario.start({ window: { notBefore, notAfter } });
      await run.people({ go: false });
      const waiting = await run.waitsFor('window');
      expect(new Date(waiting.until).toISOString()).toBe(notBefore);
      expect(await currentDetails(run)).toContain('waits for its change window');
      await run.handle.cancel();
      const report = await run.report();
      expect(report.controls).toMatchObject([{ control: 'cancel' }]);
      expect(await keyRecords(scenario)).toEqual([]);
      expect(report).toMatchObject({ outcome: 'aborted', window: { notBefore, notAfter } });
      expect(scenario.calls('east', 'dr/primary/demote')).toBe(0);
    },
  );

  it(`${cell('drSwitchover', 'abort at', 'abort of a run that waits for a held stream before the demotion leaves the primary as it is')}; an inventory that is changed while people are asked: its plan is another one, and is asked for again`, async () => {
    scenario.limit({ catchUp: '1s' });
    scenario.service.cluster('west').holdStream('dr', true);
    const run = await scenario.start({ go: 'auto' });
    await run.shares();
    const { planDigest: before } = await run.waitsFor('approval', ({ gate }) => gate === 'plan');
    await whileInForce({ go: { ...scenario.inForce.gates.go, approvals: 2 } }, 'gates', async () => {
      await run.approve('plan');
      const { planDigest } = await run.waitsFor('approval', (each) => each.planDigest !== before);
      const { findings, planText } = await run.status();
      expect(findings.map(({ code }) => code)).toContain('plan-changed');
      expect(planDigest).not.toBe(before);
      expect(planText).toMatch(/"inventory":"[\w-]{43}"/);
      await run.approve('plan');
      await run.waitsFor('decision', ({ step }) => step === MARKER_STEP);
      await run.control('abort', { reason: 'not today' });
      const report = await run.report();
      expect(report.outcome).toBe('aborted');
      expect(report.tokens).toMatchObject([{ cluster: 'west', state: 'deleted' }]);
    });
    scenario.service.cluster('west').holdStream('dr', false);
    scenario.limit();
    expect(scenario.calls('east', 'dr/primary/demote')).toBe(0);
    expect(await keyRecords(scenario)).toEqual([]);
  });

  /** What the workers have in force meanwhile; the run takes it when it starts. */
  async function whileInForce(change: object, member: 'gates' | 'ceremony', work: () => Promise<void>): Promise<void> {
    const inForce = scenario.inForce[member];
    const before = { ...inForce };
    Object.assign(inForce, change);
    await work().finally(() => Object.assign(inForce, before));
  }

  it('a ceremony ends the run when too few shares came, and names who gave none', async () => {
    const attempts = scenario.calls('west', 'generate-operation-token/attempt');
    await whileInForce({ collectForMs: 2_000 }, 'ceremony', async () => {
      const report = await (await scenario.start()).report();
      told.push(JSON.stringify(report));
      expect(report.outcome).toBe('aborted');
      expect(report.leftToDo.join()).toContain(
        'only 0 of 3 key shares came in time; not yet: ada, bert, cleo, dora, emil',
      );
      expect(scenario.calls('west', 'generate-operation-token/attempt')).toBe(attempts);
    });
  });

  it('pause at the next step, a worker that restarts, a parked step: the run goes on and completes', async () => {
    const attempts = () => scenario.calls('west', 'generate-operation-token/attempt');
    const before = attempts();
    const run = await scenario.start();
    await run.share('ada');
    await run.waitsFor('shares', ({ held }) => held.length === 1);

    // The worker is away while a person answers.
    await scenario.stopWorker();
    const invitation = (await memoOf(run)).waitingFor;
    expect(invitation).toContain('key shares');
    await run.control('pause', { reason: 'hold it' });
    await scenario.startWorker();
    await run.until('the pause has its receipt', ({ receipts }) => receipts.some(({ signal }) => signal === 'pause'));
    for (const holder of ['bert', 'cleo']) await run.share(holder);
    await run.approve('plan');
    expect(await run.waitsFor('resume')).toMatchObject({ by: 'grace', reason: 'hold it' });
    expect(await run.status()).toMatchObject({ paused: true });
    expect((await memoOf(run)).waitingFor).toContain('resume (paused by grace)');
    expect(await currentDetails(run)).toContain(`runbook resume ${scenario.workflowId}`);
    expect(attempts()).toBe(before);

    scenario.limit({ catchUp: '1s' });
    scenario.service.cluster('west').holdStream('dr', true);
    await run.control('resume', { reason: 'go on' });
    await run.approve('go', 'henry');
    const parked = await run.waitsFor('decision');
    expect(parked).toMatchObject({
      step: MARKER_STEP,
      code: 'CONFIRMATION_TIMEOUT',
      needed: expect.stringContaining('last_remote_wal of west') as string,
    });
    expect(parked.observed).toContain('last remote WAL');
    expect(parked.choices.map(({ action }) => action)).toEqual(['retry', 'abort']);
    expect(await currentDetails(run)).toContain(`runbook decide ${scenario.workflowId} --parking 1 --action retry`);
    // A pause while the step is parked counts after it, and not before a cluster serves.
    await run.control('pause', { reason: 'once more' });
    scenario.limit();
    await run.decide('retry');
    // Accepted, and under way: nobody is waited for, and every surface says so, also without a worker.
    await run.until('the retry is carried out', ({ carryingOut = [] }) => carryingOut.length > 0);
    expect((await run.status()).waiting).toEqual([]);
    const carriedOut = expect.stringMatching(
      /^"retry" of "Write a marker on east .*accepted, decided by grace/,
    ) as string;
    expect((await run.handle.describe()).memo).toMatchObject({ carryingOut: carriedOut });
    expect(await currentDetails(run)).toContain('is being carried out');
    expect((await reportOf(run)).carryingOut).toEqual(carriedOut);
    scenario.service.cluster('west').holdStream('dr', false);
    await run.waitsFor('resume');
    expect((await run.status()).carryingOut).toEqual([]);
    expect((await run.handle.describe()).memo).not.toHaveProperty('carryingOut');
    await run.control('resume');
    const report = await run.report();
    told.push(JSON.stringify(report));
    expect(report.outcome).toBe('completed');
    expect(report.outage?.peopleMs).toBe(0);
    expect(report.parkings).toMatchObject([
      {
        step: MARKER_STEP,
        decision: { action: 'retry', by: { name: 'grace', how: 'signed' } },
      },
    ]);
    expect(
      report.steps.filter(({ name }) => name === MARKER_STEP).map(({ attempt, outcome }) => [attempt, outcome]),
    ).toEqual([
      [1, 'failed'],
      [2, 'done'],
    ]);
    expect(report.controls.map(({ control, by }) => `${control} ${by}`)).toEqual([
      'pause grace',
      'resume grace',
      'pause grace',
      'resume grace',
    ]);
    expect(report.steps.filter(({ name }) => name.startsWith('Invite the key holders'))).toHaveLength(1);
    await replayRun(run);
  });

  /** Resets to where the first activity of this type was ordered. */
  const reset = async (run: TestRun, after: string): Promise<TestRun> => {
    const { events } = await run.handle.fetchHistory();
    const scheduled = events?.find((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === after);
    const completed = scheduled?.activityTaskScheduledEventAttributes?.workflowTaskCompletedEventId;
    const { runId } = await scenario.client.workflowService.resetWorkflowExecution({
      namespace: temporalServer().namespace,
      workflowExecution: { workflowId: run.handle.workflowId, runId: (await run.handle.describe()).runId },
      workflowTaskFinishEventId: completed,
      reason: 'a test of the reset',
      requestId: randomUUID(),
    });
    return scenario.attach(run.handle.workflowId, runId);
  };

  it('reset, it changes nothing before a decision acknowledges it, gets new shares and approvals, and completes; behind the invitation the old keys are void', async () => {
    const [from, to] = scenario.state('east').dr.mode === 'primary' ? ['east', 'west'] : ['west', 'east'];
    const demotions = scenario.calls(from, 'dr/primary/demote');
    const first = await scenario.start({ to });
    await first.share('ada');
    await first.waitsFor('shares', ({ held }) => held.length === 1);
    await first.approve('plan');
    await first.until('the plan gate is passed', ({ waiting }) => !waiting.some((each) => each.for === 'approval'));

    const { runId: old } = await first.status();
    const second = await reset(first, 'createCeremony');
    expect(await second.waitsFor('decision')).toMatchObject({ step: 'Invite the key holders', code: 'RUN_WAS_RESET' });
    expect((await second.status()).runId).not.toBe(old);
    await second.decide('retry');
    await second.waitsFor('shares');
    // What was sent to the run before is delivered again and does not count.
    const { receipts } = await second.status();
    expect(receipts.filter(({ signal, verdict }) => signal !== 'decide' && verdict === 'accepted')).toEqual([]);
    expect((await second.waitsFor('shares')).held).toEqual([]);
    await second.share('ada');
    await second.waitsFor('shares', ({ held }) => held.length === 1);

    // The share that is delivered again shows that the keys belong to the run before.
    const third = await reset(second, 'openEnvelopes');
    const parked = await third.waitsFor('decision');
    expect(parked).toMatchObject({ step: 'Invite the key holders again (epoch 2)', code: 'RUN_WAS_RESET' });
    await third.decide('retry');
    expect(await third.waitsFor('shares', ({ epoch }) => epoch === 2)).toMatchObject({ held: [] });
    await third.people();
    const report = await third.report();
    told.push(JSON.stringify(report));
    expect(report.outcome).toBe('completed');
    expect(report.findings.map(({ code }) => code)).toContain('ceremony-keys-lost');
    expect(report.parkings.at(-1)).toMatchObject({ code: 'RUN_WAS_RESET', decision: { action: 'retry' } });
    expect(scenario.calls(from, 'dr/primary/demote')).toBe(demotions + 1);
  });
});
