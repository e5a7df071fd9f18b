import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { request } from 'undici';
import type { SimulatedService, Topology } from '../simulator';
import type { Site } from './payments';

/* A site as most are before anybody has built anything for runbooks: `npm run demo -- --plain`. */

/**
 * Two clusters, and nothing else; the primary writes canaries all the time, as a real one does. One of them unseals itself:
 * what its holders give are the key shares of the cluster that it joined (facts 8.9).
 */
const TOPOLOGY: Topology = {
  seed: 7,
  mounts: ['kv/', 'secret/'],
  timing: { canaryMs: 1_000 },
  clusters: [
    { name: 'east', nodes: 3 },
    { name: 'west', nodes: 3, seal: { type: 'transit' } },
  ],
  dr: [{ primary: 'east', secondaries: ['west'] }],
};

/** No hook, and so no load balancer that obeys: clients try every address that they know, the quota holds them off. */
const MEMBERS = {
  drSets: { main: ['east', 'west'] },
  quiesce: 'quota',
  limits: { coolDown: '1s', primaryGone: '10s', heartbeatAge: '5s' },
  objectives: { outage: '30s', loss: 'none', unprotected: '2m' },
};

const ROLE = 'auth/approle/role/runbooks';
/** Short-lived, as a site gives them out; the least that lets a change of the primary begin. */
const TOKENS = { token_policies: ['runbooks'], token_ttl: '5m', token_max_ttl: '10m' };

/** An AppRole, set up with the root token by whoever owns the service. @returns the credential as the inventory has it */
async function makeAppRole(service: SimulatedService, directory: string): Promise<Fields> {
  const { apiAddress, rootToken } = service.cluster('east');
  const asRoot = async (method: 'GET' | 'POST', path: string, body?: Fields): Promise<Fields> => {
    const answer = await request(`${apiAddress}/v1/${path}`, {
      method,
      headers: { 'x-vault-token': rootToken },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`${method} ${path}: ${answer.statusCode}`);
    return text === '' ? {} : ((JSON.parse(text) as { readonly data?: Fields | null }).data ?? {});
  };
  await asRoot('POST', 'sys/auth/approle', { type: 'approle' });
  await asRoot('POST', ROLE, TOKENS);
  const { role_id: roleId } = await asRoot('GET', `${ROLE}/role-id`);
  const { secret_id: secretId } = await asRoot('POST', `${ROLE}/secret-id`, {});
  const file = join(directory, 'secret-id');
  await writeFile(file, String(secretId), { mode: 0o600 });
  return { approle: { roleId: String(roleId), secretId: { file } } };
}

type Fields = Readonly<Record<string, unknown>>;

export const PLAIN: Site = { topology: TOPOLOGY, members: () => MEMBERS, credential: makeAppRole };
