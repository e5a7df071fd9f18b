import { InvalidArgumentError, Option } from 'commander';
import type { Command } from 'commander';
import { nextCommandOf } from '../../contracts/next-commands';
import type { RunStatus } from '../../contracts/run-status';
import { DECISION_ACTIONS, SIGNALS } from '../../contracts/signals';
import { escapeUntrusted } from '../../contracts/words';
import { GATE_NAMES } from '../../contracts/gates';
import { planToSign } from '../../documents/statements';
import { RunbookError } from '../../errors';
import { failoverInputDigest } from '../../keys';
import { noRightWarnings, notAskedWarnings } from '../../words/plan';
import { newCommand } from '../command';
import { approvalLines, unsignedLines } from '../render-plan';
import { readAnsweredView } from '../run';
import { NAME_OPTION, withRuns } from '../run-session';
import type { ExactRun, RunSession } from '../run-session';
import { confirmed, givenOrAsked, personOf, refusePlainShare } from '../secret-input';
import { meant } from '../text';
import { giveSignal, giveStatement, statementOf, withStatementOptions } from '../signals';
import type { StatementOptions } from '../signals';
import type { CommandHost } from '../command-host';

/** The commands that send a person's statement to a run: an approval, a decision, an order. */
export function commands(host: CommandHost): Command[] {
  return [approveCommand(host), decideCommand(host), ...controlCommands(host)];
}

interface ApproveOptions extends StatementOptions {
  readonly gate: string;
  readonly reject?: boolean;
  readonly comment?: string;
  readonly planDigest?: string;
  readonly yes?: boolean;
}

/** `runbook approve`: shows the plan of a gate, asks for confirmation, and sends the approval or the rejection. */
function approveCommand(host: CommandHost): Command {
  const command = newCommand('approve', [
    'runbook approve deployment:payments --gate plan --name ada',
    'runbook approve deployment:payments --gate go --name ada --key-file ~/ada.key',
    'runbook approve deployment:payments --gate plan --name ada --reject --comment "wrong window"',
  ])
    .addOption(
      new Option('--gate <gate>', `the gate that waits for approval: ${GATE_NAMES.join(', ')}`)
        .argParser(gateName)
        .makeOptionMandatory(),
    )
    .option(...NAME_OPTION)
    .option('--reject', 'reject instead of approving')
    .option('--comment <text>', 'shown in the report')
    // A digest that begins with a hyphen (one in 64) arrives with a leading space.
    .option('--plan-digest <digest>', 'approve only if this is the plan', (digest) => digest.trim())
    .option('-y, --yes', 'do not ask (for scripts); needs --plan-digest');
  return withStatementOptions(command).action(async (given: string, options: ApproveOptions) => {
    const { context } = host;
    const { gate, comment, planDigest, yes } = options;
    const verdict = options.reject === true ? 'reject' : 'approve';
    if (yes === true && planDigest === undefined)
      throw new RunbookError('INVALID_INPUT', '--yes needs a plan digest: --plan-digest is missing.', {
        needed: '--plan-digest with the digest of the plan that you read',
        next: 'Nothing was sent. Run the command without --yes: it shows the plan, with its digest in the first line, and asks.',
      });
    await withRuns(context, options, given, async (session, workflowId) => {
      const { run, plan, status } = await planUnderApproval(session, workflowId);
      const name = session.person ?? (await personOf(context, options.name));
      if (planDigest !== undefined && planDigest !== plan.digest)
        throw new RunbookError('PRECONDITION_FAILED', 'The run has a different plan from the one that you named.', {
          observed: plan.digest,
          needed: planDigest,
          next: 'Nothing was sent. Read the current plan: run the command without --plan-digest and --yes.',
        });
      const noRight = verdict === 'approve' ? noRightWarnings(status, gate, name) : [];
      for (const line of [...noRight, ...approvalLines(plan, gate), ...unsignedLines(status.findings)])
        context.err(line);
      for (const line of notAskedWarnings(status, gate)) context.err(line);
      if (yes !== true)
        await confirmed(context, `Type "${verdict}" to ${verdict} gate "${gate}"`, {
          word: verdict,
          refused: 'nothing was sent',
          next: 'Run the same command again when you have decided.',
          withoutTerminal: '`--yes --plan-digest DIGEST`, after you read the plan above and its digest',
        });
      const members = { gate, planDigest: plan.digest, verdict, comment, name };
      await giveStatement(host, options, session, run, [SIGNALS.approve, 'approval'], members);
    });
  });
}

function gateName(given: string): string {
  if (GATE_NAMES.some((name) => name === given)) return given;
  const close = meant(given, GATE_NAMES);
  throw new InvalidArgumentError(
    `${close === undefined ? '' : `Did you mean ${close}? `}Allowed choices are ${GATE_NAMES.join(', ')}.`,
  );
}

/** The plan of the newest run, with its digest verified. */
async function planUnderApproval(session: RunSession, workflowId: string) {
  const { runId, namespace, status } = await readAnsweredView(session, { workflowId });
  return { run: { workflowId, runId, namespace }, plan: planToSign({ ...status, workflowId }), status };
}

interface DecideOptions extends StatementOptions {
  readonly action: string;
  readonly parking?: string;
}

/** `runbook decide`: decides what happens with a parked step. */
function decideCommand(host: CommandHost): Command {
  const command = newCommand('decide', [
    'runbook decide payments --action retry   (if only one step is parked)',
    'runbook decide deployment:payments --parking 1 --action retry --reason "network is back" --name ada',
  ])
    .option('--parking <number>', 'number of the parking, as "runbook status" shows it')
    .addOption(new Option('--action <action>', 'what to do').choices(DECISION_ACTIONS).makeOptionMandatory())
    .option('--reason <text>', 'why; shown in the report (default: prompt)')
    .option(...NAME_OPTION);
  return withStatementOptions(command).action(async (given: string, options: DecideOptions) => {
    await withRuns(host.context, options, given, async (session, workflowId) => {
      const { action } = options;
      const view = await readAnsweredView(session, { workflowId });
      const parked = openParking(view.status, options.parking);
      host.context.err(`To be decided: ${escapeUntrusted(parked.step)} (parking ${parked.parkingNo}).`);
      const name = session.person ?? (await personOf(host.context, options.name));
      const reason = await givenOrAsked(host.context, options.reason, '--reason', 'Why (everybody can read it)');
      const members = { ...parked, action, reason, name };
      const run = { workflowId, runId: view.runId, namespace: view.namespace };
      await giveStatement(host, options, session, run, [SIGNALS.decide, 'decision'], members);
    });
  });
}

/** The selected parking: by its number, or because it is the only one. */
function openParking({ waiting, workflowId }: RunStatus, parking: string | undefined) {
  const open = waiting.flatMap((each) => (each.for === 'decision' ? [each] : []));
  const [found, ...others] = open.filter(({ parkingNo }) => parking === undefined || parkingNo === Number(parking));
  if (found !== undefined && others.length === 0) return { step: found.step, parkingNo: found.parkingNo };
  const which = found === undefined ? 'No such step is parked' : 'Several steps are parked';
  const named = open.map((each) => `"${each.step}" (parking ${each.parkingNo})`).join(', ');
  throw new RunbookError('PRECONDITION_FAILED', `${which}. Nothing was sent.`, {
    observed: open.length === 0 ? 'no parked step' : `parked: ${named}`,
    needed: parking === undefined ? `--parking with its number` : `parking ${parking}`,
    next: nextCommandOf.status(workflowId),
  });
}

/** `runbook pause`, `resume`, `abort` and `take-over`. */
function controlCommands(host: CommandHost): Command[] {
  return (['pause', 'resume', 'abort', 'takeOver'] as const).map((action) => {
    const word = action === 'takeOver' ? 'take-over' : action;
    const command = newCommand(word, [`runbook ${word} deployment:payments --name ada --reason "wrong window"`])
      .option(...NAME_OPTION)
      .option('--reason <text>', 'why; shown in the report');
    return withStatementOptions(command).action(async (given: string, options: StatementOptions) => {
      const { reason } = options;
      refusePlainShare({ reason });
      await withRuns(host.context, options, given, async (session, workflowId) => {
        const run = await session.newest(workflowId);
        const name = session.person ?? (await personOf(host.context, options.name));
        if (action === 'takeOver') {
          if (session.person !== undefined)
            throw new RunbookError('INVALID_INPUT', 'A gateway passes no take-over. Nothing was sent.', {
              needed: 'access to Temporal, with --address',
              next: 'Ask somebody who has it: a take-over begins a failover.',
            });
          const input = {
            deployment: run.deployment,
            reason: reason ?? 'the primary is gone',
            requestedBy: name,
          };
          return orderTakeOver(host, options, session, run, input, { name, reason });
        }
        const members = { action, reason, name };
        await giveStatement(host, options, session, run, [SIGNALS[action], 'control'], members);
      });
    });
  });
}

/** Orders a run to become the failover of this input. */
export async function orderTakeOver(
  host: CommandHost,
  options: StatementOptions,
  session: RunSession,
  run: ExactRun,
  input: object,
  by: { readonly name: string; readonly reason: string | undefined },
): Promise<void> {
  const members = { action: 'takeOver', ...by, inputDigest: failoverInputDigest(input) };
  const order = await statementOf(session, run, 'control', members);
  const takeOverDocument = 'document' in order ? order.document : order;
  const failover = { ...input, takeOver: true, takeOverDocument };
  await giveSignal(host, options, session, run, SIGNALS.takeOver, failover);
}
