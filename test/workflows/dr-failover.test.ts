import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Report } from '../../src/contracts/report';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { actions, at, CHANGING, expectFollows, loseAnswers, refuse, signalled, statuses } from '../support/faults';
import { bringBack, expectServesAlone, FAILOVER_LIMITS, failoverPeople, startFailover } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import { FILTER, pair, replicating, Scenario, temporaryDirectory } from '../support/scenario';

const NAME = 'drFailover';
const snapshotFile = join(temporaryDirectory('failover'), 'snapshot');
const hook = (...command: readonly string[]) => ({ command, timeout: '60s' });

const plain = new Lane(() => Scenario.start({ topology: pair(3), limits: FAILOVER_LIMITS }));
const stuck = new Lane(() =>
  Scenario.start({
    limits: FAILOVER_LIMITS,
    batchToken: true,
    deployment: {
      hooks: { fence: hook('/bin/false'), snapshot: hook('/usr/bin/touch', snapshotFile) },
      snapshot: { to: 'hook' },
    },
  }),
);
const waits = new Lane(() =>
  Scenario.start({ limits: FAILOVER_LIMITS, deployment: { hooks: { traffic: hook('/bin/false') } } }),
);
/** East with two DR secondaries, and a filtered performance secondary with a DR secondary of its own. */
const several = new Lane(() =>
  Scenario.start({
    limits: FAILOVER_LIMITS,
    ...replicating({ main: ['east', 'west', 'north'], eu: ['europe', 'europe-dr'] }, { europe: FILTER }),
    // North stands first, so that order alone would choose it.
    drSets: { main: ['north', 'east', 'west'], eu: ['europe', 'europe-dr'] },
    deployment: { hooks: { fence: hook('/bin/true') } },
  }),
);

const codes = ({ findings }: Report) => findings.map(({ code }) => code);
const forced = ({ service }: Scenario) => service.calls.some(({ body }) => body['force'] === true);

async function failOver(scenario: Scenario, input: Readonly<Record<string, unknown>> = {}): Promise<Report> {
  const run = await startFailover(scenario, input);
  await failoverPeople(run);
  return run.report();
}

describe('an unplanned DR failover', () => {
  runLanes(plain, stuck, waits, several);

  describe('of three nodes each', () => {
    const { it } = plain;

    it('completes without a fault', async (scenario) => {
      await scenario.service.cluster('east').kill();
      const run = await startFailover(scenario);
      await failoverPeople(run);
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', parkings: [], loss: { loss: 'unknown' } });
      expect(report.loss?.why).toContain('there are no WAL samples');
      expect(report.outage?.startedBecause).toContain('the last heartbeat of east');
      // One last heartbeat, wherever it is told.
      const heard = [...JSON.stringify(report).matchAll(/last heartbeat of east: (\d[\d:.T-]+Z)/g)].map(
        ([, when]) => when,
      );
      expect(new Set(heard)).toEqual(new Set([report.outage?.startedAt]));
      expect(report.outage?.totalMs).toBeGreaterThan(0);
      expect(report.outage?.peopleMs).toBeGreaterThan(0);
      // Nobody else of this deployment can say that east is gone, and no hook fences it.
      expect(codes(report)).toEqual(expect.arrayContaining(['loss-bound', 'sign-attested-by-people', 'token-kept']));
      expect(JSON.stringify(report.plan?.content)).toContain('By approving you attest that it is fenced');
      expect(report.leftToDo).toEqual([expect.stringContaining('runbook start drRejoin --input')]);
      const [, rejoin = ''] = /--input '(.*)'/.exec(report.leftToDo[0] ?? '') ?? [];
      expect(JSON.parse(rejoin)).toMatchObject({ deployment: scenario.name, cluster: 'east', primary: 'west' });
      expect(report.result).toMatchObject({ from: 'east', to: 'west', fencing: 'attested' });
      expect(statuses(scenario, 'west', CHANGING.promote)).toEqual([200]);
      await expectServesAlone(scenario, 'west');
      await expectFewEvents(NAME, run);
    });

    it('refused: the primary answers, a second sign is missing, another cluster is primary', async (scenario) => {
      await bringBack(scenario, 'east', 'west');
      expect(await scenario.refusal(NAME, { from: 'west' })).toContain('drSwitchover');
      expect(await scenario.refusal(NAME)).toContain('drSwitchover');
      const other = { from: 'east', to: 'west' };
      expect(await scenario.refusal(NAME, other)).toContain('west is the DR primary of the set');
      // Only the way from here to the primary is broken: its secondary hears it.
      scenario.limit({ primaryGone: '2m' });
      scenario.service.faults.add({ cluster: 'west', endpoint: /./, action: 'reset', times: Infinity });
      const unheard = await scenario.refusal(NAME);
      expect(unheard).toContain('heartbeats of the primary stopped');
      expect(unheard).toContain('east is still connected to west');
      scenario.service.faults.clear();
      // Nothing was changed.
      for (const each of ['east', 'west']) expect(statuses(scenario, each, CHANGING.startAttempt)).toEqual([]);
      await expectServesAlone(scenario, 'west');
    });

    it('a primary with a blocked audit device: both refusals say what to do, and it works, also if the new primary changes its leader', async (scenario) => {
      const west = scenario.service.cluster('west');
      west.auditBlocked = true;
      for (const [runbook, input] of [
        ['drSwitchover', { to: 'east' }],
        [NAME, {}],
      ] as const)
        expect(await scenario.refusal(runbook, input)).toMatch(
          /observed .*(AUDIT_DEVICE_BLOCKED|authenticated lookup 500)/,
        );
      const planned = await (await startFailover(scenario, { dryRun: true })).report();
      const broken = planned.preconditions.find(({ name }) => name === 'no primary is broken');
      expect(broken).toMatchObject({ cluster: 'west', verdict: 'fail' });
      expect(broken?.next).toContain('stop the service on every node of west');
      await west.kill();
      at(scenario, 'after', 'east', CHANGING.promote, (east) => east.leaderChange());
      expect(await failOver(scenario)).toMatchObject({ outcome: 'completed', parkings: [] });
      await expectServesAlone(scenario, 'east');
    });
  });

  describe('that is stuck', () => {
    const { it } = stuck;

    it('parked, retry: promotion refused, because the secondary reports missing writes; force needs two approvers', async (scenario) => {
      scenario.limit({ promote: '1s' });
      const { service } = scenario;
      // West hears of a write that it never gets.
      service.cluster('west').holdStream('dr', true);
      service.cluster('east').write('secret/late', { at: service.now() });
      service.advanceClock(3 * service.timing.heartbeatMs);
      await service.cluster('east').kill();
      const run = await startFailover(scenario, { fencing: 'attested' });
      await failoverPeople(run);
      const first = await run.parks('Promote west');
      expect(first.code).toBe('NOT_CAUGHT_UP');
      expect(actions(first)).toEqual(['retry', 'force', 'abort']);
      await run.do('retry');
      await run.parks('Promote west', first.parkingNo);
      scenario.limit();
      expect(existsSync(snapshotFile)).toBe(false);
      // Never force of itself, however long it is refused.
      expect(forced(scenario)).toBe(false);
      await run.do('force', 'approve force');
      await run.waitsFor('approval', ({ gate, approved }) => gate === 'force' && approved.length === 1);
      expect(forced(scenario)).toBe(false);
      refuse(scenario, 'west', CHANGING.promote, 403, 1);
      await run.approve('force', 'henry');
      await run.do('retry Promote west by force');
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed' });
      // Nothing that was decided is said to be under way still.
      expect((await run.handle.describe()).memo).not.toHaveProperty('carryingOut');
      expect(report.gates.map(({ gate, state, by }) => [gate, state, by.length])).toEqual([
        ['promote', 'approved', 1],
        ['force', 'approved', 2],
      ]);
      const steps = report.steps.map(({ name, outcome }) => `${name}: ${outcome}`);
      const promoted = steps.findIndex((each) => each.startsWith('Promote west by force'));
      expect(steps[promoted - 1]).toBe('Take a snapshot of west: done');
      expect(existsSync(snapshotFile)).toBe(true);
      await expectServesAlone(scenario, 'west');
    });

    /** A former primary is back, and the one that serves makes a batch token that readiness sees, while there is a primary. */
    const prove = async (scenario: Scenario, former: string, primary: string) => {
      // An earlier test held it.
      scenario.service.cluster(former).holdStream('dr', false);
      await bringBack(scenario, former, primary);
      const token = scenario.makeBatchToken(primary);
      await scenario.play('readiness', {});
      return token;
    };
    const gone = async ({ service }: Scenario, cluster: string) => {
      service.advanceClock(2 * service.timing.heartbeatMs);
      await service.cluster(cluster).kill();
    };

    it('parked, skip: fence hook, by two people; auto asks no holder, and plan and report say when the batch token was proven', async (scenario) => {
      const token = await prove(scenario, 'east', 'west');
      await gone(scenario, 'west');
      const run = await startFailover(scenario);
      await approveLongAgo(scenario, run, 'promote');
      expect(await approveAgain(run, 'promote')).not.toHaveProperty('until');
      await run.do('skip Fence west');
      await run.waitsFor('decision', ({ step, decidedOnce }) => step === 'Fence west' && decidedOnce !== undefined);
      expect(scenario.calls('east', 'dr/secondary/promote')).toBe(0);
      await run.decide('skip', 'Fence west', 'henry');
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', tokens: [], result: { fencing: 'hook' } });
      expect(report.leftToDo).toContainEqual(expect.stringContaining('only the approvers attest'));
      expect(report.plan?.content.choices['tokenSource']).toBe('batch');
      expect(JSON.stringify(report.plan?.content.warnings)).toMatch(
        /east was proven by the primary at 2.*expires at 2/,
      );
      expect(statuses(scenario, 'east', CHANGING.startAttempt)).toEqual([]);
      await expectServesAlone(scenario, 'east');
      expect(JSON.stringify(report)).not.toContain(token);
    });

    it('a proven token that the promotion refuses is replaced by one of the holders', async (scenario) => {
      await prove(scenario, 'west', 'east');
      // Emptied after the last readiness check, and streamed.
      for (const name of ['west', 'east']) scenario.service.cluster(name).writePolicy('dr-operations', []);
      await gone(scenario, 'east');
      const run = await startFailover(scenario, { fencing: 'attested' });
      await run.approve('promote');
      await run.waitsFor('shares');
      await run.shares();
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
      expect(codes(report)).toContain('batch-token-refused');
      expect(statuses(scenario, 'west', CHANGING.promote)).toEqual([403, 200]);
      await expectServesAlone(scenario, 'west');
    });
  });

  describe('while people are waited for', () => {
    const { it } = waits;

    it('abort at shares and gate promote', async (scenario) => {
      await scenario.service.cluster('east').kill();
      const run = await startFailover(scenario);
      await run.share('ada');
      // In an outage no clock ends the wait at a gate.
      expect(await run.waitsFor('approval', ({ gate }) => gate === 'promote')).not.toHaveProperty('until');
      const second = await scenario.run(NAME, { takeOver: true }, `ui-${scenario.name}`);
      expect((await second.failure()).code).toBe('LOCK_HELD');
      await run.control('abort', { reason: 'east is only rebooting' });
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'aborted', gates: [{ gate: 'promote', state: 'opened' }] });
      expect(codes(report)).toContain('no-primary');
      expect(scenario.calls('west', 'dr/secondary/promote')).toBe(0);
      await scenario.service.cluster('east').restart();
      await expectServesAlone(scenario, 'east');
    });

    it('parked, skip: traffic hook; a primary that comes back right before the call is noticed by the promotion itself', async (scenario) => {
      const east = scenario.service.cluster('east');
      await east.kill();
      const back = signalled();
      const comeBack = () => east.restart().then(() => back.resolve());
      at(scenario, 'after', 'west', CHANGING.giveShare, comeBack, 3);
      const run = await startFailover(scenario);
      await failoverPeople(run);
      await back.promise;
      const refused = await run.parks('Promote west');
      expect(refused.code).toBe('STATE_DIVERGED');
      expect(actions(refused)).toEqual(['retry', 'abort']);
      expect(scenario.calls('west', 'dr/secondary/promote')).toBe(0);
      await expectServesAlone(scenario, 'east');
      await east.kill();
      // The silence must last again before anything is promoted.
      scenario.service.advanceClock(2_500);
      await run.do('retry');
      await run.parks('Direct clients to the new primary');
      await expectServesAlone(scenario, 'west');
      await run.do('skip');
      const report = await run.report();

      expect(report.outcome).toBe('completed');
      expect(report.leftToDo).toContainEqual(expect.stringContaining('clients keep calling the old address'));
    });
  });

  describe('in a deployment with several secondaries', () => {
    const { it } = several;

    it('lost answers: promote, secondary-token, update-primary, attempt, share and token delete; the secondary furthest ahead is proposed, the others follow it', async (scenario) => {
      const { service } = scenario;
      const sampler = `walSampler:${scenario.name}:one`;
      await (await scenario.run('walSampler', { samples: 1 }, sampler)).handle.result();
      service.cluster('north').holdStream('dr', true);
      service.cluster('east').write('secret/latest', { at: service.now() });
      service.advanceClock(100);
      expect(service.cluster('west').read('secret/latest')).toBeDefined();
      await service.cluster('east').kill();
      service.cluster('north').holdStream('dr', false);
      const { startAttempt, giveShare, promote, secondaryToken, updatePrimary, deleteToken } = CHANGING;
      loseAnswers(scenario, {
        west: [startAttempt, [giveShare, 2], promote, secondaryToken],
        north: [updatePrimary, deleteToken],
      });
      const report = await failOver(scenario);
      expect(report).toMatchObject({ outcome: 'completed', parkings: [], result: { to: 'west', fencing: 'hook' } });
      expect(report.leftToDo).toEqual([expect.stringContaining('drRejoin')]);
      // The sampler ran before: what is known of the loss is told, and that others agree.
      expect(report.loss).toMatchObject({ loss: 'bounded' });
      const agreed = { name: 'another observer agrees', verdict: 'ok' };
      expect(report.preconditions).toContainEqual(expect.objectContaining(agreed));
      expect(report.steps.map(({ name }) => name)).toContain('Fence east');
      expect(statuses(scenario, 'west', promote)).toEqual([0]);
      expectFollows(scenario, 'north', 'west');
      expect(scenario.state('north').operationTokens).toBe(0);
      expectFollows(scenario, 'europe', 'west', 'performance');
      expect(scenario.state('europe-dr').dr.connectedTo).toBe('europe');
      expect(scenario.state('west').filters).toEqual([scenario.state('europe').clusterId]);
      expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
    });

    it('of a performance secondary with a DR secondary of its own: that one replaces it in the performance set', async (scenario) => {
      await scenario.service.cluster('europe').kill();
      const result = { from: 'europe', to: 'europe-dr' };
      const report = await failOver(scenario);
      expect(report).toMatchObject({ outcome: 'completed', parkings: [], result });
      expect(report.steps.map(({ name }) => name)).toContain('Wait until europe-dr follows its performance primary');
      // Nobody knows whether it is to follow: it is gone since the failover before.
      expect(report.leftToDo).toContainEqual(
        expect.stringMatching(/^east did not answer.*`runbook start secondaryRepointing/),
      );
      expect(scenario.state('europe-dr').dr.mode).toBe('primary');
      expect(scenario.state('europe-dr').performance).toMatchObject({ mode: 'secondary', connectedTo: 'west' });
    });
  });
});
