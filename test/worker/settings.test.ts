import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newSealKey, SealKeyring } from '../../src/keys';
import { connectionSettings, workerSettings } from '../../src/worker/settings';
import { temporaryDirectory } from '../support/directory';

const directory = temporaryDirectory('settings');
const ENV = { RUNBOOKS_INVENTORY: 'inventory.yaml', RUNBOOKS_SEAL_KEYS: 'k1:c2VjcmV0LWNhbmFyeQ==' };

describe('settings of a worker', () => {
  it('has a default for everything but the inventory and the seal keys, and never prints those', () => {
    const empty = { RUNBOOKS_LOG_LEVEL: '', RUNBOOKS_TASK_QUEUE: '', TEMPORAL_ADDRESS: '', TEMPORAL_NAMESPACE: '' };
    for (const env of [ENV, { ...ENV, ...empty }]) {
      expect(workerSettings(env)).toMatchObject({ keyStorage: 'memory', taskQueue: 'runbooks', logLevel: 'info' });
      const { connectionOptions, namespace } = connectionSettings({ TEMPORAL_CONFIG_FILE: '/nonexistent', ...env });
      expect([connectionOptions.address, namespace ?? 'default']).toEqual(['127.0.0.1:7233', 'default']);
    }
    expect(JSON.stringify(workerSettings(ENV))).not.toContain('c2VjcmV0');
  });

  it.each([
    ['RUNBOOKS_INVENTORY', '', 'INVALID_INPUT'],
    ['RUNBOOKS_SEAL_KEYS', '', 'SEAL_KEY_MISSING'],
    ['RUNBOOKS_KEY_STORAGE', 'tape', 'INVALID_INPUT'],
    ['RUNBOOKS_LOG_LEVEL', 'loud', 'INVALID_INPUT'],
  ])('refuses %s=%j', (name, value, code) => {
    const refused = expect.objectContaining({ code, message: expect.stringContaining(name) as string }) as Error;
    expect(() => workerSettings({ ...ENV, [name]: value })).toThrow(refused);
  });

  it('reads seal keys from a file, one entry per line, the first one sealing', async () => {
    const file = join(directory, 'seal-keys');
    await writeFile(file, `${newSealKey('new').reveal()}\n${newSealKey('old').reveal()}\n`);
    const { sealKeys } = workerSettings({ RUNBOOKS_INVENTORY: 'x', RUNBOOKS_SEAL_KEYS_FILE: file });
    const keyring = SealKeyring.parse(sealKeys.reveal());
    expect([keyring.sealingKid, keyring.derivedKey('old')?.length]).toEqual(['new', 32]);
  });
});
