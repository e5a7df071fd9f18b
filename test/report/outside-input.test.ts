import { reportFromHistory } from '../../src/report';
import { readHistory } from '../../src/report/history-events';
import { HistoryBuilder, undecodablePayload } from './support/history-builder';
import { finishedSwitchover } from './support/switchover';
import { IDENTITY, INPUT, when } from './support/switchover-data';

const iso = (at: number): string => new Date(when(at)).toISOString();

describe('what comes from outside', () => {
  it('may be a start input that cannot be decoded', () => {
    for (const encoding of ['json/plain', 'json/protobuf', 'binary/encrypted']) {
      const history = new HistoryBuilder()
        .started('drSwitchover', undefined, { inputPayload: undecodablePayload(encoding, '{canary-7f3a') })
        .failed(50, { code: 'INVALID_INPUT', message: 'The input could not be read.' });
      const report = reportFromHistory(history.build(), IDENTITY);
      expect([report.outcome, report.deployment, report.outage, report.steps]).toEqual([
        'failed',
        undefined,
        undefined,
        [],
      ]);
      expect(report.findings.map(({ code }) => code)).toEqual(['start-input-undecodable', 'run-failed']);
      expect(JSON.stringify(report)).not.toContain('canary-7f3a');
    }
  });

  it('may be signals of unknown names and senders, in any encoding', () => {
    const history = new HistoryBuilder()
      .started('drSwitchover', INPUT)
      .signal('share', 10, undefined, { inputPayload: undecodablePayload('binary/encrypted', 'x') })
      .signal('please-promote', 20, 'now')
      .signal('constructor', 30, {}, { principal: 'eve' });
    expect(reportFromHistory(history.build(), IDENTITY).signals).toEqual([
      { signal: 'share', arrival: 1, at: iso(10), answered: false },
      { signal: 'unknown', arrival: 1, at: iso(20), answered: false },
      { signal: 'unknown', arrival: 2, at: iso(30), sender: { name: 'eve', how: 'principal' }, answered: false },
    ]);
  });

  it('names the requester by the principal, except where a worker handed the run over', () => {
    const requester = (parent?: string) =>
      reportFromHistory(
        new HistoryBuilder()
          .started('drSwitchover', INPUT, { principal: 'worker-7', ...(parent !== undefined && { parent }) })
          .build(),
        IDENTITY,
      ).requestedBy;
    expect(requester()).toEqual({ name: 'worker-7', how: 'principal' });
    expect(requester('random-id')).toEqual({ name: 'olga', how: 'claimed' });
  });

  it('shows no message of an error that is not ours: it may quote what it read', () => {
    const history = new HistoryBuilder()
      .started('drSwitchover', INPUT)
      .activity({
        type: 'readDeployment',
        step: { name: 'Read', number: 1 },
        scheduledAt: 10,
        endedAt: 50,
        failure: { code: 'SyntaxError', message: 'Unexpected token in "canary-7f3a"' },
      })
      .failed(60, { code: 'SyntaxError', message: 'Unexpected token in "canary-7f3a"' });
    const report = reportFromHistory(history.build(), IDENTITY);
    expect(report.steps[0]?.activities[0]?.observed).toMatch(/^SyntaxError: not one of this program/);
    expect(JSON.stringify(report)).not.toContain('canary-7f3a');
  });

  it('is never trusted to have a shape: an empty or mangled history gives a report', () => {
    expect(reportFromHistory({}, IDENTITY)).toMatchObject({ runbook: 'unknown', outcome: 'running', historyEvents: 0 });
    const mangled = new HistoryBuilder().started('drSwitchover', [1, 2]);
    for (const type of new Set(
      finishedSwitchover()
        .build()
        .events?.flatMap((event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? []),
    )) {
      for (const result of [
        null,
        7,
        'text',
        [],
        { plan: 'x', verdicts: 7, disposals: {}, observations: [null], calledAt: 'now', preconditions: {} },
      ]) {
        mangled.activity({
          type,
          step: { name: 'Step', number: 1 },
          input: { cluster: 7 },
          scheduledAt: 10,
          endedAt: 20,
          result,
        });
      }
    }
    expect(() => reportFromHistory(mangled.terminated(30, 'x').build(), IDENTITY)).not.toThrow();
  });
});

describe('outcomes of activities', () => {
  it('say of a failed one whether its effect is known, and never guess it', () => {
    const promote = (failure?: { code: string; message: string; details?: unknown }, timedOut?: { type: number }) => {
      const history = new HistoryBuilder().started('drSwitchover', INPUT).activity({
        type: 'promoteSecondary',
        input: { cluster: 'west' },
        scheduledAt: 10,
        endedAt: 20,
        ...(failure && { failure }),
        ...(timedOut && { timedOut }),
      });
      const [seen] = readHistory(history.build()).activities;
      return { type: seen?.type, state: seen?.state, outcomeKnown: seen?.failure?.outcomeKnown };
    };
    const failed = { type: 'promoteSecondary', state: 'failed' };
    expect(promote()).toEqual({ type: 'promoteSecondary', state: 'completed' });
    expect(promote({ code: 'NOT_CAUGHT_UP', message: '' })).toEqual({ ...failed, outcomeKnown: true });
    expect(promote({ code: 'NOT_CAUGHT_UP', message: '', details: { outcomeKnown: false } })).toEqual({
      ...failed,
      outcomeKnown: false,
    });
    for (const code of ['CONNECTION_LOST', 'TypeError', 'SOMETHING_NEW', '']) {
      expect(promote({ code, message: '' })).toEqual({ ...failed, outcomeKnown: false });
    }
    for (const type of [1, 3, 4]) expect(promote(undefined, { type })).toEqual({ ...failed, outcomeKnown: false });
  });
});
