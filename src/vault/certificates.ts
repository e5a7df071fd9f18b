import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { checkServerIdentity, TLSSocket } from 'node:tls';
import type { ConnectionOptions, DetailedPeerCertificate, PeerCertificate } from 'node:tls';
import { buildConnector } from 'undici';
import { RunbookError, errnoOf, isRunbookError } from '../errors';
import { redactText } from '../secret';
import { isObject, onOneLine } from './shape';

/* Which certificates are believed, and why one was not. */

/** The certificates of a CA file. */
export interface TrustedRoots {
  readonly file: string;
  readonly certificates: readonly X509Certificate[];
  /** Each certificate of the file that cannot be used, and why. */
  readonly leftOut: readonly string[];
  /** Certificates whose time is over, beside others; they are not used either. */
  readonly expired: readonly PlacedCertificate[];
}

interface PlacedCertificate {
  /** Such as `certificate 2 of 3`. */
  readonly place: string;
  readonly x509: X509Certificate;
  /** In milliseconds since the epoch. */
  readonly ends: number;
}

/** A client certificate and its key, as PEM. */
export interface ClientIdentity {
  readonly cert: string;
  readonly key: string;
}

const BLOCK = /^-----BEGIN CERTIFICATE-----[ \t\r]*\n((?:(?!-)[^\n]*\n)*)-----END CERTIFICATE-----[ \t\r]*(?:\n|$)/;

/**
 * Reads a CA file as the service's own tools do: every readable certificate counts, whatever stands around it. Node
 * itself stops at the first that it cannot read, and OpenSSL uses an expired one although its successor is there.
 *
 * @param whose - such as `cluster east`, for errors
 * @throws RunbookError TLS_FAILED if the file cannot be read or has no usable certificate
 */
export async function readTrustedRoots(whose: string, file: string, cluster?: string): Promise<TrustedRoots> {
  const refused = (
    what: string,
    observed: string,
    { next = CORRECT_CA_FILE, cause }: { next?: string; cause?: unknown },
  ) =>
    new RunbookError('TLS_FAILED', `${whose}: the CA file ${file} ${what}: ${observed}`, {
      ...{ cluster, cause, observed, next },
      needed: 'one or more PEM certificates of the CA, readable by this program',
    });
  const bytes = await readFile(file).catch((cause: unknown) => {
    const code = errnoOf(cause) ?? 'unknown';
    throw refused('cannot be read', `${UNREADABLE[code] ?? 'it cannot be read'} (${code})`, { cause });
  });
  const { certificates, leftOut } = certificatesIn(file, bytes);
  if (certificates.length === 0) {
    const { observed, next } = leftOut.length > 0 ? { observed: leftOut.join('; ') } : contentOf(file, bytes);
    throw refused('has no readable PEM certificates', observed, { next });
  }
  const now = Date.now();
  const valid = certificates.filter(({ ends }) => ends >= now);
  // If all have ended, the failure names the date.
  const used = valid.length > 0 ? valid : certificates;
  const expired = certificates.filter((each) => !used.includes(each));
  return { file, certificates: used.map(({ x509 }) => x509), leftOut, expired };
}

const CORRECT_CA_FILE =
  'Correct caFile in the inventory (--ca-file of init), the contents of the file, or its permissions.';
const UNREADABLE: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'this program may not read it',
  EISDIR: 'it is a directory',
};

/** What is wrong with CA files: each certificate that is left out, and each file without a usable one. */
export async function caFileFaults(files: readonly string[]): Promise<readonly string[]> {
  const faultsOf = async (file: string) => {
    const { leftOut } = await readTrustedRoots('', file).catch((error: unknown) => {
      if (!isRunbookError(error, 'TLS_FAILED')) throw error;
      return { leftOut: [error.observed] };
    });
    return leftOut.map((fault) => `${file}: ${fault}`);
  };
  return (await Promise.all(files.map(faultsOf))).flat();
}

/** What {@link caFileFaults} needs, as text. */
export const SOUND_CA_FILES = 'CA files whose certificates are all readable';

/** The last content of each CA file, read. A file with the roots of a system takes 75 ms, and it is read for each request. */
const filesRead = new Map<string, { readonly bytes: Buffer } & ReturnType<typeof readCertificates>>();

function certificatesIn(file: string, bytes: Buffer) {
  const known = filesRead.get(file);
  if (known?.bytes.equals(bytes) === true) return known;
  const read = { bytes, ...readCertificates(bytes.toString('utf8')) };
  filesRead.set(file, read);
  return read;
}

/** The certificates of a PEM text. Labels count at the beginning of a line, and only the label CERTIFICATE, as in Go. */
function readCertificates(text: string) {
  const blocks = text
    .replaceAll('\ufeff', '')
    .split(/(?<=^|\n)(?=-----BEGIN )/)
    .filter((block) => /^-----BEGIN [A-Z0-9 ]*CERTIFICATE-----/.test(block));
  const certificates: PlacedCertificate[] = [];
  const leftOut: string[] = [];
  for (const [index, block] of blocks.entries()) {
    const place = `certificate ${index + 1} of ${blocks.length}`;
    const label = /^-----BEGIN ([A-Z0-9 ]+)-----/.exec(block)?.[1] ?? '';
    const x509 = certificateOf(BLOCK.exec(block)?.[1] ?? '');
    if (x509 !== undefined) certificates.push({ place, x509, ends: Date.parse(x509.validTo) });
    else if (label === 'CERTIFICATE') leftOut.push(`${place} is damaged`);
    else
      leftOut.push(`${place} has the label ${label}; only CERTIFICATE counts (\`openssl x509 -in FILE\` converts it)`);
  }
  return { certificates, leftOut };
}

function certificateOf(body: string): X509Certificate | undefined {
  const base64 = body.replace(/\s+/g, '');
  const der = Buffer.from(base64, 'base64');
  try {
    const x509 = new X509Certificate(der);
    // Anything else in the block is damage that the parsers overlook.
    return x509.raw.equals(der) && der.toString('base64') === base64 ? x509 : undefined;
  } catch {
    return undefined;
  }
}

/** What a file without a usable certificate holds instead, and how to convert it. Quotes nothing of it. */
function contentOf(file: string, bytes: Buffer): { readonly observed: string; readonly next?: string } {
  const text = bytes.toString('utf8');
  const labels = [...new Set([...text.matchAll(/-----BEGIN ([A-Z0-9 ]+)-----/g)].map(([, label]) => label))];
  if (text.trim() === '') return { observed: 'it is empty' };
  if (bytes.includes(0) && /^(\xff\xfe|\xfe\xff)/.test(bytes.toString('latin1')))
    return { observed: 'it is UTF-16 text', next: 'Save it as UTF-8 or ASCII.' };
  if (bytes[0] === 0x30 && labels.length === 0)
    return {
      observed: 'it is binary (DER or PKCS #12), not PEM',
      next: `Convert a DER certificate with \`openssl x509 -inform der -in ${file} -out ca.pem\`, and name the new file.`,
    };
  if (/-----BEGIN CERTIFICATE-----\\n/.test(text))
    return { observed: 'its line ends are the two characters \\n, as in JSON', next: 'Replace them with line ends.' };
  if (labels.includes('CERTIFICATE'))
    return { observed: 'the label of its certificate does not begin its line', next: 'Remove the text before it.' };
  if (labels.includes('PKCS7'))
    return {
      observed: 'it is PKCS #7',
      next: `Convert it with \`openssl pkcs7 -print_certs -in ${file} -out ca.pem\`, and name the new file.`,
    };
  return { observed: labels.length > 0 ? `it holds ${labels.join(', ')}` : 'it holds no PEM' };
}

/** The certificate that the other side showed, for the failure of its connection. */
interface Shown {
  readonly names: string;
  /** From the server's own certificate upwards, as far as they were sent or are trusted. */
  readonly chain: readonly [X509Certificate, ...X509Certificate[]];
}

/** What the other side of a failed connection showed. */
const shownAt = new WeakMap<object, Shown>();

/**
 * Makes connections that verify the other side. `onAlert` hears how the other side refused this one, in the handshake or, with
 * TLS 1.3, after it. With a CA file, each of its certificates is trusted by itself, also an
 * issuing CA without its root and a server's own certificate, as in the service's own tools.
 */
export function tlsConnector(
  roots: TrustedRoots | undefined,
  {
    onAlert,
    ...options
  }: Partial<ClientIdentity> & { readonly timeout: number; readonly onAlert?: (code: string, origin: string) => void },
): buildConnector.connector {
  const connect = buildConnector({ ...options, ...verifyingTls(roots, options.timeout) });
  return (target, callback) => {
    let shown: Shown | undefined;
    const socket: unknown = connect(target, (...result) => {
      const [error] = result;
      if (error !== null && shown !== undefined) shownAt.set(error, shown);
      callback(...result);
    });
    if (!(socket instanceof TLSSocket)) return;
    // After a failed verification the socket no longer has the certificate.
    socket.prependOnceListener('secure', () => (shown = shownBy(socket)));
    socket.on('error', (error) => {
      const code = errnoOf(error) ?? '';
      if (code.includes('_ALERT_')) onAlert?.(code, `https://${target.host}`);
    });
  };
}

/** The same verification as options, for what makes its connections itself, such as an agent for a proxy. */
export function verifyingTls(roots: TrustedRoots | undefined, timeout: number): buildConnector.BuildOptions {
  // Explicit, because the default depends on NODE_TLS_REJECT_UNAUTHORIZED.
  return { timeout, allowH2: false, rejectUnauthorized: true, ...trustOf(roots) };
}

function trustOf(roots: TrustedRoots | undefined): ConnectionOptions {
  if (roots === undefined) return {};
  const servers = roots.certificates.filter(({ ca, subject, issuer }) => !ca && subject !== issuer);
  const isServer = ({ fingerprint256 }: PeerCertificate) =>
    servers.some((each) => each.fingerprint256 === fingerprint256);
  return {
    ca: roots.certificates.map(String),
    allowPartialTrustChain: true,
    checkServerIdentity: (host, certificate) =>
      checkServerIdentity(host, certificate) ?? (chainOf(certificate).slice(1).some(isServer) ? NOT_A_CA : undefined),
  };
}

/** OpenSSL lets a trusted certificate that is no CA certificate vouch for another if it only has the key usage for it. */
const NOT_A_CA = Object.assign(new Error('a certificate that is not of a CA vouches for another'), {
  code: 'INVALID_CA',
});

/** The certificate and its issuers, as far as they were sent or are trusted. */
function chainOf(certificate: PeerCertificate | DetailedPeerCertificate): PeerCertificate[] {
  const chain: PeerCertificate[] = [];
  let next: PeerCertificate | DetailedPeerCertificate | undefined = certificate;
  while (next !== undefined && !chain.some(({ fingerprint256 }) => fingerprint256 === next?.fingerprint256)) {
    chain.push(next);
    next = 'issuerCertificate' in next ? next.issuerCertificate : undefined;
  }
  return chain;
}

function shownBy(socket: TLSSocket): Shown | undefined {
  // Not getPeerX509Certificate: in Node 20 it takes the certificate away from the verification that follows.
  const chain = chainOf(socket.getPeerCertificate(true)).flatMap(({ raw }) => (raw as Buffer | undefined) ?? []);
  const [own, ...issuers] = chain.map((raw) => new X509Certificate(raw));
  if (own === undefined) return undefined;
  const names = (own.subjectAltName ?? '').split(', ').map((each) => each.replace(/^(DNS|IP Address|URI|email):/, ''));
  const first = names.filter((each) => each !== '').slice(0, 8);
  const more = names.length > first.length && first.length > 0 ? ` and ${names.length - first.length} more` : '';
  return {
    names: first.length > 0 ? quoted(first.join(', ')) + more : `no name (common name ${nameOf(own.subject)})`,
    chain: [own, ...issuers],
  };
}

/** Error codes of Node and OpenSSL for a rejected certificate or a failed handshake. */
const TLS_CODE =
  /^(ERR_TLS_|ERR_SSL_|CERT_|SELF_SIGNED_|DEPTH_ZERO_|UNABLE_TO_|CRL_|INVALID_(CA|PURPOSE)|PATH_LENGTH_|HOSTNAME_MISMATCH|UNSPECIFIED|EPROTO)/;

/** Why TLS failed, with the name that was asked for, the names of the certificate and what to do. */
export interface TlsFailure {
  readonly observed: string;
  readonly needed: string;
  readonly next: string;
}

/**
 * Explains a failed connection of {@link tlsConnector}.
 *
 * @param code - of the error, such as `CERT_HAS_EXPIRED`
 * @param asked - the host that was asked for, in words
 * @returns undefined if it was not TLS that failed
 */
export function tlsFailureOf(
  error: unknown,
  code: string,
  asked: string,
  roots: TrustedRoots | undefined,
): TlsFailure | undefined {
  if (!TLS_CODE.test(code)) return undefined;
  const shown = isObject(error) ? shownAt.get(error) : undefined;
  if (shown === undefined) return handshakeFailure(code, asked);
  const { chain, names } = shown;
  const [own] = chain;
  const issuer = own.subject === own.issuer ? 'itself' : nameOf(own.issuer);
  const { problem, needed, next } = certificateProblem(code, asked, shown, roots?.file);
  const issuers = chain.map((each) => each.issuer);
  const expired = (roots?.expired ?? []).filter(({ x509 }) => issuers.includes(x509.subject));
  const leftOut = [...(roots?.leftOut ?? []), ...expired.map(expiredText)]
    .map((each) => `; in ${roots?.file}, ${each}`)
    .join('');
  return {
    observed: `${asked} shows a certificate for ${names}, issued by ${issuer}: ${problem} (${code})${leftOut}`,
    needed,
    next,
  };
}

function expiredText({ place, x509, ends }: PlacedCertificate): string {
  return `${place} (${nameOf(x509.subject)}) expired on ${dateText(ends)}`;
}

/** What to do if the other side refused this one with an alert. */
export const ON_ALERT =
  'Ask the administrators of the server to look at the log of the node or of the load balancer in between. The listener may demand a client certificate (tls_require_and_verify_client_cert), or not serve the name.';

/** The other side showed no certificate. */
function handshakeFailure(code: string, asked: string): TlsFailure {
  const observed = (what: string) => `${asked} shows no certificate: ${what} (${code})`;
  if (/WRONG_VERSION_NUMBER|PACKET_LENGTH|HTTP_REQUEST|UNEXPECTED_MESSAGE|^EPROTO$/.test(code))
    return {
      observed: observed('the server there does not speak TLS'),
      needed: 'a TLS listener at this address and port',
      next: 'Correct the address or its port. A listener of the service speaks TLS unless it has tls_disable.',
    };
  if (/PROTOCOL/.test(code))
    return {
      observed: observed('it speaks no version of TLS that this program speaks'),
      needed: 'TLS 1.2 or newer',
      next: 'Ask the administrators of the server to allow TLS 1.2 or newer (tls_min_version, tls_max_version of the listener), also on a load balancer in between.',
    };
  return {
    observed: observed('it ended the handshake'),
    needed: 'a listener that accepts this program',
    next: ON_ALERT,
  };
}

const SYSTEM_ROOTS =
  ' If this system trusts the CA, its own file does: /etc/ssl/certs/ca-certificates.crt or /etc/pki/tls/certs/ca-bundle.crt.';
const NO_ISSUER =
  /^(UNABLE_TO_GET_ISSUER_CERT|UNABLE_TO_VERIFY_LEAF_SIGNATURE|SELF_SIGNED_CERT_|DEPTH_ZERO_|CERT_UNTRUSTED)/;

function certificateProblem(code: string, asked: string, { chain, names }: Shown, file: string | undefined) {
  const top = chain.at(-1) ?? chain[0];
  const trusted = file === undefined ? 'among the built-in root certificates' : `in ${file}`;
  const here = file === undefined ? 'a PEM file that caFile in the inventory names (--ca-file of init)' : file;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return {
      problem: `it is not for ${asked}`,
      needed: `a certificate with the name ${asked}, or an address with a name of the certificate`,
      next: `Use an address with one of its names (${names}) in the inventory, or ask the administrators of the server to issue a certificate that has ${asked} among its subject alternative names (an IP address as IP, not as DNS).`,
    };
  if (NO_ISSUER.test(code)) {
    const isChainMissing = chain.length === 1 && top.subject !== top.issuer;
    const wanted = nameOf(top.issuer);
    const add = `Or get the certificate of ${wanted} from the administrators of that CA, and add it to ${here}. It is never taken from the network.${file === undefined ? SYSTEM_ROOTS : ''}`;
    return isChainMissing
      ? {
          problem: `it comes without its chain, and its issuing CA is not ${trusted}`,
          needed: 'the whole chain up to a trusted certificate',
          next: `Have the server send its chain: its own certificate, then the intermediate certificates (tls_cert_file of the service). ${add}`,
        }
      : {
          problem: `it leads to ${wanted}, which is not ${trusted}`,
          needed: `a trusted CA certificate in ${here}`,
          next: add.replace(/^Or get/, 'Get'),
        };
  }
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID') {
    const isOut = ({ validFrom, validTo }: X509Certificate) =>
      code === 'CERT_HAS_EXPIRED' ? Date.parse(validTo) < Date.now() : Date.parse(validFrom) > Date.now();
    const out = chain.find(isOut);
    const when = out && dateText(code === 'CERT_HAS_EXPIRED' ? out.validTo : out.validFrom);
    const whose = out === undefined || out === chain[0] ? 'it' : `the certificate of ${nameOf(out.subject)}`;
    const how = code === 'CERT_HAS_EXPIRED' ? 'expired' : 'is not valid yet';
    return {
      problem: out ? `${whose} ${how} (${when})` : `a certificate ${trusted} ${how}`,
      needed: `certificates that are valid now (${new Date().toISOString()})`,
      next: "Ask the administrators of the server to renew it and reload the listener (SIGHUP for the service); renew the CA file if the CA's certificate is meant. If the time is wrong, correct the clock of this machine.",
    };
  }
  if (code === 'CERT_SIGNATURE_FAILURE')
    return {
      problem: `there is another certificate with the name of its issuer ${trusted}`,
      needed: 'the certificate of the CA that signed it',
      next: `Get the current certificate of ${nameOf(top.issuer)} from the administrators of that CA, and add it to ${here}.`,
    };
  return {
    problem: 'a certificate of its chain may not be used like this',
    needed:
      'a certificate for servers (extended key usage serverAuth), issued by CA certificates (CA:TRUE) that may issue for this name',
    next: 'Ask the administrators of the server to issue a new certificate.',
  };
}

/** @throws RunbookError TLS_FAILED if a file cannot be read or the key does not match the certificate; never quotes a file. */
export async function readClientIdentity(
  cluster: string,
  { certificateFile, keyFile }: { readonly certificateFile: string; readonly keyFile: string },
): Promise<ClientIdentity> {
  try {
    const [cert, key] = await Promise.all([readFile(certificateFile, 'utf8'), readFile(keyFile, 'utf8')]);
    if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) throw new TypeError('another key');
    return { cert, key };
  } catch (cause) {
    const text = `cluster ${cluster}: ${certificateFile} and ${keyFile} are not a client certificate and its key`;
    throw new RunbookError('TLS_FAILED', text, {
      cluster,
      observed:
        /^E[A-Z]+$/.exec(errnoOf(cause) ?? '')?.[0] ??
        'no readable PEM, a key with a passphrase, or the key of another certificate',
      needed: 'a PEM certificate and its unencrypted PEM key, readable by the worker',
      next: 'Correct certificateFile and keyFile in the inventory, the contents of the files, or their permissions.',
    });
  }
}

/** The common name of a subject or issuer, otherwise all of it. */
function nameOf(subject: string): string {
  const name = /^CN=(.+)$/m.exec(subject)?.[1] ?? subject.replaceAll('\n', ', ');
  return `"${quoted(name)}"`;
}

/** A text of a certificate, which may be a stranger's. */
function quoted(text: string): string {
  return onOneLine(redactText(text)).replaceAll('"', "'").slice(0, 200);
}

function dateText(date: string | number): string {
  return new Date(date).toISOString().slice(0, 10);
}
