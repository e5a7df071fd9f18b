import { createHash } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from './json';

/** One request that reached a node, for assertions. */
export interface RecordedCall {
  /** Order of arrival, from 1, over all clusters. */
  readonly seq: number;
  readonly cluster: string;
  readonly node: number;
  readonly method: string;
  /** With `/v1` and without query. */
  readonly path: string;
  /** Secrets appear as `sha256:<hex>` only. */
  readonly body: JsonObject;
  /** Digest of the token header, where there was one. */
  readonly token: string | undefined;
  /** Whether a standby may pass it on. It then answers 307 or 503 also where it did, and lost the answer. */
  readonly mayBePassedOn: boolean;
  /** Of the answer that was sent; 0 while there is none or where the connection was broken instead. */
  status: number;
  /** What the answer said of a generation attempt, where it did. */
  attempt: { readonly nonce: string; readonly progress: number } | undefined;
  /** Whether the whole answer went out while the caller's connection was there. */
  delivered: boolean;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** When the answer was given or the connection was broken, milliseconds since the epoch; undefined while under way. */
  answeredAt: number | undefined;
}

const OPEN_FIELDS = [
  'id',
  'ttl',
  'nonce',
  'mode',
  'paths',
  'path',
  'force',
  'diff',
  'skip_flush',
  'primary_cluster_addr',
  'primary_api_addr',
  'update_primary_addrs',
  'ca_file',
  'ca_path',
  'secondary_public_key',
  'pgp_key',
  'policies',
  'type',
];

/** What a body says of a generation attempt. */
export function attemptIn(body: JsonValue | undefined): RecordedCall['attempt'] {
  if (!isJsonObject(body)) return undefined;
  const { nonce, progress } = body;
  return typeof nonce === 'string' && typeof progress === 'number' ? { nonce, progress } : undefined;
}

export function digest(text: string): string {
  return `sha256:${createHash('sha256').update(text).digest('hex')}`;
}

/** A body whose values are digests, except in fields that are known to hold no secret. */
export function redactBody(body: JsonValue): JsonObject {
  if (!isJsonObject(body)) return {};
  return Object.fromEntries(
    Object.entries(body).map(([name, value]) => [
      name,
      OPEN_FIELDS.includes(name) || typeof value === 'boolean' || value === '' ? value : digest(asText(value)),
    ]),
  );
}

function asText(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
