import { createHash } from 'node:crypto';
import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { z } from 'zod';
import { nextCommandOf } from '../../contracts/next-commands';
import { approvalPayload, controlPayload, decisionPayload, declinePayload } from '../../contracts/payloads';
import type { ControlPayload } from '../../contracts/payloads';
import { GATE_NAMES } from '../../contracts/plan';
import type { PlanDocument } from '../../contracts/plan';
import type { Finding } from '../../contracts/run-facts';
import { DECISION_ACTIONS, SIGNALS } from '../../contracts/signals';
import type { ControlAction } from '../../contracts/signals';
import { claimedPayload } from '../../documents';
import { RunbookError } from '../../errors';
import { redact } from '../../keys/redaction';
import { newCommand, withServerOptions, withSession } from '../command';
import type { CommandHost } from '../command';
import type { CliContext } from '../context';
import { activityResults, fetchEvents } from '../history';
import { fetchInvitation } from '../invitation';
import { approvalLines, unsignedLines } from '../render-plan';
import { describe, queryStatus, readRunView } from '../run-view';
import { refusePlainShare } from '../secret-input';
import type { SigningOptions } from '../secret-input';
import { giveSignal, statementOf, withStatementOptions } from '../signals';
import type { StatementOptions } from '../signals';
import type { TemporalSession } from '../temporal';
import { shellLine } from '../text';

/** What a person says of a run: an approval, a decision, an order, a decline. */
export function commands(host: CommandHost): Command[] {
  return [declineCommand(host), approveCommand(host), decideCommand(host), ...controlCommands(host)];
}

interface ApproveOptions extends StatementOptions {
  readonly gate: string;
  readonly name: string;
  readonly reject?: boolean;
  readonly comment?: string;
  readonly planDigest?: string;
  readonly yes?: boolean;
}

/** `runbook approve`: shows the plan of a gate, asks, and sends the approval or the rejection. */
function approveCommand(host: CommandHost): Command {
  const command = newCommand('approve', [
    'runbook approve deployment:payments --gate plan --name ada',
    'runbook approve deployment:payments --gate go --name ada --key-file ~/ada.key',
    'runbook approve deployment:payments --gate plan --name ada --reject --comment "wrong window"',
  ])
    .argument('<workflowId>')
    .requiredOption('--gate <gate>', `the gate that waits: ${GATE_NAMES.join(', ')}`)
    .requiredOption('--name <name>', 'your name as the inventory lists it')
    .option('--reject', 'reject instead of approving')
    .option('--comment <text>', 'shown in the report')
    .option('--plan-digest <digest>', 'approve only if this is the plan')
    .option('-y, --yes', 'do not ask (for scripts); needs --plan-digest');
  withServerOptions(withStatementOptions(command, 'the approval'));
  return command.action(async (workflowId: string, options: ApproveOptions) => {
    const { context } = host;
    requireGate(options.gate);
    if (options.yes === true && options.planDigest === undefined) {
      throw new RunbookError(
        'INVALID_INPUT',
        '--yes without a look needs the plan by name: --plan-digest is missing.',
        {
          needed: '--plan-digest with the digest of the plan that you read',
          next: 'Nothing was sent. Without --yes the command shows the plan, with its digest in the first line, and asks.',
        },
      );
    }
    await withSession(context, options, async (session) => {
      const { runId, plan, findings } = await planUnderApproval(session, workflowId);
      if (options.planDigest !== undefined && options.planDigest !== plan.digest) {
        throw new RunbookError(
          'PRECONDITION_FAILED',
          'The run has another plan than the one that you name. Nothing was sent.',
          {
            observed: plan.digest,
            needed: options.planDigest,
            next: 'Read the plan of now: without --plan-digest and --yes the command shows it, and asks.',
          },
        );
      }
      for (const line of approvalLines(plan, options.gate)) context.err(line);
      for (const line of unsignedLines(findings)) context.err(line);
      const verdict = options.reject === true ? 'reject' : 'approve';
      if (
        options.yes !== true &&
        (await context.ask(`Type "${verdict}" to ${verdict} gate "${options.gate}"`)) !== verdict
      ) {
        throw new RunbookError('INVALID_INPUT', 'Not confirmed; nothing was sent.', {
          needed: verdict,
          next: 'Give the same command again when you have decided.',
        });
      }
      const { gate, name, comment } = options;
      const input = await statementOf(
        context,
        options,
        { what: 'the approval', typ: 'approval', members: approvalPayload },
        { ns: session.namespace, wid: workflowId, rid: runId, gate, planDigest: plan.digest, verdict, comment, name },
      );
      await giveSignal(host, options, session.client, { workflowId, runId }, SIGNALS.approve, input);
    });
  });
}

/** The plan of the newest run, from the query, or from the history where no worker answers; its digest is checked. */
async function planUnderApproval(
  { client }: TemporalSession,
  workflowId: string,
): Promise<{ runId: string; plan: PlanDocument; findings: readonly Finding[] }> {
  const { runId } = await describe(client, { workflowId });
  const run = { workflowId, runId };
  const status = await queryStatus(client, run);
  const plan =
    status?.planText !== undefined && status.planDigest !== undefined
      ? { text: status.planText, digest: status.planDigest }
      : activityResults(await fetchEvents(client, run), (type) => type.startsWith('assess'))
          .map(recordedPlan)
          .findLast((found) => found !== undefined);
  if (plan === undefined) {
    throw new RunbookError('NOT_FOUND', `The run ${workflowId} has no plan to approve yet.`, {
      next: shellLine('runbook', 'status', workflowId),
    });
  }
  if (createHash('sha256').update(plan.text).digest('base64url') !== plan.digest) {
    throw new RunbookError(
      'DOCUMENT_INVALID',
      'The plan that the run shows does not have the digest that it names. Nothing was sent.',
      { next: 'Approve nothing of this run: tell the operators that its plan was changed on the way.' },
    );
  }
  return { runId, plan, findings: status?.findings ?? [] };
}

function recordedPlan(result: unknown): PlanDocument | undefined {
  const plan: unknown = typeof result === 'object' && result !== null && 'plan' in result ? result.plan : undefined;
  if (typeof plan !== 'object' || plan === null || !('text' in plan) || !('digest' in plan)) return undefined;
  const { text, digest } = plan;
  return typeof text === 'string' && typeof digest === 'string' ? { text, digest } : undefined;
}

/** A mistyped gate would be signed and refused by the run; it is named here, before anything is asked. */
function requireGate(gate: string): void {
  if (GATE_NAMES.some((name) => name === gate)) return;
  throw new RunbookError('INVALID_INPUT', `There is no gate "${gate}". Nothing was sent.`, {
    needed: `one of: ${GATE_NAMES.join(', ')}`,
    next: 'Give the name of the gate that "runbook status" shows.',
  });
}

interface DecideOptions extends StatementOptions {
  readonly step: string;
  readonly action: string;
  readonly reason: string;
  readonly name: string;
  readonly parking?: string;
}

/** `runbook decide`: says what happens with a parked step. */
function decideCommand(host: CommandHost): Command {
  const command = newCommand('decide', [
    'runbook decide deployment:payments --step "Demote east" --action retry --reason "network is back" --name ada',
  ])
    .argument('<workflowId>')
    .requiredOption('--step <step>', 'name of the parked step, as status shows it')
    .requiredOption('--action <action>', `one of: ${DECISION_ACTIONS.join(', ')}`)
    .requiredOption('--reason <text>', 'why; shown in the report')
    .requiredOption('--name <name>', 'your name as the inventory lists it')
    .option('--parking <number>', 'number of the parking (default: the one that is open now)');
  withServerOptions(withStatementOptions(command, 'the decision'));
  return command.action(async (workflowId: string, options: DecideOptions) => {
    const { context } = host;
    await withSession(context, options, async (session) => {
      const { runId } = await describe(session.client, { workflowId });
      const parkingNo =
        options.parking === undefined
          ? await openParking(session, { workflowId, runId }, options.step)
          : Number(options.parking);
      const { step, action, reason, name } = options;
      const input = await statementOf(
        context,
        options,
        { what: 'the decision', typ: 'decision', members: decisionPayload },
        { ns: session.namespace, wid: workflowId, rid: runId, step, parkingNo, action, reason, name },
      );
      await giveSignal(host, options, session.client, { workflowId, runId }, SIGNALS.decide, input);
    });
  });
}

/** Number of the parking that waits for a decision on `step`. */
async function openParking(
  session: TemporalSession,
  run: { workflowId: string; runId: string },
  step: string,
): Promise<number> {
  const { status, memo } = await readRunView(session, run);
  // Where no worker answers, what the run wrote down of what it waits for.
  const noted = [...(memo?.waitingFor ?? '').matchAll(PARKED)].map(([, name = '', no]) => ({
    step: name,
    parkingNo: Number(no),
  }));
  const open = status?.waiting.flatMap((waiting) => (waiting.for === 'decision' ? [waiting] : [])) ?? noted;
  const found = open.find((parking) => parking.step === step);
  if (found !== undefined) return found.parkingNo;
  throw new RunbookError('PRECONDITION_FAILED', `No step of this name is parked. Nothing was sent.`, {
    observed: open.length === 0 ? 'no parked step' : `parked: ${open.map((parking) => `"${parking.step}"`).join(', ')}`,
    needed: `"${step}"`,
    next: shellLine('runbook', 'status', run.workflowId),
  });
}

interface ControlOptions extends StatementOptions {
  readonly name: string;
  readonly reason?: string;
  readonly before?: string;
}

const CONTROLS = [
  ['pause', 'pause'],
  ['resume', 'resume'],
  ['abort', 'abort'],
  ['take-over', 'takeOver'],
] as const;

/** `runbook pause`, `resume`, `abort` and `take-over`. */
function controlCommands(host: CommandHost): Command[] {
  return CONTROLS.map(([name, action]) => {
    const command = newCommand(name, [`runbook ${name} deployment:payments --name ada --reason "wrong window"`])
      .argument('<workflowId>')
      .requiredOption('--name <name>', 'your name as the inventory lists it')
      .option('--reason <text>', 'why; shown in the report');
    if (action === 'pause') command.option('--before <step>', 'hold before the step of this name instead of at once');
    withServerOptions(withStatementOptions(command, 'the order'));
    return command.action(async (workflowId: string, options: ControlOptions) => {
      const { context } = host;
      refusePlainShare({ reason: options.reason, before: options.before });
      await withSession(context, options, async (session) => {
        const { runId, memo } = await describe(session.client, { workflowId });
        const run = { workflowId, runId };
        const document = await controlDocument(context, session, run, { ...options, action });
        const { name: by, reason = 'the primary is gone' } = options;
        const deployment = memo?.['deployment'];
        const input = action === 'takeOver' ? { deployment, reason, requestedBy: by, ...taking(document) } : document;
        await giveSignal(host, options, session.client, run, SIGNALS[action], input);
      });
    });
  });
}

/** The members of a failover's input with which it takes a run over. */
export function taking(document: { readonly document: string } | ControlPayload): Readonly<Record<string, unknown>> {
  return { takeOver: true, takeOverDocument: 'document' in document ? document.document : document };
}

/** An order for one run: signed where the person has a key, else the plain members. */
export async function controlDocument(
  context: CliContext,
  { namespace }: TemporalSession,
  { workflowId, runId }: { readonly workflowId: string; readonly runId: string },
  {
    action,
    name,
    reason,
    before,
    ...signing
  }: SigningOptions & Pick<ControlOptions, 'name' | 'reason' | 'before'> & { readonly action: ControlAction },
): Promise<{ readonly document: string } | ControlPayload> {
  return statementOf(
    context,
    signing,
    { what: 'the order', typ: 'control', members: controlPayload },
    { ns: namespace, wid: workflowId, rid: runId, action, reason, before, name },
  );
}

interface DeclineOptions extends StatementOptions {
  readonly holder: string;
  readonly reason: string;
}

/** `runbook decline`: a key holder says that he cannot give his share now, so that others are asked at once. */
function declineCommand(host: CommandHost): Command {
  const command = newCommand('decline', [
    'runbook decline deployment:payments --holder ada --reason "on a plane until the evening"',
    'runbook decline deployment:payments --holder ada --reason ill --key-file ~/ada.key   (signed)',
    'runbook decline deployment:payments --holder ada --reason ill --print   (one line to paste as signal "decline" in the Web UI)',
  ])
    .argument('<workflowId>', 'the run that asks, for example deployment:payments')
    .requiredOption('--holder <name>', 'your name as the inventory lists it')
    .requiredOption('--reason <text>', 'why; shown to everybody and in the report. Never a key share');
  withServerOptions(withStatementOptions(command, 'the decline'));
  return command.action(async (workflowId: string, options: DeclineOptions) => {
    const { context } = host;
    await withSession(context, options, async ({ client, namespace }) => {
      const asked = await whoIsAsked(client, workflowId);
      if (!asked.holders.includes(options.holder)) {
        throw new RunbookError('INVALID_INPUT', 'This run does not ask you for a key share. Nothing was sent.', {
          observed: options.holder,
          needed: `one of: ${asked.holders.join(', ')}`,
          next: `If one of them is you, give your name exactly so. If none is, you are not asked. Who is: ${shellLine('runbook', 'status', workflowId)}`,
        });
      }
      if (redact(options.reason) !== options.reason) {
        throw new RunbookError('INVALID_INPUT', 'The reason seems to hold a secret. Nothing was sent.', {
          needed: 'a few words; everybody can read them',
          next: `Give other words: ${nextCommandOf.decline(workflowId, options.holder)}. Was it your key share? It stands in the history of your shell now: remove it there.`,
        });
      }
      const { rid, cid, epoch } = asked;
      const input = await statementOf(
        context,
        options,
        {
          what: 'the decline',
          typ: 'decline',
          members: declinePayload,
          refusal: {
            needed: 'a reason of one to 500 characters',
            next: `Correct it: ${nextCommandOf.decline(workflowId, options.holder)}`,
          },
        },
        { ns: namespace, wid: workflowId, rid, cid, epoch, reason: options.reason, name: options.holder },
      );
      // To the very run that invited: a run that came after it asks anew.
      await giveSignal(host, options, client, { workflowId, runId: rid }, SIGNALS.decline, input);
      if (options.print !== true)
        context.err(`You may give it all the same: ${nextCommandOf.share(workflowId, options.holder)}`);
    });
  });
}

const invited = z.object({ rid: z.string(), cid: z.string(), epoch: z.number(), holders: z.array(z.string()) });

/**
 * What the newest invitation of the run says. Its signature is not looked at: a decline gives nothing away, and the run
 * checks that it names its own ceremony.
 */
async function whoIsAsked(client: Client, workflowId: string): Promise<z.infer<typeof invited>> {
  const said = invited.safeParse(claimedPayload(await fetchInvitation(client, { workflowId })));
  if (said.success) return said.data;
  throw new RunbookError('DOCUMENT_INVALID', 'The run shows an invitation that is none. Nothing was sent.', {
    needed: 'an invitation that the workers made',
    next: `Tell the operators, by voice, that you cannot give your share. What the run says: ${shellLine('runbook', 'status', workflowId)}`,
  });
}

/** As the memo of a run has it. */
const PARKED = /decision on parked step "([^"]*)" \(parking (\d+)\)/g;
