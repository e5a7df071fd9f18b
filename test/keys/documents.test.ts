import { sign } from 'node:crypto';
import { inspect } from 'node:util';
import fc from 'fast-check';
import { calculateJwkThumbprint } from 'jose';
import { documentDigest, signDocument, verifyDocument } from '../../src/documents/documents';
import { findInvitation } from '../../src/documents/invitation';
import { formatPublicKey, importPublicKey, parsePublicKey } from '../../src/documents/public-keys';
import { parseFingerprint, spokenFingerprint } from '../../src/documents/public-keys';
import { importSigningKey } from '../../src/documents/signing-keys';
import { newSigningKey } from '../../src/keys/holder-keys';
import { Secret } from '../../src/secret';
import { failureOf } from './builders';

const TYP = 'runbooks-approval-v1';
const { key, jwk } = newSigningKey();
const other = newSigningKey().key;
const resolveKey = (kid: string) => (kid === key.kid ? { name: 'ada', publicKey: importPublicKey(key.x) } : undefined);
const CANARY = 'canary-c4n4ry-in-the-document';
const base64url = (text: string) => Buffer.from(text).toString('base64url');

/** Signs any header over any payload with the right key: what a strict verifier must refuse although it verifies. */
async function forge(header: Record<string, unknown> | string, payload = `{"comment":"${CANARY}"}`): Promise<string> {
  const text = typeof header === 'string' ? header : JSON.stringify(header);
  const input = `${base64url(text)}.${base64url(payload)}`;
  return `${input}.${sign(null, Buffer.from(input), key.privateKey).toString('base64url')}`;
}

const header = { alg: 'Ed25519', typ: TYP, kid: key.kid };

async function refused(jws: unknown): Promise<string> {
  const { code, text } = await failureOf(() => verifyDocument(jws, TYP, resolveKey));
  expect(code).toBe('DOCUMENT_INVALID');
  expect(text).not.toContain(CANARY);
  return text;
}

describe('signed documents', () => {
  it('verify for any payload and give it back with signer and digest', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.integer(), fc.boolean())),
        async (payload) => {
          const jws = await signDocument(TYP, payload, key);
          const verified = await verifyDocument(jws, TYP, resolveKey);
          expect(JSON.stringify(verified.payload)).toBe(JSON.stringify(payload));
          expect(verified).toMatchObject({ kid: key.kid, signer: 'ada', digest: documentDigest(jws) });
        },
      ),
      { seed: 5, numRuns: 40 },
    );
  });

  it('are refused after any change of one character', async () => {
    const jws = await signDocument(TYP, { comment: CANARY }, key);
    await fc.assert(
      fc.asyncProperty(fc.nat(jws.length - 1), fc.constantFrom(...'AQgw09-_.='), async (at, character) => {
        fc.pre(jws[at] !== character);
        await refused(jws.slice(0, at) + character + jws.slice(at + 1));
      }),
      { seed: 7, numRuns: 150 },
    );
  });

  it('interoperate with another implementation of the standard', async () => {
    await expect(verifyDocument(await forge(header, '{"a":1}'), TYP, resolveKey)).resolves.toMatchObject({
      payload: { a: 1 },
    });
  });

  it.each([
    ['an unknown key', { ...header, kid: other.kid }],
    ['another type', { ...header, typ: 'runbooks-decision-v1' }],
    ['no type', { alg: 'Ed25519', kid: key.kid }],
    ['no kid', { alg: 'Ed25519', typ: TYP }],
    ['alg none', { ...header, alg: 'none' }],
    ['alg EdDSA', { ...header, alg: 'EdDSA' }],
    ['alg HS256', { ...header, alg: 'HS256' }],
    ['crit', { ...header, crit: ['exp'], exp: 1 }],
    ['b64', { ...header, b64: false }],
    ['jwk', { ...header, jwk: { kty: 'OKP', crv: 'Ed25519', x: other.x } }],
    ['jku', { ...header, jku: 'https://attacker.example/keys' }],
    ['x5c', { ...header, x5c: [] }],
    ['x5u', { ...header, x5u: 'https://attacker.example/certificate' }],
    ['cty', { ...header, cty: 'JWT' }],
    ['a repeated member', `{"alg":"none","alg":"Ed25519","typ":"${TYP}","kid":"${key.kid}"}`],
    ['white space', `{ "alg":"Ed25519","typ":"${TYP}","kid":"${key.kid}"}`],
    ['a byte order mark', `\uFEFF${JSON.stringify(header)}`],
    ['no JSON', CANARY],
    ['a list', '[]'],
    ['null', 'null'],
  ])('are refused with %s in the header, although the signature is right', async (_what, forged) => {
    await refused(await forge(forged));
  });

  it('are refused if the payload is not JSON, without repeating it', async () => {
    expect(await refused(await forge(header, CANARY))).toContain('not JSON');
  });

  it('are refused if another key signed under this kid', async () => {
    const jws = await signDocument(TYP, { comment: CANARY }, { ...other, kid: key.kid });
    expect(await refused(jws)).toContain('does not verify');
  });

  it('are refused in sloppy base64url', async () => {
    const [head = '', payload = '', signature = ''] = (await signDocument(TYP, { a: 'ab' }, key)).split('.');
    const other = `${signature.slice(0, -1)}${signature.endsWith('A') ? 'B' : 'A'}`;
    for (const parts of [
      [`${head}=`, payload, signature],
      [head, payload, `${signature}==`],
      [head, `${payload}\n`, signature],
      [head, payload, other],
      [head, payload, ''],
      [head, payload],
      [head, payload, signature, signature],
    ])
      await refused(parts.join('.'));
  });

  it.each([[undefined], [null], [7], [{}], [''], ['..'], ['a.b.c']])(
    'refuse an invalid document: %p',
    async (value) => {
      await refused(value);
    },
  );

  it('have at most 16 KiB', async () => {
    const { code } = await failureOf(() => signDocument(TYP, { comment: 'x'.repeat(13_000) }, key));
    expect(code).toBe('DOCUMENT_INVALID');
    expect(await refused(await forge(header, JSON.stringify({ comment: CANARY.repeat(600) })))).toContain('16 KiB');
  });
});

describe('signing keys', () => {
  it('are named by their RFC 7638 thumbprint', async () => {
    expect(key.kid).toBe(await calculateJwkThumbprint({ kty: 'OKP', crv: 'Ed25519', x: key.x }));
  });

  it('come back from their stored form', async () => {
    expect((await importSigningKey(jwk)).kid).toBe(key.kid);
    expect(parsePublicKey(formatPublicKey(key))).toEqual({ kid: key.kid, x: key.x });
    expect(Buffer.from(spokenFingerprint(key.kid).replaceAll(' ', ''), 'hex').toString('base64url')).toBe(key.kid);
  });

  it('refuse a line whose fingerprint is not the one of its key', () => {
    expect(parsePublicKey(`${other.kid}:${key.x}`)).toBeUndefined();
    expect(parsePublicKey(`${key.kid}:${key.x}=`)).toBeUndefined();
    expect(parsePublicKey(`${key.kid}:${key.x}:${key.x}`)).toBeUndefined();
    expect(parsePublicKey(key.kid)).toBeUndefined();
  });

  it.each([
    ['text', CANARY],
    ['another curve', JSON.stringify({ kty: 'EC', crv: 'P-256', d: CANARY, x: 'a' })],
    ['a public half that does not fit', JSON.stringify({ ...(JSON.parse(jwk.reveal()) as object), x: other.x })],
  ])('refuse %s without repeating it', async (_what, text) => {
    const failure = await failureOf(() => importSigningKey(new Secret('private-key', text)));
    expect(failure.code).toBe('DOCUMENT_INVALID');
    expect(failure.text).not.toContain(CANARY);
  });

  it('do not print their private half', () => {
    const d = (JSON.parse(jwk.reveal()) as { d: string }).d;
    expect(inspect(key, { depth: 9, showHidden: true })).not.toContain(d);
    expect(JSON.stringify(key)).not.toContain(d);
  });
});

const PASTED = `eyJhbGciOiJFZDI1NTE5In0.${'Ab-_9'.repeat(60)}.${'Sig0'.repeat(20)}`;

describe('an invitation in a pasted text', () => {
  it.each([
    ['alone', PASTED],
    ['as the Web UI shows the answer of a query', `[\n  "${PASTED}"\n]`],
    ['broken into lines', PASTED.replace(/(.{60})/g, '$1\r\n')],
    ['in a message', `Hello ben,\nplease give your share: ${PASTED}\nThank you.`],
    ['twice, and beside a public key', `${PASTED}\n${PASTED}\n${formatPublicKey(key)}`],
  ])('is found %s', (_, text) => expect(findInvitation(text)).toBe(PASTED));

  it.each([
    ['nothing', ''],
    ['two', `${PASTED} ${PASTED}x`],
    ['too much', `${PASTED} `.repeat(400)],
    ['a share', '5e'.repeat(33)],
  ])('is refused if there is %s, without repeating it', async (_, text) => {
    const { code, text: told } = await failureOf(() => findInvitation(text));
    expect([code, told.includes('5e5e')]).toEqual(['DOCUMENT_INVALID', false]);
  });
});

it('a fingerprint is read as a person noted it, and refused if a part is missing or wrong', () => {
  const spoken = spokenFingerprint(key.kid);
  const capitals = spoken.replaceAll(' ', '').toUpperCase();
  const lines = `${spoken.slice(0, 40)}\n${spoken.slice(40)}`;
  for (const noted of [spoken, capitals, lines, key.kid, ` ${formatPublicKey(key)} `])
    expect(parseFingerprint(noted)).toBe(key.kid);
  const mistaken = formatPublicKey(key).replace(/^./, (first) => (first === '_' ? '-' : '_'));
  for (const wrong of [spoken.slice(0, 39), `${spoken} 00`, spoken.replace(/^../, 'zz'), '', mistaken])
    expect(parseFingerprint(wrong)).toBeUndefined();
});
