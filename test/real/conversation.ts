import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { callNode } from '../support/by-hand';
import type { PlainAnswer } from '../support/by-hand';

/** One call and its answer, without anything that differs between servers. */
export interface Turn {
  readonly what: string;
  readonly status: number;
  /** The JSON document, or the text if it is not JSON. */
  readonly answer: unknown;
  /** Target of a redirect. */
  readonly location?: string;
}

/** A server with five key shares (hexadecimal) and threshold three; nobody else uses its slot. */
export interface Partner {
  readonly address: string;
  readonly keyShares: readonly string[];
  /** Base64 of a binary OpenPGP key that can encrypt. */
  readonly pgpKey: string;
}

export interface Conversation {
  readonly turns: readonly Turn[];
  /** The root token that was generated; the caller revokes it. */
  readonly token: string;
}

/** Files in this folder with the answers of the real server. */
export type Recording = 'answers-1.21.4.json' | 'leadership-1.21.4.json';

const ATTEMPT = 'sys/generate-root/attempt';
const UPDATE = 'sys/generate-root/update';

/**
 * Makes correct and incorrect calls of `sys/generate-root`, and records the answers. The real and the simulated server
 * must give the same answers.
 */
export async function converse({ address, keyShares, pgpKey }: Partner): Promise<Conversation> {
  const minutes = new Minutes();
  const say = (what: string, method: string, path: string, body?: unknown) =>
    minutes.say(what, [address, method, path, { body }]);
  const [first = '', second = '', third = '', fourth = ''] = keyShares;
  const base64 = (share: string): string => Buffer.from(share, 'hex').toString('base64');
  const wrong = `${'5a'.repeat(first.length / 2 - 1)}ee`;

  await say('cancel, nothing runs', 'DELETE', ATTEMPT);
  await say('look, nothing runs', 'GET', ATTEMPT);
  await say('share, nothing runs', 'PUT', UPDATE, { key: first, nonce: 'none' });

  await say('start with a short password', 'PUT', ATTEMPT, { otp: 'short' });
  await say('start with no key at all', 'PUT', ATTEMPT, { pgp_key: 'bm90IGEga2V5' });
  await say('start with text of the wrong type', 'PUT', ATTEMPT, { pgp_key: 5 });
  await say('start with an array', 'PUT', ATTEMPT, '[]');
  await say('start with a broken document', 'PUT', ATTEMPT, '{"otp"');
  await say('look at update', 'GET', UPDATE);
  await say('delete update', 'DELETE', UPDATE);
  await say('head of the attempt', 'HEAD', ATTEMPT);
  await say('the attempt with a slash', 'GET', `${ATTEMPT}/`);

  await say('start with an own password and a key: the password wins', 'POST', ATTEMPT, {
    otp: 'x'.repeat(28),
    pgp_key: pgpKey,
  });
  await say('cancel it', 'DELETE', ATTEMPT);
  const withKey = await say('start with a key', 'POST', ATTEMPT, { pgp_key: pgpKey });
  await say('look at it', 'GET', ATTEMPT);
  await say('first share to it', 'POST', UPDATE, { key: first, nonce: text(withKey.fields['nonce']) });
  await say('cancel it with a share in it', 'DELETE', ATTEMPT);
  await say('share to the cancelled one', 'POST', UPDATE, { key: second, nonce: text(withKey.fields['nonce']) });

  const started = await say('start', 'POST', ATTEMPT);
  const nonce = text(started.fields['nonce']);
  const give = (what: string, key: string) => say(what, 'POST', UPDATE, { key, nonce });
  await say('start again', 'POST', ATTEMPT, {});
  await say('start again with a short password', 'POST', ATTEMPT, { otp: 'short' });
  await say('share with a wrong nonce', 'POST', UPDATE, { key: first, nonce: 'wrong' });
  await say('share without a nonce', 'POST', UPDATE, { key: first });
  await say('nonce without a share', 'POST', UPDATE, { nonce });
  await say('a number for a share', 'POST', UPDATE, { key: 5, nonce });
  await say('a broken document', 'POST', UPDATE, `{"key":"${'0'.repeat(66)}"`);
  await say('nothing at all', 'POST', UPDATE, '');
  await give('a share that is no share', '!!');
  await give('a share of 15 bytes', '00'.repeat(15));
  await give('a share of 34 bytes', '00'.repeat(34));
  await say('look: nothing of that counted', 'GET', ATTEMPT);

  await give('first share', first);
  await give('first share again', first);
  await give('first share again, in upper case', first.toUpperCase());
  await give('first share again, in base64', base64(first));
  await give('second share, in base64', base64(second));
  await say('look: two are in', 'GET', ATTEMPT);
  await give('a wrong third share', wrong);
  await say('look: all fell back', 'GET', ATTEMPT);

  await give('first share, once more', first);
  await give('a share with the x of the first', `${third.slice(0, -2)}${first.slice(-2)}`);
  await give('third share: two have the same x', fourth);
  await give('a share without its last byte', first.slice(0, -2));
  await give('second share, once more', second);
  await give('third share: one was shorter', third);
  await say('look: all fell back again', 'GET', ATTEMPT);

  await give('first share, at last', first);
  await say('second share, names in upper case', 'POST', UPDATE, { KEY: second, NONCE: nonce });
  const ended = await give('third share: the token', third);
  await say('look: the slot is free', 'GET', ATTEMPT);
  await give('one share more', fourth);
  return { turns: minutes.turns, token: decoded(text(ended.fields['encoded_token']), text(started.fields['otp'])) };
}

/** A string member; empty if it is not a string. */
export function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Makes calls to nodes and records the answers. */
export class Minutes {
  readonly turns: Turn[] = [];
  readonly #nonces: string[] = [];

  /** @param addresses - addresses that answers may contain, and the name to record for each */
  constructor(private readonly addresses: ReadonlyMap<string, string> = new Map()) {}

  /** @param shown - the members to record, if not all are the same on each server */
  async say(what: string, call: Parameters<typeof callNode>, shown?: readonly string[]): Promise<PlainAnswer> {
    const answer = await callNode(...call);
    const nonce = text(answer.fields['nonce']);
    if (nonce !== '' && !this.#nonces.includes(nonce)) this.#nonces.push(nonce);
    const complete = masked({ ...answer, text: this.#named(answer.text) }, this.#nonces);
    this.turns.push({
      what,
      status: answer.status,
      answer: shown === undefined ? complete : only(complete, shown),
      ...(answer.location !== undefined && { location: this.#named(answer.location) }),
    });
    return answer;
  }

  #named(answer: string): string {
    return [...this.addresses].reduce((rest, [own, name]) => rest.replaceAll(own, name), answer);
  }
}

function only(answer: unknown, shown: readonly string[]): unknown {
  if (typeof answer !== 'object' || answer === null) return answer;
  return Object.fromEntries(Object.entries(answer).filter(([name]) => shown.includes(name)));
}

/** Replaces nonces by their order of appearance, and passwords, fingerprints, and tokens by their length. */
function masked({ text, fields }: PlainAnswer, nonces: readonly string[]): unknown {
  if (text === '') return '';
  const named = nonces.reduce((rest, nonce, index) => rest.replaceAll(nonce, `nonce ${index + 1}`), text);
  const hidden = new Set(['otp', 'pgp_fingerprint', 'encoded_token', 'encoded_root_token'].map((name) => fields[name]));
  const shown = [...hidden].reduce<string>(
    (rest, value) =>
      typeof value === 'string' && value !== '' ? rest.replaceAll(value, `${value.length} characters`) : rest,
    named,
  );
  try {
    return JSON.parse(shown) as unknown;
  } catch {
    return shown;
  }
}

/** Decodes a token with the one-time password. Does not use our own client, which is under test. */
export function decoded(encoded: string, password: string): string {
  const bytes = Buffer.from(encoded, 'base64');
  return Buffer.from(bytes.map((byte, index) => byte ^ password.charCodeAt(index))).toString();
}

/** Records the answers of the real server again if `RUNBOOKS_TEST_REAL_RECORD` is set. */
export async function record(file: Recording, turns: readonly Turn[]): Promise<void> {
  if (process.env['RUNBOOKS_TEST_REAL_RECORD'] === undefined) return;
  await writeFile(join(__dirname, file), `${JSON.stringify(turns, undefined, 2)}\n`);
}

/** The recorded answers of the real server. */
export function recordedTurns(file: Recording = 'answers-1.21.4.json'): Turn[] {
  return JSON.parse(readFileSync(join(__dirname, file), 'utf8')) as Turn[];
}
