/**
 * Runs one of the project's tasks from a fresh clone. If the installed dependencies differ from the lock file, it
 * installs them first. Needs only Node and npm, and imports nothing that has to be installed.
 *
 *   node scripts/bootstrap.mjs <demo | test | test:long | test:ceremony | test:mutations | bench> [arguments of the task]
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism, constants } from 'node:os';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const NPMS_LIST = join('node_modules', '.package-lock.json');
const TSC = program('typescript', 'bin/tsc');
const JEST = program('jest', 'bin/jest.js');
const [task, ...taskArguments] = process.argv.slice(2);

/** Folders of slow tests: seeded orders, combined faults, killed workers, recorded histories, programs from a clone, real servers. */
const LONG_TESTS = ['test/ceremony/', 'test/long/', 'test/real/'];

const TASKS = {
  demo: async () => {
    await build();
    await step('Demo', process.execPath, ['dist/src/cli/demo/main.js', ...taskArguments], { isQuiet: true });
  },
  test: async () => {
    await ensureTemporal();
    // In parallel, each on its own core. If one fails, the task ends after both are done.
    await Promise.all([checkTypes(), build()]);
    process.env.RUNBOOKS_TEST_BUNDLE = 'dist/workflow-bundle.js';
    // If test files are named, run exactly those.
    const named = taskArguments.some((each) => each.startsWith('test'));
    const shorter = named ? [] : longTests().map((folder) => `--testPathIgnorePatterns=${folder}`);
    await node('Tests', JEST, ...shorter, ...taskArguments);
  },
  'test:long': async () => {
    await ensureTemporal();
    // These tests start the compiled programs and kill them.
    await build();
    // These tests kill and flood: with more workers per processor, they would fail for lack of CPU time.
    await node('Long tests', JEST, ...longTests(), `--maxWorkers=${2 * availableParallelism()}`, ...taskArguments);
  },
  // 1000 seeded orders of shares and events; RUNBOOKS_CEREMONY_SEEDS and _FROM select others.
  'test:ceremony': async () => {
    process.env.RUNBOOKS_CEREMONY_SEEDS ??= '1000';
    await ensureTemporal();
    await node('Orders of shares and events', JEST, 'test/ceremony', '--maxWorkers=2', ...taskArguments);
  },
  // Removes one safety check at a time: a test must fail without it.
  'test:mutations': async () => {
    await ensureTemporal();
    await node('Mutations', 'scripts/mutations.mjs', ...taskArguments);
  },
  bench: async () => {
    await build();
    await node('Benchmarks', 'dist/scripts/benchmark.js', ...taskArguments);
  },
};

/** Checks that the folders exist: tests in a renamed folder would silently be missing from the long tests. */
function longTests() {
  const missing = LONG_TESTS.filter((folder) => !existsSync(join(ROOT, folder)));
  if (missing.length > 0)
    throw new TaskFailed(`Missing folder: ${missing.join(', ')}. Correct LONG_TESTS in scripts/bootstrap.mjs.`);
  return LONG_TESTS;
}

/** Makes sure that a Temporal server is available, builds it if needed, and prints which one is used. */
async function ensureTemporal() {
  const find = `require('./src/dev-server/find-temporal-server').findTemporalServer({ onProgress: console.log }).then(
    ({ address, version, path }) => console.log(address ?? [version, path].join(': ')),
    ({ message }) => { console.error(message); process.exitCode = 1; });`;
  await node('Temporal server', '-r', './scripts/register-typescript.cjs', '-e', find);
}

async function checkTypes() {
  await node('Type check', TSC, '-p', 'tsconfig.json', '--noEmit');
  await node('Type check of the pages', TSC, '-p', 'src/pages', '--noEmit');
}

const COMPILED = ['src', 'workflows', 'activities', 'scripts'];
const BUILD_INPUTS = [...COMPILED, 'tsconfig.json', 'tsconfig.build.json', 'package.json', 'package-lock.json'];
/** What the last build read and wrote, as two hashes. */
const BUILD_STAMP = join('dist', '.built.json');

/**
 * Compiles the programs, which the demo and some tests start as separate processes, unless `dist` is what the present
 * sources give. Does not check types, so that the demo starts sooner: `npm test` and `npm run build` check them.
 */
async function build() {
  const inputs = contentHash(BUILD_INPUTS);
  const last = existsSync(join(ROOT, BUILD_STAMP)) ? readJson(BUILD_STAMP) : {};
  const isIntact = last.outputs === contentHash(['dist']);
  if (isIntact && last.inputs === inputs) return;
  // The compiler trusts its notes: by them it would not write again what somebody removed or replaced.
  if (!isIntact) rmSync(join(ROOT, 'dist', '.tsbuildinfo'), { force: true });
  for (const path of filesBelow('dist').filter((each) => each.endsWith('.js')))
    if (COMPILED.includes(path.split(sep)[1]) && !existsSync(join(ROOT, relative('dist', path).replace(/js$/, 'ts'))))
      rmSync(join(ROOT, path));
  await node('Compile', TSC, '-p', 'tsconfig.build.json', '--noCheck');
  await node('Bundle the workflows', 'dist/scripts/bundle-workflows.js');
  await node('Bundle the pages', 'dist/scripts/bundle-pages.js');
  writeFileSync(join(ROOT, BUILD_STAMP), JSON.stringify({ inputs, outputs: contentHash(['dist']) }));
}

/** The hash of the names and contents of all files at and below these paths. */
function contentHash(paths) {
  const hash = createHash('sha256');
  for (const path of paths.flatMap(filesBelow)) {
    const content = readFileSync(join(ROOT, path));
    hash.update(`${path}\n${content.length}\n`).update(content);
  }
  return hash.digest('hex');
}

/** The files at or below a path, sorted; without the stamp, which cannot contain its own hash. */
function filesBelow(path) {
  if (!existsSync(join(ROOT, path))) return [];
  if (!statSync(join(ROOT, path)).isDirectory()) return path === BUILD_STAMP ? [] : [path];
  return readdirSync(join(ROOT, path))
    .sort()
    .flatMap((name) => filesBelow(join(path, name)));
}

/** A task failed. The message says why; the program that failed has printed the details. */
class TaskFailed extends Error {
  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

function program(packageName, path) {
  return join(ROOT, 'node_modules', packageName, path);
}

function checkNode() {
  const { engines } = readJson('package.json');
  const [major, minor] = process.versions.node.split('.').map(Number);
  const fits = [...engines.node.matchAll(/(\^|>=)(\d+)\.(\d+)/g)].some(
    ([, sign, neededMajor, neededMinor]) =>
      (major === Number(neededMajor) && minor >= Number(neededMinor)) || (sign === '>=' && major > Number(neededMajor)),
  );
  if (fits) return;
  const found = `${process.versions.node} (${process.execPath})`;
  throw new TaskFailed(
    `This project needs Node ${engines.node}, but this is Node ${found}. Install another Node version.`,
  );
}

/** Compares with npm's own list of installed packages: npm removes it at the start of an installation and writes it at the end. */
async function installDependencies() {
  const needed = Object.entries(readJson('package-lock.json').packages).filter(([path]) => path !== '');
  const installed = existsSync(join(ROOT, NPMS_LIST)) ? readJson(NPMS_LIST).packages : {};
  // Packages for another platform, such as in a folder shared with a container, do not run here.
  const fits = ({ os = [process.platform], cpu = [process.arch] }) =>
    os.includes(process.platform) && cpu.includes(process.arch);
  const isInstalled = ([path, { integrity, optional }]) =>
    installed[path] === undefined
      ? optional === true
      : installed[path].integrity === integrity && fits(installed[path]);
  if (needed.every(isInstalled)) return;
  const parameters = ['ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'];
  await step('Install dependencies', 'npm', parameters, { shell: process.platform === 'win32' });
}

const readJson = (path) => JSON.parse(readFileSync(join(ROOT, path), 'utf8'));

/** Runs a script with this Node. */
function node(title, ...parameters) {
  return step(title, process.execPath, parameters);
}

/** Runs a program in our terminal and waits for its end; a failure ends the task. A quiet step tells only that. */
async function step(title, command, parameters, { isQuiet = false, ...options } = {}) {
  const begin = Date.now();
  if (!isQuiet) console.log(`== ${title}`);
  const { code, signal } = await run(command, parameters, options);
  const seconds = ((Date.now() - begin) / 1000).toFixed(1);
  if (signal !== null)
    throw new TaskFailed(`${title}: ended by ${signal} after ${seconds} s`, 128 + constants.signals[signal]);
  if (code !== 0) throw new TaskFailed(`${title}: failed after ${seconds} s (exit code ${code})`, code);
  if (!isQuiet) console.log(`== ${title}: done in ${seconds} s`);
}

function run(command, parameters, options) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, parameters, { cwd: ROOT, stdio: 'inherit', ...options });
    // At a terminal, Ctrl-C reaches the child directly. This process waits until the child has ended.
    const forward = (signal) => {
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
    };
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
    for (const signal of signals) process.on(signal, forward);
    const finish = (settle) => {
      for (const signal of signals) process.off(signal, forward);
      settle();
    };
    child.once('error', (error) =>
      finish(() => reject(new TaskFailed(`${command} could not be started: ${error.message}`))),
    );
    child.once('exit', (code, signal) => finish(() => resolve({ code, signal })));
  });
}

try {
  const work = Object.hasOwn(TASKS, task ?? '') ? TASKS[task] : undefined;
  if (work === undefined) throw new TaskFailed(`Name one of these tasks: ${Object.keys(TASKS).join(', ')}`, 2);
  checkNode();
  await installDependencies();
  await work();
} catch (error) {
  if (!(error instanceof TaskFailed)) throw error;
  console.error(`== ${error.message}`);
  process.exitCode = error.exitCode;
}
