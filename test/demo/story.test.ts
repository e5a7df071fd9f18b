import type { RunStatus } from '../../src/contracts/run-status';
import { Story } from '../../src/cli/demo/story';
import { BEGUN, VIEW } from '../cli/support';

const at = (seconds: number): number => Date.parse('2026-11-21T12:00:00Z') + seconds * 1000;
const step = (number: number, name: string, seconds: number, state: RunStatus['steps'][number]['state'] = 'done') => ({
  ...{ number, name, state, attempt: 1, startedAt: at(seconds - 1) },
  ...(state !== 'running' && { endedAt: at(seconds) }),
});
const told = (...statuses: readonly Partial<RunStatus>[]): string[] => {
  const story = new Story();
  return statuses.flatMap((each) => story.lines({ ...VIEW, status: { ...BEGUN, ...each } }, at(30)));
};

it('shows who did what, and what the run did, once', () => {
  const steps = [
    step(1, 'Invite the key holders', 1),
    step(2, 'Demote east', 2),
    step(3, 'Promote west', 3, 'running'),
  ];
  const from = { name: 'ada', how: 'signed' } as const;
  const share = { signal: 'share', arrival: 1, verdict: 'accepted', code: 'accepted', text: 'accepted', from } as const;
  const status = { steps, receipts: [{ ...share, at: at(1) }] };
  const lines = told(status, status);
  expect(lines).toEqual(['12:00:01Z ada gives a key share (runbook share)', '12:00:02Z 2. Demote east: done in 1.0 s']);
});

it('shows an outage and its end once, however its beginning is corrected', () => {
  const lines = told({ outageSince: at(10) }, { outageSince: at(12) }, { outageSince: at(12), serviceBackAt: at(16) });
  expect(lines).toEqual([
    '12:00:30Z == OUTAGE: no primary serves clients',
    '12:00:16Z == BACK: clients have a primary again after 4.0 s',
  ]);
});

it('omits no problem', () => {
  const refused = {
    signal: 'share',
    arrival: 1,
    verdict: 'refused',
    code: 'wrong-share',
    text: 'refused: no',
  } as const;
  const text = told({
    steps: [step(1, 'Invite the key holders', 1, 'failed'), step(9, 'Release clients', 2, 'skipped')],
    receipts: [refused],
    waiting: [
      { for: 'decision', step: 'Promote west', parkingNo: 1, code: 'NOT_CAUGHT_UP', message: 'behind', choices: [] },
    ],
    findings: [
      { severity: 'critical', code: 'orphan-token', text: 'A token may exist', next: 'End it.' },
      { severity: 'info', code: 'any', text: 'All is well' },
    ],
  }).join('\n');
  for (const part of ['1. Invite the key holders: failed', '9. Release clients: skipped', 'share 1: refused'])
    expect(text).toContain(part);
  expect(text).toContain('Waiting for decision on parked step "Promote west" (parking 1): NOT_CAUGHT_UP');
  expect(text).toContain('CRITICAL: A token may exist. Next: End it.');
  expect(text).not.toContain('All is well');
});

it('shows that no worker answers once that lasts: a run that was just started has no answer for a moment', () => {
  const story = new Story();
  const lines = Array.from({ length: 10 }, () => story.lines(VIEW, at(30)));
  expect(lines.slice(0, 3).flat()).toEqual([]);
  expect(lines.flat()).toEqual(['12:00:30Z == No worker answers. Why:', expect.stringContaining('runbook status')]);
});

it('names the actions of people outside the run', () => {
  const waiting = [{ for: 'action', what: 'west is unfenced', instructions: [] }] as const;
  expect(told({ waiting })).toEqual(['12:00:30Z Waiting until west is unfenced']);
});
