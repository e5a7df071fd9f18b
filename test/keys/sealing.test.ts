import fc from 'fast-check';
import { CompactEncrypt } from 'jose';
import { inspect } from 'node:util';
import type { Sealed } from '../../src/contracts/ceremony';
import { Secret } from '../../src/secret';
import { newSealKey, openValue, SealKeyring, sealValue } from '../../src/keys/sealing';
import type { OpenSpec, RunContext, SealSpec } from '../../src/keys/sealing';
import { failureOf, RUN } from './builders';

const keyText = newSealKey('first').reveal();
const keyring = SealKeyring.parse(keyText);
const CANARY = 'hvs.canary0canary0canary0canary0';
const token = new Secret('operation-token', CANARY);
const spec: SealSpec = {
  kind: 'operation-token',
  cluster: 'west',
  clusterId: 'id-west',
  uses: ['dr.promote', 'dr.operation-token.delete'],
  expSeconds: 600,
};
const opening: OpenSpec = {
  kind: 'operation-token',
  cluster: 'west',
  clusterId: 'id-west',
  use: 'dr.promote',
};
const seal = (changes: Partial<typeof spec> = {}) => sealValue(keyring, RUN, { ...spec, ...changes }, token);

async function refused(
  sealed: unknown,
  changes: Partial<OpenSpec> = {},
  context: RunContext = RUN,
  ring = keyring,
): Promise<string> {
  const { code, text } = await failureOf(() =>
    openValue(ring, context, sealed as Sealed<'operation-token'>, { ...opening, ...changes }),
  );
  expect(code).toBe('SEALED_VALUE_INVALID');
  expect(text).not.toContain(CANARY);
  return text;
}

afterEach(() => jest.useRealTimers());

describe('sealed values', () => {
  it('open for exactly their own use, whatever the secret', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme' }), async (value) => {
        const sealed = await sealValue(keyring, RUN, spec, new Secret('operation-token', value));
        expect((await openValue(keyring, RUN, sealed, opening)).reveal()).toBe(value);
      }),
      { seed: 11, numRuns: 40 },
    );
  });

  it('do not show the secret', async () => {
    const sealed = await seal();
    const readable = sealed
      .split('.')
      .map((part) => Buffer.from(part, 'base64url').toString('latin1'))
      .join('\n');
    expect(readable).not.toContain(CANARY.slice(4));
    expect(inspect(keyring, { depth: 9, showHidden: true })).not.toContain(keyText.split(':')[1]);
    expect(JSON.stringify({ keyring })).toBe('{"keyring":"[redacted]"}');
  });

  it('are refused after any change of one character', async () => {
    const sealed = await seal();
    await fc.assert(
      fc.asyncProperty(fc.nat(sealed.length - 1), fc.constantFrom(...'AQgw09-_.='), async (at, character) => {
        fc.pre(sealed[at] !== character);
        await refused(sealed.slice(0, at) + character + sealed.slice(at + 1));
      }),
      { seed: 13, numRuns: 120 },
    );
  });

  it('open for deletion in a later run of the workflow and after their expiry, and for no other use there', async () => {
    const sealed = await seal({ expSeconds: 60 });
    jest.useFakeTimers({ now: Date.now() + 61_000 });
    const later = { ...RUN, rid: 'later' };
    const deletion = { ...opening, use: 'dr.operation-token.delete', forDeletion: true };
    expect((await openValue(keyring, later, sealed, deletion)).reveal()).toBe(CANARY);
    await refused(sealed, { forDeletion: true }, later);
    await refused(sealed, { use: deletion.use }, later);
    await refused(sealed, deletion, { ...later, wid: 'deployment:other' });
  });

  it('are refused with a header that is not the agreed one, although the key fits', async () => {
    const key = keyring.derivedKey('first') ?? new Uint8Array();
    const now = Math.floor(Date.now() / 1000);
    const { expSeconds: _life, ...bound } = spec;
    const header = {
      ...{ alg: 'dir', enc: 'A256GCM', typ: 'runbooks-sealed-v1', kid: 'first', ...RUN },
      ...{ ...bound, uses: [...bound.uses], iat: now, exp: now + 60 },
    };
    const encrypt = (changed: object) =>
      new CompactEncrypt(Buffer.from(CANARY)).setProtectedHeader({ ...header, ...changed }).encrypt(key);
    const accepted = await openValue(keyring, RUN, (await encrypt({})) as Sealed<'operation-token'>, opening);
    expect(accepted.reveal()).toBe(CANARY);
    const wrong = { typ: 'runbooks-sealed-v2', zip: 'DEF', extra: 1, uses: 'dr.promote', exp: 'never' };
    for (const [member, value] of Object.entries(wrong)) {
      const sealed = await encrypt({ [member]: value }).catch(() => undefined);
      await refused(sealed);
    }
  });

  it('refuse an implausible time to live', async () => {
    for (const expSeconds of [0, -1, Number.NaN, Date.now() / 1000]) {
      expect((await failureOf(() => seal({ expSeconds }))).code).toBe('SEALED_VALUE_INVALID');
    }
  });
});

describe('the keyring', () => {
  it('opens with every entry and seals with the first, so that keys can be rotated', async () => {
    const sealed = await seal();
    const next = newSealKey('second').reveal();
    const rotated = SealKeyring.parse(`${next},${keyText}`);
    expect(rotated.sealingKid).toBe('second');
    expect((await openValue(rotated, RUN, sealed, opening)).reveal()).toBe(CANARY);
    await refused(sealed, {}, RUN, SealKeyring.parse(next));
    await refused(sealed, {}, RUN, SealKeyring.parse(newSealKey('first').reveal()));
  });

  it.each([
    ['nothing', ''],
    ['an empty value', ' , '],
    ['no name', Buffer.alloc(32, 7).toString('base64')],
    ['a short key', `k:${Buffer.alloc(16, 7).toString('base64')}`],
    ['no base64', 'k:canary*canary*canary*canary*canary*canary*!!'],
    ['a repeated name', `${keyText},${newSealKey('first').reveal()}`],
  ])('refuses %s without repeating it', async (_what, text) => {
    const failure = await failureOf(() => SealKeyring.parse(text));
    expect(failure.code).toBe('SEAL_KEY_MISSING');
    for (const entry of text.split(/[,:]/)) if (entry.length > 8) expect(failure.text).not.toContain(entry);
  });
});
