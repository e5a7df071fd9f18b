import { join } from 'node:path';
import { startProcess } from '../dev-server/child-process';
import type { OwnProcess } from '../dev-server/child-process';
import { projectRoot } from '../dev-server/locations';
import { RunbookError } from '../errors';

/** How one of our programs is started as a process of its own: compiled as `.js`, or from its source. */
function programCommand(modulePath: string): readonly [string, ...string[]] {
  if (__filename.endsWith('.js')) return [process.execPath, `${modulePath}.js`];
  return [process.execPath, '-r', join(projectRoot(), 'scripts', 'register-typescript.cjs'), `${modulePath}.ts`];
}

/** The command line program. */
export function runbookCommand(): readonly [string, ...string[]] {
  return programCommand(join(__dirname, '..', 'cli', 'main'));
}

/** The program with which people end and restart simulated clusters. */
export function simulatedCommand(): readonly [string, ...string[]] {
  return programCommand(join(__dirname, 'simulated'));
}

/** Memory is given back early, as in the systemd unit: without these a worker takes twice as much, and not less time. */
const SMALL_MEMORY = ['--max-semi-space-size=4', '--max-old-space-size=1024'];

const WORKER_READY_MS = 60_000;

/**
 * Starts a worker as a process of its own; resolves when it is ready to poll.
 *
 * @param say takes each further line that it writes.
 * @throws RunbookError `INTERNAL` where it ends, or takes too long.
 */
export async function startWorkerProcess(
  env: Readonly<Record<string, string>>,
  say: (line: string) => void,
): Promise<OwnProcess> {
  let ready: (answer: string) => void = () => undefined;
  const answered = new Promise<string>((resolve) => (ready = resolve));
  const output: string[] = [];
  const [node, ...program] = runbookCommand();
  const environment = { ...process.env, MALLOC_ARENA_MAX: '2', ...env };
  const worker = startProcess([node, ...SMALL_MEMORY, ...program, 'worker'], environment, (line) => {
    if (line.startsWith('Worker ready')) return ready('ready');
    output.push(line);
    say(line);
  });
  const timer = setTimeout(() => ready('it took too long'), WORKER_READY_MS);
  const outcome = await Promise.race([answered, worker.ended.then((code) => `it ended with ${code}`)]);
  clearTimeout(timer);
  if (outcome === 'ready') return worker;
  await worker.stop();
  throw new RunbookError('INTERNAL', `The worker did not become ready: ${outcome}.`, { observed: output.join('\n') });
}
