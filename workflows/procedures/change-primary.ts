import type { MarkerResult } from '../../activities/evidence/data-evidence';
import type { ClientHooks } from '../../src/contracts/activities';
import { COMPARE_STEP } from '../../src/contracts/names';
import type { GateName } from '../../src/contracts/plan';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { Approvals } from '../engine/approvals';
import type { FailureFacts } from '../engine/failures';
import { OutageDecision, RunStopped, StepFailed, TakenOver, isStop, readInOutage } from '../engine/failures';
import type { OperationTokens } from './operation-tokens';
import type { Choice } from '../engine/parking';
import { LEAVE, RETRY } from '../engine/parking';
import { rolesOf } from '../engine/left-to-do';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { promotionInDoubt, statusOf, tellWhoIsPrimary } from './roles';
import { serviceBack } from './service-back';

/** The side that serves after the change. */
export type Side = 'new' | 'old';

/** A planned change of the primary: both sides answer, and nothing may be lost. */
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
  /** What follows a demotion or a promotion that was refused for certain: the old primary serves again, or the step parks. */
  readonly onStuck: 'promote-back' | 'park';
  /** What people approved, and the gate that allows the demotion. */
  readonly approvals: Approvals;
  readonly gate: GateName;
  /** The last write of the old primary that the new one was seen to have. */
  readonly marker: MarkerResult;
  /** A paths filter may keep the marker itself away from the new primary. */
  readonly markerFiltered?: boolean;
  /** Says what is left to do once this side is primary. */
  readonly becamePrimary: (side: Side) => void;
}

type Outage = PrimaryChange & { readonly run: Run };

/** What comes next in the outage: planned, decided by a person, or the side where service is. */
type Next = 'demote' | OutageDecision['choice'] | Side;

const PROMOTE_SECONDARY: Choice = {
  action: 'promote-secondary',
  effect: 'go on: promote the new primary and finish the run',
};
const PROMOTE_BACK: Choice = {
  action: 'promote-back',
  effect: 'promote the old primary again; it holds every write',
};
/** While its token is waited for: a cluster that is primary generates none, and needs none. */
const READ_AGAIN: Choice = {
  action: 'promote-back',
  effect: 'read the roles again first: where the old primary is the primary it serves on, and needs no token',
};
/** Where a token can be had another way. */
const RETRY_OR_ASK = `${RETRY.effect}; a batch token, or one that the record kept, that is refused again is given up for this outage, and the key holders are asked instead`;

/** A candidate that does not answer cannot take over: before anything was sent that is as certain as a refusal. */
const SILENT = [
  ...['CONFIRMATION_TIMEOUT', 'UNREACHABLE', 'CONNECTION_LOST', 'REQUEST_TIMEOUT'],
  ...['NO_ACTIVE_NODE', 'SERVICE_UNAVAILABLE', 'SERVICE_SEALED'],
];
/** Where the run ends: "then retry", as a step says, would lead nowhere. */
const START_AGAIN = 'Mend that, then start the runbook again.';

/**
 * Writes a marker on the primary and waits until the secondary has it, and so every write before it. Where clients are held
 * a failure ends the run, which lets them through; it parks where a worker, or a person, is missing for that too.
 */
export async function proveCaughtUp(
  run: Run,
  kind: ReplicationKind,
  deployment: string,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<MarkerResult> {
  const { findings, ...marker } = await run
    .step(
      `Write a marker on ${from} and wait until ${to} has it`,
      (call) => call.writeMarker({ deployment, kind, cluster: from, secondary: to }),
      {
        onFailure: ({ code }) =>
          run.held && !['WORKER_UNREACHABLE', 'RUN_WAS_RESET'].includes(code) ? 'throw' : 'park',
      },
    )
    .catch((error: unknown): never => {
      throw error instanceof StepFailed ? new StepFailed(error.step, { ...error.failure, next: START_AGAIN }) : error;
    });
  run.state.noteFindings(findings);
  return marker;
}

/**
 * From the demotion until a cluster serves there is no primary. Ends with one primary that serves, or with what a person
 * decided; called where nothing stops the run.
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

/** What is done in the outage; each gives what comes next. */
const PARTS = {
  demote,
  'promote-secondary': (outage: Outage) => promote(outage, 'new'),
  'promote-back': promoteBack,
};

/** Where a part fails without a doubt about its outcome the old primary, which holds every write, serves again. */
function afterFailure(outage: Outage, part: keyof typeof PARTS, error: unknown): Next {
  if (error instanceof TakenOver) tellTakenOver(outage);
  else if (error instanceof OutageDecision) return error.choice;
  else if (error instanceof StepFailed || error instanceof RunStopped) {
    // Stopped there, somebody rejected the gate that was asked again before the demotion.
    if (error instanceof StepFailed && part === 'demote') tellNotDemoted(outage, error.failure);
    return 'promote-back';
  } else if (isStop(error)) return 'leave';
  throw error;
}

/**
 * The demotion, and what it cost. Where it was refused for certain by what was observed, or the candidate is silent, the
 * old primary serves on and nobody is held until a person decides; what an earlier try of it may have sent is for people.
 */
async function demote(outage: Outage): Promise<Next> {
  const { run, kind, deployment, route, approvals, gate, acceptLoss, onStuck } = outage;
  const { from: oldPrimary, to: newPrimary } = route;
  let mayBeSent = false;
  // DANGER: from here on no cluster is primary.
  const demoting = run.step(
    `Demote ${oldPrimary}`,
    (call) =>
      approvals.begin(gate, (authority) => {
        const sides = { deployment, kind, cluster: oldPrimary, otherCluster: newPrimary };
        const order = () => call.demotePrimary({ ...sides, authority, reached: outage.marker.wal });
        const { inDoubt, done } = demotionLeft(outage);
        return run.state.left.during(rolesOf(kind), inDoubt, order, done);
      }),
    {
      choices: [PROMOTE_BACK, LEAVE],
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
  // The looks before the call are no outage: status and report count from the call, held within the run's own clock.
  const { outageSince: ordered = 0 } = run.state;
  run.state.outageSince = Math.min(Math.max(demoted.calledAt ?? ordered, ordered), Date.now());
  // As a rule clients were held, or both roots were the same when the demotion was confirmed.
  if (demoted.evidence) return 'promote-secondary';
  const evidence = await readInOutage(
    run.step(
      COMPARE_STEP,
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
    text: `The plan accepts ${acceptLoss === 'bounded' ? 'a' : 'no'} loss, and none could not be proven: ${why}`,
  });
  return acceptLoss === 'bounded' ? 'promote-secondary' : 'promote-back';
}

/**
 * A failover takes the run over at the demotion. Where the old primary was just seen to serve no outage began, and a failover
 * that is refused ends, which lets the clients through. Else it goes on until people end it, with what the run holds.
 */
async function judgeOutage(outage: Outage): Promise<void> {
  const { state } = outage.run;
  const why = `the demotion of ${outage.route.from} was under way, and it was not seen to serve when a failover took the run over`;
  if (await oldPrimaryServes(outage)) state.outageSince = undefined;
  else state.outageBegan(state.outageSince, why);
}

/** What is left to do where the run ends during the demotion, and after it. */
function demotionLeft({ kind, route: { from, to } }: Outage): { readonly inDoubt: string; readonly done: string } {
  const { noneIs, then, next } = WORDS[kind].demoted(from, to);
  return {
    inDoubt: `The demotion of ${from} was under way and its outcome was not recorded: read ${statusOf(kind)} of ${from}. If it is a secondary, ${noneIs}: ${then}.`,
    done: `Read ${statusOf(kind)} of both first: ${from} is demoted and nothing was promoted: ${noneIs}. ${next}`,
  };
}

function tellNotDemoted({ run, route: { from } }: Outage, { message, observed, needed }: FailureFacts): void {
  const seen = observed === undefined ? '' : ` Observed: ${observed}.`;
  const wanted = needed === undefined ? '' : ` Needed: ${needed}.`;
  run.state.finding({
    ...{ severity: 'warning', code: 'not-demoted', next: START_AGAIN },
    text: `${from} was not demoted, and nothing was sent: ${message}${seen}${wanted}`,
  });
}

/** The new primary did not get there: the old one, which holds every write, becomes primary again. */
async function promoteBack(outage: Outage): Promise<Next> {
  // It was never demoted, or is primary again: nothing has to be promoted, and a primary generates no operation token.
  // Where that could not be read, the promotion itself finds it out, and proves that the other one is no primary.
  return (await oldPrimaryServes(outage)) ? 'old' : promote(outage, 'old');
}

/** Whether the old primary was just seen to be the primary; false too where that could not be read. */
async function oldPrimaryServes({ run, kind, deployment, route }: Outage): Promise<boolean> {
  const look = run.step('Read the roles', (call) => call.readDeployment({ deployment }), { onFailure: 'throw' });
  const seen = await readInOutage(look);
  return seen?.observations.find(({ cluster }) => cluster === route.from)?.[kind]?.mode === 'primary';
}

/**
 * Refused for certain, the new primary gives way to the old one, as the plan says; with a doubt about the outcome a person
 * decides. The key holders are asked instead of a token that the cluster refuses: on the way back, where nothing else is
 * left, at once; else where it is refused again, because people may choose the way back or have mended it.
 */
async function promote(outage: Outage, side: Side): Promise<Side> {
  const { run, kind, deployment, approvals, onStuck } = outage;
  const { from, to } = outage.route;
  // The activity proves right before that the other one is no primary.
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
  // A token that has to be generated is generated in a step of its own.
  await tokens?.of(cluster, beforeIt);
  try {
    await run.step(
      side === 'new' ? `Promote ${to}` : `Promote ${from} back`,
      async (call) => {
        const token = await tokens?.of(cluster, beforeIt);
        const sides = { deployment, kind, cluster, otherCluster, wayBack, authority: approvals.authority };
        const inDoubt = promotionInDoubt(kind, cluster, otherCluster);
        const order = () => call.promoteSecondary({ ...sides, mode: 'planned', token });
        return run.state.left.during(rolesOf(kind), inDoubt, order);
      },
      {
        choices,
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

/** Service is back when the cluster was seen to serve; clients that were held are let through. */
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

const WORDS = {
  dr: {
    primary: 'primary',
    outage: 'the outage',
    seeTo: (primaries: string) => `See that clients reach ${primaries}`,
    demoted: (from: string, to: string) => ({
      noneIs: 'clients have no primary',
      then: `promote ${to}, or promote ${from} back`,
      next: `Promote ${to}, or promote ${from} back; both need a DR operation token of the cluster that is promoted.`,
    }),
  },
  performance: {
    primary: 'performance primary',
    outage: 'the change of roles',
    seeTo: (primaries: string) => `Re-point the other secondaries to ${primaries} with secondaryRepointing`,
    demoted: (from: string) => ({
      noneIs: 'no cluster is performance primary',
      then: 'promote it back, or another secondary, never both',
      next: `Promote ${from} back, which holds every write, or another secondary, never both; then re-point every secondary by token.`,
    }),
  },
};

/** A failover becomes the run, and looks after the DR roles alone. */
function tellTakenOver({ run, kind, route: { from, to } }: Outage): void {
  if (kind === 'dr' || run.state.outageSince === undefined) return;
  const text = `A failover took this run over while the performance primary changed from ${from} to ${to}: read the performance status of both. Where neither is primary, promote ${from} (it holds every write) or ${to}, never both.`;
  run.state.finding({ severity: 'critical', code: 'no-performance-primary', text });
}

/** A person ended the run inside the outage: the report says what was read last. */
async function leave({ run, kind, deployment, route: { from, to }, becamePrimary }: Outage): Promise<'nowhere'> {
  const { outage, seeTo } = WORDS[kind];
  const primaries = await tellWhoIsPrimary(run, {
    ...{ deployment, kind, clusters: [from, to], ended: `The run was ended inside ${outage}` },
    seeTo: (primaries) => `${seeTo(primaries)}, and let quiesced clients through.`,
    otherwise: `Read both clusters first. Then promote ${from} (it holds every write) or ${to} by hand, never both.`,
  });
  // Who serves is known: the others are to follow it, and nobody here sees to that any more.
  for (const [side, cluster] of [['new', to] as const, ['old', from] as const])
    if (primaries.join() === cluster) becamePrimary(side);
  return 'nowhere';
}

/** How a run ends whose change ended with a primary. */
export function endingOf({ kind, route: { from, to } }: PrimaryChange, side: Side): Ending {
  if (side === 'new') return { outcome: 'completed' };
  const why = `${from} is the ${WORDS[kind].primary}, and has every write. Find out why ${to} did not become ${WORDS[kind].primary} before the next try.`;
  return { outcome: 'rolled-back', leftToDo: [why] };
}
