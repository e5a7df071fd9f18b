import { DOCUMENT_TYPES, signDocument } from '../../src/documents/documents';
import { verifyInvitation } from '../../src/documents/invitation';
import { createInvitation, readOwnInvitation } from '../../src/keys/invitation';
import type { CreatedInvitation } from '../../src/keys/invitation';
import { KeyRecords } from '../../src/keys/key-records';
import { newSigningKey } from '../../src/keys/holder-keys';
import { temporaryDirectory } from '../support/directory';
import { failureOf, invitationFacts, rehearsalFacts, RUN } from './builders';

const NOW = 1_900_000_000_000;
const { key } = newSigningKey();
const pins = [{ environment: 'production', kid: key.kid, x: key.x }];
const facts = invitationFacts();
const directory = temporaryDirectory('invitation');
let records: KeyRecords;
let created: CreatedInvitation;

beforeAll(async () => {
  records = await KeyRecords.open({ directory, storage: 'disk' });
  created = await createInvitation(records, key, RUN, 'ceremony', facts, NOW);
});

const verify = (jws: unknown) => verifyInvitation(jws, { pins, now: NOW, holder: 'cyd' });

describe('an invitation', () => {
  it('has every member that the protocol lists, for the run in whose name it is made', async () => {
    const { invitation, digest, environment } = await verify(created.jws);
    expect(environment).toBe('production');
    expect(digest).toBe(created.digest);
    expect(Object.keys(invitation).sort()).toEqual(
      'cid epoch erasure exp holders iat inputDigest kind ns pgp reason recipient requestedBy rid runbook targets threshold useFor wid'.split(
        ' ',
      ),
    );
    expect(invitation).toMatchObject({
      ...RUN,
      epoch: 1,
      erasure: 'best-effort',
      iat: NOW / 1000,
      exp: NOW / 1000 + 1800,
      useFor: 1800,
    });
  });

  it('belongs to a stored record with the keys that it names', async () => {
    const record = await records.read({ run: RUN, cid: created.invitation.cid, epoch: 1 }, NOW);
    expect(record.keys).toMatchObject({
      recipient: created.invitation.recipient,
      pgpFingerprint: created.invitation.pgp,
    });
    expect(record).toMatchObject({ invitation: created.jws, invitationDigest: created.digest, threshold: 3 });
    await expect(readOwnInvitation(record, key)).resolves.toMatchObject({ invitation: created.invitation });
  });

  it('is made once: a retry of the same run gets the same one, also of two attempts side by side', async () => {
    expect(await createInvitation(records, key, RUN, 'ceremony', facts, NOW + 1000)).toEqual(created);
    const other = invitationFacts();
    const attempts = [NOW, NOW + 1000].map((now) => createInvitation(records, key, RUN, 'ceremony', other, now));
    const [one, two] = await Promise.all(attempts);
    expect(one).toEqual(two);
    // Also where the inventory was corrected in between, or lists too few now: an epoch has one invitation.
    for (const holders of [[...facts.holders, 'eve'], ['ben']])
      expect(await createInvitation(records, key, RUN, 'ceremony', { ...facts, holders }, NOW + 1000)).toEqual(created);
  });

  it('is another one for another epoch and another run, and none if its shares were used already', async () => {
    const { cid } = created.invitation;
    const nextEpoch = await createInvitation(records, key, RUN, 'ceremony', invitationFacts({ epoch: 2, cid }), NOW);
    expect(nextEpoch.invitation).toMatchObject({ cid, epoch: 2 });
    expect(nextEpoch.invitation.recipient).not.toBe(created.invitation.recipient);
    const otherRun = await createInvitation(records, key, { ...RUN, rid: 'other' }, 'ceremony', facts, NOW);
    expect(otherRun.invitation.recipient).not.toBe(created.invitation.recipient);
    await records.markFirstBurst({ run: RUN, cid, epoch: 2 }, NOW);
    const again = () => createInvitation(records, key, RUN, 'ceremony', { ...facts, epoch: 2 }, NOW);
    expect((await failureOf(again)).code).toBe('STATE_DIVERGED');
  });

  it('is not made if fewer holders are listed than key shares are required', async () => {
    const facts = invitationFacts({ holders: ['ben', 'ben', 'cyd'] });
    expect((await failureOf(() => createInvitation(records, key, RUN, 'ceremony', facts, NOW))).code).toBe(
      'INVALID_INPUT',
    );
  });

  it.each([
    ['a further member', { extra: 1 }],
    ['an unknown use', { targets: [{ ...invitationFacts().targets[0], uses: ['dr.everything'] }] }],
    [
      'a recipient that is not post-quantum',
      { recipient: 'age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqsvzn9d0' },
    ],
  ])('is refused with %s, although the signature is right', async (_what, changes) => {
    const jws = await signDocument('runbooks-invitation-v1', { ...created.invitation, ...changes }, key);
    expect((await failureOf(() => verify(jws))).code).toBe('DOCUMENT_INVALID');
  });
});

describe('an invitation to a rehearsal', () => {
  const run = { ...RUN, wid: 'rehearsal:payments' };
  const asked = rehearsalFacts();
  const checks = { pins, now: NOW, holder: 'cyd' };
  let rehearsal: CreatedInvitation<'rehearsal'>;
  beforeAll(async () => {
    rehearsal = await createInvitation(records, key, run, 'rehearsal', asked, NOW);
  });

  it('names no target, no kind of token and no threshold, and the deployment in their place', async () => {
    const { invitation } = await verifyInvitation(rehearsal.jws, checks, 'rehearsal');
    expect(invitation).toMatchObject({ deployment: 'payments', holders: ['ben', 'cyd'], ...run });
    for (const member of ['targets', 'kind', 'threshold']) expect(invitation).not.toHaveProperty(member);
  });

  it('is no invitation to a ceremony, and the other way round, also signed by the right key', async () => {
    await expect(verify(rehearsal.jws)).rejects.toThrow('not of type runbooks-invitation-v1');
    const own = { invitation: rehearsal.jws };
    await expect(readOwnInvitation(own, key)).rejects.toThrow('not of type runbooks-invitation-v1');
    const asRehearsal = (jws: string) => verifyInvitation(jws, checks, 'rehearsal');
    await expect(asRehearsal(created.jws)).rejects.toThrow('not of type runbooks-rehearsal-v1');
    const dressedUp = await signDocument(DOCUMENT_TYPES.rehearsal, created.invitation, key);
    await expect(asRehearsal(dressedUp)).rejects.toThrow('members that this tool expects');
  });
});
