import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { startSimulatedService, type SimulatedCluster, type SimulatedService } from '../../src/simulator';
import { call, deployment } from './client';

let service: SimulatedService;
let east: SimulatedCluster;
let west: SimulatedCluster;
beforeAll(async () => {
  service = await startSimulatedService(deployment());
  [east, west] = [service.cluster('east'), service.cluster('west')];
});
afterAll(() => service.stop());

const health = async (cluster: SimulatedCluster, query: string, node = 0) =>
  (await call(cluster, 'GET', `sys/health?${query}`, { node })).status;

describe('sys/health', () => {
  it('answers the official Go client with the code that it asks for in every state', async () => {
    const states = [
      'active',
      'standby',
      'drsecondary',
      'performancestandby',
      'sealed',
      'uninit',
      'removed',
      'haunhealthy',
    ];
    const query = states.map((state) => `${state}code=299`).join('&');
    expect([await health(east, query), await health(east, query, 1), await health(west, query, 2)]).toEqual([
      299, 299, 299,
    ]);
  });

  it('lets a load balancer count standbys as active, but no DR secondary and no bare standbyok', async () => {
    const standby = (query: string) => health(east, query, 1);
    expect(await standby('standbyok=true')).toBe(200);
    expect(await standby('standbyok=true&activecode=204')).toBe(204);
    expect(await standby('standbyok')).toBe(429);
    expect(await standby('standbyok=false')).toBe(429);
    expect(await standby('perfstandbyok=true')).toBe(429);
    expect(await health(west, 'standbyok=true&perfstandbyok=true')).toBe(472);
    expect(await health(west, 'drsecondarycode=200')).toBe(200);
  });

  it.each(['standbyok=maybe', 'perfstandbyok=2', 'activecode=high', 'sealedcode='])(
    'refuses %s with 400 and no text',
    async (query) => {
      const answer = await call(east, 'GET', `sys/health?${query}`);
      expect([answer.status, answer.fields]).toEqual([400, { errors: [] }]);
    },
  );

  it('shows performance standbys where the topology wants them', async () => {
    const clusters = [
      { name: 'one', performanceStandbys: true },
      { name: 'two', performanceStandbys: true },
    ];
    const own = await startSimulatedService({ clusters, dr: [{ primary: 'one', secondaries: ['two'] }] });
    try {
      const [one, two] = [own.cluster('one'), own.cluster('two')];
      expect([await health(one, ''), await health(one, '', 1)]).toEqual([200, 473]);
      expect(await health(one, 'perfstandbyok=true', 1)).toBe(200);
      expect(await health(one, 'standbyok=true', 1)).toBe(473);
      expect(await health(one, 'performancestandbycode=299', 1)).toBe(299);
      expect(await health(two, '', 1)).toBe(472);
      for (const path of ['sys/health', 'sys/leader'])
        expect((await call(one, 'GET', path, { node: 1 })).fields).toMatchObject({ performance_standby: true });
      expect((await call(one, 'GET', 'sys/leader')).fields).toMatchObject({ performance_standby: false });
    } finally {
      await own.stop();
    }
  });
});

it('a bearer token is as good as X-Vault-Token', async () => {
  const lookUp = (headers: Record<string, string>) => call(east, 'GET', 'auth/token/lookup-self', { headers });
  expect((await lookUp({ authorization: `Bearer ${east.rootToken}` })).status).toBe(200);
  expect((await lookUp({ authorization: `Basic ${east.rootToken}` })).status).toBe(403);
});

describe('the method LIST', () => {
  /** Sends requests on one connection, which Node's own client cannot do with this method. */
  const raw = (...requests: string[]) => {
    const socket = connect(Number(new URL(east.apiAddress).port), '127.0.0.1');
    const answers = text(socket);
    const send = (request: string | undefined): void => {
      if (request === undefined) return;
      socket.write(request);
      socket.once('data', () => send(requests.shift()));
    };
    send(requests.shift());
    return answers;
  };
  const request = (line: string) => `${line} HTTP/1.1\r\nhost: node\r\nx-vault-token: ${east.rootToken}\r\n\r\n`;

  it('is answered like a GET with list=true, also on a connection that was used before', async () => {
    await call(east, 'POST', 'kv/listed/one', { token: east.rootToken, body: { value: 1 } });
    await call(east, 'POST', 'kv/listed/two/three', { token: east.rootToken, body: { value: 1 } });
    const keys = { keys: ['one', 'two/'] };
    expect((await call(east, 'GET', 'kv/listed?list=true', { token: east.rootToken })).at('data')).toEqual(keys);
    for (const path of ['kv/listed', 'kv/listed/'])
      expect(await raw(request('GET /v1/sys/health'), request(`LIST /v1/${path}`))).toContain(JSON.stringify(keys));
    expect(await raw(request('LIST /v1/kv/nothing'))).toMatch(/^HTTP\/1.1 404 /);
    expect(service.calls.at(-1)).toMatchObject({ method: 'LIST', path: '/v1/kv/nothing', status: 404 });
  });

  it('is the only one of its kind: any other method, or half a request, is refused', async () => {
    expect(await raw(request('FETCH /v1/kv/listed'))).toMatch(/^HTTP\/1.1 400 /);
    expect(await raw('LIST /v1/kv/listed HTTP/1.1\r\nbad header\r\n\r\n')).toMatch(/^HTTP\/1.1 400 /);
  });
});
