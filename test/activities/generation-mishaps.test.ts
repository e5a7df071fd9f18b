/**
 * Every mishap at every point of a token generation, over the simulated service. A row says what comes of it: a token after so
 * many attempts, whether the orphan alarm is raised, or what the run is left with. Nobody is ever asked again: the very
 * same envelopes end in a token.
 */
import { TokenLedger } from '../../activities/tokens/token-ledger';
import { attemptMark } from '../../src/contracts/ceremony';
import { createCeremonyKeys, openValue } from '../../src/keys';
import type { Fault, SimulatedCluster } from '../../src/simulator';
import type * as Killable from '../ceremony/killable';
import { killBeforeLastShare, killBeforeReport, killGeneration } from '../ceremony/killable';
import type { ActivityBench, Burst } from '../support/activity-environment';
import { clusters, DEPLOYMENT, openBench } from '../support/activity-environment';

jest.mock('../../activities', () => jest.requireActual<typeof Killable>('../ceremony/killable').killableActivities());

const BASE = '/v1/sys/replication/dr/secondary/generate-operation-token';
const START = `POST ${BASE}/attempt`;
const GIVE = `POST ${BASE}/update`;
const READ = `GET ${BASE}/attempt`;
const CANCEL = `DELETE ${BASE}/attempt`;

let bench: ActivityBench;
let west: SimulatedCluster;
let burst: Burst;

openBench((opened) => (bench = opened), {
  topology: {
    clusters: clusters({ east: 1, west: 3 }),
  },
});
beforeAll(async () => {
  west = bench.cluster('west');
  burst = await bench.burst();
  const { keys } = await bench.keyRecords.read({ run: bench.run, ...burst.ceremony });
  bench.canary('age identity', keys.identity.reveal());
  bench.canary('PGP key', keys.pgpPrivateKey.reveal().split('\n')[3] ?? '');
});
beforeEach(async () => {
  bench.service.faults.clear();
  bench.isGivenUp = false;
  await bench.forgetTokens();
  await west.restart();
  for (const node of west.nodes) node.attempts.cancel();
  await leaderIs(0);
  // The worker has seen it too.
  await bench.call('readDeployment', { deployment: DEPLOYMENT });
});

async function leaderIs(node: number): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (west.snapshotState().activeNode !== node) {
    if (Date.now() > deadline) throw new Error('no leader');
    west.leaderChange(node);
    bench.service.advanceClock(100);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function stranger(method: 'POST' | 'DELETE', body = {}): Promise<void> {
  const given = method === 'POST' && { body: JSON.stringify(body) };
  await (await fetch(`${west.apiAddress}${BASE}/attempt`, { method, ...given })).text();
}

const fault = (at: Omit<Fault, 'cluster'>) => bench.service.faults.add({ cluster: 'west', ...at });
const attempts = () => new Set(gives().map(({ body }) => body['nonce'])).size;
const gives = () => bench.service.calls.filter(({ method, path }) => method === 'POST' && path === `${BASE}/update`);
const orphansOf = (findings: readonly { readonly code: string }[]) =>
  findings.filter(({ code }) => code === 'orphan-token').length;

/** One attempt takes each share once: it is given again only to an attempt that has not taken it. */
function givenTwice(): number {
  const taken = new Set<string>();
  let twice = 0;
  for (const { body, status } of gives()) {
    const pair = JSON.stringify([body['nonce'], body['key']]);
    if (taken.has(pair)) twice += 1;
    if (status === 200) taken.add(pair);
  }
  return twice;
}

const POINTS: readonly (readonly [name: string, at: Pick<Fault, 'endpoint' | 'skip' | 'when'>])[] = [
  ['before the start', { endpoint: START, when: 'before' }],
  ['after the start', { endpoint: START, when: 'after' }],
  ['before the second share', { endpoint: GIVE, skip: 1, when: 'before' }],
  ['after the second share', { endpoint: GIVE, skip: 1, when: 'after' }],
  ['at the last share before its effect', { endpoint: GIVE, skip: 2, when: 'before' }],
  ['at the last share after its effect', { endpoint: GIVE, skip: 2, when: 'after' }],
  ['at reading', { endpoint: READ, when: 'before' }],
];

/** What a mishap comes to: attempts of the generation, and orphan alarms, each of them with a token that nobody holds. */
type Expected = readonly [attempts: number, alarms: number];
const ONE: Expected = [1, 0];
const AGAIN: Expected = [2, 0];
/** The token was made, its answer is lost: there is an orphan, and another attempt. */
const ORPHAN: Expected = [2, 1];
/** The last share's call fails: only the service knows that there is no token. */
const DOUBT: Expected = [2, 1];

const leaderChange: Fault['action'] = (cluster) => cluster.leaderChange();
const restart: Fault['action'] = async (cluster) => {
  const { activeNode } = cluster.snapshotState();
  await cluster.killNode(activeNode ?? 0);
  await cluster.startNode(activeNode ?? 0);
};

/** By point, in the order of {@link POINTS}. */
const MISHAPS: readonly (readonly [string, Fault['action'], expected: readonly (Expected | undefined)[]])[] = [
  ['the leader changes', leaderChange, [ONE, AGAIN, AGAIN, AGAIN, DOUBT, ONE, ONE]],
  ['the service restarts on its node', restart, [ONE, ONE, AGAIN, AGAIN, DOUBT, ORPHAN, ONE]],
  ['the attempt is lost or expires', () => stranger('DELETE'), [ONE, AGAIN, AGAIN, AGAIN, AGAIN, ONE, ONE]],
  ['the connection breaks', 'reset', [ONE, ONE, AGAIN, ONE, DOUBT, ORPHAN, ONE]],
  // It says so before it does anything.
  ['the node is busy', { status: 503 }, [ONE, undefined, AGAIN, undefined, AGAIN, undefined, ONE]],
  ['two documents are in one answer', 'glue-documents', [ONE, ONE, ONE, ONE, ONE, ONE, ONE]],
];
const ROWS = MISHAPS.flatMap(([name, action, expected]) =>
  POINTS.flatMap(([point, at], index) => {
    const wanted = expected[index];
    return wanted ? [[name, point, at, action, wanted] as const] : [];
  }),
);

it.each(ROWS)('%s %s', async (_name, _point, at, action, expected) => {
  const [wanted, alarms] = expected;
  const before = west.issuedSecrets.length;
  bench.service.calls.length = 0;
  fault({ ...at, action });
  const { token, findings } = await bench.generate(burst);
  const made = west.issuedSecrets.slice(before);
  expect(await reveal(token)).toBe(made.at(-1));
  expect({ attempts: attempts(), alarms: orphansOf(findings) }).toEqual({ attempts: wanted, alarms });
  expect(made).toHaveLength(1 + (expected === DOUBT ? 0 : alarms));
  expect(givenTwice()).toBe(0);
});

/** From here on the clock of the worker is behind the time for which the holders gave their shares. */
function timeIsOver(): void {
  const { now } = Date;
  const over = now() + 24 * 3_600_000;
  jest.spyOn(Date, 'now').mockImplementation(() => over);
}
afterEach(() => jest.restoreAllMocks());

/** By point, in the order of {@link POINTS}: the shares given when the time is over, and whether the token is made. */
const OVER: readonly (readonly [gives: number, tokens: number])[] = [
  [0, 0],
  [0, 0],
  // The one that is under way, and no other.
  [2, 0],
  [2, 0],
  [3, 1],
  [3, 1],
  [0, 0],
];
it.each(POINTS.map(([point, at], index) => [point, at, OVER[index] ?? [0, 0]] as const))(
  'if the time for which the holders gave their shares is over %s, no further share is given, and they are asked again',
  async (_point, at, [wanted, tokens]) => {
    // Of a ceremony of its own, whose time may end.
    const asked = await bench.burst();
    const before = west.issuedSecrets.length;
    bench.service.calls.length = 0;
    fault({ ...at, action: timeIsOver });
    if (tokens > 0) expect(await reveal((await bench.generate(asked)).token)).toBe(west.issuedSecrets.at(-1));
    else {
      const failure = await bench.generationFailure(asked);
      expect(failure).toMatchObject({ code: 'KEY_RECORD_MISSING', retryable: false });
      expect(failure.details['next']).toContain('with a new invitation');
    }
    expect([gives().length, west.issuedSecrets.length - before]).toEqual([wanted, tokens]);
    // The slot is free: nobody finds an attempt of ours in it.
    for (const node of west.nodes) expect(node.attempts.status().started).toBe(false);
  },
);

async function reveal(sealed: Parameters<typeof openValue>[2]): Promise<string> {
  const spec = { kind: 'operation-token', cluster: 'west', clusterId: west.clusterId, use: 'dr.promote' } as const;
  return (await openValue(bench.sealKeyring, bench.run, sealed, spec)).reveal();
}

/** What a generation with the envelopes comes to: tokens that were made, of which the last one is in hand, and alarms. */
async function outcome(envelopesGiven = burst.envelopes): Promise<readonly [made: number, alarms: number]> {
  const before = west.issuedSecrets.length;
  const { token, findings } = await bench.generate({ ...burst, envelopes: envelopesGiven });
  expect(await reveal(token)).toBe(west.issuedSecrets.at(-1));
  expect(orphansOf(findings)).toBe(findings.filter(({ severity }) => severity === 'critical').length);
  return [west.issuedSecrets.length - before, orphansOf(findings)];
}

describe('the answer to the last share', () => {
  it('if its answer is lost and the set was rejected, the attempt is at progress 0, and a token may exist', async () => {
    const [bad = ''] = await bench.envelopes(burst.ceremony.invitation, ['dora'], { dora: '11'.repeat(33) });
    fault({ endpoint: GIVE, skip: 2, when: 'after', action: { status: 500 } });
    expect(await outcome([bad, ...burst.envelopes])).toEqual([1, 1]);
  });

  it('cannot be lost by a standby after passing the share on: the standby does not forward it', async () => {
    // Right before the last share a standby says that it leads, and nobody contradicts.
    const claims = { is_self: true, ha_enabled: true, leader_address: west.addresses[1] ?? '' };
    const opinions = [{ status: 503 }, { status: 200, body: claims }, { status: 503 }];
    const misleads = () =>
      opinions.forEach((opinion, node) => fault({ node, endpoint: 'GET /v1/sys/leader', action: opinion }));
    fault({ endpoint: GIVE, skip: 1, when: 'after', action: misleads });
    const lost = fault({ endpoint: GIVE, action: 'break-forwarding' });
    bench.service.calls.length = 0;
    expect(await outcome()).toEqual([1, 0]);
    const given = gives().map(({ node, status }) => `${node}: ${status}`);
    expect([lost.hits, attempts(), given]).toEqual([0, 1, ['0: 200', '0: 200', '1: 307', '0: 200']]);
  });

  it('that was lost, with the attempt waiting and the time over, raises an alarm, and the holders are asked again', async () => {
    const asked = await bench.burst();
    fault({ endpoint: GIVE, skip: 2, action: 'reset' });
    fault({ endpoint: READ, skip: 2, when: 'after', action: timeIsOver });
    const failure = await bench.generationFailure(asked);
    expect(failure.code).toBe('KEY_RECORD_MISSING');
    expect(failure.alarms).toMatchObject([{ code: 'orphan-token' }]);
  });

  it('that was lost with the leader stays an alarm if its attempt comes back: the alarm is not withdrawn', async () => {
    fault({ endpoint: GIVE, skip: 2, action: (it) => it.leaderChange(1) });
    fault({ endpoint: GIVE, skip: 4, action: (it) => it.leaderChange(0) });
    expect(await outcome()).toEqual([1, 1]);
  });

  it('that is lost is reported, also if an old attempt of ours is then in the slot', async () => {
    // The first attempt, with one share, stays in the memory of node 0 and is back when the answer is lost.
    fault({ endpoint: GIVE, when: 'after', action: (it) => it.leaderChange(1) });
    fault({ endpoint: GIVE, skip: 4, when: 'after', action: (it) => it.leaderChange(0) });
    fault({ endpoint: GIVE, skip: 4, action: 'lose-answer' });
    expect(await outcome()).toEqual([2, 1]);
  });
});

it('a leader that changes while the record is slow is detected before the last share: no alarm, and another attempt', async () => {
  const looked = new Promise<void>((resolve) => {
    fault({ endpoint: READ, skip: 1, when: 'after', action: () => resolve() });
  });
  const { now } = Date;
  jest.spyOn(TokenLedger.prototype, 'begin').mockImplementationOnce(async (entry) => {
    await looked;
    await bench.ledger.begin(entry);
    jest.spyOn(Date, 'now').mockImplementation(() => now() + 2_000);
    west.leaderChange(1);
  });
  bench.service.calls.length = 0;
  expect([await outcome(), attempts(), givenTwice()]).toEqual([[1, 0], 2, 0]);
});

describe('a last share that arrives late', () => {
  /** Of the last share: its answer is lost with the share still under way. */
  function underWay() {
    const held = fault({ endpoint: GIVE, skip: 2, action: 'arrive-late' });
    fault({ endpoint: GIVE, skip: 2, action: 'reset' });
    return held;
  }

  it.each([
    ['right after a look that showed its attempt waiting', { endpoint: READ, skip: 2, when: 'after' }, 2],
    ['right before this run cancels its attempt', { endpoint: CANCEL }, 2],
    ['after that', { endpoint: CANCEL, when: 'after' }, 1],
  ] as const)('%s: an alarm is raised, whether it made a token or not', async (_when, at, made) => {
    const held = underWay();
    const arrived = fault({ ...at, action: () => held.arrive() });
    expect(await outcome()).toEqual([made, 1]);
    expect(arrived.hits).toBe(1);
  });

  it('makes one if its attempt comes back with the former leader: the alarm stands', async () => {
    fault({ endpoint: GIVE, skip: 2, action: (it) => it.leaderChange(1) });
    const held = fault({ endpoint: GIVE, skip: 2, action: 'arrive-late' });
    fault({ endpoint: GIVE, skip: 4, action: (it) => it.leaderChange(0) });
    const arrived = fault({ endpoint: CANCEL, action: () => held.arrive() });
    expect(await outcome()).toEqual([2, 1]);
    expect(arrived.hits).toBe(1);
  });

  it('of a lost worker, before another one cancels, raises an alarm', async () => {
    fault({ endpoint: GIVE, skip: 2, action: () => killGeneration('west') });
    const held = fault({ endpoint: GIVE, skip: 2, action: 'arrive-late' });
    const arrived = fault({ endpoint: CANCEL, action: () => held.arrive() });
    expect(await outcome()).toEqual([2, 1]);
    expect(arrived.hits).toBe(1);
  });
});

describe('a worker that stood still', () => {
  /** Each clock misses something: the one that is never set stops with the machine. */
  const CLOCKS = { 'the machine slept': Date, 'the event loop was blocked': performance } as const;
  function standStill(clock: keyof typeof CLOCKS): void {
    const began = CLOCKS[clock].now();
    jest.spyOn(CLOCKS[clock], 'now').mockImplementation(() => began + 6_000);
  }
  const inSlot = async () => west.node(0).attempts.status().progress;

  it.each([
    ['the machine slept', 'after the start', { endpoint: START }, 0],
    ['the machine slept', 'after the second share', { endpoint: GIVE, skip: 1 }, 2],
    ['the event loop was blocked', 'after the second share', { endpoint: GIVE, skip: 1 }, 2],
  ] as const)(
    'and was given up (%s) %s sends no further request, and leaves the slot to the next attempt',
    async (clock, _point, at, given) => {
      bench.service.calls.length = 0;
      const action = () => {
        bench.isGivenUp = true;
        standStill(clock);
      };
      fault({ ...at, when: 'after', action });
      expect((await bench.generationFailure(burst)).code).toBe('CancelledFailure');
      expect([gives().length, await inSlot()]).toEqual([given, given]);
      expect(bench.changes()).not.toContain(`west: ${CANCEL}`);
      jest.restoreAllMocks();
      bench.isGivenUp = false;
      const { token, findings } = await bench.generate(burst, { attempt: 2 });
      expect([await reveal(token), findings]).toEqual([west.issuedSecrets.at(-1), []]);
    },
  );

  it('and was given up right before the last share does not send it: any other worker settles it, with an alarm, and the shares make a token', async () => {
    bench.service.calls.length = 0;
    const action = () => {
      bench.isGivenUp = true;
      standStill('the machine slept');
    };
    fault({ endpoint: READ, skip: 1, when: 'after', action });
    expect([await outcome(), attempts()]).toEqual([[1, 1], 2]);
  });

  it('and stops again while Temporal answers is checked again', async () => {
    bench.service.calls.length = 0;
    const { now } = Date;
    let stillMs = 0;
    jest.spyOn(Date, 'now').mockImplementation(() => now() + stillMs);
    const action = () => void (stillMs += 6_000);
    fault({ endpoint: GIVE, when: 'after', action });
    const asked = bench.descriptions;
    bench.onDescription = () => {
      if (bench.descriptions > asked + 1) return;
      stillMs += 6_000;
      // It still counts in the answer, and not any more when that is read.
      queueMicrotask(() => (bench.isGivenUp = true));
    };
    const failure = await bench.generationFailure(burst);
    bench.onDescription = () => undefined;
    expect([failure.code, gives().length]).toEqual(['CancelledFailure', 1]);
  });

  it('and still counts continues; without a standstill Temporal is not asked', async () => {
    const asked = bench.descriptions;
    await bench.generate(burst);
    expect(bench.descriptions - asked).toBe(0);
    await bench.forgetTokens();
    fault({ endpoint: GIVE, action: () => standStill('the machine slept') });
    const { token } = await bench.generate(burst);
    expect([await reveal(token), bench.descriptions - asked]).toEqual([west.issuedSecrets.at(-1), 1]);
  });
});

describe.each([1, 2])('an old attempt of ours that had taken %s shares', (had) => {
  it.each([1, 2])(
    'and is back before share %s of the new one is cancelled: no holder is called again',
    async (share) => {
      fault({ endpoint: GIVE, skip: had - 1, when: 'after', action: (it) => it.leaderChange(1) });
      let back = false;
      const returnOnce = (it: SimulatedCluster) => {
        const nonces = gives().map(({ body }) => body['nonce']);
        const [, second] = [...new Set(nonces)];
        if (back || second === undefined || nonces.filter((nonce) => nonce === second).length !== share) return;
        back = true;
        it.leaderChange(0);
      };
      fault({ endpoint: GIVE, times: Infinity, action: returnOnce });
      bench.service.calls.length = 0;
      expect([await outcome(), back, givenTwice()]).toEqual([[1, 0], true, 0]);
    },
  );
});

describe('a worker that is lost', () => {
  function dyingAt(at: Pick<Fault, 'endpoint' | 'skip' | 'when'>): void {
    const action = () => {
      killGeneration('west');
      // The call itself is lost, or nobody is there to hear its answer.
      return at.when === 'before' ? new Promise<void>(() => undefined) : undefined;
    };
    fault({ ...at, action });
  }

  it.each([
    ['after the start', { endpoint: START, when: 'after' }, 1, 0],
    ['after the second share', { endpoint: GIVE, skip: 1, when: 'after' }, 1, 0],
    ['at the last share before its effect', { endpoint: GIVE, skip: 2, when: 'before' }, 1, 1],
    ['at the last share after its effect', { endpoint: GIVE, skip: 2, when: 'after' }, 2, 1],
  ] as const)(
    '%s: another one makes a token, and reports a token that nobody holds if there may be one',
    async (_point, at, made, alarms) => {
      dyingAt(at);
      expect(await outcome()).toEqual([made, alarms]);
    },
  );

  it('between the two activities loses no data; the effect of the second one is unknown', async () => {
    killBeforeLastShare('west');
    bench.service.calls.length = 0;
    expect([await outcome(), attempts()]).toEqual([[1, 1], 2]);
  });

  it('after it noted the token, and before it reported it: the token is found, and no other is created', async () => {
    killBeforeReport('west');
    expect(await outcome()).toEqual([1, 0]);
  });
});

describe('the slot', () => {
  const nonce = async () =>
    ((await (await fetch(`${west.addresses[0]}${BASE}/attempt`)).json()) as { nonce: string }).nonce;

  const cancellations = () => bench.service.calls.filter(({ method }) => method === 'DELETE').length;

  it('of somebody else is left alone: fingerprint and progress are reported, with the command that ends it', async () => {
    const { pgpPublicKey, pgpFingerprint } = await createCeremonyKeys();
    await stranger('POST', { pgp_key: pgpPublicKey });
    const [theirs, before] = [await nonce(), cancellations()];
    const spoken = (pgpFingerprint.match(/.{4}/g) ?? []).join(' ');
    expect(await bench.generationFailure(burst)).toMatchObject({
      ...{ code: 'ATTEMPT_FOREIGN', retryable: false },
      details: {
        observed: `attempt ${attemptMark(theirs)} with key ${spoken}, 0 of 3 key shares given`,
        needed: 'a free slot, or our own attempt',
        next: expect.stringContaining('`vault operator generate-root -dr-token -cancel`, then retry') as string,
      },
    });
    expect([await nonce(), cancellations()]).toEqual([theirs, before]);
    // Text in the place of a fingerprint is not repeated.
    const started = { nonce: theirs, started: true, progress: 2, required: 3, complete: false, otp: '', otp_length: 0 };
    fault({ endpoint: READ, action: { status: 200, body: { ...started, pgp_fingerprint: 'not a fingerprint' } } });
    const { details } = await bench.generationFailure(burst);
    expect(details['observed']).toContain('a key with an invalid fingerprint, 2 of 3');
  });

  it.each([
    ['in the middle of ours', { skip: 1 }],
    ['right before our last share', { skip: 1, when: 'after' }],
  ] as const)('is left alone when the other attempt begins %s', async (_when, when) => {
    // Ours is cancelled by somebody who then starts his own.
    let theirs = '';
    fault({
      endpoint: GIVE,
      ...when,
      action: async () => {
        await stranger('DELETE');
        await stranger('POST');
        theirs = await nonce();
      },
    });
    const failure = await bench.generationFailure(burst);
    expect(failure.code).toBe('ATTEMPT_FOREIGN');
    const left = await (await fetch(`${west.addresses[0]}${BASE}/attempt`)).json();
    expect(left).toMatchObject({ nonce: theirs, progress: 0 });
  });

  it('that cannot be freed after a share whose answer was lost leaves the outcome unknown', async () => {
    fault({ endpoint: GIVE, skip: 1, action: 'lose-answer' });
    fault({ endpoint: READ, skip: 1, action: { status: 403 }, times: Infinity });
    const failure = await bench.generationFailure(burst);
    expect(failure).toMatchObject({ code: 'PERMISSION_DENIED', details: { outcomeKnown: false } });
    expect(west.node(0).attempts.status().progress).toBe(2);
  });

  it('is free again after a burst that was cancelled', async () => {
    let cancel = (): void => undefined;
    fault({ endpoint: GIVE, skip: 1, action: () => cancel() });
    const before = west.issuedSecrets.length;
    const failure = await bench.generationFailure(burst, {
      onStart: (how) => (cancel = how),
    });
    expect(failure.code).toBe('CancelledFailure');
    expect([await nonce(), west.issuedSecrets.length]).toEqual(['', before]);
  });
});

describe('bounds', () => {
  it('an attempt that is lost again and again ends the burst, with its orphans in the error and in the ledger', async () => {
    const before = west.issuedSecrets.length;
    fault({ endpoint: GIVE, when: 'after', action: 'lose-answer', times: Infinity });
    const failure = await bench.generationFailure(burst);
    expect(failure).toMatchObject({ code: 'ATTEMPT_LOST', retryable: false });
    expect(failure.alarms[0]).toMatchObject({ severity: 'critical', code: 'orphan-token' });
    expect(failure.alarms[0]?.next).toContain('audit log');
    const orphans = bench.tokensKept().filter(({ state }) => state === 'orphan');
    expect(orphans).toHaveLength(west.issuedSecrets.length - before);
    expect(orphans).not.toEqual([]);
  });

  it('a start that is always refused ends the burst', async () => {
    fault({ endpoint: START, action: { status: 503 }, times: Infinity });
    const starts = bench.calls('west', 'generate-operation-token/attempt');
    const failure = await bench.generationFailure(burst);
    expect(failure.code).toBe('SERVICE_UNAVAILABLE');
    expect(bench.calls('west', 'generate-operation-token/attempt') - starts).toBeLessThan(20);
  });

  it('an attempt of ours that cannot be cancelled ends the burst', async () => {
    const { keys } = await bench.keyRecords.read({ run: bench.run, ...burst.ceremony });
    await stranger('POST', { pgp_key: keys.pgpPublicKey });
    fault({ endpoint: CANCEL, action: { status: 500 }, times: Infinity });
    const failure = await bench.generationFailure(burst);
    expect(failure).toMatchObject({ code: 'ATTEMPT_LOST', retryable: false });
  });
});
