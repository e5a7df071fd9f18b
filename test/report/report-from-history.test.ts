import { reportFromHistory } from '../../src/report';
import type { ReportStep } from '../../src/contracts/report';
import type { RunFact } from '../../src/contracts/run-facts';
import { HistoryBuilder } from './support/history-builder';
import { finishedSwitchover, TIMES } from './support/switchover';
import { DIGEST, IDENTITY, INPUT, PLAN, when } from './support/switchover-data';

const iso = (at: number): string => new Date(when(at)).toISOString();
const position = ({ number, name }: ReportStep): string => `${number} ${name}`;

describe('a finished switchover', () => {
  const report = reportFromHistory(finishedSwitchover().build(), IDENTITY);

  it('tells outcome, plan, loss, tokens and final state', () => {
    expect(report).toMatchObject({
      ...IDENTITY,
      runbook: 'drSwitchover',
      deployment: 'payments',
      outcome: 'completed',
      reason: PLAN.reason,
      requestedBy: { name: 'olga', how: 'claimed' },
      startedAt: iso(0),
      endedAt: iso(TIMES.closed),
      plan: { digest: DIGEST, content: PLAN },
      loss: { loss: 'none', oldPrimaryRoot: 'a7f3c2', newPrimaryRoot: 'a7f3c2' },
      leftToDo: [],
    });
    expect(report.preconditions.map(({ verdict }) => verdict)).toEqual(['ok', 'ok', 'not-checkable']);
    expect(report.tokens.map(({ cluster, state }) => `${cluster} ${state}`)).toEqual([
      'west kept',
      'east deleted',
      'north deleted',
    ]);
    expect(report.finalState.map(({ cluster, dr }) => `${cluster} ${dr?.mode}`)).toEqual([
      'east secondary',
      'west primary',
      'north secondary',
    ]);
    expect(report.findings.map(({ code }) => code)).toEqual(['operation-token-kept']);
  });

  it('measures the outage from the demote call to the first success through the clients’ address', () => {
    expect(report.outage).toEqual({
      startedAt: iso(TIMES.demoteCalled),
      endedAt: iso(TIMES.probe),
      endedBy: 'probe',
      serviceReadyAt: iso(TIMES.serviceReady),
      probeAt: iso(TIMES.probe),
      totalMs: 9_400,
      serviceMs: 9_180,
      machineMs: 220,
      peopleMs: 0,
    });
    expect(report.withoutDrProtection).toEqual({
      from: iso(TIMES.demoteCalled),
      to: iso(TIMES.streaming),
      totalMs: 15_900,
    });
  });

  it('lists every step with its activities, and not the step that writes the report', () => {
    expect(
      report.steps
        .filter(({ number }) => number > 0)
        .map(({ number }) => number)
        .toSorted((a, b) => a - b),
    ).toEqual(Array.from({ length: 19 }, (_, index) => index + 1));
    expect(report.steps.every(({ outcome }) => outcome === 'done')).toBe(true);
    const joined = report.steps.find(({ name }) => name === 'Point north at west');
    expect(joined?.activities.map(({ type, cluster }) => `${type} ${cluster}`)).toEqual([
      'generateOperationToken north',
      'issueActivationToken north',
      'updatePrimary north',
    ]);
  });

  it('shows who opened gates and what became of each signal', () => {
    expect(report.gates.map(({ gate, state, by }) => [gate, state, by])).toEqual([
      ['plan', 'approved', [{ name: 'olga', how: 'signed' }]],
      ['go', 'approved', [{ name: 'olga', how: 'signed' }]],
    ]);
    expect(report.receipts.map(({ signal, arrival, from }) => `${signal} ${arrival} ${from?.name}`)).toEqual([
      'share 1 ann',
      'share 2 ben',
      'share 3 cleo',
      'approve 1 olga',
      'approve 2 olga',
    ]);
    expect(report.signals.every(({ answered }) => answered)).toBe(true);
  });

  it('is told the same while its last activity writes the report', () => {
    const live = reportFromHistory(finishedSwitchover().build(TIMES.composed), IDENTITY);
    const same = { asOfEvent: 0, historyEvents: 0, endedAt: '' };
    expect({ ...live, ...same }).toEqual({ ...report, ...same });
  });
});

describe('retries', () => {
  it('are counted, and shown as one activity with the observed value of the last', () => {
    const history = finishedSwitchover((same) =>
      same.type === 'promoteSecondary' ? { ...same, tries: 3, lastFailure: 'application', startedAt: 69_000 } : same,
    );
    const promote = reportFromHistory(history.build(), IDENTITY).steps.find(({ name }) => name === 'Promote west');
    expect(promote?.activities).toEqual([
      expect.objectContaining({ tries: 3, outcome: 'done', observed: 'primary, running', startedAt: iso(67_450) }),
    ]);
  });

  it('give a line for each attempt that an operator decided on, with what was decided', () => {
    const fact: RunFact[] = [
      {
        kind: 'parked',
        at: when(300),
        step: 'Read',
        parkingNo: 1,
        code: 'UNREACHABLE',
        message: 'no connection',
        choices: ['retry', 'abort'],
      },
      {
        kind: 'decided',
        at: when(900),
        step: 'Read',
        parkingNo: 1,
        action: 'retry',
        by: { name: 'bob', how: 'claimed' },
        reason: 'network is back',
      },
    ];
    const history = new HistoryBuilder()
      .started('drSwitchover', INPUT)
      .activity({
        type: 'readDeployment',
        step: { name: 'Read', number: 1 },
        scheduledAt: 100,
        endedAt: 250,
        failure: { code: 'UNREACHABLE', message: 'no connection' },
      })
      .activity({
        type: 'readDeployment',
        step: { name: 'Read', number: 1, attempt: 2 },
        facts: fact,
        scheduledAt: 950,
        endedAt: 1_000,
        result: { observations: [] },
      });
    const report = reportFromHistory(history.build(), IDENTITY);
    expect(report.steps.map(({ attempt, outcome, activities }) => [attempt, outcome, activities[0]?.observed])).toEqual(
      [
        [1, 'failed', 'UNREACHABLE: no connection'],
        [2, 'done', '0 clusters read'],
      ],
    );
    expect(report.parkings).toEqual([
      {
        step: 'Read',
        parkingNo: 1,
        at: iso(300),
        code: 'UNREACHABLE',
        message: 'no connection',
        decision: { action: 'retry', by: { name: 'bob', how: 'claimed' }, reason: 'network is back', at: iso(900) },
      },
    ]);
    expect(report.outcome).toBe('running');
  });
});

describe('facts', () => {
  const receipt: RunFact = {
    kind: 'receipt',
    at: when(50),
    signal: 'pause',
    arrival: 1,
    verdict: 'refused',
    code: 'malformed',
    text: 'malformed',
  };
  const finding: RunFact = { kind: 'finding', at: when(60), severity: 'warning', code: 'same', text: 'the same text' };

  it('that say the same are two facts, and one that travels twice is one', () => {
    const history = new HistoryBuilder()
      .started('drSwitchover', INPUT)
      .activity({
        type: 'readDeployment',
        step: { name: 'Read', number: 1 },
        facts: [finding, finding],
        scheduledAt: 100,
        endedAt: 200,
      })
      .activity({
        type: 'composeReport',
        step: { name: 'Write the report', number: 2 },
        facts: [receipt],
        input: { outcome: 'aborted', leftToDo: ['look'], facts: [receipt, receipt] },
        scheduledAt: 300,
        endedAt: 400,
      });
    const report = reportFromHistory(history.build(), IDENTITY);
    expect(report.findings).toHaveLength(2);
    expect(report.receipts).toHaveLength(2);
    expect([report.outcome, report.leftToDo]).toEqual(['aborted', ['look']]);
  });

  it('that an activity reported and the workflow repeated are one finding', () => {
    const { severity, code, text } = finding;
    const history = new HistoryBuilder()
      .started('drSwitchover', INPUT)
      .activity({
        type: 'readDeployment',
        step: { name: 'Read', number: 1 },
        scheduledAt: 10,
        endedAt: 50,
        result: { findings: [{ severity, code, text }] },
      })
      .activity({
        type: 'readDeployment',
        step: { name: 'Read again', number: 2 },
        facts: [finding],
        scheduledAt: 100,
        endedAt: 200,
      });
    expect(reportFromHistory(history.build(), IDENTITY).findings).toEqual([{ severity, code, text, at: iso(50) }]);
  });

  it('of an unknown shape are left out and counted', () => {
    const unknown = { kind: 'sorcery', at: when(1), text: '<b>' } as unknown as RunFact;
    const history = new HistoryBuilder().started('drSwitchover', INPUT).activity({
      type: 'readDeployment',
      step: { name: 'Read', number: 1 },
      facts: [unknown, finding],
      scheduledAt: 10,
      endedAt: 50,
    });
    expect(reportFromHistory(history.build(), IDENTITY).findings.map(({ code }) => code)).toEqual([
      'facts-unreadable',
      'same',
    ]);
  });

  it('that no activity carried any more are taken from the results of the activities that judged', () => {
    const by = { name: 'olga', how: 'principal' } as const;
    const decision = { step: 'Read', parkingNo: 1, action: 'abort', reason: 'enough', rid: IDENTITY.runId };
    const history = new HistoryBuilder()
      .started('drSwitchover', INPUT)
      .activity({
        type: 'readDeployment',
        step: { name: 'Other', number: 2 },
        facts: [
          {
            kind: 'parked',
            at: when(20),
            step: 'Read',
            parkingNo: 1,
            code: 'UNREACHABLE',
            message: 'no connection',
            choices: ['abort'],
          },
        ],
        scheduledAt: 30,
        endedAt: 40,
      })
      .signal('decide', 90, { document: 'x' }, { principal: 'olga' })
      .judgement('checkDecisions', 100, {
        verdicts: [{ arrival: 1, accepted: true, code: 'accepted', text: 'accepted', by, decision }],
      })
      .judgement('checkUnaskedShares', 110, {
        verdicts: [{ arrival: 1, code: 'wrong-epoch', text: 'refused: made for another round' }],
      })
      .terminated(200, 'x');
    const report = reportFromHistory(history.build(), IDENTITY);
    expect(report.receipts).toEqual([
      { signal: 'decide', arrival: 1, verdict: 'accepted', code: 'accepted', text: 'accepted', from: by, at: iso(100) },
      {
        signal: 'share',
        arrival: 1,
        verdict: 'refused',
        code: 'wrong-epoch',
        text: 'refused: made for another round',
        at: iso(110),
      },
    ]);
    expect(report.parkings[0]?.decision).toEqual({ action: 'abort', by, reason: 'enough', at: iso(100) });
  });
});

describe('the end of a run', () => {
  it('that handed over names the run that goes on', () => {
    const result = { outcome: 'handed-over', workflowId: 'deployment:payments', runId: 'real-run' };
    const report = reportFromHistory(
      new HistoryBuilder().started('drSwitchover', INPUT).completed(50, result).build(),
      IDENTITY,
    );
    expect(report.outcome).toBe('handed-over');
    expect(report.findings[0]?.text).toBe('The run goes on as deployment:payments, Run ID real-run.');
  });

  it('that refused itself is its own word, also where Temporal shows a failure', () => {
    const history = new HistoryBuilder()
      .started('drSwitchover', INPUT)
      .activity({
        type: 'composeReport',
        step: { name: 'Write the report', number: 1 },
        input: { outcome: 'refused', leftToDo: [], facts: [] },
        scheduledAt: 10,
        endedAt: 20,
      })
      .failed(30, { code: 'PRECONDITION_FAILED', message: 'Nothing was touched.' });
    expect(reportFromHistory(history.build(), IDENTITY)).toMatchObject({ outcome: 'refused', findings: [] });
  });

  it('gives the steps without activities the numbers that are missing', () => {
    const facts: RunFact[] = [
      { kind: 'step-ended', at: when(90), step: 'Think', outcome: 'done' },
      { kind: 'step-ended', at: when(95), step: 'Read', outcome: 'already' },
    ];
    const history = new HistoryBuilder()
      .started('drSwitchover', INPUT)
      .activity({ type: 'readDeployment', step: { name: 'Read', number: 1 }, scheduledAt: 10, endedAt: 80 })
      .activity({
        type: 'readDeployment',
        step: { name: 'Read again', number: 3 },
        facts,
        scheduledAt: 100,
        endedAt: 200,
      });
    expect(reportFromHistory(history.build(), IDENTITY).steps.map((step) => [position(step), step.outcome])).toEqual([
      ['1 Read', 'already'],
      ['2 Think', 'done'],
      ['3 Read again', 'done'],
    ]);
  });
});
