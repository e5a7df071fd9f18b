import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer, Socket } from 'node:net';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';

const STOP_GRACE_MS = 35_000;

/** A child process. It never outlives this process, however this process ends. */
export interface OwnProcess {
  /** Undefined if the process could not be started. */
  readonly pid: number | undefined;
  /** Resolves after the last line of output: with the exit code, the signal that ended it, or why it did not start. */
  readonly ended: Promise<number | string>;
  /** Lets this process exit while the child is still running. */
  unref(): void;
  /** Ends exactly this child and waits until it is gone. Can be called more than once. */
  stop(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

/** Receives each line that a process writes, and the stream that it was written to. */
export type OnLine = (line: string, stream: 'out' | 'err') => void;

/** Starts a program in its own process group. */
export function startProcess(
  [program, ...parameters]: readonly [string, ...string[]],
  env: NodeJS.ProcessEnv,
  onLine: OnLine,
): OwnProcess {
  const child = spawn(program, parameters, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env,
    // Its own process group: Ctrl-C at the terminal reaches only this program, which then ends its children in order.
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
    // `close` is emitted after the last line of output; `exit` may be emitted before it.
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
 * Ends `child` when this process ends, for whatever reason: normal exit, an exception, or a signal, even SIGKILL. A
 * shell waits on a pipe whose other end only this process holds. When the pipe closes, the shell ends exactly that
 * child. This needs no signal handlers, which would change how the rest of the program reacts to Ctrl-C. On Windows,
 * which has no `/bin/sh`, only an orderly exit ends the child.
 */
export function endWithThisProcess(child: ChildProcess): void {
  // A program that did not start never emits `exit`.
  if (child.pid === undefined) return;
  const onExit = (): void => void child.kill('SIGTERM');
  process.once('exit', onExit);
  const watchdog = process.platform === 'win32' ? undefined : startWatchdog(child.pid);
  child.once('exit', () => {
    process.removeListener('exit', onExit);
    // The PID may soon be reused: the watchdog must be gone before it can signal another process.
    watchdog?.kill('SIGKILL');
  });
}

function startWatchdog(pid: number): ChildProcess {
  const watchdog = spawn('/bin/sh', ['-c', 'read -r _; kill "$0"', String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // Its own session, so that Ctrl-C at the terminal does not end it too early.
    detached: true,
  });
  watchdog.on('error', () => undefined);
  watchdog.unref();
  watchdog.stdin.on('error', () => undefined);
  if (watchdog.stdin instanceof Socket) watchdog.stdin.unref();
  return watchdog;
}

/**
 * Returns `count` different TCP ports that are free on loopback now. Another process may take one before the caller
 * does: the caller must detect this and ask again.
 */
export async function freePorts(count: number): Promise<number[]> {
  // All of them stay open until the end; otherwise the system could return the same port twice.
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  try {
    await Promise.all(servers.map((server) => once(server, 'listening')));
    return servers.map((server) => (server.address() as AddressInfo).port);
  } finally {
    await Promise.all(servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))));
  }
}
