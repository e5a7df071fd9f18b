/** A run's status in words, in the terminal and in the Web UI: what is wrong first, whom it waits for, each exact command. */
import fc from 'fast-check';
import { Progress, statusLines } from '../../src/cli/render-status';
import type { RunView } from '../../src/cli/run';
import type { Finding } from '../../src/contracts/run-facts';
import type { RunStatus, Waiting } from '../../src/contracts/run-status';
import { currentDetails } from '../../workflows/engine/current-details';
import { BEGUN, VIEW } from './support';

const { workflowId: WID } = BEGUN;
const NOW = Date.parse('2026-11-21T12:00:30Z');
const at = (seconds: number): number => Date.parse('2026-11-21T12:00:00Z') + seconds * 1000;
const grace = { name: 'grace', how: 'signed' } as const;

const view = (more: Partial<RunStatus>): RunView => ({ ...VIEW, status: { ...BEGUN, ...more } });
const terminal = (more: Partial<RunStatus>) => statusLines(view(more), NOW).join('\n');
const details = (more: Partial<RunStatus>) => currentDetails({ ...BEGUN, ...more });

const inOrder = (text: string, parts: readonly string[]) => {
  const places = parts.map((part) => text.indexOf(part));
  expect([parts, places]).toEqual([parts, [...places].sort((a, b) => a - b)]);
  expect(places).not.toContain(-1);
};

type Shares = Extract<Waiting, { for: 'shares' }>;
const SHARES: Shares = {
  ...{ for: 'shares', cid: 'c', epoch: 1, held: ['ada'], missingHolders: ['cleo'], threshold: 3, until: at(60) },
};
const PARKED: Waiting = {
  ...{ for: 'decision', step: 'Promote west', parkingNo: 2, code: 'NOT_CAUGHT_UP', message: 'behind' },
  ...{ observed: '7 entries', needed: '0 entries', next: 'wait' },
  choices: [
    { action: 'retry', effect: 'once more' },
    { action: 'skip', effect: 'skip it', needsTwo: true },
  ],
  decidedOnce: { action: 'skip', by: grace },
};
const GATE: Waiting = {
  ...{ for: 'approval', gate: 'promote', planDigest: 'd', missing: ['1 of approvers'], approved: [] },
};
const COMMAND = 'vault operator generate-root -nonce=n';
const WAITING: readonly (readonly [Waiting, readonly string[], commands: readonly string[]])[] = [
  [GATE, ['for as long as the outage lasts', '1 of approvers'], [`runbook approve ${WID} --gate promote`]],
  [
    { ...GATE, again: 'the approvals were too old', until: at(60) },
    ['Needed again: the approvals were too old'],
    [`runbook approve ${WID} --gate promote`],
  ],
  [SHARES, ['Received: ada', 'Missing: cleo', 'Asked, not received yet'], [`runbook share ${WID} --holder cleo`]],
  [
    { ...SHARES, standBy: { holders: ['emil'], askedFrom: at(60) }, notJoined: ['fred'] },
    ['Standing by, asked at', 'Not invited: fred has not joined'],
    [`runbook share ${WID} --holder cleo`, `runbook share ${WID} --holder emil`],
  ],
  [
    PARKED,
    [
      'observed: 7 entries',
      'needed: 0 entries',
      'once more',
      'grace (signed) decided skip: A SECOND, DIFFERENT PERSON',
    ],
    [`runbook decide ${WID} --parking 2 --action retry`, `runbook decide ${WID} --parking 2 --action skip`],
  ],
  [
    { for: 'rehearsal', epoch: 1, answered: ['ada'], missing: ['bert', 'cleo'], until: at(60) },
    ['REHEARSAL: no key share is asked for', 'Answered: ada. Missing: bert, cleo.'],
    [`runbook share ${WID} --holder bert`, `runbook share ${WID} --holder cleo`],
  ],
  [{ for: 'resume', by: 'olga', reason: 'lunch' }, ['by olga: lunch'], [`runbook resume ${WID}`]],
  [
    {
      ...{ for: 'action', what: 'they enter shares', instructions: ['on each node'] },
      commands: ['ada', 'bert'].map((who) => ({ who, command: COMMAND })),
    },
    ['they enter shares', 'on each node', 'ada, bert:'],
    [COMMAND],
  ],
];

it.each(WAITING)('%j: missing people are named, with the exact command of each person', (waiting, texts, commands) => {
  const [shown, page] = [terminal({ waiting: [waiting] }), details({ waiting: [waiting] })];
  for (const text of texts) for (const each of [shown, page.replaceAll('\\', '')]) expect(each).toContain(text);
  // In a terminal each command stands alone in its line; in the Web UI it is code.
  for (const command of commands) {
    expect(shown.split('\n').map((line) => line.trim())).toContain(command);
    expect(page).toContain(`\`${command}\``);
  }
  // The Web UI runs the lines of a list inside of a list together, and those of a table.
  expect(page).not.toMatch(/^[ \t]+- |^\|/m);
});

it.each<[readonly string[], string]>([
  [[], '3 key shares'],
  [['ada'], '2 more key shares (of 3)'],
  [['ada', 'bert'], '1 more key share (of 3)'],
  [['ada', 'bert', 'cleo'], '3 key shares'],
])('with the shares of %j collected the run waits for %s', (held, words) => {
  expect(terminal({ waiting: [{ ...SHARES, held }] })).toContain(`Waiting for ${words} until`);
});

const REJECTED: Finding = { severity: 'warning', code: 'shares-rejected', text: 'The key shares made no token.' };
const ORPHAN: Finding = { severity: 'critical', code: 'orphan-token', text: 'A token may exist that nobody holds.' };
const OTHER: Finding = { severity: 'warning', code: 'x', text: 'A hook was slow.' };
const ASKED: NonNullable<RunStatus['asked']> = {
  kind: 'operation-token',
  targets: [{ cluster: 'west', uses: ['dr.promote', 'dr.disable'] }],
  requestedBy: { name: 'olga', how: 'claimed' },
  reason: 'site east is down',
};
const NIGHT: Partial<RunStatus> = {
  ...{ findings: [OTHER, REJECTED, ORPHAN], waiting: [SHARES, PARKED], invitation: 'i', asked: ASKED },
  steps: Array.from({ length: 12 }, (_, index) => ({
    ...{ number: index + 1, name: `Step ${index + 1}`, state: 'done' as const, attempt: 1, startedAt: 0, endedAt: 1 },
  })),
};

it('in the terminal: alarms, then problems, then the people it waits for, then the rest', () => {
  inOrder(terminal(NIGHT), [
    ', PARKED',
    'CRITICAL: A token may exist',
    'Warning: The key shares made',
    'PARKED at "Promote west"',
    'What key holders are asked for',
    'Waiting for 2 more key shares',
    'A hook was slow',
    `Steps (4 before these: runbook report ${WID})`,
    'Step 12',
  ]);
});

it('in the Web UI: the plan as it is signed, while its gate is open and for this plan only', () => {
  const plan = {
    ...{
      runbook: 'drSwitchover',
      deployment: 'payments',
      reason: '**now**',
      requestedBy: 'olga',
      choices: { go: 'auto' },
    },
    clusters: [{ cluster: 'east', clusterId: 'id-east', version: '1.20', dr: 'primary', performance: 'disabled' }],
    operations: [
      { kind: 'dr', endpoint: 'primary/demote', gate: 'plan', on: { cluster: 'east', clusterId: 'id-east' } },
    ],
    ...{
      warnings: ['Clients are paused'],
      steps: [{ step: 'Demote east', note: 'the OUTAGE begins' }, { step: 'Promote west' }],
    },
  };
  const gate: Waiting = {
    ...{ for: 'approval', gate: 'plan', planDigest: 'digest', missing: ['grace'], approved: [], until: at(60) },
  };
  const shown = details({ planText: JSON.stringify(plan), planDigest: 'digest', waiting: [gate] });
  inOrder(shown, [
    '**Waiting for approval of gate plan**',
    '#### The plan that approvers sign',
    '**Digest**: `digest`',
    '**Reason**: \\*\\*now\\*\\*. **Requested by**: olga, as claimed at the start; unverified',
    '- Clients are paused',
    '- demote east',
    '1. Demote east: the OUTAGE begins\n2. Promote west',
    '- east: DR primary, performance disabled, version 1.20, cluster ID id-east\n- go: auto',
    '#### Steps',
  ]);
  const without = [
    { planText: JSON.stringify(plan), planDigest: 'digest' },
    { planText: JSON.stringify(plan), planDigest: 'another', waiting: [gate] },
    { planText: 'not a plan', planDigest: 'digest', waiting: [gate] },
  ];
  for (const each of without) expect(details(each)).not.toContain('The plan that approvers sign');
});

it('the Web UI shows how an ended run went, with the command for its report', () => {
  const ended = { ...BEGUN, phase: 'finished', outcome: 'completed', leftToDo: ['Look at east'] } as const;
  const outage = {
    startedAt: '2026-11-21T12:00:00.000Z',
    totalMs: 6_100,
    serviceMs: 5_600,
    machineMs: 500,
    peopleMs: 0,
  };
  const bounded = { loss: 'bounded', boundWalEntries: '7', why: 'nothing was compared' } as const;
  inOrder(currentDetails(ended, { outage, loss: bounded, clientsHeld: undefined }), [
    'Finished, completed',
    '**Outage**: 6.1 s (service 5.6 s, machine 500 ms, people 0 ms)',
    '**Data loss**: at most 7 WAL entries: nothing was compared',
    `**Report**: \`runbook report ${WID} --run-id r\``,
    '**Left to do**: Look at east',
  ]);
  const open = { startedAt: outage.startedAt };
  const none = { loss: 'none', why: 'equal roots' } as const;
  const shown = currentDetails(ended, { outage: open, loss: none, clientsHeld: { from: outage.startedAt } });
  inOrder(shown, ['**Outage**: no end known', '**Data loss**: none: equal roots', '**Clients paused**: no end known']);
});

it('in the Web UI: the same, and a parked run says so in its heading', () => {
  inOrder(details(NIGHT), [
    '### drSwitchover of payments: PARKED',
    '**CRITICAL**: A token may exist',
    '**Warning**: The key shares made',
    '**PARKED at "Promote west"**',
    'What key holders are asked for',
    '- One DR operation token on west, to promote it to DR primary; DISABLE replication on it\n',
    '- Requested by olga (UNVERIFIED: ask that person)\n- Reason: site east is down\n',
    '**Waiting for 2 more key shares (of 3)**',
    'A hook was slow',
    '#### Steps',
  ]);
  // What ended is not told as if it were now.
  inOrder(details({ findings: [OTHER, REJECTED], asked: ASKED }), ['A hook was slow', 'The key shares made']);
  expect(details({ asked: ASKED })).not.toContain('olga');
  expect(details(NIGHT)).toMatch(/More Actions, Send a Signal, .* into Data, press Tab, Submit\n/);
});

it('a root token, and a rehearsal, are named as what they are', () => {
  const root = { ...ASKED, kind: 'root-token', targets: [{ cluster: 'west', uses: ['root-token.generate'] }] } as const;
  expect(details({ waiting: [SHARES], asked: root })).toContain('One ROOT token on west, to do ANYTHING on it');
  const rehearsal = { for: 'rehearsal', epoch: 1, answered: [], missing: ['ada'], until: 0 } as const;
  expect(details({ waiting: [rehearsal], asked: { ...ASKED, kind: 'rehearsal', targets: [] } })).toContain(
    'no token, and no key share',
  );
});

it('a step is shown with attempt, time and note; a receipt with its sender, marked if only claimed, its verdict once', () => {
  const step = {
    number: 1,
    name: 'Read',
    state: 'done',
    attempt: 2,
    startedAt: 0,
    endedAt: 1_500,
    note: '30 ok',
  } as const;
  expect(details({ steps: [step] })).toContain('1. **Read**: done in 1.5 s, attempt 2. 30 ok');
  const receipt = { signal: 'share', arrival: 1, verdict: 'refused', code: 'x', text: 'refused: no envelope' } as const;
  const from = { name: 'grace', how: 'claimed' } as const;
  for (const told of [details, terminal])
    expect(told({ receipts: [{ ...receipt, from }] }).replaceAll('*', '')).toContain(
      'share 1 from grace (UNVERIFIED): refused (x): no envelope\n',
    );
});

it('in an outage no line says that service is up; a run that ended says how, and what is left to do', () => {
  expect(details({ phase: 'outage', outageSince: 0 })).toContain('**OUTAGE** since 1970-01-01 00:00:00 UTC');
  for (const phase of ['waiting-for-people', 'preparing', 'working'] as const) {
    expect(details({ phase })).toContain('service is up');
    expect(details({ phase, outageSince: 0 })).not.toContain('service is up');
  }
  const ended = details({
    ...{ phase: 'finished', outcome: 'aborted', leftToDo: ['Keep east fenced.'], outageSince: 0, serviceBackAt: 1 },
  });
  inOrder(ended, ['Finished, aborted', '**Left to do**: Keep east fenced.', '#### Steps']);
  expect(ended).not.toContain('OUTAGE');
});

it('an accepted decision that is under way replaces the question', () => {
  const carryingOut = [{ step: 'Promote west', action: 'retry', by: grace, at: at(5) }] as const;
  const said = '"retry" of "Promote west" is being carried out: accepted, decided by grace (signed), at 12:00:05Z';
  expect(terminal({ carryingOut })).toContain(said);
  const progress = new Progress();
  expect(progress.lines(view({ carryingOut }), NOW).join('\n')).toContain(said);
  expect(progress.lines(view({ carryingOut }), NOW)).toEqual([]);
  const memo = { runbook: 'drSwitchover', deployment: 'payments', phase: 'outage', carryingOut: said } as const;
  expect(statusLines({ ...VIEW, memo }, NOW).join('\n')).toContain(said);
});

it('a run that was ended from outside does not wait for people, and its last step keeps its state', () => {
  const step = { number: 7, name: 'Demote east', state: 'running', attempt: 1, startedAt: 1 } as const;
  const ended = { ...view({ ...NIGHT, paused: true, steps: [step] }), state: 'terminated', closedAt: VIEW.startedAt };
  const text = statusLines(ended, NOW).join('\n');
  expect(text).toContain('terminated in phase');
  expect(text).toContain('7. Demote east: running when the run ended');
  expect(`${text}${new Progress().lines(ended, NOW).join('\n')}`).not.toMatch(/PAUSED|PARKED|Waits for/);
});

it('the Web UI never gets more than the server accepts, however much the run holds; the newest step stays', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 400 }), fc.integer({ min: 0, max: 2_000 }), (count, length) => {
      const steps = Array.from({ length: count }, (_, index) => ({
        ...{ number: index + 1, name: `Step ${index + 1}`, state: 'done' as const, attempt: 1, startedAt: 0 },
        note: 'n'.repeat(length),
      }));
      const page = details({ steps });
      expect(Buffer.byteLength(page)).toBeLessThan(20_000);
      expect(page).toContain(`${count}. **Step ${count}**`);
    }),
    { numRuns: 20, seed: 2 },
  );
});

it('in the Web UI text of people becomes neither heading nor link nor bold; commands of the run stay code', () => {
  const evil = 'a\n\n### **CRITICAL** [give it here](http://x) www.x <b>now</b>';
  const plain = 'a \\#\\#\\# \\*\\*CRITICAL\\*\\* \\[give it here\\](http\\://x) www\\.x \\<b\\>now\\</b\\>';
  const text = details({
    waiting: [SHARES, { for: 'resume', by: 'olga', reason: evil }],
    asked: { ...ASKED, reason: evil },
    receipts: [{ signal: 'decide', arrival: 1, verdict: 'accepted', code: 'accepted', text: evil }],
    findings: [{ severity: 'warning', code: 'c', text: evil, next: 'do `a_b --c`, not d_e, or 1 ` 2' }],
  });
  expect(text.split(plain)).toHaveLength(5);
  expect(text).not.toContain('**CRITICAL** [');
  expect(text).toContain('Next: do `a_b --c`, not d_e');
});

it('watch prints the events of one reading in the order in which they happened, and none twice', () => {
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

it('watch prints each outage and its length: one that was not begun after all is followed by the real one', () => {
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
    '12:00:24Z == BACK: clients have a primary again after 4.0 s',
    '12:00:30Z == Protection is being restored',
  ]);
});

it('watch says that a run finished once it has: its last step writes the report', () => {
  const progress = new Progress();
  const step = { number: 2, name: 'Write the report', attempt: 1, startedAt: at(20) };
  const finished = (state: 'running' | 'done', run: string) => {
    const steps = [{ ...step, state, ...(state === 'done' && { endedAt: at(21) }) }];
    return progress.lines({ ...view({ phase: 'finished', outcome: 'completed', steps }), state: run }, NOW);
  };
  expect(finished('running', 'running')).toEqual(['12:00:20Z 2. Write the report: running']);
  expect(finished('done', 'completed')).toEqual([
    '12:00:21Z 2. Write the report: done in 1.0 s',
    '12:00:30Z == Finished, completed',
  ]);
});

it('watch announces a gate again that is opened again, and a worker that is gone, each once', () => {
  const progress = new Progress();
  const look = (...waiting: readonly Waiting[]) => progress.lines(view({ waiting }), NOW).join('\n');
  expect(look(GATE)).toContain('Waiting for approval of gate promote');
  expect(look(GATE)).toBe('');
  expect(look({ ...GATE, again: 'too old' })).toMatch(/Needed again: too old[^]*\n +runbook approve/);
  expect(progress.lines(VIEW, NOW)).toEqual([
    '12:00:30Z == No worker answers. Why:',
    `              runbook status ${WID}`,
  ]);
  expect(progress.lines(VIEW, NOW)).toEqual([]);
  expect(look(GATE)).toBe('12:00:30Z == Reading and checking; nothing is changed');
});
