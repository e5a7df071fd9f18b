import { nextCommandOf } from '../../src/contracts/next-commands';
import type { Report } from '../../src/contracts/report';
import { headlineOf } from '../../src/report/headlines';
import { loseAnswers, refuse, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import { FILTER, replicating, Scenario } from '../support/scenario';
import type { Deed } from '../support/scenario';

const NAME = 'filterReconciliation';
const deny = (...paths: string[]) => ({ mode: 'deny' as const, paths });
const allow = (...paths: string[]) => ({ mode: 'allow' as const, paths });
const BASE = '/v1/sys/replication/performance';

/** East is performance primary of europe, whose filter keeps American customers away, and of asia, which gets everything. */
const world = new Lane(() => {
  const pathsFilters = { europe: deny('us-customers'), asia: allow('kv/', 'eu-customers/') };
  const mounts = ['kv/', 'secret/', 'us-customers/', 'eu-customers/'];
  const site = replicating({ main: ['east'], eu: ['europe'], ap: ['asia'] }, { europe: FILTER }, { mounts });
  return Scenario.start({ ...site, deployment: { pathsFilters } });
});

const reconcile = (scenario: Scenario, input: object, ...deeds: readonly Deed[]) =>
  scenario.begin(NAME, input, ...deeds);

const idOf = (scenario: Scenario, cluster: string) => scenario.service.cluster(cluster).clusterId;
const filterOf = (scenario: Scenario, cluster: string) =>
  scenario.service.cluster('east').filterOf(idOf(scenario, cluster));
const pathOf = (scenario: Scenario, cluster: string) => `${BASE}/primary/paths-filter/${idOf(scenario, cluster)}`;
const warnings = ({ plan }: Report) => plan?.content.warnings;

describe('paths filters become as specified', () => {
  const { it } = world;
  let undo: object;
  runLanes(world);

  it('from the inventory, a change that only narrows is approved as well; a dry run only reads', async (scenario) => {
    const dry = await scenario.play(NAME, { dryRun: true });
    expect(dry).toMatchObject({ outcome: 'planned', gates: [] });
    expect(filterOf(scenario, 'asia')).toBeUndefined();

    const run = await reconcile(scenario, {}, 'approve filter');
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], parkings: [], gates: [{ gate: 'filter' }] });
    expect(filterOf(scenario, 'europe')).toEqual(deny('us-customers/'));
    expect(filterOf(scenario, 'asia')).toEqual(allow('eu-customers/', 'kv/'));
    // Europe was as wanted but for the writing of its path.
    expect(scenario.calls('east', pathOf(scenario, 'europe'))).toBe(0);
    expect(warnings(report)).toEqual([
      'The filter of asia becomes narrower (no paths filter becomes allow eu-customers/, kv/). Data that is newly kept away is deleted on asia: its clients lose it immediately.',
    ]);
    const result = {
      before: { europe: deny('us-customers/'), asia: 'none' },
      undo: { runbook: NAME, input: { primary: 'east', filters: { asia: 'none' } } },
    };
    expect(report.result).toMatchObject(result);
    const written = report.steps.find(({ name }) => name.includes('the paths filter of asia'));
    expect(written?.activities.at(-1)?.observed).toBe('allow eu-customers/, kv/; before: no paths filter');
    undo = (report.result?.['undo'] as { readonly input: object }).input;
    await expectFewEvents(NAME, run);
  });

  it('lost answer: DELETE paths-filter, which undoes the first run by the input that its report gives', async (scenario) => {
    const endpoint = `DELETE ${pathOf(scenario, 'asia')}`;
    loseAnswers(scenario, { east: [endpoint] });
    const report = await (await reconcile(scenario, undo, 'approve filter')).report();
    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], parkings: [] });
    expect(statuses(scenario, 'east', endpoint)).toEqual([0]);
    expect(filterOf(scenario, 'asia')).toBeUndefined();
    expect(warnings(report)).toEqual([
      'The filter of asia is deleted (allow eu-customers/, kv/ becomes no paths filter): everything is then sent to asia, and cannot be recalled.',
    ]);
    expect(report.gates).toMatchObject([{ gate: 'filter', state: 'approved' }]);
  });

  it('parked, retry: the service refuses a filter; it also reports the earlier one; lost answer: POST paths-filter', async (scenario) => {
    const endpoint = `POST ${pathOf(scenario, 'europe')}`;
    refuse(scenario, 'east', endpoint, 400, 1);
    const filters = { europe: deny('us-customers/', 'secret/'), asia: deny('kv/') };
    const run = await reconcile(scenario, { filters }, 'approve filter');
    const { next } = await run.waitsFor('decision');
    expect(next).toContain('Each path must be a mount or a namespace of east');
    loseAnswers(scenario, { east: [endpoint] });
    await run.do('retry');
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], gates: [{ gate: 'filter' }] });
    expect(report.parkings).toMatchObject([{ code: 'BAD_REQUEST', decision: { action: 'retry' } }]);
    expect(statuses(scenario, 'east', endpoint)).toEqual([400, 0]);
    expect(filterOf(scenario, 'europe')).toEqual(deny('secret/', 'us-customers/'));
    expect(filterOf(scenario, 'asia')).toEqual(deny('kv/'));
  });

  it('refused: a secondary that does not answer, and a primary that is none', async (scenario) => {
    expect(await scenario.refusal(NAME, { primary: 'asia' })).toContain('asia is a performance primary');
    await scenario.service.cluster('asia').kill();
    expect(await scenario.refusal(NAME, { filters: { asia: 'none' } })).toContain('asia answers');
    await scenario.service.cluster('asia').restart();
    expect(scenario.service.calls.filter(({ method }) => method !== 'GET' && method !== 'POST')).toEqual([]);
  });

  it('parked, skip: the secondary does not report its dynamic filter, and two people decide it', async (scenario) => {
    refuse(scenario, 'europe', `GET ${BASE}/secondary/dynamic-filter/${idOf(scenario, 'europe')}`);
    const run = await reconcile(scenario, { filters: { europe: allow('kv/') } }, 'approve filter');
    const step = 'Compare the dynamic filter of europe on both clusters';
    const parked = await run.parks();
    expect(parked.choices.find(({ action }) => action === 'skip')).toMatchObject({ needsTwo: true });
    await run.decide('skip', step);
    await run.waitsFor('decision', ({ decidedOnce }) => decidedOnce?.by.name === 'grace');
    await run.decide('skip', step);
    await run.until('refused', ({ receipts }) => receipts.some(({ code }) => code === 'same-person'));
    await run.decide('skip', step, 'henry');
    const report = await run.report();
    const receipts = report.receipts.filter(({ signal }) => signal === 'decide');
    expect(receipts.map(({ verdict, code }) => `${verdict} ${code}`)).toEqual([
      'accepted second-needed',
      'refused same-person',
      'accepted accepted',
    ]);
    const reason = expect.stringContaining('with grace, signed: ') as string;
    expect(report.parkings[0]?.decision).toMatchObject({ action: 'skip', by: { name: 'henry' }, reason });
    expect(report.outcome).toBe('completed');
    expect(report.leftToDo).toEqual([expect.stringContaining('unknown whether both clusters filter the same')]);
    expect(filterOf(scenario, 'europe')).toEqual(allow('kv/'));
  });

  it('parked, abort: after the first of two filters the report says how to bring it back', async (scenario) => {
    refuse(scenario, 'east', `POST ${pathOf(scenario, 'asia')}`);
    const filters = { europe: allow('kv/', 'secret/'), asia: allow('secret/', 'kv/') };
    // Too old before the first one: asked for again once, for both.
    const report = await (await reconcile(scenario, { filters }, 'renew filter', 'abort')).report();
    expect(report.outcome).toBe('aborted');
    expect(report.gates).toHaveLength(2);
    const [finding] = report.findings.filter(({ code }) => code === 'filters-before');
    expect(finding?.text).toContain('europe allow kv/');
    expect(finding?.next).toContain('"asia":{"mode":"deny","paths":["kv/"]}');
    expect(filterOf(scenario, 'asia')).toEqual(deny('kv/'));
  });

  it('a secondary that filters otherwise is reported as critical, and left to do', async (scenario) => {
    const body = { data: { dynamic_filtered_mounts: ['secret/'], dynamic_filtered_namespaces: [] } };
    const endpoint = `GET ${BASE}/secondary/dynamic-filter/${idOf(scenario, 'asia')}`;
    const action = { status: 200, body };
    const otherwise = scenario.service.faults.add({ cluster: 'asia', endpoint, action, times: Infinity });
    scenario.limit({ streaming: '1s' }, 'compareDynamicFilters');
    const report = await scenario.play(NAME, { filters: { asia: deny('kv') } });
    otherwise.remove();
    scenario.limit();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    expect(report.findings).toMatchObject([{ severity: 'critical', code: 'dynamic-filter-differs' }]);
    const again = nextCommandOf.start(NAME, {
      ...{ deployment: scenario.name, primary: 'east', filters: { asia: deny('kv/') } },
      reason: 'asia filtered differently from east',
    });
    const next = `Make sure that asia is connected to east, then compare again: \`${again}\`.`;
    expect(report.findings[0]?.next).toContain(next);
    expect(headlineOf(report).text).toContain('1 critical finding');
    expect(report.leftToDo).toEqual([expect.stringContaining('The dynamic filter of asia is not what it must be')]);
  });

  it('no change is a run of its own: it reads, compares and completes', async (scenario) => {
    const report = await scenario.play(NAME, { filters: { asia: deny('kv') } });
    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], gates: [], parkings: [] });
    expect(report.result).not.toHaveProperty('undo');
    expect(scenario.calls('east', pathOf(scenario, 'asia'))).toBe(0);
  });
});
