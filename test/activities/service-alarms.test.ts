/** What the samples of `walSampler` tell people: at a change, once, with one command, and at its end. */
import { randomUUID } from 'node:crypto';
import { walSamplerIdPrefix } from '../../src/contracts/observations';
import type { WalSampling } from '../../src/contracts/observations';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { findDeployment, wantedSchedules } from '../../src/inventory';
import { duration } from '../../src/inventory/schema-values';
import type { SimulatedService } from '../../src/simulator';
import { clusters, DEPLOYMENT, holding, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
import { openWebhook, WEBHOOK } from '../support/notification-servers';
import type { WebhookServer } from '../support/notification-servers';

const AFTER = 2;
/** More than the good samples after which an end is told. */
const ENOUGH = 8;
/** Longer than two samples take while a cluster hangs. */
const HANGING_MS = 25_000;

describe('walSampler', () => {
  let bench: ActivityBench;
  let hook: WebhookServer;
  openWebhook((opened) => (hook = opened));
  openBench((opened) => (bench = opened), {
    topology: {
      clusters: clusters('east', 'west', 'eu'),
      dr: [{ primary: 'east', secondaries: ['west'] }],
      performance: { primary: 'east', secondaries: [{ name: 'eu' }] },
      // Any field may be missing in any answer.
      readings: { optionalFieldMissingChance: 0.2 },
    },
    drSets: { main: ['east', 'west'], europe: ['eu'] },
    deployment: { notifications: [WEBHOOK] },
  });
  beforeEach(async () => {
    await settle();
    bench.openRuns = new Map();
    hook.posted.length = 0;
    hook.answers = [200];
  });

  /** One run of the sampler. */
  const sample = (samples = AFTER): Promise<WalSampling> => {
    const run = { ...bench.run, wid: `${walSamplerIdPrefix(DEPLOYMENT)}${randomUUID()}`, rid: randomUUID() };
    return bench.call('sampleWal', { deployment: DEPLOYMENT, samples, everyMs: 0 }, { run });
  };
  const told = () => hook.posted.map(({ body }) => `${String(body['event'])} ${String(body['subject'])}`);
  const began = (subject: string) => `service-alarm default/${DEPLOYMENT}/alarm:${subject}`;
  const ended = (subject: string) => `service-alarm-over default/${DEPLOYMENT}/alarm:${subject}`;
  const service = (): SimulatedService => bench.service;
  /** Until every secondary streams again, and people were told. */
  const settle = async () => {
    service().heal();
    for (const cluster of service().clusters.values()) await cluster.restart();
    for (let tries = 0; tries < 50; tries += 1) {
      service().advanceClock(500);
      const { samples } = await sample(1);
      const good = samples[0]?.clusters.every(({ answered, dr, performance }) => {
        const all = [dr, performance].filter((each) => each?.mode === 'secondary');
        return answered && all.every((each) => each?.state === 'stream-wals' && each.connected !== false);
      });
      if (good) break;
    }
    await sample(ENOUGH);
    hook.posted.length = 0;
  };
  const open = (type: string, phase: string, taskQueue = 'runbooks') => {
    const memo = { deployment: DEPLOYMENT, runbook: type, phase };
    bench.openRuns = new Map([[`deployment:${DEPLOYMENT}`, { type, runId: 'r', taskQueue, memo }]]);
  };

  it('sends no alarm in 1,000 quiet samples, whatever field is missing', async () => {
    for (let run = 0; run < 5; run += 1) expect((await sample(200)).samples).toHaveLength(200);
    expect(told()).toEqual([]);
  });

  it('a primary that is gone is reported at the second sample, once across all runs, and its end once', async () => {
    await service().cluster('east').kill();
    await sample(1);
    expect(told()).toEqual([]);
    await sample(1);
    expect(told()).toEqual([began('no-primary:main')]);
    expect(hook.posted[0]?.body).toMatchObject({
      severity: 'critical',
      runbook: 'walSampler',
      title: expect.stringMatching(
        /^\[CRITICAL\] payments: No cluster of DR set main answers as primary since \S+Z: east does not answer, west is a DR secondary\.$/,
      ) as string,
      commands: [
        {
          who: 'an operator',
          command: `runbook start drFailover --input '{"deployment":"payments","reason":"no DR primary answers"}'`,
        },
      ],
    });
    await sample(20);
    await sample(20);
    expect(hook.posted).toHaveLength(1);
    await service().cluster('east').restart();
    service().advanceClock(5_000);
    await sample(5);
    expect(hook.posted).toHaveLength(1);
    await sample(ENOUGH);
    await sample(ENOUGH);
    expect(told()).toEqual([began('no-primary:main'), ended('no-primary:main')]);
    expect(hook.posted[1]?.body).toMatchObject({
      severity: 'info',
      text: holding('DR set main has a primary again: east'),
    });
  });

  it('a failover whose start got no answer is reported as started if it runs, and only then', async () => {
    const deployment = findDeployment(bench.inventory, DEPLOYMENT);
    Object.assign(deployment, { onNoPrimary: { start: 'drFailover' } });
    const lost = () => Promise.reject(new Error('the answer was lost'));
    for (const runs of [true, false]) {
      bench.openRuns = new Map();
      bench.onStart = () => {
        if (runs) open('drFailover', 'preparing');
        return lost();
      };
      await service().cluster('east').kill();
      await sample();
      expect(told()).toEqual([began('no-primary:main')]);
      expect(JSON.stringify(hook.posted[0]?.body).includes('drFailover was started')).toBe(runs);
      bench.openRuns = new Map();
      await settle();
    }
    Object.assign(deployment, { onNoPrimary: undefined });
  });

  it('one bad sample raises no alarm, however often', async () => {
    for (let time = 0; time < 5; time += 1) {
      await service().cluster('east').kill();
      await sample(1);
      await service().cluster('east').restart();
      service().advanceClock(5_000);
      await sample(AFTER);
    }
    expect(told()).toEqual([]);
  });

  it('several good samples do not end a flapping alarm: it is one alarm', async () => {
    for (let time = 0; time < 4; time += 1) {
      service().partition('east', 'west');
      await sample(AFTER + 1);
      service().heal();
      service().advanceClock(5_000);
      await sample(3);
    }
    expect(told()).toEqual([began('not-streaming:west')]);
  });

  it('a broken link is reported for each secondary that does not stream, with the command that shows why', async () => {
    service().partition('east', 'west');
    service().partition('east', 'eu');
    await sample();
    expect(told().sort()).toEqual([began('not-streaming:eu'), began('not-streaming:west')]);
    for (const { body } of hook.posted)
      expect(body).toMatchObject({
        severity: 'warning',
        text: expect.stringMatching(
          /^No replication since \S+Z: (eu|west) is not connected to its primary\.$/,
        ) as string,
        commands: [{ command: 'runbook readiness payments' }],
      });
    hook.posted.length = 0;
    service().heal();
    service().advanceClock(5_000);
    await sample(ENOUGH);
    expect(told().sort()).toEqual([ended('not-streaming:eu'), ended('not-streaming:west')]);
  });

  it('a secondary that is gone is reported, without the others', async () => {
    await service().cluster('west').kill();
    await sample();
    expect(told()).toEqual([began('not-streaming:west')]);
    expect(hook.posted[0]?.body).toMatchObject({ text: holding('west does not answer') });
  });

  it('if no cluster answers, no failover is proposed', async () => {
    for (const name of ['east', 'west', 'eu']) await service().cluster(name).kill();
    await sample();
    expect(told()).toEqual([began('no-primary:main')]);
    expect(hook.posted[0]?.body).toMatchObject({ commands: [{ command: 'runbook readiness payments' }] });
  });

  it('two primaries are reported, with the command for the one that came back', async () => {
    const west = service().cluster('west');
    const east = service().cluster('east').role('dr');
    const before = west.role('dr');
    if (east.mode !== 'primary') throw new Error('east is no primary');
    west.setRole('dr', { ...east, knownSecondaries: [] }, service().now());
    await sample();
    expect(told()).toEqual([began('two-primaries:main')]);
    const input = { deployment: DEPLOYMENT, cluster: 'west', primary: 'east', reason: 'west is primary beside east' };
    expect(hook.posted[0]?.body).toMatchObject({
      severity: 'critical',
      text: holding('Several primaries in DR set main'),
      commands: [{ command: `runbook start drRejoin --input '${JSON.stringify(input)}'` }],
    });
    // As long as one of them does not answer, it may still serve.
    await west.kill();
    await sample(ENOUGH);
    expect(told()).toEqual([began('two-primaries:main')]);
    await west.restart();
    west.setRole('dr', before, service().now());
    service().advanceClock(5_000);
    await sample(2 * ENOUGH);
    expect(told()).toContain(ended('two-primaries:main'));
  });

  describe('an open run of ours', () => {
    it.each([
      ['drSwitchover', 'outage', 'kill', []],
      ['drSwitchover', 're-protecting', 'kill', []],
      ['replicationTeardown', 'working', 'kill', []],
      ['drFailover', 'waiting-for-people', 'kill', []],
      ['drSecondaryOnboarding', 'working', 'cut', []],
      ['drRejoin', 're-protecting', 'cut', []],
      // Nothing of this is its own doing.
      ['drSwitchover', 'waiting-for-people', 'kill', ['no-primary:main']],
      ['drSecondaryOnboarding', 'working', 'kill', ['no-primary:main']],
      ['drRejoin', 'waiting-for-people', 'kill', ['no-primary:main']],
      ['drFailover', 'waiting-for-people', 'cut', ['not-streaming:west']],
      ['operationTokenDisposal', 'working', 'cut', ['not-streaming:west']],
    ] as const)('%s in phase %s: %s', async (type, phase, what, subjects) => {
      open(type, phase);
      if (what === 'kill') await service().cluster('east').kill();
      else service().partition('east', 'west');
      await sample(5);
      expect(told()).toEqual(subjects.map(began));
      bench.openRuns = new Map();
      // It has ended, and what is wrong still is.
      await sample(5);
      expect(told()).toHaveLength(1);
    });

    it('holds the lock: the failover takes it over', async () => {
      open('drSwitchover', 'waiting-for-people');
      await service().cluster('east').kill();
      await sample();
      expect(hook.posted[0]?.body['commands']).toMatchObject([
        { command: holding('"reason":"no DR primary answers","takeOver":true}') },
      ]);
    });

    it('does not count if it is on another task queue', async () => {
      open('drSwitchover', 'outage', 'somebody-else');
      await service().cluster('east').kill();
      await sample();
      expect(told()).toEqual([began('no-primary:main')]);
    });
  });

  it('a cluster that hangs delays a notification by no more than the time limits of its calls', async () => {
    service().faults.add({ cluster: 'east', endpoint: /./, action: { delayMs: 60_000 }, times: Infinity });
    const began = performance.now();
    await sample();
    const took = performance.now() - began;
    service().faults.clear();
    expect(told()).toContain(`service-alarm default/${DEPLOYMENT}/alarm:no-primary:main`);
    expect(took).toBeLessThan(HANGING_MS);
  });

  it.each(['30s', '1m', '90s', '5m', '15m'])(
    'at the pace of its Schedule, every %s, people are notified within 90 s, whenever something happens',
    (every) => {
      const { ms: everyMs } = duration.parse(every);
      const deployment = findDeployment(bench.inventory, DEPLOYMENT);
      const [wanted] = wantedSchedules({ ...deployment, schedules: { ...deployment.schedules, walSampler: everyMs } });
      const { samples, everySeconds } = RUNBOOK_INPUTS.walSampler.parse(wanted?.input);
      // From the last sample of a run, right after which it happens, to the first one of the next.
      const pauseMs = everyMs - (samples - 1) * everySeconds * 1_000;
      const { afterSamples } = deployment.alarms;
      // All samples hang: see above.
      const latest = pauseMs + (afterSamples - 1) * everySeconds * 1_000 + HANGING_MS;
      expect([afterSamples, latest <= 90_000]).toEqual([AFTER, true]);
      // Also if one run of the default Schedule was skipped, when nothing hangs.
      if (every === '1m') expect(latest - HANGING_MS + everyMs).toBeLessThanOrEqual(90_000);
    },
  );

  it('a target that is down is tried again at the next sample, until it has the notification once', async () => {
    hook.answers = [404, 404, 404, 200];
    service().partition('east', 'west');
    await sample(10);
    expect(told()).toEqual(Array<string>(4).fill(began('not-streaming:west')));
    expect(new Set(hook.values('id')).size).toBe(1);
  });

  it('a record that cannot be read loses no notification, and no worker repeats its own', async () => {
    const reading = jest.spyOn(bench.records, 'read').mockRejectedValue(new Error('nobody answers'));
    service().partition('east', 'west');
    await sample();
    await sample();
    await sample();
    expect(told()).toEqual([began('not-streaming:west')]);
    reading.mockRestore();
  });

  it('no run can send it: a forged one would close the incident of an outage', async () => {
    const alarm = { kind: 'no-primary', drSet: 'main', seen: [] } as const;
    const forged = {
      ...({ event: 'service-alarm-over', severity: 'info', runbook: 'walSampler', number: 1 } as const),
      ...{ subject: 'alarm:no-primary:main', at: Date.now(), alarm },
    };
    const failure = await bench.failure('notify', { deployment: DEPLOYMENT, notification: forged });
    expect([failure.code, told()]).toEqual(['INVALID_INPUT', []]);
  });
});
