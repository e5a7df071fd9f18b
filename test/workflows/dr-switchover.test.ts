import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { lastPrimaryChange } from '../../activities/roles/primary-changes';
import type { ServiceAnswer } from '../../src/simulator/messages';
import { actions, at, CHANGING, drPrimaries, statuses } from '../support/faults';
import { scenarioWithLogin } from '../support/logins';
import { expectFewEvents } from '../support/matrix';
import { WebhookServer } from '../support/notification-servers';
import { pair, openScenario, temporaryDirectory } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';

const COOL_DOWN = 'cool-down since the last change of the primary';

describe('a planned DR switchover without a fault', () => {
  let scenario: Scenario;
  openScenario((opened) => (scenario = opened), {
    // Marker and proof work on an old engine too.
    topology: { ...pair(3), mounts: [{ path: 'kv/', version: 1 }] },
    deployment: { objectives: { outage: '10m', loss: 'none', unprotected: '1ms' } },
    limits: { coolDown: '10m' },
  });

  it('changes the roles, loses no data, does not wait for people in the outage', async () => {
    const run = await scenario.start();
    await run.people();
    const report = await run.report();

    const ended = { outcome: 'completed', loss: { loss: 'none' }, outage: { peopleMs: 0 }, leftToDo: [] };
    expect(report).toMatchObject(ended);
    expect(report.outage?.totalMs).toBeGreaterThan(0);
    // The status counts from the same call.
    expect(new Date((await run.status()).outageSince ?? 0).toISOString()).toBe(report.outage?.startedAt);
    // Nothing went wrong, and nothing reads as if it had: the kept token of the new primary is information.
    expect(report.findings.map(({ severity, code }) => [severity, code])).toEqual([['info', 'token-kept']]);
    expect(report.objectives?.map(({ verdict }) => verdict)).toEqual(['met', 'met', 'missed']);
    expect(scenario.calls('east', 'dr/primary/demote')).toBe(1);
    expect(scenario.calls('west', 'dr/secondary/promote')).toBe(1);
    const roles = report.finalState.map(({ cluster, dr }) => `${cluster} ${dr?.mode}`);
    expect(roles).toEqual(['east secondary', 'west primary']);
    expect(report.tokens.map(({ cluster, state }) => `${cluster} ${state}`)).toEqual(['west kept', 'east deleted']);
    expect(scenario.service.cluster('west').read('kv/runbooks-marker-after')).toEqual({ writtenOn: 'west' });
    expect(scenario.service.calls.filter(({ path }) => path.includes('kv/data/'))).toEqual([]);
    await expectFewEvents('drSwitchover', run);
  });

  it('refused: back, before the cool-down has passed; with a shorter one it passes', async () => {
    const sources = { records: scenario.recordsOfAWorker(), log: { warn: () => undefined } as never };
    const known = await lastPrimaryChange(sources, scenario.name);
    expect(known).toMatchObject({ last: { runbook: 'drSwitchover', cluster: 'west' } });
    expect(await scenario.refusal('drSwitchover', { to: 'east' })).toContain(COOL_DOWN);
    expect(drPrimaries(scenario)).toEqual(['west']);

    scenario.limit({ coolDown: '1ms' });
    const { preconditions } = await scenario.play('drSwitchover', { to: 'east', dryRun: true });
    expect(preconditions.find(({ name }) => name === COOL_DOWN)).toMatchObject({ verdict: 'ok' });
    expect(preconditions.filter(({ verdict }) => verdict === 'fail')).toEqual([]);
  });
});

const SNAPSHOT = 'GET /v1/sys/storage/raft/snapshot';

/** A certificate, whose tokens end in the middle; a busy primary, whose clients a quota stops; a snapshot; people to tell. */
describe('a planned DR switchover with a stopped standby on each side, by workers that log in with a certificate', () => {
  const [directory, snapshots] = [temporaryDirectory('cert'), temporaryDirectory('snapshots')];
  let scenario: Scenario;
  let up: WebhookServer;
  let hanging: WebhookServer;
  beforeAll(async () => {
    [up, hanging] = await Promise.all([WebhookServer.start(), WebhookServer.start()]);
    const gone = await WebhookServer.start();
    process.env['TEST_UP'] = `${up.origin}/secret-of-up`;
    process.env['TEST_HANGING'] = `${hanging.origin}/secret-of-hanging`;
    process.env['TEST_GONE'] = `${gone.origin}/secret-of-gone`;
    await gone.stop();
    hanging.answers = ['hang'];
    const opened = await scenarioWithLogin('cert', directory, {
      topology: { ...pair(3), timing: { canaryMs: 1_000 } },
      limits: { walStill: '400ms' },
      deployment: {
        quiesce: 'quota',
        snapshot: { to: snapshots },
        people: { remindAfter: '300ms', escalateAfter: '500ms' },
        notifications: [
          { name: 'up', kind: 'webhook', url: { env: 'TEST_UP' } },
          { name: 'gone', kind: 'slack', url: { env: 'TEST_GONE' }, events: ['started', 'outage-started', 'finished'] },
          { name: 'hanging', kind: 'webhook', url: { env: 'TEST_HANGING' }, events: ['outage-started'], timeout: '1s' },
        ],
      },
    });
    ({ scenario } = opened);
    scenario.guards(opened.setUp.secrets);
  });
  afterAll(async () => {
    await Promise.all([scenario.stop(), up.stop(), hanging.stop()]);
  });

  const told = (run: TestRun, event: string) =>
    run.until(`told ${event}`, () => up.posted.find(({ body }) => body['event'] === event)?.body);
  const logins = () => scenario.service.calls.filter(({ path }) => path.endsWith('auth/cert/login'));

  it('is shown to the approvers, and the others carry it out', async () => {
    const { service } = scenario;
    for (const side of ['east', 'west'] as const) {
      const cluster = service.cluster(side);
      await cluster.killNode(cluster.nodes.findIndex((node) => node !== cluster.leadership.active));
    }
    const cut = (_cluster: unknown, answer?: ServiceAnswer) =>
      void Object.assign(answer ?? {}, { bytes: answer?.bytes?.subarray(0, 1_000) });
    service.faults.add({ cluster: 'east', endpoint: SNAPSHOT, when: 'after', action: cut });
    const run = await scenario.start({ go: 'auto' });
    const reminder = await told(run, 'reminder');
    expect(reminder).toMatchObject({ severity: 'info', workflowId: scenario.workflowId });
    const escalation = await told(run, 'escalation');
    expect(escalation).toMatchObject({ severity: 'warning' });
    expect(JSON.stringify([reminder, escalation])).toMatch(/runbook (approve|share) deployment:/);
    await run.shares();
    await run.waitsFor('approval');
    const before = logins().length;
    // A canary in the moment of the demotion, which west never gets: both Merkle roots differ.
    at(scenario, 'before', 'east', CHANGING.demote, (east) => {
      service.partition('east', 'west');
      east.writeCanary(service.now());
    });
    at(scenario, 'after', 'east', CHANGING.demote, () => service.heal());
    // The longest life of the worker's token is over, and it cannot know that.
    service.advanceClock(3 * 3_600_000);
    await run.approve('plan');

    const parked = await run.parks('Take a snapshot of east');
    expect([parked.code, ...actions(parked)]).toEqual(['RESPONSE_INVALID', 'retry', 'skip', 'abort']);
    expect(drPrimaries(scenario)).toEqual(['east']);
    expect(await readdir(snapshots)).toEqual([]);
    await run.do('retry');
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], loss: { loss: 'none' } });
    expect(report.loss?.why).toMatch(/clients are refused with 429 .* rose by \d within/);
    expect(statuses(scenario, 'west', `DELETE /v1/sys/quotas/rate-limit/runbooks-${report.runId}`)).toEqual([204]);
    expect(statuses(scenario, 'east', CHANGING.demote)).toEqual([200]);
    expect(logins().slice(before)).toContainEqual(expect.objectContaining({ cluster: 'east', status: 200 }));
    expect(logins().filter(({ status }) => status !== 200)).toEqual([]);
    await expectSnapshot(report);
    expectTold(report);
    expect(JSON.stringify(report)).not.toContain('secret-of-');
  });

  async function expectSnapshot({ steps }: Awaited<ReturnType<TestRun['report']>>): Promise<void> {
    const names = steps.map(({ name }) => name);
    expect(names.indexOf('Take a snapshot of east')).toBeLessThan(names.indexOf('Quiesce clients'));
    const [file = ''] = await readdir(snapshots);
    const content = await readFile(`${snapshots}/${file}`);
    const sum = createHash('sha256').update(content).digest('hex');
    const taken = steps.findLast(({ name }) => name === 'Take a snapshot of east');
    expect(taken?.activities.map(({ observed }) => observed)).toEqual([
      `snapshot of east: ${snapshots}/${file}, ${content.length} bytes, SHA-256 ${sum}`,
    ]);
  }

  /** Each event once, in order, while two targets are down; the report names those. */
  function expectTold({ findings, steps }: Awaited<ReturnType<TestRun['report']>>): void {
    const events = up.posted.map(({ body }) => String(body['event']));
    // The gate and the shares are waited for side by side. What was escalated is told when it is over, as is the parking.
    expect(events).toContain('over');
    expect(events.filter((event) => !['reminder', 'escalation', 'over'].includes(event))).toEqual([
      'started',
      'waiting-for-people',
      'waiting-for-people',
      'parked',
      'outage-started',
      'service-ready',
      'protected-again',
      'finished',
    ]);
    expect(up.posted.at(-1)?.body).toMatchObject({ event: 'finished', outcome: 'completed', severity: 'info' });
    const waits = JSON.stringify(up.posted.filter(({ body }) => body['event'] === 'waiting-for-people'));
    for (const command of ['runbook share', 'runbook approve']) expect(waits).toContain(command);
    // One finding for each target, however often it was not told.
    const failed = findings.filter(({ code }) => code === 'notification-failed');
    expect(failed.map(({ text }) => text).sort()).toEqual([
      expect.stringMatching(/^gone \(slack\) did not get the notification started: ECONNREFUSED/),
      expect.stringMatching(/^hanging \(webhook\) did not get the notification outage-started: no answer within 1 s/),
    ]);
    // While one target let the run wait for its answer, the run went on.
    const unanswered = failed.find(({ text }) => text.startsWith('hanging'));
    const demotion = steps.find(({ name }) => name === 'Demote east');
    expect(Date.parse(demotion?.startedAt ?? '')).toBeLessThan(Date.parse(unanswered?.at ?? ''));
    expect(steps.map(({ name }) => name)).not.toContain('notify');
  }
});
