/** The metrics of a worker itself, which only one setting turns on. In a process of its own: the SDK has one runtime. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { workerSettings } from '../../src/worker/settings';
import { until } from '../support/by-hand';
import { ROOT } from '../support/documents';

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Installs the runtime as a worker does, and records outages as a run does. */
const PROGRAM = `
  const { Runtime } = require('@temporalio/worker');
  const { createLogger } = require('./src/worker/logging');
  const { installLogger } = require('./src/worker/sdk-logging');
  const { OUTAGE_METRIC } = require('./src/contracts/names');
  installLogger(createLogger('silent'), process.argv[1] || undefined);
  const histogram = Runtime.instance().metricMeter.createHistogram(OUTAGE_METRIC, 'float');
  for (const seconds of [4, 45, 200]) histogram.record(seconds, { deployment: 'payments', runbook: 'drFailover' });
  console.log('installed');
  setInterval(() => undefined, 1000);
`;

async function started(address: string) {
  const words = ['-r', './scripts/register-typescript.cjs', '-e', PROGRAM, '--', address];
  const child = spawn(process.execPath, words, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => void (said += chunk.toString()));
  await until('the runtime is installed', () => said.includes('installed'));
  return {
    end: async () => {
      child.kill('SIGKILL');
      await once(child, 'close');
    },
  };
}

const reached = (port: number) =>
  fetch(`http://127.0.0.1:${port}/metrics`).then(
    (response) => response.text(),
    () => undefined,
  );

it('the setting opens the port, with buckets in which outages differ; without it there is no port', async () => {
  const port = await freePort();
  const without = await started('');
  try {
    expect(await reached(port)).toBeUndefined();
  } finally {
    await without.end();
  }
  const worker = await started(`127.0.0.1:${port}`);
  try {
    let text = '';
    await until('it exports', async () =>
      (text = (await reached(port)) ?? '').includes('runbooks_outage_seconds_bucket'),
    );
    const bucket = (le: string) =>
      new RegExp(`runbooks_outage_seconds_bucket\\{[^}]*le="${le}"[^}]*\\} (\\d+)`).exec(text)?.[1];
    expect(['2.5', '5', '30', '60', '120', '300', '\\+Inf'].map(bucket)).toEqual(['0', '1', '1', '2', '2', '3', '3']);
    expect(text).toMatch(/runbooks_outage_seconds_sum\{deployment="payments",runbook="drFailover"[^}]*\} 249/);
  } finally {
    await worker.end();
  }
});

it('a worker opens no port unless it is configured', () => {
  const env = { RUNBOOKS_INVENTORY: 'inventory.yaml', RUNBOOKS_SEAL_KEYS_FILE: join(ROOT, 'package.json') };
  expect(workerSettings(env).metricsAddress).toBeUndefined();
  expect(workerSettings({ ...env, RUNBOOKS_WORKER_METRICS: '' }).metricsAddress).toBeUndefined();
  expect(workerSettings({ ...env, RUNBOOKS_WORKER_METRICS: '[::1]:9465' }).metricsAddress).toBe('[::1]:9465');
});
