import { at, CHANGING, hold, statuses } from '../support/faults';
import { expectFewEvents } from '../support/matrix';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

describe('operationTokenCeremony', () => {
  let scenario: Scenario;
  openScenario((opened) => (scenario = opened));
  beforeEach(() => void (scenario.service.calls.length = 0));

  const ceremony = (more: object = {}) => scenario.tokenCeremony(more);

  it('deletes its token if it is stopped before its end', async () => {
    const run = await ceremony();
    await run.waitsFor('shares');
    const { reached, letGo } = hold(scenario, 'after', 'west', CHANGING.giveShare, 3);
    await run.shares();
    await reached;
    await run.control('pause', { reason: 'a word first' });
    expect(await run.receiptOf('pause')).toMatchObject({ verdict: 'accepted' });
    letGo();
    await run.until(
      'paused with a token',
      ({ paused, steps }) =>
        paused && steps.some(({ name, state }) => name === 'Generate operation token on west' && state === 'done'),
    );
    await run.control('abort', { reason: 'not needed any more' });
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'aborted', findings: [] });
    expect(await run.status()).toMatchObject({ paused: false });
    expect(report.steps.map(({ name }) => name)).toContain('Delete the operation tokens');
    expect(scenario.state('west').operationTokens).toBe(0);
  });

  it('without a fault: one sealed token under its own lock; its keys are destroyed', async () => {
    const run = await ceremony();
    await run.shares();
    const report = await run.report();

    const known = { runbook: 'operationTokenCeremony', workflowId: 'ceremony:west' };
    expect(report).toMatchObject({ ...known, outcome: 'completed', parkings: [] });
    expect(report.leftToDo).toContainEqual(expect.stringContaining('The operation token of west does not expire'));
    expect(report.steps.map(({ name }) => name)).toEqual([
      'Read and check the deployment',
      'Invite the key holders',
      'Check key shares',
      'Generate operation token on west',
      'Destroy the ceremony keys',
      'Write the report',
    ]);
    expect(statuses(scenario, 'west', CHANGING.giveShare)).toEqual([200, 200, 200]);
    await expectFewEvents('operationTokenCeremony', run);
    expect(scenario.state('west').operationTokens).toBe(1);
    // Nothing else was touched.
    for (const endpoint of [CHANGING.demote, CHANGING.promote, CHANGING.updatePrimary, CHANGING.deleteToken])
      expect(statuses(scenario, 'west', endpoint)).toEqual([]);
  });

  it('refused: no DR secondary, no uses; a dry run only reads', async () => {
    const onPrimary = { cluster: 'east', uses: ['dr.promote'], keepFor: '1h' };
    const refused = await scenario.refusal('operationTokenCeremony', onPrimary);
    expect(refused).toContain('DR secondary (east): observed primary');
    expect(await (await ceremony({ dryRun: true })).report()).toMatchObject({ outcome: 'planned' });
    expect(await (await ceremony({ uses: [] })).failure()).toMatchObject({ code: 'INVALID_INPUT' });
    for (const cluster of ['east', 'west']) expect(statuses(scenario, cluster, CHANGING.startAttempt)).toEqual([]);
  });

  it('deletes the token once the record answers again, and ends, if it could not be written', async () => {
    const before = scenario.state('west').operationTokens;
    const run = await ceremony();
    await run.waitsFor('shares');
    at(scenario, 'after', 'west', CHANGING.giveShare, () => scenario.breakRecord(), 3);
    await run.shares();
    const { code } = await run.parks('Delete the operation tokens');
    expect([code, scenario.state('west').operationTokens]).toEqual(['PRECONDITION_FAILED', before + 1]);
    await scenario.repairRecord();
    await run.decide('retry');
    const report = await run.report();
    expect([report.outcome, scenario.state('west').operationTokens]).toEqual(['aborted', before]);
    expect(report.findings.map(({ code }) => code)).not.toContain('clean-up-failed');
    expect(report.findings).toContainEqual(
      expect.objectContaining({ code: 'token-not-in-record', severity: 'critical' }),
    );
    expect(report.leftToDo.join()).not.toContain('The record keeps it');
  });
});
