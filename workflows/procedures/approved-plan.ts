import type { Assessment } from '../../src/contracts/activities';
import type { CeremonyTarget, KeptToken } from '../../src/contracts/ceremony';
import type { GateName, PlanDocument } from '../../src/contracts/plan';
import type { ChangeWindow, TokenSource } from '../../src/contracts/runbook-inputs';
import type { StepCalls } from '../engine/activity-calls';
import { Approvals, awaitWindow, planned, refusalOf } from '../engine/approvals';
import { passGate } from '../engine/gates';
import { OperationTokens, tokensFromPeople, tokensHeldBy } from './operation-tokens';
import type { PeoplesTokens } from './collection';
import { inParallel } from '../engine/failures';
import type { Choice } from '../engine/parking';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';

/** What every input of a changing runbook has. */
export interface ChangeInput {
  readonly deployment: string;
  readonly reason: string;
  readonly requestedBy?: string | undefined;
  readonly dryRun: boolean;
  readonly window?: ChangeWindow | undefined;
}

/** Beside its own input, what an assessment is told. */
interface ReassessInput {
  /** The fingerprint of our own ceremony, whose attempt is not foreign. */
  readonly ownFingerprint?: string | undefined;
}

export interface PlanRequest<R> {
  readonly input: ChangeInput;
  readonly assess: (call: StepCalls, again: ReassessInput) => Promise<Assessment<R>>;
  /** The gate that approves the plan; without it nothing goes on. */
  readonly gate?: GateName;
  /** In its place: a gate that is asked where the assessment says that this plan needs it. */
  readonly gateIfNeeded?: GateName;
  /** What must be known before the gate opens and may take its time; the key holders are asked meanwhile. */
  readonly beforeGate?: (route: R) => Promise<void> | void;
  /** The tokens for DR operations that the run will need, or may need; undefined where it needs none. */
  readonly tokens?: (route: R) => TokenNeed | undefined;
  /** The gate that is asked once everything was read again, right before what begins an outage; undefined where none is. */
  readonly go?: GateName | undefined;
  /** The plan ends an outage: no clock ends its gate. */
  readonly endsOutage?: boolean;
}

export interface TokenNeed {
  readonly source: TokenSource;
  readonly targets: readonly CeremonyTarget[];
  /** What the record keeps: nobody is asked for a share for it. */
  readonly kept?: KeptToken | undefined;
  /** What the run is pointless without, where that is not every target: holders are not asked again for the rest. */
  readonly essential?: CeremonyTarget;
  /** The cluster whose token must be in hand before anything is begun. */
  readonly first?: string;
  /** For how long the key shares must serve from then on, ms: holders are asked again where they would not. */
  readonly lastingMs?: number;
}

/** A plan that people approved, with what is needed to carry it out. */
export interface Approved<R> {
  readonly route: R;
  /** Plan and approvals, for the activities that verify them. */
  readonly approvals: Approvals;
  /** Absent where the runbook asked for none. */
  readonly tokens: OperationTokens | undefined;
}

/**
 * What every runbook begins with: read and judge; refuse with what was observed and needed; open the gate while the key
 * holders are asked; wait for the window; read and judge again. A plan that changed meanwhile is asked for again. How
 * old an approval may be is judged where it is acted upon.
 *
 * @returns how the run ends already: a dry run, or a refusal; else the approved plan
 */
export async function approvePlan<R>(
  run: Run,
  request: PlanRequest<R> & { readonly tokens: (route: R) => TokenNeed },
): Promise<(Approved<R> & { readonly tokens: OperationTokens }) | Ending>;
export async function approvePlan<R>(run: Run, request: PlanRequest<R>): Promise<Approved<R> | Ending>;
export async function approvePlan<R>(run: Run, request: PlanRequest<R>): Promise<Approved<R> | Ending> {
  const { input } = request;
  // A run that was taken over may hold a ceremony: its attempt is ours.
  const held = tokensHeldBy(run);
  const ownFingerprint = held?.ceremony?.fingerprint;
  // Taken over inside its outage the run keeps its tokens and key shares: nothing but people ends it.
  const keeps = held !== undefined && run.state.serviceIsOut;
  let assessed = await run.step(
    'Read and check the deployment',
    async (call) => {
      const read = await request.assess(call, ownFingerprint === undefined ? {} : { ownFingerprint });
      return keeps ? unlessRefused(read) : read;
    },
    // Else refused at once, so that the lock is free for the next try.
    keeps ? { choices: [GIVE_UP] } : { onFailure: 'throw' },
  );
  run.state.learnSite(assessed.site);
  run.state.plan = assessed.plan;
  if (input.dryRun) return { outcome: 'planned' };
  const refusal = refusalOf(assessed);
  if (refusal) {
    run.state.noteFindings(refusal.findings);
    return { outcome: 'refused', failure: refusal.failure };
  }

  let answered = await askPeople(run, request, assessed);
  // Nobody was waited for: what was read a moment ago still holds, and the activities read again before they act.
  while (answered.waited) {
    const { tokens } = answered;
    const [before, need] = [planned(assessed), request.tokens?.(planned(assessed).route)];
    if (need?.first !== undefined) await tokens?.proven(need.first);
    assessed = await run.step('Read and check again', async (call) =>
      unlessRefused(await request.assess(call, { ownFingerprint: tokens?.ceremony?.fingerprint })),
    );
    const now = planned(assessed);
    if (now.plan.digest === before.plan.digest) break;
    // Also where the tokens come from may be another: the holders are asked where the new plan needs them.
    run.state.finding({
      severity: 'warning',
      code: 'plan-changed',
      text: 'The deployment, or its inventory, changed after the plan was approved; the new plan needs an approval of its own.',
    });
    run.state.plan = now.plan;
    answered = await askPeople(run, request, assessed);
  }
  // The step may have parked until after the window.
  await awaitWindow(run, input.window);
  const { plan, route } = planned(assessed);
  const { tokens } = answered;
  const approvals = new Approvals(run, input, assessed.gates, { plan, approvals: answered.approvals });
  if (request.go !== undefined) await approvals.further(request.go);
  await collectAgainWhereShort(run, request.tokens?.(route)?.lastingMs, tokens);
  return { route, approvals, tokens };
}

const GIVE_UP: Choice = {
  action: 'abort',
  effect: 'end the run here: nothing is promoted, clean-ups run, and its tokens and key shares are given up',
};

/** For a step that parks where it is refused. */
function unlessRefused<R>(assessed: Assessment<R>): Assessment<R> {
  const refusal = refusalOf(assessed);
  if (refusal) throw refusal.failure;
  return assessed;
}

/** What came of asking for one plan. */
interface Answered {
  readonly approvals: readonly unknown[];
  readonly tokens: OperationTokens | undefined;
  /** Whether anybody, or the window, may have been waited for: what was read before is old then. */
  readonly waited: boolean;
}

/** Opens the gate of this plan while the key holders are asked, where they were not yet; then waits for the window. */
async function askPeople<R>(run: Run, request: PlanRequest<R>, assessed: Assessment<R>): Promise<Answered> {
  const { input } = request;
  const { plan, route } = planned(assessed);
  const { gateIfNeeded } = request;
  const gate = request.gate ?? (gateIfNeeded && assessed.gates[gateIfNeeded] && gateIfNeeded);
  const need = request.tokens?.(route);
  const asked = tokensHeldBy(run)?.ceremony;
  const tokens = need && tokensFor(run, input, need, plan);
  await tokens?.ceremony?.ready();
  if (gate !== undefined || tokens?.ceremony) run.state.enterPhase('waiting-for-people');
  const open = async (): Promise<readonly unknown[]> => {
    await request.beforeGate?.(route);
    if (gate === undefined) return [];
    const [{ gates }, { requestedBy }, { endsOutage }] = [assessed, input, request];
    return passGate(run, { gate, gates, planDigest: plan.digest, requestedBy, endsOutage });
  };
  // Where this plan needs nobody any more their invitation is over; no host of keys is waited for, least in an outage.
  if (!tokens?.ceremony) asked?.withdraw();
  const [approvals] = await inParallel([open(), tokens?.ceremony && collectShares(tokens.ceremony, need)]);
  tokens?.authorise({ plan, approvals });
  // The run's own before anything is waited for: what the record keeps may be over after a window.
  if (need?.kept) await tokens?.of(need.kept.cluster);
  const waitedForWindow = await awaitWindow(run, input.window);
  run.state.enterPhase('preparing');
  return { approvals, tokens, waited: gate !== undefined || tokens?.ceremony !== undefined || waitedForWindow };
}

/** Once something is begun nobody is asked for key shares any more: those in hand must last until its end. */
export async function collectAgainWhereShort(run: Run, lastingMs?: number, tokens?: OperationTokens): Promise<void> {
  if (lastingMs === undefined || !tokens || tokens.lastsFor(lastingMs)) return;
  run.state.finding({
    severity: 'warning',
    code: 'shares-asked-again',
    text: 'The key shares in hand would not last until the end of what is about to begin: the holders are asked again.',
  });
  await tokens.ceremony?.collectAnew();
}

async function collectShares(ceremony: PeoplesTokens, need?: TokenNeed): Promise<void> {
  // The rest is waited for when it is needed.
  if (need?.essential && need.essential.cluster === need.kept?.cluster) return;
  const [first] = need ? askedOf(need) : [];
  await ceremony.collect((need?.essential ?? first)?.cluster);
}

/** The clusters for which people are asked. */
function askedOf({ targets, kept }: TokenNeed): readonly CeremonyTarget[] {
  return targets.filter(({ cluster }) => cluster !== kept?.cluster);
}

/**
 * New tokens; or those that the run holds already, from before it was taken over or before its plan changed, where the
 * holders were asked for what is needed now.
 */
function tokensFor(run: Run, input: ChangeInput, need: TokenNeed, plan: PlanDocument): OperationTokens {
  const { source, targets, essential, kept } = need;
  const asked = askedOf(need);
  const held = tokensHeldBy(run);
  const covered = (essential ? [essential] : targets).every((target) => held?.covers(target) === true);
  const sameSource = held !== undefined && (held.ceremony?.source ?? 'batch') === source;
  if (covered && sameSource) return held;
  if (held?.ceremony && source !== 'batch') {
    run.state.finding({
      severity: 'warning',
      code: 'shares-asked-again',
      text: 'The key holders were asked for tokens of other clusters or operations than this plan needs; they are asked again.',
    });
  }
  const ask = (from: PeoplesTokens['source'], of = targets) =>
    tokensFromPeople(run, from, {
      deployment: input.deployment,
      runbook: run.state.runbook,
      reason: input.reason,
      requestedBy: input.requestedBy ?? 'unknown',
      targets: of,
      inputDigest: plan.digest,
    });
  const ceremony = source === 'batch' || asked.length === 0 ? undefined : ask(source, asked);
  return new OperationTokens(run, input.deployment, targets, ceremony, () => ask('ceremony'), kept ? [kept] : []);
}
