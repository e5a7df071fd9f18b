import type { Report } from '../../src/contracts/report';
import { timeLineLines } from '../../src/cli/read-report';
import { renderHtml, renderMarkdown } from '../../src/report/render';

/** A value that the run did not have, where it stands alone: in words of people, a question mark follows a letter. */
const GAP = /(?:^|[\s:,;(|])\?(?=$|[\s,;)|])|\bundefined\b|\bNaN\b|\[object Object\]/;

/** The texts of a value, at any depth, that show something unknown instead of a value. */
export function gapsIn(value: unknown): string[] {
  if (typeof value === 'string') return value.split('\n').filter((line) => GAP.test(line));
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(gapsIn) : [];
}

/** What a reader of a page sees of it, drawings too: each text, with attributes that are read out, on a line of its own. */
export function textsIn(html: string): string {
  return html
    .replace(/<style>.*?<\/style>/s, '')
    .replace(/<[^>]*>/g, '\n')
    .replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)));
}

/** Numbers of a drawing that are none. */
const NO_NUMBER = /[\s"',(]-?(?:NaN|Infinity|undefined)\b/g;

/** What no report of any run may show: gaps in its text, and something that ended before it began. */
export function mistakesIn(report: Report): string[] {
  // A run that was handed over ends with a reference to the other one.
  if (!('steps' in report)) return gapsIn(report);
  const { steps, gates, startedAt, endedAt = '9' } = report;
  const spans = [
    { name: 'the run', startedAt, endedAt },
    ...gates.map(({ gate, openedAt, closedAt }) => ({ name: gate, startedAt: openedAt, endedAt: closedAt })),
    ...steps.flatMap(({ activities, ...step }) => [
      step,
      ...activities.map((activity) => ({ ...activity, name: `${step.name}: ${activity.type}` })),
    ]),
  ];
  const html = renderHtml(report);
  const wrong = spans.filter(
    (each) =>
      each.startedAt < startedAt ||
      (each.endedAt !== undefined && (each.endedAt < each.startedAt || each.endedAt > endedAt)),
  );
  return [
    ...gapsIn(report),
    ...gapsIn(renderMarkdown(report)),
    ...gapsIn(textsIn(html)),
    ...(html.match(NO_NUMBER) ?? []),
    ...gapsIn(timeLineLines(report)),
    ...wrong.map((each) => `${each.name}: ${each.startedAt} to ${each.endedAt}, in a run to ${endedAt}`),
  ];
}
