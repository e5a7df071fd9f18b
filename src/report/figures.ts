import { CHANGES_PRIMARY } from '../contracts/names';
import type { Report, ReportedObjective } from '../contracts/report';
import { counted } from '../contracts/words';
import type { Tone, Toned } from './headlines';
import { betweenText, shortDuration, toned } from './headlines';

/* What was measured, in big letters, each beside what the inventory wants (RTO, RPO). */

/** One thing that was measured, in a few letters. */
export interface Figure {
  readonly name: string;
  readonly value: Toned;
  /** What the inventory wants of it, and whether that was met. */
  readonly objective?: Toned;
}

type Objective = ReportedObjective['objective'];

const amount = (objective: Objective, value: number) =>
  objective !== 'loss' ? shortDuration(value) : value === 0 ? 'none' : walEntries(String(value));

const walEntries = (count: string) => `${count} WAL ${count === '1' ? 'entry' : 'entries'}`;

const TONES: Readonly<Record<ReportedObjective['verdict'], Tone>> = {
  met: 'good',
  missed: 'bad',
  'not-measured': 'warning',
};

/** The outage counts as clients experience it: with the time before and after it for which they were paused. */
function objectiveOf(report: Report, objective: Objective): { readonly objective?: Toned } {
  const wanted = report.objectives?.find((each) => each.objective === objective);
  if (!wanted) return {};
  const { atMost, observed, verdict } = wanted;
  const target = `${atMost === 0 ? '' : 'at most '}${amount(objective, atMost)
    .replace(/\.0 s$/, ' s')
    .replace(/ 0 (s|min)$/, '')}`;
  const total = report.outage?.totalMs;
  const isFelt = objective === 'outage' && observed !== undefined && total !== undefined && observed > total;
  const felt = isFelt ? ` (${amount(objective, observed)} with paused clients)` : '';
  return { objective: toned(`objective: ${target}; ${verdict.replace('-', ' ')}${felt}`, TONES[verdict]) };
}

const noneYet = ({ endedAt }: Report) =>
  endedAt === undefined ? toned('none so far', 'neutral') : toned('none', 'good');

function outageValue(report: Report): Toned {
  const { outage } = report;
  if (!outage) return noneYet(report);
  const { totalMs, atLeast, beforeRunMs = 0, serviceMs = 0, machineMs = 0, peopleMs = 0 } = outage;
  if (totalMs === undefined) {
    const soFar = beforeRunMs + serviceMs + machineMs + peopleMs;
    return toned(`${shortDuration(soFar)}, no end known`, 'bad');
  }
  return toned(`${atLeast ? 'at least ' : ''}${shortDuration(totalMs)}`, 'neutral');
}

function lossValue(report: Report): Toned {
  const { loss, outage } = report;
  if (!loss) return outage ? toned('unknown', 'warning') : noneYet(report);
  if (loss.loss === 'none') return toned('none', 'good');
  if (loss.loss === 'unknown') return toned('unknown', 'bad');
  const { boundWalEntries: bound } = loss;
  // The bound comes from a sample: nobody knows what was written later.
  if (report.runbook === 'drFailover') return toned('possible', 'warning');
  return toned(bound === undefined ? 'bounded' : `at most ${walEntries(bound)}`, 'warning');
}

/** The figures of a run, the most important first. */
export function figuresOf(report: Report): readonly Figure[] {
  const { runbook, outage, loss, clientsHeld, withoutDrProtection, startedAt, endedAt, leftToDo } = report;
  const changes = outage !== undefined || loss !== undefined || CHANGES_PRIMARY.has(runbook);
  const lasted = (ms: number | undefined, otherwise: string) => {
    if (ms !== undefined) return toned(shortDuration(ms), 'neutral');
    return endedAt === undefined ? toned('still', 'warning') : toned(otherwise, 'bad');
  };
  return [
    ...(changes
      ? [
          { name: 'Outage', value: outageValue(report), ...objectiveOf(report, 'outage') },
          { name: 'Data loss', value: lossValue(report), ...objectiveOf(report, 'loss') },
        ]
      : []),
    ...(clientsHeld ? [{ name: 'Clients paused', value: lasted(clientsHeld.totalMs, 'not released') }] : []),
    ...(withoutDrProtection
      ? [
          {
            ...{ name: 'Without DR protection', value: lasted(withoutDrProtection.totalMs, 'not restored') },
            ...objectiveOf(report, 'unprotected'),
          },
        ]
      : []),
    ...(endedAt === undefined ? [] : [{ name: 'Whole run', value: toned(betweenText(startedAt, endedAt), 'neutral') }]),
    {
      name: 'Left to do',
      value: leftToDo.length === 0 ? toned('nothing', 'good') : toned(counted(leftToDo.length, 'thing'), 'warning'),
    },
  ];
}
