/** Logins of the workers: where, how often, with what, for whom, and that nothing is left of them. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pino from 'pino';
import { Clusters } from '../../activities';
import { assessService } from '../../activities/readiness/readiness';
import { parseInventory } from '../../src/inventory';
import type { Login } from '../../src/inventory';
import { startSimulatedService } from '../../src/simulator';
import type { SimulatedService } from '../../src/simulator';
import { eventually } from '../simulator/client';
import { findCanaries } from '../support/secret-search';
import { tooSlow } from '../support/by-hand';
import { signalled } from '../support/faults';
import { setUpLogin } from '../support/logins';
import type { LoginSetUp, RoleOptions } from '../support/logins';
import { temporaryDirectory } from '../support/scenario';
import { inventoryText, peopleOf } from '../support/site';
import {
  FOREIGN_CERTIFICATE,
  FOREIGN_KEY,
  LOOPBACK_CERTIFICATE,
  LOOPBACK_KEY,
  LOOPBACK_TLS,
} from '../vault/support/loopback-certificate';
import { failureOf } from '../vault/support/scripted-cluster';

const METHODS = ['approle', 'kubernetes', 'jwt', 'cert'] as const;
const directory = temporaryDirectory('logins');
const HOUR = 3_600_000;
const RENEWAL = 'POST /v1/auth/token/renew-self';
const MARKER = { mount: 'kv', path: 'marker', version: 2 } as const;

/** A worker's clusters over a service of their own, with what it logs and what must be readable nowhere. */
class Workbench {
  readonly lines: string[] = [];
  readonly clusters: Clusters;

  private constructor(
    readonly service: SimulatedService,
    readonly setUp: LoginSetUp,
  ) {
    const log = pino({ level: 'debug' }, { write: (line) => void this.lines.push(line) });
    const inventory = parseInventory(this.inventoryText(), 'test');
    this.clusters = new Clusters({ inventory, log });
  }

  static async start(method: Login['method'], role: Partial<RoleOptions> = {}): Promise<Workbench> {
    const service = await startSimulatedService({
      clusters: ['east', 'west', 'alone'].map((name) => ({ name, nodes: 1 })),
      dr: [{ primary: 'east', secondaries: ['west'] }],
      readings: { leaderChangeChance: 0, optionalFieldMissingChance: 0 },
      ...(method === 'cert' && { tls: LOOPBACK_TLS }),
    });
    const east = service.cluster('east');
    east.writePolicy('runbooks', [{ path: 'kv/data/marker', capabilities: ['create', 'read', 'update'] }]);
    try {
      const setUp = await setUpLogin(east, method, directory, { policies: ['runbooks'], ...role });
      service.advanceClock(100);
      return new Workbench(service, setUp);
    } catch (error) {
      await service.stop();
      throw error;
    }
  }

  inventoryText(): string {
    const { service, setUp } = this;
    const people = peopleOf(service.cluster('east').keyShares, ['grace'], ['approvers']);
    const caFile = service.certificate && { caFile: LOOPBACK_TLS.certificateFile };
    const site = {
      drSets: { main: ['east', 'west'], other: ['alone'] },
      cluster: () => ({ credential: setUp.credential, ...caFile }),
    };
    return inventoryText({ service, directory, people }, 'payments', [...service.clusters.keys()], site);
  }

  of(cluster: string) {
    return this.clusters.of('payments', cluster);
  }

  /** As an activity does, with the token in hand where none is given. */
  async write(cluster: string, given?: Awaited<ReturnType<ReturnType<Clusters['of']>['credential']>>): Promise<void> {
    const access = this.of(cluster);
    const token = given ?? (await access.credential());
    await access.client.keyValue.write({ ...MARKER, data: { a: 'b' } }, { token });
  }

  calls(path: string | RegExp): string[] {
    const fits = (each: string) => (typeof path === 'string' ? each.endsWith(path) : path.test(each));
    return this.service.calls.filter((call) => fits(call.path)).map(({ cluster, status }) => `${cluster} ${status}`);
  }

  /** Names of secrets that stand readable in what was logged or thrown. */
  leaks(...more: readonly unknown[]): string[] {
    const secrets = new Map(this.setUp.secrets);
    for (const { name, issuedSecrets } of this.service.clusters.values())
      issuedSecrets.forEach((secret, index) => secrets.set(`token ${index} of ${name}`, secret));
    return findCanaries([this.lines.join('\n'), ...more.map(String), JSON.stringify(more)].join('\n'), secrets);
  }

  async stop(): Promise<void> {
    await this.clusters.close();
    await this.service.stop();
  }
}

let bench: Workbench;
const open = async (...options: Parameters<typeof Workbench.start>): Promise<Workbench> =>
  (bench = await Workbench.start(...options));
afterEach(() => bench.stop());

/** The clock of the worker and of the service goes on by so much, ms; it is right again after the test. */
let passed: number;
const later = (ms: number) => void (passed += ms);
beforeEach(() => {
  passed = 0;
  const now = Date.now;
  jest.spyOn(Date, 'now').mockImplementation(() => now() + passed);
});
afterEach(() => jest.restoreAllMocks());

describe('a login', () => {
  it.each(METHODS)(
    'by %s gives a token that is kept, for the whole DR set, and revoked with the worker',
    async (method) => {
      await open(method);
      await Promise.all([bench.write('east'), bench.write('east')]);
      await bench.of('west').credential();
      expect(bench.calls(`auth/${method}/login`)).toEqual(['east 200']);
      await bench.clusters.close();
      expect(bench.calls('auth/token/revoke-self')).toEqual(['east 204']);
      expect(bench.lines.join('')).toContain(`Logged in: ${method}`);
      expect(bench.leaks()).toEqual([]);
    },
  );

  it('from a shell (doctor, inventory check --live) leaves no token', async () => {
    await open('approle');
    const inventory = parseInventory(bench.inventoryText(), 'test');
    const log = pino({ enabled: false });
    await assessService(inventory, log, 'payments', AbortSignal.timeout(30_000));
    const made = bench.calls('auth/approle/login').filter((call) => call.endsWith(' 200'));
    expect(made).not.toEqual([]);
    expect(bench.calls('auth/token/revoke-self')).toEqual(made.map((call) => call.replace('200', '204')));
  });

  it('that the service refuses reports where and why, without its credential', async () => {
    await open('approle');
    const file = join(directory, 'approle-secret-id');
    const [secretId] = [bench.setUp.secrets.get('secret ID') ?? ''];
    await writeFile(file, 'another-secret-id-that-nobody-gave');
    const failed = await failureOf(bench.of('east').credential());
    expect(failed).toMatchObject({ code: 'CREDENTIAL_UNAVAILABLE', retryable: false, outcomeKnown: true });
    expect(failed.message).toContain('The login by approle at auth/approle failed at east');
    expect(bench.leaks(failed, failed.message, failed.next)).toEqual([]);
    expect(failed.message).not.toContain('another-secret-id');
    // A service locks a role that is refused five times, each less than 15 minutes after the one before.
    for (const [minutes, times] of [
      [0, 1],
      [15, 1],
      [2, 2],
      [15, 2],
    ] as const) {
      later(minutes * 60_000);
      expect(await failureOf(bench.of('west').credential())).toMatchObject({ message: failed.message });
      expect(bench.calls('/login')).toEqual(Array.from({ length: times }, () => 'east 400'));
    }
    expect(failed.next).toMatch(/does not send the same login again before 2\d{3}-.*, or restart the workers\./);
    // Another one is sent at once.
    await writeFile(file, secretId);
    await bench.write('east');
    expect(bench.calls('/login').slice(2)).toEqual(['east 200']);
  });

  it.each([
    [
      'the JSON of the command line',
      '{"data": {"secret_id": "CANARY"}}',
      /it holds JSON: store only the secret itself/,
    ],
    ['a wrapped answer', '{"wrap_info": {"token": "CANARY"}}', /a wrapped answer: unwrap it first/],
    ['a wrapping token', `hvs.${'CANARY'.repeat(5)}`, /a token of the service, .*unwrap it first/],
    ['a PEM block', '-----BEGIN CERTIFICATE-----\nCANARY', /a PEM block/],
    ['two words', 'secret_id CANARY', /more than one word/],
  ])('is not sent with a file that certainly holds no secret ID: %s', async (_what, text, why) => {
    await open('approle');
    await writeFile(join(directory, 'approle-secret-id'), text);
    const failed = await failureOf(bench.of('east').credential());
    expect(failed).toMatchObject({ code: 'CREDENTIAL_UNAVAILABLE', message: expect.stringMatching(why) as string });
    expect(JSON.stringify({ ...failed, message: failed.message })).not.toContain('CANARY');
    // A service locks a role after five wrong ones.
    expect(bench.calls('/login')).toEqual([]);
  });

  it('takes a secret ID behind a byte order mark', async () => {
    await open('approle');
    const secretId = bench.setUp.secrets.get('secret ID') ?? '';
    await writeFile(join(directory, 'approle-secret-id'), `\uFEFF${secretId}\r\n`);
    await bench.write('east');
    expect(bench.calls('/login')).toEqual(['east 200']);
  });

  it.each([
    [
      'asks for a second factor',
      {
        status: 200,
        body: { auth: { client_token: '', lease_duration: 0, mfa_requirement: { mfa_request_id: 'x' } } },
      },
      /an MFA requirement instead of a token/,
      /Exempt the role of the workers from the MFA enforcement/,
    ],
    [
      'cannot reach the token reviewer',
      { status: 500, body: { errors: ['Post ".../tokenreviews": i/o timeout'] } },
      /i\/o timeout/,
      /could not verify the credential: let it reach what auth\/jwt is configured with/,
    ],
    [
      'is limited by a quota',
      { status: 429, body: { errors: ['rate limit quota exceeded'] } },
      /rate limit quota exceeded/,
      /A rate-limit quota of east refuses the login/,
    ],
    ['has no such method', { status: 404, body: { errors: [] } }, /404/, /Enable the auth method at auth\/jwt on east/],
  ])('names the cause that the service gives: it %s', async (_what, action, message, next) => {
    await open('jwt');
    bench.service.faults.add({ endpoint: 'POST /v1/auth/jwt/login', action, times: Infinity });
    const failed = await failureOf(bench.of('east').credential());
    expect(failed).toMatchObject({ code: 'CREDENTIAL_UNAVAILABLE' });
    expect([failed.message, failed.next]).toEqual([expect.stringMatching(message), expect.stringMatching(next)]);
  });

  it('by cert that is refused is sent again after 5 s', async () => {
    await open('cert');
    const write = (certificate: string, key: string) =>
      Promise.all([
        writeFile(join(directory, 'cert-certificate'), certificate),
        writeFile(join(directory, 'cert-key'), key),
      ]);
    await write(FOREIGN_CERTIFICATE, FOREIGN_KEY);
    for (const times of [1, 2]) {
      await failureOf(bench.of('east').credential());
      await failureOf(bench.of('east').credential());
      expect(bench.calls('/login')).toEqual(Array.from({ length: times }, () => 'east 400'));
      later(6_000);
    }
    await write(LOOPBACK_CERTIFICATE, LOOPBACK_KEY);
    await bench.write('east');
    expect(bench.calls('/login').slice(2)).toEqual(['east 200']);
  });

  it('is made nowhere else if no cluster of the DR set serves: a cluster of another set gets no request', async () => {
    await open('approle');
    await bench.service.cluster('east').kill();
    const failed = await failureOf(bench.of('west').credential());
    expect(failed).toMatchObject({
      code: 'CREDENTIAL_UNAVAILABLE',
      retryable: true,
      observed: 'west DR secondary, east UNREACHABLE',
    });
    expect(bench.service.calls.filter(({ cluster }) => cluster === 'alone')).toEqual([]);
    expect(bench.calls('/login')).toEqual([]);
  });
});

describe('a token of a login', () => {
  it('is never sent to a cluster of another DR set', async () => {
    await open('approle');
    const token = await bench.of('east').credential();
    const failed = await failureOf(bench.of('alone').client.sys.lookupSelf({ token }));
    expect(failed).toMatchObject({ code: 'PRECONDITION_FAILED', needed: 'a credential of DR set other' });
    expect(bench.service.calls.filter(({ cluster }) => cluster === 'alone')).toEqual([]);
  });

  it('is renewed before it expires, and replaced if its maximum TTL leaves too little', async () => {
    await open('approle', { ttl: '60s', maxTtl: '90s' });
    await bench.write('east');
    later(10_000);
    await bench.write('east');
    await eventually(() => bench.calls('renew-self')[0]);
    await bench.write('east');
    expect(bench.calls('renew-self')).toEqual(['east 200']);
    expect(bench.calls('/login')).toHaveLength(1);
    later(45_000);
    await bench.write('east');
    later(20_000);
    await bench.write('east');
    // It could live on for 15 s.
    expect(bench.calls('/login')).toHaveLength(2);
  });

  it('stays valid for the call that has it when another takes its place, and is revoked with the worker', async () => {
    await open('approle', { ttl: '1h', maxTtl: '1h' });
    const old = await bench.of('east').credential();
    later(HOUR * 0.6);
    expect(await bench.of('east').credential()).toBe(old);
    await eventually(async () => (await bench.of('east').credential()) !== old || undefined);
    await bench.write('east', old);
    expect(bench.calls('kv/data/marker')).toEqual(['east 200']);
    await bench.clusters.close();
    expect(bench.calls('/login')).toHaveLength(2);
    expect(bench.calls('revoke-self')).toEqual(['east 204', 'east 204']);
  });

  it('is revoked early if two others took its place, though it has not expired', async () => {
    await open('approle');
    for (const logins of [1, 2, 3]) {
      await bench.of('east').credential();
      bench.service.cluster('east').writePolicy('runbooks', []);
      // The service refuses a right: a token that is older than a minute is replaced.
      later(61_000);
      await failureOf(bench.write('east'));
      expect(bench.calls('/login')).toHaveLength(logins + 1);
    }
    expect(await eventually(() => bench.calls('revoke-self')[1])).toBe('east 204');
    await bench.clusters.close();
    expect(bench.calls('revoke-self')).toEqual(Array.from({ length: 4 }, () => 'east 204'));
  });

  it('is given at once while it is valid, though its renewal hangs; no other cluster is waited for', async () => {
    await open('approle');
    const token = await bench.of('east').credential();
    expect(bench.service.calls.filter(({ cluster }) => cluster === 'west')).toEqual([]);
    const { promise: hanging, resolve: go } = signalled();
    const renewal = bench.service.faults.add({ endpoint: RENEWAL, action: () => hanging });
    later(HOUR * 0.7);
    expect(await bench.of('east').credential()).toBe(token);
    await eventually(() => (renewal.hits === 1 ? true : undefined));
    expect(await bench.of('west').credential()).toBe(token);
    later(-passed);
    go();
    await eventually(() => bench.calls('renew-self')[0]);
    expect(bench.calls('/login')).toEqual(['east 200']);
  });

  it('that has expired is replaced by one new login, and the call is repeated', async () => {
    await open('approle', { maxTtl: '2h' });
    await bench.write('east');
    bench.service.advanceClock(3 * HOUR);
    await bench.write('east');
    expect(bench.calls('/login')).toEqual(['east 200', 'east 200']);
    expect(bench.calls('kv/data/marker')).toEqual(['east 200', 'east 403', 'east 200']);
    expect(bench.leaks()).toEqual([]);
  });

  it('that lacks a right is not replaced: the refusal names the line of the policy', async () => {
    await open('approle');
    const access = bench.of('east');
    const token = await access.credential();
    const failed = await failureOf(access.client.dr.primary.demote({ token }));
    expect(failed).toMatchObject({ code: 'PERMISSION_DENIED' });
    expect(failed.next).toContain('path "sys/replication/dr/primary/demote" { capabilities = ["update"] }');
    const sudo = await failureOf(access.client.dr.primary.secondaryToken({ id: 'x' }, { token }));
    expect(sudo.next).toContain('{ capabilities = ["update", "sudo"] }');
    const list = await failureOf(access.client.sys.rateLimitQuotas({ token }));
    expect(list.next).toContain('path "sys/quotas/rate-limit" { capabilities = ["list"] }');
    expect(bench.calls('/login')).toHaveLength(1);
  });

  it('that no login makes valid again is retried once, and the refusal stays', async () => {
    await open('approle');
    bench.service.faults.add({ endpoint: 'POST /v1/kv/data/marker', action: { status: 403 }, times: Infinity });
    bench.service.faults.add({ endpoint: 'GET /v1/auth/token/lookup-self', action: { status: 403 }, times: Infinity });
    expect(await failureOf(bench.write('east'))).toMatchObject({ code: 'PERMISSION_DENIED' });
    expect(bench.calls('/login')).toHaveLength(2);
    expect(bench.calls('kv/data/marker')).toHaveLength(2);
  });

  it('is obtained from the new primary after a promotion, though the old one and its token are gone', async () => {
    await open('approle');
    const { service } = bench;
    const west = service.cluster('west');
    await bench.write('east');
    const operationToken = west.tokens.createOperationToken(service.now());
    service.advanceClock(1_000);
    // What the old primary gave out last never reached the other one.
    west.storage.keys('token/').forEach((key) => west.storage.write(key, null, service.now()));
    await service.cluster('east').kill();
    const old = await bench.of('east').credential();
    await promote(west.apiAddress, operationToken);
    service.advanceClock(5_000);
    await bench.write('west', old);
    expect(bench.calls('/login')).toEqual(['east 200', 'west 200']);
    expect(bench.leaks()).toEqual([]);
  });

  it('of the other one of two primaries is not used: each gives its own', async () => {
    await open('approle', { maxTtl: '2h' });
    const { service } = bench;
    const west = service.cluster('west');
    const old = await bench.of('west').credential();
    service.advanceClock(3 * HOUR);
    const operationToken = west.tokens.createOperationToken(service.now());
    service.advanceClock(1_000);
    await promote(west.apiAddress, operationToken);
    service.advanceClock(5_000);
    await bench.write('east');
    await bench.write('west', old);
    expect(bench.calls('/login')).toEqual(['east 200', 'east 200', 'west 200']);
    expect(bench.calls('kv/data/marker')).toEqual(['east 403', 'east 200', 'west 403', 'west 200']);
  });

  it('that is a batch token is neither renewed nor revoked; one that cannot be revoked is logged', async () => {
    await open('approle', { tokenType: 'batch' });
    await bench.write('east');
    await bench.clusters.close();
    expect(bench.calls(/(renew|revoke)-self$/)).toEqual([]);
    await bench.service.stop();
    await open('approle');
    await bench.write('east');
    await bench.service.cluster('east').kill();
    await bench.clusters.close();
    expect(bench.lines.join('')).toContain('could not be revoked');
  });
});

describe('the end of a worker', () => {
  it('is not delayed by a cluster that does not answer', async () => {
    const timeout = AbortSignal.timeout.bind(AbortSignal);
    jest.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => timeout(ms === 5_000 ? 50 : ms));
    const opened = async () => {
      await open('approle');
      await bench.write('east');
      const { promise: hanging, resolve: go } = signalled();
      bench.service.faults.add({ endpoint: /sys\/(leader|health)$/, action: () => hanging, times: Infinity });
      await bench.clusters.close();
      go();
    };
    expect(await tooSlow(3_000, opened)).toEqual([]);
    expect(bench.lines.join('')).toContain('could not be revoked');
  });
});

describe('a token of a file', () => {
  it('that has expired is read again; if the file has no other, the refusal names it', async () => {
    await open('approle');
    const east = bench.service.cluster('east');
    const file = join(directory, 'token');
    await writeFile(file, east.createToken({ policies: ['runbooks'], ttlMs: HOUR }));
    const setUp = { credential: { file }, secrets: new Map() };
    Object.assign(bench, { setUp });
    const inventory = parseInventory(bench.inventoryText(), 'test');
    const clusters = new Clusters({ inventory, log: pino({ level: 'silent' }) });
    const access = clusters.of('payments', 'east');
    const token = await access.credential();
    bench.service.advanceClock(2 * HOUR);
    const failed = await failureOf(access.client.keyValue.read(MARKER, { token }));
    expect(failed).toMatchObject({ code: 'PERMISSION_DENIED' });
    expect(failed.next).toContain(`Renew the credential of east: file ${file}; then retry`);
    await writeFile(file, east.createToken({ policies: ['runbooks'], ttlMs: HOUR }));
    await access.client.keyValue.read(MARKER, { token });
    await clusters.close();
  });
});

async function promote(address: string, token: string): Promise<void> {
  const body = JSON.stringify({ dr_operation_token: token });
  const answer = await fetch(`${address}/v1/sys/replication/dr/secondary/promote`, { method: 'POST', body });
  expect(answer.status).toBe(200);
}
