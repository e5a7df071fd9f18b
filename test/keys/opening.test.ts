import { Encrypter, generateHybridIdentity, generateX25519Identity, identityToRecipient } from 'age-encryption';
import { inspect } from 'node:util';
import { createEnvelope } from '../../src/documents/envelope';
import type { EnvelopePayload } from '../../src/documents/envelope';
import { openShares } from '../../src/keys/opening';
import { arrived, CID, DIGEST, jwt, lookup, person, record, share, shareText, sharedCeremonyKeys } from './builders';

const people = lookup(...['ben', 'cyd', 'dan', 'eve'].map((name) => person(name, 'claimed')));

async function envelope(holder: string, x: number, seq = 1, bytes = 33): Promise<EnvelopePayload> {
  const { recipient } = await sharedCeremonyKeys();
  const invitation = { cid: CID, epoch: 1, recipient };
  const made = await createEnvelope({ invitation, invitationDigest: DIGEST, holder, seq, share: share(x, bytes) });
  if (typeof made === 'string') throw new Error('it is signed');
  return made;
}

/** An envelope whose encrypted part says `inner`, to `recipients`. */
async function sealedAs(inner: unknown, recipients?: readonly string[]): Promise<EnvelopePayload> {
  const encrypter = new Encrypter();
  for (const recipient of recipients ?? [(await sharedCeremonyKeys()).recipient]) encrypter.addRecipient(recipient);
  const file = await encrypter.encrypt(typeof inner === 'string' ? inner : JSON.stringify(inner));
  return { ...(await envelope('ben', 1)), ct: Buffer.from(file).toString('base64url') };
}
const inner = { ctx: 'runbooks/share/v1', inv: DIGEST, cid: CID, epoch: 1, holder: 'ben', seq: 1, share: shareText(1) };

async function verdicts(envelopes: readonly unknown[], changes: Parameters<typeof record>[1] = {}): Promise<string[]> {
  const { receipts } = await openShares(
    record(await sharedCeremonyKeys(), changes),
    envelopes.map((each) => arrived(each)),
    people,
  );
  expect(inspect(receipts, { depth: 9 })).not.toContain(shareText(1).slice(0, 16));
  return receipts.map(({ verdict }) => verdict);
}

describe('where the keys are', () => {
  it('shares of different holders open, and only the burst gets them', async () => {
    const envelopes = [await envelope('ben', 1), await envelope('cyd', 2), await envelope('dan', 3)];
    expect(await verdicts(envelopes)).toEqual(['accepted', 'accepted', 'accepted']);
    const { shares } = await openShares(
      record(await sharedCeremonyKeys()),
      envelopes.map((each) => arrived(each)),
      people,
    );
    expect(shares.map((one) => [one.holder, one.share.reveal()])).toEqual([
      ['ben', shareText(1)],
      ['cyd', shareText(2)],
      ['dan', shareText(3)],
    ]);
    expect(inspect(shares, { depth: 9, showHidden: true }) + JSON.stringify(shares)).not.toContain(shareText(1));
  });

  it('the first stage is done again: nothing is believed because it was accepted before', async () => {
    const good = await envelope('ben', 1);
    expect(
      await verdicts([
        { ...good, holder: 'eve' },
        { ...good, epoch: 2 },
        { ...good, inv: 'A'.repeat(43) },
        shareText(1),
        null,
      ]),
    ).toEqual(['not-invited', 'wrong-epoch', 'wrong-ceremony', 'plain-text-share', 'malformed']);
    const { receipts } = await openShares(
      record(await sharedCeremonyKeys()),
      [arrived(good)],
      lookup(person('ben', 'signed')),
    );
    expect(receipts.map(({ verdict }) => verdict)).toEqual(['not-signed']);
  });

  it('an envelope must open with this key and with no other', async () => {
    const ours = (await sharedCeremonyKeys()).recipient;
    const other = await identityToRecipient(await generateHybridIdentity());
    const classic = await identityToRecipient(await generateX25519Identity());
    const good = await envelope('ben', 1);
    expect(
      await verdicts([
        await sealedAs(inner, [other]),
        await sealedAs(inner, [ours, other]),
        await sealedAs(inner, [classic]),
        { ...good, ct: `${good.ct.slice(0, -8)}AAAAAAAA` },
        { ...good, ct: `${good.ct}=` },
        { ...good, ct: '' },
      ]),
    ).toEqual(Array.from({ length: 6 }, () => 'does-not-open'));
  });

  it.each([
    ['another holder', { holder: 'cyd' }],
    ['another number', { seq: 2 }],
    ['another ceremony', { cid: '11111111-2222-4333-8444-555555555555' }],
    ['another epoch', { epoch: 2 }],
    ['another invitation', { inv: 'A'.repeat(43) }],
    ['another context', { ctx: 'runbooks/share/v2' }],
    ['a further member', { extra: 1 }],
  ])('the encrypted part must not speak of %s', async (_what, changes) => {
    expect(await verdicts([await sealedAs({ ...inner, ...changes })])).toEqual(['mismatch']);
  });

  it('an encrypted part that is no JSON is refused without repeating it', async () => {
    expect(await verdicts([await sealedAs(shareText(1))])).toEqual(['mismatch']);
  });

  it.each([
    [shareText(1).slice(2 * 18)],
    [`${shareText(1)}00`],
    [shareText(1).toUpperCase()],
    [shareText(1).slice(1)],
    [''],
  ])('a share has 16 to 33 bytes in lower-case hexadecimal', async (text) => {
    expect(await verdicts([await sealedAs({ ...inner, share: text })])).toEqual(['wrong-length']);
  });
});

describe('envelopes together', () => {
  it("a holder's highest number counts, in whatever order they arrive", async () => {
    const [first, second] = [await envelope('ben', 1, 1), await envelope('ben', 4, 2)];
    expect(await verdicts([first, second])).toEqual(['superseded', 'accepted']);
    expect(await verdicts([second, first])).toEqual(['accepted', 'superseded']);
    expect(await verdicts([first, first])).toEqual(['accepted', 'repeated']);
    const { shares } = await openShares(record(await sharedCeremonyKeys()), [arrived(first), arrived(second)], people);
    expect(shares.map((one) => one.share.reveal())).toEqual([shareText(4)]);
  });

  it('one that was refused is not in hand: the same one counts when it comes from its own holder', async () => {
    const eve = person('eve', 'principal', 'user:eve');
    const sent = await envelope('eve', 1);
    const principals = ['user:ben', 'user:eve', 'user:eve'].map(jwt);
    const { receipts } = await openShares(
      record(await sharedCeremonyKeys(), { holders: ['eve'] }),
      principals.map((principal) => arrived(sent, { principal })),
      lookup(eve),
    );
    expect(receipts.map(({ verdict }) => verdict)).toEqual(['wrong-signer', 'accepted', 'repeated']);
  });

  it('an invalid later envelope does not take the place of a valid one', async () => {
    const broken = { ...(await envelope('ben', 4, 2)), ct: 'AAAA' };
    expect(await verdicts([await envelope('ben', 1, 1), broken])).toEqual(['accepted', 'does-not-open']);
    const taken = [await envelope('ben', 1), await envelope('cyd', 2), await envelope('ben', 2, 2)];
    expect(await verdicts(taken)).toEqual(['accepted', 'accepted', 'same-share-as-another']);
  });

  it('the same share of two holders counts once, until the wrong one is corrected', async () => {
    const [ben, cyd] = [await envelope('ben', 2), await envelope('cyd', 2)];
    expect(await verdicts([ben, cyd])).toEqual(['accepted', 'same-share-as-another']);
    expect(await verdicts([ben, cyd, await envelope('ben', 1, 2)])).toEqual(['superseded', 'accepted', 'accepted']);
  });

  it('with a threshold of one a share is the key itself and has no x-coordinate', async () => {
    const envelopes = [await envelope('ben', 2, 1, 32), await envelope('cyd', 2, 1, 32)];
    expect(await verdicts(envelopes, { threshold: 1 })).toEqual(['accepted', 'same-share-as-another']);
  });

  it('a share of another length than most is refused, wherever it stands', async () => {
    const odd = await envelope('ben', 1, 1, 32);
    const [cyd, dan] = [await envelope('cyd', 2), await envelope('dan', 3)];
    expect(await verdicts([odd, cyd, dan])).toEqual(['wrong-length', 'accepted', 'accepted']);
    expect(await verdicts([odd, cyd])).toEqual(['accepted', 'accepted']);
  });
});
