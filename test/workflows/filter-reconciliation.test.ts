import type { Report } from '../../src/contracts/report';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { loseAnswer, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { cell, expectFewEvents } from '../support/matrix';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

const NAME = 'filterReconciliation';
const deny = (...paths: string[]) => ({ mode: 'deny' as const, paths });
const allow = (...paths: string[]) => ({ mode: 'allow' as const, paths });
const BASE = '/v1/sys/replication/performance';

/** East is performance primary of europe, whose filter keeps American customers away, and of asia, which gets everything. */
const world = new Lane(() =>
  Scenario.start({
    topology: {
      mounts: ['kv/', 'secret/', 'us-customers/', 'eu-customers/'],
      clusters: ['east', 'europe', 'asia'].map((name) => ({ name, nodes: 1 })),
      performance: {
        primary: 'east',
        secondaries: [{ name: 'europe', filter: deny('us-customers/') }, { name: 'asia' }],
      },
      dr: [],
    },
    drSets: { main: ['east'], eu: ['europe'], ap: ['asia'] },
    deployment: { pathsFilters: { europe: deny('us-customers'), asia: allow('kv/', 'eu-customers/') } },
  }),
);

/** What people still read of what was sent or removed, kept between the tests. */
const reports: string[] = [];

const reconcile = (scenario: Scenario, input: object = {}) => scenario.run(NAME, input);

async function ended(run: TestRun): Promise<Report> {
  const report = await run.report();
  reports.push(JSON.stringify(report));
  return report;
}

const idOf = (scenario: Scenario, cluster: string) => scenario.service.cluster(cluster).clusterId;
const filterOf = (scenario: Scenario, cluster: string) =>
  scenario.service.cluster('east').filterOf(idOf(scenario, cluster));
const pathOf = (scenario: Scenario, cluster: string) => `${BASE}/primary/paths-filter/${idOf(scenario, cluster)}`;

function warnings({ plan }: Report): readonly string[] {
  return plan && 'warnings' in plan.content ? plan.content.warnings : [];
}

function undoOf({ result }: Report): Readonly<Record<string, unknown>> {
  return (result?.['undo'] as { readonly input: Readonly<Record<string, unknown>> }).input;
}

describe('paths filters become what is wanted', () => {
  let undo: Readonly<Record<string, unknown>>;
  runLanes(world);

  world.it(
    cell(NAME, 'no fault', 'from the inventory, what only narrows is approved as well; a dry run only reads'),
    async (scenario) => {
      const dry = await reconcile(scenario, { dryRun: true });
      expect(await dry.report()).toMatchObject({ outcome: 'planned', gates: [] });
      expect(filterOf(scenario, 'asia')).toBeUndefined();

      const run = await reconcile(scenario);
      await run.approve('filter');
      const report = await ended(run);
      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], parkings: [], gates: [{ gate: 'filter' }] });
      expect(filterOf(scenario, 'europe')).toEqual(deny('us-customers/'));
      expect(filterOf(scenario, 'asia')).toEqual(allow('eu-customers/', 'kv/'));
      // Europe was as wanted but for the writing of its path.
      expect(scenario.calls('east', pathOf(scenario, 'europe'))).toBe(0);
      expect(warnings(report)).toEqual([
        'The filter of asia is narrower (no paths filter becomes allow eu-customers/, kv/). What is newly kept away is deleted on asia: its clients lose it at once.',
      ]);
      expect(report.result).toMatchObject({
        before: { europe: deny('us-customers/'), asia: 'none' },
        after: { europe: deny('us-customers/'), asia: allow('eu-customers/', 'kv/') },
        undo: { runbook: NAME, input: { primary: 'east', filters: { asia: 'none' } } },
      });
      expect(report.filters).toContainEqual(
        expect.objectContaining({ secondary: 'asia', before: 'none', after: 'allow eu-customers/, kv/' }),
      );
      undo = undoOf(report);
      await expectFewEvents(NAME, run);
    },
  );

  world.it(cell(NAME, 'lost answer', 'DELETE paths-filter'), async (scenario) => {
    const lost = loseAnswer(scenario, 'east', `DELETE ${pathOf(scenario, 'asia')}`);
    // The undo of the first run, as its report gives it.
    const run = await reconcile(scenario, undo);
    await run.approve('filter');
    const report = await ended(run);
    expect(lost.hits).toBe(1);
    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], parkings: [] });
    expect(statuses(scenario, 'east', `DELETE ${pathOf(scenario, 'asia')}`)).toEqual([0]);
    expect(filterOf(scenario, 'asia')).toBeUndefined();
    expect(warnings(report)).toEqual([
      'The filter of asia is deleted (allow eu-customers/, kv/ becomes no paths filter): all of it is sent to asia, and cannot be called back.',
    ]);
    expect(report.gates).toMatchObject([{ gate: 'filter', state: 'approved' }]);
  });

  const refusedThenLost = world.test(async (scenario) => {
    const endpoint = `POST ${pathOf(scenario, 'europe')}`;
    scenario.service.faults.add({ cluster: 'east', endpoint, action: { status: 403 } });
    const run = await reconcile(scenario, {
      filters: { europe: deny('us-customers/', 'secret/'), asia: deny('kv/') },
    });
    await run.approve('filter');
    await run.waitsFor('decision');
    loseAnswer(scenario, 'east', endpoint);
    await run.decide('retry');
    const report = await ended(run);
    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], gates: [{ gate: 'filter' }] });
    expect(report.parkings).toMatchObject([{ code: 'PERMISSION_DENIED', decision: { action: 'retry' } }]);
    expect(statuses(scenario, 'east', endpoint)).toEqual([403, 0]);
    expect(filterOf(scenario, 'europe')).toEqual(deny('secret/', 'us-customers/'));
    expect(filterOf(scenario, 'asia')).toEqual(deny('kv/'));
  });
  it(cell(NAME, 'parked, retry', 'the service refuses a filter; it also tells what it was'), refusedThenLost);
  it(cell(NAME, 'lost answer', 'POST paths-filter'), refusedThenLost);

  world.it(cell(NAME, 'refused', 'a secondary that does not answer, and a primary that is none'), async (scenario) => {
    const none = await (await reconcile(scenario, { primary: 'asia' })).failure();
    expect(none).toMatchObject({ code: 'PRECONDITION_FAILED' });
    expect(none.message).toContain('asia is a performance primary');
    await scenario.service.cluster('asia').kill();
    const silent = await (await reconcile(scenario, { filters: { asia: 'none' } })).failure();
    expect(silent.message).toContain('asia answers');
    await scenario.service.cluster('asia').restart();
    expect(scenario.service.calls.filter(({ method }) => method !== 'GET' && method !== 'POST')).toEqual([]);
  });

  world.it(
    cell(NAME, 'parked, skip', 'the secondary does not tell its dynamic filter: two people decide it'),
    async (scenario) => {
      const endpoint = `GET ${BASE}/secondary/dynamic-filter/${idOf(scenario, 'europe')}`;
      scenario.service.faults.add({ cluster: 'europe', endpoint, action: { status: 403 }, times: Infinity });
      const run = await reconcile(scenario, { filters: { europe: allow('kv/') } });
      await run.approve('filter');
      const step = 'Compare the dynamic filter of europe on both sides';
      const parked = await run.waitsFor('decision');
      expect(parked.choices.find(({ action }) => action === 'skip')).toMatchObject({ needsTwo: true });
      await run.decide('skip', step);
      await run.waitsFor('decision', ({ decidedOnce }) => decidedOnce?.by.name === 'grace');
      await run.decide('skip', step);
      await run.until('refused', ({ receipts }) => receipts.some(({ code }) => code === 'same-person'));
      await run.decide('skip', step, 'henry');
      const report = await ended(run);
      const receipts = report.receipts.filter(({ signal }) => signal === 'decide');
      expect(receipts.map(({ verdict, code }) => `${verdict} ${code}`)).toEqual([
        'accepted second-needed',
        'refused same-person',
        'accepted accepted',
      ]);
      expect(report.parkings[0]?.decision).toMatchObject({
        action: 'skip',
        by: { name: 'henry' },
        reason: expect.stringContaining('with grace, signed: ') as string,
      });
      expect(report.outcome).toBe('completed');
      expect(report.leftToDo).toEqual([expect.stringContaining('whether both sides filter the same is not known')]);
      expect(filterOf(scenario, 'europe')).toEqual(allow('kv/'));
    },
  );

  world.it(
    cell(NAME, 'parked, abort', 'after the first of two filters: the report says how to bring it back'),
    async (scenario) => {
      const endpoint = `POST ${pathOf(scenario, 'asia')}`;
      scenario.service.faults.add({ cluster: 'east', endpoint, action: { status: 403 }, times: Infinity });
      const run = await reconcile(scenario, {
        filters: { europe: allow('kv/', 'secret/'), asia: allow('secret/', 'kv/') },
      });
      // Too old before the first one: asked for again once, for both.
      await approveLongAgo(scenario, run, 'filter');
      await approveAgain(run, 'filter');
      await run.decide('abort');
      const report = await ended(run);
      expect(report.outcome).toBe('aborted');
      expect(report.gates).toHaveLength(2);
      const [finding] = report.findings.filter(({ code }) => code === 'filters-before');
      expect(finding?.text).toContain('europe allow kv/');
      expect(finding?.next).toContain('"asia":{"mode":"deny","paths":["kv/"]}');
      expect(filterOf(scenario, 'asia')).toEqual(deny('kv/'));
    },
  );

  world.it('nothing to change is a run of its own: it reads, compares and completes', async (scenario) => {
    const run = await reconcile(scenario, { filters: { asia: deny('kv') } });
    const report = await ended(run);
    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], gates: [], parkings: [] });
    expect(report.result).not.toHaveProperty('undo');
    expect(scenario.calls('east', pathOf(scenario, 'asia'))).toBe(0);
    scenario.shows(...reports);
  });
});
