import fc from 'fast-check';
import { ActivationTokenSigner } from '../../src/simulator/cryptography/activation-token';
import { decodeHex, decodeStandardBase64 } from '../../src/simulator/cryptography/encoding';
import { combineShares, splitSecret } from '../../src/simulator/cryptography/shamir';
import { seededRandom } from '../../src/simulator/cryptography/tokens';

const SECRET = '000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff';
/** Made with the audited library shamir-secret-sharing 0.0.4: 5 shares of SECRET, threshold 3. */
const FOREIGN_SHARES = [
  '1068b23c283b14090a231b9cef9a0e4a9e8417df1f5be6bdb4608f03c6abf7df79',
  '929db23d94ca5b2da086071d38598cb423b5775a9e711a52e4abd4a1c73684695c',
  'f67c37c843da992576ad6d1196f0d22108566239fd8aea034d13d688801efa3154',
  '3c5c179820f0f18240b3503e9db26b3188f9c9f2fa1d3a41af92b6d095999419c0',
  '46db464c9ab85aeee95910d1c8d183ee8967b3329b9ba5a4a70a3c04b49bb5654f',
].map((share) => Buffer.from(share, 'hex'));
/** Made here from seed 1, threshold 2; the same library was seen to recover SECRET from each pair of them. */
const OWN_SHARES: readonly string[] = [
  '057b22e0d3a6ae12069a5c5e050abc5628d28d567962b8503871cd9ffb3e398f47',
  'b648a9e4a6af5b6949d0b228e0a0fc760f5d91e8288666f7b393b8b7cd2d18c1e0',
  'a164c0ed9a745cc782dbc354c3486c3e0e3dae2d556c7bcddaf984ed214999c3da',
];

describe('key shares', () => {
  it.each([
    [0, 1, 2],
    [4, 1, 2],
    [3, 0, 4],
    [0, 1, 2, 3, 4],
  ])('made by another implementation of the format combine here (%s, %s, %s)', (...chosen) => {
    const parts = FOREIGN_SHARES.filter((_, index) => chosen.includes(index));
    expect(combineShares(parts).toString('hex')).toBe(SECRET);
  });

  it('are those that another implementation of the format was seen to combine', () => {
    const shares = splitSecret(Buffer.from(SECRET, 'hex'), 3, 2, seededRandom(1));
    expect(shares.map((share) => share.toString('hex'))).toEqual(OWN_SHARES);
  });

  it('combine from any subset of at least threshold size, in any order', () => {
    const cases = fc
      .record({
        secret: fc.uint8Array({ minLength: 1, maxLength: 33 }),
        shares: fc.integer({ min: 2, max: 9 }),
        seed: fc.integer(),
      })
      .chain((base) => fc.record({ base: fc.constant(base), threshold: fc.integer({ min: 2, max: base.shares }) }))
      .chain(({ base, threshold }) =>
        fc.record({
          base: fc.constant(base),
          threshold: fc.constant(threshold),
          chosen: fc.shuffledSubarray(
            Array.from({ length: base.shares }, (_, index) => index),
            { minLength: threshold },
          ),
        }),
      );
    fc.assert(
      fc.property(cases, ({ base, threshold, chosen }) => {
        const secret = Buffer.from(base.secret);
        const shares = splitSecret(secret, base.shares, threshold, seededRandom(base.seed));
        expect(shares.every((share) => share.length === secret.length + 1)).toBe(true);
        expect(new Set(shares.map((share) => share.at(-1))).size).toBe(base.shares);
        expect(shares.map((share) => share.at(-1))).not.toContain(0);
        expect(combineShares(chosen.map((index) => shares[index] ?? Buffer.alloc(0)))).toEqual(secret);
      }),
      { seed: 7, numRuns: 60 },
    );
  });

  it('below the threshold give another secret and no error', () => {
    const secret = Buffer.from(SECRET, 'hex');
    const shares = splitSecret(secret, 5, 3, seededRandom(2));
    expect(combineShares(shares.slice(0, 2))).not.toEqual(secret);
  });

  it('of threshold 1 are the secret itself, in a buffer of its own', () => {
    const secret = Buffer.from(SECRET, 'hex');
    const [share] = splitSecret(secret, 1, 1, seededRandom(3));
    expect(share).toEqual(secret);
    expect(share).not.toBe(secret);
  });

  it('come out the same under the same seed only', () => {
    const split = (seed: number): Buffer[] => splitSecret(Buffer.from(SECRET, 'hex'), 5, 3, seededRandom(seed));
    expect(split(4)).toEqual(split(4));
    expect(split(4)).not.toEqual(split(5));
  });

  it('can number 255', () => {
    const shares = splitSecret(Buffer.from([42]), 255, 255, seededRandom(6));
    expect(combineShares(shares)).toEqual(Buffer.from([42]));
  });

  it.each([
    ['less than two parts cannot be used to reconstruct the secret', []],
    ['less than two parts cannot be used to reconstruct the secret', ['0101']],
    ['parts must be at least two bytes', ['01', '02']],
    ['all parts must be the same length', ['010101', '0202']],
    ['all parts must be the same length', ['0101', '020202']],
    ['duplicate part detected', ['0101', '0201']],
  ])('are refused with the text of the service: %s', (text, parts) => {
    expect(() => combineShares(parts.map((part) => Buffer.from(part, 'hex')))).toThrow(text);
  });

  it.each([
    [0, 5, 3, 'cannot split an empty secret'],
    [32, 2, 3, 'parts cannot be less than threshold'],
    [32, 256, 3, 'parts cannot exceed 255'],
    [32, 5, 1, 'threshold must be greater than one for multiple shares'],
    [32, 5, 0, 'whole numbers'],
    [32, 2.5, 2, 'whole numbers'],
  ])('of %s bytes, %s shares, threshold %s are refused: %s', (bytes, shares, threshold, text) => {
    expect(() => splitSecret(Buffer.alloc(bytes), shares, threshold, seededRandom(1))).toThrow(text);
  });
});

describe('activation token', () => {
  const signer = new ActivationTokenSigner();
  const input = {
    accessor: '',
    addr: 'https://primary.example:8200',
    exp: 1_800_001_800,
    iat: 1_800_000_000,
    jti: 'hvs.AAAAAAAAAAAAAAAAAAAAAAAA',
  };

  it('carries exactly the claims of the service, dated back by 5 seconds', () => {
    const [header, payload] = signer.signWrapped(input).split('.');
    expect(Buffer.from(header ?? '', 'base64url').toString()).toBe('{"alg":"ES512","typ":"JWT"}');
    expect(Buffer.from(payload ?? '', 'base64url').toString()).toBe(
      '{"accessor":"","addr":"https://primary.example:8200","exp":1800001800,"iat":1800000000,' +
        '"jti":"hvs.AAAAAAAAAAAAAAAAAAAAAAAA","nbf":1799999995,"type":"wrapping"}',
    );
  });

  it('has a signature of 132 bytes every time', () => {
    const lengths = Array.from({ length: 20 }, () => {
      return Buffer.from(signer.signWrapped(input).split('.')[2] ?? '', 'base64url').length;
    });
    expect(new Set(lengths)).toEqual(new Set([132]));
  });

  it('verifies at its own signer, whatever the hour, and nowhere else', () => {
    const token = signer.signWrapped({ ...input, exp: 2, iat: 1 });
    expect(signer.verify(token)).toEqual({ ...input, exp: 2, iat: 1, nbf: -4, type: 'wrapping' });
    expect(new ActivationTokenSigner().verify(token)).toBeUndefined();
  });

  it('does not verify when any part was changed', () => {
    const [header = '', payload = '', signature = ''] = signer.signWrapped(input).split('.');
    const otherPayload = Buffer.from(JSON.stringify({ ...input, nbf: 1, type: 'wrapping' })).toString('base64url');
    const noAlgorithm = Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url');
    const forged = [
      '',
      'garbage',
      '..',
      `${header}.${payload}`,
      `${header}.${payload}.`,
      `${header}.${payload}.${signature}.x`,
      `${header}.${payload}.${signature.slice(0, -8)}`,
      `${header}.${otherPayload}.${signature}`,
      `${noAlgorithm}.${payload}.${signature}`,
      `%%%.${payload}.${signature}`,
    ];
    expect(forged.filter((token) => signer.verify(token) !== undefined)).toEqual([]);
  });
});

describe('strict decoding', () => {
  it.each(['AAA', 'AA=A', 'AA-_', 'A A=', '=', 'QUJD='])('refuses "%s" as standard base64', (text) => {
    expect(decodeStandardBase64(text)).toBeUndefined();
  });

  it('skips line breaks in base64, and reads hex in either letter case', () => {
    expect(decodeStandardBase64('QU\r\nJD\n')?.toString()).toBe('ABC');
    expect(decodeHex('aBcD')).toEqual(Buffer.from([0xab, 0xcd]));
    expect(['abc', 'xy', '0x12'].map(decodeHex)).toEqual([undefined, undefined, undefined]);
  });
});
