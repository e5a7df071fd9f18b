import { setTimeout as delay } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { OUTCOME_ATTRIBUTE } from '../contracts/names';
import { RunbookError } from '../errors';
import { startProcess, freePorts } from './child-process';
import { errorMessage, findTemporalServer } from './find-temporal-server';
import type { FindOptions } from './find-temporal-server';
import { withoutTemporalVariables } from './temporal-executable';

/**
 * Dynamic configuration of the server. `deploy/dynamic-config.yaml`, which the compose file mounts, has the same
 * values.
 *
 * - Processor rates: by default the server polls each shard's queues at most 20 times per second. A chain of short
 *   activities would wait 50 ms for each, which is most of the time of a switchover's serial steps.
 * - Eager execution: an activity that is returned to the worker with the completed workflow task waits for no poll.
 * - Signals: a run accepts 10,000 by default. A busy worker cannot replay so many within the 10 s of a workflow task,
 *   and the run would no longer react to anybody.
 */
export const DYNAMIC_CONFIG = {
  'history.transferProcessorMaxPollRPS': 5000,
  'history.timerProcessorMaxPollRPS': 5000,
  'system.enableActivityEagerExecution': true,
  'history.maximumSignalsPerExecution': 2000,
} as const satisfies Readonly<Record<string, number | boolean | string>>;

/** The default namespace, which every Temporal server has. */
const DEFAULT_NAMESPACE = 'default';

/** Addresses of a Temporal server. */
export interface TemporalServerAddresses {
  /** `host:port` of gRPC. */
  readonly address: string;
  /** Base URL of the HTTP API, without a trailing slash. */
  readonly httpAddress: string;
  /** Base URL of the Web UI, without a trailing slash. */
  readonly uiAddress: string;
  readonly namespace: string;
}

/** A Temporal server: either started by this process, and ended with it, or the one at `TEMPORAL_ADDRESS`. */
export interface TemporalServer extends TemporalServerAddresses {
  /** Process ID; absent for a server that this process did not start. */
  readonly pid?: number;
  /** Ends a server that this process started, and waits until it is gone. Can be called more than once. */
  stop(): Promise<void>;
}

const LOOPBACK = '127.0.0.1';
const START_ATTEMPTS = 5;
/** From the start of the process to the first answer, which usually takes half a second. */
const START_DEADLINE_MS = 60_000;
const POLL_MS = 50;
const CALL_DEADLINE_MS = 2_000;
const KEPT_OUTPUT_LINES = 40;

/**
 * Returns a server that is ready: the one at `TEMPORAL_ADDRESS`, with the namespace in `TEMPORAL_NAMESPACE`, or else a
 * new dev server with the settings of this project. For a server at `TEMPORAL_ADDRESS`, the HTTP API and the Web UI are
 * assumed at ports 7243 and 8233 of the same host, unless `RUNBOOKS_TEMPORAL_HTTP` and `RUNBOOKS_TEMPORAL_UI` set their
 * base URLs.
 *
 * A dev server keeps all state in memory and loses it when it ends.
 *
 * @param options.moreNamespaces to create in addition to `default`
 * @throws RunbookError `TEMPORAL_UNAVAILABLE` if no server is found or it does not serve its namespaces.
 */
export async function obtainTemporalServer(
  options: FindOptions & { readonly moreNamespaces?: readonly string[] } = {},
): Promise<TemporalServer> {
  const { environment = process.env, moreNamespaces = [] } = options;
  const found = await findTemporalServer(options);
  if ('path' in found) return start(found.path, [DEFAULT_NAMESPACE, ...moreNamespaces]);
  const { address } = found;
  const namespace = environment['TEMPORAL_NAMESPACE'] ?? DEFAULT_NAMESPACE;
  const answer = await isServing(address, [namespace]);
  if (answer !== 'serving') {
    throw new RunbookError(
      'TEMPORAL_UNAVAILABLE',
      `The Temporal server at ${address} (TEMPORAL_ADDRESS) does not serve namespace ${namespace}: ${answer}`,
      {
        observed: answer,
        next: 'Start the server or correct TEMPORAL_ADDRESS. If you unset it, a dev server is started.',
      },
    );
  }
  const host = address.slice(0, address.lastIndexOf(':'));
  return {
    address,
    httpAddress: environment['RUNBOOKS_TEMPORAL_HTTP'] ?? `http://${host}:7243`,
    uiAddress: environment['RUNBOOKS_TEMPORAL_UI'] ?? `http://${host}:8233`,
    namespace,
    stop: () => Promise.resolve(),
  };
}

async function start(program: string, namespaces: readonly string[]): Promise<TemporalServer> {
  let failure = '';
  for (let attempt = 1; attempt <= START_ATTEMPTS; attempt += 1) {
    const outcome = await startOnce(program, namespaces);
    if (typeof outcome !== 'string') return outcome;
    failure = outcome;
    // Another process may take a free port before the server listens on it: choose other ports. The server may panic then.
    if (!/address already in use|it ended with 2\b/i.test(failure)) break;
  }
  throw new RunbookError('TEMPORAL_UNAVAILABLE', `The Temporal dev server ${program} did not start: ${failure}`);
}

/** Returns the server, or why it did not start. */
async function startOnce(program: string, namespaces: readonly string[]): Promise<TemporalServer | string> {
  const [grpc = 0, http = 0, ui = 0, metrics = 0] = await freePorts(4);
  const address = `${LOOPBACK}:${grpc}`;
  const output: string[] = [];
  let ended: number | string | undefined;
  let listens = false;
  const command = [program, ...startParameters(namespaces, { grpc, http, ui, metrics })] as const;
  // A soft limit: without it the memory of the server grows with each run.
  const env = { GOMEMLIMIT: '384MiB', ...withoutTemporalVariables() };
  const server = startProcess(command, env, (line, stream) => {
    output.push(line);
    // The first lines say why, the last ones how it ended.
    if (output.length > KEPT_OUTPUT_LINES) output.splice(KEPT_OUTPUT_LINES / 2, 1);
    // Another server may have taken our port: an answer counts only after our own process reports that it listens.
    listens ||= stream === 'out' && line.includes(`:${grpc}`);
  });
  const { pid } = server;
  void server.ended.then((how) => (ended = how));
  const deadline = Date.now() + START_DEADLINE_MS;
  let answer = 'it did not report that it is listening';
  while (ended === undefined && Date.now() < deadline) {
    if (listens) answer = await isServing(address, namespaces);
    if (answer === 'serving' && pid !== undefined) {
      // A program that does not stop the server must still be able to exit; the server then ends too.
      server.unref();
      const [httpAddress, uiAddress] = [`http://${LOOPBACK}:${http}`, `http://${LOOPBACK}:${ui}`];
      // An orderly shutdown takes more than a second, and the server has nothing to save.
      const stop = () => server.stop('SIGKILL');
      return { address, httpAddress, uiAddress, namespace: DEFAULT_NAMESPACE, pid, stop };
    }
    await delay(POLL_MS);
  }
  const late = `not ready within ${START_DEADLINE_MS / 1000} s: ${answer}`;
  const how = ended === undefined ? late : `it ended with ${ended}`;
  await server.stop('SIGKILL');
  return [how, ...output].join('\n  ');
}

function startParameters(
  namespaces: readonly string[],
  ports: Readonly<Record<'grpc' | 'http' | 'ui' | 'metrics', number>>,
): string[] {
  return [
    ...['server', 'start-dev', '--ip', LOOPBACK, '--log-level', 'warn', '--color', 'never'],
    ...['--port', String(ports.grpc), '--http-port', String(ports.http), '--ui-port', String(ports.ui)],
    ...['--metrics-port', String(ports.metrics)],
    ...namespaces.flatMap((each) => ['--namespace', each]),
    ...['--search-attribute', `${OUTCOME_ATTRIBUTE}=Keyword`],
    ...Object.entries(DYNAMIC_CONFIG).flatMap(([key, value]) => ['--dynamic-config-value', `${key}=${value}`]),
  ];
}

/**
 * Checks that the server at `address` answers and has the namespaces.
 *
 * @returns `serving`, or the error as text.
 */
async function isServing(address: string, namespaces: readonly string[]): Promise<string> {
  // Past the proxy variables of the machine: it is this machine.
  const channelArgs = { 'grpc.enable_http_proxy': 0 };
  const connection = Connection.lazy({ address, connectTimeout: CALL_DEADLINE_MS, channelArgs });
  try {
    return await connection.withDeadline(Date.now() + CALL_DEADLINE_MS, async () => {
      for (const namespace of namespaces) await connection.workflowService.describeNamespace({ namespace });
      return 'serving';
    });
  } catch (error) {
    return errorMessage(error);
  } finally {
    await connection.close();
  }
}
