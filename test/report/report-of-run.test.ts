import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils';
import Ajv2020 from 'ajv/dist/2020';
import { z } from 'zod';
import { reportSchema } from '../../src/contracts/report';
import type { ReportStep } from '../../src/contracts/report';
import type { RunFact, RunOutcome } from '../../src/contracts/run-facts';
import { headlineOf } from '../../src/report/headlines';
import { observedOf, reportOf } from '../../src/report/report-of-run';
import { readHistory } from '../../src/report/run-history';
import { withTail } from '../../src/report/run-record';
import { historyText, recordedHistories } from '../support/matrix';
import { gapsIn, mistakesIn } from '../support/report-checks';
import type { ActivitySpecification } from './support/run-builder';
import { IDENTITY, RunBuilder, decided, iso, parked, when } from './support/run-builder';
import { DIGEST, PLAN, PRECONDITIONS, TIMES, finishedSwitchover } from './support/switchover';

const position = ({ number, name }: ReportStep): string => `${number} ${name}`;
const read = (more: Partial<ActivitySpecification>): ActivitySpecification => ({
  ...{ type: 'readDeployment', step: { name: 'Read', number: 1 }, scheduledAt: 10, endedAt: 80 },
  ...more,
});

describe('a finished switchover', () => {
  const report = reportOf(finishedSwitchover().build());

  it('shows outcome, plan, loss, tokens, people and final state', () => {
    expect(report).toMatchObject({
      ...IDENTITY,
      ...{ runbook: 'drSwitchover', deployment: 'payments', outcome: 'completed', reason: PLAN.reason },
      requestedBy: { name: 'olga', how: 'claimed' },
      ...{ startedAt: iso(0), endedAt: iso(TIMES.closed) },
      plan: { digest: DIGEST, content: PLAN },
      loss: { loss: 'none', oldPrimaryRoot: 'a7f3c2', newPrimaryRoot: 'a7f3c2' },
      leftToDo: [],
    });
    expect(report.preconditions.map(({ verdict }) => verdict)).toEqual(['ok', 'ok', 'not-checkable']);
    const tokens = report.tokens.map(({ cluster, state }) => `${cluster} ${state}`);
    expect(tokens).toEqual(['west kept', 'east deleted']);
    const roles = report.finalState.map(({ cluster, dr }) => `${cluster} ${dr?.mode}`);
    expect(roles).toEqual(['east secondary', 'west primary']);
    expect(report.findings.map(({ code }) => code)).toEqual(['token-kept']);
    const approved = ['approved', [{ name: 'olga', how: 'signed' }]];
    expect(report.gates.map(({ gate, state, by }) => [gate, state, by])).toEqual([
      ['plan', ...approved],
      ['go', ...approved],
    ]);
    const receipts = report.receipts.map(({ signal, arrival, from }) => `${signal} ${arrival} ${from?.name}`);
    expect(receipts).toEqual(['share 1 ann', 'share 2 ben', 'share 3 cleo', 'approve 1 olga', 'approve 2 olga']);
  });

  it('measures the outage from the demote call to the first success through the clients’ address', () => {
    expect(report.outage).toEqual({
      ...{ startedAt: iso(TIMES.demoteCalled), endedAt: iso(TIMES.probe), endedBy: 'probe' },
      ...{ serviceReadyAt: iso(TIMES.serviceReady), probeAt: iso(TIMES.probe) },
      ...{ totalMs: 9_400, serviceMs: 9_180, machineMs: 220, peopleMs: 0 },
    });
    expect(report.withoutDrProtection).toEqual({
      ...{ from: iso(TIMES.demoteCalled), to: iso(TIMES.streaming), totalMs: 15_900 },
    });
  });

  it('lists every step with its activities', () => {
    const numbers = report.steps.map(({ number }) => number).filter((number) => number > 0);
    expect(numbers.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 15 }, (_, index) => index + 1));
    expect(report.steps.every(({ outcome }) => outcome === 'done')).toBe(true);
    const joined = report.steps.find(({ name }) => name === 'Point east at west');
    const activities = joined?.activities.map(({ type, cluster }) => `${type} ${cluster}`);
    expect(activities).toEqual(['completeGeneration east', 'updatePrimary east']);
  });
});

it('steps that begin at the same time appear in their order, whichever worker was first', () => {
  const step = (number: number, startedAt: number) => read({ step: { name: 'S', number }, startedAt });
  expect(reportOf(new RunBuilder([step(2, 20), step(1, 30)]).build()).steps.map(position)).toEqual(['1 S', '2 S']);
});

describe('the observations of activities', () => {
  it('has no gap in any recorded history', () => {
    const observed = recordedHistories().flatMap((file) =>
      readHistory(historyFromJSON(JSON.parse(historyText(file)))).activities.map(
        (activity) => `${file} ${activity.type}: ${observedOf(activity) ?? ''}`,
      ),
    );
    expect(observed.length).toBeGreaterThan(200);
    expect(observed.filter((text) => gapsIn(text).length > 0)).toEqual([]);
    expect(observed).toContainEqual(
      expect.stringMatching(/drSwitchover\.json\.gz startGeneration: 2 of 3 key shares given$/),
    );
  });
});

it('several tokens of one cluster with the same fate are listed once', () => {
  const disposals = ['west', 'west', 'east'].map((cluster) => ({
    cluster,
    state: cluster === 'west' ? 'deleted' : 'kept',
  }));
  const deletion = read({ type: 'deleteOperationTokens', result: { disposals } });
  const [step] = reportOf(new RunBuilder([deletion]).build()).steps;
  expect(step?.activities[0]?.observed).toBe('west: deleted (2); east: kept');
});

it('retries are counted, and shown as one activity with the observed value of the last', () => {
  const history = finishedSwitchover((same) =>
    same.type === 'promoteSecondary' ? { ...same, tries: 3, startedAt: 69_000 } : same,
  );
  const promote = reportOf(history.build()).steps.find(({ name }) => name === 'Promote west');
  expect(promote?.activities).toEqual([
    expect.objectContaining({ tries: 3, outcome: 'done', observed: 'primary', startedAt: iso(67_450) }),
  ]);
});

it('each attempt that an operator decided on has a line, with the decision', () => {
  const bob = { name: 'bob', how: 'claimed' } as const;
  const failure = { code: 'UNREACHABLE', message: 'no connection' };
  const observations = [{ cluster: 'west', dr: { mode: 'primary' } }];
  const again = { step: { name: 'Read', number: 1, attempt: 2 }, scheduledAt: 950, endedAt: 1_000 };
  const report = reportOf(
    new RunBuilder(
      [read({ failure }), read({ ...again, result: { observations } })],
      [parked(300, 'Read'), decided(900, 'Read', 'network is back', bob)],
    ).build(),
  );
  expect(report.steps.map(({ attempt, outcome, activities }) => [attempt, outcome, activities[0]?.observed])).toEqual([
    [1, 'failed', 'UNREACHABLE: no connection'],
    [2, 'done', 'west DR primary, performance not read'],
  ]);
  const decision = { action: 'retry', by: bob, reason: 'network is back', at: iso(900) };
  expect(report.parkings).toEqual([{ step: 'Read', parkingNo: 1, at: iso(300), ...failure, decision }]);
  expect(report.outcome).toBe('running');
});

it('steps without activities have their line, and the note of a step about its end counts', () => {
  const ended = { kind: 'step-ended', attempt: 1 } as const;
  const facts: RunFact[] = [
    { ...ended, at: when(95), step: 'Read', number: 1, startedAt: when(10), outcome: 'already' },
    { ...ended, at: when(90), step: 'Think', number: 2, startedAt: when(85), outcome: 'done' },
  ];
  const later = read({ step: { name: 'Read again', number: 3 }, scheduledAt: 100, endedAt: 200 });
  const { steps } = reportOf(new RunBuilder([read({}), later], facts).build());
  expect(steps.map((step) => [position(step), step.outcome])).toEqual([
    ['1 Read', 'already'],
    ['2 Think', 'done'],
    ['3 Read again', 'done'],
  ]);
});

describe('the end of a run', () => {
  it('is when its last step ended, which writes the report after the outcome is known', () => {
    const step = { name: 'Write the report', number: 2 };
    const files = { type: 'writeReportFiles', step, scheduledAt: 92, endedAt: 98 };
    const run = () => new RunBuilder([read({}), files]).ended(90, 'completed');
    const report = reportOf(run().build());
    expect([report.endedAt, mistakesIn(report)]).toEqual([iso(98), []]);
    expect(reportOf(run().build(95)).endedAt).toBe(iso(90));
  });

  it('that refused itself has its own word, also if Temporal shows a failure', () => {
    const run = new RunBuilder().ended(20, 'refused').failed(30, 'PRECONDITION_FAILED', 'Nothing was changed.');
    expect(reportOf(run.build())).toMatchObject({ outcome: 'refused', findings: [] });
  });

  it('that was refused, or only planned, is headed by the first check that failed, and the clusters', () => {
    const headline = (outcome: RunOutcome, checks: readonly object[], facts: readonly RunFact[] = []) => {
      const plan = { text: JSON.stringify(PLAN), digest: DIGEST };
      const result = { preconditions: [...PRECONDITIONS, ...checks], plan };
      const assessed = facts.length > 0 ? [] : [read({ type: 'assessDrSwitchover', result })];
      return headlineOf(reportOf(new RunBuilder(assessed, facts).ended(90, outcome).build())).text;
    };
    const heartbeat = { name: 'Heartbeat', cluster: 'west', observed: '40 s old.', needed: 'at most 10 s' };
    const failed = { ...heartbeat, verdict: 'fail' };
    expect(headline('refused', [failed])).toBe(
      'Refused: drSwitchover of payments (east to west). 1 precondition failed: Heartbeat (west): 40 s old. Nothing was demoted or promoted.',
    );
    expect(headline('planned', [failed, { ...failed, name: 'Quorum', cluster: undefined }])).toBe(
      'Planned only: drSwitchover of payments (east to west). Nothing was changed, and 2 preconditions failed, the first: Heartbeat (west): 40 s old.',
    );
    expect(headline('planned', [])).toContain('and every checked precondition holds.');
    const finding = {
      kind: 'finding',
      severity: 'warning',
      code: 'check-failed',
      text: 'to: no such cluster.',
    } as const;
    expect(headline('refused', [], [{ ...finding, at: when(5) }])).toContain(
      '(west). to: no such cluster. Nothing was',
    );
  });

  it('that failed before it could report is shown with the failure', () => {
    const run = new RunBuilder().failed(30, 'INVALID_INPUT', 'to: must be a cluster.');
    expect(reportOf(run.build()).findings).toMatchObject([
      { code: 'run-failed', text: 'The run failed with INVALID_INPUT: to: must be a cluster.' },
    ]);
  });

  it('shows no message of an error that is not ours: it may quote what it read', () => {
    const report = reportOf(
      new RunBuilder([], [parked(20, 'Read', 'SyntaxError', 'Unexpected token in "canary-7f3a"')]).build(),
    );
    expect(report.parkings[0]?.message).toMatch(/^not an error of this program/);
    expect(JSON.stringify(report)).not.toContain('canary-7f3a');
  });

  it('by termination: steps that Temporal never accepted are not ordered', () => {
    const step = { name: 'Demote east', number: 2 };
    const run = new RunBuilder([
      read({ type: 'runHook', endedAt: 20 }),
      { type: 'demotePrimary', step, input: { cluster: 'east' }, scheduledAt: 20 },
    ]);
    const close = { how: 'terminated', at: when(30), reason: 'enough' } as const;
    const told = (ordered: Readonly<Record<string, number>>) =>
      reportOf(withTail(run.build(), { close, ordered, events: 9 })).steps.map(({ outcome }) => outcome);
    expect(told({ runHook: 1 })).toEqual(['done', 'not-ordered']);
    expect(told({ runHook: 1, demotePrimary: 1 })).toEqual(['done', 'running']);
  });
});

const SCHEMA = join(__dirname, '..', '..', 'docs', 'report.schema.json');

it('docs/report.schema.json is made from the schema of the sources (UPDATE_DOCS=1 writes it again)', () => {
  const text = `${JSON.stringify(z.toJSONSchema(reportSchema), undefined, 2)}\n`;
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(SCHEMA, text);
  expect(readFileSync(SCHEMA, 'utf8')).toBe(text);
});

it('a report of a run fits it, and one with a member too many does not', () => {
  const validate = new Ajv2020({ strict: false }).compile(JSON.parse(readFileSync(SCHEMA, 'utf8')) as object);
  const report = reportOf(finishedSwitchover().build());
  expect(validate(JSON.parse(JSON.stringify(report)))).toBe(true);
  expect(validate({ ...report, surprise: true })).toBe(false);
});
