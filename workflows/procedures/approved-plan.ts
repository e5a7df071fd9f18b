import { READ_AGAIN, READ_AND_CHECK } from '../../src/moves/every-run';
import type { ApprovalNumbers, Assessment } from '../../src/contracts/activities';
import type { CeremonyTarget, KeptToken } from '../../src/contracts/ceremony';
import type { PlanDocument } from '../../src/contracts/plan';
import type { ChangeWindow, TokenSource } from '../../src/contracts/runbook-inputs';
import type { GateName } from '../../src/contracts/gates';
import type { StepCalls } from '../engine/activity-calls';
import { Approvals, awaitWindow, planned, refusalOf } from '../engine/approvals';
import { passGate } from '../engine/gates';
import { OperationTokens, tokensFromPeople, tokensHeldBy } from './operation-tokens';
import type { PeoplesTokens } from './collection';
import { inParallel } from '../engine/failures';
import type { Choice } from '../engine/parking';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';

/** Members of the input of every changing runbook. */
export interface ChangeInput {
  readonly deployment: string;
  readonly reason: string;
  readonly requestedBy?: string | undefined;
  readonly dryRun: boolean;
  readonly window?: ChangeWindow | undefined;
}

/** What an assessment gets besides its own input. */
interface ReassessInput {
  /** The fingerprint of our own ceremony, so that its attempt is not taken for somebody else's. */
  readonly ownFingerprint?: string | undefined;
}

export interface PlanRequest<R> {
  readonly input: ChangeInput;
  readonly assess: (call: StepCalls, again: ReassessInput) => Promise<Assessment<R>>;
  /** The gate that approves the plan. Without the approval the run does not continue. */
  readonly gate?: GateName;
  /** Instead of `gate`: a gate that opens only if the assessment says that this plan needs it. */
  readonly gateIfNeeded?: GateName;
  /** What must be known before the gate opens, and may take time. The key holders are asked meanwhile. */
  readonly beforeGate?: (route: R) => Promise<void> | void;
  /** Runs everything that waits for people, and looks meanwhile at what may make it pointless. */
  readonly meanwhile?: <T>(route: R, body: () => Promise<T>) => Promise<T>;
  /** The tokens for DR operations that the run will need, or may need; undefined if it needs none. */
  readonly tokens?: (route: R) => TokenNeed | undefined;
  /** The gate that opens after everything was read again, right before what begins an outage; undefined if there is none. */
  readonly go?: GateName | undefined;
  /** The plan ends an outage, so no clock ends its gate. */
  readonly endsOutage?: boolean;
}

export interface TokenNeed {
  readonly source: TokenSource;
  readonly targets: readonly CeremonyTarget[];
  /** The token that the record keeps. Nobody is asked for a share for it. */
  readonly kept?: KeptToken | undefined;
  /** The target without which the run is pointless, if not every target. Holders are not asked again for the others. */
  readonly essential?: CeremonyTarget;
  /** The cluster whose token must be available before anything begins. */
  readonly first?: string;
  /** How long the key shares must last from then on, in ms. Holders are asked again if they would not. */
  readonly lastingMs?: number;
}

/** A plan that people approved, with what is needed to carry it out. */
export interface Approved<R> {
  readonly route: R;
  /** Plan and approvals, for the activities that verify them. */
  readonly approvals: Approvals;
  /** Absent if the runbook asked for none. */
  readonly tokens: OperationTokens | undefined;
}

/**
 * How every runbook begins: read and check; refuse with what was observed and what is needed; open the gate while the key
 * holders are asked; wait for the window; read and check again. A plan that changed meanwhile needs a new approval. The
 * activity that acts on an approval decides whether it is too old.
 *
 * @returns the ending of a run that ends here (a dry run, or a refusal); otherwise the approved plan
 */
export async function approvePlan<R>(
  run: Run,
  request: PlanRequest<R> & { readonly tokens: (route: R) => TokenNeed },
): Promise<(Approved<R> & { readonly tokens: OperationTokens }) | Ending>;
export async function approvePlan<R>(run: Run, request: PlanRequest<R>): Promise<Approved<R> | Ending>;
export async function approvePlan<R>(run: Run, request: PlanRequest<R>): Promise<Approved<R> | Ending> {
  const { input } = request;
  // A run that was taken over may hold a ceremony, whose attempt is ours.
  const held = tokensHeldBy(run);
  const ownFingerprint = held?.ceremony?.fingerprint;
  // A run that was taken over inside its outage keeps its tokens and key shares. Only people end it.
  const keeps = held !== undefined && run.state.serviceIsOut;
  let assessed = await run.step(
    READ_AND_CHECK,
    async (call) => {
      const read = await request.assess(call, ownFingerprint === undefined ? {} : { ownFingerprint });
      return keeps ? unlessRefused(read) : read;
    },
    // Otherwise it is refused at once, so that the lock is free for the next try.
    keeps ? { choices: [ABANDON] } : { onFailure: 'throw' },
  );
  // The plan first: people who are told that the run started are told what it is about.
  run.state.plan = assessed.plan;
  run.state.learnSite(assessed.site);
  if (input.dryRun) return { outcome: 'planned' };
  const refusal = refusalOf(assessed);
  if (refusal) {
    run.state.noteFindings(refusal.findings);
    return { outcome: 'refused', failure: refusal.failure };
  }

  let answered = await askPeople(run, request, assessed);
  // If nobody was waited for, what was just read still holds, and the activities read again before they act.
  while (answered.waited) {
    const { tokens } = answered;
    const [before, need] = [planned(assessed), request.tokens?.(planned(assessed).route)];
    if (need?.first !== undefined) await tokens?.proven(need.first);
    assessed = await run.step(READ_AGAIN, async (call) =>
      unlessRefused(await request.assess(call, { ownFingerprint: tokens?.ceremony?.fingerprint })),
    );
    const now = planned(assessed);
    if (now.plan.digest === before.plan.digest) break;
    // Also where the tokens come from may be another: the holders are asked where the new plan needs them.
    run.state.finding({
      severity: 'warning',
      code: 'plan-changed',
      text: 'The deployment, or its inventory, changed after the plan was approved; the new plan needs its own approval.',
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
  await collectAgainIfShort(run, request.tokens?.(route)?.lastingMs, tokens);
  return { route, approvals, tokens };
}

const ABANDON: Choice = {
  action: 'abort',
  effect: 'end the run here: no cluster is promoted, clean-ups run, and its tokens and key shares are discarded',
};

/** For a step that parks if it is refused. */
function unlessRefused<R>(assessed: Assessment<R>): Assessment<R> {
  const refusal = refusalOf(assessed);
  if (refusal) throw refusal.failure;
  return assessed;
}

/** The answers to one plan. */
interface Answered {
  readonly approvals: ApprovalNumbers;
  readonly tokens: OperationTokens | undefined;
  /** Whether people, or the window, may have been waited for. What was read before is out of date then. */
  readonly waited: boolean;
}

/** Opens the gate of this plan while the key holders are asked, unless they were asked already. Then waits for the window. */
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
  const open = async (): Promise<ApprovalNumbers> => {
    await request.beforeGate?.(route);
    if (gate === undefined) return {};
    const [{ gates }, { requestedBy }, { endsOutage }] = [assessed, input, request];
    return passGate(run, { gate, gates, planDigest: plan.digest, requestedBy, endsOutage });
  };
  // If this plan does not need the key holders any more, their invitation ends. The run does not wait for the host that has the keys.
  if (!tokens?.ceremony) asked?.withdraw();
  const ask = () => inParallel([open(), tokens?.ceremony && collectShares(tokens.ceremony, need)]);
  const [approvals] = await (request.meanwhile ? request.meanwhile(route, ask) : ask());
  tokens?.authorize({ plan, approvals });
  // The run claims its kept token before it waits: the record's copy may expire during a window.
  if (need?.kept) await tokens?.of(need.kept.cluster);
  const waitedForWindow = await awaitWindow(run, input.window);
  run.state.enterPhase('preparing');
  return { approvals, tokens, waited: gate !== undefined || tokens?.ceremony !== undefined || waitedForWindow };
}

/** Once something has begun, nobody is asked for key shares any more. The collected ones must last until its end. */
export async function collectAgainIfShort(run: Run, lastingMs?: number, tokens?: OperationTokens): Promise<void> {
  if (lastingMs === undefined || !tokens || tokens.lastsFor(lastingMs)) return;
  run.state.finding({
    severity: 'warning',
    code: 'shares-asked-again',
    text: 'The collected key shares would not last until the end of the change that is about to begin. The holders are asked again.',
  });
  await tokens.ceremony?.collectAgain();
}

async function collectShares(ceremony: PeoplesTokens, need?: TokenNeed): Promise<void> {
  // The others are waited for when they are needed.
  if (need?.essential && need.essential.cluster === need.kept?.cluster) return;
  const [first] = need ? askedOf(need) : [];
  await ceremony.collect((need?.essential ?? first)?.cluster);
}

/** The clusters for which people are asked. */
function askedOf({ targets, kept }: TokenNeed): readonly CeremonyTarget[] {
  return targets.filter(({ cluster }) => cluster !== kept?.cluster);
}

/**
 * New tokens, or those that the run already holds from before it was taken over or before its plan changed, if the holders
 * were asked for everything that is needed now.
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
      text: 'The key holders were asked for tokens of other clusters or operations than this plan needs. They are asked again.',
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
