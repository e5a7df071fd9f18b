import { request as httpRequest } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { ReplicationKind, SimulatedCluster, Topology } from '../../src/simulator';

/** An answer as it came over the wire. */
export interface WireAnswer {
  readonly status: number;
  readonly text: string;
  readonly headers: NodeJS.Dict<string | string[]>;
  /** The whole JSON document, or what is at a path in it. */
  readonly at: (...path: (string | number)[]) => unknown;
  /** The same as text; empty where there is nothing. */
  readonly textAt: (...path: (string | number)[]) => string;
}

export interface CallOptions {
  readonly token?: string;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  /** Node to call; default the first. */
  readonly node?: number;
}

/** One plain HTTP call, with nothing of the product's client in it. */
export function call(
  cluster: SimulatedCluster,
  method: string,
  path: string,
  { token, body, headers = {}, node = 0 }: CallOptions = {},
): Promise<WireAnswer> {
  const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest(
      `${cluster.addresses[node] ?? ''}/v1/${path}`,
      { method, agent: false, headers: { ...(token === undefined ? {} : { 'x-vault-token': token }), ...headers } },
      (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.on('error', reject);
        incoming.on('end', () => {
          const answer = Buffer.concat(chunks).toString('utf8');
          resolve(wireAnswer(incoming.statusCode ?? 0, answer, incoming.headers));
        });
      },
    );
    outgoing.on('error', reject);
    outgoing.end(text);
  });
}

function wireAnswer(status: number, text: string, headers: WireAnswer['headers']): WireAnswer {
  const at: WireAnswer['at'] = (...path) => path.reduce(member, parse(text));
  const textAt: WireAnswer['textAt'] = (...path) => {
    const found = at(...path);
    return typeof found === 'string' || typeof found === 'number' ? String(found) : '';
  };
  return { status, text, headers, at, textAt };
}

function member(value: unknown, name: string | number): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Enables a primary where none is, and lets another cluster join it. */
export async function join(
  kind: ReplicationKind,
  primary: SimulatedCluster,
  secondary: SimulatedCluster,
): Promise<WireAnswer> {
  const path = `sys/replication/${kind}`;
  await call(primary, 'POST', `${path}/primary/enable`, { token: primary.rootToken });
  const issued = await persistently(() =>
    call(primary, 'POST', `${path}/primary/secondary-token`, {
      token: primary.rootToken,
      body: { id: secondary.name },
    }),
  );
  const body = { token: issued.textAt('wrap_info', 'token') };
  return call(secondary, 'POST', `${path}/secondary/enable`, { token: secondary.rootToken, body });
}

/** Repeats a call through restart windows, until it is answered with something else than 412, 429, 5xx or a break. */
export async function persistently(make: () => Promise<WireAnswer>, deadlineMs = 60_000): Promise<WireAnswer> {
  return eventually(async () => {
    const answer = await make().catch(() => undefined);
    return answer !== undefined && answer.status < 500 && ![412, 429].includes(answer.status) ? answer : undefined;
  }, deadlineMs);
}

/** Waits until something is there. */
export async function eventually<T>(
  look: () => Promise<T | undefined | false> | T | undefined | false,
  deadlineMs = 60_000,
): Promise<T> {
  for (const deadline = Date.now() + deadlineMs; Date.now() < deadline; await delay(2)) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
  }
  throw new Error('condition not met in time');
}

/** East (DR and performance primary), west (its DR secondary), north (performance secondary), south (DR of north). */
export function deployment(overrides: Partial<Topology> = {}): Topology {
  return {
    seed: 7,
    mounts: ['kv/', 'secret/'].map((path) => ({ path, version: 1 as const })),
    clusters: [
      { name: 'east', nodes: 3 },
      { name: 'west', nodes: 3 },
      { name: 'north', nodes: 1 },
      { name: 'south', nodes: 1 },
    ],
    performance: { primary: 'east', secondaries: [{ name: 'north' }] },
    dr: [
      { primary: 'east', secondaries: ['west'] },
      { primary: 'north', secondaries: ['south'] },
    ],
    ...overrides,
  };
}
