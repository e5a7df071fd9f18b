/** Node.js 20 can hang where a key pair that it generated is exported: neither we nor our libraries let it generate one. */
import { webcrypto } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createCeremonyKeys, newSigningKey, openToken } from '../../src/keys';
import { readSources, ROOT } from '../support/source-graph';

it('new signing keys are different, and sign', () => {
  const [one, other] = [newSigningKey(), newSigningKey()];
  expect(one.key.kid).not.toBe(other.key.kid);
  expect(JSON.parse(one.jwk.reveal())).toMatchObject({ kty: 'OKP', crv: 'Ed25519', x: one.key.x });
});

it('the keys of a ceremony are made without key pairs of the platform', async () => {
  for (const name of ['X25519', 'Ed25519'])
    await expect(webcrypto.subtle.generateKey(name, true, ['sign'])).rejects.toMatchObject({
      name: 'NotSupportedError',
    });
  const keys = await createCeremonyKeys();
  expect(keys.pgpFingerprint).toMatch(/^[0-9a-f]{40}$/);
  await expect(openToken(keys, 'operation-token', 'bm90IGEgdG9rZW4=')).rejects.toThrow('does not open');
  // Every other algorithm is as it was.
  await expect(
    webcrypto.subtle.generateKey({ name: 'AES-GCM', length: 256 }, true, ['encrypt']),
  ).resolves.toBeDefined();
});

it('no program of ours generates key pairs by the platform', () => {
  const users = [...readSources('src', 'activities', 'workflows').values()]
    .map(({ path }) => path)
    .filter((path) => !path.startsWith('src/simulator/'))
    .filter((path) => /\bgenerateKeyPair(Sync)?\(/.test(readFileSync(join(ROOT, path), 'utf8')));
  expect(users).toEqual([]);
});
