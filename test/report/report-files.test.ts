import { mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { renderHtml } from '../../src/report/render-html';
import { renderMarkdown } from '../../src/report/render-markdown';
import { writeReportFiles } from '../../src/report/report-files';
import { reportOf } from '../../src/report/report-of-run';
import { finishedSwitchover } from './support/switchover';

describe('report files', () => {
  let directory = '';
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'report-files-'));
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));
  const report = reportOf(finishedSwitchover().build());

  it('hold the three forms, for the owner only, and nothing half-written', async () => {
    const paths = await writeReportFiles(report, directory);
    const folder = join(directory, 'default', 'deployment_payments');
    expect(paths).toEqual(['json', 'md', 'html'].map((extension) => join(folder, `0c1d-run.${extension}`)));
    const [json = '', markdown, html] = await Promise.all(paths.map((path) => readFile(path, 'utf8')));
    expect(JSON.parse(json)).toEqual(report);
    expect([markdown, html]).toEqual([renderMarkdown(report), renderHtml(report)]);
    for (const path of paths) expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readdir(folder)).toHaveLength(3);
  });

  it('are replaced as a whole by a later report of the same run', async () => {
    await writeReportFiles({ ...report, outcome: 'running' }, directory);
    const [path = ''] = await writeReportFiles(report, directory);
    expect(JSON.parse(await readFile(path, 'utf8'))).toMatchObject({ outcome: 'completed' });
  });

  it('never leave the directory, whatever the ids are', async () => {
    for (const id of ['../../etc/passwd', '..', '', '/', 'a/../b', 'x'.repeat(400)]) {
      const paths = await writeReportFiles({ ...report, namespace: id, workflowId: id, runId: id }, directory);
      for (const path of paths) expect(path.startsWith(`${directory}/`) && !path.includes('/..')).toBe(true);
    }
  });

  it('of two namespaces or deployments never share a folder, whatever their names are', async () => {
    const ids = [
      'deployment:payments',
      'deployment_payments',
      'deployment/payments',
      '.a',
      '%2ea',
      '',
      ':',
      'é',
      '%c3a9',
    ];
    const long = [`${'x'.repeat(400)}1`, `${'x'.repeat(400)}2`];
    const reports = [...ids, ...long].flatMap((id) => [
      { ...report, namespace: id },
      { ...report, workflowId: id },
    ]);
    const [namespaces, workflows] = [new Set<string>(), new Set<string>()];
    for (const each of reports) {
      const [path = ''] = await writeReportFiles(each, directory);
      (each.workflowId === report.workflowId ? namespaces : workflows).add(dirname(path));
    }
    expect(namespaces.size).toBe(ids.length + long.length + 1);
    expect(workflows.size).toBe(ids.length + long.length - 1);
  });

  it('leave nothing behind where they cannot be written', async () => {
    const folder = join(directory, 'default', 'deployment_payments');
    await writeReportFiles(report, directory);
    await rm(join(folder, '0c1d-run.json'));
    await mkdir(join(folder, '0c1d-run.json', 'in-the-way'), { recursive: true });
    await expect(writeReportFiles(report, directory)).rejects.toThrow();
    expect((await readdir(folder)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });
});
