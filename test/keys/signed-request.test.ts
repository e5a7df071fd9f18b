/** Requests to the gateway's mailbox, on the side of the person who signs them. */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { claimedHeader, verifyDocument } from '../../src/documents/documents';
import { askMailbox } from '../../src/documents/mailbox';
import { importPublicKey } from '../../src/documents/public-keys';
import { gatewayOrigin, requestPayload, signRequest } from '../../src/documents/signed-request';
import { newSigningKey } from '../../src/keys/holder-keys';
import { failureOf } from './builders';

const { key } = newSigningKey();
const servers: Server[] = [];

async function gatewayThat(answer: RequestListener) {
  const server = createServer(answer).listen(0, '127.0.0.1');
  servers.push(server);
  await new Promise((resolve) => server.once('listening', resolve));
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, name: 'ada', key };
}

afterAll(() => servers.forEach((server) => server.close()));

async function payloadOf(authorization: string) {
  const [scheme, jws] = authorization.split(' ');
  expect(scheme).toBe('Runbooks');
  const known = { name: 'ada', publicKey: importPublicKey(key.x) };
  const { payload } = await verifyDocument(jws, 'runbooks-request-v1', (kid) => (kid === key.kid ? known : undefined));
  return requestPayload.parse(payload);
}

describe('a signed request', () => {
  it('says exactly what is sent, where to, by whom and when', async () => {
    const request = { origin: 'https://gateway.example', method: 'POST', path: '/v1/x?y=1', name: 'ada' } as const;
    const body = '{"document":"ü"}';
    const authorization = await signRequest({ ...request, body, now: 1_700_000_000_999 }, key);
    expect(await payloadOf(authorization)).toEqual({
      aud: 'https://gateway.example',
      method: 'POST',
      path: '/v1/x?y=1',
      body: createHash('sha256').update(body).digest('base64url'),
      name: 'ada',
      iat: 1_700_000_000,
      jti: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f-]{27}$/) as string,
    });
    expect(claimedHeader(authorization.split(' ')[1] ?? '').kid).toBe(key.kid);
    const without = await payloadOf(await signRequest({ ...request, method: 'GET' }, key));
    expect(without.body).toBe('');
  });

  it.each([
    ['https://gateway.example:8421/', 'https://gateway.example:8421'],
    [' https://GATEWAY.example ', 'https://gateway.example'],
    ['http://127.0.0.1:8421', 'http://127.0.0.1:8421'],
    ['http://[::1]:8421', 'http://[::1]:8421'],
    ['http://localhost:8421', 'http://localhost:8421'],
  ])('goes to the origin of %s', (entered, origin) => {
    expect(gatewayOrigin(entered)).toBe(origin);
  });

  it.each([
    ['gateway.example:8421', 'INVALID_INPUT'],
    ['https://gateway.example/path', 'INVALID_INPUT'],
    ['https://ada:word@gateway.example', 'INVALID_INPUT'],
    ['http://gateway.example', 'INSECURE_ADDRESS'],
    ['http://127.0.0.1.example', 'INSECURE_ADDRESS'],
  ])('does not go to %s', async (entered, code) => {
    expect((await failureOf(async () => gatewayOrigin(entered))).code).toBe(code);
  });
});

describe('a person who asks the mailbox', () => {
  it('signs again for each try, and gets the answer of the first that succeeds', async () => {
    const seen: string[] = [];
    const access = await gatewayThat((request, response) => {
      seen.push(request.headers.authorization ?? '');
      if (seen.length === 1) return void request.socket.destroy();
      if (seen.length === 2) return void response.writeHead(503, { 'retry-after': '1' }).end('{}');
      return void response.end('{"items":[]}');
    });
    expect(await askMailbox(access, '/v1/waiting')).toEqual({ items: [] });
    const payloads = await Promise.all(seen.map(payloadOf));
    expect(new Set(payloads.map(({ jti }) => jti)).size).toBe(3);
    expect(payloads.every(({ path, method }) => path === '/v1/waiting' && method === 'GET')).toBe(true);
  });

  it('gets the refusal of the gateway as an error with its words, and does not ask again', async () => {
    let asked = 0;
    const access = await gatewayThat((_request, response) => {
      asked += 1;
      const error = {
        code: 'REQUEST_REFUSED',
        message: 'The clock is off.',
        observed: '12:05',
        needed: '12:00',
        next: 'x',
      };
      response.writeHead(401).end(JSON.stringify({ error }));
    });
    await expect(askMailbox(access, '/v1/waiting', { document: 'x' })).rejects.toMatchObject({
      code: 'REQUEST_REFUSED',
      message: 'The clock is off.',
      observed: '12:05',
    });
    expect(asked).toBe(1);
  });

  it('names the address that it asked if no gateway answers there', async () => {
    const access = await gatewayThat((_request, response) => void response.writeHead(404).end('<html>'));
    await expect(askMailbox(access, '/v1/waiting')).rejects.toMatchObject({
      code: 'GATEWAY_UNAVAILABLE',
      observed: 'HTTP status 404',
    });
    const nobody = { ...access, origin: 'http://127.0.0.1:1', timeoutMs: 10 };
    await expect(askMailbox(nobody, '/v1/waiting')).rejects.toMatchObject({ code: 'GATEWAY_UNAVAILABLE' });
  });

  it('follows no redirect', async () => {
    const access = await gatewayThat((_request, response) => void response.writeHead(307, { location: '/' }).end());
    await expect(askMailbox({ ...access, timeoutMs: 10 }, '/v1/waiting')).rejects.toMatchObject({
      code: 'GATEWAY_UNAVAILABLE',
    });
  });
});
