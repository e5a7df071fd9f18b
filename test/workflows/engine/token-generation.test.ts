/** What a run does about a token generation whose end it is not told. */
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type * as TemporalWorkflow from '@temporalio/workflow';
import fc from 'fast-check';
import type { GenerationOutcome } from '../../../src/contracts/activities';
import type { CeremonyHandle, OwnAttempt } from '../../../src/contracts/ceremony';
import type { Finding } from '../../../src/contracts/run-facts';
import { HeldShares, TokenGenerations } from '../../../workflows/procedures/token-generation';
import type { GenerationCalls } from '../../../workflows/procedures/token-generation';

let mockUnstoppable = false;
jest.mock('@temporalio/workflow', () => ({
  ...jest.requireActual<typeof TemporalWorkflow>('@temporalio/workflow'),
  CancellationScope: {
    nonCancellable: (work: () => unknown) => {
      mockUnstoppable = true;
      const working = work();
      mockUnstoppable = false;
      return working;
    },
  },
}));

const ATTEMPT: OwnAttempt = { id: 'id', mark: '5c2c7f53', nonceDigest: 'digest', set: [1, 2, 3] };
const TOKEN: GenerationOutcome = { next: 'token', findings: [] };
const AGAIN: GenerationOutcome = { next: 'again', findings: [] };
const ALARM: Finding = { severity: 'critical', code: 'orphan-token', text: 'a token may exist' };
const failed = (type: string, outcomeKnown: boolean) =>
  ApplicationFailure.create({ type, nonRetryable: true, details: [{ outcomeKnown }] });
/** The worker ended, and nobody knows what it did; no worker took it; nothing was sent. */
const [LOST, GONE, REFUSED] = [
  failed('ACTIVITY_TIMEOUT', false),
  failed('WORKER_UNREACHABLE', true),
  failed('NOT_APPROVED', true),
];

type Answers<R> = readonly (R | Error)[];
interface Answering {
  readonly start?: Answers<{ readonly attempt: OwnAttempt }>;
  readonly complete?: Answers<GenerationOutcome>;
  readonly settle?: Answers<GenerationOutcome>;
}

/** Activities that answer so, one after the other, and then as where nothing happens. */
function generating({ start = [], complete = [], settle = [] }: Answering) {
  const calls: string[] = [];
  const stoppable: string[] = [];
  // What activities find is noted as they end.
  const findings: Finding[] = [];
  const answer = async <R>(name: string, answers: R[], given: R | Error | undefined): Promise<R> => {
    calls.push(name);
    if (!mockUnstoppable) stoppable.push(name);
    if (given instanceof Error) throw given;
    const [usual] = answers;
    if (given === undefined && usual === undefined) throw new Error('nothing to answer');
    const result = (given ?? usual) as R & { readonly findings?: readonly Finding[] };
    findings.push(...(result.findings ?? []));
    return result;
  };
  const [starts, completes, settles] = [[...start], [...complete], [...settle]];
  const call = {
    startGeneration: () => answer('start', [{ attempt: ATTEMPT }], starts.shift()),
    completeGeneration: () => answer('complete', [TOKEN], completes.shift()),
    settleGeneration: ({ mayBeSent, ceremony }: Parameters<GenerationCalls['settleGeneration']>[0]) =>
      answer(
        `settle ${(ceremony as CeremonyHandle).epoch} ${mayBeSent ? 'sent' : 'not sent'}`,
        [AGAIN],
        settles.shift(),
      ),
  } as unknown as GenerationCalls;
  const generations = new TokenGenerations((finding) => void findings.push(finding));
  const generate = (epoch = 1) => {
    const ceremony = { cid: 'cid', epoch, invitation: 'invitation' } as CeremonyHandle;
    const request = { deployment: 'payments', cluster: 'west', ceremony };
    return generations.generate(
      call,
      { ...request, wanted: { kind: 'operation-token', uses: ['dr.promote'] } },
      new HeldShares(3),
    );
  };
  return { calls, stoppable, findings, generate, end: () => generations.settle(call) };
}

it('if no fault occurs there are two activities, and no check afterwards', async () => {
  const { calls, generate, end } = generating({});
  expect(await generate()).toMatchObject({ next: 'token', badShares: [] });
  await end();
  expect(calls).toEqual(['start', 'complete']);
});

it('the last share, and the check of its effect, cannot be stopped', async () => {
  const { calls, stoppable, generate } = generating({ complete: [LOST], settle: [TOKEN] });
  await generate();
  expect([calls, stoppable]).toEqual([['start', 'complete', 'settle 1 sent'], ['start']]);
});

it.each([
  ['no token was made: the shares make another', AGAIN, ['settle 1 sent', 'start', 'complete'], []],
  [
    'a token may exist: reported, and the shares make another',
    { ...AGAIN, findings: [ALARM] },
    ['settle 1 sent', 'start', 'complete'],
    [ALARM],
  ],
  ['the token was noted: it is the one', TOKEN, ['settle 1 sent'], []],
] as const)('a last share whose effect is unknown is settled; %s', async (_what, found, then, told) => {
  const { calls, findings, generate, end } = generating({ complete: [LOST], settle: [found] });
  await generate();
  await end();
  expect([calls, findings]).toEqual([['start', 'complete', ...then], told]);
});

it('a worker that stopped is no stop of the run: the effect of its last share is settled', async () => {
  const { calls, generate } = generating({ complete: [new CancelledFailure('the worker stopped')] });
  await generate();
  expect(calls).toEqual(['start', 'complete', 'settle 1 sent', 'start', 'complete']);
});

it('if no worker can settle it the run itself raises the alarm, once, and checks once more at the end', async () => {
  const { calls, findings, generate, end } = generating({ complete: [LOST, REFUSED], settle: [LOST, LOST] });
  await expect(generate()).rejects.toBe(REFUSED);
  await end();
  expect(findings).toMatchObject([
    {
      code: 'orphan-token',
      text: expect.stringContaining('attempt 5c2c7f53: no worker could find out') as string,
    },
  ]);
  expect(calls.filter((each) => each === 'settle 1 sent')).toHaveLength(1);
});

it.each([
  ['that no worker took', GONE],
  ['that was refused before anything was sent', REFUSED],
])(
  'a last share %s leaves nothing: the slot is freed, no alarm is raised, and the run gets the reason',
  async (_what, why) => {
    const { calls, findings, generate } = generating({ complete: [why] });
    await expect(generate()).rejects.toBe(why);
    expect([calls, findings]).toEqual([['start', 'complete', 'settle 1 not sent'], []]);
  },
);

describe('an attempt that may be in the slot after a start that failed', () => {
  it.each([
    ['no worker took it up again', GONE],
    ['it says that it could not free the slot', LOST],
  ])('is ended when the run ends: %s', async (_why, failure) => {
    const { calls, generate, end } = generating({ start: [failure] });
    await expect(generate()).rejects.toBe(failure);
    await end();
    await end();
    expect(calls).toEqual(['start', 'settle 1 not sent']);
  });

  it('is ended when the run ends, also if the next start fails before it reads the slot', async () => {
    const { calls, generate, end } = generating({ start: [LOST, REFUSED] });
    await expect(generate()).rejects.toBe(LOST);
    await expect(generate()).rejects.toBe(REFUSED);
    await end();
    expect(calls).toEqual(['start', 'start', 'settle 1 not sent']);
  });

  it('is ended before the next one with new keys, which would treat it as foreign', async () => {
    const { calls, generate, end } = generating({ start: [GONE] });
    await expect(generate()).rejects.toBe(GONE);
    await generate(2);
    await end();
    expect(calls).toEqual(['start', 'settle 1 not sent', 'start', 'complete']);
  });
});

it('no one with a good share is named for a bad one, whichever sets the service rejected', () => {
  const arrivals = [1, 2, 3, 4, 5, 6, 7];
  const sets = fc.array(fc.subarray(arrivals, { minLength: 3, maxLength: 3 }), { maxLength: 12 });
  fc.assert(
    fc.property(fc.subarray(arrivals, { maxLength: 4 }), sets, (bad, tried) => {
      const shares = new HeldShares(3);
      shares.take(
        arrivals.map((arrival) => ({
          ...{ arrival, code: 'accepted', text: '', holder: { name: `holder ${arrival}`, how: 'signed' } },
        })),
      );
      // A set works where none of its shares is bad.
      for (const set of tried.filter((each) => each.some((arrival) => bad.includes(arrival))))
        shares.reject('west', set);
      const good = arrivals.filter((arrival) => !bad.includes(arrival)).slice(0, 3);
      expect(bad.map((arrival) => `holder ${arrival}`)).toEqual(
        expect.arrayContaining([...shares.provenBad('west', good)]),
      );
    }),
    { seed: 5, numRuns: 500 },
  );
});

describe('a correction that comes while shares are given', () => {
  const given = (arrival: number, name: string) => ({
    ...{ arrival, code: 'accepted', text: '', holder: { name, how: 'signed' } as const },
  });
  const inHand = () => {
    const shares = new HeldShares(3);
    shares.take(['ada', 'bert', 'cleo'].map((name, index) => given(index + 1, name)));
    shares.toGive('west');
    return shares;
  };

  it('is tried before another holder is asked', () => {
    const shares = inHand();
    shares.take([given(4, 'ada')]);
    shares.reject('west', [1, 2, 3]);
    expect([shares.askForMore('west'), shares.needed, shares.held]).toEqual([false, 3, ['bert', 'cleo', 'ada']]);
    expect(shares.toGive('west')).toEqual({ shares: [2, 3, 4], rejected: [[1, 2, 3]], tried: 1 });
    expect([shares.askForMore('west'), shares.needed]).toEqual([true, 4]);
  });

  it('is tried on every cluster that was given shares before it came', () => {
    const shares = inHand();
    shares.toGive('south');
    shares.take([given(4, 'dora')]);
    expect([shares.askForMore('west'), shares.askForMore('south'), shares.needed]).toEqual([false, false, 4]);
  });

  it('never makes fewer suffice than the threshold, if the holders were asked again meanwhile', () => {
    const shares = new HeldShares(3);
    expect([shares.askForMore('west'), shares.needed]).toEqual([true, 3]);
  });

  it('blames only the holder whose share it replaces', () => {
    const shares = inHand();
    shares.take([given(4, 'ada'), given(5, 'dora')]);
    shares.reject('west', [1, 2, 3]);
    expect([shares.provenBad('west', [2, 4, 5]), shares.provenBad('west', [2, 3, 5])]).toEqual([[], ['ada']]);
  });
});
