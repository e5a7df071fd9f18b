import type { ReplicationKind, SimulatedCluster, Topology } from '../../src/simulator';
import { clusters, replicating } from '../support/site';
import { callNode, until } from '../support/by-hand';
import type { PlainAnswer, PlainCall } from '../support/by-hand';

/** An answer as it came over the wire. */
export interface WireAnswer extends PlainAnswer {
  /** The whole JSON document, or what is at a path in it. */
  readonly at: (...path: (string | number)[]) => unknown;
  /** The same as text; empty where there is nothing. */
  readonly textAt: (...path: (string | number)[]) => string;
}

/** One plain HTTP call, of the first node where none is given. */
export async function call(
  { addresses }: SimulatedCluster,
  method: string,
  path: string,
  { node = 0, ...more }: PlainCall & { readonly node?: number } = {},
): Promise<WireAnswer> {
  const answer = await callNode(addresses[node] ?? '', method, path, more);
  const at: WireAnswer['at'] = (...names) => names.reduce(member, answer.fields);
  const textAt: WireAnswer['textAt'] = (...names) => {
    const found = at(...names);
    return typeof found === 'string' || typeof found === 'number' ? String(found) : '';
  };
  return { ...answer, at, textAt };
}

function member(value: unknown, name: string | number): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

/** Enables a primary where none is, and lets another cluster join it. */
export async function join(
  kind: ReplicationKind,
  primary: SimulatedCluster,
  secondary: SimulatedCluster,
): Promise<WireAnswer> {
  const path = `sys/replication/${kind}`;
  const token = primary.rootToken;
  await call(primary, 'POST', `${path}/primary/enable`, { token });
  const issued = await persistently(() =>
    call(primary, 'POST', `${path}/primary/secondary-token`, { token, body: { id: secondary.name } }),
  );
  const body = { token: issued.textAt('wrap_info', 'token') };
  return call(secondary, 'POST', `${path}/secondary/enable`, { token: secondary.rootToken, body });
}

/** Repeats a call through restart windows, until it is answered with something else than 412, 429, 5xx or a break. */
export function persistently(make: () => Promise<WireAnswer>): Promise<WireAnswer> {
  return eventually(async () => {
    const answer = await make().catch(() => undefined);
    return answer !== undefined && answer.status < 500 && ![412, 429].includes(answer.status) ? answer : undefined;
  });
}

/** Waits until something is there. */
export function eventually<T>(look: Parameters<typeof until<T>>[1]): Promise<T> {
  return until('the condition', look);
}

/** East (DR and performance primary), west (its DR secondary), north (performance secondary), south (DR of north). */
export function deployment(overrides: Partial<Topology> = {}): Topology {
  return {
    seed: 7,
    ...replicating({ main: ['east', 'west'], north: ['north', 'south'] }).topology,
    mounts: ['kv/', 'secret/'].map((path) => ({ path, version: 1 as const })),
    clusters: clusters({ east: 3, west: 3, north: 1, south: 1 }),
    ...overrides,
  };
}
