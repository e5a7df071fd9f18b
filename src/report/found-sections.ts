import type { Report } from '../contracts/report';
import type { Block, Cell, Section } from './report-document';
import { plain, toned } from './report-document';
import type { Tone } from './report-words';

/* Sections whose members differ from runbook to runbook: what was asked, what was found out, what became of filters. */

const TONES: Readonly<Record<string, Tone>> = {
  ok: 'good',
  warn: 'warning',
  fail: 'bad',
  'not-checkable': 'neutral',
  ready: 'good',
  'ready-with-warnings': 'warning',
  'not-ready': 'bad',
};
/** For programs that read the report. */
const FOR_PROGRAMS: ReadonlySet<string> = new Set(['schema']);

/** The input, one member a line. */
export function askedSections({ asked }: Report): readonly Section[] {
  if (!asked) return [];
  const entries = Object.entries(asked).map(([name, value]) => ({ name, value: valueCell(value) }));
  return [{ id: 'asked', title: 'What was asked', blocks: [{ kind: 'facts', entries }] }];
}

/** What the runbook was started to find out: single values as facts, lists of objects as tables. */
export function resultSections({ result }: Report): readonly Section[] {
  if (!result) return [];
  const entries = Object.entries(result).filter(([name]) => !FOR_PROGRAMS.has(name));
  const single = entries.filter(([, value]) => !isTable(value));
  const blocks: Block[] = [
    ...(single.length === 0
      ? []
      : [{ kind: 'facts' as const, entries: single.map(([name, value]) => ({ name, value: valueCell(value) })) }]),
    ...entries.flatMap(([name, value]) => (isTable(value) ? tablesOf(name, value) : [])),
  ];
  return [{ id: 'result', title: 'What was found out', blocks }];
}

/** Paths filters before and after. */
export function filterSections({ filters }: Report): readonly Section[] {
  if (filters.length === 0) return [];
  const rows = filters.map(({ id, secondary, before, after }) => [
    plain(secondary ?? ''),
    plain(id),
    plain(before ?? 'not read'),
    after === undefined ? plain('not written by this run') : toned(after, after === before ? 'neutral' : 'warning'),
  ]);
  const columns = ['Secondary', 'ID', 'Before', 'After'];
  const caption = 'What each performance secondary was kept from seeing, or was limited to.';
  return [{ id: 'filters', title: 'Paths filters', blocks: [{ kind: 'table', caption, columns, rows }] }];
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
  return [tableOf(`${name}: ${other.length} to look at`, other), tableOf(`${name}: ${good.length} ok`, good)];
}

function tableOf(name: string, rows: readonly Row[]): Block {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return {
    kind: 'table',
    caption: name,
    columns,
    rows: rows.map((row) => columns.map((column) => valueCell(row[column]))),
  };
}

function valueCell(value: unknown): Cell {
  if (value === undefined || value === null) return plain('');
  if (typeof value === 'string') {
    const tone = TONES[value];
    return tone ? toned(value, tone) : plain(value);
  }
  return plain(inWords(value));
}

/** Nested values without brackets and quotes: `loss: bounded; why: ...`. */
function inWords(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map(inWords).join(', ');
  if (typeof value === 'object' && value !== null)
    return Object.entries(value)
      .map(([name, member]) => `${name}: ${inWords(member)}`)
      .join('; ');
  return String(value);
}
