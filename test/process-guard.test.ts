/** What a program of ours does, and refuses, so that its memory stays inside of it: with real processes. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { programFile, projectRoot } from '../src/dev-server/locations';
import { checkProcess, refuseUnsafeStart } from '../src/process-guard';
import type { ProcessFacts } from '../src/process-guard';
import { cli } from './cli/support';
import { temporaryDirectory } from './support/directory';

const ROOT = join(__dirname, '..');
/** The source: a line that is missing there must not be found in an old build. */
const GUARD = join(ROOT, 'src', 'process-guard.ts');
const TYPESCRIPT = join(ROOT, 'scripts', 'register-typescript.cjs');

const directory = temporaryDirectory('process-guard');

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly err: string;
}

/** Runs a script that loads the guard first, under a shell that sets limits. Calls back once it says "ready". */
async function program(
  script: string,
  options: { readonly limits?: string; readonly guarded?: boolean; readonly onReady?: (pid: number) => Promise<void> },
): Promise<Ended> {
  const guard = options.guarded === false ? '' : `require(${JSON.stringify(GUARD)}).guardProcess();`;
  const child = spawn(
    'sh',
    ['-c', `${options.limits ?? ':'}; exec "$0" "$@"`, process.execPath, '-r', TYPESCRIPT, '-e', guard + script],
    { cwd: directory, env: { PATH: process.env['PATH'] ?? '' }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let out = '';
  let err = '';
  let told = false;
  const failed: unknown[] = [];
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString();
    if (told || !out.includes('ready')) return;
    told = true;
    options.onReady?.(child.pid ?? 0).catch((error: unknown) => {
      failed.push(error);
      child.kill('SIGKILL');
    });
  });
  child.stderr.on('data', (chunk: Buffer) => void (err += chunk.toString()));
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  if (failed.length > 0) throw failed[0];
  return { code, signal, out, err };
}

describe('a program of ours', () => {
  it('keeps running after SIGUSR1, and no inspector opens; it writes no diagnostic report by itself', async () => {
    const { code, out, err } = await program(
      `const { url } = require('node:inspector');
       const { reportOnFatalError, reportOnSignal, reportOnUncaughtException } = process.report;
       const reports = [reportOnFatalError, reportOnSignal, reportOnUncaughtException].some(Boolean);
       process.on('SIGUSR1', () => setTimeout(() => { console.log('inspector', url()); process.exit(reports ? 1 : 7); }, 300));
       setInterval(() => undefined, 1000);
       console.log('ready', process.pid, process.listenerCount('SIGUSR1'));`,
      { onReady: (pid) => Promise.resolve(void process.kill(pid, 'SIGUSR1')) },
    );
    // The second listener is the script's: the guard's own was there before.
    expect({ code, out: out.replace(/\d{3,}/, 'pid') }).toEqual({ code: 7, out: 'ready pid 2\ninspector undefined\n' });
    expect(err).not.toContain('Debugger listening');
  });

  it('dumps no memory when it crashes, even if core dumps are on', async () => {
    const secret = 'hvs.CANARYofTheCore';
    const crash = `const held = Buffer.alloc(1 << 20, ${JSON.stringify(secret)}); console.log(held.length); process.abort();`;
    const cores = async () => {
      const found = (await readdir(directory)).filter((name) => name.startsWith('core'));
      const texts = await Promise.all(found.map((name) => readFile(join(directory, name))));
      await Promise.all(found.map((name) => rm(join(directory, name))));
      // Not the texts: printing one of these sizes takes a test runner many minutes.
      return texts.map((text) => text.includes(secret));
    };
    const ended = await program(crash, { limits: 'ulimit -c unlimited' });
    expect(ended.signal).toBe('SIGABRT');
    expect(await cores()).not.toContain(true);
    // Whether this host writes core files at all decides what the line above proves. The kernel's own word holds on each.
    await program(crash, { limits: 'ulimit -c unlimited', guarded: false });
    const pattern = (await readFile('/proc/sys/kernel/core_pattern', 'utf8')).trim();
    expect(await cores()).toEqual(pattern === 'core' ? [true] : []);
    const filter = await program(
      `console.log(require('node:fs').readFileSync('/proc/self/coredump_filter', 'utf8'))`,
      {},
    );
    expect(filter.out).toMatch(/^0+\n/);
  });
});

describe('every command', () => {
  const start = { env: {}, execArgv: [], built: true };

  it.each(['-r', '--require', '--require=x.cjs', '--import', '--loader', '--experimental_loader=x'])(
    'refuses %s, as an argument of node and in NODE_OPTIONS, once it is built',
    (option) => {
      for (const open of [
        { execArgv: [option, 'x.cjs'] },
        { env: { NODE_OPTIONS: `--no-warnings ${option} x.cjs` } },
      ]) {
        const observed = option.split('=')[0]?.replaceAll('_', '-');
        expect(() => refuseUnsafeStart({ ...start, ...open })).toThrow(
          expect.objectContaining({ code: 'INVALID_INPUT', observed }) as Error,
        );
        refuseUnsafeStart({ ...start, ...open, built: false });
        refuseUnsafeStart({ ...start, ...open, env: { ...open.env, RUNBOOKS_ALLOW_DEBUGGING: 'yes' } });
      }
    },
  );

  it.each(['worker', 'share', 'approve'])('%s does not start if any certificate would be accepted', async (name) => {
    const env = { NODE_TLS_REJECT_UNAUTHORIZED: '0', RUNBOOKS_ALLOW_DEBUGGING: 'yes' };
    const { code, err, questions } = await cli([name, 'deployment:payments'], { env });
    expect([code, questions, err]).toEqual([3, [], expect.stringContaining('NODE_TLS_REJECT_UNAUTHORIZED=0')]);
  });

  it('of the build is refused as a process of its own, with code that is loaded first', async () => {
    const words = ['--require', 'node:path', programFile(), '--version'];
    const ended = spawnSync(process.execPath, words, { env: { PATH: process.env['PATH'] ?? '' }, encoding: 'utf8' });
    expect([ended.status, ended.stderr]).toEqual([3, expect.stringContaining('observed: --require')]);
  });
});

describe('runbook worker', () => {
  const facts = (more: Partial<ProcessFacts>): ProcessFacts => ({
    env: {},
    execArgv: [],
    inspector: undefined,
    uid: 1000,
    isLaboratory: false,
    built: true,
    read: (path) => FILES[path],
    ...more,
  });
  const FILES: Readonly<Record<string, string>> = {
    '/proc/self/limits': 'Limit   Soft Limit  Hard Limit  Units\nMax core file size        0     unlimited  bytes\n',
    '/proc/self/coredump_filter': '00000000\n',
    '/proc/swaps': 'Filename\tType\tSize\tUsed\tPriority\n',
  };

  const OPEN =
    '--inspect --inspect=0.0.0.0:9229 --inspect-brk --inspect_brk --inspect-wait=1 --inspect-port=0 --debug-port=1 --heapsnapshot-signal=SIGUSR2 --heapsnapshot_near_heap_limit=3 --heap-prof --report-on-signal --report-on-fatalerror --report-uncaught-exception --report-signal=SIGUSR2 --abort-on-uncaught-exception --tls-keylog=keys';
  it.each(OPEN.split(' '))('refuses %s, as an argument of node and in NODE_OPTIONS', (option) => {
    const name = option.split('=')[0]?.replaceAll('_', '-');
    for (const open of [{ execArgv: [option] }, { env: { NODE_OPTIONS: `--no-warnings "${option}"` } }]) {
      expect(() => checkProcess(facts(open))).toThrow(
        expect.objectContaining({ code: 'INVALID_INPUT', observed: name }) as Error,
      );
      const env = { ...('env' in open ? open.env : {}), RUNBOOKS_ALLOW_DEBUGGING: 'yes' };
      expect(checkProcess(facts({ ...open, env }))).toEqual([
        { text: expect.stringContaining(name ?? '') as string, next: expect.stringContaining('unset') as string },
      ]);
    }
  });

  it('refuses an open inspector and debug output of node, and takes other options', () => {
    expect(() => checkProcess(facts({ inspector: 'ws://127.0.0.1:9229/x' }))).toThrow(
      'a process that exposes its memory',
    );
    expect(() => checkProcess(facts({ env: { NODE_DEBUG: 'http' } }))).toThrow('a process that exposes its memory');
    const harmless = ['--enable-source-maps', '--max-old-space-size=512', '--report-exclude-network', '-r', 'x'];
    expect(checkProcess(facts({ execArgv: harmless, env: { NODE_OPTIONS: '--no-warnings' } }))).toEqual([]);
  });

  it('refuses user 0, unless that was allowed, and then says so', () => {
    const refused = {
      code: 'INVALID_INPUT',
      observed: 'user 0 (root)',
      next: expect.stringContaining('rootless') as string,
    };
    for (const value of [undefined, 'no', '1'])
      expect(() => checkProcess(facts({ uid: 0, env: { RUNBOOKS_ALLOW_ROOT: value } }))).toThrow(
        expect.objectContaining(refused) as Error,
      );
    expect(checkProcess(facts({ uid: 0, env: { RUNBOOKS_ALLOW_ROOT: 'yes' } }))).toEqual([
      { text: expect.stringContaining('RUNBOOKS_ALLOW_ROOT is set') as string, next: expect.any(String) as string },
    ]);
    expect(checkProcess(facts({ uid: 0, isLaboratory: true }))).toMatchObject([
      { text: expect.stringContaining('laboratory') as string },
    ]);
    for (const uid of [1000, undefined]) expect(checkProcess(facts({ uid }))).toEqual([]);
  });

  it('as root is refused by the command line; as another user it continues to its settings', async () => {
    const startedBy = async (uid: number, env = {}) => {
      const user = jest.spyOn(process as Required<NodeJS.Process>, 'geteuid').mockReturnValue(uid);
      const { code, err } = await cli(['worker'], { env }).finally(() => user.mockRestore());
      expect(code).toBe(3);
      return err;
    };
    const goesOn = expect.stringContaining('RUNBOOKS_INVENTORY is not set') as string;
    expect(await startedBy(0)).toContain('A worker does not run as root.');
    const inventory = (name: string) => ({ RUNBOOKS_INVENTORY: join(projectRoot(), name) });
    expect(await startedBy(0, inventory('deploy/inventory.yaml'))).toContain(
      'The worker of this laboratory runs as root',
    );
    expect(await startedBy(1000)).toEqual(goesOn);
    expect(await startedBy(0, { RUNBOOKS_ALLOW_ROOT: 'yes' })).toEqual(goesOn);
  });

  it('is not started by the command line with such an option, and does not repeat its value', async () => {
    const { code, err } = await cli(['worker'], { env: { NODE_OPTIONS: '--heapsnapshot-signal=SIGUSR2 --title=x' } });
    expect([code, err]).toEqual([3, expect.stringContaining('--heapsnapshot-signal')]);
    expect(err).not.toContain('--title');
  });

  it('warns of core dumps, of swap, and if it cannot check', () => {
    const with_ = (files: Readonly<Record<string, string | undefined>>) =>
      checkProcess(facts({ read: (path) => (path in files ? files[path] : FILES[path]) }))
        .map(({ text }) => text)
        .join('; ');
    const unlimited = 'Max core file size        unlimited            unlimited            bytes\n';
    expect(with_({ '/proc/self/limits': unlimited })).toContain('would contain no memory');
    expect(with_({ '/proc/self/limits': unlimited, '/proc/self/coredump_filter': '00000033\n' })).toContain(
      'would contain key shares',
    );
    expect(with_({ '/proc/self/limits': undefined })).toContain('cannot be read');
    expect(with_({ '/proc/swaps': `${FILES['/proc/swaps']}/dev/sda2 partition 1 0 -2\n` })).toContain('swap is on');
    expect(with_({})).toBe('');
  });
});
