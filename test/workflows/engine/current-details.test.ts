/** What the Web UI shows of a run: what is missing, the exact command for it, and never more than the server takes. */
import fc from 'fast-check';
import type { RunStatus, Waiting } from '../../../src/contracts/run-status';
import { currentDetails } from '../../../workflows/engine/current-details';

const STATUS: RunStatus = {
  runbook: 'drSwitchover',
  deployment: 'payments',
  workflowId: 'deployment:payments',
  runId: 'a-run',
  phase: 'waiting-for-people',
  plainDocuments: true,
  paused: false,
  waiting: [],
  steps: [
    { number: 1, name: 'Read and check', state: 'done', attempt: 2, startedAt: 0, endedAt: 1_500, note: '30 ok' },
  ],
  receipts: [],
  findings: [],
};
const shown = (more: Partial<RunStatus>) => currentDetails({ ...STATUS, ...more }, 'default');

const WAITING: readonly (readonly [Waiting, readonly string[]])[] = [
  [
    { for: 'approval', gate: 'plan', planDigest: 'digest', missing: ['1 of approvers'], approved: [], until: 0 },
    ['runbook approve deployment:payments --gate plan', '1 of approvers', '"planDigest": "digest"', '"rid": "a-run"'],
  ],
  [
    { for: 'shares', cid: 'c', epoch: 1, held: ['ada'], missingHolders: ['bert', 'cleo'], threshold: 3, until: 0 },
    ['runbook share deployment:payments', 'In hand: ada', 'Not yet: bert, cleo'],
  ],
  [
    {
      for: 'decision',
      step: 'Promote west',
      parkingNo: 2,
      code: 'NOT_CAUGHT_UP',
      message: 'behind',
      observed: '7 entries',
      needed: '0 entries',
      next: 'wait',
      choices: [
        { action: 'retry', effect: 'once more' },
        { action: 'promote-back', effect: 'east again' },
      ],
    },
    ['runbook decide deployment:payments --parking 2 --action promote-back', '7 entries', '"parkingNo": 2'],
  ],
  [
    { for: 'rehearsal', epoch: 1, answered: ['ada'], missing: ['bert', 'cleo'], until: 0 },
    [
      'REHEARSAL: no key share is asked for',
      'Answered: ada',
      'Not yet: bert, cleo',
      'bert: `runbook share deployment:payments --holder bert`',
    ],
  ],
  [{ for: 'resume', by: 'olga', reason: 'lunch' }, ['runbook resume deployment:payments', 'olga', 'lunch']],
];

it.each(WAITING)('a run that waits says what is missing and gives the command: %j', (waiting, texts) => {
  const details = shown({ waiting: [waiting] });
  for (const text of texts) expect(details).toContain(text);
});

it('steps, attempts, durations and notes are lines of a list; there is no table', () => {
  const details = shown({});
  expect(details).toContain('1. **Read and check**: done in 1.5 s, attempt 2. 30 ok');
  expect(details).not.toMatch(/^\|/m);
});

it('an outage is named with its beginning until service is back', () => {
  expect(shown({ phase: 'outage', outageSince: 0 })).toContain('**OUTAGE** since 1970-01-01 00:00:00 UTC');
  expect(shown({ phase: 'finishing', outageSince: 0, serviceBackAt: 1 })).not.toContain('OUTAGE');
});

it('a run that began in an outage never says that service is up', () => {
  for (const phase of ['waiting-for-people', 'preparing', 'working'] as const) {
    expect(shown({ phase })).toContain('service is up');
    expect(shown({ phase, outageSince: 0 })).not.toContain('service is up');
  }
});

it('a run that has ended says how, and what is left to do, before its steps', () => {
  const details = shown({ phase: 'finished', outcome: 'aborted', leftToDo: ['Keep east fenced.'] });
  expect(details).toMatch(/Finished, aborted[^]*\*\*Left to do\*\*: Keep east fenced\.[^]*#### Steps/);
});

it('what is written by hand comes last, after the steps, and only where somebody need not sign', () => {
  const waiting = [WAITING[0]?.[0], WAITING[2]?.[0]].flatMap((each) => (each ? [each] : []));
  expect(shown({ waiting })).toMatch(/#### Steps[^]*"planDigest": "digest"[^]*"parkingNo": 2/);
  const { plainDocuments: _plain, ...signed } = STATUS;
  expect(currentDetails({ ...signed, waiting }, 'default')).not.toContain('```');
});

it('how many shares are missing is said, not only how many there must be', () => {
  const shares = { for: 'shares', cid: 'c', epoch: 1, missingHolders: ['cleo'], threshold: 3, until: 0 } as const;
  expect(shown({ waiting: [{ ...shares, held: ['ada', 'bert'] }] })).toContain('1 more key share (of 3)');
  expect(shown({ waiting: [{ ...shares, held: [] }] })).toContain('Waits for 3 key shares');
});

it('who only claims to be somebody is shown as UNVERIFIED', () => {
  const receipt = { signal: 'approve', arrival: 1, verdict: 'accepted', code: 'approve', text: 'approves' } as const;
  expect(shown({ receipts: [{ ...receipt, from: { name: 'grace', how: 'claimed' } }] })).toContain(
    'grace (UNVERIFIED)',
  );
  expect(shown({ receipts: [{ ...receipt, from: { name: 'grace', how: 'signed' } }] })).toContain('grace (signed)');
});

it('stays within what the server takes, whatever the run holds; the newest step stays', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 400 }), fc.integer({ min: 0, max: 2_000 }), (count, length) => {
      const steps = Array.from({ length: count }, (_, index) => ({
        number: index + 1,
        name: `Step ${index + 1}`,
        state: 'done' as const,
        attempt: 1,
        startedAt: 0,
        note: 'n'.repeat(length),
      }));
      const details = shown({ steps });
      expect(Buffer.byteLength(details)).toBeLessThan(20_000);
      expect(details).toContain(`${count}. **Step ${count}**`);
    }),
    { numRuns: 60, seed: 2 },
  );
});

test('no list is inside of a list: the Web UI runs its lines together', () => {
  const standBy = { holders: ['dora'], askedFrom: 0 };
  const text = shown({
    waiting: [
      { for: 'shares', cid: 'c', epoch: 1, held: [], missingHolders: ['ada', 'bert'], threshold: 2, until: 0, standBy },
    ],
  });
  expect(text).not.toMatch(/^[ \t]+- /m);
  expect(text).toContain('\nAsked, not in hand yet:\n\n- ada: `runbook share deployment:payments --holder ada`\n');
});

test('a receipt does not say its verdict twice', () => {
  const receipt = { signal: 'share', arrival: 1, verdict: 'refused', code: 'x', text: 'refused: not an envelope' };
  expect(shown({ receipts: [receipt] as unknown as RunStatus['receipts'] })).toContain(
    '- **share 1: refused** (x). not an envelope\n',
  );
});

const SHARES = {
  for: 'shares',
  cid: 'c',
  epoch: 1,
  held: [],
  missingHolders: ['ada'],
  threshold: 1,
  until: 0,
} as const;
const ASKED: NonNullable<RunStatus['asked']> = {
  kind: 'operation-token',
  targets: [{ cluster: 'west', uses: ['dr.promote', 'dr.disable'] }],
  requestedBy: { name: 'olga', how: 'claimed' },
  reason: 'site east is down',
};

it('a wait for key shares begins with cluster, use, who asks and why', () => {
  const text = shown({ waiting: [SHARES], asked: ASKED });
  const [before] = text.split('**Waits for');
  expect(before).toContain(
    '- One DR operation token on west, to promote it to DR primary; DISABLE replication on it\n',
  );
  expect(before).toContain('- Requested by olga (UNVERIFIED: ask that person)\n- Reason: site east is down\n');
  expect(shown({ asked: ASKED })).not.toContain('olga');
});

it('a root token, and a rehearsal, are named as what they are', () => {
  const root = { ...ASKED, kind: 'root-token', targets: [{ cluster: 'west', uses: ['root-token.generate'] }] } as const;
  expect(shown({ waiting: [SHARES], asked: root })).toContain('One ROOT token on west, to do ANYTHING on it');
  const rehearsal = { for: 'rehearsal', epoch: 1, answered: [], missing: ['ada'], until: 0 } as const;
  expect(shown({ waiting: [rehearsal], asked: { ...ASKED, kind: 'rehearsal', targets: [] } })).toContain(
    'no token, and no key share',
  );
});

it('what people write becomes neither heading nor link nor bold; commands of the run stay code', () => {
  const evil = 'a\n\n### **CRITICAL** [give it here](http://x) www.x <b>now</b>';
  const plain = 'a \\#\\#\\# \\*\\*CRITICAL\\*\\* \\[give it here\\](http\\://x) www\\.x \\<b\\>now\\</b\\>';
  const text = shown({
    waiting: [SHARES, { for: 'resume', by: 'olga', reason: evil }],
    asked: { ...ASKED, reason: evil },
    receipts: [{ signal: 'decide', arrival: 1, verdict: 'accepted', code: 'accepted', text: evil }],
    findings: [{ severity: 'warning', code: 'c', text: evil, next: 'run `runbook status w --json`, or 1 ` 2' }],
  });
  expect(text.split(plain)).toHaveLength(5);
  expect(text).not.toContain('**CRITICAL** [');
  expect(shown({ findings: [{ severity: 'warning', code: 'c', text: 't', next: 'do `a_b --c`, not d_e' }] })).toContain(
    'Next: do `a_b --c`, not d\\_e',
  );
});

it('what is to be done in the Web UI ends with Tab before the button', () => {
  expect(shown({ waiting: [SHARES] })).toMatch(/More Actions, Send a Signal, .* into Data, press Tab, Submit\n/);
});
