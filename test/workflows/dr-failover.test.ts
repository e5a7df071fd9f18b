import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Report } from '../../src/contracts/report';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { CHANGING, signalled, statuses } from '../support/faults';
import { FAILOVER_LIMITS, bringBack, expectServesAlone, failoverPeople, startFailover } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { cell, expectFewEvents } from '../support/matrix';
import { actions, at } from '../support/outage';
import { Scenario, pair, temporaryDirectory } from '../support/scenario';

const plain = new Lane(() => Scenario.start({ topology: pair(3), limits: FAILOVER_LIMITS }));
const directory = temporaryDirectory('failover');
const batchFile = join(directory, 'batch-token');
const snapshotFile = join(directory, 'snapshot');
const stuck = new Lane(() =>
  Scenario.start({
    limits: FAILOVER_LIMITS,
    cluster: () => ({ batchToken: { file: batchFile } }),
    deployment: {
      hooks: {
        fence: { command: ['/bin/false'], timeout: '60s' },
        snapshot: { command: ['/usr/bin/touch', snapshotFile], timeout: '60s' },
      },
      snapshot: { to: 'hook' },
    },
  }),
);
const waits = new Lane(() =>
  Scenario.start({
    limits: FAILOVER_LIMITS,
    deployment: { hooks: { traffic: { command: ['/bin/false'], timeout: '60s' } } },
  }),
);

const codes = ({ findings }: Report) => findings.map(({ code }) => code);

describe('an unplanned DR failover', () => {
  runLanes(plain, stuck, waits);

  plain.it(cell('drFailover', 'no fault'), async (scenario) => {
    await scenario.service.cluster('east').kill();
    const run = await startFailover(scenario);
    await failoverPeople(run);
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', parkings: [], loss: { loss: 'unknown' } });
    expect(report.loss?.why).toContain('bound unknown');
    expect(report.outage?.startedBecause).toContain('the last heartbeat of east');
    // One last heartbeat, wherever it is told.
    const heard = [...JSON.stringify(report).matchAll(/heard east last at (\d[\d:.T-]+Z)/g)].map(([, at]) => at);
    expect(new Set(heard)).toEqual(new Set([report.outage?.startedAt]));
    expect(report.outage?.totalMs).toBeGreaterThan(0);
    expect(report.outage?.peopleMs).toBeGreaterThan(0);
    // Nobody else of this deployment can say that east is gone, and no hook fences it.
    expect(codes(report)).toEqual(expect.arrayContaining(['loss-bound', 'sign-attested-by-people', 'token-kept']));
    expect(JSON.stringify(report.plan?.content)).toContain('Whoever approves attests that it is fenced');
    expect(report.leftToDo).toEqual([expect.stringContaining('runbook start drRejoin --input')]);
    const [, rejoin = ''] = /--input '(.*)'/.exec(report.leftToDo[0] ?? '') ?? [];
    expect(JSON.parse(rejoin)).toMatchObject({ deployment: scenario.name, cluster: 'east', primary: 'west' });
    expect(report.result).toMatchObject({ from: 'east', to: 'west', fencing: 'attested' });
    expect(statuses(scenario, 'west', CHANGING.promote)).toEqual([200]);
    await expectServesAlone(scenario, 'west');
    await expectFewEvents('drFailover', run);
  });

  describe('is refused, and nothing is touched,', () => {
    const refused = async (scenario: Scenario, input: Readonly<Record<string, unknown>> = {}) => {
      const failure = await (await startFailover(scenario, input)).failure();
      expect(failure.code).toBe('PRECONDITION_FAILED');
      expect(scenario.calls('west', CHANGING.startAttempt.replace('POST /v1/sys/', ''))).toBe(0);
      return JSON.stringify(failure);
    };

    plain.it(
      cell('drFailover', 'refused', 'the primary answers, a second sign is missing, another cluster is primary'),
      async (scenario) => {
        await bringBack(scenario, 'east', 'west');
        expect(await refused(scenario, { from: 'west' })).toContain('drSwitchover');
        expect(await refused(scenario)).toContain('drSwitchover');
        expect(await refused(scenario, { from: 'east', to: 'west' })).toContain('west is DR primary of the set');
        // Only the way from here to the primary is broken: its secondary hears it.
        scenario.limit({ primaryGone: '2m' });
        scenario.service.faults.add({ cluster: 'west', endpoint: /./, action: 'reset', times: Infinity });
        const unheard = await refused(scenario);
        expect(unheard).toContain('heartbeats of the primary stopped');
        expect(unheard).toContain('east still hears west');
        scenario.service.faults.clear();
        await expectServesAlone(scenario, 'west');
      },
    );
  });

  describe('where the secondary knows to lack writes', () => {
    /** West hears of a write that it never gets. */
    const fallBehind = async (scenario: Scenario) => {
      const { service } = scenario;
      service.cluster('west').holdStream('dr', true);
      service.cluster('east').write('secret/late', { at: service.now() });
      await new Promise((resolve) => setTimeout(resolve, 3 * service.timing.heartbeatMs));
      service.advance();
      await service.cluster('east').kill();
    };
    const parked = (run: Awaited<ReturnType<typeof startFailover>>, after = 0) =>
      run.waitsFor('decision', ({ step, parkingNo }) => step === 'Promote west' && parkingNo > after);

    stuck.it(cell('drFailover', 'parked, abort', 'promotion refused'), async (scenario) => {
      scenario.limit({ promote: '1s' });
      await fallBehind(scenario);
      const run = await startFailover(scenario, { fencing: 'attested' });
      await failoverPeople(run);
      const waiting = await parked(run);
      expect(waiting.code).toBe('NOT_CAUGHT_UP');
      expect(actions(waiting)).toEqual(['retry', 'force', 'abort']);
      await run.decide('abort');
      const report = await run.report();

      expect(report.outcome).toBe('aborted');
      expect(report.findings[0]).toMatchObject({ severity: 'critical', code: 'no-primary' });
      expect(report.leftToDo).toContainEqual(
        expect.stringContaining('no cluster seen as primary; east did not answer'),
      );
      expect(scenario.state('west').operationTokens).toBe(0);
    });

    stuck.it(
      `${cell('drFailover', 'parked, retry', 'promotion refused')}; force needs two approvers`,
      async (scenario) => {
        scenario.limit({ promote: '1s' });
        const run = await startFailover(scenario, { fencing: 'attested' });
        await failoverPeople(run);
        const first = await parked(run);
        await run.decide('retry');
        await parked(run, first.parkingNo);
        scenario.limit();
        expect(existsSync(snapshotFile)).toBe(false);
        // Never force of itself, however long it is refused.
        expect(scenario.service.calls.some(({ body }) => body['force'] === true)).toBe(false);
        await run.decide('force');
        await run.approve('force', 'grace');
        await run.waitsFor('approval', ({ gate, approved }) => gate === 'force' && approved.length === 1);
        expect(scenario.service.calls.some(({ body }) => body['force'] === true)).toBe(false);
        await run.approve('force', 'henry');
        const report = await run.report();

        expect(report).toMatchObject({ outcome: 'completed' });
        expect(report.gates.map(({ gate, state, by }) => [gate, state, by.length])).toEqual([
          ['promote', 'approved', 1],
          ['force', 'approved', 2],
        ]);
        const steps = report.steps.map(({ name, outcome }) => `${name}: ${outcome}`);
        const promoted = steps.findIndex((each) => /^Promote west.*: done$/.test(each));
        expect(steps.slice(promoted - 1, promoted)).toEqual(['Take a snapshot of west: done']);
        expect(existsSync(snapshotFile)).toBe(true);
        await expectServesAlone(scenario, 'west');
      },
    );
  });

  describe('without the primary, by the batch token that readiness proved while there was one', () => {
    /** A former primary is back, and the one that serves makes a batch token that readiness sees. */
    const prove = async (scenario: Scenario, [former, primary]: readonly [string, string]) => {
      // An earlier test held it.
      scenario.service.cluster(former).holdStream('dr', false);
      await bringBack(scenario, former, primary);
      const cluster = scenario.service.cluster(primary);
      const rights = { path: 'sys/replication/dr/secondary/*', capabilities: ['update', 'read'] };
      cluster.writePolicy('dr-operations', [rights]);
      const token = cluster.createToken({ policies: ['dr-operations'], type: 'batch', ttlMs: 7_200_000 });
      writeFileSync(batchFile, token, { mode: 0o600 });
      const check = { deployment: scenario.name };
      await (await scenario.startRunbook('readiness', check, `readiness:${scenario.name}`)).report();
      return token;
    };
    const gone = async (scenario: Scenario, cluster: string) => {
      await new Promise((resolve) => setTimeout(resolve, 2 * scenario.service.timing.heartbeatMs));
      scenario.service.advance();
      await scenario.service.cluster(cluster).kill();
    };

    stuck.it(
      `${cell('drFailover', 'parked, skip', 'fence hook')} by two people; auto asks no holder, and plan and report say when the token was proven`,
      async (scenario) => {
        const token = await prove(scenario, ['east', 'west']);
        await gone(scenario, 'west');
        const run = await startFailover(scenario);
        await approveLongAgo(scenario, run, 'promote');
        expect(await approveAgain(run, 'promote')).not.toHaveProperty('until');
        await run.decide('skip', 'Fence west');
        await run.waitsFor('decision', ({ step, decidedOnce }) => step === 'Fence west' && decidedOnce !== undefined);
        expect(scenario.calls('east', 'dr/secondary/promote')).toBe(0);
        await run.decide('skip', 'Fence west', 'henry');
        const report = await run.report();

        expect(report).toMatchObject({ outcome: 'completed', tokens: [], result: { fencing: 'hook' } });
        expect(report.leftToDo).toContainEqual(expect.stringContaining('nothing but the word of those who approved'));
        expect(report.plan?.content.choices['tokenSource']).toBe('batch');
        expect(JSON.stringify(report.plan?.content.warnings)).toMatch(/east was proven by the primary at 2.*ends at 2/);
        expect(statuses(scenario, 'east', CHANGING.startAttempt)).toEqual([]);
        await expectServesAlone(scenario, 'east');
        expect(JSON.stringify(report)).not.toContain(token);
      },
    );

    stuck.it('a proven token that the promotion refuses is replaced by one of the holders', async (scenario) => {
      await prove(scenario, ['west', 'east']);
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

  plain.it('a primary with a blocked audit device: both refusals say what to do, and it works', async (scenario) => {
    const { service } = scenario;
    service.cluster('west').auditBlocked = true;
    for (const runbook of ['drSwitchover', 'drFailover']) {
      const input = runbook === 'drSwitchover' ? { to: 'east' } : {};
      const { message } = await (await scenario.run(runbook, input)).failure();
      expect(message).toMatch(/observed .*AUDIT_DEVICE_BLOCKED/);
    }
    const planned = await (await startFailover(scenario, { dryRun: true })).report();
    const broken = planned.preconditions.find(({ name }) => name === 'no primary is broken');
    expect(broken).toMatchObject({ cluster: 'west', verdict: 'fail' });
    expect(broken?.next).toContain('stop the service on every node of west');
    await service.cluster('west').kill();
    const run = await startFailover(scenario);
    await failoverPeople(run);
    expect(await run.report()).toMatchObject({ outcome: 'completed' });
    await expectServesAlone(scenario, 'east');
  });

  describe('while people are waited for', () => {
    waits.it(cell('drFailover', 'abort at', 'shares and gate promote'), async (scenario) => {
      await scenario.service.cluster('east').kill();
      const run = await startFailover(scenario);
      await run.share('ada');
      // In an outage no clock ends the wait at a gate.
      expect(await run.waitsFor('approval', ({ gate }) => gate === 'promote')).not.toHaveProperty('until');
      const second = await scenario.run('drFailover', { takeOver: true }, `ui-${scenario.name}`);
      expect((await second.failure()).code).toBe('LOCK_HELD');
      await run.control('abort', { reason: 'east is only rebooting' });
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'aborted', gates: [{ gate: 'promote', state: 'opened' }] });
      expect(codes(report)).toContain('no-primary');
      expect(scenario.calls('west', 'dr/secondary/promote')).toBe(0);
      await scenario.service.cluster('east').restart();
      await expectServesAlone(scenario, 'east');
    });

    waits.it(
      `${cell('drFailover', 'parked, skip', 'traffic hook')}; a primary that comes back right before the call is seen by the promotion itself`,
      async (scenario) => {
        await scenario.service.cluster('east').kill();
        const back = signalled();
        at(
          scenario,
          'after',
          'west',
          CHANGING.giveShare,
          async () => {
            await scenario.service.cluster('east').restart();
            back.resolve();
          },
          3,
        );
        const run = await startFailover(scenario);
        await failoverPeople(run);
        await back.promise;
        const refused = await run.waitsFor('decision', ({ step }) => step === 'Promote west');
        expect(refused.code).toBe('STATE_DIVERGED');
        expect(actions(refused)).toEqual(['retry', 'abort']);
        expect(scenario.calls('west', 'dr/secondary/promote')).toBe(0);
        await expectServesAlone(scenario, 'east');
        await scenario.service.cluster('east').kill();
        // The silence must last again before anything is promoted.
        await new Promise((resolve) => setTimeout(resolve, 2_500));
        await run.decide('retry');
        const traffic = await run.waitsFor('decision', ({ step }) => step === 'Lead the clients to the new primary');
        await expectServesAlone(scenario, 'west');
        await run.decide('skip', traffic.step);
        const report = await run.report();

        expect(report.outcome).toBe('completed');
        expect(report.leftToDo).toContainEqual(expect.stringContaining('clients keep calling the old address'));
      },
    );
  });
});
