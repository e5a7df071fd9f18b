import { decodeProtectedHeader } from 'jose';
import type { SealKeyring } from './sealing';

const SEALED = /(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]+\.\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+/g;
const TYP = 'runbooks-sealed-v1';
const KEY_ID = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * The names of the seal keys that `keyring` lacks to open the sealed values in `value`: a history, an entry of the record. Looks
 * into every text and every payload; opens nothing.
 */
export function missingSealKeys(keyring: SealKeyring, value: unknown): readonly string[] {
  const kids = new Set<string>();
  const visit = (part: unknown): void => {
    if (typeof part === 'string') for (const [sealed] of part.matchAll(SEALED)) add(sealed);
    if (part instanceof Uint8Array)
      visit(Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString('latin1'));
    else if (typeof part === 'object' && part !== null) Object.values(part).forEach(visit);
  };
  const add = (sealed: string): void => {
    const kid = kidOf(sealed);
    if (kid !== undefined && keyring.derivedKey(kid) === undefined) kids.add(kid);
  };
  visit(value);
  return [...kids].sort();
}

function kidOf(sealed: string): string | undefined {
  try {
    const { typ, kid } = decodeProtectedHeader(sealed);
    return typ === TYP && kid !== undefined && KEY_ID.test(kid) ? kid : undefined;
  } catch {
    return undefined;
  }
}
