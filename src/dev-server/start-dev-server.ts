import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { RunbookError } from '../errors';
import { examineExecutable, withoutTemporalVariables } from './executable';
import type { TemporalExecutable } from './executable';
import { findTemporalExecutable } from './find-temporal-server';
import type { OnProgress } from './find-temporal-server';
import { freePorts } from './ports';
import { endWithThisProcess } from './process-guard';
import { isServing } from './readiness';
import { DEFAULT_NAMESPACE, DYNAMIC_CONFIG, SEARCH_ATTRIBUTES } from './settings';

/** How a dev server is started. */
export interface DevServerOptions {
  /** `memory` forgets everything when the server ends; a file is created when it is not there. */
  readonly persistence: 'memory' | { readonly file: string };
  /** Created at the start when it is not there. Default: `default`. */
  readonly namespace?: string;
  /** Search attributes to register, name to type. Default: those of the runbooks. */
  readonly searchAttributes?: Readonly<Record<string, string>>;
  /** Whether the Web UI runs too. Default: true. */
  readonly ui?: boolean;
  /** Fixed ports, for people who keep addresses in bookmarks. Default: free ones. */
  readonly ports?: { readonly grpc?: number; readonly http?: number; readonly ui?: number };
  /** Path of the Temporal CLI. Default: what `findTemporalExecutable` finds. */
  readonly executable?: string;
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
  /** Base URL of the Web UI, without a trailing slash. */
  readonly uiAddress: string;
  readonly namespace: string;
}

/** A dev server that this process started. It ends with this process at the latest. */
export interface DevServer extends TemporalServerAddresses {
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
const STOP_GRACE_MS = 10_000;
const KEPT_OUTPUT_LINES = 40;

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
  const [freeGrpc, freeHttp, freeUi, metrics] = await freePorts(4);
  const ports = {
    grpc: options.ports?.grpc ?? freeGrpc,
    http: options.ports?.http ?? freeHttp,
    ui: options.ports?.ui ?? freeUi,
    metrics,
  };
  const namespace = options.namespace ?? DEFAULT_NAMESPACE;
  const searchAttributes = options.searchAttributes ?? SEARCH_ATTRIBUTES;
  const child = spawn(executable.path, startParameters(executable, options, ports), {
    stdio: ['ignore', 'pipe', 'pipe'],
    // Its own process group: Ctrl-C at the terminal reaches us alone, and workers can finish while the server lives.
    detached: true,
    // A soft limit: without one the server's memory grows with each run that it has seen.
    env: { GOMEMLIMIT: '384MiB', ...withoutTemporalVariables() },
  });
  endWithThisProcess(child);
  const process_ = watch(child, options.log);
  const address = `${LOOPBACK}:${ports.grpc}`;
  const deadline = Date.now() + START_DEADLINE_MS;
  let lastAnswer = 'no answer yet';
  while (process_.ended === undefined && Date.now() < deadline) {
    // Another server may have taken our port: an answer counts only once our own process has said that it listens.
    if (process_.output.some((line) => line.includes(`:${ports.grpc}`))) {
      lastAnswer = await isServing(address, namespace, Object.keys(searchAttributes));
      if (lastAnswer === 'serving' && process_.ended === undefined) {
        return { server: runningServer(child, executable, address, ports, namespace) };
      }
    }
    await Promise.race([process_.changed(), delay(50)]);
  }
  await endProcess(child);
  const text =
    process_.output.join('\n') || (process_.ended ?? `no answer within ${START_DEADLINE_MS / 1000} s (${lastAnswer})`);
  return { failure: { portTaken: options.ports === undefined && /address already in use/i.test(text), text } };
}

interface Ports {
  readonly grpc: number | undefined;
  readonly http: number | undefined;
  readonly ui: number | undefined;
  readonly metrics: number | undefined;
}

function startParameters(executable: TemporalExecutable, options: DevServerOptions, ports: Ports): string[] {
  const parameters = ['server', 'start-dev', '--ip', LOOPBACK, '--log-level', 'warn', '--color', 'never'];
  parameters.push(
    '--port',
    String(ports.grpc),
    '--http-port',
    String(ports.http),
    '--metrics-port',
    String(ports.metrics),
  );
  parameters.push('--namespace', options.namespace ?? DEFAULT_NAMESPACE);
  if (options.ui ?? true) {
    parameters.push('--ui-port', String(ports.ui));
    if (executable.flags.disableNewsFetch) parameters.push('--ui-disable-news-fetch');
  } else {
    parameters.push('--headless');
  }
  if (options.persistence !== 'memory') parameters.push('--db-filename', options.persistence.file);
  for (const [key, value] of Object.entries(DYNAMIC_CONFIG))
    parameters.push('--dynamic-config-value', `${key}=${JSON.stringify(value)}`);
  for (const [name, type] of Object.entries(options.searchAttributes ?? SEARCH_ATTRIBUTES)) {
    parameters.push('--search-attribute', `${name}=${type}`);
  }
  return parameters;
}

function runningServer(
  child: ChildProcess,
  executable: TemporalExecutable,
  address: string,
  ports: Ports,
  namespace: string,
): DevServer {
  const { pid } = child;
  if (pid === undefined) throw new RunbookError('INTERNAL', 'The dev server serves but has no process ID.');
  // A program that forgets to stop the server must still be able to end; the guard then ends the server.
  child.unref();
  return {
    address,
    httpAddress: `http://${LOOPBACK}:${ports.http}`,
    uiAddress: `http://${LOOPBACK}:${ports.ui}`,
    namespace,
    pid,
    version: executable.version,
    stop: () => endProcess(child),
  };
}

interface WatchedProcess {
  /** The last lines that it wrote. */
  readonly output: string[];
  /** How it ended, once it has. */
  ended: string | undefined;
  /** Resolves at the next line, or at the end. */
  changed(): Promise<void>;
}

function watch(child: ChildProcess, log: ((line: string) => void) | undefined): WatchedProcess {
  let notify: () => void = () => undefined;
  const watched: WatchedProcess = {
    output: [],
    ended: undefined,
    changed: () => new Promise((resolve) => (notify = resolve)),
  };
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue;
    createInterface({ input: stream }).on('line', (line) => {
      if (line === '') return;
      watched.output.push(line);
      if (watched.output.length > KEPT_OUTPUT_LINES) watched.output.shift();
      log?.(line);
      notify();
    });
    if ('unref' in stream && typeof stream.unref === 'function') stream.unref();
  }
  child.once('error', (error) => {
    watched.ended ??= error.message;
    notify();
  });
  // `close` comes after the last line of output, `exit` may come before it.
  child.once('close', (code, signal) => {
    watched.ended ??= `it ended with ${signal ?? `exit code ${code}`}`;
    notify();
  });
  return watched;
}

/** Ends exactly this process, first politely, and waits until it is gone. */
async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  child.ref();
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const killer = setTimeout(() => child.kill('SIGKILL'), STOP_GRACE_MS);
  await gone;
  clearTimeout(killer);
}

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
