/** CA files: what the service's own tools accept is accepted, with the same trust, and every refusal names its reason. */
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { listenOnLoopback } from '../../src/simulator';
import { temporaryDirectory } from '../support/directory';
import { ScriptedCluster, failureOf } from './support/scripted-cluster';
import { ScriptedServer } from './support/scripted-server';

const STATUS = 'GET sys/replication/dr/status';
const directory = temporaryDirectory('ca-files');
const pem = (...names: readonly string[]) =>
  names.map((name) => readFileSync(join(__dirname, 'support/certificates', `${name}.pem`), 'utf8')).join('');
const key = readFileSync(join(__dirname, 'support/certificates/server.key'), 'utf8');
const body = (name: string) => pem(name).replace(/-----[^-]+-----|\s/g, '');
const block = (text: string) => `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----\n`;

const cluster = new ScriptedCluster();
const servers: ScriptedServer[] = [];
afterEach(async () => {
  await cluster.release();
  for (const server of servers.splice(0)) await server.stop();
});

/** A node that shows these certificates, and a client that trusts this CA file. */
async function reach(chain: readonly string[], caFile: string | Buffer | undefined) {
  const node = await ScriptedServer.start({ cert: pem(...chain), key });
  servers.push(node);
  node.active().on(STATUS, { json: { data: { mode: 'disabled' } } });
  const file = join(directory, 'ca.pem');
  if (caFile !== undefined) await writeFile(file, caFile);
  const client = cluster.client([node.address], caFile === undefined ? {} : { caFile: file });
  return { node, client, file };
}

const CHAIN = ['server', 'issuing'];
const BOM = '\ufeff';

describe('a CA file is accepted', () => {
  it.each<[string, readonly string[], string]>([
    ['that holds only the issuing CA, without its root', CHAIN, pem('issuing')],
    ['that holds only the issuing CA, while the node does not send its chain', ['server'], pem('issuing')],
    ['that holds the chain of the server, without its root', CHAIN, pem('server', 'issuing')],
    ['that holds the certificate of the server alone', CHAIN, pem('server')],
    ['that holds a certificate that signed itself and is of no CA', ['self-signed'], pem('self-signed')],
    ['with a byte order mark', CHAIN, BOM + pem('root')],
    ['made of files that each begin with a byte order mark', CHAIN, pem('same-name') + BOM + pem('root')],
    ['with the line ends of Windows', CHAIN, pem('issuing', 'root').replaceAll('\n', '\r\n')],
    ['with comments and blanks', CHAIN, `# -----\n  Issuer: x\n${pem('root').replaceAll('\n', ' \t\n')}# end`],
    ['with each certificate on one line', CHAIN, block(body('root'))],
    ['without a line end at its end', CHAIN, pem('root').trimEnd()],
    ['that also holds a private key', CHAIN, key + pem('root')],
    ['with a certificate whose time is over beside its successor', CHAIN, pem('expired-issuing', 'issuing')],
    ['with a certificate whose time is over beside its root', CHAIN, pem('expired-issuing', 'root')],
    ['that has another CA with the same name first', CHAIN, pem('same-name', 'root')],
  ])('%s', async (_name, chain, caFile) => {
    const { client } = await reach(chain, caFile);
    expect(await client.dr.status()).toEqual({ mode: 'disabled' });
    expect(cluster.warnings).toEqual([]);
  });

  it.each<[string, string, string]>([
    ['damaged last', pem('issuing', 'root') + block('MIIBbrokenbroken'), 'certificate 3 of 3 is damaged'],
    ['damaged first', block('MIIBbrokenbroken') + pem('root'), 'certificate 1 of 2 is damaged'],
    ['without its end', pem('issuing').replace(/-----END.*\n/, '') + pem('root'), 'certificate 1 of 2 is damaged'],
    ['cut off at the end', pem('root') + pem('issuing').slice(0, 200), 'certificate 2 of 2 is damaged'],
    ['with bytes behind it', pem('root') + block(`${body('issuing')}AAAA`), 'certificate 2 of 2 is damaged'],
    ['with another label', pem('root') + pem('issuing').replaceAll('CERT', 'X509 CERT'), 'has the label X509 CERT'],
  ])('with one certificate %s among good ones, which is reported', async (_name, caFile, told) => {
    const { client, file } = await reach(CHAIN, caFile);
    expect(await client.dr.status()).toEqual({ mode: 'disabled' });
    expect(await client.dr.status()).toEqual({ mode: 'disabled' });
    expect(cluster.warnings).toEqual([expect.stringContaining(file)]);
    expect(cluster.warnings[0]).toContain(told);
  });
});

describe('a file that the official client refuses stays refused', () => {
  it.each<[string, readonly string[], string, string]>([
    ['a CA with the same name and another key', CHAIN, 'same-name', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY'],
    ['a trusted server that vouches for another', ['by-server', 'server', 'issuing'], 'server', 'INVALID_PURPOSE'],
    ['a certificate that may sign and is of no CA', ['by-usage-only', 'usage-only'], 'usage-only', 'INVALID_CA'],
    ['the same while the node does not send it', ['by-usage-only'], 'usage-only', 'INVALID_CA'],
    ['a CA that may not issue for the name', ['by-constrained'], 'constrained', 'UNSPECIFIED'],
    ['a certificate for clients', ['client-only', 'issuing'], 'issuing', 'INVALID_PURPOSE'],
    ['a trusted certificate for clients', ['client-only'], 'client-only', 'INVALID_PURPOSE'],
    ['a certificate whose time is over', ['expired-server', 'issuing'], 'issuing', 'CERT_HAS_EXPIRED'],
    ['an issuing CA whose time is over', CHAIN, 'expired-issuing', 'CERT_HAS_EXPIRED'],
    ['a trusted certificate for another name', ['other-name'], 'other-name', 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['a chain that ends in no trusted certificate', CHAIN, 'self-signed', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY'],
  ])('%s', async (_name, chain, caFile, code) => {
    const { node, client } = await reach(chain, pem(caFile));
    const failure = await failureOf(client.dr.primary.demote({ node: node.address }));
    expect(failure).toMatchObject({ code: 'TLS_FAILED', retryable: false, outcomeKnown: true });
    expect(failure.observed).toContain(`(${code})`);
    expect(node.requests).toEqual([]);
  });

  it.each([
    ['of a certificate with trust settings', 'TRUSTED CERTIFICATE'],
    ['of an old certificate', 'X509 CERTIFICATE'],
  ])('the label %s, also beside a good certificate', async (_name, label) => {
    const { client } = await reach(CHAIN, pem('self-signed') + pem('root').replaceAll('CERTIFICATE', label));
    const failure = await failureOf(client.dr.status());
    expect(failure.code).toBe('TLS_FAILED');
    expect(failure.observed).toContain(`certificate 2 of 2 has the label ${label}`);
  });

  it.each(['  -----BEGIN', 'ca: -----BEGIN'])('a label that does not begin its line: %s', async (begin) => {
    const { client } = await reach(CHAIN, pem('root').replace('-----BEGIN', begin));
    expect((await failureOf(client.dr.status())).observed).toContain('does not begin its line');
  });
});

describe('a refusal shows the requested name, the names of the certificate, and what to do', () => {
  it.each<[string, readonly string[], string | undefined, readonly RegExp[]]>([
    [
      'another name',
      ['other-name', 'issuing'],
      'root',
      [/127\.0\.0\.1 shows a certificate for vault-1\.example, vault\.example/, /not for 127\.0\.0\.1/, /inventory/],
    ],
    [
      'no chain',
      ['server'],
      'root',
      [/127\.0\.0\.1 shows .* 127\.0\.0\.1, localhost, issued by "Example Issuing CA 1"/, /chain/, /tls_cert_file/],
    ],
    ['an unknown CA', CHAIN, 'self-signed', [/leads to "Example Root CA"/, /not in .*ca\.pem/, /add it to .*ca\.pem/]],
    ['an unknown CA, without a CA file', CHAIN, undefined, [/built-in/, /caFile .*--ca-file.*ca-certificates\.crt/]],
    ['a certificate that signed itself', ['self-signed'], 'root', [/issued by itself/, /add it to/]],
    ['a server certificate that has ended', ['expired-server', 'issuing'], 'root', [/it expired \(20\d\d-/, /renew/]],
    ['a CA that has ended', ['server', 'expired-issuing'], 'root', [/of "Example Issuing CA 1" expired/, /clock/]],
    ['a wrong purpose', ['client-only', 'issuing'], 'root', [/may not be used/, /serverAuth/, /issue a new/]],
  ])('%s', async (_name, chain, caFile, texts) => {
    const { node, client } = await reach(chain, caFile && pem(caFile));
    for (const failure of [
      await failureOf(client.dr.status()),
      await failureOf(client.dr.primary.demote({ node: node.address })),
    ]) {
      const { message, observed = '', needed = '', next = '' } = failure;
      expect(message).toContain(observed);
      expect(observed).toMatch(/^127\.0\.0\.1 shows a certificate for /);
      for (const text of texts) expect(`${observed} ${needed} ${next}`).toMatch(text);
      expect(next).not.toBe('');
    }
  });

  it('the certificate of its issuer in the CA file, if it has expired', async () => {
    const { client } = await reach(['server'], pem('self-signed', 'expired-issuing'));
    const { observed } = await failureOf(client.dr.status());
    expect(observed).toMatch(/ca\.pem, certificate 2 of 2 \("Example Issuing CA 1"\) expired on 20\d\d-/);
  });

  it('plain HTTP behind an https address', async () => {
    const { address } = await cluster.node();
    const failure = await failureOf(cluster.client([address.replace('http:', 'https:')]).dr.status());
    expect(failure.observed).toMatch(/^127\.0\.0\.1 shows no certificate: the server there does not speak TLS/);
    expect(failure.next).toContain('tls_disable');
  });

  it.each([
    [
      'only old versions of TLS',
      { maxVersion: 'TLSv1.1', minVersion: 'TLSv1', ciphers: 'ALL:@SECLEVEL=0' },
      /TLS 1\.2/,
    ],
    ['a demand for a client certificate', { requestCert: true, maxVersion: 'TLSv1.2' }, /tls_require_and_verify/],
    ['the same with TLS 1.3, after the handshake', { requestCert: true }, /tls_require_and_verify/],
  ] as const)('%s', async (_name, options, next) => {
    const server = createTlsServer({ cert: pem(...CHAIN), key, ...options });
    server
      .on('tlsClientError', () => undefined)
      .on('secureConnection', (socket) => socket.on('error', () => undefined));
    const address = `https://127.0.0.1:${await listenOnLoopback(server)}`;
    const file = join(directory, 'root.pem');
    await writeFile(file, pem('root'));
    const failure = await failureOf(cluster.client([address], { caFile: file }).dr.status());
    expect(failure.next).toMatch(next);
    server.close();
  });

  it('nothing else: a node that does not respond is unreachable', async () => {
    const silent = createServer((socket) => socket.destroy());
    const address = `https://127.0.0.1:${await listenOnLoopback(silent)}`;
    expect((await failureOf(cluster.client([address]).dr.status())).code).toBe('UNREACHABLE');
    silent.close();
  });

  it('one node of several is reported too when no node leads', async () => {
    const { node, file } = await reach(['other-name', 'issuing'], pem('root'));
    const standby = await cluster.node();
    standby.standby('');
    const client = cluster.client([node.address, standby.address], { caFile: file });
    const failure = await failureOf(client.dr.primary.demote());
    expect(failure.code).toBe('NO_ACTIVE_NODE');
    expect(failure.observed).toContain('127.0.0.1 shows a certificate for vault-1.example');
    expect(failure.next).toContain('Use an address with one of its names');
  });
});

describe('a CA file without a usable certificate is refused with its contents named', () => {
  const utf16 = Buffer.from(`${BOM}${pem('root')}`, 'utf16le');
  it.each<[string, string | Buffer, RegExp]>([
    ['nothing', ' \n', /it is empty/],
    ['a page', '<html>Sign in</html>', /holds no PEM/],
    ['DER', Buffer.from(body('root'), 'base64'), /DER/],
    ['UTF-16, as a shell of Windows writes it', utf16, /UTF-16/],
    ['a key', key, /it holds (EC )?PRIVATE KEY/],
    ['PKCS #7', '-----BEGIN PKCS7-----\nMIIB\n-----END PKCS7-----\n', /PKCS #7/],
    ['JSON', JSON.stringify(pem('root')), /characters \\n/],
    ['certificates glued together', pem('root').trimEnd() + pem('issuing'), /certificate 1 of 1 is damaged/],
    ['one damaged certificate', pem('root').replace('MII', 'XXX'), /certificate 1 of 1 is damaged/],
  ])('%s', async (_name, caFile, reason) => {
    const { client, file } = await reach(CHAIN, caFile);
    const failure = await failureOf(client.dr.status());
    expect(failure).toMatchObject({ code: 'TLS_FAILED', outcomeKnown: true });
    expect(failure.message).toContain(file);
    expect(failure.observed).toMatch(reason);
    expect(failure.next).toMatch(/caFile|name the new file|UTF-8|line ends|before it/);
    expect(JSON.stringify({ ...failure, message: failure.message })).not.toContain(body('root').slice(20, 40));
  });

  it.each([
    ['a folder', 'EISDIR', (path: string) => mkdir(path)],
    ['no file', 'ENOENT', () => Promise.resolve()],
  ])('%s', async (name, code, make) => {
    const caFile = join(directory, name);
    await make(caFile);
    const failure = await failureOf(cluster.client(['https://127.0.0.1:1'], { caFile }).dr.status());
    expect(failure).toMatchObject({ code: 'TLS_FAILED', observed: expect.stringContaining(`(${code})`) as string });
  });
});
