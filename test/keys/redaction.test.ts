import fc from 'fast-check';
import { createHolderKey, newSigningKey } from '../../src/keys/holder-keys';
import { redact, redactText } from '../../src/secret';
import { Secret } from '../../src/secret';
import { shareText, sharedCeremonyKeys } from './builders';

const NONCE = '2dbd10f1-8528-6246-09e7-82b25b8aba63';

describe('secret', () => {
  it.each([
    ['a service token', 'hvs.CAESIJ3dKxGZ0bYt2lPq0w8example'],
    ['a batch token', 'hvb.AAAAAQJ3dKxGZ0bYt2lPq0w8example'],
    ['a recovery token', 'hvr.CAESIJ3dKxGZ0bYt2lPq0w8example'],
    ['the beginning of a token', 'hvb.AAAAAQLq'],
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
  ])('removes %s, also from texts of the service', (_what, secret) => {
    const withUnseen = secret.replace(/^.{4}/, '$&\u200b').replace(/.{4}$/, '\u00ad$&');
    for (const text of [`before "${secret}"`, `before "${withUnseen}"`])
      for (const redacted of [redact(text), redactText(text)]) {
        expect(redacted).toContain('before "[redacted]');
        expect(redacted).not.toContain(secret.slice(8, 40));
      }
  });

  it.each([
    ['hvs.CAESIJ3dKxGZ0bYt2lPq0w8example', 'IJ3d'],
    ['s.Ga5jyNq6kNfRMVQk2LY1j9iu', 'jyNq'],
    [shareText(7), shareText(7).slice(20, 30)],
    ['eyJhbGciOiJFZDI1NTE5In0.eyJjaWQiOiJhIn0.c2lnbmF0dXJl', 'bGci'],
    ['NtbQ8yVnh3Ig7xE2vAq0ZmW5kR9oTjUcLsPdBfYwGeHx', '8yVn'],
  ])('removes text that an invisible character separates from a word, or from another secret: %s', (secret, part) => {
    const broken = secret.replace(/.{14}/, '$&\u200b');
    for (const before of ['token', 'x', '1', 'id-', secret])
      for (const text of [secret, broken, `${secret}\u200bthanks`].map((each) => `my ${before}\u200b${each} to you`))
        for (const redacted of [redact(text), redactText(text)]) {
          expect(redacted).toMatch(/^my .* to you$/);
          expect(redacted).not.toContain(part);
          expect(redacted).not.toContain(secret.slice(-8));
        }
  });

  it.each(['incorrect nonce supplied; nonce for this operation is "', 'Nonce: "'])(
    'removes the right nonce that the service returns for a wrong guess: %s',
    (words) => {
      for (const redacted of [redact(`${words}${NONCE}" and`), redactText(`${words}${NONCE}" and`)])
        expect(redacted).toBe(`${words}[redacted]" and`);
    },
  );

  it('removes generated keys of every kind', async () => {
    const keys = await sharedCeremonyKeys();
    const { file } = await createHolderKey(new Secret('passphrase', 'x'), 4);
    const secrets = [keys.identity.reveal(), keys.pgpPrivateKey.reveal(), file, newSigningKey().jwk.reveal()];
    for (const redacted of secrets.map(redact)) {
      expect(redacted).toContain('[redacted]');
      expect(redacted.length).toBeLessThan(120);
    }
  });

  it.each([
    'cluster east is sealed (503)',
    'node vault-b.payments-production.example.com, and eu.s.payments-production.example.com',
    `run ${NONCE} of deployment:payments`,
    'https://10.1.0.4:8200/v1/sys/replication/dr/secondary/generate-operation-token/attempt',
    '/var/lib/runbooks/configuration/inventory/production/payments.yaml',
    'WAL 18446744073709551615 reached',
    'error unwrapping secondary token: Post "https://10.0.0.1:8200/v1/sys/wrapping/unwrap": dial tcp: i/o timeout',
    'no handler for route "sys/replication/dr/primary/secondary-token". route entry not found.',
  ])('leaves alone: %s', (text) => {
    expect([redact(text), redactText(text)]).toEqual([text, text]);
  });

  it('of texts of the service also removes short base64 and given values, and keeps them short and on one line', () => {
    expect(redactText('share NtbQ8yVnh3Ig7xE2vAq0ZmW5kR9oTjUcLsPdBfYwGeHx')).toBe('share [redacted]');
    expect(redactText('share NtbQ8yVnh3Ig7xE2vAq0ZmW5')).toBe('share [redacted]');
    expect(redactText('key: short\n\tshort', ['short', ''])).toBe('key: [redacted] [redacted]');
    expect(redactText('key: sh\u200bort x\u200bshort', ['short'])).toBe('key: [redacted] [redacted]');
    expect(redactText('id-\u200bNtbQ8yVnh3Ig7xE2vAq0ZmW5')).toBe('[redacted]');
    expect(redactText('word '.repeat(1_000)).length).toBeLessThan(620);
  });

  it('makes no changes the second time', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 200 }), (text) => {
        expect(redact(redact(text))).toBe(redact(text));
      }),
      { seed: 3, numRuns: 300 },
    );
  });
});
