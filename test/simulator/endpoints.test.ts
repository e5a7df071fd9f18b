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
  it('tells an invalid token from one without the right', async () => {
    const east = service.cluster('east');
    const invalid = await call(east, 'POST', `${DR}/primary/demote`, { token: 'hvs.nobody' });
    const weak = await call(east, 'POST', `${DR}/primary/demote`, { token: east.createToken({ policies: [] }) });
    expect([invalid.status, weak.status]).toEqual([403, 403]);
    expect(invalid.textAt('errors', 0)).toContain('invalid token');
    expect(weak.at('errors')).toEqual(['permission denied']);
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
