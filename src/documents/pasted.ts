import { RunbookError } from '../errors';
import { SIGNED_DOCUMENT } from './documents';
import { parsePublicKey } from './public-keys';
import type { PublicKeyEntry } from './public-keys';

/** What a holder pasted, or got as a file. Nothing of it is verified. */
interface PastedInvitation {
  readonly jws: string;
  /** Public keys that came along. They count only where their fingerprint is one that the holder trusts. */
  readonly keys: readonly PublicKeyEntry[];
}

/** Each run of letters is begun once; what stands before the document in it, such as the rest of `\n`, is passed over. */
const DOCUMENTS = /(?<![\w-])(?=[\w-]+\.[\w-]+\.[\w-])[\w-]*?(eyJ[\w-]*\.[\w-]+\.[\w-]+)/g;
const KEY_LINE = /(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{43}:[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])/g;
const LONGEST_TEXT = 64 * 1024;

/**
 * Finds the invitation in what was pasted: alone, in the quotes and brackets in which the Web UI shows the answer of a
 * query, broken into lines, or in a message around it; and public keys beside it.
 *
 * @throws RunbookError `DOCUMENT_INVALID` where there is none, or more than one. Nothing of the text is repeated.
 */
export function findInvitation(text: string): PastedInvitation {
  if (text.length > LONGEST_TEXT)
    throw refused(`This text is far longer than an invitation: ${text.length} characters.`);
  const keys = [...text.matchAll(KEY_LINE)].flatMap(([line]) => parsePublicKey(line) ?? []);
  const rest = text.replace(KEY_LINE, ' ');
  const alone = rest.replace(/[\s"'[\]<>]+/g, '');
  if (SIGNED_DOCUMENT.test(alone)) return { jws: alone, keys };
  const [jws, ...others] = new Set([...rest.matchAll(DOCUMENTS)].flatMap(([, found]) => found ?? []));
  if (jws === undefined) throw refused('There is no invitation in this text.');
  if (others.length > 0) throw refused('There is more than one invitation in this text.');
  return { jws, keys };
}

function refused(message: string): RunbookError {
  return new RunbookError('DOCUMENT_INVALID', message, {
    needed: 'the invitation: one long line that begins with "eyJ" and has two dots',
    next: 'Copy it again: in the Web UI the answer of the query "invitation" of the run, or what "runbook invitation" printed. Nothing else of a message is needed.',
  });
}
