import { decrypt, generateKey, readMessage } from 'openpgp';
import { splitSecret } from '../../src/simulator/cryptography/shamir';
import {
  encodeWithOneTimePassword,
  randomBase62,
  randomToken,
  seededRandom,
} from '../../src/simulator/cryptography/tokens';
import { GenerationAttempts, type GenerationStrategy } from '../../src/simulator/generation-attempt';
import { HandlerPanic, ServiceFault } from '../../src/simulator/service-fault';

const DR = 'dr-operation-token';
const ROOT = 'generate-root';
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const WRONG_SHARE_TEXT =
  'root generation aborted: unable to authenticate: unable to retrieve stored keys: invalid key: failed to decrypt ' +
  'keys from storage: error decrypting seal wrapped value\nerror decrypting using seal shamir: cipher: message ' +
  'authentication failed';

interface Setup {
  shares?: number;
  threshold?: number;
}

function node({ shares = 5, threshold = 3 }: Setup = {}) {
  const random = seededRandom(shares * 10 + threshold);
  const rootKey = random(32);
  const issued: { strategy: GenerationStrategy; token: string }[] = [];
  const attempts = new GenerationAttempts({
    threshold: () => threshold,
    verifyRootKey: (key) => key.equals(rootKey),
    issueToken: (strategy) => {
      const token = randomToken(random);
      issued.push({ strategy, token });
      return token;
    },
    random,
  });
  const parts = splitSecret(rootKey, shares, threshold, random);
  const share = (index: number): Buffer => parts[index] ?? Buffer.alloc(0);
  const send = (nonce: string, key: Buffer | string, strategy: GenerationStrategy = DR) =>
    attempts.update(strategy, { nonce, key: typeof key === 'string' ? key : key.toString('base64') });
  return { attempts, issued, share, send, random };
}

/** The single error text of the 400 that the call ends with. */
async function refusal(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof ServiceFault)) throw new Error('expected a fault of the service', { cause: error });
  expect(error.status).toBe(400);
  expect(error.errors).toHaveLength(1);
  return error.errors[0] ?? '';
}

function decode(encoded: string, otp: string): string {
  const password = Buffer.from(otp);
  return Buffer.from(Buffer.from(encoded, 'base64').map((byte, index) => byte ^ (password[index] ?? 0))).toString();
}

async function pgpKey(options: { subkeys?: { sign: boolean }[] } = {}) {
  const { privateKey } = await generateKey({
    type: 'ecc',
    userIDs: [{ name: 'runbook' }],
    format: 'object',
    ...options,
  });
  return { privateKey, publicKey: Buffer.from(privateKey.toPublic().write()).toString('base64') };
}

describe('an attempt with one-time password', () => {
  it('answers with every key at each step, and the encoded token once', async () => {
    const { attempts, issued, share, send } = node();
    const idle = {
      nonce: '',
      started: false,
      progress: 0,
      required: 3,
      complete: false,
      encoded_token: '',
      encoded_root_token: '',
      pgp_fingerprint: '',
      otp: '',
      otp_length: 28,
    };
    expect(await attempts.read()).toEqual(idle);

    const start = await attempts.start(DR);
    expect(start.nonce).toMatch(UUID);
    expect(start.otp).toMatch(/^[0-9A-Za-z]{28}$/);
    expect(start).toEqual({ ...idle, started: true, nonce: start.nonce, otp: start.otp });
    expect(await attempts.read()).toEqual({ ...start, otp: '' });

    const first = await send(start.nonce, share(0));
    expect(first).toEqual({ ...start, progress: 1, otp: '', otp_length: 0 });
    await send(start.nonce, share(3));
    expect(await attempts.read()).toEqual({ ...start, otp: '', progress: 2 });
    expect(issued).toEqual([]);

    const last = await send(start.nonce, share(1));
    expect(last).toEqual({ ...first, progress: 3, complete: true, encoded_token: last.encoded_token });
    expect(last.encoded_token).toMatch(/^[A-Za-z0-9+/]{38}$/);
    expect(issued).toEqual([{ strategy: DR, token: decode(last.encoded_token, start.otp) }]);
    expect(await attempts.read()).toEqual(idle);
  });

  it('fills encoded_root_token as well for generate-root, and not before the last share', async () => {
    const { attempts, issued, share, send } = node();
    const { nonce, otp } = await attempts.start(ROOT);
    expect((await send(nonce, share(0), ROOT)).encoded_root_token).toBe('');
    await send(nonce, share(1), ROOT);
    const last = await send(nonce, share(2), ROOT);
    expect(last.encoded_root_token).toBe(last.encoded_token);
    expect(issued).toEqual([{ strategy: ROOT, token: decode(last.encoded_token, otp) }]);
  });

  it('encodes as the documented vector does', () => {
    expect(encodeWithOneTimePassword('hvs.EXAMPLEexampleEXAMPLE012', 'aB3dE5fG7hJ9kL1mN3pQ5rS7tU9v')).toBe(
      'CTRASgBtJwpnJA9cEy1cHSJWNQl0PwN7MWUIRA',
    );
  });

  it("does not echo the client's own password, and uses it", async () => {
    const { attempts, issued, share, send, random } = node();
    const otp = randomBase62(28, random);
    const start = await attempts.start(DR, { otp });
    expect(start.otp).toBe('');
    await send(start.nonce, share(0));
    await send(start.nonce, share(1));
    const { encoded_token: encoded } = await send(start.nonce, share(2));
    expect(decode(encoded, otp)).toBe(issued[0]?.token);
  });

  it.each(['short', 'x'.repeat(27), 'x'.repeat(29), 'é'.repeat(28)])('refuses the password "%s"', async (otp) => {
    const { attempts } = node();
    expect(await refusal(attempts.start(DR, { otp }))).toBe('OTP string is wrong length');
    expect((await attempts.read()).started).toBe(false);
  });

  it('with threshold 1 takes the key itself', async () => {
    const { attempts, issued, share, send } = node({ shares: 1, threshold: 1 });
    const { nonce, otp } = await attempts.start(DR);
    const answer = await send(nonce, share(0));
    expect(answer).toMatchObject({ progress: 1, required: 1, complete: true });
    expect(decode(answer.encoded_token, otp)).toBe(issued[0]?.token);
  });
});

describe('an attempt with PGP key', () => {
  it('shows the fingerprint at every step and encrypts the token, padded', async () => {
    const { attempts, issued, share, send } = node();
    const { privateKey, publicKey } = await pgpKey();
    const start = await attempts.start(DR, { pgp_key: publicKey });
    expect(start).toMatchObject({ started: true, otp: '', pgp_fingerprint: privateKey.getFingerprint() });
    expect((await attempts.read()).pgp_fingerprint).toBe(start.pgp_fingerprint);
    expect((await send(start.nonce, share(0))).pgp_fingerprint).toBe(start.pgp_fingerprint);
    await send(start.nonce, share(1));
    const last = await send(start.nonce, share(2));
    const binaryMessage = Buffer.from(last.encoded_token, 'base64');
    expect(last.encoded_token).toBe(binaryMessage.toString('base64'));
    const message = await readMessage({ binaryMessage });
    const decrypted: { data: unknown } = await decrypt({ message, decryptionKeys: privateKey });
    expect(decrypted.data).toBe(issued[0]?.token);
    expect(last).toMatchObject({ complete: true, pgp_fingerprint: start.pgp_fingerprint, encoded_root_token: '' });
    expect((await attempts.read()).pgp_fingerprint).toBe('');
  });

  it('that does not parse is refused at the start', async () => {
    const { attempts } = node();
    expect(await refusal(attempts.start(DR, { pgp_key: 'bm90IGEga2V5' }))).toContain('error parsing PGP key');
    expect((await attempts.read()).started).toBe(false);
  });

  it('and a password as well: the password wins and the key is not looked at', async () => {
    const { attempts, issued, share, send, random } = node();
    const otp = randomBase62(28, random);
    const start = await attempts.start(DR, { otp, pgp_key: 'not even base64' });
    expect(start).toMatchObject({ started: true, otp: '', pgp_fingerprint: '' });
    await send(start.nonce, share(0));
    await send(start.nonce, share(1));
    const { encoded_token: encoded } = await send(start.nonce, share(2));
    expect(decode(encoded, otp)).toBe(issued[0]?.token);
  });

  it.each([
    ['no subkey', []],
    ['a signing subkey', [{ sign: true }]],
  ])('that cannot encrypt (%s) starts, and panics at the last share with an orphan token left', async (_, subkeys) => {
    const { attempts, issued, share, send } = node();
    const { publicKey } = await pgpKey({ subkeys });
    const start = await attempts.start(DR, { pgp_key: publicKey });
    await send(start.nonce, share(0));
    await send(start.nonce, share(1));
    await expect(send(start.nonce, share(2))).rejects.toBeInstanceOf(HandlerPanic);
    expect(issued).toHaveLength(1);
    expect(await attempts.read()).toEqual({ ...start, progress: 0 });

    for (const index of [0, 1]) await send(start.nonce, share(index));
    await expect(send(start.nonce, share(2))).rejects.toBeInstanceOf(HandlerPanic);
    expect(issued).toHaveLength(2);
  });
});

describe('the slot', () => {
  it('holds one attempt, which a second start of either kind does not disturb', async () => {
    const { attempts, share, send } = node();
    const { nonce } = await attempts.start(DR);
    await send(nonce, share(0));
    expect(await refusal(attempts.start(DR))).toBe('root generation already in progress');
    expect(await refusal(attempts.start(ROOT))).toBe('root generation already in progress');
    expect(await attempts.read()).toMatchObject({ nonce, progress: 1 });
  });

  it('checks the start inputs before it looks for a running attempt', async () => {
    const { attempts } = node();
    await attempts.start(DR);
    expect(await refusal(attempts.start(DR, { otp: 'short' }))).toBe('OTP string is wrong length');
    expect(await refusal(attempts.start(DR, { pgp_key: 'AAAA' }))).toContain('error parsing PGP key');
  });

  it('shows its attempt to both kinds and takes shares for its own alone', async () => {
    const { attempts, share, send } = node();
    const { nonce } = await attempts.start(ROOT);
    expect(await attempts.read()).toMatchObject({ started: true, nonce });
    expect(await refusal(send(nonce, share(0), DR))).toContain('incorrect strategy supplied');
    expect(await attempts.read()).toMatchObject({ progress: 0 });
  });

  it('is freed by cancel, again and again, and the next attempt has another nonce', async () => {
    const { attempts, share, send } = node();
    await attempts.cancel();
    const { nonce } = await attempts.start(DR);
    await send(nonce, share(0));
    await attempts.cancel();
    await attempts.cancel();
    expect(await attempts.read()).toMatchObject({ started: false, nonce: '', progress: 0 });
    expect(await refusal(send(nonce, share(1)))).toBe('no root generation in progress');
    expect((await attempts.start(DR)).nonce).not.toBe(nonce);
  });

  it('belongs to one node: another node knows nothing of the attempt', async () => {
    const { nonce } = await node().attempts.start(DR);
    const other = node();
    expect(await other.attempts.read()).toMatchObject({ started: false });
    expect(await refusal(other.send(nonce, other.share(0)))).toBe('no root generation in progress');
  });

  it('serves calls at once one after the other: one token, no lost share', async () => {
    const { attempts, issued, share, send } = node();
    const { publicKey } = await pgpKey();
    const { nonce } = await attempts.start(DR, { pgp_key: publicKey });
    const results = await Promise.allSettled([0, 1, 2, 3].map((index) => send(nonce, share(index))));
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected']);
    expect(issued).toHaveLength(1);
  });
});

describe('a share', () => {
  it.each([
    ['missing', undefined, "'key' must be specified in request body as JSON"],
    ['empty', '', "'key' must be specified in request body as JSON"],
    ['neither hex nor base64', 'not a key!', "'key' must be a valid hex or base64 string"],
    ['unpadded base64', Buffer.alloc(32, 1).toString('base64').replace('=', ''), "'key' must be a valid hex or"],
    ['short hex, which is no base64', '0'.repeat(30), "'key' must be a valid hex or base64 string"],
    ['short hex, read as base64', '0'.repeat(20), 'invalid key: key is shorter than minimum 16 bytes'],
    ['15 bytes', Buffer.alloc(15).toString('base64'), 'invalid key: key is shorter than minimum 16 bytes'],
    ['34 bytes', Buffer.alloc(34).toString('base64'), 'invalid key: key is longer than maximum 33 bytes'],
  ])('that is %s is refused before anything else is looked at', async (_name, key, text) => {
    const { attempts } = node();
    expect(await refusal(attempts.update(DR, { key, nonce: 'wrong' }))).toContain(text);
  });

  it('of 16 and of 33 bytes is taken, as hex in either case and as base64', async () => {
    const { attempts, send } = node({ shares: 6, threshold: 6 });
    const { nonce } = await attempts.start(DR);
    expect((await send(nonce, Buffer.alloc(16, 0xab).toString('hex'))).progress).toBe(1);
    expect((await send(nonce, Buffer.alloc(33, 0xab).toString('hex').toUpperCase())).progress).toBe(2);
    expect((await send(nonce, Buffer.alloc(33, 0xcd))).progress).toBe(3);
  });

  it('given twice is a duplicate, across hex and base64, and the progress stays', async () => {
    const { attempts, share, send } = node();
    const { nonce } = await attempts.start(DR);
    await send(nonce, share(0).toString('hex'));
    const duplicate = 'given key has already been provided during this generation operation';
    expect(await refusal(send(nonce, share(0).toString('base64')))).toBe(duplicate);
    expect(await refusal(send(nonce, share(0).toString('hex').toUpperCase()))).toBe(duplicate);
    expect(await attempts.read()).toMatchObject({ progress: 1 });
  });

  it('without an attempt is refused, whatever the nonce', async () => {
    const { send, share } = node();
    expect(await refusal(send('', share(0)))).toBe('no root generation in progress');
  });

  it.each(['', 'wrong'])('with nonce "%s" is told the right one, in the text of the body alone', async (wrong) => {
    const { attempts, send, share } = node();
    const { nonce } = await attempts.start(ROOT);
    const text = await refusal(send(wrong, share(0), DR));
    expect(text).toBe(`incorrect nonce supplied; nonce for this root generation operation is "${nonce}"`);
    await expect(send(wrong, share(0))).rejects.not.toThrow(nonce);
    expect(await attempts.read()).toMatchObject({ progress: 0 });
  });

  it('without the nonce key counts as a wrong nonce', async () => {
    const { attempts, share } = node();
    await attempts.start(DR);
    expect(await refusal(attempts.update(DR, { key: share(0).toString('hex') }))).toContain('incorrect nonce supplied');
  });
});

describe('a failure at the threshold', () => {
  const wrong = Buffer.alloc(33, 7);

  it.each([
    ['a wrong share', () => wrong, WRONG_SHARE_TEXT],
    [
      'the x coordinate of another share',
      (first: Buffer) => Buffer.concat([Buffer.alloc(32, 9), first.subarray(-1)]),
      'failed to compute root key: duplicate part detected',
    ],
    [
      'another length',
      (first: Buffer) => first.subarray(1),
      'failed to compute root key: all parts must be the same length',
    ],
  ])('by %s resets the progress and keeps nonce and password', async (_name, spoil, text) => {
    const { attempts, issued, share, send } = node();
    const { nonce, otp } = await attempts.start(DR);
    await send(nonce, share(0));
    await send(nonce, share(1));
    expect(await refusal(send(nonce, spoil(share(0))))).toBe(text);
    expect(await attempts.read()).toMatchObject({ started: true, nonce, progress: 0 });
    expect(issued).toEqual([]);

    await send(nonce, share(0));
    await send(nonce, share(1));
    const { encoded_token: encoded } = await send(nonce, share(2));
    expect(decode(encoded, otp)).toBe(issued[0]?.token);
  });

  it('is where a short first share shows, not before', async () => {
    const { attempts, share, send } = node();
    const { nonce } = await attempts.start(DR);
    expect((await send(nonce, Buffer.alloc(16, 1))).progress).toBe(1);
    expect((await send(nonce, share(1))).progress).toBe(2);
    expect(await refusal(send(nonce, share(2)))).toContain('all parts must be the same length');
  });

  it('names the key size when the combined key cannot be an AES key', async () => {
    const { attempts, send } = node({ shares: 1, threshold: 1 });
    const { nonce } = await attempts.start(DR);
    expect(await refusal(send(nonce, wrong))).toBe(
      'root generation aborted: unable to authenticate: invalid key: failed to setup unseal key: ' +
        'crypto/aes: invalid key size 33',
    );
  });
});

it('faults and panics keep the texts of the body and the cause out of their message', () => {
  const fault = new ServiceFault(400, ['canary-nonce']);
  expect(String(fault)).not.toContain('canary');
  expect(String(new HandlerPanic(new Error('canary')))).not.toContain('canary');
});
