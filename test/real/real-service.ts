import { readFile } from 'node:fs/promises';
import type { SimulatedService } from '../../src/simulator';
import { callNode, until } from '../support/by-hand';
import type { PlainAnswer, PlainCall } from '../support/by-hand';

/** Where a real server is: the API addresses of its nodes, and the files with its key shares (one a line) and a token. */
export interface RealServer {
  readonly addresses: readonly string[];
  readonly sharesFile: string;
  readonly tokenFile: string;
}

/** Several nodes, with a root token, and a JSON file of their processes that says at any moment which they are now. */
export interface RealCluster extends RealServer {
  readonly nodesFile: string;
}

/** One entry of the file of processes. */
export interface NodeProcess {
  readonly address: string;
  readonly pid: number;
}

/** Undefined where the environment names none: the tests against it are then reported as not run. */
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

/** Undefined where the environment names one node only, or not its processes: leader changes cannot be tried then. */
export function realCluster(): RealCluster | undefined {
  const server = realServer();
  const { RUNBOOKS_TEST_REAL_NODES_FILE: nodesFile } = process.env;
  return server === undefined || server.addresses.length < 3 || nodesFile === undefined
    ? undefined
    : { ...server, nodesFile };
}

/** In lower-case hexadecimal; the file may hold them in base64 as well. */
export async function keySharesOf({ sharesFile }: RealServer): Promise<string[]> {
  const lines = (await readFile(sharesFile, 'utf8')).split(/\s+/).filter((line) => line !== '');
  return lines.map((line) =>
    /^[0-9a-f]+$/i.test(line) ? line.toLowerCase() : Buffer.from(line, 'base64').toString('hex'),
  );
}

/**
 * One real cluster, named `real`, in the place of the simulated service: what a scenario reads of it, and no more.
 *
 * @param addresses - where the worker finds its nodes: their own addresses, or proxies before them
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
 * A call of the real server, beside the runbook: what an administrator would do by hand.
 *
 * @param call.node - the active one where it is not given
 */
export async function callReal(
  server: RealServer,
  method: string,
  path: string,
  { node, ...call }: PlainCall & { readonly node?: string } = {},
): Promise<PlainAnswer> {
  return callNode(node ?? (await activeNode(server)), method, path, call);
}

/** Address of the node that is active; waits for one. */
export function activeNode({ addresses }: Pick<RealServer, 'addresses'>): Promise<string> {
  return until(`an active node among ${addresses.join(', ')}`, async () => {
    for (const address of addresses) {
      const { status } = await fetch(`${address}/v1/sys/health`).catch(() => ({ status: 0 }));
      if (status === 200) return address;
    }
    return undefined;
  });
}

/** The token is a root token of this server; afterwards it is none. */
export async function provenAndRevoked(server: RealServer, token: string): Promise<void> {
  const seen = await callReal(server, 'GET', 'auth/token/lookup-self', { token });
  expect(seen).toMatchObject({ status: 200, fields: { data: { policies: ['root'] } } });
  expect((await callReal(server, 'POST', 'auth/token/revoke-self', { token })).status).toBe(204);
}
