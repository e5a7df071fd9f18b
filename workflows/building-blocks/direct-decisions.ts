import { workflowInfo } from '@temporalio/workflow';
import { nextCommandOf } from '../../src/contracts/next-commands';
import { OutageDecision, RunStopped } from './failures';
import type { Choice, Decision } from './parking';
import { ABORT, LEAVE } from './parking';
import type { Run } from './run';
import type { Parked } from './share-collection';

/** How waiting for a token that people hand in ended. `again`: with a new attempt. */
export type DirectOutcome = 'token' | 'again' | 'skipped';

const AGAIN: Choice = {
  action: 'retry',
  effect:
    'start a new attempt, to which every holder gives his share anew. Only where nobody was shown an encoded token, or the one that was shown is lost',
};

/** Asks people what to do about an attempt that ended; a token that is handed in ends the question. */
export async function askPeople(
  run: Run,
  cluster: string,
  parked: Parked,
  { code, message }: { readonly code: string; readonly message: string },
  taken: () => boolean,
): Promise<DirectOutcome> {
  const { skipEffect, choices = [run.inOutage ? LEAVE : ABORT] } = parked;
  const failure = {
    code,
    message,
    next: `Whoever was shown an encoded token hands it in: \`${nextCommandOf.submitToken(workflowInfo().workflowId, cluster)}\`. Else decide.`,
    outcomeKnown: code !== 'TOKEN_ORPHANED',
  };
  const skip: readonly Choice[] = skipEffect === undefined ? [] : [{ action: 'skip', effect: skipEffect }];
  const decision = await run.decisionWhile(`Key shares on ${cluster}`, failure, [AGAIN, ...skip, ...choices], taken);
  return decision ? outcomeOf(run, decision, cluster, parked) : 'token';
}

/** Waits for a token that may exist. Inside an outage people may go another way at any moment. */
export async function whileHandedIn(
  run: Run,
  cluster: string,
  { code, message }: { readonly code: string; readonly message: string },
  { choices = [LEAVE] }: Parked,
  { taken, timeoutMs }: { readonly taken: () => boolean; readonly timeoutMs: number | undefined },
): Promise<Decision | undefined> {
  if (run.inOutage) {
    const failure = { code, message, outcomeKnown: code !== 'TOKEN_ORPHANED' };
    return run.decisionWhile(`Encoded token of ${cluster}`, failure, choices, taken, timeoutMs);
  }
  await run.waitFor(taken, timeoutMs);
  return undefined;
}

/** @throws RunStopped, or OutageDecision inside an outage */
export function outcomeOf(
  run: Run,
  { action, by, reason }: Decision,
  cluster: string,
  { skipEffect = '' }: Parked,
): DirectOutcome {
  switch (action) {
    case 'retry':
      return 'again';
    case 'skip':
      run.state.leftToDo.push(`"Key shares on ${cluster}" was skipped: ${skipEffect}.`);
      return 'skipped';
    case 'abort':
      throw run.stop(new RunStopped(by.name, reason));
    case 'promote-secondary':
    case 'promote-back':
      throw new OutageDecision(action);
    default:
      throw new OutageDecision('leave');
  }
}
