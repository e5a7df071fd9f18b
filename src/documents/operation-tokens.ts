import { RunbookError } from '../errors';
import { Secret } from '../secret';
import { looksLikeShare } from './key-shares';

/** What a generation attempt ends in. Ordinary service tokens are far longer; those of batches have another beginning. */
const GENERATED = /^(?:hvs\.[A-Za-z0-9_-]{20,40}|s\.[A-Za-z0-9]{20,40})$/;

/**
 * Reads a DR operation token as the service's command line decodes it. A root token has the same form: which of the two
 * it is only the service can tell.
 *
 * @throws RunbookError `INVALID_INPUT` with a fixed text: what was typed is never repeated.
 */
export function parseOperationToken(text: string): Secret<'operation-token'> {
  const token = text.trim();
  if (GENERATED.test(token)) return new Secret('operation-token', token);
  throw new RunbookError('INVALID_INPUT', notAToken(token), {
    observed: `${token.length} characters`,
    needed: 'the decoded token of a finished generate-root -dr-token: "hvs." and 24 characters',
    next: 'Nothing was kept or sent. Give the operation token itself, without anything around it.',
  });
}

function notAToken(text: string): string {
  if (/^(?:hvb|b)\./.test(text)) return 'This is a batch token, not an operation token.';
  if (/^hv[sr]\.|^[sr]\./.test(text)) return 'This is a token of another kind, not an operation token.';
  if (looksLikeShare(text))
    return 'This looks like a KEY SHARE, which goes to the service alone, or like a token that was not decoded.';
  return 'This is not an operation token.';
}
