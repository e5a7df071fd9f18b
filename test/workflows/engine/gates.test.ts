/**
 * What meets a gate, what does not meet it a second time, and what becomes of one that nobody approves. And what a run
 * looks at of a flood of signals.
 */
import { setHandler } from '@temporalio/workflow';
import { checks } from '../../../workflows/engine/activity-calls';
import { RunStopped } from '../../../workflows/engine/failures';
import { passGate } from '../../../workflows/engine/gates';
import { WINDOW_MS } from '../../../workflows/engine/flood';
import { interceptors } from '../../../workflows/engine/interceptors';
import { Signals } from '../../../workflows/engine/signals';
import { fakeRun } from '../../support/fake-run';

jest.mock('@temporalio/workflow', () => ({
  ...jest.requireActual<object>('@temporalio/workflow'),
  workflowInfo: () => ({ workflowId: 'deployment:payments' }),
  defineSignal: (name: string) => `signal ${name}`,
  defineUpdate: (name: string) => `update ${name}`,
  setDefaultSignalHandler: () => undefined,
  setHandler: jest.fn(),
}));
jest.mock('../../../workflows/engine/activity-calls', () => ({ checks: { checkApprovals: jest.fn() } }));

const START = Date.parse('2026-03-01T12:00:00Z');
const VALID_FOR = 4 * 3_600_000;
const policy = { approvals: 1, approvers: ['grace'], validForMs: VALID_FOR };

beforeEach(() => jest.useFakeTimers({ now: START }));
afterEach(() => jest.useRealTimers());

describe('a gate that was met and opens again', () => {
  const command = '`runbook approve deployment:payments --gate go`';

  /** A run to which these contents are signalled at each opening; what `waiting` holds arrived before. */
  function signalledRun(how: 'signed' | 'principal' | 'claimed', contents: readonly string[]) {
    const waiting: { readonly arrival: number; readonly input: unknown; readonly receivedAt: number }[] = [];
    let arrivals = 0;
    const arrive = (input: unknown) => {
      arrivals += 1;
      sent.set(arrivals, input);
      return { arrival: arrivals, input, receivedAt: Date.now() };
    };
    const sent = new Map<number, unknown>();
    jest.mocked(checks.checkApprovals).mockImplementation(({ arrived, metWith = [] }) => {
      const verdicts = arrived.map((arrival) => {
        const digest = how === 'signed' ? String(sent.get(arrival)) : '';
        return { arrival, accepted: !metWith.includes(digest), code: 'x', text: '', ...(digest && { digest }) };
      });
      const satisfied = verdicts.some(({ accepted }) => accepted);
      return Promise.resolve({ verdicts, satisfied, missing: [], approvedBy: [], rejectedBy: undefined } as never);
    });
    const waitFor = async (ready: () => boolean) => {
      const before = waiting.splice(0);
      if (before.length > 0) await send('approve', before);
      for (const input of contents) {
        jest.advanceTimersByTime(1);
        if (!ready()) await send('approve', [arrive(input)]);
      }
      return ready();
    };
    const { run, receipts, send } = fakeRun({ run: { waitFor } });
    const open = () => passGate(run, { gate: 'go', planDigest: 'digest', gates: { go: policy }, requestedBy: 'olga' });
    return { open, receipts, early: (input: unknown) => waiting.push(arrive(input)) };
  }

  it('a signed approval that met it does not meet it again', async () => {
    const { open, receipts } = signalledRun('signed', ['one', 'one', 'two']);
    expect(await open()).toEqual({ go: [1] });
    expect(await open()).toEqual({ go: [4] });
    expect(receipts.map(({ verdict }) => verdict)).toEqual(['accepted', 'refused', 'refused', 'accepted']);
  });

  it('a claim does, which cannot be distinguished from a new one', async () => {
    const { open } = signalledRun('claimed', ['one']);
    expect([await open(), await open()]).toEqual([{ go: [1] }, { go: [2] }]);
  });

  it.each(['signed', 'principal', 'claimed'] as const)(
    'a message from before it opened again does not meet it (%s), and says so; before its first opening it does',
    async (how) => {
      const { open, receipts, early } = signalledRun(how, ['asked again']);
      early('of the first round');
      expect(await open()).toEqual({ go: [1] });
      early('late, and it had no effect');
      jest.advanceTimersByTime(VALID_FOR / 2);
      early('in the very turn in which it opens');
      expect(await open()).toEqual({ go: [4] });
      const sentBefore = {
        ...{ signal: 'approve', verdict: 'refused', code: 'sent-before' },
        text: `sent before gate go was opened again. Next: approve or reject again: ${command}`,
      };
      expect(receipts.slice(1, 3)).toEqual([
        { ...sentBefore, arrival: 2 },
        { ...sentBefore, arrival: 3 },
      ]);
    },
  );
});

describe('a gate that nobody approves', () => {
  /** Nothing comes: where there is a limit, it passes. */
  const open = async (serviceIsOut: boolean) => {
    const waits: unknown[] = [];
    const limits: unknown[] = [];
    const waitFor = (_ready: () => boolean, limit?: number) => {
      limits.push(limit);
      return limit === undefined ? Promise.reject(new RunStopped('grace', 'aborted')) : Promise.resolve(false);
    };
    const { run } = fakeRun({
      state: { serviceIsOut, wait: (_: string, each: unknown) => waits.push(each) },
      run: { waitFor },
    });
    const request = {
      gate: 'force',
      planDigest: 'digest',
      gates: { force: policy },
      requestedBy: 'olga',
      again: 'too old',
    } as const;
    const by = await passGate(run, request).catch((error: unknown) => (error as RunStopped).by);
    return { by, limits, waits };
  };

  it('ends the run when its time has passed', async () => {
    const { by, waits } = await open(false);
    expect([by, waits]).toEqual([
      'the clock',
      [expect.objectContaining({ until: START + VALID_FOR, again: 'too old' })],
    ]);
  });

  it('never does so in an outage: people are waited for and reminded until they approve, reject or abort', async () => {
    const { by, limits, waits } = await open(true);
    expect([by, limits]).toEqual(['grace', [undefined]]);
    expect(waits).toEqual([expect.not.objectContaining({ until: expect.anything() as unknown })]);
  });
});

it('a flood of updates blocks no one: each window has room for more', () => {
  jest.mocked(setHandler).mockClear();
  const inbox = new Signals();
  inbox.registerHandlers();
  const [, handler, options] =
    jest.mocked(setHandler).mock.calls.find(([name]: readonly unknown[]) => name === 'update decide') ?? [];
  const { validator } = (options ?? {}) as { readonly validator?: (input: unknown) => void };
  const give = (name: string): boolean => {
    try {
      validator?.({ name });
    } catch {
      return false;
    }
    (handler as (input: unknown) => unknown)({ name });
    return inbox.take('decide').length > 0;
  };
  const heard = Array.from({ length: 400 }, (_, index) => give(`nobody ${index % 10}`)).filter(Boolean);
  expect(heard).toHaveLength(200);
  expect(give('grace')).toBe(false);
  jest.setSystemTime(START + WINDOW_MS);
  expect(Array.from({ length: 25 }, (_, index) => give(`nobody ${index}`)).filter(Boolean)).toHaveLength(20);
  jest.setSystemTime(START + 2 * WINDOW_MS);
  expect(give('grace')).toBe(true);
});

it('a message that is longer than any document is not decoded in a run, which would repeat that at each replay', () => {
  const [arrivals] = interceptors().internals ?? [];
  const inputs = [20, 21].map((kib) => [{ data: new Uint8Array(kib * 1024) }]);
  const signals = inputs.map((input) => ({ signalName: 'abort', input }));
  const updates = inputs.map((input) => ({ input }));
  const jobs = [...signals.map((signalWorkflow) => ({ signalWorkflow })), ...updates.map((doUpdate) => ({ doUpdate }))];
  const next = jest.fn();
  arrivals?.activate?.({ activation: { jobs }, batchIndex: 0 }, next);
  expect(next).toHaveBeenCalledTimes(1);
  for (const sent of [signals, updates]) expect(sent.map(({ input }) => input)).toEqual([inputs[0], [{}]]);
});
