import type { Report } from '../contracts/report';
import type { Block, Cell, Section } from './report-document';
import { plain, toned } from './report-document';
import type { Tone } from './report-words';

/* Sections whose members differ from runbook to runbook: what was asked, what was found out, what became of filters. */

const TONES: Readonly<Record<string, Tone>> = { ok: 'good', warn: 'warning', fail: 'bad', 'not-checkable': 'neutral' };

/** The input, one member a line. */
export function askedSections({ asked }: Report): readonly Section[] {
  if (!asked) return [];
  const entries = Object.entries(asked).map(([name, value]) => ({ name, value: valueCell(value) }));
  return [{ id: 'asked', title: 'What was asked', blocks: [{ kind: 'facts', entries }] }];
}

/** What the runbook was started to find out: single values as facts, lists of objects as tables. */
export function resultSections({ result }: Report): readonly Section[] {
  if (!result) return [];
  const entries = Object.entries(result);
  const single = entries.filter(([, value]) => !isTable(value));
  const blocks: Block[] = [
    ...(single.length === 0
      ? []
      : [{ kind: 'facts' as const, entries: single.map(([name, value]) => ({ name, value: valueCell(value) })) }]),
    ...entries.flatMap(([name, value]) => (isTable(value) ? [tableOf(name, value)] : [])),
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
  return plain(JSON.stringify(value));
}
