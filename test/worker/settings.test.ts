import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newSealKey, SealKeyring } from '../../src/keys';
import { workerSettings } from '../../src/worker/settings';

const ENV = { RUNBOOKS_INVENTORY: 'inventory.yaml', RUNBOOKS_SEAL_KEYS: 'k1:c2VjcmV0LWNhbmFyeQ==' };

function failure(env: NodeJS.ProcessEnv): unknown {
  try {
    return workerSettings(env);
  } catch (error) {
    return error;
  }
}

describe('settings of a worker', () => {
  it('has a default for everything but the inventory and the seal keys', () => {
    expect(workerSettings(ENV)).toMatchObject({
      keyStorage: 'memory',
      taskQueue: 'runbooks',
      logLevel: 'info',
    });
  });

  it.each([
    ['RUNBOOKS_INVENTORY', '', 'INVALID_INPUT'],
    ['RUNBOOKS_SEAL_KEYS', '', 'SEAL_KEY_MISSING'],
    ['RUNBOOKS_KEY_STORAGE', 'tape', 'INVALID_INPUT'],
    ['RUNBOOKS_LOG_LEVEL', 'loud', 'INVALID_INPUT'],
  ])('refuses %s=%j', (name, value, code) => {
    expect(failure({ ...ENV, [name]: value })).toMatchObject({
      code,
      message: expect.stringContaining(name) as string,
    });
  });

  it('reads seal keys from a file, one entry per line, the first one sealing', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'settings-'));
    const file = join(directory, 'seal-keys');
    await writeFile(file, `${newSealKey('new').reveal()}\n${newSealKey('old').reveal()}\n`);
    const { sealKeys } = workerSettings({ RUNBOOKS_INVENTORY: 'x', RUNBOOKS_SEAL_KEYS_FILE: file });
    const keyring = SealKeyring.parse(sealKeys.reveal());
    expect([keyring.sealingKid, keyring.derivedKey('old')?.length]).toEqual(['new', 32]);
    await rm(directory, { recursive: true });
  });

  it('never prints the seal keys', () => {
    expect(JSON.stringify(workerSettings(ENV))).not.toContain('c2VjcmV0');
  });
});
