/** What becomes of shares that are still being checked while the holders are asked anew. */
import { ApplicationFailure } from '@temporalio/common';
import type * as TemporalWorkflow from '@temporalio/workflow';
import type { EnvelopeVerdict } from '../../../src/contracts/ceremony';
import type { RunFact } from '../../../src/contracts/run-facts';
import type { Waiting } from '../../../src/contracts/run-status';
import type * as ActivityCalls from '../../../workflows/engine/activity-calls';
import { LEAVE } from '../../../workflows/engine/parking';
import { OperationTokens } from '../../../workflows/procedures/operation-tokens';
import { TokenCeremony } from '../../../workflows/procedures/token-ceremony';
import { fakeRun } from '../../support/fake-run';

jest.mock('@temporalio/workflow', () => ({
  ...jest.requireActual<typeof TemporalWorkflow>('@temporalio/workflow'),
  uuid4: () => '8c4b7f52-0000-4000-8000-000000000000',
  workflowInfo: () => ({ workflowId: 'deployment:payments' }),
}));
jest.mock('../../../workflows/engine/activity-calls', () => ({
  ...jest.requireActual<typeof ActivityCalls>('../../../workflows/engine/activity-calls'),
  activities: { openEnvelopes: () => mockOpen() as unknown },
}));

const mockOpen = jest.fn();

type Opened = { readonly verdicts: readonly EnvelopeVerdict[] };

const HOLDERS = ['ada', 'bert', 'cleo'];
const GONE = ApplicationFailure.nonRetryable('no worker holds the keys', 'WORKER_UNREACHABLE');
const accepted = (arrival: number, name: string): Opened => ({
  verdicts: [{ arrival, code: 'accepted', text: 'accepted', holder: { name, how: 'signed' } }],
});
const REJECTED = { code: 'SHARES_REJECTED', message: 'They do not fit.', outcomeKnown: true } as const;
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** A check that ends when the test says so. */
class Pending<T> {
  end: (result: T) => void = () => undefined;
  fail: (error: Error) => void = () => undefined;
  readonly result = new Promise<T>((resolve, reject) => {
    this.end = resolve;
    this.fail = reject;
  });
}

/** As much of a run as collecting needs. */
function collecting({
  threshold = 2,
  timesUp = 0,
  calls = {},
  ...outage
}: {
  calls?: Readonly<Record<string, unknown>>;
  threshold?: number;
  /** So many waits are ended by the clock. */
  timesUp?: number;
  outageSince?: number;
  serviceBackAt?: number;
}) {
  let over = false;
  let epochs = 0;
  const opening: Pending<Opened>[] = [];
  const facts: Pick<RunFact, 'kind'>[] = [];
  const createCeremony = ({ epoch, cid }: { readonly epoch: number; readonly cid: string }) => {
    epochs = epoch;
    const handle = { cid, epoch, holders: HOLDERS, threshold, collectUntil: Date.now() + 600_000 };
    return Promise.resolve({ ...handle, fingerprint: 'own' });
  };
  mockOpen.mockImplementation(() => {
    const pending = new Pending<Opened>();
    opening.push(pending);
    return pending.result;
  });
  const waitFor = async (done: () => boolean) => {
    if (timesUp-- > 0) return false;
    while (!done() && !over) await settled();
    // Nobody goes on after the test.
    return over ? new Promise<never>(() => undefined) : true;
  };
  const serviceIsOut = outage.outageSince !== undefined && outage.serviceBackAt === undefined;
  const { run, findings, receipts, waiting, send } = fakeRun({
    calls: { createCeremony, ...calls },
    failing: { 'Generate operation token on west': [{ ...REJECTED }] },
    state: { ...outage, serviceIsOut, fact: (fact: Pick<RunFact, 'kind'>) => facts.push(fact) },
    run: { waitFor },
  });
  const collection = new TokenCeremony(run, {
    ...{ deployment: 'payments', runbook: 'drFailover', reason: 'a test', requestedBy: 'olga' },
    ...{ targets: [], inputDigest: 'digest' },
  });
  const check = (arrival: number) => send('share', [{ signal: 'share', arrival, receivedAt: 0, input: 'sealed' }]);
  return {
    collection,
    facts,
    findings,
    receipts,
    opening,
    epochs: () => epochs,
    shares: () => waiting.get('shares') as Extract<Waiting, { for: 'shares' }> | undefined,
    check,
    /** A share that is checked at once, and accepted. */
    give: async (arrival: number, name: string) => {
      const checked = check(arrival);
      opening[arrival - 1]?.end(accepted(arrival, name));
      await checked;
    },
    /** Ends what waits, so that nothing goes on beside the next test. */
    stop: () => {
      over = true;
    },
  };
}

it('asks again if a kept token is refused, although the earlier keys cannot be destroyed: no decision about them is needed', async () => {
  const { code, message } = REJECTED;
  const handle = { cid: 'c', epoch: 1, holders: HOLDERS, threshold: 0, collectUntil: Date.now() + 600_000 };
  const { run, steps } = fakeRun({
    calls: { createCeremony: () => Promise.resolve({ ...handle, fingerprint: 'own' }) },
    failing: { 'Destroy the ceremony keys': [{ code, message, outcomeKnown: true }] },
    run: { cleanUp: () => Promise.resolve(), waitFor: () => Promise.resolve(true) },
  });
  const request = { deployment: 'payments', runbook: 'drFailover', reason: 'a test', requestedBy: 'olga' };
  const ask = () => new TokenCeremony(run, { ...request, targets: [], inputDigest: 'digest' });
  const before = ask();
  const kept = [{ cluster: 'west', entry: 'an entry', text: 'kept' }];
  const tokens = new OperationTokens(run, 'payments', [], before, ask, kept);
  await before.ready();
  const refused = { code: 'PERMISSION_DENIED', message: 'refused', outcomeKnown: true };
  expect(await tokens.replaceRefused('west', refused, [LEAVE])).toBe(true);
  expect(steps).toEqual(['Invite the key holders', 'Invite the key holders']);
  expect(tokens.ceremony).not.toBe(before);
});

it('an invitation that parks inside an outage leaves people the choices of the outage', async () => {
  const step = jest.fn(() => Promise.reject(new Error('parked')));
  const request = { deployment: 'payments', runbook: 'drSwitchover', reason: 'a test', requestedBy: 'olga' };
  const ceremony = new TokenCeremony(fakeRun({ run: { step } }).run, {
    ...request,
    targets: [],
    inputDigest: 'digest',
  });
  await expect(ceremony.ready([LEAVE])).rejects.toThrow('parked');
  expect(step.mock.calls).toEqual([['Invite the key holders', expect.any(Function), { choices: [LEAVE] }]]);
});

describe('a check that ends after the holders were asked again', () => {
  it('of a share: it is refused as one of another round, and is not counted', async () => {
    const { collection, check, give, opening, receipts, shares, stop } = collecting({ threshold: 1 });
    await collection.invite();
    const checked = check(1);
    await collection.invite();
    void collection.collect();
    opening[0]?.end(accepted(1, 'ada'));
    await checked;
    expect(receipts).toMatchObject([{ arrival: 1, verdict: 'refused', code: 'wrong-epoch' }]);
    await settled();
    expect(shares()).toMatchObject({ epoch: 2, held: [] });
    await give(2, 'ada');
    expect(receipts[1]).toMatchObject({ verdict: 'accepted' });
    stop();
  });

  it('of a share that no worker could check: the keys of the present epoch are not given up', async () => {
    const { collection, check, opening, receipts, epochs, shares, stop } = collecting({});
    await collection.invite();
    const checked = check(1);
    await collection.invite();
    void collection.collect();
    opening[0]?.fail(GONE);
    await checked;
    for (let turns = 0; turns < 5; turns += 1) await settled();
    expect(epochs()).toBe(2);
    expect(shares()?.epoch).toBe(2);
    expect(receipts).toMatchObject([{ arrival: 1, verdict: 'refused', code: 'wrong-epoch' }]);
    stop();
  });
});

it('keys that a later check opens are not given up for a check that failed while nothing was collected', async () => {
  const { collection, check, give, opening, epochs, findings, shares, stop } = collecting({});
  await collection.invite();
  const failed = check(1);
  opening[0]?.fail(GONE);
  await failed;
  await give(2, 'ada');
  void collection.collect();
  for (let turns = 0; turns < 5; turns += 1) await settled();
  expect([epochs(), findings]).toEqual([1, []]);
  expect(shares()?.held).toEqual(['ada']);
  stop();
});

it('if enough shares are collected, a check that fails gives up no keys: the token generation finds out', async () => {
  const { collection, check, give, opening, receipts, epochs } = collecting({ threshold: 1 });
  await collection.invite();
  await give(1, 'ada');
  const failed = check(2);
  opening[1]?.fail(GONE);
  await failed;
  await collection.collect();
  expect(epochs()).toBe(1);
  expect(receipts[1]).toMatchObject({ code: 'not-checked', text: expect.stringContaining('send it again') as string });
});

it('keys whose destruction a stop cut short are destroyed by the clean-up of the run, once', async () => {
  const destroyCeremonyKeys = jest.fn().mockRejectedValueOnce(GONE).mockResolvedValue({ destroyed: true });
  const { collection } = collecting({ calls: { destroyCeremonyKeys } });
  await collection.invite();
  await expect(collection.close()).rejects.toBe(GONE);
  await collection.abandon();
  await collection.abandon();
  expect(destroyCeremonyKeys).toHaveBeenCalledTimes(2);
});

it('if no one is asked any more answers stop counting at once; the keys are destroyed at the end', async () => {
  const destroyCeremonyKeys = jest.fn().mockResolvedValue({ destroyed: true });
  const { collection, check, opening, shares } = collecting({ calls: { destroyCeremonyKeys }, threshold: 1 });
  await collection.invite();
  const late = check(1);
  collection.withdraw();
  await check(2);
  opening[0]?.end(accepted(1, 'ada'));
  await late;
  expect([opening.length, shares(), destroyCeremonyKeys.mock.calls.length]).toEqual([1, undefined, 0]);
  await collection.abandon();
  expect(destroyCeremonyKeys).toHaveBeenCalledTimes(1);
});

describe('the clock, before enough shares are collected', () => {
  it('ends no failover: clients have no primary, and the holders are asked again with new keys', async () => {
    const { collection, epochs, facts, findings, shares, stop } = collecting({ timesUp: 2, outageSince: 1 });
    await collection.invite();
    void collection.collect();
    for (let turns = 0; turns < 5; turns += 1) await settled();
    expect([epochs(), shares()?.epoch]).toEqual([3, 3]);
    expect(findings.map(({ code }) => code)).toEqual(['ceremony-keys-lost', 'ceremony-keys-lost']);
    // The report counts the wait as people's time.
    const waits = [true, false, true, false, true].map((asked) => ({ kind: 'asked', asked }));
    expect(facts.filter(({ kind }) => kind === 'asked')).toEqual(waits);
    stop();
  });

  it.each([{}, { outageSince: 1, serviceBackAt: 2 }])('ends the run if clients are served: %j', async (outage) => {
    const { collection } = collecting({ timesUp: 1, ...outage });
    await collection.invite();
    await expect(collection.collect()).rejects.toMatchObject({ by: 'the clock' });
  });
});

it.each([
  [{ outageSince: 1 }, /call them now/],
  [{}, /one of ada, bert gives the right share .* one more holder/],
])(
  'shares that the service rejected are reported, and are not critical once a token was made: %j',
  async (outage, next) => {
    const { collection, give, findings, shares, stop } = collecting(outage);
    await collection.invite();
    await give(1, 'ada');
    await give(2, 'bert');
    void collection.generate('west', ['dr.promote']);
    await settled();
    const told = { code: 'shares-rejected', severity: 'warning', next: expect.stringMatching(next) as string };
    expect(findings).toMatchObject([told]);
    expect(shares()).toMatchObject({ threshold: 3, missingHolders: ['cleo'] });
    stop();
  },
);
