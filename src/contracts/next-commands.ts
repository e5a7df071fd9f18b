import type { RunStatus, Waiting } from './run-status';
import type { ControlAction } from './signals';

/** Something that a person can do next, with the exact command. */
export interface NextCommand {
  readonly who: string;
  readonly command: string;
  readonly effect?: string;
  /** What is known of a key holder who may give his share, and was not simply asked. */
  readonly as?: 'stand-by';
}

/** A word as a shell takes it, quoted only where it must be. */
export function shellWord(word: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A command line with each word quoted as needed. */
export function shellLine(...words: readonly string[]): string {
  return words.map(shellWord).join(' ');
}

const by = (option: string, name: string | undefined) => (name === undefined ? [] : [option, name]);

const ofHolder = (command: string) => (workflowId: string, holder?: string) =>
  shellLine('runbook', command, workflowId, ...by('--holder', holder));

/**
 * Commands that texts name beside what a run waits for. Each works as it is printed: a command knows its person by
 * RUNBOOKS_PERSON, or asks for the name, as it asks for a reason.
 */
export const nextCommandOf = {
  share: ofHolder('share'),
  provideToken: ofHolder('provide-token'),
  approve: (workflowId: string, gate: string, name?: string) =>
    shellLine('runbook', 'approve', workflowId, '--gate', gate, ...by('--name', name)),
  /** By the number of the parking: a command that was copied before decides nothing that parked since. */
  decide: (workflowId: string, parkingNo: number, action: string, name?: string) =>
    shellLine(
      ...['runbook', 'decide', workflowId, '--parking', String(parkingNo), '--action', action, ...by('--name', name)],
    ),
  status: (workflowId: string) => shellLine('runbook', 'status', workflowId),
  control: (action: ControlAction, workflowId: string, name?: string) =>
    shellLine('runbook', action === 'takeOver' ? 'take-over' : action, workflowId, ...by('--name', name)),
};

/** The exact command for each person that a run waits for. */
export function nextCommands(status: Pick<RunStatus, 'workflowId' | 'waiting'>): NextCommand[] {
  return status.waiting.flatMap((waiting) => commandsFor(status.workflowId, waiting));
}

/** The commands of the key holders, by what is known of them. */
export function shareCommands(
  workflowId: string,
  { missingHolders, standBy }: Extract<Waiting, { for: 'shares' }>,
): Readonly<Record<'asked' | 'standBy', readonly NextCommand[]>> {
  const share = (who: string): NextCommand => ({ who, command: nextCommandOf.share(workflowId, who) });
  return {
    asked: missingHolders.map(share),
    standBy: (standBy?.holders ?? []).map((name) => ({ ...share(name), as: 'stand-by' })),
  };
}

/** The exact commands for one thing that a run waits for. */
export function commandsFor(workflowId: string, waiting: Waiting): NextCommand[] {
  switch (waiting.for) {
    case 'shares':
      return Object.values(shareCommands(workflowId, waiting)).flat();
    case 'approval': {
      const who = waiting.missing.join('; ') || 'an approver';
      return [{ who, command: nextCommandOf.approve(workflowId, waiting.gate) }];
    }
    case 'rehearsal':
      return waiting.missing.map((holder) => ({ who: holder, command: nextCommandOf.share(workflowId, holder) }));
    case 'decision':
      return waiting.choices.map(({ action, effect }) => ({
        who: 'an operator',
        command: nextCommandOf.decide(workflowId, waiting.parkingNo, action),
        effect,
      }));
    case 'window':
      return [];
    case 'action':
      return [...(waiting.commands ?? [])];
    case 'resume':
      return [{ who: 'an operator', command: nextCommandOf.control('resume', workflowId) }];
  }
}
