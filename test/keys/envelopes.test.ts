/** Envelopes as they arrive, where the keys are: what is taken for a share, a token, an answer to a rehearsal, and what is not. */
import { inspect } from 'node:util';
import {
  Decrypter,
  Encrypter,
  generateHybridIdentity,
  generateX25519Identity,
  identityToRecipient,
} from 'age-encryption';
import fc from 'fast-check';
import { DOCUMENT_TYPES, signDocument } from '../../src/documents/documents';
import { createEnvelope, createRehearsalEnvelope } from '../../src/documents/envelope';
import type { EnvelopePayload } from '../../src/documents/envelope';
import { parseOperationToken, parseShare } from '../../src/documents/key-shares';
import type { CeremonyKeys } from '../../src/keys/ceremony-keys';
import type { ArrivedEnvelope } from '../../src/keys/envelope';
import { openRehearsalAnswer, openShares } from '../../src/keys/opening';
import { arrived, CID, DIGEST, failureOf, jwt, lookup, person, record, share, shareText } from './builders';
import { sharedCeremonyKeys } from './builders';

const ben = person('ben');
const pia = person('pia', 'principal', 'user:pia');
const eve = person('eve');
const claimed = ['dan', 'dora', 'emil'].map((name) => person(name, 'claimed'));
const people = lookup(ben, pia, eve, ...claimed);
const holders = ['ben', 'pia', 'dan', 'dora', 'emil'];
const TOOL = 'runbook 1.2.3';
const OTHER = { cid: '11111111-2222-4333-8444-555555555555', inv: 'A'.repeat(43) };

let keys: CeremonyKeys;
beforeAll(async () => {
  keys = await sharedCeremonyKeys();
});

interface Made {
  readonly x?: number;
  readonly seq?: number;
  readonly bytes?: number;
  readonly signingKey?: typeof ben.key | undefined;
}

const about = () => ({ invitation: { cid: CID, epoch: 1, recipient: keys.recipient }, invitationDigest: DIGEST });

/** The envelope of a holder; without a key its plain members. */
async function envelope(holder: string, { x = 1, seq = 1, bytes = 33, signingKey }: Made = {}) {
  return createEnvelope({ ...about(), holder, seq, share: share(x, bytes), signingKey });
}

async function plain(holder: string, made: Made = {}): Promise<EnvelopePayload> {
  const payload = await envelope(holder, made);
  if (typeof payload === 'string') throw new Error('it is signed');
  return payload;
}

/** An answer to a rehearsal: signed by ben, plain of others. */
const answer = (holder = 'ben') =>
  createRehearsalEnvelope({
    ...{ ...about(), holder, seq: 1, tool: TOOL },
    signingKey: holder === 'ben' ? ben.key : undefined,
  });

/** An envelope of dan whose encrypted part says `inner`, to `recipients`. */
async function sealedAs(inner: unknown, recipients = [keys.recipient]): Promise<EnvelopePayload> {
  const encrypter = new Encrypter();
  for (const recipient of recipients) encrypter.addRecipient(recipient);
  const file = await encrypter.encrypt(typeof inner === 'string' ? inner : JSON.stringify(inner));
  return { ...(await plain('dan')), ct: Buffer.from(file).toString('base64url') };
}
const inner = { ctx: 'runbooks/share/v1', inv: DIGEST, cid: CID, epoch: 1, holder: 'dan', seq: 1, share: shareText(1) };

/** Opens what arrived, in this order. */
async function open(envelopes: readonly ArrivedEnvelope[], changes: Parameters<typeof record>[1] = {}) {
  const opened = await openShares(record(keys, { holders, ...changes }), envelopes, people);
  const told = opened.map(({ receipt, share }) => ({ receipt, share }));
  expect(inspect(told, { depth: 9, showHidden: true }) + JSON.stringify(told)).not.toContain(shareText(1, 17));
  return opened;
}

async function verdicts(contents: readonly unknown[], changes: Parameters<typeof record>[1] = {}): Promise<string[]> {
  const opened = await open(
    contents.map((each) => arrived(each)),
    changes,
  );
  return opened.map(({ receipt }) => receipt.verdict);
}

/** The receipt of one envelope. */
async function receiptOf(content: unknown, more: Partial<ArrivedEnvelope> = {}) {
  return (await open([arrived(content, more)]))[0]?.receipt;
}

describe('one envelope', () => {
  it('an envelope with the attestation that the inventory demands is accepted, and its share is for the burst alone', async () => {
    const jws = await envelope('ben', { signingKey: ben.key });
    const sent = [
      arrived(jws),
      arrived({ document: await envelope('ben', { x: 5, seq: 2, signingKey: ben.key }) }),
      arrived(await plain('dan', { x: 2 })),
      arrived(await plain('pia', { x: 3 }), { principal: jwt('user:pia') }),
    ];
    const opened = await open(sent);
    expect(opened.map(({ receipt, share }) => [receipt.holder, receipt.verdict, share?.reveal()])).toEqual([
      ['ben', 'superseded', undefined],
      ['ben', 'accepted', shareText(5)],
      ['dan', 'accepted', shareText(2)],
      ['pia', 'accepted', shareText(3)],
    ]);
  });

  it('a receipt holds four members and a digest that distinguishes envelopes', async () => {
    const sent = await plain('dan');
    const receipt = await receiptOf(sent);
    expect(Object.keys(receipt ?? {}).sort()).toEqual(['envelopeDigest', 'holder', 'seq', 'verdict']);
    expect((await receiptOf({ ...sent, seq: 2 }))?.envelopeDigest).not.toBe(receipt?.envelopeDigest);
    expect((await receiptOf({ ...sent }))?.envelopeDigest).toBe(receipt?.envelopeDigest);
  });

  it('requirements of the inventory cannot be lowered by an arriving envelope', async () => {
    expect((await receiptOf(await plain('ben')))?.verdict).toBe('not-signed');
    for (const principal of [undefined, jwt('user:ben')])
      for (const signingKey of [undefined, pia.key])
        expect((await receiptOf(await envelope('pia', { signingKey }), { principal }))?.verdict).toBe('wrong-signer');
  });

  it("another person's key does not sign, nor the right key under another type", async () => {
    const jws = await signDocument(DOCUMENT_TYPES.share, await plain('ben'), ben.key);
    const renamed = await signDocument(DOCUMENT_TYPES.approval, await plain('ben'), ben.key);
    const forged = [await envelope('ben', { signingKey: eve.key }), renamed, `${jws.slice(0, -4)}AAAA`];
    expect(await verdicts(forged)).toEqual(Array(3).fill('wrong-signer'));
  });

  it.each([
    ['wrong-ceremony', { cid: OTHER.cid }],
    ['wrong-ceremony', { inv: OTHER.inv }],
    ['wrong-epoch', { epoch: 2 }],
    ['not-invited', { holder: 'eve' }],
    ['malformed', { epoch: 'one' }],
    ['malformed', { seq: -1 }],
    ['malformed', { extra: 'member' }],
    ['malformed', { extra: CID }],
    ['malformed', { ct: undefined }],
    ['too-large', { ct: 'A'.repeat(17_000) }],
  ])('is refused: %s for %j', async (verdict, changes) => {
    expect(await verdicts([{ ...(await plain('dan')), ...changes }])).toEqual([verdict]);
  });

  it('a name that nobody has is not repeated', async () => {
    const receipt = await receiptOf({ ...(await plain('dan')), holder: 'canary-of-the-sender' });
    expect(receipt?.verdict).toBe('not-invited');
    expect(JSON.stringify(receipt)).not.toContain('canary');
  });

  it('the time of the event decides about expiry, not the time in the envelope', async () => {
    const sent = { ...(await plain('dan')), iat: 1 };
    const end = record(keys).exp * 1000;
    expect((await receiptOf(sent, { at: end }))?.verdict).toBe('accepted');
    expect((await receiptOf(sent, { at: end + 1 }))?.verdict).toBe('expired');
  });

  it.each([[undefined], [null], [7], [true], ['hello'], [[]], [{}], [{ undecodable: true }], ['eyJ.a.b']])(
    'an invalid envelope is malformed: %p',
    async (value) => {
      expect(await receiptOf(value)).toEqual({ envelopeDigest: '', verdict: 'malformed' });
    },
  );

  it('never fails, whatever arrives', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.jsonValue(), fc.anything({ withBigInt: true, withMap: true })), async (value) => {
        expect((await receiptOf(value))?.verdict).not.toBe('accepted');
      }),
      { seed: 17, numRuns: 300 },
    );
  });
});

describe('the encrypted part', () => {
  it('must open with this key and with no other', async () => {
    const other = await identityToRecipient(await generateHybridIdentity());
    const classic = await identityToRecipient(await generateX25519Identity());
    const good = await plain('dan');
    const sent = [
      await sealedAs(inner, [other]),
      await sealedAs(inner, [keys.recipient, other]),
      await sealedAs(inner, [classic]),
      { ...good, ct: `${good.ct.slice(0, -8)}AAAAAAAA` },
      { ...good, ct: `${good.ct}=` },
      { ...good, ct: '' },
    ];
    expect(await verdicts(sent)).toEqual(Array(6).fill('does-not-open'));
  });

  it.each([
    ['another holder', { holder: 'dora' }],
    ['another number', { seq: 2 }],
    ['another ceremony', { cid: OTHER.cid }],
    ['another epoch', { epoch: 2 }],
    ['another invitation', { inv: OTHER.inv }],
    ['another context', { ctx: 'runbooks/share/v2' }],
    ['a further member', { extra: 1 }],
    ['nothing but itself, as no JSON', undefined],
  ])('must not speak of %s', async (_what, changes) => {
    expect(await verdicts([await sealedAs(changes ? { ...inner, ...changes } : shareText(1))])).toEqual(['mismatch']);
  });

  it.each([shareText(1).slice(2 * 18), `${shareText(1)}00`, shareText(1).toUpperCase(), shareText(1).slice(1), ''])(
    'holds a share of 16 to 33 bytes in lower-case hexadecimal',
    async (text) => {
      expect(await verdicts([await sealedAs({ ...inner, share: text })])).toEqual(['wrong-length']);
    },
  );
});

describe('envelopes together', () => {
  it("a holder's highest number counts, in whatever order they arrive", async () => {
    const [first, second] = [await plain('dan'), await plain('dan', { x: 4, seq: 2 })];
    expect(await verdicts([first, second])).toEqual(['superseded', 'accepted']);
    expect(await verdicts([second, first])).toEqual(['accepted', 'superseded']);
    expect(await verdicts([first, first])).toEqual(['accepted', 'repeated']);
  });

  it('one that was refused is not accepted later by itself: the same one counts when it comes from its own holder', async () => {
    const sent = await plain('pia');
    const principals = ['user:ben', 'user:pia', 'user:pia'].map(jwt);
    const opened = await open(principals.map((principal) => arrived(sent, { principal })));
    expect(opened.map(({ receipt }) => receipt.verdict)).toEqual(['wrong-signer', 'accepted', 'repeated']);
  });

  it('an invalid later envelope does not take the place of a valid one', async () => {
    const broken = { ...(await plain('dan', { x: 4, seq: 2 })), ct: 'AAAA' };
    expect(await verdicts([await plain('dan'), broken])).toEqual(['accepted', 'does-not-open']);
    const taken = [await plain('dan'), await plain('dora', { x: 2 }), await plain('dan', { x: 2, seq: 2 })];
    expect(await verdicts(taken)).toEqual(['accepted', 'accepted', 'same-share-as-another']);
  });

  it('the same share of two holders counts once, until the wrong one is corrected', async () => {
    const [dan, dora] = [await plain('dan', { x: 2 }), await plain('dora', { x: 2 })];
    expect(await verdicts([dan, dora])).toEqual(['accepted', 'same-share-as-another']);
    const corrected = await plain('dan', { x: 1, seq: 2 });
    expect(await verdicts([dan, dora, corrected])).toEqual(['superseded', 'accepted', 'accepted']);
    // With a threshold of one a share is the key itself and has no x-coordinate.
    const whole = [await plain('dan', { x: 2, bytes: 32 }), await plain('dora', { x: 2, bytes: 32 })];
    expect(await verdicts(whole, { threshold: 1 })).toEqual(['accepted', 'same-share-as-another']);
  });

  it('a share of another length than most is refused, wherever it is', async () => {
    const odd = await plain('dan', { bytes: 32 });
    const [dora, emil] = [await plain('dora', { x: 2 }), await plain('emil', { x: 3 })];
    expect(await verdicts([odd, dora, emil])).toEqual(['wrong-length', 'accepted', 'accepted']);
    expect(await verdicts([odd, dora])).toEqual(['accepted', 'accepted']);
  });
});

describe('a share in plain text', () => {
  const text = shareText(9);
  const base64 = Buffer.from(text, 'hex').toString('base64');
  const within = (members: object) => async () => ({ ...(await plain('dan')), ...members });
  const signed = (key: typeof ben.key) => async () =>
    signDocument(DOCUMENT_TYPES.share, { ...(await plain('ben')), share: text }, key);
  it.each([
    ['alone', text],
    ['in base64', base64],
    ['in base64url without padding', Buffer.from(text, 'hex').toString('base64url')],
    ['of 16 bytes', shareText(9, 16)],
    ['in a sentence', `here is my share: ${text}, thanks`],
    ['with what a chat puts into it unseen', { share: text.replace(/.{9}/g, '$&\u200b') }],
    ['the same of 16 bytes', { share: shareText(9, 16).replace(/.{9}/g, '$&\u200b') }],
    ['in such pieces, from a word on', `share\u200b${text.replace(/.{9}/g, '$&\u200b')}`],
    ['as a member', { share: text }],
    ['which is a long token', { token: `hvs.${'aB3'.repeat(31)}` }],
    ['which is a long token, alone', `hvs.${'aB3'.repeat(31)}`],
    ['deep inside', { a: [{ b: { c: text } }] }],
    ['as a member name', { [text]: true }],
    ['beside a whole envelope', within({ share: text })],
    ['in the place of the encrypted part', within({ ct: text })],
    ['in the place of the holder', within({ holder: text })],
    ['in the place of the ceremony', within({ cid: text })],
    ['in the place of the invitation', within({ inv: text })],
    ['in a signed document', signed(ben.key)],
    ['in a document of another signer', signed(eve.key)],
  ])('is recognized %s, and is not repeated', async (_where, input) => {
    const receipt = await receiptOf(typeof input === 'function' ? await input() : input);
    expect(receipt).toEqual({ envelopeDigest: '', verdict: 'plain-text-share' });
  });

  it('is not detected in identifiers and digests that belong there', async () => {
    expect(await verdicts([{ cid: CID, inv: DIGEST, holder: 'dan' }])).toEqual(['malformed']);
  });
});

describe('a rehearsal accepts nothing from a ceremony and a ceremony nothing from a rehearsal', () => {
  const rehearsal = () => record(keys, { kind: 'rehearsal', holders });
  const SHARE = { ...inner, holder: 'ben' };
  const DUMMY = { ...SHARE, ctx: 'runbooks/rehearsal-share/v1', share: undefined, dummy: shareText(1), tool: TOOL };

  /** An envelope of ben around any encrypted part, signed as any type. */
  const forged = async (typ: 'share' | 'rehearsalShare', within: unknown) =>
    signDocument(DOCUMENT_TYPES[typ], { ...(await sealedAs(within)), holder: 'ben' }, ben.key);

  it('an answer proves who gave it, how that is known, and with which tool; its value stays secret', async () => {
    const signed = await openRehearsalAnswer(rehearsal(), arrived({ document: await answer() }), people);
    expect(signed.receipt).toMatchObject({ verdict: 'accepted', holder: 'ben', seq: 1 });
    expect(signed.answer).toEqual({ holder: 'ben', how: 'signed', kid: ben.key.kid, tool: TOOL });
    const unsigned = await openRehearsalAnswer(rehearsal(), arrived(await answer('dan')), people);
    expect(unsigned.answer).toEqual({ holder: 'dan', how: 'claimed', tool: TOOL });
  });

  it('an answer has a new value each time, and contains no share', async () => {
    const made = await createRehearsalEnvelope({
      ...{ ...about(), holder: 'dan', seq: 1, tool: TOOL },
      ...({ share: share(7) } as object),
    });
    expect(made).not.toEqual(await answer('dan'));
    const decrypter = new Decrypter();
    decrypter.addIdentity(keys.identity.reveal());
    const { ct } = made as EnvelopePayload;
    const within = await decrypter.decrypt(Buffer.from(ct, 'base64url'), 'text');
    expect(within).not.toContain(shareText(7));
    expect(
      Object.keys(JSON.parse(within) as object)
        .sort()
        .join(),
    ).toBe('cid,ctx,dummy,epoch,holder,inv,seq,tool');
  });

  it('an envelope with a real share is refused in a rehearsal: by type, by context, and unsigned', async () => {
    for (const [sent, verdict] of [
      [await envelope('ben', { signingKey: ben.key }), 'other-kind'],
      [await plain('dan'), 'mismatch'],
      [await forged('rehearsalShare', SHARE), 'mismatch'],
      // A real share under the context of a rehearsal is no answer either.
      [await forged('rehearsalShare', { ...SHARE, ctx: DUMMY.ctx }), 'mismatch'],
    ] as const) {
      const opened = await openRehearsalAnswer(rehearsal(), arrived(sent), people);
      expect([opened.receipt.verdict, opened.answer]).toEqual([verdict, undefined]);
    }
  });

  it('an answer to a rehearsal is refused in a ceremony: by type, by context, and unsigned', async () => {
    const sent = [await answer(), await answer('dan'), await forged('share', DUMMY)];
    const renamed = await forged('share', { ...SHARE, ctx: DUMMY.ctx });
    expect(await verdicts([...sent, renamed])).toEqual(['other-kind', 'mismatch', 'mismatch', 'mismatch']);
  });

  it('the keys of one do not open anything of the other', async () => {
    const refused = { code: 'DOCUMENT_INVALID' };
    for (const sent of [await envelope('ben', { signingKey: ben.key }), await answer()])
      await expect(openShares(rehearsal(), [arrived(sent)], people)).rejects.toMatchObject(refused);
    await expect(openRehearsalAnswer(record(keys, { holders }), arrived(await answer()), people)).rejects.toMatchObject(
      refused,
    );
  });
});

describe('reading a share from its holder', () => {
  it('accepts hexadecimal and base64, in groups and over lines, and returns the same', () => {
    const text = shareText(9);
    const base64 = Buffer.from(text, 'hex').toString('base64');
    const grouped = [' ', '\u200b'].map((between) => `${text.replace(/(.{8})/g, `$1${between}`)}\n`);
    grouped.push(`${base64.slice(0, 20)}\n${base64.slice(20)}`);
    for (const typed of [text, text.toUpperCase(), `  ${text}\n`, base64, base64.replace(/=+$/, ''), ...grouped])
      expect(parseShare(typed).reveal()).toBe(text);
  });

  it.each([
    ['a line of the service’s command line', (_hex: string, base64: string) => `Unseal Key 1: ${base64}`],
    ['a line about a recovery key', (_hex: string, base64: string) => `Recovery Key 2: ${base64}\n`],
    ['a line of an old version', (hex: string) => `Key 1 (hex)    : ${hex}`],
    ['an element of a JSON list', (_hex: string, base64: string) => `    "${base64}",`],
    ['a JSON text with one share', (hex: string) => JSON.stringify({ name: 'ada', share: hex })],
    ['base64 of base64', (_hex: string, base64: string) => Buffer.from(base64).toString('base64')],
    ['base64 of hexadecimal', (hex: string) => Buffer.from(`${hex}\n`).toString('base64')],
    ['quotes', (hex: string) => `'${hex}'`],
  ])('extracts the share from %s', (_what, kept) => {
    const text = shareText(9);
    expect(parseShare(kept(text, Buffer.from(text, 'hex').toString('base64'))).reveal()).toBe(text);
  });

  it.each([
    ['two shares', `${shareText(1)}\n${shareText(2)}`, 'more than one key share'],
    ['the JSON of all shares', JSON.stringify({ keys: [shareText(1), shareText(2)] }), 'more than one key share'],
    ['an armored message', '-----BEGIN PGP MESSAGE-----\n\nwcBMA37rwGt6FS1VAQgA\n', 'still encrypted for you'],
    [
      'an encrypted share',
      Buffer.from(`c1c04c${'07'.repeat(300)}`, 'hex').toString('base64'),
      'still encrypted for you',
    ],
    [
      'a share with one more encoding that is a share too',
      Buffer.from(Buffer.alloc(16, 7).toString('base64')).toString('base64'),
      'encoded once more',
    ],
  ])('names %s, and does not repeat it', async (_what, typed, why) => {
    const { code, text } = await failureOf(() => parseShare(typed));
    expect([code, text]).toEqual(['INVALID_INPUT', expect.stringContaining(why)]);
    expect(text).not.toContain(typed.slice(0, 12));
  });

  it('takes an operation token out of JSON and tables, but never out of a text that may hold a share', () => {
    const token = `hvs.${'aB3'.repeat(8)}`;
    for (const kept of [`{"token": "${token}"}`, `Key      Value\n---      -----\ntoken    ${token}\n`])
      expect(parseOperationToken(kept).reveal()).toBe(token);
    expect(() => parseOperationToken(`${token} ${shareText(9)}`)).toThrow();
    expect(() => parseOperationToken(`${token} hvs.${'cD4'.repeat(8)}`)).toThrow();
  });

  it('refuses invalid input without repeating it', async () => {
    for (const typed of ['canary', `${shareText(9)}00`, shareText(9).slice(0, -1), shareText(9, 15)]) {
      const { code, text } = await failureOf(() => parseShare(typed));
      expect([code, text.includes(typed)]).toEqual(['INVALID_INPUT', false]);
    }
    expect(() => parseShare('')).toThrow('not a key share');
  });
});
