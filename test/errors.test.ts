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

it('docs/errors.md lists every code once, in the order of the source, with its meaning and defaults', () => {
  expect(documentedCodes()).toEqual(Object.entries(ERROR_CODES));
});

it('a RunbookError takes the defaults of its code, unless its own values are more exact', () => {
  for (const [code, { retryable, outcomeKnown }] of Object.entries(ERROR_CODES)) {
    const error = new RunbookError(code as ErrorCode, 'what happened');
    expect(error).toMatchObject({ code, retryable, outcomeKnown });
    expect(isRunbookError(error, code as ErrorCode)).toBe(true);
  }
  const error = new RunbookError('CONNECTION_LOST', 'a read', { outcomeKnown: true, retryable: false });
  expect(error).toMatchObject({ outcomeKnown: true, retryable: false });
  expect([isRunbookError(error, 'UNREACHABLE'), isRunbookError(new Error('other'))]).toEqual([false, false]);
});
