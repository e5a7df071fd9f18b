import { createHmac, timingSafeEqual } from 'node:crypto';
import type { SealKeyring } from './sealing';

/** What a worker observed, and a later run believes. */
export interface AttestedFacts {
  readonly deployment: string;
  readonly kind: 'wal-samples' | 'record' | 'record-entry' | 'held-demotion';
  /** Of the observation, epoch ms. */
  readonly time: number;
}

/**
 * The mark of the workers on an observation: `kid.mac`, the HMAC-SHA256 with a key derived from the first entry of the
 * key ring. Whoever may write to the namespace, and has no seal key, cannot make one.
 *
 * @param content JSON; what it says of its time, deployment and run is the caller's to compare.
 */
export function attest(keyring: SealKeyring, facts: AttestedFacts, content: unknown): string {
  const kid = keyring.sealingKid;
  const key = keyring.attestingKey(kid);
  if (key === undefined) throw new Error('no key attests');
  return `${kid}.${macOf(key, facts, content).toString('base64url')}`;
}

/** Whether a worker with a key of the ring made this mark on exactly this. Any key of the ring counts. */
export function isAttested(keyring: SealKeyring, facts: AttestedFacts, content: unknown, mark: unknown): boolean {
  if (typeof mark !== 'string' || mark.length > 200) return false;
  const [kid = '', mac = ''] = mark.split('.');
  const key = keyring.attestingKey(kid);
  if (key === undefined) return false;
  const [given, wanted] = [Buffer.from(mac, 'base64url'), macOf(key, facts, content)];
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

/** JSON as it is parsed and written again keeps the order of members: what passed through Temporal has the same text. */
function macOf(key: Uint8Array, { deployment, kind, time }: AttestedFacts, content: unknown): Buffer {
  return createHmac('sha256', key).update(JSON.stringify({ deployment, kind, time, content }), 'utf8').digest();
}
