import { Client, Connection, isGrpcServiceError } from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { RunbookError } from '../errors';

/** How the command line says which server and namespace to use; the profile file and `TEMPORAL_*` say the rest. */
export interface ConnectionFlags {
  readonly address?: string;
  readonly namespace?: string;
  readonly profile?: string;
}

/** An open connection; close it. */
export interface TemporalSession {
  readonly client: Client;
  readonly namespace: string;
  readonly address: string;
  close(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 3_000;
const DEFAULT_ADDRESS = '127.0.0.1:7233';

/** Address, namespace and the rest of the connection's settings, from flags, `TEMPORAL_*` and the profile file. */
export function connectionSettings(flags: ConnectionFlags, env: NodeJS.ProcessEnv) {
  const overrideEnvVars = Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
  try {
    const loaded = loadClientConnectConfig({
      overrideEnvVars,
      ...(flags.profile === undefined ? {} : { profile: flags.profile }),
    });
    return {
      connectionOptions: {
        ...loaded.connectionOptions,
        address: flags.address ?? loaded.connectionOptions.address ?? DEFAULT_ADDRESS,
      },
      namespace: flags.namespace ?? loaded.namespace ?? 'default',
    };
  } catch (cause) {
    throw new RunbookError('INVALID_INPUT', 'The Temporal profile file or the TEMPORAL_* variables cannot be used.', {
      observed: cause instanceof Error ? cause.message : 'unknown',
      next: 'Correct the file named by TEMPORAL_CONFIG_FILE, or choose another profile with --profile.',
      cause,
    });
  }
}

/**
 * Connects to the Temporal server.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE` where nobody answers at the address.
 */
export async function connectTemporal(flags: ConnectionFlags, env: NodeJS.ProcessEnv): Promise<TemporalSession> {
  const { connectionOptions, namespace } = connectionSettings(flags, env);
  const { address } = connectionOptions;
  try {
    const connection = await Connection.connect({ ...connectionOptions, connectTimeout: CONNECT_TIMEOUT_MS });
    // Other people's payloads are read here too: one that cannot be decoded must not end the command.
    const client = new Client({
      connection,
      namespace,
      dataConverter: { payloadConverterPath: require.resolve('../contracts/payload-converter') },
    });
    return { client, namespace, address, close: () => connection.close() };
  } catch (cause) {
    throw new RunbookError('TEMPORAL_UNAVAILABLE', `No Temporal server answers at ${address}.`, {
      observed: isGrpcServiceError(cause) ? cause.details : 'no connection',
      next: 'Start one ("runbook dev" brings everything), or name it with --address or TEMPORAL_ADDRESS.',
      cause,
    });
  }
}
