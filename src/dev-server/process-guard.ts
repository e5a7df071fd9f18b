import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { Socket } from 'node:net';

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
