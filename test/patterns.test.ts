import ts from 'typescript';
import { findInvitation } from '../src/documents/invitation';
import { holdsKeyShare, plainSecretIn } from '../src/contracts/plain-shares';
import { redactText } from '../src/secret';
import { missingSealKeys, newSealKey, redact, SealKeyring } from '../src/keys';
import { readSources } from './support/source-graph';

/**
 * Anybody who may send a signal, answer a call or hand over a document chooses the texts that patterns are held against:
 * none may take more time than the text is long. A pattern that is added is timed without being listed anywhere.
 */

const LENGTH = 200_000;
/** A look that is linear takes a few milliseconds; a quadratic one takes seconds. */
const LIMIT_MS = 50;
/** Of processor time. The process may have other work too: one try below the limit is proof enough. */
const TRIES = 8;

/** What no pattern ends with stands at the end. */
const filled = (text: string, length = LENGTH): string =>
  `${text.repeat(Math.ceil(length / text.length)).slice(0, length)}\n\0`;

function isQuick(look: () => unknown, limit: number): boolean {
  for (let tried = 0; tried < TRIES; tried += 1) {
    const start = process.cpuUsage();
    look();
    const { user, system } = process.cpuUsage(start);
    const took = (user + system) / 1_000;
    if (took < limit) return true;
    if (took > 20 * limit) return false;
  }
  return false;
}

/** Long enough to tell: what is quadratic takes more than half a second. Every pattern meets some hundred texts. */
const isQuickOn = (look: (text: string) => unknown, text: string): boolean =>
  isQuick(() => look(filled(text, LENGTH / 8)), LIMIT_MS);

const GENERAL = ['a', '0', 'A', '-', ' ', '\n', '/', '=', '"', 'aA0', 'a-', 'a.', 'a\n', '0 ', '\t"', '\\n', '\x00'];

/** Texts that begin like a match and never become one: its letters again and again, alone, with others, or once. */
function hostileTo(source: string): string[] {
  const letters = source
    .replace(
      /\\[dwsbDWSB]|\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\[(?:\\.|[^\]\\])*\]|\{[\d,]+\}|\(\?<?[=!:]?|[()^$*+?|]/gi,
      '\0',
    )
    .replace(/\\(.)/g, '$1')
    .split('\0')
    .filter((each) => each !== '');
  const begun = letters.map((_each, index) => letters.slice(0, index + 1).join(''));
  const starts = [...new Set([...letters, ...begun])];
  return starts.flatMap((start) => [start, `${start}-`, `${start}a`, `${start} `, `a${start}a.`]);
}

const sources = [...readSources('src', 'workflows', 'activities').values()];
const patterns = sources.flatMap(({ path, syntax }) => {
  const found: { where: string; source: string; flags: string }[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf('/');
      const line = syntax.getLineAndCharacterOfPosition(node.getStart(syntax)).line + 1;
      found.push({ where: `${path}:${line}`, source: node.text.slice(1, end), flags: node.text.slice(end + 1) });
    }
    ts.forEachChild(node, visit);
  };
  visit(syntax);
  return found;
});

describe('every pattern of the sources', () => {
  it('takes no more time than a text of 25,000 characters is long, with any content', () => {
    const slow = patterns.flatMap(({ where, source, flags }) => {
      const everywhere = new RegExp(source, `${flags.replace(/[gy]/g, '')}g`);
      const look = (text: string) => text.replace(everywhere, '');
      const found = [...new Set([...GENERAL, ...hostileTo(source)])].find((each) => !isQuickOn(look, each));
      return found === undefined ? [] : [`${where} /${source}/ on ${JSON.stringify(found)}`];
    });
    expect(slow).toEqual([]);
  });

  it('is written as a literal, so that it is among those that are timed', () => {
    expect(patterns.length).toBeGreaterThan(100);
    const made = sources.flatMap(({ path, syntax }) => [...syntax.text.matchAll(/new RegExp\(/g)].map(() => path));
    expect(made).toEqual([]);
  });
});

describe('code that reads texts of others', () => {
  const keyring = SealKeyring.parse(newSealKey().reveal());
  const pasted = (text: string) => {
    try {
      findInvitation(text.slice(0, 64 * 1024));
    } catch {
      // Refused, as it should be.
    }
  };
  const HOSTILE = [
    ...GENERAL,
    ...[
      'eyJ',
      'eyJ-',
      'eyJa.',
      `eyJ${'a'.repeat(27)}.`,
      'eyJa..',
      'eyJJJJJ-',
      'nonce',
      'nonce-',
      '-----BEGIN PGP A-----',
      '-----BEGIN A ',
    ],
    ...['AGE-SECRET-KEY-', 'hvs.a', 's.', '%41', '\\u0041', 'r+', '0a:', 'ab ', '0a'.repeat(33), 'https://', '"d" '],
    ...['{"a":', '["', `${'a'.repeat(64)}\n`, `${'aA0/'.repeat(11)} `, '00000000-0000-4000-8000-000000000000'],
  ];

  it.each([
    ['secret', redact, 8],
    ['redaction of the texts of a service', redactText, 8],
    ['the search for sealed values', (text: string) => missingSealKeys(keyring, { payloads: [Buffer.from(text)] }), 2],
    ['the search for key shares in a signal', (text: string) => holdsKeyShare({ text }), 4],
    ['the search for tokens in a signal', (text: string) => plainSecretIn({ text }), 8],
    ['what a holder pastes', pasted, 2],
  ])('%s: in a time that grows with the length alone', (_what, look, factor) => {
    const slow = HOSTILE.filter((each) => !isQuick(() => look(filled(each, LENGTH / 8)), LIMIT_MS * factor));
    expect(slow).toEqual([]);
    expect(HOSTILE.filter((each) => !isQuick(() => look(filled(each)), LIMIT_MS * factor))).toEqual([]);
  });
});
