import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { QUERIES } from '../contracts/signals';
import { parsePublicKey, spokenFingerprint } from '../documents';
import type { PinnedKey } from '../documents';
import { RunbookError } from '../errors';
import { addPin, notAKey, readPins } from '../keys';
import type { CliContext } from './context';
import { activityResults, fetchEvents } from './history';
import type { RunReference } from './history';
import { queryRun } from './run-view';
import { shellLine } from './text';

/** The file of pinned workers' keys: `--pins`, else `RUNBOOKS_PINS`, else in the user's configuration directory. */
export function pinsPath(env: NodeJS.ProcessEnv, given?: string): string {
  const named = given ?? env['RUNBOOKS_PINS'];
  if (named !== undefined && named !== '') return named;
  const base = env['XDG_CONFIG_HOME'];
  return join(
    base !== undefined && base !== '' ? base : join(homedir(), '.config'),
    'replication-runbooks',
    'pins.json',
  );
}

/**
 * The newest invitation of a run: from the query, or from the history where no worker answers.
 *
 * @throws RunbookError `NOT_FOUND` where the run has none.
 */
export async function fetchInvitation(client: Client, run: RunReference): Promise<string> {
  const answered = await queryRun<unknown>(client, run, QUERIES.invitation);
  if (typeof answered === 'string') return answered;
  const events = await fetchEvents(client, run);
  const recorded = ['createCeremony', 'createRehearsal']
    .flatMap((activity) => activityResults(events, activity))
    .findLast(hasInvitation);
  if (recorded !== undefined) return recorded.invitation;
  throw new RunbookError('NOT_FOUND', `The run ${run.workflowId} has no invitation: it asks for no key shares now.`, {
    next: `Look at what it does: ${shellLine('runbook', 'status', run.workflowId)}`,
  });
}

function hasInvitation(value: unknown): value is { readonly invitation: string } {
  return typeof value === 'object' && value !== null && 'invitation' in value && typeof value.invitation === 'string';
}

/** The option of every command that looks at pinned keys. */
export const PINS_OPTION = [
  '--pins <file>',
  "pinned workers' keys (default: RUNBOOKS_PINS, ~/.config/replication-runbooks/pins.json)",
] as const;

/** The options with which the workers' key is pinned on the way, once. */
export function withPinningOptions(command: Command): Command {
  return command
    .option(
      '--workers-key <key>',
      'the workers\' public key "<kid>:<x>", to be pinned after its fingerprint is compared',
    )
    .option('--environment <name>', 'what you call the environment of these workers', USUAL_ENVIRONMENT)
    .option(...PINS_OPTION);
}

/** How a workers' key is called where a person gives no name of his own. */
export const USUAL_ENVIRONMENT = 'production';

/**
 * Pins a workers' key, after the person compared its fingerprint: with an operator by voice, or with his own note.
 *
 * @param options.line `<kid>:<x>`, from anywhere: what counts is the fingerprint.
 * @param options.compared the person said already that it is the right one.
 * @throws RunbookError `INVALID_INPUT` where the line is no key, or the person does not confirm it.
 */
export async function pinAfterComparing(
  context: CliContext,
  options: {
    readonly pinsFile: string;
    readonly environment: string;
    readonly line: string;
    readonly compared?: boolean;
  },
): Promise<PinnedKey> {
  const key = parsePublicKey(options.line.trim());
  if (key === undefined) throw notAKey();
  const pins = await readPins(options.pinsFile);
  const known = pins.some(({ kid, environment }) => kid === key.kid && environment === options.environment);
  // Nobody is called about a key that was compared before.
  if (options.compared !== true && !known) {
    const others = pins.filter(({ kid, environment }) => kid !== key.kid && environment === options.environment);
    for (const { kid } of others)
      context.err(`Pinned for "${options.environment}" so far: ${spokenFingerprint(kid)}. This is ANOTHER key.`);
    context.err(`Fingerprint of the workers' key: ${spokenFingerprint(key.kid)}`);
    const answer = await context.ask(
      'Compare it with an operator by voice, or with your own note. Type "yes" if it is the same',
    );
    if (answer !== 'yes')
      throw new RunbookError('INVALID_INPUT', 'Not confirmed; nothing was pinned.', {
        needed: 'yes',
        next: 'Is it another fingerprint than the one that you were told? Do not go on: call the operators, at a number that you know.',
      });
  }
  return addPin(options.pinsFile, options.environment, options.line);
}
