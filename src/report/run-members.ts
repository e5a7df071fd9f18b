import type { Report } from '../contracts/report';
import { RUNBOOK_NAMES } from '../contracts/names';
import { RUNBOOK_INPUTS } from '../contracts/runbook-inputs';
import type { RunFacts } from './facts';
import type { RunRecord } from './history-events';
import { fieldsOf, isoTime, textOf, textsOf } from './history-values';

/* Members of the report that no other file is about: what was asked, what filters became, what was found out. */

const LONGEST_SHOWN = 200;

/** The input as the runbook reads it. An input that is none of the runbook's is not repeated: it may hold anything. */
export function askedOf(
  run: RunRecord,
  { controls }: RunFacts,
): Pick<Report, 'asked' | 'ticket' | 'window' | 'takenOver'> {
  const runbook = RUNBOOK_NAMES.find((name) => name === run.runbook);
  const parsed = runbook && RUNBOOK_INPUTS[runbook].safeParse(run.input);
  const takeOver = controls.find(({ control }) => control === 'take-over');
  const takenOver = takeOver && {
    takenOver: { at: isoTime(takeOver.at), by: takeOver.by, reason: takeOver.reason },
  };
  if (!parsed?.success) return { ...takenOver };
  const asked: Record<string, unknown> = Object.fromEntries(
    Object.entries(parsed.data).map(([name, value]) => [name, shortened(value)]),
  );
  const { ticket, window } = parsed.data as Pick<Report, 'ticket' | 'window'>;
  return { asked, ...(ticket !== undefined && { ticket }), ...(window && { window }), ...takenOver };
}

function shortened(value: unknown): unknown {
  return typeof value === 'string' && value.length > LONGEST_SHOWN ? `${value.slice(0, LONGEST_SHOWN)}...` : value;
}

/** What each paths filter was when it was first read, and what it was written to be last. */
export function filtersOf(run: RunRecord): Report['filters'] {
  const filters = new Map<string, { secondary?: string; before?: string; after?: string }>();
  const of = (id: string) => {
    const known = filters.get(id) ?? {};
    filters.set(id, known);
    return known;
  };
  const about = run.activities.filter(({ type, state }) => state === 'completed' && /(Paths|Dynamic)Filter/.test(type));
  for (const { type, input, result } of about) {
    const id = textOf(result['id']) ?? textOf(input['id']);
    if (id === undefined) continue;
    const filter = of(id);
    const secondary = textOf(input['secondary']);
    if (secondary !== undefined) filter.secondary ??= secondary;
    if (type === 'readPathsFilter') filter.before ??= filterText(result['filter']);
    if (result['before'] !== undefined) filter.before ??= filterText(result['before']);
    if (type === 'writePathsFilter') filter.after = filterText(input['filter']);
    if (type === 'deletePathsFilter') filter.after = filterText(undefined);
  }
  return [...filters].map(([id, filter]) => ({ id, ...filter }));
}

function filterText(value: unknown): string {
  const filter = fieldsOf(value);
  const mode = textOf(filter['mode']);
  return mode === undefined ? 'none' : `${mode} ${textsOf(filter['paths']).join(', ') || 'nothing'}`;
}

/** What the runbook found out, as it handed it to its last activity or gave it as its result. */
export function resultOf(run: RunRecord): Pick<Report, 'result'> {
  const composed = run.activities.findLast(({ type }) => type === 'composeReport');
  const result = composed?.input['result'] ?? run.close?.result['result'];
  return typeof result === 'object' && result !== null && !Array.isArray(result)
    ? { result: result as Readonly<Record<string, unknown>> }
    : {};
}
