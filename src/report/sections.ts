import type { ClusterObservation, ReplicationObservation } from '../contracts/observations';
import { shellLine } from '../contracts/next-commands';
import type { Check } from '../contracts/plan';
import type { Report, ReportStep, ReportedObjective } from '../contracts/report';
import type { Attested, FindingSeverity } from '../contracts/run-facts';
import { escapeUntrusted } from '../contracts/words';
import type { Tone, Toned } from './headlines';
import { attestedText, betweenText, durationText, timeText } from './headlines';

/*
 * What a report says and in which order, apart from how it looks: both renderings show the same sections.
 */

export type Cell = string | Toned;

interface Item {
  readonly label?: Toned;
  readonly text: string;
  readonly below?: string;
}

interface Table {
  readonly kind: 'table';
  readonly caption: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
  /** What is in order: there on demand, so that it does not bury the rest. */
  readonly folded?: boolean;
}

export type Block =
  | { readonly kind: 'paragraph'; readonly text: string }
  | { readonly kind: 'list'; readonly items: readonly Item[] }
  | { readonly kind: 'facts'; readonly entries: readonly (readonly [name: string, value: Cell])[] }
  | Table
  | { readonly kind: 'timeline' };

export interface Section {
  readonly title: string;
  readonly blocks: readonly Block[];
}

const toned = (text: string, tone: Tone): Toned => ({ text, tone });
const paragraph = (text: string): Block => ({ kind: 'paragraph', text });
const list = (items: readonly Item[]): Block => ({ kind: 'list', items });
const table = (caption: string, columns: readonly string[], rows: readonly (readonly Cell[])[]): Table => ({
  kind: 'table',
  caption,
  columns,
  rows,
});
const facts = (entries: readonly (readonly [string, Cell | undefined])[]): Block => ({
  kind: 'facts',
  entries: entries.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])),
});

/** A section of what there is; where there is nothing, `otherwise` stands in its place, or the section is left out. */
function section(title: string, blocks: readonly Block[], otherwise?: string): Section[] {
  const filled = blocks.filter((block) => {
    if (block.kind === 'list') return block.items.length > 0;
    if (block.kind === 'facts') return block.entries.length > 0;
    return block.kind !== 'table' || block.rows.length > 0;
  });
  if (filled.length > 0) return [{ title, blocks: filled }];
  return otherwise === undefined ? [] : [{ title, blocks: [paragraph(otherwise)] }];
}

/** How the outcome of a step or an activity is shown. */
export function outcomeCell(
  outcome: ReportStep['outcome'] | ReportStep['activities'][number]['outcome'],
  ended: boolean,
): Toned {
  switch (outcome) {
    case 'done':
      return toned('done', 'good');
    case 'already':
      return toned('already so', 'good');
    case 'skipped':
      return toned('skipped', 'warning');
    case 'failed':
    case 'cancelled':
      return toned(outcome, 'bad');
    case 'running':
      return ended ? toned('was under way, outcome not recorded', 'bad') : toned('running', 'neutral');
    case 'not-ordered':
      return toned('not ordered', 'neutral');
  }
}

/** Somebody, marked where the name is only claimed. */
function person(someone: Attested | undefined): Toned {
  if (!someone) return toned('unknown', 'warning');
  return toned(attestedText(someone), someone.how === 'claimed' ? 'warning' : 'neutral');
}

const SEVERITY_TONES: Readonly<Record<FindingSeverity, Tone>> = {
  critical: 'bad',
  warning: 'warning',
  info: 'neutral',
};

const OBJECTIVES: Readonly<Record<ReportedObjective['objective'], string>> = {
  outage: 'Outage (RTO)',
  loss: 'Data loss (RPO)',
  unprotected: 'Without DR protection',
};
const MET: Readonly<Record<ReportedObjective['verdict'], Toned>> = {
  met: toned('met', 'good'),
  missed: toned('missed', 'bad'),
  'not-measured': toned('not measured', 'warning'),
};

/** RTO and RPO. What clients felt counts: the outage, and before and after it the time for which they were held. */
function objectives({ objectives: wanted = [], outage, clientsHeld }: Report): Section[] {
  const figure = (of: ReportedObjective['objective'], value: number) =>
    of !== 'loss' ? durationText(value) : value === 0 ? 'none' : `${value} WAL entries`;
  const felt = (ms: number) =>
    clientsHeld && outage?.totalMs !== undefined && ms > outage.totalMs ? ' (outage and clients held, together)' : '';
  const rows = wanted.map(({ objective, atMost, observed, verdict }) => [
    OBJECTIVES[objective],
    `${atMost === 0 ? '' : 'at most '}${figure(objective, atMost)}`,
    observed === undefined || (objective === 'loss' && verdict === 'not-measured')
      ? 'not known'
      : `${verdict === 'not-measured' ? 'at least ' : ''}${figure(objective, observed)}${objective === 'outage' ? felt(observed) : ''}`,
    MET[verdict],
  ]);
  const caption = 'What the inventory wants, and what was measured.';
  const blocks = [table(caption, ['Objective', 'Wanted', 'Measured', 'Verdict'], rows)];
  return section('Objectives', blocks, outage && 'The inventory states none (`objectives` of the deployment).');
}

function findings({ findings: found, endedAt, workflowId }: Report): Section[] {
  const open = `None so far. The run is open: \`${shellLine('runbook', 'status', workflowId)}\` shows who is missing, and each command.`;
  const items = found.map(({ severity, code, text, next }) => ({
    label: toned(severity.toUpperCase(), SEVERITY_TONES[severity]),
    text: `${text} (${code})`,
    ...(next !== undefined && { below: `Next: ${next}` }),
  }));
  return section('Findings', [list(items)], endedAt === undefined ? open : 'None.');
}

/** Beside a token that is kept there is never nothing: the next run deletes it, and people must know that it is there. */
function leftToDo({ leftToDo: items, outcome, tokens, deployment }: Report): Section[] {
  const kept = tokens
    .filter(({ state }) => state === 'kept')
    .map(
      ({ cluster }) =>
        `Later, by the next run on ${deployment ?? 'this deployment'}: delete the operation token of ${cluster}, which is kept, sealed, until ${cluster} is a DR secondary again.`,
    );
  const nothing = outcome === 'running' ? 'Nothing at this moment.' : 'Nothing that the run knows of.';
  const now = items.length === 0 && kept.length > 0 ? [paragraph('Nothing at once.')] : [];
  return section('Left to do', [...now, list([...items, ...kept].map((text) => ({ text })))], nothing);
}

/** Tones of the values that runbooks give as what they found out. */
const VALUE_TONES: Readonly<Record<string, Tone>> = {
  ok: 'good',
  warn: 'warning',
  fail: 'bad',
  'not-checkable': 'neutral',
  ready: 'good',
  'ready-with-warnings': 'warning',
  'not-ready': 'bad',
};

/** What the runbook was started to find out: single values as facts, lists of objects as tables. */
function result({ result: found = {}, loss }: Report): Section[] {
  // The loss stands at the top already.
  const entries = Object.entries(found).filter(([name]) => name !== 'schema' && !(name === 'loss' && loss));
  const single = entries.filter(([, value]) => !isTable(value));
  const tables = entries.flatMap(([name, value]) => (isTable(value) ? tablesOf(name, value) : []));
  return section('What was found out', [facts(single.map(([name, value]) => [name, valueCell(value)])), ...tables]);
}

type Row = Readonly<Record<string, unknown>>;

function isTable(value: unknown): value is readonly Row[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((item) => typeof item === 'object' && item !== null && !Array.isArray(item))
  );
}

/** What is good goes into a table of its own, so that it does not bury the rest. */
function tablesOf(name: string, rows: readonly Row[]): Block[] {
  const good = rows.filter(({ verdict }) => verdict === 'ok');
  const other = rows.filter(({ verdict }) => verdict !== 'ok');
  if (good.length === 0 || other.length === 0) return [tableOf(name, rows)];
  return [
    tableOf(`${name}: ${other.length} to look at`, other),
    { ...tableOf(`${name}: ${good.length} ok`, good), folded: true },
  ];
}

function tableOf(name: string, rows: readonly Row[]): Table {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return table(
    name,
    columns,
    rows.map((row) => columns.map((column) => valueCell(row[column]))),
  );
}

function valueCell(value: unknown): Cell {
  if (value === undefined || value === null) return '';
  const tone = typeof value === 'string' ? VALUE_TONES[value] : undefined;
  return tone ? toned(inWords(value), tone) : inWords(value);
}

/** Nested values without brackets and quotes: `loss: bounded; why: ...`. */
function inWords(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map(inWords).join(', ');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([name, member]) => `${name}: ${inWords(member)}`)
    .join('; ');
}

/** Where the words of a report come from, and what it cannot know. */
function limitsOf({ outcome }: Report): string {
  const source = 'All times are UTC. This report is what the run itself knows.';
  if (outcome !== 'terminated' && outcome !== 'cancelled' && outcome !== 'timed-out') return source;
  return `${source} It was closed from outside: what was under way then has no recorded outcome, and "not ordered" is what it would have done next, which Temporal never took.`;
}

function run(report: Report): Section[] {
  const { startedAt, endedAt, takenOver, window, history } = report;
  const entries: readonly (readonly [string, Cell | undefined])[] = [
    ['Runbook', report.runbook],
    ['Deployment', report.deployment],
    ['Reason', report.reason],
    ['Ticket', report.ticket],
    ['Window', window && `${window.notBefore ?? 'at once'} to ${window.notAfter}`],
    [
      'Taken over',
      takenOver &&
        toned(
          `became a drFailover at ${timeText(takenOver.at)}, asked by ${escapeUntrusted(takenOver.by)} (UNVERIFIED): ${escapeUntrusted(takenOver.reason)}`,
          'warning',
        ),
    ],
    ['Started', timeText(startedAt)],
    ['Ended', endedAt === undefined ? 'no' : `${timeText(endedAt)}, after ${betweenText(startedAt, endedAt)}`],
    ['Namespace', report.namespace],
    ['Workflow ID', report.workflowId],
    ['Run ID', report.runId],
    ['History', `${report.historyEvents} events, as of event ${report.asOfEvent}`],
    [
      'Digest of the history',
      history
        ? `SHA-256 ${history.sha256} over ${history.closed ? `all ${history.events} events` : `events 1 to ${history.events}; the run was open`}; "runbook report --verify FILE" proves it`
        : 'none: a run cannot hold its own end; "runbook report" adds it',
    ],
  ];
  return section('Run', [facts(entries), paragraph(limitsOf(report))]);
}

/** The input, one member a line. */
function input({ asked = {} }: Report): Section[] {
  return section('What was asked', [facts(Object.entries(asked).map(([name, value]) => [name, valueCell(value)]))]);
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
    list(warnings.map((text) => ({ label: toned('KNOW THIS', 'warning'), text }))),
    list(steps.map((text) => ({ text }))),
  ]);
}

const VERDICT_TONES: Readonly<Record<Check['verdict'], Tone>> = {
  ok: 'good',
  fail: 'bad',
  warn: 'warning',
  'not-checkable': 'neutral',
};

function preconditions({ preconditions: checks }: Report): Section[] {
  const columns = ['Verdict', 'Precondition', 'Cluster', 'Observed', 'Needed'];
  const row = ({ verdict, name, cluster = '', observed, needed, next }: Check) => [
    toned(verdict, VERDICT_TONES[verdict]),
    ...[name, cluster, observed, next === undefined ? needed : `${needed}. ${next}`],
  ];
  const held = checks.filter(({ verdict }) => verdict === 'ok');
  const other = checks.filter(({ verdict }) => verdict !== 'ok');
  const blocks: readonly Block[] = [
    paragraph(`What had to hold before anything was changed, as read last: ${held.length} of ${checks.length} hold.`),
    table('What does not hold, or could not be checked.', columns, other.map(row)),
    { ...table(`${held.length} that hold`, columns, held.map(row)), folded: true },
  ];
  return section('Preconditions', checks.length === 0 ? [] : blocks, 'None were checked.');
}

/** Who answers for what was done: gates, holders, parked steps and controls, and how each name is known. */
function people({ requestedBy, gates, holders = [], parkings, controls, endedAt }: Report): Section[] {
  const gateTone = (state: string): Tone =>
    state === 'approved' || state === 'not-needed' ? 'good' : state === 'opened' ? 'neutral' : 'bad';
  const gateRows = gates.map(({ gate, state, by, openedAt, closedAt, planDigest }) => [
    gate,
    toned(state, gateTone(state)),
    toned(by.map(attestedText).join(', ') || 'nobody', by.some(({ how }) => how === 'claimed') ? 'warning' : 'neutral'),
    closedAt ? timeText(closedAt) : endedAt ? 'open when the run ended' : 'still open',
    closedAt ? betweenText(openedAt, closedAt) : '',
    planDigest,
  ]);
  const holderRows = holders.map(({ name, epoch, as, askedAt, why = '', declined, gave }) => [
    as === 'stand-by' ? `${name} (stand-by)` : name,
    String(epoch),
    askedAt === undefined ? 'not asked' : `${timeText(askedAt)}: ${why}`,
    declined
      ? toned(
          `${timeText(declined.at)}${declined.how === 'claimed' ? ' (UNVERIFIED)' : ''}: ${declined.text}`,
          'warning',
        )
      : '',
    gave
      ? toned(attestedText({ name: timeText(gave.at), how: gave.how }), gave.how === 'claimed' ? 'warning' : 'good')
      : 'no',
  ]);
  const parkingRows = parkings.map(({ step, parkingNo, at, code, message, decision }) => [
    ...[`${step}, parking ${parkingNo}`, timeText(at), `${code}: ${message}`],
    ...(decision
      ? [`${decision.action}: ${escapeUntrusted(decision.reason)}`, person(decision.by), betweenText(at, decision.at)]
      : [toned('none', 'bad'), '', '']),
  ]);
  const controlRows = controls.map(({ at, control, by, reason }) => [
    ...[timeText(at), control],
    toned(`${escapeUntrusted(by)} (UNVERIFIED)`, 'warning'),
    reason,
  ]);
  return section('Approvals and shares', [
    facts([['Requested by', person(requestedBy)]]),
    gates.length === 0
      ? paragraph('No gate was opened.')
      : table(
          'Gates: where people approve what comes next.',
          ['Gate', 'State', 'By', 'At', 'Open for', 'Plan digest'],
          gateRows,
        ),
    table(
      'Key holders: who was asked and when, who declined, who gave a share.',
      ['Holder', 'Epoch', 'Asked', 'Declined', 'Gave'],
      holderRows,
    ),
    table(
      'Steps that failed and waited for a decision.',
      ['Step', 'Parked', 'Error', 'Decision', 'By', 'Waited'],
      parkingRows,
    ),
    table(
      'Pause, resume, abort and cancel. Names here are what the sender typed.',
      ['Time', 'Control', 'By', 'Reason'],
      controlRows,
    ),
  ]);
}

/** What became of each signal, also of those that no receipt answers. */
function receipts({ receipts: received, signals }: Report): Section[] {
  const rows = received.map(({ at, signal, arrival, verdict, code, text, from }) => [
    ...[timeText(at), `${signal} ${arrival}`],
    ...[toned(verdict, verdict === 'accepted' ? 'good' : 'bad'), person(from)],
    text.startsWith(code) ? text : `${code}: ${text}`,
  ]);
  const unanswered = signals
    .filter(({ answered }) => !answered)
    .map(({ at, signal, arrival }) => [
      ...[timeText(at), `${signal} ${arrival}`],
      ...[toned('no receipt', 'warning'), person(undefined), 'the run gave no receipt for it'],
    ]);
  const columns = ['Time', 'Signal', 'Verdict', 'From', 'Why'];
  const all = table('What became of each signal.', columns, [...rows, ...unanswered]);
  return section('Receipts', [all], 'No signal came in.');
}

/** Paths filters before and after. */
function filters({ filters: changed }: Report): Section[] {
  const rows = changed.map(({ id, secondary = '', before, after }) => [
    ...[secondary, id, before ?? 'not read'],
    after === undefined ? 'not written by this run' : toned(after, after === before ? 'neutral' : 'warning'),
  ]);
  const caption = 'What each performance secondary was kept from seeing, or was limited to.';
  return section('Paths filters', [table(caption, ['Secondary', 'ID', 'Before', 'After'], rows)]);
}

function tokens({ tokens: generated }: Report): Section[] {
  const rows = generated.map(({ cluster, state, text }) => [
    cluster,
    toned(state, state === 'deleted' ? 'good' : state === 'kept' ? 'warning' : 'bad'),
    text,
  ]);
  const caption = 'What became of each token that this run generated.';
  return section('Operation tokens', [table(caption, ['Cluster', 'State', 'Note'], rows)], 'None were generated.');
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

/** Enough of a Merkle root to see whether two are equal; the whole is in the JSON. */
const ROOT_SHOWN = 16;
const shortened = (root: string) => (root.length <= ROOT_SHOWN ? root : `${root.slice(0, ROOT_SHOWN)}…`);

function finalState({ finalState: observations }: Report): Section[] {
  const rows = observations.map((observation) => {
    const { cluster, version = '', dr, performance, activeNode = '' } = observation;
    return [
      ...[cluster, health(observation), activeNode, replicationText(dr), replicationText(performance)],
      ...[shortened(dr?.merkleRoot ?? ''), version],
    ];
  });
  const columns = ['Cluster', 'Nodes', 'Active node', 'DR', 'Performance', 'DR Merkle root', 'Version'];
  const last = Math.max(0, ...observations.map(({ at }) => at));
  const caption = `Each cluster as it was read last, at ${timeText(new Date(last).toISOString())}.`;
  return section('Final state', [table(caption, columns, rows)], 'The clusters were not read.');
}

/** All sections in the order in which somebody needs them: who answers for it, what to do, evidence after it. */
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
    ...section('Timeline', [{ kind: 'timeline' }]),
    ...receipts(report),
    ...filters(report),
    ...tokens(report),
    ...finalState(report),
  ];
}
