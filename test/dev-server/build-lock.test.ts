import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { withBuildLock } from '../../src/dev-server/build-lock';

describe('withBuildLock', () => {
  let directory: string;
  let lock: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'build-lock-'));
    lock = join(directory, 'lock');
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  it('lets one work at a time', async () => {
    let working = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      working += 1;
      most = Math.max(most, working);
      await new Promise((resolve) => setTimeout(resolve, 20));
      working -= 1;
    };
    await Promise.all([1, 2, 3].map(() => withBuildLock(lock, () => undefined, work)));
    expect(most).toBe(1);
    expect(existsSync(lock)).toBe(false);
  });

  it('is free again after work that failed', async () => {
    const failing = withBuildLock(
      lock,
      () => undefined,
      () => Promise.reject(new Error('broken')),
    );
    await expect(failing).rejects.toThrow('broken');
    await expect(
      withBuildLock(
        lock,
        () => undefined,
        () => Promise.resolve('next'),
      ),
    ).resolves.toBe('next');
  });

  it('takes over the lock of a process that is gone', async () => {
    const { pid } = spawnSync(process.execPath, ['--version']);
    await mkdir(lock);
    await writeFile(join(lock, 'owner.json'), JSON.stringify({ host: hostname(), pid }));
    await expect(
      withBuildLock(
        lock,
        () => undefined,
        () => Promise.resolve('done'),
      ),
    ).resolves.toBe('done');
  });
});
