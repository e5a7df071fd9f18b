import fc from 'fast-check';
import { signDocument } from '../../src/documents/documents';
import { createEnvelope } from '../../src/documents/envelope';
import type { EnvelopePayload } from '../../src/documents/envelope';
import { examineEnvelope, receiptOf } from '../../src/keys/envelope';
import type { ArrivedEnvelope } from '../../src/keys/envelope';
import { parseShare } from '../../src/documents/key-shares';
import { CID, DIGEST, failureOf, jwt, lookup, person, share, shareText, sharedCeremonyKeys } from './builders';

const NOW = 1_900_000_000_000;
const ben = person('ben');
const cyd = person('cyd');
const dan = person('dan', 'claimed');
const pia = person('pia', 'principal', 'user:pia');
const eve = person('eve');
const people = lookup(ben, cyd, dan, pia, eve);
const ceremony = {
  cid: CID,
  epoch: 1,
  invitationDigest: DIGEST,
  holders: ['ben', 'cyd', 'dan', 'pia'],
  exp: NOW / 1000,
};

async function inspect(content: unknown, changes: Partial<ArrivedEnvelope> = {}) {
  const examined = await examineEnvelope({ content, at: NOW - 1000, ...changes }, ceremony, people);
  return 'refused' in examined ? examined.refused : receiptOf(examined);
}

let plain: EnvelopePayload;
beforeAll(async () => {
  const { recipient } = await sharedCeremonyKeys();
  const invitation = { cid: CID, epoch: 1, recipient };
  const envelope = await createEnvelope({
    invitation,
    invitationDigest: DIGEST,
    holder: 'dan',
    seq: 1,
    share: share(4),
  });
  if (typeof envelope === 'string') throw new Error('it is signed');
  plain = envelope;
});

const by = (holder: string, changes: Partial<EnvelopePayload> = {}) => ({ ...plain, holder, ...changes });
const signed = (holder: string, key = ben.key, changes: object = {}) =>
  signDocument('runbooks-share-v1', { ...by(holder), ...changes }, key);

describe('on arrival', () => {
  it('an envelope with the attestation that the inventory demands is accepted', async () => {
    expect(await inspect(await signed('ben'))).toMatchObject({ holder: 'ben', seq: 1, verdict: 'accepted' });
    expect(await inspect({ document: await signed('ben') })).toMatchObject({ holder: 'ben', verdict: 'accepted' });
    expect(await inspect(plain)).toMatchObject({ holder: 'dan', verdict: 'accepted' });
    expect(await inspect(by('pia'), { principal: jwt('user:pia') })).toMatchObject({
      holder: 'pia',
      verdict: 'accepted',
    });
  });

  it('a receipt holds four members and a digest that tells envelopes apart', async () => {
    const receipt = await inspect(plain);
    expect(Object.keys(receipt).sort()).toEqual(['envelopeDigest', 'holder', 'seq', 'verdict']);
    expect((await inspect(by('dan', { seq: 2 }))).envelopeDigest).not.toBe(receipt.envelopeDigest);
    expect((await inspect({ ...plain })).envelopeDigest).toBe(receipt.envelopeDigest);
  });

  it('what the inventory demands cannot be lowered by what arrives', async () => {
    expect((await inspect(by('ben'))).verdict).toBe('not-signed');
    expect((await inspect(by('pia'))).verdict).toBe('wrong-signer');
    expect((await inspect(by('pia'), { principal: jwt('user:ben') })).verdict).toBe('wrong-signer');
    expect((await inspect(await signed('pia', pia.key))).verdict).toBe('wrong-signer');
  });

  it("another person's key does not sign, nor the right key under another type", async () => {
    expect((await inspect(await signed('ben', cyd.key))).verdict).toBe('wrong-signer');
    expect((await inspect(await signDocument('runbooks-approval-v1', by('ben'), ben.key))).verdict).toBe(
      'wrong-signer',
    );
    const jws = await signed('ben');
    expect((await inspect(`${jws.slice(0, -4)}AAAA`)).verdict).toBe('wrong-signer');
  });

  it.each([
    ['wrong-ceremony', { cid: '11111111-2222-4333-8444-555555555555' }],
    ['wrong-ceremony', { inv: 'A'.repeat(43) }],
    ['wrong-epoch', { epoch: 2 }],
    ['malformed', { epoch: 'one' }],
    ['malformed', { seq: -1 }],
    ['malformed', { extra: 'member' }],
    ['malformed', { ct: undefined }],
  ])('is refused: %s for %j', async (verdict, changes) => {
    expect((await inspect({ ...plain, ...changes })).verdict).toBe(verdict);
  });

  it('a person who is not invited is refused, and a name that nobody has is not repeated', async () => {
    expect(await inspect(await signed('eve', eve.key))).toMatchObject({ holder: 'eve', verdict: 'not-invited' });
    const receipt = await inspect(by('canary-of-the-sender'));
    expect(receipt.verdict).toBe('not-invited');
    expect(JSON.stringify(receipt)).not.toContain('canary');
  });

  it('the time of the event decides about expiry, not what the holder says', async () => {
    expect((await inspect(plain, { at: NOW })).verdict).toBe('accepted');
    expect((await inspect(by('dan', { iat: 1 }), { at: NOW + 1 })).verdict).toBe('expired');
  });

  it('what is too large is refused unread', async () => {
    expect((await inspect(by('dan', { ct: 'A'.repeat(17_000) }))).verdict).toBe('too-large');
    expect((await inspect('x'.repeat(17_000))).verdict).toBe('too-large');
  });

  it.each([[undefined], [null], [7], [true], ['hello'], [[]], [{}], [{ undecodable: 'json/protobuf' }], ['eyJ.a.b']])(
    'what is no envelope is malformed: %p',
    async (value) => {
      expect(await inspect(value)).toEqual({ envelopeDigest: '', verdict: 'malformed' });
    },
  );

  it('never fails, whatever arrives', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.jsonValue(), fc.anything({ withBigInt: true, withMap: true })), async (value) => {
        expect((await inspect(value)).verdict).not.toBe('accepted');
      }),
      { seed: 17, numRuns: 300 },
    );
  });
});

describe('a share in plain text', () => {
  const text = shareText(9);
  const base64 = Buffer.from(text, 'hex').toString('base64');
  it.each([
    ['alone', text],
    ['in capitals', text.toUpperCase()],
    ['in base64', base64],
    ['in base64url without padding', base64.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')],
    ['of 16 bytes', shareText(9, 16)],
    ['of 16 bytes in base64', Buffer.from(shareText(9, 16), 'hex').toString('base64')],
    ['in a sentence', `here is my share: ${text}, thanks`],
    ['after an equals sign', `share=${text}`],
    ['as a member', { share: text }],
    ['deep inside', { a: [{ b: { c: text } }] }],
    ['as a member name', { [text]: true }],
    ['in a list', [text]],
    ['beside a whole envelope', () => ({ ...plain, share: text })],
    ['in the place of the encrypted part', () => by('dan', { ct: text })],
    ['in the place of the holder', () => by(text)],
    ['in the place of the ceremony', () => by('dan', { cid: text })],
    ['in the place of the invitation', () => by('dan', { inv: text })],
    ['in a signed document', () => signed('ben', ben.key, { share: text })],
    ['in a document of another signer', () => signed('ben', cyd.key, { share: text })],
  ])('is recognised %s, and nothing of it is repeated', async (_where, input) => {
    const receipt = await inspect(typeof input === 'function' ? await input() : input);
    expect(receipt).toEqual({ envelopeDigest: '', verdict: 'plain-text-share' });
  });

  it('is not seen in identifiers and digests that belong there', async () => {
    expect((await inspect({ ...plain, extra: CID })).verdict).toBe('malformed');
    expect((await inspect({ cid: CID, inv: DIGEST, holder: 'dan' })).verdict).toBe('malformed');
  });
});

describe('reading a share from its holder', () => {
  it('takes hexadecimal and base64 and gives the same', () => {
    const text = shareText(9);
    const base64 = Buffer.from(text, 'hex').toString('base64');
    for (const typed of [text, text.toUpperCase(), `  ${text}\n`, base64, base64.replace(/=+$/, '')]) {
      expect(parseShare(typed).reveal()).toBe(text);
    }
  });

  it.each([['canary'], [`${shareText(9)}00`], [shareText(9).slice(0, -1)], [shareText(9, 15)], ['']])(
    'refuses what is none without repeating it',
    async (typed) => {
      const failure = await failureOf(() => parseShare(typed));
      expect(failure.code).toBe('INVALID_INPUT');
      if (typed !== '') expect(failure.text).not.toContain(typed);
    },
  );
});
