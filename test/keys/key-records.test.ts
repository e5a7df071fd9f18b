import { createHash } from 'node:crypto';
import {
  chmod,
  chown,
  link,
  lutimes,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { KeyRecords } from '../../src/keys/key-records';
import type { NewKeyRecord } from '../../src/keys/key-records';
import { CID, DIGEST, failureOf, record, RUN, sharedCeremonyKeys } from './builders';

const NOW = 1_900_000_000_000;
/** As `RUN` names its files. */
const OF_RUN = createHash('sha256')
  .update(JSON.stringify([RUN.ns, RUN.wid, RUN.rid]))
  .digest('hex')
  .slice(0, 32);
const NAME = { run: RUN, cid: CID, epoch: 1 };
const TMPFS = async () => 0x01021994;
let directory: string;
let records: KeyRecords;

async function entry(changes: Partial<NewKeyRecord> = {}): Promise<NewKeyRecord> {
  const { state: _state, destroyAfter: _after, ...created } = record(await sharedCeremonyKeys());
  return { ...created, exp: NOW / 1000 + 1800, useFor: 600, ...changes };
}

beforeEach(async () => {
  directory = join(await mkdtemp(join(tmpdir(), 'key-records-')), 'keys');
  records = await KeyRecords.open({ directory, storage: 'memory', fileSystemType: TMPFS });
});
afterEach(() => rm(join(directory, '..'), { recursive: true }));

describe('the key directory', () => {
  it('must be on a tmpfs if memory is required', async () => {
    const ext4 = async () => 0xef53;
    const failure = await failureOf(() => KeyRecords.open({ directory, storage: 'memory', fileSystemType: ext4 }));
    expect(failure.code).toBe('KEY_STORAGE_REFUSED');
  });

  it('says best-effort on a disk, and the kernel decides', async () => {
    const onDisk = await KeyRecords.open({ directory, storage: 'disk' });
    expect([records.erasure, onDisk.erasure]).toEqual(['memory', 'best-effort']);
    const real = await failureOf(() => KeyRecords.open({ directory: '/proc/self', storage: 'memory' }));
    expect(real.code).toBe('KEY_STORAGE_REFUSED');
  });

  it.each([
    ['that others may read', async (path: string) => chmod(path, 0o750), /mode 750/],
    ['that others may write', async (path: string) => chmod(path, 0o722), /mode 722/],
    // Only root can give a directory away.
    [
      'of another user',
      (path: string) => (process.getuid?.() === 0 ? chown(path, 12_345, 12_345) : chmod(path, 0o755)),
      /owner 12345|mode 755/,
    ],
  ])('is refused if it is one %s', async (_what, prepare, observed) => {
    const other = join(directory, '..', 'made-first');
    await mkdir(other, { mode: 0o700 });
    await prepare(other);
    const failure = await failureOf(() => KeyRecords.open({ directory: other, storage: 'disk' }));
    expect([failure.code, failure.text]).toEqual(['KEY_STORAGE_REFUSED', expect.stringMatching(observed)]);
  });

  it('is refused behind a link, and below a directory in which others can replace it', async () => {
    const beside = join(directory, '..', 'beside');
    await symlink(directory, beside);
    expect(await failureOf(() => KeyRecords.open({ directory: beside, storage: 'disk' }))).toMatchObject({
      ...{ code: 'KEY_STORAGE_REFUSED', text: expect.stringContaining('not a directory itself') as string },
    });
    await chmod(join(directory, '..'), 0o777);
    expect(await failureOf(() => KeyRecords.open({ directory, storage: 'disk' }))).toMatchObject({
      ...{ code: 'KEY_STORAGE_REFUSED', text: expect.stringContaining('sticky') as string },
    });
    await chmod(join(directory, '..'), 0o1777);
    await KeyRecords.open({ directory, storage: 'disk' });
  });

  it('neither overwrites nor reads the target of a planted link: only the link is removed', async () => {
    const seal = join(directory, '..', 'seal-keys');
    await writeFile(seal, 'the seal keys');
    const planted = [`.tmp-${'0'.repeat(8)}`, `${CID}.1.${OF_RUN}.key`].map((name) => join(directory, name));
    for (const path of planted) await symlink(seal, path);
    await lutimes(planted[0] ?? '', 1, 1);
    await records.destroy(NAME);
    await records.sweep(NOW, () => Promise.resolve(false));
    expect(await readFile(seal, 'utf8')).toBe('the seal keys');
    expect(await readdir(directory)).toEqual(['key-home']);
  });

  it('stays at its place, also if a link above it is changed later', async () => {
    const base = join(directory, '..');
    const real = join(base, 'real');
    const elsewhere = join(base, 'elsewhere');
    await mkdir(join(real, 'keys'), { recursive: true, mode: 0o700 });
    await mkdir(join(elsewhere, 'keys'), { recursive: true, mode: 0o700 });
    const way = join(base, 'way');
    await symlink(real, way);
    const opened = await KeyRecords.open({ directory: join(way, 'keys'), storage: 'disk' });
    await rm(way);
    await symlink(elsewhere, way);
    await opened.create(await entry());
    expect(await readdir(join(elsewhere, 'keys'))).toEqual([]);
    expect((await readdir(join(real, 'keys'))).sort()).toEqual([`${CID}.1.${OF_RUN}.key`, 'key-home']);
  });

  it('is refused below a directory of another user', async () => {
    const isRoot = process.getuid?.() === 0;
    const above = join(directory, '..', 'above');
    await mkdir(join(above, 'keys'), { recursive: true, mode: 0o700 });
    await (isRoot ? chown(above, 12_345, 12_345) : chmod(above, 0o777));
    const failure = await failureOf(() => KeyRecords.open({ directory: join(above, 'keys'), storage: 'disk' }));
    expect([failure.code, failure.text]).toEqual(['KEY_STORAGE_REFUSED', expect.stringContaining(above)]);
  });

  it('reports the owner of a directory that it cannot enter, and what is needed', async () => {
    await chmod(join(directory, '..'), 0o755);
    const above = join(directory, '..', 'made-first');
    await mkdir(above, { mode: 0o700 });
    // Root enters every directory: as root, this test becomes another user meanwhile.
    const isRoot = process.getuid?.() === 0;
    await (isRoot ? undefined : chmod(above, 0));
    if (isRoot) process.seteuid?.(12_345);
    const opened = KeyRecords.open({ directory: join(above, 'keys'), storage: 'memory' });
    const failure = await opened.catch((error: unknown) => error).finally(() => isRoot && process.seteuid?.(0));
    await chmod(above, 0o700);
    expect(failure).toMatchObject({
      code: 'KEY_STORAGE_REFUSED',
      message: expect.stringContaining(join(above, 'keys')) as string,
      observed: expect.stringMatching(
        isRoot ? /made-first: owner 0, mode 700 \(EACCES\)/ : /mode 0 \(EACCES\)/,
      ) as string,
      needed: expect.stringContaining(isRoot ? 'user 12345 with mode 700' : 'with mode 700') as string,
      next: expect.stringContaining('Set RUNBOOKS_KEY_DIR') as string,
    });
  });

  it('has one identifier, also if two workers open it at the same moment', async () => {
    const fresh = join(directory, 'fresh');
    const opened = await Promise.all(
      Array.from({ length: 8 }, () => KeyRecords.open({ directory: fresh, storage: 'disk' })),
    );
    expect(new Set(opened.map(({ keyHome }) => keyHome)).size).toBe(1);
    expect(opened[0]?.keyHome).toMatch(/^[0-9a-f]{16}$/);
    expect((await stat(fresh)).mode & 0o777).toBe(0o700);
  });

  it('is refused if key-home holds other content', async () => {
    await writeFile(join(directory, 'key-home'), '../../elsewhere');
    expect((await failureOf(() => KeyRecords.open({ directory, storage: 'disk' }))).code).toBe('KEY_STORAGE_REFUSED');
  });
});

describe('key records', () => {
  it('come back as they were stored, from a file that only its owner reads, and print no private key', async () => {
    const created = await records.create(await entry());
    const read = await records.read(NAME, NOW);
    expect(read).toEqual(created);
    expect(read.keys.identity.reveal()).toBe((await sharedCeremonyKeys()).identity.reveal());
    expect(read).toMatchObject({ state: 'collecting', invitationDigest: DIGEST, run: RUN });
    const printed = inspect(read, { depth: 9, showHidden: true }) + JSON.stringify(read);
    expect(printed).not.toMatch(/AGE-SECRET-KEY|PGP PRIVATE KEY/);
    expect((await stat(join(directory, `${CID}.1.${OF_RUN}.key`))).mode & 0o777).toBe(0o600);
    expect((await readdir(directory)).filter((name) => name.startsWith('.'))).toEqual([]);
  });

  it('are never replaced: an epoch has exactly one invitation', async () => {
    await records.create(await entry());
    const failure = await failureOf(async () => records.create(await entry({ invitation: 'another' })));
    expect(failure.code).toBe('STATE_DIVERGED');
    expect((await records.read(NAME, NOW)).invitation).toBe('not looked at here');
  });

  it('are kept until the collecting ends plus useFor, and from the first burst for useFor', async () => {
    const { exp, destroyAfter } = await records.create(await entry());
    expect(destroyAfter).toBe(exp + 600);
    const burst = await records.markFirstBurst(NAME, NOW + 60_000);
    expect(burst).toMatchObject({ state: 'bursting', firstBurst: NOW / 1000 + 60, destroyAfter: NOW / 1000 + 660 });
    const second = await records.markFirstBurst(NAME, NOW + 120_000);
    expect(second.destroyAfter).toBe(burst.destroyAfter);
    await expect(records.read(NAME, NOW + 659_000)).resolves.toBeDefined();
    expect((await failureOf(() => records.read(NAME, NOW + 660_000))).code).toBe('KEY_RECORD_MISSING');
  });

  it('are gone after they were destroyed, which may be repeated', async () => {
    await records.create(await entry());
    await records.markFirstBurst(NAME, NOW);
    expect(await records.destroy(NAME)).toBe(true);
    expect(await records.destroy(NAME)).toBe(false);
    expect(await readdir(directory)).toEqual(['key-home']);
    expect((await failureOf(() => records.read(NAME, NOW))).code).toBe('KEY_RECORD_MISSING');
    expect((await failureOf(() => records.markFirstBurst(NAME, NOW))).code).toBe('KEY_RECORD_MISSING');
  });

  it('are overwritten before their name is removed: a second name of the file shows no key', async () => {
    await records.create(await entry());
    await link(join(directory, `${CID}.1.${OF_RUN}.key`), join(directory, 'witness'));
    await records.destroy(NAME);
    const left = await readFile(join(directory, 'witness'), 'latin1');
    expect(left.length).toBeGreaterThan(1000);
    expect(left).not.toContain('AGE-SECRET-KEY');
  });

  it.each([
    ['../../etc/passwd', 1],
    [CID, 1.5],
    [CID, -1],
    [`${CID}/..`, 1],
  ])('are not found under an invalid name: %s %s', async (cid, epoch) => {
    expect((await failureOf(() => records.read({ run: RUN, cid, epoch }))).code).toBe('KEY_RECORD_MISSING');
    expect((await failureOf(() => records.destroy({ run: RUN, cid, epoch }))).code).toBe('KEY_RECORD_MISSING');
  });

  it('are listed by run, newest epoch first', async () => {
    await records.create(await entry());
    await records.create(await entry({ epoch: 2 }));
    await records.create(await entry({ epoch: 3, run: { ...RUN, rid: 'other' } }));
    expect((await records.ofRun(RUN, NOW)).map(({ epoch }) => epoch)).toEqual([2, 1]);
  });
});

describe('the sweep', () => {
  const open = async () => false;

  it('destroys keys that have expired, are of closed runs, or are unreadable, and no others', async () => {
    await records.create(await entry({ epoch: 1 }));
    await records.create(await entry({ epoch: 2, exp: NOW / 1000 - 700 }));
    await records.create(await entry({ epoch: 3, run: { ...RUN, rid: 'closed' } }));
    await writeFile(join(directory, `${CID}.4.${OF_RUN}.key`), '{"cut off');
    const destroyed = await records.sweep(NOW, async (_wid, rid) => rid === 'closed');
    expect(destroyed).toEqual([
      { cid: CID, epoch: 2, why: 'expired' },
      { cid: CID, epoch: 3, why: 'run-closed' },
      { cid: CID, epoch: 4, why: 'unreadable' },
    ]);
    expect((await readdir(directory)).sort()).toEqual([`${CID}.1.${OF_RUN}.key`, 'key-home']);
    expect(await records.sweep(NOW, open)).toEqual([]);
  });

  it('continues without Temporal: expired keys are removed, the rest waits', async () => {
    await records.create(await entry({ epoch: 1 }));
    await records.create(await entry({ epoch: 2, exp: NOW / 1000 - 700 }));
    const unreachable = async () => Promise.reject(new Error('no server'));
    expect(await records.sweep(NOW, unreachable)).toEqual([{ cid: CID, epoch: 2, why: 'expired' }]);
    await expect(records.read(NAME, NOW)).resolves.toBeDefined();
  });

  it('erases partial files that a lost process left behind, and not the one that is being written', async () => {
    await writeFile(join(directory, '.tmp-old'), 'AGE-SECRET-KEY');
    await writeFile(join(directory, '.tmp-new'), 'AGE-SECRET-KEY');
    await utimes(join(directory, '.tmp-old'), NOW / 1000 - 120, NOW / 1000 - 120);
    await utimes(join(directory, '.tmp-new'), NOW / 1000, NOW / 1000);
    await records.sweep(NOW, open);
    expect((await readdir(directory)).sort()).toEqual(['.tmp-new', 'key-home']);
  });
});
