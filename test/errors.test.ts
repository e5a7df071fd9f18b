/** docs/errors.md and the codes of src/errors.ts say the same, in both directions. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ERROR_CODES, RunbookError, isRunbookError } from '../src/errors';
import type { ErrorCode } from '../src/errors';

const ROW = /^\| `(?<code>[A-Z_]+)` \| (?<meaning>.+?) \| (?<marks>[a-z, ]*?) ?\|$/;

function documentedCodes(): readonly (readonly [string, object])[] {
  const text = readFileSync(join(__dirname, '..', 'docs', 'errors.md'), 'utf8');
  return text.split('\n').flatMap((line) => {
    const { code = '', meaning, marks = '' } = ROW.exec(line)?.groups ?? {};
    const outcomeKnown = !marks.includes('outcome unknown');
    return code === ''
      ? []
      : [[code, { summary: meaning, retryable: marks.includes('retryable'), outcomeKnown }] as const];
  });
}

describe('docs/errors.md', () => {
  it('lists every code once, in the order of the source, with its meaning and defaults', () => {
    expect(documentedCodes()).toEqual(Object.entries(ERROR_CODES));
  });
});

describe('RunbookError', () => {
  it.each(Object.keys(ERROR_CODES) as ErrorCode[])('%s takes the defaults of its code', (code) => {
    const error = new RunbookError(code, 'what happened');
    expect(error).toMatchObject({
      code,
      retryable: ERROR_CODES[code].retryable,
      outcomeKnown: ERROR_CODES[code].outcomeKnown,
    });
    expect(isRunbookError(error, code)).toBe(true);
  });

  it('lets a single error know better', () => {
    const error = new RunbookError('CONNECTION_LOST', 'a read', { outcomeKnown: true, retryable: false });
    expect(error).toMatchObject({ outcomeKnown: true, retryable: false });
    expect(isRunbookError(error, 'UNREACHABLE')).toBe(false);
    expect(isRunbookError(new Error('other'))).toBe(false);
  });
});
