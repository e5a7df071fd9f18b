import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const PROGRAM = join(__dirname, '../../dist/src/cli/main.js');

/** A worker in a process of its own, whose output is kept. It runs the program of the build. */
export class WorkerProcess {
  readonly #child: ChildProcess;
  output = '';

  constructor(environment: Readonly<Record<string, string>>) {
    if (!existsSync(PROGRAM))
      throw new Error('This test runs the program of the build. Build it first: npm run build (npm test does).');
    this.#child = spawn(process.execPath, [PROGRAM, 'worker'], {
      env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on('data', (chunk: Buffer) => void (this.output += chunk.toString('utf8')));
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill(signal);
    await ended;
  }
}
