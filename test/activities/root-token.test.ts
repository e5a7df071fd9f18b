/** What the activity that makes a root token verifies for itself: the approval, the invitation, the key. */
import * as openpgp from 'openpgp';
import type { Authority } from '../../src/contracts/activities';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import { GenerationRecord } from '../../activities/ceremony/generation-record';
import pino from 'pino';
import { sweepLedger } from '../../activities';
import { rootTokenCeremonyInput } from '../../src/contracts/runbook-inputs';
import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';

async function newKey(): Promise<string> {
  const { publicKey } = await openpgp.generateKey({
    type: 'ecc',
    curve: 'curve25519Legacy',
    userIDs: [{ name: 'Olga' }],
    date: new Date(Date.now() - 60_000),
    format: 'object',
  });
  return Buffer.from(publicKey.write()).toString('base64');
}

describe('generateRootToken', () => {
  let bench: ActivityBench;
  let key: string;
  let ceremony: CeremonyHandle;
  let envelopes: readonly string[];
  beforeAll(async () => {
    bench = await ActivityBench.start();
    key = await newKey();
    ceremony = await invite(key, 1);
    envelopes = await bench.envelopes(ceremony.invitation, ['ada', 'bert', 'cleo']);
  });
  afterAll(async () => {
    expect(bench.leaks()).toEqual([]);
    await bench.stop();
  });

  beforeEach(() => bench.forgetTokens());

  async function invite(recipientPgpKey: string, epoch: number): Promise<CeremonyHandle> {
    const { fingerprint: _fingerprint, ...handle } = await bench.call('createRootTokenCeremony', {
      ...{ deployment: DEPLOYMENT, cluster: 'east', recipientPgpKey, epoch },
      ...{ runbook: 'rootTokenCeremony', reason: 'a test', requestedBy: 'olga', inputDigest: 'digest' },
      cid: '0b6f8f9e-2d0f-4c35-9a54-1f9f0d0f0001',
    });
    return handle;
  }

  async function authority(changes: Readonly<Record<string, unknown>> = {}, verdict: 'approve' | 'reject' = 'approve') {
    const input = rootTokenCeremonyInput.parse({
      ...{ deployment: DEPLOYMENT, cluster: 'east', recipientPgpKey: key, reason: 'a test', requestedBy: 'olga' },
      ...changes,
    });
    const { plan } = await bench.call('assessRootTokenCeremony', { input });
    if (!plan) throw new Error('no plan');
    return { plan, approvals: [await bench.approval('ceremony', plan.digest, 'grace', { verdict })] };
  }

  const generate = (approved: Authority, more: Readonly<Record<string, unknown>> = {}) => ({
    ...{ deployment: DEPLOYMENT, cluster: 'east', ceremony, recipientPgpKey: key, authority: approved, envelopes },
    ...more,
  });

  it('refuses without an approval, with a rejection, with an approval of another gate, cluster or recipient', async () => {
    const good = await authority();
    const other = await newKey();
    const refused = [
      { ...good, approvals: [] },
      await authority({}, 'reject'),
      { ...good, approvals: [await bench.approval('plan', good.plan.digest)] },
      await authority({ cluster: 'west' }),
      await authority({ recipientPgpKey: other }),
    ];
    for (const each of refused)
      expect((await bench.failure('generateRootToken', generate(each))).code).toBe('NOT_APPROVED');
    expect(bench.calls('east', 'sys/generate-root/attempt')).toBe(0);
  });

  it('is begun with no old approval, and goes on once shares were sent in any epoch of this ceremony', async () => {
    const old = await authority();
    bench.signaled('approve', old.approvals, undefined, Date.now() - 99 * 3_600_000);
    expect(await bench.failure('generateRootToken', generate(old))).toMatchObject({
      code: 'NOT_APPROVED',
      details: { about: 'approvals too old' },
    });
    expect(bench.calls('east', 'sys/generate-root/attempt')).toBe(0);
    // As far as the shares: those of another epoch do not serve.
    const next = await invite(key, 2);
    await bench.keyRecords.markFirstBurst({ run: bench.run, ...ceremony }, Date.now());
    expect((await bench.failure('generateRootToken', generate(old, { ceremony: next }))).code).toBe('SHARES_MISSING');
    bench.history = { events: [] };
  });

  it('refuses what the holders were not asked for: another key, an invitation for operation tokens, another run', async () => {
    const other = await newKey();
    const otherKey = generate(await authority({ recipientPgpKey: other }), { recipientPgpKey: other });
    expect((await bench.failure('generateRootToken', otherKey)).code).toBe('DOCUMENT_INVALID');
    const { fingerprint: _fingerprint, ...forOperations } = await bench.ceremony([
      { cluster: 'west', uses: ['dr.promote'] },
    ]);
    const forged = generate(await authority(), { ceremony: forOperations });
    expect((await bench.failure('generateRootToken', forged)).code).toBe('DOCUMENT_INVALID');
    const elsewhere = { ...bench.run, rid: '6f0e4a70-0000-4000-8000-000000000000' };
    expect((await bench.failure('generateRootToken', generate(await authority()), { run: elsewhere })).code).toBe(
      'KEY_RECORD_MISSING',
    );
    expect(bench.calls('east', 'sys/generate-root/attempt')).toBe(0);
  });

  it('an invitation for a root token makes no operation token', async () => {
    const failure = await bench.failure('generateOperationToken', {
      ...{ deployment: DEPLOYMENT, cluster: 'east', ceremony, uses: ['dr.promote'], envelopes },
    });
    expect(failure.code).toBe('DOCUMENT_INVALID');
  });

  it("with the recipient's key an attempt is the run's only where the ledger has its nonce; his own is left alone", async () => {
    const slot = `${bench.cluster('east').apiAddress}/v1/sys/generate-root/attempt`;
    const start = async () => {
      const answer = await fetch(slot, { method: 'POST', body: JSON.stringify({ pgp_key: key }) });
      return ((await answer.json()) as { nonce: string }).nonce;
    };
    const there = async () => ((await (await fetch(slot)).json()) as { nonce: string }).nonce;
    // The worker that began a burst died before it started an attempt; the recipient starts his by hand.
    await bench.keyRecords.markFirstBurst({ run: bench.run, ...ceremony }, Date.now());
    const ledger = bench.ledger;
    const subject = {
      ...({ kind: 'root-token', deployment: DEPLOYMENT, cluster: 'east', clusterId: 'east', run: bench.run } as const),
      ...{ cid: ceremony.cid, epoch: 1, key: 'fingerprint', threshold: 3 },
    };
    await GenerationRecord.begin(ledger, subject);
    const his = await start();
    const approved = await authority();
    const failure = await bench.failure('generateRootToken', generate(approved));
    expect([failure.code, await there()]).toEqual(['ATTEMPT_FOREIGN', his]);

    // One that a burst of this run started, whose worker then died, is cancelled.
    await fetch(slot, { method: 'DELETE' });
    const died = await GenerationRecord.begin(ledger, subject);
    await died.started(await start());
    const done = await bench.call('generateRootToken', generate(approved));
    expect(done).toMatchObject({ attempts: 1, findings: [] });
    expect((await ledger.open(DEPLOYMENT)).map(({ state }) => state)).toEqual(['handed-over']);
  });

  it('a token that was made by an attempt that died before it could report is found: no share is given again', async () => {
    const approved = await authority();
    const made = await bench.call('generateRootToken', generate(approved));
    const given = bench.calls('east', 'sys/generate-root/update');
    expect(await bench.call('generateRootToken', generate(approved), { attempt: 2 })).toEqual(made);
    expect(bench.calls('east', 'sys/generate-root/update')).toBe(given);
  });

  describe('a token that was made', () => {
    const ledger = () => bench.ledger;
    const end = (inHand: readonly string[]) =>
      bench.call('settleCeremony', { deployment: DEPLOYMENT, ceremony: { cid: ceremony.cid, threshold: 3 }, inHand });
    const dispose = (entry: string) =>
      bench.call('disposeLedgerToken', { deployment: DEPLOYMENT, cluster: 'east', entry });
    afterEach(() => (bench.openRuns = undefined));

    it('stays in the ledger where its run ends without it, is an alarm, and is named by a later run', async () => {
      const { encryptedToken } = await bench.call('generateRootToken', generate(await authority()));
      const [entry] = await ledger().open(DEPLOYMENT);
      if (!entry) throw new Error('no entry');
      const alarm = {
        severity: 'critical',
        code: 'orphan-root-token',
        text: expect.stringContaining(entry.id) as string,
      };
      // The worker died, or the run was stopped while the last share was answered; another message is not this token.
      for (const inHand of [[], ['b3RoZXI=']]) {
        expect(await end(inHand)).toMatchObject({ findings: [alarm] });
        expect(await ledger().open(DEPLOYMENT)).toEqual([expect.objectContaining({ encoded: encryptedToken })]);
      }
      // However long nobody looks: no later burst takes it away.
      await ledger().write({ ...entry, at: '2026-01-01T00:00:00.000Z' });
      const subject = {
        ...{ deployment: DEPLOYMENT, cluster: 'west', clusterId: 'west', run: bench.run },
        threshold: 3,
      };
      await GenerationRecord.begin(ledger(), {
        ...subject,
        kind: 'operation-token',
        cid: 'another',
        epoch: 1,
        key: 'k',
      });
      expect(await ledger().open(DEPLOYMENT)).toHaveLength(1);
      expect(await dispose(entry.id)).toMatchObject({
        state: 'kept',
        text: expect.stringContaining('is open') as string,
      });
      bench.openRuns = new Map();
      expect(await dispose(entry.id)).toMatchObject({ state: 'kept', findings: [alarm] });
    });

    it("leaves the ledger once the run's recorded result has it, and not because an input says that it is handed on", async () => {
      const { encryptedToken } = await bench.call('generateRootToken', generate(await authority()));
      expect(await end([encryptedToken])).toMatchObject({ findings: [] });
      const [entry] = await ledger().open(DEPLOYMENT);
      expect(entry).toMatchObject({ encoded: encryptedToken });
      const dispose = () =>
        bench.call(
          'disposeLedgerToken',
          { deployment: DEPLOYMENT, cluster: 'east', entry: entry?.id ?? '' },
          { run: { ...bench.run, rid: 'a later run' } },
        );
      const { wid: workflowId, rid: runId } = bench.run;
      bench.openRuns = new Map();
      for (const result of [undefined, { result: { encryptedToken: 'another' } }]) {
        bench.closedRuns = [{ workflowId, runId, result }];
        expect(await dispose()).toMatchObject({ state: 'kept', findings: [{ code: 'orphan-root-token' }] });
      }
      bench.closedRuns = [{ workflowId, runId, result: { outcome: 'completed', result: { encryptedToken } } }];
      expect(await dispose()).toMatchObject({ state: 'deleted', findings: [] });
      expect(await ledger().all(DEPLOYMENT)).toHaveLength(1);
      const { inventory, temporal, records } = bench;
      await sweepLedger({ inventory, temporal, records, log: pino({ level: 'silent' }) }, DEPLOYMENT);
      expect(await ledger().all(DEPLOYMENT)).toEqual([]);
      bench.closedRuns = [];
      bench.openRuns = undefined;
    });
  });

  it('a token that the run says it hands on silences no alarm about what another burst left', async () => {
    const ledger = bench.ledger;
    const subject = {
      ...({ kind: 'root-token', deployment: DEPLOYMENT, cluster: 'east', clusterId: 'east', run: bench.run } as const),
      ...{ cid: ceremony.cid, epoch: 1, key: 'fingerprint', threshold: 3 },
    };
    const died = await GenerationRecord.begin(ledger, subject);
    await died.lastShare('5c2c7f53-0000-4000-8000-000000000000');
    const { cid, threshold } = ceremony;
    const { findings } = await bench.call('settleCeremony', {
      deployment: DEPLOYMENT,
      ceremony: { cid, threshold },
      inHand: ['a token'],
    });
    expect(findings).toMatchObject([{ severity: 'critical', code: 'orphan-root-token' }]);
  });

  it('an attempt that was just started is cancelled as ours also where the ledger cannot be written then', async () => {
    const east = bench.cluster('east');
    const approved = await authority();
    const [GIVE, SLOT] = ['POST /v1/sys/generate-root/update', '/v1/sys/generate-root/attempt'];
    bench.service.faults.add({ cluster: 'east', endpoint: GIVE, skip: 2, action: 'reset', times: 3 });
    const gone = () => Promise.all(east.nodes.map(({ attempts }) => attempts.cancel()));
    bench.service.faults.add({
      cluster: 'east',
      endpoint: `GET ${SLOT}`,
      skip: 4,
      action: async () => void (await gone()),
    });
    const started = bench.service.faults.add({
      ...{ cluster: 'east', endpoint: `POST ${SLOT}`, skip: 1, when: 'after' },
      action: () => void (bench.recordServer.failure = new Error('silent')),
    });
    await bench.failure('generateRootToken', generate(approved));
    bench.service.faults.clear();
    bench.recordServer.failure = undefined;
    const answer = await fetch(`${east.apiAddress}${SLOT}`);
    expect([started.hits, await answer.json()]).toEqual([1, expect.objectContaining({ started: false })]);
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
    const done = await bench.call('generateRootToken', generate(await authority()));
    expect(done.findings).toMatchObject([
      { severity: 'critical', code: 'orphan-root-token', text: expect.stringContaining('does not open') as string },
    ]);
    expect(done.attempts).toBe(2);
    expect(east.issuedSecrets.length).toBe(before + 1);
    expect(JSON.stringify(done)).not.toContain(encoded);
  });
});
