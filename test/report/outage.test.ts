import fc from 'fast-check';
import type { Report } from '../../src/contracts/report';
import type { RunFact } from '../../src/contracts/run-facts';
import { headlineOf, headlinesBelow } from '../../src/report/headlines';
import { objectivesOf } from '../../src/report/outage';
import { reportOf } from '../../src/report/report-of-run';
import type { ActivitySpecification } from './support/run-builder';
import { decided, iso, parked, RunBuilder, when } from './support/run-builder';
import { finishedSwitchover, TIMES } from './support/switchover';

const by = { name: 'olga', how: 'signed' } as const;

/** An activity between two times. */
const activity = (
  type: string,
  [scheduledAt, endedAt]: readonly [number, number?],
  more: Partial<ActivitySpecification> = {},
): ActivitySpecification => ({
  ...{ type, step: { name: type, number: 2 }, scheduledAt, startedAt: scheduledAt },
  ...(endedAt !== undefined && { endedAt, result: {} }),
  ...more,
});
const demotion = activity('demotePrimary', [900, 2_000], {
  ...{ input: { cluster: 'east' }, startedAt: 950 },
  result: { outcome: 'done', observed: 'secondary', calledAt: when(1_000), confirmedAt: when(1_900), calls: 1 },
});
const ready = (from: number, at: number) =>
  activity('awaitServiceReady', [from, at], { result: { readyAt: when(at) } });
const gate = (state: 'opened' | 'approved', at: number): RunFact => ({
  ...{ kind: 'gate', gate: 'promote', state, at: when(at), planDigest: 'd', by: [] },
});
const held = (paused: boolean, at: number): RunFact => ({ kind: 'paused', paused, at: when(at) });
const began = (at: number, since: number, why: string): RunFact => ({
  ...{ kind: 'outage-began', at: when(at), since: when(since), why },
});

/** What a run tells that did this, beside what it learned. */
const reportAfter = (activities: readonly ActivitySpecification[], facts: readonly RunFact[] = []): Report =>
  reportOf(new RunBuilder(activities, facts).build());
const outageOf = (...given: Parameters<typeof reportAfter>) => reportAfter(...given).outage;

const again = activity('demotePrimary', [3_000, 3_500]);
const without = (code: string) => ({ ...demotion, result: undefined, failure: { code, message: 'no' } });
const promote = activity('promoteSecondary', [2_000, 6_000], { startedAt: 5_000, tries: 2 });
const probe = activity('probeService', [5_100]);
const written = activity('proveWrite', [5_100, 5_600], { result: { writtenAt: when(5_500) } });

const CASES: readonly (readonly [string, Parameters<typeof reportAfter>, expected: object])[] = [
  [
    'ends at service-ready if no probe ran',
    [[demotion, ready(2_000, 5_000)]],
    {
      ...{ startedAt: iso(1_000), endedAt: iso(5_000), endedBy: 'service-ready', serviceReadyAt: iso(5_000) },
      ...{ totalMs: 4_000, serviceMs: 4_000, machineMs: 0, peopleMs: 0 },
    },
  ],
  [
    'counts a parked step as people’s time, also while a parallel branch works',
    [
      [demotion, activity('readDeployment', [2_000, 3_000]), ready(4_200, 6_000)],
      [parked(2_500, 'Promote west'), decided(4_000, 'Promote west', 'look again', by)],
    ],
    { totalMs: 5_000, serviceMs: 3_300, peopleMs: 1_500, machineMs: 200 },
  ],
  [
    'counts a parked step as people’s time until what was missing came',
    [
      [demotion, ready(4_200, 6_000)],
      [parked(2_500, 'Collect key shares'), { kind: 'unparked', at: when(4_000), parkingNo: 1 }],
    ],
    { totalMs: 5_000, serviceMs: 2_800, peopleMs: 1_500, machineMs: 700 },
  ],
  [
    'counts a gate that a take-over ended as people’s time until then',
    [
      [demotion, ready(3_000, 6_000)],
      [
        gate('opened', 2_000),
        { kind: 'became-failover', at: when(2_600) },
        ...[gate('opened', 2_800), gate('approved', 3_000)],
      ],
    ],
    { peopleMs: 800, serviceMs: 4_000, machineMs: 200 },
  ],
  [
    'counts an open gate as people’s time until it closes',
    [
      [demotion, ready(3_000, 6_000)],
      [gate('opened', 2_000), gate('approved', 3_000)],
    ],
    { peopleMs: 1_000, serviceMs: 4_000, machineMs: 0 },
  ],
  [
    'counts the wait for key shares as people’s time',
    [
      [demotion, ready(4_200, 6_000)],
      [
        { kind: 'asked', asked: true, at: when(2_500) },
        { kind: 'asked', asked: false, at: when(4_000) },
      ],
    ],
    { totalMs: 5_000, serviceMs: 2_800, peopleMs: 1_500, machineMs: 700 },
  ],
  [
    'counts a pause only if no step runs',
    [
      [demotion, ready(3_000, 6_000)],
      [held(true, 1_500), held(false, 3_000)],
    ],
    { peopleMs: 1_000, serviceMs: 4_000 },
  ],
  [
    'counts the time before a retry as the service’s',
    [[demotion, promote, ready(6_000, 7_000)]],
    { serviceMs: 6_000, machineMs: 0 },
  ],
  [
    'counts the time before a retry as the machine’s if the worker was lost',
    [[demotion, { ...promote, workerLost: true }, ready(6_000, 7_000)]],
    { serviceMs: 3_000, machineMs: 3_000 },
  ],
  [
    'begins with the try whose answer was lost, if a later try found the cluster demoted',
    [[without('CONNECTION_LOST'), { ...again, result: { outcome: 'already', calls: 0 } }, ready(4_000, 5_000)]],
    { startedAt: iso(950), totalMs: 4_050 },
  ],
  [
    'begins with the last try if the earlier ones certainly had no effect',
    [[without('NOT_APPROVED'), { ...again, result: { outcome: 'done', calledAt: when(3_100) } }, ready(4_000, 5_000)]],
    { startedAt: iso(3_100) },
  ],
  [
    'that began before the run keeps that time apart: this run did not work on it',
    [[ready(1_000, 5_000)], [began(500, -34_000, 'the last heartbeat')]],
    {
      ...{ startedAt: iso(-34_000), totalMs: 39_000, beforeRunMs: 34_000 },
      ...{ serviceMs: 4_000, machineMs: 1_000, peopleMs: 0 },
    },
  ],
  [
    'that began once service was back is a second one, with an end of its own',
    [[...[demotion, ready(2_000, 5_000), written], ready(8_000, 9_500)], [began(7_000, 5_000, 'service was back')]],
    { startedAt: iso(5_000), startedBecause: 'service was back', endedAt: iso(9_500), totalMs: 4_500 },
  ],
  [
    'that began once service was back is a second one, and continues unless a later event ends it',
    [[demotion, ready(2_000, 5_000), written], [began(7_000, 5_000, 'service was back')]],
    { startedAt: iso(5_000), endedAt: undefined },
  ],
  [
    'holds times of a host with a wrong clock within the server’s times of the activity',
    [
      [
        { ...demotion, result: { outcome: 'done', calledAt: when(-3_600_000) } },
        { ...ready(2_000, 5_000), result: { readyAt: when(3_600_000) } },
      ],
    ],
    { startedAt: iso(900), endedAt: iso(5_000) },
  ],
  [
    'has no end while the probe runs',
    [[demotion, ready(2_000, 5_000), probe]],
    { serviceReadyAt: iso(5_000), endedAt: undefined, totalMs: undefined },
  ],
  [
    'ends with service-ready if the probe was given up',
    [[demotion, ready(2_000, 5_000), { ...probe, endedAt: 6_000, failure: { code: 'X', message: 'lost' } }]],
    { endedBy: 'service-ready', totalMs: 4_000 },
  ],
];

describe('the outage', () => {
  it.each(CASES)('%s', (_name, given, expected) => {
    expect({ endedAt: undefined, totalMs: undefined, ...outageOf(...given) }).toMatchObject(expected);
  });

  it('is none if the demotion was refused for certain', () => {
    expect(outageOf([without('PRECONDITION_FAILED')])).toBeUndefined();
  });

  it('is shorter than clients felt: they were quiesced from the quiesce to their release, each time', () => {
    const clients = (at: number, held: boolean): RunFact => ({ kind: 'clients', at: when(at), held });
    const heldBy = (...facts: RunFact[]) => reportAfter([], facts).clientsHeld;
    expect(heldBy()).toBeUndefined();
    expect(heldBy(clients(1_000, true), clients(2_000, false), clients(5_000, true), clients(9_000, false))).toEqual({
      ...{ from: iso(1_000), to: iso(9_000), totalMs: 5_000 },
      spans: [
        { from: iso(1_000), to: iso(2_000) },
        { from: iso(5_000), to: iso(9_000) },
      ],
    });
    expect(heldBy(clients(1_000, true))).toEqual({ from: iso(1_000) });
  });

  it('has a split so far if the run was terminated inside', () => {
    const { outage, withoutDrProtection } = reportOf(finishedSwitchover().build(68_000));
    expect(outage).toMatchObject({ startedAt: iso(TIMES.demoteCalled), peopleMs: 0 });
    expect(outage?.totalMs).toBeUndefined();
    expect(withoutDrProtection).toEqual({ from: iso(TIMES.demoteCalled) });
  });

  it('has three parts that add up to the whole, in every order of events', () => {
    const span = fc.tuple(fc.integer({ min: 0, max: 9_000 }), fc.integer({ min: 0, max: 4_000 }));
    fc.assert(
      fc.property(fc.array(span, { maxLength: 6 }), fc.array(span, { maxLength: 4 }), (runs, parks) => {
        const reads = runs.map(([from, length]) => activity('readDeployment', [from, from + 5 + length]));
        const facts = parks.flatMap(([from, length], index) => [
          parked(from, 'S', 'UNREACHABLE', 'm', index + 1),
          decided(from + length, 'S', 'again', by, index + 1),
        ]);
        const outage = outageOf([demotion, ...reads, ready(7_000, 8_000)], facts);
        const parts = [outage?.serviceMs ?? -1, outage?.machineMs ?? -1, outage?.peopleMs ?? -1];
        expect(parts.every((part) => part >= 0)).toBe(true);
        expect(parts.reduce((sum, part) => sum + part, 0)).toBe(outage?.totalMs);
      }),
      { seed: 3, numRuns: 60 },
    );
  });
});

it('the possible loss of a failover counts once a promotion was tried, unless it was refused for certain', () => {
  const loss: RunFact = { kind: 'loss', at: when(500), loss: 'unknown', why: 'there is no sample' };
  const assessed = activity('assessDrFailover', [100, 200]);
  const refused = (outcomeKnown: boolean) =>
    activity('promoteSecondary', [800, 900], {
      failure: { code: 'STATE_DIVERGED', message: 'still primary', outcomeKnown },
    });
  for (const tried of [[], [refused(true)]]) expect(reportAfter([assessed, ...tried], [loss]).loss).toBeUndefined();
  expect(reportAfter([assessed, refused(false), refused(true)], [loss]).loss?.loss).toBe('unknown');
  expect(reportAfter([assessed, activity('promoteSecondary', [800, 900])], [loss]).loss).toEqual({
    ...{ loss: 'unknown', why: 'there is no sample' },
  });
});

it('an unfinished comparison is no loss if the old primary, which holds every write, is primary again', () => {
  const compared = activity('compareAfterDemotion', [2_000, 2_100], { result: { loss: 'bounded', why: 'unequal' } });
  const promoted = (cluster: string, at: number) => activity('promoteSecondary', [at, at + 50], { input: { cluster } });
  const lossAfter = (...more: readonly ActivitySpecification[]) =>
    reportAfter([demotion, compared, ...more]).loss?.loss;
  expect(lossAfter()).toBe('bounded');
  expect(lossAfter(promoted('west', 2_200))).toBe('bounded');
  expect(lossAfter(promoted('east', 2_300))).toBe('none');
  expect(lossAfter(promoted('west', 2_200), promoted('east', 2_300))).toBe('bounded');
  const run = new RunBuilder([demotion, compared]).ended(3_000, 'rolled-back');
  // Whether it was promoted back, or never demoted.
  const why = 'the old primary, which holds every write, is the primary.';
  expect(reportOf(run.build()).loss).toEqual({ loss: 'none', why });
});

it('the end of an outage is reported as observed, also if the old primary serves again, or only a write succeeded', () => {
  const below = (...activities: readonly ActivitySpecification[]) =>
    headlinesBelow(reportAfter([demotion, ...activities]))[0]?.text;
  const written = activity('proveWrite', [2_400, 2_500], { result: { writtenAt: when(2_500) } });
  expect(below(ready(2_200, 2_300), written)).toContain('ended when a primary was observed to be ready.');
  expect(below(written)).toContain('ended when a primary accepted a write from the workers.');
});

it('a promotion of the old primary back is reported if it happened', () => {
  const done = { result: { outcome: 'done', observed: 'primary' } };
  const promoted = activity('promoteSecondary', [2_200, 2_300], { input: { cluster: 'east' }, ...done });
  const headline = (...activities: readonly ActivitySpecification[]) =>
    headlineOf({ ...reportAfter(activities), outcome: 'rolled-back', result: { from: 'east', to: 'west' } }).text;
  expect(headline(demotion, promoted)).toContain('east was promoted back; the switchover did not happen');
  const inDoubt = { failure: { code: 'OUTCOME_UNKNOWN', message: 'lost', outcomeKnown: false } };
  const notDemoted = activity('demotePrimary', [1_000, 2_000], { input: { cluster: 'east' }, ...inDoubt });
  expect(headline(notDemoted)).toContain('east serves; the switchover did not happen');
  expect(headline()).toContain('east was not demoted and still serves');
});

it('a failover that takes over once the old primary was promoted back is of that primary, and reports that no data was lost', () => {
  const promotion = (cluster: string, at: number, end?: number) =>
    activity('promoteSecondary', [at, end], { input: { cluster } });
  const back = [
    ...[demotion, activity('compareAfterDemotion', [2_000, 2_100], { result: { loss: 'none', why: 'equal' } })],
    ...[promotion('east', 2_200, 2_300), activity('assessDrFailover', [2_700, 2_800])],
  ];
  const lossOf = (failedOverAt: number, ...more: readonly ActivitySpecification[]) =>
    reportAfter(
      [...back, ...more],
      [
        { kind: 'became-failover', at: when(failedOverAt) },
        { kind: 'loss', at: when(2_900), loss: 'unknown', why: 'there is no sample' },
      ],
    ).loss?.loss;
  expect(lossOf(2_150)).toBe('none');
  expect(lossOf(2_600)).toBeUndefined();
  expect(lossOf(2_600, promotion('north', 3_000))).toBe('unknown');
});

/** RTO, RPO and time without protection against what the inventory wants: nothing is met that was not measured. */

const startedAt = iso(0);
type Measured = Parameters<typeof objectivesOf>[1];
type Wanted = Parameters<typeof objectivesOf>[0];
const NOTHING = { outage: undefined, clientsHeld: undefined, loss: undefined, withoutDrProtection: undefined };
const verdicts = (measured: Partial<Measured>, wanted: Wanted, after = 40_000) =>
  objectivesOf(wanted, { runbook: 'drSwitchover', ...NOTHING, ...measured }, when(after))?.map(
    ({ verdict, observed }) => [verdict, observed],
  );
const outage = (totalMs?: number): Report['outage'] => ({ startedAt, totalMs });

it('without an outage, or without objectives, no objective is evaluated', () => {
  expect(verdicts({}, { outageMs: 30_000 })).toBeUndefined();
  expect(verdicts({ outage: outage(1) }, {})).toBeUndefined();
});

it('the outage that clients felt counts: from the quiesce or the demotion until the release or the first success', () => {
  const wanted = { outageMs: 30_000 };
  expect(verdicts({ outage: outage(9_000) }, wanted)).toEqual([['met', 9_000]]);
  const held = (from: number, to?: number) => ({
    outage: outage(20_000),
    clientsHeld: { from: iso(from), to: to === undefined ? undefined : iso(to), totalMs: to && to - from },
  });
  expect(verdicts(held(-11_000, 15_000), wanted)).toEqual([['missed', 31_000]]);
  expect(verdicts(held(-5_000, 22_000), wanted)).toEqual([['met', 27_000]]);
  expect(verdicts(held(1_000, 2_000), wanted)).toEqual([['met', 20_000]]);
  expect(verdicts(held(-1_000), wanted, 25_000)).toEqual([['not-measured', 26_000]]);
});

it('an outage whose beginning is unknown never meets its objective', () => {
  const unknown = { outage: { startedAt, totalMs: 9_000, atLeast: true } };
  const withoutDrProtection = { from: startedAt, totalMs: 9_000 };
  expect(verdicts(unknown, { outageMs: 30_000 })).toEqual([['not-measured', 9_000]]);
  expect(verdicts(unknown, { outageMs: 8_000 })).toEqual([['missed', 9_000]]);
  expect(verdicts({ ...unknown, withoutDrProtection }, { unprotectedMs: 60_000 })).toEqual([['not-measured', 9_000]]);
});

it('an outage that still lasts misses its objective once it lasts too long, and is not measured before', () => {
  const lasting = { outage: outage(), withoutDrProtection: { from: startedAt } };
  expect(verdicts(lasting, { outageMs: 30_000, lossWalEntries: 0, unprotectedMs: 60_000 })).toEqual([
    ...[
      ['missed', 40_000],
      ['not-measured', undefined],
      ['not-measured', 40_000],
    ],
  ]);
});

it.each([
  ['none', undefined, 'drFailover', 0, 'met', 0],
  ['bounded', '17', 'drSwitchover', 100, 'met', 17],
  ['bounded', '17', 'drSwitchover', 0, 'missed', 17],
  ['bounded', '0', 'drSwitchover', 0, 'not-measured', 0],
  ['bounded', '17', 'drFailover', 100, 'not-measured', 17],
  ['bounded', '17', 'drFailover', 10, 'missed', 17],
  ['unknown', undefined, 'drFailover', 10, 'not-measured', undefined],
] as const)(
  'a loss is none if that was proven; the bound of a sample is too small: %s %s of %s against %i is %s',
  (kind, boundWalEntries, runbook, lossWalEntries, ...expected) => {
    const loss = { loss: kind, why: '', boundWalEntries };
    expect(verdicts({ outage: outage(1), runbook, loss }, { lossWalEntries })).toEqual([expected]);
  },
);
