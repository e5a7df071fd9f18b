/** Token roles for batch tokens, the policies that end them, the engine that keeps them, and what opens a ceremony. */
import { startSimulatedService, type SimulatedService } from '../../src/simulator';
import { call, eventually } from './client';

const ATTEMPT = 'sys/replication/dr/secondary/generate-operation-token/attempt';
const PROMOTE = 'sys/replication/dr/secondary/promote';
const ROLE = { allowed_policies: ['dr'], orphan: true, renewable: false, token_type: 'batch' };

let service: SimulatedService;
beforeEach(async () => {
  service = await startSimulatedService({
    seed: 3,
    clusters: ['east', 'west'].map((name) => ({ name, nodes: 2, version: '2.0.3+ent' })),
    dr: [{ primary: 'east', secondaries: ['west'] }],
  });
});
afterEach(() => service.stop());

it('a role for batch tokens is orphan, not renewable and without an explicit end, and is read back', async () => {
  const east = service.cluster('east');
  const write = (body: object) => call(east, 'POST', 'auth/token/roles/dr', { token: east.rootToken, body });
  for (const wrong of [
    { orphan: false },
    { renewable: true },
    { token_period: '1h' },
    { token_explicit_max_ttl: '9h' },
  ])
    expect((await write({ ...ROLE, ...wrong })).status).toBe(400);
  expect((await call(east, 'GET', 'auth/token/roles/dr', { token: east.rootToken })).status).toBe(404);
  expect((await write(ROLE)).status).toBe(204);
  expect((await call(east, 'GET', 'auth/token/roles/dr', { token: east.rootToken })).at('data')).toMatchObject(ROLE);
});

it('emptying the policy takes every right of a living token away, here and on the DR secondary', async () => {
  const [east, west] = [service.cluster('east'), service.cluster('west')];
  const policy = (text: string) =>
    call(east, 'POST', 'sys/policies/acl/dr', { token: east.rootToken, body: { policy: text } });
  await policy(`path "${PROMOTE}" { capabilities = ["update"] }\npath "${ATTEMPT}" { capabilities = ["read"] }`);
  await call(east, 'POST', 'auth/token/roles/dr', { token: east.rootToken, body: ROLE });
  const made = await call(east, 'POST', 'auth/token/create/dr', { token: east.rootToken, body: { ttl: '8h' } });
  expect(made.at('auth')).toMatchObject({ token_type: 'batch', orphan: true, accessor: '', renewable: false });
  const token = made.textAt('auth', 'client_token');
  const rights = () => call(east, 'POST', 'sys/capabilities-self', { token, body: { paths: [PROMOTE] } });
  expect((await rights()).at('data')).toMatchObject({ [PROMOTE]: ['update'], capabilities: ['update'] });
  expect((await call(east, 'POST', 'auth/token/revoke-self', { token })).status).toBe(400);
  await eventually(async () => (await call(west, 'GET', ATTEMPT, { token })).status === 200);

  expect((await policy('# emptied: no DR operation by batch token')).status).toBe(204);
  expect((await rights()).at('data', PROMOTE)).toEqual(['deny']);
  const self = await call(east, 'GET', 'auth/token/lookup-self', { token });
  expect(self.at('data')).toMatchObject({
    type: 'batch',
    orphan: true,
    creation_ttl: 28_800,
    policies: ['default', 'dr'],
  });
  await eventually(async () => (await call(west, 'GET', ATTEMPT, { token })).status === 403);
});

it('a version 2 engine replaces the version that was read, and no other', async () => {
  const east = service.cluster('east');
  const token = east.rootToken;
  await call(east, 'POST', 'sys/mounts/shared', { token, body: { type: 'kv', options: { version: '2' } } });
  const write = (cas: number, value: string) =>
    call(east, 'POST', 'shared/data/a/b', { token, body: { data: { token: value }, options: { cas } } });
  expect((await call(east, 'GET', 'shared/data/a/b', { token })).status).toBe(404);
  expect((await write(1, 'x')).status).toBe(400);
  expect((await write(0, 'x')).at('data', 'version')).toBe(1);
  expect((await write(0, 'y')).status).toBe(400);
  expect((await write(1, 'y')).at('data', 'version')).toBe(2);
  expect((await call(east, 'GET', 'shared/data/a/b', { token })).at('data')).toMatchObject({
    data: { token: 'y' },
    metadata: { version: 2 },
  });
});

it('tells which engine serves a path to whoever has a right below it, and to nobody else (facts 12)', async () => {
  const east = service.cluster('east');
  const shared = { type: 'kv', options: { version: '2' } };
  await call(east, 'POST', 'sys/mounts/shared', { token: east.rootToken, body: shared });
  const mountOf = (path: string, token: string) => call(east, 'GET', `sys/internal/ui/mounts/${path}`, { token });
  const told = await mountOf('shared/a/b', east.rootToken);
  expect(told.at('data')).toMatchObject({ path: 'shared/', type: 'kv', options: { version: '2' } });
  await call(east, 'POST', 'sys/mounts/old', { token: east.rootToken, body: { type: 'kv' } });
  expect((await mountOf('old/a', east.rootToken)).at('data', 'options')).toBeNull();
  east.writePolicy('one-key', [{ path: 'shared/data/only/this', capabilities: ['read'] }]);
  const token = east.createToken({ policies: ['one-key'] });
  expect((await mountOf('shared/another', token)).status).toBe(200);
  // Segments of a pattern count as far as the mount goes.
  east.writePolicy('below-any', [{ path: '+/+/never', capabilities: ['read'] }]);
  expect((await mountOf('shared/another', east.createToken({ policies: ['below-any'] }))).status).toBe(200);
  for (const refused of [await mountOf('kv/a', token), await mountOf('none/a', east.rootToken)]) {
    expect(refused.status).toBe(403);
    expect(JSON.stringify(refused.at('errors'))).toContain('preflight capability check returned 403');
  }
  const unversioned = await call(east, 'POST', 'shared/a', { token: east.rootToken, body: { n: 1 } });
  expect([unversioned.status, JSON.stringify(unversioned.at('warnings'))]).toEqual([
    404,
    expect.stringContaining('Invalid path for a versioned K/V secrets engine'),
  ]);
});

it('what a node opens to callers without a token holds for that node and that ceremony', async () => {
  const west = service.cluster('west');
  const active = west.leadership.active?.index ?? 0;
  const [read, root] = [() => call(west, 'GET', ATTEMPT), () => call(west, 'GET', 'sys/generate-root/attempt')];
  expect([(await read()).status, (await root()).status]).toEqual([403, 403]);
  west.configureUnauthenticatedAccess(['generate-operation-token'], active);
  expect([(await read()).status, (await root()).status]).toEqual([200, 403]);
  west.leaderChange(1 - active);
  await eventually(async () => (await read()).status === 403);
});
