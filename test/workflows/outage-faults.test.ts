import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunStatus } from '../../src/contracts/run-status';
import { headlineOf } from '../../src/report/headlines';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { actions, at, CHANGING, drPrimaries, expectFollows, expectServiceOn, parksInTime } from '../support/faults';
import {
  hold,
  keepWriting,
  refuse,
  refusePromotion,
  statuses,
  underWay,
  writeRightBeforeDemotion,
} from '../support/faults';
import { expectTakenOver } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { reportOf } from '../support/reports';
import { Scenario, temporaryDirectory } from '../support/scenario';

const directory = temporaryDirectory('outage');
const hook = (...command: readonly string[]) => ({ command, timeout: '60s' });
/** As long as this file is there the clients are being stopped. */
const notYet = join(directory, 'clients-are-not-stopped-yet');
const quiesce = hook('/bin/sh', '-c', `while test -e ${notYet}; do sleep 0.05; done`);
const stuck = new Lane(() =>
  Scenario.start({ deployment: { quiesce: 'hook', hooks: { quiesce, release: hook('/bin/true') } } }),
);
const deaths = new Lane(() => Scenario.start());
const trafficReady = join(directory, 'traffic-may-be-led-over');
const people = new Lane(() =>
  Scenario.start({ deployment: { hooks: { traffic: hook('/usr/bin/test', '-e', trafficReady) } } }),
);

const lateWrite = (scenario: Scenario) => {
  const value = { by: scenario.workflowId, at: scenario.service.now() };
  writeRightBeforeDemotion(scenario, 'east', 'west', { key: 'secret/late', value });
};
const eastServes = [expect.stringContaining('east is the primary')];
/** Never force: what is refused is not forced through. */
const expectNoForce = ({ service }: Scenario) =>
  expect(service.calls.filter(({ body }) => body['force'] === true)).toEqual([]);

describe('faults in the outage', () => {
  runLanes(stuck, deaths, people);

  describe('before the promotion, or instead of it', () => {
    const { it } = stuck;

    it('promotes the old primary back if the plan accepts no loss and none could not be proven: by itself, without people', async (scenario) => {
      lateWrite(scenario);
      const run = await underWay(scenario, { acceptLoss: 'none' });
      const report = await run.report();

      const outage = { peopleMs: 0 };
      expect(report).toMatchObject({ outcome: 'rolled-back', parkings: [], loss: { loss: 'none' }, outage });
      expect(report.leftToDo).toEqual(eastServes);
      expect(report.findings.map(({ code }) => code)).toContain('loss-not-excluded');
      // Held from before the demotion until they were let through: longer than the outage.
      expect(report.clientsHeld?.totalMs).toBeGreaterThan(report.outage?.totalMs ?? Infinity);
      expect(scenario.calls('west', 'dr/secondary/promote')).toBe(0);
      await expectServiceOn(scenario, 'east');
      expectFollows(scenario, 'west', 'east');
      expect(scenario.service.cluster('east').read('secret/late')).toMatchObject({ by: scenario.workflowId });
    });

    it('a primary that keeps writing keeps serving: the run rolls back by itself, also after a gate that was asked again', async (scenario) => {
      scenario.limit({ walStill: '500ms' });
      const run = await scenario.start();
      await run.people({ go: false });
      await approveLongAgo(scenario, run, 'go');
      await run.parks('Demote east');
      const stopWriting = keepWriting(scenario, 'east');
      await approveAgain(run, 'go');
      const report = await run.report().finally(stopWriting);

      expect(report).toMatchObject({ outcome: 'rolled-back', parkings: [{ step: 'Demote east' }] });
      expect(report.outage).toBeUndefined();
      const finding = report.findings.find(({ code }) => code === 'not-demoted');
      expect(finding?.next).toBe('Fix that, then start the runbook again.');
      expect(headlineOf(report).text).toContain('east was not demoted and still serves');
      expect(finding?.text).toMatch(
        /Clients still write to east.*rose by \d+ within 0\.5 s\..*limits\.walStillEntries/,
      );
      expect(report.steps).toContainEqual(expect.objectContaining({ name: 'Release clients', outcome: 'done' }));
      expect(report.leftToDo).toEqual(eastServes);
      expect(scenario.calls('east', CHANGING.demote)).toBe(0);
      await expectServiceOn(scenario, 'east');
    });

    it('a failover that takes over if nothing was sent yet is refused, and releases the clients', async (scenario) => {
      const run = await scenario.start();
      await run.people({ go: false });
      await approveLongAgo(scenario, run, 'go');
      await run.parks('Demote east');
      await expectTakenOver(scenario, run, 'drSwitchover');
      const report = await reportOf(run);

      expect(report.steps).toContainEqual(expect.objectContaining({ name: 'Release clients', outcome: 'done' }));
      expect(report.outage).toBeUndefined();
      expect(scenario.calls('east', CHANGING.demote)).toBe(0);
      await expectServiceOn(scenario, 'east');
    });

    it('the run does not wait for people while clients are quiesced: a secondary that falls behind ends the run, even before a pause', async (scenario) => {
      const caughtUp = 'Write a marker on east and wait until west has it';
      scenario.limit({ catchUp: '1s' });
      const run = await scenario.start({ go: 'auto' });
      writeFileSync(notYet, '');
      scenario.service.cluster('west').holdStream('dr', true);
      await run.people({ go: false });
      await run.until('they are stopped', ({ steps }) => steps.some(({ name }) => name === 'Quiesce clients'));
      await run.control('pause', { reason: 'look first' });
      await run.receiptOf('pause');
      rmSync(notYet);
      const held = await run.until('it ended, or is held', ({ phase, waiting }) => {
        const resume = waiting.filter((each) => each.for === 'resume');
        return (phase === 'finished' || resume.length > 0) && resume;
      });
      expect(held).toEqual([]);
      const { code } = await run.failure();
      scenario.service.cluster('west').holdStream('dr', false);
      const report = await reportOf(run);

      expect([code, report.outcome, report.parkings]).toEqual(['CONFIRMATION_TIMEOUT', 'aborted', []]);
      const steps = report.steps.map(({ name, outcome }) => `${name}: ${outcome}`);
      for (const step of [`${caughtUp}: failed`, 'Release clients: done']) expect(steps).toContain(step);
      const finding = { code: 'check-failed', next: 'Fix that, then start the runbook again.' };
      expect(report.findings).toContainEqual(expect.objectContaining(finding));
      expect(report.clientsHeld?.totalMs).toBeGreaterThan(0);
      expect(scenario.calls('east', CHANGING.demote)).toBe(0);
      await expectServiceOn(scenario, 'east');
    });

    it('parked, retry: parks again and again; parked, abort: leave is the one answer that ends without a primary, and the report says so first', async (scenario) => {
      refusePromotion(scenario, 'west');
      const run = await underWay(scenario, { onStuck: 'park' });
      const first = await parksInTime(run, 'Promote west');
      expect(actions(first)).toEqual(['retry', 'promote-back', 'leave']);
      scenario.service.faults.clear();
      refusePromotion(scenario, 'west');
      await run.do('retry Promote west');
      await parksInTime(run, 'Promote west', first.parkingNo);
      await run.do('leave Promote west');
      const report = await run.report();

      expect(report.outcome).toBe('aborted');
      expect(report.parkings.map(({ decision }) => decision?.action)).toEqual(['retry', 'leave']);
      expect(report.outage?.peopleMs).toBeGreaterThan(0);
      expect(statuses(scenario, 'east', CHANGING.demote)).toEqual([200]);
      expectNoForce(scenario);
      expect(report.findings).toContainEqual(expect.objectContaining({ severity: 'critical', code: 'no-primary' }));
      expect(report.leftToDo[0]).toContain('no cluster confirmed as primary');
      expect(drPrimaries(scenario)).toEqual([]);
    });
  });

  describe('a cluster that stops in the outage, or refuses', () => {
    const { it } = deaths;

    it('the old primary, between demote and promote: parks, and finishes when it is back', async (scenario) => {
      scenario.limit({ demote: '2s' });
      at(scenario, 'after', 'east', CHANGING.demote, (east) => east.kill());
      const run = await underWay(scenario);
      expect(actions(await parksInTime(run, 'Demote east'))).toEqual(['retry', 'promote-back', 'leave']);
      expect(drPrimaries(scenario)).toEqual([]);
      await scenario.service.cluster('east').restart();
      scenario.limit();
      await run.do('retry');

      expect(await run.report()).toMatchObject({ outcome: 'completed', leftToDo: [] });
      expect(statuses(scenario, 'east', CHANGING.demote)).toHaveLength(1);
      await expectServiceOn(scenario, 'west');
    });

    it('the old primary, with its demotion, which never took effect: while its token is waited for people have the roles read again, and it keeps serving', async (scenario) => {
      const [old, next] = drPrimaries(scenario).includes('west') ? ['west', 'east'] : ['east', 'west'];
      scenario.limit({ demote: '1s', promote: '1s' });
      at(scenario, 'before', old, CHANGING.demote, (cluster) => cluster.kill());
      const run = await underWay(scenario, { to: next });
      await parksInTime(run, `Demote ${old}`);
      await run.do(`promote-back Demote ${old}`);
      const parked = await parksInTime(run, `Generate operation token on ${old}`);
      expect(actions(parked)).toEqual(['retry', 'promote-back', 'promote-secondary', 'leave']);
      await scenario.service.cluster(old).restart();
      scenario.limit();
      await run.do('promote-back');
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'rolled-back', loss: { loss: 'none' } });
      expect(report.outage?.endedAt).toBeDefined();
      expect(headlineOf(report).text).toContain(`${old} serves; the switchover did not happen`);
      expect(scenario.calls(old, CHANGING.promote) + scenario.calls(next, CHANGING.promote)).toBe(0);
      await expectServiceOn(scenario, old);
    });

    it('the new primary, after the demotion: the old one serves again, and the stopped one is attached when it is back', async (scenario) => {
      // Nothing is heard of it for a quarter of the budget of its promotion; the old one has time again.
      scenario.limit({ promote: '4s' }, 'promoteSecondary');
      at(scenario, 'before', 'west', CHANGING.startAttempt, () => scenario.limit({ streaming: '1s' }, 'updatePrimary'));
      at(scenario, 'after', 'west', CHANGING.demote, () => scenario.service.cluster('east').kill());
      const run = await underWay(scenario, { to: 'east' });
      const parked = await run.waitsFor('decision', ({ step }) => step.includes('east'));
      expect(actions(parked)).toContain('skip');
      await expectServiceOn(scenario, 'west');
      await scenario.service.cluster('east').restart();
      scenario.limit();
      await run.decide('retry', parked.step);
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'rolled-back', outage: { peopleMs: 0 } });
      const promoting = report.steps.find(({ name }) => name === 'Promote east');
      expect(promoting?.activities.map(({ observed }) => observed).join()).toContain('Not observed within 1 s');
      await expectServiceOn(scenario, 'west');
      expect(scenario.state('east').dr.connectedTo).toBe('west');
    });

    it('the new primary, with its promotion: no other cluster is promoted until its role is known', async (scenario) => {
      scenario.limit({ promote: '2s' });
      at(scenario, 'after', 'east', CHANGING.promote, (east) => east.kill());
      const run = await underWay(scenario, { to: 'east' });
      await parksInTime(run, 'Promote east');
      scenario.limit();
      await run.do('promote-back Promote east');
      expect((await parksInTime(run, 'Promote west back')).code).toBe('PRECONDITION_FAILED');
      expect(scenario.calls('west', 'dr/secondary/promote')).toBe(0);
      await scenario.service.cluster('east').restart();
      await run.do('promote-secondary Promote west back');

      expect(await run.report()).toMatchObject({ outcome: 'completed', leftToDo: [] });
      expect(statuses(scenario, 'east', CHANGING.promote)).toHaveLength(1);
      expect(scenario.calls('west', 'dr/secondary/promote')).toBe(0);
      await expectServiceOn(scenario, 'east');
    });

    it('the old primary is made primary again while the promotion is tried: no other cluster is promoted, and people may let it keep serving', async (scenario) => {
      at(scenario, 'before', 'west', CHANGING.promote, () => {
        const { service } = scenario;
        const setId = service.cluster('west').snapshotState().dr.setId ?? '';
        const role = { mode: 'primary', setId, advertisedAddress: '', knownSecondaries: [] } as const;
        service.cluster('east').setRole('dr', role, service.now());
      });
      refuse(scenario, 'west', CHANGING.promote, 503, 1);
      const run = await underWay(scenario, { onStuck: 'park' });
      const parked = await parksInTime(run, 'Promote west');
      expect([parked.code, actions(parked)]).toEqual(['STATE_DIVERGED', ['retry', 'promote-back', 'leave']]);
      expect(parked.choices[0]?.effect).toContain('refused again, it is not used any more in this outage');
      expect(scenario.calls('west', 'dr/secondary/promote')).toBe(1);
      await expectServiceOn(scenario, 'east');
      await run.do('promote-back Promote west');

      expect((await run.report()).outcome).toBe('rolled-back');
      await expectServiceOn(scenario, 'east');
    });

    it('promotes the old primary back by itself if the new one refuses, and attaches the new one again', async (scenario) => {
      refusePromotion(scenario, 'west');
      const report = await (await underWay(scenario)).report();

      expect(report).toMatchObject({ outcome: 'rolled-back', parkings: [], outage: { peopleMs: 0 } });
      expect(report.leftToDo).toEqual(eastServes);
      expect(statuses(scenario, 'west', CHANGING.promote)).toContain(503);
      expectNoForce(scenario);
      await expectServiceOn(scenario, 'east');
      expectFollows(scenario, 'west', 'east');
    });
  });

  describe('a new primary that refuses the workers alone, and people', () => {
    const { it } = people;
    const [LEAD, WRITE] = ['Direct clients to the new primary', 'Verify that west accepts a write'] as const;

    it('parked, retry: a refused write keeps no client out; it parks once they were released; parked, skip: a traffic hook that fails parks with service on the new primary, and can be skipped; continues if the plan accepts a bounded loss, and says what the bound is', async (scenario) => {
      lateWrite(scenario);
      const refused = refuse(scenario, 'west', 'POST /v1/kv/data/runbooks-marker-after');
      const run = await underWay(scenario, { acceptLoss: 'bounded' });
      expect(actions(await parksInTime(run, LEAD))).toEqual(['retry', 'skip']);
      await expectServiceOn(scenario, 'west');
      await run.do(`skip ${LEAD}`);
      expect(actions(await parksInTime(run, WRITE))).toEqual(['retry', 'skip', 'abort']);
      const { serviceBackAt, findings } = await run.status();
      expect(serviceBackAt).toBeDefined();
      expect(findings).toContainEqual(expect.objectContaining({ code: 'write-not-proven', severity: 'critical' }));
      refused.remove();
      await run.do(`retry ${WRITE}`);
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'bounded', boundWalEntries: '0' } });
      expect(report.loss?.why).toContain('the writes between that read and the demotion');
      expect(report.leftToDo).toContainEqual(expect.stringContaining('clients keep calling the old address'));
      await expectServiceOn(scenario, 'west');
      expect(scenario.state('east').dr.discardedEntries).toBeGreaterThan(0);
      writeFileSync(trafficReady, '');
    });

    it('one that is not confirmed to serve in time does not wait for people: clients are directed there, and it is reported', async (scenario) => {
      scenario.limit({ serviceReady: '1s' }, 'awaitServiceReady');
      const silent = refuse(scenario, 'east', 'GET /v1/kv/data/runbooks-marker', 503);
      const report = await (await underWay(scenario, { to: 'east' })).report();
      silent.remove();
      expect(report).toMatchObject({ outcome: 'completed', parkings: [], outage: { endedBy: 'service-ready' } });
      expect(report.outage?.serviceReadyAt).toBeUndefined();
      expect(report.findings).toContainEqual(expect.objectContaining({ code: 'service-not-proven' }));
      expect(report.leftToDo).toContainEqual(expect.stringContaining('not been confirmed to serve'));
      await expectServiceOn(scenario, 'east');
    });

    it('an abort or a cancel request is noted there: it counts once a cluster serves', async (scenario) => {
      const { reached, letGo } = hold(scenario, 'after', 'east', CHANGING.demote);
      const run = await underWay(scenario);
      await reached;
      const noted = (count: number) => (status: RunStatus) =>
        status.findings.filter(({ code }) => code === 'stop-noted').length === count;
      await run.control('abort');
      await run.until('the abort', noted(1));
      await run.handle.cancel();
      await run.until('both', noted(2));
      letGo();
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'aborted', parkings: [], outage: { endedBy: 'service-ready' } });
      expect(report.controls.map(({ control, by }) => [control, by.name])).toEqual([
        ['abort', 'grace'],
        ['cancel', 'a cancel request'],
      ]);
      const text = expect.stringContaining('once a cluster serves') as string;
      expect(report.receipts).toContainEqual(expect.objectContaining({ signal: 'abort', text }));
      // What is not protected is told, also by the query.
      expect(report.leftToDo.join('\n')).toMatch(/east/);
      expect(await reportOf(run)).toMatchObject({ outcome: 'aborted', leftToDo: report.leftToDo });
      expect(drPrimaries(scenario)).toEqual(['west']);
    });
  });
});
