import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { until } from './by-hand';

const PROGRAM = join(__dirname, '../../dist/src/cli/main.js');

/** The compiled program in its own process, with its own home, temporary directory, and working directory. */
export class Program {
  readonly child: ChildProcess;
  output = '';
  readonly ended: Promise<number | null>;

  constructor(
    home: string,
    environment: Readonly<Record<string, string>>,
    words: readonly string[],
    how: 'pipe' | 'terminal' = 'pipe',
    file = PROGRAM,
  ) {
    if (!existsSync(file))
      throw new Error('This test runs the compiled program. Run "npm run build" first ("npm test" does).');
    for (const folder of ['tmp', 'cwd']) mkdirSync(join(home, folder), { recursive: true });
    const command = [process.execPath, file, ...words];
    const [starter = '', ...args] =
      how === 'terminal'
        ? ['script', '-qefc', command.map((word) => `'${word}'`).join(' '), join(home, 'typescript')]
        : // Core dumps are enabled, so that they are searched after a crash too.
          ['sh', '-c', 'ulimit -c unlimited; exec "$0" "$@"', ...command];
    this.child = spawn(starter, args, {
      cwd: join(home, 'cwd'),
      env: {
        ...{ PATH: process.env['PATH'] ?? '', HOME: home, TMPDIR: join(home, 'tmp'), TERM: 'dumb' },
        // Tests may run as root.
        ...{ RUNBOOKS_ALLOW_ROOT: 'yes', ...environment },
      },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    for (const stream of [this.child.stdout, this.child.stderr])
      stream?.on('data', (chunk: Buffer) => void (this.output += chunk.toString('utf8')));
    this.ended = once(this.child, 'close').then(([code]) => code as number | null);
  }

  async says(text: string): Promise<void> {
    await until(`"${text}" in: ${this.output}`, () => this.output.includes(text) || this.child.exitCode !== null);
    expect(this.output).toContain(text);
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    this.child.kill(signal);
    await this.ended;
  }
}
