import type { RunStatus, Waiting, NextCommand, Asked } from './run-status';
import type { TokenUse } from './input-members';
import type { RunbookName } from './names';
import type { ControlAction } from './signals';
import { attestedName, escapeUntrusted } from './words';

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
 * Commands that texts name beside what a run waits for. Each works as printed: a command takes the person from RUNBOOKS_PERSON,
 * or asks for the name, as it asks for a reason.
 */
export const nextCommandOf = {
  share: ofHolder('share'),
  provideToken: ofHolder('provide-token'),
  approve: (workflowId: string, gate: string, name?: string) =>
    shellLine('runbook', 'approve', workflowId, '--gate', gate, ...by('--name', name)),
  /** By the number of the parking, so that a command copied earlier does not decide a step that parked since. */
  decide: (workflowId: string, parkingNo: number, action: string, name?: string) =>
    shellLine(
      ...['runbook', 'decide', workflowId, '--parking', String(parkingNo), '--action', action, ...by('--name', name)],
    ),
  /** With the complete input, so that nothing has to be added. */
  start: (runbook: RunbookName, input: object) =>
    // A backtick in somebody's words would end the command.
    shellLine('runbook', 'start', runbook, '--input', JSON.stringify(input).replaceAll('`', '\\u0060')),
  status: (workflowId: string) => shellLine('runbook', 'status', workflowId),
  control: (action: ControlAction, workflowId: string, name?: string) =>
    shellLine('runbook', action === 'takeOver' ? 'take-over' : action, workflowId, ...by('--name', name)),
};

/** The exact commands for one thing that a run waits for. */
export function commandsFor(workflowId: string, waiting: Waiting): NextCommand[] {
  switch (waiting.for) {
    case 'shares':
      return [
        ...waiting.missingHolders.map((who) => ({ who, command: nextCommandOf.share(workflowId, who) })),
        ...(waiting.standBy?.holders ?? []).map(
          (who) => ({ who, command: nextCommandOf.share(workflowId, who), as: 'stand-by' }) as const,
        ),
      ];
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

/** What a token may be used for, after "to". */
const USE_WORDS: Readonly<Record<TokenUse | 'root-token.generate', string>> = {
  'dr.promote': 'promote it to DR primary',
  'dr.update-primary': 'point it to another primary',
  'dr.disable': 'DISABLE replication on it',
  'dr.reindex': 'reindex it',
  'dr.merkle-check': 'check its Merkle tree',
  'dr.operation-token.delete': 'delete that token afterwards',
  'root-token.generate': 'do ANYTHING on it, with no expiry',
};

/** What people must not confuse when a run asks for tokens. */
export const GIVEN_AS_TOKEN =
  "Asked for: the TOKEN, generated with the service's own command line. Never a key share, never a root token";

const OF_HOLDERS: ReadonlySet<Waiting['for']> = new Set(['shares', 'rehearsal', 'action']);

/** The request in a few lines, each one line whatever people wrote: clusters and uses, who asks, why. */
export function askedText({ kind, targets, requestedBy, reason, collects }: Asked): string[] {
  const token = kind === 'root-token' ? 'ROOT token' : 'DR operation token';
  const why = escapeUntrusted(reason).trim();
  return [
    ...targets.map(({ cluster, uses }) => `One ${token} on ${escapeUntrusted(cluster)}, to ${usesText(uses)}`),
    ...(collects ? [GIVEN_AS_TOKEN] : []),
    ...(kind === 'rehearsal' ? ['A rehearsal of tool, key and access: no token, and no key share'] : []),
    `Requested by ${requestedBy.how === 'claimed' ? `${escapeUntrusted(requestedBy.name)} (UNVERIFIED: ask that person)` : attestedName(requestedBy)}`,
    `Reason: ${why === '' ? 'none given' : why}`,
  ];
}

/** What a token is for, after "to"; each use once. */
export function usesText(uses: readonly (keyof typeof USE_WORDS)[]): string {
  return [...new Set(uses)].map((use) => USE_WORDS[use]).join('; ');
}

/** {@link askedText} while key holders are waited for, otherwise nothing. */
export function askedNow({ asked, waiting }: Pick<RunStatus, 'asked' | 'waiting'>): string[] {
  return asked && waiting.some((each) => OF_HOLDERS.has(each.for)) ? askedText(asked) : [];
}
