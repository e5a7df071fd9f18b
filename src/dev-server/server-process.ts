import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { withoutTemporalVariables } from './executable';
import { endWithThisProcess } from './process-guard';

const KEPT_OUTPUT_LINES = 40;
const END_GRACE_MS = 10_000;

/** A started server process. It ends with this process at the latest. */
interface ServerProcess {
  readonly pid: number | undefined;
  /** The last lines that it wrote, to its standard output and its standard error. */
  readonly output: readonly string[];
  /** Whether it wrote `text` to its standard output; errors go to the other one. */
  announced(text: string): boolean;
  /** How it ended, once it has. */
  ended(): string | undefined;
  /** Resolves at its next line of output, or at its end. */
  changed(): Promise<void>;
  /** Lets this process end although the server still runs. */
  unref(): void;
  /** Ends exactly this process and waits until it is gone. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

/** Starts `path` with `parameters`; `log` takes each line that it writes until it is told to end. */
export function startServerProcess(
  path: string,
  parameters: readonly string[],
  log: ((line: string) => void) | undefined,
): ServerProcess {
  const child = spawn(path, parameters, {
    stdio: ['ignore', 'pipe', 'pipe'],
    // Its own process group: Ctrl-C at the terminal reaches us alone, and workers can finish while the server lives.
    detached: true,
    // A soft limit: without one the server's memory grows with each run that it has seen.
    env: { GOMEMLIMIT: '384MiB', ...withoutTemporalVariables() },
  });
  endWithThisProcess(child);

  const output: string[] = [];
  const announcements: string[] = [];
  let ended: string | undefined;
  let ending = false;
  let notify: () => void = () => undefined;
  const onLine = (line: string): void => {
    // What a server writes while it ends is about its own parts missing each other.
    if (line === '' || ending) return;
    keepLast(output, line);
    log?.(line);
    notify();
  };
  const onEnd = (how: string): void => {
    ended ??= how;
    notify();
  };
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      if (stream === child.stdout) keepLast(announcements, line);
      onLine(line);
    });
    if (stream instanceof Socket) stream.unref();
  }
  child.once('error', (error) => onEnd(error.message));
  // `close` comes after the last line of output, `exit` may come before it.
  child.once('close', (code, signal) => onEnd(`it ended with ${signal ?? `exit code ${code}`}`));

  return {
    pid: child.pid,
    output,
    announced: (text) => announcements.some((line) => line.includes(text)),
    ended: () => ended,
    changed: () => new Promise((resolve) => (notify = resolve)),
    unref: () => child.unref(),
    end: (signal) => {
      ending = true;
      return endProcess(child, signal);
    },
  };
}

async function endProcess(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  child.ref();
  const gone = once(child, 'exit');
  child.kill(signal);
  const killer = setTimeout(() => child.kill('SIGKILL'), END_GRACE_MS);
  await gone;
  clearTimeout(killer);
}

function keepLast(lines: string[], line: string): void {
  lines.push(line);
  if (lines.length > KEPT_OUTPUT_LINES) lines.shift();
}
