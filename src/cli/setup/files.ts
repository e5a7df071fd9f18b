import { existsSync, lstatSync, readFileSync } from 'node:fs';
import { access, constants, mkdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parse } from 'yaml';
import { policyFor, policyText, runbooksOfEveryDay } from '../../../activities/tokens/policies';
import { shellWord } from '../../contracts/next-commands';
import { oneLine } from '../../contracts/words';
import { programFile, projectRoot } from '../../dev-server/locations';
import { errnoOf, isRunbookError, RunbookError } from '../../errors';
import {
  findDeployment,
  loadInventory,
  parseInventory,
  readSigningKey,
  TRUSTED,
  whyNotTrusted,
  whyPlanted,
} from '../../inventory';
import type { Inventory } from '../../inventory';
import { newSealKey, newSigningKey } from '../../keys';
import type { PublicKeyEntry } from '../../keys';
import { connectionSettings } from '../../worker/connection';
import { replaceFile, writeSecretFile } from '../secret-input';
import { filled } from '../text';
import { drSetsOf } from './clusters';
import type { FoundCluster } from './clusters';
import type { FoundFilter } from './filters';
import type { AppRole } from './login';

/* The files of an installation, which `runbook init` writes. */

/** The systemd unit of the worker. */
const UNIT = 'replication-runbooks-worker.service';

/**
 * Where everything goes.
 *
 * @param further - a deployment that is added to an installation: it has files of its own
 */
export function filesIn(directory: string, further?: string) {
  const own = further === undefined ? '' : `-${further}`;
  return {
    directory,
    inventory: join(directory, 'inventory.yaml'),
    settings: join(directory, 'worker.env'),
    shell: join(directory, 'env.sh'),
    program: join(directory, 'bin', 'runbook'),
    unit: join(directory, UNIT),
    signingKey: join(directory, 'workers.key'),
    sealKeys: join(directory, 'seal-keys'),
    /** The token of the workers, if they have no AppRole. */
    token: join(directory, `workers${own}.token`),
    policy: join(directory, `policy${own}.hcl`),
    secretId: join(directory, `secret-id${own}`),
  };
}
export type Files = ReturnType<typeof filesIn>;

/** What is known of the site, and where its files go. */
export interface Site {
  readonly deployment: string;
  readonly people: readonly string[];
  readonly holders: readonly string[];
  /** Holders without a key. */
  readonly browserHolders: readonly string[];
  readonly everybody: readonly string[];
  /** Reports compare with them. */
  readonly objectives: { readonly outage?: string; readonly loss?: string };
  /** Of an added deployment alone: its people gain no rights in the others, nor theirs in it. */
  readonly ownGroups: boolean;
  readonly caFile: string | undefined;
  readonly files: Files;
  readonly clusters: readonly FoundCluster[];
}

/** @throws RunbookError `INVALID_INPUT` before any prompt */
export async function writableDirectory(given: string): Promise<string> {
  const directory = resolve(given);
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await access(directory, constants.W_OK);
    return directory;
  } catch (error) {
    throw new RunbookError('INVALID_INPUT', `${directory} cannot be written (${errnoOf(error) ?? 'unknown reason'}).`, {
      next: `Choose another directory with --directory, or create this one: sudo install -d -m 700 -o "$USER" ${shellWord(directory)}`,
    });
  }
}

/**
 * What lies in the directory is adopted or replaced: another user of this host may have planted none of it.
 *
 * @throws RunbookError `INVALID_INPUT` before any prompt
 */
export async function refusePlanted({ directory, ...files }: Files): Promise<void> {
  const places = [directory, dirname(files.program)];
  const linked = places.filter((each) => lstatSync(each, { throwIfNoEntry: false })?.isDirectory() === false);
  const found = [
    ...(await Promise.all(places.map(whyNotTrusted))),
    ...linked.map((each) => `${each}: no plain directory`),
    ...Object.values(files).map(whyPlanted),
  ];
  if (found.every((why) => why === undefined)) return;
  throw new RunbookError('INVALID_INPUT', 'Another user may have put this here. Nothing was written.', {
    observed: [...new Set(found)].filter((why) => why !== undefined).join('; '),
    needed: `plain files in plain directories, ${TRUSTED}`,
    next: 'Choose a new directory with --directory. Or find out who made this: remove it, or run the command as the user who owns it.',
  });
}

/**
 * The inventory of an installation to which this deployment is to be added; undefined in a new directory.
 *
 * @throws RunbookError `INVALID_INPUT` before any prompt, if there is no other deployment to add
 */
export async function installed(files: Files, deployment: string | undefined): Promise<Inventory | undefined> {
  const { inventory, settings, shell } = files;
  const present = [inventory, settings, shell].find(existsSync);
  if (present === undefined) return undefined;
  const found = present === inventory ? await loadInventory(inventory) : undefined;
  if (found !== undefined && deployment !== undefined && !found.deployments.has(deployment)) return found;
  throw new RunbookError('INVALID_INPUT', `${present} exists; nothing was written.`, {
    needed: 'a directory without it, or an inventory and the name of another deployment',
    next: "To add a deployment, name it with --deployment; to add a cluster: --add-cluster. To really create a new inventory, move the old file away, and keep it: only the inventory lists the keys of people who joined. The workers' keys stay where they are.",
  });
}

/** The workers' public key. Creates each key file that does not exist; a key is never overwritten. */
export async function workersKeys({
  signingKey,
  sealKeys,
}: Pick<Files, 'signingKey' | 'sealKeys'>): Promise<PublicKeyEntry> {
  if (!existsSync(sealKeys)) await writeSecretFile(sealKeys, `${newSealKey().reveal()}\n`);
  if (existsSync(signingKey)) return readSigningKey({ file: signingKey });
  const { key, jwk } = newSigningKey();
  await writeSecretFile(signingKey, `${jwk.reveal()}\n`);
  return key;
}

/**
 * The policy for the everyday runbooks, as `runbook policy` prints it.
 *
 * @throws RunbookError `INVALID_INPUT` with every mistake that the inventory would have
 */
export function policyOf(site: Site): string {
  const inventory = judged(inventoryText(site));
  const deployment = findDeployment(inventory, site.deployment);
  return `${policyText(policyFor(deployment, 'credential', runbooksOfEveryDay(deployment)))}\n`;
}

/** @throws RunbookError `INVALID_INPUT` with every mistake of a text that would become the inventory */
export function judged(text: string): Inventory {
  try {
    return parseInventory(text, 'it');
  } catch (error) {
    if (!isRunbookError(error, 'INVENTORY_INVALID')) throw error;
    const [, ...mistakes] = error.message.split('\n');
    throw new RunbookError('INVALID_INPUT', 'These clusters and people make no inventory. Nothing was written.', {
      observed: mistakes.map((each) => each.replace(/^it:\d+:\d+: /, '')).join('; '),
      next: 'Correct the names and addresses that you gave, or the configuration of the cluster, and run the command again.',
    });
  }
}

/**
 * A text as a YAML scalar that is read as this text, even `null` or `12345`: a text from a cluster cannot start a new line
 * or a new member. JSON is valid YAML.
 */
const scalar = (text: string): string =>
  /^[A-Za-z0-9/][\w./:-]*$/.test(text) && parse(text) === text ? text : JSON.stringify(text);
const flow = (texts: readonly string[]): string => `[${texts.map(scalar).join(', ')}]`;

/** What only a token shows or makes. */
interface WithToken {
  readonly login?: AppRole | undefined;
  readonly filters?: readonly FoundFilter[];
}

export function inventoryText(site: Site, { login, filters = [] }: WithToken = {}): string {
  const { deployment, clusters, holders, everybody, caFile, files, objectives } = site;
  const objective = Object.entries(objectives).map(([name, value]) => `${name}: ${value}`);
  const credential = credentialText(files, login);
  const named = drSetsOf(clusters).map(
    ({ name, members }) => `${scalar(name)}: ${flow(members.map((each) => each.name))}`,
  );
  const schema = join(projectRoot(), 'docs', 'inventory.schema.json');
  return filled('inventory.yaml', {
    schema: existsSync(schema) ? pathToFileURL(schema).href : undefined,
    signingKey: scalar(files.signingKey),
    people: everybody.map((name) => `${scalar(name)}: ${personText(site, name)}`),
    deployment: scalar(deployment),
    clusters: clusters.flatMap((cluster) => clusterText(cluster, caFile, credential).trimEnd().split('\n')),
    pathsFilters: filtersText(filters),
    drSets: `{ ${named.join(', ')} }`,
    holders: flow(holders),
    objectives: objective.length === 0 ? undefined : `{ ${objective.join(', ')} }`,
    approvers: scalar(groupOf(site, 'approvers')),
    // Without the member: group operators.
    operators: site.ownGroups ? scalar(groupOf(site, 'operators')) : undefined,
  });
}

export function groupOf({ deployment, ownGroups }: Site, group: 'approvers' | 'operators'): string {
  return ownGroups ? `${deployment}-${group}` : group;
}

/** A holder with only a browser has no key to sign with: outside a laboratory, a claim counts for a key share alone. */
function personText(site: Site, name: string): string {
  const { people, browserHolders } = site;
  if (people.includes(name)) return `{ groups: ${flow([groupOf(site, 'approvers'), groupOf(site, 'operators')])} }`;
  return browserHolders.includes(name) ? '{ attestation: claimed }' : '{}';
}

/** @returns undefined if no filter was read */
function filtersText(filters: readonly FoundFilter[]): string | undefined {
  const known = filters.flatMap(({ name, filter }) => {
    if (filter === undefined) return [];
    const text = filter === 'none' ? filter : `{ mode: ${filter.mode}, paths: ${flow(filter.paths)} }`;
    return [`${scalar(name)}: ${text}`];
  });
  return known.length === 0 ? undefined : `{ ${known.join(', ')} }`;
}

function credentialText({ token }: Files, login: AppRole | undefined): string {
  if (login === undefined) return `{ file: ${scalar(token)} }`;
  const { roleId, secretId, mount, ownMount } = login;
  const own = ownMount ? `, mount: ${scalar(mount)}, ownMount: true` : '';
  return `{ approle: { roleId: ${scalar(roleId)}, secretId: { file: ${scalar(secretId)} }${own} } }`;
}

/** @param credential - in YAML */
export function clusterText(cluster: FoundCluster, caFile: string | undefined, credential: string): string {
  const { name, addresses, clusterId, role, versions, seal, advertised = 'node-address' } = cluster;
  return filled('cluster.yaml', {
    name: scalar(name),
    found: oneLine(`${role}, ${versions.join(', ')}, ${seal}`),
    addresses: flow(addresses),
    caFile: caFile === undefined ? undefined : scalar(caFile),
    clusterId: clusterId === undefined ? undefined : scalar(clusterId),
    advertised: scalar(advertised),
    credential,
  });
}

/** The variables that the worker's settings take over. Never a secret: an API key stays where it is. */
const PASSED_ON =
  /^(TEMPORAL_(PROFILE|CONFIG_FILE|TLS|TLS_SERVER_NAME|TLS_[A-Z_]+_PATH)|RUNBOOKS_(TASK_QUEUE|KEY_DIR|KEY_STORAGE))$/;

/**
 * Writes the worker's settings, for `EnvironmentFile=` of the unit and `env_file:` of Compose. For a shell on the worker
 * host, writes the same settings, a `runbook` script in case it is not on the PATH (it replaces its shell with the program,
 * so that signals reach it), and the unit.
 */
export async function writeSettings(env: NodeJS.ProcessEnv, { files }: Site): Promise<void> {
  const { connectionOptions, namespace = 'default' } = connectionSettings(env);
  const settings = [
    ['TEMPORAL_ADDRESS', connectionOptions.address],
    ['TEMPORAL_NAMESPACE', namespace],
    ...Object.entries(env).filter(([name]) => PASSED_ON.test(name)),
    ['RUNBOOKS_INVENTORY', files.inventory],
    ['RUNBOOKS_SEAL_KEYS_FILE', files.sealKeys],
  ];
  const lines = settings.flatMap(([name = '', value]) => (value ? `${name}=${shellWord(value)}\n` : []));
  const bin = dirname(files.program);
  await mkdir(bin, { recursive: true });
  const values = {
    ...{ shell: files.shell, settings: shellWord(files.settings) },
    ...{ bin: shellWord(bin), program: shellWord(programFile()) },
  };
  await replaceFile(files.settings, lines.join(''), 0o640);
  await replaceFile(files.shell, filled('env.sh', values), 0o640);
  await replaceFile(files.program, filled('runbook', values), 0o755);
  await replaceFile(files.unit, unitText(files), 0o644);
}

/** The unit of deploy/ with the paths of this installation. */
function unitText({ settings }: Files): string {
  const places = [
    ['/opt/replication-runbooks', projectRoot()],
    ['/etc/replication-runbooks/worker.env', settings],
    ['/usr/bin/env node', process.execPath],
    ['/usr/local/bin/runbook', shellWord(programFile())],
  ] as const;
  return places.reduce(
    // In a unit file, % begins a specifier.
    (text, [usual, here]) => text.replaceAll(usual, () => here.replaceAll('%', '%%')),
    readFileSync(join(projectRoot(), 'deploy', UNIT), 'utf8'),
  );
}
