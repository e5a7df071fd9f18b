/** Tokens that people hand in: only what the service encrypted to the key of this very ceremony counts, and only once. */
import { randomUUID } from 'node:crypto';
import * as openpgp from 'openpgp';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import { rootTokenCeremonyInput } from '../../src/contracts/runbook-inputs';
import { GenerationRecord } from '../../activities/support/ceremony/generation-record';
import { TokenLedger } from '../../activities/support/ceremony/token-ledger';
import { ActivityBench, DEPLOYMENT, failedOf } from '../support/activity-environment';
import { newRecipient } from '../support/recipient';

const USES = ['dr.promote', 'dr.operation-token.delete'] as const;
const TARGETS = [
  { cluster: 'west', uses: USES },
  { cluster: 'east', uses: USES },
];

let bench: ActivityBench;
beforeAll(async () => {
  bench = await ActivityBench.start();
});
afterAll(async () => {
  expect(bench.leaks()).toEqual([]);
  await bench.stop();
});

let cid: string;
async function ceremony(shares?: 'direct', epoch = 1, run = bench.run): Promise<CeremonyHandle> {
  if (epoch === 1) cid = randomUUID();
  const { fingerprint: _fingerprint, ...handle } = await bench.call(
    'createCeremony',
    {
      ...{ deployment: DEPLOYMENT, runbook: 'drSwitchover', reason: 'a test', requestedBy: 'olga', targets: TARGETS },
      ...{ epoch, cid, inputDigest: 'digest', shares },
    },
    { run },
  );
  return handle;
}

/** What the service would have answered. */
async function encodedFor({ cid: of, epoch }: CeremonyHandle, token: string): Promise<string> {
  const { keys } = await bench.keyRecords.read(of, epoch);
  return encodedTo(keys.pgpPublicKey, token);
}

async function encodedTo(publicKey: string, text: string): Promise<string> {
  const encryptionKeys = await openpgp.readKey({ binaryKey: Buffer.from(publicKey, 'base64') });
  const message = await openpgp.createMessage({ text });
  const binary: unknown = await openpgp.encrypt({ message, encryptionKeys, format: 'binary' });
  return Buffer.from(binary as Uint8Array).toString('base64');
}

let tokens = 0;
function newToken(): string {
  tokens += 1;
  const token = `hvs.CANARY${String(tokens).padStart(18, 'x')}`;
  bench.canary(`handed in ${tokens}`, token);
  return token;
}

const take = async (handle: CeremonyHandle, ...contents: readonly unknown[]) =>
  bench.call('takeEncodedToken', {
    deployment: DEPLOYMENT,
    ceremony: handle,
    arrived: bench.signaled('submitEncodedToken', contents),
  });

const ledger = () => new TokenLedger(bench.ledgerDirectory);
const mine = async () => (await ledger().open()).filter((entry) => entry.cid === cid);

describe('takeEncodedToken', () => {
  it('takes a token of this ceremony, sealed for its cluster and uses, and the ledger knows it before it is told', async () => {
    const handle = await ceremony();
    const encodedToken = await encodedFor(handle, newToken());
    const { verdicts, findings } = await take(handle, { cluster: 'west', encodedToken });
    expect(verdicts).toMatchObject([{ code: 'accepted', cluster: 'west' }]);
    expect(findings).toEqual([]);
    expect(await mine()).toMatchObject([{ cluster: 'west', state: 'alive', sealed: verdicts[0]?.token }]);
  });

  it('the same signal again, after a lost result, gives the same; another signal with the same token is refused', async () => {
    const handle = await ceremony();
    const token = newToken();
    const arrived = bench.signaled('submitEncodedToken', [
      { cluster: 'west', encodedToken: await encodedFor(handle, token) },
      { cluster: 'west', encodedToken: await encodedFor(handle, token) },
    ]);
    const input = { deployment: DEPLOYMENT, ceremony: handle };
    // The events of a real history have numbers of their own.
    bench.history.events?.forEach((event, index) => {
      event.eventId = (index + 1) as unknown as NonNullable<typeof event.eventId>;
    });
    const first = await bench.call('takeEncodedToken', { ...input, arrived: arrived.slice(0, 1) });
    const again = await bench.call('takeEncodedToken', { ...input, arrived });
    expect(again.verdicts).toMatchObject([{ code: 'accepted', token: first.verdicts[0]?.token }, { code: 'repeated' }]);
    expect(await mine()).toHaveLength(1);
  });

  it('settles what nobody held: the finding says that it is held after all', async () => {
    const handle = await ceremony();
    const { clusterId } = bench.cluster('west');
    const record = await GenerationRecord.begin(ledger(), {
      ...{ kind: 'operation-token', deployment: DEPLOYMENT, cluster: 'west', clusterId, run: bench.run },
      ...{
        cid: handle.cid,
        epoch: 1,
        key: (await bench.keyRecords.read(handle.cid, 1)).keys.pgpFingerprint,
        threshold: 3,
      },
    });
    await record.lastShare('nonce');
    await record.orphaned('an answer was lost');
    const wrong = await take(handle, { cluster: 'east', encodedToken: await encodedFor(handle, newToken()) });
    expect(wrong.verdicts).toMatchObject([{ code: 'wrong-cluster', text: expect.stringContaining('west') as string }]);
    const { verdicts, findings } = await take(handle, {
      cluster: 'west',
      encodedToken: await encodedFor(handle, newToken()),
    });
    expect(verdicts).toMatchObject([{ code: 'accepted' }]);
    expect(findings).toMatchObject([{ code: 'orphan-held-after-all' }]);
    expect((await mine()).map(({ state }) => state)).toEqual(['alive']);
  });

  it('refuses what belongs to another key, epoch, cluster, or is no token; nothing of it is repeated', async () => {
    const handle = await ceremony();
    const other = await newRecipient();
    const own = await encodedFor(handle, newToken());
    const plain = newToken();
    const earlier = await ceremony();
    const cases: readonly (readonly [string, unknown])[] = [
      ['wrong-key', { cluster: 'west', encodedToken: await encodedTo(other.publicKey, newToken()) }],
      ['wrong-key', { cluster: 'west', encodedToken: await encodedFor(earlier, newToken()) }],
      ['wrong-cluster', { cluster: 'north', encodedToken: own }],
      ['not-a-token', { cluster: 'west', encodedToken: await encodedFor(handle, 'something else') }],
      ['one-time-password', { cluster: 'west', encodedToken: 'CTRASgBtJwpnJA9cEy1cHSJWNQl0PwN7MWUIRA' }],
      ['malformed', own],
      ['malformed', { encoded_token: own, complete: true }],
      ['malformed', { cluster: 'west', encodedToken: `{"encoded_token":"${own}"}` }],
      ['malformed', { cluster: 'west', encodedToken: own, otp: '' }],
      ['wrong-key', { cluster: 'west', encodedToken: own.slice(0, 120) }],
      ['plain-text-token', { cluster: 'west', encodedToken: plain }],
      ['plain-text-token', { token: plain }],
      ['plain-text-token', plain],
      ['plain-text-token', { cluster: 'west', encodedToken: randomUUID() }],
      ['undecodable', { undecodable: 'json/protobuf' }],
    ];
    const { verdicts } = await take(handle, ...cases.map(([, content]) => content));
    expect(verdicts.map(({ code }) => code)).toEqual(cases.map(([code]) => code));
    for (const { code, eventId } of verdicts) expect(eventId !== undefined).toBe(code === 'plain-text-token');
    expect(JSON.stringify(verdicts)).not.toContain(own.slice(0, 40));
  });

  it('needs the keys of its own run, and a signal that is in the history', async () => {
    const handle = await ceremony();
    const input = { deployment: DEPLOYMENT, ceremony: handle, arrived: [1] };
    const stranger = { ns: 'default', wid: 'deployment:other', rid: randomUUID() };
    expect(await bench.failure('takeEncodedToken', input, { run: stranger })).toMatchObject({
      code: 'KEY_RECORD_MISSING',
    });
    expect(await bench.failure('takeEncodedToken', { ...input, arrived: [9_999] })).toMatchObject({
      code: 'DOCUMENT_INVALID',
    });
  });
});

const on = { deployment: DEPLOYMENT, cluster: 'west' };
const end = async (
  { cid: of, invitation }: CeremonyHandle,
  { nonces = [], ...why }: { readonly nonces?: readonly string[]; readonly ifGone?: string } = {},
) => bench.call('endDirectAttempt', { ...on, cid: of, invitation, kind: 'operation-token', nonces, ...why });

describe('an attempt for holders', () => {
  const slot = () => bench.cluster('west').node(0).attempts;

  it('that cannot be cancelled is not said to be: a critical finding, and the ledger keeps it', async () => {
    const handle = await ceremony('direct');
    await bench.call('startDirectAttempt', { ...on, ceremony: handle });
    const fault = bench.service.faults.add({
      ...{ cluster: 'west', endpoint: /^DELETE .*generate-operation-token\/attempt$/ },
      ...{ action: { status: 403 }, times: Infinity },
    });
    const ended = await end(handle, { ifGone: 'gone' });
    fault.remove();
    expect(ended).toMatchObject({
      outcome: 'not-done',
      findings: [{ severity: 'critical', code: 'attempt-not-cancelled' }],
    });
    expect((await slot().read('dr-operation-token')).started).toBe(true);
    expect((await mine()).map(({ state }) => state)).toEqual(['pending']);
    expect(await end(handle, { ifGone: 'gone' })).toMatchObject({ outcome: 'done' });
    expect(await mine()).toEqual([]);
  });

  it('is ended by the next attempt where nobody can say whether this one counts: nothing is told yet', async () => {
    const handle = await ceremony('direct');
    await bench.call('startDirectAttempt', { ...on, ceremony: handle });
    const { now } = Date;
    const still = () => void jest.spyOn(Date, 'now').mockImplementation(() => now() + 6_000);
    bench.service.faults.add({ cluster: 'west', endpoint: /^GET .*generate-operation-token\/attempt$/, action: still });
    bench.onDescription = () => {
      throw new Error('silent');
    };
    const failure = await end(handle, { ifGone: 'gone' }).catch((error: unknown) => error);
    jest.restoreAllMocks();
    bench.onDescription = () => undefined;
    expect(failedOf(failure)).toMatchObject({ code: 'TEMPORAL_UNAVAILABLE', retryable: true });
    expect((await mine()).map(({ state }) => state)).toEqual(['pending']);
    expect(await end(handle, { ifGone: 'gone' })).toMatchObject({ outcome: 'done', findings: [] });
  });

  describe('that lacks one share when it is seen and cancelled', () => {
    /** The last holder gives his share at that very moment. */
    async function givenAt(endpoint: RegExp): Promise<{ handle: CeremonyHandle; issued: () => number }> {
      const handle = await ceremony('direct');
      await bench.call('startDirectAttempt', { ...on, ceremony: handle });
      const { nonce } = await slot().read('dr-operation-token');
      const give = async (name: string) =>
        slot().update('dr-operation-token', { key: bench.person(name).share ?? '', nonce });
      await give('ada');
      await give('bert');
      bench.service.faults.add({ cluster: 'west', endpoint, action: async () => void (await give('cleo')) });
      const before = bench.cluster('west').issuedSecrets.length;
      return { handle, issued: () => bench.cluster('west').issuedSecrets.length - before };
    }

    it.each([
      ['before that share is made useless', /^POST .*generate-operation-token\/update$/, 1],
      ['before the cancellation', /^DELETE .*generate-operation-token\/attempt$/, 0],
    ])('is told exactly where its last share comes %s', async (_when, endpoint, made) => {
      const { handle, issued } = await givenAt(endpoint);
      const { findings } = await end(handle, { ifGone: 'gone' });
      expect([findings.length, issued()]).toEqual([made, made]);
      expect((await mine()).map(({ state }) => state)).toEqual(made === 1 ? ['orphan'] : []);

      const again = await givenAt(endpoint);
      const next = await ceremony('direct', 2);
      const started = await bench.call('startDirectAttempt', { ...on, ceremony: next });
      if (started.outcome === 'not-done') throw new Error(started.observed);
      expect([started.findings.length, again.issued()]).toEqual([made, made]);
      await end(next);
    });
  });

  it('that ends between the look and the cancellation was not cancelled, and is told', async () => {
    const handle = await ceremony('direct');
    await bench.call('startDirectAttempt', { ...on, ceremony: handle });
    const { nonce } = await slot().read('dr-operation-token');
    const give = async (...names: string[]) => {
      for (const name of names)
        await slot().update('dr-operation-token', { key: bench.person(name).share ?? '', nonce });
    };
    await give('ada');
    bench.service.faults.add({
      ...{ cluster: 'west', endpoint: /^GET .*generate-operation-token\/attempt$/, skip: 1 },
      action: () => give('bert', 'cleo'),
    });
    expect(await end(handle, { ifGone: 'gone' })).toMatchObject({
      outcome: 'already',
      observed: 'our attempt was gone before it was cancelled',
      findings: [{ severity: 'critical', code: 'orphan-token' }],
    });
    expect((await mine()).map(({ state }) => state)).toEqual(['orphan']);
  });

  it('leaves alone the entry that was changed meanwhile, as by a token that was handed in', async () => {
    const handle = await ceremony('direct');
    await bench.call('startDirectAttempt', { ...on, ceremony: handle });
    bench.service.faults.add({
      ...{ cluster: 'west', endpoint: /^DELETE .*generate-operation-token\/attempt$/ },
      action: async () => {
        for (const entry of await mine()) await ledger().write({ ...entry, state: 'alive' });
      },
    });
    expect(await end(handle, { ifGone: 'gone' })).toMatchObject({ outcome: 'done', findings: [] });
    expect((await mine()).map(({ state }) => state)).toEqual(['alive']);
  });

  it('of an earlier epoch is cancelled with its entry, and its keys are not needed for that', async () => {
    const first = await ceremony('direct');
    await bench.call('startDirectAttempt', { ...on, ceremony: first });
    const second = await ceremony('direct', 2);
    expect(await bench.call('startDirectAttempt', { ...on, ceremony: second })).toMatchObject({
      outcome: 'done',
      findings: [],
    });
    const { keys } = await bench.keyRecords.read(cid, 2);
    expect(await mine()).toMatchObject([{ state: 'pending', key: keys.pgpFingerprint }]);
    for (const epoch of [1, 2]) await bench.keyRecords.destroy(cid, epoch);
    expect(await end(second, { ifGone: 'gone' })).toMatchObject({ outcome: 'done', findings: [] });
    expect(await mine()).toEqual([]);
  });

  it('of an earlier epoch that is gone is told when the next is started; its token is still taken, as that one', async () => {
    const first = await ceremony('direct');
    await bench.call('startDirectAttempt', { ...on, ceremony: first });
    await slot().cancel();
    const second = await ceremony('direct', 2);
    expect(await bench.call('startDirectAttempt', { ...on, ceremony: second })).toMatchObject({
      findings: [{ severity: 'critical', code: 'orphan-token' }],
    });
    const { verdicts, findings } = await take(second, {
      cluster: 'west',
      encodedToken: await encodedFor(first, newToken()),
    });
    expect(verdicts).toMatchObject([{ code: 'accepted' }]);
    expect(findings).toMatchObject([{ code: 'orphan-held-after-all' }]);
    expect((await mine()).map(({ state }) => state).sort()).toEqual(['alive', 'pending']);
    await end(second);
  });

  it('is cancelled by a worker without its ledger only for the run that its invitation names', async () => {
    const handle = await ceremony('direct');
    await bench.call('startDirectAttempt', { ...on, ceremony: handle });
    for (const entry of await mine()) await ledger().remove(entry);
    const { nonce } = await slot().read('dr-operation-token');
    const stranger = { ns: 'default', wid: 'deployment:other', rid: randomUUID() };
    const { invitation } = handle;
    const input = { ...on, cid, invitation, kind: 'operation-token', nonces: [nonce ?? ''] } as const;
    expect(await bench.call('endDirectAttempt', input, { run: stranger })).toMatchObject({ outcome: 'already' });
    expect((await slot().read('dr-operation-token')).started).toBe(true);
    expect(await bench.call('endDirectAttempt', input)).toMatchObject({ outcome: 'done', findings: [] });
    expect((await slot().read('dr-operation-token')).started).toBe(false);
  });

  it('is started with the key of the ceremony, found again, and cancelled only where it is ours', async () => {
    const handle = await ceremony('direct');
    const started = await bench.call('startDirectAttempt', { ...on, ceremony: handle });
    if (started.outcome === 'not-done') throw new Error(started.observed);
    const { pgp_fingerprint: fingerprint, nonce } = await slot().read('dr-operation-token');
    expect(started).toMatchObject({ outcome: 'done', nonce, fingerprint, progress: 0, required: 3, needsToken: false });
    expect(await bench.call('startDirectAttempt', { ...on, ceremony: handle })).toMatchObject({
      outcome: 'already',
      nonce,
    });
    expect(await mine()).toMatchObject([{ state: 'pending', key: fingerprint }]);
    expect(await end(handle, { ifGone: 'gone' })).toMatchObject({
      outcome: 'done',
      findings: [],
    });
    expect((await slot().read('dr-operation-token')).started).toBe(false);
    expect(await mine()).toEqual([]);

    await slot().start('dr-operation-token');
    expect(await bench.failure('startDirectAttempt', { ...on, ceremony: handle })).toMatchObject({
      code: 'ATTEMPT_FOREIGN',
    });
    expect(await end(handle)).toMatchObject({ outcome: 'already' });
    expect((await slot().read('dr-operation-token')).started).toBe(true);
    await slot().cancel();
  });

  it('whose answer was lost is found; one that ended unseen is told as a token that nobody holds', async () => {
    const handle = await ceremony('direct');
    bench.service.faults.add({
      cluster: 'west',
      endpoint: /generate-operation-token\/attempt$/,
      skip: 1,
      action: 'lose-answer',
    });
    expect(await bench.call('startDirectAttempt', { ...on, ceremony: handle })).toMatchObject({ outcome: 'done' });
    await slot().cancel();
    const ended = await end(handle, { ifGone: 'its attempt ended unseen' });
    expect(ended.findings).toMatchObject([{ severity: 'critical', code: 'orphan-token' }]);
    expect((await mine()).map(({ state }) => state)).toEqual(['orphan']);
  });

  it('is not started where the cluster is no DR secondary, or for a ceremony of another kind', async () => {
    const handle = await ceremony('direct');
    expect(
      await bench.call('startDirectAttempt', { deployment: DEPLOYMENT, cluster: 'east', ceremony: handle }),
    ).toMatchObject({
      outcome: 'not-done',
    });
    const recipient = await newRecipient();
    const authority = await bench.authority();
    const input = { ...on, ceremony: handle, recipientPgpKey: recipient.publicKey, authority };
    expect(await bench.failure('startDirectRootAttempt', input)).toMatchObject({ code: 'DOCUMENT_INVALID' });
    expect(await bench.failure('takeEncodedRootToken', { ...input, arrived: [] })).toMatchObject({
      code: 'DOCUMENT_INVALID',
    });
  });
});

it('what anybody may encrypt to the recipient of a root token ends no attempt and no alarm', async () => {
  const { publicKey } = await newRecipient();
  const fields = { deployment: DEPLOYMENT, cluster: 'east', recipientPgpKey: publicKey };
  const people = { reason: 'a test', requestedBy: 'olga' };
  const { plan } = await bench.call('assessRootTokenCeremony', {
    input: rootTokenCeremonyInput.parse({ ...fields, ...people }),
  });
  if (!plan) throw new Error('no plan');
  cid = randomUUID();
  const { fingerprint: _fingerprint, ...handle } = await bench.call('createRootTokenCeremony', {
    ...{ ...fields, ...people, epoch: 1, shares: 'direct', runbook: 'rootTokenCeremony', inputDigest: 'digest', cid },
  });
  const authority = { plan, approvals: [await bench.approval('ceremony', plan.digest)] };
  // With old approvals no attempt is begun; one that was is brought to its end.
  const start = { ...fields, ceremony: handle, authority };
  bench.history = { events: [] };
  bench.signaled('approve', authority.approvals, undefined, Date.now() - 99 * 3_600_000);
  expect((await bench.failure('startDirectRootAttempt', start)).code).toBe('NOT_APPROVED');
  expect(bench.calls('east', 'generate-root/attempt')).toBe(0);
  bench.history = { events: [] };
  await bench.call('startDirectRootAttempt', start);
  bench.signaled('approve', authority.approvals, undefined, Date.now() - 99 * 3_600_000);
  expect(await bench.call('startDirectRootAttempt', start)).toMatchObject({ outcome: 'already' });
  const content = { cluster: 'east', encodedToken: await encodedTo(publicKey, 'no token at all') };
  const handIn = async () => {
    const arrived = bench.signaled('submitEncodedToken', [content]);
    return bench.call('takeEncodedRootToken', { ...fields, ceremony: handle, arrived });
  };
  expect(await handIn()).toMatchObject({ verdicts: [{ code: 'attempt-under-way' }], findings: [] });
  expect((await mine()).map(({ state }) => state)).toEqual(['pending']);
  await bench.cluster('east').node(0).attempts.cancel();
  const [pending] = await mine();
  if (!pending) throw new Error('no entry');
  const disposed = (id: string) =>
    bench.call('disposeLedgerToken', { deployment: DEPLOYMENT, cluster: 'east', entry: id });

  bench.openRuns = new Map();

  // Nobody was alarmed yet: it is the recipient's from now on, and no later run takes it for one that nobody holds.
  expect(await handIn()).toMatchObject({ verdicts: [{ code: 'accepted' }], findings: [] });
  expect(await mine()).toEqual([]);
  const [passedOn] = (await ledger().all()).filter((entry) => entry.cid === cid);
  expect(passedOn).toMatchObject({ state: 'handed-over', handedIn: expect.any(Number) as number });
  expect(await disposed(pending.id)).toMatchObject({ findings: [] });
  const settled = { ...{ deployment: DEPLOYMENT, cluster: 'east', cid }, kind: 'root-token', nonces: [] } as const;
  expect(
    await bench.call('endDirectAttempt', { ...settled, invitation: handle.invitation, ifGone: 'gone' }),
  ).toMatchObject({ findings: [] });

  // Its entry goes with the run that hands it on, and stays where the run ends without it.
  const ended = (inHand: readonly string[]) =>
    bench.call('settleCeremony', { ceremony: { cid, threshold: handle.threshold }, inHand });
  const notOn = {
    severity: 'critical',
    code: 'orphan-root-token',
    text: expect.stringMatching(/handed in by event \d+/) as string,
  };
  for (const [inHand, findings, left] of [
    [[], [notOn], 1],
    [['another message'], [notOn], 1],
    [['another message', content.encodedToken], [], 0],
  ] as const) {
    expect(await ended(inHand)).toMatchObject({ findings });
    expect((await ledger().all()).filter((entry) => entry.cid === cid)).toHaveLength(left);
  }

  // After an alarm it stays one, which names what was handed in.
  const { handedIn: _handedIn, ...before } = { ...pending, state: 'orphan' as const };
  await ledger().write(before);
  expect(await disposed(pending.id)).toMatchObject({ findings: [{ severity: 'critical', code: 'orphan-root-token' }] });
  expect(await handIn()).toMatchObject({ verdicts: [{ code: 'accepted' }], findings: [] });
  expect((await mine()).map(({ state }) => state)).toEqual(['orphan']);
  expect(await disposed(pending.id)).toMatchObject({
    state: 'kept',
    findings: [{ severity: 'warning', code: 'root-token-with-recipient' }],
  });
  await ledger().remove(pending);
  bench.openRuns = undefined;
});

it('a token that was handed in and deleted is no reason for an alarm, whatever became of its attempt', async () => {
  const handle = await ceremony('direct');
  await bench.call('startDirectAttempt', { ...on, ceremony: handle });
  await bench.cluster('west').node(0).attempts.cancel();
  await take(handle, { cluster: 'west', encodedToken: await encodedFor(handle, newToken()) });
  for (const entry of await mine()) await ledger().write({ ...entry, state: 'deleted', sealed: undefined });
  expect(await end(handle, { ifGone: 'its attempt ended unseen' })).toMatchObject({ outcome: 'already', findings: [] });
});

it('checkUnaskedTokens refuses everything, and notices a token in plain text', async () => {
  const arrived = bench.signaled('submitEncodedToken', [{ cluster: 'west', encodedToken: 'AAAA' }, newToken()]);
  const { verdicts } = await bench.call('checkUnaskedTokens', { deployment: DEPLOYMENT, arrived });
  expect(verdicts.map(({ code }) => code)).toEqual(['no-ceremony', 'plain-text-token']);
});
