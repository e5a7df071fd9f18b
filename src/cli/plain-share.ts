import { holdsKeyShare } from '../contracts/plain-shares';
import { RunbookError } from '../errors';

/**
 * What people send is recorded for ever where many can read it: what seems to be a key share does not leave this machine
 * in plain text.
 *
 * @throws RunbookError `PLAIN_TEXT_SHARE`. Nothing of it is repeated.
 */
export function refusePlainShare(input: unknown): void {
  if (!holdsKeyShare(input)) return;
  throw new RunbookError('PLAIN_TEXT_SHARE', 'This seems to hold a key share in plain text. Nothing was sent.', {
    needed: 'a text without key shares',
    next: 'A key share is given by "runbook share" alone, which encrypts it. It stands in the history of your shell now: remove it there.',
  });
}
