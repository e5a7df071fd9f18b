import type { RunStatus, Waiting } from '../contracts/run-status';
import { shellLine } from './text';

/** Something that a person can do next, with the exact command. */
export interface NextCommand {
  readonly who: string;
  readonly command: string;
  readonly effect?: string;
}

const WHO = 'YOUR-NAME';

/** The exact command for each person that a run waits for. */
export function nextCommands(status: Pick<RunStatus, 'workflowId' | 'waiting'>): NextCommand[] {
  return status.waiting.flatMap((waiting) => commandsFor(status.workflowId, waiting));
}

/** The exact commands for one thing that a run waits for. */
export function commandsFor(workflowId: string, waiting: Waiting): NextCommand[] {
  switch (waiting.for) {
    case 'shares':
      return waiting.missingHolders.map((holder) => ({
        who: holder,
        command: shellLine('runbook', 'share', workflowId, '--holder', holder),
      }));
    case 'approval':
      return [
        {
          who: waiting.missing.join('; ') || 'an approver',
          command: shellLine('runbook', 'approve', workflowId, '--gate', waiting.gate, '--name', WHO),
        },
      ];
    case 'decision':
      return waiting.choices.map(({ action, effect }) => ({
        who: 'an operator',
        command: shellLine(
          'runbook',
          'decide',
          workflowId,
          '--step',
          waiting.step,
          '--action',
          action,
          '--reason',
          'WHY',
          '--name',
          WHO,
        ),
        effect,
      }));
    case 'window':
    case 'action':
      return [];
    case 'resume':
      return [{ who: 'an operator', command: shellLine('runbook', 'resume', workflowId, '--by', WHO) }];
  }
}
