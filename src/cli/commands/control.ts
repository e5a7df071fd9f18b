import { userInfo } from 'node:os';
import type { Command } from 'commander';
import { SIGNALS } from '../../contracts/signals';
import type { RunControl } from '../../contracts/signals';
import { newCommand, printResult, withServerOptions, withSession } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import { refusePlainShare } from '../plain-share';
import { sendSignal } from '../send-signal';

interface ControlOptions extends ServerOptions {
  readonly by?: string;
  readonly reason?: string;
  readonly before?: string;
}

const CONTROLS = {
  pause: 'hold a run before its next step; steps under way end first',
  resume: 'let a paused run go on',
  abort: 'end a run at its next safe point, with its clean-ups and a report',
} as const;

/** `runbook pause`, `resume` and `abort`. */
export function controlCommands(host: CommandHost): Command[] {
  return (['pause', 'resume', 'abort'] as const).map((control) => {
    const command = newCommand(control, CONTROLS[control], [
      `runbook ${control} deployment:payments --by ada --reason "wrong window"`,
    ])
      .argument('<workflowId>')
      .option('--by <name>', 'who asks (default: the user of this machine); a claim, shown as such')
      .option('--reason <text>', 'why');
    if (control === 'pause') command.option('--before <step>', 'hold before the step of this name instead of at once');
    return withServerOptions(command).action(async (workflowId: string, options: ControlOptions) => {
      const { context } = host;
      const input: RunControl = {
        by: options.by ?? userInfo().username,
        reason: options.reason ?? '',
        ...(options.before === undefined ? {} : { before: options.before }),
      };
      refusePlainShare(input);
      await withSession(context, options, async ({ client }) => {
        const sent = await sendSignal(client, { workflowId }, SIGNALS[control], input, context.stop);
        printResult(context, options, sent, sent.lines);
        host.finish(sent.exitCode);
      });
    });
  });
}
