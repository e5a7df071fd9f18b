import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import writeFileAtomic from 'write-file-atomic';
import { assessService } from '../../../activities/readiness/readiness';
import {
  roleCommand,
  POLICY_KINDS,
  policyFor,
  policyText,
  runbooksOfEveryDay,
} from '../../../activities/tokens/policies';
import type { PolicyKind } from '../../../activities/tokens/policies';
import { RUNBOOK_NAMES } from '../../contracts/names';
import type { RunbookName } from '../../contracts/names';
import { GATE_NAMES } from '../../contracts/gates';
import { isRunbookError } from '../../errors';
import {
  approversOf,
  countsIn,
  hasJoined,
  inventoryDigest,
  listKey,
  loadInventory,
  findDeployment,
  TRUSTED,
  caFilesNamedIn,
  filesNamedIn,
  whyNotTrusted,
} from '../../inventory';
import type { Inventory, PersonKey, Deployment } from '../../inventory';
import { spokenFingerprint } from '../../keys';
import { SOUND_CA_FILES, caFileFaults } from '../../vault';
import { createLogger } from '../../worker/logging';
import { inventoryPath } from '../../worker/settings';
import { newCommand, printResult } from '../command';
import type { CommonOptions } from '../command';
import type { CliContext } from '../context';
import { ignoredVariables } from '../environment';
import { exitCodeOfVerdicts } from '../errors';
import { pointLines } from '../render-plan';
import type { Point } from '../render-plan';
import { confirmed, readTextFile } from '../secret-input';
import { filled } from '../text';
import type { CommandHost } from '../command-host';
import { readKeyLine } from './keys';

export const commands = (host: CommandHost): Command[] => [inventoryCommand(host), policyCommand(host)];

/** `runbook inventory check`: prints every mistake with its line, or a summary if there is none. */
function inventoryCommand({ context, finish }: CommandHost): Command {
  const check = newCommand(
    'check',
    ['runbook inventory check inventory.yaml', 'runbook inventory check   (the file of RUNBOOKS_INVENTORY)'],
    'check an inventory file; shows every mistake with its line',
  )
    .argument('[file]', 'default: RUNBOOKS_INVENTORY')
    .option(
      '--live',
      'also check the clusters, from this machine with its credentials; its only write is beside the marker',
    )
    .action(async (file: string | undefined, options: CommonOptions & { readonly live?: true }) => {
      const path = file ?? inventoryPath(context.env);
      const ignored = options.live === true ? ignoredVariables(context.env) : undefined;
      if (ignored !== undefined) context.err(`${ignored}.`);
      const inventory = await loadInventory(path);
      const open = await openToOthers(path, inventory);
      const warnings = [
        ...open,
        ...joinedPoints(inventory),
        ...absentPoints(inventory),
        ...(await caPoints(inventory)),
      ];
      const live = options.live === true ? await livePoints(inventory, context.stop) : undefined;
      const deployments = [...inventory.deployments.keys()].map((name) => ({
        name,
        digest: inventoryDigest(inventory, name),
      }));
      printResult(context, options, 'inventory-check', { deployments, warnings, live }, [
        ...lines(inventory),
        ...(warnings.length === 0 ? [] : ['', ...pointLines(warnings)]),
        ...(live ?? []).flatMap(({ deployment, points }) => [
          '',
          `${deployment}, its clusters as seen from this machine:`,
          ...pointLines(points),
        ]),
      ]);
      if (live !== undefined)
        finish(exitCodeOfVerdicts(live.flatMap(({ points }) => points.map(({ verdict }) => verdict))));
    });
  return new Command('inventory')
    .description('check the inventory file, or add people to it')
    .addCommand(check)
    .addCommand(addPersonCommand({ context }));
}

/** Files that the inventory names but that are not on this machine, each once. */
function absentPoints(inventory: Inventory): Point[] {
  const absent = filesNamedIn(inventory).filter((file) => !existsSync(file));
  return absent.map((file) => {
    const observed = `${file} is not on this machine`;
    return { id: 'file', verdict: 'warn', observed, needed: 'that file on every worker host' };
  });
}

/** CA files on this machine that have certificates which are not used. */
async function caPoints(inventory: Inventory): Promise<Point[]> {
  const faults = await caFileFaults(caFilesNamedIn(inventory).filter((file) => existsSync(file)));
  return faults.map((observed) => ({ id: 'ca-file', verdict: 'warn', observed, needed: SOUND_CA_FILES }));
}

/** Files that others than root and this user could change: the inventory itself, and those that it names. */
export async function openToOthers(path: string, inventory: Inventory): Promise<Point[]> {
  const seen = await Promise.all([path, ...filesNamedIn(inventory)].map(whyNotTrusted));
  return [...new Set(seen)].flatMap((observed) => {
    if (observed === undefined) return [];
    const next = 'Make it writable for its owner alone, and look whether somebody changed it.';
    return [{ id: 'file', verdict: 'fail' as const, observed, needed: TRUSTED, next }];
  });
}

interface AddPersonOptions extends CommonOptions {
  readonly inventory?: string;
  readonly groups?: string;
  readonly replace?: boolean;
  readonly yes?: boolean;
}

/** `runbook inventory add-person`: adds the keys of people who joined. */
function addPersonCommand({ context }: Pick<CommandHost, 'context'>): Command {
  return newCommand(
    'add-person',
    [
      'runbook inventory add-person ada/KID:KEY ben/KID:KEY',
      'runbook inventory add-person fay/KID:KEY --groups approvers,operators   (a new person)',
    ],
    'add the keys of people who joined, after comparing their fingerprints by voice; keeps comments',
  )
    .argument('<lines...>', 'the line that "runbook join" printed for each person')
    .option('--inventory <file>', 'default: RUNBOOKS_INVENTORY')
    .option('--groups <list>', 'groups of people who are not in the file yet, comma-separated; "none" for no group')
    .option('--replace', 'replace the keys that are listed for these people')
    .option('-y, --yes', 'do not ask: the fingerprints were already compared')
    .action(async (lines: readonly string[], options: AddPersonOptions) => {
      const file = resolve(options.inventory ?? inventoryPath(context.env));
      const groups = options.groups === 'none' ? [] : options.groups?.split(/[\s,]+/).filter((group) => group !== '');
      const people = lines.map((line): PersonKey => {
        const { names, key } = readKeyLine(line, 'join', ['NAME']);
        return { name: names[0] ?? '', key, groups, replace: options.replace };
      });
      const before = await readTextFile(file);
      const isNew = people.reduce(listKey, before) !== before;
      if (options.yes !== true && isNew) await compareFingerprints(context, people);
      // Read the file again: a colleague may have changed it while fingerprints were compared.
      if (isNew) await writeFileAtomic(file, people.reduce(listKey, await readTextFile(file)));
      const mistakes = await loadInventory(file).then(
        () => undefined,
        (error: unknown) => (isRunbookError(error) ? error.message : 'it cannot be read'),
      );
      const added = people.map(({ name, key }) => ({ name, kid: key.kid, fingerprint: spokenFingerprint(key.kid) }));
      printResult(context, options, 'people-added', { file, people: added, mistakes }, [
        ...added.map(({ name, fingerprint }) => `${name}: ${fingerprint}`),
        `Listed in ${file}. Copy the same file to every worker; workers reload it within seconds.`,
        mistakes === undefined ? 'The inventory has no mistakes.' : `It is not complete yet. ${mistakes}`,
      ]);
    });
}

/** A person who could add their own key under another name could approve as somebody else. */
function compareFingerprints(context: CliContext, people: readonly PersonKey[]): Promise<void> {
  for (const { name, key } of people) context.err(`${name}: ${spokenFingerprint(key.kid)}`);
  return confirmed(context, 'Call each person and compare by voice. Type "yes" if all fingerprints match', {
    refused: 'nothing was changed',
    next: 'If a fingerprint differs, somebody may have substituted their own key: find out how that line reached you.',
  });
}

function lines(inventory: Inventory): string[] {
  return [
    'The inventory has no mistakes.',
    ...[...inventory.deployments.values()].flatMap((deployment) => {
      const { name, drSets, ceremony, gates, laboratory } = deployment;
      return [
        `Deployment ${name}${laboratory ? ' (LABORATORY: claims count for everything)' : ''}`,
        `  digest: ${inventoryDigest(inventory, name)}`,
        ...[...drSets].map(([set, members]) => `  DR set ${set}: ${members.join(', ')}`),
        `  holders: ${ceremony.holders.join(', ')}`,
        ...(ceremony.standBy.length > 0 ? [`  standing by: ${ceremony.standBy.join(', ')}`] : []),
        ...(['plan', 'go'] as const).map((gate) => {
          const members = approversOf(inventory, deployment, gate).length;
          const shut = members < gates[gate].approvals ? `. SHUT: ${members || 'none'} of them joined so far` : '';
          return `  gate ${gate}: ${gates[gate].approvals} of ${gates[gate].groups.join(', ')}${shut}`;
        }),
      ];
    }),
  ];
}

/** The readiness checks of the clusters of each deployment, from this machine and with its credentials. */
export function livePoints(inventory: Inventory, signal: AbortSignal) {
  const quiet = createLogger('silent');
  const names = [...inventory.deployments.keys()];
  return Promise.all(
    names.map(async (name) => ({ deployment: name, points: await assessService(inventory, quiet, name, signal) })),
  );
}

/** What people cannot do yet although the file suggests it; grouped by people with the same limits. */
export function joinedPoints({ people, deployments }: Inventory): Point[] {
  const found = new Map<string, { readonly joined: boolean; readonly cannot: string; readonly names: string[] }>();
  for (const deployment of deployments.values())
    for (const person of people.values()) {
      const joined = hasJoined(person);
      if (joined && countsIn(deployment, person.attestation)) continue;
      const isIn = (groups: readonly string[]) => person.groups.some((group) => groups.includes(group));
      const gates = GATE_NAMES.filter((gate) => isIn(deployment.gates[gate].groups));
      const decides = gates.length > 0 || isIn(deployment.operators);
      const parts = [
        ...(gates.length > 0
          ? [`approve (${gates.length === GATE_NAMES.length ? 'any gate' : gates.join(', ')})`]
          : []),
        ...(decides ? ['decide on a parked step', 'pause, abort or order a take-over'] : []),
        // A holder with only a claimed name may give a share: the share itself is the proof.
        ...(deployment.notJoined.includes(person.name) ? ['give a key share'] : []),
      ];
      const cannot = `in ${deployment.name} they cannot ${parts.join(', ')}`;
      const same = found.get(`${joined} ${cannot}`) ?? { joined, cannot, names: [] };
      same.names.push(person.name);
      if (parts.length > 0) found.set(`${joined} ${cannot}`, same);
    }
  return [...found.values()].map(({ joined, cannot, names }) => {
    const [be, have] = names.length === 1 ? ['is', 'has'] : ['are', 'have'];
    const because = joined ? `${be} only claimed, which counts only in a laboratory` : `${have} not joined`;
    return {
      ...{ id: 'people', verdict: 'warn' },
      observed: `${names.join(', ')} ${because}: ${cannot}`,
      next: 'Each of them runs `runbook join LINE` with the line that "runbook init" printed. Then run `runbook inventory add-person LINE`',
    };
  });
}

interface PolicyOptions extends CommonOptions {
  readonly runbook?: readonly (RunbookName | 'all')[];
  readonly for: PolicyKind;
  readonly commands?: boolean;
}

/** `runbook policy`: prints the service's policy for a credential of the inventory, ready for a pipe. Needs no server. */
function policyCommand({ context }: CommandHost): Command {
  return newCommand('policy', [
    'runbook policy payments | vault policy write runbooks -',
    'runbook policy payments --for batchToken | vault policy write runbooks-batch -',
    'runbook policy payments --runbook drSwitchover drFailover drRejoin readiness',
    'runbook policy payments --commands   (the policies, an AppRole and its secret ID, as commands)',
  ])
    .argument('<deployment>', 'a deployment of the inventory')
    .addOption(
      new Option('--runbook <name...>', 'only for these runbooks (default: the everyday ones)').choices([
        'all',
        ...RUNBOOK_NAMES,
      ]),
    )
    .addOption(
      new Option('--for <credential>', 'which credential of the inventory').choices(POLICY_KINDS).default('credential'),
    )
    .option('--commands', 'print the commands that set up the credentials on the service')
    .action(async (name: string, options: PolicyOptions) => {
      const inventory = await loadInventory(inventoryPath(context.env));
      const deployment = findDeployment(inventory, name);
      const { runbook: named = runbooksOfEveryDay(deployment) } = options;
      const runbooks = RUNBOOK_NAMES.filter((each) => named.includes('all') || named.includes(each));
      if (options.commands === true) {
        const lines = setupCommands(deployment, options.runbook);
        return printResult(context, options, 'policy-commands', { commands: lines }, lines);
      }
      const { name: usual, ...policy } = policyFor(deployment, options.for, runbooks);
      const policyName = options.runbook && options.for === 'credential' ? policyNameOf(options.runbook) : usual;
      const others = RUNBOOK_NAMES.filter((each) => !runbooks.includes(each));
      const without = `Not for ${others.join(', ')}: select the runbooks that you use with --runbook.`;
      const isLimited = options.for === 'credential' && others.length > 0;
      const text = policyText({ ...policy, about: [...policy.about, ...(isLimited ? [without] : [])] });
      printResult(context, options, 'policy', { ...policy, name: policyName, runbooks, hcl: text }, text.split('\n'));
    });
}

/**
 * The commands that create what `credential` needs on the service: policies, and an AppRole whose tokens have them.
 *
 * @param named - the runbooks given with `--runbook`
 */
function setupCommands(deployment: Deployment, named?: readonly string[]): readonly string[] {
  const { name, batchTokens } = deployment;
  const rotations = Object.values(batchTokens).flatMap(({ role, policy }) => [
    `runbook policy ${name} --for batchToken | vault policy write ${policy} -`,
    roleCommand(role, policy),
  ]);
  const everyday = 'runbooks';
  const policy = named === undefined ? everyday : policyNameOf(named);
  const values = {
    ...{ name, rotations, policy, policies: [...new Set([everyday, policy])].join(',') },
    selection: named === undefined ? '' : ` --runbook ${named.join(' ')}`,
    /** Lines for a selection only. */
    beside: named === undefined ? undefined : '',
  };
  return filled('credentials.sh', values).trimEnd().split('\n');
}

/** The policy of a selection of runbooks. Never the everyday one: writing it would take the other rights from workers. */
function policyNameOf(named: readonly string[]): string {
  const inLowerCase = named.map((each) => each.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`));
  return ['runbooks', ...inLowerCase].join('-');
}
