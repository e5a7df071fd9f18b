import type { Command } from 'commander';
import { RunbookError } from '../../errors';
import { renderHtml } from '../../report/render-html';
import { renderMarkdown } from '../../report/render-markdown';
import { writeReportFiles } from '../../report/report-files';
import type { Report } from '../../contracts/report';
import { newCommand, printResult, withServerOptions, withSession } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import { readReport } from '../read-report';
import { jsonText } from '../text';

export const commands = (host: CommandHost): Command[] => [reportCommand(host)];

interface ReportOptions extends ServerOptions {
  readonly runId?: string;
  readonly format?: string;
  readonly output?: string;
}

const RENDERERS: Readonly<Record<string, (report: Report) => string>> = {
  md: renderMarkdown,
  html: renderHtml,
  json: (report) => jsonText(report, 2),
};

/** `runbook report`: what a run did, also of one that is open or was terminated. */
function reportCommand(host: CommandHost): Command {
  const command = newCommand('report', [
    'runbook report deployment:payments',
    'runbook report deployment:payments --format html > report.html',
    'runbook report deployment:payments --output reports   (JSON, Markdown and HTML files)',
  ])
    .argument('<workflowId>')
    .option('--run-id <id>', 'an earlier run of this Workflow ID (default: the newest)')
    .option('--format <format>', 'md, html or json (default: md; json with --json)')
    .option('--output <directory>', 'write files there and print their paths');
  return withServerOptions(command).action(async (workflowId: string, options: ReportOptions) => {
    const format = options.format ?? (options.json === true ? 'json' : 'md');
    const render = RENDERERS[format];
    if (render === undefined) {
      throw new RunbookError('INVALID_INPUT', `There is no report format "${format}".`, {
        needed: Object.keys(RENDERERS).join(', '),
      });
    }
    await withSession(host.context, options, async (session) => {
      const { runId } = options;
      const report = await readReport(session, { workflowId, ...(runId === undefined ? {} : { runId }) });
      if (options.output === undefined) {
        for (const line of render(report).trimEnd().split('\n')) host.context.out(line);
        return;
      }
      const files = await writeReportFiles(report, options.output);
      printResult(host.context, options, { files }, files);
    });
  });
}
