/** dist/runbook.cjs as a person has it: one file in an empty folder, Node, an empty home, and nothing else. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { cp, readFile, symlink, writeFile } from 'node:fs/promises';
import { builtinModules } from 'node:module';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { buildOneFile, writeOneFile } from '../../scripts/bundle-one-file';
import { processContext } from '../../src/cli/context';
import { buildProgram } from '../../src/cli/program';
import { projectRoot, programVersion } from '../../src/dev-server/locations';
import { formatPublicKey, newSigningKey } from '../../src/keys';
import { temporaryDirectory } from '../support/directory';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';
import { temporalServer } from '../support/temporal-server';

jest.setTimeout(240_000);

const directory = temporaryDirectory('one-file');
const [home, empty] = [join(directory, 'home'), join(directory, 'empty')];
for (const folder of [home, empty]) mkdirSync(folder);
const file = join(empty, 'runbook.cjs');
let built: Awaited<ReturnType<typeof writeOneFile>>;
beforeAll(async () => {
  built = await writeOneFile(file);
});

interface How {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly node?: readonly string[];
}

/** Runs the file with a home of its own. */
async function runbook(words: readonly string[], { env, input = '', node = [] }: How = {}) {
  const child = spawn(process.execPath, [...node, file, ...words], { cwd: empty, env: { HOME: home, ...env } });
  child.stdin.end(input);
  const [out, err, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  return { code, out, err };
}

describe('the file', () => {
  it('has at most 5 MB, lies beside its hash, and has the same bytes from sources in another folder', async () => {
    const bytes = await readFile(file);
    expect(bytes.length).toBeLessThanOrEqual(5_000_000);
    expect(await readFile(`${file}.sha256`, 'utf8')).toBe(
      `${createHash('sha256').update(bytes).digest('hex')}  runbook.cjs\n`,
    );
    const elsewhere = join(directory, 'elsewhere');
    for (const part of ['src', 'activities', 'package.json', 'tsconfig.json'])
      await cp(join(projectRoot(), part), join(elsewhere, part), { recursive: true });
    await symlink(join(projectRoot(), 'node_modules'), join(elsewhere, 'node_modules'), 'dir');
    expect((await buildOneFile(elsewhere)).sha256).toBe(built.sha256);
  });

  it('loads only modules that are built into Node', () => {
    const loaded = [...built.program.toString().matchAll(/\brequire\(["']([^"']+)["']\)/g)].map(
      ([, name = '']) => name,
    );
    expect(loaded.length).toBeGreaterThan(20);
    const foreign = loaded.filter((name) => !name.startsWith('node:') && !builtinModules.includes(name));
    expect([...new Set(foreign)]).toEqual([]);
  });

  it('prints its version and help; a command of worker hosts is named, with its package', async () => {
    expect(await runbook(['--version'])).toEqual({ code: 0, out: `${programVersion()}\n`, err: '' });
    const { out: help } = await runbook(['--help']);
    expect(help).toContain(
      'Only the package for worker hosts has: holder-page, approver-page, init, doctor, policy, schedules, worker,',
    );
    const all = buildProgram({ context: processContext(new AbortController().signal), finish: () => undefined });
    const leftOut = /worker hosts has: (.*)\./.exec(help)?.[1]?.split(', ') ?? [];
    const seen = all.commands.map(async (command) => {
      const name = command.name();
      const { code, out, err } = await runbook([name, '--help']);
      if (!leftOut.includes(name)) expect([name, code, out]).toEqual([name, 0, expect.stringContaining('Options:')]);
      else
        expect([name, code, err]).toEqual([name, 3, expect.stringContaining(`"runbook ${name}" is not in this file`)]);
      expect(help.includes(`\n  ${name} `)).toBe(!leftOut.includes(name));
    });
    await Promise.all(seen);
  });

  it('is refused with code that was loaded first, like the package', async () => {
    const other = join(directory, 'other.cjs');
    await writeFile(other, '');
    const { code, err } = await runbook(['list'], { node: ['--require', other] });
    expect([code, err]).toEqual([3, expect.stringContaining('--require')]);
  });

  it('checks an inventory', async () => {
    const inventory = join(directory, 'inventory.yaml');
    await writeFile(inventory, 'version: 1\n');
    const { code, err } = await runbook(['inventory', 'check', inventory]);
    expect([code, err]).toEqual([3, expect.stringContaining('INVENTORY_INVALID')]);
  });
});

describe('with a run', () => {
  let scenario: Scenario;
  /** The public keys of those who joined. */
  const keys = new Map<string, string>();
  const at = (name: string) => ({ HOME: join(directory, `home-of-${name}`) });
  const passphrase = ['--passphrase-file', join(directory, 'passphrase')];
  const good = async (words: readonly string[], how: How = {}) => {
    const { code, out, err } = await runbook(words, how);
    expect([words, code, code === 0 ? '' : err]).toEqual([words, 0, '']);
    return out;
  };
  beforeAll(async () => {
    await writeFile(join(directory, 'passphrase'), 'correct horse battery staple', { mode: 0o600 });
    const { address, namespace } = temporalServer();
    for (const name of ['ada', 'grace']) {
      const line = `production/${name}/${formatPublicKey(newSigningKey().key)}`;
      const server = ['--address', address, '--namespace', namespace];
      const sent = await good(['join', line, ...server, '--yes', ...passphrase], { env: at(name) });
      keys.set(name, new RegExp(`^ {2}${name}/(\\S+)$`, 'm').exec(sent)?.[1] ?? '');
    }
  });
  openScenario((opened) => (scenario = opened), {
    person: (name) => (keys.has(name) ? { publicKeys: [keys.get(name)] } : undefined),
  });

  it('an operator plans, starts and lists it; holder and approver answer from an empty machine on which they joined', async () => {
    const { name, workflowId } = scenario;
    const { TEMPORAL_ADDRESS = '', TEMPORAL_NAMESPACE = '', RUNBOOKS_TASK_QUEUE = '' } = scenario.environment;
    const env = { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, RUNBOOKS_TASK_QUEUE, RUNBOOKS_PERSON: 'olga' };
    const input = ['drSwitchover', '--deployment', name, '--to', 'west', '--reason', 'one file'];
    expect(await good(['plan', ...input], { env })).toContain('No precondition failed. Nothing was changed.');
    expect(await good(['start', ...input], { env })).toContain(`Started drSwitchover as ${workflowId}`);
    const run = scenario.attach();
    await run.waitsFor('shares');
    expect(await good(['list', '--limit', '200'], { env })).toContain(workflowId);
    expect(await good(['status', name], { env: at('ada') })).toContain(`runbook share ${workflowId} --holder ada`);

    await good(['keys', 'trust', 'production', formatPublicKey(scenario.workersKey), '--yes'], { env: at('ada') });
    const share = ['share', name, '--confirm', 'west', '--share-file', '-', ...passphrase];
    const given = await good(share, { env: at('ada'), input: scenario.person('ada').share });
    expect(given).toMatch(/from ada \(signed\): accepted/);
    const { planDigest = '' } = await run.waitsFor('approval', ({ gate }) => gate === 'plan');
    const approve = ['approve', name, '--gate', 'plan', '--yes', '--plan-digest', planDigest, ...passphrase];
    expect(await good(approve, { env: at('grace') })).toMatch(/from grace \(signed\): accepted/);
    const abort = ['abort', name, '--reason', 'enough', ...passphrase];
    expect(await good(abort, { env: at('grace') })).toContain('abort 1 from grace');
    await run.report();
    // Read with its history, whose numbers of 64 bits need a package that must be in the file.
    const report = join(directory, 'report.json');
    await writeFile(report, await good(['report', name, '--json'], { env }));
    expect(await good(['report', '--verify', report], { env })).toContain('History: match.');
  });
});

it('the build runs every bundler, also that of this file', () => {
  const { scripts } = JSON.parse(readFileSync(join(projectRoot(), 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  const bundlers = readdirSync(join(projectRoot(), 'scripts')).filter((name) => name.startsWith('bundle-'));
  expect(bundlers).toContain('bundle-one-file.ts');
  for (const name of bundlers) expect(scripts['build']).toContain(`node dist/scripts/${name.replace(/ts$/, 'js')}`);
});
