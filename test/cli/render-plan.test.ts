/** What an approver is shown before the question: what is lost or wiped, and exactly what the approval allows; and readiness. */
import { readinessText } from '../../src/cli/commands/start';
import { exitCodeOfVerdicts } from '../../src/cli/errors';
import { approvalLines, unsignedLines } from '../../src/cli/render-plan';
import type { ReadinessPoint, ReadinessResult } from '../../src/contracts/readiness';
import type { RunbookPlan } from '../../src/contracts/plan';

const PLAN: RunbookPlan = {
  runbook: 'drSecondaryOnboarding',
  deployment: 'payments',
  clusters: [
    { cluster: 'east', clusterId: 'id-east', version: '1.21.4+ent', dr: 'primary', performance: 'disabled' },
    { cluster: 'north', clusterId: 'id-north', version: '1.21.4+ent', dr: 'disabled', performance: 'disabled' },
  ],
  operations: [
    {
      ...({ kind: 'dr', endpoint: 'secondary/enable', gate: 'wipe' } as const),
      on: { cluster: 'north', clusterId: 'id-north' },
      with: { cluster: 'east', clusterId: 'id-east' },
    },
    {
      ...({ kind: 'dr', endpoint: 'primary/revoke-secondary', gate: 'revoke' } as const),
      on: { cluster: 'east', clusterId: 'id-east' },
    },
  ],
  warnings: ['Everything on north is wiped.'],
  steps: [{ step: 'Enable north', when: 'it is empty', note: 'by token' }],
  choices: { form: 'public-key' },
  reason: 'a third site',
};

it('a plan is shown with its warnings and the operations that the gate allows, without those of another gate', () => {
  const shown = (plan: RunbookPlan) => approvalLines({ text: JSON.stringify(plan), digest: 'the-digest' }, 'wipe');
  expect(shown({ ...PLAN, requestedBy: 'olga' })).toEqual([
    'Gate "wipe" of drSecondaryOnboarding, deployment payments, plan the-digest',
    '  Requested by: olga, as claimed at the start; unverified',
    '  Reason: a third site',
    '  Approving gate "wipe" allows this run to do only the following',
    '    - enable north as DR secondary of east, which WIPES it',
    '  IMPORTANT: Everything on north is wiped.',
    '  east   DR primary, performance disabled   1.21.4+ent  id-east',
    '  north  DR disabled, performance disabled  1.21.4+ent  id-north',
    '  form: public-key',
    '  Steps',
    '    1. Enable north, if it is empty: by token',
  ]);
  // Where the plan does not say who asked, that is said.
  expect(shown(PLAN)[1]).toContain('Requested by: not named');
  // Of an unknown shape it is shown as it is.
  expect(approvalLines({ text: '{"a":1}', digest: 'd' }, 'plan')).toEqual([
    'Gate "plan", plan d:',
    '  Its text: {"a":1}',
  ]);
});

it('findings of the run stand apart from the plan, as unsigned', () => {
  const finding = { code: 'evidence', at: 0, severity: 'warning', text: 'No loss is possible.' } as const;
  expect(unsignedLines([finding, { ...finding, severity: 'info', text: 'of no weight' }])).toEqual([
    'The run also reports the following. It is not part of the plan, not signed, and not covered by your approval:',
    '  warning: No loss is possible.',
  ]);
  expect(unsignedLines([])).toEqual([]);
});

const point = (verdict: ReadinessPoint['verdict'], more: Partial<ReadinessPoint> = {}): ReadinessPoint => {
  return { id: 'lag', about: 'both', cluster: 'west', verdict, observed: '7', needed: '5', ...more };
};
const RESULT: ReadinessResult = {
  schema: 'replication-runbooks/readiness/v1',
  deployment: 'payments',
  at: '2026-01-01T00:00:00.000Z',
  switchover: 'not-ready',
  failover: 'ready-with-warnings',
  candidates: [],
  changes: [{ change: 'worse', id: 'lag', cluster: 'west', about: 'switchover', before: 'ok', now: 'fail' }],
  points: [
    point('fail', { about: 'switchover', next: 'Wait.' }),
    point('warn', { about: 'failover' }),
    ...['ada', 'bert'].map((name) => point('warn', { id: `rehearsed.${name}`, cluster: undefined, next: 'Rehearse.' })),
    point('not-checkable', { id: 'certificate', observed: 'plain http' }),
    point('ok', { id: 'quorum' }),
    point('ok', { id: 'quorum', cluster: 'east' }),
  ],
};

describe('runbook readiness', () => {
  it.each([
    ['ready', 'ready', 0],
    ['ready', 'ready-with-warnings', 7],
    ['ready-with-warnings', 'not-ready', 3],
  ] as const)('switchover %s and failover %s: exit code %i', (switchover, failover, code) => {
    expect(exitCodeOfVerdicts([switchover, failover])).toBe(code);
  });

  it('prints verdicts, changes, and points, the worst first and shared ones once, with what is needed and what to do', () => {
    expect(readinessText(RESULT)).toEqual([
      'Switchover: not ready. Failover: ready with warnings.',
      '',
      'Since the last check',
      '  worse: lag (west), ok before, fail now',
      '',
      '  fail  lag (west), for a switchover',
      '          observed: 7',
      '          needed:   5',
      '          next: Wait.',
      '  warn  lag (west), for a failover',
      '          observed: 7',
      '          needed:   5',
      '  warn  rehearsed (ada, bert)',
      '          observed: 7',
      '          needed:   5',
      '          next: Rehearse.',
      '  ?     certificate (west)',
      '          observed: plain http',
      '          needed:   5',
      '  ok    quorum (west, east): 7',
      '',
      'Nothing was changed.',
    ]);
  });
});
