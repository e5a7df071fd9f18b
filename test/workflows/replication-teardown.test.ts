import type { Report } from '../../src/contracts/report';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { loseAnswer, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { cell, expectFewEvents } from '../support/matrix';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

const NAME = 'replicationTeardown';
const disable = (kind: string, role: string) => `POST /v1/sys/replication/${kind}/${role}/disable`;

/**
 * East is DR primary of west and performance primary of europe; europe is performance secondary and DR primary of
 * europe-dr at once.
 */
const world = new Lane(() =>
  Scenario.start({
    topology: {
      clusters: [...['east', 'west', 'europe-dr'].map((name) => ({ name, nodes: 1 })), { name: 'europe', nodes: 3 }],
      performance: { primary: 'east', secondaries: [{ name: 'europe' }] },
      dr: [
        { primary: 'east', secondaries: ['west'] },
        { primary: 'europe', secondaries: ['europe-dr'] },
      ],
    },
    drSets: { main: ['east', 'west'], eu: ['europe', 'europe-dr'] },
  }),
);

const told: string[] = [];

const tearDown = (scenario: Scenario, kind: string, cluster: string) => scenario.run(NAME, { kind, cluster });

async function ended(run: TestRun): Promise<Report> {
  const report = await run.report();
  told.push(JSON.stringify(report));
  return report;
}

function warnings({ plan }: Report): string {
  return plan && 'warnings' in plan.content ? plan.content.warnings.join('\n') : '';
}

describe('one kind of replication ends on one cluster', () => {
  runLanes(world);

  world.it(
    cell(NAME, 'refused', 'performance replication of a DR secondary, and a cluster that does not answer'),
    async (scenario) => {
      const inherited = await (await tearDown(scenario, 'performance', 'west')).failure();
      expect(inherited.message).toContain('no DR secondary (west)');
      await scenario.service.cluster('west').kill();
      const silent = await (await tearDown(scenario, 'dr', 'west')).failure();
      expect(silent.message).toContain('DR role readable (west)');
      await scenario.service.cluster('west').restart();
    },
  );

  world.it(
    cell(NAME, 'no fault', 'a DR primary that is performance secondary too: only the named kind ends'),
    async (scenario) => {
      const run = await tearDown(scenario, 'dr', 'europe');
      await run.approve('disable');
      const report = await ended(run);
      expect(report).toMatchObject({ outcome: 'completed', parkings: [], gates: [{ gate: 'disable' }] });
      const { clusterId } = scenario.state('europe-dr');
      expect(warnings(report)).toContain(`europe-dr (id ${clusterId}) is cut off for good`);
      expect(warnings(report)).toContain('The performance replication of europe (secondary) stays as it is.');
      expect(report.leftToDo).toEqual([expect.stringContaining('europe-dr is still a secondary')]);
      expect(report.result).toMatchObject({ was: 'primary', cutOff: [{ id: clusterId, cluster: 'europe-dr' }] });
      expect(scenario.state('europe')).toMatchObject({
        dr: { mode: 'disabled' },
        performance: { mode: 'secondary', connectedTo: 'east', state: 'stream-wals' },
      });
      await expectFewEvents(NAME, run);
    },
  );

  world.it(cell(NAME, 'lost answer', disable('dr', 'secondary')), async (scenario) => {
    const lost = loseAnswer(scenario, 'europe-dr', disable('dr', 'secondary'));
    // Its primary is gone: nobody can look a batch token up, the holders are asked.
    const run = await tearDown(scenario, 'dr', 'europe-dr');
    await run.shares();
    await approveLongAgo(scenario, run, 'disable');
    await approveAgain(run, 'disable');
    const report = await ended(run);
    expect(lost.hits).toBe(1);
    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], result: { was: 'secondary' } });
    expect(report.gates).toHaveLength(2);
    expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
    expect(statuses(scenario, 'europe-dr', disable('dr', 'secondary'))).toEqual([0]);
    expect(scenario.state('europe-dr').dr.mode).toBe('disabled');
  });

  world.it(cell(NAME, 'parked, skip', 'a node that is down cannot say that it is disabled'), async (scenario) => {
    const lost = loseAnswer(scenario, 'europe', disable('performance', 'secondary'));
    const { activeNode = 0 } = scenario.state('europe');
    await scenario.service.cluster('europe').killNode((activeNode + 1) % 3);
    scenario.limit({ demote: '1s' }, 'awaitReplicationDisabled');
    const run = await tearDown(scenario, 'performance', 'europe');
    await run.approve('disable');
    await run.decide('skip', 'See on every node of europe that it is disabled');
    const report = await ended(run);
    expect(lost.hits).toBe(1);
    expect(report.outcome).toBe('completed');
    expect(report.leftToDo.join('\n')).toContain('whether every node of europe ended its replication is not known');
    expect(report.leftToDo.join('\n')).toContain('east still knows europe: revoke it with secondaryDecommission');
    expect(scenario.state('europe').performance.mode).toBe('disabled');
  });

  world.it(cell(NAME, 'lost answer', disable('performance', 'secondary')), async (scenario) => {
    await scenario.service.cluster('europe').restart();
    const run = await tearDown(scenario, 'performance', 'europe');
    // It is done already: nobody is asked, and every node is looked at again.
    const report = await ended(run);
    expect(report).toMatchObject({ outcome: 'completed', gates: [], leftToDo: [], result: { was: 'disabled' } });
    expect(statuses(scenario, 'europe', disable('performance', 'secondary'))).toEqual([]);
  });

  world.it(cell(NAME, 'parked, abort', 'the service refuses: nothing is changed'), async (scenario) => {
    const endpoint = disable('dr', 'primary');
    scenario.service.faults.add({ cluster: 'east', endpoint, action: { status: 403 } });
    const run = await tearDown(scenario, 'dr', 'east');
    await run.approve('disable');
    await run.decide('abort');
    expect(await ended(run)).toMatchObject({ outcome: 'aborted' });
    expect(scenario.state('west').dr.connectedTo).toBe('east');
  });

  world.it(
    cell(
      NAME,
      'parked, retry',
      'the service refuses once, and an answer is lost; a connected DR secondary is cut off behind the gate',
    ),
    async (scenario) => {
      const endpoint = disable('dr', 'primary');
      scenario.service.faults.add({ cluster: 'east', endpoint, action: { status: 403 } });
      const lost = loseAnswer(scenario, 'east', endpoint);
      const run = await tearDown(scenario, 'dr', 'east');
      await run.approve('disable');
      await run.decide('retry');
      const report = await ended(run);
      expect(lost.hits).toBe(1);
      expect(report).toMatchObject({ outcome: 'completed', parkings: [{ code: 'PERMISSION_DENIED' }] });
      expect(report.preconditions).toContainEqual(
        expect.objectContaining({ name: 'nobody is cut off', verdict: 'warn' }),
      );
      expect(warnings(report)).toContain('east has no DR secondary afterwards');
      expect(scenario.state('east')).toMatchObject({ dr: { mode: 'disabled' }, performance: { mode: 'primary' } });
      expect(scenario.state('west').dr).toMatchObject({ mode: 'secondary', connectedTo: undefined });
    },
  );

  world.it(cell(NAME, 'lost answer', disable('performance', 'primary')), async (scenario) => {
    const lost = loseAnswer(scenario, 'east', disable('performance', 'primary'));
    const run = await tearDown(scenario, 'performance', 'east');
    await run.approve('disable');
    const report = await ended(run);
    expect(lost.hits).toBe(1);
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    // East knows europe until it is revoked, although europe has ended its side.
    expect(report.result).toMatchObject({ cutOff: [{ cluster: 'europe' }] });
    expect(scenario.state('east').performance.mode).toBe('disabled');
    scenario.shows(...told);
  });
});
