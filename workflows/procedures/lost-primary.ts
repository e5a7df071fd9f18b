import { CancellationScope } from '@temporalio/workflow';
import { activities } from '../engine/activity-calls';
import { failureFacts, isStop, RunStopped } from '../engine/failures';
import type { Run } from '../engine/run';

/** The cluster that was lost. */
interface LostPrimary {
  readonly deployment: string;
  readonly from: string;
}

const LOOK = 'Look for the primary while people are waited for';

/**
 * Runs `body`, which waits for people, while the run looks every 20 s whether the set has a primary again. If it has one,
 * the outage ends at that reading, people are told, and the run ends by itself a minute later, unless somebody pauses it:
 * nothing was changed yet.
 */
export async function watchingLostPrimary<T>(run: Run, lost: LostPrimary, body: () => Promise<T>): Promise<T> {
  const scope = new CancellationScope({ cancellable: true });
  // Not waited for: its activity needs a moment to learn that it is cancelled, and clients have no primary.
  void scope.run(() => watch(run, lost)).catch((error: unknown) => noteEnd(run, error));
  try {
    return await body();
  } finally {
    scope.cancel();
  }
}

async function watch(run: Run, { deployment, from }: LostPrimary): Promise<void> {
  const { state } = run;
  for (;;) {
    const seen = await state.besideSteps(LOOK, () => back(deployment, from));
    if (seen === undefined) continue;
    state.primaryIsBack(seen.cluster, seen.backAt);
    const { stays, observed } = await state.besideSteps(LOOK, () => activities.awaitPrimaryStays({ deployment, from }));
    if (!stays) {
      state.outageBegan(Date.now(), `${seen.cluster} was DR primary for a moment, then: ${observed}`);
      state.serviceBackAt = undefined;
      state.publish();
      continue;
    }
    if (!run.isPauseOrdered) {
      run.stop(
        new RunStopped('this run', `${seen.cluster} is the DR primary again and stayed so; nothing was changed`),
      );
      return;
    }
    await run.waitFor(() => !run.isPauseOrdered);
  }
}

/** Undefined if there was none for so long that the activity has to be ordered again. */
async function back(deployment: string, from: string) {
  try {
    return await activities.awaitPrimaryBack({ deployment, from });
  } catch (error) {
    if (failureFacts(error)?.code !== 'CONFIRMATION_TIMEOUT') throw error;
    return undefined;
  }
}

function noteEnd(run: Run, error: unknown): void {
  if (isStop(error)) return;
  run.state.finding({
    severity: 'warning',
    code: 'primary-not-watched',
    text: `The run no longer looks whether a primary is back (${failureFacts(error)?.code ?? 'INTERNAL'}).`,
    next: 'Look yourself before you approve. The promotion looks once more before it is sent.',
  });
}
