import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Secret } from '../../src/secret';
import {
  formatPublicKey,
  newSigningKey,
  importSigningKey,
  readPins,
  SealKeyring,
  spokenFingerprint,
} from '../../src/keys';
import { temporaryDirectory } from '../support/directory';
import { cli } from './support';

const directory = temporaryDirectory('keys');

describe('runbook keys', () => {
  it('workers makes a signing key that trust pins; a key is never overwritten', async () => {
    const file = join(directory, 'workers.key');
    const pins = join(directory, 'pins.json');
    const made = await cli(['keys', 'workers', '--output', file, '--json']);
    expect(made.code).toBe(0);
    const { publicKey, fingerprint } = JSON.parse(made.out) as { publicKey: string; fingerprint: string };
    const key = await importSigningKey(new Secret('private-key', await readFile(file, 'utf8')));
    expect(publicKey).toBe(`${key.kid}:${key.x}`);

    const env = { RUNBOOKS_PINS: pins };
    const refused = await cli(['keys', 'trust', 'production', publicKey], { answers: ['no'], env });
    expect(refused.code).toBe(3);
    expect(refused.err).toContain(fingerprint);
    expect(await readPins(pins)).toEqual([]);
    expect((await cli(['keys', 'trust', 'production', publicKey], { answers: ['yes'], env })).code).toBe(0);
    expect((await readPins(pins)).map(({ kid, environment }) => [environment, kid])).toEqual([['production', key.kid]]);

    expect((await cli(['keys', 'workers', '--output', file])).code).toBe(3);
    expect((await importSigningKey(new Secret('private-key', await readFile(file, 'utf8')))).kid).toBe(key.kid);
  });

  it('seal makes an entry that the keyring accepts, in a file and nowhere else', async () => {
    const file = join(directory, 'seal-keys');
    const { code, out, err } = await cli(['keys', 'seal', '--output', file]);
    expect(code).toBe(0);
    const entry = (await readFile(file, 'utf8')).trim();
    expect(out).toContain(`Entry "${SealKeyring.parse(entry).sealingKid}"`);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(out + err).not.toContain(entry.split(':')[1]);
  });
});

describe('a new signing key of the workers', () => {
  const { key: first } = newSigningKey();
  const { key: second } = newSigningKey();
  let file: string;
  const keys = (words: readonly string[], answers?: readonly string[]) =>
    cli(['keys', ...words], { env: { RUNBOOKS_PINS: file }, ...(answers && { answers }) });
  const pinned = async () => (await readPins(file)).map(({ kid }) => kid);

  beforeEach(async () => {
    file = join(directory, `pins-${newSigningKey().key.kid}`);
    expect((await keys(['trust', 'production', formatPublicKey(first), '--yes'])).code).toBe(0);
  });

  it('is pinned again, beside the earlier one: both fingerprints are shown before, and how to give the earlier one up', async () => {
    const trust = ['trust', 'production', formatPublicKey(second)];
    const refused = await keys(trust, ['no']);
    expect(refused.code).toBe(3);
    expect(await pinned()).toEqual([first.kid]);
    const { code, out, err } = await keys(trust, ['yes']);
    expect(code).toBe(0);
    expect(err).toContain(`Already pinned for "production": ${spokenFingerprint(first.kid)}. The new key is DIFFERENT`);
    expect(err).toContain(spokenFingerprint(second.kid));
    expect(out).toContain(`runbook keys distrust ${first.kid}`);
    expect(await pinned()).toEqual([first.kid, second.kid]);
    // Nobody is asked about a key that is pinned already.
    expect(await keys(trust)).toMatchObject({ code: 0, questions: [] });
  });

  it('distrust gives a key up: it no longer counts', async () => {
    await keys(['trust', 'production', formatPublicKey(second), '--yes']);
    const given = await keys(['distrust', spokenFingerprint(first.kid)]);
    expect([given.code, given.out.includes(`Still trusted: ${spokenFingerprint(second.kid)}`)]).toEqual([0, true]);
    expect(await pinned()).toEqual([second.kid]);
    expect((await keys(['distrust', first.kid])).code).not.toBe(0);
    for (const verb of [['trust', 'production'], ['distrust']]) expect((await keys([...verb, 'abc'])).code).toBe(3);
  });

  it('a key whose name begins with a hyphen is no option: it is pinned and given up like any other', async () => {
    let { key } = newSigningKey();
    while (!key.kid.startsWith('-')) ({ key } = newSigningKey());
    expect((await keys(['trust', 'production', formatPublicKey(key), '--yes'])).code).toBe(0);
    expect(await pinned()).toContain(key.kid);
    expect((await keys(['distrust', key.kid])).code).toBe(0);
    expect(await pinned()).not.toContain(key.kid);
  });
});
