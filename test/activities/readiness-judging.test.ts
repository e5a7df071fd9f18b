/** The pure parts of readiness: what readings mean, what a reading that fails means, and how checks are compared. */
import { lag } from '../../activities/checks/replication';
import { skewOf } from '../../activities/readiness/clusters';
import { peopleChecks } from '../../activities/readiness/people';
import { NotRead, pointsOf as pointsOfChecks, readChecks, within } from '../../activities/readiness/point';
import { judgeRecordedTokens } from '../../activities/readiness/site';
import { changesSince, summarise } from '../../activities/readiness/summary';
import { topologyOf } from '../../activities/readiness/topology';
import type { Topology } from '../../activities/readiness/topology';
import type { ReplicationObservation } from '../../src/contracts/observations';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import { readinessLines } from '../../src/contracts/readiness-words';
import { RunbookError } from '../../src/errors';
import { parseInventory } from '../../src/inventory';
import type { Inventory } from '../../src/inventory';
import { EXAMPLE } from '../inventory/example';
import { pointsOf } from '../support/readiness';

const inventory = parseInventory(EXAMPLE, 'inventory.yaml');
const payments = deploymentOf(inventory);

function deploymentOf({ deployments }: Inventory) {
  const deployment = deployments.get('payments');
  if (!deployment) throw new Error('no deployment payments');
  return deployment;
}

function reading(name: string, dr: Partial<ReplicationObservation>) {
  const observation = {
    cluster: name,
    at: 1,
    reachable: true,
    nodes: [{ address: 'https://n:8200', reachable: true, initialized: true, sealed: false, version: '1.21.8' }],
    attempt: { started: false, progress: 0, required: 3 },
    dr: { mode: 'disabled', peers: [], ...dr },
    performance: { mode: 'disabled', peers: [] },
  };
  return { name, observation, healths: [] };
}

const pair = (): Topology =>
  topologyOf(payments, [
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

describe('people', () => {
  /** These approve too, and gate force needs so many of them, without the one who asks. */
  const forceBy = (people: RegExp, approvals: number) =>
    EXAMPLE.replace(
      people,
      "$1: { groups: [holders, approvers], attestation: principal, principal: 'user:$1' }",
    ).replace(
      '    gates:\n',
      `    gates:\n      force: { approvals: ${approvals}, groups: [approvers], validFor: 10m }\n`,
    );
  const judge = (text: string, id: string) => {
    const changed = parseInventory(text, 'inventory.yaml');
    const judged = peopleChecks(changed, { ...pair(), deployment: deploymentOf(changed) });
    return judged.filter(({ name }) => name === id);
  };
  it.each([
    ['gate.plan', EXAMPLE, { verdict: 'ok', about: 'switchover', observed: '1 may approve: ada' }],
    ['gate.force', EXAMPLE, { verdict: 'fail', about: 'failover' }],
    [
      'gate.force',
      forceBy(/(ben): \{.*/, 2),
      { verdict: 'ok', observed: '2 may approve: ada, ben; it cannot be met where ada or ben asks' },
    ],
    [
      'gate.force',
      forceBy(/(\w+): \{ groups: \[holders\].*/g, 4),
      { verdict: 'fail', needed: '4 of approvers, without the one who asks' },
    ],
    ['holders.main', EXAMPLE, { verdict: 'warn', observed: '3 holders: all of them must be there, at any hour' }],
    ['holders.main', EXAMPLE.replace('[ben, cyd, dan]', '[ben, cyd]'), { verdict: 'fail' }],
    [
      'holders.main',
      EXAMPLE.replace('holders: [ben, cyd, dan]', 'holders: [ben, cyd], standBy: [dan, ada]'),
      { verdict: 'ok', observed: '4 holders, 2 of them standing by' },
    ],
  ])('%s (%#)', (id, text, expected) => {
    expect(judge(text, id)).toMatchObject([expected]);
  });
});

describe('the site', () => {
  it.each([
    ['alive', 'now', 'ok'],
    ['alive', 'before', 'warn'],
    ['kept', 'before', 'ok'],
    ['orphan', 'now', 'warn'],
  ] as const)('a token that is %s, of the run %s, is %s: those of the run that works are its own matter', (...row) => {
    const [state, rid, verdict] = row;
    const of = { version: 1, id: 'x', deployment: 'payments', cluster: 'west', clusterId: 'c' } as const;
    const entry = { ...of, ns: 'n', wid: 'w', state, rid, at: '' };
    expect(judgeRecordedTokens([entry], 'now').verdict).toBe(verdict);
  });

  it('a second of the server explains up to a second, and the way there and back the rest', () => {
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
  ])('%s is a point that is not checkable and names the code, never nothing and never ok', async (_, error, code) => {
    const points = pointsOfChecks(await readChecks(signal, asked, () => Promise.reject(error)));
    expect(points).toMatchObject([{ verdict: 'not-checkable', unread: true, observed: `could not be read: ${code}` }]);
    expect(JSON.stringify(points)).not.toContain('secret');
  });

  it('never hangs, not even where the reading does not heed its signal', async () => {
    await expect(within(signal, () => new Promise(() => undefined), 20)).rejects.toBeInstanceOf(NotRead);
  });

  it('ends with the activity where that is cancelled', async () => {
    const cancelled = AbortSignal.abort(new Error('cancelled'));
    await expect(readChecks(cancelled, asked, () => Promise.reject(new Error('aborted')))).rejects.toThrow('cancelled');
  });
});

describe('verdicts and comparison', () => {
  const point = (verdict: ReadinessPoint['verdict'], more: Partial<ReadinessPoint> = {}): ReadinessPoint => {
    return { id: 'a', about: 'both', verdict, observed: 'o', needed: 'n', ...more };
  };

  it('what nobody can know counts neither way; what was not read counts against; of one check made twice the worst counts', () => {
    const verdict = (...points: ReadinessPoint[]) => summarise(pair(), points, undefined, 0).failover;
    expect(verdict(point('ok'), point('not-checkable'))).toBe('ready');
    expect(verdict(point('ok'), point('not-checkable', { unread: true }))).toBe('ready-with-warnings');
    const judged = { name: 'A b', observed: 'o', needed: 'n' };
    const twice = pointsOfChecks([
      { ...judged, verdict: 'warn' },
      { ...judged, verdict: 'fail', about: 'switchover' },
      { ...judged, verdict: 'ok' },
    ]);
    expect(twice.map(({ id, about, verdict: is }) => `${id} ${about} ${is}`)).toEqual([
      'a-b switchover fail',
      'a-b failover warn',
    ]);
  });

  it('one good DR secondary is enough; another one that is not is a warning; a general defect concerns all', () => {
    const deployment = { ...payments, drSets: new Map([['main', ['east', 'west', 'north']]]) };
    const secondaryState = { mode: 'secondary', state: 'stream-wals' };
    const topology = topologyOf(deployment, [
      reading('east', { mode: 'primary' }),
      reading('west', secondaryState),
      reading('north', secondaryState),
    ]);
    const [ready, warned, not] = ['ready', 'ready-with-warnings', 'not-ready'];
    const verdicts = (...points: ReadinessPoint[]) => {
      const { switchover, failover, candidates } = summarise(topology, points, undefined, 0);
      return [switchover, failover, ...candidates.map((each) => each.switchover)];
    };
    const [west, north] = [point('fail', { cluster: 'west' }), point('fail', { cluster: 'north' })];
    expect(verdicts(north)).toEqual([warned, warned, ready, not]);
    expect(verdicts(north, west)[0]).toBe(not);
    expect(verdicts(point('fail', { cluster: 'east', about: 'switchover' }))).toEqual([not, ready, not, not]);
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
      pair(),
      [point('warn', { id: 'w' }), point('fail', { id: 'f' }), point('ok')],
      undefined,
      0,
    );
    const lines = readinessLines(result);
    expect(lines[0]).toBe('Switchover: **not ready**. Failover: **not ready**.');
    expect(lines.slice(1).map((line) => line.slice(0, 10))).toEqual(['**fail** f', '**warn** w']);
    expect(pointsOf(result, 'fail')).toEqual(['f both']);
    // A DR secondary that is worse than the deployment is named before its points are.
    expect(readinessLines({ ...result, failover: 'ready' })[1]).toBe('west: switchover not ready, failover not ready');
  });
});
