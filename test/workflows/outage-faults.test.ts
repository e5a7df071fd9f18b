import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunStatus } from '../../src/contracts/run-status';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { CHANGING, drPrimaries, expectServiceOn, signalled, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { actions, at, parksInTime, refusePromotion, underWay, writeRightBeforeDemotion } from '../support/outage';
import { Scenario, temporaryDirectory } from '../support/scenario';
import { cell } from '../support/matrix';
import { reportOf } from '../support/reports';
import { headlineOf } from '../../src/report/headlines';

const directory = temporaryDirectory('outage');

const HOOK = { command: ['/bin/true'], timeout: '60s' };
/** As long as this file is there the clients are being stopped. */
const notYet = join(directory, 'clients-are-not-stopped-yet');
const QUIESCE = { ...HOOK, command: ['/bin/sh', '-c', `while test -e ${notYet}; do sleep 0.05; done`] };
const stuck = new Lane(() =>
  Scenario.start({
    deployment: {
      quiesce: 'hook',
      hooks: { quiesce: QUIESCE, release: HOOK },
    },
  }),
);
const deaths = new Lane(() => Scenario.start());
const trafficReady = join(directory, 'traffic-may-be-led-over');
const people = new Lane(() =>
  Scenario.start({
    deployment: { hooks: { traffic: { command: ['/usr/bin/test', '-e', trafficReady], timeout: '60s' } } },
  }),
);
describe('faults in the outage', () => {
  runLanes(stuck, deaths, people);

  describe('before the promotion, or instead of it', () => {
    const lateWrite = (scenario: Scenario) => {
      const value = { by: scenario.workflowId, at: scenario.service.now() };
      writeRightBeforeDemotion(scenario, 'east', 'west', { key: 'secret/late', value });
    };

    stuck.it(
      'promotes the old primary back where the plan accepts no loss and none could not be proven: by itself, without anybody',
      async (scenario) => {
        lateWrite(scenario);
        const run = await underWay(scenario, { acceptLoss: 'none' });
        const report = await run.report();

        const outage = { peopleMs: 0 };
        expect(report).toMatchObject({ outcome: 'rolled-back', parkings: [], loss: { loss: 'bounded' }, outage });
        expect(report.leftToDo).toEqual([expect.stringContaining('east is the primary')]);
        expect(report.findings.map(({ code }) => code)).toContain('loss-not-excluded');
        // Held from before the demotion until they were let through: longer than the outage.
        expect(report.clientsHeld?.totalMs).toBeGreaterThan(report.outage?.totalMs ?? Infinity);
        expect(scenario.calls('west', 'dr/secondary/promote')).toBe(0);
        await expectServiceOn(scenario, 'east');
        expect(scenario.state('west').dr).toMatchObject({ connectedTo: 'east', state: 'stream-wals' });
        expect(scenario.service.cluster('east').read('secret/late')).toMatchObject({ by: scenario.workflowId });
      },
    );

    stuck.it(
      'promotes the old primary back by itself where the new one refuses, and attaches the new one again',
      async (scenario) => {
        refusePromotion(scenario, 'west');
        const report = await (await underWay(scenario)).report();

        expect(report).toMatchObject({ outcome: 'rolled-back', parkings: [], outage: { peopleMs: 0 } });
        expect(report.leftToDo).toEqual([expect.stringContaining('east is the primary')]);
        expect(statuses(scenario, 'west', CHANGING.promote)).toContain(503);
        // What is refused is not forced through.
        expect(scenario.service.calls.some(({ body }) => body['force'] === true)).toBe(false);
        await expectServiceOn(scenario, 'east');
        expect(scenario.state('west').dr).toMatchObject({ connectedTo: 'east', state: 'stream-wals' });
      },
    );

    stuck.it(
      'a primary that goes on writing serves on: the run rolls back by itself, also after a gate that was asked again',
      async (scenario) => {
        scenario.limit({ walStill: '500ms' });
        const run = await scenario.start();
        await run.people({ go: false });
        await approveLongAgo(scenario, run, 'go');
        await run.waitsFor('decision', ({ step }) => step === 'Demote east');
        const east = scenario.service.cluster('east');
        const busy = setInterval(() => east.write('kv/busy', { at: scenario.service.now() }), 20);
        await approveAgain(run, 'go');
        const report = await run.report().finally(() => clearInterval(busy));

        expect(report).toMatchObject({
          outcome: 'rolled-back',
          parkings: [{ step: 'Demote east' }],
        });
        expect(report.outage).toBeUndefined();
        const finding = report.findings.find(({ code }) => code === 'not-demoted');
        expect(finding?.next).toBe('Mend that, then start the runbook again.');
        expect(headlineOf(report).text).toContain('east was not demoted, and serves on');
        expect(finding?.text).toMatch(
          /Clients still write to east.*rose by \d+ within 0\.5 s\..*limits\.walStillEntries/,
        );
        expect(report.steps).toContainEqual(expect.objectContaining({ name: 'Release the clients', outcome: 'done' }));
        expect(report.leftToDo).toEqual([expect.stringContaining('east is the primary')]);
        expect(scenario.calls('east', CHANGING.demote)).toBe(0);
        await expectServiceOn(scenario, 'east');
      },
    );

    stuck.it(
      'nobody is waited for while clients are held: a secondary that falls behind ends the run, whatever was to be paused',
      async (scenario) => {
        const caughtUp = 'Write a marker on east and wait until west has it';
        scenario.limit({ catchUp: '1s' });
        const run = await scenario.start({ go: 'auto' });
        writeFileSync(notYet, '');
        scenario.service.cluster('west').holdStream('dr', true);
        await run.people({ go: false });
        await run.until('they are stopped', ({ steps }) => steps.some(({ name }) => name === 'Quiesce the clients'));
        await run.control('pause', { reason: 'look first' });
        await run.until('the pause is noted', ({ receipts }) => receipts.some(({ signal }) => signal === 'pause'));
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
        expect(report.steps.map(({ name, outcome }) => `${name}: ${outcome}`)).toEqual(
          expect.arrayContaining([`${caughtUp}: failed`, 'Release the clients: done']),
        );
        expect(report.findings).toContainEqual(
          expect.objectContaining({ code: 'check-failed', next: 'Mend that, then start the runbook again.' }),
        );
        expect(report.clientsHeld?.totalMs).toBeGreaterThan(0);
        expect(scenario.calls('east', CHANGING.demote)).toBe(0);
        await expectServiceOn(scenario, 'east');
      },
    );

    stuck.it(
      `${cell('drSwitchover', 'parked, retry', 'parks again and again')}; ${cell('drSwitchover', 'parked, abort', 'leave is the one answer that ends without a primary, and the report says so first')}`,
      async (scenario) => {
        refusePromotion(scenario, 'west');
        const run = await underWay(scenario, { onStuck: 'park' });
        const first = await parksInTime(run, ({ step }) => step === 'Promote west');
        expect(actions(first)).toEqual(['retry', 'promote-back', 'leave']);
        scenario.service.faults.clear();
        refusePromotion(scenario, 'west');
        await run.decide('retry', 'Promote west');
        await parksInTime(run, ({ parkingNo }) => parkingNo === first.parkingNo + 1);
        await run.decide('leave', 'Promote west');
        const report = await run.report();

        expect(report.outcome).toBe('aborted');
        expect(report.parkings.map(({ decision }) => decision?.action)).toEqual(['retry', 'leave']);
        expect(report.outage?.peopleMs).toBeGreaterThan(0);
        expect(statuses(scenario, 'east', CHANGING.demote)).toEqual([200]);
        // Never force: what is refused is not forced through.
        expect(scenario.service.calls.some(({ body }) => body['force'] === true)).toBe(false);
        expect(report.findings).toContainEqual(expect.objectContaining({ severity: 'critical', code: 'no-primary' }));
        expect(report.leftToDo[0]).toContain('no cluster seen as primary');
        expect(drPrimaries(scenario)).toEqual([]);
      },
    );
  });

  describe('a cluster that dies in the outage', () => {
    deaths.it('the old primary, between demote and promote: parks, and finishes when it is back', async (scenario) => {
      scenario.limit({ demote: '2s' });
      at(scenario, 'after', 'east', CHANGING.demote, (east) => east.kill());
      const run = await underWay(scenario);
      const parked = await parksInTime(run, ({ step }) => step === 'Demote east');
      expect(actions(parked)).toEqual(['retry', 'promote-back', 'leave']);
      expect(drPrimaries(scenario)).toEqual([]);
      await scenario.service.cluster('east').restart();
      scenario.limit();
      await run.decide('retry');
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
      expect(statuses(scenario, 'east', CHANGING.demote)).toHaveLength(1);
      await expectServiceOn(scenario, 'west');
    });

    deaths.it(
      'the new primary, after the demotion: the old one serves again, and the dead one is attached when it is back',
      async (scenario) => {
        // Nothing is heard of it for a quarter of the budget of its promotion; the old one has time again.
        scenario.limit({ promote: '4s' }, 'promoteSecondary');
        at(scenario, 'before', 'west', CHANGING.startAttempt, () =>
          scenario.limit({ streaming: '1s' }, 'updatePrimary'),
        );
        at(scenario, 'after', 'west', CHANGING.demote, () => scenario.service.cluster('east').kill());
        const run = await underWay(scenario, { to: 'east' });
        const parked = await run.waitsFor('decision', ({ step }) => step.includes('east'));
        expect(parked.choices.map(({ action }) => action)).toContain('skip');
        await expectServiceOn(scenario, 'west');
        await scenario.service.cluster('east').restart();
        scenario.limit();
        await run.decide('retry', parked.step);
        const report = await run.report();

        expect(report).toMatchObject({ outcome: 'rolled-back', outage: { peopleMs: 0 } });
        const promoting = report.steps.find(({ name }) => name === 'Promote east');
        expect(promoting?.activities.map(({ observed }) => observed).join()).toContain('Not seen within 1 s');
        await expectServiceOn(scenario, 'west');
        expect(scenario.state('east').dr.connectedTo).toBe('west');
      },
    );

    deaths.it(
      'the new primary, with its promotion: nothing else is promoted until it is known what it is',
      async (scenario) => {
        scenario.limit({ promote: '2s' });
        at(scenario, 'after', 'east', CHANGING.promote, (east) => east.kill());
        const run = await underWay(scenario, { to: 'east' });
        await parksInTime(run, ({ step }) => step === 'Promote east');
        scenario.limit();
        await run.decide('promote-back', 'Promote east');
        const back = await parksInTime(run, ({ step }) => step === 'Promote west back');
        expect(back.code).toBe('PRECONDITION_FAILED');
        expect(scenario.calls('west', 'dr/secondary/promote')).toBe(0);
        await scenario.service.cluster('east').restart();
        await run.decide('promote-secondary', back.step);
        const report = await run.report();

        expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
        expect(statuses(scenario, 'east', CHANGING.promote)).toHaveLength(1);
        expect(scenario.calls('west', 'dr/secondary/promote')).toBe(0);
        await expectServiceOn(scenario, 'east');
      },
    );
  });

  describe('a new primary that refuses the workers alone', () => {
    const LEAD = 'Lead the clients to the new primary';
    const keys = (scenario: Scenario, cluster: string, endpoint: string) =>
      scenario.service.faults.add({ cluster, endpoint, action: { status: 403 }, times: Infinity });

    people.it(
      `${cell('drSwitchover', 'parked, retry', 'a refused write keeps no client out; it parks once they were let through')}; ${cell('drSwitchover', 'parked, skip', 'a traffic hook that fails parks with service on the new primary, and can be skipped')}; goes on where the plan accepts a bounded loss, and says what the bound is`,
      async (scenario) => {
        const value = { by: scenario.workflowId, at: scenario.service.now() };
        writeRightBeforeDemotion(scenario, 'east', 'west', { key: 'secret/late', value });
        const refused = keys(scenario, 'west', 'POST /v1/kv/data/runbooks-marker-after');
        const run = await underWay(scenario, { acceptLoss: 'bounded' });
        const traffic = await parksInTime(run, ({ step }) => step === LEAD);
        expect(actions(traffic)).toEqual(['retry', 'skip']);
        await expectServiceOn(scenario, 'west');
        await run.decide('skip', LEAD);
        const write = await parksInTime(run, ({ step }) => step === 'See that west takes a write');
        expect(actions(write)).toEqual(['retry', 'skip', 'abort']);
        const { serviceBackAt, findings } = await run.status();
        expect(serviceBackAt).toBeDefined();
        expect(findings).toContainEqual(expect.objectContaining({ code: 'write-not-proven', severity: 'critical' }));
        refused.remove();
        await run.decide('retry', 'See that west takes a write');
        const report = await run.report();

        expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'bounded', boundWalEntries: '0' } });
        expect(report.loss?.why).toContain('what was written between that read and the demotion');
        expect(report.leftToDo).toContainEqual(expect.stringContaining('clients keep calling the old address'));
        await expectServiceOn(scenario, 'west');
        expect(scenario.state('east').dr.discardedEntries).toBeGreaterThan(0);
        writeFileSync(trafficReady, '');
      },
    );

    people.it(
      'one that is not seen to serve in time waits for nobody: clients are led there, and it is told',
      async (scenario) => {
        scenario.limit({ serviceReady: '1s' }, 'awaitServiceReady');
        const silent = scenario.service.faults.add({
          cluster: 'east',
          endpoint: 'GET /v1/kv/data/runbooks-marker',
          action: { status: 503 },
          times: Infinity,
        });
        const report = await (await underWay(scenario, { to: 'east' })).report();
        silent.remove();
        scenario.limit();
        expect(report).toMatchObject({ outcome: 'completed', parkings: [], outage: { endedBy: 'service-ready' } });
        expect(report.outage?.serviceReadyAt).toBeUndefined();
        expect(report.findings).toContainEqual(expect.objectContaining({ code: 'service-not-proven' }));
        expect(report.leftToDo).toContainEqual(expect.stringContaining('not seen to serve'));
        await expectServiceOn(scenario, 'east');
      },
    );
  });

  describe('people in the outage', () => {
    people.it(
      cell('drSwitchover', 'abort at', 'an abort or a cancel request is noted there: it counts once a cluster serves'),
      async (scenario) => {
        const demoting = signalled();
        const heard = signalled();
        at(scenario, 'after', 'east', CHANGING.demote, () => {
          demoting.resolve();
          return heard.promise;
        });
        const run = await underWay(scenario);
        await demoting.promise;
        const noted = (count: number) => (status: RunStatus) =>
          status.findings.filter(({ code }) => code === 'stop-noted').length === count;
        await run.control('abort');
        await run.until('the abort', noted(1));
        await run.handle.cancel();
        await run.until('both', noted(2));
        heard.resolve();
        const report = await run.report();

        expect(report).toMatchObject({ outcome: 'aborted', parkings: [], outage: { endedBy: 'service-ready' } });
        expect(report.controls.map(({ control, by }) => [control, by])).toEqual([
          ['abort', 'grace'],
          ['cancel', 'a cancel request'],
        ]);
        const text = expect.stringContaining('once a cluster serves') as string;
        expect(report.receipts).toContainEqual(expect.objectContaining({ signal: 'abort', text }));
        // What is not protected is told, also by the query.
        expect(report.leftToDo.join('\n')).toMatch(/east/);
        expect(await reportOf(run)).toMatchObject({ outcome: 'aborted', leftToDo: report.leftToDo });
        expect(drPrimaries(scenario)).toEqual(['west']);
      },
    );
  });
});
