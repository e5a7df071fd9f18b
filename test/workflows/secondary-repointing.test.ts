import { changeDrPrimary, post, until } from '../support/by-hand';
import { CHANGING, expectFiltered, expectFollows, hold, loseAnswers, refuse, statuses } from '../support/faults';
import { bringBack } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import { FILTER, replicating, Scenario } from '../support/scenario';

const NAME = 'secondaryRepointing';
const PERFORMANCE = '/v1/sys/replication/performance';
const UPDATE = `POST ${PERFORMANCE}/secondary/update-primary`;
const TOKEN = `POST ${PERFORMANCE}/primary/secondary-token`;
const readings = { performanceSecondariesFollow: false, leaderChangeChance: 0 };

/** East with two DR secondaries. */
const dr = new Lane(() => Scenario.start(replicating({ main: ['east', 'west', 'north'] }, {}, { readings })));

/**
 * East with a DR secondary, and europe, which is performance secondary of east and DR primary of europe-dr at once. It
 * does not follow by itself where east and west change roles.
 */
const performance = new Lane(() =>
  Scenario.start(
    replicating({ main: ['east', 'west'], eu: ['europe', 'europe-dr'] }, { europe: FILTER }, { readings }),
  ),
);

/** Europe follows, and its own DR secondary has what it has. */
async function expectFollowsFiltered(scenario: Scenario, primary: string): Promise<void> {
  expectFollows(scenario, 'europe', primary, 'performance');
  await expectFiltered(scenario, primary, ['europe', 'europe-dr']);
}

describe('a secondary that is to follow another primary', () => {
  runLanes(dr, performance);

  describe('for DR', () => {
    const { it } = dr;
    const north = { kind: 'dr', primary: 'west', secondary: 'north' };

    it('refused: by addresses, and if it follows already', async (scenario) => {
      for (const form of ['token', 'addresses'])
        expect(await scenario.refusal(NAME, { ...north, primary: 'east', form })).toContain('something to do');
      changeDrPrimary(scenario, 'east', 'west');
      const demoted = { ...north, secondary: 'east', form: 'addresses' };
      expect(await scenario.refusal(NAME, demoted)).toContain('a demoted cluster accepts no addresses');
      const unknown = { ...north, form: 'addresses' };
      expect(await scenario.refusal(NAME, unknown)).toContain('the primary lists the secondary');
      expect(scenario.calls('north', 'update-primary')).toBe(0);
    });

    it('follows by token', async (scenario) => {
      const run = await scenario.begin(NAME, north, 'shares', 'approve repoint');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
      expectFollows(scenario, 'north', 'west');
      expect(scenario.state('north').operationTokens).toBe(0);
      expect(report.tokens).toMatchObject([{ cluster: 'north', state: 'deleted' }]);
      expect(report.steps.map(({ name }) => name)).toContain('Compare the Merkle roots of west and north');
      // East stays what it was: a demoted cluster that follows nobody.
      expect(scenario.state('east').dr.connectedTo).toBeUndefined();
      await expectFewEvents(NAME, run);
    });

    it('lost answers: update-primary, secondary-token, revoke-secondary, attempt, update, operation-token/delete', async (scenario) => {
      const { secondaryToken, updatePrimary, startAttempt, giveShare, deleteToken } = CHANGING;
      loseAnswers(scenario, {
        west: [secondaryToken, 'POST /v1/sys/replication/dr/primary/revoke-secondary'],
        east: [updatePrimary, startAttempt, giveShare, deleteToken],
      });
      const report = await scenario.play(NAME, { ...north, secondary: 'east' }, 'shares', 'renew repoint');
      expect(report.gates).toHaveLength(2);
      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
      expectFollows(scenario, 'east', 'west');
      expect(scenario.state('east').operationTokens).toBe(0);
    });

    it('is named to the approvers of a switchover if it cannot be asked', async (scenario) => {
      await scenario.service.cluster('north').kill();
      const run = await scenario.start({ to: 'east' });
      await run.waitsFor('approval');
      const { findings } = await run.status();
      expect(findings).toMatchObject([{ severity: 'warning', code: 'cluster-silent' }]);
      expect(findings[0]?.text).toMatch(/^north cannot be read: /);
      await run.control('abort', { reason: 'north first' });
      expect((await run.report()).outcome).toBe('aborted');
    });
  });

  describe('for performance', () => {
    const { it } = performance;
    const europeTo = (primary: string, form: 'token' | 'addresses') => ({
      ...{ kind: 'performance', secondary: 'europe' },
      ...{ primary, form },
    });
    const GIVE = 'Give europe the addresses of west';

    it('refused: a version that is too old', async (scenario) => {
      changeDrPrimary(scenario, 'east', 'west');
      const all = [...scenario.service.clusters.values()];
      const versions = all.map(({ version }) => version);
      for (const each of all) each.version = '1.15.16+ent';
      expect(await scenario.refusal(NAME, europeTo('west', 'token'))).toContain('supported version (west)');
      all.forEach((each, index) => (each.version = versions[index] ?? ''));
      expect(scenario.calls('europe', 'update-primary')).toBe(0);
    });

    it('parked, skip: update-primary by addresses', async (scenario) => {
      refuse(scenario, 'europe', UPDATE);
      const report = await scenario.play(NAME, europeTo('west', 'addresses'), 'approve repoint', `skip ${GIVE}`);
      expect(report.outcome).toBe('completed');
      expect(report.leftToDo.join('\n')).toContain('europe has not been confirmed to follow west');
      expect(scenario.state('europe').performance.connectedTo).toBeUndefined();
    });

    it('parked, retry: update-primary by addresses, and then its answer is lost', async (scenario) => {
      const refused = refuse(scenario, 'europe', UPDATE);
      const run = await scenario.begin(NAME, europeTo('west', 'addresses'), 'renew repoint');
      await run.parks(GIVE);
      refused.remove();
      scenario.service.calls.length = 0;
      loseAnswers(scenario, { europe: [UPDATE] });
      await run.do(`retry ${GIVE}`);
      expect(await run.report()).toMatchObject({ outcome: 'completed', leftToDo: [] });
      expect(statuses(scenario, 'europe', UPDATE)).toEqual([0]);
      // A promoted DR secondary of the performance primary knows europe already: nothing is issued.
      expect(scenario.calls('west', 'secondary-token')).toBe(0);
      await expectFollowsFiltered(scenario, 'west');
    });

    it('lost answers: update-primary by token, secondary-token, paths-filter', async (scenario) => {
      // East serves again, and europe still knows west only.
      await bringBack(scenario, 'east', 'west');
      changeDrPrimary(scenario, 'west', 'east');
      const id = scenario.state('europe').clusterId;
      const lost = { east: [`POST ${PERFORMANCE}/primary/paths-filter/${id}`, TOKEN], europe: [UPDATE] };
      loseAnswers(scenario, lost);
      const report = await scenario.play(NAME, europeTo('east', 'token'), 'renew repoint');
      const { warnings, choices } = report.plan?.content ?? {};
      expect(warnings?.join(' ')).toContain('may receive what its filter keeps away: us-customers/');
      expect(choices).toMatchObject({ filter: 'deny us-customers/', form: 'token' });
      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
      expect(statuses(scenario, 'europe', UPDATE)).toEqual([0]);
      expect(scenario.state('east').filters).toContain(id);
      // With a filter the root differs by design.
      expect(report.steps.map(({ name }) => name).join()).not.toContain('Compare the Merkle roots');
      await expectFollowsFiltered(scenario, 'east');
    });

    it('abort while update-primary drops the filter: the end of the run writes it again', async (scenario) => {
      // Its primary has revoked it.
      const { clusterId } = scenario.state('europe');
      await post(scenario, 'east', 'performance/primary/revoke-secondary', { id: clusterId });
      const run = await scenario.begin(NAME, europeTo('east', 'token'));
      const held = hold(scenario, 'after', 'europe', UPDATE);
      await run.approve('repoint');
      await held.reached;
      await run.control('abort', { reason: 'another time' });
      await run.receiptOf('abort');
      held.letGo();
      const { outcome, findings, steps } = await run.report();
      expect(outcome).toBe('aborted');
      expect(findings.map(({ code }) => code)).toContain('paths-filter-was-missing');
      expect(steps.map(({ name }) => name)).not.toContain('Wait until europe follows');
      await until('europe follows', () => scenario.state('europe').performance.state === 'stream-wals');
      await expectFollowsFiltered(scenario, 'east');
    });
  });
});
