import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import { jsonIn } from '../contracts/words';
import { errnoOf, RunbookError } from '../errors';
import { personalFolder } from './secret-input';

/** Each of these selects a Temporal server. */
const SERVER = ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE'];
/** How a person reaches Temporal or the gateway: paths, never what is in the files, and no API key. */
const CONNECTION = [
  ...SERVER,
  ...['TEMPORAL_NAMESPACE', 'TEMPORAL_TLS', 'TEMPORAL_TLS_SERVER_NAME', 'TEMPORAL_TLS_SERVER_CA_CERT_PATH'],
  ...['TEMPORAL_TLS_CLIENT_CERT_PATH', 'TEMPORAL_TLS_CLIENT_KEY_PATH'],
  ...['RUNBOOKS_GATEWAY', 'RUNBOOKS_GATEWAY_CA_FILE'],
];
/** The variables that are stored. */
const STORED = [
  ...['RUNBOOKS_PERSON', 'RUNBOOKS_KEY_FILE', 'RUNBOOKS_PINS', 'RUNBOOKS_TASK_QUEUE', 'RUNBOOKS_TEMPORAL_UI'],
  ...CONNECTION,
];
const IS_PATH = /_(PATH|FILE|PINS)$/;

type Variables = Readonly<Record<string, string>>;

/** Where `runbook join` stores a person's settings. */
export const personalSettingsFile = (env: NodeJS.ProcessEnv): string => join(personalFolder(env), 'settings.json');

/** The variables that were stored, no others. @throws RunbookError `INVALID_INPUT` if the file cannot be read */
export function readPersonalSettings(env: NodeJS.ProcessEnv): Variables {
  const file = personalSettingsFile(env);
  let observed = 'not a JSON object';
  try {
    const found = jsonIn(readFileSync(file, 'utf8'));
    if (typeof found === 'object' && found !== null)
      return Object.fromEntries(
        Object.entries(found).filter(
          (each): each is [string, string] => STORED.includes(each[0]) && typeof each[1] === 'string',
        ),
      );
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return {};
    observed = errnoOf(error) ?? 'unknown reason';
  }
  throw new RunbookError('INVALID_INPUT', `Your settings in ${file} cannot be read.`, {
    observed,
    needed: 'the file as `runbook join` wrote it',
    next: 'Move the file away, and run `runbook join` again with your line. You keep your key.',
  });
}

/**
 * The environment with a person's stored settings where it says nothing itself. A server that the environment selects
 * gets nothing of the stored connection. A key in another place belongs to the stored person only.
 */
export function withPersonalSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const stored = readPersonalSettings(env);
  const otherServer = SERVER.some((name) => env[name]);
  const otherPerson = (env['RUNBOOKS_PERSON'] || stored['RUNBOOKS_PERSON']) !== stored['RUNBOOKS_PERSON'];
  const taken = Object.entries(stored).filter(
    ([name]) =>
      !env[name] && !(otherServer && CONNECTION.includes(name)) && !(otherPerson && name === 'RUNBOOKS_KEY_FILE'),
  );
  return { ...env, ...Object.fromEntries(taken) };
}

/** What of the environment is stored for a person: relative paths become absolute. */
export function settingsToStore(env: NodeJS.ProcessEnv): Variables {
  return Object.fromEntries(
    STORED.flatMap((name) => {
      const value = env[name];
      return value ? [[name, IS_PATH.test(name) ? resolve(value) : value]] : [];
    }),
  );
}

/** Stores a person's settings, for nobody else to read. */
export function storePersonalSettings(env: NodeJS.ProcessEnv, settings: Variables): Promise<void> {
  return writeFileAtomic(personalSettingsFile(env), `${JSON.stringify(settings, null, 2)}\n`, { mode: 0o600 });
}
