import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { actions, expectFiltered, expectFollows, loseAnswers, refuse, refusePromotion } from '../support/faults';
import { statuses, writeRightBeforeDemotion } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import { FILTER, replicating, Scenario } from '../support/scenario';

const NAME = 'performancePromotion';
const BASE = '/v1/sys/replication/performance';
const DEMOTE = `POST ${BASE}/primary/demote`;
const PROMOTE = `POST ${BASE}/secondary/promote`;
const TOKEN = `POST ${BASE}/primary/secondary-token`;
const REVOKE = `POST ${BASE}/primary/revoke-secondary`;
const UPDATE = `POST ${BASE}/secondary/update-primary`;

/**
 * East is DR primary of west and performance primary of europe, which is DR primary of europe-dr at the same time, and of
 * asia, which must not see some of it.
 */
function payments(deployment: Readonly<Record<string, unknown>>): Promise<Scenario> {
  const sets = { main: ['east', 'west'], eu: ['europe', 'europe-dr'], asia: ['asia'] };
  const site = replicating(sets, { asia: FILTER }, { readings: { leaderChangeChance: 0 } });
  return Scenario.start({ ...site, deployment, limits: { primaryGone: '1s' } });
}

const HOOK = { command: ['/bin/true'], timeout: '30s', idempotent: true };
const BY_HOOK = { quiesce: 'hook', hooks: { quiesce: HOOK, traffic: HOOK, release: HOOK } };

const planned = new Lane(() => payments(BY_HOOK));
const unplanned = new Lane(() => payments({ pathsFilters: { asia: FILTER, europe: 'none' } }));

const primaries = ({ service }: Scenario) =>
  [...service.clusters.values()].flatMap((each) =>
    each.snapshotState().performance.mode === 'primary' ? [each.name] : [],
  );

/** One performance primary, which the others follow; what is kept away from asia does not reach it. */
async function expectSet(scenario: Scenario, primary: string, followers: readonly string[]): Promise<void> {
  expect(primaries(scenario)).toEqual([primary]);
  for (const each of followers) expectFollows(scenario, each, primary, 'performance');
  await expectFiltered(scenario, primary, ['asia'], followers);
}

describe('a performance secondary that becomes the performance primary', () => {
  runLanes(planned, unplanned);

  describe('planned', () => {
    const { it } = planned;

    it('refused: a filtered secondary; unplanned while the primary answers', async (scenario) => {
      expect(await scenario.refusal(NAME, { to: 'asia' })).toContain('it never received us-customers/');
      const alive = { to: 'europe', from: 'east', mode: 'unplanned' };
      expect(await scenario.refusal(NAME, alive)).toContain('no cluster answers as performance primary');
      expect(scenario.calls('east', 'performance/primary/demote')).toBe(0);
    });

    it('completes as planned', async (scenario) => {
      const run = await scenario.begin(NAME, { to: 'europe' }, 'approve promote');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'none' }, parkings: [] });
      const { warnings, choices } = report.plan?.content ?? {};
      expect(warnings?.join(' ')).toMatch(/Every token and every lease changes.*Local mounts.*asia may receive/);
      expect(choices).toMatchObject({ 'filter of asia': 'deny us-customers/', 'filter of east': 'no paths filter' });
      expect(report.leftToDo.join('\n')).toMatch(/must log in on europe[^]*audit devices of europe/);
      expect(report.outage?.totalMs).toBeGreaterThan(0);
      expect(report.outage?.peopleMs).toBe(0);
      const steps = report.steps.map(({ name }) => name);
      expect(steps.indexOf('Quiesce clients')).toBeLessThan(steps.indexOf('Demote east'));
      const served = steps.indexOf('Wait until europe serves');
      const back = ['Direct clients to the new primary', 'Release clients'];
      expect(steps.slice(served + 1, served + 3)).toEqual(back);
      const led = expect.stringContaining('traffic hook ended with exit code 0') as string;
      expect(report.steps[served + 1]?.activities).toMatchObject([{ type: 'runHook', observed: led }]);
      await expectSet(scenario, 'europe', ['asia', 'east']);
      // The DR sets of both stay as they were: west has what east has.
      expectFollows(scenario, 'west', 'east');
      expectFollows(scenario, 'europe-dr', 'europe');
      await expectFewEvents(NAME, run);
    });

    it('lost answers: demote, promote, secondary-token, revoke-secondary, update-primary, paths-filter', async (scenario) => {
      const filter = `POST ${BASE}/primary/paths-filter/${scenario.state('asia').clusterId}`;
      const lost = { europe: [DEMOTE], east: [PROMOTE, TOKEN, REVOKE, filter], asia: [UPDATE] };
      loseAnswers(scenario, lost);
      const report = await scenario.play(NAME, { to: 'east' }, 'approve promote');
      expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'none' }, parkings: [] });
      expect(statuses(scenario, 'europe', DEMOTE)).toEqual([0]);
      expect(statuses(scenario, 'east', PROMOTE)).toEqual([0]);
      await expectSet(scenario, 'east', ['asia', 'europe']);
      expectFollows(scenario, 'europe-dr', 'europe');
    });

    it('parked, retry: the demotion; then a promotion that is refused ends with the old primary', async (scenario) => {
      const denied = refuse(scenario, 'east', DEMOTE);
      refusePromotion(scenario, 'europe', PROMOTE);
      const run = await scenario.run(NAME, { to: 'europe' });
      // Too old right before the demotion, which is not begun: the old primary serves while they are asked for.
      await approveLongAgo(scenario, run, 'promote');
      expect(await approveAgain(run, 'promote')).not.toHaveProperty('until');
      expect(actions(await run.parks('Demote east'))).toEqual(['retry', 'promote-back', 'leave']);
      denied.remove();
      await run.do('retry Demote east');
      const report = await run.report();
      expect(report.outcome).toBe('rolled-back');
      expect(report.gates).toHaveLength(2);
      expect(report.leftToDo[0]).toContain('east is the performance primary');
      await expectSet(scenario, 'east', ['asia', 'europe']);
    });

    it('parked, skip: re-pointing of one of the others; parked, abort: re-pointing of one of the others, after a loss that was accepted', async (scenario) => {
      // A write that the new primary cannot have: after the last look, and before the demotion takes effect.
      const late = { key: 'secret/last', value: { value: 'last on east' }, endpoint: DEMOTE };
      writeRightBeforeDemotion(scenario, 'east', 'europe', late);
      refuse(scenario, 'east', UPDATE);
      // Its filter cannot be read back: without it asia is not pointed there, and that is told.
      refuse(scenario, 'europe', `GET ${BASE}/primary/paths-filter/${scenario.state('asia').clusterId}`, 403, 1);
      const run = await scenario.begin(NAME, { to: 'europe', acceptLoss: 'bounded' }, 'approve promote');
      const WRITE = 'Write the paths filter of asia (before update-primary)';
      await run.parks(WRITE);
      // One that fails holds no other.
      await run.do('skip Point east at europe (performance)');
      await run.until('east was left', ({ steps }) => steps.some(({ state }) => state === 'skipped'));
      await run.do(`abort ${WRITE}`);
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'aborted', loss: { loss: 'bounded' } });
      expect(report.outage?.endedBy).toBe('service-ready');
      expect(statuses(scenario, 'asia', UPDATE)).toEqual([]);
      const left = report.leftToDo.join('\n');
      for (const each of ['asia', 'east'])
        expect(left).toContain(`${each} has not been confirmed to follow europe with its filter`);
      expect(left).not.toContain('DR operation token');
      expect(primaries(scenario)).toEqual(['europe']);
    });
  });

  describe('unplanned', () => {
    const { it } = unplanned;
    const lost = { to: 'europe', mode: 'unplanned' };
    const overridden = { ...lost, overrideDrSecondary: true };

    it('refused: while the failed primary has a usable DR secondary', async (scenario) => {
      // It heard of a write that never came, so that it refuses to be promoted.
      scenario.service.cluster('europe').holdStream('performance', true);
      scenario.service.cluster('east').write('secret/late', { value: 'late' });
      scenario.service.advanceClock(300);
      await scenario.service.cluster('east').kill();
      scenario.service.advanceClock(3_000);
      const said = await scenario.refusal(NAME, lost);
      expect(said).toContain('west could be promoted');
      expect(said).toContain('Start drFailover to west');
      expect(primaries(scenario)).toEqual(['east']);
    });

    it('abort at the force gate', async (scenario) => {
      scenario.limit({ promote: '1s' });
      const run = await scenario.begin(NAME, overridden, 'approve promote', 'force');
      expect(await run.waitsFor('approval', ({ gate }) => gate === 'force')).not.toHaveProperty('until');
      await run.control('abort', { reason: 'east comes back' });
      const report = await run.report();
      // Since when east is gone nobody knows: at the latest since the run began, not since it was approved.
      expect(report).toMatchObject({ outcome: 'aborted', outage: { startedAt: report.startedAt, atLeast: true } });
      expect(scenario.state('europe').performance.mode).toBe('secondary');
      // However such a run ends, also by a failover that takes it over: what became of the promotion is told.
      const told = { code: 'no-performance-primary', severity: 'critical' };
      expect(report.findings).toContainEqual(expect.objectContaining(told));
      expect(report.leftToDo.join('\n')).toContain('no cluster confirmed as performance primary');
    });

    it('lost answer: promote by force, overridden, two approvers', async (scenario) => {
      scenario.limit({ promote: '1s' });
      const run = await scenario.run(NAME, overridden);
      // Heard since: whoever approves looks once more, and no clock ends that.
      await approveLongAgo(scenario, run, 'promote');
      expect(await approveAgain(run, 'promote')).not.toHaveProperty('until');
      await run.do('force', 'approve force');
      expect(scenario.calls('europe', 'secondary/promote')).toBeGreaterThan(1);
      loseAnswers(scenario, { europe: [PROMOTE] });
      scenario.limit();
      await run.approve('force', 'henry');
      const report = await run.report();
      expect(report.outcome).toBe('completed');
      const approved = report.gates.filter(({ state }) => state === 'approved').map(({ gate }) => gate);
      expect(approved).toEqual(['promote', 'promote', 'force']);
      expect(report.leftToDo.join('\n')).toContain('Keep east away');
      expect(statuses(scenario, 'europe', PROMOTE).filter((status) => status !== 503)).toEqual([0]);
      expect(scenario.state('europe').filters).toEqual([scenario.state('asia').clusterId]);
      const observed = report.steps.flatMap(({ activities }) => activities.map((each) => each.observed));
      expect(observed).toContain('deny us-customers/; before: no paths filter');
      expectFollows(scenario, 'asia', 'europe', 'performance');
    });

    it('refused: two performance primaries', async (scenario) => {
      await scenario.service.cluster('east').restart();
      const two = { to: 'asia', from: 'europe', acceptLoss: 'bounded' };
      expect(await scenario.refusal(NAME, two)).toContain('one performance primary');
    });
  });
});
