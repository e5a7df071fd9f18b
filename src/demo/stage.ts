import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { obtainTemporalServer } from '../dev-server/start-dev-server';
import { startProcess } from '../dev-server/child-process';
import type { OnLine, OwnProcess } from '../dev-server/child-process';
import { PLAIN, startPayments } from './payments';
import { runbookCommand, startWorkerProcess } from './programs';

interface StageOptions {
  readonly reportDirectory: string;
  /** A site without hooks and static tokens. */
  readonly plain?: boolean;
  /** Takes lines for people. */
  readonly say: (line: string) => void;
}

/** Starts all of it; what was started is ended where a later part fails. */
export async function startStage({ reportDirectory, plain = false, say }: StageOptions) {
  const undo: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  const owned = (started: OwnProcess): OwnProcess => {
    undo.push(() => started.stop());
    return started;
  };
  try {
    const server = await obtainTemporalServer({ onProgress: say });
    undo.push(() => server.stop());
    say(`Temporal server   ${server.address}, HTTP API ${server.httpAddress}, Web UI ${server.uiAddress}`);
    const payments = await startPayments({
      ...{ reportDirectory, site: plain ? PLAIN : undefined },
      // A server that others use too must not mix its runs with ours.
      taskQueue: server.pid !== undefined ? 'runbooks' : `runbooks-demo-${process.pid}`,
      namespace: server.namespace,
      uiAddress: server.uiAddress,
    });
    undo.push(() => payments.stop());
    const environment: Readonly<Record<string, string>> = {
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
      plain
        ? 'Simulated service east (primary, writes canaries), west (DR secondary, unseals itself); key-value version 2, no hooks'
        : 'Simulated service east (primary), west and north (DR secondaries), europe (performance secondary), europe-dr',
    );
    payments.clients.startWriting();
    say(
      plain
        ? 'Clients           write all the time, to whichever address takes it'
        : `Clients           write all the time; their hooks are at ${payments.clientsAddress}`,
    );
    if (plain)
      say(
        'Workers           log in by the AppRole that runbook init makes, with the policy that runbook policy prints',
      );
    const workerEnvironment = { ...environment, RUNBOOKS_LOG_LEVEL: 'warn' };
    const worker = owned(await startWorkerProcess(workerEnvironment, (line) => say(`worker: ${line}`)));
    say('Worker            ready, a process of its own');
    /** Runs `runbook` with this environment; it ends with the stage. */
    const runbook = (words: readonly string[], onLine: OnLine) =>
      owned(startProcess([...runbookCommand(), ...words], { ...process.env, ...environment }, onLine));
    return { server, payments, worker, environment, environmentFile, runbook, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Everything of the demonstration but its people: server, simulated deployment, clients that write, worker. */
export type Stage = Awaited<ReturnType<typeof startStage>>;

/** A shell file that sets this environment and puts programs on the PATH, to source in other terminals. */
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
