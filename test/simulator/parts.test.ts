/** What has vectors, or a rule of its own that no call over the wire shows: shares, tokens' signatures, codings, storage. */
import { ActivationTokenSigner } from '../../src/simulator/activation';
import {
  atLeastVersion,
  decodeHex,
  decodeStandardBase64,
  encodeJson,
  HandlerPanic,
  parseDuration,
  ServiceFault,
} from '../../src/simulator/messages';
import { SeededRandom } from '../../src/simulator/random';
import { canonicalPaths, passesFilter } from '../../src/simulator/routes/filters';
import { capabilitiesOn, parsePolicy } from '../../src/simulator/routes/policies';
import { combineShares, splitSecret } from '../../src/simulator/shamir';
import { Storage } from '../../src/simulator/storage';

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
    const shares = splitSecret(Buffer.from(SECRET, 'hex'), 3, 2, new SeededRandom(1));
    expect(shares.map((share) => share.toString('hex'))).toEqual(OWN_SHARES);
  });

  it('below the threshold give another secret and no error', () => {
    expect(combineShares(FOREIGN_SHARES.slice(0, 2)).toString('hex')).not.toBe(SECRET);
  });
});

describe('an activation token', () => {
  const signer = new ActivationTokenSigner();
  const input = {
    accessor: '',
    addr: 'https://primary.example:8200',
    exp: 1_800_001_800,
    iat: 1_800_000_000,
    jti: 'hvs.AAAAAAAAAAAAAAAAAAAAAAAA',
  };

  it('carries exactly the claims of the service, dated back by 5 seconds, and a signature of 132 bytes', () => {
    const [header, payload, signature] = signer.sign(input).split('.');
    expect(Buffer.from(header ?? '', 'base64url').toString()).toBe('{"alg":"ES512","typ":"JWT"}');
    expect(Buffer.from(payload ?? '', 'base64url').toString()).toBe(
      '{"accessor":"","addr":"https://primary.example:8200","exp":1800001800,"iat":1800000000,' +
        '"jti":"hvs.AAAAAAAAAAAAAAAAAAAAAAAA","nbf":1799999995,"type":"wrapping"}',
    );
    expect(Buffer.from(signature ?? '', 'base64url')).toHaveLength(132);
  });

  it('verifies at its own signer, whatever the hour, nowhere else, and not with any part changed', () => {
    const token = signer.sign({ ...input, exp: 2, iat: 1 });
    expect(signer.verify(token)).toBe(input.jti);
    expect(new ActivationTokenSigner().verify(token)).toBeUndefined();
    const [header = '', payload = '', signature = ''] = token.split('.');
    const otherPayload = Buffer.from(JSON.stringify({ ...input, nbf: 1, type: 'wrapping' })).toString('base64url');
    const noAlgorithm = Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url');
    const forged = [
      ...['', 'garbage', '..', `${header}.${payload}`, `${header}.${payload}.`, `${token}.x`],
      `${header}.${payload}.${signature.slice(0, -8)}`,
      `${header}.${otherPayload}.${signature}`,
      `${noAlgorithm}.${payload}.${signature}`,
      `${noAlgorithm}.${payload}.`,
      `%%%.${payload}.${signature}`,
    ];
    expect(forged.filter((each) => signer.verify(each) !== undefined)).toEqual([]);
  });
});

describe('what goes over the wire', () => {
  it.each(['AAA', 'AA=A', 'AA-_', 'A A=', '=', 'QUJD='])('is not read from "%s" as standard base64', (text) => {
    expect(decodeStandardBase64(text)).toBeUndefined();
  });

  it('may have line breaks in base64, and hex in either letter case', () => {
    expect(decodeStandardBase64('QU\r\nJD\n')?.toString()).toBe('ABC');
    expect(decodeHex('aBcD')).toEqual(Buffer.from([0xab, 0xcd]));
    expect(['abc', 'xy', '0x12'].map(decodeHex)).toEqual([undefined, undefined, undefined]);
  });

  it('has uint64 integers in full and leaves out what is undefined', () => {
    expect(encodeJson({ wal: 2n ** 63n, none: undefined, list: [1, 'a"b', null, true] })).toBe(
      '{"wal":9223372036854775808,"list":[1,"a\\"b",null,true]}',
    );
  });

  it.each([
    ['30m', 1_800_000],
    ['1h30m', 5_400_000],
    ['1800', 1_800_000],
    ['500ms', 500],
    ['soon', undefined],
    ['5m later', undefined],
    ['', undefined],
  ])('has the duration %j of %j ms', (value, expected) => {
    expect(parseDuration(value)).toBe(expected);
  });

  it('compares versions by number, whatever the edition', () => {
    const order = ['1.9.0+ent', '1.21.4', '1.21.4+ent', '2.0.0+ent'];
    expect(order.map((version) => atLeastVersion(version, '1.21.4+ent'))).toEqual([false, true, true, true]);
  });

  it('stands in no message of a fault: what the body says, and what a handler died of', () => {
    expect(String(new ServiceFault(400, ['canary-nonce']))).not.toContain('canary');
    expect(String(new HandlerPanic(new Error('canary')))).not.toContain('canary');
  });
});

describe('policies', () => {
  const rules = parsePolicy(`
    # everything of the app, one secret left out
    path "kv/app/*" { capabilities = ["read", "list"] }
    path "kv/app/secret" { capabilities = ["deny"] }
    path "kv/+/shared" { capabilities = ["update"] }
  `);

  it.each([
    ['kv/app/x', ['list', 'read']],
    ['kv/app/deep/er', ['list', 'read']],
    ['kv/app/secret', ['deny']],
    ['kv/other/shared', ['update']],
    ['kv/other/x', ['deny']],
  ])('on %s give %j', (path, expected) => {
    expect(capabilitiesOn(path, ['app'], (name) => (name === 'app' ? rules : undefined))).toEqual(expected);
  });

  it('may be JSON, and are refused as anything else', () => {
    expect(parsePolicy('{"path":{"kv/*":{"capabilities":["read"]}}}')).toEqual([
      { path: 'kv/*', capabilities: ['read'] },
    ]);
    expect([parsePolicy('{"path":'), parsePolicy('nonsense')]).toEqual([undefined, undefined]);
  });
});

describe('filters', () => {
  it.each([
    ['deny', 'data/kv/x', false],
    ['deny', 'data/secret/x', true],
    ['allow', 'data/kv/x', true],
    ['allow', 'data/secret/x', false],
    ['allow', 'namespace/ns1/', true],
    ['deny', 'data/ns1/kv/x', false],
    ['allow', 'mount/identity/', true],
    ['allow', 'policy/app', true],
  ] as const)('in %s mode let %s through: %s', (mode, key, expected) => {
    expect(passesFilter({ mode, paths: ['kv/', 'ns1/kv/'] }, key)).toBe(expected);
  });

  it('have canonical paths, each once', () => {
    expect(canonicalPaths(['kv', '/kv/', 'ns1/kv'])).toEqual(['kv/', 'ns1/kv/']);
  });
});

describe('the storage', () => {
  const secret = (n: number) => ({ type: 'secret', data: { n } }) as const;

  it('counts local writes in the whole index only, and cluster writes for DR only', () => {
    const storage = new Storage(10n);
    for (const key of ['data/x', 'token/x', 'local/x']) storage.write(key, secret(1), 0);
    expect([storage.lastWal, storage.lastWalOf('dr'), storage.lastWalOf('performance')]).toEqual([13n, 12n, 11n]);
  });

  it('hands out what came after an index, and nothing once its log no longer reaches back', () => {
    const storage = new Storage(0n);
    for (let n = 0; n < 40_000; n += 1) storage.write('data/x', secret(n), n);
    expect(storage.entriesAfter(39_998n)?.map(({ index }) => index)).toEqual([39_999n, 40_000n]);
    expect([storage.entriesAfter(40_000n), storage.entriesAfter(1n)]).toEqual([[], null]);
  });
});
