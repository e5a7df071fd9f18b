/** What the activity that makes a root token verifies for itself: the approval, the invitation, the key. */
import * as openpgp from 'openpgp';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import pino from 'pino';
import { sweepLedger } from '../../activities';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench, SignedPlan } from '../support/activity-environment';
import { newRecipient } from '../support/recipient';

const newKey = async () => (await newRecipient()).publicKey;

describe('the generation of a root token', () => {
  let bench: ActivityBench;
  let key: string;
  let ceremony: CeremonyHandle;
  let envelopes: string[];
  openBench((opened) => (bench = opened));
  beforeAll(async () => {
    key = await newKey();
    ceremony = await invite(key, 1);
    envelopes = await bench.envelopes(ceremony.invitation, ['ada', 'bert', 'cleo']);
  });

  beforeEach(() => bench.forgetTokens());

  async function invite(recipientPgpKey: string, epoch: number): Promise<CeremonyHandle> {
    const cid = '0b6f8f9e-2d0f-4c35-9a54-1f9f0d0f0001';
    const asked = { kind: 'root-token', recipientPgpKey, epoch, cid } as const;
    return bench.ceremony([{ cluster: 'east', uses: [] }], asked);
  }

  async function authority(changes: Readonly<Record<string, unknown>> = {}, verdict: 'approve' | 'reject' = 'approve') {
    const asked = { cluster: 'east', recipientPgpKey: key, requestedBy: 'olga', ...changes };
    const { plan } = await bench.authorityOf('rootTokenCeremony', asked);
    return { plan, approvals: [await bench.approval('ceremony', plan.digest, 'grace', { verdict })] };
  }

  const generate = (approved: SignedPlan, more: Readonly<Record<string, unknown>> = {}) => ({
    ...{ deployment: DEPLOYMENT, cluster: 'east', ceremony, recipientPgpKey: key, authority: approved, envelopes },
    ...more,
  });

  it('refuses without an approval, with a rejection, with a plan for another recipient', async () => {
    const good = await authority();
    const refused = [
      { ...good, approvals: [] },
      await authority({}, 'reject'),
      await authority({ recipientPgpKey: await newKey() }),
    ];
    for (const each of refused) expect((await bench.generationFailure(generate(each))).code).toBe('NOT_APPROVED');
    expect(bench.calls('east', 'sys/generate-root/attempt')).toBe(0);
  });

  it('is begun with no old approval, and continues once shares were sent in any epoch of this ceremony', async () => {
    const old = await authority();
    bench.signaled('approve', old.approvals, undefined, Date.now() - 99 * 3_600_000);
    expect(await bench.generationFailure(generate(old))).toMatchObject({
      code: 'NOT_APPROVED',
      details: { about: 'approvals too old' },
    });
    expect(bench.calls('east', 'sys/generate-root/attempt')).toBe(0);
    // As far as the shares: those of another epoch do not serve.
    const next = await invite(key, 2);
    await bench.keyRecords.markFirstBurst({ run: bench.run, ...ceremony }, Date.now());
    expect((await bench.generationFailure(generate(old, { ceremony: next }))).code).toBe('SHARES_MISSING');
    bench.history = { events: [] };
  });

  it('refuses requests that the holders did not see: another key, an invitation for operation tokens, another run', async () => {
    const other = await newKey();
    const otherKey = generate(await authority({ recipientPgpKey: other }), { recipientPgpKey: other });
    expect((await bench.generationFailure(otherKey)).code).toBe('DOCUMENT_INVALID');
    const forOperations = await bench.ceremony([{ cluster: 'west', uses: ['dr.promote'] }]);
    const forged = generate(await authority(), { ceremony: forOperations });
    expect((await bench.generationFailure(forged)).code).toBe('DOCUMENT_INVALID');
    const elsewhere = { ...bench.run, rid: '6f0e4a70-0000-4000-8000-000000000000' };
    expect((await bench.generationFailure(generate(await authority()), { run: elsewhere })).code).toBe(
      'KEY_RECORD_MISSING',
    );
    expect(bench.calls('east', 'sys/generate-root/attempt')).toBe(0);
  });

  it('an invitation for a root token makes no operation token', async () => {
    const failure = await bench.generationFailure({
      ...{ deployment: DEPLOYMENT, cluster: 'east', ceremony, uses: ['dr.promote'], envelopes },
    });
    expect(failure.code).toBe('DOCUMENT_INVALID');
  });

  const SLOT = '/v1/sys/generate-root/attempt';
  const there = async () =>
    (await (await fetch(`${bench.cluster('east').apiAddress}${SLOT}`)).json()) as { nonce: string; started: boolean };

  it("an attempt with the recipient's key that this run did not start belongs to the recipient: it is left alone", async () => {
    const slot = `${bench.cluster('east').apiAddress}${SLOT}`;
    await fetch(slot, { method: 'POST', body: JSON.stringify({ pgp_key: key }) });
    const his = await there();
    const failure = await bench.generationFailure(generate(await authority()));
    expect([failure.code, (await there()).nonce]).toEqual(['ATTEMPT_FOREIGN', his.nonce]);
    // Nor is it called somebody else's: a worker of this run that died may have begun it.
    expect([failure.message, failure.details['next']]).toEqual([
      expect.stringContaining("with the recipient's key is under way on east, but this run did not start it"),
      expect.stringContaining('a worker of this run that ended before it could report it'),
    ]);
    await fetch(slot, { method: 'DELETE' });
  });

  it('an attempt of this run is identified by its nonce: it is cancelled if its end is unknown, and reported if it is gone', async () => {
    const approved = await authority();
    const burst = { deployment: DEPLOYMENT, cluster: 'east', ceremony, uses: [], envelopes };
    const wanted = { kind: 'root-token', recipientPgpKey: key, authority: approved } as const;
    const { about, started, attempt } = await bench.begun(burst, wanted);
    expect(JSON.stringify(started)).not.toContain((await there()).nonce);
    const settle = (mayBeSent: boolean) => bench.call('settleGeneration', { ...about, attempt, mayBeSent });
    expect(await settle(false)).toEqual({ next: 'again', findings: [] });
    expect((await there()).started).toBe(false);
    expect(await settle(true)).toMatchObject({
      findings: [{ code: 'orphan-root-token', text: expect.stringContaining(`attempt ${attempt.mark}: `) as string }],
    });
    // What was found out once is not found out again.
    expect(await settle(true)).toMatchObject({ findings: [{ code: 'orphan-root-token' }] });
    expect((await bench.ledger.all(DEPLOYMENT)).map(({ state }) => state)).toEqual(['orphan']);
  });

  describe('a token that was made', () => {
    const ledger = () => bench.ledger;
    const dispose = (entry: string) =>
      bench.call(
        'disposeLedgerToken',
        { deployment: DEPLOYMENT, cluster: 'east', entry },
        { run: { ...bench.run, rid: 'a later run' } },
      );
    afterEach(() => (bench.openRuns = undefined));

    it('leaves the ledger once the recorded result of the run has it, and is an alarm if it does not', async () => {
      const { encryptedToken } = await bench.generate(generate(await authority()));
      const [entry] = await ledger().open(DEPLOYMENT);
      expect(entry).toMatchObject({ encoded: encryptedToken });
      expect(await dispose(entry?.id ?? '')).toMatchObject({
        state: 'kept',
        text: expect.stringContaining('is open') as string,
      });
      const { wid: workflowId, rid: runId } = bench.run;
      bench.openRuns = new Map();
      for (const result of [undefined, { result: { encryptedToken: 'another' } }]) {
        bench.closedRuns = [{ workflowId, runId, result }];
        expect(await dispose(entry?.id ?? '')).toMatchObject({
          state: 'kept',
          findings: [{ code: 'orphan-root-token' }],
        });
      }
      bench.closedRuns = [{ workflowId, runId, result: { outcome: 'completed', result: { encryptedToken } } }];
      expect(await dispose(entry?.id ?? '')).toMatchObject({ state: 'deleted', findings: [] });
      expect(await ledger().all(DEPLOYMENT)).toHaveLength(1);
      const { inventory, temporal, records } = bench;
      await sweepLedger({ inventory, temporal, records, log: pino({ level: 'silent' }) }, DEPLOYMENT);
      expect(await ledger().all(DEPLOYMENT)).toEqual([]);
      bench.closedRuns = [];
      bench.openRuns = undefined;
    });
  });

  it('an answer that is not encrypted to the recipient alone is a token that nobody holds', async () => {
    const east = bench.cluster('east');
    // A service that answers with another's message: what the recipient cannot read is of no use to anybody.
    const before = east.issuedSecrets.length;
    const stranger = await newKey();
    const publicKey = await openpgp.readKey({ binaryKey: Buffer.from(stranger, 'base64') });
    const message = await openpgp.createMessage({ text: 'for somebody else' });
    const encrypted: unknown = await openpgp.encrypt({ message, encryptionKeys: publicKey, format: 'binary' });
    const encoded = Buffer.from(encrypted as Uint8Array).toString('base64');
    const body = { nonce: 'n', started: true, progress: 3, required: 3, complete: true, encoded_root_token: encoded };
    bench.service.faults.add({
      ...{ cluster: 'east', endpoint: 'POST /v1/sys/generate-root/update', skip: 2 },
      action: { status: 200, body: { ...body, encoded_token: encoded, pgp_fingerprint: '', otp: '', otp_length: 0 } },
    });
    // Nothing tries again unasked: each try would leave another one.
    const failure = await bench.generationFailure(generate(await authority()));
    expect(failure).toMatchObject({
      code: 'TOKEN_ORPHANED',
      retryable: false,
      details: { findings: [{ severity: 'critical', code: 'orphan-root-token' }] },
    });
    expect(east.issuedSecrets.length).toBe(before);
    expect(JSON.stringify(failure)).not.toContain(encoded);
  });
});
