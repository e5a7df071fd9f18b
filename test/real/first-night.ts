/**
 * The prerequisites of a first real night, as far as the community edition has them: key-value engines of both
 * versions, logins with the printed policy and their renewal, and the quota that pauses clients.
 */
import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exportSPKI, generateKeyPair, SignJWT } from 'jose';
import type { GenerateKeyPairResult } from 'jose';
import pino from 'pino';
import { stringify } from 'yaml';
import { Clusters } from '../../activities';
import { checkMarker } from '../../activities/evidence/marker';
import { policyFor, policyText } from '../../activities/tokens/policies';
import { parseInventory } from '../../src/inventory';
import { Secret } from '../../src/secret';
import { temporaryDirectory } from '../support/directory';
import { findCanaries } from '../support/secret-search';
import { until } from '../support/by-hand';
import { activeNode, callReal } from './real-service';
import type { RealServer } from './real-service';

export function firstNight(server: RealServer): void {
  describe('a first night on a real server', () => {
    let signal: AbortSignal;
    const mount = `night-${randomUUID().slice(0, 8)}`;
    const lines: string[] = [];
    const secrets = new Map<string, string>();
    let rootToken: string;
    const directory = temporaryDirectory('night');
    let clusters: Clusters;

    const asRoot = async (method: 'GET' | 'POST' | 'DELETE', path: string, body?: unknown) => {
      const answer = await callReal(server, method, path, { token: rootToken, body });
      if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
      return (answer.fields['data'] ?? {}) as Readonly<Record<string, unknown>>;
    };
    const of = () => clusters.of('night', 'real');

    /** Creates an AppRole whose tokens have these TTLs. */
    async function appRole(ttl = '10m', maxTtl = '1h'): Promise<object> {
      const role = `auth/${mount}/role/runbooks`;
      await asRoot('POST', role, { token_policies: [mount], token_ttl: ttl, token_max_ttl: maxTtl });
      const { role_id: roleId } = await asRoot('GET', `${role}/role-id`);
      const { secret_id: secretId } = await asRoot('POST', `${role}/secret-id`, {});
      secrets.set('secret ID', String(secretId));
      const file = join(directory, 'secret-id');
      await writeFile(file, String(secretId), { mode: 0o600 });
      return { approle: { roleId, secretId: { file }, mount } };
    }

    /** Sets up an inventory of this server with a login, and the policy that is printed for it. */
    async function site(path: string, credential?: object): Promise<void> {
      const gate = { approvals: 1, groups: ['ops'], validFor: '1h' };
      const real = {
        addresses: server.addresses,
        advertisedClusterAddress: 'node-address',
        credential: credential ?? (await appRole()),
      };
      const text = stringify({
        version: 1,
        workers: { signingKey: { env: 'K' } },
        people: { ada: { groups: ['ops'], attestation: 'principal', principal: 'ada' } },
        deployments: {
          night: {
            clusters: { real },
            drSets: { main: ['real'] },
            quiesce: 'quota',
            marker: { path },
            ceremony: { holders: ['ada'] },
            gates: { plan: gate, go: gate },
          },
        },
      });
      const inventory = parseInventory(text, 'night');
      const log = pino({ level: 'debug' }, { write: (line) => void lines.push(line) });
      await clusters?.close();
      clusters = new Clusters({ inventory, log });
      const policy = policyFor(clusters.deployment('night'), 'credential', ['drSwitchover', 'readiness']);
      await asRoot('POST', `sys/policies/acl/${mount}`, { policy: policyText(policy) });
    }

    beforeEach(() => {
      signal = AbortSignal.timeout(110_000);
    });
    beforeAll(async () => {
      rootToken = (await readFile(server.tokenFile, 'utf8')).trim();
      await asRoot('POST', `sys/auth/${mount}`, { type: 'approle' });
      for (const version of ['1', '2'])
        await asRoot('POST', `sys/mounts/${mount}-v${version}`, { type: 'kv', options: { version } });
    });
    afterAll(async () => {
      await clusters.close();
      await asRoot('DELETE', `sys/auth/${mount}`);
      for (const version of ['1', '2']) await asRoot('DELETE', `sys/mounts/${mount}-v${version}`);
      await asRoot('DELETE', `sys/policies/acl/${mount}`);
    });

    it.each(['1', '2'])(
      'the marker is written and read back on a key-value engine of version %s, by a login with the printed policy',
      async (version) => {
        await site(`${mount}-v${version}/team/marker`);
        const { judged } = await checkMarker(of(), clusters.deployment('night'), signal);
        expect(judged).toMatchObject({
          verdict: 'ok',
          observed: expect.stringContaining(`version ${version}`) as string,
        });
      },
    );

    it('a mount that does not exist is reported as such, with the command that creates it', async () => {
      await site(`${mount}-nowhere/marker`);
      const { judged } = await checkMarker(of(), clusters.deployment('night'), signal);
      expect(judged.verdict).toBe('fail');
      expect(judged.next).toContain(`vault secrets enable -path=${mount}-nowhere`);
    });

    it('the printed policy lets the login make the calls that it names, and no other', async () => {
      await site(`${mount}-v2/marker`);
      const token = await of().credential();
      const { client } = of();
      const paths = ['sys/quotas/config', `${mount}-v2/data/marker`, `${mount}-v2/data/other`, 'sys/policies/acl/x'];
      const rights = await client.sys.capabilitiesSelf(paths, { token });
      expect(rights).toMatchObject({ [`${mount}-v2/data/other`]: ['deny'], 'sys/policies/acl/x': ['deny'] });
      expect(rights[`${mount}-v2/data/marker`]).toEqual(expect.arrayContaining(['create', 'read', 'update']));
      expect(rights['sys/quotas/config']).toEqual(expect.arrayContaining(['read', 'update']));
    });

    it('a token is renewed while its role lets it, replaced by another login then, and revoked with the worker', async () => {
      await site(`${mount}-v2/marker`, await appRole('4s', '9s'));
      const first = await of().credential();
      secrets.set('first token', first.reveal());
      const ttlOf = async (token: Secret) => (await of().client.sys.lookupSelf({ token, signal })).ttlSeconds ?? 0;
      await until('more than half of its TTL is over', async () => (await ttlOf(first)) <= 2);
      expect((await of().credential()).reveal()).toBe(first.reveal());
      expect(await ttlOf(first)).toBeGreaterThan(2);
      const second = await until('another token', async () => {
        const now = await of().credential();
        return now.reveal() === first.reveal() ? undefined : now;
      });
      secrets.set('second token', second.reveal());
      expect(await ttlOf(second)).toBeGreaterThan(2);
      await clusters.close();
      const seen = await callReal(server, 'GET', 'auth/token/lookup-self', { token: second.reveal() });
      expect(seen.status).toBe(403);
    });

    it('a login by a signed JWT of this minute succeeds, and one that another key signed fails', async () => {
      const [own, foreign] = await Promise.all([generateKeyPair('ES256'), generateKeyPair('ES256')]);
      const jwtMount = `${mount}-jwt`;
      await asRoot('POST', `sys/auth/${jwtMount}`, { type: 'jwt' });
      await asRoot('POST', `auth/${jwtMount}/config`, { jwt_validation_pubkeys: [await exportSPKI(own.publicKey)] });
      const bound = { bound_audiences: ['runbooks'], bound_subject: 'worker', user_claim: 'sub' };
      const role = { role_type: 'jwt', ...bound, token_policies: [mount], token_ttl: '10m' };
      await asRoot('POST', `auth/${jwtMount}/role/runbooks`, role);
      const file = join(directory, 'jwt');
      const write = async ({ privateKey }: GenerateKeyPairResult) => {
        const claims = new SignJWT({}).setProtectedHeader({ alg: 'ES256' }).setSubject('worker');
        const jwt = await claims.setAudience('runbooks').setIssuedAt().setExpirationTime('1m').sign(privateKey);
        secrets.set(`JWT ${jwt.slice(-8)}`, jwt);
        await writeFile(file, jwt, { mode: 0o600 });
      };
      const login = { jwt: { role: 'runbooks', jwt: { file }, mount: jwtMount } };
      try {
        await write(foreign);
        await site(`${mount}-v2/marker`, login);
        await expect(of().credential()).rejects.toMatchObject({ code: 'CREDENTIAL_UNAVAILABLE', httpStatus: 400 });
        await write(own);
        await site(`${mount}-v2/marker`, login);
        const { judged } = await checkMarker(of(), clusters.deployment('night'), signal);
        expect(judged).toMatchObject({ verdict: 'ok', observed: expect.stringContaining('version 2') as string });
      } finally {
        await asRoot('DELETE', `sys/auth/${jwtMount}`);
      }
    });

    it('a quota refuses every further request until it is gone, and the configuration is as it was', async () => {
      await site(`${mount}-v2/marker`);
      const { client } = of();
      const changing = { token: new Secret('service-token', rootToken), node: await activeNode(server) };
      const before = await client.sys.quotaConfig(changing);
      const exempt = [...before.rateLimitExemptPaths, 'sys/quotas', 'sys/health', 'sys/leader'];
      await client.sys.writeQuotaConfig({ ...before, rateLimitExemptPaths: exempt }, changing);
      const name = `runbooks-${mount}`;
      const limit = { name, rate: 0.0001, interval: '1m' };
      try {
        // One bucket for all clients needs Enterprise, so the community edition refuses it.
        await expect(client.sys.createRateLimitQuota({ ...limit, groupBy: 'none' }, changing)).rejects.toMatchObject({
          code: 'BAD_REQUEST',
        });
        await client.sys.createRateLimitQuota({ ...limit, groupBy: 'ip' }, changing);
        expect(await client.sys.rateLimitQuotas(changing)).toEqual([name]);
        const read = () => client.keyValue.read({ mount: `${mount}-v2`, path: 'marker', version: 2 }, changing);
        await until('the refusal', () =>
          read().then(
            () => undefined,
            ({ code }: { code?: string }) => code === 'RATE_LIMITED',
          ),
        );
        expect(await client.sys.health(changing)).toMatchObject({ sealed: false });
        await client.sys.deleteRateLimitQuota(name, changing);
        await read();
        expect(await client.sys.rateLimitQuotas(changing)).toBeUndefined();
      } finally {
        await client.sys.deleteRateLimitQuota(name, changing);
        await client.sys.writeQuotaConfig(before, changing);
      }
      expect(await client.sys.quotaConfig(changing)).toEqual({
        ...before,
        absoluteRateLimitExemptPaths: before.absoluteRateLimitExemptPaths ?? [],
      });
    });

    it('leaves no secret in the log', () => {
      expect(findCanaries(lines.join('\n'), secrets)).toEqual([]);
    });
  });
}
