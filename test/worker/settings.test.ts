import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newSealKey, SealKeyring } from '../../src/keys';
import { connectionSettings, connectUntilClosed } from '../../src/worker/connection';
import { workerSettings } from '../../src/worker/settings';
import { cli } from '../cli/support';
import { temporaryDirectory } from '../support/directory';
import { temporalServer } from '../support/temporal-server';

const directory = temporaryDirectory('settings');
const file = join(directory, 'seal-keys');
const ENV = { RUNBOOKS_INVENTORY: 'inventory.yaml', RUNBOOKS_SEAL_KEYS_FILE: file };

beforeAll(() => writeFile(file, `${newSealKey('new').reveal()}\n${newSealKey('old').reveal()}\n`));

describe('settings of a worker', () => {
  it('has a default for everything but the inventory and the seal keys, and never prints those', () => {
    const empty = { RUNBOOKS_LOG_LEVEL: '', RUNBOOKS_TASK_QUEUE: '', TEMPORAL_ADDRESS: '', TEMPORAL_NAMESPACE: '' };
    for (const env of [ENV, { ...ENV, ...empty }]) {
      expect(workerSettings(env)).toMatchObject({ keyStorage: 'memory', taskQueue: 'runbooks', logLevel: 'info' });
      const { connectionOptions, namespace } = connectionSettings(env);
      expect([connectionOptions.address, namespace ?? 'default']).toEqual(['127.0.0.1:7233', 'default']);
    }
    expect(JSON.stringify(workerSettings(ENV).sealKeys)).toBe('"[redacted]"');
  });

  it.each([
    ['RUNBOOKS_INVENTORY', '', 'INVALID_INPUT'],
    ['RUNBOOKS_SEAL_KEYS_FILE', '', 'SEAL_KEY_MISSING'],
    ['RUNBOOKS_KEY_STORAGE', 'tape', 'INVALID_INPUT'],
    ['RUNBOOKS_LOG_LEVEL', 'loud', 'INVALID_INPUT'],
    ['RUNBOOKS_WORKER_METRICS', '9465', 'INVALID_INPUT'],
    ['RUNBOOKS_WORKER_METRICS', 'localhost:9465', 'INVALID_INPUT'],
    ['RUNBOOKS_WORKER_METRICS', '127.0.0.1:99999', 'INVALID_INPUT'],
  ])('refuses %s=%j', (name, value, code) => {
    const refused = expect.objectContaining({ code, message: expect.stringContaining(name) as string }) as Error;
    expect(() => workerSettings({ ...ENV, [name]: value })).toThrow(refused);
  });

  it('reads seal keys from a file alone, one entry per line, the first one sealing', () => {
    const keyring = SealKeyring.parse(workerSettings(ENV).sealKeys.reveal());
    expect([keyring.sealingKid, keyring.derivedKey('old')?.length]).toEqual(['new', 32]);
  });

  it.each([file, ''])('says where seal keys of a variable go, and does not ask for new ones: file %j', (named) => {
    const entry = newSealKey('left').reveal();
    const refused = () => workerSettings({ ...ENV, RUNBOOKS_SEAL_KEYS: entry, RUNBOOKS_SEAL_KEYS_FILE: named });
    expect(refused).toThrow(
      expect.objectContaining({
        message: expect.not.stringContaining(entry) as string,
        next: expect.stringMatching(/Put its entries into a file.*set RUNBOOKS_SEAL_KEYS_FILE.*unset/) as string,
      }) as Error,
    );
  });
});

describe('a connection to Temporal in plain text', () => {
  const plain = { TEMPORAL_ADDRESS: '0.0.0.0:1', RUNBOOKS_ALLOW_ROOT: 'yes' };
  const warning =
    /Warning: traffic to Temporal at 0\.0\.0\.0:1 can be read and changed on the network.*TEMPORAL_TLS=true/;

  it('across the network is reported by the worker before it starts, and by doctor', async () => {
    expect((await cli(['worker'], { env: plain })).err).toMatch(warning);
    const { out } = await cli(['doctor', '--json'], { env: plain });
    const { findings } = JSON.parse(out) as { readonly findings: readonly { readonly id: string }[] };
    expect(findings).toContainEqual(
      expect.objectContaining({
        id: 'network',
        verdict: 'warn',
        next: expect.stringContaining('TEMPORAL_TLS') as string,
      }),
    );
  });

  it.each([
    { TEMPORAL_ADDRESS: '127.0.0.1:1' },
    { TEMPORAL_ADDRESS: '[::1]:1' },
    { TEMPORAL_ADDRESS: 'localhost:1' },
    { TEMPORAL_TLS: 'true' },
    { TEMPORAL_API_KEY: 'makes-the-client-use-TLS' },
  ])('is allowed if no one can read it: %j', async (other) => {
    const { err } = await cli(['worker'], { env: { ...plain, ...other } });
    expect(err).toContain('RUNBOOKS_INVENTORY is not set');
    expect(err).not.toContain('on the network');
  });
});

it('a call of a closed connection, such as the retry of an earlier one, ends as canceled instead of throwing', async () => {
  const { connection, close } = await connectUntilClosed({ address: temporalServer().address });
  const list = () => connection.workflowService.listNamespaces({ pageSize: 1 });
  expect((await list()).namespaces).toHaveLength(1);
  await close();
  await expect(list()).rejects.toMatchObject({ code: 1, details: 'the connection is closed' });
});
