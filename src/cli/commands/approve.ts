import { createHash } from 'node:crypto';
import type { Command } from 'commander';
import { GATE_NAMES } from '../../contracts/plan';
import type { PlanDocument } from '../../contracts/plan';
import type { Finding } from '../../contracts/run-facts';
import { SIGNALS } from '../../contracts/signals';
import type { ApprovalPayload } from '../../contracts/payloads';
import { RunbookError } from '../../errors';
import { signApproval } from '../../keys';
import { newCommand, withServerOptions, withSession } from '../command';
import type { CommandHost } from '../command';
import { PRINT_OPTION, giveSignal } from '../give-signal';
import type { GivingOptions } from '../give-signal';
import { activityResults, fetchEvents } from '../history';
import { signingKey } from '../holder-key';
import type { SigningOptions } from '../holder-key';
import { approvalLines, unsignedLines } from '../render-plan';
import { describe, queryStatus } from '../run-view';
import type { TemporalSession } from '../temporal';
import { shellLine } from '../text';

interface ApproveOptions extends GivingOptions, SigningOptions {
  readonly gate: string;
  readonly name: string;
  readonly reject?: boolean;
  readonly comment?: string;
  readonly planDigest?: string;
  readonly yes?: boolean;
}

/** `runbook approve`: shows the plan of a gate, asks, and sends the approval or the rejection. */
export function approveCommand(host: CommandHost): Command {
  const command = newCommand('approve', 'approve or reject what a run will do next', [
    'runbook approve deployment:payments --gate plan --name ada',
    'runbook approve deployment:payments --gate go --name ada --key-file ~/ada.key',
    'runbook approve deployment:payments --gate plan --name ada --reject --comment "wrong window"',
  ])
    .argument('<workflowId>')
    .requiredOption('--gate <gate>', `the gate that waits: ${GATE_NAMES.join(', ')}`)
    .requiredOption('--name <name>', 'your name as the inventory lists it')
    .option('--reject', 'reject instead of approving')
    .option('--comment <text>', 'shown in the report')
    .option(
      '--key-file <file>',
      'your signing key ("runbook keys init"), else RUNBOOKS_KEY_FILE; without one the approval is a claim',
    )
    .option('--passphrase-file <file>', 'passphrase of the signing key (default: hidden prompt)')
    .option('--plan-digest <digest>', 'approve only if this is the plan')
    .option('-y, --yes', 'do not ask (for scripts); needs --plan-digest')
    .option(...PRINT_OPTION);
  return withServerOptions(command).action(async (workflowId: string, options: ApproveOptions) => {
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
        throw new RunbookError('INVALID_INPUT', 'Not confirmed; nothing was sent.', { needed: verdict });
      }
      const payload: ApprovalPayload = {
        ns: session.namespace,
        wid: workflowId,
        rid: runId,
        gate: options.gate,
        planDigest: plan.digest,
        verdict,
        comment: options.comment ?? '',
        name: options.name,
        iat: Math.floor(Date.now() / 1000),
      };
      const key = await signingKey(context, options);
      const input = key === undefined ? payload : { document: await signApproval(payload, key) };
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
  });
}
