/** `runbook status` of a deployment without an open run, and the clusters that `runbook watch` shows around a change of roles. */
import { deploymentStatus } from '../../src/contracts/deployment-status';
import { cli } from '../cli/support';
import { splitPrimaries, until } from '../support/by-hand';
import { expectFewEvents } from '../support/matrix';
import { replayRun } from '../support/replay';
import { pair, openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

jest.setTimeout(180_000);

describe('the status of a deployment without an open run', () => {
  let scenario: Scenario;
  openScenario((opened) => (scenario = opened), { topology: pair(1), deployment: { laboratory: true } });

  const status = (...more: readonly string[]) => cli(['status', scenario.name, ...more], { env: scenario.environment });
  const row = (out: string, cluster: string) =>
    out.split('\n').find((line) => line.trimStart().startsWith(`${cluster} `)) ?? '';

  it('shows each cluster before any run was started, and that no change and no check are recorded', async () => {
    const { code, out } = await status();
    expect([code, out.split('\n')[0]]).toEqual([0, `${scenario.name}: no run is open`]);
    expect(row(out, 'CLUSTER')).toMatch(/CLUSTER +DR +PERFORMANCE +STATE +LAG +HEARTBEAT +ACTIVE NODE +VERSION$/);
    expect(row(out, 'east')).toMatch(/^east +primary +disabled +running +- +- +http\S+ +\d+\.\d+\.\d+/);
    expect(row(out, 'west')).toMatch(
      /^west +secondary +disabled +stream-wals +(\d+|unknown) +[\d.]+ m?s ago +http\S+ +\d+\./,
    );
    expect(out).toContain('Last change of the primary: none recorded');
    expect(out).toContain('Last readiness check: none recorded');
    expect(out).toContain(`    runbook readiness ${scenario.name}`);
    expect(out).not.toContain('Last run');
  });

  it('only reads, writes no record, and costs few events', async () => {
    const calls = scenario.service.calls.length;
    const record = await scenario.recordsOfAWorker().read(scenario.name);
    const run = await scenario.run('deploymentStatus');
    const result = (await run.handle.result()) as { outcome: string; result: unknown };
    expect(deploymentStatus.parse(result.result)).toMatchObject({ deployment: scenario.name, problems: [] });
    const changing = scenario.service.calls
      .slice(calls)
      .filter(({ method, path }) => !['GET', 'LIST'].includes(method) && !path.endsWith('-self'));
    expect(changing).toEqual([]);
    expect((await scenario.recordsOfAWorker().read(scenario.name)).head).toEqual(record.head);
    await expectFewEvents('deploymentStatus', run);
    await replayRun(run);
  });

  it('after a switchover and a check it shows change, verdict and what is left; watch shows the clusters before and after', async () => {
    const run = await scenario.start();
    const watching = cli(['watch', scenario.name], { env: scenario.environment });
    // The switchover is open: its own status is shown.
    await run.until('its gate', ({ waiting }) => waiting.some((each) => each.for === 'approval'));
    expect((await status()).out).toContain(`${scenario.workflowId}  drSwitchover  running`);
    await run.people();
    const report = await run.report();
    const watched = await watching;
    const tables = watched.out.split('Clusters as read at').slice(1);
    expect(tables.map((each) => [row(each, 'east'), row(each, 'west')])).toEqual([
      [expect.stringMatching(/east +primary/), expect.stringMatching(/west +secondary/)],
      [expect.stringMatching(/east +secondary/), expect.stringMatching(/west +primary/)],
    ]);
    await scenario.play('readiness', {});
    const { code, out } = await status();
    expect(code).toBe(0);
    expect(out).toMatch(
      new RegExp(
        `Last change of the primary: west became primary .* ago \\(.*\\), by drSwitchover: runbook report ${scenario.workflowId} --run-id ${report.runId}`,
      ),
    );
    expect(out).toMatch(/Last readiness check: .* ago \(.*\): switchover (not )?ready.*, failover /);
    expect(out).toMatch(/Last run: drSwitchover, completed, ended .*\. Its report:\n {4}runbook report /);
    expect(report.leftToDo).toEqual([]);
    expect(out).toContain('It left no open task.');
    const shown = JSON.parse((await status('--json')).out) as { schema: string; now: unknown; lastRun: unknown };
    expect(shown.schema).toBe('replication-runbooks/status-of-deployment/v1');
    expect(deploymentStatus.parse(shown.now).record).toMatchObject({
      read: true,
      primaryChange: { cluster: 'west', runbook: 'drSwitchover' },
    });
    expect(shown.lastRun).toMatchObject({ read: { outcome: 'completed', leftToDo: [] } });
  });

  it('a refused run does not hide what the run before it left to do', async () => {
    await (await scenario.start({ to: 'west' })).failure();
    const { out } = await status();
    expect(out).toMatch(/Last run: drSwitchover, completed/);
  });

  it('list shows readings of a status only with --all', async () => {
    const listed = async (...more: readonly string[]) =>
      (await cli(['list', '--limit', '200', ...more], { env: scenario.environment })).out.includes(
        `status:${scenario.name}`,
      );
    await until('listed', () => listed('--all'));
    expect(await listed()).toBe(false);
  });

  it('says which cluster and that the record could not be read', async () => {
    // It writes the record.
    await scenario.play('readiness', {});
    const held = scenario.service.faults.add({ cluster: 'east', endpoint: /./, action: 'reset', times: Infinity });
    await scenario.breakRecord();
    const { code, out } = await status();
    await scenario.repairRecord();
    held.remove();
    expect(code).toBe(0);
    expect(row(out, 'east')).toMatch(/^east +unknown +unknown +NOT READ: [A-Z_]+ +- +- +- +-/);
    expect(row(out, 'west')).toMatch(/^west +(primary|secondary) /);
    expect(out).toMatch(/east could not be read: [A-Z_]+/);
    expect(out).toMatch(/NOT READ: the record of the deployment \([A-Z_]+\)/);
    expect(out).not.toContain('none recorded');
  });

  it('of a deployment that the inventory does not have: not found', async () => {
    const { code, err } = await cli(['status', `${scenario.name}-x`], { env: scenario.environment });
    expect([code, err]).toEqual([5, expect.stringContaining('UNKNOWN_DEPLOYMENT')]);
  });

  it('without a worker it says so, exits with 4, and shows the last run in Temporal', async () => {
    const env = { ...scenario.environment, RUNBOOKS_TASK_QUEUE: `${scenario.taskQueue}-none` };
    const { code, out } = await cli(['status', scenario.name], { env });
    expect(code).toBe(4);
    expect(out).toMatch(/NOT READ: the clusters, no worker polls task queue .*-none\.[^]*runbook worker\n/);
    expect(out).toContain('Last run: drSwitchover, completed');
    const none = await cli(['status', `${scenario.name}-none`], { env });
    expect([none.code, none.err]).toEqual([5, expect.stringMatching(/no run, and the clusters were not read/)]);
  });

  it('names two primaries of one DR set first', async () => {
    await splitPrimaries(scenario, 'west', 'east');
    const { out } = await status();
    expect([row(out, 'east'), row(out, 'west')]).toEqual([
      expect.stringMatching(/^east +primary /),
      expect.stringMatching(/^west +primary /),
    ]);
    expect(out).toMatch(/CRITICAL: DR primary: east, west; needed: exactly one DR primary in set \S+\. Split brain/);
  });
});
