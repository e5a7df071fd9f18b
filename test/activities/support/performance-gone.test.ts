/** The signs that a performance primary is gone. Pure: what is not told is never taken for silence. */
import { goneChecks } from '../../../activities/checks/signs';
import type { ClusterObservation, ReplicationObservation } from '../../../src/contracts/observations';
import type { Deployment } from '../../../src/inventory';

const deployment = {
  limits: { primaryGoneMs: 30_000 },
  clusters: new Map(['east', 'asia'].map((name) => [name, { name, drSet: name }])),
  drSets: new Map(),
} as unknown as Deployment;

const secondary = (heartbeatAgeMs: number): ReplicationObservation => ({
  mode: 'secondary',
  state: 'stream-wals',
  setId: 'set',
  primaryClusterAddress: 'https://east:8201',
  peers: [{ id: 'east', connected: true, clusterAddress: 'https://east:8201', heartbeatAgeMs }],
});

function cluster(name: string, performance: ReplicationObservation): ClusterObservation {
  return { cluster: name, at: 1, reachable: true, nodes: [], performance };
}
const dead: ClusterObservation = { cluster: 'east', at: 1, reachable: false, nodes: [], error: 'UNREACHABLE' };
const silent = { europe: secondary(60_000), asia: secondary(60_000) };

function against(
  seen: { readonly europe: ReplicationObservation; readonly asia: ReplicationObservation },
  from: 'east' | 'asia' = 'east',
  east: ClusterObservation = dead,
): (readonly [string, string | undefined])[] {
  const [to, asia] = [cluster('europe', seen.europe), cluster('asia', seen.asia)];
  const observations = [east, to, asia];
  const lost = { deployment, from: from === 'east' ? east : asia, to, observations, overrideDrSecondary: false };
  return goneChecks(lost)
    .filter(({ verdict }) => verdict === 'fail')
    .map(({ name, cluster: where }) => [name, where]);
}

it('the new primary testifies too, whatever it tells of its replication set', () => {
  const hears = 'heartbeats of the primary stopped';
  expect(against(silent)).toEqual([]);
  expect(against({ ...silent, europe: secondary(1_000) })).toEqual([[hears, 'europe']]);
  expect(against({ ...silent, europe: { ...secondary(1_000), setId: undefined } })).toEqual([
    ['performance replication set is known', 'europe'],
    [hears, 'europe'],
  ]);
  expect(against({ ...silent, asia: { ...secondary(1_000), setId: undefined } })).toEqual([[hears, 'asia']]);
  expect(against({ ...silent, asia: { ...secondary(1_000), setId: 'another' } })).toEqual([]);
});

it('a primary that tells no set counts as one of the set', () => {
  const primary: ReplicationObservation = { mode: 'primary', peers: [] };
  expect(against({ ...silent, asia: primary })).toEqual([['no cluster answers as performance primary', undefined]]);
});

it('a live secondary that is named as the primary that is gone testifies against it', () => {
  expect(against({ ...silent, asia: secondary(1_000) }, 'asia')).toEqual([
    ['heartbeats of the primary stopped', 'asia'],
  ]);
  // One that was demoted knows no primary and has nothing to say.
  const demoted = cluster('east', { mode: 'secondary', setId: 'set', primaryClusterAddress: '', peers: [] });
  expect(against(silent, 'east', demoted)).toEqual([]);
});
