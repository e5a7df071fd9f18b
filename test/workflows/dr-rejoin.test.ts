import { readdirSync } from 'node:fs';
import type { Report } from '../../src/contracts/report';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { CHANGING, drPrimaries, expectServiceOn, loseAnswer, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { cell, expectFewEvents } from '../support/matrix';
import { Scenario, pair, temporaryDirectory } from '../support/scenario';
import type { TestRun } from '../support/scenario';
import { splitPrimaries } from '../support/by-hand';
import { HookReceiver } from '../support/notification-servers';
import { expectTakenOver } from '../support/take-over';

const NAME = 'drRejoin';
const directory = temporaryDirectory('rejoin');
let hooks: HookReceiver;

/**
 * East and west with hooks, whose standby nodes tell their old modes for a while; each test splits them anew, so that the
 * former primary is west where east was before.
 */
const hooked = new Lane(() =>
  Scenario.start({
    topology: { ...pair(3), timing: { standbyModeLagMs: 700 } },
    deployment: {
      snapshot: { to: 'hook' },
      hooks: {
        snapshot: { url: hooks.url('snapshot'), timeout: '60s' },
        unfence: { url: hooks.url('unfence'), timeout: '60s' },
      },
    },
  }),
);

/** Without hooks; south is another DR secondary, and north one whose replication was disabled. */
const byPeople = new Lane(() =>
  Scenario.start({
    topology: {
      clusters: ['east', 'west', 'south', 'north'].map((name) => ({ name, nodes: 1 })),
      dr: [{ primary: 'east', secondaries: ['west', 'south'] }],
    },
    deployment: { snapshot: { to: directory } },
  }),
);

const role = (scenario: Scenario, cluster: string) => scenario.state(cluster).dr;

const rejoin = (scenario: Scenario, cluster: string, more: object = {}) => scenario.run(NAME, { cluster, ...more });

/** Shares and the plan's approval, which attests the fence. */
async function approved(scenario: Scenario, cluster: string): Promise<TestRun> {
  const run = await rejoin(scenario, cluster);
  await run.people({ go: false });
  return run;
}

const issued = (scenario: Scenario) => scenario.service.cluster('west').issuedSecrets.length;

/** Operation tokens of west that were made since then and live; that there was one is demanded. */
function livingSince(scenario: Scenario, before: number): string[] {
  const { issuedSecrets, tokens, attemptsOfTokens } = scenario.service.cluster('west');
  const made = issuedSecrets.slice(before).filter((token) => attemptsOfTokens.has(token));
  expect(made).not.toEqual([]);
  return made.filter((token) => tokens.isOperationToken(token));
}

const step = (report: Report, name: string) => report.steps.find((each) => each.name.startsWith(name));
const findings = ({ findings: all }: Report) => all.map(({ code }) => code);

describe('a former primary comes back', () => {
  beforeAll(async () => {
    hooks = await HookReceiver.start();
  });
  runLanes(hooked, byPeople);
  afterAll(() => hooks.stop());

  hooked.it(cell(NAME, 'no fault', 'it takes itself for the primary while the other one serves'), async (scenario) => {
    const { service } = scenario;
    service.cluster('east').write('secret/before-the-split', { on: 'east' });
    await splitPrimaries(scenario, 'east', 'west');
    let unfencedAs = '';
    hooks.on('unfence', () => {
      unfencedAs = role(scenario, 'east').mode;
      service.heal();
      return 204;
    });

    const dry = await (await rejoin(scenario, 'east', { dryRun: true })).report();
    expect(dry.outcome).toBe('planned');
    expect(dry.plan?.content).toMatchObject({
      operations: [
        { operation: 'dr.primary.demote', on: { cluster: 'east' }, with: { cluster: 'west' } },
        { operation: 'hook.unfence', on: { cluster: 'east' }, with: { cluster: 'west' } },
        { operation: 'dr.secondary.repoint-after-unfence', on: { cluster: 'east' }, with: { cluster: 'west' } },
      ],
      warnings: expect.arrayContaining([expect.stringContaining('attests that east is still fenced')]) as string[],
    });

    const run = await approved(scenario, 'east');
    // Demoted before it is let out.
    await run.waitsFor('approval', ({ gate }) => gate === 'unfence');
    expect(role(scenario, 'east').mode).toBe('secondary');
    await run.approve('unfence', 'henry');
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    expect(report.outage).toBeUndefined();
    expect(report.loss).toMatchObject({ loss: 'unknown', why: expect.stringMatching(/it is at WAL \d+$/) as string });
    expect(report.result).toMatchObject({
      formerPrimary: 'east',
      primary: 'west',
      wasDemotedBefore: false,
      streams: true,
      merkleRoots: 'equal',
    });
    expect(findings(report)).toEqual(['writes-after-split-lost', 'leases-of-two-primaries']);
    expect(report.leftToDo).toEqual([expect.stringContaining('start drSwitchover')]);
    expect(hooks.calls).toEqual(['snapshot', 'unfence']);
    expect(unfencedAs).toBe('secondary');
    expect(statuses(scenario, 'east', 'POST /v1/sys/replication/dr/primary/disable')).toEqual([]);
    expect(role(scenario, 'east')).toMatchObject({ mode: 'secondary', state: 'stream-wals', connectedTo: 'west' });
    expect(service.cluster('east').read('secret/after-the-split')).toEqual({ on: 'west' });
    await expectServiceOn(scenario, 'west');
    await expectFewEvents(NAME, run);
  });

  hooked.it(
    cell(NAME, 'parked, abort', 'the primary dies before the demotion: the only one left is not demoted'),
    async (scenario) => {
      await splitPrimaries(scenario, 'west', 'east');
      scenario.limit({ demote: '2s' });
      hooks.on('snapshot', async () => {
        await scenario.service.cluster('east').kill();
        return 204;
      });
      const run = await approved(scenario, 'west');
      await run.decide('abort', 'Demote west');
      const report = await run.report();
      expect(report).toMatchObject({
        outcome: 'aborted',
        parkings: [expect.objectContaining({ step: 'Demote west' })],
      });
      expect(report.leftToDo).toContainEqual(expect.stringContaining('start drRejoin again'));
      expect(statuses(scenario, 'west', CHANGING.demote)).toEqual([]);
      expect(role(scenario, 'west').mode).toBe('primary');
      await scenario.service.cluster('east').restart();
    },
  );

  hooked.it(
    `${cell(NAME, 'lost answer', 'demote, attempt, update, secondary-token, update-primary, token delete')}; ${cell(NAME, 'parked, skip', 'the snapshot hook fails and its output is shown; it took so long that the plan is approved again')}`,
    async (scenario) => {
      const before = issued(scenario);
      const { demote, startAttempt, giveShare, updatePrimary, deleteToken, secondaryToken } = CHANGING;
      const onFormer = [demote, startAttempt, giveShare, updatePrimary, deleteToken];
      for (const endpoint of onFormer) loseAnswer(scenario, 'west', endpoint);
      loseAnswer(scenario, 'east', secondaryToken);
      hooks.on('snapshot', () => 500);
      const run = await rejoin(scenario, 'west');
      await run.shares();
      await approveLongAgo(scenario, run, 'plan');
      const parked = await run.waitsFor('decision', (waiting) => waiting.step === 'Take a snapshot of west');
      expect(parked).toMatchObject({ code: 'HOOK_FAILED', observed: 'status 500' });
      await run.decide('skip');
      await approveAgain(run, 'plan');
      await run.approve('unfence', 'henry');
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', result: { streams: true } });
      expect(report.gates.map(({ gate }) => gate)).toEqual(['plan', 'plan', 'unfence']);
      // Nobody gave a key share twice.
      expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
      expect(report.leftToDo).toContainEqual(
        expect.stringContaining('there is no snapshot of west from before its demotion'),
      );
      expect(onFormer.map((endpoint) => statuses(scenario, 'west', endpoint))).toEqual([
        ...[[0], [0], [0, 200, 200], [0]],
        // A deleted token is proven to be refused.
        [0, 403, 403, 403],
      ]);
      // The token whose answer was lost is revoked before another one is issued.
      expect(statuses(scenario, 'east', secondaryToken)).toEqual([0, 200]);
      expect(role(scenario, 'west')).toMatchObject({ mode: 'secondary', connectedTo: 'east' });
      expect(livingSince(scenario, before)).toEqual([]);
      await expectServiceOn(scenario, 'east');
    },
  );

  byPeople.it(cell(NAME, 'refused', 'no other cluster is primary'), async (scenario) => {
    const failure = await (await rejoin(scenario, 'east')).failure();
    expect(failure.code).toBe('PRECONDITION_FAILED');
    expect(failure.message).toContain('one other DR primary serves');
    expect(statuses(scenario, 'east', CHANGING.demote)).toEqual([]);
  });

  byPeople.it(
    cell(NAME, 'refused', 'it follows already, or its replication is disabled: then it must be onboarded'),
    async (scenario) => {
      const follows = await (await rejoin(scenario, 'west')).failure();
      expect(JSON.stringify(follows.details)).toContain('There is nothing to do: west follows east');
      const disabled = await (await rejoin(scenario, 'north')).failure();
      expect(JSON.stringify(disabled.details)).toContain('drSecondaryOnboarding');
      const other = await (await rejoin(scenario, 'west', { primary: 'south' })).failure();
      expect(other.message).toContain('south is DR primary');
    },
  );

  byPeople.it(
    cell(NAME, 'abort at', 'gate unfence; a secondary that was connected to it is a critical finding'),
    async (scenario) => {
      await splitPrimaries(scenario, 'east', 'west');
      const run = await approved(scenario, 'east');
      await run.waitsFor('action');
      expect(readdirSync(directory)).toEqual([expect.stringMatching(/-east-.*-before-demotion-.*\.snap$/)]);
      await run.control('abort', { reason: 'not today' });
      const report = await run.report();
      expect(report.outcome).toBe('aborted');
      expect(report.preconditions).toContainEqual(
        expect.objectContaining({ name: 'no secondary is connected to it', verdict: 'warn' }),
      );
      expect(report.findings).toContainEqual(
        expect.objectContaining({ code: 'former-primary-not-fenced', severity: 'critical' }),
      );
      expect(report.result).toBeUndefined();
      expect(report.leftToDo).toEqual(
        expect.arrayContaining([
          expect.stringContaining('east is fenced, as far as this run knows'),
          expect.stringContaining('start drRejoin again'),
        ]),
      );
      expect(role(scenario, 'east').mode).toBe('secondary');
      expect(drPrimaries(scenario)).toEqual(['west']);
    },
  );

  byPeople.it(cell(NAME, 'taken over at', 'gate unfence, while people unfence'), async (scenario) => {
    const run = await approved(scenario, 'east');
    await run.waitsFor('action');
    await expectTakenOver(scenario, run, NAME);
    expect(role(scenario, 'east').mode).toBe('secondary');
    expect(drPrimaries(scenario)).toEqual(['west']);
  });

  byPeople.it(cell(NAME, 'parked, retry', 'demoted before, unfenced by people'), async (scenario) => {
    const fault = scenario.service.faults.add({
      cluster: 'west',
      endpoint: CHANGING.secondaryToken,
      action: { status: 403 },
      times: Infinity,
    });
    const run = await approved(scenario, 'east');
    expect((await run.status()).planText).not.toContain('dr.primary.demote');
    const { instructions } = await run.waitsFor('action');
    expect(instructions.join(' ')).toContain('approve gate "unfence"');
    expect(instructions.join(' ')).toContain('east: active node secondary; nodes secondary; west serves');
    scenario.service.heal();
    // While people were waited for it became a primary again: the run does not go on.
    const { service } = scenario;
    const former = service.cluster('east');
    const demoted = former.role('dr');
    const again = { mode: 'primary' as const, advertisedAddress: '', knownSecondaries: [] };
    former.setRole('dr', { ...again, setId: role(scenario, 'east').setId ?? '' }, service.now());
    await run.approve('unfence', 'henry');
    await run.waitsFor('decision', (waiting) => waiting.step === 'See again that no node of east is primary');
    expect(statuses(scenario, 'west', CHANGING.secondaryToken)).toEqual([]);
    former.setRole('dr', demoted, service.now());
    await run.decide('retry', 'See again that no node of east is primary');
    await run.waitsFor('decision', (waiting) => waiting.step === 'Point east at west');
    fault.remove();
    await run.decide('retry', 'Point east at west');
    const report = await run.report();
    expect(report).toMatchObject({
      outcome: 'completed',
      loss: { loss: 'unknown' },
      result: { wasDemotedBefore: true, streams: true },
    });
    expect(report.leftToDo[0]).toBe('south is connected to no primary: point it at west with secondaryRepointing.');
    expect(step(report, 'Demote')).toBeUndefined();
    expect(statuses(scenario, 'east', CHANGING.demote)).toEqual([]);
    expect(role(scenario, 'east')).toMatchObject({ mode: 'secondary', connectedTo: 'west' });
    expect(drPrimaries(scenario)).toEqual(['west']);
  });
});
