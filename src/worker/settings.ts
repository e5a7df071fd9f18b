import { readFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { resolve } from 'node:path';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { DEFAULT_TASK_QUEUE } from '../contracts/names';
import { programVersion } from '../dev-server/locations';
import { errnoOf, RunbookError } from '../errors';
import { redact, Secret } from '../secret';

const KEY_STORAGES = ['memory', 'disk'] as const;
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'silent'];

/** Memory-backed on Linux. Elsewhere there is no such place, and the key storage must be declared to be a disk. */
const DEFAULT_KEY_DIRECTORY = `/dev/shm/replication-runbooks-${userInfo().uid}/keys`;

/**
 * Reads the settings of a worker.
 *
 * @throws RunbookError `INVALID_INPUT`, `SEAL_KEY_MISSING`, naming the variable and never a secret's value.
 */
export function workerSettings(env: NodeJS.ProcessEnv) {
  const logLevel = given(env, 'RUNBOOKS_LOG_LEVEL') ?? 'info';
  if (!LOG_LEVELS.includes(logLevel)) throw badVariable('RUNBOOKS_LOG_LEVEL', LOG_LEVELS.join(', '));
  const storage = given(env, 'RUNBOOKS_KEY_STORAGE') ?? 'memory';
  const keyStorage = KEY_STORAGES.find((each) => each === storage);
  if (keyStorage === undefined) throw badVariable('RUNBOOKS_KEY_STORAGE', KEY_STORAGES.join(' or '));
  const reportDirectory = given(env, 'RUNBOOKS_REPORT_DIR');
  return {
    inventoryPath: inventoryPath(env),
    sealKeys: readSealKeys(env),
    keyDirectory: resolve(given(env, 'RUNBOOKS_KEY_DIR') ?? DEFAULT_KEY_DIRECTORY),
    /** Where the key records of ceremonies may lie: a memory-backed file system, or any. */
    keyStorage,
    /** Where reports of ended runs are kept as files too; undefined: nowhere. */
    reportDirectory: reportDirectory === undefined ? undefined : resolve(reportDirectory),
    taskQueue: taskQueueSetting(env),
    logLevel,
  };
}

/** What a worker reads from its environment. `docs/cli.md` lists the variables. */
export type WorkerSettings = Readonly<ReturnType<typeof workerSettings>>;

/** The task queue of this site: `RUNBOOKS_TASK_QUEUE` or the default one. */
export function taskQueueSetting(env: NodeJS.ProcessEnv): string {
  return given(env, 'RUNBOOKS_TASK_QUEUE') ?? DEFAULT_TASK_QUEUE;
}

/** How this worker names itself to Temporal, whose Web UI and `runbook doctor` show it: process, host and version. */
export const workerIdentity = (): string => `${process.pid}@${hostname()}/${programVersion()}`;

/** The version in the name that a worker gives itself. */
export const versionOf = (identity: string): string => /\/([^/]+)$/.exec(identity)?.[1] ?? 'unknown';

/** @throws RunbookError `INVALID_INPUT` where `RUNBOOKS_INVENTORY` is not set. */
export function inventoryPath(env: NodeJS.ProcessEnv): string {
  const path = given(env, 'RUNBOOKS_INVENTORY');
  if (path !== undefined) return resolve(path);
  throw new RunbookError('INVALID_INPUT', 'RUNBOOKS_INVENTORY is not set.', {
    needed: 'the path of the inventory file',
    next: 'Set RUNBOOKS_INVENTORY, and try the file with "runbook inventory check".',
  });
}

/** From a file alone: an environment is shown by service managers, and inherited by programs that nobody thinks of. */
function readSealKeys(env: NodeJS.ProcessEnv): Secret<'private-key'> {
  if (given(env, 'RUNBOOKS_SEAL_KEYS') !== undefined)
    throw new RunbookError('INVALID_INPUT', 'RUNBOOKS_SEAL_KEYS is set; seal keys are read from a file alone.', {
      observed: 'entries in a variable, which no worker reads',
      needed: 'the same entries in a file: without them nothing that they sealed can be opened',
      next: 'Put its entries into a file that only the worker can read, name it with RUNBOOKS_SEAL_KEYS_FILE, unset RUNBOOKS_SEAL_KEYS, and start again.',
    });
  const file = given(env, 'RUNBOOKS_SEAL_KEYS_FILE');
  if (file === undefined) {
    throw new RunbookError('SEAL_KEY_MISSING', 'RUNBOOKS_SEAL_KEYS_FILE is not set.', {
      next: 'Make a key with "runbook keys seal" and give every worker the same one.',
    });
  }
  try {
    return new Secret('private-key', readFileSync(file, 'utf8'));
  } catch (error) {
    const reason = errnoOf(error) ?? 'unknown reason';
    throw new RunbookError('SEAL_KEY_MISSING', `RUNBOOKS_SEAL_KEYS_FILE, ${file}, cannot be read (${reason}).`);
  }
}

/** An empty variable counts as not set, as in most programs. */
function given(env: NodeJS.ProcessEnv, name: string): string | undefined {
  return env[name] || undefined;
}

function badVariable(name: string, needed: string): RunbookError {
  return new RunbookError('INVALID_INPUT', `${name} has a value that is not known.`, { needed });
}

/** Where the payload converter is, for workers and clients: it must be loadable by the SDK itself. */
export const DATA_CONVERTER = { payloadConverterPath: require.resolve('../contracts/payload-converter') };

/** How a command line says which server and namespace to use; the profile file and `TEMPORAL_*` say the rest. */
export interface ConnectionFlags {
  readonly address?: string;
  readonly namespace?: string;
}

/**
 * Address, namespace and the rest of the connection's settings, from flags, `TEMPORAL_*` and the profile file.
 *
 * @throws RunbookError `INVALID_INPUT` where they cannot be read.
 */
export function connectionSettings(env: NodeJS.ProcessEnv, flags: ConnectionFlags = {}) {
  const overrideEnvVars = Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value ? [[name, value]] : [])),
  );
  try {
    const loaded = loadClientConnectConfig({ overrideEnvVars });
    const address = flags.address ?? loaded.connectionOptions.address ?? '127.0.0.1:7233';
    return {
      connectionOptions: { ...loaded.connectionOptions, address },
      namespace: flags.namespace ?? loaded.namespace,
    };
  } catch (cause) {
    throw new RunbookError('INVALID_INPUT', 'The Temporal profile file or the TEMPORAL_* variables cannot be used.', {
      // The first line alone, and no cause: what follows quotes the file, which may hold an API key.
      observed: cause instanceof Error ? redact(cause.message.split('\n', 1)[0] ?? '') : 'unknown',
      next: 'Correct the file named by TEMPORAL_CONFIG_FILE, or choose another profile with TEMPORAL_PROFILE.',
    });
  }
}
