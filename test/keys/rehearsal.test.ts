/** A rehearsal takes nothing of a ceremony and a ceremony nothing of a rehearsal, whatever is mixed up. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Encrypter } from 'age-encryption';
import { DOCUMENT_TYPES, signDocument } from '../../src/documents/documents';
import { createEnvelope, createRehearsalEnvelope } from '../../src/documents/envelope';
import type { EnvelopePayload } from '../../src/documents/envelope';
import { verifyInvitation } from '../../src/documents/invitation';
import { newSigningKey } from '../../src/keys/holder-keys';
import { createInvitation, createRehearsal, readOwnInvitation } from '../../src/keys/invitation';
import type { CreatedInvitation } from '../../src/keys/invitation';
import { KeyRecords } from '../../src/keys/key-records';
import type { KeyRecord } from '../../src/keys/key-records';
import { openRehearsalAnswer, openShares } from '../../src/keys/opening';
import { arrived, invitationFacts, lookup, person, share, shareText } from './builders';

const RUN = { ns: 'default', wid: 'rehearsal:payments', rid: '0f7c9a52-5b0e-4c7a-9d7e-8f1a2b3c4d5e' };
const TOOL = 'runbook 1.2.3';
const SHARE_CONTEXT = 'runbooks/share/v1';
const REHEARSAL_CONTEXT = 'runbooks/rehearsal-share/v1';
const workers = newSigningKey().key;
const pins = [{ environment: 'production', ...workers }];
const [ben, cyd] = [person('ben'), person('cyd', 'claimed')];
const people = lookup(ben, cyd);

let directory: string;
let records: KeyRecords;
let created: CreatedInvitation<'rehearsal'>;
let rehearsal: KeyRecord;
let ceremony: KeyRecord;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'rehearsal-'));
  records = await KeyRecords.open({ directory, storage: 'disk' });
  created = await createRehearsal(records, workers, RUN, facts());
  rehearsal = await records.read({ run: RUN, cid: created.invitation.cid, epoch: 1 });
  const run = { ...RUN, wid: 'deployment:payments' };
  const real = await createInvitation(
    records,
    workers,
    run,
    invitationFacts({ holders: ['ben', 'cyd'], threshold: 2 }),
  );
  ceremony = await records.read({ run, cid: real.invitation.cid, epoch: real.invitation.epoch });
});
afterAll(() => rm(directory, { recursive: true }));

function facts(changes: Partial<Parameters<typeof createRehearsal>[3]> = {}): Parameters<typeof createRehearsal>[3] {
  return {
    deployment: 'payments',
    requestedBy: { name: 'olga', how: 'claimed' },
    reason: 'every quarter',
    runbook: 'ceremonyRehearsal',
    inputDigest: 'payments/ben+cyd',
    holders: ['ben', 'cyd'],
    epoch: 1,
    collectForMs: 3_600_000,
    ...changes,
  };
}

function answer(changes: Partial<Parameters<typeof createRehearsalEnvelope>[0]> = {}) {
  return createRehearsalEnvelope({
    invitation: created.invitation,
    invitationDigest: created.digest,
    holder: 'ben',
    seq: 1,
    tool: TOOL,
    signingKey: ben.key,
    ...changes,
  });
}

/** The JWS of an envelope that was signed. */
function signed(envelope: string | EnvelopePayload): string {
  if (typeof envelope !== 'string') throw new Error('it is not signed');
  return envelope;
}

function realEnvelope(record: KeyRecord, more: { holder?: string; signingKey?: typeof ben.key } = {}) {
  const { cid, epoch, keys } = record;
  const invitation = { cid, epoch, recipient: keys.recipient };
  return createEnvelope({
    ...{ invitation, invitationDigest: record.invitationDigest, holder: 'ben', seq: 1, share: share(1) },
    signingKey: ben.key,
    ...more,
  });
}

/** An envelope around any encrypted part, signed as any type. */
async function forged(record: KeyRecord, typ: 'share' | 'rehearsalShare', inner: Readonly<Record<string, unknown>>) {
  const encrypter = new Encrypter();
  encrypter.addRecipient(record.keys.recipient);
  const { cid, epoch, invitationDigest: inv } = record;
  const outer = { cid, epoch, inv, holder: 'ben', seq: 1 };
  const file = await encrypter.encrypt(JSON.stringify({ inv, cid, epoch, holder: 'ben', seq: 1, ...inner }));
  const payload: EnvelopePayload = { ...outer, iat: 1, ct: Buffer.from(file).toString('base64url') };
  return signDocument(DOCUMENT_TYPES[typ], payload, ben.key);
}

async function verdictInRehearsal(envelope: unknown) {
  const { receipt, answer: proven } = await openRehearsalAnswer(rehearsal, arrived(envelope), people);
  expect(proven === undefined).toBe(receipt.verdict !== 'accepted');
  return receipt.verdict;
}

async function verdictInCeremony(envelope: unknown) {
  const { receipts, shares } = await openShares(ceremony, [arrived(envelope)], people);
  expect(shares).toEqual([]);
  return receipts[0]?.verdict;
}

describe('the invitation', () => {
  it('names no target, no kind of token and no threshold, and the deployment in their place', async () => {
    const checks = { pins, now: Date.now(), holder: 'ben' };
    const { invitation: seen, environment } = await verifyInvitation(created.jws, checks, 'rehearsal');
    expect(environment).toBe('production');
    expect(seen).toMatchObject({ deployment: 'payments', holders: ['ben', 'cyd'], ...RUN });
    for (const member of ['targets', 'kind', 'threshold']) expect(seen).not.toHaveProperty(member);
  });

  it('is made once: a retry gives the same one, other people get none for the same epoch', async () => {
    expect((await createRehearsal(records, workers, RUN, facts())).jws).toBe(created.jws);
    const { cid } = created.invitation;
    await expect(createRehearsal(records, workers, RUN, facts({ cid, holders: ['ben'] }))).rejects.toMatchObject({
      code: 'STATE_DIVERGED',
    });
    expect((await readdir(directory)).filter((name) => name.startsWith(cid))).toHaveLength(1);
  });

  it('is no invitation to a ceremony, and the other way round, also signed by the right key', async () => {
    const options = { pins, now: Date.now(), holder: 'ben' };
    await expect(verifyInvitation(created.jws, options)).rejects.toThrow('not of type runbooks-invitation-v1');
    await expect(readOwnInvitation(rehearsal, workers)).rejects.toThrow('not of type runbooks-invitation-v1');
    await expect(verifyInvitation(ceremony.invitation, options, 'rehearsal')).rejects.toThrow(
      'not of type runbooks-rehearsal-v1',
    );
    await expect(readOwnInvitation(ceremony, workers, 'rehearsal')).rejects.toThrow(
      'not of type runbooks-rehearsal-v1',
    );
    const dressedUp = await signDocument(
      DOCUMENT_TYPES.rehearsal,
      (await readOwnInvitation(ceremony, workers)).invitation,
      workers,
    );
    await expect(verifyInvitation(dressedUp, options, 'rehearsal')).rejects.toThrow('members that this tool knows');
  });
});

describe('an answer', () => {
  it('proves who gave it, how that is known, and with which tool; nothing of its value comes out', async () => {
    const opened = await openRehearsalAnswer(rehearsal, arrived({ document: await answer() }), people);
    expect(opened.receipt).toMatchObject({ verdict: 'accepted', holder: 'ben', seq: 1 });
    expect(opened.answer).toEqual({ holder: 'ben', how: 'signed', kid: ben.key.kid, tool: TOOL });
    const claimed = await openRehearsalAnswer(
      rehearsal,
      arrived(await answer({ holder: 'cyd', signingKey: undefined })),
      people,
    );
    expect(claimed.answer).toEqual({ holder: 'cyd', how: 'claimed', tool: TOOL });
  });

  it('is made of a new value each time, and takes no share', async () => {
    const [one, other] = [await answer(), await answer()];
    expect(one).not.toBe(other);
    const handedIn = signed(await answer({ share: share(7) } as object));
    const { ct } = JSON.parse(Buffer.from(handedIn.split('.')[1] ?? '', 'base64url').toString()) as EnvelopePayload;
    const { Decrypter } = await import('age-encryption');
    const decrypter = new Decrypter();
    decrypter.addIdentity(rehearsal.keys.identity.reveal());
    const inner = await decrypter.decrypt(Buffer.from(ct, 'base64url'), 'text');
    expect(inner).not.toContain(shareText(7));
    expect(Object.keys(JSON.parse(inner) as object).sort()).toEqual(
      ['ctx', 'cid', 'dummy', 'epoch', 'holder', 'inv', 'seq', 'tool'].sort(),
    );
  });
});

describe('mixed up', () => {
  it('an envelope with a real share is refused in a rehearsal: by type, by context, and unsigned', async () => {
    expect(await verdictInRehearsal(await realEnvelope(rehearsal))).toBe('share-in-rehearsal');
    const inner = { ctx: SHARE_CONTEXT, share: shareText(1) };
    expect(await verdictInRehearsal(await forged(rehearsal, 'rehearsalShare', inner))).toBe('share-in-rehearsal');
    const unsigned = await realEnvelope(rehearsal, { holder: 'cyd', signingKey: undefined });
    expect(await verdictInRehearsal(unsigned)).toBe('share-in-rehearsal');
    // A real share under the context of a rehearsal is no answer either.
    const renamed = { ctx: REHEARSAL_CONTEXT, share: shareText(1) };
    expect(await verdictInRehearsal(await forged(rehearsal, 'rehearsalShare', renamed))).toBe('mismatch');
  });

  it('an answer to a rehearsal is refused in a ceremony: by type, by context, and unsigned', async () => {
    const { cid, epoch, keys, invitationDigest } = ceremony;
    const target = { invitation: { cid, epoch, recipient: keys.recipient }, invitationDigest };
    expect(await verdictInCeremony(await answer(target))).toBe('rehearsal-envelope');
    const inner = { ctx: REHEARSAL_CONTEXT, dummy: shareText(1), tool: TOOL };
    expect(await verdictInCeremony(await forged(ceremony, 'share', inner))).toBe('rehearsal-envelope');
    const unsigned = await answer({ ...target, holder: 'cyd', signingKey: undefined });
    expect(await verdictInCeremony(unsigned)).toBe('rehearsal-envelope');
    const renamed = { ctx: REHEARSAL_CONTEXT, share: shareText(1) };
    expect(await verdictInCeremony(await forged(ceremony, 'share', renamed))).toBe('rehearsal-envelope');
  });

  it('the keys of one open nothing for the other, whoever asks', async () => {
    const refused = { code: 'DOCUMENT_INVALID' };
    await expect(openShares(rehearsal, [arrived(await realEnvelope(rehearsal))], people)).rejects.toMatchObject(
      refused,
    );
    await expect(openShares(rehearsal, [arrived(await answer())], people)).rejects.toMatchObject(refused);
    await expect(openRehearsalAnswer(ceremony, arrived(await answer()), people)).rejects.toMatchObject(refused);
  });
});
