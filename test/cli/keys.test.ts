import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '../../src/secret';
import { parseSigningKey, readHolderKey, readPins, SealKeyring } from '../../src/secrets';
import { cli } from './support';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'keys-'));
});
afterAll(() => rm(directory, { recursive: true }));

const PASSPHRASE = 'canary-passphrase-of-ada';

describe('runbook keys', () => {
  it("init makes a person's key that the passphrase opens, and prints neither", async () => {
    const file = join(directory, 'ada.key');
    const { code, out, err, questions } = await cli(['keys', 'init', '--output', file], {
      answers: [PASSPHRASE, PASSPHRASE],
    });
    expect(code).toBe(0);
    expect(questions).toHaveLength(2);
    const key = await readHolderKey(await readFile(file, 'utf8'), new Secret('passphrase', PASSPHRASE));
    expect(out).toContain(`${key.kid}:${key.x}`);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(out + err).not.toContain('canary');
  });

  it('init refuses a short passphrase and two that differ, and makes nothing', async () => {
    const file = join(directory, 'none.key');
    expect((await cli(['keys', 'init', '--output', file], { answers: ['short'] })).code).toBe(3);
    expect((await cli(['keys', 'init', '--output', file], { answers: [PASSPHRASE, `${PASSPHRASE}2`] })).code).toBe(3);
    await expect(stat(file)).rejects.toThrow('ENOENT');
  });

  it('workers makes a signing key that trust pins; a key is never overwritten', async () => {
    const file = join(directory, 'workers.key');
    const pins = join(directory, 'pins.json');
    const made = await cli(['keys', 'workers', '--output', file, '--json']);
    expect(made.code).toBe(0);
    const { publicKey, fingerprint } = JSON.parse(made.out) as { publicKey: string; fingerprint: string };
    const key = parseSigningKey(new Secret('private-key', await readFile(file, 'utf8')));
    expect(publicKey).toBe(`${key.kid}:${key.x}`);

    const refused = await cli(['keys', 'trust', 'production', publicKey, '--pins', pins], { answers: ['no'] });
    expect(refused.code).toBe(3);
    expect(refused.err).toContain(fingerprint);
    expect(await readPins(pins)).toEqual([]);
    expect(
      (await cli(['keys', 'trust', 'production', publicKey], { answers: ['yes'], env: { RUNBOOKS_PINS: pins } })).code,
    ).toBe(0);
    expect((await readPins(pins)).map(({ kid, environment }) => [environment, kid])).toEqual([['production', key.kid]]);

    expect((await cli(['keys', 'workers', '--output', file])).code).toBe(3);
    expect(parseSigningKey(new Secret('private-key', await readFile(file, 'utf8'))).kid).toBe(key.kid);
  });

  it('seal makes an entry that the keyring takes, in a file and nowhere else', async () => {
    const file = join(directory, 'seal-keys');
    const { code, out, err } = await cli(['keys', 'seal', '--output', file, '--kid', 'k2026']);
    expect(code).toBe(0);
    const entry = (await readFile(file, 'utf8')).trim();
    expect(SealKeyring.parse(entry).sealingKid).toBe('k2026');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(out + err).not.toContain(entry.split(':')[1]);
  });

  it('trust refuses what is no public key', async () => {
    expect((await cli(['keys', 'trust', 'production', 'abc', '--yes', '--pins', join(directory, 'p.json')])).code).toBe(
      3,
    );
  });
});
