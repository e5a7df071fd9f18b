import { runbookPlan } from '../../src/contracts/plan-schema';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { loseAnswer, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { cell, expectFewEvents } from '../support/matrix';
import { at, writeRightBeforeDemotion } from '../support/outage';
import { Scenario, WAIT_MS } from '../support/scenario';
import { expectTakenOver } from '../support/take-over';

const RUNBOOK = 'performancePromotion';
const BASE = '/v1/sys/replication/performance';
const DEMOTE = `POST ${BASE}/primary/demote`;
const PROMOTE = `POST ${BASE}/secondary/promote`;
const TOKEN = `POST ${BASE}/primary/secondary-token`;
const REVOKE = `POST ${BASE}/primary/revoke-secondary`;
const UPDATE = `POST ${BASE}/secondary/update-primary`;
const FILTER = { mode: 'deny' as const, paths: ['us-customers/'] };

/**
 * East is DR primary of west and performance primary of europe, which is DR primary of europe-dr at the same time, and of
 * asia, which must not see some of it.
 */
function payments(deployment: Readonly<Record<string, unknown>> = {}): Promise<Scenario> {
  return Scenario.start({
    limits: { primaryGone: '1s' },
    deployment,
    topology: {
      readings: { leaderChangeChance: 0 },
      mounts: ['kv/', 'secret/', 'us-customers/'],
      clusters: ['east', 'west', 'europe', 'europe-dr', 'asia'].map((name) => ({ name, nodes: 1 })),
      performance: { primary: 'east', secondaries: [{ name: 'europe' }, { name: 'asia', filter: FILTER }] },
      dr: [
        { primary: 'east', secondaries: ['west'] },
        { primary: 'europe', secondaries: ['europe-dr'] },
      ],
    },
    drSets: { main: ['east', 'west'], eu: ['europe', 'europe-dr'], asia: ['asia'] },
  });
}

const HOOK = { command: [process.execPath, '--version'], timeout: '30s', idempotent: true };

const BY_HOOK = { quiesce: 'hook', hooks: { quiesce: HOOK, traffic: HOOK, release: HOOK } };

const planned = new Lane(() => payments(BY_HOOK));
const unplanned = new Lane(() => payments({ pathsFilters: { asia: FILTER, europe: 'none' } }));

const start = (scenario: Scenario, input: object) => scenario.run(RUNBOOK, input);

function primaries(scenario: Scenario): string[] {
  return [...scenario.service.clusters.values()]
    .filter((each) => each.snapshotState().performance.mode === 'primary')
    .map(({ name }) => name);
}

/** One performance primary, which the others follow; what is kept away from asia does not reach it. */
async function expectSet(scenario: Scenario, primary: string, followers: readonly string[]): Promise<void> {
  expect(primaries(scenario)).toEqual([primary]);
  for (const each of followers)
    expect([each, scenario.state(each).performance]).toMatchObject([
      each,
      { mode: 'secondary', connectedTo: primary, state: 'stream-wals' },
    ]);
  const stamp = `${primary} ${scenario.service.now()}`;
  scenario.service.cluster(primary).write('us-customers/smith', { stamp });
  scenario.service.cluster(primary).write('secret/for-all', { stamp });
  const deadline = Date.now() + WAIT_MS;
  const got = (name: string) => scenario.service.cluster(name).read('secret/for-all')?.['stamp'] === stamp;
  while (!followers.every(got) && Date.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 20));
  expect(followers.filter((name) => !got(name))).toEqual([]);
  expect(scenario.service.cluster('asia').read('us-customers/smith')).toBeUndefined();
}

/** A write that the new primary cannot have: after the last look, and before the demotion takes effect. */
function lateWrite(scenario: Scenario, primary: string, secondary: string): void {
  const late = { key: 'secret/last', value: { value: `last on ${primary}` }, endpoint: DEMOTE };
  writeRightBeforeDemotion(scenario, primary, secondary, late);
}

/** The promotion soon gives up; what is promoted after the first refusal has time again. */
function refusePromotion(scenario: Scenario, cluster: string): void {
  scenario.limit({ promote: '1s' });
  at(scenario, 'before', cluster, PROMOTE, () => scenario.limit());
  scenario.service.faults.add({ cluster, endpoint: PROMOTE, action: { status: 503 }, times: Infinity });
}

describe('a performance secondary that becomes the performance primary', () => {
  runLanes(planned, unplanned);

  describe('planned', () => {
    planned.it(
      cell(RUNBOOK, 'refused', 'a filtered secondary; unplanned while the primary answers'),
      async (scenario) => {
        const filtered = await (await start(scenario, { to: 'asia' })).failure();
        expect(filtered.code).toBe('PRECONDITION_FAILED');
        expect(filtered.message).toContain('it never got us-customers/');
        const alive = await (await start(scenario, { to: 'europe', from: 'east', mode: 'unplanned' })).failure();
        expect(alive.message).toContain('no cluster answers as performance primary');
        expect(scenario.calls('east', 'performance/primary/demote')).toBe(0);
      },
    );

    planned.it(cell(RUNBOOK, 'taken over at', 'a parked demotion'), async (scenario) => {
      scenario.service.faults.add({ cluster: 'east', endpoint: DEMOTE, action: { status: 403 }, times: Infinity });
      const run = await start(scenario, { to: 'europe' });
      await run.approve('promote');
      await run.waitsFor('decision', ({ step }) => step === 'Demote east');
      await expectTakenOver(scenario, run, RUNBOOK);
      expect((await run.status()).findings).toContainEqual(
        expect.objectContaining({ code: 'no-performance-primary', severity: 'critical' }),
      );
      expect(primaries(scenario)).toEqual(['east']);
    });

    planned.it(cell(RUNBOOK, 'no fault', 'planned'), async (scenario) => {
      const run = await start(scenario, { to: 'europe' });
      await run.approve('promote');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'none' }, parkings: [] });
      const { warnings, choices } = runbookPlan.parse(report.plan?.content);
      expect(warnings.join(' ')).toMatch(/Every token and every lease changes.*Local mounts.*asia may receive/);
      expect(choices).toMatchObject({ 'filter of asia': 'deny us-customers/', 'filter of east': 'no paths filter' });
      expect(report.leftToDo.join('\n')).toMatch(/log in there[^]*audit devices of europe/);
      expect(report.outage?.totalMs).toBeGreaterThan(0);
      expect(report.outage?.peopleMs).toBe(0);
      const steps = report.steps.map(({ name }) => name);
      expect(steps.indexOf('Quiesce the clients')).toBeLessThan(steps.indexOf('Demote east'));
      const served = steps.indexOf('Wait until europe serves');
      const back = ['Lead the clients to the new primary', 'Release the clients'];
      expect(steps.slice(served + 1, served + 3)).toEqual(back);
      expect(report.steps[served + 1]?.activities).toMatchObject([
        { type: 'runHook', observed: expect.stringContaining('traffic hook ended with exit code 0') as string },
      ]);
      await expectSet(scenario, 'europe', ['asia', 'east']);
      // The DR sets of both stay as they were: west has what east has.
      expect(scenario.state('west').dr).toMatchObject({ connectedTo: 'east', state: 'stream-wals' });
      expect(scenario.state('europe-dr').dr).toMatchObject({ connectedTo: 'europe', state: 'stream-wals' });
      await expectFewEvents(RUNBOOK, run);
    });

    const LOST = 'demote, promote, secondary-token, revoke-secondary, update-primary, paths-filter';
    planned.it(cell(RUNBOOK, 'lost answer', LOST), async (scenario) => {
      const id = scenario.state('asia').clusterId;
      const faults = [
        loseAnswer(scenario, 'europe', DEMOTE),
        loseAnswer(scenario, 'east', PROMOTE),
        loseAnswer(scenario, 'east', TOKEN),
        loseAnswer(scenario, 'east', REVOKE),
        loseAnswer(scenario, 'asia', UPDATE),
        loseAnswer(scenario, 'east', `POST ${BASE}/primary/paths-filter/${id}`),
      ];
      const run = await start(scenario, { to: 'east' });
      await run.approve('promote');
      const report = await run.report();
      expect(faults.map(({ hits }) => hits)).toEqual(faults.map(() => 1));
      expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'none' }, parkings: [] });
      expect(statuses(scenario, 'europe', DEMOTE)).toEqual([0]);
      expect(statuses(scenario, 'east', PROMOTE)).toEqual([0]);
      await expectSet(scenario, 'east', ['asia', 'europe']);
      expect(scenario.state('europe-dr').dr).toMatchObject({ connectedTo: 'europe', state: 'stream-wals' });
    });

    planned.it(
      cell(RUNBOOK, 'parked, retry', 'the demotion; then a promotion that is refused ends with the old primary'),
      async (scenario) => {
        const denied = scenario.service.faults.add({
          cluster: 'east',
          endpoint: DEMOTE,
          action: { status: 403 },
          times: Infinity,
        });
        refusePromotion(scenario, 'europe');
        const run = await start(scenario, { to: 'europe' });
        // Too old right before the demotion, which is not begun: the old primary serves while they are asked for.
        await approveLongAgo(scenario, run, 'promote');
        expect(await approveAgain(run, 'promote')).not.toHaveProperty('until');
        const parked = await run.waitsFor('decision', ({ step }) => step === 'Demote east');
        expect(parked.choices.map(({ action }) => action)).toEqual(['retry', 'promote-back', 'leave']);
        denied.remove();
        await run.decide('retry', 'Demote east');
        const report = await run.report();
        expect(report.outcome).toBe('rolled-back');
        expect(report.gates).toHaveLength(2);
        expect(report.leftToDo[0]).toContain('east is the performance primary');
        await expectSet(scenario, 'east', ['asia', 'europe']);
      },
    );

    planned.it(
      `${cell(RUNBOOK, 'parked, skip', 're-pointing of one of the others')}; ${cell(RUNBOOK, 'parked, abort', 're-pointing of one of the others, after a loss that was accepted')}`,
      async (scenario) => {
        const { faults } = scenario.service;
        lateWrite(scenario, 'east', 'europe');
        faults.add({ cluster: 'east', endpoint: UPDATE, action: { status: 403 }, times: Infinity });
        // Its filter cannot be read back: without it asia is not pointed there, and that is told.
        const endpoint = `GET ${BASE}/primary/paths-filter/${scenario.state('asia').clusterId}`;
        faults.add({ cluster: 'europe', endpoint, action: { status: 403 } });
        const run = await start(scenario, { to: 'europe', acceptLoss: 'bounded' });
        await run.approve('promote');
        const WRITE = 'Write the paths filter of asia (before update-primary)';
        await run.waitsFor('decision', ({ step }) => step === WRITE);
        // One that fails holds no other.
        await run.decide('skip', 'Point east at europe (performance)');
        await run.until('east was left', ({ steps }) => steps.some(({ state }) => state === 'skipped'));
        await run.decide('abort', WRITE);
        const report = await run.report();
        expect(report).toMatchObject({ outcome: 'aborted', loss: { loss: 'bounded' } });
        expect(report.outage?.endedBy).toBe('service-ready');
        expect(statuses(scenario, 'asia', UPDATE)).toEqual([]);
        for (const each of ['asia', 'east'])
          expect(report.leftToDo.join('\n')).toContain(`${each} was not seen following europe with its filter`);
        expect(report.leftToDo.join('\n')).not.toContain('DR operation token');
        expect(primaries(scenario)).toEqual(['europe']);
      },
    );
  });

  describe('unplanned', () => {
    unplanned.it(cell(RUNBOOK, 'refused', 'while the failed primary has a usable DR secondary'), async (scenario) => {
      // It heard of a write that never came, so that it refuses to be promoted.
      scenario.service.cluster('europe').holdStream('performance', true);
      scenario.service.cluster('east').write('secret/late', { value: 'late' });
      await new Promise((resolve) => setTimeout(resolve, 300));
      scenario.state('europe');
      await scenario.service.cluster('east').kill();
      scenario.service.advanceClock(3_000);
      const { code, message, details } = await (await start(scenario, { to: 'europe', mode: 'unplanned' })).failure();
      expect(code).toBe('PRECONDITION_FAILED');
      expect(message).toContain('west could be promoted');
      expect(JSON.stringify(details)).toContain('Start drFailover to west');
      expect(primaries(scenario)).toEqual(['east']);
    });

    unplanned.it(cell(RUNBOOK, 'abort at', 'the force gate'), async (scenario) => {
      scenario.limit({ promote: '1s' });
      const run = await start(scenario, { to: 'europe', mode: 'unplanned', overrideDrSecondary: true });
      await run.approve('promote');
      await run.decide('force');
      expect(await run.waitsFor('approval', ({ gate }) => gate === 'force')).not.toHaveProperty('until');
      await run.control('abort', { reason: 'east comes back' });
      const report = await run.report();
      // Since when east is gone nobody knows: at the latest since the run began, not since it was approved.
      expect(report).toMatchObject({ outcome: 'aborted', outage: { startedAt: report.startedAt, atLeast: true } });
      expect(scenario.state('europe').performance.mode).toBe('secondary');
      // However such a run ends, also by a failover that takes it over: what became of the promotion is told.
      expect(report.findings).toContainEqual(
        expect.objectContaining({ code: 'no-performance-primary', severity: 'critical' }),
      );
      expect(report.leftToDo.join('\n')).toContain('no cluster seen as performance primary');
    });

    unplanned.it(
      `${cell(RUNBOOK, 'lost answer', 'promote by force')}: unplanned, overridden, two approvers`,
      async (scenario) => {
        scenario.limit({ promote: '1s' });
        const run = await start(scenario, { to: 'europe', mode: 'unplanned', overrideDrSecondary: true });
        // Heard since: whoever approves looks once more, and no clock ends that.
        await approveLongAgo(scenario, run, 'promote');
        expect(await approveAgain(run, 'promote')).not.toHaveProperty('until');
        await run.decide('force');
        await run.approve('force', 'grace');
        expect(scenario.calls('europe', 'secondary/promote')).toBeGreaterThan(1);
        const lost = loseAnswer(scenario, 'europe', PROMOTE);
        scenario.limit();
        await run.approve('force', 'henry');
        await run.until('the forced promotion', () => lost.hits > 0);
        const report = await run.report();
        expect(report.outcome).toBe('completed');
        expect(report.gates.filter(({ state }) => state === 'approved').map(({ gate }) => gate)).toEqual([
          'promote',
          'promote',
          'force',
        ]);
        expect(report.leftToDo.join('\n')).toContain('Keep east away');
        expect(statuses(scenario, 'europe', PROMOTE).filter((status) => status !== 503)).toEqual([0]);
        expect(scenario.state('europe').filters).toEqual([scenario.state('asia').clusterId]);
        expect(report.filters).toContainEqual(
          expect.objectContaining({ secondary: 'asia', after: 'deny us-customers/' }),
        );
        expect(scenario.state('asia').performance).toMatchObject({ connectedTo: 'europe', state: 'stream-wals' });
      },
    );

    unplanned.it(cell(RUNBOOK, 'refused', 'two performance primaries'), async (scenario) => {
      await scenario.service.cluster('east').restart();
      const run = await start(scenario, { to: 'asia', from: 'europe', acceptLoss: 'bounded' });
      expect((await run.failure()).message).toContain('one performance primary');
    });
  });
});
