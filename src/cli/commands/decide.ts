import type { Command } from 'commander';
import { DECISION_ACTIONS, SIGNALS } from '../../contracts/signals';
import { decisionPayload } from '../../contracts/payloads';
import { RunbookError } from '../../errors';
import { signDecision } from '../../keys';
import { newCommand, withServerOptions, withSession } from '../command';
import type { CommandHost } from '../command';
import { PRINT_OPTION, giveSignal } from '../give-signal';
import type { GivingOptions } from '../give-signal';
import { signingKey } from '../holder-key';
import type { SigningOptions } from '../holder-key';
import { describe, queryStatus } from '../run-view';
import type { TemporalSession } from '../temporal';
import { shellLine } from '../text';
import { readReport } from './watch';

interface DecideOptions extends GivingOptions, SigningOptions {
  readonly step: string;
  readonly action: string;
  readonly reason: string;
  readonly name: string;
  readonly parking?: string;
}

/** `runbook decide`: says what happens with a parked step. */
export function decideCommand(host: CommandHost): Command {
  const command = newCommand('decide', 'decide what happens with a parked step; "runbook status" lists the choices', [
    'runbook decide deployment:payments --step "Demote east" --action retry --reason "network is back" --name ada',
  ])
    .argument('<workflowId>')
    .requiredOption('--step <step>', 'name of the parked step, as status shows it')
    .requiredOption('--action <action>', `one of: ${DECISION_ACTIONS.join(', ')}`)
    .requiredOption('--reason <text>', 'why; shown in the report')
    .requiredOption('--name <name>', 'your name as the inventory lists it')
    .option('--parking <number>', 'number of the parking (default: the one that is open now)')
    .option('--key-file <file>', 'your signing key, else RUNBOOKS_KEY_FILE; without one the decision is a claim')
    .option('--passphrase-file <file>', 'passphrase of the signing key (default: hidden prompt)')
    .option(...PRINT_OPTION);
  return withServerOptions(command).action(async (workflowId: string, options: DecideOptions) => {
    const { context } = host;
    await withSession(context, options, async (session) => {
      const { runId } = await describe(session.client, { workflowId });
      const parkingNo =
        options.parking === undefined
          ? await openParking(session, { workflowId, runId }, options.step)
          : Number(options.parking);
      const parsed = decisionPayload.safeParse({
        ns: session.namespace,
        wid: workflowId,
        rid: runId,
        step: options.step,
        parkingNo,
        action: options.action,
        reason: options.reason,
        name: options.name,
        iat: Math.floor(Date.now() / 1000),
      });
      if (!parsed.success) {
        const mistakes = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ');
        throw new RunbookError('INVALID_INPUT', `The decision is refused: ${mistakes}. Nothing was sent.`);
      }
      const key = await signingKey(context, options);
      const input = key === undefined ? parsed.data : { document: await signDecision(parsed.data, key) };
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
  const status = await queryStatus(session.client, run);
  const open =
    status?.waiting.flatMap((waiting) => (waiting.for === 'decision' ? [waiting] : [])) ??
    (await readReport(session, run)).parkings.filter(({ decision }) => decision === undefined);
  const found = open.find((parking) => parking.step === step);
  if (found !== undefined) return found.parkingNo;
  throw new RunbookError('PRECONDITION_FAILED', `No step of this name is parked. Nothing was sent.`, {
    observed: open.length === 0 ? 'no parked step' : `parked: ${open.map((parking) => `"${parking.step}"`).join(', ')}`,
    needed: `"${step}"`,
    next: shellLine('runbook', 'status', run.workflowId),
  });
}
