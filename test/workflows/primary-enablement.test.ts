import type { Report } from '../../src/contracts/report';
import { loseAnswers, refuse, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import { clusters, replicating, Scenario } from '../support/scenario';
import type { Deed } from '../support/scenario';

const NAME = 'primaryEnablement';
const ENABLE = (kind: string) => `POST /v1/sys/replication/${kind}/primary/enable`;

/** East and west without replication, in one DR set. */
const fresh = new Lane(() =>
  Scenario.start({
    topology: { clusters: clusters('east', 'west', 'north'), dr: [] },
    drSets: { main: ['east', 'west'], other: ['north'] },
    cluster: (name) => (name === 'north' ? { advertisedClusterAddress: 'https://lb.example:8201' } : {}),
  }),
);

/** East is DR primary of west and performance primary of europe, which has no DR secondary of its own yet. */
const layered = new Lane(() => {
  const dr = [{ primary: 'east', secondaries: ['west'] }];
  return Scenario.start(replicating({ main: ['east', 'west'], eu: ['europe', 'europe-dr'] }, {}, { dr }));
});

const enable = (scenario: Scenario, kind: string, cluster: string, ...deeds: readonly Deed[]) =>
  scenario.begin(NAME, { kind, cluster }, ...deeds);
const refusal = (scenario: Scenario, kind: string, cluster: string) => scenario.refusal(NAME, { kind, cluster });

function enabling({ steps }: Report): Partial<Report['steps'][number]['activities'][number]> {
  return steps.find(({ name }) => name.startsWith('Enable'))?.activities[0] ?? {};
}

const roles = (scenario: Scenario, cluster: string) => {
  const { dr, performance } = scenario.state(cluster);
  return [dr.mode, performance.mode];
};

describe('enabling a primary', () => {
  runLanes(fresh, layered);

  describe('of clusters without replication', () => {
    const { it } = fresh;

    it('DR, after a dry run that only reads; enabling it again finds it there', async (scenario) => {
      const dry = await scenario.play(NAME, { kind: 'dr', cluster: 'east', dryRun: true });
      expect(dry).toMatchObject({ outcome: 'planned' });
      expect(statuses(scenario, 'east', ENABLE('dr'))).toEqual([]);

      const run = await enable(scenario, 'dr', 'east', 'approve plan');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], parkings: [], findings: [] });
      expect(roles(scenario, 'east')).toEqual(['primary', 'disabled']);
      expect(enabling(report).observed).toContain('the node address');
      await expectFewEvents(NAME, run);

      // Nobody is asked for what is there.
      const again = await (await enable(scenario, 'dr', 'east')).report();
      expect([again.gates, enabling(again).outcome]).toEqual([[], 'already']);
      expect(statuses(scenario, 'east', ENABLE('dr'))).toEqual([200]);
    });

    it('refused: a second primary in one set', async (scenario) => {
      expect(await refusal(scenario, 'dr', 'west')).toContain('east is primary');
      // Nor where the one that may be it does not answer: nobody is asked here.
      const silent = { cluster: 'east', endpoint: /./, action: 'reset', times: Infinity } as const;
      const fault = scenario.service.faults.add(silent);
      expect(await refusal(scenario, 'dr', 'west')).toContain('other clusters can be read (east)');
      fault.remove();
      expect(statuses(scenario, 'west', ENABLE('dr'))).toEqual([]);
    });

    it('lost answer: performance/primary/enable, on a DR primary', async (scenario) => {
      loseAnswers(scenario, { east: [ENABLE('performance')] });
      const report = await (await enable(scenario, 'performance', 'east', 'renew plan')).report();
      expect(report).toMatchObject({ outcome: 'completed', gates: [{ gate: 'plan' }, { gate: 'plan' }] });
      expect(statuses(scenario, 'east', ENABLE('performance'))).toEqual([0]);
      expect(roles(scenario, 'east')).toEqual(['primary', 'primary']);
      // One performance set for the whole deployment.
      expect(await refusal(scenario, 'performance', 'north')).toContain('east is primary');
    });

    it('lost answer: dr/primary/enable, with the advertised address of the inventory; parked, abort: the report says that it is primary now', async (scenario) => {
      loseAnswers(scenario, { north: [ENABLE('dr')] });
      refuse(scenario, 'north', 'POST /v1/kv/data/runbooks-marker');
      const abort = 'abort Verify that north accepts a write';
      const report = await (await enable(scenario, 'dr', 'north', 'approve plan', abort)).report();
      const told = 'north became DR primary and no secondary was connected to it';
      expect(report.outcome).toBe('aborted');
      expect(report.leftToDo).toContainEqual(expect.stringContaining(told));
      // Of one that was primary before nothing is to be undone.
      const again = await (await enable(scenario, 'dr', 'north', abort)).report();
      expect(again.leftToDo.join('\n')).not.toContain('became DR primary');
      expect(statuses(scenario, 'north', ENABLE('dr'))).toEqual([0]);
      const role = { mode: 'primary', advertisedAddress: 'https://lb.example:8201' };
      expect(scenario.service.cluster('north').role('dr')).toMatchObject(role);
    });
  });

  describe('of clusters that replicate', () => {
    const { it } = layered;

    it('refused: a DR secondary, for both kinds', async (scenario) => {
      for (const kind of ['dr', 'performance']) {
        expect(await refusal(scenario, kind, 'west')).toContain('no DR secondary (west)');
        expect(statuses(scenario, 'west', ENABLE(kind))).toEqual([]);
      }
      // Nor does a performance secondary become a second performance primary.
      expect(await refusal(scenario, 'performance', 'europe')).toContain('needed disabled or primary');
    });

    it('parked, retry: a performance secondary becomes DR primary of its own DR secondary; parked, skip: the write that shows that it serves', async (scenario) => {
      const fault = refuse(scenario, 'europe', ENABLE('dr'));
      refuse(scenario, 'europe', 'POST /v1/kv/data/runbooks-marker');
      const run = await enable(scenario, 'dr', 'europe', 'approve plan');
      await run.parks();
      expect(roles(scenario, 'europe')).toEqual(['disabled', 'secondary']);
      fault.remove();
      await run.do('retry Enable europe as DR primary', 'skip Verify that europe accepts a write');
      const report = await run.report();
      expect(report.outcome).toBe('completed');
      expect(report.leftToDo).toEqual([expect.stringContaining('whether europe serves again')]);
      expect(roles(scenario, 'europe')).toEqual(['primary', 'secondary']);
    });
  });
});
