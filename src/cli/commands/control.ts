import type { Command } from 'commander';
import { SIGNALS } from '../../contracts/signals';
import { controlPayload } from '../../contracts/payloads';
import type { ControlAction } from '../../contracts/signals';
import type { ControlPayload } from '../../contracts/payloads';
import { RunbookError } from '../../errors';
import { signControl } from '../../keys';
import { newCommand, withServerOptions, withSession } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import { PRINT_OPTION, giveSignal } from '../give-signal';
import type { GivingOptions } from '../give-signal';
import { signingKey } from '../holder-key';
import type { SigningOptions } from '../holder-key';
import type { CliContext } from '../context';
import { refusePlainShare } from '../plain-share';
import { describe } from '../run-view';
import type { TemporalSession } from '../temporal';

interface ControlOptions extends GivingOptions, SigningOptions {
  readonly name: string;
  readonly reason?: string;
  readonly before?: string;
}

const CONTROLS: readonly (readonly [command: string, action: ControlAction, description: string])[] = [
  ['pause', 'pause', 'hold a run before its next step; inside an outage once a cluster serves'],
  ['resume', 'resume', 'let a paused run go on'],
  ['abort', 'abort', 'end a run at its next safe point, with its clean-ups and a report'],
  [
    'take-over',
    'takeOver',
    'order that a run becomes a failover; "start drFailover --take-over" does it with an input of its own',
  ],
];

/** `runbook pause`, `resume`, `abort` and `take-over`. */
export function controlCommands(host: CommandHost): Command[] {
  return CONTROLS.map(([name, action, description]) => {
    const command = newCommand(name, description, [
      `runbook ${name} deployment:payments --name ada --reason "wrong window"`,
    ])
      .argument('<workflowId>')
      .requiredOption('--name <name>', 'your name as the inventory lists it')
      .option('--reason <text>', 'why; shown in the report')
      .option('--key-file <file>', 'your signing key, else RUNBOOKS_KEY_FILE; without one the order is a claim')
      .option('--passphrase-file <file>', 'passphrase of the signing key (default: hidden prompt)')
      .option(...PRINT_OPTION);
    if (action === 'pause') command.option('--before <step>', 'hold before the step of this name instead of at once');
    return withServerOptions(command).action(async (workflowId: string, options: ControlOptions) => {
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
  }: SigningOptions & Omit<ControlOptions, keyof ServerOptions> & { readonly action: ControlAction },
): Promise<{ readonly document: string } | ControlPayload> {
  const parsed = controlPayload.safeParse({
    ns: namespace,
    wid: workflowId,
    rid: runId,
    action,
    reason,
    before,
    name,
    iat: Math.floor(Date.now() / 1000),
  });
  if (!parsed.success) {
    const mistakes = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ');
    throw new RunbookError('INVALID_INPUT', `The order is refused: ${mistakes}. Nothing was sent.`);
  }
  const key = await signingKey(context, signing);
  return key === undefined ? parsed.data : { document: await signControl(parsed.data, key) };
}
