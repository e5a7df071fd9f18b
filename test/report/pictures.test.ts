/** The pictures of a report: true to what the run read and when, with names that never touch, and words that nobody obeys. */
import { ACTIVITY_KINDS, changesSomething } from '../../src/contracts/activities';
import type { ClusterObservation, ReplicationObservation } from '../../src/contracts/observations';
import type { Report } from '../../src/contracts/report';
import type { RunFact } from '../../src/contracts/run-facts';
import { changesRoles } from '../../src/report/readings';
import { renderHtml } from '../../src/report/render';
import { reportOf } from '../../src/report/report-of-run';
import { rolesOf, rolesText } from '../../src/report/roles';
import type { Roles } from '../../src/report/roles';
import { placeOn, ticksOf, timeLineOf } from '../../src/report/time-line';
import type { TimeLine } from '../../src/report/time-line';
import { timeLineText } from '../../src/report/time-line-text';
import { findChromium, startChromium } from '../support/chromium';
import { recordedHistories } from '../support/matrix';
import { mistakesIn, textsIn } from '../support/report-checks';
import { hasReport, recordOf } from './support/recorded';
import type { ActivitySpecification } from './support/run-builder';
import { decided, parked, RunBuilder, when } from './support/run-builder';
import { finishedSwitchover, PLAN, TIMES } from './support/switchover';

type Kind = readonly [mode: string, setId?: string, state?: string];

const replication = ([mode, setId, state = 'stream-wals']: Kind): ReplicationObservation => ({
  ...{ mode, peers: [], ...(setId !== undefined && { setId }) },
  ...(mode === 'secondary' && { state, connectionState: 'ready' }),
});

function cluster(name: string, dr?: Kind, performance: Kind = ['disabled'], at = 1): ClusterObservation {
  const read = dr && { dr: replication(dr), performance: replication(performance) };
  return { cluster: name, at: when(at), reachable: dr !== undefined, nodes: [], ...read };
}

const done = reportOf(finishedSwitchover().build());
/** The report of a switchover that read this. */
const reading = (before: ClusterObservation[], after: ClusterObservation[], more: Partial<Report> = {}): Report => ({
  ...done,
  ...{ initialState: before, finalState: after, finalRoles: 'read-after-changes' },
  ...more,
});
const NAMES = ['east', 'west', 'north', 'europe', 'europe-dr', 'asia'];
/** Two DR secondaries, and performance secondaries, one of which has a DR secondary. */
const six = (primary: string, names = NAMES): ClusterObservation[] => {
  const [east = '', west = '', north = '', europe = '', europeDr = '', asia = ''] = names;
  const inSet = (name: string): ClusterObservation =>
    name === primary ? cluster(name, ['primary', 'a'], ['primary', 'p']) : cluster(name, ['secondary', 'a']);
  return [
    ...[east, west, north].map(inSet),
    cluster(europe, ['primary', 'b'], ['secondary', 'p']),
    cluster(europeDr, ['secondary', 'b', 'idle']),
    cluster(asia, ['disabled'], ['secondary', 'p']),
  ];
};
const told = ({ clusters, links }: Roles) => clusters.map((each) => `${each.cluster}: ${rolesText(each, links)}`);

describe('roles before and after', () => {
  it('are those that the clusters reported, with whom each of them follows', () => {
    const [before, after] = rolesOf(reading(six('east'), six('west')));
    expect(before && told(before)).toEqual([
      'east: DR primary, performance primary',
      'west: DR secondary of east',
      'north: DR secondary of east',
      'europe: DR primary, performance secondary of east',
      'europe-dr: DR secondary of europe, DR: idle',
      'asia: performance secondary of east',
    ]);
    expect(after && told(after).slice(0, 3)).toEqual([
      'east: DR secondary of west, was DR primary, was performance primary',
      'west: DR primary, performance primary, was DR secondary',
      'north: DR secondary of west',
    ]);
    expect(after?.links.filter(({ streams }) => !streams).map(({ secondary }) => secondary)).toEqual(['europe-dr']);
  });

  it('of a primary that does not answer come from the plan, and are not drawn as a working replication', () => {
    const before = [cluster('east'), cluster('west', ['secondary', 'a'])];
    const after = [cluster('east'), cluster('west', ['primary', 'a'])];
    const [east, west] = [
      { cluster: 'east', clusterId: 'e' },
      { cluster: 'west', clusterId: 'w' },
    ];
    const promotion = { kind: 'dr', endpoint: 'secondary/promote', gate: 'promote', on: west, with: east } as const;
    const content = { ...PLAN, runbook: 'drFailover' as const, operations: [promotion] };
    const [first, last] = rolesOf(reading(before, after, { plan: { digest: 'd', content } }));
    expect(first && told(first)).toEqual([
      'east: roles not read, did not answer, the primary that is gone',
      'west: DR secondary of east',
    ]);
    expect(first?.links).toEqual([{ kind: 'dr', primary: 'east', secondary: 'west', streams: false }]);
    expect(last && told(last)).toEqual(['east: roles not read, did not answer', 'west: DR primary, was DR secondary']);
  });

  const read = (scheduledAt: number, mode: string): ActivitySpecification => ({
    ...{ type: 'readDeployment', step: { name: 'Read', number: 1 }, scheduledAt, endedAt: scheduledAt + 5 },
    result: { observations: [cluster('east', [mode, 'a'])] },
  });
  const demotion = (scheduledAt: number, endedAt?: number): ActivitySpecification => ({
    ...{ type: 'demotePrimary', step: { name: 'Demote east', number: 2 }, input: { cluster: 'east' }, scheduledAt },
    ...(endedAt !== undefined && { endedAt, result: { outcome: 'done' } }),
  });

  it.each([
    ['unchanged', [read(10, 'primary')], ['unchanged']],
    ['read-after-changes', [read(10, 'primary'), demotion(20, 40), read(50, 'secondary')], ['before', 'after']],
    ['not-read-after-changes', [read(10, 'primary'), demotion(20, 40)], ['before']],
    ['not-read-after-changes', [read(10, 'primary'), demotion(20)], ['before']],
    ['not-read-after-changes', [read(10, 'primary'), demotion(20, 40), read(30, 'primary')], ['before']],
  ] as const)('are %s, by the times of the readings and of the changes', (expected, activities, pictures) => {
    const report = reportOf(new RunBuilder(activities).build());
    expect(report.finalRoles).toBe(expected);
    expect(rolesOf(report).map((each) => each.when)).toEqual(pictures);
    expect(textsIn(renderHtml(report)).includes('After: not read')).toBe(expected === 'not-read-after-changes');
  });

  it('may change with each activity that changes a cluster, apart from those that change no role', () => {
    const changing = Object.keys(ACTIVITY_KINDS).filter((each) => changesSomething(each) && !changesRoles(each));
    expect(changing.sort()).toEqual([
      ...['completeGeneration', 'createCeremony', 'createRehearsal', 'deleteOperationTokens', 'destroyCeremonyKeys'],
      ...['disposeLedgerToken', 'fenceLostPrimary', 'forgetLedgerToken', 'issueOutsideToken', 'proveWrite'],
      ...['quiesceByQuota', 'releaseQuota', 'rotateBatchToken', 'runHook', 'settleGeneration', 'startDrReindex'],
      ...['startGeneration', 'takeKeptToken', 'takeProvidedTokens', 'takeSnapshot', 'unfenceFormerPrimary'],
      ...['writeMarker', 'writePathsFilter'],
    ]);
  });
});

const lineOf = (report: Report, most = 44): TimeLine => {
  const line = timeLineOf(report, most);
  if (!line) throw new Error('no time line');
  return line;
};
const rowOf = (line: TimeLine, text: string) => line.rows.find((row) => row.text.startsWith(text));
const step = (name: string, number: number, from: number, to?: number, more: Partial<ActivitySpecification> = {}) => ({
  ...{ type: 'readDeployment', step: { name, number }, scheduledAt: from, startedAt: from },
  ...(to !== undefined && { endedAt: to, result: {} }),
  ...more,
});
const gate = (state: 'opened' | 'approved', at: number): RunFact => ({
  ...{ kind: 'gate', gate: 'plan', planDigest: 'd', state, at: when(at) },
  by: state === 'opened' ? [] : [{ name: 'paul', how: 'claimed' }],
});

describe('the time line', () => {
  it('has the outage, steps by number, and who was waited for, in order of time', () => {
    const line = lineOf(done);
    expect(line.rows.map(({ number = '', text }) => `${number}${text}`)).toEqual([
      ...['OUTAGE', 'Without DR protection', '1.Read and check the deployment', 'Approval of gate plan: olga'],
      ...['+Invite the key holders', '+Generate the token', '+Read and check again', 'Approval of gate go: olga'],
      ...['+Write a marker on east', '2.Demote east', '+Compare the data of both clusters', '3.Promote west'],
      ...['+Wait until west serves', '+Probe the clients’ address', '+Point east at west'],
      ...['+Wait until east streams', '+Delete the operation tokens', '+Destroy the keys'],
      '+Read the final state',
    ]);
    expect(rowOf(line, 'OUTAGE')).toMatchObject({
      ...{ took: '9.4 s', spans: [{ from: when(TIMES.demoteCalled), to: when(TIMES.probe) }] },
    });
  });

  it('says whose key shares arrived when, and who paused the run', () => {
    const signed = { name: 'ann', how: 'signed' } as const;
    const facts: RunFact[] = [
      { kind: 'holders-asked', epoch: 1, as: 'holder', names: ['ann', 'ben'], why: 'invited', at: when(20) },
      { kind: 'asked', asked: true, at: when(20) },
      {
        kind: 'receipt',
        signal: 'share',
        arrival: 1,
        verdict: 'accepted',
        code: 'accepted',
        text: '',
        from: signed,
        at: when(500),
      },
      { kind: 'asked', asked: false, at: when(900) },
      { kind: 'control', control: 'pause', by: signed, reason: 'lunch', at: when(950) },
      { kind: 'paused', paused: true, at: when(1_000) },
    ];
    const line = lineOf(
      reportOf(new RunBuilder([step('Read', 1, 10, 15), step('Read', 2, 1_500, 1_600)], facts).build()),
    );
    expect(rowOf(line, 'Key shares')).toMatchObject({ text: 'Key shares: ann', marks: [when(500)], took: '0.9 s' });
    expect(rowOf(line, 'Paused')).toMatchObject({ text: 'Paused by ann', took: '> 0.6 s' });
  });

  it('cuts out long waits, but never within the outage, and draws everything else to scale', () => {
    const facts = [gate('opened', 1_000), gate('approved', 3_601_000)];
    const demotion = { ...step('Demote east', 2, 3_602_000, 3_603_000), type: 'demotePrimary' };
    const parkedAt = { ...parked(3_604_000, 'Promote west') };
    const ready = { type: 'awaitServiceReady', result: { readyAt: when(3_703_500) } };
    const line = lineOf(
      reportOf(
        new RunBuilder(
          [step('Read', 1, 0, 1_000), demotion, step('Wait', 4, 3_702_000, 3_704_000, ready)],
          [...facts, parkedAt, decided(3_702_000, 'Promote west', 'go on', { name: 'mia', how: 'signed' })],
        ).build(),
      ),
    );
    expect(line.cuts).toEqual([{ from: when(1_000), to: when(3_601_000) }]);
    const place = placeOn(line, 1_000, 30);
    const wait = rowOf(line, 'Decision')?.spans[0];
    expect(place(wait?.to ?? 0) - place(wait?.from ?? 0)).toBeCloseTo((98_000 / 104_000) * 970, 6);
    expect(place(line.from)).toBe(0);
    expect(place(line.to)).toBe(1_000);
    expect(
      textsIn(renderHtml(reportOf(new RunBuilder([step('Read', 1, 0, 1_000), demotion], facts).build()))),
    ).toContain('1 h 0 min cut');
    for (const at of ticksOf(line, place, 1_000, 60)) expect(at < when(1_000) || at > when(3_600_000)).toBe(true);
  });

  it('has the numbers that people signed, a plus for what the plan could not foresee, one row for all attempts of a step, and no work beside the steps', () => {
    const failure = { code: 'UNREACHABLE', message: 'no connection' };
    const attempt = (number: number, from: number) =>
      step('Demote east', 3, from, from + 50, { step: { name: 'Demote east', number: 3, attempt: number }, failure });
    const beside = step('Check key shares', 0, 30, 40);
    const again = step('Read and check again', 4, 300, 310);
    const report = reportOf(
      new RunBuilder([step('Read', 1, 10, 20), beside, attempt(1, 100), attempt(2, 200), again]).build(),
    );
    const steps = report.steps.map((each) => ({
      ...each,
      ...(each.name === 'Demote east' && { planned: 7 }),
      ...(each.name === 'Read and check again' && { unforeseen: true }),
    }));
    expect(lineOf({ ...report, steps }).rows.map(({ kind, number, text }) => [kind, number, text])).toEqual([
      ['step', '1.', 'Read'],
      ['failed', '7.', 'Demote east (2 attempts)'],
      ['step', '+', 'Read and check again'],
    ]);
  });

  it('of a run that was cut off shows what had no end', () => {
    const report = reportOf(finishedSwitchover().terminatedAt(68_500));
    const line = lineOf(report);
    expect(rowOf(line, 'OUTAGE')).toMatchObject({ took: '> 3.4 s', spans: [{ open: true, to: when(68_501) }] });
    expect(rowOf(line, 'Promote west')).toMatchObject({ took: 'not known' });
    expect(rowOf(line, 'Wait until west serves')).toBeUndefined();
  });

  it('joins steps if there are too many, those within the outage last', () => {
    const many = Array.from({ length: 120 }, (_, index) =>
      step(`Step of a long run ${index}`, index + 1, index * 100, index * 100 + 90),
    );
    const demotion = { ...step('Demote east', 121, 12_000, 12_100), type: 'demotePrimary' };
    const inOutage = [122, 123, 124].map((number) => step(`Inside ${number}`, number, number * 100, number * 100 + 90));
    const line = lineOf(reportOf(new RunBuilder([...many, demotion, ...inOutage]).build()), 12);
    expect(line.rows.length).toBeLessThanOrEqual(12);
    expect(line.rows.map(({ number = '', text }) => `${number}${text}`)).toContain(
      '1-120.120 steps: Step of a long run 0 ... Step of a long run 119',
    );
    expect(rowOf(line, 'Inside 123')).toBeDefined();
    const parkings = Array.from({ length: 60 }, (_, at) => parked(at * 10, `Step ${at}`, 'UNREACHABLE', 'x', at));
    expect(lineOf(reportOf(new RunBuilder([demotion], parkings).build()), 20).rows.at(-1)?.text).toMatch(
      /further lines: see/,
    );
  });

  it('as text is at most 79 columns wide, and to scale', () => {
    const lines = timeLineText(lineOf(done));
    expect(Math.max(...lines.map((line) => [...line].length))).toBeLessThanOrEqual(79);
    const bar = (name: string) => lines.find((line) => line.includes(name))?.match(/█/g)?.length ?? 0;
    expect(bar('Write a marker')).toBeGreaterThan(bar('Promote west'));
    expect(lines.join('\n')).toContain('⫽ cut out: 38.5 s');
  });
});

describe('every recorded run', () => {
  const files = recordedHistories().filter(hasReport);

  it.each(files)('%s has a report without a gap, in every form, with its pictures', (file) => {
    const report = reportOf(recordOf(file));
    expect(report.steps.length).toBeGreaterThan(1);
    expect(mistakesIn(report)).toEqual([]);
    expect(JSON.stringify(report)).not.toMatch(/: \?"/);
    expect(renderHtml(report)).toContain('class="time-line wide"');
  });

  it('is of every runbook that has a report', () => {
    expect(files.length).toBeGreaterThan(19);
    expect(
      rolesOf(reportOf(recordOf(files.find((each) => each.endsWith('/drSwitchover.json.gz')) ?? ''))).map(told),
    ).toEqual([
      ['east: DR primary', 'west: DR secondary of east'],
      ['east: DR secondary of west, was DR primary', 'west: DR primary, was DR secondary'],
    ]);
  });
});

const LONG = 'a-cluster-with-a-name-that-nobody-would-choose-WWWWWWWWWWWWWWWW-in-the-south-eastern-data-centre';
const EVIL = `"><script>alert(1)</script>'\u202e\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587`;

it('each picture has a name and a description that say what it shows', () => {
  const html = renderHtml(reading(six('east'), six('west')));
  const ids = [...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
  expect(new Set(ids).size).toBe(ids.length);
  const drawn = [...html.matchAll(/<svg[^>]*role="img" aria-labelledby="(\S+) (\S+)">/g)];
  expect(drawn).toHaveLength(4);
  for (const [, title = '', text = ''] of drawn) {
    expect(html).toContain(`<title id="${title}">`);
    expect(html).toMatch(new RegExp(`<desc id="${text}">[^<]{40,}`));
  }
  expect(html).toMatch(/<desc id="roles-after-text">east: DR secondary of west, was DR primary/);
  expect(html).not.toMatch(/<svg(?:(?!<\/svg>).)*(?:<image|<use|<foreignObject|href=|<a )/s);
});

const executable = findChromium();
const inBrowser = executable === undefined ? describe.skip : describe;
const because = executable === undefined ? ' (not run: no Chromium on this machine; CHROMIUM names one)' : '';

inBrowser(`in a browser${because}`, () => {
  const named = (names: readonly string[]) => names.map((name, index) => `${name}${index}`);
  const reports: [string, Report][] = [
    ...[1, 2, 3, 4, 5, 6].map((count): [string, Report] => [
      `${count} clusters`,
      reading(six('east').slice(0, count), six('west').slice(0, count)),
    ]),
    [
      'long names',
      reading(six(`${LONG}0`, named(NAMES.map(() => LONG))), six(`${LONG}1`, named(NAMES.map(() => LONG)))),
    ],
    [
      'hostile names',
      reading(six(`${EVIL}0`, named(NAMES.map(() => EVIL))), six(`${EVIL}1`, named(NAMES.map(() => EVIL)))),
    ],
    ['a terminated run', reportOf(finishedSwitchover().terminatedAt(68_499))],
    [
      'many steps with long names',
      reportOf(
        new RunBuilder(
          Array.from({ length: 90 }, (_, at) => step(`${LONG} ${EVIL}`, at + 1, at * 700_000, at * 700_000 + 1_000)),
          [gate('opened', 100), gate('approved', 8_000_000), parked(9e6, `${LONG}${EVIL}`)],
        ).build(),
      ),
    ],
  ];

  it.each([1280, 390])('at %i px no text of a picture touches another one or leaves the picture', async (width) => {
    const browser = await startChromium(executable ?? '');
    try {
      const page = await browser.newPage({ viewport: { width, height: 900 } });
      for (const [name, report] of reports) {
        await page.setContent(renderHtml(report));
        const { faults, pictures, wide } = await page.evaluate(lookAtPictures);
        expect([name, faults]).toEqual([name, []]);
        expect(pictures).toBeGreaterThan(0);
        expect([name, wide]).toEqual([name, false]);
      }
    } finally {
      await browser.close();
    }
  });
});

interface Box {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
  readonly width: number;
  readonly height: number;
}
interface Shape {
  readonly textContent: string | null;
  getBoundingClientRect(): Box;
  querySelectorAll(selector: string): Iterable<Shape>;
}
/** Of the browser. The tests are compiled without its types. */
declare const document: Pick<Shape, 'querySelectorAll'> & {
  readonly documentElement: { readonly scrollWidth: number; readonly clientWidth: number };
};

/** Runs in the page: measures every text of every visible picture. */
function lookAtPictures() {
  const faults: string[] = [];
  const visible = [...document.querySelectorAll('svg')].filter((svg) => svg.getBoundingClientRect().width > 0);
  for (const svg of visible) {
    const edge = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].map((text) => ({
      box: text.getBoundingClientRect(),
      text: text.textContent ?? '',
    }));
    texts.forEach(({ box, text }, index) => {
      if (
        box.left < edge.left - 0.6 ||
        box.right > edge.right + 0.6 ||
        box.bottom > edge.bottom + 0.6 ||
        box.top < edge.top - 0.6
      )
        faults.push(`outside: ${text}`);
      for (const other of texts.slice(index + 1)) {
        const across = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
        // Lines of text overlap by their leading, not by their letters.
        const along = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
        if (across > 0.6 && along > box.height / 3) faults.push(`${text} on ${other.text}`);
      }
    });
  }
  const { scrollWidth, clientWidth } = document.documentElement;
  return { faults, pictures: visible.length, wide: scrollWidth > clientWidth };
}
