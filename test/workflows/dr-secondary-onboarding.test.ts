import { readdirSync } from 'node:fs';
import { sealedNodes, unsealAll } from '../support/by-hand';
import { at, expectFollows, loseAnswers, refuse, statuses } from '../support/faults';
import { expectTakenOver } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import { reportOf } from '../support/reports';
import { clusters, Scenario, temporaryDirectory } from '../support/scenario';
import type { Deed } from '../support/scenario';

const NAME = 'drSecondaryOnboarding';
const directory = temporaryDirectory('onboarding');
const DR = '/v1/sys/replication/dr';
const ENABLE_PRIMARY = `POST ${DR}/primary/enable`;
const PUBLIC_KEY = `POST ${DR}/secondary/generate-public-key`;
const SECONDARY_TOKEN = `POST ${DR}/primary/secondary-token`;
const REVOKE = `POST ${DR}/primary/revoke-secondary`;
const ENABLE = `POST ${DR}/secondary/enable`;

/** East without replication; west has three nodes. */
const joining = new Lane(() =>
  Scenario.start({
    topology: { clusters: [...clusters('east', 'north', 'south'), { name: 'west', nodes: 3 }], dr: [] },
  }),
);

/** East is performance primary and wants DR secondaries; every answer of the joins is lost. */
const losing = new Lane(() =>
  Scenario.start({
    topology: {
      clusters: [...clusters('east', 'europe'), { name: 'west', nodes: 3 }],
      performance: { primary: 'east', secondaries: [{ name: 'europe' }] },
      dr: [],
    },
    drSets: { main: ['east', 'west'], eu: ['europe'] },
    deployment: { snapshot: { to: directory } },
  }),
);

/** East is DR primary of west; the others are not wiped, each for a reason of its own. */
const refusing = new Lane(() =>
  Scenario.start({
    topology: {
      clusters: [
        ...clusters('east', 'west', 'spent', 'alien', 'far', 'busy'),
        { name: 'old', nodes: 1, version: '1.20.9+ent' },
      ],
      performance: { primary: 'far', secondaries: [{ name: 'busy' }] },
      dr: [{ primary: 'east', secondaries: ['west'] }],
    },
    drSets: { main: ['east', 'west', 'spent', 'busy', 'old'], other: ['alien'], far: ['far'] },
  }),
);

/** East is performance primary of europe, which is to get DR secondaries of its own. */
const layered = new Lane(() =>
  Scenario.start({
    topology: {
      clusters: [...clusters('east', 'europe', 'europe-dr'), { name: 'river', nodes: 3 }],
      performance: { primary: 'east', secondaries: [{ name: 'europe' }] },
      dr: [],
    },
    drSets: { main: ['east'], eu: ['europe', 'europe-dr', 'river'] },
  }),
);

const onboard = (scenario: Scenario, secondary: string, more: object, ...deeds: readonly Deed[]) =>
  scenario.begin(NAME, { primary: 'east', secondary, ...more }, ...deeds);

/** What was on the cluster is gone, and it has what its primary has. */
function expectJoined(scenario: Scenario, cluster: string): void {
  expectFollows(scenario, cluster, 'east');
  expect(scenario.service.cluster(cluster).read('secret/own')).toBeUndefined();
  expect(scenario.service.cluster(cluster).read('secret/of-east')).toEqual({ is: 'east' });
}

function plant(scenario: Scenario, ...names: readonly string[]): void {
  for (const name of names) scenario.service.cluster(name).write('secret/own', { is: name });
  scenario.service.cluster('east').write('secret/of-east', { is: 'east' });
}

/** Nothing was sent to the cluster, and no token for it was issued. */
function expectUntouched(scenario: Scenario, cluster: string): void {
  expect(statuses(scenario, cluster, ENABLE)).toEqual([]);
  expect(scenario.calls('east', 'primary/secondary-token')).toBe(0);
}

describe('a new DR secondary', () => {
  runLanes(joining, losing, refusing, layered);

  describe('of a cluster without replication', () => {
    const { it } = joining;

    it('the primary is enabled first, and sealed standbys wait for the key shares of the primary', async (scenario) => {
      plant(scenario, 'west', 'north', 'south');
      const dry = await onboard(scenario, 'west', { dryRun: true });
      expect(await dry.report()).toMatchObject({ outcome: 'planned' });
      const idBefore = scenario.service.cluster('west').clusterId;
      const run = await onboard(scenario, 'west', {});
      const planText = await run.planText();
      expect(planText).toContain(`west (cluster ID ${idBefore}) is WIPED`);
      expect(planText).toContain('unseal keys of west are gone');
      expectUntouched(scenario, 'west');
      expect(scenario.service.cluster('west').read('secret/own')).toEqual({ is: 'west' });
      await run.do('approve wipe');

      const { instructions, toldOnce } = await run.waitsFor('action');
      const sealed = await sealedNodes(scenario, 'west');
      expect(sealed).toHaveLength(2);
      for (const { address } of sealed)
        expect(instructions.join('\n')).toContain(`VAULT_ADDR=${address} vault operator unseal`);
      expect(instructions[0]).toContain('Only key shares of east unseal west now');
      // The first copy may take days: nobody is reminded of what may be done long since.
      expect(toldOnce).toBe(true);
      expect(instructions).toContain('If every node is unsealed, there is nothing to do: the initial copy continues.');
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
      expect(report.leftToDo.join('\n')).toMatch(/pins the clusterId of west .*, write [0-9a-f-]{36} there/);
      await expectFewEvents(NAME, run);
    });

    it('parked, retry: an enable that the service refuses', async (scenario) => {
      const fault = refuse(scenario, 'north', ENABLE);
      // While it is asked again nothing is wiped, and no token issued.
      const run = await onboard(scenario, 'north', { form: 'wrapped' }, 'renew wipe');
      await run.parks();
      fault.remove();
      await run.do('retry');
      expect((await run.report()).outcome).toBe('completed');
      expectJoined(scenario, 'north');
      expect(statuses(scenario, 'north', PUBLIC_KEY)).toEqual([]);
      // The id of a token that nobody used was revoked before another one was issued.
      expect(statuses(scenario, 'east', REVOKE)).toEqual([200]);
    });

    it('parked, skip: a write that does not arrive', async (scenario) => {
      scenario.limit({ catchUp: '1s' });
      const south = scenario.service.cluster('south');
      at(scenario, 'before', 'east', 'POST /v1/kv/data/runbooks-marker', () => south.holdStream('dr', true));
      // While it is initialised it does not tell whom it follows.
      const body = { data: { dr: { mode: 'bootstrapping' }, performance: { mode: 'disabled' } } };
      const silent = { cluster: 'south', endpoint: 'GET /v1/sys/replication/status', action: { status: 200, body } };
      at(scenario, 'after', 'south', ENABLE, () => void scenario.service.faults.add(silent));
      const run = await onboard(scenario, 'south', {}, 'approve wipe');
      await run.parks();
      scenario.limit({ streaming: '1s' }, 'compareMerkleRoots');
      await run.do('skip Write a marker on east and wait until south has it');
      const report = await run.report();
      south.holdStream('dr', false);
      expect(report.outcome).toBe('completed');
      const enabled = report.steps.find(({ name }) => name.startsWith('Enable south'))?.activities.at(-1);
      // How far its first copy is by then depends on how fast both are.
      expect(enabled?.observed).toMatch(/^south: DR (bootstrapping|secondary), performance disabled$/);
      expect(statuses(scenario, 'south', ENABLE)).toEqual([200]);
      expect(report.leftToDo.join('\n')).toContain('no write of east was confirmed to arrive on south');
      const compared = report.steps.find(({ name }) => name === 'Compare the Merkle roots of east and south');
      expect(compared?.activities.at(-1)?.observed).toContain('this is no proof while east accepts writes');
    });
  });

  describe('of a performance primary', () => {
    const { it } = losing;

    it('lost answers: primary/enable, generate-public-key and secondary-token, revoke-secondary; secondary/enable, whose effect is read from the role of the cluster', async (scenario) => {
      plant(scenario, 'west');
      const lost = { east: [ENABLE_PRIMARY, SECONDARY_TOKEN, [REVOKE, 2] as const], west: [PUBLIC_KEY, ENABLE] };
      loseAnswers(scenario, lost);
      // The key is lost with its node before the token is used: all of the unit is done again.
      at(scenario, 'after', 'east', SECONDARY_TOKEN, () => scenario.service.cluster('west').leaderChange(), 2);
      const run = await onboard(scenario, 'west', {}, 'approve wipe');
      await run.waitsFor('action');
      expect(await sealedNodes(scenario, 'west')).toHaveLength(2);
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
    });
  });

  describe('that is not to be wiped', () => {
    const { it } = refusing;

    it('refused: an older version, another DR set, one that replicates, and itself', async (scenario) => {
      for (const [secondary, observed, next] of [
        ['old', 'east 1.21.4+ent; old 1.20.9+ent', 'Upgrade old first'],
        ['alien', 'DR set other', 'drSets'],
        ['busy', 'DR disabled, performance secondary', 'a cluster that replicates is never wiped'],
        ['west', 'DR secondary, performance disabled', 'a cluster that replicates is never wiped'],
        ['east', 'primary east, secondary east', 'never its own secondary'],
      ] as const) {
        const refusal = await scenario.refusal(NAME, { primary: 'east', secondary });
        expect(refusal).toContain(observed);
        expect(refusal).toContain(next);
        expectUntouched(scenario, secondary);
      }
      // Of one that does not answer nobody is told to end what it may not have.
      await scenario.service.cluster('spent').kill();
      const silent = await scenario.refusal(NAME, { primary: 'east', secondary: 'spent' });
      await scenario.service.cluster('spent').restart();
      expect(silent).toContain('Make spent readable again: its role must be known');
      expect(silent).not.toContain('may really be wiped');
    });

    it('rejected at gate wipe: no cluster is wiped', async (scenario) => {
      plant(scenario, 'spent');
      const run = await onboard(scenario, 'spent', {}, 'reject wipe');
      expect(await run.report()).toMatchObject({ outcome: 'aborted' });
      expectUntouched(scenario, 'spent');
      expect(scenario.service.cluster('spent').read('secret/own')).toEqual({ is: 'spent' });
    });

    it('parked, abort: an enable that the service refuses', async (scenario) => {
      refuse(scenario, 'spent', ENABLE);
      const abort = 'abort Enable spent as DR secondary of east';
      const report = await (await onboard(scenario, 'spent', {}, 'approve wipe', abort)).report();
      expect(report.outcome).toBe('aborted');
      expect(report.leftToDo.join('\n')).toContain('spent has not been confirmed to stream');
      expect(scenario.service.cluster('spent').read('secret/own')).toEqual({ is: 'spent' });
      expect(statuses(scenario, 'spent', ENABLE)).toEqual([403]);
    });
  });

  describe('of a performance secondary', () => {
    const { it } = layered;

    it('parked, retry: a first copy that never begins', async (scenario) => {
      scenario.limit({ streaming: '1s' });
      at(scenario, 'after', 'europe-dr', ENABLE, () => scenario.service.partition('europe', 'europe-dr'));
      const run = await onboard(scenario, 'europe-dr', { primary: 'europe' }, 'approve wipe');
      const waiting = { step: 'Follow the initial copy of europe-dr', code: 'CONFIRMATION_TIMEOUT' };
      expect(await run.parks()).toMatchObject(waiting);
      scenario.service.heal();
      scenario.limit();
      await run.do('retry');
      expect(await run.report()).toMatchObject({ outcome: 'completed' });
      expectFollows(scenario, 'europe-dr', 'europe');
      expect(scenario.state('europe').dr.mode).toBe('primary');
      expectFollows(scenario, 'europe', 'east', 'performance');
    });

    it('taken over at the wait for people who unseal', async (scenario) => {
      const run = await onboard(scenario, 'river', { primary: 'europe' }, 'approve wipe');
      await run.waitsFor('action');
      await expectTakenOver(scenario, run, NAME);
      expect((await reportOf(run)).leftToDo.join('\n')).toContain('unseal its nodes with key shares of europe');
    });
  });
});
