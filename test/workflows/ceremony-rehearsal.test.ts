/** A rehearsal of a key ceremony: everybody goes the whole way with a value that means nothing, and no cluster is called. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { rehearsals } from '../../activities/ceremony/rehearsal';
import { programVersion } from '../../src/dev-server/locations';
import type { RehearsedPerson } from '../../workflows/runbooks/ceremony-rehearsal';
import type { Report } from '../../src/contracts/report';
import { envelopeInput } from '../../src/documents/envelope';
import {
  addPin,
  createEnvelope,
  createRehearsalEnvelope,
  formatPublicKey,
  parseShare,
  verifyInvitation,
} from '../../src/keys';
import { cli } from '../cli/support';
import { ceremonyKeyFiles } from '../support/directory';
import { expectFewEvents } from '../support/matrix';
import { replayRun } from '../support/replay';
import { openScenario } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';

jest.setTimeout(240_000);

const TOOL = 'runbook 9.8.7';
/** A holder without a signing key. */
const CLAIMED = 'emil';

describe('ceremonyRehearsal', () => {
  let scenario: Scenario;
  openScenario((opened) => (scenario = opened), {
    person: (name) => (name === CLAIMED ? { attestation: 'claimed' } : undefined),
  });
  afterEach(async () => {
    // The simulated service's own record: what no activity, no workflow and no worker asked.
    expect(scenario.service.calls).toEqual([]);
  });

  const id = () => `rehearsal:${scenario.name}`;
  const start = (more: Readonly<Record<string, unknown>> = {}) => scenario.run('ceremonyRehearsal', more, id());
  const peopleOf = (report: Report): readonly RehearsedPerson[] =>
    report.result?.['people'] as readonly RehearsedPerson[];

  /** What the holder's tool makes of the invitation. */
  async function read(run: TestRun, holder: string) {
    const pins = [{ environment: 'test', ...scenario.workersKey }];
    const pinned = { pins, now: Date.now(), holder };
    const { invitation, digest } = await verifyInvitation(await run.invitation(), pinned, 'rehearsal');
    return { invitation, invitationDigest: digest };
  }

  async function answer(run: TestRun, holder: string) {
    const envelope = await createRehearsalEnvelope({
      ...{ ...(await read(run, holder)), holder, seq: Date.now(), tool: TOOL },
      signingKey: scenario.person(holder).key,
    });
    await run.handle.signal('share', envelopeInput(envelope));
  }

  it('no fault: everybody answers', async () => {
    const run = await start();
    const waiting = await run.waitsFor('rehearsal');
    expect(waiting).toMatchObject({ answered: [], missing: ['ada', 'bert', 'cleo', 'dora', 'emil'], epoch: 1 });
    for (const holder of ['bert', 'ada', 'cleo', 'dora']) await answer(run, holder);
    // What a holder does: one command, which finds the invitation by itself and asks for no share.
    const pins = join(scenario.directory, 'pins.json');
    await addPin(pins, 'test', formatPublicKey(scenario.workersKey));
    const words = ['share', id(), '--holder', CLAIMED, '--confirm', scenario.name];
    const told = await cli(words, { env: { ...scenario.environment, RUNBOOKS_PINS: pins }, answers: [] });
    expect([told.code, told.out]).toEqual([0, expect.stringContaining('rehearsed: tool, key and access work')]);
    scenario.shows(told.out, told.err);
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], findings: [] });
    expect(report.result).toMatchObject({ answered: 5, asked: 5 });
    for (const person of peopleOf(report))
      expect(person).toMatchObject({
        ...{ answered: 'yes', standBy: false },
        ...(person.name === CLAIMED
          ? { how: 'claimed', tool: `runbook ${programVersion()}` }
          : { how: 'signed', tool: TOOL }),
      });
    await expectFewEvents('ceremonyRehearsal', run);
    await replayRun(run);
    expect(ceremonyKeyFiles(join(scenario.directory, 'keys'))).toEqual([]);
    // Kept for `readiness`, in the record and beyond the run.
    const kept = await rehearsals.all(scenario.recordsOfAWorker(), scenario.name);
    expect(kept.size).toBe(5);
    expect(kept.get('ada')).toMatchObject({
      ...{ holder: 'ada', how: 'signed', kid: scenario.person('ada').key.kid, tool: TOOL },
      ...{ workers: scenario.workersKey.kid, wid: id(), rid: report.runId },
    });
  });

  it('refused: somebody who is not on the roster', async () => {
    const failure = await (await start({ holders: ['ada', 'mallory'] })).failure();
    expect(failure).toMatchObject({ code: 'INVALID_INPUT', message: expect.stringContaining('mallory') as string });
    // A dry run says who would be asked, and when each answered last.
    const dry = await (await start({ dryRun: true })).report();
    expect([dry.outcome, peopleOf(dry).length]).toEqual(['planned', 5]);
    for (const person of peopleOf(dry)) expect(Date.parse(person.before ?? '')).toBeGreaterThan(0);
  });

  it('ends when the time is over: missing people are left to do', async () => {
    const report = await (await start({ holders: ['ada'], collectFor: '1s' })).report();
    expect(report).toMatchObject({ outcome: 'completed', findings: [], result: { answered: 0, asked: 1 } });
    expect(report.leftToDo.join()).toContain('ada did not rehearse (before: last on');
  });

  it('an invalid answer is refused with its reason; if its key is gone the rehearsal ends, and names the missing people', async () => {
    const run = await start({ holders: ['ada', 'bert', 'cleo'] });
    await answer(run, 'ada');
    await run.waitsFor('rehearsal', ({ answered }) => answered.includes('ada'));
    // A share in plain text, a real envelope to the key of the rehearsal, an answer of somebody who is not invited.
    await run.handle.signal('share', { share: scenario.person('bert').share?.replace(/^.{8}/, '00000000') });
    const real = { ...(await read(run, 'bert')), holder: 'bert', seq: 1, share: parseShare('e1'.repeat(33)) };
    const document = await createEnvelope({ ...real, signingKey: scenario.person('bert').key });
    await run.handle.signal('share', { document });
    await expect(answer(run, 'dora')).rejects.toThrow('does not invite you');
    await run.until('receipts', ({ receipts }) => receipts.length === 3);
    for (const path of ceremonyKeyFiles(join(scenario.directory, 'keys'))) await rm(path);
    await answer(run, 'bert');
    const report = await run.report();
    expect(report.outcome).toBe('completed');
    expect(peopleOf(report).map(({ name, answered }) => `${name} ${answered}`)).toEqual([
      'ada yes',
      'bert missing',
      'cleo missing',
    ]);
    expect(report.leftToDo.map((left) => left.split(' ')[0])).toEqual(['bert', 'cleo', 'CRITICAL:']);
    expect(report.receipts.map(({ code }) => code)).toEqual([
      ...['accepted', 'plain-text-share', 'other-kind', 'keys-gone'],
    ]);
    // No other invitation follows.
    expect(report.receipts.at(-1)?.text).toContain('are gone, so it does not count');
    expect(report.findings.map(({ code, severity }) => `${code} ${severity}`).sort()).toEqual([
      'plain-text-share critical',
      'rehearsal-key-lost warning',
    ]);
    await replayRun(run);
  });

  it('abort at: the wait for answers', async () => {
    const run = await start();
    await answer(run, 'ada');
    await run.waitsFor('rehearsal', ({ answered }) => answered.includes('ada'));
    await run.control('abort', { reason: 'another day' });
    const report = await run.report();
    expect(report.outcome).toBe('aborted');
    expect(report.leftToDo.join()).toContain('stopped by grace');
    expect(ceremonyKeyFiles(join(scenario.directory, 'keys'))).toEqual([]);
  });

  it('parked, retry: after a reset, it invites again', async () => {
    const first = await start({ holders: ['ada'] });
    await first.invitation();
    const run = await first.reset('createRehearsal');
    expect(await run.waitsFor('decision')).toMatchObject({ code: 'RUN_WAS_RESET', step: 'Invite to the rehearsal' });
    await run.decide('retry');
    await answer(run, 'ada');
    expect((await run.report()).outcome).toBe('completed');
  });

  it('parked, skip: the key stays to the sweeper', async () => {
    const first = await start({ holders: ['ada'] });
    await answer(first, 'ada');
    await first.report();
    const run = await first.reset('destroyCeremonyKeys');
    await run.decide('skip', 'Destroy the ceremony keys');
    const report = await run.report();
    expect([report.outcome, report.result]).toEqual(['completed', expect.objectContaining({ answered: 1 })]);
    expect(report.leftToDo.join()).toContain('the sweeper');
  });
});
