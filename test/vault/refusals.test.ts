/** What the service refuses, and what the client refuses before it calls. */
import { diagnoseServerError } from '../../src/vault';
import type { ServiceClient } from '../../src/vault';
import { Secret } from '../../src/secret';
import { retryAfterMs } from '../../src/vault/transport';
import { failureOf, openNode } from './support/scripted-cluster';
import type { ScriptedServer } from './support/scripted-server';

const STATUS = 'GET sys/replication/dr/status';
const PROMOTE = 'POST sys/replication/dr/secondary/promote';
const SEAL = 'GET sys/seal-status';
const drOperationToken = new Secret('operation-token', 'hvs.CANARYdrCANARYdrCANARYdr');
const token = new Secret('service-token', 'hvb.CANARYtokenCANARYtoken');

describe('refusals', () => {
  let node: ScriptedServer;
  let client: ServiceClient;
  openNode((...opened) => ([node, client] = opened));

  it.each([
    [301, 'UNEXPECTED_STATUS'],
    [400, 'BAD_REQUEST'],
    [403, 'PERMISSION_DENIED'],
    [404, 'NOT_FOUND'],
    [405, 'METHOD_NOT_ALLOWED'],
    [412, 'STATE_NOT_PRESENT'],
    [413, 'TOO_LARGE'],
    [418, 'UNEXPECTED_STATUS'],
    [429, 'RATE_LIMITED'],
    [431, 'TOO_LARGE'],
    [472, 'UNEXPECTED_STATUS'],
    [500, 'SERVICE_ERROR'],
    [501, 'SERVICE_ERROR'],
    [502, 'SERVICE_ERROR'],
    [503, 'SERVICE_UNAVAILABLE'],
    [504, 'SERVICE_ERROR'],
  ])('%i is %s, with status, cluster and text', async (status, code) => {
    node.on(STATUS, { status, json: { errors: ['first reason', '1 error occurred:\n\t* second\n'] } });
    const failure = await failureOf(client.dr.status());
    expect(failure).toMatchObject({ code, httpStatus: status, cluster: 'east', outcomeKnown: true });
    expect(failure.message).toBe(`${STATUS} at ${node.address}: ${status}: first reason; 1 error occurred: * second`);
  });

  it('has the time to wait before the next try', async () => {
    node.on(STATUS, { status: 429, headers: { 'retry-after': '7' }, json: { errors: [] } });
    expect(await failureOf(client.dr.status())).toMatchObject({ retryAfterMs: 7_000, retryable: true });
    const now = Date.parse('2026-01-10T08:00:00Z');
    expect(retryAfterMs('Sat, 10 Jan 2026 08:00:30 GMT', now)).toBe(30_000);
    expect(retryAfterMs('Sat, 10 Jan 2026 07:00:00 GMT', now)).toBe(0);
    expect(retryAfterMs('soon', now)).toBeUndefined();
    // A day, or more than a timer takes: the next look comes sooner.
    expect(retryAfterMs('86400')).toBe(60_000);
    expect(retryAfterMs('99999999999')).toBe(60_000);
    expect(retryAfterMs('Sun, 11 Jan 2026 08:00:00 GMT', now)).toBe(60_000);
  });

  it('reads an error page of a load balancer', async () => {
    node.on(STATUS, {
      status: 502,
      text: '<html><h1>Bad Gateway</h1></html>',
      headers: { 'content-type': 'text/html' },
    });
    expect((await failureOf(client.dr.status())).message).toMatch(/: 502: Bad Gateway$/);
  });

  it('keeps the status of a refusal whose text was cut', async () => {
    node.on(PROMOTE, { status: 400, action: 'break', json: { errors: ['cut'] } });
    const failure = await failureOf(client.dr.secondary.promote({ drOperationToken }));
    expect(failure).toMatchObject({ code: 'BAD_REQUEST', outcomeKnown: true });
  });

  it.each([
    ['NOT_CAUGHT_UP for an unsealed node', { json: { initialized: true, sealed: false } }, 'NOT_CAUGHT_UP'],
    ['NOT_CAUGHT_UP if the seal cannot be read', { action: 'reset' }, 'NOT_CAUGHT_UP'],
    ['SERVICE_SEALED for a sealed node', { json: { initialized: true, sealed: true } }, 'SERVICE_SEALED'],
  ] as const)('reads 503 of a DR promote as %s', async (_, seal, code) => {
    node.on(PROMOTE, { status: 503, json: { errors: ['Vault is sealed, use force'] } }).on(SEAL, seal);
    const failure = await failureOf(client.dr.secondary.promote({ drOperationToken }));
    expect(failure).toMatchObject({ code, outcomeKnown: true, retryable: true, httpStatus: 503 });
    expect(node.calls.filter((call) => call === PROMOTE)).toHaveLength(1);
  });

  it('does not trust a text that says sealed', async () => {
    node.on(STATUS, { status: 503, json: { errors: ['Vault is sealed'] } }).on(SEAL, { json: { sealed: false } });
    expect(await failureOf(client.dr.status())).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  });

  it('keeps secrets and nonces out of every error', async () => {
    const nonce = '6b0c2a5e-1f0d-4c6b-9f57-2f4c55a1b7aa';
    const share = new Secret('key-share', 'CANARYshareCANARYshare');
    node.on('POST sys/replication/dr/secondary/generate-operation-token/update', ({ body, headers }) => ({
      status: 400,
      json: {
        errors: [
          `incorrect nonce supplied; nonce for this root generation operation is ${nonce}`,
          body,
          `${headers['x-vault-token']?.toString()}`,
        ],
      },
    }));
    const failure = await failureOf(
      client.dr.secondary.generateOperationToken.update({ key: share, nonce: 'other' }, { token }),
    );
    expect(failure.message).toContain('incorrect nonce supplied');
    for (const canary of ['CANARY', nonce])
      expect(JSON.stringify([failure.message, failure.stack])).not.toContain(canary);
  });

  const one = new Secret('activation-token', 'one');
  const empty = new Secret('operation-token', '');
  const refusedCalls: readonly (readonly [string, (given: ServiceClient) => Promise<unknown>])[] = [
    [
      'token and addresses (DR)',
      (c) => c.dr.secondary.updatePrimary({ drOperationToken, token: one, updatePrimaryAddrs: ['a:8201'] }),
    ],
    [
      'blank token and addresses',
      (c) => c.performance.secondary.updatePrimary({ token: '', updatePrimaryAddrs: ['a:8201'] }),
    ],
    ['neither token nor addresses', (c) => c.performance.secondary.updatePrimary({})],
    ['no addresses', (c) => c.performance.secondary.updatePrimary({ updatePrimaryAddrs: [] })],
    [
      'an empty secret as token',
      (c) => c.performance.secondary.updatePrimary({ token: new Secret('activation-token', '') }),
    ],
    ['enable without a token', (c) => c.dr.secondary.enable({ token: new Secret('activation-token', '') })],
    ['no nonce', (c) => c.sys.generateRoot.update({ key: one, nonce: '' })],
    ['an empty operation token', (c) => c.dr.secondary.promote({ drOperationToken: empty })],
    ['no operation token', (c) => c.dr.secondary.disable({})],
    ['no id to revoke', (c) => c.dr.primary.revokeSecondary({ id: ' ' })],
    ['no id for a token', (c) => c.performance.primary.secondaryToken({ id: '' })],
    ['no id of a filter', (c) => c.performance.primary.pathsFilter.read('')],
    ['dots as id', (c) => c.performance.primary.pathsFilter.delete('..')],
    ['no paths to ask for', (c) => c.sys.capabilitiesSelf([])],
    ['a key outside of a mount', (c) => c.sys.mountOf('marker')],
    ['a key with dots', (c) => c.keyValue.read({ mount: 'runbooks', path: '../sys', version: 1 })],
  ];
  it.each(refusedCalls)('refuses before the call: %s', async (_, call) => {
    expect(await failureOf(call(client))).toMatchObject({
      code: 'INVALID_INPUT',
      retryable: false,
      outcomeKnown: true,
    });
    expect(node.calls).toEqual([]);
  });

  describe('the diagnosis of a lasting 500', () => {
    const health = { initialized: true, sealed: false, standby: false };
    const internal = { status: 500, json: { errors: ['internal error'] } };
    beforeEach(() => {
      node.on('GET auth/token/lookup-self', internal).on('GET sys/health', { json: health });
      node.on('GET sys/replication/status', { json: { data: { mode: 'disabled' } } });
    });

    it('names the audit device when health is good and every authenticated call fails', async () => {
      const diagnosis = await diagnoseServerError(client, await failureOf(client.sys.lookupSelf({ token })), { token });
      expect(diagnosis).toMatchObject({ code: 'AUDIT_DEVICE_BLOCKED', httpStatus: 500, cluster: 'east' });
    });

    it.each([
      ['health is not good', () => node.on('GET sys/health', { status: 503, json: health })],
      ['unauthenticated reads fail too', () => node.on('GET sys/replication/status', internal)],
      ['authenticated calls work again', () => node.on('GET auth/token/lookup-self', { json: { data: {} } })],
    ])('leaves the error as it is when %s', async (_, arrange) => {
      const error = await failureOf(client.sys.lookupSelf({ token }));
      arrange();
      expect(await diagnoseServerError(client, error, { token })).toBe(error);
    });
  });
});
