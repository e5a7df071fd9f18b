import { join } from 'node:path';
import type { RunMemo } from '../../src/contracts/run-status';
import { ceremonyKeyFiles } from '../support/directory';
import { actions } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { replayRun } from '../support/replay';
import { reportOf } from '../support/reports';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

const MARKER_STEP = 'Write a marker on east and wait until west has it';
const stopped = new Lane(() => Scenario.start());
const resumed = new Lane(() => Scenario.start());

/** The text that the tab User Metadata of the Web UI shows. */
async function currentDetails({ handle, scenario }: TestRun): Promise<string> {
  const { currentDetails: details = '' } = await handle.query<{ readonly currentDetails?: string }>(
    '__temporal_workflow_metadata',
  );
  scenario.shows(details);
  return details;
}

const memoOf = async ({ handle }: TestRun) => (await handle.describe()).memo as unknown as RunMemo;
const codes = ({ findings }: { readonly findings: readonly { readonly code: string }[] }) =>
  findings.map(({ code }) => code);
const demotions = (scenario: Scenario, cluster = 'east') => scenario.calls(cluster, 'dr/primary/demote');
const attempts = (scenario: Scenario) => scenario.calls('west', 'generate-operation-token/attempt');

/** One share is in hand. */
async function holdsOne(run: TestRun): Promise<void> {
  await run.share('ada');
  await run.waitsFor('shares', ({ held }) => held.length === 1);
}

/** Nothing of the run's ceremony is left on the disk. */
function expectNoKeys({ directory }: Scenario): void {
  expect(ceremonyKeyFiles(join(directory, 'keys'))).toEqual([]);
}

/** What the workers have in force meanwhile; the run takes it when it starts. */
async function whileInForce(
  scenario: Scenario,
  change: object,
  member: 'gates' | 'ceremony',
  work: () => Promise<void>,
): Promise<void> {
  const inForce = scenario.inForce[member];
  const before = { ...inForce };
  Object.assign(inForce, change);
  await work().finally(() => Object.assign(inForce, before));
}

describe('people control a run', () => {
  runLanes(stopped, resumed);

  describe('that is stopped', () => {
    const { it } = stopped;

    it('abort while people are waited for: clean-ups run, the report says so', async (scenario) => {
      const run = await scenario.start();
      await holdsOne(run);
      await run.waitsFor('approval');
      await showsWhatItWaitsFor(run);
      await run.control('abort', { reason: 'another day' });
      const report = await run.report();
      expect(report.outcome).toBe('aborted');
      expect(report.controls).toMatchObject([{ control: 'abort', by: { name: 'grace' }, reason: 'another day' }]);
      expect(report.leftToDo).toEqual(['The run was stopped by grace: another day']);
      expect(report.steps.find(({ name }) => name === 'Destroy the ceremony keys')?.outcome).toBe('done');
      expectNoKeys(scenario);
      expect((await run.handle.describe()).status.name).toBe('COMPLETED');
    });

    /** What describe, the Web UI and the status query show while people are waited for. */
    async function showsWhatItWaitsFor(run: TestRun): Promise<void> {
      const { scenario } = run;
      const phase = { phase: 'waiting-for-people', runbook: 'drSwitchover' };
      const status = await run.status();
      expect(status).toMatchObject({ ...phase, paused: false });
      expect(status.planText).toContain('Demote east');
      const both = /approval of gate plan.*key shares|key shares.*approval of gate plan/;
      const waitingFor = expect.stringMatching(both) as string;
      expect(await memoOf(run)).toMatchObject({ ...phase, deployment: scenario.name, waitingFor });
      const details = await currentDetails(run);
      expect(details).not.toMatch(/^\s*\|.*\|/m);
      expect(details).toContain(`runbook approve ${scenario.workflowId} --gate plan`);
      for (const holder of ['bert', 'cleo', 'dora', 'emil'])
        expect(details).toContain(`runbook share ${scenario.workflowId} --holder ${holder}`);
      scenario.shows(JSON.stringify(status));
    }

    it('a change window is waited for once everything is approved; a cancel request ends the wait with its report', async (scenario) => {
      const notBefore = new Date(Date.now() + 3_600_000).toISOString();
      const notAfter = new Date(Date.now() + 7_200_000).toISOString();
      const run = await scenario.start({ window: { notBefore, notAfter } });
      await run.people({ go: false });
      const waiting = await run.waitsFor('window');
      expect(new Date(waiting.until).toISOString()).toBe(notBefore);
      expect(await currentDetails(run)).toContain('waiting for its change window');
      await run.handle.cancel();
      const report = await run.report();
      expect(report.controls).toMatchObject([{ control: 'cancel' }]);
      expectNoKeys(scenario);
      expect(report).toMatchObject({ outcome: 'aborted', asked: { window: { notBefore, notAfter } } });
      expect(demotions(scenario)).toBe(0);
    });

    it('abort of a run that waits for a held stream before the demotion leaves the primary as it is; an inventory that is changed while people are asked: its plan is another one, and is asked for again', async (scenario) => {
      scenario.limit({ catchUp: '1s' });
      scenario.service.cluster('west').holdStream('dr', true);
      const run = await scenario.start({ go: 'auto' });
      await run.shares();
      const { planDigest: before } = await run.waitsFor('approval', ({ gate }) => gate === 'plan');
      const go = { ...scenario.inForce.gates.go, approvals: 2 };
      await whileInForce(scenario, { go }, 'gates', async () => {
        await run.approve('plan');
        await run.waitsFor('approval', ({ planDigest }) => planDigest !== before);
        const status = await run.status();
        expect(codes(status)).toContain('plan-changed');
        expect(status.planText).toMatch(/"inventory":"[\w-]{43}"/);
        await run.approve('plan');
        await run.parks(MARKER_STEP);
        await run.control('abort', { reason: 'not today' });
        const report = await run.report();
        expect(report.outcome).toBe('aborted');
        expect(report.tokens).toMatchObject([{ cluster: 'west', state: 'deleted' }]);
      });
      scenario.service.cluster('west').holdStream('dr', false);
      expect(demotions(scenario)).toBe(0);
      expectNoKeys(scenario);
    });

    it('a ceremony ends the run when too few shares came, and names the missing holders', async (scenario) => {
      await whileInForce(scenario, { collectForMs: 2_000 }, 'ceremony', async () => {
        const report = await (await scenario.start()).report();
        expect(report.outcome).toBe('aborted');
        const text = 'only 0 of 3 key shares arrived in time; missing: ada, bert, cleo, dora, emil';
        expect(report.leftToDo.join()).toContain(text);
        expect(attempts(scenario)).toBe(0);
      });
    });
  });

  describe('that continues', () => {
    const { it } = resumed;

    it('pause at the next step, a worker that restarts, a parked step: the run continues and completes', async (scenario) => {
      const run = await scenario.start();
      await holdsOne(run);

      // The worker is away while a person answers.
      await scenario.stopWorker();
      expect((await memoOf(run)).waitingFor).toContain('key shares');
      await run.control('pause', { reason: 'hold it' });
      await scenario.startWorker();
      await run.receiptOf('pause');
      for (const holder of ['bert', 'cleo']) await run.share(holder);
      await run.approve('plan');
      expect(await run.waitsFor('resume')).toMatchObject({ by: 'grace', reason: 'hold it' });
      expect(await run.status()).toMatchObject({ paused: true });
      expect((await memoOf(run)).waitingFor).toContain('resume (paused by grace)');
      expect(await currentDetails(run)).toContain(`runbook resume ${scenario.workflowId}`);
      expect(attempts(scenario)).toBe(0);

      scenario.limit({ catchUp: '1s' });
      scenario.service.cluster('west').holdStream('dr', true);
      await run.control('resume', { reason: 'go on' });
      await run.do('approve go');
      const parked = await run.parks(MARKER_STEP);
      const needed = expect.stringContaining('last_remote_wal of west') as string;
      expect(parked).toMatchObject({ code: 'CONFIRMATION_TIMEOUT', needed });
      expect(parked.observed).toContain('last remote WAL');
      expect(actions(parked)).toEqual(['retry', 'abort']);
      expect(await currentDetails(run)).toContain(`runbook decide ${scenario.workflowId} --parking 1 --action retry`);
      // A pause while the step is parked counts after it, and not before a cluster serves.
      await run.control('pause', { reason: 'once more' });
      scenario.limit();
      await run.do('retry');
      // Accepted, and under way: nobody is waited for, and every surface says so, also without a worker.
      await run.until('the retry is carried out', ({ carryingOut = [] }) => carryingOut.length > 0);
      expect((await run.status()).waiting).toEqual([]);
      const accepted = /^"retry" of "Write a marker on east .*accepted, decided by grace/;
      const carryingOut = expect.stringMatching(accepted) as string;
      expect(await memoOf(run)).toMatchObject({ carryingOut });
      expect(await currentDetails(run)).toContain('is being carried out');
      expect((await reportOf(run)).carryingOut).toEqual(carryingOut);
      scenario.service.cluster('west').holdStream('dr', false);
      await run.waitsFor('resume');
      expect((await run.status()).carryingOut).toEqual([]);
      expect(await memoOf(run)).not.toHaveProperty('carryingOut');
      await run.control('resume');
      const report = await run.report();
      expect(report.outcome).toBe('completed');
      expect(report.outage?.peopleMs).toBe(0);
      const decision = { action: 'retry', by: { name: 'grace', how: 'signed' } };
      expect(report.parkings).toMatchObject([{ step: MARKER_STEP, decision }]);
      const marked = report.steps.filter(({ name }) => name === MARKER_STEP);
      expect(marked.map(({ attempt, outcome }) => `${attempt} ${outcome}`)).toEqual(['1 failed', '2 done']);
      const controls = report.controls.map(({ control, by }) => `${control} ${by.name}`);
      expect(controls).toEqual(['pause grace', 'resume grace', 'pause grace', 'resume grace']);
      expect(report.steps.filter(({ name }) => name.startsWith('Invite the key holders'))).toHaveLength(1);
      await replayRun(run);
    });

    it('reset, it makes no changes before a decision acknowledges it, gets new shares and approvals, and completes; behind the invitation the old keys are void', async (scenario) => {
      const first = await scenario.start({ to: 'east' });
      await holdsOne(first);
      await first.approve('plan');
      await first.until('the plan gate is passed', ({ waiting }) => !waiting.some((each) => each.for === 'approval'));

      const { runId: old } = await first.status();
      const second = await first.reset('createCeremony');
      expect(await second.parks()).toMatchObject({ step: 'Invite the key holders', code: 'RUN_WAS_RESET' });
      expect((await second.status()).runId).not.toBe(old);
      await second.do('retry');
      // What was sent to the run before is delivered again and does not count.
      expect((await second.waitsFor('shares')).held).toEqual([]);
      const { receipts } = await second.status();
      expect(receipts.filter(({ signal, verdict }) => signal !== 'decide' && verdict === 'accepted')).toEqual([]);
      await holdsOne(second);

      // The share that is delivered again shows that the keys belong to the run before.
      const third = await second.reset('openEnvelopes');
      const again = { step: 'Invite the key holders again (epoch 2)', code: 'RUN_WAS_RESET' };
      expect(await third.parks()).toMatchObject(again);
      await third.do('retry');
      expect(await third.waitsFor('shares', ({ epoch }) => epoch === 2)).toMatchObject({ held: [] });
      await third.people();
      const report = await third.report();
      expect(report.outcome).toBe('completed');
      expect(codes(report)).toContain('ceremony-keys-lost');
      expect(report.parkings.at(-1)).toMatchObject({ code: 'RUN_WAS_RESET', decision: { action: 'retry' } });
      expect(demotions(scenario, 'west')).toBe(1);
    });
  });
});
