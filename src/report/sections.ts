import { WRITE_REPORT } from '../moves/every-run';
import { planStepText, stepNumber, stepsNotTaken } from '../moves/steps';
import type { ClusterObservation, ReplicationObservation } from '../contracts/observations';
import { shellLine } from '../contracts/next-commands';
import type { Check } from '../contracts/plan';
import type { Report, ReportedObjective } from '../contracts/report';
import type { Attested } from '../contracts/run-facts';
import { attestedName, escapeUntrusted, durationText } from '../contracts/words';
import type { Tone, Toned } from './headlines';
import { betweenText, timeText, toned } from './headlines';
import { findingsToShow, laterOf } from './left-to-do';

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

export type Block =
  | { readonly kind: 'paragraph'; readonly text: string }
  | { readonly kind: 'list'; readonly items: readonly Item[] }
  | { readonly kind: 'facts'; readonly entries: readonly Entry[] }
  /** `folded`: good news, shown on demand so that it does not hide the rest. */
  | { readonly kind: 'table'; readonly caption: string; readonly rows: readonly Row[]; readonly folded: boolean };

interface Section {
  readonly title: string;
  readonly blocks: readonly Block[];
}

const paragraph = (text: string): Block => ({ kind: 'paragraph', text });
const list = (items: readonly Item[]): Block => ({ kind: 'list', items });
const table = (caption: string, rows: readonly Row[], folded = false): Block => ({
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
  return [table(ofOther, other.map(show)), table(ofGood, good.map(show), true)];
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

const OBJECTIVES: Readonly<Record<ReportedObjective['objective'], string>> = {
  outage: 'Outage (RTO)',
  loss: 'Data loss (RPO)',
  unprotected: 'Without DR protection',
};

/** RTO and RPO, as clients experience them: the outage, plus the time before and after it for which they were paused. */
function objectives({ objectives: wanted = [], outage, clientsHeld }: Report): Section[] {
  const figure = (of: ReportedObjective['objective'], value: number) =>
    of !== 'loss' ? durationText(value) : value === 0 ? 'none' : `${value} WAL entries`;
  const felt = (ms: number) =>
    clientsHeld && outage?.totalMs !== undefined && ms > outage.totalMs ? ' (outage and paused clients together)' : '';
  const measured = ({ objective, observed, verdict }: ReportedObjective) => {
    if (observed === undefined || (objective === 'loss' && verdict === 'not-measured')) return 'not known';
    const least = verdict === 'not-measured' ? 'at least ' : '';
    return `${least}${figure(objective, observed)}${objective === 'outage' ? felt(observed) : ''}`;
  };
  const rows = wanted.map((each) => ({
    Objective: OBJECTIVES[each.objective],
    Target: `${each.atMost === 0 ? '' : 'at most '}${figure(each.objective, each.atMost)}`,
    Measured: measured(each),
    Verdict: toned(each.verdict.replace('-', ' '), TONES[each.verdict]),
  }));
  const blocks = [table('The objectives of the inventory, and what was measured.', rows)];
  return section('Objectives', blocks, outage && 'The inventory sets none (`objectives` of the deployment).');
}

function findings(report: Report): Section[] {
  const { endedAt, workflowId } = report;
  const open = `None so far. The run is open: \`${shellLine('runbook', 'status', workflowId)}\` shows who must act, with the exact commands.`;
  const items = findingsToShow(report).map(({ severity, code, text, next }) => ({
    label: toned(severity.toUpperCase(), TONES[severity]),
    text: `${text} (${code})`,
    ...(next !== undefined && { below: `Next: ${next}` }),
  }));
  return section('Findings', [list(items)], endedAt === undefined ? open : 'None.');
}

/** If a token is kept, the section is never empty: the next run deletes it, and people must know that it exists. */
function leftToDo(report: Report): Section[] {
  const { leftToDo: items, outcome } = report;
  const kept = laterOf(report);
  const nothing = outcome === 'running' ? 'Nothing at the moment.' : 'Nothing that the run knows of.';
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
  const source = 'All times are UTC. This report contains what the run itself knows.';
  if (outcome !== 'terminated' && outcome !== 'cancelled' && outcome !== 'timed-out') return source;
  return `${source} The run was closed from outside: activities that were running then have no recorded outcome. "Not ordered" marks what the run would have done next, which Temporal never accepted.`;
}

function run(report: Report): Section[] {
  const { startedAt, endedAt, takenOver, history } = report;
  const entries: readonly (readonly [string, Cell | undefined])[] = [
    ['Runbook', report.runbook],
    ['Deployment', report.deployment],
    ['Reason', report.reason],
    [
      'Taken over',
      takenOver &&
        `a drFailover since ${timeText(takenOver.at)}, last ordered by ${attestedName(takenOver.by)}: ${escapeUntrusted(takenOver.reason)}`,
    ],
    ['Started', timeText(startedAt)],
    ['Ended', endedAt === undefined ? 'no' : `${timeText(endedAt)}, after ${betweenText(startedAt, endedAt)}`],
    ['Namespace', report.namespace],
    ['Workflow ID', report.workflowId],
    ['Run ID', report.runId],
    ['History', `${report.historyEvents} events`],
    [
      'Digest of the history',
      history
        ? `SHA-256 ${history.sha256} over all ${history.events} events; "runbook report --verify FILE" verifies it`
        : 'none: a run cannot record its own end; "runbook report" adds the digest once the run has ended',
    ],
  ];
  return section('Run', [facts(entries), paragraph(limitsOf(report))]);
}

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
      ['Digest', document.digest],
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
function people({ requestedBy, gates, holders = [], parkings, controls, takenOver, endedAt }: Report): Section[] {
  const notClosed = (openedAt: string) => {
    if (takenOver && openedAt < takenOver.at) return 'ended by the take-over';
    return endedAt ? 'open when the run ended' : 'still open';
  };
  const gateRows = gates.map(({ gate, state: became, by, openedAt, closedAt, planDigest }) => ({
    Gate: gate,
    State: state(became),
    By: toned(
      by.map(attestedName).join(', ') || 'nobody',
      by.some(({ how }) => how === 'claimed') ? 'warning' : 'neutral',
    ),
    At: closedAt ? timeText(closedAt) : notClosed(openedAt),
    'Plan digest': planDigest,
  }));
  const holderRows = holders.map(({ name, epoch, as, askedAt, why = '', gave }) => ({
    Holder: as === 'stand-by' ? `${name} (stand-by)` : name,
    Epoch: String(epoch),
    Asked: askedAt === undefined ? 'not asked' : `${timeText(askedAt)}: ${why}`,
    Gave: gave
      ? toned(attestedName({ name: timeText(gave.at), how: gave.how }), gave.how === 'claimed' ? 'warning' : 'good')
      : 'no',
  }));
  const parkingRows = parkings.map(({ step, parkingNo, at, code, message, decision, endedAt: over }) => ({
    ...{ Step: `${step}, parking ${parkingNo}`, Parked: timeText(at), Error: `${code}: ${message}` },
    Decision: decision ? `${decision.action}: ${escapeUntrusted(decision.reason)}` : undecided(over),
    By: decision ? person(decision.by) : '',
  }));
  const controlRows = controls.map(({ at, control, by, reason }) => ({
    ...{ Time: timeText(at), Control: control, By: person(by), Reason: reason },
  }));
  return section('Approvals and shares', [
    facts([['Requested by', person(requestedBy)]]),
    ...(gates.length === 0 ? [paragraph('No gate was opened.')] : []),
    table('Gates, where people approve what comes next.', gateRows),
    table('Key holders: who was asked and when, and who gave a share.', holderRows),
    table('Steps that failed and waited for a decision.', parkingRows),
    table('Pause, resume, abort, cancel and take-over.', controlRows),
  ]);
}

/** @param over - when the run stopped waiting for a decision */
function undecided(over: string | undefined): Toned {
  return over === undefined ? toned('nobody decided', 'bad') : toned('ended without a decision', 'neutral');
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

/** What the run did, and when it waited for people, in order of time. */
function timeline({ steps, gates, parkings, outage, endedAt, outcome: ending, plan: document }: Report): Section[] {
  const line = (what: Cell, from: string, to: string | undefined, outcome: Cell, observed = ''): Row => ({
    ...{ Began: timeText(from), What: what, Outcome: outcome },
    ...{ Took: to === undefined ? '' : betweenText(from, to), Observed: observed },
  });
  const outcomeCell = (outcome: Outcome) =>
    outcome === 'running' && endedAt !== undefined
      ? toned('was running, outcome not recorded', 'bad')
      : OUTCOMES[outcome];
  const lines = [
    ...steps.map((one) => {
      const { name, attempt, startedAt, endedAt: ended, outcome, activities } = one;
      const step = `${stepNumber(one)}${name}${attempt > 1 ? `, attempt ${attempt}` : ''}`;
      const [only, ...others] = activities;
      if (!only || others.length === 0) {
        const observed = only && [activityName(only), only.observed].filter((text) => text !== undefined).join(': ');
        return { at: startedAt, rows: [line(step, startedAt, ended, outcomeCell(outcome), observed)] };
      }
      const each = activities.map((activity) => {
        const { startedAt: from, endedAt: to, observed } = activity;
        return line(`· ${activityName(activity)}`, from, to, outcomeCell(activity.outcome), observed);
      });
      return { at: startedAt, rows: [line(step, startedAt, ended, outcomeCell(outcome)), ...each] };
    }),
    ...gates.map(({ gate, openedAt, closedAt, state: became }) => {
      return { at: openedAt, rows: [line(`Waiting for people at gate ${gate}`, openedAt, closedAt, state(became))] };
    }),
    ...parkings.map(({ step, at, decision, endedAt: over }) => {
      const outcome = decision?.action ?? undecided(over);
      return { at, rows: [line(`Waiting for people on the parked step ${step}`, at, decision?.at ?? over, outcome)] };
    }),
    ...(outage
      ? [{ at: outage.startedAt, rows: [line(toned('OUTAGE', 'bad'), outage.startedAt, undefined, '')] }]
      : []),
    ...(outage?.endedAt === undefined
      ? []
      : [{ at: outage.endedAt, rows: [line(toned('SERVICE IS BACK', 'good'), outage.endedAt, undefined, '')] }]),
  ].toSorted((one, other) => (one.at < other.at ? -1 : one.at > other.at ? 1 : 0));
  const caption = 'Each step with its activities, and each wait for people.';
  const all = lines.flatMap(({ rows }) => rows);
  const planned = endedAt === undefined ? [] : (document?.content.steps ?? []);
  // The report itself is written by the last step, which has not ended by then.
  const left = stepsNotTaken(planned, [...steps, { name: WRITE_REPORT }], ending);
  const rest = left.length === 0 ? [] : [list(left.map((text) => ({ text })))];
  return section('Timeline', [table(caption, all), ...rest], 'No step began.');
}

/** The outcome of each signal. */
function receipts({ receipts: received }: Report): Section[] {
  const rows = received.map(({ at, signal, arrival, verdict, code, text, from }) => ({
    ...{ Time: timeText(at), Signal: `${signal} ${arrival}`, Verdict: state(verdict), From: person(from) },
    Why: text.startsWith(code) ? text : `${code}: ${text}`,
  }));
  return section('Receipts', [table('The outcome of each signal.', rows)], 'No signal arrived.');
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
  if (sealed + silent > 0) return toned(`${nodes.length} nodes, ${sealed} sealed, ${silent} silent`, 'warning');
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
  return section('Final state', [table(caption, rows)], 'The clusters were not read.');
}

/** All sections in the order in which readers need them: who is accountable, what to do, then the evidence. */
export function sectionsOf(report: Report): readonly Section[] {
  return [
    ...objectives(report),
    ...people(report),
    ...leftToDo(report),
    ...findings(report),
    ...result(report),
    ...run(report),
    ...input(report),
    ...plan(report),
    ...preconditions(report),
    ...timeline(report),
    ...receipts(report),
    ...tokens(report),
    ...finalState(report),
  ];
}
