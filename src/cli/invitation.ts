import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { QUERIES } from '../contracts/signals';
import { RunbookError } from '../errors';
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
  const recorded = ['createCeremony', 'createRootTokenCeremony', 'createRehearsal']
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
