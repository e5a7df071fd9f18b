import { ceremonyWorkflowId } from '../../src/contracts/names';
import { CHANGING, statuses } from '../support/faults';
import { Scenario } from '../support/scenario';

describe('operationTokenCeremony', () => {
  let scenario: Scenario;
  beforeAll(async () => {
    scenario = await Scenario.start();
  });
  afterAll(() => scenario.stop());

  const lock = ceremonyWorkflowId('west');
  const input = (more: Readonly<Record<string, unknown>> = {}) => ({
    deployment: scenario.name,
    cluster: 'west',
    uses: ['dr.promote'],
    reason: 'a token to have at hand',
    requestedBy: 'olga',
    ...more,
  });
  const ceremony = (more = {}) => scenario.startRunbook('operationTokenCeremony', input(more), lock);

  it('gives one sealed token for one cluster under its own lock, and destroys its keys', async () => {
    const run = await ceremony();
    await run.waitsFor('shares');
    const status = await run.status();
    expect(status).toMatchObject({ runbook: 'operationTokenCeremony', workflowId: lock });
    for (const holder of ['ada', 'bert', 'cleo']) await run.share(holder);
    const report = await run.report();

    expect(report).toMatchObject({ runbook: 'operationTokenCeremony', outcome: 'completed', parkings: [] });
    expect(report.leftToDo).toContainEqual(expect.stringContaining('The operation token of west has no lifetime'));
    expect(report.steps.map(({ name }) => name)).toEqual([
      'Read and check the cluster',
      'Invite the key holders',
      'Check key shares',
      'Generate operation token on west',
      'Destroy the ceremony keys',
    ]);
    expect(statuses(scenario, 'west', CHANGING.giveShare)).toEqual([200, 200, 200]);
    expect(scenario.service.cluster('west').snapshotState().operationTokens).toBe(1);
    // Nothing else was touched.
    for (const endpoint of [CHANGING.demote, CHANGING.promote, CHANGING.updatePrimary, CHANGING.deleteToken])
      expect(statuses(scenario, 'west', endpoint)).toEqual([]);
  });

  it('refuses what generates no operation tokens, and only plans where it is told so', async () => {
    const onPrimary = await scenario.startRunbook(
      'operationTokenCeremony',
      input({ cluster: 'east' }),
      ceremonyWorkflowId('east'),
    );
    expect(await onPrimary.failure()).toMatchObject({
      code: 'PRECONDITION_FAILED',
      message: expect.stringContaining('DR secondary: observed primary') as string,
    });
    const dry = await ceremony({ dryRun: true });
    expect(await dry.report()).toMatchObject({ outcome: 'planned' });
    const none = await ceremony({ uses: [] });
    expect(await none.failure()).toMatchObject({ code: 'INVALID_INPUT' });
    expect(statuses(scenario, 'east', CHANGING.startAttempt)).toEqual([]);
    expect(statuses(scenario, 'west', CHANGING.startAttempt)).toHaveLength(1);
  });

  it('an abort while people are waited for destroys the keys and leaves the slot free', async () => {
    const run = await ceremony();
    await run.share('ada');
    await run.until('one share', ({ waiting }) =>
      waiting.some((each) => each.for === 'shares' && each.held.length === 1),
    );
    await run.handle.signal('abort', { by: 'grace', reason: 'not needed any more' });
    const report = await run.report();

    expect(report.outcome).toBe('aborted');
    expect(report.steps.map(({ name }) => name)).toContain('Destroy the ceremony keys');
    expect(statuses(scenario, 'west', CHANGING.startAttempt)).toHaveLength(1);
    expect(await scenario.leaks([JSON.stringify(report)])).toEqual([]);
  });
});
