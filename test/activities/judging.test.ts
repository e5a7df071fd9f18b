/** The pure parts: what readings mean, what one that fails means, what samples prove, and how checks are compared. */
import { lag } from '../../activities/checks/replication';
import { goneChecks } from '../../activities/checks/signs';
import { compareVersions, versionsAfterLoss } from '../../activities/checks/versions';
import { lossBound, readWalSamples } from '../../activities/evidence/wal-samples';
import { judgeMerkleReport } from '../../activities/merkle/trees';
import { skewOf } from '../../activities/readiness/clusters';
import { NotRead, within } from '../../activities/checks/within';
import { readChecks, topologyOf } from '../../activities/readiness/reading';
import { judgeRecordedTokens, peopleChecks } from '../../activities/readiness/site';
import { changesSince, pointsOf as pointsOfChecks, summarize } from '../../activities/readiness/summary';
import type {
  ClusterObservation,
  ReplicationObservation,
  SampledCluster,
  WalSample,
} from '../../src/contracts/observations';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import { RunbookError } from '../../src/errors';
import { findDeployment, parseInventory } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import { EXAMPLE } from '../inventory/example';
import { failing, holding } from '../support/activity-environment';

const paymentsOf = (text: string) => findDeployment(parseInventory(text, 'inventory.yaml'), 'payments');
const payments = paymentsOf(EXAMPLE);

function reading(name: string, dr: Partial<ReplicationObservation>) {
  const observation = {
    ...{ cluster: name, at: 1, reachable: true },
    nodes: [{ address: 'https://n:8200', reachable: true, initialized: true, sealed: false, version: '1.21.8' }],
    attempt: { started: false, progress: 0, required: 3 },
    dr: { mode: 'disabled', peers: [], ...dr },
    performance: { mode: 'disabled', peers: [] },
  };
  return { name, observation, healths: [] };
}
const pair = (deployment = payments) =>
  topologyOf(deployment, [
    reading('east', { mode: 'primary', state: 'running', setId: 's' }),
    reading('west', { mode: 'secondary', state: 'stream-wals', setId: 's' }),
  ]);

it.each([
  ['never negative', '95', '90', '0 WAL entries', 'ok'],
  ['exact above 2^53', '18446744073709551114', '18446744073709551615', '501 WAL entries', 'fail'],
])('lag is %s', (_name, lastRemoteWal, lastWal, observed, verdict) => {
  const [from, to] = [reading('east', { lastWal }), reading('west', { lastRemoteWal })];
  const judged = lag('dr', from.observation, to.observation, payments.limits.lagWalEntries);
  expect(judged).toMatchObject({ verdict, observed });
});

describe('versions', () => {
  const running = (cluster: string, versions: readonly string[]): ClusterObservation => {
    const nodes = versions.map((version) => ({ address: 'a', reachable: true, version }));
    return { cluster, at: 0, reachable: true, nodes };
  };
  it.each([
    [['1.21.4'], ['1.21.4'], 'ok'],
    [[], ['1.21.4'], 'ok'],
    [['1.21.4'], ['1.20.0'], 'fail'],
    // Nobody knows which of its nodes wrote last.
    [['1.20.0', '1.21.4'], ['1.20.0'], 'warn'],
    [['1.20.0'], ['1.20.0', '1.21.4'], 'warn'],
  ])('a primary of %j that is gone is followed by %j: %s', (before, after, verdict) => {
    expect(versionsAfterLoss(running('east', before), running('west', after)).verdict).toBe(verdict);
  });

  it.each([
    ['v1.21.4', '1.21.4+ent.hsm', 0],
    ['1.9.9', '1.21.10', -1],
    ['2.0.0', '1.21.4', 1],
    ['1.21', '1.21.0', 0],
    ['2.0.0-rc1', '2.0.0', 0],
    ['', '0.0.1', -1],
  ])('%s against %s', (a, b, sign) => {
    expect(Math.sign(compareVersions(a, b))).toBe(sign);
  });
});

describe('the signs that a performance primary is gone', () => {
  const deployment = {
    limits: { primaryGoneMs: 30_000 },
    clusters: new Map(['east', 'asia'].map((name) => [name, { name, drSet: name }])),
    drSets: new Map(),
  } as unknown as Deployment;
  const clusterAddress = 'https://east:8201';
  const secondary = (heartbeatAgeMs: number | undefined, connected = false): ReplicationObservation => ({
    ...{ mode: 'secondary', state: 'stream-wals', setId: 'set', primaryClusterAddress: clusterAddress },
    peers: [{ id: 'east', connected, clusterAddress, heartbeatAgeMs }],
  });
  const cluster = (name: string, performance: ReplicationObservation): ClusterObservation => {
    return { cluster: name, at: 1, reachable: true, nodes: [], performance };
  };
  const dead: ClusterObservation = { cluster: 'east', at: 1, reachable: false, nodes: [], error: 'UNREACHABLE' };
  const heard = secondary(1_000, true);
  type Seen = Partial<Record<'east' | 'europe' | 'asia', ReplicationObservation>>;
  /** The checks that refuse, and the clusters that they are about. */
  const refusing = (seen: Seen, lost: string, silent = dead) => {
    const observations = [
      seen.east ? cluster('east', seen.east) : silent,
      cluster('europe', seen.europe ?? secondary(60_000)),
      cluster('asia', seen.asia ?? secondary(60_000)),
    ];
    const of = (name: string) => observations.find((each) => each.cluster === name) ?? silent;
    const sides = { deployment, from: of(lost), to: of('europe'), observations, overrideDrSecondary: false };
    return failing({ preconditions: goneChecks(sides) }).map(({ name, cluster: at }) =>
      at ? `${name} (${at})` : name,
    );
  };
  const HEARS = 'heartbeats of the primary stopped';
  const UNKNOWN_SET = 'performance replication set is known';
  const PRIMARY = 'no cluster answers as performance primary';

  it('a node that reports active speaks against it, although no node there reports a role', () => {
    const claiming = { address: 'a', reachable: true, sealed: false, standby: false, healthStatus: 200 };
    const east = { ...dead, nodes: [claiming] };
    expect(refusing({}, 'east', east)).toEqual([`the primary does not answer (east)`]);
  });

  const noSet = { ...heard, setId: undefined };
  const demoted: ReplicationObservation = { mode: 'secondary', setId: 'set', primaryClusterAddress: '', peers: [] };
  it.each<[string, Seen, readonly string[], string?]>([
    ['none responds', {}, []],
    ['the new primary testifies too', { europe: heard }, [`${HEARS} (europe)`]],
    ['whatever set it reports', { europe: noSet }, [`${UNKNOWN_SET} (europe)`, `${HEARS} (europe)`]],
    ['one that reports no set counts as a member', { asia: noSet }, [`${HEARS} (asia)`]],
    ['a connection wins over a heartbeat of long ago', { asia: secondary(120_000, true) }, [`${HEARS} (asia)`]],
    ['and over one that never sent a heartbeat', { asia: secondary(undefined, true) }, [`${HEARS} (asia)`]],
    ['one that never received a heartbeat and is not connected does not count', { asia: secondary(undefined) }, []],
    ['one of another set does not', { asia: { ...heard, setId: 'another' } }, []],
    ['a primary that reports no set counts as a member', { asia: { mode: 'primary', peers: [] } }, [PRIMARY]],
    ['a running secondary that is named as the one that is gone', { asia: heard }, [`${HEARS} (asia)`], 'asia'],
    ['one that was demoted has no primary and does not count', { east: demoted }, []],
  ])('%s', (_name, seen, expected, lost = 'east') => {
    expect(refusing(seen, lost)).toEqual(expected);
  });
});

describe('samples as proof of a loss', () => {
  const MINUTE = 60_000;
  const primary = (lastWal: string, name = 'east', setId = 'set'): SampledCluster => {
    return { cluster: name, answered: true, dr: { mode: 'primary', setId, lastWal } };
  };
  const secondary = (lastRemoteWal: string, name = 'west', setId = 'set'): SampledCluster => {
    return { cluster: name, answered: true, dr: { mode: 'secondary', setId, lastRemoteWal } };
  };
  const silent = (cluster: string): SampledCluster => ({ cluster, answered: false, error: 'SERVICE_UNREACHABLE' });
  type Samples = readonly (readonly SampledCluster[])[];
  /** Samples a minute apart, and what is received some minutes after the first. */
  const bounded = (samples: Samples, minute: number, received?: string) => {
    const taken = samples.map((clusters, index): WalSample => ({ at: index * MINUTE, clusters: [...clusters] }));
    return lossBound(taken, 'east', 'west', { at: minute * MINUTE, received });
  };

  it('show the difference between the last sampled write of the primary and the present state of the secondary', () => {
    const samples = [
      [primary('1000'), secondary('990')],
      [primary('1600'), secondary('1500')],
      [silent('east'), secondary('1580')],
    ];
    const { bound, why } = bounded(samples, 3, '1580');
    expect(bound).toBe('20');
    for (const part of ['120 s old', 'lacks 20 of these entries', 'what east wrote after that sample is unknown'])
      expect(why).toContain(part);
    expect(bounded(samples, 3).why).toContain('1580 by its last sample and lacked 20 of these entries');
  });

  const sampled = [primary('1000'), secondary('900')];
  const changed = [secondary('5', 'east'), primary('5', 'west')];
  const ofTwoSets = [primary('1000', 'east', 'a'), secondary('900', 'west', 'b')];
  it.each<[string, Samples, string | undefined, string]>([
    ['0, if it has all of the last sample', [sampled], '1200', '0'],
    ['by its own samples, if no other information exists', [sampled], undefined, '100'],
    ['exact above 2^53', [[primary('18446744073709551615'), secondary('18446744073709551000')]], undefined, '615'],
    ['never across a change of the primary', [sampled, changed, [primary('50'), secondary('45')]], undefined, '5'],
  ])('is %s', (_what, samples, received, bound) => {
    expect(bounded(samples, samples.length, received).bound).toBe(bound);
  });

  it.each<[string, Samples, string]>([
    ['without samples', [], 'there are no WAL samples'],
    ['if the primary never reported it', [[silent('east'), secondary('9')]], 'shows east as primary'],
    ['if the primary was a secondary at its last answer', [sampled, changed], 'since their last role change'],
    ['of two sets', [ofTwoSets], 'since their last role change'],
    ['if the secondary never streamed', [[primary('1000'), secondary('0')]], 'is not reported'],
  ])('leave it unknown %s', (_what, samples, words) => {
    expect(bounded(samples, samples.length)).toEqual({ bound: undefined, why: holding(words) });
  });

  it('a visibility store that cannot be asked gives no samples, and never an error', async () => {
    const warn = jest.fn();
    const dependencies = { temporal: {} as never, log: { warn } as never, sealKeyring: {} as never };
    const nothing = { samples: [], unattested: 0 };
    expect(await readWalSamples(dependencies, 'payments', new AbortController().signal)).toEqual(nothing);
    expect(warn).toHaveBeenCalledTimes(1);
  });
});

describe('the verdict of a Merkle check', () => {
  const tree = { id: '1', treeType: 'replicated', corruptedSubtreeRoot: false, corruptedPages: [] };
  const corruptedPages = Array.from({ length: 300 }, (_, page) => ({ page, corrupted: false, subpages: [1, 2] }));

  it.each([
    [
      'counts the damaged pages and subpages',
      { subtrees: [{ ...tree, corruptedPages }] },
      { verdict: 'corrupted', damage: [{ pages: 300, subpages: 600 }] },
    ],
    [
      'is corrupted if only the root is, and no subtree is named',
      { corruptedRoot: true },
      { verdict: 'corrupted', damage: [], text: holding('the root of the tree') },
    ],
    [
      'says so if the status contradicts a sound tree',
      { healthy: true },
      { verdict: 'sound', findings: [{ code: 'merkle-status-differs' }] },
    ],
  ])('%s', (_what, more, judged) => {
    const report = { healthy: false, corruptedRoot: false, subtrees: [tree], ...more };
    expect(judgeMerkleReport('west', report, true)).toMatchObject(judged);
  });
});

describe('people', () => {
  /** These approve too, and gate force needs so many of them, without the one who asks. */
  const forceBy = (people: RegExp, approvals: number) => {
    const listed = "$1: { groups: [holders, approvers], attestation: principal, principal: 'user:$1' }";
    const force = `      force: { approvals: ${approvals}, groups: [approvers], validFor: 10m }\n`;
    return EXAMPLE.replace(people, listed).replace('    gates:\n', `    gates:\n${force}`);
  };
  const TWO = '2 may approve: ada, ben; it cannot be met if ada or ben requests the run';
  const FOUR = '4 of approvers, excluding the requester';
  const THREE_HOLDERS = '3 holders: all of them must be available, at any hour';
  const holders = (listed: string) => EXAMPLE.replace('holders: [ben, cyd, dan]', `holders: ${listed}`);
  const STANDING_BY = '4 holders, 2 of them standing by';

  it.each([
    ['gate.plan', EXAMPLE, { verdict: 'ok', about: 'switchover', observed: '1 may approve: ada' }],
    ['gate.force', EXAMPLE, { verdict: 'fail', about: 'failover' }],
    ['gate.force', forceBy(/(ben): \{.*/, 2), { verdict: 'ok', observed: TWO }],
    ['gate.force', forceBy(/(\w+): \{ groups: \[holders\].*/g, 4), { verdict: 'fail', needed: FOUR }],
    ['holders.main', EXAMPLE, { verdict: 'warn', observed: THREE_HOLDERS }],
    ['holders.main', holders('[ben, cyd]'), { verdict: 'fail' }],
    ['holders.main', holders('[ben, cyd], standBy: [dan, ada]'), { verdict: 'ok', observed: STANDING_BY }],
  ])('%s (%#)', (id, text, expected) => {
    const judged = peopleChecks(parseInventory(text, 'inventory.yaml'), pair(paymentsOf(text)));
    expect(judged.filter(({ name }) => name === id)).toMatchObject([expected]);
  });
});

describe('the site', () => {
  it.each([
    ['alive', 'now', 'ok'],
    ['alive', 'before', 'warn'],
    ['kept', 'before', 'ok'],
    ['orphan', 'now', 'warn'],
  ] as const)('a token that is %s, of the run %s, is %s: those of an active run are its own matter', (...row) => {
    const [state, rid, verdict] = row;
    const of = { version: 1, id: 'x', deployment: 'payments', cluster: 'west', clusterId: 'c' } as const;
    const entry = { ...of, ns: 'n', wid: 'w', state, rid, at: '' };
    expect(judgeRecordedTokens([entry], 'now').verdict).toBe(verdict);
  });

  it('a second of the server explains up to a second, and the round trip the rest', () => {
    expect(skewOf(10_000, 10_400, 10_500)).toBe(0);
    expect(skewOf(10_000, 10_998, 11_200)).toBe(0);
    expect(skewOf(20_000, 10_400, 10_500)).toBe(9_500);
    expect(skewOf(10_000, 20_000, 20_100)).toBe(-9_001);
  });
});

describe('a reading that fails', () => {
  const { signal } = new AbortController();
  const asked = { name: 'x', cluster: 'west', needed: 'y' };

  it.each([
    ['a refusal', new RunbookError('PERMISSION_DENIED', 'with a secret'), 'PERMISSION_DENIED'],
    ['a defect', new TypeError('a defect with a secret'), 'INTERNAL (TypeError)'],
    [
      'an answer with a text',
      new RunbookError('BAD_REQUEST', 'with a secret', { answerText: 'check-and-set required' }),
      'BAD_REQUEST, answered "check-and-set required"',
    ],
  ])('%s is a point that fails and names the cause, never empty and never ok', async (_, error, code) => {
    const points = pointsOfChecks(await readChecks(signal, asked, () => Promise.reject(error)));
    expect(points).toMatchObject([{ verdict: 'fail', unread: true, observed: `could not be read: ${code}` }]);
    expect(JSON.stringify(points)).not.toContain('secret');
  });

  it('never hangs, not even if the reading ignores its signal; it ends with the activity', async () => {
    await expect(within(signal, () => new Promise(() => undefined), 20)).rejects.toBeInstanceOf(NotRead);
    const cancelled = AbortSignal.abort(new Error('cancelled'));
    await expect(readChecks(cancelled, asked, () => Promise.reject(new Error('aborted')))).rejects.toThrow('cancelled');
  });
});

describe('verdicts and comparison', () => {
  const point = (verdict: ReadinessPoint['verdict'], more: Partial<ReadinessPoint> = {}): ReadinessPoint => {
    return { id: 'a', about: 'both', verdict, observed: 'o', needed: 'n', ...more };
  };

  it('a point that cannot be known counts neither way; of one check made twice the worse counts', () => {
    const verdict = (...points: ReadinessPoint[]) => summarize(pair(), points, undefined, 0).failover;
    expect(verdict(point('ok'), point('not-checkable'))).toBe('ready');
    const judged = { name: 'A b', observed: 'o', needed: 'n' };
    const twice = pointsOfChecks([
      { ...judged, verdict: 'warn' },
      { ...judged, verdict: 'fail', about: 'switchover' },
      { ...judged, verdict: 'ok' },
    ]);
    const told = twice.map(({ id, about, verdict: is }) => `${id} ${about} ${is}`);
    expect(told).toEqual(['a-b switchover fail', 'a-b failover warn']);
  });

  it('one good DR secondary is enough; another one that is not is a warning; a general defect concerns all', () => {
    const deployment = { ...payments, drSets: new Map([['main', ['east', 'west', 'north']]]) };
    const following = { mode: 'secondary', state: 'stream-wals' };
    const readings = [reading('east', { mode: 'primary' }), reading('west', following), reading('north', following)];
    const [ready, warned, not] = ['ready', 'ready-with-warnings', 'not-ready'];
    const verdicts = (...points: ReadinessPoint[]) => {
      const { switchover, failover, candidates } = summarize(topologyOf(deployment, readings), points, undefined, 0);
      return [switchover, failover, ...candidates.map((each) => each.switchover)];
    };
    const [west, north] = [point('fail', { cluster: 'west' }), point('fail', { cluster: 'north' })];
    expect(verdicts(north)).toEqual([warned, warned, ready, not]);
    expect(verdicts(north, west)[0]).toBe(not);
    expect(verdicts(point('fail', { cluster: 'east', about: 'switchover' }))).toEqual([not, ready, not, not]);
  });

  it('reports what became worse first, the same change of both questions once, and no new points', () => {
    const before = [point('ok'), point('fail', { id: 'b' }), point('ok', { id: 'c', cluster: 'west' })];
    const now = [
      point('ok', { id: 'b' }),
      point('warn'),
      point('fail', { id: 'c', cluster: 'west', about: 'switchover' }),
      point('warn', { id: 'c', cluster: 'west', about: 'failover' }),
      point('fail', { id: 'new' }),
    ];
    expect(changesSince(before, now)).toEqual([
      { change: 'worse', id: 'a', about: 'both', before: 'ok', now: 'warn' },
      { change: 'worse', id: 'c', cluster: 'west', about: 'switchover', before: 'ok', now: 'fail' },
      { change: 'worse', id: 'c', cluster: 'west', about: 'failover', before: 'ok', now: 'warn' },
      { change: 'better', id: 'b', about: 'both', before: 'fail', now: 'ok' },
    ]);
  });
});
