import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The project's root folder. */
export const ROOT = join(__dirname, '..', '..');

/** A Markdown page of the project. */
export interface Page {
  /** Path from the project's folder. */
  readonly path: string;
  readonly text: string;
}

export function page(path: string): Page {
  return { path, text: readFileSync(join(ROOT, path), 'utf8') };
}

/** Every Markdown page for people. */
export function allPages(): Page[] {
  const inFolder = (folder: string): string[] =>
    readdirSync(join(ROOT, folder))
      .filter((name) => name.endsWith('.md'))
      .map((name) => join(folder, name));
  return ['.', 'docs', 'docs/runbooks'].flatMap(inFolder).map(page);
}

/** Contents of the fenced blocks in one language. */
export function codeBlocks({ text }: Page, language: string): string[] {
  return [...text.matchAll(/^```(\S*)\n([\s\S]*?)^```$/gm)].flatMap(([, found, content = '']) =>
    found === language ? [content] : [],
  );
}

/** Contents of `code spans` outside of fenced blocks. */
export function codeSpans({ text }: Page): string[] {
  return [...text.replace(/^```[\s\S]*?^```$/gm, '').matchAll(/`([^`\n]+)`/g)].map(([, content = '']) => content);
}

/** Command lines of shell blocks, with continued lines joined. */
export function shellLines(from: Page): string[] {
  return codeBlocks(from, 'sh')
    .flatMap((block) => block.replace(/\\\n\s*/g, '').split('\n'))
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
}

/** Words of a simple command line, with quotes but without expansions, up to a redirection, a pipe, or an ampersand. */
export function shellWords(line: string): string[] {
  const words: string[] = [];
  for (const [word] of line.matchAll(/(?:[^\s"']+|"[^"]*"|'[^']*')+/g)) {
    if (['>', '|', '&'].includes(word)) break;
    words.push(
      word.replace(/"([^"]*)"|'([^']*)'/g, (_whole, double?: string, single?: string) => double ?? single ?? ''),
    );
  }
  return words;
}

/** Relative links of a page whose target does not exist. */
export function deadLinks({ path, text }: Page): string[] {
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = '']) => target)
    .filter((target) => !/^[a-z]+:/.test(target))
    .filter((target) => {
      const [file = '', anchor] = target.split('#');
      const found = file === '' ? path : join(dirname(path), file);
      if (!existsSync(join(ROOT, found))) return true;
      return anchor !== undefined && !anchors(readFileSync(join(ROOT, found), 'utf8')).includes(anchor);
    });
}

/** Anchors of a page's headings, as the usual hosts generate them. */
function anchors(text: string): string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}
