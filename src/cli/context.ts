import { createInterface } from 'node:readline';
import { text as readAll } from 'node:stream/consumers';
import type { Readable } from 'node:stream';
import { RunbookError } from '../errors';

/** What a command may touch outside of itself. Tests give their own. */
export interface CliContext {
  readonly env: NodeJS.ProcessEnv;
  /** Results, to standard output, one line. */
  readonly out: (line: string) => void;
  /** Messages for people, to standard error, one line. */
  readonly err: (line: string) => void;
  /** How wide the terminals are to which results and messages go; undefined where one goes to none. */
  columns?(): { readonly out: number | undefined; readonly err: number | undefined };
  /** Whether results and messages go to terminals that show colours. */
  colours?(): { readonly out: boolean; readonly err: boolean };
  /** Whether a person can be asked. */
  readonly interactive: boolean;
  /** Everything on standard input. */
  readInput(): Promise<string>;
  /** Asks for one line, shown while it is typed. */
  ask(question: string): Promise<string>;
  /** Asks for one line that is not shown. */
  askHidden(question: string): Promise<string>;
  /** What is typed while `work` goes on is not shown: it may be the answer to the hidden question that comes next. */
  quietly<T>(work: () => Promise<T>): Promise<T>;
  /** Cost of opening new key files, as base-2 logarithm; given by tests only. */
  readonly keyWorkFactor?: number;
  /** Aborted when the person ends the command (Ctrl-C). */
  readonly stop: AbortSignal;
}

/** The context of a command that runs as a program of its own. */
export function processContext(stop: AbortSignal): CliContext {
  const { stdin, stdout, stderr, env } = process;
  const interactive = stdin.isTTY && stderr.isTTY;
  const needPerson = (what: string): void => {
    if (interactive) return;
    throw new RunbookError('INVALID_INPUT', `${what} cannot be asked for: there is no terminal.`, {
      next: 'Run the command in a terminal, or give the value by the option that its help names.',
    });
  };
  const quietly = async <T>(work: () => Promise<T>): Promise<T> => {
    if (!interactive) return work();
    stdin.setRawMode(true);
    try {
      return await work();
    } finally {
      stdin.setRawMode(false);
    }
  };
  return {
    env,
    interactive,
    stop,
    out: (line) => void stdout.write(`${line}\n`),
    err: (line) => void stderr.write(`${line}\n`),
    columns: () => ({ out: stdout.isTTY ? stdout.columns : undefined, err: stderr.isTTY ? stderr.columns : undefined }),
    colours: () => {
      const wanted = !env['NO_COLOR'] && env['TERM'] !== 'dumb';
      return { out: wanted && stdout.isTTY, err: wanted && stderr.isTTY };
    },
    readInput: () => readStream(stdin),
    ask: async (question) => {
      needPerson(question);
      // A hidden question may follow, and a person who types ahead does not wait for it to load.
      const next = loadPassword();
      try {
        return await new Promise<string>((resolve, reject) => {
          const reader = createInterface({ input: stdin, output: stderr, signal: stop });
          reader.once('line', (line) => {
            resolve(line.trim());
            // What came in with this line is dropped: this reader would show it.
            reader.close();
            stdin.setRawMode(true);
          });
          reader.once('close', () => void reject(ended()));
          reader.setPrompt(`${question}: `);
          reader.prompt();
        });
      } finally {
        await next.catch(() => undefined);
        stdin.setRawMode(false);
      }
    },
    askHidden: async (question) => {
      needPerson(question);
      return quietly(async () => {
        const { default: password } = await loadPassword();
        if (stop.aborted) throw ended();
        const message = `${question} (not shown)`;
        return (await password({ message, mask: false }, { output: stderr, signal: stop }).catch(endedByPerson)).trim();
      });
    },
    quietly,
  };
}

/** Loaded on demand: most commands ask nothing. */
function loadPassword() {
  return import('@inquirer/password');
}

/** By their names: Ctrl-C and an aborted signal give errors of three packages. */
const ENDED: ReadonlySet<unknown> = new Set(['AbortError', 'ExitPromptError', 'AbortPromptError']);

function endedByPerson(error: unknown): never {
  throw error instanceof Error && ENDED.has(error.name) ? ended() : error;
}

function ended(): RunbookError {
  return new RunbookError('REQUEST_CANCELLED', 'You ended the command at its question. Nothing was done after it.');
}

const LONGEST_INPUT = 1024 * 1024;

async function readStream(stream: Readable): Promise<string> {
  const content = await readAll(stream);
  if (content.length > LONGEST_INPUT) throw new RunbookError('INVALID_INPUT', 'Standard input is larger than 1 MiB.');
  return content;
}
