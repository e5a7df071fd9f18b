import { OutageDecision, RunStopped } from '../engine/failures';
import type { Decision } from '../engine/parking';
import type { Run } from '../engine/run';
import type { Parked } from './share-collection';

/**
 * What a decision about a cluster's token comes to.
 *
 * @throws RunStopped, or OutageDecision inside an outage
 */
export function outcomeOf(
  run: Run,
  { action, by, reason }: Decision,
  cluster: string,
  { skipEffect = '' }: Parked,
): 'again' | 'skipped' {
  switch (action) {
    case 'retry':
      return 'again';
    case 'skip':
      run.state.leftToDo.push(`"Operation token of ${cluster}" was skipped: ${skipEffect}.`);
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
