import { readdirSync } from 'node:fs';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { loseAnswer, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { cell, expectFewEvents } from '../support/matrix';
import { unsealAll } from '../support/by-hand';
import { at } from '../support/outage';
import { reportOf } from '../support/reports';
import { Scenario, temporaryDirectory } from '../support/scenario';
import { expectTakenOver } from '../support/take-over';

const NAME = 'drSecondaryOnboarding';
const directory = temporaryDirectory('onboarding');
const DR = '/v1/sys/replication/dr';
const ENABLE_PRIMARY = `POST ${DR}/primary/enable`;
const PUBLIC_KEY = `POST ${DR}/secondary/generate-public-key`;
const SECONDARY_TOKEN = `POST ${DR}/primary/secondary-token`;
const REVOKE = `POST ${DR}/primary/revoke-secondary`;
const STATUS = 'GET /v1/sys/replication/status';
const ENABLE = `POST ${DR}/secondary/enable`;

const one = (name: string, nodes = 1) => ({ name, nodes });

/** East without replication; west has three nodes. */
const joining = new Lane(() => {
  const names = ['west', 'north', 'south'];
  return Scenario.start({
    topology: { clusters: [one('east'), one('west', 3), one('north'), one('south')], dr: [] },
    drSets: { main: ['east', ...names] },
  });
});

/** East is performance primary and wants DR secondaries; every answer of the joins is lost. */
const losing = new Lane(() => {
  return Scenario.start({
    topology: {
      clusters: [one('east'), one('west', 3), one('europe')],
      performance: { primary: 'east', secondaries: [{ name: 'europe' }] },
      dr: [],
    },
    drSets: { main: ['east', 'west'], eu: ['europe'] },
    deployment: { snapshot: { to: directory } },
  });
});

/** East is DR primary of west; the others are not wiped, each for a reason of its own. */
const refusing = new Lane(() =>
  Scenario.start({
    topology: {
      clusters: [
        ...['east', 'west', 'spent', 'alien', 'far', 'busy'].map((name) => one(name)),
        { ...one('old'), version: '1.20.9+ent' },
      ],
      performance: { primary: 'far', secondaries: [{ name: 'busy' }] },
      dr: [{ primary: 'east', secondaries: ['west'] }],
    },
    drSets: {
      main: ['east', 'west', 'spent', 'busy', 'old'],
      other: ['alien'],
      far: ['far'],
    },
  }),
);

/** East is performance primary of europe, which is to get DR secondaries of its own. */
const layered = new Lane(() => {
  const names = ['europe-dr', 'river'];
  return Scenario.start({
    topology: {
      clusters: [one('east'), one('europe'), one('europe-dr'), one('river', 3)],
      performance: { primary: 'east', secondaries: [{ name: 'europe' }] },
      dr: [],
    },
    drSets: { main: ['east'], eu: ['europe', ...names] },
  });
});

const onboard = (scenario: Scenario, secondary: string, more: object = {}) =>
  scenario.run(NAME, { primary: 'east', secondary, ...more });

/** What was on the cluster is gone, and it has what its primary has. */
function expectJoined(scenario: Scenario, cluster: string): void {
  expect(scenario.state(cluster).dr).toMatchObject({ connectedTo: 'east', state: 'stream-wals' });
  expect(scenario.service.cluster(cluster).read('secret/own')).toBeUndefined();
  expect(scenario.service.cluster(cluster).read('secret/of-east')).toEqual({ is: 'east' });
}

function plant(scenario: Scenario, ...clusters: readonly string[]): void {
  for (const cluster of clusters) scenario.service.cluster(cluster).write('secret/own', { is: cluster });
  scenario.service.cluster('east').write('secret/of-east', { is: 'east' });
}

/** Nothing was sent to the cluster, and it still has what it had. */
function expectUntouched(scenario: Scenario, cluster: string): void {
  expect(statuses(scenario, cluster, ENABLE)).toEqual([]);
  expect(scenario.calls('east', 'primary/secondary-token')).toBe(0);
}

describe('a new DR secondary', () => {
  runLanes(joining, losing, refusing, layered);

  joining.it(
    cell(NAME, 'no fault', 'the primary is enabled first, and sealed standbys wait for the key shares of the primary'),
    async (scenario) => {
      plant(scenario, 'west', 'north', 'south');
      const dry = await onboard(scenario, 'west', { dryRun: true });
      expect(await dry.report()).toMatchObject({ outcome: 'planned' });
      const idBefore = scenario.service.cluster('west').clusterId;
      const run = await onboard(scenario, 'west');
      const { planText = '' } = await run.until('a plan', (status) => status.planText !== undefined && status);
      expect(planText).toContain(`west (cluster ID ${idBefore}) is WIPED`);
      expect(planText).toContain('unseal keys of west are gone');
      expectUntouched(scenario, 'west');
      await run.approve('wipe');

      const { instructions, toldOnce } = await run.waitsFor('action');
      const sealed = scenario.service.cluster('west').nodes.filter((node) => node.sealed);
      expect(sealed).toHaveLength(2);
      for (const { address } of sealed)
        expect(instructions.join('\n')).toContain(`VAULT_ADDR=${address} vault operator unseal`);
      expect(instructions[0]).toContain('Only key shares of east open west now');
      // The first copy may take days: nobody is reminded of what may be done long since.
      expect(toldOnce).toBe(true);
      expect(instructions).toContain('Where every node is unsealed nothing is to be done: the first copy goes on.');
      // The former key shares open nothing.
      expect((await unsealAll(scenario, 'west', 'north')).filter((status) => status === 400)).toHaveLength(2);
      await unsealAll(scenario, 'west', 'east');

      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
      expectJoined(scenario, 'west');
      expect(scenario.state('east').dr.knownSecondaries).toEqual([idBefore]);
      expect(statuses(scenario, 'west', ENABLE)).toEqual([200]);
      expect(report.findings.map(({ code }) => code)).toEqual(['cluster-id-changed', 'secondary-credentials-gone']);
      expect(report.leftToDo[0]).toContain('The credential of west');
      await expectFewEvents(NAME, run);
    },
  );

  joining.it(cell(NAME, 'parked, retry', 'an enable that the service refuses'), async (scenario) => {
    const fault = scenario.service.faults.add({
      cluster: 'north',
      endpoint: ENABLE,
      action: { status: 403 },
      times: 9,
    });
    const run = await onboard(scenario, 'north', { form: 'wrapped' });
    await approveLongAgo(scenario, run, 'wipe');
    // Nothing is wiped meanwhile, and no token issued.
    expect(await approveAgain(run, 'wipe')).toMatchObject({ gate: 'wipe' });
    await run.waitsFor('decision');
    fault.remove();
    await run.decide('retry');
    const report = await run.report();
    expect(report.outcome).toBe('completed');
    expectJoined(scenario, 'north');
    expect(statuses(scenario, 'north', PUBLIC_KEY)).toEqual([]);
    // The id of a token that nobody used was revoked before another one was issued.
    expect(statuses(scenario, 'east', REVOKE)).toEqual([200]);
  });

  joining.it(cell(NAME, 'parked, skip', 'a write that does not arrive'), async (scenario) => {
    scenario.limit({ catchUp: '1s' });
    at(scenario, 'before', 'east', 'POST /v1/kv/data/runbooks-marker', () =>
      scenario.service.cluster('south').holdStream('dr', true),
    );
    // While it is initialised it does not tell whom it follows.
    const body = { data: { dr: { mode: 'bootstrapping' }, performance: { mode: 'disabled' } } };
    at(scenario, 'after', 'south', ENABLE, () => {
      scenario.service.faults.add({ cluster: 'south', endpoint: STATUS, action: { status: 200, body } });
    });
    const run = await onboard(scenario, 'south');
    await run.approve('wipe');
    await run.waitsFor('decision');
    scenario.limit({ streaming: '1s' }, 'compareMerkleRoots');
    await run.decide('skip', 'Write a marker on east and see it arrive on south');
    const report = await run.report();
    scenario.service.cluster('south').holdStream('dr', false);
    expect(report.outcome).toBe('completed');
    const enabled = report.steps.find(({ name }) => name.startsWith('Enable south'))?.activities.at(-1);
    // How far its first copy is by then depends on how fast both are.
    expect(enabled?.observed).toMatch(/^south: DR (bootstrapping|secondary), performance disabled$/);
    expect(statuses(scenario, 'south', ENABLE)).toEqual([200]);
    expect(report.leftToDo.join('\n')).toContain('no write of east was seen to arrive on south');
    expect(report.findings.map(({ code }) => code)).toContain('merkle-roots-not-equal');
  });

  losing.it(
    cell(
      NAME,
      'lost answer',
      'primary/enable, generate-public-key and secondary-token, revoke-secondary; secondary/enable, whose effect is seen by the nodes that sealed themselves',
    ),
    async (scenario) => {
      plant(scenario, 'west');
      loseAnswer(scenario, 'east', ENABLE_PRIMARY);
      loseAnswer(scenario, 'west', PUBLIC_KEY);
      loseAnswer(scenario, 'east', SECONDARY_TOKEN);
      // The key is lost with its node before the token is used: all of the unit is done again.
      at(scenario, 'after', 'east', SECONDARY_TOKEN, () => scenario.service.cluster('west').leaderChange(), 2);
      loseAnswer(scenario, 'east', REVOKE, 2);
      loseAnswer(scenario, 'west', ENABLE);
      const run = await onboard(scenario, 'west');
      await run.approve('wipe');
      await run.waitsFor('action');
      expect(scenario.state('west').nodes.filter(({ sealed }) => sealed)).toHaveLength(2);
      await unsealAll(scenario, 'west', 'east');
      expect(await run.report()).toMatchObject({ outcome: 'completed', parkings: [] });
      expectJoined(scenario, 'west');
      expect(readdirSync(directory)).toEqual([expect.stringMatching(/-west-.*-before-wipe-.*\.snap$/)]);
      expect(statuses(scenario, 'east', ENABLE_PRIMARY)).toEqual([0]);
      // A token that nobody holds is revoked, and issued again.
      expect(statuses(scenario, 'east', SECONDARY_TOKEN)).toEqual([0, 200, 200]);
      expect(statuses(scenario, 'east', REVOKE)).toEqual([200, 0]);
      expect(statuses(scenario, 'west', PUBLIC_KEY)).toEqual([0, 200, 200]);
      expect(statuses(scenario, 'west', ENABLE)).toEqual([0]);
    },
  );

  const REFUSALS: readonly (readonly [secondary: string, observed: string, next: string])[] = [
    ['old', 'east 1.21.4+ent; old 1.20.9+ent', 'Upgrade old first'],
    ['alien', 'DR set other', 'drSets'],
    ['busy', 'DR disabled, performance secondary', 'what replicates is never wiped'],
    ['west', 'DR secondary, performance disabled', 'what replicates is never wiped'],
    ['east', 'primary east, secondary east', 'never its own secondary'],
  ];
  for (const [secondary, observed, next] of REFUSALS) {
    refusing.it(cell(NAME, 'refused', `${secondary}: ${observed}`), async (scenario) => {
      const failure = await (await onboard(scenario, secondary)).failure();
      expect(failure.code).toBe('PRECONDITION_FAILED');
      expect(failure.message).toContain(observed);
      expect(JSON.stringify(failure.details)).toContain(next);
      expectUntouched(scenario, secondary);
    });
  }

  refusing.it(cell(NAME, 'refused', 'rejected at gate wipe: nothing is wiped'), async (scenario) => {
    plant(scenario, 'spent');
    const run = await onboard(scenario, 'spent');
    await run.approve('wipe', 'henry', 'reject');
    expect(await run.report()).toMatchObject({ outcome: 'aborted' });
    expectUntouched(scenario, 'spent');
  });

  refusing.it(cell(NAME, 'parked, abort', 'an enable that the service refuses'), async (scenario) => {
    scenario.service.faults.add({ cluster: 'spent', endpoint: ENABLE, action: { status: 403 }, times: 9 });
    const run = await onboard(scenario, 'spent');
    await run.approve('wipe');
    await run.decide('abort', 'Enable spent as DR secondary of east');
    const report = await run.report();
    expect(report.outcome).toBe('aborted');
    expect(report.leftToDo.join('\n')).toContain('spent was not seen streaming');
    expect(scenario.service.cluster('spent').read('secret/own')).toEqual({ is: 'spent' });

    expect(statuses(scenario, 'spent', ENABLE)).toEqual([403]);
  });

  layered.it(
    cell(
      NAME,
      'parked, retry',
      'a first copy that never begins; a performance secondary gets a DR secondary of its own',
    ),
    async (scenario) => {
      scenario.limit({ streaming: '1s' });
      const cut = () => scenario.service.partition('europe', 'europe-dr');
      at(scenario, 'after', 'europe-dr', ENABLE, cut);
      const run = await onboard(scenario, 'europe-dr', { primary: 'europe' });
      await run.approve('wipe');
      const parked = await run.waitsFor('decision');
      expect(parked).toMatchObject({ step: 'Watch the first copy of europe-dr', code: 'CONFIRMATION_TIMEOUT' });
      scenario.service.heal();
      scenario.limit();
      await run.decide('retry');
      expect(await run.report()).toMatchObject({ outcome: 'completed' });
      expect(scenario.state('europe-dr').dr).toMatchObject({ connectedTo: 'europe', state: 'stream-wals' });
      expect(scenario.state('europe')).toMatchObject({
        dr: { mode: 'primary' },
        performance: { mode: 'secondary', connectedTo: 'east' },
      });
    },
  );

  layered.it(cell(NAME, 'taken over at', 'the wait for people who unseal'), async (scenario) => {
    const run = await onboard(scenario, 'river', { primary: 'europe' });
    await run.approve('wipe');
    await run.waitsFor('action');
    await expectTakenOver(scenario, run, NAME);
    expect((await reportOf(run)).leftToDo.join('\n')).toContain('unseal its nodes with key shares of europe');
  });
});
