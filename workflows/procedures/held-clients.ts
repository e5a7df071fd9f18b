import type { Run } from '../engine/run';

/** Whose clients write nothing while a primary is changed, and the hooks for that. */
export interface QuiesceTarget {
  readonly deployment: string;
  readonly from: string;
  readonly to: string;
  readonly hooks: { readonly quiesce: boolean; readonly release: boolean };
}

export const CLIENTS_HELD = 'Clients were told to hold off and still do: let them through by hand.';

/** Where a run that ends before its outage lets clients through, told once. */
const ENDINGS = new WeakSet<Run>();

/** Clients write nothing any more, where there is a hook for that; a run that ends before its outage lets them through. */
export async function quiesceClients(run: Run, { deployment, from, to, hooks }: QuiesceTarget): Promise<void> {
  if (!hooks.quiesce) return;
  run.clientsHeld = true;
  if (!ENDINGS.has(run)) {
    ENDINGS.add(run);
    run.onEnd(async () => {
      if (run.state.outageSince !== undefined || !run.clientsHeld || !hooks.release) return;
      await run.cleanUp('Release the clients', async (call) => {
        await call.runHook({ deployment, hook: 'release', from: to, to: from });
        run.clientsHeld = false;
      });
    });
  }
  await run.step('Quiesce the clients', (call) => call.runHook({ deployment, hook: 'quiesce', from, to }));
}
