/** The pure parts of readiness: what readings mean, what a reading that fails means, and how checks are compared. */
import { skewOf } from '../../activities/readiness/clusters';
import { peoplePoints } from '../../activities/readiness/people';
import { NotRead, readPoints, within } from '../../activities/readiness/point';
import { replicationPoints } from '../../activities/readiness/replication';
import { judgeIndependence, judgeRecordedTokens } from '../../activities/readiness/site';
import { changesSince, scoreOf, summarise } from '../../activities/readiness/summary';
import { topologyOf } from '../../activities/readiness/topology';
import type { Topology } from '../../activities/readiness/topology';
import { judgeCertificates } from '../../activities/readiness/upkeep';
import type { ReplicationObservation } from '../../src/contracts/observations';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import { readinessLines } from '../../src/contracts/readiness-words';
import { RunbookError } from '../../src/errors';
import { parseInventory } from '../../src/inventory';
import type { Inventory } from '../../src/inventory';
import { EXAMPLE } from '../inventory/example';
import { pointsOf } from '../support/readiness';

const DAY_MS = 86_400_000;
const inventory = parseInventory(EXAMPLE, 'inventory.yaml');
const payments = deploymentOf(inventory);

function deploymentOf({ deployments }: Inventory) {
  const deployment = deployments.get('payments');
  if (!deployment) throw new Error('no deployment payments');
  return deployment;
}

function reading(name: string, dr: Partial<ReplicationObservation>, drRoots: readonly string[] = ['root']) {
  const observation = {
    cluster: name,
    at: 1,
    reachable: true,
    nodes: [{ address: 'https://n:8200', reachable: true, initialized: true, sealed: false, version: '1.21.8' }],
    attempt: { started: false, progress: 0, required: 3 },
    dr: { mode: 'disabled', peers: [], ...dr },
    performance: { mode: 'disabled', peers: [] },
  };
  return { name, observation, healths: [], activeNodes: ['https://n:8200'], drRoots };
}

function pair(west: Partial<ReplicationObservation>, westRoots?: readonly string[], lastWal = '90'): Topology {
  return topologyOf(payments, [
    reading('east', { mode: 'primary', state: 'running', setId: 's', lastWal, corruptedMerkleTree: false }),
    reading('west', { mode: 'secondary', state: 'stream-wals', setId: 's', ...west }, westRoots),
  ]);
}

const find = (points: readonly ReadinessPoint[], id: string) => points.filter((point) => point.id === id);

describe('lag', () => {
  const lag = (topology: Topology) => find(replicationPoints(topology, []), 'lag');

  it('an index of 0 after a first copy is no lag where the trees are equal', () => {
    expect(lag(pair({ lastRemoteWal: '0' }))).toMatchObject([{ verdict: 'ok', about: 'both' }]);
  });

  it('an index of 0 with another tree is not called lag, and not called good', () => {
    expect(lag(pair({ lastRemoteWal: '0' }, ['another root']))).toMatchObject([
      { verdict: 'fail', about: 'switchover', observed: expect.stringContaining('no equal Merkle roots') as string },
      { verdict: 'warn', about: 'failover' },
    ]);
  });

  it('is the difference of the indexes of the same set, never negative', () => {
    expect(lag(pair({ lastRemoteWal: '88' }))).toMatchObject([{ verdict: 'ok', observed: '2 WAL entries' }]);
    expect(lag(pair({ lastRemoteWal: '95' }))).toMatchObject([{ verdict: 'ok', observed: '0 WAL entries' }]);
    expect(lag(pair({ lastRemoteWal: '18446744073709551114' }, ['root'], '18446744073709551615'))).toMatchObject([
      { about: 'switchover', verdict: 'fail', observed: '501 WAL entries' },
      { about: 'failover', verdict: 'warn' },
    ]);
  });
});

describe('people', () => {
  const judge = (text: string, now = Date.parse('2026-06-01T12:00:00Z')) => {
    const changed = parseInventory(text, 'inventory.yaml');
    return peoplePoints(changed, { ...pair({}), deployment: deploymentOf(changed) }, now);
  };

  it('a gate that nobody but the requester could approve is red only where nobody else may ask', () => {
    // ada is the only approver of the example, and its gates do not exclude the requester.
    expect(find(judge(EXAMPLE), 'gate.plan')).toMatchObject([{ verdict: 'ok', about: 'switchover' }]);
    const excluding = EXAMPLE.replace(
      'plan: { approvals: 1, groups: [approvers], excludeRequester: false',
      'plan: { approvals: 1, groups: [approvers], excludeRequester: true',
    );
    expect(excluding).not.toBe(EXAMPLE);
    const [point] = find(judge(excluding), 'gate.plan');
    expect(point).toMatchObject({ verdict: 'ok', observed: expect.stringContaining('where ada asks') as string });
  });

  it('force needs two people', () => {
    expect(find(judge(EXAMPLE), 'gate.force')).toMatchObject([{ verdict: 'fail', about: 'failover' }]);
  });

  it('holders that are as many as the threshold are a warning, fewer are red, claims are named', () => {
    expect(find(judge(EXAMPLE), 'holders.main')).toMatchObject([
      { verdict: 'warn', observed: '3 holders', reason: 'all of them must be there, at any hour' },
    ]);
    const two = EXAMPLE.replace('[ben, cyd, dan]', '[ben, cyd]');
    expect(find(judge(two), 'holders.main')).toMatchObject([{ verdict: 'fail' }]);
    const [proven] = find(judge(EXAMPLE), 'holders-proven');
    expect(proven).toMatchObject({ verdict: 'warn', observed: expect.stringContaining('ben') as string });
  });
});

describe('the roster', () => {
  const of = (ceremony: string, now: string) => {
    const text = EXAMPLE.replace('holders: [ben, cyd, dan]', ceremony).replace(
      'ben: { groups: [holders]',
      'ben: { groups: [holders, security]',
    );
    expect(text).toContain(ceremony);
    const changed = parseInventory(text, 'inventory.yaml');
    return peoplePoints(changed, { ...pair({}), deployment: deploymentOf(changed) }, Date.parse(now));
  };
  const ENDING = 'holders: [ben, { name: cyd, until: 2026-06-20 }], standBy: [dan, ada]';

  it('counts who is in office, stand-by holders too', () => {
    expect(find(of(ENDING, '2026-05-01T00:00:00Z'), 'holders.main')).toMatchObject([
      { verdict: 'ok', observed: '4 holders, 2 of them standing by' },
    ]);
    expect(find(of(ENDING, '2026-06-21T00:00:00Z'), 'holders.main')).toMatchObject([
      {
        verdict: 'warn',
        observed: '3 holders, 2 of them standing by; cyd in office until 2026-06-20',
        reason: expect.stringContaining('at any hour') as string,
      },
    ]);
  });

  it('warns of terms that end soon, and of a roster that would then be too small', () => {
    expect(find(of(ENDING, '2026-05-01T00:00:00Z'), 'terms.main')).toMatchObject([{ verdict: 'ok' }]);
    const [soon] = find(of(ENDING, '2026-06-01T00:00:00Z'), 'terms.main');
    expect(soon).toMatchObject({ verdict: 'warn', observed: 'cyd until 2026-06-20; then 3 in office' });
    expect(soon?.reason).toBeUndefined();
    const small = ENDING.replace(', ada]', ']');
    expect(find(of(small, '2026-06-01T00:00:00Z'), 'terms.main')).toMatchObject([
      { verdict: 'warn', reason: 'the roster would be too small: at least 3' },
    ]);
    expect(find(of('holders: [ben, cyd, dan]', '2026-06-01T00:00:00Z'), 'terms.main')).toEqual([]);
  });

  it('is red where the groups ask for more than as many shares as make a token can give', () => {
    const groups = (security: number, holders: number) =>
      `holders: [ben, cyd, dan, ada], groups: [{ group: security, shares: ${security} }, { group: holders, shares: ${holders} }]`;
    const now = '2026-06-01T00:00:00Z';
    expect(find(of(groups(1, 2), now), 'holders.main')).toMatchObject([
      { verdict: 'warn', reason: 'the groups cannot be satisfied without ben' },
    ]);
    // One of the approvers and three of the holders are four people, and three shares make a token.
    const disjoint = groups(1, 2)
      .replace('security, shares: 1', 'approvers, shares: 1')
      .replace('shares: 2', 'shares: 3');
    expect(find(of(disjoint, now), 'holders.main')).toMatchObject([
      {
        verdict: 'fail',
        reason: 'no 3 of them satisfy the groups',
        observed: expect.stringContaining('approvers: ada') as string,
      },
    ]);
  });
});

describe('the site', () => {
  it('equal hosts disprove independence; only people can attest it', () => {
    const [host] = payments.clusters.get('east')?.addresses.map((each) => new URL(each).hostname) ?? [];
    const elsewhere = { temporal: 'temporal.example:7233', worker: ['worker-1', '10.9.9.9'] };
    expect(judgeIndependence(payments, elsewhere)).toMatchObject({
      verdicts: 'not-checkable',
      source: 'not-checkable',
    });
    const attested = { ...payments, readiness: { ...payments.readiness, independent: true } };
    expect(judgeIndependence(attested, elsewhere)).toMatchObject({ verdicts: 'ok', source: 'attested' });
    for (const shared of [
      { ...elsewhere, temporal: `${host}:7233` },
      { ...elsewhere, worker: [String(host)] },
    ]) {
      expect(judgeIndependence(attested, shared).verdicts).toEqual({ switchover: 'warn', failover: 'fail' });
    }
  });

  it('tokens of the run that works are its own matter; orphans never are', () => {
    const entry = {
      version: 1,
      id: 'x',
      deployment: 'payments',
      cluster: 'west',
      clusterId: 'c',
      ns: 'n',
      wid: 'w',
    } as const;
    const of = (state: 'alive' | 'orphan' | 'kept', rid: string) => ({ ...entry, state, rid, at: '' });
    const judge = (...[state, rid]: Parameters<typeof of>) => judgeRecordedTokens([of(state, rid)], 'now');
    expect(judge('alive', 'now').verdicts).toBe('ok');
    expect(judge('alive', 'before').verdicts).toBe('warn');
    expect(judge('kept', 'before')).toMatchObject({ verdicts: 'ok', observed: 'west: kept, from w' });
    expect(judge('orphan', 'now').verdicts).toBe('warn');
  });

  it('a second of the server explains up to a second, and the way there and back the rest', () => {
    expect(skewOf(10_000, 10_400, 10_500)).toBe(0);
    expect(skewOf(10_000, 10_998, 11_200)).toBe(0);
    expect(skewOf(20_000, 10_400, 10_500)).toBe(9_500);
    expect(skewOf(10_000, 20_000, 20_100)).toBe(-9_001);
  });
});

describe('certificates', () => {
  it.each([
    ['ok', { validTo: 60 * DAY_MS }],
    ['warn', { validTo: 10 * DAY_MS }],
    ['fail', { validTo: -DAY_MS }],
    ['fail', { validTo: 60 * DAY_MS, refused: 'DEPTH_ZERO_SELF_SIGNED_CERT' }],
    ['not-checkable', { validTo: Number.NaN }],
  ])('%s for %p', (verdict, seen) => {
    const judged = judgeCertificates('secondary', [{ address: 'https://n:8200', ...seen }], 21 * DAY_MS, 0);
    expect(judged.verdicts).toBe(verdict);
  });

  it('the certificate that ends first counts', () => {
    const seen = [60, 5, 90].map((days) => ({ address: `https://n${days}:8200`, validTo: days * DAY_MS }));
    expect(judgeCertificates('secondary', seen, 21 * DAY_MS, 0).observed).toBe('https://n5:8200: 5 days left');
  });
});

describe('a reading that fails', () => {
  const { signal } = new AbortController();
  const judge = () => {
    throw new TypeError('a defect with a secret');
  };
  const asked = { id: 'x', cluster: 'west', needed: 'y', judge };

  it.each([
    ['a refusal', () => Promise.reject(new RunbookError('PERMISSION_DENIED', 'with a secret')), 'PERMISSION_DENIED'],
    ['a defect in judging it', () => Promise.resolve(1), 'INTERNAL (TypeError)'],
  ])('%s is a point that is not checkable and names the code, never nothing and never ok', async (_, read, code) => {
    const points = await readPoints<unknown>(signal, read, asked);
    expect(points).toMatchObject([{ verdict: 'not-checkable', source: 'api', observed: `could not be read: ${code}` }]);
    expect(JSON.stringify(points)).not.toContain('secret');
  });

  it('never hangs, not even where the reading does not heed its signal', async () => {
    await expect(within(signal, () => new Promise(() => undefined), 20)).rejects.toBeInstanceOf(NotRead);
  });

  it('ends with the activity where that is cancelled', async () => {
    const cancelled = AbortSignal.abort(new Error('cancelled'));
    await expect(readPoints(cancelled, () => Promise.reject(new Error('aborted')), asked)).rejects.toThrow('cancelled');
  });
});

describe('score, verdicts and comparison', () => {
  const point = (verdict: ReadinessPoint['verdict'], more: Partial<ReadinessPoint> = {}): ReadinessPoint => {
    return { id: 'a', about: 'both', verdict, source: 'api', observed: 'o', needed: 'n', ...more };
  };

  it('a warning counts half; what nobody can know counts neither way; what was not read counts against', () => {
    const beyond = point('not-checkable', { source: 'not-checkable' });
    expect(scoreOf([point('ok'), beyond])).toBe(100);
    expect(scoreOf([point('ok'), point('warn')])).toBe(75);
    expect(scoreOf([point('ok'), point('not-checkable')])).toBe(50);
    expect(scoreOf([beyond])).toBe(0);
  });

  it('one good DR secondary is enough; another one that is not is a warning; a general defect concerns all', () => {
    const deployment = { ...payments, drSets: new Map([['main', ['east', 'west', 'north']]]) };
    const secondaryState = { mode: 'secondary', state: 'stream-wals' };
    const topology = topologyOf(deployment, [
      reading('east', { mode: 'primary' }),
      reading('west', secondaryState),
      reading('north', secondaryState),
    ]);
    const verdicts = (points: readonly ReadinessPoint[]) => {
      const { switchover, failover, candidates } = summarise(topology, points, undefined, 0);
      return [switchover, failover, ...candidates.map((each) => each.switchover)];
    };
    expect(verdicts([point('fail', { cluster: 'north' })])).toEqual([
      'ready-with-warnings',
      'ready-with-warnings',
      'ready',
      'not-ready',
    ]);
    expect(verdicts([point('fail', { cluster: 'north' }), point('fail', { cluster: 'west' })])[0]).toBe('not-ready');
    expect(verdicts([point('fail', { cluster: 'east', about: 'switchover' })])).toEqual([
      'not-ready',
      'ready',
      'not-ready',
      'not-ready',
    ]);
  });

  it('tells what became worse first, the same change of both questions once, and nothing of new points', () => {
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

  it('the first lines for people hold the verdicts, the changes, and every red point before the warnings', () => {
    const result = summarise(
      pair({}),
      [point('warn', { id: 'w' }), point('fail', { id: 'f' }), point('ok')],
      undefined,
      0,
    );
    const lines = readinessLines(result);
    expect(lines[0]).toBe('Switchover: **not ready**. Failover: **not ready**. Score 50 of 100.');
    expect(lines.slice(1).map((line) => line.slice(0, 10))).toEqual(['**fail** f', '**warn** w']);
    expect(pointsOf(result, 'fail')).toEqual(['f both']);
    // A DR secondary that is worse than the deployment is named before its points are.
    expect(readinessLines({ ...result, failover: 'ready' })[1]).toBe('west: switchover not ready, failover not ready');
  });
});
