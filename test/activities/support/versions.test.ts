import type { Concern } from '../../../activities/checks/versions';
import { compareVersions, knownBugs } from '../../../activities/checks/versions';

const ids = (version: string, concern: Concern) =>
  knownBugs(version)
    .filter(({ concerns }) => concerns.includes(concern))
    .map(({ id }) => id);

describe('defects known of a version of the service (facts 8.11)', () => {
  it.each([
    ['1.11.11', true],
    ['1.11.12', false],
    ['1.12.8+ent', true],
    ['1.12.9+ent', false],
    ['1.13.4+ent.hsm', true],
    ['1.13.5', false],
    ['v1.14.0', true],
    ['1.14.1', false],
    ['1.9.3', true],
    ['1.21.4+ent', false],
  ])('update-primary by token loses data on %s: %s', (version, affected) => {
    expect(ids(version, 'update-primary by token').includes('update-primary-data-loss')).toBe(affected);
  });

  it.each([
    ['1.13.2', false],
    ['1.13.3+ent', true],
    ['1.13.4', true],
    ['1.13.5', false],
    ['1.14.0+ent', true],
    ['1.14.1', false],
  ])('update-primary by addresses panics on %s: %s', (version, affected) => {
    expect(ids(version, 'update-primary by addresses').includes('update-primary-addresses-panic')).toBe(affected);
  });

  it.each([
    ['1.13.5', true],
    ['1.13.6', false],
    ['1.14.1', true],
    ['1.14.2', false],
    ['1.15.0', false],
  ])('the Merkle comparison is not atomic on %s: %s', (version, affected) => {
    expect(ids(version, 'merkle trees').includes('merkle-diff-atomicity')).toBe(affected);
  });

  it.each([
    ['1.18.9', false],
    ['1.19.18', true],
    ['1.19.19', false],
    ['1.21.7', true],
    ['1.21.8', false],
    ['2.0.2', true],
    ['2.0.3', false],
  ])('seal wrap loses the quorum on %s: %s', (version, affected) => {
    expect(ids(version, 'role changes').includes('seal-wrap-quorum-loss')).toBe(affected);
  });

  it('every defect names the versions that have it no more, and none of those has it', () => {
    for (const version of ['0.9.5', '1.9.0', '1.13.3', '1.14.0', '1.20.1', '2.0.1']) {
      for (const bug of knownBugs(version)) {
        expect(bug.text).not.toBe('');
        for (const fixed of bug.fixedIn) expect(knownBugs(fixed).map(({ id }) => id)).not.toContain(bug.id);
      }
    }
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
