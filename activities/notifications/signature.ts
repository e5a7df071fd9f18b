import { createHmac } from 'node:crypto';
import { RunbookError } from '../../src/errors';

/* Standard Webhooks 1.0.0: a receiver verifies who sent a message, when, and that it is unchanged. */

const PREFIX = 'whsec_';
/** Bytes of a secret. */
const [LEAST, MOST] = [24, 64];

/**
 * The headers that sign a message, also if it is sent again: the ID stays the same.
 *
 * @param secrets - one or, while it is replaced, several, each `whsec_` and base64, separated by white space
 * @param body - exactly as it is sent
 * @throws RunbookError CREDENTIAL_UNAVAILABLE, which quotes no part of a secret
 */
export function signatureOf(secrets: string, messageId: string, body: string, now = Date.now()) {
  // An ID must contain no dot, which a namespace may.
  const id = messageId.replaceAll('.', '_');
  const time = Math.floor(now / 1_000);
  const signatures = secrets
    .trim()
    .split(/\s+/)
    .map((secret) => {
      const mac = createHmac('sha256', keyOf(secret)).update(`${id}.${time}.${body}`);
      return `v1,${mac.digest('base64')}`;
    });
  return { 'webhook-id': id, 'webhook-timestamp': String(time), 'webhook-signature': signatures.join(' ') };
}

function keyOf(secret: string): Buffer {
  const encoded = secret.slice(PREFIX.length);
  const key = Buffer.from(encoded, 'base64');
  const isWhole = /^[A-Za-z0-9+/]+={0,2}$/.test(encoded) && key.length >= LEAST && key.length <= MOST;
  if (secret.startsWith(PREFIX) && isWhole) return key;
  throw new RunbookError('CREDENTIAL_UNAVAILABLE', 'Its signing secret is not one of Standard Webhooks.', {
    needed: `${PREFIX} and the base64 of ${LEAST} to ${MOST} bytes`,
    retryable: false,
  });
}
