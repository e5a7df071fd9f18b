import { readdirSync } from 'node:fs';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { splitPrimaries } from '../support/by-hand';
import { CHANGING, drPrimaries, expectServiceOn, loseAnswers, refuse, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import { WebhookServer } from '../support/notification-servers';
import { clusters, pair, Scenario, temporaryDirectory } from '../support/scenario';

const NAME = 'drRejoin';
const directory = temporaryDirectory('rejoin');
let hooks: WebhookServer;

/**
 * East and west with hooks, whose standby nodes tell their old modes for a while; each test splits them anew, so that the
 * former primary is west where east was before.
 */
const hooked = new Lane(async () => {
  hooks = await WebhookServer.start();
  return Scenario.start({
    topology: { ...pair(3), timing: { standbyModeLagMs: 700 } },
    deployment: {
      snapshot: { to: 'hook' },
      hooks: {
        snapshot: { url: `${hooks.origin}/snapshot`, timeout: '60s' },
        unfence: { url: `${hooks.origin}/unfence`, timeout: '60s' },
      },
    },
  });
});

/** Without hooks; south is another DR secondary, and north one whose replication was disabled. */
const byPeople = new Lane(() =>
  Scenario.start({
    topology: {
      clusters: clusters('east', 'west', 'south', 'north'),
      dr: [{ primary: 'east', secondaries: ['west', 'south'] }],
    },
    deployment: { snapshot: { to: directory } },
  }),
);

const role = (scenario: Scenario, cluster: string) => scenario.state(cluster).dr;

/** Shares and the plan's approval, which attests the fence. */
const approved = (scenario: Scenario, cluster: string) => scenario.begin(NAME, { cluster }, 'shares', 'approve plan');

describe('a former primary comes back', () => {
  runLanes(hooked, byPeople);
  afterAll(() => hooks.stop());

  describe('with hooks', () => {
    const { it } = hooked;

    it('it reports primary while the other one serves', async (scenario) => {
      const { service } = scenario;
      service.cluster('east').write('secret/before-the-split', { on: 'east' });
      await splitPrimaries(scenario, 'east', 'west');
      let unfencedAs = '';
      hooks.on('unfence', () => {
        unfencedAs = role(scenario, 'east').mode;
        service.heal();
        return 204;
      });

      const dry = await scenario.play(NAME, { cluster: 'east', dryRun: true });
      expect(dry.outcome).toBe('planned');
      const between = { on: { cluster: 'east' }, with: { cluster: 'west' } };
      expect(dry.plan?.content).toMatchObject({
        operations: [
          { kind: 'dr', endpoint: 'primary/demote', gate: 'plan', ...between },
          { endpoint: 'hook/unfence', gate: 'unfence', ...between },
          { kind: 'dr', endpoint: 'secondary/update-primary', gate: 'unfence', ...between },
        ],
        warnings: expect.arrayContaining([expect.stringContaining('attest that east is still fenced')]) as string[],
      });

      const run = await approved(scenario, 'east');
      // Demoted before it is let out.
      await run.waitsFor('approval', ({ gate }) => gate === 'unfence');
      expect(role(scenario, 'east').mode).toBe('secondary');
      await run.do('approve unfence');
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
      expect(report.outage).toBeUndefined();
      expect(report.loss).toMatchObject({ loss: 'unknown', why: expect.stringMatching(/it is at WAL \d+$/) as string });
      const told = { formerPrimary: 'east', primary: 'west', wasDemotedBefore: false };
      expect(report.result).toMatchObject({ ...told, streams: true, merkleRoots: 'equal' });
      const codes = report.findings.map(({ code }) => code);
      expect(codes).toEqual(['writes-after-split-lost', 'leases-of-two-primaries']);
      expect(report.leftToDo).toEqual([expect.stringContaining('start drSwitchover')]);
      expect(hooks.posted.map(({ path }) => path)).toEqual(['/snapshot', '/unfence']);
      expect(unfencedAs).toBe('secondary');
      expect(statuses(scenario, 'east', 'POST /v1/sys/replication/dr/primary/disable')).toEqual([]);
      expect(role(scenario, 'east')).toMatchObject({ mode: 'secondary', state: 'stream-wals', connectedTo: 'west' });
      expect(service.cluster('east').read('secret/after-the-split')).toEqual({ on: 'west' });
      await expectServiceOn(scenario, 'west');
      await expectFewEvents(NAME, run);
    });

    it('parked, abort: the primary is lost before the demotion, and the only one left is not demoted', async (scenario) => {
      await splitPrimaries(scenario, 'west', 'east');
      scenario.limit({ demote: '2s' });
      hooks.on('snapshot', async () => {
        await scenario.service.cluster('east').kill();
        return 204;
      });
      const run = await approved(scenario, 'west');
      await run.do('abort Demote west');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'aborted', parkings: [{ step: 'Demote west' }] });
      expect(report.leftToDo).toContainEqual(expect.stringContaining('`runbook start drRejoin --input '));
      expect(statuses(scenario, 'west', CHANGING.demote)).toEqual([]);
      expect(role(scenario, 'west').mode).toBe('primary');
      await scenario.service.cluster('east').restart();
    });

    it('lost answers: demote, attempt, update, secondary-token, update-primary, token delete; parked, skip: the snapshot hook fails and its output is shown; it took so long that the plan is approved again', async (scenario) => {
      const { issuedSecrets, tokens, attemptsOfTokens } = scenario.service.cluster('west');
      const before = issuedSecrets.length;
      const { demote, startAttempt, giveShare, updatePrimary, deleteToken, secondaryToken } = CHANGING;
      const onFormer = [demote, startAttempt, giveShare, updatePrimary, deleteToken];
      loseAnswers(scenario, { west: onFormer, east: [secondaryToken] });
      hooks.on('snapshot', () => 500);
      const run = await scenario.begin(NAME, { cluster: 'west' }, 'shares');
      await approveLongAgo(scenario, run, 'plan');
      const parked = await run.parks('Take a snapshot of west');
      expect(parked).toMatchObject({ code: 'HOOK_FAILED', observed: 'status 500' });
      await run.do('skip');
      await approveAgain(run, 'plan');
      await run.do('approve unfence');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', result: { streams: true } });
      expect(report.gates.map(({ gate }) => gate)).toEqual(['plan', 'plan', 'unfence']);
      // Nobody gave a key share twice.
      expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
      const missing = 'there is no snapshot of west from before its demotion';
      expect(report.leftToDo).toContainEqual(expect.stringContaining(missing));
      expect(onFormer.map((endpoint) => statuses(scenario, 'west', endpoint))).toEqual([
        ...[[0], [0], [0, 200, 200], [0]],
        // A deleted token is proven to be refused.
        [0, 403, 403, 403],
      ]);
      // The token whose answer was lost is revoked before another one is issued.
      expect(statuses(scenario, 'east', secondaryToken)).toEqual([0, 200]);
      expect(role(scenario, 'west')).toMatchObject({ mode: 'secondary', connectedTo: 'east' });
      const made = issuedSecrets.slice(before).filter((token) => attemptsOfTokens.has(token));
      expect(made).not.toEqual([]);
      expect(made.filter((token) => tokens.identifyOperation(token) !== undefined)).toEqual([]);
      await expectServiceOn(scenario, 'east');
    });
  });

  describe('unfenced by people', () => {
    const { it } = byPeople;

    it('refused: no other cluster is primary; it follows already, or its replication is disabled: then it must be onboarded', async (scenario) => {
      expect(await scenario.refusal(NAME, { cluster: 'east' })).toContain('one other DR primary serves');
      expect(statuses(scenario, 'east', CHANGING.demote)).toEqual([]);
      const follows = await scenario.refusal(NAME, { cluster: 'west' });
      expect(follows).toContain('There is nothing to do: west follows east');
      expect(await scenario.refusal(NAME, { cluster: 'north' })).toContain('drSecondaryOnboarding');
      const other = { cluster: 'west', primary: 'south' };
      expect(await scenario.refusal(NAME, other)).toContain('south is DR primary');
    });

    it('abort at gate unfence; a secondary that was connected to it is a critical finding', async (scenario) => {
      await splitPrimaries(scenario, 'east', 'west');
      const run = await approved(scenario, 'east');
      await run.waitsFor('action');
      expect(readdirSync(directory)).toEqual([expect.stringMatching(/-east-.*-before-demotion-.*\.snap$/)]);
      await run.control('abort', { reason: 'not today' });
      const report = await run.report();
      expect(report.outcome).toBe('aborted');
      const connected = { name: 'no secondary is connected to it', verdict: 'warn' };
      expect(report.preconditions).toContainEqual(expect.objectContaining(connected));
      const finding = { code: 'former-primary-not-fenced', severity: 'critical' };
      expect(report.findings).toContainEqual(expect.objectContaining(finding));
      expect(report.result).toBeUndefined();
      const left = report.leftToDo.join('\n');
      for (const text of ['east is fenced, according to this run', '`runbook start drRejoin --input '])
        expect(left).toContain(text);
      expect(role(scenario, 'east').mode).toBe('secondary');
      expect(drPrimaries(scenario)).toEqual(['west']);
    });

    it('parked, retry: demoted before, unfenced by people', async (scenario) => {
      const { service } = scenario;
      const fault = refuse(scenario, 'west', CHANGING.secondaryToken);
      const run = await approved(scenario, 'east');
      expect((await run.status()).planText).not.toContain('primary/demote');
      const { instructions } = await run.waitsFor('action');
      expect(instructions.join(' ')).toContain('approve gate "unfence"');
      expect(instructions.join(' ')).toContain('east: active node secondary; nodes secondary; west serves');
      service.heal();
      // While people were waited for it became a primary again: the run does not go on.
      const former = service.cluster('east');
      const demoted = former.role('dr');
      const again = { mode: 'primary' as const, advertisedAddress: '', knownSecondaries: [] };
      former.setRole('dr', { ...again, setId: role(scenario, 'east').setId ?? '' }, service.now());
      await run.do('approve unfence');
      await run.parks('Verify again that no node of east is primary');
      expect(statuses(scenario, 'west', CHANGING.secondaryToken)).toEqual([]);
      former.setRole('dr', demoted, service.now());
      await run.do('retry Verify again that no node of east is primary');
      await run.parks('Point east at west');
      fault.remove();
      await run.do('retry Point east at west');
      const report = await run.report();
      const result = { wasDemotedBefore: true, streams: true };
      expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'unknown' }, result });
      expect(report.leftToDo[0]).toContain('south is not connected to a primary. Point it at west: `runbook start ');
      expect(report.leftToDo[0]).toContain('"kind":"dr","primary":"west","secondary":"south"');
      expect(report.steps.map(({ name }) => name).join()).not.toContain('Demote');
      expect(statuses(scenario, 'east', CHANGING.demote)).toEqual([]);
      expect(role(scenario, 'east')).toMatchObject({ mode: 'secondary', connectedTo: 'west' });
      expect(drPrimaries(scenario)).toEqual(['west']);
    });
  });
});
