/** People generate the operation tokens themselves, and give them to the run: no key share comes near it. */
import type { Report } from '../../src/contracts/report';
import { actions, CHANGING, expectServiceOn, parksInTime, refusePromotion, statuses } from '../support/faults';
import { FAILOVER_LIMITS, startFailover } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { generatedOn, provide, providedBy } from '../support/provided';
import { replayRun } from '../support/replay';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

const CHECK = 'POST /v1/sys/replication/dr/secondary/merkle-check';
const ceremony = (more: object = {}) => ({
  ceremony: {
    holders: ['ada', 'bert', 'cleo', 'dora', 'emil'],
    tokenProviders: ['ada', 'bert'],
    tokenSource: 'provided',
    ...more,
  },
});
const planned = new Lane(() => Scenario.start({ deployment: ceremony() }));
const unplanned = new Lane(() => Scenario.start({ limits: FAILOVER_LIMITS, deployment: ceremony() }));
const hasty = new Lane(() => Scenario.start({ deployment: ceremony({ collectFor: '2s', inviteStandByAfter: '1s' }) }));

const codes = ({ findings }: Report) => findings.map(({ code }) => code);
const tokensOf = (scenario: Scenario, cluster: string) => scenario.state(cluster).operationTokens;
async function expectClean(scenario: Scenario, run: TestRun): Promise<void> {
  expect(statuses(scenario, 'west', CHANGING.startAttempt)).toEqual([]);
  expect(statuses(scenario, 'east', CHANGING.startAttempt)).toEqual([]);
  await replayRun(run);
}

describe('a provided operation token', () => {
  runLanes(planned, unplanned, hasty);

  planned.it(
    'is proven before the demotion, promotes, and is deleted; the old primary’s is asked for when service is back',
    async (scenario) => {
      const run = await scenario.start();
      expect(JSON.parse(await run.planText())).toMatchObject({
        choices: { tokenSource: 'provided' },
        warnings: [
          expect.stringContaining('attest that no client writes to east'),
          expect.stringContaining('one of ada, bert provides it'),
        ],
      });
      // A token of nobody: the secondary refuses it, and it is asked for again. Nothing was demoted.
      await provide(scenario, run, 'west', { token: `hvs.${'Ab3'.repeat(8)}` });
      await run.until('the refusal', ({ findings }) => findings.find(({ code }) => code === 'provided-token-refused'));
      await provide(scenario, run, 'west', { holder: 'bert' });
      await run.do('approve plan', 'approve go');
      await provide(scenario, run, 'east');
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'none' } });
      expect(report.tokens).toEqual(
        expect.arrayContaining([expect.objectContaining({ cluster: 'east', state: 'deleted' })]),
      );
      expect(codes(report)).not.toContain('token-not-proven-dead');
      const order = scenario.service.calls.map(({ cluster, method, path }) => `${cluster} ${method} ${path}`);
      expect(order.lastIndexOf(`west ${CHECK}`)).toBeLessThan(
        order.findIndex((call) => call.endsWith('primary/demote')),
      );
      expect(statuses(scenario, 'west', CHECK).at(-1)).toBe(200);
      expect(tokensOf(scenario, 'east')).toBe(0);
      expect(report.receipts.filter(({ code }) => code === 'accepted')).toEqual(
        expect.arrayContaining([expect.objectContaining({ signal: 'share', from: { name: 'bert', how: 'signed' } })]),
      );
      await expectServiceOn(scenario, 'west');
      await expectClean(scenario, run);
    },
  );

  planned.it(
    'that expired before the promotion is replaced inside the outage, and so is one for the way back',
    async (scenario) => {
      const run = await scenario.start({ to: 'east', go: 'auto', onStuck: 'park' });
      const token = generatedOn(scenario, 'east');
      await provide(scenario, run, 'east', { token });
      const refusal = refusePromotion(scenario, 'east');
      await run.approve('plan');
      await parksInTime(run, 'Promote east');
      const { service } = scenario;
      service.cluster('east').tokens.deleteOperationToken(token, service.now());
      refusal.remove();
      await run.decide('retry', 'Promote east');
      await parksInTime(run, 'Promote east', 1);
      // The run asks nobody now; a better token counts all the same.
      const invitation = await run.invitation();
      const better = { cluster: 'east', token: generatedOn(scenario, 'east'), seq: Date.now() };
      await run.handle.signal(
        'share',
        await providedBy(scenario.person('bert'), invitation, scenario.workersKey, better),
      );
      await run.until('its receipt', ({ receipts }) =>
        receipts.filter((each) => each.signal === 'share' && each.verdict === 'accepted').length > 1 ? true : undefined,
      );
      refusePromotion(scenario, 'east');
      await run.decide('retry', 'Promote east');
      await parksInTime(run, 'Promote east', 2);
      await run.decide('promote-back', 'Promote east');
      const asked = await parksInTime(run, 'Operation token of west');
      expect(actions(asked)).toEqual(['promote-back', 'promote-secondary', 'leave']);
      await provide(scenario, run, 'west');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'rolled-back' });
      expect(report.preconditions).toContainEqual(
        expect.objectContaining({ name: 'exit: a token for the rollback', verdict: 'warn' }),
      );
      await expectServiceOn(scenario, 'west');
      await expectClean(scenario, run);
    },
  );

  planned.it('serves the runbooks that only look at a secondary, or work on one, as well', async (scenario) => {
    for (const [runbook, more] of [
      ['merkleCheck', {}],
      ['drReindex', { force: true }],
    ] as const) {
      const run = await scenario.run(runbook, { cluster: 'east', ...more });
      await provide(scenario, run, 'east');
      if (runbook === 'drReindex') await run.approve('reindex');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
      expect(tokensOf(scenario, 'east')).toBe(0);
      await expectClean(scenario, run);
    }
  });

  unplanned.it('promotes in a failover without a further look', async (scenario) => {
    await scenario.service.cluster('east').kill();
    const run = await startFailover(scenario);
    await provide(scenario, run, 'west');
    await run.approve('promote');
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [], result: { from: 'east', to: 'west' } });
    expect(statuses(scenario, 'west', CHECK)).toEqual([]);
    expect(JSON.stringify(report.plan?.content)).toContain('one of ada, bert provides it');
    await expectClean(scenario, run);
  });

  hasty.it('that is not given in time ends the run before any change', async (scenario) => {
    const run = await scenario.start();
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'aborted' });
    expect(JSON.stringify(report)).toContain('no operation token of west was given in time; asked: ada, bert');
    expect(statuses(scenario, 'east', CHANGING.demote)).toEqual([]);
    await expectClean(scenario, run);
  });
});
