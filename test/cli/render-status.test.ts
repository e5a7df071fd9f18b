/** What `runbook status` shows first: what is wrong, whom the run waits for, and each command alone in its line. */
import { statusLines } from '../../src/cli/render-status';
import type { RunView } from '../../src/cli/run';
import type { Finding } from '../../src/contracts/run-facts';
import type { RunStatus, Waiting } from '../../src/contracts/run-status';
import { currentDetails } from '../../workflows/engine/current-details';

const WID = 'deployment:payments';
const SHARES: Waiting = {
  ...{ for: 'shares', cid: 'c', epoch: 1, held: ['ada'], missingHolders: ['cleo'], threshold: 3, until: 0 },
  declined: [{ by: { name: 'bert', how: 'signed' }, reason: 'on a plane' }],
};
const PARKED: Waiting = {
  ...{ for: 'decision', step: 'Free the slot of west', parkingNo: 1, code: 'ATTEMPT_FOREIGN', message: 'Not ours.' },
  choices: [{ action: 'cancel-attempt', effect: 'cancel it', needsTwo: true }],
  decidedOnce: { action: 'cancel-attempt', by: { name: 'grace', how: 'signed' } },
};
const TOO_FEW: Finding = { severity: 'warning', code: 'holders-too-few', text: 'Too few key holders are left.' };
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
  ...{ receipts: [], findings: [OTHER, TOO_FEW, ORPHAN], waiting: [SHARES, PARKED], invitation: 'i' },
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
    'Warning: Too few key holders',
    'PARKED at "Free the slot of west"',
    'What key holders are asked for',
    'Waits for 2 more key shares (of 3)',
    'A hook was slow',
    'Steps (4 before these: runbook report deployment:payments)',
    'Step 12',
  ]);
  expect(lines).toContain('  grace (signed) decided cancel-attempt: A SECOND, DIFFERENT PERSON IS NEEDED');
  expect(lines).toContain('  Declined; may give all the same: bert (on a plane)');
  for (const holder of ['cleo', 'bert']) expect(lines).toContain(`      runbook share ${WID} --holder ${holder}`);
});

it('in the Web UI: the same, and a parked run says so in its heading', () => {
  const details = currentDetails(STATUS, 'default');
  inOrder(details, [
    '### drSwitchover of payments: PARKED',
    '**CRITICAL**: A token may exist',
    '**Warning**: Too few key holders',
    '**PARKED at "Free the slot of west"**',
    'A SECOND, DIFFERENT PERSON IS NEEDED',
    'What key holders are asked for',
    '**Waits for 2 more key shares (of 3)**',
    'A hook was slow',
  ]);
});

it('what ended is not told as if it were now', () => {
  const details = currentDetails({ ...STATUS, waiting: [], findings: [OTHER, TOO_FEW] }, 'default');
  expect(details).toContain('Last checks');
  inOrder(details, ['A hook was slow', 'Too few key holders']);
});

it('people who do the same have one command', () => {
  const command = 'vault operator generate-root -nonce=n';
  const commands = ['ada', 'bert'].map((who) => ({ who, command }));
  const waiting: Waiting = { for: 'action', what: 'they enter shares', instructions: [], commands };
  expect(statusLines({ ...VIEW, status: { ...STATUS, waiting: [waiting] } }, 0).join('\n')).toContain(
    `  ada, bert:\n      ${command}\n`,
  );
});
