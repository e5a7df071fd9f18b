import type { Report } from '../../src/contracts/report';
import { objectivesOf } from '../../src/report/outage';
import fc from 'fast-check';
import { reportOf } from '../../src/report/report-of-run';
import type { RunFact } from '../../src/contracts/run-facts';
import type { ActivitySpecification } from './support/run-builder';
import { decided, parked, RunBuilder } from './support/run-builder';
import { finishedSwitchover, TIMES } from './support/switchover';
import { INPUT, when } from './support/switchover-data';

const iso = (at: number): string => new Date(when(at)).toISOString();
const by = { name: 'olga', how: 'signed' } as const;

/** A run that only demotes and brings service back, with more activities and facts in between. */
function outageOf(
  more: readonly ActivitySpecification[],
  facts: readonly RunFact[] = [],
  demotion: Partial<ActivitySpecification> = {},
) {
  const history = new RunBuilder().started('drSwitchover', INPUT).activity({
    type: 'demotePrimary',
    step: { name: 'Demote east', number: 1 },
    input: { cluster: 'east' },
    scheduledAt: 900,
    startedAt: 950,
    endedAt: 2_000,
    result: { outcome: 'done', observed: 'secondary', calledAt: when(1_000), confirmedAt: when(1_900), calls: 1 },
    ...demotion,
  });
  for (const activity of more) history.activity(activity);
  history.activity({ type: 'runHook', step: { name: 'Carry', number: 98 }, facts, scheduledAt: 9_990, endedAt: 9_999 });
  return reportOf(history.build()).outage;
}

const ready = (from: number, at: number): ActivitySpecification => ({
  type: 'awaitServiceReady',
  step: { name: 'Wait until west serves', number: 9 },
  scheduledAt: from,
  startedAt: from,
  endedAt: at,
  result: { readyAt: when(at) },
});

describe('the outage', () => {
  it('ends at service-ready where no probe ran', () => {
    expect(outageOf([ready(2_000, 5_000)])).toEqual({
      startedAt: iso(1_000),
      endedAt: iso(5_000),
      endedBy: 'service-ready',
      serviceReadyAt: iso(5_000),
      totalMs: 4_000,
      serviceMs: 4_000,
      machineMs: 0,
      peopleMs: 0,
    });
  });

  it('counts a parked step as people’s time, also while a parallel branch works', () => {
    const facts = [parked(2_500, 'Promote west'), decided(4_000, 'Promote west', 'look again', by)];
    const beside: ActivitySpecification = {
      type: 'readDeployment',
      step: { name: 'Read', number: 2 },
      scheduledAt: 2_000,
      startedAt: 2_000,
      endedAt: 3_000,
      result: {},
    };
    expect(outageOf([beside, ready(4_200, 6_000)], facts)).toMatchObject({
      totalMs: 5_000,
      serviceMs: 3_300,
      peopleMs: 1_500,
      machineMs: 200,
    });
  });

  it('counts an open gate as people’s time until it closes', () => {
    const gate = (state: 'opened' | 'approved', at: number): RunFact => ({
      kind: 'gate',
      gate: 'promote',
      state,
      at: when(at),
      planDigest: 'd',
      by: [],
    });
    expect(outageOf([ready(3_000, 6_000)], [gate('opened', 2_000), gate('approved', 3_000)])).toMatchObject({
      peopleMs: 1_000,
      serviceMs: 4_000,
      machineMs: 0,
    });
  });

  it('counts a pause only where nothing runs', () => {
    const control = (name: 'pause' | 'resume', at: number): RunFact => ({
      kind: 'control',
      control: name,
      at: when(at),
      by: 'olga',
      reason: '',
    });
    expect(outageOf([ready(3_000, 6_000)], [control('pause', 1_500), control('resume', 3_000)])).toMatchObject({
      peopleMs: 1_000,
      serviceMs: 4_000,
    });
  });

  it('counts the time before a retry as the service’s, and as the machine’s where the worker was lost', () => {
    const promote: ActivitySpecification = {
      type: 'promoteSecondary',
      step: { name: 'Promote west', number: 2 },
      scheduledAt: 2_000,
      startedAt: 5_000,
      endedAt: 6_000,
      tries: 2,
      result: {},
    };
    expect(outageOf([{ ...promote, lastFailure: 'application' }, ready(6_000, 7_000)])).toMatchObject({
      serviceMs: 6_000,
      machineMs: 0,
    });
    expect(outageOf([{ ...promote, lastFailure: 'heartbeat' }, ready(6_000, 7_000)])).toMatchObject({
      serviceMs: 3_000,
      machineMs: 3_000,
    });
  });

  it('begins with the try whose answer was lost, where a later try found the cluster demoted', () => {
    const again: ActivitySpecification = {
      type: 'demotePrimary',
      step: { name: 'Demote east', number: 1, attempt: 2 },
      input: { cluster: 'east' },
      scheduledAt: 3_000,
      endedAt: 3_500,
      result: { outcome: 'already', observed: 'secondary', confirmedAt: when(3_400), calls: 0 },
    };
    const lost = { result: undefined, failure: { code: 'CONNECTION_LOST', message: 'reset' } };
    expect(outageOf([again, ready(4_000, 5_000)], [], lost)).toMatchObject({ startedAt: iso(950), totalMs: 4_050 });
  });

  it('begins with the last try where the earlier ones are known to have had no effect', () => {
    const again: ActivitySpecification = {
      type: 'demotePrimary',
      step: { name: 'Demote east', number: 1, attempt: 2 },
      scheduledAt: 3_000,
      endedAt: 3_500,
      result: { outcome: 'done', calledAt: when(3_100) },
    };
    const refused = { result: undefined, failure: { code: 'NOT_APPROVED', message: 'no approval' } };
    expect(outageOf([again, ready(4_000, 5_000)], [], refused)).toMatchObject({ startedAt: iso(3_100) });
  });

  it('that began before the run keeps that time apart: nobody worked on it here', () => {
    const history = new RunBuilder().started('drFailover', INPUT).activity({
      ...ready(1_000, 5_000),
      facts: [{ kind: 'outage-began', at: when(500), since: when(-34_000), why: 'the last heartbeat' }],
    });
    expect(reportOf(history.build()).outage).toMatchObject({
      ...{ startedAt: iso(-34_000), totalMs: 39_000, beforeRunMs: 34_000 },
      ...{ serviceMs: 4_000, machineMs: 1_000, peopleMs: 0 },
    });
  });

  it('that began once service was back is a second one: what ended the first says nothing of its end', () => {
    const facts: RunFact[] = [{ kind: 'outage-began', at: when(7_000), since: when(5_000), why: 'service was back' }];
    const written: ActivitySpecification = {
      ...{ type: 'proveWrite', step: { name: 'See that west takes a write', number: 10 } },
      ...{ scheduledAt: 5_100, startedAt: 5_100, endedAt: 5_600, result: { writtenAt: when(5_500) } },
    };
    const first = [ready(2_000, 5_000), written];
    expect(outageOf([...first, ready(8_000, 9_500)], facts)).toMatchObject({
      ...{ startedAt: iso(5_000), startedBecause: 'service was back' },
      ...{ endedAt: iso(9_500), totalMs: 4_500 },
    });
    expect(outageOf(first, facts)).not.toHaveProperty('endedAt');
  });

  it('is less than clients felt: they were held from the quiesce to their release, each time', () => {
    const clients = (at: number, held: boolean): RunFact => ({ kind: 'clients', at: when(at), held });
    const heldBy = (...facts: RunFact[]) => {
      const history = new RunBuilder().started('drSwitchover', INPUT);
      for (const each of facts) history.fact(each);
      return reportOf(history.build()).clientsHeld;
    };
    expect(heldBy()).toBeUndefined();
    expect(heldBy(clients(1_000, true), clients(2_000, false), clients(5_000, true), clients(9_000, false))).toEqual({
      ...{ from: iso(1_000), to: iso(9_000), totalMs: 5_000 },
    });
    expect(heldBy(clients(1_000, true))).toEqual({ from: iso(1_000) });
  });

  it('is none where the demotion was refused for certain', () => {
    expect(
      outageOf([], [], { result: undefined, failure: { code: 'PRECONDITION_FAILED', message: 'lag' } }),
    ).toBeUndefined();
  });

  it('holds times of a host with a wrong clock within the server’s times of the activity', () => {
    const wrong = { result: { outcome: 'done', calledAt: when(-3_600_000) } };
    expect(outageOf([{ ...ready(2_000, 5_000), result: { readyAt: when(3_600_000) } }], [], wrong)).toMatchObject({
      startedAt: iso(900),
      endedAt: iso(5_000),
    });
  });

  it('has no end while the probe runs, and ends with service-ready where the probe was given up', () => {
    const probe: ActivitySpecification = {
      type: 'probeService',
      step: { name: 'Probe', number: 10 },
      scheduledAt: 5_100,
    };
    const running = outageOf([ready(2_000, 5_000), probe]);
    expect(running).toMatchObject({ serviceReadyAt: iso(5_000) });
    expect([running?.endedAt, running?.totalMs]).toEqual([undefined, undefined]);
    expect(outageOf([ready(2_000, 5_000), { ...probe, endedAt: 6_000, timedOut: true }])).toMatchObject({
      endedBy: 'service-ready',
      totalMs: 4_000,
    });
  });

  it('is told with a split so far where the run died inside', () => {
    const history = finishedSwitchover().build(68_000);
    const { outage, withoutDrProtection } = reportOf(history);
    expect(outage).toMatchObject({ startedAt: iso(TIMES.demoteCalled), peopleMs: 0 });
    expect(outage?.totalMs).toBeUndefined();
    expect(withoutDrProtection).toEqual({ from: iso(TIMES.demoteCalled) });
  });

  it('has three parts that add up to the whole, whatever happens in it', () => {
    const span = fc.tuple(fc.integer({ min: 0, max: 9_000 }), fc.integer({ min: 0, max: 4_000 }));
    fc.assert(
      fc.property(fc.array(span, { maxLength: 6 }), fc.array(span, { maxLength: 4 }), (runs, parks) => {
        const activities = runs.map(([from, length], index): ActivitySpecification => ({
          type: 'readDeployment',
          step: { name: `Read ${index}`, number: index + 2 },
          scheduledAt: from,
          endedAt: from + 5 + length,
        }));
        const facts = parks.flatMap(([from, length], index) => [
          parked(from, 'S', 'UNREACHABLE', 'm', index + 1),
          decided(from + length, 'S', 'again', by, index + 1),
        ]);
        const outage = outageOf([...activities, ready(7_000, 8_000)], facts);
        const parts = [outage?.serviceMs ?? -1, outage?.machineMs ?? -1, outage?.peopleMs ?? -1];
        expect(parts.every((part) => part >= 0)).toBe(true);
        expect(parts.reduce((sum, part) => sum + part, 0)).toBe(outage?.totalMs);
      }),
      { seed: 3, numRuns: 60 },
    );
  });
});

describe('what a failover says that it may lose', () => {
  const failover = (...more: ActivitySpecification[]) => {
    const facts: RunFact[] = [{ kind: 'loss', at: when(500), loss: 'unknown', why: 'there is no sample' }];
    const history = new RunBuilder()
      .started('drFailover', { deployment: 'payments', reason: 'east is gone' })
      .activity({ type: 'assessDrFailover', step: { name: 'Read', number: 1 }, scheduledAt: 100, endedAt: 200 })
      .activity({ type: 'runHook', step: { name: 'Carry', number: 2 }, facts, scheduledAt: 600, endedAt: 700 });
    for (const activity of more) history.activity(activity);
    return reportOf(history.build()).loss;
  };

  it('counts once a promotion was tried, and not before', () => {
    expect(failover()).toBeUndefined();
    const step = { name: 'Promote west', number: 3 };
    expect(failover({ type: 'promoteSecondary', step, scheduledAt: 800, endedAt: 900 })).toEqual({
      loss: 'unknown',
      why: 'there is no sample',
    });
  });
});

/** RTO, RPO and time without protection against what the inventory wants: nothing is met that was not measured. */

const START = Date.parse('2026-11-21T01:00:00.000Z');
const startedAt = new Date(START).toISOString();
const WANTED = { outageMs: 30_000, lossWalEntries: 0, unprotectedMs: 60_000 };
type Measured = Parameters<typeof objectivesOf>[1];
const verdicts = (measured: Partial<Measured>, wanted: Parameters<typeof objectivesOf>[0] = WANTED, after = 40_000) =>
  objectivesOf(
    wanted,
    {
      runbook: 'drSwitchover',
      outage: undefined,
      clientsHeld: undefined,
      loss: undefined,
      withoutDrProtection: undefined,
      ...measured,
    },
    START + after,
  )?.map(({ verdict, observed }) => [verdict, observed]);
const outage = (totalMs?: number): Report['outage'] => ({ startedAt, totalMs });

it('without an outage, or without wishes, nothing is judged', () => {
  expect(verdicts({})).toBeUndefined();
  expect(verdicts({ outage: outage(1) }, {})).toBeUndefined();
});

it('what clients felt counts: from the quiesce or the demotion until the release or the first success', () => {
  const wanted = { outageMs: 30_000 };
  expect(verdicts({ outage: outage(9_000) }, wanted)).toEqual([['met', 9_000]]);
  const held = (from: number, to?: number) => ({
    outage: outage(20_000),
    clientsHeld: {
      from: new Date(START + from).toISOString(),
      ...(to !== undefined && { to: new Date(START + to).toISOString(), totalMs: to - from }),
    },
  });
  expect(verdicts(held(-11_000, 15_000), wanted)).toEqual([['missed', 31_000]]);
  expect(verdicts(held(-5_000, 22_000), wanted)).toEqual([['met', 27_000]]);
  expect(verdicts(held(1_000, 2_000), wanted)).toEqual([['met', 20_000]]);
  expect(verdicts(held(-1_000), wanted, 25_000)).toEqual([['not-measured', 26_000]]);
});

it('an outage whose beginning is not known is never met', () => {
  const unknown = { outage: { startedAt, totalMs: 9_000, atLeast: true } };
  expect(verdicts(unknown, { outageMs: 30_000 })).toEqual([['not-measured', 9_000]]);
  expect(verdicts(unknown, { outageMs: 8_000 })).toEqual([['missed', 9_000]]);
  const withoutDrProtection = { from: startedAt, totalMs: 9_000 };
  expect(verdicts({ ...unknown, withoutDrProtection }, { unprotectedMs: 60_000 })).toEqual([['not-measured', 9_000]]);
});

it('what still lasts is missed once it lasts too long, and not measured before', () => {
  const withoutDrProtection = { from: startedAt };
  expect(verdicts({ outage: outage(), withoutDrProtection })).toEqual([
    ['missed', 40_000],
    ['not-measured', undefined],
    ['not-measured', 40_000],
  ]);
});

it('a loss is none where that was proven; the bound of a sample says too little to be met', () => {
  const loss = (
    lossWalEntries: number,
    runbook: string,
    kind: 'none' | 'bounded' | 'unknown',
    boundWalEntries?: string,
  ) => verdicts({ outage: outage(1), runbook, loss: { loss: kind, why: '', boundWalEntries } }, { lossWalEntries });
  expect(loss(0, 'drFailover', 'none')).toEqual([['met', 0]]);
  expect(loss(100, 'drSwitchover', 'bounded', '17')).toEqual([['met', 17]]);
  expect(loss(0, 'drSwitchover', 'bounded', '17')).toEqual([['missed', 17]]);
  expect(loss(0, 'drSwitchover', 'bounded', '0')).toEqual([['not-measured', 0]]);
  expect(loss(100, 'drFailover', 'bounded', '17')).toEqual([['not-measured', 17]]);
  expect(loss(10, 'drFailover', 'bounded', '17')).toEqual([['missed', 17]]);
  expect(loss(10, 'drFailover', 'unknown')).toEqual([['not-measured', undefined]]);
});
