import { X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { access, constants, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Command } from 'commander';
import { programFile, projectRoot } from '../../dev-server/locations';
import { errnoOf, isRunbookError, RunbookError } from '../../errors';
import type { ErrorCode } from '../../errors';
import { findDeployment, parseInventory, readSigningKey } from '../../inventory';
import { newSealKey, newSigningKey, spokenFingerprint } from '../../keys';
import type { PublicKeyEntry } from '../../keys';
import { Secret } from '../../secret';
import { ServiceClient, leaderNameText } from '../../vault';
import { policyFor, policyText, runbooksOfEveryDay } from '../../../activities/tokens/policies';
import { connectionSettings, taskQueueSetting } from '../../worker/settings';
import { collect, newCommand, printResult } from '../command';
import type { CommandHost, CommonOptions } from '../command';
import type { CliContext } from '../context';
import { DEFAULT_ENVIRONMENT } from '../invitation';
import { confirmed, readTextFile, writeSecretFile } from '../secret-input';
import { oneLine } from '../../contracts/words';
import { shellLine, shellWord } from '../../contracts/next-commands';
import { columns, filled } from '../text';
import { joinLine } from './keys';

export const commands = (host: CommandHost): Command[] => [initCommand(host)];

interface InitOptions extends CommonOptions {
  readonly directory: string;
  readonly environment: string;
  readonly deployment?: string;
  readonly cluster: readonly string[];
  readonly caFile?: string;
  readonly adminTokenFile?: string;
  readonly mount: string;
  readonly people?: string;
  readonly holders?: string;
  readonly yes?: boolean;
}

/** `runbook init`: creates everything that a team needs once, from its answers and from what the clusters report. */
function initCommand({ context }: CommandHost): Command {
  return newCommand('init', [
    'runbook init   (prompts)',
    'runbook init --yes --deployment payments --cluster east=https://10.1.0.4:8200,https://10.1.0.5:8200,https://10.1.0.6:8200 --cluster west=https://10.2.0.4:8200,https://10.2.0.5:8200,https://10.2.0.6:8200 --ca-file ca.pem --people ada,ben,cyd --holders ada,ben,cyd,dan,eve',
  ])
    .option('--directory <dir>', 'where to write everything', '/etc/replication-runbooks')
    .option('--environment <name>', 'what people call the environment of these workers', DEFAULT_ENVIRONMENT)
    .option('--deployment <name>', 'name for all of these clusters together, such as payments')
    .option(
      '--cluster <name=addresses>',
      'a cluster and the API addresses of its nodes, comma-separated; repeat for each cluster',
      collect,
      [],
    )
    .option('--ca-file <file>', "PEM file of the clusters' CA (default: the system's root certificates)")
    .option(
      '--admin-token-file <file>',
      "an administrator's token for the primary, used once to create the policy and an AppRole",
    )
    .option(
      '--mount <name>',
      "where to create that AppRole, below auth/; another name than approle makes a mount of the workers' own, whose logins a quiesce by quota lets through",
      USUAL_MOUNT,
    )
    .option('--people <list>', 'who operates and approves, comma-separated')
    .option('--holders <list>', 'who holds a key share, comma-separated (default: the same people)')
    .option('-y, --yes', 'do not ask; options without a default are then required')
    .action(async (options: InitOptions) => {
      const files = filesIn(await writableDirectory(options.directory));
      refuseSecondTime(files);
      const answered = await answers(context, options);
      const clusters = await Promise.all(answered.clusters.map((each) => readCluster(each, answered.caFile)));
      const site: Site = { ...answered, clusters, files };
      for (const line of foundLines(site)) context.err(line);
      if (options.yes !== true)
        await confirmed(context, 'Is this your deployment? Type "yes"', {
          refused: 'nothing was written',
          next: 'Correct your input, and run the command again.',
        });
      const workers = await workersKeys(files);
      const login = await makeLogin(context, options, site);
      await writeFile(files.inventory, inventoryText(site, login), { mode: 0o640 });
      await writeSettings(context.env, site);
      const lines = site.everybody.map((name) => joinLine(options.environment, name, workers));
      const fingerprint = spokenFingerprint(workers.kid);
      const { directory } = files;
      const result = { directory, files, clusters, workers: workers.kid, fingerprint, join: lines };
      printResult(context, options, result, nextSteps(site, login, fingerprint, lines));
    });
}

/** The systemd unit of the worker. */
const UNIT = 'replication-runbooks-worker.service';

function filesIn(directory: string) {
  return {
    directory,
    inventory: join(directory, 'inventory.yaml'),
    settings: join(directory, 'worker.env'),
    shell: join(directory, 'env.sh'),
    program: join(directory, 'bin', 'runbook'),
    schedules: join(directory, 'schedules.sh'),
    unit: join(directory, UNIT),
    signingKey: join(directory, 'workers.key'),
    sealKeys: join(directory, 'seal-keys'),
    /** The token of the workers, if they have no AppRole. */
    token: join(directory, 'workers.token'),
    policy: join(directory, 'policy.hcl'),
  };
}
type Files = ReturnType<typeof filesIn>;

/** @throws RunbookError `INVALID_INPUT` before any prompt */
async function writableDirectory(given: string): Promise<string> {
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

/** @throws RunbookError `INVALID_INPUT` before any prompt */
function refuseSecondTime({ inventory, settings, shell }: Files): void {
  for (const file of [inventory, settings, shell])
    if (existsSync(file))
      throw new RunbookError('INVALID_INPUT', `${file} exists; nothing was written.`, {
        needed: 'a directory without it',
        next: "To really create a new one, move the old file away, and keep it: only the inventory lists the keys of people who joined. The workers' keys stay where they are.",
      });
}

const NAME = /^[a-z0-9-]+$/;
const words = (text: string): string[] => text.split(/[\s,]+/).filter((word) => word !== '');

/** What people answer about the site. */
async function answers(context: CliContext, options: InitOptions) {
  const asks = options.yes !== true && context.interactive;
  const ask = async (given: string | undefined, flag: string, question: string, usual?: string): Promise<string> => {
    if (given !== undefined) return given;
    const typed = asks ? await context.ask(usual ? `${question} [${usual}]` : question) : '';
    const answer = typed === '' ? usual : typed;
    if (answer !== undefined) return answer;
    throw new RunbookError('INVALID_INPUT', `${flag} is missing. Nothing was written.`, { needed: question });
  };
  const deployment = await ask(options.deployment, '--deployment', 'Name of the deployment, such as payments');
  const named = [...options.cluster];
  if (named.length === 0) {
    const question = 'A cluster and the addresses of its nodes: east=https://10.1.0.4:8200,https://10.1.0.5:8200';
    for (let typed = await ask(undefined, '--cluster', question); typed !== '';) {
      named.push(typed);
      typed = asks ? await context.ask('The next cluster (Enter: no more)') : '';
    }
  }
  const ofCa = "PEM file of the clusters' CA (Enter: the system's root certificates)";
  const caFile = await ask(options.caFile, '--ca-file', ofCa, '');
  const people = words(await ask(options.people, '--people', 'Who operates and approves, comma-separated'));
  const holders = words(await ask(options.holders, '--holders', 'Who holds a key share', people.join(',')));
  const clusters = named.map(namedCluster);
  const everybody = [...new Set([...people, ...holders])];
  const wrong = [
    deployment,
    options.environment,
    options.mount,
    ...clusters.map(({ name }) => name),
    ...everybody,
  ].filter((name) => !NAME.test(name));
  if (wrong.length > 0 || people.length === 0)
    throw new RunbookError('INVALID_INPUT', 'Some names cannot be used. Nothing was written.', {
      observed: wrong.join(', ') || 'nobody who operates and approves',
      needed: 'lowercase letters, digits and hyphens',
    });
  return { deployment, clusters, caFile: caFile === '' ? undefined : resolve(caFile), people, holders, everybody };
}

type Answers = Awaited<ReturnType<typeof answers>>;
type NamedCluster = Answers['clusters'][number];

/** What is known of the site, and where its files go. */
interface Site extends Omit<Answers, 'clusters'> {
  readonly files: Files;
  readonly clusters: readonly FoundCluster[];
}

function namedCluster(text: string) {
  const cut = text.indexOf('=');
  const addresses = words(text.slice(cut + 1));
  if (cut > 0 && addresses.length > 0) return { name: text.slice(0, cut).trim(), addresses };
  throw new RunbookError('INVALID_INPUT', 'A cluster needs a name and addresses. Nothing was written.', {
    observed: text,
    needed: 'NAME=https://ADDRESS:8200,https://ADDRESS:8200',
  });
}

function clientOf({ name, addresses }: NamedCluster, caFile: string | undefined) {
  const target = { name, addresses, ...(caFile !== undefined && { caFile }) };
  return new ServiceClient(target);
}

async function readCluster(cluster: NamedCluster, caFile: string | undefined) {
  const client = clientOf(cluster, caFile);
  try {
    return await readOne(client, cluster);
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'INVALID_INPUT') throw error;
    const { name, addresses } = cluster;
    const next: Partial<Record<ErrorCode, string>> = {
      TLS_FAILED:
        'Pass the PEM file of the CA that signed their certificates with --ca-file. It is never taken from the network.',
      NO_ACTIVE_NODE: `Name every node of ${name}, and no load balancer: --cluster ${name}=ADDRESS,ADDRESS. If all are named, wait until one leads.`,
    };
    const reach = `Check that this machine can reach ${addresses.join(', ')}. A cluster that is down cannot be set up.`;
    throw error.with({ next: next[error.code] ?? reach });
  } finally {
    await client.close();
  }
}

/** What a cluster reports about itself without a credential. `advertised`: the address that the primary gives its secondaries. */
async function readOne(client: ServiceClient, { name, addresses }: NamedCluster) {
  const asked = await Promise.all(
    addresses.map((node) => client.sys.health({ node }).catch(() => ({ silent: node }) as const)),
  );
  const healths = asked.flatMap((each) => ('silent' in each ? [] : [each]));
  const [clusterId, ...others] = new Set(healths.flatMap((each) => each.clusterId ?? []));
  if (others.length > 0)
    throw new RunbookError(
      'INVALID_INPUT',
      `The addresses of ${name} belong to several clusters. Nothing was written.`,
      {
        observed: `cluster IDs ${[clusterId, ...others].join(', ')}`,
        needed: 'the nodes of one cluster',
      },
    );
  const [{ dr, performance }, { leaderAddress = '' }] = await client.atActiveNode((node) =>
    Promise.all([client.sys.replicationStatus({ node }), client.sys.leader({ node })]),
  );
  const { type, threshold, shares, recoverySeal } = await client.sys.sealStatus();
  const hasPerformance = performance.mode === 'primary' || performance.mode === 'secondary';
  return {
    ...{ name, addresses, threshold, shares, clusterId },
    silent: asked.flatMap((each) => ('silent' in each ? [each.silent] : [])),
    versions: [...new Set(healths.flatMap(({ version }) => version ?? []))],
    role: [`DR ${dr.mode}`, ...(hasPerformance ? [`performance ${performance.mode}`] : [])].join(', '),
    drSet: 'clusterId' in dr ? dr.clusterId : undefined,
    leaderName: leaderNameText(leaderAddress, addresses),
    advertised: dr.mode === 'primary' ? dr.primaryClusterAddr : undefined,
    seal: `${type ?? 'unknown'} seal, ${shares ?? '?'} ${recoverySeal === true ? 'recovery' : 'key'} shares, threshold ${threshold ?? '?'}`,
  };
}

type FoundCluster = Awaited<ReturnType<typeof readOne>>;

function foundLines({ people, holders, caFile, clusters }: Site): string[] {
  const rows = clusters.map(({ name, addresses, silent, versions, role, seal, clusterId }) => [
    ...[name, `${addresses.length - silent.length} of ${addresses.length} nodes answer`, versions.join(', ')],
    ...[role, seal, `ID ${clusterId ?? 'unknown'}`],
  ]);
  const silent = clusters.flatMap((each) => each.silent);
  const most = Math.max(0, ...clusters.map(({ threshold }) => threshold ?? 0));
  const tooFew =
    holders.length < most ? 'there can never be enough shares' : 'all of them must be available at any hour';
  const warnings = [
    silent.length > 0 && `no answer from ${silent.join(', ')}.`,
    clusters.some(({ drSet }) => drSet === undefined) && 'not every cluster uses DR replication.',
    people.length < 3 &&
      `only ${people.length} to operate and approve: some gates cannot be opened. The person who requests a run cannot approve it, and a forced promotion needs two approvers. Name at least 3.`,
    holders.length <= most && `${holders.length} holders for a threshold of ${most}: ${tooFew}. Name more.`,
  ];
  return [
    ...columns(rows),
    ...clusters.map(({ name, leaderName }) => `${name}: ${leaderName}`),
    ...(caFile === undefined ? [] : authorities(caFile)),
    ...warnings.flatMap((text) => (text === false ? [] : [`Warning: ${text}`])),
  ];
}

/** The certificates that will be trusted, by subject and fingerprint: a person compares them with their CA. */
function authorities(file: string): string[] {
  const blocks = readFileSync(file, 'utf8').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return blocks.map((pem) => {
    const { subject, fingerprint256 } = new X509Certificate(pem);
    return `CA: ${subject.replaceAll('\n', ', ')}, SHA-256 ${fingerprint256}`;
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

/** Groups clusters by DR replication; a cluster without it is its own set. */
function drSetsOf(clusters: readonly FoundCluster[]) {
  const sets = new Map<string, FoundCluster[]>();
  for (const each of clusters) {
    const set = each.drSet ?? each.name;
    sets.set(set, [...(sets.get(set) ?? []), each]);
  }
  return [...sets.values()].map((members) => ({ name: sets.size === 1 ? 'main' : (members[0]?.name ?? ''), members }));
}

/** The policy for the everyday runbooks, as `runbook policy` prints it. */
function policyOf(site: Site): string {
  const inventory = parseInventory(inventoryText(site), site.files.inventory);
  const deployment = findDeployment(inventory, site.deployment);
  return `${policyText(policyFor(deployment, 'credential', runbooksOfEveryDay(deployment)))}\n`;
}

const POLICY = 'runbooks';
/** Applications may log in there too. */
const USUAL_MOUNT = 'approle';

/**
 * Writes the policy file. With an administrator's token it also creates policy, AppRole and secret ID on the primary, which
 * replicates them to its secondaries. The token is used only here and never stored.
 */
async function makeLogin(
  context: CliContext,
  { adminTokenFile, yes, mount }: InitOptions,
  site: Site,
): Promise<AppRole | undefined> {
  const { clusters, caFile, files } = site;
  const policy = policyOf(site);
  const asks = yes !== true && context.interactive && adminTokenFile === undefined;
  const question =
    "An administrator's token for the primary, used once to create the policy and an AppRole (Enter: do it later)";
  const text = asks ? await context.askHidden(question) : adminTokenFile && (await readTextFile(adminTokenFile));
  if (!text) {
    await writeFile(files.policy, policy, { mode: 0o640 });
    return undefined;
  }
  const token = new Secret('service-token', text.trim());
  const primary = primaryOf(clusters);
  const client = clientOf(primary, caFile);
  try {
    const begun = await refuseToReplace(primary.name, client.sys, token, { mount, policy, file: files.policy });
    await writeFile(files.policy, policy, { mode: 0o640 });
    await client.sys.writePolicy({ name: POLICY, policy }, { token });
    const made = await makeAppRole(client, token, join(files.directory, 'secret-id'), { mount, begun });
    context.err(`Created on ${primary.name}: policy "${POLICY}", AppRole "${POLICY}" at auth/${mount}.`);
    return made;
  } finally {
    await client.close();
  }
}

/** The cluster on which policies are created: secondaries receive them from there. */
function primaryOf(clusters: readonly FoundCluster[]): FoundCluster {
  const leading = clusters.filter(({ role }) => !role.includes('secondary'));
  const primary = leading.find(({ role }) => role.includes('primary')) ?? leading[0];
  if (primary !== undefined) return primary;
  const text = 'None of these clusters is a primary. No policy and no AppRole was created.';
  throw new RunbookError('INVALID_INPUT', text, {
    next: "Name the primary too, or omit the administrator's token.",
  });
}

/**
 * Creates the login of workers with this policy. A secret ID that is already in the file is kept.
 *
 * @param at.mount - with another name than the usual one it must be new, unless an earlier `init` has begun
 */
export async function makeAppRole(
  { sys: { appRole } }: ServiceClient,
  token: Secret<'service-token'>,
  secretId: string,
  { mount, begun }: { readonly mount: string; readonly begun: boolean },
) {
  const ownMount = mount !== USUAL_MOUNT;
  const place = { mount, role: POLICY };
  // It may already be enabled.
  await appRole.enable({ mount }, { token }).catch((error: unknown) => {
    if (!isRunbookError(error, 'BAD_REQUEST')) throw error;
    if (!ownMount || begun) return;
    throw new RunbookError('PRECONDITION_FAILED', `auth/${mount} exists: it is not a mount of the workers' own.`, {
      needed: 'a mount that does not exist yet',
      next: `Choose another name with --mount, or omit it to share auth/${USUAL_MOUNT}.`,
    });
  });
  await appRole.write({ ...place, policies: [POLICY] }, { token });
  if (!existsSync(secretId)) await writeSecretFile(secretId, (await appRole.makeSecretId(place, { token })).reveal());
  return { roleId: await appRole.roleId(place, { token }), secretId, mount, ownMount };
}

/** The login of a worker; the secret ID is in a file. */
type AppRole = Awaited<ReturnType<typeof makeAppRole>>;

/**
 * Refuses to replace a policy or an AppRole: other workers may use them. An interrupted `init` left the same policy in its
 * file, and may continue.
 *
 * @returns whether an earlier `init` has begun
 */
async function refuseToReplace(
  cluster: string,
  sys: ServiceClient['sys'],
  token: Secret<'service-token'>,
  { mount, policy, file }: { readonly mount: string; readonly policy: string; readonly file: string },
): Promise<boolean> {
  const present = await sys.policy(POLICY, { token });
  const same = present === undefined || present.trim() === policy.trim();
  const began = present !== undefined && existsSync(file) && readFileSync(file, 'utf8') === policy;
  const role = began ? undefined : await roleIdOf(sys, token, mount);
  if (role === undefined && same) return began;
  const what = role === undefined ? `a policy "${POLICY}"` : `an AppRole "${POLICY}"`;
  throw new RunbookError('PRECONDITION_FAILED', `${cluster} already has ${what}; nothing was changed there.`, {
    needed: 'neither a policy nor an AppRole of this name',
    next: `Find out whose they are: \`vault policy read ${POLICY}\`, \`vault read auth/${mount}/role/${POLICY}\`. Delete both if nobody needs them, or omit the administrator's token.`,
  });
}

const roleIdOf = (sys: ServiceClient['sys'], token: Secret<'service-token'>, mount: string) =>
  sys.appRole.roleId({ mount, role: POLICY }, { token }).catch((error: unknown) => {
    if (!isRunbookError(error, 'NOT_FOUND')) throw error;
  });

/** A text as a YAML scalar: a text from a cluster cannot start a new line or a new member. JSON is valid YAML. */
const scalar = (text: string): string => (/^[A-Za-z0-9/][\w./:-]*$/.test(text) ? text : JSON.stringify(text));
const flow = (texts: readonly string[]): string => `[${texts.map(scalar).join(', ')}]`;

function inventoryText(site: Site, login?: AppRole): string {
  const { deployment, clusters, people, holders, everybody, files } = site;
  const named = drSetsOf(clusters).map(({ name, members }) => `${name}: ${flow(members.map((each) => each.name))}`);
  return filled('inventory.yaml', {
    signingKey: scalar(files.signingKey),
    people: everybody.map((name) => `${name}: ${people.includes(name) ? '{ groups: [approvers, operators] }' : '{}'}`),
    deployment,
    clusters: clusters.flatMap((cluster) => clusterText(cluster, site, login).trimEnd().split('\n')),
    drSets: `{ ${named.join(', ')} }`,
    holders: flow(holders),
  });
}

function clusterText(cluster: FoundCluster, { caFile, files }: Site, login: AppRole | undefined): string {
  const { name, addresses, clusterId, role, versions, seal, advertised } = cluster;
  const hosts = addresses.map((address) => new URL(address).hostname);
  const own = advertised === undefined || !URL.canParse(advertised) || hosts.includes(new URL(advertised).hostname);
  return filled('cluster.yaml', {
    name,
    found: oneLine(`${role}, ${versions.join(', ')}, ${seal}`),
    addresses: flow(addresses),
    caFile: caFile === undefined ? undefined : scalar(caFile),
    clusterId: clusterId === undefined ? undefined : scalar(clusterId),
    advertised: own ? 'node-address' : new URL(advertised).origin,
    credential:
      login === undefined
        ? `{ file: ${scalar(files.token)} }`
        : `{ approle: { roleId: ${scalar(login.roleId)}, secretId: { file: ${scalar(login.secretId)} }${login.ownMount ? `, mount: ${scalar(login.mount)}, ownMount: true` : ''} } }`,
  });
}

/** The variables that the worker's settings take over. Never a secret: an API key stays where it is. */
const PASSED_ON =
  /^(TEMPORAL_(PROFILE|CONFIG_FILE|TLS|TLS_SERVER_NAME|TLS_[A-Z_]+_PATH)|RUNBOOKS_(TASK_QUEUE|KEY_DIR|KEY_STORAGE))$/;

/**
 * Writes the worker's settings, for `EnvironmentFile=` of the unit and `env_file:` of Compose. For a shell on the worker
 * host, writes the same settings, a `runbook` script in case it is not on the PATH (it replaces its shell with the program,
 * so that signals reach it), the schedules, and the unit.
 */
async function writeSettings(env: NodeJS.ProcessEnv, { files, deployment }: Site): Promise<void> {
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
    ...{ deployment, shell: files.shell, taskQueue: shellWord(taskQueueSetting(env)) },
    ...{ settings: shellWord(files.settings), bin: shellWord(bin), program: shellWord(programFile()) },
  };
  await writeFile(files.settings, lines.join(''), { mode: 0o640 });
  await writeFile(files.shell, filled('env.sh', values), { mode: 0o640 });
  await writeFile(files.program, filled('runbook', values), { mode: 0o755 });
  await writeFile(files.unit, unitText(files), { mode: 0o644 });
  await writeFile(files.schedules, filled('schedules.sh', values), { mode: 0o755 });
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

function nextSteps(
  { deployment, files, clusters }: Site,
  login: AppRole | undefined,
  fingerprint: string,
  join: readonly string[],
): string[] {
  const { directory } = files;
  const to = clusters.find(({ role }) => role.startsWith('DR secondary'))?.name ?? 'CLUSTER';
  const plan = ['drSwitchover', '--deployment', deployment, '--to', to, '--reason', 'first plan'];
  const text = filled('next-steps.txt', {
    ...{ directory, fingerprint, shell: shellWord(files.shell), schedules: shellWord(files.schedules) },
    tokenFile: login === undefined ? files.token : undefined,
    policyCommand: login === undefined ? shellLine('runbook', 'policy', deployment, '--commands') : undefined,
    join: join.map((line) => shellLine('runbook', 'join', line)),
    plan: shellLine('runbook', 'plan', ...plan),
    unit: shellWord(files.unit),
    chown: shellLine('sudo', 'chown', '-R', 'replication-runbooks:', directory),
    // The unit's ProtectHome= hides these.
    hidden: [process.execPath, programFile()].find((file) => /^\/(home|root)\//.test(file)),
  });
  return text.trimEnd().split('\n');
}
