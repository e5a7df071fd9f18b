/** A rehearsal of a key ceremony: everybody goes the whole way with a value that means nothing, and no cluster is called. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { rehearsalResult } from '../../src/contracts/rehearsals';
import type { RehearsedPerson } from '../../src/contracts/rehearsals';
import type { Report } from '../../src/contracts/report';
import { createEnvelope, createRehearsalEnvelope, parseShare, verifyRehearsal } from '../../src/secrets';
import type { Rehearsal } from '../../src/secrets';
import { cell, expectFewEvents } from '../support/matrix';
import { envelopeOf } from '../support/people';
import { replayRun } from '../support/replay';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';
import { temporalServer } from '../support/temporal-server';

jest.setTimeout(120_000);

const TOOL = 'runbook 9.8.7';

describe('ceremonyRehearsal', () => {
  let scenario: Scenario;
  beforeAll(async () => {
    scenario = await Scenario.start();
  });
  afterEach(async () => {
    // The simulated service's own record: what no activity, no workflow and no worker asked.
    expect(scenario.service.calls).toEqual([]);
    expect(await scenario.leaks()).toEqual([]);
  });
  afterAll(() => scenario.stop());

  const id = () => `rehearsal:${scenario.name}`;
  const start = (more: Readonly<Record<string, unknown>> = {}) =>
    scenario.startRunbook(
      'ceremonyRehearsal',
      { deployment: scenario.name, reason: 'every quarter', requestedBy: 'olga', ...more },
      id(),
    );
  const peopleOf = (report: Report): readonly RehearsedPerson[] => rehearsalResult.parse(report.result).people;
  const invitationOf = (run: TestRun, epoch = 1) =>
    run.until('an invitation', ({ invitation, waiting }) =>
      waiting.some((each) => each.for === 'rehearsal' && each.epoch === epoch) ? invitation : undefined,
    );

  async function answer(run: TestRun, holder: string, more: { readonly rehearsal?: Partial<Rehearsal> } = {}) {
    const person = scenario.person(holder);
    const invitation = await invitationOf(run);
    const pins = [{ environment: 'test', ...scenario.workersKey }];
    const { rehearsal, digest } = await verifyRehearsal(invitation, { pins, now: Date.now(), holder });
    const envelope = await createRehearsalEnvelope({
      rehearsal: { ...rehearsal, ...more.rehearsal },
      ...{ rehearsalDigest: digest, holder, seq: Date.now(), tool: TOOL, signingKey: person.key },
    });
    await run.handle.signal('share', { document: envelope });
  }

  it(cell('ceremonyRehearsal', 'no fault', 'everybody answers'), async () => {
    const run = await start();
    const waiting = await run.waitsFor('rehearsal');
    expect(waiting).toMatchObject({ answered: [], missing: ['ada', 'bert', 'cleo', 'dora', 'emil'], epoch: 1 });
    for (const holder of ['bert', 'ada', 'cleo', 'dora', 'emil']) await answer(run, holder);
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], findings: [] });
    expect(report.result).toMatchObject({ answered: 5, asked: 5 });
    for (const person of peopleOf(report))
      expect(person).toMatchObject({ answered: 'yes', how: 'signed', tool: TOOL, standBy: false });
    await expectFewEvents('ceremonyRehearsal', run);
    await replayRun(run);
    expect(await readdir(join(scenario.directory, 'keys'))).toEqual(['key-home']);
    // Kept for `readiness`, beside the ledger and beyond the run.
    const kept = join(scenario.directory, 'ledger', 'rehearsals');
    expect(await readdir(kept)).toHaveLength(5);
    expect(JSON.parse(await readFile(join(kept, `${scenario.name}.ada.json`), 'utf8'))).toMatchObject({
      ...{ holder: 'ada', how: 'signed', kid: scenario.person('ada').key.kid, tool: TOOL },
      ...{ workers: scenario.workersKey.kid, wid: id(), rid: report.runId },
    });
  });

  it(cell('ceremonyRehearsal', 'refused', 'somebody who is not on the roster'), async () => {
    const failure = await (await start({ holders: ['ada', 'mallory'] })).failure();
    expect(failure).toMatchObject({ code: 'INVALID_INPUT', message: expect.stringContaining('mallory') as string });
  });

  it('a dry run says who would be asked, and when each answered last', async () => {
    const dry = await scenario.startRunbook(
      'ceremonyRehearsal',
      { deployment: scenario.name, reason: 'a look', dryRun: true },
      `${id()}-dry`,
    );
    const report = await dry.report();
    expect(report.outcome).toBe('planned');
    expect(peopleOf(report)).toHaveLength(5);
    for (const person of peopleOf(report)) expect(Date.parse(person.before ?? '')).toBeGreaterThan(0);
  });

  it('ends when the time is over: who is missing is left to do, what was no answer is refused and says why', async () => {
    const run = await start({ holders: ['ada', 'bert', 'cleo'], collectFor: '10s' });
    await answer(run, 'ada');
    await run.waitsFor('rehearsal', ({ answered }) => answered.includes('ada'));
    // A share in plain text, a real envelope to the key of the rehearsal, an answer of somebody who is not invited.
    await run.handle.signal('share', { share: scenario.person('bert').share?.replace(/^.{8}/, '00000000') });
    const jws = await invitationOf(run);
    const bert = scenario.person('bert');
    const pins = [{ environment: 'test', ...scenario.workersKey }];
    const { rehearsal, digest } = await verifyRehearsal(jws, { pins, now: Date.now(), holder: 'bert' });
    await run.handle.signal('share', await realEnvelope(bert, rehearsal, digest));
    await expect(answer(run, 'dora')).rejects.toThrow('does not invite you');
    const report = await run.report();
    expect(report.outcome).toBe('completed');
    expect(peopleOf(report).map(({ name, answered }) => `${name} ${answered}`)).toEqual([
      'ada yes',
      'bert missing',
      'cleo missing',
    ]);
    expect(report.leftToDo.map((left) => left.split(' ')[0])).toEqual(['bert', 'cleo']);
    expect(report.receipts.map(({ code }) => code)).toEqual(['accepted', 'plain-text-share', 'share-in-rehearsal']);
    expect(report.findings.map(({ code, severity }) => `${code} ${severity}`).sort()).toEqual([
      'plain-text-share critical',
      'share-in-rehearsal warning',
    ]);
    await replayRun(run);
  });

  it('a real invitation and a rehearsal of the same moment take nothing of each other', async () => {
    const run = await start({ holders: ['ada'] });
    const jws = await invitationOf(run);
    // The tool for real ceremonies does not even read the invitation of a rehearsal.
    await expect(envelopeOf(scenario.person('ada'), jws, scenario.workersKey)).rejects.toThrow(
      'not of type runbooks-invitation-v1',
    );
    await answer(run, 'ada');
    expect((await run.report()).outcome).toBe('completed');
  });

  it(cell('ceremonyRehearsal', 'abort at', 'the wait for answers'), async () => {
    const run = await start();
    await answer(run, 'ada');
    await run.waitsFor('rehearsal', ({ answered }) => answered.includes('ada'));
    await run.handle.signal('abort', { by: 'olga', reason: 'another day' });
    const report = await run.report();
    expect(report.outcome).toBe('aborted');
    expect(report.leftToDo.join()).toContain('olga');
    expect(await readdir(join(scenario.directory, 'keys'))).toEqual(['key-home']);
  });

  it(cell('ceremonyRehearsal', 'parked, retry', 'after a reset'), async () => {
    const first = await start({ holders: ['ada'] });
    await invitationOf(first);
    const { runId } = await first.handle.describe();
    const events = (await first.handle.fetchHistory()).events ?? [];
    const before = events.find(
      ({ activityTaskScheduledEventAttributes: a }) => a?.activityType?.name === 'createRehearsal',
    );
    const { workflowTaskCompletedEventId } = before?.activityTaskScheduledEventAttributes ?? {};
    const { workflowService } = scenario.client;
    await workflowService.resetWorkflowExecution({
      namespace: temporalServer().namespace,
      workflowExecution: { workflowId: id(), runId },
      workflowTaskFinishEventId: workflowTaskCompletedEventId,
      requestId: runId,
      reason: 'a test',
    });
    const run = scenario.attach(id());
    const parked = await run.waitsFor('decision');
    expect(parked).toMatchObject({ code: 'RUN_WAS_RESET', step: 'Invite to the rehearsal' });
    await run.decide('retry');
    await answer(run, 'ada');
    expect((await run.report()).outcome).toBe('completed');
  });
});

/** What the holder's tool makes for a ceremony, forced into a rehearsal. */
async function realEnvelope(
  person: ReturnType<Scenario['person']>,
  { cid, epoch, recipient }: Rehearsal,
  invitationDigest: string,
): Promise<object> {
  const document = await createEnvelope({
    ...{ invitation: { cid, epoch, recipient }, invitationDigest, holder: person.name, seq: 1 },
    share: parseShare(person.share ?? ''),
    signingKey: person.key,
  });
  return { document };
}
