import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { Trigger } from '../../inventory';

/** A message as it arrived. Nothing of the body is parsed before it is verified. */
export interface Received {
  /** By lower-case name, as Node gives them. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Buffer;
}

/** What a valid signature proves, besides the body. */
export interface Verified {
  /** When the sender signed; absent for senders that sign no time. Epoch milliseconds. */
  readonly signedAt?: number;
  /** The sender's ID of the message, if it is signed too. */
  readonly id?: string;
}

/** A message that no secret of the trigger signed, or that was signed too long ago. Its text contains nothing of the message. */
export class BadSignature extends Error {}

/** How far the time of a signature may be from the time here: the senders' own libraries take the same. */
const MOST_SKEW_MS = 5 * 60_000;
/** More than any sender sends while its secret is replaced. Each costs one HMAC for each secret. */
const MOST_SIGNATURES = 10;

/** How one kind of sender signs with HMAC-SHA256. */
interface Scheme {
  /** The signatures as they were sent, without what precedes them. */
  readonly signatures: readonly string[];
  readonly encoding: 'hex' | 'base64';
  /** What is signed before the body. */
  readonly before: string;
  /** Unix seconds, as text. Absent: none is signed. */
  readonly time?: string | undefined;
  readonly id?: string;
}

/**
 * Verifies a message over the bytes of its body, against every secret.
 *
 * @param secrets - one per line of the trigger's file
 * @param now - epoch milliseconds
 * @throws BadSignature
 */
export function verify(trigger: Trigger, message: Received, secrets: readonly string[], now: number): Verified {
  if (trigger.kind === 'alertmanager') return verifyToken(message, secrets);
  const { signatures, encoding, before, time, id } = schemeOf(trigger, message);
  const given = signatures.slice(0, MOST_SIGNATURES).flatMap((each) => {
    const bytes = Buffer.from(each, encoding);
    // Node decodes what is only nearly hex or base64.
    return bytes.length === 32 && bytes.toString(encoding) === each ? [bytes] : [];
  });
  const keys = secrets.map((secret) => keyOf(trigger, secret));
  let valid = false;
  for (const key of keys) {
    const signature = createHmac('sha256', key).update(before, 'utf8').update(message.body).digest();
    // Every pair is compared, so that the time says nothing about which one was equal.
    for (const each of given) valid = timingSafeEqual(signature, each) || valid;
  }
  if (!valid) throw new BadSignature('No secret of this trigger signed this message.');
  if (time === undefined) return {};
  const signedAt = Number(time) * 1_000;
  const seconds = Math.round((now - signedAt) / 1_000);
  if (Math.abs(now - signedAt) > MOST_SKEW_MS)
    throw new BadSignature(
      `The message was signed ${Math.abs(seconds)} s ${seconds > 0 ? 'ago' : 'in the future'} by the clock here; at most ${MOST_SKEW_MS / 1_000} s count. If it is new, compare the clocks.`,
    );
  return { signedAt, ...(id !== undefined && { id }) };
}

/** Alertmanager signs nothing: it sends the secret itself, over TLS or on this host. */
function verifyToken({ headers }: Received, secrets: readonly string[]): Verified {
  const [, token = ''] = /^Bearer (\S+)$/i.exec(header(headers, 'authorization')) ?? [];
  const given = digestOf(token);
  let valid = false;
  for (const secret of secrets) valid = timingSafeEqual(digestOf(secret), given) || valid;
  if (!valid) throw new BadSignature('The message has no bearer token of this trigger.');
  return {};
}

const digestOf = (text: string): Buffer => createHash('sha256').update(text, 'utf8').digest();

function schemeOf(trigger: Exclude<Trigger, { kind: 'alertmanager' }>, { headers }: Received): Scheme {
  const of = (name: string) => header(headers, name);
  switch (trigger.kind) {
    case 'pagerduty':
      return { signatures: listed(of('x-pagerduty-signature'), 'v1='), encoding: 'hex', before: '' };
    case 'grafana': {
      const time = unixTime(of(trigger.timeHeader));
      return { signatures: [of(trigger.signatureHeader)], encoding: 'hex', before: `${time}:`, time };
    }
    case 'slack': {
      const time = unixTime(of('x-slack-request-timestamp'));
      return { signatures: listed(of('x-slack-signature'), 'v0='), encoding: 'hex', before: `v0:${time}:`, time };
    }
    case 'standard': {
      const family = of('webhook-id') === '' ? 'svix' : 'webhook';
      const id = of(`${family}-id`);
      const time = unixTime(of(`${family}-timestamp`));
      if (!/^[^.\s]{1,200}$/.test(id)) throw new BadSignature('The message has no ID that can be signed.');
      const signatures = listed(of(`${family}-signature`).replaceAll(' ', '\n'), 'v1,', '\n');
      return { signatures, encoding: 'base64', before: `${id}.${time}.`, time, id };
    }
    case 'hmac': {
      const { signature, time: timed } = trigger;
      const signatures = listed(of(signature.header), signature.prefix);
      if (timed === undefined) return { signatures, encoding: signature.encoding, before: '' };
      const time = unixTime(listed(of(timed.header), timed.prefix)[0] ?? '');
      return { signatures, encoding: signature.encoding, before: `${time}${timed.separator}`, time };
    }
  }
}

/** The secret as key: Standard Webhooks write theirs in base64. */
export function keyOf({ kind }: Trigger, secret: string): Buffer {
  return kind === 'standard' ? Buffer.from(secret.replace(/^whsec_/, ''), 'base64') : Buffer.from(secret, 'utf8');
}

/** The entries of a header that begin with the prefix, without it. */
function listed(value: string, prefix: string, separator = ','): string[] {
  return value.split(separator).flatMap((entry) => {
    const text = entry.trim();
    return text.startsWith(prefix) ? [text.slice(prefix.length)] : [];
  });
}

/** Digits only: what is signed must not depend on how a number is written. */
function unixTime(text: string): string {
  if (!/^\d{1,12}$/.test(text)) throw new BadSignature('The message has no time that is signed.');
  return text;
}

/** The value of a header; empty if it is missing or was sent several times. */
function header(headers: Received['headers'], name: string): string {
  const value = headers[name.toLowerCase()];
  return typeof value === 'string' ? value : '';
}
