export { renderHtml } from './render-html';
export { renderMarkdown } from './render-markdown';
export { writeReportFiles } from './report-files';
