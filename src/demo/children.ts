import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { endWithThisProcess } from '../dev-server/process-guard';

/** How a child process is started. */
interface ChildOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Takes each line that it writes, and on which stream. */
  readonly onLine?: (line: string, stream: 'out' | 'err') => void;
}

/** A process that this program started. */
export interface Child {
  readonly name: string;
  /** Absent where it could not be started. */
  readonly pid: number | undefined;
  /** Resolves when it has ended, with its exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  stop(): Promise<void>;
}

const STOP_GRACE_MS = 35_000;

/** The processes of one program; {@link stopAll} ends each by its own process ID. */
export class Children {
  readonly #children: Child[] = [];

  /** Starts a process. It ends with this one at the latest, however this one ends. */
  start(name: string, [program, ...args]: readonly [string, ...string[]], options: ChildOptions = {}): Child {
    const child = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...options.env },
      // Its own process group: Ctrl-C at the terminal reaches this program alone, which then ends them in order.
      detached: true,
    });
    endWithThisProcess(child);
    const ended = endOf(child);
    for (const [stream, kind] of [
      [child.stdout, 'out'],
      [child.stderr, 'err'],
    ] as const) {
      createInterface({ input: stream }).on('line', (line) => {
        if (line !== '') options.onLine?.(line, kind);
      });
    }
    const started = { name, pid: child.pid, ended, stop: () => endProcess(child) };
    this.#children.push(started);
    return started;
  }

  /** Ends the process of this name. */
  async stop(name: string): Promise<void> {
    await this.#children.find((child) => child.name === name)?.stop();
  }

  /** Ends all of them, the last one started first. */
  async stopAll(): Promise<void> {
    for (const child of this.#children.splice(0).reverse()) await child.stop();
  }
}

function endOf(child: ChildProcess): Promise<number | string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    // `close` comes after the last line of output, `exit` may come before it.
    child.once('close', (code, signal) => resolve(code ?? signal ?? 'unknown'));
  });
}

async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const killer = setTimeout(() => child.kill('SIGKILL'), STOP_GRACE_MS);
  await gone;
  clearTimeout(killer);
}
