import { ifPromotionUnknown, promote, promoteByForce } from '../../src/moves/primary';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { Approvals } from '../engine/approvals';
import { approvalsAreTooOld } from '../engine/approvals';
import type { FailureFacts } from '../engine/failures';
import { OutageDecision, RunStopped } from '../engine/failures';
import type { Choice } from '../engine/parking';
import { RETRY } from '../engine/parking';
import type { Run } from '../engine/run';
import { StepFailed } from '../engine/failures';
import { rolesOf } from '../engine/left-to-do';
import type { OperationTokens } from './operation-tokens';
import { serviceBack, takeSnapshot } from './service-back';

/** An unplanned change of the primary: it is gone, and a secondary takes its place. */
interface LostPrimary {
  readonly kind: ReplicationKind;
  readonly deployment: string;
  /** The primary that is gone, and the secondary that takes its place. */
  readonly route: {
    readonly from: string;
    readonly to: string;
    /** Of the secondary, before a forced promotion. */
    readonly snapshot: boolean;
    readonly hooks: { readonly traffic: boolean; readonly probe: boolean };
  };
  readonly approvals: Approvals;
  /** For DR. */
  readonly tokens?: OperationTokens;
  /** Adds what is left to do once the secondary is primary. */
  readonly becamePrimary: () => void;
}

/**
 * Nothing stops the run from the promotion until the cluster serves. If the service refuses the promotion with certainty,
 * people decide outside that part: more time, the gate of a forced promotion, or the end.
 */
export async function replaceLostPrimary(run: Run, lost: LostPrimary): Promise<void> {
  const { approvals, tokens } = lost;
  const { to } = lost.route;
  let force = false;
  for (;;) {
    run.state.enterPhase('outage');
    // Generated again if the token that was made before the wait for people does not open any more.
    const token = await run.abortable(async () => tokens?.of(to));
    const stuck = await run.outage(() => promoteAndServe(run, lost, token, force));
    if (!stuck) return;
    if (approvalsAreTooOld(stuck)) {
      // The primary was heard after the gate was met, and is gone again. The approvers check once more; everything is kept.
      await run.abortable(() => approvals.renew(force ? 'force' : 'promote', stuck));
      continue;
    }
    if (await run.abortable(async () => tokens?.replaceRefused(to, stuck))) continue;
    const next = await run.abortable(() => decide(run, lost, promoting(lost, force), stuck));
    if (next !== 'force' || force) continue;
    const before = { deployment: lost.deployment, cluster: to, event: 'forced-promotion' } as const;
    await run.abortable(async () => {
      await approvals.further('force');
      await takeSnapshot(run, lost.route.snapshot, before, approvals.authority);
    });
    force = true;
  }
}

function promoting({ route: { to } }: LostPrimary, force: boolean): string {
  return force ? promoteByForce(to) : promote(to);
}

/**
 * In one piece: from the promotion until the cluster serves. A promotion with an unknown outcome parks right here. One that
 * was refused with certainty returns why.
 *
 * @returns undefined if it was promoted
 */
async function promoteAndServe(
  run: Run,
  lost: LostPrimary,
  token: OperationTokenReference | undefined,
  force: boolean,
): Promise<FailureFacts | undefined> {
  const { kind, deployment, approvals, becamePrimary } = lost;
  const { from, to, hooks } = lost.route;
  const sides = { deployment, kind, cluster: to, otherCluster: from, authority: approvals.authority };
  try {
    // DANGER: if the old primary still serves anybody, there are two primaries from here on.
    await run.step(
      promoting(lost, force),
      (call) =>
        run.state.left.during(rolesOf(kind), ifPromotionUnknown(kind, to, from, `, and keep ${from} fenced`), () =>
          call.promoteSecondary({ ...sides, token, mode: force ? 'forced' : 'unplanned' }),
        ),
      {
        arrives: (call) => call.awaitRole({ deployment, kind, cluster: to, role: 'primary' }),
        onFailure: ({ outcomeKnown }) => (outcomeKnown ? 'throw' : 'park'),
      },
    );
  } catch (error) {
    if (error instanceof StepFailed) return error.failure;
    // The only choice besides a retry, because the outcome of the promotion is not known.
    if (error instanceof OutageDecision)
      throw run.stop(new RunStopped('an operator', `ended the run with the outcome of the promotion of ${to} unknown`));
    throw error;
  }
  becamePrimary();
  await serviceBack(run, { kind, deployment, primary: to, from, credentialOf: from, hooks });
  return undefined;
}

const FORCE: Choice = {
  action: 'force',
  effect: 'ask for a forced promotion at gate force: the writes that the cluster reports as missing are lost',
};

/** How the service says "not caught up". Force skips one check of the service, so it helps against that refusal alone. */
const NOT_CAUGHT_UP: Readonly<Record<ReplicationKind, readonly string[]>> = {
  dr: ['NOT_CAUGHT_UP'],
  performance: ['NOT_CAUGHT_UP', 'SERVICE_UNAVAILABLE', 'BAD_REQUEST'],
};

/** Refused with certainty, and nothing is under way: more time, the force gate, or the end. */
async function decide(
  run: Run,
  { kind }: LostPrimary,
  step: string,
  failure: FailureFacts,
): Promise<'retry' | 'force'> {
  const abort: Choice = { action: 'abort', effect: 'end the run here: this run leaves no cluster as primary' };
  const offered = NOT_CAUGHT_UP[kind].includes(failure.code) ? [FORCE] : [];
  const { action, by, reason } = await run.park(step, failure, [RETRY, ...offered, abort]);
  if (action === 'abort') throw run.stop(new RunStopped(by.name, reason));
  return action === 'force' ? 'force' : 'retry';
}
