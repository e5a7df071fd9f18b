import fc from 'fast-check';
import { createHolderKey } from '../../src/keys/holder-keys';
import { redact } from '../../src/keys/redaction';
import { newSigningKey } from '../../src/keys/holder-keys';
import { Secret } from '../../src/secret';
import { shareText, sharedCeremonyKeys } from './builders';

const NONCE = '2dbd10f1-8528-6246-09e7-82b25b8aba63';

describe('redaction', () => {
  it.each([
    ['a service token', 'hvs.CAESIJ3dKxGZ0bYt2lPq0w8example'],
    ['a batch token', 'hvb.AAAAAQJ3dKxGZ0bYt2lPq0w8example'],
    ['a recovery token', 'hvr.CAESIJ3dKxGZ0bYt2lPq0w8example'],
    ['a legacy service token', 's.Ga5jyNq6kNfRMVQk2LY1j9iu'],
    ['a legacy batch token', 'b.AAAAAQL5sbYhC2mVY1K9aXkXf0Ga5jyNq6kNfRMVQk2'],
    ['a signed document', 'eyJhbGciOiJFZDI1NTE5In0.eyJjaWQiOiJhIn0.c2lnbmF0dXJl'],
    ['a sealed value', 'eyJhbGciOiJkaXIifQ..bm9uY2U.Y2lwaGVy.dGFn'],
    ['an age identity', 'AGE-SECRET-KEY-PQ-1254UCAQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L'],
    ['a share in hexadecimal', shareText(7)],
    ['a share in base64', Buffer.from(shareText(7), 'hex').toString('base64')],
    ['a short share in base64', Buffer.from(shareText(7, 16), 'hex').toString('base64')],
    ['a private key', '-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIE\n-----END EC PRIVATE KEY-----'],
    ['a PGP block that is cut off', '-----BEGIN PGP MESSAGE-----\n\nwV4DmK\nabc'],
  ])('takes out %s', (_what, secret) => {
    const redacted = redact(`before "${secret}"`);
    expect(redacted).toContain('before "[redacted');
    expect(redacted).not.toContain(secret.slice(8, 40));
  });

  it('takes out the right nonce that the service tells whoever guesses wrong', () => {
    const redacted = redact(`incorrect nonce supplied; nonce for this operation is "${NONCE}"`);
    expect(redacted).toContain('incorrect nonce supplied');
    expect(redacted).not.toContain(NONCE);
  });

  it('takes out generated keys of every kind', async () => {
    const keys = await sharedCeremonyKeys();
    const holder = await createHolderKey(new Secret('passphrase', 'x'), 4);
    for (const secret of [
      keys.identity.reveal(),
      keys.pgpPrivateKey.reveal(),
      holder.file,
      newSigningKey().jwk.reveal(),
    ]) {
      const redacted = redact(secret);
      expect(redacted).toContain('[redacted');
      expect(redacted.length).toBeLessThan(120);
    }
  });

  it('shortens recipients', async () => {
    const { recipient } = await sharedCeremonyKeys();
    expect(redact(recipient)).toBe(`${recipient.slice(0, 13)}...`);
  });

  it.each([
    'cluster east is sealed (503)',
    'run 0f7c9a52-5b0e-4c7a-9d7e-8f1a2b3c4d5e of deployment:payments',
    'https://10.1.0.4:8200/v1/sys/replication/dr/secondary/generate-operation-token/attempt',
    '/var/lib/runbooks/configuration/inventory/production/payments.yaml',
    'WAL 18446744073709551615 reached',
  ])('leaves alone: %s', (text) => {
    expect(redact(text)).toBe(text);
  });

  it('changes nothing the second time', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 200 }), (text) => {
        expect(redact(redact(text))).toBe(redact(text));
      }),
      { seed: 3, numRuns: 300 },
    );
  });
});
