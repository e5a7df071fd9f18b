import type { Report } from '../../src/contracts/report';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { loseAnswer, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { cell, expectFewEvents } from '../support/matrix';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

const NAME = 'primaryEnablement';
const ENABLE = (kind: string) => `POST /v1/sys/replication/${kind}/primary/enable`;
const MARKER = 'POST /v1/kv/data/runbooks-marker';

const one = (name: string) => ({ name, nodes: 1 });

/** East and west without replication, in one DR set. */
const fresh = new Lane(() =>
  Scenario.start({
    topology: { clusters: ['east', 'west', 'north'].map(one), dr: [] },
    drSets: { main: ['east', 'west'], other: ['north'] },
    cluster: (name) => (name === 'north' ? { advertisedClusterAddress: 'https://lb.example:8201' } : {}),
  }),
);

/** East is DR primary of west and performance primary of europe, which has no DR secondary of its own yet. */
const layered = new Lane(() =>
  Scenario.start({
    topology: {
      clusters: ['east', 'west', 'europe', 'europe-dr'].map(one),
      performance: { primary: 'east', secondaries: [{ name: 'europe' }] },
      dr: [{ primary: 'east', secondaries: ['west'] }],
    },
    drSets: { main: ['east', 'west'], eu: ['europe', 'europe-dr'] },
  }),
);

const enable = (scenario: Scenario, kind: string, cluster: string, more: object = {}) =>
  scenario.run(NAME, { kind, cluster, ...more });

/** As {@link enable}, and somebody approves it. */
async function enableApproved(scenario: Scenario, kind: string, cluster: string): Promise<TestRun> {
  const run = await enable(scenario, kind, cluster);
  await run.approve('plan');
  return run;
}

function enabling({ steps }: Report): Partial<Report['steps'][number]['activities'][number]> {
  return steps.find(({ name }) => name.startsWith('Enable'))?.activities[0] ?? {};
}

const roles = (scenario: Scenario, cluster: string) => {
  const { dr, performance } = scenario.state(cluster);
  return [dr.mode, performance.mode];
};

describe('enabling a primary', () => {
  runLanes(fresh, layered);

  fresh.it(
    cell(NAME, 'no fault', 'DR, after a dry run that only reads; enabling it again finds it there'),
    async (scenario) => {
      const dry = await enable(scenario, 'dr', 'east', { dryRun: true });
      expect(await dry.report()).toMatchObject({ outcome: 'planned' });
      expect(statuses(scenario, 'east', ENABLE('dr'))).toEqual([]);

      const run = await enableApproved(scenario, 'dr', 'east');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], parkings: [], findings: [] });
      expect(roles(scenario, 'east')).toEqual(['primary', 'disabled']);
      expect(enabling(report).observed).toContain('the node address');
      await expectFewEvents(NAME, run);

      // Nobody is asked for what is there.
      const again = await (await enable(scenario, 'dr', 'east')).report();
      expect(again.gates).toEqual([]);
      expect(enabling(again).outcome).toBe('already');
      expect(statuses(scenario, 'east', ENABLE('dr'))).toEqual([200]);
    },
  );

  fresh.it(cell(NAME, 'refused', 'a second primary in one set'), async (scenario) => {
    const failure = await (await enable(scenario, 'dr', 'west')).failure();
    expect(failure.code).toBe('PRECONDITION_FAILED');
    expect(failure.message).toContain('east is primary');
    // Nor where the one that may be it does not answer: nobody is asked here.
    const silent = { cluster: 'east', endpoint: /./, action: 'reset', times: Infinity } as const;
    const fault = scenario.service.faults.add(silent);
    expect((await (await enable(scenario, 'dr', 'west')).failure()).message).toContain(
      'other clusters can be read (east)',
    );
    fault.remove();
    expect(statuses(scenario, 'west', ENABLE('dr'))).toEqual([]);
  });

  fresh.it(cell(NAME, 'lost answer', 'performance/primary/enable, on a DR primary'), async (scenario) => {
    loseAnswer(scenario, 'east', ENABLE('performance'));
    const run = await enable(scenario, 'performance', 'east');
    await approveLongAgo(scenario, run, 'plan');
    await approveAgain(run, 'plan');
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', gates: [{ gate: 'plan' }, { gate: 'plan' }] });
    expect(statuses(scenario, 'east', ENABLE('performance'))).toEqual([0]);
    expect(roles(scenario, 'east')).toEqual(['primary', 'primary']);
    // One performance set for the whole deployment.
    const failure = await (await enable(scenario, 'performance', 'north')).failure();
    expect(failure.message).toContain('east is primary');
  });

  fresh.it(
    cell(NAME, 'lost answer', 'dr/primary/enable, with the advertised address of the inventory'),
    async (scenario) => {
      loseAnswer(scenario, 'north', ENABLE('dr'));
      const report = await (await enableApproved(scenario, 'dr', 'north')).report();
      expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
      expect(statuses(scenario, 'north', ENABLE('dr'))).toEqual([0]);
      const { dr } = scenario.state('north');
      expect(dr).toMatchObject({ mode: 'primary' });
      expect(scenario.service.cluster('north').role('dr')).toMatchObject({
        advertisedAddress: 'https://lb.example:8201',
      });
    },
  );

  layered.it(cell(NAME, 'refused', 'a DR secondary, for both kinds'), async (scenario) => {
    for (const kind of ['dr', 'performance']) {
      const failure = await (await enable(scenario, kind, 'west')).failure();
      expect(failure).toMatchObject({ code: 'PRECONDITION_FAILED' });
      expect(failure.message).toContain('no DR secondary (west)');
      expect(statuses(scenario, 'west', ENABLE(kind))).toEqual([]);
    }
    // Nor does a performance secondary become a second performance primary.
    const failure = await (await enable(scenario, 'performance', 'europe')).failure();
    expect(failure.message).toContain('needed disabled or primary');
  });

  layered.it(
    `${cell(NAME, 'parked, retry', 'a performance secondary becomes DR primary of its own DR secondary')}; ${cell(NAME, 'parked, skip', 'the write that shows that it serves')}`,
    async (scenario) => {
      const refuse = (endpoint: string) =>
        scenario.service.faults.add({ cluster: 'europe', endpoint, action: { status: 403 }, times: Infinity });
      const fault = refuse(ENABLE('dr'));
      refuse(MARKER);
      const run = await enableApproved(scenario, 'dr', 'europe');
      await run.waitsFor('decision');
      expect(roles(scenario, 'europe')).toEqual(['disabled', 'secondary']);
      fault.remove();
      await run.decide('retry', 'Enable europe as DR primary');
      await run.decide('skip', 'See that europe takes a write');
      const report = await run.report();
      expect(report.outcome).toBe('completed');
      expect(report.leftToDo).toEqual([expect.stringContaining('whether europe serves again')]);
      expect(roles(scenario, 'europe')).toEqual(['primary', 'secondary']);
    },
  );
});
