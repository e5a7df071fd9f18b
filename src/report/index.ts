export { ActivityCollector } from './activity-records';
export { renderHtml } from './render-html';
export { renderMarkdown } from './render-markdown';
export { writeReportFiles } from './report-files';
export { reportFromHistory } from './report-from-history';
