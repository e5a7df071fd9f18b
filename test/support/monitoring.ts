import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { delimiter, dirname, join } from 'node:path';
import { until } from './by-hand';

/** Path of a program of Debian's packages prometheus and prometheus-alertmanager; undefined if there is none. */
export function findMonitoring(
  name: 'prometheus' | 'promtool' | 'prometheus-alertmanager',
  env: NodeJS.ProcessEnv = process.env,
): string | undefined {
  const { PROMETHEUS: given = '', PATH: path = '' } = env;
  if (given !== '' && name === 'prometheus') return given;
  // Elsewhere, Alertmanager is not named after Prometheus.
  const names = name === 'prometheus-alertmanager' ? [name, 'alertmanager'] : [name];
  const folders = [...(given === '' ? [] : [dirname(given)]), ...path.split(delimiter).filter(Boolean)];
  return folders.flatMap((folder) => names.map((each) => join(folder, each))).find((each) => existsSync(each));
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** A server of Prometheus or Alertmanager on loopback. */
export interface MonitoringServer {
  /** `host:port` */
  readonly address: string;
  /** The answer to a GET of its API, as JSON. */
  get(path: string): Promise<unknown>;
  stop(): Promise<void>;
}

/** Starts the program and waits until it is ready. */
export async function startMonitoring(program: string, words: readonly string[]): Promise<MonitoringServer> {
  const address = `127.0.0.1:${await freePort()}`;
  const child = spawn(program, [`--web.listen-address=${address}`, ...words], { stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  child.stderr.on('data', (chunk: Buffer) => void (output += chunk.toString()));
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL');
    await closed;
  };
  const isReady = async (): Promise<boolean> => {
    if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}: ${output}`);
    return fetch(`http://${address}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  };
  try {
    await until(`${program} is ready`, isReady);
  } catch (error) {
    await stop();
    throw error;
  }
  const get = async (path: string): Promise<unknown> => (await fetch(`http://${address}${path}`)).json();
  return { address, get, stop };
}
