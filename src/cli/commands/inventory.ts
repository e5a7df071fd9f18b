import { Command } from 'commander';
import { GROUPS_ARE_OURS, groupRule } from '../../contracts/share-groups';
import { loadInventory } from '../../inventory';
import type { CeremonyPolicy, Inventory } from '../../inventory';
import { inventoryPath } from '../../worker/settings';
import { newCommand, printResult } from '../command';
import type { CommandHost, CommonOptions } from '../command';

export const commands = (host: CommandHost): Command[] => [inventoryCommand(host)];

/** `runbook inventory check`: every mistake with its line; what was understood where there is none. */
function inventoryCommand({ context }: CommandHost): Command {
  const check = newCommand(
    'check',
    ['runbook inventory check inventory.yaml', 'runbook inventory check   (the file of RUNBOOKS_INVENTORY)'],
    'check an inventory file; names every mistake with its line',
  )
    .argument('[file]', 'default: RUNBOOKS_INVENTORY')
    .action(async (file: string | undefined, options: CommonOptions) => {
      const inventory = await loadInventory(file ?? inventoryPath(context.env));
      printResult(context, options, understood(inventory), lines(inventory));
    });
  return new Command('inventory').description('the inventory file').addCommand(check);
}

function understood({ people, deployments }: Inventory): object {
  return {
    people: [...people.values()].map(({ name, groups, attestation }) => ({ name, groups, attestation })),
    deployments: [...deployments.values()].map(({ name, clusters, drSets, ceremony, laboratory }) => ({
      name,
      laboratory,
      clusters: [...clusters.values()].map((cluster) => ({
        name: cluster.name,
        addresses: cluster.addresses,
        drSet: cluster.drSet,
      })),
      drSets: Object.fromEntries(drSets),
      holders: ceremony.holders,
      standBy: ceremony.standBy,
      terms: ceremony.terms,
      groups: ceremony.groups,
    })),
  };
}

function lines({ people, deployments }: Inventory): string[] {
  return [
    'The inventory has no mistakes.',
    ...[...deployments.values()].flatMap(({ name, drSets, ceremony, gates, laboratory }) => [
      `Deployment ${name}${laboratory ? ' (LABORATORY: claims carry everything)' : ''}`,
      ...[...drSets].map(([set, members]) => `  DR set ${set}: ${members.join(', ')}`),
      `  holders: ${inOffice(ceremony, ceremony.holders)}`,
      ...(ceremony.standBy.length > 0 ? [`  standing by: ${inOffice(ceremony, ceremony.standBy)}`] : []),
      ...(ceremony.groups.length > 0 ? [`  of the shares: ${groupRule(ceremony.groups)} (${GROUPS_ARE_OURS})`] : []),
      ...(['plan', 'go'] as const).map(
        (gate) => `  gate ${gate}: ${gates[gate].approvals} of ${gates[gate].groups.join(', ')}`,
      ),
    ]),
    ...[...people.values()].map(
      ({ name, attestation, groups }) =>
        `Person ${name}: ${attestation}${groups.length === 0 ? '' : `, in ${groups.join(', ')}`}`,
    ),
  ];
}

/** Names, each with the term of office where it has one. */
function inOffice({ terms }: CeremonyPolicy, names: readonly string[]): string {
  return names
    .map((name) => {
      const term = terms.find((each) => each.name === name);
      const from = term?.from === undefined ? '' : ` from ${term.from}`;
      const until = term?.until === undefined ? '' : ` until ${term.until}`;
      return `${name}${from}${until}`;
    })
    .join(', ');
}
