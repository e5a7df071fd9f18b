import { existsSync, statSync } from 'node:fs';
import { lstat, readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { programVersion } from '../../dev-server/locations';
import { errnoOf, isRunbookError } from '../../errors';
import { hasJoined, loadInventory, onlyLaboratories, readSigningKey, wantedSchedules } from '../../inventory';
import type { Inventory } from '../../inventory';
import { formatPublicKey, isMemoryBacked, parsePublicKey, prepareKeyDirectory } from '../../keys';
import { readPins, SealKeyring, spokenFingerprint } from '../../keys';
import { redact } from '../../secret';
import { checkProcess, processFacts } from '../../process-guard';
import { connectionSettings, plainText } from '../../worker/connection';
import { taskQueueSetting, workerSettings } from '../../worker/settings';
import { namespaceCommand, RETENTION_DAYS } from '../../worker/temporal-away';
import { newCommand, printResult, withServerOptions, withSession } from '../command';
import type { ServerOptions } from '../command';
import type { CliContext } from '../context';
import { ignoredVariables } from '../environment';
import { exitCodeOfVerdicts, isNoRun } from '../errors';
import { DEFAULT_ENVIRONMENT, pinsPath } from '../invitation';
import { pointLines } from '../render-plan';
import type { Point } from '../render-plan';
import { isPolled, pollersText, readPollers } from '../run';
import type { TemporalSession } from '../run';
import { personalKeyFile } from '../secret-input';
import type { CommandHost } from '../command-host';
import { shellLine } from '../../contracts/next-commands';
import { serviceMs } from '../../../activities/readiness/reading';
import { readSchedule } from '../../../activities/schedules';
import { joinedPoints, livePoints, openToOthers } from './inventory';
import { schedulePoints } from './schedules';
import { publicLineFile } from './keys';

export const commands = (host: CommandHost): Command[] => [doctorCommand(host)];

/** A finding; `next` is a command, or an instruction for a person. */
const point = (id: string, verdict: Point['verdict'], observed: string, next?: string): Point => ({
  ...{ id, verdict, observed, next },
});

/** A command, as the text of a fix. */
const command = (...words: readonly string[]) => `\`${shellLine(...words)}\``;

const KEY_DIRECTORY = '`export RUNBOOKS_KEY_DIR=/dev/shm/replication-runbooks/keys`';
/** `runbook join` keeps an existing key. */
const CHECK_INVENTORY = '`runbook inventory check`';
const JOIN = 'With the line that the operators sent you: `runbook join LINE`';
const SETTINGS =
  'On the worker host, load the settings that "runbook init" wrote: `. /etc/replication-runbooks/env.sh`';

/** The time limit of one check, ms; all checks run at the same time. */
const CHECK_MS = 12_000;

/** By the exit code. */
const SUMMARIES: Readonly<Record<number, string>> = {
  0: 'Nothing is missing.',
  3: 'Something is missing: see "fail".',
  7: 'Nothing is missing; see the warnings.',
};

/** `runbook doctor`: checks everything that a run needs, each item independently of the others. */
function doctorCommand({ context, finish }: CommandHost): Command {
  const doctor = newCommand('doctor', ['runbook doctor', 'runbook doctor --json']);
  return withServerOptions(doctor).action(async (options: ServerOptions) => {
    const { env, stop } = context;
    const path = env['RUNBOOKS_INVENTORY'];
    const read = path ? loadInventory(path) : Promise.resolve(undefined);
    // Without an inventory the other checks report what they can.
    const inventory = await read.catch(() => undefined);
    const found = await Promise.all([
      check('inventory', async () => inventoryPoints(path, await read), CHECK_INVENTORY),
      check('temporal', () => temporalPoints(context, options, inventory), '`temporal operator cluster health`'),
      check('network', async () => networkPoints(env, options), SETTINGS),
      check('worker host', () => workerPoints(env, inventory), '`runbook keys seal --output FILE`'),
      check('pins', () => pinPoints(env, inventory), JOIN),
      check('you', () => personPoints(env, inventory), JOIN),
      check(
        'clusters',
        () => clusterPoints(stop, inventory),
        '`runbook inventory check --live`',
        clustersMs(inventory),
      ),
    ]);
    const ignored = ignoredVariables(env);
    const environment = ignored === undefined ? [] : [point('environment', 'not-checkable', ignored, CHECK_INVENTORY)];
    const findings = [...found.flat(), ...environment];
    const code = exitCodeOfVerdicts(findings.map(({ verdict }) => verdict));
    printResult(context, options, 'doctor', { findings }, [...pointLines(findings), '', SUMMARIES[code] ?? '']);
    finish(code);
  });
}

/** A check that fails or takes too long becomes a finding; the others are still shown. */
async function check(
  id: string,
  work: () => Promise<readonly Point[]>,
  fix: string,
  limitMs = CHECK_MS,
): Promise<readonly Point[]> {
  const over = new AbortController();
  const late = delay(limitMs, undefined, { signal: over.signal }).then(
    () => [point(id, 'fail', `no answer within ${limitMs / 1_000} s`, fix)],
    () => [],
  );
  try {
    return await Promise.race([work(), late]);
  } catch (error) {
    if (!isRunbookError(error))
      return [point(id, 'fail', redact(error instanceof Error ? error.message : 'failed'), fix)];
    const { code, message, observed, needed, next = fix } = error;
    const seen = observed === undefined ? '' : ` (${observed})`;
    return [{ ...point(id, 'fail', `${code}: ${message}${seen}`, next), needed }];
  } finally {
    over.abort();
  }
}

async function inventoryPoints(path: string | undefined, inventory: Inventory | undefined): Promise<Point[]> {
  if (path === undefined || inventory === undefined)
    return [point('inventory', 'not-checkable', 'none here (RUNBOOKS_INVENTORY is not set)', SETTINGS)];
  const open = await openToOthers(path, inventory);
  return [point('inventory', 'ok', `${path}: no mistakes`), ...open, ...joinedPoints(inventory)];
}

const RIGHTS =
  'Check that this person may read it (docs/operations.md, "Rights in Temporal"), and that Temporal answers at all.';

/** Whether others on the network can read what goes to Temporal. */
function networkPoints(env: NodeJS.ProcessEnv, options: ServerOptions): Point[] {
  const plain = plainText(connectionSettings(env, options).connectionOptions);
  return plain === undefined ? [] : [point('network', 'warn', plain.text, plain.next)];
}

function temporalPoints(
  context: CliContext,
  options: ServerOptions,
  inventory: Inventory | undefined,
): Promise<Point[]> {
  return withSession(context, options, async (session) => {
    const { client, namespace, address } = session;
    const answers = point('temporal', 'ok', `${address} answers`);
    const fix = (verb: 'create' | 'update') => `\`${namespaceCommand(verb, namespace)}\``;
    const describe = () => client.workflowService.describeNamespace({ namespace });
    const described = await client.withDeadline(Date.now() + 5_000, describe).catch(isNoRun);
    if (described === true)
      return [answers, point('namespace', 'fail', `"${namespace}" does not exist`, fix('create'))];
    if (described === false) return [answers, point('namespace', 'fail', `"${namespace}" cannot be read`, RIGHTS)];
    const seconds = Number(described.config?.workflowExecutionRetentionTtl?.seconds ?? 0);
    const days = Math.round(seconds / 86_400);
    const kept = `"${namespace}", histories are kept for ${days === 1 ? 'one day' : `${days} days`}`;
    const short = point('namespace', 'warn', `${kept}; reports need them`, fix('update'));
    const ofNamespace = days >= RETENTION_DAYS ? point('namespace', 'ok', kept) : short;
    return [answers, ofNamespace, await pollers(context, session), ...(await schedules(context, session, inventory))];
  });
}

/** Whether the Schedules are those of the inventory. */
async function schedules(
  { env }: CliContext,
  { client }: TemporalSession,
  inventory: Inventory | undefined,
): Promise<readonly Point[]> {
  const wanted = [...(inventory?.deployments.values() ?? [])].flatMap(wantedSchedules);
  const read = () => Promise.all(wanted.map((each) => readSchedule(client, each, taskQueueSetting(env))));
  const points = await check('schedules', async () => schedulePoints(await read()), '`runbook schedules list`');
  // No run needs them, and not everybody may read them.
  return points.map((each) => (each.verdict === 'fail' ? { ...each, verdict: 'warn' } : each));
}

/** Whether a worker polls, and whether all polling workers run this version. */
async function pollers({ env }: CliContext, session: TemporalSession): Promise<Point> {
  const queue = taskQueueSetting(env);
  const seen = await readPollers(session, queue);
  const polled = pollersText(queue, seen);
  const start = 'On the worker host: `runbook worker`, or with systemd: `systemctl start replication-runbooks-worker`';
  if (!isPolled(seen)) return point('workers', 'fail', polled, start);
  const versions = seen?.versions ?? [];
  const observed = `${polled}, version ${versions.join(', ')}`;
  if (versions.every((version) => version === programVersion())) return point('workers', 'ok', observed);
  const next =
    'Install the same version on all hosts (docs/operations.md, "Upgrading"). Then on each: `sudo systemctl restart replication-runbooks-worker`';
  return { ...point('workers', 'warn', observed, next), needed: `this program is ${programVersion()}` };
}

/** Checks only for a worker host: its keys and memory. A machine without seal keys is not a worker host. */
async function workerPoints(env: NodeJS.ProcessEnv, inventory: Inventory | undefined): Promise<Point[]> {
  const sealKeysFile = env['RUNBOOKS_SEAL_KEYS_FILE'];
  if (!sealKeysFile)
    return [
      point('worker host', 'not-checkable', `${hostname()} is not one (RUNBOOKS_SEAL_KEYS_FILE is not set)`, SETTINGS),
    ];
  const { sealKeys, keyDirectory, keyStorage } = workerSettings(env);
  SealKeyring.parse(sealKeys.reveal());
  const source = inventory?.workers.signingKey;
  const signingKey = async () => {
    if (source === undefined) return [];
    return [point("workers' key", 'ok', `fingerprint ${spokenFingerprint((await readSigningKey(source)).kid)}`)];
  };
  const files = [sealKeysFile, source && 'file' in source ? source.file : undefined];
  const open = files.filter((file) => file && ((statSync(file, { throwIfNoEntry: false })?.mode ?? 0) & 0o077) !== 0);
  return [
    point('worker host', 'ok', 'the seal keys can be read'),
    ...(await check("workers' key", signingKey, '`runbook keys workers --output FILE`')),
    ...open.map((file = '') => point('key files', 'fail', `others can read ${file}`, command('chmod', '600', file))),
    ...(await check('key storage', () => storagePoints(keyDirectory, keyStorage), KEY_DIRECTORY)),
    ...(await check('process', async () => processPoints(env, inventory), 'Start it as the worker is started')),
  ];
}

function processPoints(env: NodeJS.ProcessEnv, inventory: Inventory | undefined): Point[] {
  const isLaboratory = inventory !== undefined && onlyLaboratories(inventory);
  return checkProcess(processFacts(env, isLaboratory)).map(({ text, next }) => point('process', 'warn', text, next));
}

async function storagePoints(directory: string, storage: 'memory' | 'disk'): Promise<Point[]> {
  const isThere = await lstat(directory).then(
    () => true,
    (error: unknown) => errnoOf(error) !== 'ENOENT',
  );
  // As the worker that opens it does. Nothing is created here.
  if (isThere) await prepareKeyDirectory({ directory, storage: 'disk' });
  if (await isMemoryBacked(directory)) return [point('key storage', 'ok', `${directory} is in memory`)];
  if (storage === 'memory') return [point('key storage', 'fail', `${directory} is on a disk`, KEY_DIRECTORY)];
  const observed = `${directory} is on a disk: erased keys may be recoverable there`;
  return [point('key storage', 'warn', observed, KEY_DIRECTORY)];
}

/** The workers' keys that this machine trusts, compared with the key that they sign with. */
async function pinPoints(env: NodeJS.ProcessEnv, inventory: Inventory | undefined): Promise<Point[]> {
  const pins = await readPins(pinsPath(env));
  const none = "no workers' key is pinned here";
  const shown = pins.map(({ environment, kid }) => `${environment} ${spokenFingerprint(kid)}`).join('; ');
  const key = inventory && (await readSigningKey(inventory.workers.signingKey).catch(() => undefined));
  if (key === undefined) return [pins.length > 0 ? point('pins', 'ok', shown) : point('pins', 'warn', none, JOIN)];
  if (pins.some(({ kid }) => kid === key.kid)) return [point('pins', 'ok', "the workers' key is pinned here")];
  const next = command('runbook', 'keys', 'trust', DEFAULT_ENVIRONMENT, formatPublicKey(key));
  if (pins.length === 0) return [point('pins', 'not-checkable', `${none}. Only people need one`, next)];
  return [point('pins', 'warn', `a different key is pinned: ${shown}. Only people need one`, next)];
}

/** Whether runs accept this person's signature. */
async function personPoints(env: NodeJS.ProcessEnv, inventory: Inventory | undefined): Promise<Point[]> {
  const name = env['RUNBOOKS_PERSON'];
  if (!name) return [point('you', 'not-checkable', 'no one has joined here, and RUNBOOKS_PERSON is not set', JOIN)];
  const file = personalKeyFile(env, name);
  if (!existsSync(file)) return [point('you', 'fail', `${name} has no key at ${file}`, JOIN)];
  const line = (await readFile(publicLineFile(file), 'utf8').catch(() => '')).trim();
  const kid = parsePublicKey(line.split('/')[1] ?? '')?.kid;
  if (inventory === undefined || kid === undefined) {
    const next =
      kid === undefined ? JOIN : `On the worker host: ${command('runbook', 'inventory', 'add-person', line)}`;
    return [
      point('you', 'not-checkable', `${name}, key ${file}; whether the inventory lists it is unknown here`, next),
    ];
  }
  const person = inventory.people.get(name);
  if (person?.publicKeys.some((key) => key.kid === kid) === true)
    return [point('you', 'ok', `${name}, with a key that the inventory lists`)];
  const other =
    person === undefined ? 'does not list this name' : hasJoined(person) ? 'lists another key' : 'lists no key';
  return [point('you', 'fail', `${name}: the inventory ${other}`, command('runbook', 'inventory', 'add-person', line))];
}

/** Longer than what it limits: a slow cluster is a point of its own. */
function clustersMs(inventory: Inventory | undefined): number {
  return Math.max(CHECK_MS, ...[...(inventory?.deployments.values() ?? [])].map(serviceMs)) + 1_000;
}

/** The points of readiness that need only the clusters: roles, versions, clocks, credentials, permissions, marker. */
async function clusterPoints(stop: AbortSignal, inventory: Inventory | undefined): Promise<Point[]> {
  if (inventory === undefined) return [];
  const live = await livePoints(inventory, stop);
  return live.flatMap(({ deployment, points }): Point[] => {
    const bad = points.filter(({ verdict }) => verdict === 'fail' || verdict === 'warn');
    const good = points.filter(({ verdict }) => verdict === 'ok').length;
    const unknown = points.length - good - bad.length;
    const rest = unknown === 0 ? '' : `, ${unknown} cannot be checked from here`;
    return [
      point(deployment, 'ok', `${good} points of its clusters are ok${rest}`),
      ...bad.map((each) => ({ ...each, id: `${deployment}: ${each.id}` })),
    ];
  });
}
