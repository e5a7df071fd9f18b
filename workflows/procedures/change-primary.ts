import {
  COMPARE,
  demotion,
  ifPromotionUnknown,
  promote as promoteStep,
  promoteBack as promoteBackStep,
  writeMarker,
} from '../../src/moves/primary';
import { READ_ROLES } from '../../src/moves/tokens';
import type { MarkerResult } from '../../activities/evidence/data-evidence';
import type { ClientHooks } from '../../src/contracts/activities';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { GateName } from '../../src/contracts/gates';
import type { Approvals } from '../engine/approvals';
import type { FailureFacts } from '../engine/failures';
import { OutageDecision, RunStopped, StepFailed, TakenOver, isStop, readInOutage } from '../engine/failures';
import type { OperationTokens } from './operation-tokens';
import type { Choice } from '../engine/parking';
import { LEAVE, RETRY } from '../engine/parking';
import { rolesOf } from '../engine/left-to-do';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { reportPrimaries } from './roles';
import { serviceBack } from './service-back';

/** The cluster that serves after the change: the new primary or the old one. */
export type Side = 'new' | 'old';

/** A planned change of the primary: both clusters answer, and no data may be lost. */
export type PrimaryChange = Change &
  ({ readonly kind: 'dr'; readonly tokens: OperationTokens } | { readonly kind: 'performance' });

interface Change {
  readonly deployment: string;
  /** The primary, and the secondary that takes its place. */
  readonly route: {
    readonly from: string;
    readonly to: string;
    readonly hooks: ClientHooks;
  };
  readonly acceptLoss: 'none' | 'bounded';
  /** After a demotion or a promotion that was refused with certainty: the old primary serves again, or the step parks. */
  readonly onStuck: 'promote-back' | 'park';
  /** What people approved, and the gate that allows the demotion. */
  readonly approvals: Approvals;
  readonly gate: GateName;
  /** The last write of the old primary that the new one was seen to have. */
  readonly marker: MarkerResult;
  /** A paths filter may keep the marker itself away from the new primary. */
  readonly markerFiltered?: boolean;
  /** Adds what is left to do once this cluster is primary. */
  readonly becamePrimary: (side: Side) => void;
  /** Secondaries that follow whichever cluster is primary. */
  readonly followers?: readonly string[];
}

type Outage = PrimaryChange & { readonly run: Run };

/** What comes next in the outage: as planned, as a person decided, or the cluster that serves. */
type Next = 'demote' | OutageDecision['choice'] | Side;

const PROMOTE_SECONDARY: Choice = {
  action: 'promote-secondary',
  effect: 'continue: promote the new primary and finish the run',
};
const PROMOTE_BACK: Choice = {
  action: 'promote-back',
  effect: 'promote the old primary again; it has every write',
};
/** While its token is waited for: a cluster that is primary generates no token, and needs none. */
const READ_AGAIN: Choice = {
  action: 'promote-back',
  effect: 'read the roles again first: if the old primary is primary, it keeps serving and needs no token',
};
/** If a token can be obtained another way. */
const RETRY_OR_ASK = `${RETRY.effect}; if a batch token or a kept token is refused again, it is not used any more in this outage and the key holders are asked instead`;

/** A candidate that does not answer cannot take over. Before anything was sent, that is as certain as a refusal. */
const SILENT = [
  ...['CONFIRMATION_TIMEOUT', 'UNREACHABLE', 'CONNECTION_LOST', 'REQUEST_TIMEOUT'],
  ...['NO_ACTIVE_NODE', 'SERVICE_UNAVAILABLE', 'SERVICE_SEALED'],
];
/** For a run that ends: "then retry", as the step says, would lead nowhere. */
const START_AGAIN = 'Fix that, then start the runbook again.';

/**
 * Writes a marker on the primary and waits until the secondary has it, and so every write before it. While clients are
 * quiesced, a failure ends the run, which releases them. It parks if a worker or a person is missing for that too.
 */
export async function proveCaughtUp(
  run: Run,
  kind: ReplicationKind,
  deployment: string,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<MarkerResult> {
  const { findings, ...marker } = await run
    .step(writeMarker(from, to), (call) => call.writeMarker({ deployment, kind, cluster: from, secondary: to }), {
      onFailure: ({ code }) => (run.held && !['WORKER_UNREACHABLE', 'RUN_WAS_RESET'].includes(code) ? 'throw' : 'park'),
    })
    .catch((error: unknown): never => {
      throw error instanceof StepFailed ? new StepFailed(error.step, { ...error.failure, next: START_AGAIN }) : error;
    });
  run.state.noteFindings(findings);
  return marker;
}

/**
 * There is no primary from the demotion until a cluster serves. Ends with one primary that serves, or with what a person
 * decided. Called only where nothing stops the run.
 */
export async function changePrimary(run: Run, change: PrimaryChange): Promise<Side | 'nowhere'> {
  const outage: Outage = { run, ...change };
  run.state.outageSince = Date.now();
  run.state.enterPhase('outage');
  let next: Next = 'demote';
  while (next === 'demote' || next === 'promote-secondary' || next === 'promote-back') {
    const part: keyof typeof PARTS = next;
    next = await PARTS[part](outage).catch((error: unknown) => afterFailure(outage, part, error));
  }
  if (next === 'leave') return leave(outage);
  await serve(outage, next);
  run.state.enterPhase('re-protecting');
  return next;
}

/** The parts of the outage. Each returns what comes next. */
const PARTS = {
  demote,
  'promote-secondary': (outage: Outage) => promote(outage, 'new'),
  'promote-back': promoteBack,
};

/** If a part fails and its outcome is known, the old primary, which has every write, serves again. */
function afterFailure(outage: Outage, part: keyof typeof PARTS, error: unknown): Next {
  if (error instanceof TakenOver) reportTakenOver(outage);
  else if (error instanceof OutageDecision) return error.choice;
  else if (error instanceof StepFailed || error instanceof RunStopped) {
    // A stop in this part: somebody rejected the gate that was opened again before the demotion.
    if (error instanceof StepFailed && part === 'demote') reportNotDemoted(outage, error.failure);
    return 'promote-back';
  } else if (isStop(error)) return 'leave';
  throw error;
}

/**
 * The demotion, and what it cost. If the observed state certainly refused it, or the candidate is silent, the old primary
 * keeps serving, and clients do not stay quiesced until a person decides. If an earlier try may have sent something, people
 * decide.
 */
async function demote(outage: Outage): Promise<Next> {
  const { run, kind, deployment, route, approvals, gate, acceptLoss, onStuck } = outage;
  const { from: oldPrimary, to: newPrimary } = route;
  const { step, ifUnknown, done } = demotion(kind, oldPrimary, newPrimary);
  let mayBeSent = false;
  // DANGER: from here on no cluster is primary.
  const demoting = run.step(
    step,
    (call) =>
      approvals.begin(gate, (authority) => {
        const sides = { deployment, kind, cluster: oldPrimary, otherCluster: newPrimary };
        const order = () => call.demotePrimary({ ...sides, authority, reached: outage.marker.wal });
        return run.state.left.during(rolesOf(kind), ifUnknown, order, done);
      }),
    {
      choices: [PROMOTE_BACK, LEAVE],
      arrives: (call) => call.awaitRole({ deployment, kind, cluster: oldPrimary, role: 'secondary' }),
      onFailure: ({ code, cluster, outcomeKnown }) => {
        mayBeSent ||= !outcomeKnown || code === 'RUN_WAS_RESET';
        const refused = code === 'PRECONDITION_FAILED' || (cluster === newPrimary && SILENT.includes(code));
        return refused && !mayBeSent && onStuck === 'promote-back' ? 'throw' : 'park';
      },
    },
  );
  const demoted = await demoting.catch(async (error: unknown): Promise<never> => {
    if (error instanceof TakenOver) await judgeOutage(outage);
    throw error;
  });
  // The checks before the call are no outage. Status and report count from the call, within the run's own clock.
  const { outageSince: ordered = 0 } = run.state;
  run.state.outageSince = Math.min(Math.max(demoted.calledAt ?? ordered, ordered), Date.now());
  // Usually clients were quiesced, or both roots were equal when the demotion was confirmed.
  if (demoted.evidence) return 'promote-secondary';
  const evidence = await readInOutage(
    run.step(
      COMPARE,
      (call) => call.compareAfterDemotion({ deployment, oldPrimary, newPrimary, walBefore: demoted.walBefore, kind }),
      { onFailure: 'throw' },
    ),
  );
  if (evidence?.loss === 'none') return 'promote-secondary';
  if (evidence && acceptLoss === 'bounded') return 'promote-secondary';
  const why = evidence?.why ?? 'the clusters could not be compared after the demotion';
  run.state.finding({
    severity: 'warning',
    code: 'loss-not-excluded',
    text: `The plan accepts ${acceptLoss === 'bounded' ? 'a bounded' : 'no'} loss, and it could not be proven that no data was lost: ${why}`,
  });
  return acceptLoss === 'bounded' ? 'promote-secondary' : 'promote-back';
}

/**
 * A failover takes the run over at the demotion. If the old primary was just seen to serve, no outage began, and a failover
 * that is refused ends, which releases the clients. Otherwise it continues, with what the run holds, until people end it.
 */
async function judgeOutage(outage: Outage): Promise<void> {
  const { state } = outage.run;
  const why = `the demotion of ${outage.route.from} was under way, and ${outage.route.from} had not been confirmed to serve when a failover took the run over`;
  if (await oldPrimaryServes(outage)) state.outageSince = undefined;
  else state.outageBegan(state.outageSince, why);
}

function reportNotDemoted({ run, route: { from } }: Outage, { message, observed, needed }: FailureFacts): void {
  const seen = observed === undefined ? '' : ` Observed: ${observed}.`;
  const wanted = needed === undefined ? '' : ` Needed: ${needed}.`;
  run.state.finding({
    ...{ severity: 'warning', code: 'not-demoted', next: START_AGAIN },
    text: `${from} was not demoted, and nothing was sent: ${message}${seen}${wanted}`,
  });
}

/** The new primary did not get there. The old one, which has every write, becomes primary again. */
async function promoteBack(outage: Outage): Promise<Next> {
  // If it was never demoted, or is primary again, nothing has to be promoted, and a primary generates no operation token.
  // If that could not be read, the promotion itself finds it out, and proves that the other cluster is not primary.
  return (await oldPrimaryServes(outage)) ? 'old' : promote(outage, 'old');
}

/** Whether the old primary was just seen to be primary. False also if that could not be read. */
async function oldPrimaryServes({ run, kind, deployment, route }: Outage): Promise<boolean> {
  const look = run.step(READ_ROLES, (call) => call.readDeployment({ deployment }), { onFailure: 'throw' });
  const seen = await readInOutage(look);
  return seen?.observations.find(({ cluster }) => cluster === route.from)?.[kind]?.mode === 'primary';
}

/**
 * If the new primary is refused with certainty, the old one takes its place, as the plan says. If the outcome is unknown, a
 * person decides. The key holders are asked instead of using a token that the cluster refuses: at once when promoting back,
 * where nothing else is left; otherwise only if it is refused again, because people may choose to promote back or may have
 * fixed it.
 */
async function promote(outage: Outage, side: Side): Promise<Side> {
  const { run, kind, deployment, approvals, onStuck } = outage;
  const { from, to } = outage.route;
  // The activity proves right before the call that the other cluster is not primary.
  const [cluster, otherCluster] = side === 'new' ? [to, from] : [from, to];
  const wayBack = side === 'new' && onStuck === 'promote-back';
  const choices = [side === 'new' ? PROMOTE_BACK : PROMOTE_SECONDARY, LEAVE];
  const beforeIt = side === 'new' ? choices : [READ_AGAIN, ...choices];
  const tokens = outage.kind === 'dr' ? outage.tokens : undefined;
  let askHolders = side === 'old';
  const needsAnother = (failure: FailureFacts) => {
    if (tokens?.canReplace(cluster, failure) !== true) return false;
    if (askHolders) return true;
    askHolders = true;
    return false;
  };
  // A token that has to be generated is generated in its own step.
  await tokens?.of(cluster, beforeIt);
  try {
    await run.step(
      side === 'new' ? promoteStep(to) : promoteBackStep(from),
      async (call) => {
        const token = await tokens?.of(cluster, beforeIt);
        const sides = { deployment, kind, cluster, otherCluster, wayBack, authority: approvals.authority };
        const ifUnknown = ifPromotionUnknown(kind, cluster, otherCluster);
        const order = () => call.promoteSecondary({ ...sides, mode: 'planned', token });
        return run.state.left.during(rolesOf(kind), ifUnknown, order);
      },
      {
        choices,
        arrives: (call) => call.awaitRole({ deployment, kind, cluster, role: 'primary' }),
        ...(tokens && side === 'new' && { retryEffect: RETRY_OR_ASK }),
        onFailure: (failure) => (failure.outcomeKnown && (wayBack || needsAnother(failure)) ? 'throw' : 'park'),
      },
    );
    return side;
  } catch (error) {
    if (wayBack || !(error instanceof StepFailed)) throw error;
    await tokens?.replaceRefused(cluster, error.failure, beforeIt);
    return promote(outage, side);
  }
}

/** Service is back when the cluster was seen to serve. Quiesced clients are released. */
async function serve({ run, kind, deployment, route, marker, markerFiltered, becamePrimary }: Outage, side: Side) {
  const { from, to, hooks } = route;
  becamePrimary(side);
  await serviceBack(run, {
    kind,
    deployment,
    primary: side === 'new' ? to : from,
    from: side === 'new' ? from : to,
    credentialOf: from,
    marker: side === 'new' && markerFiltered ? undefined : marker,
    hooks,
  });
}

const KIND_TEXTS = {
  dr: {
    primary: 'primary',
    outage: 'the outage',
    ifReported: (primaries: string) => `Make sure that clients reach ${primaries}`,
  },
  performance: {
    primary: 'performance primary',
    outage: 'the change of roles',
    ifReported: (primaries: string) => `Re-point the other secondaries to ${primaries} with secondaryRepointing`,
  },
};

/** A failover becomes the run, and takes care of the DR roles alone. */
function reportTakenOver({ run, kind, route: { from, to } }: Outage): void {
  if (kind === 'dr' || run.state.outageSince === undefined) return;
  const text = `A failover took this run over while the performance primary changed from ${from} to ${to}. Read the performance status of both. If neither is primary, promote ${from} (it has every write) or ${to}, never both.`;
  run.state.finding({ severity: 'critical', code: 'no-performance-primary', text });
}

/** A person ended the run inside the outage. The report says which roles were read last. */
async function leave({ run, kind, deployment, route, becamePrimary, followers = [] }: Outage): Promise<'nowhere'> {
  const { from, to } = route;
  const { outage, ifReported } = KIND_TEXTS[kind];
  const follow =
    followers.length === 0
      ? ''
      : ` Then make sure that ${followers.join(' and ')} follow it: \`runbook readiness ${deployment}\` names those that do not.`;
  const primaries = await reportPrimaries(run, {
    ...{ deployment, kind, clusters: [from, to], ended: `The run was ended inside ${outage}` },
    ifReported: (primaries) => `${ifReported(primaries)}, and release quiesced clients.`,
    otherwise: `Read both clusters first. Then promote ${from} (it has every write) or ${to} manually, never both.${follow}`,
  });
  // It is known which cluster serves. The others should follow it, and this run does not take care of that any more.
  for (const [side, cluster] of [['new', to] as const, ['old', from] as const])
    if (primaries.join() === cluster) becamePrimary(side);
  return 'nowhere';
}

/** The ending of a run whose change ended with a primary. */
export function endingOf({ kind, route: { from, to } }: PrimaryChange, side: Side): Ending {
  if (side === 'new') return { outcome: 'completed' };
  const why = `${from} is the ${KIND_TEXTS[kind].primary} and has every write. Find out why ${to} did not become ${KIND_TEXTS[kind].primary} before the next try.`;
  return { outcome: 'rolled-back', leftToDo: [why] };
}
