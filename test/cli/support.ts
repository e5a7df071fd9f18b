import type { CliContext } from '../../src/cli/context';
import type { ExitCode } from '../../src/cli/exit-codes';
import { runCli } from '../../src/cli/program';

/** What a command line gave. */
export interface CliResult {
  readonly code: ExitCode;
  readonly out: string;
  readonly err: string;
  /** Questions that were asked, hidden or not. */
  readonly questions: readonly string[];
}

/** What a person would type. */
export interface Typed {
  readonly env?: NodeJS.ProcessEnv;
  readonly input?: string;
  /** Answers to questions, in order; without one left the test fails. A function is told what was shown until then. */
  readonly answers?: readonly (string | ((shown: string) => string))[];
  readonly stop?: AbortSignal;
  /** Whether a person sits at a terminal, as if nothing is said. */
  readonly interactive?: boolean;
}

/** Runs one command line in this process, with nothing of the tester's own environment. */
export async function cli(words: readonly string[], typed: Typed = {}): Promise<CliResult> {
  const out: string[] = [];
  const err: string[] = [];
  const questions: string[] = [];
  const answers = [...(typed.answers ?? [])];
  const answer = (question: string): Promise<string> => {
    questions.push(question);
    const given = answers.shift();
    if (given === undefined) return Promise.reject(new Error(`nobody answers "${question}"`));
    return Promise.resolve(typeof given === 'string' ? given : given(err.join('\n')));
  };
  const context: CliContext = {
    env: { TEMPORAL_CONFIG_FILE: '/nonexistent', ...typed.env },
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
    interactive: typed.interactive ?? true,
    keyWorkFactor: 4,
    readInput: () => Promise.resolve(typed.input ?? ''),
    ask: answer,
    askHidden: answer,
    quietly: (work) => work(),
    stop: typed.stop ?? new AbortController().signal,
  };
  const code = await runCli(words, context);
  return { code, out: out.join('\n'), err: err.join('\n'), questions };
}
