import { until } from '../support/by-hand';
import { drPrimaries } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { underWay } from '../support/outage';
import { Scenario } from '../support/scenario';
import type { ScenarioOptions } from '../support/scenario';
const FILTER = { mode: 'deny' as const, paths: ['us-customers/'] };

/** East with the DR secondaries west and north, and a filtered performance secondary with a DR secondary of its own. */
function payments(readings: Readonly<Record<string, boolean>> = {}): ScenarioOptions {
  return {
    topology: {
      mounts: ['kv/', 'secret/', 'us-customers/'],
      readings,
      clusters: ['east', 'west', 'north', 'europe', 'europe-dr'].map((name) => ({ name, nodes: 1 })),
      performance: { primary: 'east', secondaries: [{ name: 'europe', filter: FILTER }] },
      dr: [
        { primary: 'east', secondaries: ['west', 'north'] },
        { primary: 'europe', secondaries: ['europe-dr'] },
      ],
    },
    drSets: { main: ['east', 'west', 'north'], eu: ['europe', 'europe-dr'] },
  };
}

const following = new Lane(() => Scenario.start(payments()));
const stranded = new Lane(() => Scenario.start(payments({ performanceSecondariesFollow: false })));

/** Whoever serves, the filtered path never reaches europe, and what is not filtered does. */
async function expectFiltered(scenario: Scenario, primary: string): Promise<void> {
  const stamp = `${primary} ${scenario.service.now()}`;
  scenario.service.cluster(primary).write('us-customers/smith', { stamp });
  scenario.service.cluster(primary).write('secret/for-all', { stamp });
  const europe = scenario.service.cluster('europe');
  await until('what is not filtered', () => europe.read('secret/for-all')?.['stamp'] === stamp);
  expect(europe.read('us-customers/smith')).toBeUndefined();
}

describe('a deployment with several secondaries', () => {
  runLanes(following, stranded);

  following.it(
    'has every DR secondary re-pointed from one ask of the holders, and the performance secondary follows',
    async (scenario) => {
      const run = await underWay(scenario);
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
      expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
      for (const cluster of ['east', 'north']) {
        expect(scenario.state(cluster).dr).toMatchObject({ connectedTo: 'west', state: 'stream-wals' });
        expect(scenario.state(cluster).operationTokens).toBe(0);
      }
      expect(scenario.state('europe').performance).toMatchObject({ connectedTo: 'west', state: 'stream-wals' });
      expect(scenario.state('europe-dr').dr.connectedTo).toBe('europe');
      // It followed by itself: nothing was issued for it and its filter was not touched.
      expect(scenario.calls('west', 'performance/primary/secondary-token')).toBe(0);
      expect(drPrimaries(scenario)).toEqual(['west', 'europe']);
      await expectFiltered(scenario, 'west');
    },
  );

  following.it(
    'finishes the others where one DR secondary is unreachable: its step alone parks, and skip leaves it to people',
    async (scenario) => {
      const run = await scenario.start({ to: 'east', go: 'auto' });
      await run.people({ go: false });
      await run.until('the outage', ({ outageSince }) => outageSince);
      await scenario.service.cluster('north').kill();
      const parked = await run.waitsFor('decision', ({ step }) => step.includes('north'));
      expect(parked.choices.map(({ action }) => action)).toContain('skip');
      // The other branches did not wait for it.
      await run.until('west follows', ({ steps }) =>
        steps.some(({ name, state }) => name === 'Wait until west streams from east' && state === 'done'),
      );
      const { waiting } = await run.status();
      expect(waiting).toHaveLength(1);
      await run.decide('skip', parked.step);
      const report = await run.report();

      expect(report.outcome).toBe('completed');
      expect(report.leftToDo).toContainEqual(expect.stringContaining('north does not follow east'));
      expect(report.parkings).toHaveLength(1);
      expect(scenario.state('west').dr).toMatchObject({ connectedTo: 'east', state: 'stream-wals' });
      expect(drPrimaries(scenario)).toEqual(['east', 'europe']);
    },
  );

  stranded.it(
    'has a performance secondary that does not follow re-pointed by token, its filter written before and after',
    async (scenario) => {
      // That it does not follow by itself is seen when that time is over.
      scenario.limit({ streaming: '1s' }, 'awaitPerformanceSecondaries');
      const id = scenario.state('europe').performance.secondaryId ?? '';
      const run = await underWay(scenario);
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
      expect(report.findings.filter(({ severity }) => severity === 'critical')).toEqual([]);
      expect(scenario.state('europe').performance).toMatchObject({ connectedTo: 'west', state: 'stream-wals' });
      const steps = report.steps.map(({ name }) => name).filter((name) => name.includes('europe'));
      expect(steps).toEqual([
        'Read the paths filter of europe',
        'Write the paths filter of europe (before update-primary)',
        'Point europe at west (performance)',
        'Write the paths filter of europe (after update-primary)',
        'Wait until europe follows',
        'Compare the dynamic filter of europe on both sides',
      ]);
      // The simulated service drops the filter with update-primary: it stands again at the end.
      expect(scenario.calls('west', `performance/primary/paths-filter/${id}`)).toBeGreaterThan(0);
      expect(scenario.state('west').filters).toContain(id);
      await expectFiltered(scenario, 'west');
      expect(drPrimaries(scenario)).toEqual(['west', 'europe']);
    },
  );
});
