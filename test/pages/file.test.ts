/** The holder's page as a file: the same sources give the same bytes, which need nothing and allow nothing else. */
import { createHash } from 'node:crypto';
import { cp, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { buildPage, writePage } from '../../scripts/bundle-pages';
import type { BuiltPage } from '../../scripts/bundle-pages';
import { fillPage } from '../../src/cli/commands/share';
import { projectRoot } from '../../src/dev-server/locations';
import { formatPublicKey, newSigningKey, spokenFingerprint } from '../../src/keys';
import { cli } from '../cli/support';
import { temporaryDirectory } from '../support/directory';

const directory = temporaryDirectory('pages-as-files');
const hashOf = (text: string, form: 'hex' | 'base64') => createHash('sha256').update(text).digest(form);
const policyOf = (html: string) =>
  /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html)?.[1]?.split('; ') ?? [];

const CONNECTIONS = {
  'holder-page': "'none'",
  'approver-page': 'https: http://localhost:* http://127.0.0.1:*',
} as const;

describe.each(['holder-page', 'approver-page'] as const)('%s as a file', (name) => {
  let built: BuiltPage;
  beforeAll(async () => {
    built = await buildPage(name);
  });

  it('is built twice with the same bytes; its hash lies beside it in the form that sha256sum checks', async () => {
    const file = join(directory, `${name}.html`);
    const again = await writePage(name, file);
    expect(again.sha256).toBe(built.sha256);
    const html = await readFile(file, 'utf8');
    expect(html === built.html).toBe(true);
    expect(await readFile(`${file}.sha256`, 'utf8')).toBe(`${hashOf(html, 'hex')}  ${name}.html\n`);
  });

  it('has the same bytes from sources in another folder, so that anyone with the sources can check a published one', async () => {
    const elsewhere = join(directory, `elsewhere-${name}`);
    for (const part of ['src', 'package.json', 'tsconfig.json'])
      await cp(join(projectRoot(), part), join(elsewhere, part), { recursive: true });
    await symlink(join(projectRoot(), 'node_modules'), join(elsewhere, 'node_modules'), 'dir');
    expect((await buildPage(name, elsewhere)).sha256).toBe(built.sha256);
  });

  it('has one script and one style, which its policy allows by their hashes, and no other', () => {
    const scripts = [...built.html.matchAll(/<script[^>]*>([\s\S]*?)<\/script>/g)].map(([, text = '']) => text);
    const styles = [...built.html.matchAll(/<style[^>]*>([\s\S]*?)<\/style>/g)].map(([, text = '']) => text);
    expect([scripts.length, styles.length]).toEqual([1, 1]);
    expect(policyOf(built.html)).toEqual([
      "default-src 'none'",
      `script-src 'sha256-${hashOf(scripts[0] ?? '', 'base64')}'`,
      `style-src 'sha256-${hashOf(styles[0] ?? '', 'base64')}'`,
      `connect-src ${CONNECTIONS[name]}`,
      "base-uri 'none'",
      "form-action 'none'",
      "trusted-types 'none'",
      "require-trusted-types-for 'script'",
    ]);
    // The policy comes before anything that it governs.
    expect(built.html.indexOf('Content-Security-Policy')).toBeLessThan(built.html.indexOf('<style'));
  });

  it('names no resource that would be loaded, and has no handler in its markup', () => {
    const markup = built.html.replace(/<script>[\s\S]*?<\/script>/, '');
    expect(markup).not.toMatch(/\s(src|href|action|on[a-z]+|style|srcdoc|background)\s*=/i);
    expect(markup).not.toMatch(/url\(|@import|<(iframe|object|embed|link|base|form)\b/i);
    for (const field of markup.match(/<(input|textarea)\b[^>]*>/g) ?? [])
      if (!/type="(checkbox|file)"/.test(field)) expect(field).toContain('autocomplete="off"');
  });

  it('made for one gateway, allows that address alone, and has the script and the style of the published one', async () => {
    const file = join(directory, `${name}-for-one.html`);
    const keys = name === 'holder-page' ? ['--key', formatPublicKey(newSigningKey().key)] : [];
    const words = [name, '--output', file, ...keys, '--gateway', 'https://runbooks.example.org:8421/'];
    expect((await cli(words)).code).toBe(0);
    const html = await readFile(file, 'utf8');
    const before = policyOf(built.html);
    expect(policyOf(html)).toEqual(
      before.map((each) => (each.startsWith('connect-src') ? 'connect-src https://runbooks.example.org:8421' : each)),
    );
    expect(html).toContain('<meta name="gateway" content="https://runbooks.example.org:8421">');
    for (const url of ['http://runbooks.example.org', 'https://a.example/path', 'https://a;script-src%20*', 'none'])
      expect((await cli([...words.slice(0, -1), url])).code).not.toBe(0);
    expect((await readFile(file, 'utf8')) === html).toBe(true);
  });
});

describe("a copy of the holder's page", () => {
  it('is written by the command line for given keys, with the hash of what was written', async () => {
    const { key } = newSigningKey();
    const file = join(directory, 'made.html');
    const { code, out } = await cli(['holder-page', '--output', file, '--key', formatPublicKey(key), '--json']);
    expect(code).toBe(0);
    const html = await readFile(file, 'utf8');
    const result = JSON.parse(out) as { sha256: string; publishedSha256: string; fingerprints: string[] };
    expect(result.sha256).toBe(hashOf(html, 'hex'));
    expect(result.fingerprints).toEqual([spokenFingerprint(key.kid)]);
    expect(html).toContain(`<meta name="workers-keys" content="${formatPublicKey(key)}">`);
    expect(html.match(/<script/g)).toHaveLength(1);
  });

  it('is not written for an invalid key', async () => {
    const file = join(directory, 'refused.html');
    expect((await cli(['holder-page', '--output', file, '--key', 'abc:def'])).code).toBe(3);
    await expect(readFile(file)).rejects.toThrow('ENOENT');
    expect(() => fillPage('damaged', { keys: formatPublicKey(newSigningKey().key) })).toThrow('damaged');
  });
});
