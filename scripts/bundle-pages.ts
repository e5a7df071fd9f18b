import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import * as esbuild from 'esbuild';
import writeFileAtomic from 'write-file-atomic';
import { projectRoot } from '../src/dev-server/locations';

/** The pages, each with what it may connect to unless a copy is made for one gateway. */
const PAGES = {
  'holder-page': { source: 'holder', connections: "'none'" },
  // A saved page cannot know which gateway the person will name (SECURITY.md).
  'approver-page': { source: 'approver', connections: 'https: http://localhost:* http://127.0.0.1:*' },
} as const;
type PageName = keyof typeof PAGES;

/**
 * Bundles a page: one HTML file with an inline script and style sheet, and a Content Security Policy that allows only
 * these two, by their hashes. The same sources produce the same bytes, regardless of their location.
 *
 * @param root folder with the sources, `package.json`, and `node_modules`.
 */
export async function buildPage(name: PageName, root = projectRoot()) {
  const folder = join(root, 'src', 'pages');
  const { source, connections } = PAGES[name];
  const [template, style, script, manifest] = await Promise.all([
    readFile(join(folder, `${source}.html`), 'utf8'),
    readFile(join(folder, 'page.css'), 'utf8'),
    bundleScript(root, source),
    readFile(join(root, 'package.json'), 'utf8'),
  ]);
  const { version } = JSON.parse(manifest) as { version: string };
  const policy = [
    "default-src 'none'",
    `script-src '${sourceHash(script)}'`,
    `style-src '${sourceHash(style)}'`,
    `connect-src ${connections}`,
    "base-uri 'none'",
    "form-action 'none'",
    "trusted-types 'none'",
    "require-trusted-types-for 'script'",
  ].join('; ');
  const parts: Readonly<Record<string, string>> = { policy, style, script, version };
  const html = template.replace(/\{\{(\w+)\}\}/g, (_, word: string) => {
    const part = parts[word];
    if (part === undefined) throw new Error(`${source}.html refers to "${word}", which is unknown.`);
    return part;
  });
  return { html, sha256: createHash('sha256').update(html).digest('hex') };
}

/** The page as one self-contained file, and its SHA-256 in hexadecimal. */
export type BuiltPage = Awaited<ReturnType<typeof buildPage>>;

/** Writes a page, and its hash in the format of `sha256sum --check`. Each file appears only when it is complete. */
export async function writePage(name: PageName, outFile: string): Promise<BuiltPage> {
  const page = await buildPage(name);
  await writeFileAtomic(outFile, page.html);
  await writeFileAtomic(`${outFile}.sha256`, `${page.sha256}  ${basename(outFile)}\n`);
  return page;
}

async function bundleScript(root: string, source: string): Promise<string> {
  const { outputFiles } = await esbuild.build({
    absWorkingDir: root,
    entryPoints: [`src/pages/${source}.ts`],
    bundle: true,
    write: false,
    format: 'iife',
    platform: 'browser',
    target: ['es2022'],
    charset: 'ascii',
    minify: true,
    legalComments: 'inline',
    logLevel: 'error',
    plugins: [englishOnly],
  });
  const [output] = outputFiles;
  if (output === undefined) throw new Error('The bundler returned no file.');
  // Either would change how the browser parses the surrounding script element.
  if (/<!--|<\/?script/i.test(output.text))
    throw new Error('The script has "<!--" or "<script", so it cannot be inlined.');
  return output.text;
}

/** The schema library includes its texts in some fifty languages: half of the page size, and none of them is ever shown. */
export const englishOnly: esbuild.Plugin = {
  name: 'english-only',
  setup: (build) =>
    build.onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, () => ({
      contents: "export { default as en } from './en.js';",
    })),
};

function sourceHash(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}

/** Build step: writes the pages, which are published unchanged, each with its hash in the same folder. */
async function main(): Promise<void> {
  for (const name of Object.keys(PAGES) as PageName[]) {
    const path = join('dist', `${name}.html`);
    const { html, sha256 } = await writePage(name, join(projectRoot(), path));
    console.log(`${path}: ${Math.round(html.length / 1024)} KiB, SHA-256 ${sha256}`);
  }
}

if (require.main === module) void main();
