/** Time-outs, cancellation, TLS, addresses and the shape of what is sent and read. */
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { listenOnLoopback } from '../../src/simulator';
import { ServiceClient } from '../../src/vault';
import { Secret } from '../../src/secret';
import { temporaryDirectory } from '../support/directory';
import { FOREIGN_CERTIFICATE, LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from './support/loopback-certificate';
import { ScriptedCluster, failureOf, openNode } from './support/scripted-cluster';
import { ScriptedServer } from './support/scripted-server';

const STATUS = 'GET sys/replication/dr/status';
const DEMOTE = 'POST sys/replication/dr/primary/demote';
const PAGE = '<!DOCTYPE html><html><title>Sign in</title></html>';
const disabled = { json: { data: { mode: 'disabled' } } };

describe('a request', () => {
  let node: ScriptedServer;
  let client: ServiceClient;
  const cluster = openNode((...opened) => ([node, client] = opened));

  it('ends by the time-out of the call', async () => {
    node.on(STATUS, { action: 'hang' });
    const failure = await failureOf(client.dr.status({ timeoutMs: 100 }));
    expect(failure).toMatchObject({ code: 'REQUEST_TIMEOUT', outcomeKnown: true });
  });

  it('that is cancelled under way leaves the outcome of a change unknown', async () => {
    const abort = new AbortController();
    node.on(DEMOTE, () => {
      abort.abort();
      return { action: 'hang' };
    });
    const failure = await failureOf(client.dr.primary.demote({ signal: abort.signal }));
    expect(failure).toMatchObject({ code: 'REQUEST_CANCELLED', retryable: false, outcomeKnown: false });
  });

  it('that was cancelled before is not sent', async () => {
    const failure = await failureOf(client.dr.primary.demote({ signal: AbortSignal.abort() }));
    expect(failure).toMatchObject({ code: 'REQUEST_CANCELLED', outcomeKnown: true });
    expect(node.calls).toEqual([]);
  });

  it('that never got a connection was not sent, even if the time-out ended it', async () => {
    // Accepts TCP and never speaks TLS: the connection is not made.
    const silent = createServer(() => undefined);
    const address = `https://127.0.0.1:${await listenOnLoopback(silent)}`;
    const sockets = new Set<{ destroy(): void }>();
    silent.on('connection', (socket) => sockets.add(socket));
    const { dr } = cluster.client([address]);
    const failure = await failureOf(dr.primary.demote({ timeoutMs: 200, node: address }));
    expect(failure).toMatchObject({ code: 'REQUEST_TIMEOUT', outcomeKnown: true });
    expect(await failureOf(dr.status({ node: address }))).toMatchObject({ code: 'UNREACHABLE' });
    sockets.forEach((socket) => socket.destroy());
    silent.close();
  });

  it('does not read an answer over 1 MiB, which blocks the worker, except a paths filter; none without a limit', async () => {
    const padding = 'x'.repeat(1024 * 1024);
    const filter = 'GET sys/replication/performance/primary/paths-filter/an-id';
    node.on(STATUS, { json: { data: { mode: 'disabled', padding } } });
    expect(await failureOf(client.dr.status())).toMatchObject({ code: 'RESPONSE_INVALID' });
    node.on(filter, { json: { data: { mode: 'deny', paths: [padding] } } });
    expect(await client.performance.primary.pathsFilter.read('an-id')).toMatchObject({ paths: [padding] });
    node.on(filter, { json: { data: { mode: 'deny', paths: [padding.repeat(16)] } } });
    expect(await failureOf(client.performance.primary.pathsFilter.read('an-id'))).toMatchObject({
      code: 'RESPONSE_INVALID',
    });
  });

  it('uses the first of two JSON documents and says so', async () => {
    const ended = { nonce: 'n', started: true, progress: 3, required: 3, complete: true, encoded_token: 'AA' };
    node.on('POST sys/replication/dr/secondary/generate-operation-token/update', {
      text: `${JSON.stringify(ended)}\n{"errors":["failed to audit response"]}\n`,
    });
    const share = { key: new Secret('key-share', 'share'), nonce: 'n' };
    const attempt = await client.dr.secondary.generateOperationToken.update(share);
    expect(attempt.complete).toBe(true);
    expect(attempt.encodedToken?.reveal()).toBe('AA');
    expect(cluster.warnings.join()).toContain('first JSON document');
  });

  it('accepts a success without JSON if no data is needed, and refuses it otherwise', async () => {
    node.on(DEMOTE, { text: 'ok' }).on(STATUS, { text: 'ok' });
    expect(await client.dr.primary.demote()).toBeUndefined();
    expect(await failureOf(client.dr.status())).toMatchObject({ code: 'RESPONSE_INVALID', outcomeKnown: true });
  });

  it.each([
    ['a page with status 200', { text: PAGE }, 'RESPONSE_INVALID', 'an HTML page of "sso" with status 200'],
    [
      'a page with status 403',
      { status: 403, text: PAGE },
      'PERMISSION_DENIED',
      'an HTML page of "sso" with status 403',
    ],
    ['a page with status 502', { status: 502, text: PAGE }, 'SERVICE_ERROR', 'an HTML page of "sso" with status 502'],
    ['a demand to log in', { status: 401, text: PAGE }, 'UNEXPECTED_STATUS', 'an HTML page of "sso" with status 401'],
  ])('names the device between it and the service: %s', async (_what, reply, code, observed) => {
    node.on(STATUS, { ...reply, headers: { server: 'sso', 'content-type': 'text/html' } });
    const failure = await failureOf(client.dr.status());
    expect(failure).toMatchObject({ code, outcomeKnown: true });
    expect(failure.observed).toBe(observed);
    expect(failure.next).toContain('Something else than the service answered');
  });

  it('names the target of a redirect of a proxy, without the query, which may hold a secret', async () => {
    node.on(STATUS, { status: 302, text: '', headers: { location: 'https://sso.corp.example/login?rd=CANARY' } });
    const failure = await failureOf(client.dr.status());
    expect(failure.observed).toBe('an answer with status 302, a redirect to https://sso.corp.example');
    expect(JSON.stringify({ ...failure, message: failure.message })).not.toContain('CANARY');
  });

  it('that a page answers with 200 may or may not have taken effect', async () => {
    node.on(DEMOTE, { text: PAGE });
    expect(await failureOf(client.dr.primary.demote())).toMatchObject({
      code: 'RESPONSE_INVALID',
      outcomeKnown: false,
    });
  });

  it('refuses a wrapped answer, except the one with an activation token', async () => {
    const wrapped = { json: { data: null, wrap_info: { token: 'hvs.CANARY', ttl: 300 } } };
    node.on('POST kv/data/marker', wrapped).on('POST sys/replication/dr/primary/secondary-token', wrapped);
    const key = { mount: 'kv', path: 'marker', version: 2, data: { value: 'x' } } as const;
    const failure = await failureOf(client.keyValue.write(key));
    expect(failure).toMatchObject({ code: 'RESPONSE_INVALID', outcomeKnown: false });
    expect(failure.observed).toContain('control group');
    expect(JSON.stringify({ ...failure, message: failure.message })).not.toContain('CANARY');
    expect(await client.dr.primary.secondaryToken({ id: 'west' })).toMatchObject({ form: 'wrapped' });
  });

  it('with a token that no header can carry is refused without repeating it', async () => {
    const failure = await failureOf(client.sys.lookupSelf({ token: new Secret('service-token', 'hvs.CANARY\n') }));
    expect(failure).toMatchObject({ code: 'INVALID_INPUT' });
    expect(failure.message).not.toContain('CANARY');
  });
});

describe('addresses', () => {
  const refusal = (...addresses: string[]): unknown => {
    try {
      return void new ServiceClient({ name: 'east', addresses });
    } catch (error) {
      return error;
    }
  };

  it('may be plain HTTP on loopback only', () => {
    expect(refusal('http://127.0.0.1:8200', 'http://[::1]:8200', 'http://localhost:8200')).toBeUndefined();
    expect(refusal('https://vault.example.com:8200')).toBeUndefined();
    expect(refusal('http://vault.example.com:8200')).toMatchObject({ code: 'INSECURE_ADDRESS' });
    expect(refusal('http://127.0.0.1.example.com')).toMatchObject({ code: 'INSECURE_ADDRESS' });
  });

  it.each(['', 'vault:8200', 'ftp://vault', 'https://u:CANARY@vault', 'https://vault/path', 'https://vault/?a=CANARY'])(
    'that are no bare origin are refused: %s',
    (address) => {
      expect(refusal(address)).toMatchObject({ code: 'INVALID_INPUT' });
      expect(refusal(address)).not.toMatchObject({ message: expect.stringContaining('CANARY') as unknown });
    },
  );
});

describe('TLS', () => {
  const cluster = new ScriptedCluster();
  const folder = temporaryDirectory('client-tls');
  let node: ScriptedServer;

  beforeAll(async () => {
    node = await ScriptedServer.start({ cert: LOOPBACK_CERTIFICATE, key: LOOPBACK_KEY });
    node.active().on(STATUS, disabled);
  });
  afterEach(() => cluster.release());
  afterAll(() => node.stop());

  const withRoots = async (name: string, pem?: string) => {
    const caFile = join(folder, name);
    if (pem !== undefined) await writeFile(caFile, pem);
    return cluster.client([node.address], { caFile });
  };

  it('accepts the certificate that the CA file vouches for', async () => {
    const client = await withRoots('good.pem', LOOPBACK_CERTIFICATE);
    expect(await client.dr.status()).toEqual({ mode: 'disabled' });
  });

  it.each([
    ['that vouches for another', FOREIGN_CERTIFICATE],
    ['without a certificate', 'nothing here'],
    ['with a damaged certificate', LOOPBACK_CERTIFICATE.replace('MII', 'XXX')],
    ['that does not exist', undefined],
  ])('is TLS_FAILED with a CA file %s', async (_, pem) => {
    const client = await withRoots(`bad-${String(pem?.length)}.pem`, pem);
    const failure = await failureOf(client.dr.primary.demote());
    expect(failure).toMatchObject({ code: 'TLS_FAILED', retryable: false, outcomeKnown: true });
  });

  it('is TLS_FAILED without a CA file for a private certificate, and against a plain HTTP port', async () => {
    const plain = (await cluster.node()).address.replace('http:', 'https:');
    for (const address of [node.address, plain])
      expect(await failureOf(cluster.client([address]).dr.status())).toMatchObject({ code: 'TLS_FAILED' });
  });

  it('uses a CA file that was replaced at the next call', async () => {
    const client = await withRoots('renewed.pem', FOREIGN_CERTIFICATE);
    expect(await failureOf(client.dr.status())).toMatchObject({ code: 'TLS_FAILED' });
    await writeFile(join(folder, 'renewed.pem'), LOOPBACK_CERTIFICATE);
    expect(await client.dr.status()).toEqual({ mode: 'disabled' });
  });
});
