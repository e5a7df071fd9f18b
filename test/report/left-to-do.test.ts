import type { ReportStep } from '../../src/contracts/report';
import { exitCodeOfRun } from '../../src/cli/errors';
import { headlineOf } from '../../src/report/headlines';
import { reportOf } from '../../src/report/report-of-run';
import type { ActivitySpecification } from './support/run-builder';
import { RunBuilder, iso, parked, when } from './support/run-builder';
import { TIMES, finishedSwitchover } from './support/switchover';

const position = ({ number, name }: ReportStep): string => `${number} ${name}`;

describe('a run that was terminated', () => {
  const full = reportOf(finishedSwitchover().build());
  const times = finishedSwitchover()
    .times()
    .filter((at) => at < TIMES.closed);

  it.each(times)('at %d ms has no step that the whole run does not have, and no clean-up that ran', (at) => {
    const report = reportOf(finishedSwitchover().terminatedAt(at, 'by mistake', 'mallory'));
    expect(report).toMatchObject({ outcome: 'terminated', endedAt: iso(at + 1) });
    expect(full.steps.map(position)).toEqual(expect.arrayContaining(report.steps.map(position)));
    expect(report.findings.find(({ code }) => code === 'run-terminated')?.text).toContain(
      'by mallory, reason given: by mistake. No clean-up ran.',
    );
    expect(report.outage !== undefined).toBe(at >= 65_000);
    // Service was ready before the probe began; while the probe runs it is not known that clients are served.
    expect(report.outage?.endedAt !== undefined).toBe(at === 73_050 || at >= 74_550);
    // A run that ended before it touched anything that outlives it leaves nothing.
    expect(report.leftToDo.length > 0).toBe(at >= 1_500);
  });

  const leftToDoAt = (at: number): string => reportOf(finishedSwitchover().terminatedAt(at)).leftToDo.join('\n');

  it('names the findings of the run, steps without a decision, and the tokens and keys that are left', () => {
    const run = finishedSwitchover()
      .left('West has not been confirmed to serve.')
      .fact(parked(76_300, 'Collect key shares', 'SHARES_MISSING', 'too few', 2))
      .fact({ kind: 'unparked', at: when(76_350), parkingNo: 2 })
      .fact(parked(76_400, 'Point east at west'));
    const [first, second, ...secrets] = reportOf(run.terminatedAt(76_500)).leftToDo;
    expect([first, second]).toEqual([
      'West has not been confirmed to serve.',
      expect.stringContaining('no decision was made'),
    ]);
    const left = secrets.join('\n');
    expect(left).toContain('A DR operation token of west was generated and is not proven deleted');
    expect(left).toContain('The keys of ceremony c-1, round 1 on key home home-1 were not destroyed');
    const last = leftToDoAt(87_000);
    expect(last).not.toContain('ceremony');
    expect(last).toContain('Later: the next run on payments deletes the operation token of west, which stays sealed');
  });

  it('warns of a generation attempt that may be open', () => {
    expect(leftToDoAt(40_500)).toContain('A generation attempt on west may be open, or its token may exist');
    expect(leftToDoAt(40_500)).toContain('only if its fingerprint is AB12');
  });
});

it('a refused write is left to do until one succeeds: until then the headline and the exit code show it', () => {
  const text = 'west took no write of the workers: PERMISSION_DENIED.';
  const refused = { kind: 'finding', at: when(10), severity: 'critical', code: 'write-not-proven', text } as const;
  const write = (scheduledAt: number, more: Partial<ActivitySpecification>): ActivitySpecification => ({
    ...{ type: 'proveWrite', step: { name: 'Verify that west accepts a write', number: 1 }, scheduledAt, ...more },
  });
  const denied = write(5, { endedAt: 10, failure: { code: 'PERMISSION_DENIED', message: 'no' } });
  const told = (...writes: readonly ActivitySpecification[]) => {
    const report = reportOf(new RunBuilder(writes, [refused]).ended(30, 'completed').build());
    expect(report.findings).toHaveLength(1);
    return [report.leftToDo, exitCodeOfRun(report), headlineOf(report).text.includes('1 critical finding.')];
  };
  expect(told(denied)).toEqual([[`CRITICAL: ${text}`], 8, true]);
  expect(told(denied, write(15, { endedAt: 20, result: {} }))).toEqual([[], 0, false]);
});

it('names every critical finding, once', () => {
  const finding = { kind: 'finding', severity: 'critical', code: 'no-primary', next: 'Promote one.' } as const;
  const leftOf = (leftToDo: readonly string[]) => {
    const run = new RunBuilder([], [{ ...finding, at: when(10), text: 'No cluster is primary.' }]);
    return reportOf(run.ended(20, 'completed', { leftToDo }).build()).leftToDo;
  };
  expect(leftOf([])).toEqual(['CRITICAL: No cluster is primary. Promote one.']);
  const own = ['No cluster is primary. Promote west.'];
  expect(leftOf(own)).toEqual(own);
});

type Change = Pick<ActivitySpecification, 'type' | 'input' | 'result' | 'failure'>;

/** A run that did this, one after the other; what has neither result nor failure was under way. */
function runThat(changes: readonly Change[], runbook?: string): RunBuilder {
  return new RunBuilder(
    changes.map((change, index) => {
      const at = 100 * (index + 1);
      const ended = change.result !== undefined || change.failure !== undefined;
      return { ...change, scheduledAt: at, startedAt: at, ...(ended && { endedAt: at + 50 }) };
    }),
    [],
    runbook,
  );
}

const WEST = { deployment: 'payments', cluster: 'west' };

it('names a corrupted tree until the run itself found it sound', () => {
  const corrupted = { verdict: 'corrupted', text: 'The Merkle tree of west is corrupted.' };
  const critical = { kind: 'finding', severity: 'critical', code: 'merkle-tree-corrupted' } as const;
  const leftOf = (...later: readonly Pick<Change, 'result' | 'failure'>[]) => {
    const checks = [{ result: corrupted }, ...later].map((check) => ({
      type: 'probeMerkleTree',
      input: WEST,
      ...check,
    }));
    const run = runThat(checks).fact({ ...critical, at: when(150), text: corrupted.text });
    return reportOf(run.ended(900, 'completed').build()).leftToDo;
  };
  const open = ['CRITICAL: The Merkle tree of west is corrupted.'];
  expect(leftOf()).toEqual(open);
  expect(leftOf({ failure: { code: 'PERMISSION_DENIED', message: 'no', outcomeKnown: true } })).toEqual(open);
  expect(leftOf({ result: corrupted })).toEqual(open);
  expect(leftOf({ result: { verdict: 'sound', text: 'The Merkle tree of west is sound.' } })).toEqual([]);
});

describe('a token that the run had, from any source', () => {
  const reportAfter = (changes: readonly Change[]) => reportOf(runThat(changes).terminatedAt(900));
  const taken = { type: 'takeKeptToken', input: WEST, result: { token: 'eyJ.sealed', observed: 'kept' } };
  const given = { type: 'takeProvidedTokens', result: { verdicts: [{ cluster: 'west', token: 'eyJ.sealed' }] } };
  const refused = { type: 'probeProvidedToken', input: WEST, result: { state: 'refused' } };
  const generation = (kind: string, result?: object) => ({
    ...{ type: 'completeGeneration', input: { ...WEST, wanted: { kind } }, result },
  });
  const settled = { type: 'settleGeneration', input: WEST, result: { next: 'again' } };
  const disposals = [{ cluster: 'west', state: 'deleted', text: 'deleted' }];
  const deleted = { type: 'deleteOperationTokens', input: {}, result: { disposals } };

  it.each<readonly [string, readonly Change[], string]>([
    ['taken from the record', [taken], 'was claimed from the record and is not proven deleted'],
    ['given by a person', [given], 'was given by a person and is not proven deleted'],
    ['generated', [generation('operation-token', { sealed: 'eyJ' })], 'was generated and is not proven deleted'],
    ['may have been generated', [generation('operation-token')], 'attempt on west may be open, or its token may exist'],
  ])('%s: it is left to do, and in the report, until it is proven deleted', (_how, changes, text) => {
    expect(reportAfter(changes).leftToDo.join()).toContain(text);
    const states = (more: readonly Change[]) => reportAfter(more).tokens.map(({ state }) => state);
    expect(states(changes)).toEqual(['unproven']);
    expect(states([...changes, deleted])).toEqual(['deleted']);
  });

  it.each<readonly [string, readonly Change[], readonly string[]]>([
    ['none if its cluster refused the given token', [given, refused], []],
    ['one again if a person gave another', [given, refused, given], ['was given by a person']],
    ['none if it was found out that none was generated', [generation('operation-token'), settled], []],
    [
      'one that an earlier run left and that is not proven deleted',
      [{ ...deleted, result: { disposals: [{ cluster: 'west', state: 'unproven', text: 'no answer' }] } }],
      ['was left by an earlier run'],
    ],
    ['a root token, which its recipient revokes', [generation('root-token', { encrypted: 'x' })], ['revoke -self']],
    [
      'an operation token that was made for a person',
      [generation('operation-token', { encrypted: 'x' })],
      ['A DR operation token of west was generated, encrypted to its recipient, and never expires'],
    ],
    ['a root token that may exist', [generation('root-token')], ['a root token may exist that nobody holds']],
    [
      'in doubt still if another token of the cluster was deleted',
      [generation('operation-token'), deleted],
      ['its token may exist'],
    ],
  ])('%s', (_what, changes, texts) => {
    expect(reportAfter(changes).leftToDo).toEqual(texts.map((text) => expect.stringContaining(text) as string));
  });

  it('is a root token if that was found out late, in a ceremony for one', () => {
    const found = { ...settled, result: { encrypted: 'x' } };
    const { leftToDo } = reportOf(runThat([found], 'rootTokenCeremony').terminatedAt(900));
    expect(leftToDo.join()).toContain('revoke -self');
  });
});
