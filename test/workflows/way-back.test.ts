/** Nobody is asked for key shares in the outage: what a way back needs is in hand when the demotion begins. */
import { drSwitchover } from '../../workflows/runbooks/dr-switchover';
import { approvePlan } from '../../workflows/procedures/approved-plan';
import type { Run } from '../../workflows/engine/run';
import { executeRunbook } from '../../workflows/engine/runbook';
import { changePrimary } from '../../workflows/procedures/change-primary';

jest.mock('../../workflows/procedures/approved-plan', () => ({
  ...jest.requireActual<object>('../../workflows/procedures/approved-plan'),
  approvePlan: jest.fn(),
}));
jest.mock('../../workflows/engine/runbook', () => ({ executeRunbook: jest.fn() }));
jest.mock('../../workflows/procedures/change-primary', () => ({
  ...jest.requireActual<object>('../../workflows/procedures/change-primary'),
  changePrimary: jest.fn(),
}));

/** A switchover whose key shares are to be had for so long once the secondary has caught up; in which order things happen. */
async function switchOver(leftMs: number): Promise<readonly string[]> {
  const happened: string[] = [];
  const call = { writeMarker: () => Promise.resolve({ wal: '7', reached: '7' }) };
  const run = {
    state: { finding: () => undefined, noteFindings: () => undefined, enterPhase: () => undefined },
    abortable: (body: () => Promise<unknown>) => body(),
    outage: (body: () => Promise<unknown>) => body(),
    step: (name: string, body: (calls: typeof call) => Promise<unknown>) => {
      happened.push(name);
      return body(call);
    },
  } as unknown as Run;
  const tokens = {
    of: (cluster: string) => Promise.resolve(void happened.push(`token of ${cluster}`)),
    lastsFor: (ms: number) => ms < leftMs,
    ceremony: { collectAnew: () => Promise.resolve(void happened.push('shares')) },
  };
  const route = {
    from: 'east',
    to: 'west',
    otherDrSecondaries: [],
    tokenSource: 'ceremony',
    quiesce: 'attested',
  };
  jest.mocked(approvePlan).mockResolvedValue({ route, approvals: {}, tokens } as never);
  jest.mocked(changePrimary).mockImplementation(() => {
    happened.push('outage');
    return Promise.resolve('nowhere');
  });
  jest.mocked(executeRunbook).mockImplementation((runbook, input) => runbook.body(run, input as never) as never);
  await drSwitchover({ deployment: 'payments', go: 'auto' });
  return happened;
}

const CAUGHT_UP = 'Write a marker on east and wait until west has it';

it('key shares that a parked step outlived are collected again before the demotion', async () => {
  expect(await switchOver(30_000)).toEqual([CAUGHT_UP, 'shares', 'token of west', 'outage']);
});

it('those that last are not asked for again', async () => {
  expect(await switchOver(3_600_000)).toEqual([CAUGHT_UP, 'token of west', 'outage']);
});
