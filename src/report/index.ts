export type { ActivityOutcome } from './activity-outcomes';
export { activityRecords } from './activity-outcomes';
export { ActivityCollector } from './activity-records';
export { renderHtml } from './render-html';
export { renderMarkdown } from './render-markdown';
export { writeReportFiles } from './report-files';
export type { RunIdentity } from './report-from-history';
export { reportFromHistory } from './report-from-history';
export type { Headline, Tone } from './report-words';
export {
  attestedText,
  durationText,
  headlineOf,
  lossHeadline,
  outageHeadline,
  protectionHeadline,
  timeText,
} from './report-words';
