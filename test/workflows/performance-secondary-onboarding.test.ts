import { writeFile } from 'node:fs/promises';
import { demotePrimary, promoteSecondary } from '../../src/simulator/roles';
import { loseAnswer, statuses } from '../support/faults';
import { post, unsealAll, until } from '../support/by-hand';
import { Lane, runLanes } from '../support/lane';
import { cell, expectFewEvents } from '../support/matrix';
import { Scenario } from '../support/scenario';

const NAME = 'performanceSecondaryOnboarding';
const PERFORMANCE = '/v1/sys/replication/performance';
const ENABLE_PRIMARY = `POST ${PERFORMANCE}/primary/enable`;
const SECONDARY_TOKEN = `POST ${PERFORMANCE}/primary/secondary-token`;
const ENABLE = `POST ${PERFORMANCE}/secondary/enable`;
const DENY = { mode: 'deny' as const, paths: ['us-customers/'] };
const NEW_SECONDARIES = ['europe', 'asia', 'africa', 'oceania'];

const one = (name: string, nodes = 1) => ({ name, nodes });

/** East is DR primary of west; the continents may be wiped, and the inventory says what europe may see. */
function continents(more: Readonly<Record<string, unknown>> = {}, performance = false): () => Promise<Scenario> {
  return () =>
    Scenario.start({
      topology: {
        mounts: ['kv/', 'secret/', 'us-customers/'],
        clusters: [one('east'), one('west'), one('europe', 3), one('asia'), one('africa', 3), one('oceania')],
        dr: [{ primary: 'east', secondaries: ['west'] }],
        ...(performance ? { performance: { primary: 'east', secondaries: [] } } : {}),
      },
      drSets: { main: ['east', 'west'], ...Object.fromEntries(NEW_SECONDARIES.map((name) => [`${name}-set`, [name]])) },
      deployment: { pathsFilters: { europe: DENY, africa: 'none' }, ...more },
    });
}

/** Oceania belongs to another team: no cluster of this deployment. */
const outside = new Lane(() =>
  Scenario.start({
    topology: {
      mounts: ['kv/', 'secret/', 'us-customers/'],
      clusters: [one('east'), one('oceania')],
      performance: { primary: 'east', secondaries: [] },
      dr: [],
    },
    otherDeployments: { 'another-team': { cluster: 'oceania' } },
  }),
);
const joining = new Lane(continents());
const losing = new Lane(continents({}, true));

const onboard = (scenario: Scenario, secondary: string, more: object = {}) =>
  scenario.run(NAME, { primary: 'east', secondary, ...more });

/** The place of the first call of an endpoint on a cluster, in the order of all calls. */
function orderOf(scenario: Scenario, cluster: string, endpoint: string): number {
  return scenario.service.calls.findIndex(
    (call) => call.cluster === cluster && `${call.method} ${call.path}` === endpoint,
  );
}

/** People make a token on the new secondary and put it where the inventory reads it. */
async function giveCredential(scenario: Scenario, cluster: string): Promise<void> {
  const token = scenario.service.cluster(cluster).createToken({ policies: ['root'] });
  await writeFile(scenario.tokenFileOf(cluster), token, { mode: 0o600 });
}

function plant(scenario: Scenario, cluster: string, primary = 'east'): void {
  scenario.service.cluster(cluster).write('secret/own', { is: cluster });
  scenario.service.cluster(primary).write('secret/of-east', { is: 'east' });
  scenario.service.cluster(primary).write('us-customers/smith', { is: 'secret' });
}

function expectJoined(scenario: Scenario, cluster: string, primary = 'east'): void {
  expect(scenario.state(cluster).performance).toMatchObject({ connectedTo: primary, state: 'stream-wals' });
  expect(scenario.service.cluster(cluster).read('secret/own')).toBeUndefined();
  expect(scenario.service.cluster(cluster).read('secret/of-east')).toEqual({ is: 'east' });
}

describe('a new performance secondary', () => {
  runLanes(joining, losing, outside);

  outside.it(
    cell(NAME, 'no fault', 'of another team: only they can use the token that they are given'),
    async (scenario) => {
      plant(scenario, 'oceania');
      const id = scenario.service.cluster('oceania').clusterId;
      const made = await post(scenario, 'oceania', 'performance/secondary/generate-public-key', {});
      const { secondary_public_key: publicKey } = (JSON.parse(made) as { data: { secondary_public_key: string } }).data;
      const said = { primary: 'east', outside: { id, publicKey } };
      const refused = await (await scenario.run(NAME, said)).failure();
      expect(refused.message).toContain('what it may see is said');
      const run = await scenario.run(NAME, { ...said, filter: DENY });
      await run.approve('wipe');
      const { instructions } = await run.waitsFor('action');
      const token = /anybody else: (\S+)$/.exec(instructions[0] ?? '')?.[1] ?? '';
      await post(scenario, 'oceania', 'performance/secondary/enable', { token });
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], parkings: [], result: { connected: true } });
      await until('oceania streams', () => scenario.state('oceania').performance.state === 'stream-wals');
      expectJoined(scenario, 'oceania');
      expect(scenario.service.cluster('oceania').read('us-customers/smith')).toBeUndefined();
      expect(scenario.state('east').filters).toEqual([id]);
      scenario.handsOver(token);
      expect(scenario.service.cluster('east').issuedSecrets).toContain(token);
    },
  );

  joining.it(
    cell(NAME, 'no fault', 'filtered from before the first byte, on a DR primary that becomes performance primary'),
    async (scenario) => {
      plant(scenario, 'europe');
      const id = scenario.service.cluster('europe').clusterId;
      const filterPath = `POST ${PERFORMANCE}/primary/paths-filter/${id}`;
      const run = await onboard(scenario, 'europe');
      const { planText = '' } = await run.until('a plan', (status) => status.planText !== undefined && status);
      expect(planText).toContain(`europe (cluster ID ${id}) is WIPED`);
      expect(planText).toContain('deny us-customers/');
      await run.approve('wipe');
      const { instructions } = await run.waitsFor('action');
      expect(instructions.join('\n')).toContain('holders of east give their key shares');
      await unsealAll(scenario, 'europe', 'east');

      // The workers' credential went with the data: people make another one.
      const parked = await run.waitsFor('decision');
      expect(parked).toMatchObject({
        step: 'Look whether europe takes a credential again',
        code: 'CREDENTIAL_UNAVAILABLE',
      });
      await giveCredential(scenario, 'europe');
      await run.decide('retry');
      const report = await run.report();

      expect(report.outcome).toBe('completed');
      expectJoined(scenario, 'europe');
      expect(scenario.service.cluster('europe').read('us-customers/smith')).toBeUndefined();
      expect(orderOf(scenario, 'east', filterPath)).toBeLessThan(orderOf(scenario, 'east', SECONDARY_TOKEN));
      expect(scenario.state('east').filters).toEqual([id]);
      expect(scenario.state('europe').performance.secondaryId).toBe(id);
      const compared = report.steps.find(({ name }) => name.startsWith('Compare the dynamic filter'));
      expect(compared?.activities[0]?.observed).toContain('the same on both sides: mounts us-customers/');
      expect(report.findings.map(({ code }) => code)).toEqual(['cluster-id-changed', 'secondary-credentials-gone']);
      expect(report.leftToDo).toEqual([
        expect.stringContaining('audit/local-file {"type":"file","local":true'),
        expect.stringContaining('sys/mounts/<path> {"type":"kv","local":true}'),
      ]);
      await expectFewEvents(NAME, run);
    },
  );

  joining.it(
    cell(NAME, 'no fault', 'the primary is a promoted DR secondary of the performance primary'),
    async (scenario) => {
      const { service } = scenario;
      demotePrimary(service.cluster('east'), 'dr');
      service.advanceClock(1_000);
      promoteSecondary(service.cluster('west'), 'dr', '', false);
      service.advanceClock(1_000);
      plant(scenario, 'oceania', 'west');
      const run = await onboard(scenario, 'oceania', { primary: 'west', filter: 'none' });
      await run.approve('wipe');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
      expectJoined(scenario, 'oceania', 'west');
      expect(report.steps.map(({ name }) => name)).not.toContain('Enable west as performance primary');
      // Without a filter nothing needs the credential, and both sides can be compared as they are.
      expect(report.findings.map(({ code }) => code)).not.toContain('merkle-roots-not-equal');
    },
  );

  losing.it(cell(NAME, 'refused', 'the inventory does not say what it may see'), async (scenario) => {
    const failure = await (await onboard(scenario, 'oceania')).failure();
    expect(failure.code).toBe('PRECONDITION_FAILED');
    expect(JSON.stringify(failure.details)).toContain('pathsFilters: {oceania: none}');
    expect(statuses(scenario, 'oceania', ENABLE)).toEqual([]);
  });

  losing.it(cell(NAME, 'refused', 'a wider filter than the one that stands under its id'), async (scenario) => {
    const id = scenario.service.cluster('oceania').clusterId;
    const east = scenario.service.cluster('east');
    const stored = { type: 'filter', filter: DENY } as const;
    east.storage.write(`cluster/filter/${id}`, stored, scenario.service.now());
    const failure = await (await onboard(scenario, 'oceania', { filter: 'none' })).failure();
    expect(failure.message).toContain('no wider than the filter that stands');
    east.storage.write(`cluster/filter/${id}`, null, scenario.service.now());
  });

  for (const [primary, secondary, why] of [
    ['west', 'europe', 'no DR secondary (west)'],
    ['east', 'west', 'no replication of any kind (west)'],
    ['asia', 'europe', 'east is primary'],
  ] as const) {
    losing.it(cell(NAME, 'refused', `primary ${primary}, secondary ${secondary}`), async (scenario) => {
      const failure = await (await onboard(scenario, secondary, { primary, filter: 'none' })).failure();
      expect(failure.message).toContain(why);
      expect(statuses(scenario, secondary, ENABLE)).toEqual([]);
    });
  }

  losing.it(
    `${cell(NAME, 'lost answer', 'primary/paths-filter, generate-public-key and secondary-token; secondary/enable and revoke-secondary')}; ${cell(NAME, 'parked, skip', 'nobody made a token on the new secondary')}`,
    async (scenario) => {
      plant(scenario, 'asia');
      const id = scenario.service.cluster('asia').clusterId;
      const filterPath = `POST ${PERFORMANCE}/primary/paths-filter/${id}`;
      const revoke = `POST ${PERFORMANCE}/primary/revoke-secondary`;
      for (const endpoint of [filterPath, SECONDARY_TOKEN, revoke]) loseAnswer(scenario, 'east', endpoint);
      loseAnswer(scenario, 'asia', `POST ${PERFORMANCE}/secondary/generate-public-key`);
      loseAnswer(scenario, 'asia', ENABLE);
      const run = await onboard(scenario, 'asia', { filter: DENY });
      await run.approve('wipe');
      await run.decide('skip', 'Look whether asia takes a credential again');
      const report = await run.report();
      expect(report.outcome).toBe('completed');
      expectJoined(scenario, 'asia');
      expect(scenario.service.cluster('asia').read('us-customers/smith')).toBeUndefined();
      for (const endpoint of [filterPath, revoke]) expect(statuses(scenario, 'east', endpoint)).toEqual([0]);
      expect(statuses(scenario, 'east', SECONDARY_TOKEN)).toEqual([0, 200]);
      expect(statuses(scenario, 'east', ENABLE_PRIMARY)).toEqual([]);
      expect(statuses(scenario, 'asia', ENABLE)).toEqual([0]);
      expect(report.leftToDo.join('\n')).toContain('the dynamic filter of asia was not compared on both sides');
      expect(report.leftToDo[0]).toContain(
        `runbook start rootTokenCeremony --input '{"deployment":"${scenario.name}","cluster":"asia"`,
      );
      expect(scenario.calls('asia', 'dynamic-filter')).toBe(0);
    },
  );
});
