import { startSimulatedService, type SimulatedService } from '../../src/simulator';
import { INTERFACE_ROWS } from '../support/endpoint-page';
import { call, deployment } from './client';

const DR = 'sys/replication/dr';

/** All 34 endpoints of the interface with what an unprepared call meets on the DR and performance primary. */
const ENDPOINTS = INTERFACE_ROWS.map(({ endpoint }) => {
  const [method = '', path = ''] = endpoint.replace(':id', 'some-id').split(' /');
  const needsOperationToken = path.startsWith(`${DR}/secondary`) && !/enable$|generate-public-key$/.test(path);
  return { method, path, status: path.endsWith('/status') ? 200 : needsOperationToken ? 400 : 403 };
});

let service: SimulatedService;
beforeAll(async () => {
  service = await startSimulatedService(deployment());
});
afterAll(() => service.stop());

it('every endpoint asks for its credential, takes no other method, and is refused in a namespace', async () => {
  const east = service.cluster('east');
  expect(ENDPOINTS).toHaveLength(34);
  const token = east.rootToken;
  for (const { method, path, status } of ENDPOINTS) {
    const answers = [
      await call(east, method, path),
      await call(east, 'PATCH', path, { token }),
      await call(east, method, path, { token, headers: { 'x-vault-namespace': 'team' } }),
    ];
    const seen = [path, ...answers.map((answer) => answer.status)];
    expect(seen).toEqual([path, status, 415, path.endsWith('/status') ? 200 : 400]);
  }
});

describe('the transport', () => {
  it('answers a text of more than 1 MiB with 500', async () => {
    const body = { id: 'x'.repeat(1024 * 1024 + 1) };
    expect((await call(service.cluster('east'), 'POST', `${DR}/primary/revoke-secondary`, { body })).status).toBe(500);
  });

  it('answers malformed JSON with 500 before it looks at the token', async () => {
    const answer = await call(service.cluster('east'), 'POST', `${DR}/primary/demote`, { body: '{"a":' });
    expect(answer.status).toBe(500);
    expect(service.cluster('east').snapshotState().dr.mode).toBe('primary');
  });

  it('answers well-formed JSON of another type with 400', async () => {
    const answer = await call(service.cluster('east'), 'POST', `${DR}/primary/demote`, { body: '[1]' });
    expect(answer.status).toBe(400);
    expect(answer.textAt('errors', 0)).toContain('failed to parse JSON input');
  });

  it('tells an invalid token from one without the right', async () => {
    const east = service.cluster('east');
    const invalid = await call(east, 'POST', `${DR}/primary/demote`, { token: 'hvs.nobody' });
    const weak = await call(east, 'POST', `${DR}/primary/demote`, { token: east.createToken({ policies: [] }) });
    expect([invalid.status, weak.status]).toEqual([403, 403]);
    expect(invalid.textAt('errors', 0)).toContain('invalid token');
    expect(weak.at('errors')).toEqual(['permission denied']);
  });

  it('asks for sudo on secondary-token and not on revoke-secondary', async () => {
    const east = service.cluster('east');
    const paths = ['secondary-token', 'revoke-secondary'].map((name) => `${DR}/primary/${name}`);
    east.writePolicy(
      'no-sudo',
      paths.map((path) => ({ path, capabilities: ['update'] })),
    );
    const token = east.createToken({ policies: ['no-sudo'] });
    const [issue, revoke] = await Promise.all(
      paths.map((path) => call(east, 'POST', path, { token, body: { id: 'nobody' } })),
    );
    expect([issue?.status, revoke?.status]).toEqual([403, 400]);
  });

  it('forwards from a standby, and redirects where forwarding is switched off', async () => {
    const east = service.cluster('east');
    expect((await call(east, 'GET', `${DR}/status`, { node: 1 })).status).toBe(200);
    const headers = { 'x-vault-no-request-forwarding': 'true' };
    const redirect = await call(east, 'GET', `${DR}/status`, { node: 1, headers });
    expect(redirect.status).toBe(307);
    expect(redirect.headers['location']).toBe(`${east.addresses[0]}/v1/${DR}/status`);
  });

  it.each([
    ['break-forwarding', 307],
    ['break-forwarding-leaderless', 503],
  ] as const)(
    'loses what a standby passed on (%s): the effect is there, and the answer denies it',
    async (action, status) => {
      const east = service.cluster('east');
      const base = 'sys/generate-root/attempt';
      const lost = service.faults.add({ cluster: 'east', endpoint: /./, action });
      const started = async () => (await call(east, 'GET', base)).at('started');
      const headers = { 'x-vault-no-request-forwarding': 'true' };
      expect((await call(east, 'POST', base, { node: 1, headers, body: {} })).status).toBe(307);
      expect([await started(), lost.hits]).toEqual([false, 0]);
      expect((await call(east, 'POST', base, { node: 1, body: {} })).status).toBe(status);
      expect([await started(), lost.hits]).toEqual([true, 1]);
      expect((await call(east, 'DELETE', base)).status).toBeLessThan(300);
    },
  );

  it('has one status for both kinds, and answers unknown system paths as the service does', async () => {
    const east = service.cluster('east');
    const both = await call(east, 'GET', 'sys/replication/status');
    expect(both.at('data', 'dr', 'mode')).toBe('primary');
    expect(both.at('data', 'performance', 'mode')).toBe('primary');
    expect((await call(east, 'GET', 'sys/replication/nothing', { token: east.rootToken })).status).toBe(404);
    expect((await call(east, 'GET', `${DR}//status`)).status).toBe(307);
  });

  it('writes uint64 indexes as plain integers without loss', async () => {
    const big = await startSimulatedService({
      clusters: [
        { name: 'a', nodes: 1, firstWal: '18014398509481985' },
        { name: 'b', nodes: 1 },
      ],
      dr: [{ primary: 'a', secondaries: ['b'] }],
    });
    try {
      const answer = await call(big.cluster('a'), 'GET', `${DR}/status`);
      const digits = /"last_dr_wal":(\d+)/.exec(answer.text)?.[1];
      expect(BigInt(digits ?? 0)).toBe(big.cluster('a').snapshotState().dr.lastWal);
      expect(BigInt(digits ?? 0)).toBeGreaterThan(2n ** 53n);
    } finally {
      await big.stop();
    }
  });
});
