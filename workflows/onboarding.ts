import type { ReplicationKind } from '../src/contracts/runbook-inputs';
import type { Run } from './building-blocks/run';

/** Makes a cluster primary of a kind of replication; a step that finds it there already says so. */
export async function enablePrimary(
  run: Run,
  deployment: string,
  kind: ReplicationKind,
  cluster: string,
): Promise<void> {
  await run.step(
    `Enable ${cluster} as ${kind === 'dr' ? 'DR' : 'performance'} primary`,
    (call) =>
      kind === 'dr'
        ? call.enableDrPrimary({ deployment, cluster })
        : call.enablePerformancePrimary({ deployment, cluster }),
    { note: ({ observed }) => observed },
  );
}
