import { RunbookError } from '../../src/errors';
import type { RecipientKey } from '../../src/keys';
import { readRecipientKey } from '../../src/keys';

/** @throws RunbookError PRECONDITION_FAILED where nothing can be encrypted to the key */
export async function usableRecipient(text: string): Promise<RecipientKey> {
  const recipient = await readRecipientKey(text);
  if (!('refused' in recipient)) return recipient;
  throw new RunbookError('PRECONDITION_FAILED', "The recipient's key cannot be used.", {
    observed: recipient.refused,
    needed: 'an OpenPGP public key of version 4 that can encrypt',
    next: 'Start again with such a key; nothing was touched.',
  });
}
