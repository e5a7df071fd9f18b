/** The OpenPGP keys of recipients: those that the service encrypts to are accepted, and each other one is refused with its reason. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as openpgp from 'openpgp';
import { RUNBOOK_INPUTS, inputMistakes } from '../../src/contracts/runbook-inputs';
import { isEncryptedOnlyTo, readRecipientKey } from '../../src/keys';
import type { RecipientKey } from '../../src/keys';
import { encryptedTo, newRecipient, opened } from '../support/recipient';

const keyOf = (name: string) => readFileSync(join(__dirname, 'recipients', `${name}.txt`), 'utf8');
const armoredOf = async (name: string) => {
  const key = await openpgp.readKey({ binaryKey: Buffer.from(keyOf(name), 'base64') });
  return key.armor();
};

async function accepted(text: string): Promise<RecipientKey> {
  const read = await readRecipientKey(text);
  if ('refused' in read) throw new Error(`refused: ${read.refused}`);
  return read;
}
async function refused(text: string) {
  const read = await readRecipientKey(text);
  if (!('refused' in read)) throw new Error('the key was accepted');
  return read;
}

describe('is accepted', () => {
  it.each(['curve25519', 'nistp256', 'rsa2048', 'for-messages'])('without a warning: %s', async (name) => {
    const { pgpPublicKey, warnings } = await accepted(keyOf(name));
    expect([pgpPublicKey, warnings]).toEqual([keyOf(name), []]);
  });

  it.each([
    ['rsa1024', 'RSA with 1024 bits', true],
    ['dsa1024', 'DSA with 1024 bits, ElGamal with 1024 bits', true],
    ['subkey-brainpoolP256r1', 'curve brainpoolP256r1', false],
    ['subkey-secp256k1', 'curve secp256k1', false],
  ])('with a warning of its kind: %s', async (name, kind, isWeak) => {
    const { fingerprint, warnings } = await accepted(keyOf(name));
    expect(fingerprint).toMatch(/^[0-9a-f]{40}$/);
    expect(warnings).toEqual([expect.stringContaining(`of an old or rare kind (${kind}).`)]);
    expect(warnings.join().includes('It is weak')).toBe(isWeak);
  });

  it('armored, and as the base64 of an armored key, as the binary key', async () => {
    const armored = await armoredOf('curve25519');
    const { fingerprint, userIds, warnings } = await accepted(keyOf('curve25519'));
    for (const text of [armored, armored.replaceAll('\n', '\r\n'), Buffer.from(armored).toString('base64')])
      expect(await accepted(text)).toMatchObject({ fingerprint, userIds, warnings });
  });

  it('with others behind it: the first one, with a warning', async () => {
    const both = Buffer.concat(['nistp256', 'curve25519'].map((name) => Buffer.from(keyOf(name), 'base64')));
    const { fingerprint, warnings } = await accepted(both.toString('base64'));
    expect(fingerprint).toBe((await accepted(keyOf('nistp256'))).fingerprint);
    expect(warnings).toEqual(['2 keys were given: the token is encrypted to the first one only.']);
  });

  it('weak as it is, its owner alone reads data that is encrypted to it', async () => {
    const old = await newRecipient({ type: 'rsa', rsaBits: 1024 });
    const key = await accepted(old.publicKey);
    const modern = await newRecipient();
    const encrypted = await encryptedTo(modern, 'hvs.example');
    expect(await isEncryptedOnlyTo(await accepted(modern.publicKey), encrypted)).toBe(true);
    expect(await isEncryptedOnlyTo(key, encrypted)).toBe(false);
    await expect(opened(old, encrypted)).rejects.toThrow();
  });
});

describe('is refused with its reason and advice for its owner', () => {
  it.each([
    [
      'brainpoolP256r1',
      'own signatures are on the curve brainpoolP256r1, which this program cannot verify',
      'Curve25519',
    ],
    ['secp256k1', 'own signatures are on the curve secp256k1, which this program cannot verify', 'Curve25519'],
    ['signs-only', 'cannot encrypt: it is for signatures only', '--quick-add-key'],
    ['expired', 'cannot encrypt: it expired on 2021-01-01', '--quick-set-expire'],
    ['expired-subkey', 'cannot encrypt: its encryption key expired on 2021-01-01', '--quick-set-expire'],
    ['revoked', 'cannot encrypt: it was revoked', 'another key'],
    ['revoked-subkey', 'cannot encrypt: its encryption key was revoked', '--quick-add-key'],
    // The service accepts these and then loses the token: it encrypts to no key without that flag.
    ['for-storage', 'for storage only', '--quick-add-key'],
    ['no-flags', 'no key flags', '--quick-add-key'],
    ['no-user-id', 'without a user ID', 'not from a key server'],
  ])('%s', async (name, reason, next) => {
    const read = await refused(keyOf(name));
    expect(read.refused).toContain(reason);
    expect(read.next).toContain(next);
  });

  it('made in the future, of version 6, too short, of a new algorithm', async () => {
    const made = async (more: object) => {
      const { publicKey } = await openpgp.generateKey({
        ...{ userIDs: [{ email: 'olga@example.com' }], type: 'curve25519', ...more },
        format: 'object',
      });
      return (await refused(Buffer.from(publicKey.write()).toString('base64'))).refused;
    };
    const tomorrow = new Date(Date.now() + 86_400_000);
    expect(await made({ date: tomorrow })).toContain(`made in the future (${tomorrow.toISOString().slice(0, 10)})`);
    expect(await made({ config: { v6Keys: true } })).toContain('of version 6, not 4');
    expect(await made({ type: 'rsa', rsaBits: 768, config: { minRSABits: 768 } })).toContain('RSA key with 768 bits');
    expect(await made({})).toContain('the algorithm x25519');
  });

  it('a private key, armored or not; a name at Keybase; anything else', async () => {
    const { privateKey } = await newRecipient();
    for (const text of [privateKey.armor(), Buffer.from(privateKey.write()).toString('base64')]) {
      const read = await refused(text);
      expect(read.refused).toContain('a PRIVATE key: treat it as exposed');
      expect(read.next).toContain('revokes that key');
    }
    expect((await refused('keybase:olga')).refused).toContain('not looked up');
    expect((await refused('bm90IGEga2V5')).refused).toBe('not an OpenPGP key');
    expect((await refused('no base64!')).refused).toBe('not the base64 of a binary key');
    const damaged = (await armoredOf('curve25519')).replace(/=[\w+/]{4}\n/, '').replace(/\n\w{10}/, '\n!!');
    expect((await refused(damaged)).refused).toMatch(/damaged armored key|not an OpenPGP key/);
  });

  it('longer than its limit: with how to export less', () => {
    const recipientPgpKey = Buffer.alloc(30_000, 7).toString('base64');
    const input = { deployment: 'payments', cluster: 'east', recipientPgpKey, reason: 'why', requestedBy: 'olga' };
    const { error } = RUNBOOK_INPUTS.rootTokenCeremony.safeParse(input);
    expect(error && inputMistakes(error)).toEqual([
      expect.stringMatching(/^recipientPgpKey: at most 20000 characters\. .*export-minimal,no-export-attributes/),
    ]);
  });
});
