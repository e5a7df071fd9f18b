/** The alarms of `walSampler` beside whole runs, the failover that it starts, and who notices that it is dead. */
import { randomUUID } from 'node:crypto';
import pino from 'pino';
import { watchSampler } from '../../activities';
import { walSamplerIdPrefix } from '../../src/contracts/observations';
import { splitPrimaries, unsealAll, until } from '../support/by-hand';
import { changingCalls, CHANGING } from '../support/faults';
import { failoverPeople, FAILOVER_LIMITS } from '../support/failover';
import { openWebhook, WEBHOOK } from '../support/notification-servers';
import type { WebhookServer } from '../support/notification-servers';
import { clusters, openScenario } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';
import { temporalServer } from '../support/temporal-server';

jest.setTimeout(300_000);

const dr = [{ primary: 'east', secondaries: ['west'] }];
const notifications = [WEBHOOK];

/** Runs of the sampler one after the other, as its Schedule starts them, until `work` has ended. */
async function sampledDuring<T>(scenario: Scenario, work: () => Promise<T>): Promise<T> {
  let over = false;
  const sampling = (async () => {
    while (!over) await (await sampler(scenario, 20)).handle.result();
  })();
  try {
    return await work();
  } finally {
    over = true;
    await sampling;
  }
}

function sampler(scenario: Scenario, samples: number): Promise<TestRun> {
  const id = `${walSamplerIdPrefix(scenario.name)}${randomUUID()}`;
  return scenario.run('walSampler', { samples, everySeconds: 0.1 }, id);
}

const alarmsOf = (hook: WebhookServer) =>
  hook.posted.flatMap(({ body }) => (String(body['event']).startsWith('service-alarm') ? [String(body['text'])] : []));

describe('beside runs of ours', () => {
  let hook: WebhookServer;
  let scenario: Scenario;
  openWebhook((opened) => (hook = opened));
  openScenario((opened) => (scenario = opened), {
    topology: { clusters: [...clusters('east', 'west'), { name: 'south', nodes: 3 }], dr },
    drSets: { main: ['east', 'west', 'south'] },
    deployment: { notifications },
  });

  it('no alarm is raised for an onboarding, which takes longer than two samples', async () => {
    await sampledDuring(scenario, async () => {
      const run = await scenario.begin(
        'drSecondaryOnboarding',
        { primary: 'east', secondary: 'south' },
        'approve wipe',
      );
      await run.waitsFor('action');
      await unsealAll(scenario, 'south', 'east');
      expect(await run.report()).toMatchObject({ outcome: 'completed' });
    });
    expect(alarmsOf(hook)).toEqual([]);
  });

  it('no alarm is raised for a planned switchover, whose outage many samples show', async () => {
    const slow = { endpoint: CHANGING.promote, action: { delayMs: 1_500 }, times: 1 } as const;
    const held = scenario.service.faults.add(slow);
    await sampledDuring(scenario, async () => {
      const run = await scenario.start();
      await run.people();
      expect(await run.report()).toMatchObject({ outcome: 'completed' });
    });
    expect([held.hits, alarmsOf(hook)]).toEqual([1, []]);
  });
});

describe('beside a rejoin', () => {
  let hook: WebhookServer;
  let scenario: Scenario;
  openWebhook((opened) => (hook = opened));
  openScenario((opened) => (scenario = opened), {
    topology: { clusters: clusters('east', 'west'), dr },
    deployment: { notifications },
  });

  it('no second alarm is raised for the second primary, nor for its missing stream before it is unfenced', async () => {
    await splitPrimaries(scenario, 'east', 'west');
    const run = await scenario.run('drRejoin', { cluster: 'east' });
    await sampledDuring(scenario, async () => {
      await run.do('shares', 'approve plan');
      await run.waitsFor('approval', ({ gate }) => gate === 'unfence');
      await (await sampler(scenario, 5)).handle.result();
      scenario.service.heal();
      await run.do('approve unfence');
      expect(await run.report()).toMatchObject({ outcome: 'completed' });
    });
    expect(alarmsOf(hook)).toEqual([]);
  });

  it('without a run of ours, the second primary is reported, with the command for the one that came back', async () => {
    await splitPrimaries(scenario, 'west', 'east');
    await (await sampler(scenario, 5)).handle.result();
    expect(alarmsOf(hook)).toEqual([expect.stringContaining('Several primaries in DR set main')]);
    expect(JSON.stringify(hook.posted.at(-1)?.body['commands'])).toContain('runbook start drRejoin');
  });
});

describe('onNoPrimary: { start: drFailover }', () => {
  let hook: WebhookServer;
  let scenario: Scenario;
  openWebhook((opened) => (hook = opened));
  openScenario((opened) => (scenario = opened), {
    topology: { clusters: clusters('east', 'west'), dr },
    limits: FAILOVER_LIMITS,
    deployment: { notifications, onNoPrimary: { start: 'drFailover' } },
  });
  const failovers = async () => {
    const query = `WorkflowId = "${scenario.workflowId}" AND WorkflowType = "drFailover"`;
    return (await scenario.client.workflow.count(query)).count;
  };

  it('is refused while the primary answers, and does no harm', async () => {
    // The sampler alone does not see the primary.
    const unseen = scenario.service.faults.add({
      cluster: 'east',
      endpoint: 'GET /v1/sys/replication/status',
      action: 'reset',
      times: Infinity,
    });
    const sampling = await sampler(scenario, 10);
    const started = await until('the failover', () =>
      scenario.client.workflow
        .getHandle(scenario.workflowId)
        .describe()
        .catch(() => undefined),
    );
    unseen.remove();
    await sampling.handle.result();
    const run = scenario.attach(scenario.workflowId, started.runId);
    expect(await run.failure()).toMatchObject({ code: 'PRECONDITION_FAILED' });
    const sent = scenario.service.calls.filter(({ method, path }) => method !== 'GET' && !path.endsWith('-self'));
    expect(sent).toEqual([]);
    await (await sampler(scenario, 20)).handle.result();
    expect(alarmsOf(hook)).toEqual([
      expect.stringContaining('drFailover was started, and waits at its gates.'),
      expect.stringContaining('has a primary again: east'),
    ]);
    hook.posted.length = 0;
  });

  it('starts under the lock, once, waits at its gates, and carries out the approved operations', async () => {
    const before = await failovers();
    await scenario.service.cluster('east').kill();
    await (await sampler(scenario, 5)).handle.result();
    const [told] = hook.posted.filter(({ body }) => body['event'] === 'service-alarm');
    expect(told?.body).toMatchObject({
      severity: 'critical',
      text: expect.stringContaining('drFailover was started, and waits at its gates.') as string,
      commands: [{ who: 'to see whom it waits for', command: `runbook status ${scenario.workflowId}` }],
    });
    await (await sampler(scenario, 5)).handle.result();
    const run = scenario.attach();
    await run.until('it waits', ({ waiting }) => waiting.some((each) => each.for === 'shares'));
    expect(changingCalls(scenario.service, 'west', CHANGING.promote)).toBe(0);
    await sampledDuring(scenario, async () => {
      await failoverPeople(run);
      expect(await run.report()).toMatchObject({ outcome: 'completed', requestedBy: { how: 'claimed' } });
    });
    await (await sampler(scenario, 10)).handle.result();
    await until('one run is listed', async () => (await failovers()) === before + 1);
    expect(alarmsOf(hook)).toEqual([
      expect.stringContaining('No cluster of DR set main answers as primary'),
      expect.stringContaining('DR set main has a primary again: west'),
    ]);
    hook.posted.length = 0;
  });
});

describe('a sampler that has stopped', () => {
  let hook: WebhookServer;
  let scenario: Scenario;
  openWebhook((opened) => (hook = opened));
  openScenario((opened) => (scenario = opened), {
    deployment: { notifications, schedules: { walSampler: '30s' } },
  });
  const worker = () => {
    const { inventory, client: temporal } = scenario;
    const log = pino({ level: 'silent' });
    return { inventory, temporal, log, records: scenario.recordsOfAWorker() };
  };
  const sweep = (upSince = 0) => watchSampler(worker(), temporalServer().namespace, scenario.name, upSince);
  const later = (ms: number) => jest.spyOn(Date, 'now').mockReturnValue(Date.now() + ms);
  const listed = (status: string, count: number) =>
    until('listed', async () => {
      const query = `WorkflowId STARTS_WITH "${walSamplerIdPrefix(scenario.name)}" AND ExecutionStatus = "${status}"`;
      return (await scenario.client.workflow.count(query)).count >= count;
    });
  afterEach(() => jest.restoreAllMocks());

  it('is reported by the workers, once, and its end once', async () => {
    // Never sampled: a point of readiness, and no alarm.
    later(3_600_000);
    await sweep();
    jest.restoreAllMocks();
    await (await sampler(scenario, 1)).handle.result();
    await listed('Completed', 1);
    await sweep();
    expect(alarmsOf(hook)).toEqual([]);
    later(100_000);
    // A worker that has just started: the next run of the sampler begins soon.
    await sweep(Date.now() - 10_000);
    expect(alarmsOf(hook)).toEqual([]);
    // Two hosts at the same time.
    await Promise.all([sweep(), sweep()]);
    await sweep();
    expect(alarmsOf(hook)).toEqual([expect.stringContaining('walSampler does not run')]);
    expect(hook.posted[0]?.body).toMatchObject({ severity: 'warning', commands: [{ command: 'runbook doctor' }] });
    jest.restoreAllMocks();
    await (await sampler(scenario, 1)).handle.result();
    await listed('Completed', 2);
    await sweep();
    await sweep();
    expect(alarmsOf(hook).slice(1)).toEqual([expect.stringContaining('Samples are recorded again')]);
    hook.posted.length = 0;
  });

  it('runs whose samples cannot be written are reported as such', async () => {
    for (let run = 0; run < 2; run += 1) {
      const { handle } = await sampler(scenario, 200);
      await handle.terminate('as if its result were too large');
    }
    await listed('Terminated', 2);
    later(100_000);
    await sweep();
    expect(alarmsOf(hook)).toEqual([expect.stringContaining('runs of walSampler begin, but none completes')]);
  });
});

describe('a worker', () => {
  let hook: WebhookServer;
  let scenario: Scenario;
  openWebhook((opened) => (hook = opened));
  openScenario((opened) => (scenario = opened), {
    deployment: { notifications, schedules: { walSampler: '30s' } },
    timing: { samplerWatchMs: 200 },
  });
  afterEach(() => jest.restoreAllMocks());

  it('checks the sampler by itself', async () => {
    await (await sampler(scenario, 1)).handle.result();
    jest.spyOn(Date, 'now').mockReturnValue(Date.now() + 100_000);
    await until('told', () => alarmsOf(hook).length > 0);
    expect(alarmsOf(hook)).toEqual([expect.stringContaining('walSampler does not run')]);
    jest.restoreAllMocks();
    await (await sampler(scenario, 1)).handle.result();
    await until('over', () => alarmsOf(hook).length > 1);
    expect(alarmsOf(hook)[1]).toContain('Samples are recorded again');
  });
});
