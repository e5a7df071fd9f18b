import { DIRECT, PROBE, RELEASE } from '../../src/moves/clients';
import { snapshotOf } from '../../src/moves/every-run';
import { verifyWrite as verifyWriteStep, waitFollowsPerformance, waitServes } from '../../src/moves/primary';
import { metricMeter } from '@temporalio/workflow';
import type { MarkerResult } from '../../activities/evidence/data-evidence';
import type { Authority } from '../../src/contracts/activities';
import type { SnapshotEvent } from '../../src/contracts/names';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { OUTAGE_METRIC } from '../../src/contracts/names';
import { readInOutage } from '../engine/failures';
import { rolesOf } from '../engine/left-to-do';
import type { Run } from '../engine/run';
import { releaseClients } from './held-clients';
import { fenceOf, followingOf, pointingOf } from './roles';

/** The cluster that was promoted, and what is checked there. */
export interface Promoted {
  readonly kind: ReplicationKind;
  readonly deployment: string;
  readonly primary: string;
  /** For DR: the cluster of the same DR set whose credential, from before the change, is used. */
  readonly credentialOf: string;
  /** Written before the change. Absent if nothing could be written any more, or if a filter keeps it away. */
  readonly marker?: MarkerResult | undefined;
}

/** How clients are directed to it, and how the run learns that it serves. */
export interface Serving extends Promoted {
  /** The cluster that clients called before. */
  readonly from: string;
  readonly hooks: { readonly traffic: boolean; readonly probe: boolean };
}

/** The end of an outage: the new primary serves, clients are directed there, and a probe of their address succeeds. */
export async function serviceBack(run: Run, serving: Serving): Promise<void> {
  const { kind, deployment, primary, from, credentialOf, marker, hooks } = serving;
  // Left over from a run that was taken over. A primary follows no cluster, and should serve.
  run.state.left.settle(followingOf(primary), pointingOf(primary), fenceOf(primary));
  run.state.left.add(
    `${primary} became primary, but has not been confirmed to serve. Check that clients reach it and can write.`,
    rolesOf(kind),
  );
  const waiting = run.skippableStep(
    waitServes(primary),
    `continue; it is then not proven that ${primary} serves`,
    (call) => call.awaitServiceReady({ kind, deployment, cluster: primary, credentialOf, marker }),
    {
      // People judge data that differ from what was written. Without an answer, clients are directed there anyway.
      onFailure: ({ code }) => (code === 'STATE_DIVERGED' ? 'park' : 'throw'),
      choices: [],
    },
  );
  const ready = await readInOutage(waiting, ({ code, message, observed, next }) => {
    const text = `${primary} was promoted, but has not been confirmed to serve: ${code}: ${message}${observed === undefined ? '' : ` Observed: ${observed}.`} The run did not wait: it directs clients there if the cluster reports that it is primary.`;
    run.state.finding({ severity: 'critical', code: 'service-not-proven', text, next });
  });
  const readyAt = Date.now();
  run.state.noteFindings(ready?.findings);
  if (hooks.traffic) {
    await run.skippableStep(
      DIRECT,
      'clients keep calling the old address until somebody directs them manually',
      (call) => call.runHook({ deployment, hook: 'traffic', from, to: primary }),
      { choices: [] },
    );
  }
  const byQuota = run.held?.by === 'quota';
  await releaseClients(run, { deployment, from, to: primary });
  // If it could not be checked, it may hold the quota of an ended run anyway. Nobody is waited for in that case either.
  const { clientsRefused } = ready ?? { clientsRefused: 'not-known' };
  if (clientsRefused && !byQuota) await releaseLeftBehind(run, serving, clientsRefused === 'by-quota');
  const follows = ready?.followsPrimary === true ? await followsPrimary(run, deployment, primary) : readyAt;
  let probed = false;
  if (hooks.probe) {
    const seen = await run.skippableStep(
      PROBE,
      'it is not proven that clients reach the new primary',
      (call) => call.probeService({ deployment }),
      { choices: [] },
    );
    probed = seen !== undefined;
  }
  if ((!ready || follows === undefined) && !probed) return;
  run.state.serviceBackAt = probed ? Date.now() : (follows ?? readyAt);
  measureOutage(run);
  run.state.left.settle(rolesOf(kind));
}

/**
 * A DR secondary that takes the place of a performance secondary serves writes once it follows the performance primary.
 * Clients were directed there and released before: it serves reads.
 *
 * @returns when it was seen to follow; undefined if it was not, which is reported
 */
async function followsPrimary(run: Run, deployment: string, cluster: string): Promise<number | undefined> {
  const looking = run.step(
    waitFollowsPerformance(cluster),
    (call) => call.awaitPerformancePrimary({ deployment, cluster }),
    { onFailure: 'throw' },
  );
  const seen = await readInOutage(looking);
  run.state.noteFindings(seen?.findings);
  return seen?.followsAt;
}

/** Deletes the quota that an ended run left there. Reads first, so that nothing is done if there is none. */
async function releaseLeftBehind(
  run: Run,
  { deployment, primary, credentialOf }: Serving,
  seen: boolean,
): Promise<void> {
  const releasing = run.skippableStep(
    RELEASE,
    `a quota runbooks-... of an ended run refuses all clients until somebody deletes it on ${primary}`,
    (call) => call.releaseQuota({ deployment, cluster: primary, credentialOf }),
    { choices: [], onFailure: () => (seen ? 'park' : 'throw') },
  );
  await readInOutage(releasing, ({ code }) => {
    run.state.left.add(
      `Unknown whether a quota of an ended run refuses the clients of ${primary} (${code}). Run \`vault list sys/quotas/rate-limit\` there, and \`vault delete sys/quotas/rate-limit/runbooks-...\`.`,
    );
  });
}

/** After clients were released, in parallel with what follows: a cluster that refuses our write never keeps clients out. */
export async function verifyWrite(
  run: Run,
  { kind, deployment, primary, credentialOf, marker }: Promoted,
): Promise<void> {
  const written = await run.skippableStep(
    verifyWriteStep(primary),
    `it is not proven that ${primary} accepts an authenticated write`,
    (call) => call.proveWrite({ kind, deployment, cluster: primary, credentialOf, marker }),
  );
  // If it has not been confirmed to serve before.
  if (!written) return;
  run.state.serviceBackAt ??= Date.now();
  run.state.left.settle(rolesOf(kind));
}

/**
 * Takes the snapshot that the inventory wants before what cannot be undone, while nothing has begun. If it fails, people
 * retry, abort, or continue without one.
 *
 * @param wanted - from the plan
 */
export async function takeSnapshot(
  run: Run,
  wanted: boolean | undefined,
  before: { readonly deployment: string; readonly cluster: string; readonly event: SnapshotEvent },
  authority: Authority,
): Promise<void> {
  if (wanted !== true) return;
  const { cluster, event } = before;
  await run.skippableStep(snapshotOf(cluster), `there is no snapshot of ${cluster} from before its ${event}`, (call) =>
    call.takeSnapshot({ ...before, authority }),
  );
}

/** For monitoring, if the worker exports metrics. Costs no event, and a replay counts nothing. */
function measureOutage({ state: { runbook, deployment, outageSince, serviceBackAt } }: Run): void {
  if (outageSince === undefined || serviceBackAt === undefined) return;
  const histogram = metricMeter.createHistogram(OUTAGE_METRIC, 'float');
  histogram.record((serviceBackAt - outageSince) / 1_000, { deployment, runbook });
}
