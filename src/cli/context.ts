import { createInterface } from 'node:readline';
import { text as readAll } from 'node:stream/consumers';
import { RunbookError } from '../errors';

/** Everything outside of itself that a command may use. Tests provide their own. */
export interface CliContext {
  readonly env: NodeJS.ProcessEnv;
  /** Writes one line of a result to standard output. */
  readonly out: (line: string) => void;
  /** Writes one line of a message for people to standard error. */
  readonly err: (line: string) => void;
  /** The widths of the terminals that show results and messages; undefined for one that goes to no terminal. */
  columns?(): { readonly out: number | undefined; readonly err: number | undefined };
  /** Whether results and messages go to terminals that show colors. */
  colors?(): { readonly out: boolean; readonly err: boolean };
  /** Whether a person can answer prompts. */
  readonly interactive: boolean;
  /** Reads all of standard input. */
  readInput(): Promise<string>;
  /** Prompts for one line, which is shown while it is typed. */
  ask(question: string): Promise<string>;
  /** Prompts for one line, which is not shown. */
  askHidden(question: string): Promise<string>;
  /** Hides what is typed during `work`: it may be the answer to the hidden prompt that comes next. */
  quietly<T>(work: () => Promise<T>): Promise<T>;
  /** Work factor of new key files, as a base-2 logarithm; only tests set it. */
  readonly keyWorkFactor?: number;
  /** Aborts when the person ends the command (Ctrl-C). */
  readonly stop: AbortSignal;
}

/** The context of a command that runs as its own process. */
export function processContext(stop: AbortSignal): CliContext {
  const { stdin, stdout, stderr, env } = process;
  const interactive = stdin.isTTY && stderr.isTTY;
  const needPerson = (what: string): void => {
    if (interactive) return;
    throw new RunbookError('INVALID_INPUT', `Cannot ask for input ("${what}"): there is no terminal.`, {
      next: 'Run the command in a terminal, or pass the value with the option that --help shows.',
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
    colors: () => {
      const wanted = !env['NO_COLOR'] && env['TERM'] !== 'dumb';
      return { out: wanted && stdout.isTTY, err: wanted && stderr.isTTY };
    },
    readInput: async () => {
      const content = await readAll(stdin);
      if (content.length <= LONGEST_INPUT) return content;
      throw new RunbookError('INVALID_INPUT', 'Standard input is larger than 1 MiB.');
    },
    ask: async (question) => {
      needPerson(question);
      // A hidden prompt may follow, and a person who types ahead does not wait for its package to load.
      const next = loadPassword();
      try {
        return await new Promise<string>((resolve, reject) => {
          const reader = createInterface({ input: stdin, output: stderr, signal: stop });
          reader.once('line', (line) => {
            resolve(line.trim());
            // Input that arrived with this line is dropped: this reader would show it.
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

/** Loaded on demand: most commands never prompt. */
function loadPassword() {
  return import('@inquirer/password');
}

/** Identified by name: Ctrl-C and an aborted signal cause errors from three packages. */
const ENDED: ReadonlySet<unknown> = new Set(['AbortError', 'ExitPromptError', 'AbortPromptError']);

function endedByPerson(error: unknown): never {
  throw error instanceof Error && ENDED.has(error.name) ? ended() : error;
}

function ended(): RunbookError {
  return new RunbookError('REQUEST_CANCELLED', 'You ended the command at a prompt. Nothing was done after that.');
}

const LONGEST_INPUT = 1024 * 1024;
