import { parseDuration } from '../../src/simulator/duration';
import { canonicalPaths, passesFilter } from '../../src/simulator/filters';
import { encodeJson } from '../../src/simulator/json';
import { capabilitiesOn, parsePolicy } from '../../src/simulator/policies';
import { Storage } from '../../src/simulator/storage';
import { compareVersions } from '../../src/simulator/versions';

describe('policies', () => {
  const text = `
    # everything of the app, one secret left out
    path "kv/app/*" { capabilities = ["read", "list"] }
    path "kv/app/secret" { capabilities = ["deny"] }
    path "kv/+/shared" { capabilities = ["update"] }
  `;
  const rules = parsePolicy(text);
  const on = (path: string) => capabilitiesOn(path, ['app'], (name) => (name === 'app' ? rules : undefined));

  it.each([
    ['kv/app/x', ['list', 'read']],
    ['kv/app/deep/er', ['list', 'read']],
    ['kv/app/secret', ['deny']],
    ['kv/other/shared', ['update']],
    ['kv/other/x', ['deny']],
  ])('on %s give %j', (path, expected) => {
    expect(on(path)).toEqual(expected);
  });

  it('may be JSON, and are refused as anything else', () => {
    expect(parsePolicy('{"path":{"kv/*":{"capabilities":["read"]}}}')).toEqual([
      { path: 'kv/*', capabilities: ['read'] },
    ]);
    expect(parsePolicy('{"path":')).toBeUndefined();
    expect(parsePolicy('nonsense')).toBeUndefined();
  });

  it('of the root name allow everything', () => {
    expect(capabilitiesOn('anything', ['root'], () => undefined)).toEqual(['root']);
  });
});

it.each([
  ['30m', 1_800_000],
  ['1h30m', 5_400_000],
  ['1800', 1_800_000],
  [45, 45_000],
  ['500ms', 500],
  ['soon', undefined],
  ['5m later', undefined],
  ['', undefined],
])('the duration %j is %j ms', (value, expected) => {
  expect(parseDuration(value)).toBe(expected);
});

it('JSON has uint64 integers in full and leaves out what is undefined', () => {
  expect(encodeJson({ wal: 2n ** 63n, none: undefined, list: [1, 'a"b', null, true] })).toBe(
    '{"wal":9223372036854775808,"list":[1,"a\\"b",null,true]}',
  );
});

it('versions compare by number, whatever the edition', () => {
  expect(compareVersions('1.21.4+ent', '1.21.4')).toBe(0);
  expect(compareVersions('1.9.0+ent', '1.21.0+ent')).toBeLessThan(0);
  expect(compareVersions('2.0.0+ent', '1.21.9+ent')).toBeGreaterThan(0);
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

  it('has equal roots exactly for equal data, whatever the order of writes', () => {
    const [a, b] = [new Storage(5n), new Storage(900n)];
    a.write('data/x', secret(1), 0);
    a.write('data/y', secret(2), 0);
    b.write('data/y', secret(3), 0);
    b.write('data/y', secret(2), 0);
    expect(a.rootOf('dr')).not.toBe(b.rootOf('dr'));
    b.write('data/x', secret(1), 0);
    expect(a.rootOf('dr')).toBe(b.rootOf('dr'));
    b.write('data/x', null, 0);
    expect(a.rootOf('dr')).not.toBe(b.rootOf('dr'));
  });

  it('counts local writes in the whole index only, and cluster writes for DR only', () => {
    const storage = new Storage(10n);
    storage.write('data/x', secret(1), 0);
    storage.write('token/x', secret(1), 0);
    storage.write('local/x', secret(1), 0);
    expect([storage.lastWal, storage.lastWalOf('dr'), storage.lastWalOf('performance')]).toEqual([13n, 12n, 11n]);
  });

  it('hands out what came after an index, and nothing once its log no longer reaches back', () => {
    const storage = new Storage(0n);
    for (let n = 0; n < 40_000; n += 1) {
      storage.write('data/x', secret(n), n);
    }
    expect(storage.entriesAfter(39_998n)?.map(({ index }) => index)).toEqual([39_999n, 40_000n]);
    expect(storage.entriesAfter(40_000n)).toEqual([]);
    expect(storage.entriesAfter(1n)).toBeNull();
  });

  it('takes over a source and tells how much of its own went', () => {
    const [a, b] = [new Storage(0n), new Storage(0n)];
    a.write('data/x', secret(1), 0);
    b.write('data/x', secret(2), 0);
    b.write('data/mine', secret(3), 0);
    b.write('local/kept', secret(4), 0);
    expect(b.replaceReplicated('dr', a.replicated('dr'), 0)).toBe(2);
    expect(b.rootOf('dr')).toBe(a.rootOf('dr'));
    expect(b.get('local/kept')).toEqual(secret(4));
  });
});
