import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import type { Report } from '../contracts/report';
import { renderHtml } from './render-html';
import { renderMarkdown } from './render-markdown';

const LONGEST_NAME = 150;

/** A name that different ids do not share and no file system reads as something else; `deployment:payments` stays readable. */
function fileName(id: string): string {
  const name = id.replace(/^\.|[^A-Za-z0-9.-]/gu, (found) =>
    found === ':' ? '_' : `%${Buffer.from(found).toString('hex')}`,
  );
  if (name !== '' && name.length <= LONGEST_NAME) return name;
  return `${name.slice(0, LONGEST_NAME)}%${createHash('sha256').update(id).digest('hex').slice(0, 32)}`;
}

/**
 * Writes a report as JSON, Markdown and HTML, so that it outlives the namespace's retention: to
 * `<directory>/<namespace>/<Workflow ID>/<Run ID>.{json,md,html}`, each readable by its owner only, each replaced as a whole.
 * @param report as `reportOf` makes it
 * @param directory created where it does not exist
 * @returns the absolute paths: JSON, Markdown, HTML
 * @throws the error of the file system, where a file cannot be written
 */
export async function writeReportFiles(report: Report, directory: string): Promise<string[]> {
  const folder = join(resolve(directory), fileName(report.namespace), fileName(report.workflowId));
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const base = join(folder, fileName(report.runId));
  const contents = [
    ['json', `${JSON.stringify(report, null, 2)}\n`],
    ['md', renderMarkdown(report)],
    ['html', renderHtml(report)],
  ] as const;
  const paths: string[] = [];
  for (const [extension, text] of contents) {
    const path = `${base}.${extension}`;
    await writeFileAtomic(path, text, { mode: 0o600 });
    paths.push(path);
  }
  return paths;
}
