import { loadClientConnectConfig } from '@temporalio/envconfig';
import { RunbookError } from '../errors';
import { redact } from '../keys';

/** Where the payload converter is, for workers and clients: it must be loadable by the SDK itself. */
export const DATA_CONVERTER = { payloadConverterPath: require.resolve('../contracts/payload-converter') };

/** How a command line says which server and namespace to use; the profile file and `TEMPORAL_*` say the rest. */
export interface ConnectionFlags {
  readonly address?: string;
  readonly namespace?: string;
  readonly profile?: string;
}

/**
 * Address, namespace and the rest of the connection's settings, from flags, `TEMPORAL_*` and the profile file.
 *
 * @throws RunbookError `INVALID_INPUT` where they cannot be read.
 */
export function connectionSettings(env: NodeJS.ProcessEnv, flags: ConnectionFlags = {}) {
  const overrideEnvVars = Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
  const { profile } = flags;
  try {
    const loaded = loadClientConnectConfig({ overrideEnvVars, ...(profile !== undefined && { profile }) });
    const address = flags.address ?? loaded.connectionOptions.address ?? '127.0.0.1:7233';
    return {
      connectionOptions: { ...loaded.connectionOptions, address },
      namespace: flags.namespace ?? loaded.namespace,
    };
  } catch (cause) {
    throw new RunbookError('INVALID_INPUT', 'The Temporal profile file or the TEMPORAL_* variables cannot be used.', {
      // The first line alone, and no cause: what follows quotes the file, which may hold an API key.
      observed: cause instanceof Error ? redact(cause.message.split('\n', 1)[0] ?? '') : 'unknown',
      next: 'Correct the file named by TEMPORAL_CONFIG_FILE, or choose another profile with --profile.',
    });
  }
}
