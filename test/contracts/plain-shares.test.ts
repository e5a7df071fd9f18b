import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { holdsKeyShare, textHoldsKeyShare } from '../../src/contracts/plain-shares';
import { newSigningKey, signDocument, DOCUMENT_TYPES } from '../../src/keys';

/** The same bytes on every machine. */
const bytes = (length: number, seed: number): Buffer =>
  createHash('shake256', { outputLength: length }).update(`share ${seed}`).digest();
const SHARE = bytes(33, 1);

describe('a key share in the clear', () => {
  it.each([
    ['hexadecimal alone', SHARE.toString('hex')],
    ['with what a chat puts into it unseen', SHARE.toString('hex').replace(/.{9}/, '$&\u200b')],
    ['capitals', SHARE.toString('hex').toUpperCase()],
    ['base64 alone', SHARE.toString('base64')],
    ['in a sentence', `go on, mine is ${SHARE.toString('hex')}, sorry`],
    ['base64 in a sentence', `here: ${SHARE.toString('base64')}.`],
    ['read aloud in groups', SHARE.toString('hex').replace(/(.{4})(?=.)/g, '$1 ')],
    ['of a short key', bytes(17, 2).toString('hex')],
    ['of the length of a digest, and said to be a share', `my key share: ${bytes(32, 3).toString('hex')}`],
  ])('is seen: %s', (_what, text) => {
    expect(textHoldsKeyShare(text)).toBe(true);
    expect(holdsKeyShare({ by: 'ada', reason: [{ deep: text }] })).toBe(true);
  });

  it('is seen as the name of a member, in a member called share, and in the payload of a signed document', async () => {
    expect(holdsKeyShare({ [SHARE.toString('hex')]: true })).toBe(true);
    expect(holdsKeyShare({ share: bytes(32, 4).toString('hex') })).toBe(true);
    const { key } = newSigningKey();
    const reason = `it is ${SHARE.toString('base64')}`;
    expect(holdsKeyShare({ document: await signDocument(DOCUMENT_TYPES.decision, { reason }, key) })).toBe(true);
    expect(holdsKeyShare({ document: await signDocument(DOCUMENT_TYPES.decision, { reason: 'go' }, key) })).toBe(false);
  });

  it('is not seen in an envelope, whose type names shares and which holds digests and a thumbprint', async () => {
    const digest = () => createHash('sha256').update(randomUUID()).digest('base64url');
    for (const typ of [DOCUMENT_TYPES.share, DOCUMENT_TYPES.rehearsalShare]) {
      for (let count = 0; count < 50; count += 1) {
        const ct = randomBytes(1_700).toString('base64url');
        const payload = { cid: randomUUID(), epoch: 1, inv: digest(), holder: 'ada', seq: 1, iat: 1, ct };
        expect(holdsKeyShare({ document: await signDocument(typ, payload, newSigningKey().key) })).toBe(false);
        expect(holdsKeyShare(payload)).toBe(false);
      }
    }
  });

  it('of 2,000 random shares in base64 none is missed, and of short ones at most one in a hundred', () => {
    const missed = (length: number) =>
      Array.from({ length: 2_000 }, (_each, seed) => bytes(length, seed).toString('base64')).filter(
        (text) => !textHoldsKeyShare(text),
      ).length;
    expect(missed(33)).toBe(0);
    expect(missed(17)).toBeLessThanOrEqual(20);
  });

  describe.each(['recipientPgpKey', 'recipient'])('in member %s, which is a PGP key in base64', (member) => {
    const inLines = (base64: string, width: number) => base64.replace(new RegExp(`.{${width}}`, 'g'), '$&\r\n ');

    it('is not seen in what a terminal, a mail or a person broke into lines', () => {
      const seen = Array.from({ length: 300 }, (_each, seed) => seed).filter((seed) =>
        holdsKeyShare({ [member]: inLines(bytes(300 + seed, seed).toString('base64'), 32 + (seed % 60)) }),
      );
      expect(seen).toEqual([]);
    });

    it('is seen where it is one: alone, in a sentence, beside another', () => {
      const missed = Array.from({ length: 300 }, (_each, seed) => seed).filter((seed) => {
        const [hex, base64] = [bytes(33, seed).toString('hex'), bytes(33, seed + 1_000).toString('base64')];
        return ![hex, `${base64}\n`, `${hex}\n${base64}`, `this is mine ${base64}`].every((value) =>
          holdsKeyShare({ [member]: value }),
        );
      });
      expect(missed).toEqual([]);
    });
  });

  it.each([
    ['a UUID', randomUUID()],
    ['a UUID without hyphens', randomUUID().replaceAll('-', '')],
    ['a commit', createHash('sha1').update('x').digest('hex')],
    ['a SHA-256', `sha256:${createHash('sha256').update('x').digest('hex')}`],
    ['a digest of a plan', createHash('sha256').update('x').digest('base64url')],
    ['a digest in base64', createHash('sha256').update('x').digest('base64')],
    [
      'a fingerprint that is read aloud',
      bytes(32, 5)
        .toString('hex')
        .replace(/(.{4})(?=.)/g, '$1 '),
    ],
    [
      'a CA fingerprint',
      bytes(32, 6)
        .toString('hex')
        .replace(/(.{2})(?=.)/g, '$1:'),
    ],
    ['a public key', `${bytes(32, 7).toString('base64url')}:${bytes(32, 8).toString('base64url')}`],
    ['a name with hyphens', 'deployment:payments-production-eu-west-1a-v2'],
    ['a ticket', 'CHG0012345678: SwitchoverOfPaymentsForTheDrill2026'],
    ['a link', 'see https://docs.example.com/document/d/1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms/edit'],
    ['a path', '/srv/payments/Reports2026/November/Switchover'],
    ['a time and a run', '2026-11-21T06:49:38.123456Z 01963f2e-7c1b-7f3a-9b1c-0123456789ab'],
    ['a long document', randomBytes(300).toString('base64')],
    ['a sentence', 'the key shares of ada and bert came in time; go'],
  ])('is not taken for one: %s', (_what, text) => {
    expect(textHoldsKeyShare(text)).toBe(false);
    expect(holdsKeyShare({ by: text, reason: text })).toBe(false);
  });
});
