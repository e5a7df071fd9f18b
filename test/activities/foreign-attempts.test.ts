/** Nobody else's attempt is cancelled unless two people named that very one. */
import { keyInWords } from '../../activities/ceremony/generation-slot';
import { attemptMark, foreignAttemptStep } from '../../src/contracts/ceremony';
import { createCeremonyKeys } from '../../src/keys';
import type { SimulatedCluster } from '../../src/simulator';
import { ActivityBench, DEPLOYMENT, openBench } from '../support/activity-environment';
import { decisionOf } from '../support/people';

const ATTEMPT = '/v1/sys/replication/dr/secondary/generate-operation-token/attempt';

let bench: ActivityBench;
let west: SimulatedCluster;
openBench((opened) => (bench = opened), {
  person: (name) => (name === 'olga' ? { attestation: 'claimed' } : undefined),
});
beforeAll(async () => {
  west = bench.cluster('west');
});
beforeEach(() => {
  bench.history = { events: [] };
});

/** Somebody else starts an attempt, in the place of one that is there. */
async function foreign(body: object = {}): Promise<string> {
  await fetch(`${west.apiAddress}${ATTEMPT}`, { method: 'DELETE' });
  await fetch(`${west.apiAddress}${ATTEMPT}`, { method: 'POST', body: JSON.stringify(body) });
  return nonce();
}

async function nonce(): Promise<string> {
  return ((await (await fetch(`${west.apiAddress}${ATTEMPT}`)).json()) as { nonce: string }).nonce;
}

const cancel = () => bench.failure('cancelForeignAttempt', input);
const input = { deployment: DEPLOYMENT, cluster: 'west', kind: 'operation-token' } as const;
const about = (of: string, cluster = 'west') => foreignAttemptStep(cluster, attemptMark(of));

async function decide(
  by: string,
  step: string,
  action: 'cancel-attempt' | 'retry' = 'cancel-attempt',
  run = bench.run,
) {
  bench.signaled('decide', [await decisionOf(bench.person(by), { ...run, step, parkingNo: 1, action })]);
}

it('two different people who name it end it, and the finding names them and its key', async () => {
  const keys = await createCeremonyKeys();
  const theirs = await foreign({ pgp_key: keys.pgpPublicKey });
  for (const by of ['grace', 'henry']) await decide(by, about(theirs));
  const { outcome, findings = [] } = await bench.call('cancelForeignAttempt', input);
  expect([outcome, await nonce()]).toEqual(['done', '']);
  expect(findings).toEqual([expect.objectContaining({ code: 'foreign-attempt-cancelled', severity: 'warning' })]);
  expect(findings[0]?.text.replaceAll(' ', '')).toContain(keys.pgpFingerprint);
  expect(findings[0]?.text).toContain('grace and henry');
  expect(await bench.call('cancelForeignAttempt', input)).toMatchObject({ outcome: 'already', calls: 0 });
});

/** Who decided what about which attempt: `cancel-attempt` of the one in the slot of this run where nothing else is said. */
interface Decided {
  readonly by: readonly string[];
  readonly about?: (theirs: string) => string;
  readonly action?: 'retry';
  readonly rid?: string;
}
const TWO = ['grace', 'henry'];
const another = (theirs: string) => theirs.replace(/^./, (first) => (first === '0' ? '1' : '0'));

it.each<[string, Decided]>([
  ['nobody', { by: [] }],
  ['one person', { by: ['grace'] }],
  ['one person twice', { by: ['grace', 'grace'] }],
  ['two people, one of whom only claims to be one', { by: ['grace', 'olga'] }],
  ['two people who neither approve nor operate here', { by: ['ada', 'bert'] }],
  ['two people about an attempt that was there before', { by: TWO, about: (theirs) => about(another(theirs)) }],
  ['two people about another cluster', { by: TWO, about: (theirs) => about(theirs, 'east') }],
  ['two people who decided something else', { by: TWO, action: 'retry' }],
  ['two people in another run', { by: TWO, rid: 'another' }],
])('%s: it is left alone', async (_who, { by, about: step = about, action, rid = bench.run.rid }) => {
  const theirs = await foreign();
  for (const name of by) await decide(name, step(theirs), action, { ...bench.run, rid });
  const failure = await cancel();
  expect(failure).toMatchObject({ code: 'NOT_APPROVED', retryable: false });
  expect(failure.details['observed']).toContain(`attempt ${attemptMark(theirs)} with a one-time password`);
  expect(await nonce()).toBe(theirs);
});

it('an answer that is lost is found out by reading', async () => {
  const theirs = await foreign();
  for (const by of ['grace', 'henry']) await decide(by, about(theirs));
  bench.service.faults.add({ cluster: 'west', endpoint: `DELETE ${ATTEMPT}`, action: 'lose-answer' });
  expect(await bench.call('cancelForeignAttempt', input)).toMatchObject({ outcome: 'done', calls: 1 });
  expect(await nonce()).toBe('');
});

it('one that is gone before it is cancelled was not cancelled by the run, and what is there now is told', async () => {
  const theirs = await foreign();
  for (const by of ['grace', 'henry']) await decide(by, about(theirs));
  const started = { nonce: '9f9f9f9f-0000-4000-8000-000000000000', started: true, progress: 0, required: 3 };
  bench.service.faults.add({
    ...{ cluster: 'west', endpoint: `GET ${ATTEMPT}`, skip: 1 },
    action: { status: 200, body: { ...started, complete: false, pgp_fingerprint: '', otp: '', otp_length: 0 } },
  });
  const { outcome, calls, observed, findings = [] } = await bench.call('cancelForeignAttempt', input);
  expect([outcome, calls]).toEqual(['already', 0]);
  expect(observed).toContain(`another attempt, ${attemptMark(started.nonce)}`);
  expect(findings).toEqual([expect.objectContaining({ code: 'foreign-attempt-gone', severity: 'info' })]);
  expect(await nonce()).toBe(theirs);
});

it('from version 2.0 the way in is asked at the calls of the very kind of attempt', async () => {
  const clusters = ['east', 'west'].map((name) => ({
    ...{ name, nodes: 1, version: '2.0.3+ent' },
  }));
  const own = await ActivityBench.start({ topology: { clusters } });
  try {
    own.cluster('east').configureUnauthenticatedAccess(['generate-root']);
    const root = { ...input, cluster: 'east', kind: 'root-token' } as const;
    expect(await own.call('cancelForeignAttempt', root)).toMatchObject({ outcome: 'already' });
    const reads = own.service.calls.filter(({ method }) => method === 'GET').map(({ path }) => path);
    expect(reads.filter((path) => path.includes('generate-operation-token'))).toEqual([]);
    expect(reads.filter((path) => path.includes('generate-root/attempt')).length).toBeGreaterThan(0);
  } finally {
    await own.stop();
  }
});

it('a fingerprint is shown; text that is none is not repeated', () => {
  expect(keyInWords('0123456789abcdef0123456789abcdef01234567')).toBe(
    'key 0123 4567 89ab cdef 0123 4567 89ab cdef 0123 4567',
  );
  expect(keyInWords('not a fingerprint')).toBe('a key whose fingerprint is odd');
  expect(keyInWords('5a'.repeat(33))).toBe('a key whose fingerprint is odd');
});
