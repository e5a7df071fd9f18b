import type { Concern } from '../../../activities/checks/versions';
import { compareVersions, knownBugs } from '../../../activities/checks/versions';

const ids = (version: string, concern: Concern) =>
  knownBugs(version)
    .filter(({ concerns }) => concerns.includes(concern))
    .map(({ id }) => id);

describe('defects known of a version of the service (facts 8.11)', () => {
  it.each<[string, Concern, readonly string[], readonly string[]]>([
    [
      'update-primary-data-loss',
      'update-primary by token',
      ['1.9.3', '1.11.11', '1.12.8+ent', '1.13.4+ent.hsm', 'v1.14.0'],
      ['1.11.12', '1.12.9+ent', '1.13.5', '1.14.1', '1.21.4+ent'],
    ],
    [
      'update-primary-addresses-panic',
      'update-primary by addresses',
      ['1.13.3+ent', '1.13.4', '1.14.0+ent'],
      ['1.13.2', '1.13.5', '1.14.1'],
    ],
    ['merkle-diff-atomicity', 'merkle trees', ['1.12.20', '1.13.5', '1.14.1'], ['1.13.6', '1.14.2', '1.15.0']],
    [
      'seal-wrap-quorum-loss',
      'role changes',
      ['1.19.18', '1.20.12', '1.21.7', '2.0.2'],
      ['1.18.9', '1.19.19', '1.20.13', '1.21.8', '2.0.3'],
    ],
    ['operation-token-command-line', 'operation tokens', ['0.9.5', '0.9.6'], ['0.9.4', '0.9.7', '1.0.0']],
    ['consul-storage-enable-panic', 'secondary enable', ['1.21.4'], ['2.0.0']],
  ])('%s concerns %s on exactly the versions that have it', (id, concern, affected, free) => {
    expect([...affected, ...free].filter((version) => ids(version, concern).includes(id))).toEqual(affected);
  });

  it('says nothing of what is no version', () => {
    expect(knownBugs('')).toEqual([]);
    expect(knownBugs('not told')).toEqual([]);
  });
});

it.each([
  ['1.21.4', '1.21.4', 0],
  ['1.21.4+ent', '1.21.4', 0],
  ['v1.21.4', '1.21.4+ent.hsm', 0],
  ['1.21.4', '1.21.10', -1],
  ['2.0.0', '1.21.4', 1],
  ['1.21', '1.21.0', 0],
  ['1.9.9', '1.10.0', -1],
  ['2.0.0-rc1', '2.0.0', 0],
  ['', '0.0.1', -1],
])('version %s against %s', (a, b, sign) => {
  expect(Math.sign(compareVersions(a, b))).toBe(sign);
  // + 0: Math.sign(-0) is -0.
  expect(Math.sign(compareVersions(b, a)) + 0).toBe(-sign + 0);
});
