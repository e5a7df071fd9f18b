import { CHANGING, loseAnswer, statuses } from '../support/faults';
import { FAILOVER_LIMITS, failoverPeople, startFailover } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { cell } from '../support/matrix';
import { Scenario } from '../support/scenario';
import type { ScenarioOptions } from '../support/scenario';
const FILTER = { mode: 'deny' as const, paths: ['us-customers/'] };

/** East with two DR secondaries, and a filtered performance secondary with a DR secondary of its own. */
const payments: ScenarioOptions = {
  limits: FAILOVER_LIMITS,
  topology: {
    mounts: ['kv/', 'secret/', 'us-customers/'],
    clusters: ['east', 'west', 'north', 'europe', 'europe-dr'].map((name) => ({ name, nodes: 1 })),
    performance: { primary: 'east', secondaries: [{ name: 'europe', filter: FILTER }] },
    dr: [
      { primary: 'east', secondaries: ['west', 'north'] },
      { primary: 'europe', secondaries: ['europe-dr'] },
    ],
  },
  // North stands first, so that order alone would choose it.
  drSets: { main: ['north', 'east', 'west'], eu: ['europe', 'europe-dr'] },
  deployment: { hooks: { fence: { command: ['/bin/true'], timeout: '60s' } } },
};

const several = new Lane(() => Scenario.start(payments));
describe('a failover in a deployment with several secondaries', () => {
  runLanes(several);

  several.it(
    `${cell('drFailover', 'lost answer', 'promote, secondary-token, update-primary, attempt, share and token delete')}; the secondary furthest ahead is proposed, the others follow it`,
    async (scenario) => {
      const { service } = scenario;
      const sampling = await scenario.startRunbook(
        'walSampler',
        { deployment: scenario.name, samples: 1 },
        `walSampler:${scenario.name}:one`,
      );
      await sampling.handle.result();
      service.cluster('north').holdStream('dr', true);
      service.cluster('east').write('secret/latest', { at: service.now() });
      await new Promise((resolve) => setTimeout(resolve, 100));
      service.advance();
      expect(service.cluster('west').read('secret/latest')).toBeDefined();
      await service.cluster('east').kill();
      service.cluster('north').holdStream('dr', false);
      const lost = [
        loseAnswer(scenario, 'west', CHANGING.startAttempt),
        loseAnswer(scenario, 'west', CHANGING.giveShare, 2),
        loseAnswer(scenario, 'west', CHANGING.promote),
        loseAnswer(scenario, 'west', CHANGING.secondaryToken),
        loseAnswer(scenario, 'north', CHANGING.updatePrimary),
        loseAnswer(scenario, 'north', CHANGING.deleteToken),
      ];
      const run = await startFailover(scenario);
      await failoverPeople(run);
      const report = await run.report();

      expect(lost.map(({ hits }) => hits)).toEqual([1, 1, 1, 1, 1, 1]);
      expect(report).toMatchObject({ outcome: 'completed', parkings: [], result: { to: 'west', fencing: 'hook' } });
      expect(report.leftToDo).toEqual([expect.stringContaining('drRejoin')]);
      // The sampler ran before: what is known of the loss is told, and that others agree.
      expect(report.loss).toMatchObject({ loss: 'bounded' });
      expect(report.preconditions).toContainEqual(
        expect.objectContaining({ name: 'another observer agrees', verdict: 'ok' }),
      );
      expect(report.steps.map(({ name }) => name)).toContain('Fence east');
      expect(statuses(scenario, 'west', CHANGING.promote)).toEqual([0]);
      expect(scenario.state('north').dr).toMatchObject({ connectedTo: 'west', state: 'stream-wals' });
      expect(scenario.state('north').operationTokens).toBe(0);
      expect(scenario.state('europe').performance).toMatchObject({ connectedTo: 'west', state: 'stream-wals' });
      expect(scenario.state('europe-dr').dr.connectedTo).toBe('europe');
      expect(scenario.state('west').filters).toEqual([scenario.state('europe').clusterId]);
      expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
    },
  );

  several.it(
    'of a performance secondary with a DR secondary of its own: that one takes its place in the performance set',
    async (scenario) => {
      await scenario.service.cluster('europe').kill();
      const run = await startFailover(scenario);
      await failoverPeople(run);
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', parkings: [], result: { from: 'europe', to: 'europe-dr' } });
      expect(scenario.state('europe-dr').dr.mode).toBe('primary');
      expect(scenario.state('europe-dr').performance).toMatchObject({ mode: 'secondary', connectedTo: 'west' });
    },
  );
});
