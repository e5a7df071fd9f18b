/** Replication ends: a secondary is cut off for good, or a cluster gives up one kind of it. */
import type { Report } from '../../src/contracts/report';
import { at, expectFollows, loseAnswers, refuse, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import { clusters, FILTER, replicating, Scenario } from '../support/scenario';
import type { Deed } from '../support/scenario';

const of = (kind: string, path: string) => `POST /v1/sys/replication/${kind}/${path}`;
const [REVOKE, DISABLE, FORGET] = [
  'primary/revoke-secondary',
  'secondary/disable',
  'secondary/update-primary',
] as const;
/** Of a secondary that knows no primary any more. */
const FORGOTTEN = { mode: 'secondary', connectedTo: undefined, secondaryId: '' };

/** East with three DR secondaries. */
const disaster = new Lane(() => Scenario.start(replicating({ main: ['east', 'west', 'north', 'south'] })));

/** East is performance primary of europe, which has a filter and a DR secondary of its own, and of asia. */
const performance = new Lane(() =>
  Scenario.start(replicating({ main: ['east'], eu: ['europe', 'europe-dr'], ap: ['asia'] }, { europe: FILTER })),
);

/**
 * East is DR primary of west and performance primary of europe; europe is performance secondary and DR primary of
 * europe-dr at once.
 */
const both = new Lane(() => {
  const nodes = clusters('east', 'west', 'europe-dr', { europe: 3 });
  return Scenario.start(replicating({ main: ['east', 'west'], eu: ['europe', 'europe-dr'] }, {}, { clusters: nodes }));
});

const warnings = ({ plan }: Report) => plan?.content.warnings.join('\n') ?? '';

describe('replication ends', () => {
  runLanes(disaster, performance, both);

  describe('secondaryDecommission: a secondary is cut off for good', () => {
    const NAME = 'secondaryDecommission';

    describe('for DR', () => {
      const { it } = disaster;
      const cutOff = (scenario: Scenario, input: object, ...deeds: readonly Deed[]) =>
        scenario.begin(NAME, { kind: 'dr', primary: 'east', ...input }, ...deeds);
      const disabled = { secondary: 'south', afterwards: 'disable' };

      it('refused: an id that the primary does not list, and a cluster that is no primary', async (scenario) => {
        const dr = { kind: 'dr', primary: 'east' };
        expect(await scenario.refusal(NAME, { ...dr, id: 'nobody' })).toContain('the primary lists the id');
        const none = { ...dr, primary: 'north', secondary: 'west' };
        expect(await scenario.refusal(NAME, none)).toContain('DR primary (north)');
        const { message } = await (await cutOff(scenario, { secondary: 'west', id: 'nobody' })).failure();
        expect(message).toContain('exactly one of');
        expect(scenario.state('east').dr.knownSecondaries).toHaveLength(3);
      });

      it('revoked, gone, and its primary removed from its configuration; a dry run only reads', async (scenario) => {
        const { clusterId } = scenario.state('west');
        const dry = await cutOff(scenario, { secondary: 'west', dryRun: true });
        expect(await dry.report()).toMatchObject({ outcome: 'planned' });
        const run = await cutOff(scenario, { secondary: 'west' }, 'shares', 'approve revoke');
        const report = await run.report();
        expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], parkings: [] });
        expect(warnings(report)).toContain('west is cut off from east immediately');
        expect(scenario.state('east').dr.knownSecondaries).not.toContain(clusterId);
        expect(scenario.state('west')).toMatchObject({ dr: FORGOTTEN, operationTokens: 0 });
        expect(statuses(scenario, 'east', of('dr', REVOKE))).toHaveLength(1);
        await expectFewEvents(NAME, run);
      });

      it('abort at gate disable, with no id revoked yet', async (scenario) => {
        const run = await cutOff(scenario, disabled, 'shares', 'approve revoke', 'reject disable');
        const gates = [{ state: 'approved' }, { state: 'rejected' }];
        expect(await run.report()).toMatchObject({ outcome: 'aborted', gates });
        expectFollows(scenario, 'south', 'east');
        expect(statuses(scenario, 'east', of('dr', REVOKE))).toEqual([]);
      });

      it('lost answers: revoke-secondary and secondary/disable', async (scenario) => {
        loseAnswers(scenario, { east: [of('dr', REVOKE)], south: [of('dr', DISABLE)] });
        const run = await cutOff(scenario, disabled, 'shares', 'approve revoke', 'approve disable');
        expect(await run.report()).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
        expect(statuses(scenario, 'east', of('dr', REVOKE))).toEqual([0]);
        expect(statuses(scenario, 'south', of('dr', DISABLE))).toEqual([0]);
        expect(scenario.state('south').dr.mode).toBe('disabled');
      });

      it('refused: the only connected DR secondary, until somebody confirms it; lost answer: its update-primary', async (scenario) => {
        const last = { kind: 'dr', primary: 'east', secondary: 'north' };
        expect(await scenario.refusal(NAME, last)).toContain('another DR secondary stays connected');
        expectFollows(scenario, 'north', 'east');
        loseAnswers(scenario, { north: [of('dr', FORGET)] });
        // Too old when the token is in hand: asked for again, and good for both sides then.
        const said = { ...last, acknowledgeLastSecondary: true };
        const report = await scenario.play(NAME, said, 'shares', 'renew revoke');
        expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
        expect(report.gates).toMatchObject([{ gate: 'revoke' }, { gate: 'revoke', by: [{ name: 'henry' }] }]);
        expect(warnings(report)).toContain('east may have no connected DR secondary afterwards');
        expect(statuses(scenario, 'north', of('dr', FORGET))).toEqual([0]);
        expect(scenario.state('north').dr).toMatchObject({ mode: 'secondary', secondaryId: '' });
      });
    });

    describe('for performance', () => {
      const { it } = performance;
      const cutOff = (scenario: Scenario, input: object, ...deeds: readonly Deed[]) =>
        scenario.begin(NAME, { kind: 'performance', primary: 'east', ...input }, ...deeds);
      const disabled = { secondary: 'asia', afterwards: 'disable' };

      it('lost answers: performance, revoke-secondary and update-primary', async (scenario) => {
        const { clusterId } = scenario.state('europe');
        const lost = { east: [of('performance', REVOKE)], europe: [of('performance', FORGET)] };
        loseAnswers(scenario, lost);
        const report = await (await cutOff(scenario, { id: clusterId }, 'approve revoke')).report();
        expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
        expect(statuses(scenario, 'east', of('performance', REVOKE))).toEqual([0]);
        expect(statuses(scenario, 'europe', of('performance', FORGET))).toEqual([0]);
        expect(scenario.state('europe').performance).toMatchObject(FORGOTTEN);
        // Its own DR set is not touched.
        expectFollows(scenario, 'europe-dr', 'europe');

        // Its filter stays, and the report has the input that deletes it.
        const [left = ''] = report.leftToDo;
        expect(report.leftToDo).toHaveLength(1);
        const [, json = '{}'] = /--input '(\{.*\})'`\.$/.exec(left) ?? [];
        const deletion = await scenario.startRunbook('filterReconciliation', JSON.parse(json));
        await deletion.approve('filter');
        expect(await deletion.report()).toMatchObject({ outcome: 'completed', leftToDo: [] });
        expect(scenario.service.cluster('east').filterOf(clusterId)).toBeUndefined();
      });

      it('parked, retry: the primary refuses the revocation; an id that no cluster has is revoked alone', async (scenario) => {
        const { clusterId } = scenario.state('europe-dr');
        expectFollows(scenario, 'europe-dr', 'europe');
        refuse(scenario, 'europe', of('dr', REVOKE), 403, 1);
        // The cluster is gone for good: its id is all that is left of it.
        await scenario.service.cluster('europe-dr').kill();
        const gone = { kind: 'dr', primary: 'europe', id: clusterId, acknowledgeLastSecondary: true };
        const report = await scenario.play(NAME, gone, 'approve revoke', 'retry');
        expect(report.outcome).toBe('completed');
        expect(report.leftToDo).toEqual([expect.stringContaining(`Nothing was done on the secondary with the id`)]);
        expect(scenario.state('europe').dr.knownSecondaries).toEqual([]);
      });

      it('abort at the wait until it is gone: the report says what is left on it', async (scenario) => {
        const all = ['east', 'asia'].map((name) => scenario.service.cluster(name));
        const roles = all.map((each) => [each, each.role('performance')] as const);
        at(scenario, 'after', 'east', of('performance', REVOKE), () => {
          refuse(scenario, 'asia', 'GET /v1/sys/replication/performance/status', 503);
        });
        const run = await cutOff(scenario, disabled, 'approve revoke', 'approve disable');
        await run.until('the wait', ({ steps }) => steps.some(({ name }) => name === 'Verify that asia is gone'));
        await run.control('abort', { reason: 'called away' });
        const report = await run.report();
        expect(report.outcome).toBe('aborted');
        expect(report.leftToDo).toContainEqual(expect.stringContaining('asia is still a performance secondary'));
        expect(scenario.state('east').performance.knownSecondaries).toEqual([]);
        // It was revoked: its role ends by replicationTeardown.
        scenario.service.faults.clear();
        const again = { kind: 'performance', primary: 'east', secondary: 'asia' };
        expect(await scenario.refusal(NAME, again)).toContain('the primary lists the id');
        // For the next test it follows east again.
        for (const [each, role] of roles) each.setRole('performance', role, scenario.service.now());
        scenario.service.advance();
      });

      it('parked, skip: the secondary refuses to be disabled', async (scenario) => {
        refuse(scenario, 'asia', of('performance', DISABLE));
        const skip = 'skip Disable performance replication on asia';
        const report = await (await cutOff(scenario, disabled, 'approve revoke', 'approve disable', skip)).report();
        expect(report.outcome).toBe('completed');
        expect(report.leftToDo).toContainEqual(expect.stringContaining('asia stays a performance secondary'));
        expect(scenario.state('asia').performance).toMatchObject({ mode: 'secondary', connectedTo: undefined });
      });
    });
  });

  describe('replicationTeardown: one kind of replication ends on one cluster', () => {
    const { it } = both;
    const NAME = 'replicationTeardown';
    const disable = (kind: string, role: string) => of(kind, `${role}/disable`);
    const tearDown = (scenario: Scenario, kind: string, cluster: string, ...deeds: readonly Deed[]) =>
      scenario.begin(NAME, { kind, cluster }, ...deeds);

    it('refused: performance replication of a DR secondary, and a cluster that does not answer', async (scenario) => {
      const inherited = await scenario.refusal(NAME, { kind: 'performance', cluster: 'west' });
      expect(inherited).toContain('no DR secondary (west)');
      await scenario.service.cluster('west').kill();
      const silent = await scenario.refusal(NAME, { kind: 'dr', cluster: 'west' });
      expect(silent).toContain('DR role readable (west)');
      await scenario.service.cluster('west').restart();
    });

    it('a DR primary that is performance secondary too: only the named kind ends', async (scenario) => {
      const run = await tearDown(scenario, 'dr', 'europe', 'approve disable');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', parkings: [], gates: [{ gate: 'disable' }] });
      const { clusterId } = scenario.state('europe-dr');
      expect(warnings(report)).toContain(`europe-dr (id ${clusterId}) is cut off for good`);
      expect(warnings(report)).toContain('The performance replication of europe (secondary) stays unchanged.');
      expect(report.leftToDo).toEqual([expect.stringContaining('europe-dr is still a secondary')]);
      expect(report.result).toMatchObject({ was: 'primary', cutOff: [{ id: clusterId, cluster: 'europe-dr' }] });
      expect(scenario.state('europe').dr.mode).toBe('disabled');
      expectFollows(scenario, 'europe', 'east', 'performance');
      await expectFewEvents(NAME, run);
    });

    it('lost answer of a DR secondary', async (scenario) => {
      const endpoint = disable('dr', 'secondary');
      loseAnswers(scenario, { 'europe-dr': [endpoint] });
      // Its primary is gone: nobody can look a batch token up, the holders are asked.
      const report = await (await tearDown(scenario, 'dr', 'europe-dr', 'shares', 'renew disable')).report();
      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], result: { was: 'secondary' } });
      expect(report.gates).toHaveLength(2);
      expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
      expect(statuses(scenario, 'europe-dr', endpoint)).toEqual([0]);
      expect(scenario.state('europe-dr').dr.mode).toBe('disabled');
    });

    it('lost answer of a performance secondary; parked, skip: a node that is down cannot report that it is disabled', async (scenario) => {
      const endpoint = disable('performance', 'secondary');
      loseAnswers(scenario, { europe: [endpoint] });
      const { activeNode = 0 } = scenario.state('europe');
      await scenario.service.cluster('europe').killNode((activeNode + 1) % 3);
      scenario.limit({ demote: '1s' }, 'awaitReplicationDisabled');
      const skip = 'skip Verify on every node of europe that it is disabled';
      const report = await (await tearDown(scenario, 'performance', 'europe', 'approve disable', skip)).report();
      expect(report.outcome).toBe('completed');
      expect(report.leftToDo.join('\n')).toContain('unknown whether every node of europe ended its replication');
      const command = 'Revoke it with `runbook start secondaryDecommission';
      expect(report.leftToDo.join('\n')).toContain(`east still lists europe. ${command}`);
      expect(scenario.state('europe').performance.mode).toBe('disabled');

      await scenario.service.cluster('europe').restart();
      scenario.limit();
      // It is done already: nobody is asked, and every node is looked at again.
      const again = await (await tearDown(scenario, 'performance', 'europe')).report();
      expect(again).toMatchObject({ outcome: 'completed', gates: [], leftToDo: [], result: { was: 'disabled' } });
      expect(statuses(scenario, 'europe', endpoint)).toEqual([0]);
    });

    it('parked, retry: the service refuses once, and an answer is lost; a connected DR secondary is cut off behind the gate', async (scenario) => {
      refuse(scenario, 'east', disable('dr', 'primary'), 403, 1);
      loseAnswers(scenario, { east: [disable('dr', 'primary')] });
      const report = await (await tearDown(scenario, 'dr', 'east', 'approve disable', 'retry')).report();
      expect(report).toMatchObject({ outcome: 'completed', parkings: [{ code: 'PERMISSION_DENIED' }] });
      const cutOff = expect.objectContaining({ name: 'no secondary is cut off', verdict: 'warn' }) as unknown;
      expect(report.preconditions).toContainEqual(cutOff);
      expect(warnings(report)).toContain('east has no DR secondary afterwards');
      expect(scenario.state('east')).toMatchObject({ dr: { mode: 'disabled' }, performance: { mode: 'primary' } });
      expect(scenario.state('west').dr).toMatchObject({ mode: 'secondary', connectedTo: undefined });
    });

    it('lost answer of a performance primary', async (scenario) => {
      loseAnswers(scenario, { east: [disable('performance', 'primary')] });
      const report = await (await tearDown(scenario, 'performance', 'east', 'approve disable')).report();
      expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
      // East knows europe until it is revoked, although europe has ended its side.
      expect(report.result).toMatchObject({ cutOff: [{ cluster: 'europe' }] });
      expect(scenario.state('east').performance.mode).toBe('disabled');
    });
  });
});
