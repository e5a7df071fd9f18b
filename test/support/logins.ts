import { generateKeyPairSync, sign } from 'node:crypto';
import { rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Login } from '../../src/inventory';
import type { SimulatedCluster } from '../../src/simulator';
import { printedRules, writePrintedPolicy } from './least-privilege';
import { Scenario, simulated } from './scenario';
import type { ScenarioOptions } from './scenario';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from '../vault/support/loopback-certificate';
import { callNode } from './by-hand';

/** Options of the tokens that a login returns. */
export interface RoleOptions {
  readonly policies: readonly string[];
  /** Go durations. */
  readonly ttl?: string;
  readonly maxTtl?: string;
  readonly tokenType?: 'service' | 'batch';
}

/** The inventory's entry for a login that is set up, and the secrets that must not be readable anywhere. */
export interface LoginSetUp {
  readonly credential: Readonly<Record<string, unknown>>;
  readonly secrets: ReadonlyMap<string, string>;
}

/** Sets up an auth method on the primary with the root token, as an operator does. */
export async function setUpLogin(
  cluster: SimulatedCluster,
  method: Login['method'],
  directory: string,
  { policies, ttl = '1h', maxTtl = '24h', tokenType = 'service' }: RoleOptions,
): Promise<LoginSetUp> {
  const role = { token_policies: policies, token_ttl: ttl, token_max_ttl: maxTtl, token_type: tokenType };
  const keep = async (name: string, text: string): Promise<string> => {
    const file = join(directory, `${method}-${name}`);
    await writeFile(file, text, { mode: 0o600 });
    return file;
  };
  const post = (path: string, body: object = {}) => callAsRoot(cluster, 'POST', path, body);
  await post(`sys/auth/${method}`, { type: method });
  switch (method) {
    case 'approle': {
      await post('auth/approle/role/runbooks', role);
      const roleId = dataOf(await callAsRoot(cluster, 'GET', 'auth/approle/role/runbooks/role-id'), 'role_id');
      const secretId = dataOf(await post('auth/approle/role/runbooks/secret-id'), 'secret_id');
      const credential = { approle: { roleId, secretId: { file: await keep('secret-id', secretId) } } };
      return { credential, secrets: new Map(Object.entries({ 'role ID': roleId, 'secret ID': secretId })) };
    }
    case 'jwt':
    case 'kubernetes': {
      const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const pem = publicKey.export({ type: 'spki', format: 'pem' });
      const sub = method === 'jwt' ? 'runbooks-worker' : 'system:serviceaccount:ops:runbooks';
      await post(`auth/${method}/config`, { [method === 'jwt' ? 'jwt_validation_pubkeys' : 'pem_keys']: [pem] });
      const bound = { bound_service_account_names: 'runbooks', bound_service_account_namespaces: 'ops' };
      await post(`auth/${method}/role/runbooks`, { ...role, ...(method === 'jwt' ? { bound_subject: sub } : bound) });
      const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
      const signed = `${part({ alg: 'ES256' })}.${part({ sub, exp: Math.floor(Date.now() / 1_000) + 36_000 })}`;
      const key = { key: privateKey, dsaEncoding: 'ieee-p1363' } as const;
      const jwt = `${signed}.${sign('sha256', Buffer.from(signed), key).toString('base64url')}`;
      const credential = { [method]: { role: 'runbooks', jwt: { file: await keep('jwt', jwt) } } };
      return { credential, secrets: new Map([['JWT', jwt]]) };
    }
    case 'cert': {
      await post('auth/cert/certs/runbooks', { ...role, certificate: LOOPBACK_CERTIFICATE });
      const certificateFile = await keep('certificate', LOOPBACK_CERTIFICATE);
      const credential = { cert: { certificateFile, keyFile: await keep('key', LOOPBACK_KEY), role: 'runbooks' } };
      return { credential, secrets: new Map([['key of the certificate', LOOPBACK_KEY]]) };
    }
  }
}

/** A deployment whose workers log in with the printed everyday policy and have no stored token. */
export async function scenarioWithLogin(
  method: Login['method'],
  directory: string,
  { topology, ...options }: Omit<ScenarioOptions, 'service' | 'cluster'> = {},
): Promise<{ readonly scenario: Scenario; readonly setUp: LoginSetUp }> {
  const certificateFile = join(directory, 'service-certificate.pem');
  const keyFile = join(directory, 'service-key.pem');
  await writeFile(certificateFile, LOOPBACK_CERTIFICATE);
  await writeFile(keyFile, LOOPBACK_KEY, { mode: 0o600 });
  const service = await simulated(topology, method === 'cert' ? { tls: { certificateFile, keyFile } } : {});
  const setUp = await setUpLogin(service.cluster('east'), method, directory, { policies: ['runbooks'], maxTtl: '2h' });
  const scenario = await Scenario.start({
    ...options,
    service,
    cluster: () => ({ credential: setUp.credential, ...(method === 'cert' && { caFile: certificateFile }) }),
  });
  // Without the file, a worker cannot use a stored token by mistake.
  rmSync(scenario.tokenFile);
  writePrintedPolicy(service.cluster('east'), 'runbooks', printedRules(scenario.inventory, scenario.name));
  service.advanceClock(1_000);
  return { scenario, setUp };
}

/** Makes one call with the root token of a cluster. @returns the body */
async function callAsRoot(
  { apiAddress, rootToken: token, service }: SimulatedCluster,
  method: 'GET' | 'POST',
  path: string,
  body?: object,
): Promise<unknown> {
  const { status, text } = await callNode(apiAddress, method, path, { token, body, ca: service.certificate?.cert });
  if (status >= 300) throw new Error(`${path}: ${status} ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}

function dataOf(body: unknown, name: string): string {
  return String((body as { readonly data: Readonly<Record<string, unknown>> }).data[name]);
}
