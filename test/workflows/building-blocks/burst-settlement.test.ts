/** The end of a ceremony whose worker with the keys is gone: any other settles what it left, and otherwise people are told. */
import { ApplicationFailure } from '@temporalio/common';
import type { CeremonyHandle } from '../../../src/contracts/ceremony';
import type { Finding } from '../../../src/contracts/run-facts';
import type { StepCalls } from '../../../workflows/building-blocks/activity-calls';
import { BurstSettlement } from '../../../workflows/building-blocks/burst-settlement';
import type { Run } from '../../../workflows/building-blocks/run';

const GONE = ApplicationFailure.nonRetryable('no worker holds the keys', 'WORKER_UNREACHABLE');
const REJECTED = ApplicationFailure.nonRetryable('rejected', 'SHARES_REJECTED');
const CEREMONY = { cid: 'c', threshold: 3, keyHome: 'host' } as CeremonyHandle;
const ORPHAN: Finding = { severity: 'critical', code: 'orphan-token', text: 'An operation token of west may exist.' };

function ended(settling: () => Promise<{ findings: readonly Finding[] }>) {
  const findings: Finding[] = [];
  const state = {
    findings,
    finding: (one: Finding) => findings.push(one),
    noteFindings: (some: readonly Finding[] | undefined) => findings.push(...(some ?? [])),
  };
  const settleCeremony = jest.fn(settling);
  const calls = { destroyCeremonyKeys: () => Promise.reject(GONE), settleCeremony } as unknown as StepCalls;
  const bursts = new BurstSettlement({ state } as unknown as Run);
  const destroy = () => bursts.destroyKeys(calls, CEREMONY, []);
  const burst = (how: Error) =>
    expect(bursts.during('west', 'operation-token', () => Promise.reject(how))).rejects.toBe(how);
  return { findings, settleCeremony, destroy, burst };
}

it('another worker settles it, and what it finds is told; the keys stay a matter of their own', async () => {
  const { findings, settleCeremony, destroy, burst } = ended(() => Promise.resolve({ findings: [ORPHAN] }));
  await burst(GONE);
  await expect(destroy()).rejects.toBe(GONE);
  expect(settleCeremony).toHaveBeenCalledWith({ ceremony: { cid: 'c', threshold: 3 } });
  expect(findings).toEqual([ORPHAN]);
  // A step that is tried again says what is known, so that nothing is told twice.
  await expect(destroy()).rejects.toBe(GONE);
  expect(settleCeremony).toHaveBeenLastCalledWith({ ceremony: { cid: 'c', threshold: 3 }, told: [ORPHAN.text] });
});

it.each([
  ['a burst of which nobody told how it ended: an alarm', GONE, 1],
  ['a burst that told how it ended: none', REJECTED, 0],
])('where no worker can look, %s', async (_what, how, alarms) => {
  const { findings, destroy, burst } = ended(() => Promise.reject(GONE));
  await burst(how);
  await expect(destroy()).rejects.toBe(GONE);
  expect(findings.filter(({ code, severity }) => code === 'orphan-token' && severity === 'critical')).toHaveLength(
    alarms,
  );
});
