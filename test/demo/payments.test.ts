import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { slotPath } from '../../src/cli/demo/clients';
import { startPayments } from '../../src/cli/demo/payments';
import type { Payments } from '../../src/cli/demo/payments';
import { loadInventory } from '../../src/inventory';
import { until } from '../support/by-hand';
import { temporaryDirectory } from '../support/directory';
import { Program } from '../support/program';
import { temporalServer } from '../support/temporal-server';

const reports = temporaryDirectory('reports');
let payments: Payments;
const start = () => startPayments({ reportDirectory: reports, taskQueue: 'unused', pace: 'quick' });
beforeAll(async () => {
  payments = await start();
});
afterAll(() => payments.stop());

async function ask(path: string, body?: object): Promise<number> {
  const options = body && { method: 'POST', body: JSON.stringify(body) };
  return (await fetch(`${payments.clientsAddress}${path}`, options)).status;
}
const runHook = (hook: string, to: string) => ask('/hooks', { hook, to, step: 'any' });
const probe = () => ask('/probe');

describe('the simulated deployment of the demonstration', () => {
  it('has an inventory without mistakes, and keeps every secret in a file that only its owner reads', async () => {
    const deployment = (await loadInventory(payments.inventoryFile)).deployments.get('payments');
    expect([deployment?.clusters.size, deployment?.ceremony.holders.length]).toEqual([5, 5]);
    const files = await readdir(payments.directory, { recursive: true, withFileTypes: true });
    for (const file of files.filter((entry) => entry.isFile() && entry.name !== 'runbook'))
      expect([file.name, (await stat(join(file.parentPath, file.name))).mode & 0o077]).toEqual([file.name, 0]);
  });

  it('hooks quiesce the clients, redirect them, and release them again; a DR secondary serves no writes', async () => {
    const { clients } = payments;
    // A write through the clients' address.
    expect(await probe()).toBe(200);
    expect(payments.service.cluster('east').read('kv/clients-probe')).toBeDefined();
    const untilWritten = async (): Promise<void> => {
      const before = clients.acknowledged;
      while (clients.acknowledged === before) await delay(5);
    };
    clients.startWriting();
    await untilWritten();
    expect(await runHook('quiesce', 'west')).toBe(200);
    const quiet = clients.acknowledged;
    await delay(100);
    expect(clients.acknowledged).toBe(quiet);
    expect(await runHook('traffic', 'west')).toBe(200);
    expect(await probe()).not.toBe(200);
    expect(await runHook('traffic', 'east')).toBe(200);
    expect(await probe()).toBe(200);
    expect(await runHook('release', 'east')).toBe(200);
    await untilWritten();
    await clients.stopWriting();
    const east = payments.service.cluster('east');
    for (const [slot, sequence] of clients.slots) expect(east.read(slotPath(slot))).toEqual({ sequence });
    expect([await runHook('fence', 'east'), await runHook('other', 'west')]).toEqual([200, 404]);
  });

  it('a person ends a cluster and restarts it from another process', async () => {
    const simulated = async (...words: readonly string[]): Promise<number | null> => {
      const child = spawn('sh', ['-c', payments.simulated, 'simulated', ...words], { stdio: 'ignore' });
      const [code] = (await once(child, 'exit')) as [number | null];
      return code;
    };
    expect(await simulated('kill', 'europe-dr')).toBe(0);
    const [address = ''] = payments.service.cluster('europe-dr').addresses;
    await expect(fetch(`${address}/v1/sys/health`)).rejects.toThrow('fetch failed');
    expect(await simulated('restart', 'europe-dr')).toBe(0);
    expect(await simulated('kill', 'atlantis')).not.toBe(0);
  });

  it('leaves only the reports behind', async () => {
    const other = await start();
    const keys = other.environment['RUNBOOKS_KEY_DIR'] ?? '';
    await other.stop();
    expect([existsSync(other.directory), existsSync(keys), existsSync(reports)]).toEqual([false, false, true]);
  });
});

describe('runbook dev', () => {
  const homes = temporaryDirectory('homes');
  const start = async (name: string) => {
    const { address, namespace } = temporalServer();
    const env = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace };
    const dev = new Program(join(homes, name), env, ['dev', '--reports', reports]);
    await dev.says('Ctrl-C here stops everything');
    return dev;
  };
  const leftBy = (name: string) => readdir(join(homes, name, 'tmp'));

  it('starts another worker if one is killed, and ends if one ends by itself', async () => {
    const dev = await start('failing');
    const workers = () => [...dev.output.matchAll(/^Worker +ready \(PID (\d+)\)$/gm)].map(([, pid]) => Number(pid));
    process.kill(workers()[0] ?? NaN, 'SIGKILL');
    await until('another worker', () => workers().length === 2 || dev.child.exitCode !== null);
    process.kill(workers()[1] ?? NaN, 'SIGTERM');
    expect(await dev.ended).toBe(1);
    expect(dev.output).toContain('The worker ended with SIGKILL.\nStarting another one, as systemd would.\n');
    expect(dev.output).toMatch(/The worker ended with 143\.\nStopping \.\.\.\n$/);
    expect(await leftBy('failing')).toEqual([]);
  });

  it('ends everything by Ctrl-C, without further output', async () => {
    const dev = await start('ended');
    dev.child.kill('SIGINT');
    expect(await dev.ended).toBe(130);
    expect(dev.output).toMatch(/Reports are kept\.\nStopping \.\.\.\n$/);
    expect(await leftBy('ended')).toEqual([]);
  });
});
