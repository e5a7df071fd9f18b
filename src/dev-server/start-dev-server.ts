import { setTimeout as delay } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { RunbookError } from '../errors';
import { startProcess, freePorts } from './child-process';
import { errorMessage, findTemporalServer, withoutTemporalVariables } from './find-temporal-server';
import type { FindOptions } from './find-temporal-server';

/**
 * Dynamic configuration of the server. `deploy/dynamic-config.yaml`, which the compose file mounts, has the same.
 * The server polls its task queues at most 20 times per second and shard by default, which puts a chain of short
 * activities on a 50 ms tick: it would be most of the time of a switchover's serial steps. An activity that goes to the
 * worker with the answer to its workflow's task waits for no poll at all. Of the 10,000 signals that it takes for a run
 * a busy worker replays too few within the ten seconds of a workflow task: the run would hear nobody.
 */
export const DYNAMIC_CONFIG = {
  'history.transferProcessorMaxPollRPS': 5000,
  'history.timerProcessorMaxPollRPS': 5000,
  'system.enableActivityEagerExecution': true,
  'history.maximumSignalsPerExecution': 2500,
} as const satisfies Readonly<Record<string, number | boolean | string>>;

/** The namespace that every Temporal server has, used where none is named. */
const DEFAULT_NAMESPACE = 'default';

/** How a dev server is started. It keeps everything in memory, and forgets it when it ends. */
interface DevServerOptions extends FindOptions {
  /** Created beside `default`. */
  readonly moreNamespaces?: readonly string[];
}

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

/** A server to work with: one that this process started, and that ends with it, or the one that `TEMPORAL_ADDRESS` names. */
export interface TemporalServer extends TemporalServerAddresses {
  /** Of the process, where this one started it. */
  readonly pid?: number;
  /** Ends the server where this process started it, and waits until it is gone. May be called again. */
  stop(): Promise<void>;
}

const LOOPBACK = '127.0.0.1';
const START_ATTEMPTS = 5;
/** From the start of the process to the first answer; half a second is usual. */
const START_DEADLINE_MS = 60_000;
const POLL_MS = 50;
const CALL_DEADLINE_MS = 2_000;
const KEPT_OUTPUT_LINES = 40;

/**
 * Gives a server that serves: the one that `TEMPORAL_ADDRESS` names, with the namespace of `TEMPORAL_NAMESPACE`, else a
 * dev server with the settings of this project. For a named server the HTTP API and the Web UI are taken to be on the ports
 * 7243 and 8233 of the same host, unless `RUNBOOKS_TEMPORAL_HTTP` and `RUNBOOKS_TEMPORAL_UI` give their base URLs.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE` where there is none, or it does not serve its namespaces.
 */
export async function obtainTemporalServer(options: DevServerOptions = {}): Promise<TemporalServer> {
  const { environment = process.env, moreNamespaces = [] } = options;
  const found = await findTemporalServer(options);
  if ('path' in found) return start(found.path, [DEFAULT_NAMESPACE, ...moreNamespaces]);
  const { address } = found;
  const namespace = environment['TEMPORAL_NAMESPACE'] ?? DEFAULT_NAMESPACE;
  const answer = await isServing(address, [namespace]);
  if (answer !== 'serving') {
    throw new RunbookError(
      'TEMPORAL_UNAVAILABLE',
      `The server of TEMPORAL_ADDRESS, ${address}, does not serve namespace ${namespace}: ${answer}`,
      {
        observed: answer,
        next: 'Start it or correct the address; without TEMPORAL_ADDRESS a dev server is started.',
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
    // Between choosing a free port and listening on it another process may take it: choose again.
    if (!/address already in use/i.test(failure)) break;
  }
  throw new RunbookError('TEMPORAL_UNAVAILABLE', `The Temporal dev server ${program} did not start: ${failure}`);
}

/** The server, or why it did not start. */
async function startOnce(program: string, namespaces: readonly string[]): Promise<TemporalServer | string> {
  const [grpc = 0, http = 0, ui = 0, metrics = 0] = await freePorts(4);
  const address = `${LOOPBACK}:${grpc}`;
  const output: string[] = [];
  let ended: number | string | undefined;
  let listens = false;
  const command = [program, ...startParameters(namespaces, { grpc, http, ui, metrics })] as const;
  // A soft limit: without one the server's memory grows with each run that it has seen.
  const env = { GOMEMLIMIT: '384MiB', ...withoutTemporalVariables() };
  const server = startProcess(command, env, (line, stream) => {
    output.push(line);
    if (output.length > KEPT_OUTPUT_LINES) output.shift();
    // Another server may have taken our port: an answer counts only once our own process has said that it listens.
    listens ||= stream === 'out' && line.includes(`:${grpc}`);
  });
  const { pid } = server;
  void server.ended.then((how) => (ended = how));
  const deadline = Date.now() + START_DEADLINE_MS;
  let answer = 'it has not said that it listens';
  while (ended === undefined && Date.now() < deadline) {
    if (listens) answer = await isServing(address, namespaces);
    if (answer === 'serving' && pid !== undefined) {
      // A program that forgets to stop the server must still be able to end; the server then ends too.
      server.unref();
      const [httpAddress, uiAddress] = [`http://${LOOPBACK}:${http}`, `http://${LOOPBACK}:${ui}`];
      // An orderly end takes the server more than a second, and it has nothing to keep.
      const stop = () => server.stop('SIGKILL');
      return { address, httpAddress, uiAddress, namespace: DEFAULT_NAMESPACE, pid, stop };
    }
    await delay(POLL_MS);
  }
  const late = `no service within ${START_DEADLINE_MS / 1000} s: ${answer}`;
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
    ...Object.entries(DYNAMIC_CONFIG).flatMap(([key, value]) => ['--dynamic-config-value', `${key}=${value}`]),
  ];
}

/**
 * Whether the server at `address` serves: it is healthy, and knows the namespaces.
 *
 * @returns `serving`, or what is missing, in words.
 */
async function isServing(address: string, namespaces: readonly string[]): Promise<string> {
  const connection = Connection.lazy({ address, connectTimeout: CALL_DEADLINE_MS });
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
