import * as openpgp from 'openpgp';
import type { Report } from '../../src/contracts/report';

/** The recipient of a root token: only the owner of the private key can read it. */
export interface Recipient {
  /** Base64 of the binary public key. */
  readonly publicKey: string;
  readonly privateKey: openpgp.PrivateKey;
}

/** Keys of an old kind too. */
const WEAK = { minRSABits: 1024 };

export async function newRecipient(
  kind: { type: 'ecc'; curve: 'curve25519Legacy' } | { type: 'rsa'; rsaBits: number } = {
    type: 'ecc',
    curve: 'curve25519Legacy',
  },
): Promise<Recipient> {
  const { privateKey, publicKey } = await openpgp.generateKey({
    ...kind,
    config: WEAK,
    userIDs: [{ name: 'Olga', email: 'olga@example.com' }],
    date: new Date(Date.now() - 60_000),
    format: 'object',
  });
  return { publicKey: Buffer.from(publicKey.write()).toString('base64'), privateKey };
}

/** Decrypts the token in the result of a `rootTokenCeremony`. */
export function decrypted(recipient: Recipient, report: Report): Promise<string> {
  return opened(recipient, (report.result as { readonly encryptedToken: string }).encryptedToken);
}

/** Decrypts an encoded token. */
export async function opened({ privateKey }: Recipient, encodedToken: string): Promise<string> {
  const message = await openpgp.readMessage({ binaryMessage: Buffer.from(encodedToken, 'base64') });
  const read: { data: unknown } = await openpgp.decrypt({
    ...{ message, decryptionKeys: privateKey, config: WEAK },
    format: 'utf8',
  });
  return String(read.data);
}

/** Encrypts a text for the recipient, in the form of an encoded token. */
export async function encryptedTo({ publicKey }: Recipient, text: string): Promise<string> {
  const encryptionKeys = await openpgp.readKey({ binaryKey: Buffer.from(publicKey, 'base64') });
  const message = await openpgp.createMessage({ text });
  const binary: unknown = await openpgp.encrypt({ message, encryptionKeys, format: 'binary' });
  return Buffer.from(binary as Uint8Array).toString('base64');
}
