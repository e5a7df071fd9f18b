import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CliContext } from '../../src/cli/context';
import type { ExitCode } from '../../src/cli/errors';
import { runCli } from '../../src/cli/program';
import type { RunView } from '../../src/cli/run';
import type { RunStatus } from '../../src/contracts/run-status';
import { addPin, createHolderKey, createInvitation, formatPublicKey, KeyRecords, newSigningKey } from '../../src/keys';
import type { CreatedInvitation, InvitationFacts, PersonFacts } from '../../src/keys';
import { Secret } from '../../src/secret';
import { invitationFacts, lookup, RUN } from '../keys/builders';

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
  /** How wide both terminals are; without a width nothing is wrapped. */
  readonly columns?: number;
  /** Both terminals show colors. */
  readonly colors?: boolean;
  /** Is told each line for people as it comes. */
  readonly hear?: (line: string) => void;
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
    env: typed.env ?? {},
    out: (line) => void out.push(line),
    err: (line) => {
      err.push(line);
      typed.hear?.(line);
    },
    colors: () => ({ out: typed.colors === true, err: typed.colors === true }),
    ...(typed.columns && { columns: () => ({ out: typed.columns, err: typed.columns }) }),
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

/** As if somebody sat at a terminal. `modes`: every change of raw mode; `shown`: everything that was written to it. */
export async function atTerminal(
  work: (modes: readonly boolean[], shown: () => string) => Promise<void>,
): Promise<void> {
  const modes: boolean[] = [];
  const written: string[] = [];
  const { stdin, stderr } = process;
  const write = (text: unknown): boolean => written.push(String(text)) > 0;
  const faked = [
    [stdin, 'isTTY', true],
    [stderr, 'isTTY', true],
    [stdin, 'setRawMode', (mode: boolean) => void modes.push(mode)],
    [stdin, 'resume', () => stdin],
    [stderr, 'write', write],
  ] as const;
  const before = faked.map(([stream, name]) => Object.getOwnPropertyDescriptor(stream, name));
  for (const [stream, name, value] of faked) Object.defineProperty(stream, name, { value, configurable: true });
  try {
    await work(modes, () => written.join(''));
  } finally {
    faked.forEach(([stream, name], index) => {
      const descriptor = before[index];
      if (descriptor === undefined) Reflect.deleteProperty(stream, name);
      else Object.defineProperty(stream, name, descriptor);
    });
  }
}

/** A deployment's workers, as far as a holder's tool meets them: their keys, invitations in files, a file of pins. */
export class HolderBench {
  readonly workersKey = newSigningKey().key;
  private constructor(
    readonly directory: string,
    readonly records: KeyRecords,
  ) {}

  static async open(): Promise<HolderBench> {
    const directory = await mkdtemp(join(tmpdir(), 'holder-'));
    const bench = new HolderBench(
      directory,
      await KeyRecords.open({ directory: join(directory, 'keys'), storage: 'disk' }),
    );
    await addPin(bench.pins, 'production', formatPublicKey(bench.workersKey));
    return bench;
  }

  close = () => rm(this.directory, { recursive: true });

  path(name: string): string {
    return join(this.directory, name);
  }

  get pins(): string {
    return this.path('pins.json');
  }

  /** Writes a file, and gives its path. */
  async file(name: string, content: string, mode = 0o600): Promise<string> {
    await writeFile(this.path(name), content, { mode });
    return this.path(name);
  }

  invite(changes: Partial<InvitationFacts> = {}, key = this.workersKey, now?: number): Promise<CreatedInvitation> {
    return createInvitation(
      this.records,
      key,
      RUN,
      'ceremony',
      invitationFacts({ holders: ['ada', 'bert'], threshold: 2, ...changes }),
      now,
    );
  }

  /** A new key of a holder: its file, and the person whom the inventory lists with it. */
  async holderKey(passphrase: string): Promise<{ readonly file: string; readonly person: PersonFacts }> {
    const { key, file } = await createHolderKey(new Secret('passphrase', passphrase), 2);
    const person = { name: 'ada', attestation: 'signed', publicKeys: [key] } as const;
    return { file: await this.file(`${key.kid}.key`, file), person };
  }

  /** `runbook share`, or `provide-token`, from an invitation in a file; prints what it would send. */
  give(
    file: string,
    words: readonly string[] = [],
    typed: Typed = {},
    command: 'share' | 'provide-token' = 'share',
    workflowId = RUN.wid,
  ): Promise<CliResult> {
    const from = ['--holder', 'ada', '--invitation-file', file, '--print'];
    const env = { RUNBOOKS_PINS: this.pins, ...typed.env };
    return cli([command, workflowId, ...from, ...words], { ...typed, env });
  }
}

/** Ada without a key. */
export const claimedAda = lookup({ name: 'ada', attestation: 'claimed', publicKeys: [] });

/** A run at its beginning, as it says itself, and as a command sees it without a worker. */
export const BEGUN: RunStatus = {
  ...{ namespace: 'default', runbook: 'drSwitchover', deployment: 'payments' },
  ...{ workflowId: 'deployment:payments', runId: 'r' },
  ...{ phase: 'checking', paused: false, waiting: [], steps: [], receipts: [], findings: [] },
};
export const VIEW: RunView = {
  ...{
    namespace: 'default',
    workflowId: BEGUN.workflowId,
    runId: 'r',
    runbook: 'drSwitchover',
    taskQueue: 'q',
    state: 'running',
  },
  ...{ asOfEvent: 42, startedAt: '2026-11-21T10:00:00Z', pendingActivities: [] },
  ...{ closedAt: undefined, memo: undefined, pollers: undefined, status: undefined, signals: undefined },
};
