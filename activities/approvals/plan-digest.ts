import { createHash } from 'node:crypto';

/** The digest that approvers sign: base64url(SHA-256) of the plan's text as it is. */
export function planDigest(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('base64url');
}
