import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const fixtures = join(__dirname, '../../simulator/fixtures');
const fixture = (name: string) => readFileSync(join(fixtures, name), 'utf8');

/** A self-signed certificate for 127.0.0.1 with its key, as files and as texts. It protects nothing. */
export const LOOPBACK_TLS = {
  certificateFile: join(fixtures, 'loopback-certificate.pem'),
  keyFile: join(fixtures, 'loopback-key.pem'),
};
export const LOOPBACK_CERTIFICATE = fixture('loopback-certificate.pem');
export const LOOPBACK_KEY = fixture('loopback-key.pem');
/** A certificate that signed nothing here, with its key. */
export const FOREIGN_CERTIFICATE = fixture('foreign-certificate.pem');
export const FOREIGN_KEY = fixture('foreign-key.pem');
