import type { Report } from '../../src/contracts/report';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { loseAnswer, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { cell, expectFewEvents } from '../support/matrix';
import { at } from '../support/outage';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

const NAME = 'secondaryDecommission';
const FILTER = { mode: 'deny' as const, paths: ['us-customers/'] };
const of = (kind: string, path: string) => `POST /v1/sys/replication/${kind}/${path}`;
const one = (name: string) => ({ name, nodes: 1 });

/** East with three DR secondaries. */
const disaster = new Lane(() =>
  Scenario.start({
    topology: {
      clusters: ['east', 'west', 'north', 'south'].map(one),
      dr: [{ primary: 'east', secondaries: ['west', 'north', 'south'] }],
    },
    drSets: { main: ['east', 'west', 'north', 'south'] },
  }),
);

/** East is performance primary of europe, which has a filter and a DR secondary of its own, and of asia. */
const performance = new Lane(() =>
  Scenario.start({
    topology: {
      mounts: ['kv/', 'secret/', 'us-customers/'],
      clusters: ['east', 'europe', 'europe-dr', 'asia'].map(one),
      performance: { primary: 'east', secondaries: [{ name: 'europe', filter: FILTER }, { name: 'asia' }] },
      dr: [{ primary: 'europe', secondaries: ['europe-dr'] }],
    },
    drSets: { main: ['east'], eu: ['europe', 'europe-dr'], ap: ['asia'] },
  }),
);

const told: string[] = [];

const decommission = (scenario: Scenario, kind: string, input: object) =>
  scenario.run(NAME, { kind, primary: 'east', ...input });

async function ended(run: TestRun): Promise<Report> {
  const report = await run.report();
  told.push(JSON.stringify(report));
  return report;
}

function warnings({ plan }: Report): string {
  return plan && 'warnings' in plan.content ? plan.content.warnings.join('\n') : '';
}

describe('a secondary is cut off for good', () => {
  runLanes(disaster, performance);

  disaster.it(
    cell(NAME, 'refused', 'an id that the primary does not know, and a cluster that is no primary'),
    async (scenario) => {
      const unknown = await (await decommission(scenario, 'dr', { id: 'nobody' })).failure();
      expect(unknown).toMatchObject({ code: 'PRECONDITION_FAILED' });
      expect(unknown.message).toContain('the primary knows the id');
      const none = await (await decommission(scenario, 'dr', { primary: 'north', secondary: 'west' })).failure();
      expect(none.message).toContain('DR primary (north)');
      const both = await (await decommission(scenario, 'dr', { secondary: 'west', id: 'nobody' })).failure();
      expect(both.message).toContain('and not both');
      expect(scenario.state('east').dr.knownSecondaries).toHaveLength(3);
    },
  );

  disaster.it(cell(NAME, 'no fault', 'revoked, gone, and it forgets its primary'), async (scenario) => {
    const { clusterId } = scenario.state('west');
    const dry = await decommission(scenario, 'dr', { secondary: 'west', dryRun: true });
    expect(await dry.report()).toMatchObject({ outcome: 'planned' });
    const run = await decommission(scenario, 'dr', { secondary: 'west' });
    await run.shares();
    await run.approve('revoke');
    const report = await ended(run);
    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], parkings: [] });
    expect(warnings(report)).toContain('west is cut off from east at once');
    expect(scenario.state('east').dr.knownSecondaries).not.toContain(clusterId);
    expect(scenario.state('west').dr).toMatchObject({ mode: 'secondary', connectedTo: undefined, secondaryId: '' });
    expect(scenario.state('west').operationTokens).toBe(0);
    expect(statuses(scenario, 'east', of('dr', 'primary/revoke-secondary'))).toHaveLength(1);
    await expectFewEvents(NAME, run);
  });

  disaster.it(cell(NAME, 'abort at', 'gate disable, with nothing revoked yet'), async (scenario) => {
    const run = await decommission(scenario, 'dr', { secondary: 'south', afterwards: 'disable' });
    await run.shares();
    await run.approve('revoke');
    await run.approve('disable', 'henry', 'reject');
    const report = await ended(run);
    expect(report).toMatchObject({ outcome: 'aborted', gates: [{ state: 'approved' }, { state: 'rejected' }] });
    expect(scenario.state('south').dr.connectedTo).toBe('east');
    expect(statuses(scenario, 'east', of('dr', 'primary/revoke-secondary'))).toEqual([]);
  });

  const LOST = ['primary/revoke-secondary', 'secondary/disable', 'secondary/update-primary'] as const;
  disaster.it(cell(NAME, 'lost answer', 'dr, revoke-secondary and secondary/disable'), async (scenario) => {
    loseAnswer(scenario, 'east', of('dr', LOST[0]));
    loseAnswer(scenario, 'south', of('dr', LOST[1]));
    const run = await decommission(scenario, 'dr', { secondary: 'south', afterwards: 'disable' });
    await run.shares();
    await run.approve('revoke');
    await run.approve('disable');
    const lost = await ended(run);
    expect(statuses(scenario, 'east', of('dr', LOST[0]))).toEqual([0]);
    expect(statuses(scenario, 'south', of('dr', LOST[1]))).toEqual([0]);
    expect(lost).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
    expect(scenario.state('south').dr.mode).toBe('disabled');
  });

  disaster.it(cell(NAME, 'refused', 'the only connected DR secondary, until somebody says so'), async (scenario) => {
    const refused = await (await decommission(scenario, 'dr', { secondary: 'north' })).failure();
    expect(refused.message).toContain('another DR secondary stays connected');
    expect(scenario.state('north').dr.connectedTo).toBe('east');
  });

  disaster.it(cell(NAME, 'lost answer', of('dr', LOST[2])), async (scenario) => {
    loseAnswer(scenario, 'north', of('dr', LOST[2]));
    const run = await decommission(scenario, 'dr', { secondary: 'north', acknowledgeLastSecondary: true });
    await run.shares();
    // Too old when the token is in hand: asked for again, and good for both sides then.
    await approveLongAgo(scenario, run, 'revoke');
    await approveAgain(run, 'revoke');
    const report = await ended(run);
    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
    expect(report.gates).toMatchObject([{ gate: 'revoke' }, { gate: 'revoke', by: [{ name: 'henry' }] }]);
    expect(warnings(report)).toContain('east may have no connected DR secondary afterwards');
    expect(statuses(scenario, 'north', of('dr', LOST[2]))).toEqual([0]);
    expect(scenario.state('north').dr).toMatchObject({ mode: 'secondary', secondaryId: '' });
    scenario.shows(...told);
  });

  performance.it(cell(NAME, 'lost answer', 'performance, revoke-secondary and update-primary'), async (scenario) => {
    const { clusterId } = scenario.state('europe');
    loseAnswer(scenario, 'east', of('performance', LOST[0]));
    loseAnswer(scenario, 'europe', of('performance', LOST[2]));
    const run = await decommission(scenario, 'performance', { id: clusterId });
    await run.approve('revoke');
    const report = await ended(run);
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    expect(statuses(scenario, 'east', of('performance', LOST[0]))).toEqual([0]);
    expect(statuses(scenario, 'europe', of('performance', LOST[2]))).toEqual([0]);
    const forgotten = { mode: 'secondary', connectedTo: undefined, secondaryId: '' };
    expect(scenario.state('europe').performance).toMatchObject(forgotten);
    // Its own DR set is not touched.
    expect(scenario.state('europe-dr').dr).toMatchObject({ connectedTo: 'europe', state: 'stream-wals' });

    // Its filter stays, and the report has the input that deletes it.
    const [left = ''] = report.leftToDo;
    expect(report.leftToDo).toHaveLength(1);
    const [, json = '{}'] = /with (\{.*\})\.$/.exec(left) ?? [];
    const deletion = await scenario.startRunbook('filterReconciliation', JSON.parse(json));
    await deletion.approve('filter');
    expect(await ended(deletion)).toMatchObject({ outcome: 'completed', leftToDo: [] });
    expect(scenario.service.cluster('east').filterOf(clusterId)).toBeUndefined();
  });

  performance.it(
    cell(NAME, 'parked, retry', 'the primary refuses the revocation; an id that no cluster has is revoked alone'),
    async (scenario) => {
      const { clusterId, dr } = scenario.state('europe-dr');
      expect(dr.connectedTo).toBe('europe');
      const endpoint = of('dr', 'primary/revoke-secondary');
      scenario.service.faults.add({ cluster: 'europe', endpoint, action: { status: 403 } });
      // The cluster is gone for good: its id is all that is left of it.
      await scenario.service.cluster('europe-dr').kill();
      const run = await decommission(scenario, 'dr', {
        primary: 'europe',
        id: clusterId,
        acknowledgeLastSecondary: true,
      });
      await run.approve('revoke');
      await run.decide('retry');
      const report = await ended(run);
      expect(report.outcome).toBe('completed');
      expect(report.leftToDo).toEqual([expect.stringContaining(`Nothing was done on the secondary with the id`)]);
      expect(scenario.state('europe').dr.knownSecondaries).toEqual([]);
    },
  );

  performance.it(
    cell(NAME, 'abort at', 'the wait until it is gone: the report says what is left on it'),
    async (scenario) => {
      const clusters = ['east', 'asia'].map((name) => scenario.service.cluster(name));
      const roles = clusters.map((each) => [each, each.role('performance')] as const);
      const silent = { cluster: 'asia', endpoint: 'GET /v1/sys/replication/performance/status', times: Infinity };
      at(scenario, 'after', 'east', of('performance', LOST[0]), () => {
        scenario.service.faults.add({ ...silent, action: { status: 503 } });
      });
      const run = await decommission(scenario, 'performance', { secondary: 'asia', afterwards: 'disable' });
      await run.approve('revoke');
      await run.approve('disable');
      await run.until('the wait', ({ steps }) => steps.some(({ name }) => name === 'See that asia is gone'));
      await run.control('abort', { reason: 'called away' });
      const report = await ended(run);
      expect(report.outcome).toBe('aborted');
      expect(report.leftToDo).toContainEqual(expect.stringContaining('asia is still a performance secondary'));
      expect(scenario.state('east').performance.knownSecondaries).toEqual([]);
      // It was revoked: its role ends by replicationTeardown.
      scenario.service.faults.clear();
      const again = await (await decommission(scenario, 'performance', { secondary: 'asia' })).failure();
      expect(again.message).toContain('the primary knows the id');
      // For the next test it follows east again.
      for (const [each, role] of roles) each.setRole('performance', role, scenario.service.now());
      scenario.service.advance();
    },
  );

  performance.it(cell(NAME, 'parked, skip', 'the secondary refuses to be disabled'), async (scenario) => {
    const endpoint = of('performance', LOST[1]);
    scenario.service.faults.add({ cluster: 'asia', endpoint, action: { status: 403 }, times: Infinity });
    const run = await decommission(scenario, 'performance', { secondary: 'asia', afterwards: 'disable' });
    await run.approve('revoke');
    await run.approve('disable');
    await run.decide('skip', 'Disable performance replication on asia');
    const report = await ended(run);
    expect(report.outcome).toBe('completed');
    expect(report.leftToDo).toContainEqual(expect.stringContaining('asia stays a performance secondary'));
    expect(scenario.state('asia').performance).toMatchObject({ mode: 'secondary', connectedTo: undefined });
    scenario.shows(...told);
  });
});
