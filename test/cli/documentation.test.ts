import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SUMMARIES } from '../../src/cli/command-table';
import { EXIT } from '../../src/cli/errors';
import { buildProgram } from '../../src/cli/program';
import type { CliContext } from '../../src/cli/context';

const text = readFileSync(join(__dirname, '..', '..', 'docs', 'cli.md'), 'utf8');

const context: CliContext = {
  env: {},
  interactive: false,
  out: () => undefined,
  err: () => undefined,
  readInput: () => Promise.resolve(''),
  ask: () => Promise.reject(new Error('nobody asks')),
  askHidden: () => Promise.reject(new Error('nobody asks')),
  quietly: (work) => work(),
  stop: new AbortController().signal,
};

describe('docs/cli.md', () => {
  it('names every command and sub-command', () => {
    const program = buildProgram({ context, finish: () => undefined });
    const names = program.commands.flatMap((command) =>
      command.commands.length === 0
        ? [command.name()]
        : command.commands.map((sub) => `${command.name()} ${sub.name()}`),
    );
    expect(new Set(program.commands.map((command) => command.name()))).toEqual(new Set(Object.keys(SUMMARIES)));
    for (const name of names) expect(text).toContain(`\`${name}`);
    // The help says this without loading the commands.
    expect(SUMMARIES).toEqual(Object.fromEntries(program.commands.map((each) => [each.name(), each.description()])));
  });

  it('names every exit code', () => {
    for (const code of Object.values(EXIT)) expect(text).toContain(`\n| ${code} | `);
  });

  it('names every variable that the worker and the command line read', () => {
    const sources = ['worker/settings.ts', 'cli/run.ts', 'cli/invitation.ts'].map((file) =>
      readFileSync(join(__dirname, '..', '..', 'src', file), 'utf8'),
    );
    const variables = new Set(sources.join('\n').match(/RUNBOOKS_[A-Z_]+/g));
    expect(variables.size).toBeGreaterThan(8);
    for (const variable of variables) expect(text).toContain(`| \`${variable}\` |`);
  });
});
