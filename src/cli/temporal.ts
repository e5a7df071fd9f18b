import { Client, Connection, isGrpcServiceError } from '@temporalio/client';
import { RunbookError } from '../errors';
import { connectionSettings, DATA_CONVERTER } from '../worker/connection';
import type { ConnectionFlags } from '../worker/connection';

export type { ConnectionFlags };

const CONNECT_TIMEOUT_MS = 3_000;

/**
 * Connects to the Temporal server.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE` where nobody answers at the address.
 */
export async function connectTemporal(flags: ConnectionFlags, env: NodeJS.ProcessEnv) {
  const { connectionOptions, namespace = 'default' } = connectionSettings(env, flags);
  const { address } = connectionOptions;
  try {
    const connection = await Connection.connect({ ...connectionOptions, connectTimeout: CONNECT_TIMEOUT_MS });
    // Other people's payloads are read here too: one that cannot be decoded must not end the command.
    const client = new Client({ connection, namespace, dataConverter: DATA_CONVERTER });
    return { client, namespace, address, close: () => connection.close() };
  } catch (cause) {
    throw new RunbookError('TEMPORAL_UNAVAILABLE', `No Temporal server answers at ${address}.`, {
      observed: isGrpcServiceError(cause) ? cause.details : 'no connection',
      next: 'Start one ("runbook dev" brings everything), or name it with --address or TEMPORAL_ADDRESS.',
      cause,
    });
  }
}

/** An open connection; close it. */
export type TemporalSession = Awaited<ReturnType<typeof connectTemporal>>;
