import { compareVersions, supportedVersion } from '../../../activities/checks/versions';

it.each([
  [['1.16.0'], 'ok'],
  [['1.21.4+ent', '2.0.0'], 'ok'],
  [['1.21.4', '1.15.16+ent'], 'fail'],
  [['v1.9.0'], 'fail'],
  [[], 'ok'],
])('a cluster of %j takes part: %s', (versions, verdict) => {
  const nodes = versions.map((version) => ({ address: 'a', reachable: true, version }));
  expect(supportedVersion({ cluster: 'east', at: 0, reachable: true, nodes }).verdict).toBe(verdict);
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
