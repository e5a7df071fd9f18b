/** What is handed in until the end of a ceremony is looked at, and a stream of it holds no end. */
import type * as TemporalWorkflow from '@temporalio/workflow';
import type { CeremonyHandle } from '../../../src/contracts/ceremony';
import type { InboxItem } from '../../../src/contracts/signals';
import type * as ActivityCalls from '../../../workflows/building-blocks/activity-calls';
import { HandedIn } from '../../../workflows/building-blocks/handed-in';
import type { TakenTokens } from '../../../workflows/building-blocks/handed-in';
import type { Run } from '../../../workflows/building-blocks/run';

const settled = () => new Promise((resolve) => setImmediate(resolve));

jest.mock('@temporalio/workflow', () => ({
  ...jest.requireActual<typeof TemporalWorkflow>('@temporalio/workflow'),
  CancellationScope: { nonCancellable: (body: () => Promise<unknown>) => body() },
  condition: async (holds: () => boolean) => {
    while (!holds()) await new Promise((resolve) => setImmediate(resolve));
  },
}));
jest.mock('../../../workflows/building-blocks/activity-calls', () => ({
  ...jest.requireActual<typeof ActivityCalls>('../../../workflows/building-blocks/activity-calls'),
  stepCalls: () => undefined,
}));

it('a stream of hand-ins holds no end: what came before is looked at, and what began meanwhile is waited for', async () => {
  let process: ((items: readonly InboxItem[]) => Promise<void>) | undefined;
  const signals = { on: (_: string, processor: typeof process) => void (process = processor), holds: () => false };
  const state = { sideContext: () => undefined, noteFindings: () => undefined, receipt: () => undefined };
  const looks: (() => void)[] = [];
  const run = { signals, state } as unknown as Run;
  const handedIn = new HandedIn<string>(run, (_call, _ceremony, [arrival = 0]) => {
    const text = 'accepted';
    const verdict = { arrival, code: 'accepted' as const, text, cluster: 'west', value: `token ${arrival}` };
    return new Promise<TakenTokens<string>>((resolve) => {
      looks.push(() => resolve({ verdicts: [verdict], findings: [] }));
    });
  });
  handedIn.listen({ cid: 'c', threshold: 3 } as CeremonyHandle);
  const hand = (arrival: number) =>
    void process?.([{ signal: 'submitEncodedToken', arrival, receivedAt: 0, input: undefined }]);

  hand(1);
  let finished = false;
  const finishing = handedIn.finish().then(() => (finished = true));
  // Each look is answered only when the next one has begun.
  for (let arrival = 2; arrival <= 6; arrival += 1) {
    hand(arrival);
    looks.shift()?.();
    await settled();
    await settled();
  }
  expect([finished, process]).toEqual([true, undefined]);
  await finishing;
  expect(handedIn.left.map(({ value }) => value)).toEqual(['token 1', 'token 2']);
});

it('what is handed in where it does not listen, before or after, holds no end', async () => {
  const signals = { on: () => undefined, holds: () => true };
  const handedIn = new HandedIn<string>({ signals } as unknown as Run, () => {
    throw new Error('nothing is looked at');
  });
  await handedIn.finish();
  handedIn.listen({ cid: 'c', threshold: 3 } as CeremonyHandle);
  handedIn.stop();
  await handedIn.finish();
  expect(handedIn.left).toEqual([]);
});
