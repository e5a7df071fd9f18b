/**
 * Applies the mutations in test/mutations.txt to a copy of this checkout, one at a time, and runs the test that must
 * fail with each. If no test notices a mutation, that safety check could be lost unnoticed.
 *
 *   node scripts/mutations.mjs [part of a name]
 */
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const NOT_COPIED = ['.git', 'node_modules', 'dist', 'coverage', 'reports'];
const chosen = readMutations().filter(({ name }) => name.includes(process.argv[2] ?? ''));
const running = new Set();
let stopped;

/** The entries of test/mutations.txt; the head of that file describes the format. */
function readMutations() {
  const [, ...files] = readFileSync(join(ROOT, 'test', 'mutations.txt'), 'utf8').split(/^=== /m);
  return files.flatMap((part) => {
    const [file, ...entries] = part.trim().split('\n\n');
    return entries.map((entry) => {
      const [name, ...lines] = entry.split('\n');
      const marked = (mark) =>
        lines.flatMap((line) => (line.startsWith(mark) ? line.slice(mark.length) : [])).join('\n');
      const [test, named] = marked('> ').split(/: (.*)/);
      return { name, file, text: marked('- '), replacement: marked('+ '), test, named };
    });
  });
}

/** Why an entry does not match the code; undefined if it does. */
function outdated({ file, text }) {
  const found = readFileSync(join(ROOT, file), 'utf8').split(text).length - 1;
  return found === 1 ? undefined : `its text occurs ${found} times in ${file}, not once`;
}

function copyOfCheckout(parent, number) {
  const copy = join(parent, `${number}`);
  const filter = (path) => !NOT_COPIED.includes(relative(ROOT, path).split(sep)[0]);
  cpSync(ROOT, copy, { recursive: true, filter });
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'), 'junction');
  return copy;
}

/** Runs tests in a copy and returns Jest's counts. */
async function runTests(copy, mutations) {
  const files = new Set(mutations.map(({ test }) => test));
  const names = mutations
    .flatMap(({ named }) => named ?? [])
    .map((name) => name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  const results = join(copy, 'mutation-results.json');
  rmSync(results, { force: true });
  const output = await new Promise((resolve, reject) => {
    const child = spawn(
      process.execPath,
      [
        ...[join('node_modules', 'jest', 'bin', 'jest.js'), '--runInBand', '--json', `--outputFile=${results}`],
        ...['--cacheDirectory', join(copy, '.jest-cache'), '--runTestsByPath', ...files],
        ...(names.length === 0 ? [] : ['--testNamePattern', names.join('|')]),
      ],
      { cwd: copy, stdio: ['ignore', 'ignore', 'pipe'] },
    );
    running.add(child);
    let text = '';
    child.stderr.on('data', (chunk) => (text += chunk));
    child.once('error', reject);
    child.once('close', () => {
      running.delete(child);
      resolve(text);
    });
  });
  if (stopped !== undefined) throw new Error(`stopped by ${stopped}`);
  try {
    return { ...JSON.parse(readFileSync(results, 'utf8')), output };
  } catch {
    throw new Error(`Jest wrote no results:\n${output}`);
  }
}

/** @returns what is wrong with the mutation or its test; undefined if the test failed, as it must. */
async function survives(copy, mutation) {
  const path = join(copy, mutation.file);
  const source = readFileSync(path, 'utf8');
  try {
    writeFileSync(
      path,
      source.replace(mutation.text, () => mutation.replacement),
    );
    const { numFailedTests, numPassedTests, numRuntimeErrorTestSuites, output } = await runTests(copy, [mutation]);
    if (numRuntimeErrorTestSuites > 0) return `the mutated code does not run:\n${output}`;
    if (numFailedTests > 0) return undefined;
    return numPassedTests > 0 ? `${mutation.test} passes all the same` : `no test is named "${mutation.named}"`;
  } finally {
    writeFileSync(path, source);
  }
}

/** Checks that the tests pass without mutations; a test that fails anyway proves nothing. */
async function demandGreen(copies) {
  const files = [...new Set(chosen.map(({ test }) => test))];
  const check = async (copy, mutations) => {
    if (mutations.length === 0) return;
    const { success, output } = await runTests(copy, mutations);
    if (!success) throw new Error(`The tests fail even without a mutation:\n${output}`);
  };
  await Promise.all(
    copies.map(async (copy, number) => {
      const mine = chosen.filter(({ test }) => files.indexOf(test) % copies.length === number);
      const whole = mine.filter(({ named }) => named === undefined);
      const byName = mine.filter(({ named }) => named !== undefined);
      await check(copy, whole);
      await check(copy, byName);
    }),
  );
}

async function main(directory) {
  if (chosen.length === 0) throw new Error(`No mutation name contains "${process.argv[2]}".`);
  const wrong = chosen.flatMap((mutation) => {
    const why = outdated(mutation);
    return why === undefined ? [] : [`${mutation.name}: ${why}`];
  });
  if (wrong.length > 0) throw new Error(`test/mutations.txt is out of date:\n${wrong.join('\n')}`);
  const copies = Array.from({ length: Math.min(availableParallelism(), chosen.length) }, (_, number) =>
    copyOfCheckout(directory, number),
  );
  await demandGreen(copies);
  const waiting = [...chosen];
  let survivors = 0;
  await Promise.all(
    copies.map(async (copy) => {
      for (let mutation = waiting.shift(); mutation !== undefined; mutation = waiting.shift()) {
        const why = await survives(copy, mutation);
        if (why !== undefined) survivors += 1;
        console.log(
          `${why === undefined ? 'caught  ' : 'SURVIVED'}  ${mutation.name}${why === undefined ? '' : `: ${why}`}`,
        );
      }
    }),
  );
  console.log(`${chosen.length - survivors} of ${chosen.length} mutations caught`);
  if (survivors > 0) process.exitCode = 1;
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => {
    stopped = signal;
    for (const child of running) child.kill(signal);
  });
const directory = realpathSync(mkdtempSync(join(tmpdir(), 'runbooks-mutations-')));
try {
  await main(directory);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  for (const child of running) child.kill();
  rmSync(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}
