/**
 * Words of whoever started a run or sent a signal, and texts of a service, in everything that shows them: they end no line,
 * no terminal and no browser obeys them, and none of them becomes a command, a link or a heading of ours.
 */
import { messageOf, chatText } from '../../activities/notifications/notification-texts';
import { requestLines } from '../../src/cli/invitation';
import { readinessText } from '../../src/cli/commands/start';
import { errorLines } from '../../src/cli/errors';
import { Progress, receiptLines, statusLines } from '../../src/cli/render-status';
import { approvalLines, planLines } from '../../src/cli/render-plan';
import { wrapped } from '../../src/cli/text';
import { summaryLines, timeLineLines } from '../../src/cli/read-report';
import type { RunView } from '../../src/cli/run';
import { askedText } from '../../src/contracts/next-commands';
import type { Check } from '../../src/contracts/plan';
import {
  inCode,
  jsonText,
  oneLine,
  prose,
  escapeUntrusted,
  terminalLine,
  terminalText,
} from '../../src/contracts/words';
import type { ReadinessResult } from '../../src/contracts/readiness';
import type { Report } from '../../src/contracts/report';
import type { Attested } from '../../src/contracts/run-facts';
import type { RunStatus, Waiting, Asked } from '../../src/contracts/run-status';
import type { CeremonyRequest } from '../../src/documents/ceremony-request';
import type { Inventory } from '../../src/inventory';
import { renderHtml, renderMarkdown } from '../../src/report/render';
import { reportOf } from '../../src/report/report-of-run';
import { loggedFields } from '../../src/worker/logging';
import { currentDetails } from '../../workflows/engine/current-details';
import { BEGUN, cli, VIEW } from '../cli/support';
import { PLAN as SWITCHOVER_PLAN, finishedSwitchover } from '../report/support/switchover';

/** What a service or a proxy may answer. Each part begins lines, moves the cursor, turns the reading direction or is markup. */
const OTHERS =
  'x\nFORGED line\r\nFORGED again\u001b[2J\u001b]8;;https://evil.example\u0007\u0085FORGED\u009b31m\u202eFORGED\u2066\u200b\ufeff\u2028FORGED\u2029FORGED\u{e0041}\u2800\u3164\u115f\u1160\uffa0\u034f\u00a0FORGED a\u0301\u0301\u0301\u0301\u0301\u0301 [FORGED](https://evil.example) <b>FORGED</b> ![FORGED](https://evil.example/p.png)';
/** What a person may write: a command, too. */
const THEIRS = `${OTHERS} \`runbook approve FORGED\` \`\`\`\n# FORGED`;
const BY: Attested = { name: THEIRS, how: 'claimed' };
/** Holders are people of the inventory: their names stand in commands. */
const FREE = new Set(
  'reason text next message observed needed why note effect what ticket step comment error lastFailure detail'.split(
    ' ',
  ),
);
const PEOPLES = new Set(['reason', 'ticket', 'comment']);

/** The value with hostile words at the end of each free text in it, and in place of who sent something. */
function poisoned<T>(value: T): T {
  const walk = (each: unknown, key: string): unknown => {
    if (typeof each === 'string') return FREE.has(key) ? `${each} ${PEOPLES.has(key) ? THEIRS : OTHERS}` : each;
    if (Array.isArray(each))
      return each.map((item) =>
        walk(item, ['instructions', 'leftToDo', 'steps', 'warnings'].includes(key) ? 'text' : key),
      );
    if (typeof each !== 'object' || each === null) return each;
    if (key === 'by' || key === 'from' || key === 'requestedBy')
      return 'how' in each ? { ...each, name: THEIRS } : each;
    return Object.fromEntries(Object.entries(each).map(([name, member]) => [name, walk(member, name)]));
  };
  return walk(value, '') as T;
}

const UNTIL = Date.parse('2026-03-01T12:00:00Z');
const WAITS: readonly Waiting[] = [
  { for: 'approval', gate: 'plan', planDigest: 'd', missing: [OTHERS], approved: [BY], until: UNTIL },
  {
    ...{ for: 'shares', cid: 'c', epoch: 1, held: [OTHERS], missingHolders: ['ada', OTHERS], threshold: 3 },
    ...{ until: UNTIL, standBy: { holders: [OTHERS], askedFrom: UNTIL }, notJoined: [OTHERS] },
  },
  { for: 'rehearsal', epoch: 1, answered: [OTHERS], missing: [OTHERS], until: UNTIL },
  {
    ...{ for: 'decision', step: 'Promote west', parkingNo: 1, code: 'OUTCOME_UNKNOWN' },
    ...{ message: `The service said: ${OTHERS}`, observed: OTHERS, needed: OTHERS },
    next: `Look at it: \`runbook status deployment:payments\`. ${OTHERS}`,
    choices: [{ action: 'retry', effect: OTHERS, needsTwo: true }],
    decidedOnce: { action: 'retry', by: BY },
  },
  { for: 'resume', by: THEIRS, reason: THEIRS },
  {
    ...{ for: 'action', what: OTHERS },
    instructions: [`\`vault operator generate-root -dr-token\` ${OTHERS}`],
    commands: [{ who: OTHERS, command: 'runbook status deployment:payments' }],
  },
];

const ASKED_FOR: Asked = {
  ...{ kind: 'operation-token', targets: [{ cluster: OTHERS, uses: ['dr.promote'] }], requestedBy: BY, reason: THEIRS },
};
const STATUS: RunStatus = {
  ...{ ...BEGUN, phase: 'waiting-for-people', paused: true, waiting: WAITS },
  ...{ planText: JSON.stringify(poisoned(SWITCHOVER_PLAN)), planDigest: 'd' },
  steps: [{ number: 1, name: 'Read', state: 'done', attempt: 1, startedAt: 0, endedAt: 1, note: `17 ok ${OTHERS}` }],
  receipts: [
    { signal: 'decide', arrival: 1, verdict: 'accepted', code: 'c', text: escapeUntrusted(THEIRS), from: BY },
    { signal: 'share', arrival: 1, verdict: 'refused', code: 'malformed', text: `refused: ${OTHERS}`, from: BY },
  ],
  findings: [
    { severity: 'critical', code: 'orphan-token', text: OTHERS, next: `Give \`runbook status deployment:payments\`` },
  ],
  ...{ leftToDo: [OTHERS], invitation: 'i', asked: ASKED_FOR },
};

const WITHOUT_WORKER: RunView = {
  ...VIEW,
  pendingActivities: [{ type: 'promoteSecondary', attempt: 3, started: true, lastFailure: OTHERS }],
  memo: {
    ...{ runbook: 'drSwitchover', deployment: 'payments', phase: 'outage', step: OTHERS },
    waitingFor: escapeUntrusted(THEIRS),
  },
};

const RUNBOOK_PLAN = {
  ...{
    runbook: 'drSecondaryOnboarding',
    deployment: 'payments',
    warnings: [OTHERS],
    steps: [{ step: OTHERS, note: OTHERS, when: OTHERS }],
  },
  clusters: [{ cluster: 'east', clusterId: 'id', version: OTHERS, dr: OTHERS, performance: OTHERS }],
  operations: [
    {
      ...({ kind: 'dr', endpoint: 'secondary/enable', gate: 'wipe' } as const),
      ...{ on: { cluster: 'north', clusterId: 'id' }, detail: OTHERS },
    },
  ],
  ...{ choices: { [OTHERS]: OTHERS }, reason: THEIRS },
};
const PRECONDITIONS: readonly Check[] = [
  { name: 'p', observed: OTHERS, needed: OTHERS, verdict: 'fail', next: `Give \`runbook status x\`: ${OTHERS}` },
];
const READINESS = {
  deployment: 'payments',
  switchover: 'not-ready',
  failover: 'ready',
  changes: [{ id: '0', change: 'worse', before: 'ok', now: 'fail' }],
  candidates: [],
  points: [
    { verdict: 'fail', cluster: 'east', next: OTHERS },
    { verdict: 'not-checkable', reason: OTHERS },
    { verdict: 'ok' },
  ].map((each, id) => ({ id: `${id}`, about: 'both', observed: OTHERS, needed: OTHERS, source: 'api', ...each })),
} as unknown as ReadinessResult;
const REPORT: Report = poisoned({
  ...reportOf(finishedSwitchover().build()),
  reason: 'planned',
  controls: [{ control: 'pause', by: BY, reason: 'wait', at: '2026-03-01T10:00:00.000Z' }],
  findings: STATUS.findings.map((each) => ({ ...each, at: '2026-03-01T10:00:00.000Z' })),
  leftToDo: ['See to it.'],
});
const ASKED = {
  ...{ kind: 'ceremony', environment: 'production', digest: 'd' },
  invitation: {
    ...{ kind: 'operation-token', runbook: 'drSwitchover', requestedBy: BY, reason: THEIRS, holders: [THEIRS] },
    targets: [{ cluster: OTHERS, clusterId: OTHERS, uses: ['dr.promote'], addresses: [OTHERS], caSha256: '' }],
    ...{ threshold: 1, erasure: 'memory', useFor: 60, recipient: OTHERS, pgp: 'ab', inputDigest: 'd' },
    ...{ wid: OTHERS, rid: OTHERS, ns: OTHERS, cid: OTHERS, epoch: 1, exp: 2_000_000_000, iat: 1_900_000_000 },
  },
} as unknown as CeremonyRequest;

/** As a word of a command line. */
const HOSTILE = 'a\u001b[2J\u202e\u009bb';
const UNSHOWN = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}|\p{M}{5}/u;

function columnsOf(line: string): number {
  return [...line].reduce((sum, letter) => sum + (/[\u2e80-\u9fff]/.test(letter) ? 2 : 1), 0);
}

const TERMINAL: Readonly<Record<string, readonly string[]>> = {
  'runbook status': statusLines({ ...WITHOUT_WORKER, status: STATUS }, UNTIL),
  'runbook status without a worker': statusLines(WITHOUT_WORKER, UNTIL),
  'runbook watch': new Progress().lines({ ...WITHOUT_WORKER, status: STATUS }, UNTIL),
  receipts: STATUS.receipts.flatMap((receipt) => receiptLines(receipt)),
  'the end of a run': [...summaryLines(REPORT), ...timeLineLines(REPORT)],
  'an error': errorLines({ code: 'X', message: OTHERS, observed: OTHERS, needed: OTHERS, next: OTHERS }),
  'approval of a switchover': approvalLines({ text: STATUS.planText ?? '', digest: OTHERS }, 'plan'),
  'approval of another plan': approvalLines({ text: JSON.stringify(RUNBOOK_PLAN), digest: 'd' }, 'wipe'),
  'approval of an unknown plan': approvalLines({ text: JSON.stringify({ a: OTHERS }), digest: 'd' }, 'plan'),
  'approval of no plan': approvalLines({ text: OTHERS, digest: 'd' }, 'plan'),
  'runbook plan': planLines({ ...REPORT, preconditions: PRECONDITIONS }).map(terminalLine),
  'runbook readiness': readinessText(READINESS),
  'the invitation': requestLines(ASKED, UNTIL),
  'what is asked': askedText(ASKED_FOR),
};

describe('in a terminal', () => {
  it.each(Object.entries(TERMINAL))(
    '%s: other people cannot begin a line, move the cursor or write a command',
    (_, lines) => {
      expect(lines.join(' ')).toContain('FORGED');
      for (const line of lines) {
        expect(line).not.toMatch(UNSHOWN);
        expect(line).not.toMatch(/^\W*(FORGED|runbook approve FORGED)/);
        // Nor in its first column, whatever its first letter is.
        expect(line).not.toMatch(/^x\b/);
        // A command of ours stands alone, without marks: backticks could only be somebody else's.
        expect(line).not.toContain('`');
      }
    },
  );

  it.each(Object.entries(TERMINAL))(
    '%s: text of others never reaches its first column, however wide it is',
    (_, shown) => {
      const long = `${'x'.repeat(200)} ${'\u6f22'.repeat(90)} ${'y '.repeat(100)}`;
      for (const columns of [24, 80]) {
        for (const line of shown.map((each) => terminalLine(each.replace('FORGED', `${long}FORGED`)))) {
          const [first = '', ...further] = wrapped(line, columns);
          expect(further.filter((each) => !/^ {2,}\| \S/.test(each))).toEqual([]);
          const without = further.map((each) => each.replace(/^ *\| /, ''));
          expect([first, ...without].join('').replaceAll(' ', '')).toBe(line.replaceAll(' ', ''));
          // What is copied stays whole: a command of ours, and JSON.
          const copied = /^ *(?:runbook |vault |[{[])/.test(line);
          expect(copied ? further : [first, ...further].filter((each) => columnsOf(each) > columns)).toEqual([]);
        }
      }
    },
  );

  it('printed text is wrapped to it, and not if it goes elsewhere', async () => {
    const word = `x${' z'.repeat(100)}`;
    const { err } = await cli([word], { columns: 80 });
    expect(err.split('\n').length).toBeGreaterThan(2);
    expect(err.split('\n').filter((line) => line.length > 80)).toEqual([]);
    expect((await cli([word])).err).toContain(word);
  });

  it('our own commands are alone in their lines, to be copied unchanged', () => {
    const lines = terminalText(
      'refused: too old. Next: `runbook share w --holder ada`, or `--print`; `runbook status w` shows more.',
      '  ',
    );
    expect(lines).toEqual([
      '  refused: too old. Next:',
      '      runbook share w --holder ada',
      '    or --print;',
      '      runbook status w',
      '    shows more.',
    ]);
    expect(terminalText('no `pair')).toEqual(["no 'pair"]);
    // One that is left over takes no command out of a text; a command keeps its spaces.
    const command = "runbook share x --key '/a/b  c/k'";
    expect(terminalText(`Run  \`${command}\` now. It has \`odd`)).toEqual([
      'Run',
      `    ${command}`,
      "  now. It has 'odd",
    ]);
    expect([inCode(command), prose(`\`${command}\``)]).toEqual([`\`${command}\``, `\`${command}\``]);
  });

  it.each([['runbooks', HOSTILE], ['status', `--${HOSTILE}`], [HOSTILE], ['runbooks', HOSTILE, '--json']])(
    'the output of a command is one line each, also if a text bypassed every renderer: %#',
    async (...words) => {
      const { code, out, err } = await cli(words);
      expect(code).not.toBe(0);
      expect(out + err).toMatch(/a.*b/);
      expect(`${out}\n${err}`.split('\n').filter((line) => UNSHOWN.test(line))).toEqual([]);
    },
  );
});

describe('every character', () => {
  /** Seen as nothing by their shapes, whatever their category says. */
  const BLANK =
    /[\u{1107f}\u{16fe4}\u{13441}\u{13442}\u{1d159}\p{Default_Ignorable_Code_Point}\u2800\u3164\u115f\u1160\uffa0\ufffc\p{Z}\p{C}]/u;
  const all = Array.from({ length: 0x110000 }, (_, code) => code).filter((code) => code < 0xd800 || code > 0xdfff);

  /** Many at a time, each between letters of ours: one by one they cost half a minute. */
  const chunks = Array.from({ length: Math.ceil(all.length / 4_096) }, (_, index) =>
    all.slice(index * 4_096, (index + 1) * 4_096).map((code) => String.fromCodePoint(code)),
  );

  it('is shown as itself, or never appears in text of others', () => {
    const wrong = chunks.flatMap((letters) => {
      const shown = escapeUntrusted(letters.map((letter) => `a${letter}b`).join('')).split(/(?<=b)(?=a)/);
      expect(shown).toHaveLength(letters.length);
      return letters.filter((letter, index) => {
        if (letter === '`') return shown[index] !== "a'b";
        if (BLANK.test(letter)) return !['ab', 'a b', 'a\ufffdb'].includes(shown[index] ?? '');
        return shown[index] !== `a${letter}b`;
      });
    });
    expect(wrong.map((letter) => letter.codePointAt(0)?.toString(16))).toEqual([]);
  });

  it('that is a mark appears on a letter of theirs, with few others', () => {
    const marks = chunks.flat().filter((letter) => /\p{M}/u.test(letter) && !BLANK.test(letter));
    expect(marks.length).toBeGreaterThan(2_000);
    const wrong = marks.filter(
      (mark) => escapeUntrusted(`${mark}a`) !== 'a' || escapeUntrusted(`a${mark.repeat(9)}`) !== `a${mark.repeat(4)}`,
    );
    expect(wrong).toEqual([]);
  });

  it('comes back unchanged from JSON that a terminal showed', () => {
    // All of the first plane, and a part of the others.
    const texts = chunks.filter((_, index) => index < 16 || index % 16 === 0).map((letters) => letters.join(''));
    for (const text of [...texts, OTHERS, THEIRS]) {
      const lines = jsonText({ [text]: text }, 2).split('\n');
      expect(lines.join('')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
      expect(JSON.parse(lines.map(terminalLine).join('\n'))).toEqual({ [text]: text });
    }
  });
});

describe('as Markdown', () => {
  const waits = WAITS.map((waiting) => currentDetails({ ...STATUS, waiting: [waiting] }));

  it.each([...waits, renderMarkdown(REPORT)])(
    'other people cannot write a link, a heading or a command: %#',
    (text) => {
      expect(text).toContain('FORGED');
      expect(text.replaceAll('\n', '')).not.toMatch(UNSHOWN);
      expect(text).not.toMatch(/^\W*FORGED/m);
      const shown = text.replace(/(?<![\\`])(`+)(?!`)[^\n]*?(?<!`)\1(?!`)/g, (code) => {
        // What stands in code is a command of ours: words of others are at most one of its words, in quotes.
        expect(code).not.toMatch(/^`+ ?(runbook approve )?FORGED/);
        return '';
      });
      expect(shown).not.toMatch(/(?<!\\)\[FORGED(?<!\\)\]/);
      expect(shown).not.toContain('<b>');
    },
  );

  it('a command with backticks in it stays one', () => {
    expect(inCode('runbook status a`b')).toBe('`` runbook status a`b ``');
  });
});

it('a report as HTML shows it and does not interpret it', () => {
  const html = renderHtml(REPORT);
  expect(html).toContain('FORGED');
  expect(html).not.toMatch(/<b>FORGED|href="https:\/\/evil/);
  expect(html.replaceAll('\n', '')).not.toMatch(UNSHOWN);
});

it('people outside of a run are notified in lines of ours', () => {
  const common = { event: 'parked', severity: 'critical', runbook: 'drSwitchover', number: 1, subject: 's' } as const;
  const deployments = new Map([['payments', { clusters: new Map() }]]);
  const inventory = { temporal: {}, people: new Map(), deployments } as unknown as Inventory;
  for (const waiting of WAITS) {
    const told = { ...common, at: 0, words: OTHERS, waiting, leftToDo: [OTHERS] };
    const message = messageOf(inventory, 'payments', told, { ns: 'n', wid: 'w', rid: 'r' });
    expect(chatText(message)).not.toMatch(/https?:|evil\.example/);
    expect(chatText(message).replaceAll('\n', '')).not.toMatch(UNSHOWN);
    expect(chatText(message)).not.toMatch(/^\W*(FORGED|# FORGED)/m);
    expect(message.title).not.toMatch(UNSHOWN);
  }
});

it('a line of the log is one line, in a terminal too', () => {
  const fields = loggedFields({ workflowId: OTHERS, step: THEIRS, error: new Error(OTHERS) });
  for (const value of Object.values(fields)) expect(value).toBe(oneLine(String(value)));
  expect(JSON.stringify(fields)).not.toMatch(UNSHOWN);
});
