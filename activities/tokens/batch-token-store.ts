import type { BatchTokenSink } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import { BatchTokenFile } from './batch-token-file';
import { BatchTokenKey } from './batch-token-key';
import type { Clusters } from '../clusters';

/** Where the batch token of a DR set is kept. What is written replaces the token before it as a whole, or not at all. */
export interface BatchTokenStore {
  /** In words, for people. */
  readonly where: string;
  /** @throws RunbookError PRECONDITION_FAILED where a token must not, or cannot, be kept there. */
  check(signal: AbortSignal): Promise<void>;
  /** The token that is there; undefined where there is none. */
  read(signal: AbortSignal): Promise<Secret<'batch-token'> | undefined>;
  /** Puts the token there, and sees that it is. */
  replace(token: Secret<'batch-token'>, signal: AbortSignal): Promise<void>;
}

export function storeOf(clusters: Clusters, sink: BatchTokenSink): BatchTokenStore {
  return 'file' in sink ? new BatchTokenFile(sink.file) : new BatchTokenKey(clusters, sink.keyValue);
}
