import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '../../src/secret';
import { findInvitation } from '../../src/holder';
import {
  DOCUMENT_TYPES,
  formatPublicKey,
  newSigningKey,
  parseSigningKey,
  readPins,
  signDocument,
} from '../../src/secrets';
import { cli } from './support';

describe("rotation of the workers' signing key", () => {
  let directory: string;
  const path = (name: string) => join(directory, name);
  const keyIn = async (name: string) =>
    parseSigningKey(new Secret('private-key', (await readFile(path(name), 'utf8')).trim()));
  const rotate = (from: string, to: string, ...more: string[]) => {
    const files = ['--key', path(from), '--output', path(to), '--statements', path('workers.statements')];
    return cli(['keys', 'rotate', ...files, ...more]);
  };
  const trust = (file = path('workers.statements')) =>
    cli(['keys', 'trust', '--statement', file, '--pins', path('pins.json')]);
  const pinned = async () => (await readPins(path('pins.json'))).map(({ kid }) => kid);

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'rotation-'));
    const made = await cli(['keys', 'workers', '--output', path('one.key'), '--json']);
    const { publicKey } = JSON.parse(made.out) as { readonly publicKey: string };
    expect((await cli(['keys', 'trust', 'production', publicKey, '--yes', '--pins', path('pins.json')])).code).toBe(0);
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('rotate makes a key and a statement, says what to do in which order, and prints nothing of a key', async () => {
    const { code, out, err } = await rotate('one.key', 'two.key');
    expect(code).toBe(0);
    const secret = /"d":"([^"]+)"/.exec(await readFile(path('two.key'), 'utf8'))?.[1] ?? '';
    expect(secret).toHaveLength(43);
    expect(out + err + (await readFile(path('workers.statements'), 'utf8'))).not.toContain(secret);
    expect((await stat(path('two.key'))).mode & 0o777).toBe(0o600);
    const until = /by the statement until (.*?);/.exec(out)?.[1] ?? 'none';
    expect(out).toContain(`a page made for the new key before ${until}`);
    expect(out).toMatch(
      /Wait until no ceremony is open[^]*statements:[^]*keys trust --statement[^]*Destroy the old key/,
    );
    expect((await rotate('one.key', 'two.key')).code).toBe(3);
    expect((await rotate('one.key', 'three.key', '--valid-for', '500')).code).toBe(3);
    await expect(stat(path('three.key'))).rejects.toThrow('ENOENT');
  });

  it('a holder takes a chain of two rotations by its file, without a question, and once', async () => {
    await rotate('one.key', 'two.key');
    await rotate('two.key', 'three.key');
    const { code, out, questions } = await trust();
    expect([code, questions]).toEqual([0, []]);
    expect(out).toContain('the one that you pinned vouches for it');
    const keys = await Promise.all(['one.key', 'two.key', 'three.key'].map(keyIn));
    expect(await pinned()).toEqual(keys.map(({ kid }) => kid));
    expect((await trust()).out).toContain('Nothing new');
  });

  it('refuses what no pinned key signed, and a file without a statement; nothing is pinned', async () => {
    await cli(['keys', 'workers', '--output', path('thief.key')]);
    const thief = ['--key', path('thief.key'), '--output', path('next.key'), '--statements', path('forged')];
    await cli(['keys', 'rotate', ...thief]);
    const before = await pinned();
    expect((await trust(path('forged'))).code).not.toBe(0);
    await writeFile(path('empty'), 'hello\n');
    const none = await trust(path('empty'));
    expect(none.code).not.toBe(0);
    expect(none.err).toContain('There is no statement');
    expect((await cli(['keys', 'trust', 'production', '--pins', path('pins.json')])).code).toBe(3);
    expect(await pinned()).toEqual(before);
  });

  it('distrust gives a key up: it counts no more, vouches for nothing, and is not pinned again by a statement', async () => {
    await rotate('one.key', 'two.key');
    await trust();
    const [, second = ''] = await pinned();
    const { out } = await trust();
    expect(out).toContain('Nothing new');
    const given = await cli(['keys', 'distrust', second, '--pins', path('pins.json')]);
    expect([given.code, given.out.includes('Still trusted')]).toEqual([0, true]);
    expect(await pinned()).not.toContain(second);
    expect((await trust()).code).not.toBe(0);
    expect((await cli(['keys', 'distrust', 'abc', '--pins', path('pins.json')])).code).toBe(3);
  });

  it('a key whose name begins with a hyphen is no option: it is pinned and given up like any other', async () => {
    let { key } = newSigningKey();
    while (!key.kid.startsWith('-')) ({ key } = newSigningKey());
    const words = ['--yes', '--pins', path('pins.json')];
    expect((await cli(['keys', 'trust', 'production', formatPublicKey(key), ...words])).code).toBe(0);
    expect(await pinned()).toContain(key.kid);
    expect((await cli(['keys', 'distrust', key.kid, '--pins', path('pins.json')])).code).toBe(0);
    expect(await pinned()).not.toContain(key.kid);
  });

  it('statements travel with the invitation, and are told from it', async () => {
    await rotate('one.key', 'two.key');
    const statement = (await readFile(path('workers.statements'), 'utf8')).trim();
    const invitation = await signDocument(DOCUMENT_TYPES.invitation, { any: 'thing' }, newSigningKey().key);
    const found = findInvitation(`${invitation}\n${statement}\n`);
    expect(found).toEqual({ jws: invitation, keys: [], statements: [statement] });
    expect(findInvitation(`["${invitation}"]`).statements).toEqual([]);
    expect(() => findInvitation(`${statement}\n${statement.replace('eyJ', 'eyJ')}`)).toThrow();
  });
});
