/** What has vectors, or a rule of its own that no call over the wire shows: shares, filters, storage. */
import { SeededRandom } from '../../src/simulator/random';
import { canonicalPaths, passesFilter } from '../../src/simulator/routes/filters';
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

describe('filters', () => {
  it.each([
    ['deny', 'data/kv/x', false],
    ['deny', 'data/secret/x', true],
    ['allow', 'data/kv/x', true],
    ['allow', 'data/secret/x', false],
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
