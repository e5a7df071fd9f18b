import { writeFile } from 'node:fs/promises';
import { changeDrPrimary, post, unsealAll, until } from '../support/by-hand';
import { expectFollows, loseAnswers, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import { clusters, FILTER, Scenario } from '../support/scenario';
import type { Deed } from '../support/scenario';

const NAME = 'performanceSecondaryOnboarding';
const PERFORMANCE = '/v1/sys/replication/performance';
const ENABLE_PRIMARY = `POST ${PERFORMANCE}/primary/enable`;
const SECONDARY_TOKEN = `POST ${PERFORMANCE}/primary/secondary-token`;
const ENABLE = `POST ${PERFORMANCE}/secondary/enable`;
const mounts = ['kv/', 'secret/', 'us-customers/'];

/** East is DR primary of west; the continents may be wiped, and the inventory says what europe may see. */
const continents = (more: object = {}) =>
  Scenario.start({
    topology: {
      mounts,
      clusters: [...clusters('east', 'west', 'asia', 'oceania'), { name: 'europe', nodes: 3 }],
      dr: [{ primary: 'east', secondaries: ['west'] }],
      ...more,
    },
    drSets: { main: ['east', 'west'], europe: ['europe'], asia: ['asia'], oceania: ['oceania'] },
    deployment: { pathsFilters: { europe: FILTER } },
  });
const performance = { primary: 'east', secondaries: [] };
const joining = new Lane(() => continents());
const losing = new Lane(() => continents({ performance }));
/** Oceania belongs to another team: no cluster of this deployment. */
const outside = new Lane(() =>
  Scenario.start({
    topology: { mounts, clusters: clusters('east', 'oceania'), performance, dr: [] },
    outside: ['oceania'],
  }),
);

const onboard = (scenario: Scenario, secondary: string, more: object, ...deeds: readonly Deed[]) =>
  scenario.begin(NAME, { primary: 'east', secondary, ...more }, ...deeds);

/** The place of the first call of an endpoint on east, in the order of all calls. */
const orderOf = ({ service }: Scenario, endpoint: string) =>
  service.calls.findIndex((call) => call.cluster === 'east' && `${call.method} ${call.path}` === endpoint);

function plant(scenario: Scenario, cluster: string, primary = 'east'): void {
  scenario.service.cluster(cluster).write('secret/own', { is: cluster });
  scenario.service.cluster(primary).write('secret/of-east', { is: 'east' });
  scenario.service.cluster(primary).write('us-customers/smith', { is: 'secret' });
}

/** What was on the cluster is gone; it has what its primary has, but for what its filter keeps away. */
function expectJoined(scenario: Scenario, cluster: string, { primary = 'east', filtered = true } = {}): void {
  expectFollows(scenario, cluster, primary, 'performance');
  const joined = scenario.service.cluster(cluster);
  expect(joined.read('secret/own')).toBeUndefined();
  expect(joined.read('secret/of-east')).toEqual({ is: 'east' });
  expect(joined.read('us-customers/smith')).toEqual(filtered ? undefined : { is: 'secret' });
}

describe('a new performance secondary', () => {
  runLanes(joining, losing, outside);

  describe('of another team', () => {
    const { it } = outside;

    it('of another team: only they can use the token that they are given', async (scenario) => {
      plant(scenario, 'oceania');
      const id = scenario.service.cluster('oceania').clusterId;
      const made = await post(scenario, 'oceania', 'performance/secondary/generate-public-key', {});
      const { secondary_public_key: publicKey } = (JSON.parse(made) as { data: { secondary_public_key: string } }).data;
      const said = { primary: 'east', outside: { id, publicKey } };
      expect(await scenario.refusal(NAME, said)).toContain('its paths filter is specified');
      const run = await scenario.begin(NAME, { ...said, filter: FILTER }, 'approve wipe');
      const { instructions } = await run.waitsFor('action');
      const token = /anybody else: (\S+)$/.exec(instructions[0] ?? '')?.[1] ?? '';
      await post(scenario, 'oceania', 'performance/secondary/enable', { token });
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], parkings: [], result: { connected: true } });
      await until('oceania streams', () => scenario.state('oceania').performance.state === 'stream-wals');
      expectJoined(scenario, 'oceania');
      expect(scenario.state('east').filters).toEqual([id]);
      scenario.handsOver(token);
      expect(scenario.service.cluster('east').issuedSecrets).toContain(token);
    });
  });

  describe('of the same deployment', () => {
    const { it } = joining;

    it('filtered from before the first byte, on a DR primary that becomes performance primary', async (scenario) => {
      plant(scenario, 'europe');
      const europe = scenario.service.cluster('europe');
      const id = europe.clusterId;
      const run = await onboard(scenario, 'europe', {});
      const planText = await run.planText();
      expect(planText).toContain(`europe (cluster ID ${id}) is WIPED`);
      expect(planText).toContain('deny us-customers/');
      await run.do('approve wipe');
      const { instructions } = await run.waitsFor('action');
      expect(instructions.join('\n')).toContain('each holder of east enters their key share');
      await unsealAll(scenario, 'europe', 'east');

      // The workers' credential went with the data: people make another one.
      const step = 'Check whether europe accepts a credential again';
      expect(await run.parks()).toMatchObject({ step, code: 'CREDENTIAL_UNAVAILABLE' });
      await writeFile(scenario.tokenFileOf('europe'), europe.createToken({ policies: ['root'] }), { mode: 0o600 });
      await run.do('retry');
      const report = await run.report();

      expect(report.outcome).toBe('completed');
      expectJoined(scenario, 'europe');
      const filtered = orderOf(scenario, `POST ${PERFORMANCE}/primary/paths-filter/${id}`);
      expect(filtered).toBeLessThan(orderOf(scenario, SECONDARY_TOKEN));
      expect(scenario.state('east').filters).toEqual([id]);
      expect(scenario.state('europe').performance.secondaryId).toBe(id);
      const compared = report.steps.find(({ name }) => name.startsWith('Compare the dynamic filter'));
      expect(compared?.activities[0]?.observed).toContain('the same on both clusters: mounts us-customers/');
      expect(report.findings.map(({ code }) => code)).toEqual(['secondary-credentials-gone', 'cluster-id-changed']);
      expect(report.leftToDo).toEqual([
        expect.stringContaining('audit/local-file {"type":"file","local":true'),
        expect.stringContaining('sys/mounts/<path> {"type":"kv","local":true}'),
        expect.stringContaining('the inventory pins the clusterId of'),
      ]);
      await expectFewEvents(NAME, run);
    });

    it('the primary is a promoted DR secondary of the performance primary', async (scenario) => {
      changeDrPrimary(scenario, 'east', 'west');
      plant(scenario, 'oceania', 'west');
      const run = await onboard(scenario, 'oceania', { primary: 'west', filter: 'none' }, 'approve wipe');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
      expectJoined(scenario, 'oceania', { primary: 'west', filtered: false });
      expect(report.steps.map(({ name }) => name)).not.toContain('Enable west as performance primary');
      // Without a filter nothing needs the credential, and both sides can be compared as they are.
      const compared = report.steps.find(({ name }) => name === 'Compare the Merkle roots of west and oceania');
      expect(compared?.activities.at(-1)?.observed).toContain('are equal');
    });
  });

  describe('of a performance primary', () => {
    const { it } = losing;

    it('refused: its filter is not specified, or wider than the present one; roles that do not allow it', async (scenario) => {
      const refusal = (secondary: string, more: object = {}) =>
        scenario.refusal(NAME, { primary: 'east', secondary, ...more });
      expect(await refusal('oceania')).toContain('pathsFilters: {oceania: none}');
      const standing = `cluster/filter/${scenario.service.cluster('oceania').clusterId}`;
      const { storage } = scenario.service.cluster('east');
      storage.write(standing, { type: 'filter', filter: FILTER }, scenario.service.now());
      const wider = 'no wider than the existing filter';
      expect(await refusal('oceania', { filter: 'none' })).toContain(wider);
      storage.write(standing, null, scenario.service.now());
      for (const [primary, secondary, why] of [
        ['west', 'europe', 'no DR secondary (west)'],
        ['east', 'west', 'no replication of any kind (west)'],
        ['asia', 'europe', 'east is primary'],
      ] as const)
        expect(await refusal(secondary, { primary, filter: 'none' })).toContain(why);
      for (const each of ['oceania', 'europe', 'west']) expect(statuses(scenario, each, ENABLE)).toEqual([]);
    });

    it('lost answers: primary/paths-filter, generate-public-key and secondary-token; secondary/enable and revoke-secondary; parked, skip: no token was created on the new secondary', async (scenario) => {
      plant(scenario, 'asia');
      const id = scenario.service.cluster('asia').clusterId;
      const filterPath = `POST ${PERFORMANCE}/primary/paths-filter/${id}`;
      const revoke = `POST ${PERFORMANCE}/primary/revoke-secondary`;
      const publicKey = `POST ${PERFORMANCE}/secondary/generate-public-key`;
      const lost = { east: [filterPath, SECONDARY_TOKEN, revoke], asia: [publicKey, ENABLE] };
      loseAnswers(scenario, lost);
      const skip = 'skip Check whether asia accepts a credential again';
      const report = await (await onboard(scenario, 'asia', { filter: FILTER }, 'approve wipe', skip)).report();
      expect(report.outcome).toBe('completed');
      expectJoined(scenario, 'asia');
      for (const endpoint of [filterPath, revoke]) expect(statuses(scenario, 'east', endpoint)).toEqual([0]);
      expect(statuses(scenario, 'east', SECONDARY_TOKEN)).toEqual([0, 200]);
      expect(statuses(scenario, 'east', ENABLE_PRIMARY)).toEqual([]);
      expect(statuses(scenario, 'asia', ENABLE)).toEqual([0]);
      expect(report.leftToDo.join('\n')).toContain('the dynamic filter of asia was not compared on both clusters');
      const ceremony = `runbook start rootTokenCeremony --input '{"deployment":"${scenario.name}","cluster":"asia"`;
      expect(report.leftToDo[0]).toContain(ceremony);
      const askedAsia = scenario.service.calls.filter(({ cluster }) => cluster === 'asia').map(({ path }) => path);
      expect(askedAsia.filter((path) => path.includes('/dynamic-filter/'))).toEqual([]);
    });

    it('parked, abort: the report lists the needs of a cluster that was wiped', async (scenario) => {
      const run = await onboard(scenario, 'europe', {}, 'approve wipe');
      await run.waitsFor('action');
      await unsealAll(scenario, 'europe', 'east');
      await run.do('abort Check whether europe accepts a credential again');
      const { outcome, leftToDo, findings } = await run.report();
      expect(outcome).toBe('aborted');
      expect(findings.map(({ code }) => code)).toEqual(['secondary-credentials-gone']);
      for (const told of ['start rootTokenCeremony', 'audit/local-file', 'the inventory pins its clusterId'])
        expect(leftToDo).toContainEqual(expect.stringContaining(told));
    });
  });
});
