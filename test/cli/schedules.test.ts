/** `runbook schedules`: the Schedules of Temporal are those of the inventory, whatever became of them. */
import { readFile, writeFile } from 'node:fs/promises';
import { ScheduleNotFoundError } from '@temporalio/client';
import type { ScheduleDescription } from '@temporalio/client';
import { readinessResult } from '../../src/contracts/readiness';
import { until } from '../support/by-hand';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';
import { cli } from './support';

jest.setTimeout(120_000);

describe('runbook schedules', () => {
  let scenario: Scenario;
  const SCHEDULES = { walSampler: '1m', readiness: '1h', batchTokenRotation: '2h' };
  openScenario((opened) => (scenario = opened), {
    deployment: { laboratory: true, schedules: SCHEDULES, batchTokens: { main: { ttl: '8h' } } },
  });

  const schedules = (...words: readonly string[]) => cli(['schedules', ...words], { env: scenario.environment });
  const ids = () =>
    (['walSampler', 'readiness', 'batchTokenRotation'] as const).map((runbook) => `${runbook}:${scenario.name}`);
  const handle = (id = '') => scenario.client.schedule.getHandle(id);
  const described = (id = ''): Promise<ScheduleDescription> => handle(id).describe();
  /** As many as there are: what was listed may be older than what was done. */
  const known = async () => {
    const found = await Promise.all(
      ids().map((id) => described(id).catch((error: unknown) => error instanceof ScheduleNotFoundError)),
    );
    return found.filter((each) => each !== true).length;
  };
  const changeInventory = async (from: string, to: string) => {
    const path = scenario.environment['RUNBOOKS_INVENTORY'] ?? '';
    const text = await readFile(path, 'utf8');
    expect(text).toContain(from);
    await writeFile(path, text.replace(from, to), { mode: 0o600 });
  };

  it('list reports a missing one, apply creates it, a second apply makes no changes', async () => {
    const before = await schedules('list');
    expect([before.code, await known()]).toEqual([7, 0]);
    expect(before.out.match(/there is no such Schedule/g)).toHaveLength(3);
    expect(before.out).toContain('next:\n              runbook schedules apply\n');

    const first = await schedules('apply');
    expect([first.code, first.out.split('\n')]).toEqual([0, ids().map((id) => `${id}: created`)]);
    const made = await Promise.all(ids().map(described));
    const second = await schedules('apply');
    expect([second.code, second.out.split('\n')]).toEqual([0, ids().map((id) => `${id}: unchanged`)]);
    const times = (all: readonly ScheduleDescription[]) => all.map(({ info }) => info.lastUpdatedAt);
    expect(times(await Promise.all(ids().map(described)))).toEqual(times(made));

    const after = await schedules('list', scenario.name, '--json');
    expect(after.code).toBe(0);
    expect(JSON.parse(after.out)).toMatchObject({
      schedules: ids().map((scheduleId) => ({ scheduleId, state: 'as-wanted', paused: false, differences: [] })),
      unwanted: [],
    });
  });

  it('a scheduled run gets the input of `runbook start`, and completes', async () => {
    const [sampler = ''] = ids();
    await handle(sampler).trigger();
    const scheduled = await until('the Schedule started it', async () => {
      const [action] = (await described(sampler)).info.recentActions;
      return action?.action.type === 'startWorkflow' && action.action.workflow;
    });
    const started = async (workflowId: string, runId?: string) => {
      const { events } = await scenario.client.workflow.getHandle(workflowId, runId).fetchHistory();
      const first = events?.[0]?.workflowExecutionStartedEventAttributes;
      return { type: first?.workflowType?.name, input: first?.input?.payloads, memo: first?.memo?.fields };
    };
    const byHand = await cli(['start', 'walSampler', '--deployment', scenario.name, '--set', 'samples=11', '--json'], {
      env: scenario.environment,
    });
    const { workflowId } = JSON.parse(byHand.out) as { workflowId: string };
    expect(await started(scheduled.workflowId, scheduled.firstExecutionRunId)).toEqual(await started(workflowId));
    // A minute would be long for a test.
    for (const id of [scheduled.workflowId, workflowId]) await scenario.client.workflow.getHandle(id).cancel();

    const [, readiness = ''] = ids();
    await handle(readiness).trigger();
    const checked = await until('the check ended', async () => {
      const [action] = (await described(readiness)).info.recentActions;
      return action?.action.type === 'startWorkflow' && action.action.workflow.workflowId;
    });
    // Under its own ID, because the server adds the time.
    expect(await scenario.attach(checked).report()).toMatchObject({ outcome: 'handed-over' });
    const run = scenario.attach(`readiness:${scenario.name}`);
    expect(await run.report()).toMatchObject({ outcome: 'completed', runbook: 'readiness' });
  });

  const readinessPoint = async () => {
    const { result } = await (await scenario.run('readiness')).report();
    return readinessResult.parse(result).points.find(({ id }) => id === 'schedules');
  };

  it('one that somebody changed, paused or deleted is reported by list, doctor and readiness, and restored by apply', async () => {
    const [sampler = '', readiness = '', rotation = ''] = ids();
    expect(await readinessPoint()).toMatchObject({ verdict: 'ok' });
    await handle(sampler).update((is) => ({
      ...is,
      spec: { intervals: [{ every: '2m' }] },
      action: { ...is.action, taskQueue: 'nobody-polls', args: [{ deployment: 'another' }], workflowRunTimeout: '1m' },
    }));
    await handle(readiness).pause('by ada');
    await handle(rotation).delete();

    const listed = await schedules('list');
    expect(listed.code).toBe(7);
    expect(listed.out).toContain('differs from the inventory: interval, task queue, input, timeouts');
    expect(listed.out).toContain('observed: paused\n');
    expect(listed.out).toContain('runbook schedules apply --unpause');
    const doctor = await cli(['doctor', '--json'], { env: scenario.environment });
    const { findings } = JSON.parse(doctor.out) as { findings: { id: string; verdict: string }[] };
    expect(findings.filter(({ id }) => ids().includes(id)).map(({ verdict }) => verdict)).toEqual([
      'warn',
      'warn',
      'warn',
    ]);
    expect(await readinessPoint()).toMatchObject({
      verdict: 'warn',
      observed: `${sampler}: differs from the inventory: interval, task queue, input, timeouts; ${readiness}: paused; ${rotation}: there is no such Schedule`,
      next: 'On the worker host: `runbook schedules apply --unpause`',
    });

    const applied = await schedules('apply');
    expect([applied.code, applied.out.split('\n')]).toEqual([
      7,
      [
        `${sampler}: updated (interval, task queue, input, timeouts)`,
        `${readiness}: unchanged, and still paused: somebody paused it. To continue it: runbook schedules apply --unpause`,
        `${rotation}: created`,
      ],
    ]);
    expect((await described(readiness)).state).toMatchObject({ paused: true, note: 'by ada' });
    const continued = await schedules('apply', '--unpause');
    expect([continued.code, continued.out]).toEqual([0, expect.stringContaining(`${readiness}: unpaused`)]);
    expect((await schedules('list')).code).toBe(0);
  });

  it('schedules that the inventory turns off are removed; those of other deployments stay', async () => {
    const [sampler = '', readiness = ''] = ids();
    await schedules('apply');
    const others = `readiness:${scenario.name}-2`;
    await scenario.client.schedule.create({
      scheduleId: others,
      spec: {},
      action: { type: 'startWorkflow', workflowType: 'readiness', taskQueue: scenario.taskQueue },
    });
    await changeInventory('readiness: 1h', 'readiness: off');
    const told = await until('listed', async () => {
      const listed = await schedules('list');
      return listed.out.includes('a Schedule that the inventory does not have') && listed;
    });
    expect(told.code).toBe(7);
    const applied = await schedules('apply');
    expect([applied.code, applied.out]).toEqual([0, expect.stringContaining(`${readiness}: deleted`)]);
    expect(await known()).toBe(2);

    const removed = await schedules('delete', scenario.name);
    expect(removed.out.split('\n').sort()).toEqual([
      `batchTokenRotation:${scenario.name}: deleted`,
      `${sampler}: deleted`,
    ]);
    expect([(await schedules('delete', scenario.name)).out, await known()]).toEqual([
      `No Schedules of ${scenario.name}.`,
      0,
    ]);
    expect(await described(others)).toBeDefined();
    await handle(others).delete();
  });

  it('a deployment that the inventory does not have is refused, and a server that does not answer is reported', async () => {
    expect((await schedules('apply', 'nobody')).code).toBe(5);
    const away = { ...scenario.environment, TEMPORAL_ADDRESS: '127.0.0.1:1' };
    const told = await cli(['schedules', 'list'], { env: away });
    expect([told.code, told.err]).toEqual([1, expect.stringContaining('TEMPORAL_UNAVAILABLE')]);
  });
});
