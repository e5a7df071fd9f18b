import { resolve } from 'node:path';
import type { Command } from 'commander';
import writeFileAtomic from 'write-file-atomic';
import { programFile } from '../../dev-server/locations';
import { RunbookError } from '../../errors';
import { hasJoined, loadInventory, readSigningKey } from '../../inventory';
import { formatPublicKey, spokenFingerprint } from '../../keys';
import type { PublicKeyEntry } from '../../keys';
import { collect, newCommand, printResult } from '../command';
import type { CommonOptions } from '../command';
import type { CliContext } from '../context';
import { ignoredVariables } from '../environment';
import { DEFAULT_ENVIRONMENT } from '../invitation';
import { durationMs, oneLine } from '../../contracts/words';
import { confirmed, readTextFile, replaceFile } from '../secret-input';
import { connectionSettings } from '../../worker/connection';
import { shellLine, shellWord } from '../../contracts/next-commands';
import { clusterLines, foundLines, readCluster } from '../setup/clusters';
import { addCluster, addDeployment, changesPolicy, placeOf } from '../setup/add';
import {
  filesIn,
  groupOf,
  installed,
  judged,
  inventoryText,
  policyOf,
  refusePlanted,
  workersKeys,
  writableDirectory,
  writeSettings,
} from '../setup/files';
import type { Site } from '../setup/files';
import { makeLogin, USUAL_MOUNT } from '../setup/login';
import type { AppRole } from '../setup/login';
import { filled } from '../text';
import type { CommandHost } from '../command-host';
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
  readonly browserHolders?: string;
  readonly rto?: string;
  readonly rpo?: string;
  readonly addCluster?: string;
  readonly drSet?: string;
  readonly yes?: boolean;
}

/** `runbook init`: creates everything that a team needs once, from its answers and from what the clusters report. */
function initCommand({ context }: CommandHost): Command {
  return newCommand('init', [
    'runbook init   (prompts)',
    'runbook init --add-cluster north=https://10.3.0.4:8200,https://10.3.0.5:8200,https://10.3.0.6:8200 --dr-set main',
    'runbook init --yes --deployment payments --cluster east=https://10.1.0.4:8200,https://10.1.0.5:8200,https://10.1.0.6:8200 --cluster west=https://10.2.0.4:8200,https://10.2.0.5:8200,https://10.2.0.6:8200 --ca-file ca.pem --people ada,ben,cyd --holders ada,ben,cyd,dan,eve',
  ])
    .option('--directory <dir>', 'where to write everything', '/etc/replication-runbooks')
    .option('--environment <name>', 'name of the environment of these workers', DEFAULT_ENVIRONMENT)
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
    .option('--people <list>', 'people who operate and approve, comma-separated')
    .option('--holders <list>', 'people who hold a key share, comma-separated (default: the same people)')
    .option(
      '--browser-holders <list>',
      'holders who have only a browser, comma-separated: they give their share without a key, in their name alone',
    )
    .option(
      '--rto <duration>',
      'longest outage that your organization accepts for a change of the primary, such as 15m',
    )
    .option('--rpo <entries>', 'loss that it accepts: "none", or a number of WAL entries')
    .option('-y, --yes', 'do not ask; options without a default are then required')
    .option('--add-cluster <name=addresses>', 'add this cluster to the deployment of an existing inventory')
    .option('--dr-set <name>', 'for --add-cluster: its DR set (default: that of the cluster with which it replicates)')
    .action((options: InitOptions) =>
      options.addCluster === undefined ? setUp(context, options) : extend(context, options, options.addCluster),
    );
}

/** A new installation, or another deployment in the inventory of one. */
async function setUp(context: CliContext, options: InitOptions): Promise<void> {
  const directory = await writableDirectory(options.directory);
  await refusePlanted(filesIn(directory));
  const present = await installed(filesIn(directory), options.deployment);
  const files = filesIn(directory, present && options.deployment);
  await refusePlanted(files);
  const ignored = ignoredVariables(context.env);
  if (ignored !== undefined)
    context.err(`${ignored.replace(/those of the inventory$/, 'the values that you give here')}.`);
  const answered = await answers(context, options);
  const clusters = await Promise.all(answered.clusters.map((each) => readCluster(each, answered.caFile)));
  const site: Site = { ...answered, clusters, files, ownGroups: present !== undefined };
  for (const line of await foundLines(site)) context.err(line);
  const policy = policyOf(site);
  const textWith = async (made: Parameters<typeof inventoryText>[1]) => {
    const fresh = inventoryText(site, made);
    return present ? addDeployment(await readTextFile(files.inventory), fresh, site.deployment) : fresh;
  };
  await textWith({});
  if (options.yes !== true) await confirmed(context, 'Is this your deployment? Type "yes"', UNCONFIRMED);
  const workers = present ? await readSigningKey(present.workers.signingKey) : await workersKeys(files);
  const made = await makeLogin(context, options, { ...site, policy });
  for (const { line } of made.filters) context.err(line);
  // Read again: a colleague may have changed it meanwhile.
  const text = await textWith(made);
  if (present) {
    await writeFileAtomic(files.inventory, text);
  } else {
    await replaceFile(files.inventory, text, 0o640);
    await writeSettings(context.env, site);
  }
  const { people } = judged(text);
  const waiting = [...people.values()].filter((each) => site.everybody.includes(each.name) && !hasJoined(each));
  const lines = waiting.map(({ name }) => joinLine(options.environment, name, workers));
  const { connectionOptions, namespace = 'default' } = connectionSettings(context.env);
  const temporal = { address: connectionOptions.address, namespace };
  const fingerprint = spokenFingerprint(workers.kid);
  const approvers = [...people.values()]
    .filter(({ groups }) => groups.includes(groupOf(site, 'approvers')))
    .map(({ name }) => name);
  const result = { directory, files, clusters, workers: workers.kid, fingerprint, join: lines, temporal };
  const forPeople = { workers, fingerprint, lines, temporal, approvers };
  const template = present ? 'next-steps-added.txt' : 'next-steps.txt';
  printResult(context, options, 'init', result, nextSteps(template, site, made.login, forPeople));
}

const UNCONFIRMED = { refused: 'nothing was written', next: 'Correct your input, and run the command again.' };

/** `init --add-cluster`: one more cluster in a deployment of the inventory. */
async function extend(context: CliContext, options: InitOptions, given: string): Promise<void> {
  const files = filesIn(await writableDirectory(options.directory));
  await refusePlanted(files);
  const named = namedCluster(given);
  const caFile = options.caFile === undefined ? undefined : resolve(options.caFile);
  const place = await placeOf(await loadInventory(files.inventory), named, { ...options, caFile });
  const { cluster, drSet, like } = place;
  const { name: deployment } = place.deployment;
  for (const line of await clusterLines([cluster], caFile)) context.err(line);
  addCluster(await readTextFile(files.inventory), place, caFile);
  if (options.yes !== true)
    await confirmed(context, `Is this ${cluster.name}, for DR set ${drSet} of ${deployment}? Type "yes"`, UNCONFIRMED);
  const before = await readTextFile(files.inventory);
  const after = addCluster(before, place, caFile);
  await writeFileAtomic(files.inventory, after);
  const more = changesPolicy(before, after, deployment);
  const result = { deployment, cluster: cluster.name, drSet, file: files.inventory, changesPolicy: more };
  const text = filled('next-steps-cluster.txt', {
    ...{ deployment, cluster: cluster.name, set: drSet, like, more: more ? '' : undefined, inventory: files.inventory },
    policyCommand: more ? `${shellLine('runbook', 'policy', deployment)} | vault policy write runbooks -` : undefined,
  });
  printResult(context, options, 'init', result, text.trimEnd().split('\n'));
}

const NAME = /^[a-z0-9-]+$/;
const words = (text: string): string[] => text.split(/[\s,]+/).filter((word) => word !== '');

function namedCluster(text: string) {
  const cut = text.indexOf('=');
  const addresses = words(text.slice(cut + 1));
  if (cut > 0 && addresses.length > 0) return { name: text.slice(0, cut).trim(), addresses };
  throw new RunbookError('INVALID_INPUT', 'A cluster needs a name and addresses. Nothing was written.', {
    observed: text,
    needed: 'NAME=https://ADDRESS:8200,https://ADDRESS:8200',
  });
}

/** @throws RunbookError `INVALID_INPUT` before anything is written */
function refuseObjectives(outage: string, loss: string): void {
  const wrong = [
    ...(outage === '' || (durationMs(outage) ?? 0) > 0 ? [] : ['--rto: a duration such as 15m']),
    ...(/^(|none|\d{1,15})$/.test(loss) ? [] : ['--rpo: none, or a number of WAL entries']),
  ];
  if (wrong.length === 0) return;
  throw new RunbookError('INVALID_INPUT', 'An objective cannot be used. Nothing was written.', {
    observed: oneLine([outage, loss].join(', ')),
    needed: wrong.join('; '),
  });
}

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
  const outage = await ask(options.rto, '--rto', 'Longest outage that you accept (RTO), such as 15m (Enter: none)', '');
  const loss = await ask(
    options.rpo,
    '--rpo',
    'Loss that you accept (RPO): none, or WAL entries (Enter: not stated)',
    '',
  );
  refuseObjectives(outage, loss);
  const browserHolders = words(options.browserHolders ?? '');
  const clusters = named.map(namedCluster);
  const everybody = [...new Set([...people, ...holders, ...browserHolders])];
  const both = browserHolders.filter((name) => people.includes(name));
  if (both.length > 0)
    throw new RunbookError('INVALID_INPUT', 'Who operates and approves needs a key. Nothing was written.', {
      observed: `${both.join(', ')} in --people and in --browser-holders`,
      next: 'Omit them from --browser-holders: they give their shares with the key of "runbook join" too, also in the page.',
    });
  const twice = clusters.find(({ name }, index) => clusters.findIndex((each) => each.name === name) < index);
  if (twice !== undefined)
    throw new RunbookError('INVALID_INPUT', `Two clusters are named ${twice.name}. Nothing was written.`, {
      needed: 'a name for each cluster, and all addresses of a cluster in one --cluster',
    });
  const wrong = [
    deployment,
    options.environment,
    options.mount,
    ...clusters.map(({ name }) => name),
    ...everybody,
  ].filter((name) => !NAME.test(name));
  if (wrong.length > 0 || people.length === 0)
    throw new RunbookError('INVALID_INPUT', 'Some names cannot be used. Nothing was written.', {
      observed: wrong.join(', ') || 'no one to operate and approve',
      needed: 'lowercase letters, digits and hyphens',
    });
  return {
    deployment,
    clusters,
    caFile: caFile === '' ? undefined : resolve(caFile),
    people,
    holders: [...new Set([...holders, ...browserHolders])],
    browserHolders,
    everybody,
    objectives: { ...(outage !== '' && { outage }), ...(loss !== '' && { loss }) },
  };
}

/** What people need to join, and the fingerprint that they compare. */
interface ForPeople {
  readonly workers: PublicKeyEntry;
  readonly fingerprint: string;
  readonly lines: readonly string[];
  readonly temporal: { readonly address: string; readonly namespace: string };
  readonly approvers: readonly string[];
}

function nextSteps(
  template: string,
  { deployment, files, clusters, browserHolders }: Site,
  login: AppRole | undefined,
  { workers, fingerprint, lines, temporal, approvers }: ForPeople,
): string[] {
  const { directory } = files;
  const to = clusters.find(({ role }) => role.startsWith('DR secondary'))?.name ?? 'CLUSTER';
  const plan = ['drSwitchover', '--deployment', deployment, '--to', to, '--reason', 'first plan'];
  const where = ['--address', temporal.address, '--namespace', temporal.namespace];
  const text = filled(template, {
    ...{ directory, fingerprint, shell: shellWord(files.shell) },
    ...{ deployment, inventory: files.inventory, policy: files.policy, approvers: approvers.join(', ') },
    tokenFile: login === undefined ? files.token : undefined,
    toJoin: lines.length > 0 ? '' : undefined,
    policyCommand: login === undefined ? shellLine('runbook', 'policy', deployment, '--commands') : undefined,
    join: lines.map((line) => shellLine('runbook', 'join', line, ...where)),
    ...(browserHolders.length > 0 && {
      browserHolders: browserHolders.join(', '),
      page: shellLine('runbook', 'holder-page', '--output', 'holder-page.html', '--key', formatPublicKey(workers)),
    }),
    loopback: /^(127\.|localhost|\[::1\])/.test(temporal.address) ? temporal.address : undefined,
    plan: shellLine('runbook', 'plan', ...plan),
    unit: shellWord(files.unit),
    chown: shellLine('sudo', 'chown', '-R', 'replication-runbooks:', directory),
    // The unit's ProtectHome= hides these.
    hidden: [process.execPath, programFile()].find((file) => /^\/(home|root)\//.test(file)),
  });
  return text.trimEnd().split('\n');
}
