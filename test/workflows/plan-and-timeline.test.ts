/** What people sign, what they see at night, and what the README says are one list. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { planLines } from '../../src/cli/render-plan';
import { runbookPlan } from '../../src/contracts/payloads';
import { planStepText, stepNumber } from '../../src/moves/steps';
import { page } from '../support/documents';
import { refusePromotion } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { expectTimelineOfPlan } from '../support/matrix';
import { replicating, Scenario } from '../support/scenario';

/** Answers like a service that clients reach. */
const clientsAddress = createServer((_request, response) => response.end());
afterAll(() => clientsAddress.close());

const hook = { command: ['/bin/true'], timeout: '30s', idempotent: true };

/** As in the demonstration: two DR secondaries, and a performance secondary with a DR secondary of its own. */
const demonstrated = new Lane(async () => {
  clientsAddress.listen(0, '127.0.0.1');
  await once(clientsAddress, 'listening');
  const { port } = clientsAddress.address() as AddressInfo;
  const probe = { url: `http://127.0.0.1:${port}/` };
  return Scenario.start({
    ...replicating({ main: ['east', 'west', 'north'], eu: ['europe', 'europe-dr'] }),
    deployment: { quiesce: 'hook', hooks: { quiesce: hook, traffic: hook, release: hook, probe } },
  });
});

describe('a switchover', () => {
  runLanes(demonstrated);
  const { it } = demonstrated;

  it('has the steps of the README, by text and number, in the plan and in the timeline', async (scenario) => {
    const run = await scenario.begin(
      'drSwitchover',
      { to: 'west', go: 'required' },
      'approve plan',
      'shares',
      'approve go',
    );
    const report = await run.report();
    const { steps = [] } = report.plan?.content ?? {};
    const letters: Readonly<Record<string, string>> = { east: 'A', west: 'B', north: 'C' };
    const inLetters = (text: string) => text.replace(/\b(east|west|north)\b/g, (name) => letters[name] ?? name);
    const documented = [...page('README.md').text.matchAll(/^(\d+)\. \*\*([^*]+?)\.?\*\*/gm)];
    expect(documented.map(([, number, step]) => `${number}. ${step}`)).toEqual(
      steps.map(({ step }, index) => `${index + 1}. ${inLetters(step)}`),
    );
    expectTimelineOfPlan(report);
    const text = planLines(report).join('\n').replace(/\s+/g, ' ');
    for (const [index, step] of steps.entries()) expect(text).toContain(`${index + 1}. ${planStepText(step)}`);
    expect(text).toContain('promote east again, if west does not get there');
    expect(text).toContain('point north at east, in that case');
  });

  it('shows a step that the plan could not foresee, marked as unforeseen, and why a planned one was not taken', async (scenario) => {
    refusePromotion(scenario, 'east');
    const run = await scenario.begin(
      'drSwitchover',
      { to: 'east', reason: 'back' },
      'approve plan',
      'shares',
      'approve go',
    );
    const report = await run.report();
    expect(report.outcome).toBe('rolled-back');
    const back = report.steps.find(({ name }) => name === 'Promote west back');
    expect(back).toMatchObject({ unforeseen: true });
    expect(back && stepNumber(back)).toBe('+ ');
  });
});

it('a gate that cannot cover an operation makes a plan unreadable', () => {
  const identity = { cluster: 'east', clusterId: 'id' };
  const plan = (gate: string) => ({
    ...{ runbook: 'drSwitchover', deployment: 'payments', clusters: [], warnings: [], steps: [], choices: {} },
    ...{ operations: [{ kind: 'dr', endpoint: 'secondary/enable', gate, on: identity }], reason: 'a test' },
  });
  expect(runbookPlan.safeParse(plan('wipe')).success).toBe(true);
  expect(runbookPlan.safeParse(plan('plan')).success).toBe(false);
});
