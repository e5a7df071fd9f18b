import type { ClusterObservation, ReplicationObservation } from '../contracts/observations';
import { shellLine } from '../contracts/next-commands';
import type { PreconditionVerdict } from '../contracts/plan';
import type { Report } from '../contracts/report';
import type { FindingSeverity } from '../contracts/run-facts';
import { escapeUntrusted } from '../contracts/words';
import { askedSections, filterSections, resultSections } from './found-sections';
import { peopleSection, receiptsSection } from './people-sections';
import type { Cell, Section } from './report-document';
import { plain, toned } from './report-document';
import type { Tone } from './report-words';
import { attestedText, betweenText, timeText } from './report-words';

const SEVERITY_TONES: Readonly<Record<FindingSeverity, Tone>> = {
  critical: 'bad',
  warning: 'warning',
  info: 'neutral',
};

const ROOT_SHOWN = 16;

function noFindings({ endedAt, workflowId }: Report): string {
  if (endedAt !== undefined) return 'None.';
  return `None so far. The run is open: \`${shellLine('runbook', 'status', workflowId)}\` shows who is missing, and each command.`;
}

function findings(report: Report): Section {
  return {
    id: 'findings',
    title: 'Findings',
    blocks: [
      report.findings.length === 0
        ? { kind: 'paragraph', text: noFindings(report) }
        : {
            kind: 'list',
            items: report.findings.map(({ severity, code, text, next }) => ({
              label: toned(severity.toUpperCase(), SEVERITY_TONES[severity]),
              text: `${text} (${code})`,
              ...(next !== undefined && { below: `Next: ${next}` }),
            })),
          },
    ],
  };
}

function leftToDo({ leftToDo: items, outcome }: Report): Section {
  return {
    id: 'left-to-do',
    title: 'Left to do',
    blocks: [
      items.length === 0
        ? {
            kind: 'paragraph',
            text: outcome === 'running' ? 'Nothing at this moment.' : 'Nothing that the run knows of.',
          }
        : { kind: 'list', items: items.map((text) => ({ text })) },
    ],
  };
}

const entry = (name: string, text: string): { name: string; value: Cell } => ({ name, value: plain(text) });

function plan({ plan: document }: Report): Section {
  if (!document) return { id: 'plan', title: 'Plan', blocks: [{ kind: 'paragraph', text: 'No plan was made.' }] };
  const { content, digest } = document;
  return {
    id: 'plan',
    title: 'Plan',
    blocks: [
      {
        kind: 'facts',
        entries: [
          ...content.clusters.map(({ cluster, clusterId, version, dr, performance }) =>
            entry(cluster, `DR ${dr}, performance ${performance}, version ${version}, cluster ID ${clusterId}`),
          ),
          ...Object.entries(content.choices).map(([name, choice]) => entry(name, String(choice))),
          entry('Digest', digest),
        ],
      },
      { kind: 'list', items: content.warnings.map((text) => ({ label: toned('KNOW THIS', 'warning'), text })) },
      { kind: 'list', items: content.steps.map((text) => ({ text })) },
    ],
  };
}

/** Enough to see whether two are equal; the whole is in the JSON. */
function shortened(root: string | undefined): string {
  if (root === undefined || root.length <= ROOT_SHOWN) return root ?? '';
  return `${root.slice(0, ROOT_SHOWN)}…`;
}

const VERDICT_TONES: Readonly<Record<PreconditionVerdict, Tone>> = {
  ok: 'good',
  fail: 'bad',
  warn: 'warning',
  'not-checkable': 'neutral',
};

function preconditions(report: Report): Section {
  return {
    id: 'preconditions',
    title: 'Preconditions',
    blocks: [
      report.preconditions.length === 0
        ? { kind: 'paragraph', text: 'None were checked.' }
        : {
            kind: 'table',
            caption: 'What had to hold before anything was changed, as read last.',
            columns: ['Verdict', 'Precondition', 'Cluster', 'Observed', 'Needed'],
            rows: report.preconditions.map(({ verdict, name, cluster, observed, needed, next }) => [
              toned(verdict, VERDICT_TONES[verdict]),
              plain(name),
              plain(cluster ?? ''),
              plain(observed),
              plain(next === undefined ? needed : `${needed}. ${next}`),
            ]),
          },
    ],
  };
}

function tokens(report: Report): Section {
  return {
    id: 'tokens',
    title: 'Operation tokens',
    blocks: [
      report.tokens.length === 0
        ? { kind: 'paragraph', text: 'None were generated.' }
        : {
            kind: 'table',
            caption: 'What became of each token that this run generated.',
            columns: ['Cluster', 'State', 'Note'],
            rows: report.tokens.map(({ cluster, state, text }) => [
              plain(cluster),
              toned(state, state === 'deleted' ? 'good' : state === 'kept' ? 'warning' : 'bad'),
              plain(text),
            ]),
          },
    ],
  };
}

function replicationText(replication: ReplicationObservation | undefined): string {
  if (!replication) return 'not read';
  const { mode, state, connectionState, lastWal, lastRemoteWal } = replication;
  const wal = lastWal ?? lastRemoteWal;
  return [mode, state, connectionState, wal === undefined ? undefined : `WAL ${wal}`]
    .filter((part) => part !== undefined)
    .join(', ');
}

function clusterRow(observation: ClusterObservation): readonly Cell[] {
  const { cluster, at, reachable, error, nodes, version, dr, performance, activeNode } = observation;
  const sealed = nodes.filter((node) => node.sealed === true).length;
  const silent = nodes.filter((node) => !node.reachable).length;
  const health = !reachable
    ? toned(error === undefined ? 'unreachable' : `unreachable: ${error}`, 'bad')
    : sealed + silent > 0
      ? toned(`${nodes.length} nodes, ${sealed} sealed, ${silent} silent`, 'warning')
      : toned(nodes.length === 1 ? '1 node' : `${nodes.length} nodes`, 'good');
  return [
    plain(cluster),
    health,
    plain(activeNode ?? ''),
    plain(replicationText(dr)),
    plain(replicationText(performance)),
    plain(shortened(dr?.merkleRoot)),
    plain(version ?? ''),
    plain(timeText(new Date(at).toISOString())),
  ];
}

function finalState(report: Report): Section {
  return {
    id: 'final-state',
    title: 'Final state',
    blocks: [
      report.finalState.length === 0
        ? { kind: 'paragraph', text: 'The clusters were not read.' }
        : {
            kind: 'table',
            caption: 'Each cluster as it was read last.',
            columns: ['Cluster', 'Nodes', 'Active node', 'DR', 'Performance', 'DR Merkle root', 'Version', 'Read'],
            rows: report.finalState.map(clusterRow),
          },
    ],
  };
}

/** Where the words of a report come from, and what it cannot know. */
function limitsOf({ outcome }: Report): string {
  const source = 'All times are UTC. This report is what the run itself knows.';
  if (outcome !== 'terminated' && outcome !== 'cancelled' && outcome !== 'timed-out') return source;
  return `${source} It was closed from outside: what was under way then has no recorded outcome, and "not ordered" is what it would have done next, which Temporal never took.`;
}

function run(report: Report): Section {
  const { requestedBy } = report;
  const entries: readonly (readonly [string, Cell | undefined])[] = [
    ['Runbook', plain(report.runbook)],
    ['Deployment', report.deployment === undefined ? undefined : plain(report.deployment)],
    [
      'Requested by',
      requestedBy
        ? toned(attestedText(requestedBy), requestedBy.how === 'claimed' ? 'warning' : 'neutral')
        : toned('unknown', 'warning'),
    ],
    ['Reason', report.reason === undefined ? undefined : plain(report.reason)],
    ['Ticket', report.ticket === undefined ? undefined : plain(report.ticket)],
    ['Window', report.window && plain(`${report.window.notBefore ?? 'at once'} to ${report.window.notAfter}`)],
    [
      'Taken over',
      report.takenOver &&
        toned(
          `became a drFailover at ${timeText(report.takenOver.at)}, asked by ${escapeUntrusted(report.takenOver.by)} (UNVERIFIED): ${escapeUntrusted(report.takenOver.reason)}`,
          'warning',
        ),
    ],
    ['Started', plain(timeText(report.startedAt))],
    [
      'Ended',
      plain(
        report.endedAt === undefined
          ? 'no'
          : `${timeText(report.endedAt)}, after ${betweenText(report.startedAt, report.endedAt)}`,
      ),
    ],
    ['Namespace', plain(report.namespace)],
    ['Workflow ID', plain(report.workflowId)],
    ['Run ID', plain(report.runId)],
    ['History', plain(`${report.historyEvents} events, as of event ${report.asOfEvent}`)],
  ];
  return {
    id: 'run',
    title: 'Run',
    blocks: [
      { kind: 'facts', entries: entries.flatMap(([name, value]) => (value ? [{ name, value }] : [])) },
      { kind: 'paragraph', text: limitsOf(report) },
    ],
  };
}

/** All sections in the order in which somebody needs them: what to do first, evidence after it. */
export function sectionsOf(report: Report): readonly Section[] {
  return [
    findings(report),
    leftToDo(report),
    ...resultSections(report),
    run(report),
    ...askedSections(report),
    plan(report),
    preconditions(report),
    { id: 'timeline', title: 'Timeline', blocks: [{ kind: 'timeline' }] },
    peopleSection(report),
    receiptsSection(report),
    ...filterSections(report),
    tokens(report),
    finalState(report),
  ];
}
