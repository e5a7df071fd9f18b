import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { RunbookError } from '../errors';
import { examineExecutable } from './executable';
import type { TemporalExecutable } from './executable';
import { findTemporalExecutable } from './find-temporal-server';
import type { OnProgress } from './find-temporal-server';
import { freePorts } from './ports';
import { isServing } from './readiness';
import { startServerProcess } from './server-process';
import { DEFAULT_NAMESPACE, DYNAMIC_CONFIG, SEARCH_ATTRIBUTES } from './settings';

/** How a dev server is started. */
export interface DevServerOptions {
  /** `memory` forgets everything when the server ends; a file is created when it is not there. */
  readonly persistence: 'memory' | { readonly file: string };
  /** Created at the start when it is not there. Default: `default`. */
  readonly namespace?: string;
  /** Created beside it, with the same search attributes. */
  readonly moreNamespaces?: readonly string[];
  /** Search attributes to register, name to type. Default: those of the runbooks. */
  readonly searchAttributes?: Readonly<Record<string, string>>;
  /** Whether the Web UI runs too. Default: true. */
  readonly ui?: boolean;
  /** Fixed ports, for people who keep addresses in bookmarks. Default: free ones. */
  readonly ports?: { readonly grpc?: number; readonly http?: number; readonly ui?: number };
  /** The Temporal CLI, or its path. Default: what `findTemporalExecutable` finds. */
  readonly executable?: TemporalExecutable | string;
  /** Takes each line that the server writes. */
  readonly log?: (line: string) => void;
  /** Takes a line for people while the server is looked for or built. */
  readonly onProgress?: OnProgress;
}

/** Addresses of a Temporal server. */
export interface TemporalServerAddresses {
  /** `host:port` of gRPC. */
  readonly address: string;
  /** Base URL of the HTTP API, without a trailing slash. */
  readonly httpAddress: string;
  /** Base URL of the Web UI, without a trailing slash. Nobody answers there where it was not asked for. */
  readonly uiAddress: string;
  readonly namespace: string;
}

/** A dev server that this process started. It ends with this process at the latest. */
interface DevServer extends TemporalServerAddresses {
  readonly pid: number;
  /** Version line of the Temporal CLI that runs. */
  readonly version: string;
  /** Ends the server and waits until its process is gone. May be called again. */
  stop(): Promise<void>;
}

const LOOPBACK = '127.0.0.1';
const START_ATTEMPTS = 5;
/** From the start of the process to the first answer; half a second is usual. */
const START_DEADLINE_MS = 60_000;

/**
 * Starts a Temporal dev server with the settings of this project and waits until it serves the namespace with its
 * search attributes.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE` where no executable can be had, or the server ends or does not answer.
 */
export async function startDevServer(options: DevServerOptions): Promise<DevServer> {
  const executable = await chooseExecutable(options);
  if (options.persistence !== 'memory') await mkdir(dirname(options.persistence.file), { recursive: true });
  let failure: StartFailure = { portTaken: false, text: 'not tried' };
  for (let attempt = 1; attempt <= START_ATTEMPTS; attempt += 1) {
    const outcome = await startOnce(executable, options);
    if ('server' in outcome) return outcome.server;
    failure = outcome.failure;
    // Between choosing a free port and listening on it another process may take it: choose again.
    if (!failure.portTaken) break;
  }
  throw new RunbookError(
    'TEMPORAL_UNAVAILABLE',
    `The Temporal dev server ${executable.path} did not start: ${failure.text}`,
  );
}

async function chooseExecutable(options: DevServerOptions): Promise<TemporalExecutable> {
  if (options.executable === undefined) {
    return (await findTemporalExecutable(options.onProgress === undefined ? {} : { onProgress: options.onProgress }))
      .executable;
  }
  if (typeof options.executable !== 'string') return options.executable;
  const finding = await examineExecutable(options.executable);
  if ('executable' in finding) return finding.executable;
  throw new RunbookError('TEMPORAL_UNAVAILABLE', finding.reason);
}

interface StartFailure {
  readonly portTaken: boolean;
  readonly text: string;
}

async function startOnce(
  executable: TemporalExecutable,
  options: DevServerOptions,
): Promise<{ server: DevServer } | { failure: StartFailure }> {
  const namespace = options.namespace ?? DEFAULT_NAMESPACE;
  const searchAttributes = Object.keys(options.searchAttributes ?? SEARCH_ATTRIBUTES);
  const ports = await choosePorts(options);
  const address = `${LOOPBACK}:${ports.grpc}`;
  const server = startServerProcess(executable.path, startParameters(executable, options, ports), options.log);
  const deadline = Date.now() + START_DEADLINE_MS;
  let answer = 'it has not said that it listens';
  while (server.ended() === undefined && Date.now() < deadline) {
    // Another server may have taken our port: an answer counts only once our own process has said that it listens.
    if (server.announced(`:${ports.grpc}`)) {
      for (const each of [namespace, ...(options.moreNamespaces ?? [])]) {
        answer = await isServing(address, each, searchAttributes);
        if (answer !== 'serving') break;
      }
      if (answer === 'serving' && server.ended() === undefined && server.pid !== undefined) {
        // A program that forgets to stop the server must still be able to end; the server then ends too.
        server.unref();
        // An orderly end takes the server more than a second, which only a file on disk is worth.
        const signal = options.persistence === 'memory' ? 'SIGKILL' : 'SIGTERM';
        const [httpAddress, uiAddress] = [`http://${LOOPBACK}:${ports.http}`, `http://${LOOPBACK}:${ports.ui}`];
        const { version } = executable;
        const { pid } = server;
        return { server: { address, httpAddress, uiAddress, namespace, pid, version, stop: () => server.end(signal) } };
      }
    }
    await Promise.race([server.changed(), delay(50)]);
  }
  await server.end('SIGKILL');
  const ended = server.ended() ?? `no service within ${START_DEADLINE_MS / 1000} s: ${answer}`;
  const text = [ended, ...server.output].join('\n  ');
  return { failure: { portTaken: options.ports === undefined && /address already in use/i.test(text), text } };
}

interface Ports {
  readonly grpc: number;
  readonly http: number;
  readonly ui: number;
  readonly metrics: number;
}

async function choosePorts({ ports = {} }: DevServerOptions): Promise<Ports> {
  const [grpc = 0, http = 0, ui = 0, metrics = 0] = await freePorts(4);
  return { grpc: ports.grpc ?? grpc, http: ports.http ?? http, ui: ports.ui ?? ui, metrics };
}

function startParameters(executable: TemporalExecutable, options: DevServerOptions, ports: Ports): string[] {
  const parameters = ['server', 'start-dev', '--ip', LOOPBACK, '--log-level', 'warn', '--color', 'never'];
  parameters.push('--port', String(ports.grpc), '--http-port', String(ports.http));
  parameters.push('--metrics-port', String(ports.metrics), '--namespace', options.namespace ?? DEFAULT_NAMESPACE);
  for (const each of options.moreNamespaces ?? []) parameters.push('--namespace', each);
  if (options.ui ?? true) {
    parameters.push('--ui-port', String(ports.ui));
    if (executable.flags.disableNewsFetch) parameters.push('--ui-disable-news-fetch');
  } else {
    parameters.push('--headless');
  }
  if (options.persistence !== 'memory') parameters.push('--db-filename', options.persistence.file);
  for (const [key, value] of Object.entries(DYNAMIC_CONFIG)) {
    parameters.push('--dynamic-config-value', `${key}=${JSON.stringify(value)}`);
  }
  for (const [name, type] of Object.entries(options.searchAttributes ?? SEARCH_ATTRIBUTES)) {
    parameters.push('--search-attribute', `${name}=${type}`);
  }
  return parameters;
}

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
