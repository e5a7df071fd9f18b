/** RTO, RPO and time without protection against what the inventory wants: nothing is met that was not measured. */
import type { Report } from '../../src/contracts/report';
import { objectivesOf } from '../../src/report/outage';

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
