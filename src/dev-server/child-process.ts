import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer, Socket } from 'node:net';
import type { AddressInfo, Server } from 'node:net';
import { createInterface } from 'node:readline';

const STOP_GRACE_MS = 35_000;

/** A process that this program started. It ends with this one at the latest, however this one ends. */
export interface OwnProcess {
  /** Absent where it could not be started. */
  readonly pid: number | undefined;
  /** Resolves after its last line of output, with its exit code, the signal that ended it, or why it did not start. */
  readonly ended: Promise<number | string>;
  /** Lets this process end although the other one still runs. */
  unref(): void;
  /** Ends exactly this process and waits until it is gone. May be called again. */
  stop(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

/** Takes each line that a process writes, and the stream on which it came. */
export type OnLine = (line: string, stream: 'out' | 'err') => void;

/** Starts a program in a process group of its own. */
export function startProcess(
  [program, ...parameters]: readonly [string, ...string[]],
  env: NodeJS.ProcessEnv,
  onLine: OnLine,
): OwnProcess {
  const child = spawn(program, parameters, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env,
    // Its own process group: Ctrl-C at the terminal reaches this program alone, which then ends the others in order.
    detached: true,
  });
  endWithThisProcess(child);
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      if (line !== '') onLine(line, stream === child.stdout ? 'out' : 'err');
    });
    if (stream instanceof Socket) stream.unref();
  }
  const ended = new Promise<number | string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    // `close` comes after the last line of output, `exit` may come before it.
    child.once('close', (code, signal) => resolve(code ?? signal ?? 'unknown'));
  });
  return { pid: child.pid, ended, unref: () => child.unref(), stop: (signal = 'SIGTERM') => stop(child, signal) };
}

async function stop(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  child.ref();
  const gone = once(child, 'exit');
  child.kill(signal);
  const killer = setTimeout(() => child.kill('SIGKILL'), STOP_GRACE_MS);
  await gone;
  clearTimeout(killer);
}

/**
 * Ends `child` when this process ends, however that happens: by itself, by an exception, by a signal, even by SIGKILL.
 * A shell waits on a pipe whose other end only this process holds; when the pipe closes it ends exactly that child.
 * So no signal handlers are needed, which would change how the rest of the program answers Ctrl-C.
 * Where there is no `/bin/sh`, only an orderly exit ends the child.
 */
export function endWithThisProcess(child: ChildProcess): void {
  const onExit = (): void => void child.kill('SIGTERM');
  process.once('exit', onExit);
  const watchdog = child.pid === undefined || process.platform === 'win32' ? undefined : startWatchdog(child.pid);
  child.once('exit', () => {
    process.removeListener('exit', onExit);
    // The process ID may soon belong to another process: the watchdog must be gone before this process is.
    watchdog?.kill('SIGKILL');
  });
}

function startWatchdog(pid: number): ChildProcess {
  const watchdog = spawn('/bin/sh', ['-c', 'read -r _; kill "$0"', String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // Its own session, so that Ctrl-C at the terminal does not end it before it has done its work.
    detached: true,
  });
  watchdog.on('error', () => undefined);
  watchdog.unref();
  watchdog.stdin.on('error', () => undefined);
  if (watchdog.stdin instanceof Socket) watchdog.stdin.unref();
  return watchdog;
}

/**
 * `count` different TCP ports that are free on loopback at this moment. Another process may take one before the caller
 * does: the caller has to notice and ask again.
 */
export async function freePorts(count: number): Promise<number[]> {
  const servers: Server[] = [];
  try {
    // All are held open together, or the system could give the same port twice.
    for (let index = 0; index < count; index += 1) servers.push(await listenOnLoopback());
    return servers.map((server) => (server.address() as AddressInfo).port);
  } finally {
    await Promise.all(servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))));
  }
}

function listenOnLoopback(): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => resolve(server));
  });
}
