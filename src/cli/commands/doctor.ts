import { readFile, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { SEARCH_ATTRIBUTES } from '../../dev-server/settings';
import { isRunbookError } from '../../errors';
import { hasJoined, loadInventory, readSigningKey, voiceless } from '../../inventory';
import type { Inventory } from '../../inventory';
import { formatPublicKey, isMemoryBacked, parsePublicKey, readPins, SealKeyring, spokenFingerprint } from '../../keys';
import { redact } from '../../keys/redaction';
import { checkProcess, processFacts } from '../../process-guard';
import { taskQueueSetting, workerSettings } from '../../worker/settings';
import { newCommand, printResult, withServerOptions, withSession } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import type { CliContext } from '../context';
import { exitCodeOfPoints } from '../errors';
import { DEFAULT_ENVIRONMENT, pinsPath } from '../invitation';
import { pollersInWords, readPollers } from '../run';
import { personalKeyFile } from '../secret-input';
import type { TemporalSession } from '../temporal';
import { columns, inLines, shellLine } from '../text';
import { livePoints, voicelessLine } from './inventory';
import { publicLineFile } from './join';

export const commands = (host: CommandHost): Command[] => [doctorCommand(host)];

/** One thing that was looked at. `note`: it is neither good nor bad here. */
interface Finding {
  readonly about: string;
  readonly verdict: 'ok' | 'note' | 'warn' | 'fail';
  readonly observed: string;
  /** A command, or what a person does. */
  readonly mend?: string | undefined;
}

const finding =
  (about: string) =>
  (verdict: Finding['verdict'], observed: string, mend?: string): Finding => ({ about, verdict, observed, mend });

/** What one look may take, ms: they all happen at the same time. */
const LOOK_MS = 12_000;

/** `runbook doctor`: looks at everything that a run needs, one by one, whatever else is down. */
function doctorCommand({ context, finish }: CommandHost): Command {
  const command = newCommand('doctor', ['runbook doctor', 'runbook doctor --json']);
  return withServerOptions(command).action(async (options: ServerOptions) => {
    const inventory = inventoryOf(context);
    // Whoever looks too late says so for itself.
    inventory.catch(() => undefined);
    const found = await Promise.all([
      look('inventory', () => inventoryFindings(context, inventory), 'runbook inventory check'),
      look('temporal', () => temporalFindings(context, options)),
      look('worker host', () => workerFindings(context, inventory), 'runbook keys seal --output FILE'),
      look('pins', () => pinFindings(context, inventory)),
      look('you', () => personFindings(context, inventory)),
      look('clusters', () => clusterFindings(context, inventory)),
    ]);
    const findings = inLines(found.flat());
    printResult(context, options, { findings }, [
      ...findingLines(findings),
      '',
      SUMS[exitCodeOfPoints(findings)] ?? '',
    ]);
    finish(exitCodeOfPoints(findings));
  });
}

/** A look that fails, or takes too long, is a finding: the others are shown all the same. */
async function look(
  about: string,
  work: () => Promise<readonly Finding[]>,
  mend?: string,
): Promise<readonly Finding[]> {
  const over = new AbortController();
  const late = delay(LOOK_MS, undefined, { signal: over.signal }).then(
    () => [finding(about)('fail', `no answer within ${LOOK_MS / 1_000} s`)],
    () => [],
  );
  try {
    return await Promise.race([work(), late]);
  } catch (error) {
    if (!isRunbookError(error))
      return [finding(about)('fail', redact(error instanceof Error ? error.message : 'failed'))];
    const { code, message, observed, next } = error;
    return [
      finding(about)('fail', `${code}: ${message}${observed === undefined ? '' : ` (${observed})`}`, next ?? mend),
    ];
  } finally {
    over.abort();
  }
}

/** By the exit code. */
const SUMS: Readonly<Record<number, string>> = {
  0: 'Everything is there.',
  3: 'Something is missing: see FAILED.',
  7: 'Everything is there; see the warnings.',
};

const SIGNS = { ok: 'ok', note: '-', warn: 'WARNING', fail: 'FAILED' } as const;

function findingLines(findings: readonly Finding[]): string[] {
  const rows = columns(findings.map(({ about, verdict, observed }) => [SIGNS[verdict], about, observed]));
  return rows.flatMap((row, index) => {
    const mend = findings[index]?.mend;
    return mend === undefined ? [row] : [row, `    ${mend}`];
  });
}

/** The inventory of this machine; undefined where none is named. */
async function inventoryOf({ env }: CliContext): Promise<Inventory | undefined> {
  const path = env['RUNBOOKS_INVENTORY'];
  return path ? loadInventory(path) : undefined;
}

async function inventoryFindings({ env }: CliContext, inventory: Promise<Inventory | undefined>): Promise<Finding[]> {
  const say = finding('inventory');
  const found = await inventory;
  if (found === undefined) {
    const mend = 'On the worker host: . /etc/replication-runbooks/env.sh   (what "runbook init" wrote)';
    return [say('note', 'none here (RUNBOOKS_INVENTORY): what it says cannot be looked at', mend)];
  }
  const mend = 'They run "runbook join" with their line; then: runbook inventory add-person LINE';
  return [
    say('ok', `${env['RUNBOOKS_INVENTORY'] ?? ''}: no mistakes`),
    ...voiceless(found).map((each) => say('warn', voicelessLine(each), mend)),
  ];
}

const RETENTION_DAYS = 30;

function temporalFindings(context: CliContext, options: ServerOptions): Promise<Finding[]> {
  return withSession(context, options, async (session) => {
    const { client, namespace, address } = session;
    const say = finding('temporal');
    const within = <T>(work: () => Promise<T>) => client.withDeadline(Date.now() + 5_000, work);
    const described = await within(() => client.workflowService.describeNamespace({ namespace })).catch(
      () => undefined,
    );
    if (described === undefined) {
      const mend = shellLine('temporal', 'operator', 'namespace', 'create', '-n', namespace, '--retention', '30d');
      return [say('ok', `${address} answers`), finding('namespace')('fail', `"${namespace}" cannot be read`, mend)];
    }
    const seconds = Number(described.config?.workflowExecutionRetentionTtl?.seconds ?? 0);
    const days = Math.round(seconds / 86_400);
    const longer = shellLine('temporal', 'operator', 'namespace', 'update', '-n', namespace, '--retention', '30d');
    const kept = `"${namespace}", histories are kept for ${days} days`;
    return [
      say('ok', `${address} answers`),
      days >= RETENTION_DAYS
        ? finding('namespace')('ok', kept)
        : finding('namespace')('warn', `${kept}: reports are made from them`, longer),
      await searchAttributes(session),
      await pollers(context, session),
    ];
  });
}

async function searchAttributes({ client, namespace }: TemporalSession): Promise<Finding> {
  const say = finding('search attributes');
  const wanted = Object.keys(SEARCH_ATTRIBUTES);
  try {
    const listed = await client.withDeadline(Date.now() + 5_000, () =>
      client.connection.operatorService.listSearchAttributes({ namespace }),
    );
    const missing = wanted.filter((name) => !(name in listed.customAttributes));
    if (missing.length === 0) return say('ok', wanted.join(', '));
    return say('note', `not registered: ${missing.join(', ')}. They are optional`, 'deploy/create-namespace.sh');
  } catch {
    return say('note', 'the server does not list them; runs do without');
  }
}

/** A live worker polls at least this often. */
const POLLED_LATELY_MS = 65_000;

async function pollers({ env }: CliContext, session: TemporalSession): Promise<Finding> {
  const queue = taskQueueSetting(env);
  const seen = await readPollers(session, queue);
  const lately = (seen?.lastSeenMs ?? Infinity) < POLLED_LATELY_MS;
  const mend = 'On the worker host: runbook worker   (systemd: systemctl start replication-runbooks-worker)';
  return finding('workers')(lately ? 'ok' : 'fail', pollersInWords(queue, seen), lately ? undefined : mend);
}

/** What only the host of a worker has: its keys, its memory. Whoever has no seal keys is no worker. */
async function workerFindings({ env }: CliContext, given: Promise<Inventory | undefined>): Promise<Finding[]> {
  const say = finding('worker host');
  if (!env['RUNBOOKS_SEAL_KEYS_FILE'] && !env['RUNBOOKS_SEAL_KEYS'])
    return [say('note', `${hostname()} is none (RUNBOOKS_SEAL_KEYS_FILE)`)];
  const settings = workerSettings(env);
  SealKeyring.parse(settings.sealKeys.reveal());
  const { keyDirectory, keyStorage } = settings;
  const inMemory = await isMemoryBacked(keyDirectory);
  const storage = finding('key storage');
  const inventory = await given.catch(() => undefined);
  const source = inventory?.workers.signingKey;
  const files = [env['RUNBOOKS_SEAL_KEYS_FILE'], source && 'file' in source ? source.file : undefined];
  return [
    say('ok', 'the seal keys can be read'),
    ...(await look("workers' key", () => signingKeyFindings(source), 'runbook keys workers --output FILE')),
    ...(await Promise.all(files.map(modeFindings))).flat(),
    inMemory || keyStorage === 'disk'
      ? storage(
          inMemory ? 'ok' : 'warn',
          `${keyDirectory} is ${inMemory ? 'in memory' : 'on a disk: erased keys may be found there'}`,
        )
      : storage('fail', `${keyDirectory} is on a disk`, 'export RUNBOOKS_KEY_DIR=/dev/shm/replication-runbooks/keys'),
    ...checkProcess(processFacts(env)).map((weakness) =>
      finding('memory')('warn', weakness, 'docs/operations.md, "The worker\'s process"; the systemd unit does it'),
    ),
  ];
}

async function signingKeyFindings(source: Inventory['workers']['signingKey'] | undefined): Promise<Finding[]> {
  if (source === undefined) return [];
  const key = await readSigningKey(source);
  return [finding("workers' key")('ok', `fingerprint ${spokenFingerprint(key.kid)}`)];
}

async function modeFindings(file: string | undefined): Promise<Finding[]> {
  const mode = file === undefined ? 0 : ((await stat(file).catch(() => undefined))?.mode ?? 0);
  if (file === undefined || (mode & 0o077) === 0) return [];
  return [finding('key files')('fail', `others may read ${file}`, shellLine('chmod', '600', file))];
}

/** The workers' keys that this machine trusts, beside the one with which they sign. */
async function pinFindings({ env }: CliContext, given: Promise<Inventory | undefined>): Promise<Finding[]> {
  const say = finding('pins');
  const pins = await readPins(pinsPath(env));
  const shown = pins.map(({ environment, kid }) => `${environment} ${spokenFingerprint(kid)}`).join('; ');
  const inventory = await given.catch(() => undefined);
  const key = inventory && (await readSigningKey(inventory.workers.signingKey).catch(() => undefined));
  if (key !== undefined) {
    const trusted = pins.some(({ kid }) => kid === key.kid);
    const mend = shellLine('runbook', 'keys', 'trust', DEFAULT_ENVIRONMENT, formatPublicKey(key));
    if (trusted) return [say('ok', "the workers' key is pinned here")];
    const others = pins.length === 0 ? "no workers' key is pinned here" : `pinned is another key: ${shown}`;
    return [say(pins.length === 0 ? 'note' : 'warn', `${others}. Only people need one`, mend)];
  }
  if (pins.length > 0) return [say('ok', shown)];
  return [
    say('warn', "no workers' key is pinned here", 'With the line that the operators sent you: runbook join LINE'),
  ];
}

/** Whether what this person signs is believed. */
async function personFindings({ env }: CliContext, given: Promise<Inventory | undefined>): Promise<Finding[]> {
  const say = finding('you');
  const name = env['RUNBOOKS_PERSON'];
  if (!name) return [say('note', 'nobody is named (RUNBOOKS_PERSON)', 'export RUNBOOKS_PERSON=YOUR-NAME')];
  const file = personalKeyFile(env, name);
  const isThere = (await stat(file).catch(() => undefined)) !== undefined;
  if (!isThere) return [say('fail', `${name} has no key at ${file}`, 'With your line: runbook join LINE')];
  const line = (await readFile(publicLineFile(file), 'utf8').catch(() => '')).trim();
  const kid = parsePublicKey(line.split('/')[1] ?? '')?.kid;
  const found = await given.catch(() => undefined);
  if (found === undefined || kid === undefined)
    return [say('note', `${name}, key ${file}. Whether the inventory lists it cannot be seen here`, line || undefined)];
  const person = found.people.get(name);
  const listed = person?.publicKeys.some((key) => key.kid === kid) === true;
  const add = shellLine('runbook', 'inventory', 'add-person', line);
  if (listed) return [say('ok', `${name}, with a key that the inventory lists`)];
  const other =
    person === undefined ? 'does not know this name' : hasJoined(person) ? 'lists another key' : 'lists no key';
  return [say('fail', `${name}: the inventory ${other}`, add)];
}

/** The points of readiness that the clusters themselves answer: roles, versions, clocks, credentials and rights, marker. */
async function clusterFindings(context: CliContext, given: Promise<Inventory | undefined>): Promise<Finding[]> {
  const inventory = await given.catch(() => undefined);
  if (inventory === undefined) return [];
  const live = await livePoints(inventory, context.stop);
  return live.flatMap(({ deployment, points }): Finding[] => {
    const bad = points.filter(({ verdict }) => verdict === 'fail' || verdict === 'warn');
    const good = points.filter(({ verdict }) => verdict === 'ok').length;
    const rest = points.length - good - bad.length;
    return [
      finding(deployment)(
        'ok',
        `${good} points of its clusters are good${rest === 0 ? '' : `, ${rest} cannot be known from here`}`,
      ),
      ...bad.map(({ id, cluster, about, verdict, observed, needed, reason, next }) => {
        const where = [deployment, cluster].filter((each) => each !== undefined).join(' ');
        const why = reason === undefined ? '' : ` (${reason})`;
        const of = about === 'both' ? '' : `, for a ${about}`;
        return finding(where)(
          verdict === 'fail' ? 'fail' : 'warn',
          `${id}${of}: ${observed.replace(/\.$/, '')}${why}. Needed: ${needed}`,
          next,
        );
      }),
    ];
  });
}
