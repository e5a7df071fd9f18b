import { once } from 'node:events';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { guideLines, startStage } from '../demo/stage';
import { errnoOf, isRunbookError, RunbookError } from '../../errors';
import { loadInventory, onlyLaboratories } from '../../inventory';
import { redact } from '../../secret';
import { describeSimulator, parseTopology, startSimulator } from '../../simulator';
import { checkProcess, processFacts } from '../../process-guard';
import { connectionSettings, plainText } from '../../worker/connection';
import { inventoryPath } from '../../worker/settings';
import { startWorker } from '../../worker/start-worker';
import { newCommand } from '../command';
import type { CommonOptions } from '../command';
import type { CliContext } from '../context';
import { EXIT } from '../errors';
import { readTextFile } from '../secret-input';
import type { CommandHost } from '../command-host';

export const commands = (host: CommandHost): Command[] => [
  workerCommand(host),
  simulatorCommand(host),
  devCommand(host),
];

/** `runbook worker`: serves the task queues until Ctrl-C or SIGTERM. */
function workerCommand({ context }: CommandHost): Command {
  return newCommand('worker', ['RUNBOOKS_INVENTORY=inventory.yaml RUNBOOKS_SEAL_KEYS_FILE=seal-keys runbook worker'])
    .option('--ignore-replay-failures', 'start even if an open run that holds a lock does not fit this version')
    .addHelpText('after', '\ndocs/cli.md lists its variables. It logs JSON lines to standard error.')
    .action(async ({ ignoreReplayFailures }: CommonOptions & { readonly ignoreReplayFailures?: true }) => {
      const plain = plainText(connectionSettings(context.env).connectionOptions);
      const process = checkProcess(processFacts(context.env, await isLaboratory(context.env)));
      for (const { text, next } of [...process, ...(plain ? [plain] : [])]) context.err(`Warning: ${text}. ${next}`);
      const worker = await onceTemporalAnswers(context, () => startWorker({ env: context.env, ignoreReplayFailures }));
      if (worker === undefined) return;
      context.err(`Worker ready on task queue ${worker.taskQueue}; Ctrl-C ends it after its running activities.`);
      void endedByPerson(context).then(() => worker.shutdown());
      await worker.run();
    });
}

/** Whether every deployment of the inventory is a laboratory; false if it cannot be read, which the worker reports itself. */
async function isLaboratory(env: NodeJS.ProcessEnv): Promise<boolean> {
  try {
    return onlyLaboratories(await loadInventory(inventoryPath(env)));
  } catch {
    return false;
  }
}

/** Time between two attempts to reach Temporal, ms. */
const AGAIN_MS = 2_000;

/**
 * Retries until Temporal answers, and reports each attempt: Temporal may start later than its workers, or stop while one
 * starts.
 *
 * @returns undefined if this program was stopped meanwhile
 */
async function onceTemporalAnswers<T>({ stop, err }: CliContext, start: () => Promise<T>): Promise<T | undefined> {
  for (;;) {
    try {
      return await start();
    } catch (error) {
      if (!isRunbookError(error, 'TEMPORAL_UNAVAILABLE')) throw error;
      const { message, observed = 'no reason given', next = '' } = error;
      const told = `${message.replace(/\.$/, '')}: ${observed}. ${next}`;
      err(`${told} Retrying every ${AGAIN_MS / 1_000} s; Ctrl-C or SIGTERM ends this.`);
    }
    await delay(AGAIN_MS, undefined, { signal: stop }).catch(() => undefined);
    if (stop.aborted) return undefined;
  }
}

/** `runbook simulator`: the simulated service from a topology file. */
function simulatorCommand({ context }: CommandHost): Command {
  return newCommand('simulator', ['runbook simulator topology.yaml --state-file simulator.json'])
    .argument('<topology>', 'topology file (YAML)')
    .requiredOption(
      '--state-file <file>',
      'where addresses, tokens and key shares are written (mode 0600; removed at the end)',
    )
    .action(async (file: string, options: CommonOptions & { readonly stateFile: string }) => {
      const stateFile = resolve(options.stateFile);
      const text = await readTextFile(resolve(file));
      const start = async () => startSimulator(parseTopology(text), stateFile);
      const { state, stop } = await start().catch((error: unknown) => refuseTopology(file, error));
      for (const line of describeSimulator(state, stateFile)) context.err(line);
      await endedByPerson(context);
      context.err('Stopping ...');
      await stop();
    });
}

/** Everything that the file describes was just built from it: what failed is a mistake in it, or the system's word on a file or port. */
function refuseTopology(file: string, error: unknown): never {
  if (!(error instanceof Error) || errnoOf(error)?.startsWith('E') === true) throw error;
  throw new RunbookError('INVALID_INPUT', `The simulated service cannot be started from ${file}.`, {
    observed: redact(error.message),
    needed: 'a topology file (YAML)',
    next: 'Correct the file: docs/simulator.md has an example.',
    cause: error,
  });
}

/** `runbook dev`: Temporal dev server, simulated deployment and worker in one command. */
function devCommand({ context, finish }: CommandHost): Command {
  return newCommand('dev', ['runbook dev'])
    .option('--reports <directory>', 'where to write reports', 'reports')
    .action(async (options: CommonOptions & { readonly reports: string }) => {
      const say = context.err;
      const stage = await startStage({ reportDirectory: resolve(options.reports), say });
      try {
        for (const line of guideLines(stage)) context.out(line);
        const stopped = endedByPerson(context);
        for (let { worker } = stage; ; worker = await stage.startWorker()) {
          const ended = await Promise.race([stopped, worker.ended]);
          if (ended === undefined) return;
          say(`The worker ended with ${ended}.`);
          // A worker that exits by itself would do so again.
          if (typeof ended === 'number') return finish(EXIT.failed);
          say('Starting another one, as systemd would.');
        }
      } finally {
        say('Stopping ...');
        await stage.stop();
      }
    });
}

async function endedByPerson({ stop }: CliContext): Promise<void> {
  if (!stop.aborted) await once(stop, 'abort');
}
