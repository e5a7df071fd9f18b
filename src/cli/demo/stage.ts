import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { shellLine, shellWord } from '../../contracts/next-commands';
import { filled } from '../text';
import { deploymentWorkflowId } from '../../contracts/names';
import type { RunbookName } from '../../contracts/names';
import { startProcess } from '../../dev-server/child-process';
import type { OnLine, OwnProcess } from '../../dev-server/child-process';
import { programFile } from '../../dev-server/locations';
import { obtainTemporalServer } from '../../dev-server/start-dev-server';
import { jsonIn } from '../../contracts/words';
import type { GateName } from '../../contracts/gates';
import { RunbookError } from '../../errors';
import { fieldsOf } from '../../report/run-record';
import { startPayments } from './payments';
import type { Site } from './payments';
import { approveWords, DEPLOYMENT, OPERATOR, shareWords } from './people';

interface StageOptions {
  /** Directory for finished reports; default: the worker writes none. */
  readonly reportDirectory?: string | undefined;
  /** Default: the deployment of `npm run demo`. */
  readonly site?: Site;
  /** Least severe level of the worker's log that is shown; default: `warn`. */
  readonly workerLog?: 'warn' | 'error';
  /** Receives lines to show to people. */
  readonly say: (line: string) => void;
}

/** How a demonstration is shown. */
export interface Showing {
  readonly say: (line: string) => void;
  /** Show everything that the run and its people see, instead of who did what. */
  readonly verbose: boolean;
  readonly stop: AbortSignal;
}

/** Starts all parts of the demonstration; if one fails to start, stops those already started. */
export async function startStage({ reportDirectory, site, workerLog = 'warn', say }: StageOptions) {
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
    say(`Temporal server   ${server.address}; HTTP API ${server.httpAddress}; Web UI ${server.uiAddress}`);
    const payments = await startPayments({
      ...{ reportDirectory, site },
      // On a shared server, other workers must not receive tasks of our runs.
      taskQueue: server.pid !== undefined ? 'runbooks' : `runbooks-demo-${process.pid}`,
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
      runbook: `exec ${shellLine(...runbookCommand())} "$@"`,
      simulated: payments.simulated,
    });
    if (payments.about.length > 0) payments.clients.startWriting();
    payments.about.forEach(say);
    // A laboratory may run as root, as on many CI machines.
    const workerEnvironment = { ...environment, RUNBOOKS_LOG_LEVEL: workerLog, RUNBOOKS_ALLOW_ROOT: 'yes' };
    // What is set here needs no warning.
    const tellOfWorker = (line: string) =>
      void (line.includes('RUNBOOKS_ALLOW_ROOT') || say(`worker: ${readable(line)}`));
    const startWorker = async (): Promise<OwnProcess> => {
      const started = owned(await startWorkerProcess(workerEnvironment, tellOfWorker));
      say(`Worker            ready (PID ${started.pid})`);
      return started;
    };
    const worker = await startWorker();
    /** Runs `runbook` with this environment; stopped when the stage stops. */
    const runbook = (words: readonly string[], onLine: OnLine) =>
      owned(startProcess([...runbookCommand(), ...words], { ...process.env, ...environment }, onLine));
    return { server, payments, worker, startWorker, environment, environmentFile, runbook, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Everything in the demonstration except its people: Temporal server, simulated deployment, writing clients, worker. */
export type Stage = Awaited<ReturnType<typeof startStage>>;

/** A JSON log line as text, with the fields that its message does not contain; any other line unchanged. */
function readable(line: string): string {
  const { level, msg, time: _time, ...fields } = fieldsOf(jsonIn(line));
  if (typeof level !== 'string' || typeof msg !== 'string') return line;
  const more = Object.entries(fields).filter(([, value]) => !msg.includes(String(value)));
  return [`${level}: ${msg}`, ...more.map(([name, value]) => `${name}=${String(value)}`)].join(' ');
}

/** Writes a shell file, to be sourced in other terminals, that sets this environment and puts the scripts on the PATH. */
async function writeEnvironment(
  directory: string,
  environment: Readonly<Record<string, string>>,
  scripts: Readonly<Record<string, string>>,
): Promise<string> {
  const bin = join(directory, 'bin');
  await mkdir(bin, { mode: 0o700 });
  for (const [name, script] of Object.entries(scripts))
    await writeFile(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o700 });
  const file = join(directory, 'env.sh');
  const lines = Object.entries(environment).map(([name, value]) => `export ${name}=${shellWord(value)}`);
  await writeFile(file, `${[...lines, `export PATH=${shellWord(bin)}:"$PATH"`].join('\n')}\n`, { mode: 0o600 });
  return file;
}

/** The command line of the compiled `runbook` program. */
const runbookCommand = () => [process.execPath, programFile()] as const;

/** Memory limits, as in the systemd unit: without them a worker uses twice the memory and is no faster. */
const SMALL_MEMORY = ['--max-semi-space-size=4', '--max-old-space-size=1024'];

const WORKER_READY_MS = 60_000;

/**
 * Starts a worker in its own process; resolves when the worker is ready to poll.
 *
 * @param say receives every other line that the worker writes.
 * @throws RunbookError `INTERNAL` if the worker ends or is not ready within {@link WORKER_READY_MS}.
 */
async function startWorkerProcess(
  env: Readonly<Record<string, string>>,
  say: (line: string) => void,
): Promise<OwnProcess> {
  let ready: (answer: string) => void = () => undefined;
  const answered = new Promise<string>((resolve) => (ready = resolve));
  const output: string[] = [];
  const [node, ...program] = runbookCommand();
  const environment = { ...process.env, MALLOC_ARENA_MAX: '2', ...env };
  const worker = startProcess([node, ...SMALL_MEMORY, ...program, 'worker'], environment, (line) => {
    if (line.startsWith('Worker ready')) return ready('ready');
    output.push(line);
    say(line);
  });
  const timer = setTimeout(() => ready(`not ready within ${WORKER_READY_MS / 1000} s`), WORKER_READY_MS);
  const outcome = await Promise.race([answered, worker.ended.then((code) => `exited with ${code}`)]);
  clearTimeout(timer);
  if (outcome === 'ready') return worker;
  await worker.stop();
  throw new RunbookError('INTERNAL', `The worker did not start: ${outcome}.`, { observed: output.join('\n') });
}

/** The exact commands for a person who plays every part. */
export function guideLines({ server, payments, worker, environmentFile }: Stage): string[] {
  const workflowId = deploymentWorkflowId(DEPLOYMENT);
  const everybody = [...payments.people.values()];
  const holders = everybody.filter(({ shareFile }) => shareFile !== undefined);
  const approver = everybody.find(({ groups }) => groups.includes('approvers'));
  const command = (...words: readonly string[]) => shellLine('runbook', ...words);
  const begin = (verb: 'plan' | 'start', runbook: RunbookName, input: object) =>
    command(verb, runbook, '--input', JSON.stringify({ deployment: DEPLOYMENT, requestedBy: OPERATOR, ...input }));
  const approve = (gate: GateName) => approver && command(...approveWords(approver, gate));
  const switchover = { to: 'west', reason: 'demonstration of a planned switchover' };
  const text = filled('dev-guide.txt', {
    environmentFile,
    plan: begin('plan', 'drSwitchover', switchover),
    switchover: begin('start', 'drSwitchover', switchover),
    watch: command('watch', workflowId),
    shares: holders.slice(0, 3).map((holder) => command(...shareWords(holder))),
    approvePlan: approve('plan'),
    approveGo: approve('go'),
    report: command('report', workflowId),
    webUi: `${server.uiAddress}/namespaces/${server.namespace}/workflows`,
    kill: shellLine('kill', '-9', String(worker.pid)),
    readiness: command('readiness', DEPLOYMENT),
    failover: begin('start', 'drFailover', { to: 'west', reason: 'east is down' }),
    approvePromote: approve('promote'),
    rejoin: begin('start', 'drRejoin', { cluster: 'east', reason: 'east is back' }),
  });
  return text.trimEnd().split('\n');
}
