/** Files that another user of the host could change: what is trusted is what nobody but root and this user can write. */
import { chmod, chown, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { whyNotTrusted } from '../../src/inventory';

let directory: string;
let file: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trusted-files-'));
  await mkdir(join(directory, 'own'), { mode: 0o755 });
  file = join(directory, 'own', 'secret-id');
  await writeFile(file, 'x', { mode: 0o600 });
});
afterEach(() => rm(directory, { recursive: true }));

/** Only root can give a file away. */
const giveAway = (path: string) => (process.getuid?.() === 0 ? chown(path, 12_345, 12_345) : chmod(path, 0o666));

describe('a file', () => {
  it('is trusted if nobody else can write it, also behind a link; a missing one is no finding', async () => {
    const linked = join(directory, 'linked');
    await symlink(file, linked);
    for (const path of [file, linked, join(directory, 'absent')]) expect(await whyNotTrusted(path)).toBeUndefined();
  });

  it.each([
    ['that its group can write', () => chmod(file, 0o660), /secret-id: owner \d+, mode 660/],
    ['that everybody can write', () => chmod(file, 0o602), /secret-id: owner \d+, mode 602/],
    ['of another user', () => giveAway(file), /secret-id: owner (12345|\d+, mode 666)/],
    ['in a directory that others can change', () => chmod(join(directory, 'own'), 0o777), /own: owner \d+, mode 777/],
  ])('is not trusted if it is one %s', async (_what, prepare, why) => {
    await prepare();
    expect(await whyNotTrusted(file)).toMatch(why);
  });

  it('is trusted in a sticky directory, in which others can only add files', async () => {
    await chmod(join(directory, 'own'), 0o1777);
    expect(await whyNotTrusted(file)).toBeUndefined();
  });
});
