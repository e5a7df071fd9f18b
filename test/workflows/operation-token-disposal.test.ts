import { randomUUID } from 'node:crypto';
import { TokenLedger } from '../../activities/tokens/token-ledger';
import { at, CHANGING, hold, statuses } from '../support/faults';
import { expectFewEvents } from '../support/matrix';
import { openScenario } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';
import { expectTakenOver } from '../support/failover';
import { temporalServer } from '../support/temporal-server';

const DELETE_STEP = 'Delete the tokens of west';

/** It waits for nobody unless a step parks: an abort is possible there and in a deletion, and a take-over there. */
describe('operationTokenDisposal', () => {
  let scenario: Scenario;
  openScenario((opened) => (scenario = opened));
  beforeEach(async () => {
    scenario.service.faults.clear();
    scenario.service.calls.length = 0;
    const ledger = new TokenLedger(scenario.recordsOfAWorker());
    for (const entry of await ledger.all(scenario.name)) await ledger.remove(entry);
  });

  const start = (input: Readonly<Record<string, unknown>> = {}): Promise<TestRun> =>
    scenario.run('operationTokenDisposal', { cluster: 'west', ...input });
  const leaveToken = () => scenario.leaveToken('west', ['dr.promote', 'dr.operation-token.delete']);
  const living = () => scenario.state('west').operationTokens;
  /** What the record holds of something else than a token of this test. */
  const note = (more: Readonly<Record<string, unknown>>) =>
    new TokenLedger(scenario.recordsOfAWorker()).write({
      ...{ version: 1, id: randomUUID(), state: 'alive', at: new Date().toISOString() },
      ...{ deployment: scenario.name, cluster: 'west', clusterId: scenario.service.cluster('west').clusterId },
      ...{ ns: temporalServer().namespace, wid: 'ceremony:gone', rid: randomUUID() },
      ...more,
    });

  it('no fault: tokens that stand-alone ceremonies left', async () => {
    const ceremony = await scenario.tokenCeremony();
    await ceremony.shares();
    expect(await ceremony.report()).toMatchObject({ outcome: 'completed' });
    await leaveToken();
    expect(living()).toBe(2);
    // A worker that shares no folder with the one that made them.
    await scenario.stopWorker();
    await scenario.startWorker('keys-of-another-host');
    const run = await start();
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], findings: [], result: { deleted: 2 } });
    expect(report.tokens.map(({ cluster, state }) => `${cluster} ${state}`)).toEqual(['west deleted', 'west deleted']);
    expect(living()).toBe(0);
    await expectFewEvents('operationTokenDisposal', run);

    const again = await (await start()).report();
    expect(again).toMatchObject({ outcome: 'completed', result: { deleted: 0, tokens: [] } });
  });

  /** Its token is dead, and the record has not heard of it. */
  const parkedInDeletion = async () => {
    await leaveToken();
    at(scenario, 'after', 'west', CHANGING.deleteToken, () => scenario.breakRecord());
    const run = await start();
    expect(await run.waitsFor('decision')).toMatchObject({ step: DELETE_STEP, code: 'PRECONDITION_FAILED' });
    return run;
  };

  it('parked, retry: a record that cannot be written after the deletion', async () => {
    const run = await parkedInDeletion();
    await scenario.repairRecord();
    await run.decide('retry', DELETE_STEP);
    expect(await run.report()).toMatchObject({ outcome: 'completed', leftToDo: [], result: { deleted: 1 } });
    expect(living()).toBe(0);
  });

  it('parked, skip: the tokens of one cluster', async () => {
    const run = await parkedInDeletion();
    await run.decide('skip', DELETE_STEP);
    const report = await run.report();
    await scenario.repairRecord();
    expect(report).toMatchObject({ outcome: 'completed', result: { tokens: [{ outcome: 'skipped' }] } });
    expect(report.leftToDo).toHaveLength(2);
  });

  it('parked, abort: a deletion that the record has not received', async () => {
    const run = await parkedInDeletion();
    await run.decide('abort', DELETE_STEP);
    expect(await run.report()).toMatchObject({ outcome: 'aborted' });
    await scenario.repairRecord();
  });

  it('taken over at a parked deletion', async () => {
    await expectTakenOver(scenario, await parkedInDeletion(), 'operationTokenDisposal');
    await scenario.repairRecord();
  });

  it('abort at a deletion', async () => {
    await leaveToken();
    const { reached, letGo } = hold(scenario, 'before', 'west', CHANGING.deleteToken);
    scenario.service.faults.add({ cluster: 'west', endpoint: CHANGING.deleteToken, action: 'reset' });
    const run = await start();
    await reached;
    await run.control('abort', { reason: 'not now' });
    expect(await run.report()).toMatchObject({ outcome: 'aborted' });
    letGo();
  });

  it('orphans are alarms, and tokens of open runs are left alone', async () => {
    const samples = { samples: 200, everySeconds: 10 };
    const sampler = await scenario.run('walSampler', samples, `walSampler:${scenario.name}:open`);
    const { runId: rid } = await sampler.handle.describe();
    await note({ state: 'orphan' });
    await note({ wid: sampler.handle.workflowId, rid, sealed: 'a.b.c.d.e' });
    await note({ sealed: 'not.a.sealed.value.x' });
    const report = await (await start()).report();
    await sampler.handle.terminate('end of the test');

    expect(report).toMatchObject({ outcome: 'completed', result: { deleted: 0 } });
    const codes = report.findings.map(({ severity, code }) => [severity, code]);
    expect(codes.sort()).toEqual([
      ['critical', 'orphan-token'],
      ['critical', 'token-not-proven-dead'],
    ]);
    expect(report.leftToDo.join('\n')).toMatch(/Ask the service's vendor/);
    expect(report.leftToDo.join('\n')).toMatch(/its run walSampler:.* is open/);
    expect(report.leftToDo.filter((each) => !each.startsWith('CRITICAL'))).toHaveLength(3);
    expect(statuses(scenario, 'west', CHANGING.deleteToken)).toEqual([]);

    // Whoever knows that the orphan was ended takes it off the record, and no other entry.
    const tokens = report.result?.['tokens'] as readonly { readonly number: number; readonly state: string }[];
    const numbers = (state: string) => tokens.filter((each) => each.state === state).map(({ number }) => number);
    const refused = await (await start({ forget: numbers('deletable') })).failure();
    expect(refused.message).toContain('observed deletable, needed an orphan');
    const forgetting = await start({ forget: numbers('orphan'), reason: 'DR was disabled and enabled on west' });
    await forgetting.approve('ceremony', 'henry');
    const forgotten = await forgetting.report();
    expect(forgotten).toMatchObject({ outcome: 'completed', leftToDo: [], tokens: [{ state: 'forgotten' }] });
    expect(forgotten.findings).toMatchObject([{ code: 'orphan-forgotten', severity: 'warning' }]);
    expect(forgotten.findings[0]?.text).toMatch(/requested by olga, approved by henry.*DR was disabled and enabled/);
    const ledger = new TokenLedger(scenario.recordsOfAWorker());
    expect((await ledger.all(scenario.name)).map(({ state }) => state)).toEqual(['alive', 'alive']);
  });

  it('refused: an unknown cluster, and a record that cannot be read', async () => {
    expect(await (await start({ cluster: 'north' })).failure()).toMatchObject({ code: 'UNKNOWN_CLUSTER' });
    expect(await (await start({ dryRun: true })).report()).toMatchObject({ outcome: 'planned' });
    await scenario.breakRecord();
    expect(await (await start()).failure()).toMatchObject({ code: 'PRECONDITION_FAILED' });
    await scenario.repairRecord();
  });
});
