import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { slotPath } from '../../src/demo/clients';
import { startPayments } from '../../src/demo/payments';
import type { Payments } from '../../src/demo/payments';
import { loadInventory } from '../../src/inventory';

let reports: string;
let payments: Payments;
const start = () =>
  startPayments({ reportDirectory: reports, taskQueue: 'unused', namespace: 'default', pace: 'quick' });
beforeAll(async () => {
  reports = await mkdtemp(join(tmpdir(), 'reports-'));
  payments = await start();
});
afterAll(async () => {
  await payments.stop();
  await rm(reports, { recursive: true });
});

async function ask(path: string, body?: object): Promise<number> {
  const answer = await request(
    `${payments.clientsAddress}${path}`,
    body && { method: 'POST', body: JSON.stringify(body) },
  );
  await answer.body.dump();
  return answer.statusCode;
}
const runHook = (hook: string, to: string) => ask('/hooks', { hook, to, step: 'any' });
const probe = () => ask('/probe');

describe('the simulated deployment of the demonstration', () => {
  it('has an inventory without mistakes: five clusters in two DR sets, five holders', async () => {
    const deployment = (await loadInventory(payments.inventoryFile)).deployments.get('payments');
    expect([deployment?.clusters.size, deployment?.ceremony.holders.length]).toEqual([5, 5]);
    expect(deployment?.drSets.get('main')).toEqual(['east', 'west', 'north']);
  });

  it('keeps every secret in a file that only its owner reads', async () => {
    const files = await readdir(payments.directory, { recursive: true, withFileTypes: true });
    for (const file of files.filter((entry) => entry.isFile() && entry.name !== 'runbook'))
      expect([file.name, (await stat(join(file.parentPath, file.name))).mode & 0o077]).toEqual([file.name, 0]);
  });

  it('hooks quiesce the clients, lead them elsewhere, and let them write again; a DR secondary serves no writes', async () => {
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
      const [program, ...args] = payments.simulatedCommand;
      const [code] = (await once(spawn(program, [...args, ...words], { stdio: 'ignore' }), 'exit')) as [number | null];
      return code;
    };
    expect(await simulated('kill', 'europe-dr')).toBe(0);
    const [address = ''] = payments.service.cluster('europe-dr').addresses;
    await expect(request(`${address}/v1/sys/health`)).rejects.toThrow('ECONNREFUSED');
    expect(await simulated('restart', 'europe-dr')).toBe(0);
    expect(await simulated('kill', 'atlantis')).toBe(1);
  });

  it('leaves nothing behind but the reports', async () => {
    const other = await start();
    const keys = other.environment['RUNBOOKS_KEY_DIR'] ?? '';
    await other.stop();
    expect([existsSync(other.directory), existsSync(keys), existsSync(reports)]).toEqual([false, false, true]);
  });
});
