import { readFile } from 'node:fs/promises';
import type { SimulatedService } from '../../src/simulator';
import { callNode, until } from '../support/by-hand';
import type { PlainAnswer, PlainCall } from '../support/by-hand';

/** A real server: the API addresses of its nodes, and the files with its key shares (one per line) and a token. */
export interface RealServer {
  readonly addresses: readonly string[];
  readonly sharesFile: string;
  readonly tokenFile: string;
}

/** Several nodes, a root token, and a JSON file that always lists their current processes. */
export interface RealCluster extends RealServer {
  readonly nodesFile: string;
}

/** One entry of the file of processes. */
export interface NodeProcess {
  readonly address: string;
  readonly pid: number;
}

/** The real server in the environment; if undefined, its tests are reported as not run. */
export function realServer(): RealServer | undefined {
  const {
    RUNBOOKS_TEST_REAL_ADDR: addresses,
    RUNBOOKS_TEST_REAL_SHARES_FILE: sharesFile,
    RUNBOOKS_TEST_REAL_TOKEN_FILE: tokenFile,
  } = process.env;
  if (addresses === undefined) return undefined;
  if (sharesFile === undefined || tokenFile === undefined)
    throw new Error('RUNBOOKS_TEST_REAL_ADDR needs RUNBOOKS_TEST_REAL_SHARES_FILE and RUNBOOKS_TEST_REAL_TOKEN_FILE');
  return { addresses: addresses.split(','), sharesFile, tokenFile };
}

/** The real cluster in the environment; undefined with fewer than three nodes or no processes, which leader changes need. */
export function realCluster(): RealCluster | undefined {
  const server = realServer();
  const { RUNBOOKS_TEST_REAL_NODES_FILE: nodesFile } = process.env;
  return server === undefined || server.addresses.length < 3 || nodesFile === undefined
    ? undefined
    : { ...server, nodesFile };
}

/** The key shares in lower-case hexadecimal; the file may contain them in base64 too. */
export async function keySharesOf({ sharesFile }: RealServer): Promise<string[]> {
  const lines = (await readFile(sharesFile, 'utf8')).split(/\s+/).filter((line) => line !== '');
  return lines.map((line) =>
    /^[0-9a-f]+$/i.test(line) ? line.toLowerCase() : Buffer.from(line, 'base64').toString('hex'),
  );
}

/**
 * One real cluster, named `real`, in place of the simulated service, with only the members that a scenario reads.
 *
 * @param addresses - the addresses that the worker uses: those of the nodes, or of proxies in front of them
 */
export async function realService(server: RealServer, addresses = server.addresses): Promise<SimulatedService> {
  const keyShares = await keySharesOf(server);
  const rootToken = (await readFile(server.tokenFile, 'utf8')).trim();
  const cluster = { name: 'real', addresses, keyShares, rootToken, issuedSecrets: [] };
  const service = {
    clusters: new Map([[cluster.name, cluster]]),
    cluster: () => cluster,
    calls: [],
    stop: () => Promise.resolve(),
  };
  return service as unknown as SimulatedService;
}

/** The administrator gives the workers a token with this policy, and no other: none of them holds the root token. */
export async function makeWorkersToken(server: RealServer, policy: string): Promise<string> {
  const token = (await readFile(server.tokenFile, 'utf8')).trim();
  const written = await callReal(server, 'POST', `sys/policies/acl/${WORKERS_POLICY}`, { token, body: { policy } });
  expect(written.status).toBe(204);
  const body = { policies: [WORKERS_POLICY], ttl: '1h' };
  const { auth } = (await callReal(server, 'POST', 'auth/token/create', { token, body })).fields;
  expect(auth).toMatchObject({ policies: ['default', WORKERS_POLICY] });
  return (auth as { readonly client_token: string }).client_token;
}

const WORKERS_POLICY = 'runbooks-workers';

/**
 * Makes a call to the real server, as an administrator would manually.
 *
 * @param call.node - default: the active node
 */
export async function callReal(
  server: RealServer,
  method: string,
  path: string,
  { node, ...call }: PlainCall & { readonly node?: string } = {},
): Promise<PlainAnswer> {
  return callNode(node ?? (await activeNode(server)), method, path, call);
}

/** Waits for an active node. @returns its address */
export function activeNode({ addresses }: Pick<RealServer, 'addresses'>): Promise<string> {
  return until(`an active node among ${addresses.join(', ')}`, async () => {
    for (const address of addresses) {
      const { status } = await fetch(`${address}/v1/sys/health`).catch(() => ({ status: 0 }));
      if (status === 200) return address;
    }
    return undefined;
  });
}

/** Checks that the token is a root token of this server, then revokes it. */
export async function provenAndRevoked(server: RealServer, token: string): Promise<void> {
  const seen = await callReal(server, 'GET', 'auth/token/lookup-self', { token });
  expect(seen).toMatchObject({ status: 200, fields: { data: { policies: ['root'] } } });
  expect((await callReal(server, 'POST', 'auth/token/revoke-self', { token })).status).toBe(204);
}
