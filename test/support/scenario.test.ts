/** What a failed test and an ending scenario report. */
import { reportOf } from '../../src/report/report-of-run';
import { finishedSwitchover } from '../report/support/switchover';
import { explainFailure, timelineOf } from './explain';
import { CHANGING, changingCalls } from './faults';
import { Lane } from './lane';
import { Scenario } from './scenario';

const identity = { namespace: 'default', workflowId: 'deployment:payments', runId: 'a-run' };
const report = { ...reportOf(finishedSwitchover().build()), ...identity };
const SECRETS = new Map([['a share', 'canary-of-a-key-share']]);

it('a failed test tells what the runs of its scenario did, once', async () => {
  const scenario = { explanation: async () => timelineOf(report, SECRETS) };
  const error = new Error('expected completed');
  await explainFailure(error, [scenario]);
  await explainFailure(error, [scenario]);
  expect(error.message).toMatch(/^expected completed\n\n# drSwitchover: payments\n[^]*Promote west/);
  expect(error.message.match(/^# /gm)).toHaveLength(1);
  expect(error.stack).toContain(error.message);
});

it('and no secret: of a report that holds one nothing is told but its name', () => {
  const finding = {
    severity: 'warning',
    code: 'odd',
    text: 'it is canary-of-a-key-share',
    at: report.startedAt,
  } as const;
  expect(timelineOf({ ...report, findings: [finding] }, SECRETS)).toBe(
    '(the report of drSwitchover contains secrets: a share)',
  );
});

it('calls are counted as faults name them too, and not of what the service does not have', () => {
  const path = CHANGING.demote.slice('POST '.length);
  const service = { calls: [{ cluster: 'east', method: 'POST', path, status: 200 }] } as unknown as Scenario['service'];
  for (const endpoint of [CHANGING.demote, path, 'dr/primary/demote'])
    expect(changingCalls(service, 'east', endpoint)).toBe(1);
  for (const endpoint of ['dr/primary/demoted', 'dynamic-filter', `${path}/now`])
    expect(() => changingCalls(service, 'east', endpoint)).toThrow(TypeError);
});

describe('a secret that people were shown', () => {
  const shown = (scenario: Scenario) => scenario.shows(scenario.service.cluster('east').rootToken);
  const found = 'what was shown: root token of east';

  it('is found when a scenario ends, unless it was handed over', async () => {
    const [one, other] = await Promise.all([Scenario.start({ worker: 'none' }), Scenario.start({ worker: 'none' })]);
    shown(one);
    await expect(one.stop()).rejects.toThrow(found);
    shown(other);
    for (const { rootToken } of other.service.clusters.values()) other.handsOver(rootToken);
    await other.stop();
  });

  it('is found in the history of an earlier run under the same Workflow ID', async () => {
    const scenario = await Scenario.start({ worker: 'none' });
    const first = await scenario.start({ reason: scenario.service.cluster('east').rootToken });
    await first.handle.terminate();
    await scenario.start();
    await expect(scenario.stop()).rejects.toThrow(found);
  });

  it.each(['passed', 'failed'])('is found when a lane ends whose last test %s', async (how) => {
    const lane = new Lane(() => Scenario.start({ worker: 'none' }));
    const first = lane.test((scenario) => Promise.resolve(shown(scenario)))();
    const last = lane.test(() => (how === 'passed' ? Promise.resolve() : Promise.reject(new Error(how))))();
    await expect(lane.run()).rejects.toThrow(found);
    await first;
    expect(await last.then(() => 'passed').catch(({ message }: Error) => message)).toBe(how);
  });
});
