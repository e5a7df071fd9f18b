/** The package that `npm pack` makes, as somebody has it who installed it. */
import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { projectRoot } from '../../src/dev-server/locations';
import { startSimulatedService } from '../../src/simulator';

const run = promisify(execFile);

it('installs `runbook` with its version and its dependencies on the build, and none of the sources', async () => {
  // Below node_modules, whose packages serve in the place of those that a registry would give.
  const cache = join(projectRoot(), 'node_modules', '.cache');
  await mkdir(cache, { recursive: true });
  const directory = await mkdtemp(join(cache, 'pack-'));
  try {
    const pack = ['pack', '--ignore-scripts', '--json', '--pack-destination', directory];
    const { stdout } = await run('npm', pack, { cwd: projectRoot() });
    const [packed] = JSON.parse(stdout) as { filename: string; files: { path: string }[]; version: string }[];
    const paths = packed?.files.map(({ path }) => path) ?? [];
    const needed = [
      'LICENSE',
      'dist/workflow-bundle.js',
      'dist/holder-page.html',
      'dist/approver-page.html',
      'tools/temporal/requirements.txt',
    ];
    expect(paths).toEqual(expect.arrayContaining(needed));
    expect(paths.filter((path) => /^(src|test|scripts|activities|workflows)\//.test(path))).toEqual([]);
    await run('tar', ['-xzf', join(directory, packed?.filename ?? '')], { cwd: directory });
    const installed = join(directory, 'package');
    const manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')) as {
      bin: { runbook: string };
    };
    const bin = join(directory, 'bin');
    // As npm does it.
    const program = join(installed, manifest.bin.runbook);
    await mkdir(bin);
    await chmod(program, 0o755);
    await symlink(program, join(bin, 'runbook'));
    const env = { ...process.env, PATH: `${bin}:${process.env['PATH'] ?? ''}` };
    const runbook = async (...words: string[]) => (await run('runbook', words, { env })).stdout;
    expect((await runbook('--version')).trim()).toBe(packed?.version);
    const service = await startSimulatedService({ clusters: [{ name: 'east', nodes: 1 }] });
    const site = join(directory, 'site');
    const of = ['--directory', site, '--deployment', 'payments', '--people', 'ada'];
    const east = `east=${service.cluster('east').addresses.join(',')}`;
    try {
      expect(await runbook('init', '--yes', ...of, '--cluster', east)).toContain('runbook join production/ada/');
    } finally {
      await service.stop();
    }
    expect(await readFile(join(site, 'replication-runbooks-worker.service'), 'utf8')).toContain(` ${program} worker\n`);
    const keys = await runbook('keys', 'workers', '--output', join(directory, 'workers.key'));
    const page = ['--output', join(directory, 'page.html'), '--key', /[\w-]{43}:[\w-]{43}/.exec(keys)?.[0] ?? 'none'];
    expect(await runbook('holder-page', ...page)).toContain('SHA-256');
  } finally {
    await rm(directory, { recursive: true });
  }
}, 60_000);

it('a worker loads without the compiler and the test server, which the image does not have', async () => {
  const script = `
    const Module = require('node:module');
    const resolve = Module._resolveFilename;
    Module._resolveFilename = function (name, ...more) {
      if (/^(@swc\\/|swc-loader|@temporalio\\/testing)/.test(name)) throw new Error('not here: ' + name);
      return resolve.call(this, name, ...more);
    };
    require(process.argv[1]).startWorker({}).catch(({ code }) => process.stdout.write(code));`;
  const program = join(projectRoot(), 'dist', 'src', 'worker', 'start-worker.js');
  // It comes as far as its settings.
  expect((await run(process.execPath, ['-e', script, program], { env: {} })).stdout).toBe('INVALID_INPUT');
});
