import type { Command } from 'commander';
import { z } from 'zod';
import type { MailboxRun, WaitingAnswer, WaitingItem } from '../../contracts/mailbox';
import { nextCommandOf, shellLine } from '../../contracts/next-commands';
import { clock, counted, inLines } from '../../contracts/words';
import { askMailbox } from '../../documents/mailbox';
import { RunbookError } from '../../errors';
import { waitingFor } from '../../gateway/mailbox/waiting';
import { loadInventory } from '../../inventory';
import { inventoryPath, taskQueueSetting } from '../../worker/settings';
import { newCommand, printResult, withServerOptions, withSession } from '../command';
import type { CommandHost } from '../command-host';
import type { CliContext } from '../context';
import { EXIT } from '../errors';
import { mailboxRuns } from '../mailbox-runs';
import { gatewayOf, NAME_OPTION, withMailbox, withPersonOptions } from '../run-session';
import type { RunOptions } from '../run-session';
import { personOf } from '../secret-input';

export const commands = (host: CommandHost): Command[] => [waitingCommand(host)];

/** `runbook waiting`: what waits for one person, with the exact command for each item. */
function waitingCommand({ context, finish }: CommandHost): Command {
  const command = newCommand('waiting', [
    'runbook waiting --gateway https://runbooks.example:8421',
    'runbook waiting --name ada   (on a host with the inventory and access to Temporal)',
  ]).option(...NAME_OPTION);
  return withPersonOptions(withServerOptions(command)).action(async (options: RunOptions) => {
    const gateway = gatewayOf(context, options);
    const answer =
      gateway === undefined
        ? await readInTemporal(context, options)
        : await withMailbox(context, options, gateway, async (access) =>
            checked(await askMailbox(access, '/v1/waiting')),
          );
    printResult(context, options, 'waiting', answer, waitingLines(answer));
    if (answer.items.length === 0 && answer.unreachable.length > 0) finish(EXIT.pending);
  });
}

async function readInTemporal(context: CliContext, options: RunOptions): Promise<WaitingAnswer> {
  if (!context.env['RUNBOOKS_INVENTORY'])
    throw new RunbookError('INVALID_INPUT', 'Neither a gateway nor an inventory is known here.', {
      needed: '--gateway, or RUNBOOKS_INVENTORY and access to Temporal',
      next: 'Ask the operators for the address of the gateway. What a run waits for: `runbook status DEPLOYMENT`.',
    });
  const inventory = await loadInventory(inventoryPath(context.env));
  const person = await personOf(context, options.name);
  return withSession(context, options, async ({ client, namespace }) => {
    const runs = await mailboxRuns({ client, namespace, taskQueue: taskQueueSetting(context.env) }).open();
    return waitingFor(person, inventory, { namespace, runs, now: Date.now() });
  });
}

const run = z.looseObject({ workflowId: z.string(), runId: z.string(), deployment: z.string(), runbook: z.string() });
const item = z.discriminatedUnion('kind', [
  run.extend({ kind: z.literal('approval'), gate: z.string(), missing: z.array(z.string()) }),
  run.extend({ kind: z.enum(['share', 'token', 'rehearsal']), until: z.string().optional() }),
  run.extend({
    kind: z.literal('decision'),
    ...{ step: z.string(), parkingNo: z.number(), failure: z.looseObject({ message: z.string() }) },
    choices: z.array(z.looseObject({ action: z.string(), effect: z.string() })),
  }),
]);
const waitingAnswer = z.looseObject({
  ...{ schema: z.literal('runbooks/waiting/v1'), person: z.string(), items: z.array(item), runs: z.array(run) },
  unreachable: z.array(z.looseObject({ workflowId: z.string() })),
});

function checked(answer: unknown): WaitingAnswer {
  // What is shown is as the schema says.
  if (waitingAnswer.safeParse(answer).success) return answer as WaitingAnswer;
  throw new RunbookError('RESPONSE_INVALID', 'The answer of the gateway does not have the expected form.', {
    needed: 'a gateway of the same version as this command',
    next: 'Ask the operators for the version of this command that the gateway uses.',
  });
}

/** What waits for a person, each item with its command. */
export function waitingLines(given: WaitingAnswer): string[] {
  const { person, items, runs, unreachable } = inLines(given);
  const silent = unreachable.map(({ workflowId }) => `No worker answers for ${workflowId}: it may wait for you too.`);
  const controlled = runs.filter(({ runId }) => !items.some((each) => each.runId === runId));
  return [
    items.length === 0 ? `Nothing waits for ${person}.` : `${counted(items.length, 'item')} waiting for ${person}:`,
    ...items.flatMap((each) => ['', ...itemLines(each, person)]),
    ...(controlled.length === 0 ? [] : ['', 'Other open runs that you may pause, resume or abort:']),
    ...controlled.map((each) => `  ${titleOf(each)}: ${nextCommandOf.status(each.workflowId)}`),
    ...(silent.length === 0 ? [] : ['', ...silent]),
  ];
}

const titleOf = ({ deployment, runbook }: MailboxRun): string => `${deployment}, ${runbook}`;

function itemLines(each: WaitingItem, person: string): string[] {
  const { workflowId, requestedBy = 'unknown', reason = 'none given' } = each;
  const [what, ...commands] = wantedOf(each, person);
  return [
    `${titleOf(each)}: ${what}`,
    `  requested by ${requestedBy} (as the run says), reason: ${reason}`,
    ...commands.map((command) => `  ${command}`),
    ...(each.kind === 'decision' ? [`  ${nextCommandOf.status(workflowId)}`] : []),
  ];
}

/** What is wanted, then the commands. */
function wantedOf(each: WaitingItem, person: string): string[] {
  const { workflowId } = each;
  switch (each.kind) {
    case 'approval':
      return [
        `your approval of gate "${each.gate}" (needed: ${each.missing.join('; ')})`,
        nextCommandOf.approve(workflowId, each.gate, person),
      ];
    case 'decision':
      return [
        `a decision on "${each.step}": ${each.failure.message}`,
        ...each.choices.map(
          ({ action, effect }) => `${nextCommandOf.decide(workflowId, each.parkingNo, action, person)}   (${effect})`,
        ),
      ];
    case 'share':
    case 'token':
    case 'rehearsal': {
      const wanted = { share: 'your key share', token: 'an operation token', rehearsal: 'your part in a rehearsal' };
      const until = each.until === undefined ? '' : `, until ${clock(Date.parse(each.until))}`;
      const command = shellLine('runbook', each.kind === 'token' ? 'provide-token' : 'share', workflowId);
      return [`${wanted[each.kind]}${until}`, `${command} ${shellLine('--holder', person)}`];
    }
  }
}
