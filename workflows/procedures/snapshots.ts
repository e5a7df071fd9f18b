import type { Authority } from '../../src/contracts/activities';
import type { SnapshotEvent } from '../../src/contracts/names';
import type { Run } from '../engine/run';

/**
 * Takes the snapshot that the inventory wants before what cannot be undone, while nothing has begun: where it fails people
 * retry, abort, or go on without one.
 *
 * @param wanted - as the plan says
 */
export async function takeSnapshot(
  run: Run,
  wanted: boolean | undefined,
  before: { readonly deployment: string; readonly cluster: string; readonly event: SnapshotEvent },
  authority: Authority,
): Promise<void> {
  if (wanted !== true) return;
  const { cluster, event } = before;
  await run.skippableStep(
    `Take a snapshot of ${cluster}`,
    `there is no snapshot of ${cluster} from before its ${event}`,
    (call) => call.takeSnapshot({ ...before, authority }),
    { note: ({ observed }) => observed },
  );
}
