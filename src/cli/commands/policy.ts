import { Option } from 'commander';
import type { Command } from 'commander';
import { POLICY_KINDS, policyFor, policyText, runbooksOfEveryDay } from '../../../activities/tokens/policies';
import type { PolicyKind } from '../../../activities/tokens/policies';
import { roleCommand } from '../../../activities/tokens/batch-token-policy';
import { RUNBOOK_NAMES } from '../../contracts/names';
import type { RunbookName } from '../../contracts/names';
import { RunbookError } from '../../errors';
import { findDeployment, loadInventory } from '../../inventory';
import type { Deployment } from '../../inventory';
import { inventoryPath } from '../../worker/settings';
import { newCommand, printResult } from '../command';
import type { CommandHost, CommonOptions } from '../command';

export const commands = (host: CommandHost): Command[] => [policyCommand(host)];

interface PolicyOptions extends CommonOptions {
  readonly runbook?: readonly string[];
  readonly for: PolicyKind;
  readonly commands?: boolean;
}

/** `runbook policy`: the service's policy for a credential of the inventory, fit for a pipe. Needs no server. */
function policyCommand({ context }: CommandHost): Command {
  return newCommand('policy', [
    'runbook policy payments | vault policy write runbooks -',
    'runbook policy payments --for batchToken | vault policy write runbooks-batch -',
    'runbook policy payments --runbook drSwitchover drFailover drRejoin readiness',
    'runbook policy payments --commands   (the policies, an AppRole and its secret ID, as commands)',
  ])
    .argument('<deployment>', 'a deployment of the inventory')
    .option('--runbook <name...>', 'for these runbooks alone; "all" for every one (default: those of every day)')
    .addOption(
      new Option('--for <credential>', 'which credential of the inventory').choices(POLICY_KINDS).default('credential'),
    )
    .option('--commands', "print the service's commands that set the credentials up")
    .action(async (name: string, options: PolicyOptions) => {
      const inventory = await loadInventory(inventoryPath(context.env));
      const deployment = findDeployment(inventory, name);
      const runbooks = chosen(deployment, options.runbook);
      if (options.commands === true) {
        const lines = setupCommands(deployment, options.runbook);
        return printResult(context, options, { commands: lines }, lines);
      }
      const policy = policyFor(inventory, deployment, options.for, runbooks);
      const others = RUNBOOK_NAMES.filter((each) => !runbooks.includes(each));
      const about = options.for === 'credential' ? [...policy.about, ...notFor(others)] : policy.about;
      const text = policyText({ ...policy, about });
      printResult(context, options, { ...policy, runbooks, hcl: text }, text.split('\n'));
    });
}

function notFor(others: readonly RunbookName[]): readonly string[] {
  return others.length === 0 ? [] : [`Not for ${others.join(', ')}: name what you use with --runbook.`];
}

/** @throws RunbookError UNKNOWN_RUNBOOK */
function chosen(deployment: Deployment, named: readonly string[] | undefined): readonly RunbookName[] {
  if (named === undefined) return runbooksOfEveryDay(deployment);
  if (named.includes('all')) return RUNBOOK_NAMES;
  const unknown = named.filter((each) => !RUNBOOK_NAMES.some((name) => name === each));
  if (unknown.length === 0) return RUNBOOK_NAMES.filter((name) => named.includes(name));
  throw new RunbookError('UNKNOWN_RUNBOOK', `No runbook is named ${unknown.join(', ')}.`, {
    needed: `"all", or some of ${RUNBOOK_NAMES.join(', ')}`,
  });
}

/**
 * The commands that make what `credential` needs on the service: policies, and an AppRole whose tokens have them.
 *
 * @param named - runbooks as `--runbook` takes them
 */
export function setupCommands(deployment: Deployment, named?: readonly string[]): readonly string[] {
  const { name } = deployment;
  const flags = named === undefined ? '' : ` --runbook ${named.join(' ')}`;
  const rotations = Object.values(deployment.batchTokens);
  return [
    `# On the DR primary of ${name}, by somebody who may write policies and auth methods. Its secondaries get them too.`,
    `runbook policy ${name}${flags} | vault policy write runbooks -`,
    ...rotations.flatMap(({ role, policy }) => [
      `runbook policy ${name} --for batchToken | vault policy write ${policy} -`,
      roleCommand(role, policy),
    ]),
    'vault auth enable approle',
    'vault write auth/approle/role/runbooks token_policies=runbooks token_ttl=1h token_max_ttl=24h',
    '# Into the inventory, of every cluster: credential: { approle: { roleId: <this>, secretId: { file: <that> } } }',
    'vault read -field=role_id auth/approle/role/runbooks/role-id',
    "# On each worker's host:",
    '(umask 077; vault write -f -field=secret_id auth/approle/role/runbooks/secret-id > /run/runbooks/secret-id)',
  ];
}
