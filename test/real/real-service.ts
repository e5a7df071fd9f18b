import { readFile } from 'node:fs/promises';
import type { SimulatedService } from '../../src/simulator';

/** Where a real server is: its API address, and the files with its key shares (one a line) and a token. */
export interface RealServer {
  readonly address: string;
  readonly sharesFile: string;
  readonly tokenFile: string;
}

/** Undefined where the environment names none: the tests against it are then reported as not run. */
export function realServer(environment: NodeJS.ProcessEnv = process.env): RealServer | undefined {
  const {
    RUNBOOKS_TEST_REAL_ADDR: address,
    RUNBOOKS_TEST_REAL_SHARES_FILE: sharesFile,
    RUNBOOKS_TEST_REAL_TOKEN_FILE: tokenFile,
  } = environment;
  if (address === undefined) return undefined;
  if (sharesFile === undefined || tokenFile === undefined)
    throw new Error('RUNBOOKS_TEST_REAL_ADDR needs RUNBOOKS_TEST_REAL_SHARES_FILE and RUNBOOKS_TEST_REAL_TOKEN_FILE');
  return { address, sharesFile, tokenFile };
}

/** One real cluster, named `real`, in the place of the simulated service: what a scenario reads of it, and no more. */
export async function realService({ address, sharesFile, tokenFile }: RealServer): Promise<SimulatedService> {
  const keyShares = (await readFile(sharesFile, 'utf8')).split(/\s+/).filter((line) => line !== '');
  const rootToken = (await readFile(tokenFile, 'utf8')).trim();
  const cluster = { name: 'real', addresses: [address], keyShares, rootToken, issuedSecrets: [] };
  const service = {
    clusters: new Map([[cluster.name, cluster]]),
    cluster: () => cluster,
    calls: [],
    stop: () => Promise.resolve(),
  };
  return service as unknown as SimulatedService;
}

/** A call of the real server, beside the runbook: what an administrator would do by hand. */
export async function callReal(
  { address }: RealServer,
  method: string,
  path: string,
  options: { readonly token?: string; readonly body?: unknown } = {},
): Promise<{ readonly status: number; readonly body: Readonly<Record<string, unknown>> }> {
  const answer = await fetch(`${address}/v1/${path}`, {
    method,
    headers: options.token === undefined ? {} : { 'X-Vault-Token': options.token },
    ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
  });
  const text = await answer.text();
  return { status: answer.status, body: (text === '' ? {} : JSON.parse(text)) as Readonly<Record<string, unknown>> };
}
