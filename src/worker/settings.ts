import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { hostname, userInfo } from 'node:os';
import { resolve } from 'node:path';
import { DEFAULT_TASK_QUEUE } from '../contracts/names';
import { programVersion } from '../dev-server/locations';
import { errnoOf, RunbookError } from '../errors';
import { Secret } from '../secret';

const KEY_STORAGES = ['memory', 'disk'] as const;
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'silent'];

/** Memory-backed on Linux. Other systems have no such directory; there `RUNBOOKS_KEY_STORAGE` must be `disk`. */
const DEFAULT_KEY_DIRECTORY = `/dev/shm/replication-runbooks-${userInfo().uid}/keys`;

/**
 * Reads the settings of a worker from its environment.
 *
 * @throws RunbookError `INVALID_INPUT` or `SEAL_KEY_MISSING`; the text has the name of the variable, never a secret
 *   value.
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
    /** Storage required for the key records of ceremonies: `memory` (a memory-backed file system) or `disk` (any). */
    keyStorage,
    /** Directory for report files of ended runs; undefined: no files are written. */
    reportDirectory: reportDirectory === undefined ? undefined : resolve(reportDirectory),
    taskQueue: taskQueueSetting(env),
    logLevel,
    /** Where Prometheus scrapes this process; undefined: it opens no port. */
    metricsAddress: metricsAddress(env),
  };
}

/** The settings of a worker. `docs/cli.md` lists the environment variables. */
export type WorkerSettings = Readonly<Omit<Read, 'metricsAddress'> & Partial<Pick<Read, 'metricsAddress'>>>;
type Read = ReturnType<typeof workerSettings>;

/** The main task queue: `RUNBOOKS_TASK_QUEUE`, or else the default. */
export function taskQueueSetting(env: NodeJS.ProcessEnv): string {
  return given(env, 'RUNBOOKS_TASK_QUEUE') ?? DEFAULT_TASK_QUEUE;
}

/** The identity of this worker in Temporal, with process ID, host, and version. The Web UI and `runbook doctor` show it. */
export const workerIdentity = (): string => `${process.pid}@${hostname()}/${programVersion()}`;

/** The version in the identity of a worker. */
export const versionOf = (identity: string): string => /\/([^/]+)$/.exec(identity)?.[1] ?? 'unknown';

/** @throws RunbookError `INVALID_INPUT` if `RUNBOOKS_INVENTORY` is not set. */
export function inventoryPath(env: NodeJS.ProcessEnv): string {
  const path = given(env, 'RUNBOOKS_INVENTORY');
  if (path !== undefined) return resolve(path);
  throw new RunbookError('INVALID_INPUT', 'RUNBOOKS_INVENTORY is not set.', {
    needed: 'the path of the inventory file',
    next: 'Set RUNBOOKS_INVENTORY, and check the file with "runbook inventory check".',
  });
}

/** Reads seal keys only from a file: service managers show environments, and every child process inherits them. */
function readSealKeys(env: NodeJS.ProcessEnv): Secret<'private-key'> {
  if (given(env, 'RUNBOOKS_SEAL_KEYS') !== undefined)
    throw new RunbookError('INVALID_INPUT', 'RUNBOOKS_SEAL_KEYS is set, but seal keys are read only from a file.', {
      observed: 'seal keys in an environment variable, which workers do not read',
      needed: 'the same entries in a file; values that were sealed with them cannot be opened without them',
      next: 'Put its entries into a file that only the worker can read, set RUNBOOKS_SEAL_KEYS_FILE to that file, unset RUNBOOKS_SEAL_KEYS, and start the worker again.',
    });
  const file = given(env, 'RUNBOOKS_SEAL_KEYS_FILE');
  if (file === undefined) {
    throw new RunbookError('SEAL_KEY_MISSING', 'RUNBOOKS_SEAL_KEYS_FILE is not set.', {
      next: 'Create a key with "runbook keys seal", and give every worker the same key.',
    });
  }
  try {
    return new Secret('private-key', readFileSync(file, 'utf8'));
  } catch (error) {
    const reason = errnoOf(error) ?? 'unknown reason';
    throw new RunbookError('SEAL_KEY_MISSING', `RUNBOOKS_SEAL_KEYS_FILE: ${file} cannot be read (${reason}).`);
  }
}

/** An address by number: the SDK resolves no names. */
function metricsAddress(env: NodeJS.ProcessEnv): string | undefined {
  const address = given(env, 'RUNBOOKS_WORKER_METRICS');
  const [, host = '', port = ''] = /^(.+):(\d{1,5})$/.exec(address ?? '') ?? [];
  const isNumber = isIP(host) === 4 || (/^\[.*\]$/.test(host) && isIP(host.slice(1, -1)) === 6);
  if (address === undefined || (isNumber && Number(port) > 0 && Number(port) < 65_536)) return address;
  throw badVariable('RUNBOOKS_WORKER_METRICS', 'an IP address and a port, such as 127.0.0.1:9465');
}

/** An empty variable counts as not set. */
function given(env: NodeJS.ProcessEnv, name: string): string | undefined {
  return env[name] || undefined;
}

function badVariable(name: string, needed: string): RunbookError {
  return new RunbookError('INVALID_INPUT', `${name} has an unknown value.`, { needed });
}
