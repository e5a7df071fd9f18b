import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';

const REFRESH_MS = 2_000;
/** A lock that its holder has not refreshed for so long belongs to a process that is gone. */
const STALE_MS = 30_000;
const POLL_MS = 500;

interface Owner {
  readonly host: string;
  readonly pid: number;
}

/**
 * Runs `work` while holding the lock directory `path`, so that two processes do not build the same thing at once.
 * A lock left by a process that was killed is taken over. The lock saves work; the rename of the finished file is what
 * keeps the result right.
 *
 * @param onWait called about every five seconds while another process holds the lock, with the seconds waited so far.
 */
export async function withBuildLock<T>(
  path: string,
  onWait: (seconds: number, holder: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  const begin = Date.now();
  let reported = begin;
  while (!(await tryToLock(path))) {
    await removeIfStale(path);
    if (Date.now() - reported >= 5_000) {
      reported = Date.now();
      const owner = await readOwner(path);
      const holder = owner === undefined ? 'another process' : `process ${owner.pid} on ${owner.host}`;
      onWait(Math.round((reported - begin) / 1000), holder);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  const refresh = setInterval(() => {
    const now = new Date();
    // A lock that was lost is noticed by nobody on purpose: two builds are slower, not wrong.
    utimes(path, now, now).catch(() => undefined);
  }, REFRESH_MS);
  refresh.unref();
  try {
    return await work();
  } finally {
    clearInterval(refresh);
    await rm(path, { recursive: true, force: true });
  }
}

async function tryToLock(path: string): Promise<boolean> {
  try {
    await mkdir(path);
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    throw error;
  }
  const owner: Owner = { host: hostname(), pid: process.pid };
  await writeFile(join(path, 'owner.json'), JSON.stringify(owner));
  return true;
}

async function removeIfStale(path: string): Promise<void> {
  const [owner, facts] = await Promise.all([readOwner(path), stat(path).catch(() => undefined)]);
  if (facts === undefined) return;
  const abandoned = Date.now() - facts.mtimeMs > STALE_MS || (owner?.host === hostname() && !isAlive(owner.pid));
  if (!abandoned) return;
  // Only one of several waiting processes can rename it, and none removes a lock that was taken meanwhile.
  const aside = `${path}.stale-${randomUUID()}`;
  await rename(path, aside).then(
    () => rm(aside, { recursive: true, force: true }),
    () => undefined,
  );
}

async function readOwner(path: string): Promise<Owner | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(join(path, 'owner.json'), 'utf8'));
    if (typeof value !== 'object' || value === null || !('host' in value) || !('pid' in value)) return undefined;
    const { host, pid } = value;
    return typeof host === 'string' && typeof pid === 'number' ? { host, pid } : undefined;
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) === 'EPERM';
  }
}

/** The code of a system error. (`instanceof` would fail where modules run in a context of their own, as under Jest.) */
function errorCode(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
}
