/** What a command says of a signal that it sent, while workers and the server come and go. */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { WorkflowNotFoundError } from '@temporalio/client';
import { connectTemporal, describe as describeRun } from '../../src/cli/run';
import { sendSignal } from '../../src/cli/sending';
import { listenOnLoopback } from '../../src/simulator';
import { payloadConverter } from '../../src/contracts/payload-converter';
import { temporalServer } from '../support/temporal-server';

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
  taken: Promise<unknown> = Promise.resolve(),
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

const send = (
  session: Session,
  timeoutMs?: number,
  stop = new AbortController().signal,
  err: (line: string) => void = () => undefined,
) => {
  const context = { stop, err };
  return sendSignal(context, session, { workflowId: 'deployment:payments', runId: 'run' }, 'approve', INPUT, timeoutMs);
};

it('keeps reading if the history does not show the signal yet, the server is away, or no worker answers', async () => {
  const session = sessionOf(
    [{ events: [] }, new Error('the server is away'), ARRIVED],
    [new Error('no worker answers'), { receipts: [], findings: [] }, { receipts: [RECEIPT], findings: [] }],
  );
  expect(await send(session)).toMatchObject({ arrival: 1, receipt: RECEIPT, exitCode: 0 });
});

it('reports at its deadline, and not before, that there is no receipt yet', async () => {
  const began = Date.now();
  const sent = await send(sessionOf([ARRIVED], [{ receipts: [], findings: [] }]), 1_000);
  expect(sent).toMatchObject({ receipt: undefined, exitCode: 4 });
  expect(Date.now() - began).toBeGreaterThanOrEqual(990);
});

it('reports no signal as recorded before Temporal has it: no time limit is over before, and a person who stops it learns that the outcome is unknown', async () => {
  const quiet = [{ receipts: [], findings: [] }];
  let take = (): void => undefined;
  const taken = new Promise<void>((resolve) => (take = resolve));
  const sent = send(sessionOf([ARRIVED], quiet, taken), 0);
  expect(await Promise.race([sent, new Promise((resolve) => setTimeout(resolve, 50, 'still sending'))])).toBe(
    'still sending',
  );
  take();
  expect((await sent).lines).toEqual([expect.stringContaining('Sent and recorded by Temporal')]);
  const ended = await send(sessionOf([ARRIVED], quiet, new Promise(() => undefined)), 1_000, AbortSignal.abort());
  expect(ended).toMatchObject({
    exitCode: 4,
    lines: [expect.stringContaining('It is unknown whether Temporal accepted it')],
  });
});

it('says that no signal was sent if no run is open, and never of a signal that a run got before it ended', async () => {
  await expect(send(sessionOf([], []))).rejects.toThrow('There is no open run');
  let now = Date.now();
  const clock = jest.spyOn(Date, 'now').mockImplementation(() => (now += 1_000));
  const flooded = { receipts: [], findings: [{ code: 'too-many-signals' }] };
  expect(await send(sessionOf([ARRIVED], [flooded]))).toMatchObject({ arrival: 1, receipt: undefined, exitCode: 4 });
  clock.mockRestore();
});

/** A connection to Temporal by a proxy on loopback, which passes nothing on any more once it is told to. */
async function silencedSession() {
  const [host, port] = temporalServer().address.split(':');
  let isSilent = false;
  const server = createServer((incoming) => {
    const onward = connect(Number(port), host);
    incoming.on('data', (data) => isSilent || onward.write(data));
    onward.on('data', (data) => isSilent || incoming.write(data));
    for (const [one, other] of [
      [incoming, onward],
      [onward, incoming],
    ] as const)
      one.on('error', () => undefined).on('close', () => other.destroy());
  });
  const address = `127.0.0.1:${await listenOnLoopback(server)}`;
  const session = await connectTemporal({ address }, {});
  isSilent = true;
  const close = async () => {
    await session.close();
    server.close();
    await once(server, 'close');
  };
  return { ...session, close };
}

it('ends within its limit if Temporal accepted the connection and does not respond, and says meanwhile what it waits for', async () => {
  const session = await silencedSession();
  const { client } = session;
  const within = client.withDeadline.bind(client);
  // Half of each limit is enough to see it.
  jest
    .spyOn(client, 'withDeadline')
    .mockImplementation((deadline, work) => within((Number(deadline) + Date.now()) / 2, work));
  try {
    const lines: string[] = [];
    const sent = await send(session, 0, undefined, (line) => void lines.push(line));
    expect(sent.lines).toEqual([expect.stringContaining('It is unknown whether Temporal accepted it')]);
    expect(sent.exitCode).toBe(4);
    expect(lines).toEqual([
      expect.stringMatching(/^Waiting for Temporal to accept this approve, .*: Temporal does not answer\./),
    ]);
    await expect(describeRun(client, { workflowId: 'deployment:payments' }, 200)).rejects.toMatchObject({
      code: 'TEMPORAL_UNAVAILABLE',
      observed: expect.stringContaining('did not answer in time') as unknown,
    });
  } finally {
    await session.close();
  }
});

it('reports the outcome as unknown if the connection breaks; a signal that Temporal refuses was not sent', async () => {
  const failing = (code: number, details: string) => {
    const cause = Object.assign(new Error(details), { code, details, metadata: {} });
    return send(sessionOf([ARRIVED], [], Promise.reject(new Error('Failed to signal Workflow', { cause }))));
  };
  for (const code of [1, 4, 8, 13, 14])
    expect(await failing(code, 'Connection dropped')).toMatchObject({
      exitCode: 4,
      lines: [expect.stringContaining('It is unknown whether Temporal accepted it')],
    });
  await expect(failing(7, 'Request unauthorized.')).rejects.toMatchObject({
    code: 'TEMPORAL_UNAVAILABLE',
    message: expect.stringContaining('nothing was sent') as unknown,
    observed: 'Request unauthorized.',
  });
});
