/** What a command says of a signal that it sent, while workers and the server come and go. */
import { sendSignal } from '../../src/cli/signals';
import { WorkflowNotFoundError } from '@temporalio/client';
import { payloadConverter } from '../../src/contracts/payload-converter';

type Session = Parameters<typeof sendSignal>[1];
const INPUT = { name: 'grace' };
const ARRIVED = {
  events: [
    {
      workflowExecutionSignaledEventAttributes: {
        signalName: 'approve',
        input: { payloads: [payloadConverter.toPayload(INPUT)] },
      },
    },
  ],
};
const RECEIPT = { signal: 'approve', arrival: 1, verdict: 'accepted', code: 'approve', text: 'approves gate plan' };

/** A run whose history and status answer as given, one after the other; the last answer stays. */
function sessionOf(
  histories: readonly unknown[],
  statuses: readonly unknown[],
  taken: Promise<void> = Promise.resolve(),
): Session {
  const next = (answers: readonly unknown[]) => {
    const left = [...answers];
    return () => {
      const answer = left.length > 1 ? left.shift() : left[0];
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    };
  };
  const ended = () => Promise.reject(new WorkflowNotFoundError('ended', 'deployment:payments', 'run'));
  const handle = {
    ...{ signal: () => (histories.length === 0 ? ended() : taken), executeUpdate: ended },
    ...{ fetchHistory: next(histories), query: next(statuses) },
  };
  const client = {
    workflow: { getHandle: () => handle },
    withDeadline: (_deadline: number, work: () => Promise<unknown>) => work(),
  };
  return { client, namespace: 'default' } as unknown as Session;
}

const send = (session: Session, timeoutS?: number, stop = new AbortController().signal) => {
  const context = { stop, err: () => undefined };
  return sendSignal(context, session, { workflowId: 'deployment:payments', runId: 'run' }, 'approve', INPUT, timeoutS);
};

it('reads on where the history does not show the signal yet, the server is away, or no worker answers', async () => {
  const session = sessionOf(
    [{ events: [] }, new Error('the server is away'), ARRIVED],
    [new Error('no worker answers'), { receipts: [], findings: [] }, { receipts: [RECEIPT], findings: [] }],
  );
  expect(await send(session)).toMatchObject({ arrival: 1, receipt: RECEIPT, exitCode: 0 });
});

it('says at its deadline, and not before, that there is no receipt yet', async () => {
  const began = Date.now();
  const sent = await send(sessionOf([ARRIVED], [{ receipts: [], findings: [] }]), 1);
  expect(sent).toMatchObject({ receipt: undefined, exitCode: 4 });
  expect(Date.now() - began).toBeGreaterThanOrEqual(990);
});

it('calls nothing recorded before Temporal took it: no time limit is over before, and who ends it learns that nobody knows', async () => {
  const quiet = [{ receipts: [], findings: [] }];
  let take = (): void => undefined;
  const taken = new Promise<void>((resolve) => (take = resolve));
  const sent = send(sessionOf([ARRIVED], quiet, taken), 0);
  expect(await Promise.race([sent, new Promise((resolve) => setTimeout(resolve, 50, 'still sending'))])).toBe(
    'still sending',
  );
  take();
  expect((await sent).lines).toEqual([expect.stringContaining('Sent, and recorded by Temporal')]);
  const ended = await send(sessionOf([ARRIVED], quiet, new Promise(() => undefined)), 1, AbortSignal.abort());
  expect(ended).toMatchObject({
    exitCode: 4,
    lines: [expect.stringContaining('Whether Temporal took it is not known')],
  });
});

it('says that nothing was sent where no run is open, and never of what a run was sent before it ended', async () => {
  await expect(send(sessionOf([], []))).rejects.toThrow('There is no open run');
  let now = Date.now();
  const clock = jest.spyOn(Date, 'now').mockImplementation(() => (now += 1_000));
  const flooded = { receipts: [], findings: [{ code: 'too-many-signals' }] };
  expect(await send(sessionOf([ARRIVED], [flooded]))).toMatchObject({ arrival: 1, receipt: undefined, exitCode: 4 });
  clock.mockRestore();
});
