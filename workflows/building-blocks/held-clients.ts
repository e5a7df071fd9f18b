import type { Run } from './run';

/** Whose clients write nothing while a primary is changed, and the hooks for that. */
export interface Holding {
  readonly deployment: string;
  readonly from: string;
  readonly to: string;
  readonly hooks: { readonly quiesce: boolean; readonly release: boolean };
}

/** Where a run that ends before its outage lets clients through, told once. */
const ENDINGS = new WeakSet<Run>();

/** Clients write nothing any more, where there is a hook for that; a run that ends before its outage lets them through. */
export async function holdClients(run: Run, { deployment, from, to, hooks }: Holding): Promise<void> {
  if (!hooks.quiesce) return;
  run.clientsHeld = true;
  if (!ENDINGS.has(run)) {
    ENDINGS.add(run);
    run.onEnd(async () => {
      if (run.state.outageSince !== undefined || !run.clientsHeld || !hooks.release) return;
      await run.cleanUp('Release the clients', async (call) => {
        await call.runHook({ deployment, hook: 'release', from: to, to: from });
      });
    });
  }
  await run.step('Quiesce the clients', (call) => call.runHook({ deployment, hook: 'quiesce', from, to }));
}

/**
 * The change was not begun, and people are waited for: the old primary serves, so its clients are let through. Only then is
 * who heard of an outage told that service is there.
 *
 * @param wasTold - whether people were told that the outage began
 */
export async function letThroughMeanwhile(
  run: Run,
  { deployment, from, to, hooks }: Holding,
  wasTold: boolean,
): Promise<void> {
  if (run.clientsHeld && hooks.release) {
    const released = await run.skippableStep(
      'Release the clients meanwhile',
      `clients of ${from} stay quiesced while people are waited for`,
      (call) => call.runHook({ deployment, hook: 'release', from: to, to: from }),
    );
    if (released) run.clientsHeld = false;
  }
  if (run.clientsHeld) {
    run.state.finding({
      severity: 'critical',
      code: 'clients-held',
      text: `${from} is primary still, and its clients are held off while people are waited for.`,
      next: `Let them through by hand, or answer soon; they are held off again right before the change.`,
    });
  } else if (wasTold) {
    run.state.notifications.serviceReady();
  }
}
