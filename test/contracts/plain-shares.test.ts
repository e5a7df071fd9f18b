import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { generateKey } from 'openpgp';
import { holdsKeyShare, holdsTokenAlone, plainSecretIn, textHoldsKeyShare } from '../../src/contracts/plain-shares';
import { tooSlow } from '../support/by-hand';
import { newSigningKey, signDocument, DOCUMENT_TYPES } from '../../src/keys';

/** The same bytes on every machine. */
const bytes = (length: number, seed: number): Buffer =>
  createHash('shake256', { outputLength: length }).update(`share ${seed}`).digest();
const SHARE = bytes(33, 1);

describe('a token of the service in the clear', () => {
  const letters = (count: number) => bytes(200, 11).toString('base64').replace(/\W/g, '').slice(0, count);
  const everywhere = (text: string) => [text, { reason: `use ${text}, please` }, { [text]: true }, [{ note: text }]];

  it.each([20, 24, 26, 32, 44, 60, 91, 95, 100, 140])(
    'of %d letters is detected wherever it appears',
    async (count) => {
      for (const mark of ['hvs', 'hvb', 'hvr'])
        for (const value of everywhere(`${mark}.${letters(count)}`))
          expect(plainSecretIn(value)).toBe('plain-text-token');
      const said = { reason: `hvs.${letters(count)}` };
      const document = await signDocument(DOCUMENT_TYPES.decision, said, newSigningKey().key);
      expect(plainSecretIn({ document })).toBeDefined();
    },
  );

  it.each<readonly [string, string | undefined]>([
    [`s.${letters(24)}`, 'plain-text-token'],
    [`mine\u200bhvs.${letters(95)}`, 'plain-text-token'],
    [`hvs.${letters(95).replace(/.{9}/g, '$&\u200b')}`, 'plain-text-token'],
    [`b.${SHARE.toString('hex')}`, 'plain-text-share'],
    [`s.${SHARE.toString('base64')}`, 'plain-text-share'],
    [`hvs.${SHARE.toString('hex')}`, 'plain-text-share'],
    [`hvs.${letters(95)} and ${SHARE.toString('base64')}`, 'plain-text-share'],
    ...[
      ...['hvs.example.com', 'hvs.payments-production-eu-west-1.example.com', 'hvs.policy-for-payments-production.hcl'],
      ...[
        's.example',
        'b.example.com',
        's.schmidt',
        'R. Daneel',
        'hvs.',
        'hvs.short',
        `xhvs.${letters(24).slice(0, 8)}`,
      ],
      ...[`https://hvs.example.com:8200/v1/sys/health`, 'hvs.payments.internal.example.com:8200'],
    ].map((text) => [text, undefined] as const),
  ])('%s: %s', (text, told) => {
    for (const value of everywhere(text)) expect(plainSecretIn(value)).toBe(told);
  });
});

describe('a key share in the clear', () => {
  it('is detected beside a token too; a token alone is reported as a token', () => {
    const token = `s.${'Ab3'.repeat(8)}`;
    const byName = { share: bytes(32, 9).toString('hex'), note: token };
    const glued = `${token} share\u200b${SHARE.toString('base64')}`;
    expect([token, { note: token }, byName, glued].map(holdsTokenAlone)).toEqual([true, true, false, false]);
  });

  it.each([
    ['hexadecimal alone', SHARE.toString('hex')],
    ['with what a chat puts into it unseen', SHARE.toString('hex').replace(/.{9}/, '$&\u200b')],
    ['parted unseen from another', [SHARE, SHARE].map((each) => each.toString('hex')).join('\u200b')],
    ['parted unseen from another in base64', [SHARE, SHARE].map((each) => each.toString('base64')).join('\u200b')],
    ['parted unseen from the word before it', `share\u200b${SHARE.toString('hex')}`],
    ['parted unseen from the word behind it', `${SHARE.toString('base64')}\u200bthanks`],
    ...(['hex', 'base64'] as const).flatMap((form): [string, string][] => {
      const broken = SHARE.toString(form).replace(/.{9}(?=.)/g, '$&\u200b');
      const short = bytes(17, 5)
        .toString(form)
        .replace(/.{3}(?=.)/g, '$&\u200b\u2060');
      return [
        [`parted unseen in itself and from the words beside it, in ${form}`, `share\u200b${broken}\u200bthanks`],
        [`the same of a short key, in ${form}`, `mine\u200b${short}\u200bthanks`],
      ];
    }),
    ['capitals', SHARE.toString('hex').toUpperCase()],
    ['base64 alone', SHARE.toString('base64')],
    ['in a sentence', `go on, mine is ${SHARE.toString('hex')}, sorry`],
    ['base64 in a sentence', `here: ${SHARE.toString('base64')}.`],
    ['read aloud in groups', SHARE.toString('hex').replace(/(.{4})(?=.)/g, '$1 ')],
    ['of a short key', bytes(17, 2).toString('hex')],
    ['of the length of a digest, and said to be a share', `my key share: ${bytes(32, 3).toString('hex')}`],
  ])('is detected: %s', (_what, text) => {
    expect(textHoldsKeyShare(text)).toBe(true);
    expect(holdsKeyShare({ by: 'ada', reason: [{ deep: text }] })).toBe(true);
  });

  it('is detected as the name of a member, in a member called share, and in the payload of a signed document', async () => {
    expect(holdsKeyShare({ [SHARE.toString('hex')]: true })).toBe(true);
    expect(holdsKeyShare({ share: bytes(32, 4).toString('hex') })).toBe(true);
    const { key } = newSigningKey();
    const reason = `it is ${SHARE.toString('base64')}`;
    expect(holdsKeyShare({ document: await signDocument(DOCUMENT_TYPES.decision, { reason }, key) })).toBe(true);
    expect(holdsKeyShare({ document: await signDocument(DOCUMENT_TYPES.decision, { reason: 'go' }, key) })).toBe(false);
  });

  it('is searched for in documents within documents, in bounded time', async () => {
    const documentOf = (payload: string) =>
      `eyJhbGciOiJFZDI1NTE5In0.${Buffer.from(payload, 'latin1').toString('base64url')}.c2ln`;
    /** What is read in two ways, again and again. */
    const within = (text: string, times: number, wrapped: (inner: string) => string): string =>
      times === 0 ? text : within(documentOf(wrapped(text)), times - 1, wrapped);
    const unseen = (inner: string) => `\u0085 ${inner} \u0085`;
    const recipient = (inner: string) => JSON.stringify({ recipient: `${inner} ` });
    for (const wrapped of [unseen, recipient]) {
      expect(textHoldsKeyShare(within(SHARE.toString('hex'), 3, wrapped))).toBe(true);
      const deep = within('no share', 18, wrapped);
      expect(await tooSlow(500, () => Promise.resolve(textHoldsKeyShare(deep)))).toEqual([]);
    }
  });

  it('is not detected in an envelope, whose type names shares and which holds digests and a thumbprint', async () => {
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
    const wrapped = (base64: string, width: number, end: string) =>
      base64.match(new RegExp(`.{1,${width}}`, 'g'))?.join(end) ?? '';
    /** Beginnings of real keys, as openpgp and GnuPG write them: elliptic curves and RSA, both forms of a packet. */
    const BEGINNINGS = [
      ...['c633046a', 'c6260469', 'c62a066b', 'c6520469', 'c63f0469', 'c6c04d04', 'c6c14d04'],
      ...['98330469', '99010d04', '99020d04'],
    ];
    const key = (seed: number) =>
      Buffer.concat([Buffer.from(BEGINNINGS[seed % BEGINNINGS.length] ?? '', 'hex'), bytes(300 + seed, seed)]);

    it('is not detected in text that a terminal, a mail or a person broke into lines', () => {
      const seen = Array.from({ length: 1_000 }, (_each, seed) => {
        const width = [32, 40, 60, 64, 72, 76, 80, 100][seed % 8] ?? 64;
        const value = wrapped(key(seed).toString('base64'), width, seed % 3 ? '\n' : '\r\n  ');
        return holdsKeyShare({ cluster: 'west', [member]: seed % 2 ? value : `${value}\n` }) ? [seed] : [];
      }).flat();
      expect(seen).toEqual([]);
      // Text that holds nothing but base64 says so by its member alone.
      expect(textHoldsKeyShare(wrapped(bytes(48 + 33, 1).toString('base64'), 64, '\n'))).toBe(true);
    });

    it('is not detected in an armored key, with headers or without; it is detected in a header', () => {
      const armored = (seed: number, header = '') =>
        `-----BEGIN PGP PUBLIC KEY BLOCK-----\n${header}\n${wrapped(key(seed).toString('base64'), 64, '\n')}\n${
          seed % 2 ? '=aB3d\n' : ''
        }-----END PGP PUBLIC KEY BLOCK-----\n`;
      const seeds = Array.from({ length: 300 }, (_each, seed) => seed);
      const seen = (header?: string) => seeds.filter((seed) => holdsKeyShare({ [member]: armored(seed, header) }));
      expect(seen()).toEqual([]);
      expect(seen('Version: GnuPG v2\nComment: of Ada\n')).toEqual([]);
      expect(seen(`Comment: ${SHARE.toString('base64')}\n`)).toEqual(seeds);
    });

    it.each(['ecc', 'curve25519', 'rsa'] as const)('is not detected in a real key: %s', async (type) => {
      const { publicKey } = await generateKey({ type, userIDs: [{ name: 'ada' }], format: 'object' });
      const base64 = Buffer.from(publicKey.write()).toString('base64');
      for (let width = 45; width < 110; width += 1) {
        expect(holdsKeyShare({ [member]: wrapped(base64, width, '\n') })).toBe(false);
      }
      expect(holdsKeyShare({ [member]: publicKey.armor() })).toBe(false);
    });

    it('is detected if it is one: alone, broken into lines, several, in a sentence, beside other words', () => {
      const missed = Array.from({ length: 500 }, (_each, seed) => {
        const shares = Array.from({ length: 10 }, (_other, number) => bytes(33, seed + 1_000 * number));
        const [hex, base64] = (['hex', 'base64'] as const).map((form) => shares.map((each) => each.toString(form)));
        const [one = '', other = ''] = hex ?? [];
        const [first = '', second = ''] = base64 ?? [];
        return [
          one,
          `${first}\n`,
          wrapped(first, 22, '\n'),
          `${one}\n${other}`,
          `${first}\n${second}\n`,
          `this is mine ${first}`,
          `this is mine: ${one}, sorry`,
          `${bytes(60, seed).toString('base64')}\n${one}`,
          first.padEnd(400),
          (hex ?? [])
            .slice(0, 5)
            .map((each) => each.padEnd(80))
            .join(''),
          (hex ?? []).slice(0, 6).join('\n'),
          (base64 ?? []).join('\n'),
          `${key(seed).toString('base64')}\n${one}`,
          `${wrapped(key(3 * seed).toString('base64'), 64, '\n')}\n${first}`,
        ].flatMap((value, form) => (holdsKeyShare({ [member]: value }) ? [] : [`${seed}/${form}`]));
      }).flat();
      expect(missed).toEqual([]);
    });
  });

  it.each([
    ['a UUID', randomUUID()],
    ['a UUID without hyphens', randomUUID().replaceAll('-', '')],
    ['a commit', createHash('sha1').update('x').digest('hex')],
    ['a SHA-256', `sha256:${createHash('sha256').update('x').digest('hex')}`],
    ['a digest of a plan', createHash('sha256').update('x').digest('base64url')],
    [
      'a digest of a plan with what a chat puts into it',
      createHash('sha256').update('x').digest('base64url').replace(/.{20}/g, '$&\u200b'),
    ],
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
  ])('is not mistaken for one: %s', (_what, text) => {
    expect(textHoldsKeyShare(text)).toBe(false);
    expect(holdsKeyShare({ by: text, reason: text })).toBe(false);
  });
});
