import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request } from 'undici';
import type { SimulatedService } from '../../src/simulator';
import { demotePrimary, promoteSecondary } from '../../src/simulator/roles';
import type { Scenario } from './scenario';

/** Only an upper bound: on a busy machine, a restarted node needs time until it takes part again. */
const WITHIN_MS = 120_000;

export interface PlainCall {
  readonly token?: string | undefined;
  /** A string is sent unchanged. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly ca?: string;
}

export interface PlainAnswer {
  readonly status: number;
  readonly text: string;
  /** The members of a JSON document. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly location: string | undefined;
}

/** Makes one plain call to a node, without the product's client; the connection is closed afterwards. */
export async function callNode(
  address: string,
  method: string,
  path: string,
  { token, body, headers, ca }: PlainCall = {},
): Promise<PlainAnswer> {
  const dispatcher = new Agent({ connect: { ca } });
  try {
    const answer = await request(`${address}/v1/${path}`, {
      dispatcher,
      method,
      headers: {
        'content-type': 'application/json',
        ...headers,
        ...(token !== undefined && { 'x-vault-token': token }),
      },
      body: typeof body === 'string' || body === undefined ? body : JSON.stringify(body),
    });
    const text = await answer.body.text();
    const location = answer.headers['location']?.toString();
    return { status: answer.statusCode, text, fields: fieldsOf(text), location };
  } finally {
    await dispatcher.close();
  }
}

function fieldsOf(text: string): PlainAnswer['fields'] {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null ? { ...parsed } : {};
  } catch {
    return {};
  }
}

/** Makes one change with the cluster's root token, as an operator does manually, until the call is accepted. */
export async function post(scenario: Scenario, cluster: string, path: string, body: object): Promise<string> {
  const { addresses, rootToken: token } = scenario.service.cluster(cluster);
  for (const deadline = Date.now() + WITHIN_MS; ; await delay(30)) {
    const { status, text } = await callNode(addresses[0] ?? '', 'POST', `sys/replication/${path}`, { token, body });
    if (status < 300) return text;
    if (status < 500 || Date.now() > deadline) throw new Error(`${path}: ${status} ${text}`);
  }
}

/** The sealed nodes of a cluster, once every standby that will seal itself has done so. */
export function sealedNodes({ service }: Scenario, cluster: string) {
  const { nodes } = service.cluster(cluster);
  return until(`every standby of ${cluster} sealed itself`, () => {
    service.advance();
    return nodes.every(({ sealsAt }) => sealsAt === undefined) && nodes.filter(({ sealed }) => sealed);
  });
}

/** Unseals the sealed nodes of a cluster with key shares of another cluster, as people do manually. */
export async function unsealAll(scenario: Scenario, cluster: string, sharesOf: string): Promise<number[]> {
  const statuses: number[] = [];
  const { service } = scenario;
  for (const { address } of await sealedNodes(scenario, cluster))
    for (const key of service.cluster(sharesOf).keyShares.slice(0, 3))
      statuses.push((await callNode(address, 'POST', 'sys/unseal', { body: { key } })).status);
  return statuses;
}

/**
 * Creates the situation after a failover: `former` is cut off and still considers itself primary, `next` was promoted
 * by force, and clients, which nobody fenced, wrote to both.
 */
export async function splitPrimaries(
  { service }: { readonly service: SimulatedService },
  former: string,
  next: string,
): Promise<void> {
  const [from, to] = [service.cluster(former), service.cluster(next)];
  service.partition(former, next);
  const token = to.tokens.createOperationToken(service.now());
  const body = { dr_operation_token: token, force: true };
  const { status } = await callNode(to.addresses[0] ?? '', 'POST', 'sys/replication/dr/secondary/promote', { body });
  if (status >= 300) throw new Error(`${next} was not promoted: status ${status}`);
  for (service.advance(); to.leadership.serving(service.now()) === undefined; service.advance()) await delay(10);
  to.tokens.deleteOperationToken(token, service.now());
  from.write('secret/after-the-split', { on: former });
  to.write('secret/after-the-split', { on: next });
}

/** Waits for a condition; returns the first value that is neither `undefined` nor `false`. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
): Promise<T> {
  for (const deadline = Date.now() + WITHIN_MS; Date.now() < deadline; await delay(20)) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
  }
  throw new Error(`not seen within ${WITHIN_MS / 1000} s: ${what}`);
}

/**
 * Checks that work takes less than a number of milliseconds. It is tried again because the machine may be busy; one
 * fast try is enough.
 *
 * @returns the duration of each try if none was fast enough; otherwise an empty list
 */
export async function tooSlow(limitMs: number, work: () => Promise<unknown>): Promise<number[]> {
  const tries: number[] = [];
  while (tries.length < 5) {
    const began = performance.now();
    await work();
    tries.push(performance.now() - began);
    if (tries.some((took) => took < limitMs)) return [];
  }
  return tries;
}

/** Changes the DR primary, bypassing the HTTP interface; no other secondary is re-pointed. */
export function changeDrPrimary({ service }: Scenario, from: string, to: string): void {
  service.advanceClock(1_000);
  demotePrimary(service.cluster(from), 'dr');
  service.advanceClock(1_000);
  promoteSecondary(service.cluster(to), 'dr', '', false);
  service.advanceClock(1_000);
}
