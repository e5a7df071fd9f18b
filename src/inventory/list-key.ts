import { isMap, parseDocument } from 'yaml';
import { formatPublicKey, parsePublicKey, spokenFingerprint } from '../documents/public-keys';
import type { PublicKeyEntry } from '../documents/public-keys';
import { RunbookError } from '../errors';

/** A person and the key that the inventory is to list for them. */
export interface PersonKey {
  readonly name: string;
  readonly key: PublicKeyEntry;
  /** Of a person who is not in the file yet. */
  readonly groups?: readonly string[] | undefined;
  /** Takes the place of the keys that are listed. */
  readonly replace?: boolean | undefined;
}

/**
 * Lists a person's public key in the text of an inventory; its comments and its order stay. A person who was only claimed
 * signs from then on.
 *
 * @returns the new text; the same where the key is listed already.
 * @throws RunbookError `INVALID_INPUT` where the person is unknown and no groups are given, has another key, or somebody
 *   else has this one.
 */
export function listKey(text: string, { name, key, groups, replace = false }: PersonKey): string {
  const document = parseDocument(text, { version: '1.2' });
  const people = document.get('people');
  if (document.errors.length > 0 || !isMap(people))
    throw refused(
      'The inventory cannot be read as a file with people.',
      '"runbook inventory check" names its mistakes.',
    );
  const listed = (of: string): string[] => {
    const keys: unknown = document.getIn(['people', of, 'publicKeys']);
    const found: unknown = keys === undefined ? [] : document.createNode(keys).toJS(document);
    return Array.isArray(found) ? found.filter((each): each is string => typeof each === 'string') : [];
  };
  const everybody = people.items.map((item) => String(item.key));
  const isKey = (line: string): boolean => parsePublicKey(line.trim())?.kid === key.kid;
  const owner = everybody.find((each) => each !== name && listed(each).some(isKey));
  if (owner !== undefined)
    throw refused(`${owner} has this key already: one key, one person.`, 'Ask both who made it, by voice.');
  if (listed(name).some(isKey)) return text;
  if (!everybody.includes(name) && groups === undefined)
    throw refused(
      `${name} is not among the people of this inventory.`,
      'Is the name right? Give somebody new their groups: --groups approvers,operators; or --groups none for a key holder.',
    );
  if (listed(name).length > 0 && !replace)
    throw refused(
      `${name} has another key: ${listed(name).map(fingerprintOf).join(', ')}.`,
      'Ask them by voice why they have a new one. Then give --replace: what the earlier key signs counts no more.',
    );
  const entry = document.getIn(['people', name]);
  if (!isMap(entry)) {
    const fresh = document.createNode(groups === undefined ? {} : { groups: [...groups] });
    fresh.flow = true;
    document.setIn(['people', name], fresh);
  }
  const keys = document.createNode([formatPublicKey(key)]);
  keys.flow = true;
  document.setIn(['people', name, 'publicKeys'], keys);
  if (document.getIn(['people', name, 'attestation']) === 'claimed') document.deleteIn(['people', name, 'attestation']);
  return document.toString({ lineWidth: 0 });
}

function fingerprintOf(line: string): string {
  return spokenFingerprint(parsePublicKey(line.trim())?.kid ?? '');
}

function refused(message: string, next: string): RunbookError {
  return new RunbookError('INVALID_INPUT', `${message} Nothing was changed.`, { next });
}
