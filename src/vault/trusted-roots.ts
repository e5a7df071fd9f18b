import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { RunbookError } from '../errors';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * The text of a CA file after its certificates have been parsed: Node itself ignores what it cannot read, and the call
 * would fail later with a text that does not name the file.
 *
 * @throws RunbookError TLS_FAILED where the file cannot be read or holds no valid certificate.
 */
export async function readTrustedRoots(cluster: string, caFile: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(caFile, 'utf8');
  } catch (error) {
    throw new RunbookError('TLS_FAILED', `cluster ${cluster}: the CA file ${caFile} cannot be read`, {
      cluster,
      cause: error,
      next: 'Correct caFile in the inventory, or the permissions of the file.',
    });
  }
  const certificates = text.match(CERTIFICATE) ?? [];
  if (certificates.length === 0 || !certificates.every(isCertificate)) {
    throw new RunbookError('TLS_FAILED', `cluster ${cluster}: the CA file ${caFile} does not hold PEM certificates`, {
      cluster,
      needed: 'one or more PEM certificates',
    });
  }
  return text;
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).subject !== undefined;
  } catch {
    return false;
  }
}
