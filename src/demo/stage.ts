import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { obtainTemporalServer } from '../dev-server';
import type { TemporalServer } from '../dev-server';
import { RunbookError } from '../errors';
import { Children } from './children';
import type { Child } from './children';
import { startPayments } from './payments';
import type { Payments } from './payments';
import { demoCommand, runbookCommand } from './programs';

export interface StageOptions {
  readonly reportDirectory: string;
  /** Takes lines for people. */
  readonly say: (line: string) => void;
}

/** Everything of the demonstration but its people: server, simulated deployment, clients that write, worker. */
export interface Stage {
  readonly server: TemporalServer;
  readonly payments: Payments;
  readonly children: Children;
  readonly worker: Child;
  /** Environment for the command line and the worker. */
  readonly environment: Readonly<Record<string, string>>;
  /** Shell file that sets this environment and puts `runbook` and `simulated` on the PATH. */
  readonly environmentFile: string;
  stop(): Promise<void>;
}

const WORKER_READY_MS = 60_000;

/** Starts all of it; what was started is ended where a later part fails. */
export async function startStage({ reportDirectory, say }: StageOptions): Promise<Stage> {
  const children = new Children();
  const undo: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    await children.stopAll();
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    const server = await obtainTemporalServer({ persistence: 'memory', onProgress: say });
    undo.push(() => server.stop());
    say(`Temporal server   ${server.address}, HTTP API ${server.httpAddress}, Web UI ${server.uiAddress}`);
    const payments = await startPayments({
      reportDirectory,
      // A server that others use too must not mix its runs with ours.
      taskQueue: server.started ? 'runbooks' : `runbooks-demo-${process.pid}`,
      namespace: server.namespace,
      uiAddress: server.uiAddress,
    });
    undo.push(() => payments.stop());
    const environment = {
      ...payments.environment,
      TEMPORAL_ADDRESS: server.address,
      TEMPORAL_NAMESPACE: server.namespace,
      RUNBOOKS_TEMPORAL_UI: server.uiAddress,
      RUNBOOKS_TEMPORAL_HTTP: server.httpAddress,
    };
    const environmentFile = await writeEnvironment(payments.directory, environment, {
      runbook: runbookCommand(),
      simulated: payments.simulatedCommand,
    });
    say(
      'Simulated service east (primary), west and north (DR secondaries), europe (performance secondary), europe-dr, spare, asia',
    );
    children.start('writer', demoCommand('writer'), {
      env: {
        WRITER_ADDRESS: payments.clientsAddress,
        WRITER_TOKEN_FILE: payments.clientsTokenFile,
        WRITER_FILE: payments.clientsFiles.writer,
        WRITER_QUIESCE_FILE: payments.clientsFiles.quiesce,
      },
      onLine: (line) => say(`writer: ${line}`),
    });
    say(`Clients           write all the time through ${payments.clientsAddress}`);
    const worker = await startWorkerProcess(children, environment, say);
    say('Worker            ready, a process of its own');
    return { server, payments, children, worker, environment, environmentFile, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startWorkerProcess(
  children: Children,
  env: Readonly<Record<string, string>>,
  say: (line: string) => void,
): Promise<Child> {
  let ready: () => void = () => undefined;
  const readiness = new Promise<void>((resolve) => (ready = resolve));
  const said: string[] = [];
  const [program, ...args] = runbookCommand();
  const worker = children.start('worker', [program, ...args, 'worker'], {
    env: { ...env, RUNBOOKS_LOG_LEVEL: 'warn' },
    onLine: (line) => {
      if (line.startsWith('Worker ready')) ready();
      else {
        said.push(line);
        if (said.length > 20) said.shift();
        say(`worker: ${line}`);
      }
    },
  });
  const timer = new AbortController();
  const deadline = AbortSignal.any([timer.signal, AbortSignal.timeout(WORKER_READY_MS)]);
  const outcome = await Promise.race([
    readiness.then(() => 'ready' as const),
    worker.ended.then((code) => `it ended with ${code}`),
    new Promise<string>((resolve) =>
      deadline.addEventListener('abort', () => resolve('it took too long'), { once: true }),
    ),
  ]);
  if (outcome === 'ready') return worker;
  throw new RunbookError('INTERNAL', `The worker did not become ready: ${outcome}.`, { observed: said.join('\n') });
}

/** A shell file to source in other terminals. */
async function writeEnvironment(
  directory: string,
  environment: Readonly<Record<string, string>>,
  commands: Readonly<Record<string, readonly string[]>>,
): Promise<string> {
  const programs = join(directory, 'bin');
  await mkdir(programs, { mode: 0o700 });
  const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;
  for (const [name, words] of Object.entries(commands)) {
    await writeFile(join(programs, name), `#!/bin/sh\nexec ${words.map(quoted).join(' ')} "$@"\n`, { mode: 0o700 });
  }
  const file = join(directory, 'env.sh');
  const lines = Object.entries(environment).map(([name, value]) => `export ${name}=${quoted(value)}`);
  await writeFile(file, `${[...lines, `export PATH=${quoted(programs)}:"$PATH"`].join('\n')}\n`, { mode: 0o600 });
  return file;
}
