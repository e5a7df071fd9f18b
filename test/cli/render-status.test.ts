/** What `runbook status` and `watch` show first: what is wrong, whom the run waits for, each command alone in its line. */
import { Progress, statusLines, waitingLines } from '../../src/cli/render-status';
import type { RunView } from '../../src/cli/run';
import type { Finding } from '../../src/contracts/run-facts';
import { nextCommands } from '../../src/contracts/next-commands';
import type { RunStatus, Waiting } from '../../src/contracts/run-status';
import { currentDetails } from '../../workflows/engine/current-details';

const WID = 'deployment:payments';
const SHARES: Waiting = {
  ...{ for: 'shares', cid: 'c', epoch: 1, held: ['ada'], missingHolders: ['cleo'], threshold: 3, until: 0 },
};
const PARKED: Waiting = {
  ...{ for: 'decision', step: 'Free the slot of west', parkingNo: 1, code: 'ATTEMPT_FOREIGN', message: 'Not ours.' },
  choices: [{ action: 'skip', effect: 'skip it', needsTwo: true }],
  decidedOnce: { action: 'skip', by: { name: 'grace', how: 'signed' } },
};
const REJECTED: Finding = {
  severity: 'warning',
  code: 'shares-rejected',
  text: 'The key shares in hand made no token.',
};
const ORPHAN: Finding = { severity: 'critical', code: 'orphan-token', text: 'A token may exist that nobody holds.' };
const OTHER: Finding = { severity: 'warning', code: 'x', text: 'A hook was slow.' };

const STATUS: RunStatus = {
  ...{
    runbook: 'drSwitchover',
    deployment: 'payments',
    workflowId: WID,
    runId: 'r',
    phase: 'preparing',
    paused: false,
  },
  steps: Array.from({ length: 12 }, (_, index) => ({
    ...{ number: index + 1, name: `Step ${index + 1}`, state: 'done' as const, attempt: 1, startedAt: 0, endedAt: 1 },
  })),
  ...{ receipts: [], findings: [OTHER, REJECTED, ORPHAN], waiting: [SHARES, PARKED], invitation: 'i' },
  asked: { kind: 'rehearsal', targets: [], requestedBy: { name: 'olga', how: 'claimed' }, reason: 'why' },
};
const VIEW: RunView = {
  ...{ workflowId: WID, runId: 'r', runbook: 'drSwitchover', taskQueue: 'q', state: 'running', asOfEvent: 1 },
  ...{ startedAt: '2026-03-01T10:00:00Z', pendingActivities: [], status: STATUS },
};

const inOrder = (text: string, parts: readonly string[]) => {
  const places = parts.map((part) => text.indexOf(part));
  expect([parts, places]).toEqual([parts, [...places].sort((a, b) => a - b)]);
  expect(places).not.toContain(-1);
};

it('in the terminal: alarms, then what is wrong, then whom it waits for, then the rest', () => {
  const lines = statusLines(VIEW, 0);
  inOrder(lines.join('\n'), [
    'PARKED',
    'CRITICAL: A token may exist',
    'Warning: The key shares in hand',
    'PARKED at "Free the slot of west"',
    'What key holders are asked for',
    'Waits for 2 more key shares (of 3)',
    'A hook was slow',
    'Steps (4 before these: runbook report deployment:payments)',
    'Step 12',
  ]);
  expect(lines).toContain('  grace (signed) decided skip: A SECOND, DIFFERENT PERSON IS NEEDED');
  expect(lines).toContain(`      runbook share ${WID} --holder cleo`);
});

it('a decision that was accepted and is under way stands in the place of the question', () => {
  const by = { name: 'grace', how: 'signed' } as const;
  const carryingOut = [{ step: 'Promote west', action: 'retry', by, at: Date.UTC(2026, 2, 1, 10, 0, 5) }] as const;
  const said = '"retry" of "Promote west" is being carried out: accepted, decided by grace (signed), at';
  const view: RunView = { ...VIEW, status: { ...STATUS, waiting: [], carryingOut } };
  expect(statusLines(view, 0).join('\n')).toContain(said);
  const progress = new Progress();
  expect(progress.lines(view, 0).join('\n')).toContain(said);
  expect(progress.lines(view, 0)).toEqual([]);
  const memo = {
    runbook: 'drSwitchover',
    deployment: 'payments',
    phase: 'outage',
    carryingOut: `${said} 10:00`,
  } as const;
  expect(statusLines({ ...VIEW, status: undefined, memo }, 0).join('\n')).toContain(said);
});

it('a run that was ended from outside waits for nobody, and its last step is told as what it was', () => {
  const step = { number: 7, name: 'Demote east', state: 'running', attempt: 1, startedAt: 1 } as const;
  const ended = { state: 'terminated', closedAt: '2026-11-21T12:00:00Z' };
  const view: RunView = { ...VIEW, ...ended, status: { ...STATUS, paused: true, steps: [step] } };
  const text = statusLines(view, 0).join('\n');
  expect(text).toContain('terminated in phase');
  expect(text).toContain('7. Demote east: running when the run ended');
  expect(text).not.toMatch(/PAUSED|PARKED|Waits for/);
  expect(new Progress().lines(view, 0).join('\n')).not.toMatch(/PAUSED|PARKED|Waits for/);
});

it('in the Web UI: the same, and a parked run says so in its heading', () => {
  const details = currentDetails(STATUS, 'default');
  inOrder(details, [
    '### drSwitchover of payments: PARKED',
    '**CRITICAL**: A token may exist',
    '**Warning**: The key shares in hand',
    '**PARKED at "Free the slot of west"**',
    'A SECOND, DIFFERENT PERSON IS NEEDED',
    'What key holders are asked for',
    '**Waits for 2 more key shares (of 3)**',
    'A hook was slow',
  ]);
});

it('what ended is not told as if it were now', () => {
  const details = currentDetails({ ...STATUS, waiting: [], findings: [OTHER, REJECTED] }, 'default');
  expect(details).toContain('Last checks');
  inOrder(details, ['A hook was slow', 'The key shares in hand']);
});

it('people who do the same have one command', () => {
  const command = 'vault operator generate-root -nonce=n';
  const commands = ['ada', 'bert'].map((who) => ({ who, command }));
  const waiting: Waiting = { for: 'action', what: 'they enter shares', instructions: [], commands };
  expect(statusLines({ ...VIEW, status: { ...STATUS, waiting: [waiting] } }, 0).join('\n')).toContain(
    `  ada, bert:\n      ${command}\n`,
  );
});

const NOW = Date.parse('2026-11-21T12:00:30Z');
const at = (seconds: number): number => Date.parse('2026-11-21T12:00:00Z') + seconds * 1000;
/** A run at its beginning; without a status no worker answers. */
function view(changes: Partial<RunStatus> | undefined): RunView {
  const { status: _status, ...unanswered } = { ...VIEW, asOfEvent: 42 };
  const begun = { phase: 'checking', waiting: [], steps: [], receipts: [], findings: [] } as const;
  return changes === undefined ? unanswered : { ...unanswered, status: { ...STATUS, ...begun, ...changes } };
}

it('tells what one look brings in the order in which it happened, and nothing twice', () => {
  const progress = new Progress();
  const look = view({
    phase: 'outage',
    outageSince: at(10),
    steps: [
      { number: 1, name: 'Wait until west has it', state: 'done', attempt: 1, startedAt: at(8), endedAt: at(9) },
      { number: 2, name: 'Demote east', state: 'running', attempt: 1, startedAt: at(11) },
    ],
  });
  expect(progress.lines(look, NOW)).toEqual([
    '12:00:09Z 1. Wait until west has it: done in 1.0 s',
    '12:00:11Z 2. Demote east: running',
    '12:00:30Z OUTAGE since 12:00:10Z: no primary serves clients.',
    '12:00:30Z == OUTAGE: no primary serves clients',
  ]);
  expect(progress.lines(look, NOW + 500)).toEqual([]);
});

it('tells each outage and its length: one that was not begun after all is followed by the one that is', () => {
  const progress = new Progress();
  const told = [
    { phase: 'outage', outageSince: at(10) },
    { phase: 'preparing' },
    { phase: 'outage', outageSince: at(20) },
    { phase: 're-protecting', outageSince: at(20), serviceBackAt: at(24) },
  ] as const;
  expect(told.flatMap((each) => progress.lines(view(each), NOW))).toEqual([
    '12:00:30Z OUTAGE since 12:00:10Z: no primary serves clients.',
    '12:00:30Z == OUTAGE: no primary serves clients',
    '12:00:30Z == Last checks; service is up',
    '12:00:30Z OUTAGE since 12:00:20Z: no primary serves clients.',
    '12:00:30Z == OUTAGE: no primary serves clients',
    '12:00:24Z == Service is back after 4.0 s',
    '12:00:30Z == Protection is being restored',
  ]);
});

it('announces a parked step with each choice, its effect and the exact command', () => {
  const waiting = {
    for: 'decision' as const,
    step: 'Promote west',
    parkingNo: 2,
    code: 'NOT_CAUGHT_UP',
    message: 'behind',
    choices: [{ action: 'retry' as const, effect: 'tries it again' }],
  };
  const text = new Progress().lines(view({ waiting: [waiting] }), NOW).join('\n');
  expect(text).toContain('PARKED at "Promote west"');
  expect(text).toContain('runbook decide deployment:payments --parking 2 --action retry');
  expect(text).toContain('tries it again');
});

it('announces a gate again that is opened again, with why, and never says in an outage that service is up', () => {
  const progress = new Progress();
  const gate = { for: 'approval', gate: 'promote', planDigest: 'd', missing: ['1 of grace'], approved: [] } as const;
  const look = (more: object) =>
    progress
      .lines(view({ phase: 'waiting-for-people', outageSince: at(10), waiting: [{ ...gate, ...more }] }), NOW)
      .join('\n');
  const first = look({});
  expect(first).toContain('Waits for approval of gate promote for as long as the outage lasts');
  expect(first).not.toContain('service is up');
  expect(look({})).toBe('');
  expect(look({ again: 'the approvals were too old' })).toMatch(
    /Waits for approval.*Asked for again: the approvals were too old[^]*1 of grace:\n +runbook approve deployment:payments --gate promote/,
  );
});

it('says once that no worker answers, and what the run is at when one answers again', () => {
  const progress = new Progress();
  expect(progress.lines(view({}), NOW)).toEqual(['12:00:30Z == Reads and checks; nothing is touched']);
  expect(progress.lines(view(undefined), NOW)).toEqual(['12:00:30Z == No worker answers']);
  expect(progress.lines(view(undefined), NOW)).toEqual([]);
  expect(progress.lines(view({}), NOW)).toEqual(['12:00:30Z == Reads and checks; nothing is touched']);
});

const rehearsal = (answered: readonly string[], missing: readonly string[]): Waiting => ({
  ...{ for: 'rehearsal', epoch: 1, answered, missing, until: Date.parse('2026-03-01T10:00:00Z') },
});

it('in a rehearsal: the exact command for each missing person, and for nobody who has answered', () => {
  expect(nextCommands({ workflowId: 'rehearsal:payments', waiting: [rehearsal(['ada'], ['bert', 'cleo'])] })).toEqual([
    { who: 'bert', command: 'runbook share rehearsal:payments --holder bert' },
    { who: 'cleo', command: 'runbook share rehearsal:payments --holder cleo' },
  ]);
});

it('in a rehearsal: the status says that no key share is asked for', () => {
  const [first] = waitingLines('rehearsal:payments', rehearsal(['ada'], ['bert']), Date.parse('2026-03-01T09:00:00Z'));
  expect(first).toBe('REHEARSAL: no key share is asked for. Waits until 10:00:00Z. Answered: ada. Not yet: bert.');
});
