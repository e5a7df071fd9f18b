import { QUIESCE, readQuotas, RELEASE } from '../../src/moves/clients';
import type { ClientHooks, HeldClients, Quiesce } from '../../src/contracts/activities';
import { quotaName } from '../../src/contracts/names';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { GateName } from '../../src/contracts/gates';
import { workflowInfo } from '@temporalio/workflow';
import type { StepCalls } from '../engine/activity-calls';
import type { Approvals } from '../engine/approvals';
import type { Run } from '../engine/run';
import { readFinalRoles } from './roles';

/** The clients that write nothing while a primary is changed, and what stops them. */
interface QuiesceTarget {
  readonly deployment: string;
  readonly kind: ReplicationKind;
  readonly route: {
    readonly from: string;
    readonly to: string;
    readonly quiesce: Quiesce;
    readonly hooks: Pick<ClientHooks, 'release'>;
  };
  readonly approvals: Approvals;
  /** The gate that allows the demotion. */
  readonly gate: GateName;
}

/** The cluster where clients are released, and the one they come from. */
interface Release {
  readonly deployment: string;
  readonly from: string;
  /** The cluster that serves. */
  readonly to: string;
}

/**
 * Stops the writes of clients, if there is a means to do it. However the run ends, it releases them or reports what is left
 * to do. That is registered before they are stopped.
 */
export async function quiesceClients(run: Run, { deployment, kind, route, approvals, gate }: QuiesceTarget) {
  const { from, to, quiesce, hooks } = route;
  if (quiesce !== 'hook' && quiesce !== 'quota') return;
  run.onEnd(async () => {
    const { held } = run;
    if (!held) return;
    const may = held.by === 'quota' || held.canRelease;
    const serving = may ? await servingOf(run, deployment, kind, route) : undefined;
    if (serving !== undefined) {
      await run.cleanUp(RELEASE, async (call) => {
        await releaseHeld(call, held, { deployment, from: serving === from ? to : from, to: serving });
        noLongerHeld(run);
      });
    }
  });
  if (quiesce === 'hook') {
    await run.step(QUIESCE, (call) => {
      hold(run, { by: 'hook', canRelease: hooks.release });
      return call.runHook({ deployment, hook: 'quiesce', from, to });
    });
    return;
  }
  // In the history before anything is changed, so that a run that continues knows the state from before.
  const before = await run.step(readQuotas(from), (call) => call.readQuotas({ deployment, cluster: from }));
  await run.step(QUIESCE, (call) =>
    approvals.begin(gate, (authority) => {
      hold(run, { by: 'quota', cluster: from, before });
      return call.quiesceByQuota({ deployment, kind, cluster: from, otherCluster: to, authority });
    }),
  );
}

/** Recorded as held before anything holds them. */
function hold(run: Run, held: HeldClients): void {
  run.held = held;
  run.state.left.add(stillHeld(held), HELD);
}

function noLongerHeld(run: Run): void {
  run.held = undefined;
  run.state.left.settle(HELD);
}

const HELD = 'clients that are held';

/**
 * The cluster where clients belong when a run ends that still holds them. Before an outage that is the old primary. Later it
 * is the one of the two that reports to be primary while the other reports that it is not. Undefined if that is not known, or
 * if people skipped the release.
 */
async function servingOf(
  run: Run,
  deployment: string,
  kind: ReplicationKind,
  { from, to }: QuiesceTarget['route'],
): Promise<string | undefined> {
  if (run.state.outageSince === undefined) return from;
  if (run.state.serviceBackAt !== undefined) return undefined;
  const { primaries, silent } = await readFinalRoles(run, deployment, [from, to], kind);
  const [serving, ...more] = primaries;
  const known = serving !== undefined && more.length + silent.length === 0 && [from, to].includes(serving);
  return known ? serving : undefined;
}

/** For a performance secondary that does not follow: its quota is deleted only with that of its primary. */
export function refusedUntilFollowing(quiesce: Quiesce | undefined): string {
  return quiesce === 'quota' ? ' Its clients are refused with 429 until it follows.' : '';
}

/** Releases quiesced clients to the cluster that serves. If people skip it, the report says how to do it manually. */
export async function releaseClients(run: Run, release: Release): Promise<void> {
  const { held } = run;
  if (!held || (held.by === 'hook' && !held.canRelease)) return;
  const effect =
    held.by === 'hook'
      ? 'clients stay quiesced until somebody releases them manually'
      : stillHeld({ ...held, cluster: release.to });
  const released = await run.skippableStep(
    RELEASE,
    effect.replace(/\.$/, ''),
    (call) => releaseHeld(call, held, release),
    // If the run releases them at its end after all, nothing of this is left to do.
    { choices: [], leftAs: HELD },
  );
  if (released) noLongerHeld(run);
}

function releaseHeld(call: StepCalls, held: HeldClients, { deployment, from, to }: Release) {
  if (held.by === 'hook') return call.runHook({ deployment, hook: 'release', from, to });
  return call.releaseQuota({ deployment, cluster: to, credentialOf: held.cluster, quotas: held.before });
}

function stillHeld(held: HeldClients): string {
  if (held.by === 'hook') return 'Clients were quiesced and still are. Release them manually.';
  const { exempt, absolute = [], auditLogging } = held.before;
  const config = [
    `rate_limit_exempt_paths=${exempt.join(',')}`,
    ...(absolute.length > 0 ? [`absolute_rate_limit_exempt_paths=${absolute.join(',')}`] : []),
    ...(auditLogging ? ['enable_rate_limit_audit_logging=true'] : []),
  ];
  return [
    `A rate-limit quota refuses all clients, on ${held.cluster} and on a cluster that was promoted since. On the cluster that serves, run`,
    `\`vault delete sys/quotas/rate-limit/${quotaName(workflowInfo().runId)}\`, then`,
    `\`vault write sys/quotas/config ${config.join(' ')}\`.`,
  ].join(' ');
}
