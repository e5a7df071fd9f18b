/**
 * Runs one of the project's tasks from a fresh clone: installs the dependencies where the lock file asks for others
 * than are installed, then does the task. Needs nothing but Node and npm; imports nothing that has to be installed.
 *
 *   node scripts/bootstrap.mjs <demo | test | test:long | test:ceremony | test:mutations | bench> [arguments of the task]
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism, constants } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const NPMS_LIST = join('node_modules', '.package-lock.json');
const TSC = program('typescript', 'bin/tsc');
const JEST = program('jest', 'bin/jest.js');
const [task, ...taskArguments] = process.argv.slice(2);

/** What takes long: seeded orders, faults upon faults, killed workers, recorded histories, programs from a clone, real servers. By folder. */
const LONG_TESTS = ['test/ceremony/', 'test/long/', 'test/real/'];

const TASKS = {
  demo: async () => {
    await build();
    await node('Demo', 'dist/src/demo/main.js', ...taskArguments);
  },
  test: async () => {
    await ensureTemporal();
    // Each on a core of its own; who fails first ends the task once both are done.
    await Promise.all([checkTypes(), build()]);
    process.env.RUNBOOKS_TEST_BUNDLE = 'dist/workflow-bundle.js';
    // Who names test files gets those.
    const named = taskArguments.some((each) => each.startsWith('test'));
    const shorter = named ? [] : longTests().map((folder) => `--testPathIgnorePatterns=${folder}`);
    await node('Tests', JEST, ...shorter, ...taskArguments);
  },
  'test:long': async () => {
    await ensureTemporal();
    // Workers that are killed run as processes of their own.
    await build();
    // They kill and flood: more of them for each processor would fail for want of one.
    await node('Long tests', JEST, ...longTests(), `--maxWorkers=${2 * availableParallelism()}`, ...taskArguments);
  },
  // All the seeded orders of shares and events; RUNBOOKS_CEREMONY_SEEDS and _FROM choose others.
  'test:ceremony': async () => {
    process.env.RUNBOOKS_CEREMONY_SEEDS ??= '1000';
    await ensureTemporal();
    await node('Orders of shares and events', JEST, 'test/ceremony', '--maxWorkers=2', ...taskArguments);
  },
  // Safety checks that are taken out one at a time: a test must fail without each.
  'test:mutations': async () => {
    await ensureTemporal();
    await node('Mutations', 'scripts/mutations.mjs', ...taskArguments);
  },
  bench: async () => {
    await build();
    await node('Benchmarks', 'dist/scripts/benchmark.js', ...taskArguments);
  },
};

/** A folder that is not there would leave its tests out of both runs, unseen. */
function longTests() {
  const missing = LONG_TESTS.filter((folder) => !existsSync(join(ROOT, folder)));
  if (missing.length > 0)
    throw new TaskFailed(`There is no ${missing.join(', no ')} (LONG_TESTS in scripts/bootstrap.mjs)`);
  return LONG_TESTS;
}

/** Makes sure that a Temporal server can be had, builds it where needed, and says which one it is. */
async function ensureTemporal() {
  const look = `require('./src/dev-server/find-temporal-server').findTemporalServer({ onProgress: console.log }).then(
    ({ address, version, path }) => console.log(address ?? [version, path].join(': ')),
    ({ message }) => { console.error(message); process.exitCode = 1; });`;
  await node('Temporal server', '-r', './scripts/register-typescript.cjs', '-e', look);
}

async function checkTypes() {
  await node('Type check', TSC, '-p', 'tsconfig.json', '--noEmit');
  await node("Type check of the holder's page", TSC, '-p', 'src/holder-page', '--noEmit');
}

/**
 * Some tests run the programs of the build as processes of their own. Without its type check, which `npm test` and
 * `npm run build` make: whoever runs the demo waits for nothing else.
 */
async function build() {
  await node('Compile', TSC, '-p', 'tsconfig.build.json', '--noCheck');
  await node('Bundle the workflows', 'dist/scripts/bundle-workflows.js');
  await node("Bundle the holder's page", 'dist/scripts/bundle-holder-page.js');
}

/** A task could not be done; the message says why and the program that failed has said more. */
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
  throw new TaskFailed(`Node ${engines.node} is needed; this is Node ${process.versions.node} (${process.execPath}).`);
}

/** npm writes its own list of what it installed as the last act of an installation, and removes it as the first of the next. */
async function installDependencies() {
  const needed = Object.entries(readJson('package-lock.json').packages).filter(([path]) => path !== '');
  const installed = existsSync(join(ROOT, NPMS_LIST)) ? readJson(NPMS_LIST).packages : {};
  // What was installed for another platform, as in a folder that a container shares, does not run here.
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

/** Runs a program to its end with our terminal; a failure ends the task. */
async function step(title, command, parameters, options = {}) {
  const begin = Date.now();
  console.log(`== ${title}`);
  const { code, signal } = await run(command, parameters, options);
  const seconds = ((Date.now() - begin) / 1000).toFixed(1);
  if (signal !== null)
    throw new TaskFailed(`${title}: ended by ${signal} after ${seconds} s`, 128 + constants.signals[signal]);
  if (code !== 0) throw new TaskFailed(`${title}: failed after ${seconds} s (exit code ${code})`, code);
  console.log(`== ${title}: done in ${seconds} s`);
}

function run(command, parameters, options) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, parameters, { cwd: ROOT, stdio: 'inherit', ...options });
    // Ctrl-C at a terminal reaches the child by itself. We stay until it has ended.
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
  if (work === undefined) throw new TaskFailed(`Which task? ${Object.keys(TASKS).join(', ')}`, 2);
  checkNode();
  await installDependencies();
  await work();
} catch (error) {
  if (!(error instanceof TaskFailed)) throw error;
  console.error(`== ${error.message}`);
  process.exitCode = error.exitCode;
}
