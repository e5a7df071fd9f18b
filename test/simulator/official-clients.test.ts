import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { startSimulatedService, type SimulatedCluster, type SimulatedService } from '../../src/simulator';
import { call, deployment, join } from './client';

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

  it('shows performance standbys if the topology wants them', async () => {
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

describe('calls of other clients, and refusals', () => {
  const asRoot = (method: string, path: string, body?: object, node = 0) =>
    call(east, method, path, { token: east.rootToken, body, node });
  const as = (token: string) => (method: string, path: string, body?: object) =>
    call(east, method, path, { token, body });
  const withRules = (name: string, rules: Record<string, string[]>) => {
    east.writePolicy(
      name,
      Object.entries(rules).map(([path, capabilities]) => ({ path, capabilities })),
    );
    return as(east.createToken({ policies: [name] }));
  };

  it('sys/mounts lists the engines, and sys/decode-token reads an encoded token without a token', async () => {
    const mounts = await asRoot('GET', 'sys/mounts');
    expect(mounts.at('data', 'kv/')).toMatchObject({ type: 'kv', options: { version: '1' }, local: false });
    expect(mounts.at('kv/')).toEqual(mounts.at('data', 'kv/'));
    expect((await call(east, 'GET', 'sys/mounts')).status).toBe(403);
    const decode = (encoded_token: string) =>
      call(east, 'POST', 'sys/decode-token', { body: { encoded_token, otp: 'abc' } });
    const encoded = Buffer.from('xyz').map((byte, index) => byte ^ 'abc'.charCodeAt(index));
    expect((await decode(Buffer.from(encoded).toString('base64'))).at('data', 'token')).toBe('xyz');
    expect((await decode('YQ')).status).toBe(500);
    expect((await decode('not base64')).status).toBe(500);
  });

  describe('auth/token/create', () => {
    const create = async (by: ReturnType<typeof as>, body: object) => {
      const answer = await by('POST', 'auth/token/create', body);
      return { ...answer, token: answer.textAt('auth', 'client_token') };
    };

    it('makes tokens as the caller may, in the form that the official CLI asks for', async () => {
      const zeros = { ttl: '0s', explicit_max_ttl: '0s', period: '0s', num_uses: 0, renewable: true, meta: null };
      const made = await create(asRoot, { ...zeros, policies: ['one'], ttl: '30m', display_name: 'ours' });
      expect(made.at('auth')).toMatchObject({ policies: ['default', 'one'], lease_duration: 1800, orphan: false });
      expect((await as(made.token)('GET', 'auth/token/lookup-self')).at('data')).toMatchObject({
        ...{
          display_name: 'token-ours',
          path: 'auth/token/create',
          issue_time: expect.stringMatching(/Z$/) as unknown,
          renewable: true,
        },
      });
      const batch = await create(asRoot, { ...zeros, policies: ['one'], type: 'batch', no_parent: true });
      expect(batch.at('auth')).toMatchObject({ token_type: 'batch', orphan: true, renewable: false });
      expect(batch.token).toMatch(/^hvb\./);
      const inherited = await create(asRoot, {});
      expect(inherited.at('auth')).toMatchObject({ policies: ['root'], lease_duration: 0 });
    });

    it('refuses a token with more rights than its caller', async () => {
      const creator = withRules('creator', { 'auth/token/create': ['update'], 'kv/*': ['read'] });
      const refused: [object, string][] = [
        [{ policies: ['other'] }, 'child policies must be subset of parent'],
        [{ policies: ['root'] }, 'child policies must be subset of parent'],
        [{ no_parent: true }, 'root or sudo privileges required to create orphan token'],
        [{ type: 'other' }, "invalid 'token_type' value"],
        [{ type: 'batch', num_uses: 1 }, 'batch tokens cannot have "num_uses" set'],
      ];
      for (const [body, text] of refused)
        expect(await create(creator, body)).toMatchObject({ status: 400, fields: { errors: [text] } });
      const child = await create(creator, {});
      expect(child.at('auth', 'policies')).toEqual(['creator', 'default']);
      const batch = as((await create(creator, { type: 'batch' })).token);
      expect((await create(batch, {})).textAt('errors', 0)).toBe('batch tokens cannot create more tokens');
      const allPolicies = await create(asRoot, { type: 'batch' });
      expect(allPolicies.textAt('errors', 0)).toBe('batch tokens cannot be root tokens');
      expect((await create(asRoot, { period: '1h' })).textAt('errors', 0)).toContain('simulated service');
    });

    it('counts the uses of a token, lookups too', async () => {
      const made = await create(asRoot, { policies: ['one'], num_uses: 2 });
      const limited = as(made.token);
      expect((await create(limited, {})).status).toBe(403);
      expect((await limited('GET', 'auth/token/lookup-self')).at('data', 'num_uses')).toBe(-1);
      expect((await limited('GET', 'auth/token/lookup-self')).status).toBe(403);
    });
  });

  it('lookup-self of a root token has no issue_time and no renewable', async () => {
    const looked = await asRoot('GET', 'auth/token/lookup-self');
    expect(looked.at('data')).toMatchObject({ policies: ['root'], expire_time: null, ttl: 0 });
    expect(Object.keys(looked.at('data') as object)).not.toEqual(expect.arrayContaining(['issue_time']));
    expect(Object.keys(looked.at('data') as object)).not.toEqual(expect.arrayContaining(['renewable']));
  });

  it('a policy with update alone creates no key, and one with create alone changes none', async () => {
    const updating = withRules('updating', { 'kv/own/*': ['update'] });
    const creating = withRules('creating', { 'kv/own/*': ['create'] });
    const write = (by: ReturnType<typeof as>) => by('POST', 'kv/own/key', { value: 1 });
    expect((await write(updating)).status).toBe(403);
    expect((await write(creating)).status).toBe(204);
    expect((await write(creating)).status).toBe(403);
    expect((await write(updating)).status).toBe(204);
  });

  it('deny on a deeper path wins, also over a pattern with + whose wildcard comes earlier', async () => {
    const denied = withRules('denied', { 'kv/+/key': ['read'], 'kv/*': ['read'], 'kv/team/*': ['deny'] });
    expect((await denied('GET', 'kv/other/key')).status).toBe(404);
    expect((await denied('GET', 'kv/team/key')).status).toBe(403);
  });

  it('capabilities-self takes the path in the form of the official Go client', async () => {
    const reading = withRules('reading', { 'kv/*': ['read'] });
    for (const body of [{ path: 'kv/a' }, { path: ['kv/a'] }, { paths: 'kv/a' }])
      expect((await reading('POST', 'sys/capabilities-self', body)).at('data')).toEqual({
        ...{ 'kv/a': ['read'], capabilities: ['read'] },
      });
    expect((await reading('POST', 'sys/capabilities-self', {})).status).toBe(400);
  });

  it('an unknown capability, and a secret ID for a role that is not there, are refused', async () => {
    const policy = 'path "kv/*" { capabilities = ["read", "write"] }';
    expect(await asRoot('POST', 'sys/policies/acl/wrong', { policy })).toMatchObject({
      ...{ status: 400, fields: { errors: ['failed to parse policy: path "kv/*": invalid capability "write"'] } },
    });
    await asRoot('POST', 'sys/auth/approle', { type: 'approle' });
    expect(await asRoot('POST', 'auth/approle/role/nobody/secret-id')).toMatchObject({
      ...{ status: 404, fields: { errors: ['role "nobody" does not exist'] } },
    });
  });

  it('a key that occurs twice in a JSON document is refused before anything else', async () => {
    for (const body of ['{"a":1,"b":{"c":"}"},"a":1}', '{"a":[{"x\\"":1,"x\\"":2}]}'])
      expect((await call(east, 'POST', 'kv/twice', { body })).status).toBe(500);
    const once = '{"a":{"a":"\\"a\\":"},"b":[{"a":1},{"a":1}]}';
    expect((await call(east, 'POST', 'kv/twice', { body: once, token: east.rootToken })).status).toBe(204);
  });

  it('check-and-set of a version 2 engine is enforced', async () => {
    const own = await startSimulatedService({ clusters: [{ name: 'one', nodes: 1 }] });
    try {
      const one = own.cluster('one');
      const write = async (cas: unknown) =>
        call(one, 'POST', 'kv/data/key', { token: one.rootToken, body: { data: {}, options: { cas } } });
      expect((await write(0)).at('data', 'version')).toBe(1);
      expect(await write(0)).toMatchObject({
        ...{ status: 400, fields: { errors: ['check-and-set parameter did not match the current version'] } },
      });
      expect((await write('1')).at('data', 'version')).toBe(2);
      expect((await write('some')).status).toBe(400);
    } finally {
      await own.stop();
    }
  });

  it('the active node seals itself and steps down; a standby cannot seal itself, and passes on a step-down', async () => {
    const own = await startSimulatedService(deployment());
    try {
      const [primary, secondary] = [own.cluster('east'), own.cluster('west')];
      const post = async (path: string, node: number, token: string | undefined = primary.rootToken) => {
        const answer = await call(primary, 'POST', path, { token, node });
        return [answer.status, answer.at('errors', 0)];
      };
      expect((await call(primary, 'GET', 'sys/seal', { token: primary.rootToken })).status).toBe(405);
      expect(await post('sys/seal', 1)).toEqual([
        500,
        'vault cannot seal when in standby mode; please restart instead',
      ]);
      const limited = primary.createToken({ policies: ['default'] });
      for (const path of ['sys/seal', 'sys/step-down']) expect((await post(path, 0, limited))[0]).toBe(403);
      expect((await post('sys/step-down', 2))[0]).toBe(204);
      own.advanceClock(60_000);
      expect(primary.snapshotState().activeNode).toBe(1);
      expect((await post('sys/seal', 1))[0]).toBe(204);
      own.advanceClock(60_000);
      expect(primary.snapshotState()).toMatchObject({ activeNode: 0, nodes: [{}, { sealed: true }, {}] });
      expect((await post('sys/seal', 1, ''))[0]).toBe(204);
      expect((await call(secondary, 'POST', 'sys/seal', { token: primary.rootToken })).status).toBe(400);
    } finally {
      await own.stop();
    }
  });
});

describe('a cluster that joins a set', () => {
  const joined = async (
    standbySealMs: number,
    during: (west: SimulatedCluster, own: SimulatedService) => Promise<void>,
  ) => {
    const readings = { leaderChangeChance: 0 };
    const clusters = [{ name: 'east' }, { name: 'west', nodes: 5 }];
    const own = await startSimulatedService({ seed: 3, clusters, timing: { standbySealMs }, readings });
    try {
      expect((await join('dr', own.cluster('east'), own.cluster('west'))).status).toBe(200);
      await during(own.cluster('west'), own);
    } finally {
      await own.stop();
    }
  };
  const sealed = (cluster: SimulatedCluster) => cluster.snapshotState().nodes.filter((node) => node.sealed).length;

  it('keeps its active node while its standbys seal themselves, each at a moment of its own within 10 s', async () => {
    await joined(10_000, async (cluster, own) => {
      const seen: number[] = [];
      for (let second = 0; second < 10; second += 1) {
        own.advanceClock(1_000);
        seen.push(sealed(cluster));
      }
      expect(seen.at(-1)).toBe(4);
      expect(new Set(seen).size).toBeGreaterThan(2);
      expect(cluster.snapshotState()).toMatchObject({ activeNode: 0, dr: { mode: 'secondary', state: 'stream-wals' } });
      expect(await health(cluster, '')).toBe(472);
      // Nobody else can lead: the others are sealed.
      await cluster.killNode(0);
      expect(cluster.snapshotState().activeNode).toBeUndefined();
    });
  });

  it('has its standbys sealed at once if a test wants it', async () => {
    await joined(0, async (cluster) => {
      expect(sealed(cluster)).toBe(4);
      expect((await call(cluster, 'GET', 'sys/seal-status', { node: 1 })).at('sealed')).toBe(true);
    });
  });

  it('loses its active node if people seal most of the nodes: that ends their raft', async () => {
    await joined(0, async (cluster) => {
      for (const index of [1, 2, 3]) cluster.sealNode(index);
      expect(cluster.snapshotState().activeNode).toBeUndefined();
      expect(await health(cluster, '')).toBe(429);
    });
  });
});
