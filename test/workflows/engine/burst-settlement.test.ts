/** The end of a ceremony whose worker with the keys is gone: any other settles what it left, and otherwise people are told. */
import { ApplicationFailure } from '@temporalio/common';
import type { BurstInLedger } from '../../../src/contracts/activities';
import type { CeremonyHandle } from '../../../src/contracts/ceremony';
import type { Finding } from '../../../src/contracts/run-facts';
import type { StepCalls } from '../../../workflows/engine/activity-calls';
import { BurstSettlement } from '../../../workflows/procedures/burst-settlement';
import type { Run } from '../../../workflows/engine/run';

interface Settled {
  readonly findings: readonly Finding[];
  readonly bursts?: readonly BurstInLedger[];
}

const GONE = ApplicationFailure.nonRetryable('no worker holds the keys', 'WORKER_UNREACHABLE');
const REJECTED = ApplicationFailure.nonRetryable('rejected', 'SHARES_REJECTED');
const CEREMONY = { cid: 'c', epoch: 1, threshold: 3, keyHome: 'host' } as CeremonyHandle;
const AGAIN = { ...CEREMONY, epoch: 2, keyHome: 'another' };
const ORPHAN: Finding = { severity: 'critical', code: 'orphan-token', text: 'An operation token of west may exist.' };
/** A first attempt that died, and then nobody took the next one. */
const BEGAN_MS = 39_000;

const gone = () => Promise.reject<Settled>(GONE);
afterEach(() => jest.restoreAllMocks());

function ended({ settle = gone, destroy = gone }: { settle?: () => Promise<Settled>; destroy?: typeof settle }) {
  const findings: Finding[] = [];
  const state = {
    deployment: 'payments',
    findings,
    finding: (one: Finding) => findings.push(one),
    noteFindings: (some: readonly Finding[] | undefined) => findings.push(...(some ?? [])),
  };
  const settleCeremony = jest.fn(settle);
  const destroyCeremonyKeys = () => destroy().then((settled) => ({ destroyed: true, text: 'destroyed', ...settled }));
  const calls = { destroyCeremonyKeys, settleCeremony } as unknown as StepCalls;
  const bursts = new BurstSettlement({ state } as unknown as Run);
  let now = 0;
  jest.spyOn(Date, 'now').mockImplementation(() => now);
  const burst = async (how: Error | undefined, { ceremony = CEREMONY, afterMs = BEGAN_MS } = {}) => {
    const result = bursts.during(ceremony, 'west', 'operation-token', () => {
      now += afterMs;
      return how ? Promise.reject(how) : Promise.resolve();
    });
    await (how ? expect(result).rejects.toBe(how) : result);
  };
  const alarms = () =>
    findings.filter(({ code, severity }) => code === 'orphan-token' && severity === 'critical').length;
  return { findings, settleCeremony, burst, alarms, end: (of = CEREMONY) => bursts.destroyKeys(calls, of, []) };
}

it('another worker settles it, and what it finds is told; the keys stay a matter of their own', async () => {
  const bursts = [{ cluster: 'west', epoch: 1 }];
  const { findings, settleCeremony, end, burst } = ended({
    settle: () => Promise.resolve({ findings: [ORPHAN], bursts }),
  });
  await burst(GONE);
  await expect(end()).rejects.toBe(GONE);
  expect(settleCeremony).toHaveBeenCalledWith({ deployment: 'payments', ceremony: { cid: 'c', threshold: 3 } });
  expect(findings).toEqual([ORPHAN]);
  // A step that is tried again says what is known, so that nothing is told twice.
  await expect(end()).rejects.toBe(GONE);
  expect(settleCeremony).toHaveBeenLastCalledWith({
    deployment: 'payments',
    ceremony: { cid: 'c', threshold: 3 },
    told: [ORPHAN.text],
  });
});

it.each([
  ['a burst of which nobody told how it ended: an alarm', GONE, BEGAN_MS, 1],
  ['a burst that no worker began: none', GONE, 30_100, 0],
  ['a burst that told how it ended: none', REJECTED, BEGAN_MS, 0],
])('where no worker can look, %s', async (_what, how, afterMs, alarms) => {
  const { alarms: raised, end, burst } = ended({});
  await burst(how, { afterMs });
  await expect(end()).rejects.toBe(GONE);
  expect(raised()).toBe(alarms);
});

describe('a burst whose worker died, where each host may have a ledger of its own', () => {
  const here =
    (...bursts: BurstInLedger[]) =>
    () =>
      Promise.resolve<Settled>({ findings: [], bursts });
  it.each([
    [
      'the ledger of the worker that destroys the keys has only the next burst',
      { destroy: here({ cluster: 'west', epoch: 2 }) },
      1,
    ],
    ['the ledger of the worker that destroys the keys has it', { destroy: here({ cluster: 'west', epoch: 1 }) }, 0],
    ['the ledger of the worker that settles has nothing of it', { settle: here({ cluster: 'east', epoch: 1 }) }, 1],
    ['the ledger of the worker that settles has it', { settle: here({ cluster: 'west', epoch: 1 }) }, 0],
    ['nobody can settle', {}, 1],
  ])('and the next epoch made a token; %s', async (_what, workers, alarms) => {
    const { alarms: raised, end, burst } = ended(workers);
    await burst(GONE);
    await burst(undefined, { ceremony: AGAIN });
    await end(AGAIN).catch(() => undefined);
    // It is raised once.
    await end(AGAIN).catch(() => undefined);
    expect(raised()).toBe(alarms);
  });

  it('and which says afterwards that it did not do it again: that says nothing of the first time', async () => {
    const { alarms, end, burst } = ended({});
    await burst(GONE);
    await burst(REJECTED);
    await expect(end()).rejects.toBe(GONE);
    expect(alarms()).toBe(1);
  });

  it('and which the host of its keys settles: it has the ledger', async () => {
    const { alarms, end, burst } = ended({ destroy: here() });
    await burst(GONE);
    await end();
    expect(alarms()).toBe(0);
  });
});
