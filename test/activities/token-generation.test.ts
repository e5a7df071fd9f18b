/** The burst: shares become one token, whatever happens between the calls, and no token is lost without a finding. */
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import { openValue } from '../../src/keys';
import type { Fault, SimulatedCluster } from '../../src/simulator';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

const BASE = '/v1/sys/replication/dr/secondary/generate-operation-token';
const START = `POST ${BASE}/attempt`;
const GIVE = `POST ${BASE}/update`;
const READ = `GET ${BASE}/attempt`;
const USES = ['dr.promote', 'dr.operation-token.delete'] as const;
const WRONG = '11'.repeat(33);

let bench: ActivityBench;
let west: SimulatedCluster;
let ceremony: CeremonyHandle;
let envelopes: Map<string, string>;

openBench((opened) => (bench = opened), {
  topology: {
    clusters: [
      { name: 'east', nodes: 1, seal: { shares: 5, threshold: 3 } },
      { name: 'west', nodes: 3, seal: { shares: 5, threshold: 3 } },
    ],
  },
});
beforeAll(async () => {
  west = bench.cluster('west');
  ceremony = await bench.ceremony([{ cluster: 'west', uses: USES }]);
  const [ada = '', bert = '', cleo = '', dora = ''] = await bench.envelopes(ceremony.invitation, [
    'ada',
    'bert',
    'cleo',
    'dora',
  ]);
  const wrong = { ada: WRONG, bert: `${WRONG.slice(2)}22` };
  const [badAda = '', badBert = ''] = await bench.envelopes(ceremony.invitation, ['ada', 'bert'], wrong);
  envelopes = new Map(Object.entries({ ada, bert, cleo, dora, badAda, badBert }));
  bench.canary('a wrong share', WRONG);
});

beforeEach(async () => {
  bench.service.faults.clear();
  await bench.forgetTokens();
  await restore();
});

/** All nodes up, no attempt in any slot. */
async function restore(): Promise<void> {
  await west.restart();
  for (const node of [0, 1, 2]) {
    await activate(node);
    await fetch(`${west.addresses[node]}${BASE}/attempt`, { method: 'DELETE' });
  }
  await activate(0);
}

async function activate(node: number): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (west.snapshotState().activeNode !== node) {
    if (Date.now() > deadline) throw new Error('no leader');
    west.leaderChange(node);
    bench.service.advanceClock(100);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const inputOf = (...names: string[]) => ({
  deployment: DEPLOYMENT,
  cluster: 'west',
  ceremony,
  uses: USES,
  envelopes: names.map((name) => envelopes.get(name) ?? ''),
});
const burst = (...names: string[]) => bench.generate(inputOf(...names));
const living = () => west.snapshotState().operationTokens;
const cancellations = () => bench.service.calls.filter(({ method }) => method === 'DELETE').length;

async function reveal(sealed: string): Promise<string> {
  const secret = await openValue(bench.sealKeyring, bench.run, sealed as Parameters<typeof openValue>[2], {
    kind: 'operation-token',
    cluster: 'west',
    clusterId: west.clusterId,
    use: 'dr.promote',
  });
  return secret.reveal();
}

const ledgerStates = () => bench.tokensKept().map(({ state }) => state);

it('makes one token of the threshold, sealed, in the ledger, with a free slot afterwards', async () => {
  const before = living();
  const { token, attempts, findings, badShares } = await burst('ada', 'bert', 'cleo');
  expect({ attempts, findings, badShares }).toEqual({ attempts: 1, findings: [], badShares: [] });
  expect(living() - before).toBe(1);
  expect(west.issuedSecrets.at(-1)).toBe(await reveal(token));
  expect(ledgerStates()).toContain('alive');
});

const change: Fault['action'] = (cluster) => cluster.leaderChange();
const kill: Fault['action'] = (cluster) => cluster.killNode(cluster.snapshotState().activeNode ?? 0);
const FAULTS: readonly (readonly [name: string, fault: Omit<Fault, 'endpoint' | 'cluster'>])[] = [
  ['an answer lost after its effect', { action: 'lose-answer' }],
  ['a connection reset before the effect', { action: 'reset' }],
  ['a 500 before the effect', { action: { status: 500 } }],
  ['a 500 after the effect', { action: { status: 500 }, when: 'after' }],
  ['a 503 before the effect', { action: { status: 503 } }],
  ['two documents in one answer', { action: 'glue-documents' }],
  ['a leader change before the call', { action: change }],
  ['a leader change after the call', { action: change, when: 'after' }],
  ['the death of the active node before the call', { action: kill }],
];
const POINTS: readonly (readonly [name: string, at: Pick<Fault, 'endpoint' | 'skip'>])[] = [
  ['the start', { endpoint: START }],
  ['the first share', { endpoint: GIVE }],
  ['the second share', { endpoint: GIVE, skip: 1 }],
  ['the last share', { endpoint: GIVE, skip: 2 }],
  ['the first read', { endpoint: READ }],
];

function lastShareInDoubt(at: Pick<Fault, 'endpoint' | 'skip'>, fault: Pick<Fault, 'action' | 'when'>): boolean {
  const afterTheSecond = at.skip === 1 && typeof fault.action === 'function' && fault.when === 'after';
  return at.endpoint === GIVE && (at.skip === 2 || afterTheSecond);
}

describe.each(POINTS)('at %s', (_point, at) => {
  it.each(FAULTS)('%s: the holders are not asked again, and every token is held or reported', async (_name, fault) => {
    const before = living();
    bench.service.faults.add({ ...fault, ...at, cluster: 'west' });
    const { token, findings } = await burst('ada', 'bert', 'cleo');
    expect(west.issuedSecrets.at(-1)).toBe(await reveal(token));
    const orphans = findings.filter(({ code, severity }) => code === 'orphan-token' && severity === 'critical');
    expect(orphans).toHaveLength(findings.length);
    // A token that nobody holds is never silent. A false alarm needs a last share without a clear answer.
    const made = living() - before;
    expect(orphans.length).toBeGreaterThanOrEqual(made - 1);
    expect(orphans.length).toBeLessThanOrEqual(lastShareInDoubt(at, fault) ? 1 : 0);
  });
});

describe('the slot', () => {
  const foreign = async () => {
    const answer = await fetch(`${west.addresses[0]}${BASE}/attempt`, { method: 'POST', body: '{}' });
    expect(answer.status).toBe(200);
  };
  const nonce = async () =>
    ((await (await fetch(`${west.addresses[0]}${BASE}/attempt`)).json()) as { nonce: string }).nonce;

  it("is left alone while another's attempt is in it", async () => {
    await foreign();
    const [theirs, before] = [await nonce(), cancellations()];
    const failure = await bench.generationFailure(inputOf('ada', 'bert', 'cleo'));
    expect(failure).toMatchObject({ code: 'ATTEMPT_FOREIGN', retryable: false });
    expect(failure.details['observed']).toContain('a one-time password');
    expect([await nonce(), cancellations()]).toEqual([theirs, before]);
    expect(bench.calls('west', 'generate-operation-token/update')).toBeGreaterThan(0);
  });

  it.each([
    ['in the middle of ours', { skip: 1 }],
    ['right before our last share', { skip: 1, when: 'after' }],
  ] as const)('is left alone when the other attempt begins %s', async (_when, when) => {
    // Ours is cancelled by somebody who then starts his own.
    let theirs = '';
    bench.service.faults.add({
      cluster: 'west',
      endpoint: GIVE,
      ...when,
      action: async () => {
        await fetch(`${west.addresses[0]}${BASE}/attempt`, { method: 'DELETE' });
        await foreign();
        theirs = await nonce();
      },
    });
    const failure = await bench.generationFailure(inputOf('ada', 'bert', 'cleo'));
    expect(failure.code).toBe('ATTEMPT_FOREIGN');
    const left = await (await fetch(`${west.addresses[0]}${BASE}/attempt`)).json();
    expect(left).toMatchObject({ nonce: theirs, progress: 0 });
  });

  it('is cleared of an attempt of ours that comes back with a former leader', async () => {
    bench.service.faults.add({
      cluster: 'west',
      endpoint: GIVE,
      skip: 1,
      action: (cluster) => cluster.leaderChange(1),
    });
    bench.service.faults.add({
      cluster: 'west',
      endpoint: GIVE,
      skip: 3,
      action: (cluster) => cluster.leaderChange(0),
    });
    const { token, attempts } = await burst('ada', 'bert', 'cleo');
    expect(west.issuedSecrets.at(-1)).toBe(await reveal(token));
    expect(attempts).toBeGreaterThan(1);
  });

  it('is free again after a burst that failed', async () => {
    const failure = await bench.generationFailure(inputOf('badAda', 'bert', 'cleo'));
    expect(failure.code).toBe('SHARES_REJECTED');
    expect(await nonce()).toBe('');
  });

  it('is free again after a burst that was cancelled', async () => {
    let cancel = (): void => undefined;
    bench.service.faults.add({ cluster: 'west', endpoint: GIVE, skip: 1, action: () => cancel() });
    const before = living();
    const failure = await bench.generationFailure(inputOf('ada', 'bert', 'cleo'), {
      onStart: (how) => (cancel = how),
    });
    expect(failure.code).toBe('CancelledFailure');
    expect([await nonce(), living()]).toEqual(['', before]);
  });
});

describe('bad shares', () => {
  it('one among four is found by trying sets, and its holder is named', async () => {
    const { token, badShares, findings } = await burst('badAda', 'bert', 'cleo', 'dora');
    expect(west.issuedSecrets.at(-1)).toBe(await reveal(token));
    expect(badShares).toEqual(['ada']);
    expect(findings).toEqual([expect.objectContaining({ code: 'bad-share', severity: 'warning' })]);
  });

  it('two among four give no token, and nobody is named', async () => {
    const before = living();
    const failure = await bench.generationFailure(inputOf('badAda', 'badBert', 'cleo', 'dora'));
    expect(failure).toMatchObject({ code: 'SHARES_REJECTED', retryable: false });
    expect(failure.message).toContain('4 sets of 3');
    expect(living()).toBe(before);
  });
});

describe('bounds', () => {
  it('an attempt that is lost again and again ends the burst, with what was orphaned in the error and in the ledger', async () => {
    const before = { living: living(), orphans: ledgerStates().filter((state) => state === 'orphan').length };
    bench.service.faults.add({
      cluster: 'west',
      endpoint: GIVE,
      when: 'after',
      action: 'lose-answer',
      times: Infinity,
    });
    const failure = await bench.generationFailure(inputOf('ada', 'bert', 'cleo'));
    expect(failure).toMatchObject({ code: 'ATTEMPT_LOST', retryable: false });
    expect(failure.alarms[0]).toMatchObject({ severity: 'critical', code: 'orphan-token' });
    expect(failure.alarms[0]?.next).toContain('audit log');
    const orphans = ledgerStates().filter((state) => state === 'orphan').length - before.orphans;
    expect(orphans).toBe(living() - before.living);
    expect(orphans).toBeGreaterThan(0);
  });

  it('a start that is always refused ends the burst', async () => {
    bench.service.faults.add({ cluster: 'west', endpoint: START, action: { status: 503 }, times: Infinity });
    const starts = bench.calls('west', 'generate-operation-token/attempt');
    const failure = await bench.generationFailure(inputOf('ada', 'bert', 'cleo'));
    expect(failure.code).toBe('SERVICE_UNAVAILABLE');
    expect(bench.calls('west', 'generate-operation-token/attempt') - starts).toBeLessThan(20);
  });

  it('an attempt of ours that cannot be cancelled ends the burst', async () => {
    const { keys } = await bench.keyRecords.read({ run: bench.run, ...ceremony });
    const body = JSON.stringify({ pgp_key: keys.pgpPublicKey });
    await fetch(`${west.addresses[0]}${BASE}/attempt`, { method: 'POST', body });
    bench.service.faults.add({
      cluster: 'west',
      endpoint: `DELETE ${BASE}/attempt`,
      action: { status: 500 },
      times: Infinity,
    });
    const failure = await bench.generationFailure(inputOf('ada', 'bert', 'cleo'));
    expect(failure).toMatchObject({ code: 'ATTEMPT_LOST', retryable: false });
  });
});

it('shows none of the shares, keys and tokens anywhere', async () => {
  const { keys } = await bench.keyRecords.read({ run: bench.run, ...ceremony });
  bench.canary('age identity', keys.identity.reveal());
  bench.canary('PGP key', keys.pgpPrivateKey.reveal().split('\n')[3] ?? '');
  expect(bench.leaks()).toEqual([]);
});
