import type { ReportStep } from '../../src/contracts/report';
import { reportOf } from '../../src/report/report-of-run';
import type { ActivitySpecification } from './support/run-builder';
import { iso, parked, RunBuilder, when } from './support/run-builder';
import { finishedSwitchover, TIMES } from './support/switchover';

const position = ({ number, name }: ReportStep): string => `${number} ${name}`;

describe('a run that was terminated', () => {
  const full = reportOf(finishedSwitchover().build());
  const times = finishedSwitchover()
    .times()
    .filter((at) => at < TIMES.closed);

  it.each(times)('at %d ms tells no step that the whole run does not have, and that no clean-up ran', (at) => {
    const report = reportOf(finishedSwitchover().terminatedAt(at, 'by mistake', 'mallory'));
    expect(report.outcome).toBe('terminated');
    expect(report.endedAt).toBe(iso(at + 1));
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

  it('names what the run said, steps that nobody decided on, and the tokens and keys that are left', () => {
    const run = finishedSwitchover().left('West was not seen to serve.').fact(parked(76_400, 'Point east at west'));
    const [first, second, ...secrets] = reportOf(run.terminatedAt(76_500)).leftToDo;
    expect([first, second]).toEqual(['West was not seen to serve.', expect.stringContaining('nobody decided on it')]);
    const left = secrets.join('\n');
    expect(left).toContain('A DR operation token of west was generated and is not proven deleted');
    expect(left).toContain('The keys of ceremony c-1, round 1 on key home home-1 were not destroyed');
    const last = leftToDoAt(87_000);
    expect(last).not.toContain('ceremony');
    expect(last).toContain('The DR operation token of west was kept, sealed');
  });

  it('names whatever is critical, once', () => {
    const finding = { kind: 'finding', severity: 'critical', code: 'no-primary', next: 'Promote one.' } as const;
    const leftOf = (leftToDo: readonly string[]) =>
      reportOf(
        new RunBuilder()
          .started('drSwitchover', {})
          .fact({ ...finding, at: when(10), text: 'No cluster is primary.' })
          .ended(20, 'completed', { leftToDo })
          .build(),
      ).leftToDo;
    expect(leftOf([])).toEqual(['CRITICAL: No cluster is primary. Promote one.']);
    const own = ['No cluster is primary. Promote west.'];
    expect(leftOf(own)).toEqual(own);
  });

  it('names a corrupted tree until the run itself saw it sound', () => {
    const corrupted = { verdict: 'corrupted', text: 'The Merkle tree of west is corrupted.' };
    const critical = { kind: 'finding', severity: 'critical', code: 'merkle-tree-corrupted' } as const;
    const leftOf = (...later: readonly Pick<ActivitySpecification, 'result' | 'failure'>[]) => {
      const run = new RunBuilder().started('drReindex', {});
      run.fact({ ...critical, at: when(150), text: corrupted.text });
      [{ result: corrupted }, ...later].forEach((check, index) => {
        const at = 100 * (index + 1);
        run.activity({
          type: 'probeMerkleTree',
          input: WEST,
          ...check,
          scheduledAt: at,
          startedAt: at,
          endedAt: at + 50,
        });
      });
      return reportOf(run.ended(900, 'completed').build()).leftToDo;
    };
    const open = ['CRITICAL: The Merkle tree of west is corrupted.'];
    expect(leftOf()).toEqual(open);
    expect(leftOf({ failure: denied })).toEqual(open);
    expect(leftOf({ result: corrupted })).toEqual(open);
    expect(leftOf({ result: { verdict: 'sound', text: 'The Merkle tree of west is sound.' } })).toEqual([]);
  });

  it('warns of a generation attempt that may be open', () => {
    expect(leftToDoAt(40_500)).toContain('A generation attempt on west may be open, or its token may exist');
    expect(leftToDoAt(40_500)).toContain('only if its fingerprint is AB12');
  });
});

type Change = Pick<ActivitySpecification, 'type' | 'input' | 'result' | 'failure'>;

/** A run that did this, one after the other, and was terminated; what has neither result nor failure was under way. */
function reportAfter(changes: readonly Change[]) {
  const run = new RunBuilder().started('drSwitchover', { deployment: 'payments' });
  changes.forEach((change, index) => {
    const at = 100 * (index + 1);
    const ended = change.result !== undefined || change.failure !== undefined;
    run.activity({ ...change, scheduledAt: at, startedAt: at, ...(ended && { endedAt: at + 50 }) });
  });
  return reportOf(run.terminatedAt(900));
}
const left = (changes: readonly Change[]) => reportAfter(changes).leftToDo.join('\n');

const denied = { code: 'PERMISSION_DENIED', message: 'no', outcomeKnown: true };
const WEST = { deployment: 'payments', cluster: 'west' };
describe('a token that the run had, however it came by it', () => {
  const taken = { type: 'takeKeptToken', input: WEST, result: { token: 'eyJ.sealed', observed: 'kept' } };
  const given = { type: 'takeProvidedTokens', result: { verdicts: [{ cluster: 'west', token: 'eyJ.sealed' }] } };
  const probed = { type: 'probeProvidedToken', input: WEST, result: { state: 'refused' } };
  const generating = { type: 'completeGeneration', input: { ...WEST, wanted: { kind: 'operation-token' } } };
  const disposals = [{ cluster: 'west', state: 'deleted', text: 'deleted' }];
  const deleted = { type: 'deleteOperationTokens', input: {}, result: { disposals } };

  it.each([
    ['taken from the record', [taken], 'was taken from the record and is not proven deleted'],
    ['given by a person', [given], 'was given by a person and is not proven deleted'],
    ['may have been generated', [generating], 'A generation attempt on west may be open, or its token may exist'],
  ] as const)('%s: it is left to do, and in the report, until it is proven deleted', (_how, changes, text) => {
    const states = (more: readonly Change[]) => reportAfter(more).tokens.map(({ state }) => state);
    expect(left(changes)).toContain(text);
    expect(states(changes)).toEqual(['unproven']);
    expect(states([...changes, deleted])).toEqual(['deleted']);
  });

  it('is none where its cluster refused what a person gave', () => {
    expect(left([given, probed])).toBe('');
    expect(left([given, probed, given])).toContain('was given by a person');
  });
});
