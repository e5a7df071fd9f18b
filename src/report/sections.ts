import { WRITE_REPORT } from '../moves/every-run';
import { planStepText, stepsNotTaken } from '../moves/steps';
import type { ClusterObservation, ReplicationObservation } from '../contracts/observations';
import { shellLine } from '../contracts/next-commands';
import type { Check } from '../contracts/plan';
import type { Report } from '../contracts/report';
import type { Attested } from '../contracts/run-facts';
import { attestedName, durationText, escapeUntrusted } from '../contracts/words';
import { figuresOf } from './figures';
import type { Figure } from './figures';
import type { Tone, Toned } from './headlines';
import { betweenText, clockText, exactTime, timeText, toned } from './headlines';
import { findingsToShow, laterOf } from './left-to-do';
import { rolesOf, rolesText } from './roles';
import { rolesPicture, rolesTitle } from './roles-picture';
import { stepName, timeLineOf } from './time-line';
import { timeLinePicture } from './time-line-picture';
import { timeLineText } from './time-line-text';

/*
 * The content of a report and its order, independent of the rendering: both renderings show the same sections.
 */

export type Cell = string | Toned;
/** Cells by column name; every row of a table has the same columns. */
export type Row = Readonly<Record<string, Cell>>;
type Entry = readonly [name: string, value: Cell];

interface Item {
  readonly label?: Toned;
  readonly text: string;
  readonly below?: string;
}

/** A drawing, made here: the only HTML that is not escaped. */
export interface Picture {
  readonly title?: string;
  readonly svg: string;
}

export type Block =
  | { readonly kind: 'paragraph'; readonly text: string }
  | { readonly kind: 'list'; readonly items: readonly Item[] }
  | { readonly kind: 'facts'; readonly entries: readonly Entry[] }
  | { readonly kind: 'figures'; readonly figures: readonly Figure[] }
  /** `legend`: what its lines and colors mean. `text`: the same without a picture, if no table has it. */
  | {
      readonly kind: 'pictures';
      readonly pictures: readonly Picture[];
      readonly legend: readonly (readonly [className: string, text: string])[];
      readonly text: readonly string[];
    }
  /**
   * `folded`: good news, or the same as a picture; shown on demand so that it does not hide the rest. On paper it is open, unless
   * a picture beside it says all of it.
   */
  | {
      readonly kind: 'table';
      readonly caption: string;
      readonly rows: readonly Row[];
      readonly folded: false | 'on-screen' | 'as-picture';
    };

export interface Section {
  readonly title: string;
  readonly blocks: readonly Block[];
  /** For those who look into it: IDs, names of activities, codes. Shown on demand; printed, or only if it was opened. */
  readonly folded?: 'on-screen' | 'if-opened';
}

const paragraph = (text: string): Block => ({ kind: 'paragraph', text });
const list = (items: readonly Item[]): Block => ({ kind: 'list', items });
const table = (
  caption: string,
  rows: readonly Row[],
  folded: Extract<Block, { kind: 'table' }>['folded'] = false,
): Block => ({
  ...{ kind: 'table', caption, rows, folded },
});
const facts = (entries: readonly (readonly [string, Cell | undefined])[]): Block => ({
  kind: 'facts',
  entries: entries.filter((entry): entry is Entry => entry[1] !== undefined),
});

/** A section with the blocks that are not empty. If all are empty, it shows `otherwise`, or is omitted. */
function section(title: string, blocks: readonly Block[], otherwise?: string): Section[] {
  const filled = blocks.filter((block) => {
    if (block.kind === 'list') return block.items.length > 0;
    if (block.kind === 'facts') return block.entries.length > 0;
    if (block.kind === 'figures') return block.figures.length > 0;
    if (block.kind === 'pictures') return block.pictures.length > 0;
    return block.kind === 'paragraph' || block.rows.length > 0;
  });
  if (filled.length > 0) return [{ title, blocks: filled }];
  return otherwise === undefined ? [] : [{ title, blocks: [paragraph(otherwise)] }];
}

/** Puts good rows into a separate folded table, so that they do not hide the rest. */
function goodApart<R extends { readonly verdict?: unknown }>(
  rows: readonly R[],
  show: (row: R) => Row,
  captions: (good: number, other: number) => readonly [good: string, other: string],
): Block[] {
  const good = rows.filter(({ verdict }) => verdict === 'ok');
  const other = rows.filter(({ verdict }) => verdict !== 'ok');
  const [ofGood, ofOther] = captions(good.length, other.length);
  return [table(ofOther, other.map(show)), table(ofGood, good.map(show), 'on-screen')];
}

/** The tone of each word for verdicts, severities and states. */
const TONES = {
  ...{ ok: 'good', warn: 'warning', fail: 'bad', 'not-checkable': 'neutral' },
  ...{ ready: 'good', 'ready-with-warnings': 'warning', 'not-ready': 'bad' },
  ...{ met: 'good', 'not-measured': 'warning', missed: 'bad' },
  ...{ info: 'neutral', warning: 'warning', critical: 'bad' },
  ...{ approved: 'good', opened: 'neutral' },
  ...{ accepted: 'good', refused: 'bad' },
  ...{ deleted: 'good', kept: 'warning' },
} as const satisfies Readonly<Record<string, Tone>>;

const isWord = (text: string): text is keyof typeof TONES => Object.hasOwn(TONES, text);

/** A word in its tone; an unlisted state counts as bad news. */
const state = (word: string): Toned => toned(word, isWord(word) ? TONES[word] : 'bad');

/** A person, marked if the name is only claimed. */
function person(someone: Attested | undefined): Toned {
  if (!someone) return toned('unknown', 'warning');
  return toned(attestedName(someone), someone.how === 'claimed' ? 'warning' : 'neutral');
}

function figures(report: Report): Section[] {
  const wantsNone = report.outage && !report.objectives;
  const note = 'The inventory sets no objectives (`objectives` of the deployment).';
  return section('Figures', [{ kind: 'figures', figures: figuresOf(report) }, ...(wantsNone ? [paragraph(note)] : [])]);
}

/** Roles before and after: what a reader who was not there wants to see first. */
function roles(report: Report): Section[] {
  const all = rolesOf(report);
  if (all.length === 0) return [];
  const noted = all.some(({ clusters }) => clusters.some(({ notes }) => notes.length > 0));
  const links = all.flatMap((each) => each.links);
  const legend = [
    ...(links.some(({ kind }) => kind === 'dr') ? [['line dr', 'DR replication'] as const] : []),
    ...(links.some(({ kind }) => kind === 'performance')
      ? [['line performance', 'performance replication'] as const]
      : []),
    ...(links.some(({ streams }) => !streams) ? [['line broken', 'does not stream'] as const] : []),
  ];
  const of = (when: (typeof all)[number], cluster: string) => {
    const found = when.clusters.find((each) => each.cluster === cluster);
    return found ? rolesText(found, when.links) : 'not read';
  };
  const clusters = [...new Set(all.flatMap((each) => each.clusters.map(({ cluster }) => cluster)))];
  const isRead = all.length === 2 || all[0]?.when === 'unchanged';
  const rows = clusters.map((cluster) => ({
    Cluster: cluster,
    ...Object.fromEntries(all.map((each) => [rolesTitle(each, report), of(each, cluster)])),
    ...(!isRead && { After: toned('not read', 'warning') }),
  }));
  const last = 'After: not read. The run did not read the clusters after the last change that it ordered.';
  return section('Roles', [
    {
      ...{ kind: 'pictures', legend, text: [] },
      pictures: all.map((each) => ({ title: rolesTitle(each, report), svg: rolesPicture(each, noted) })),
    },
    ...(isRead ? [] : [paragraph(last)]),
    table('The roles as a table', rows, 'as-picture'),
  ]);
}

function findings(report: Report): Section[] {
  const { endedAt, workflowId } = report;
  const open = `None so far. The run is open: \`${shellLine('runbook', 'status', workflowId)}\` shows who must act, with the exact commands.`;
  const items = findingsToShow(report).map(({ severity, text, next }) => ({
    label: toned(severity.toUpperCase(), TONES[severity]),
    text,
    ...(next !== undefined && { below: `Next: ${next}` }),
  }));
  return section('Findings', [list(items)], endedAt === undefined ? open : 'None.');
}

/** If a token is kept, the section is never empty: the next run deletes it, and people must know that it exists. */
function leftToDo(report: Report): Section[] {
  const { leftToDo: items, outcome } = report;
  const kept = laterOf(report);
  const nothing = outcome === 'running' ? 'Nothing at the moment.' : 'Nothing recorded by the run.';
  const now = items.length === 0 && kept.length > 0 ? [paragraph('Nothing right now.')] : [];
  return section('Left to do', [...now, list([...items, ...kept].map((text) => ({ text })))], nothing);
}

/** The result of the runbook: single values as facts, lists of objects as tables. */
function result({ result: found = {}, loss }: Report): Section[] {
  // The headlines already show the loss.
  const entries = Object.entries(found).filter(([name]) => name !== 'schema' && !(name === 'loss' && loss));
  const single = entries.filter(([, value]) => !isTable(value));
  const tables = entries.flatMap(([name, value]) => (isTable(value) ? tablesOf(name, value) : []));
  return section('Result', [facts(single.map(([name, value]) => [name, valueCell(value)])), ...tables]);
}

type Found = Readonly<Record<string, unknown>>;

function isTable(value: unknown): value is readonly Found[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((item) => typeof item === 'object' && item !== null && !Array.isArray(item))
  );
}

function tablesOf(name: string, found: readonly Found[]): Block[] {
  const columns = [...new Set(found.flatMap((row) => Object.keys(row)))];
  const show = (row: Found) => Object.fromEntries(columns.map((column) => [column, valueCell(row[column])]));
  if (new Set(found.map(({ verdict }) => verdict === 'ok')).size === 1) return [table(name, found.map(show))];
  return goodApart(found, show, (good, other) => [`${name}: ${good} ok`, `${name}: ${other} to check`]);
}

function valueCell(value: unknown): Cell {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' && isWord(value) ? toned(value, TONES[value]) : plainly(value);
}

/** Nested values without brackets and quotes: `loss: bounded; why: ...`. */
function plainly(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map(plainly).join(', ');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([name, member]) => `${name}: ${plainly(member)}`)
    .join('; ');
}

/** The source of the report, and what it cannot know. */
function limitsOf({ outcome }: Report): string {
  const source = 'All times are UTC. This report contains what the run itself recorded.';
  if (outcome !== 'terminated' && outcome !== 'cancelled' && outcome !== 'timed-out') return source;
  return `${source} The run was closed from outside: activities that were running then have no recorded outcome. "Not ordered" marks what the run would have done next, which Temporal never accepted. It is in the table only.`;
}

/** The run as Temporal knows it. */
function run(report: Report): Section[] {
  const { startedAt, endedAt, history, plan: document } = report;
  const entries: readonly (readonly [string, Cell | undefined])[] = [
    ['Runbook', report.runbook],
    ['Deployment', report.deployment],
    ['Started', exactTime(startedAt)],
    ['Ended', endedAt === undefined ? 'no' : `${exactTime(endedAt)}, after ${betweenText(startedAt, endedAt)}`],
    ['Namespace', report.namespace],
    ['Workflow ID', report.workflowId],
    ['Run ID', report.runId],
    ['Digest of the plan', document?.digest],
    ['History', `${report.historyEvents} events`],
    [
      'Digest of the history',
      history
        ? `SHA-256 ${history.sha256} over all ${history.events} events; "runbook report --verify FILE" verifies it`
        : 'none: a run cannot record its own end; "runbook report" adds the digest once the run has ended',
    ],
  ];
  return folded(section('Run', [facts(entries)]));
}

const folded = (sections: readonly Section[], how: Section['folded'] = 'on-screen'): Section[] =>
  sections.map((each) => ({ ...each, folded: how }));

/** The input, one member per line. */
function input({ asked = {} }: Report): Section[] {
  return section('Input', [facts(Object.entries(asked).map(([name, value]) => [name, valueCell(value)]))]);
}

function plan({ plan: document }: Report): Section[] {
  if (!document) return section('Plan', [], 'No plan was made.');
  const { clusters, choices, warnings, steps } = document.content;
  return section('Plan', [
    facts([
      ...clusters.map(
        ({ cluster, clusterId, version, dr, performance }) =>
          [cluster, `DR ${dr}, performance ${performance}, version ${version}, cluster ID ${clusterId}`] as const,
      ),
      ...Object.entries(choices).map(([name, choice]) => [name, String(choice)] as const),
    ]),
    list(warnings.map((text) => ({ label: toned('IMPORTANT', 'warning'), text }))),
    list(steps.map((step, index) => ({ text: `${index + 1}. ${planStepText(step)}` }))),
  ]);
}

function preconditions({ preconditions: checks }: Report): Section[] {
  const show = ({ verdict, name, cluster = '', observed, needed, next }: Check) => ({
    ...{ Verdict: state(verdict), Precondition: name, Cluster: cluster, Observed: observed },
    Needed: next === undefined ? needed : `${needed}. ${next}`,
  });
  const held = checks.filter(({ verdict }) => verdict === 'ok').length;
  const blocks = [
    paragraph(`Required before anything is changed, as last checked: ${held} of ${checks.length} hold.`),
    ...goodApart(checks, show, (good) => [`${good} that hold`, 'Those that do not hold, or could not be checked.']),
  ];
  return section('Preconditions', checks.length === 0 ? [] : blocks, 'None were checked.');
}

/** The people who are accountable: gates, holders, parked steps and controls, and how each name was attested. */
function people(report: Report): Section[] {
  const { requestedBy, reason, gates, holders = [], parkings, controls, takenOver, endedAt } = report;
  const at = (iso: string) => clockText(iso, report);
  const notClosed = (openedAt: string) => {
    if (takenOver && openedAt < takenOver.at) return 'ended by the take-over';
    return endedAt ? 'open when the run ended' : 'still open';
  };
  const gateRows = gates.map(({ gate, state: became, by, openedAt, closedAt }) => ({
    Gate: gate,
    State: state(became),
    By: toned(
      by.map(attestedName).join(', ') || 'no one',
      by.some(({ how }) => how === 'claimed') ? 'warning' : 'neutral',
    ),
    Opened: at(openedAt),
    Closed: closedAt ? at(closedAt) : notClosed(openedAt),
  }));
  const rounds = Math.max(0, ...holders.map(({ epoch }) => epoch));
  const holderRows = holders.map(({ name, epoch, as, askedAt, why, gave }) => ({
    Holder: as === 'stand-by' ? `${name} (stand-by)` : name,
    ...(rounds > 1 && { Round: String(epoch) }),
    Asked: askedAt === undefined ? 'not asked' : `${at(askedAt)}${why === undefined ? '' : `: ${why}`}`,
    Gave: gave
      ? toned(attestedName({ name: at(gave.at), how: gave.how }), gave.how === 'claimed' ? 'warning' : 'good')
      : 'no',
  }));
  const parkingRows = parkings.map(({ step, at: since, message, decision, endedAt: over }) => ({
    ...{ Step: step, Parked: at(since), Why: message },
    Decision: decision ? `${decision.action}: ${escapeUntrusted(decision.reason)}` : undecided(over),
    By: decision ? person(decision.by) : '',
  }));
  const controlRows = controls.map(({ at: when, control, by, reason: why }) => ({
    ...{ Time: at(when), Control: control, By: person(by), Reason: why },
  }));
  return section('Approvals and shares', [
    facts([
      ['Requested by', person(requestedBy)],
      ['Reason', reason],
      [
        'Taken over',
        takenOver &&
          `a drFailover since ${at(takenOver.at)}, last ordered by ${attestedName(takenOver.by)}: ${escapeUntrusted(takenOver.reason)}`,
      ],
    ]),
    ...(gates.length === 0 ? [paragraph('No gate was opened.')] : []),
    table('Gates, where people approve what comes next.', gateRows),
    table('Key holders: who was asked and when, and who gave a share.', holderRows),
    table('Steps that failed and waited for a decision.', parkingRows),
    table('Pause, resume, abort, cancel and take-over.', controlRows),
  ]);
}

/** @param over - when the run stopped waiting for a decision */
function undecided(over: string | undefined): Toned {
  return over === undefined ? toned('no decision', 'bad') : toned('ended without a decision', 'neutral');
}

type Activity = Report['steps'][number]['activities'][number];
type Outcome = Report['steps'][number]['outcome'] | Activity['outcome'];

const OUTCOMES: Readonly<Record<Outcome, Toned>> = {
  done: toned('done', 'good'),
  already: toned('already done', 'good'),
  skipped: toned('skipped', 'warning'),
  failed: toned('failed', 'bad'),
  cancelled: toned('cancelled', 'bad'),
  running: toned('running', 'neutral'),
  'not-ordered': toned('not ordered', 'neutral'),
};

function activityName({ type, cluster, tries }: Activity): string {
  return `${type}${cluster === undefined ? '' : ` on ${cluster}`}${tries > 1 ? `, ${tries} tries` : ''}`;
}

/** In a picture there is room for so many rows. */
const MOST_ROWS = 44;

const LEGEND = [
  ['step', 'step', 'steps'],
  ['wait', 'wait', 'waiting for people'],
  ['failed', 'failed', 'failed'],
  ['skipped', 'skipped', 'skipped'],
  ['outage', 'outage', 'outage'],
  ['paused', 'paused', 'clients paused'],
  ['unprotected', 'unprotected', 'no DR protection'],
] as const;

/** What the run did, and when it waited for people: to scale, and as a table. */
function timeline(report: Report): Section[] {
  const line = timeLineOf(report, MOST_ROWS);
  const kinds = new Set(line?.rows.map(({ kind }) => kind));
  const picture: Block[] = line
    ? [
        {
          kind: 'pictures',
          pictures: [{ svg: timeLinePicture(line) }],
          legend: LEGEND.filter(([kind]) => kinds.has(kind)).map(([, className, text]) => [`bar ${className}`, text]),
          text: timeLineText(line),
        },
      ]
    : [];
  const caption = 'The time line as a table: each step, and each wait for people';
  const rows = timelineRows(report);
  const blocks =
    rows.length === 0
      ? []
      : [...picture, table(caption, rows, 'on-screen'), notTaken(report), paragraph(limitsOf(report))];
  return section('Time line', blocks, `No step began. ${limitsOf(report)}`);
}

/** Steps of the plan that an ended run did not take. The report itself is written by the last step, which has not ended by then. */
function notTaken({ steps, endedAt, outcome, plan: document }: Report): Block {
  const planned = endedAt === undefined ? [] : (document?.content.steps ?? []);
  const left = stepsNotTaken(planned, [...steps, { name: WRITE_REPORT }], outcome);
  return list(left.map((text) => ({ text })));
}

type Outcomes = (outcome: Outcome) => Toned;

const outcomesOf =
  ({ endedAt }: Report): Outcomes =>
  (outcome) =>
    outcome === 'running' && endedAt !== undefined
      ? toned('was running, outcome not recorded', 'bad')
      : OUTCOMES[outcome];

function timelineRows(report: Report): Row[] {
  const { steps, gates, parkings, outage } = report;
  const outcomeCell = outcomesOf(report);
  const line = (
    what: Cell,
    from: string,
    to: string | undefined,
    outcome: Cell,
    observed = '',
  ): { at: string; row: Row } => ({
    at: from,
    row: {
      ...{ Began: clockText(from, report), What: what, Outcome: outcome },
      ...{ Took: to === undefined ? '' : betweenText(from, to), Observed: observed },
    },
  });
  const lines = [
    ...steps.map((step) => {
      const { attempt, startedAt, endedAt, outcome, activities } = step;
      const what = `${stepName(step)}${attempt > 1 ? `, attempt ${attempt}` : ''}`;
      const observed = activities.flatMap((each) => each.observed ?? []);
      return line(what, startedAt, endedAt, outcomeCell(outcome), observed.map(withoutCode).join('; '));
    }),
    ...gates.map(({ gate, openedAt, closedAt, state: became }) =>
      line(`Waiting for people at gate ${gate}`, openedAt, closedAt, state(became)),
    ),
    ...parkings.map(({ step, at, decision, endedAt: over }) =>
      line(
        `Waiting for people on the parked step ${step}`,
        at,
        decision?.at ?? over,
        decision?.action ?? undecided(over),
      ),
    ),
    ...(outage ? [line(toned('OUTAGE', 'bad'), outage.startedAt, undefined, '')] : []),
    ...(outage?.endedAt === undefined ? [] : [line(toned('SERVICE IS BACK', 'good'), outage.endedAt, undefined, '')]),
  ];
  return lines.toSorted((one, other) => (one.at < other.at ? -1 : one.at > other.at ? 1 : 0)).map(({ row }) => row);
}

/** An error's message without the code before it, which the list of activities has. */
const withoutCode = (observed: string) => observed.replace(/^[A-Z][A-Z0-9_]{2,59}: /, '');

/** Every activity, for those who compare the report with the history: with names, tries and exact times. */
function activities(report: Report): Section[] {
  const outcomeCell = outcomesOf(report);
  const rows = report.steps.flatMap((step) =>
    step.activities.map((activity) => ({
      ...{ Began: exactTime(activity.startedAt), Step: stepName(step), Activity: activityName(activity) },
      Outcome: outcomeCell(activity.outcome),
      Took:
        activity.endedAt === undefined
          ? ''
          : durationText(Date.parse(activity.endedAt) - Date.parse(activity.startedAt)),
      Observed: activity.observed ?? '',
    })),
  );
  const codes = [
    ...report.findings.map(({ at, code, text }) => ({ Time: exactTime(at), What: 'finding', Code: code, Text: text })),
    ...report.parkings.map(({ at, step, parkingNo, code, message }) => ({
      ...{ Time: exactTime(at), What: `"${step}", parking ${parkingNo}`, Code: code, Text: message },
    })),
    ...report.gates.map(({ openedAt, gate, planDigest }) => ({
      ...{
        Time: exactTime(openedAt),
        What: `gate ${gate}`,
        Code: planDigest,
        Text: 'digest of the plan that was shown',
      },
    })),
  ];
  return folded(
    section('Activities and codes', [
      table('Each activity that Temporal ran.', rows),
      table('Codes and digests.', codes),
    ]),
    'if-opened',
  );
}

/** The outcome of each signal. */
function receipts({ receipts: received }: Report): Section[] {
  const rows = received.map(({ at, signal, arrival, verdict, code, text, from }) => ({
    ...{ Time: exactTime(at), Signal: `${signal} ${arrival}`, Verdict: state(verdict), From: person(from) },
    Why: text.startsWith(code) ? text : `${code}: ${text}`,
  }));
  return folded(section('Receipts', [table('The outcome of each signal.', rows)], 'No signal arrived.'), 'if-opened');
}

function tokens({ tokens: had }: Report): Section[] {
  const rows = had.map(({ cluster, state: became, text }) => ({ Cluster: cluster, State: state(became), Note: text }));
  const caption = 'The state of each token that this run generated, claimed or was given.';
  return section('Operation tokens', [table(caption, rows)], 'This run had none.');
}

function replicationText(replication: ReplicationObservation | undefined): string {
  if (!replication) return 'not read';
  const { mode, state, connectionState, lastWal, lastRemoteWal } = replication;
  const wal = lastWal ?? lastRemoteWal;
  return [mode, state, connectionState, wal && `WAL ${wal}`].filter((part) => part !== undefined).join(', ');
}

function health({ reachable, error, nodes }: ClusterObservation): Toned {
  if (!reachable) return toned(error ?? 'unreachable', 'bad');
  const sealed = nodes.filter((node) => node.sealed === true).length;
  const silent = nodes.filter((node) => !node.reachable).length;
  if (sealed + silent > 0) return toned(`${nodes.length} nodes, ${sealed} sealed, ${silent} not responding`, 'warning');
  return toned(nodes.length === 1 ? '1 node' : `${nodes.length} nodes`, 'good');
}

/** Enough of a Merkle root to compare two; the JSON contains the complete root. */
const ROOT_SHOWN = 16;
const shortened = (root: string) => (root.length <= ROOT_SHOWN ? root : `${root.slice(0, ROOT_SHOWN)}…`);

function finalState({ finalState: observations }: Report): Section[] {
  const rows = observations.map((observation) => {
    const { cluster, version = '', dr, performance, activeNode = '' } = observation;
    return {
      ...{ Cluster: cluster, Nodes: health(observation), 'Active node': activeNode },
      ...{ DR: replicationText(dr), Performance: replicationText(performance) },
      ...{ 'DR Merkle root': shortened(dr?.merkleRoot ?? ''), Version: version },
    };
  });
  const last = Math.max(0, ...observations.map(({ at }) => at));
  const caption = `Each cluster as last read, at ${timeText(new Date(last).toISOString())}.`;
  return folded(section('Final state', [table(caption, rows)], 'The clusters were not read.'));
}

/**
 * All sections in the order in which readers need them: what it cost, what people must do now, what changed, who is accountable,
 * how it went; then the evidence, and at the end what only those need who look into the run.
 */
export function sectionsOf(report: Report): readonly Section[] {
  const hasToAct = report.leftToDo.length > 0;
  return [
    ...figures(report),
    ...(hasToAct ? leftToDo(report) : []),
    ...roles(report),
    ...people(report),
    ...timeline(report),
    ...(hasToAct ? [] : leftToDo(report)),
    ...findings(report),
    ...result(report),
    ...input(report),
    ...plan(report),
    ...preconditions(report),
    ...tokens(report),
    ...run(report),
    ...activities(report),
    ...receipts(report),
    ...finalState(report),
  ];
}
