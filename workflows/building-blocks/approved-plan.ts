import type { Assessment, Authority } from '../../src/contracts/activities';
import type { CeremonyTarget } from '../../src/contracts/ceremony';
import type { GateName, PlanDocument } from '../../src/contracts/plan';
import type { ChangeWindow } from '../../src/contracts/runbook-inputs';
import type { StepCalls } from './activity-calls';
import { planned, refusalOf, verdictsInWords } from './assessment';
import { ceremonyFor } from './ceremony-for';
import { RunStopped, stepFailure } from './failures';
import { passGate } from './gates';
import type { GateRequest } from './gates';
import { OperationTokens } from './operation-tokens';
import { inParallel } from './parallel';
import type { Run } from './run';
import type { Ending } from './runbook';
import type { TokenCeremony } from './token-ceremony';

/** What every input of a changing runbook has. */
export interface Asking {
  readonly deployment: string;
  readonly reason: string;
  readonly requestedBy?: string | undefined;
  readonly dryRun: boolean;
  readonly window?: ChangeWindow | undefined;
}

/** Beside its own input, what an assessment is told. */
export interface Again {
  /** The fingerprint of our own ceremony, whose attempt is not foreign. */
  readonly ownFingerprint?: string | undefined;
}

export interface PlanRequest<R> {
  readonly input: Asking;
  readonly assess: (call: StepCalls, again: Again) => Promise<Assessment<R>>;
  /** The gate that approves the plan; undefined where this plan needs none. */
  readonly gate: (assessed: Assessment<R>) => GateName | undefined;
  /** What must be known before the gate opens and may take its time; the key holders are asked meanwhile. */
  readonly beforeGate?: (assessed: Assessment<R>) => Promise<void>;
  /** The tokens for DR operations that the run will need, or may need; undefined where it needs none. */
  readonly tokens?: (route: R) => TokenNeed | undefined;
  /** The plan ends an outage: its approvals count for as long as that lasts, nobody is asked twice, and no clock ends its gate. */
  readonly endsOutage?: boolean;
}

export interface TokenNeed {
  readonly source: 'batch' | 'ceremony';
  readonly targets: readonly CeremonyTarget[];
  /** What the run is pointless without, where that is not every target: holders are not asked again for the rest. */
  readonly essential?: CeremonyTarget;
}

/** A plan that people approved, with what is needed to carry it out. */
export interface Approved<R> {
  readonly route: R;
  readonly assessed: Assessment<R>;
  /** Plan and approvals, for the activities that verify them. */
  readonly authority: Authority;
  /** Absent where the runbook asked for none. */
  readonly tokens: OperationTokens | undefined;
}

/**
 * What every runbook begins with: read and judge; refuse with what was observed and needed; open the gate while the key
 * holders are asked; wait for the window; read and judge again. A plan that changed meanwhile is asked for again, and so
 * is one whose approvals grew older than they count, unless it ends an outage.
 *
 * @returns how the run ends already: a dry run, or a refusal; else the approved plan
 */
export async function approvePlan<R>(run: Run, request: PlanRequest<R>): Promise<Approved<R> | Ending> {
  const { input } = request;
  // A run that was taken over may hold a ceremony: its attempt is ours.
  const ownFingerprint = run.tokens?.ceremony?.fingerprint;
  let assessed = await run.step(
    'Read and check the deployment',
    (call) => request.assess(call, ownFingerprint === undefined ? {} : { ownFingerprint }),
    {
      note: verdictsInWords,
      // Nothing was touched: refused at once, so that the lock is free for the next try.
      leaveToRunbook: () => true,
    },
  );
  run.state.learnSite(assessed.site);
  run.state.plan = assessed.plan;
  if (input.dryRun) return { outcome: 'planned' };
  const refusal = refusalOf(assessed);
  if (refusal) return { outcome: 'refused', failure: refusal };

  let answered = await askPeople(run, request, assessed);
  // Nobody was waited for: what was read a moment ago still holds, and the activities read again before they act.
  while (answered.waited) {
    const { tokens } = answered;
    const [before, need] = [planned(assessed), request.tokens?.(planned(assessed).route)];
    assessed = await run.step(
      'Read and check again',
      async (call) => {
        const again = await request.assess(call, { ownFingerprint: tokens?.ceremony?.fingerprint });
        const stands = refusalOf(again);
        if (stands) throw stands;
        return again;
      },
      { note: verdictsInWords },
    );
    const now = planned(assessed);
    if (now.plan.digest === before.plan.digest) {
      // The step may have parked until after the window.
      await awaitWindow(run, input.window);
      if (request.endsOutage === true || Date.now() <= answered.until) break;
      run.state.finding({
        severity: 'info',
        code: 'approval-expired',
        text: 'The approvals of the plan were older than they count when everything was ready; they were asked for again.',
      });
      const counted = `the approvals counted until ${new Date(answered.until).toISOString()}, and everything was ready later`;
      answered = await askPeople(run, request, assessed, counted);
      continue;
    }
    if (request.tokens?.(now.route)?.source !== need?.source) {
      throw stepFailure(
        'PRECONDITION_FAILED',
        'The source of the operation tokens changed while people were waited for.',
        {
          observed: request.tokens?.(now.route)?.source ?? 'none',
          needed: need?.source ?? 'none',
          next: 'Nothing was changed. Start again; the new plan says where the tokens come from.',
        },
      );
    }
    run.state.finding({
      severity: 'warning',
      code: 'plan-changed',
      text: 'The deployment changed after the plan was approved; the new plan needs an approval of its own.',
    });
    run.state.plan = now.plan;
    answered = await askPeople(run, request, assessed);
  }
  const { plan, route } = planned(assessed);
  return { route, assessed, authority: { plan, approvals: answered.approvals }, tokens: answered.tokens };
}

/** What came of asking for one plan. */
interface Answered {
  readonly approvals: readonly unknown[];
  readonly tokens: OperationTokens | undefined;
  /** Whether anybody, or the window, may have been waited for: what was read before is old then. */
  readonly waited: boolean;
  /** Until when the approvals count, epoch ms. */
  readonly until: number;
}

/** Opens the gate of this plan while the key holders are asked, where they were not yet; then waits for the window. */
async function askPeople<R>(
  run: Run,
  request: PlanRequest<R>,
  assessed: Assessment<R>,
  again?: string,
): Promise<Answered> {
  const { input } = request;
  const { plan, route } = planned(assessed);
  const gate = request.gate(assessed);
  const need = request.tokens?.(route);
  if (gate !== undefined || need?.source === 'ceremony') run.state.enterPhase('waiting-for-people');
  const tokens = need && tokensFor(run, input, need, plan);
  await tokens?.ceremony?.ready();
  let until = Infinity;
  const open = async (): Promise<readonly unknown[]> => {
    await request.beforeGate?.(assessed);
    if (gate === undefined) return [];
    const { endsOutage } = request;
    const approved = await openGate(run, input, assessed, { gate, planDigest: plan.digest, again, endsOutage });
    until = countsUntil(input.window, assessed.gates[gate]?.validForMs ?? 0);
    return approved;
  };
  const [approvals = []] = await inParallel<readonly unknown[]>([open(), collectShares(tokens?.ceremony, need)]);
  const waitedForWindow = await awaitWindow(run, input.window);
  run.state.enterPhase('preparing');
  return { approvals, tokens, waited: gate !== undefined || tokens?.ceremony !== undefined || waitedForWindow, until };
}

/** Approvals count from when their gate was met, or from the beginning of the window, where that is later. */
export function countsUntil(window: ChangeWindow | undefined, validForMs: number): number {
  const from = window?.notBefore === undefined ? 0 : Date.parse(window.notBefore);
  return Math.max(Date.now(), from) + validForMs;
}

async function collectShares(ceremony?: TokenCeremony, need?: TokenNeed): Promise<readonly unknown[]> {
  await ceremony?.collect((need?.essential ?? need?.targets[0])?.cluster);
  return [];
}

/**
 * Opens one more gate over the same plan, such as `force`; gives the authority that holds its approvals too.
 *
 * @param again - why, where it was met before
 */
export async function approveFurther<R>(
  run: Run,
  input: Asking,
  approved: Pick<Approved<R>, 'assessed' | 'authority'>,
  gate: GateName,
  again?: string,
): Promise<Authority> {
  const { plan, approvals } = approved.authority;
  const more = await openGate(run, input, approved.assessed, { gate, planDigest: plan.digest, again });
  // Clients without a primary wait for no clock.
  if (!run.state.serviceIsOut) await awaitWindow(run, input.window, `what gate ${gate} allows was not begun`);
  return { plan, approvals: [...approvals, ...more] };
}

function openGate<R>(
  run: Run,
  { requestedBy }: Asking,
  { gates }: Assessment<R>,
  asked: Omit<GateRequest, 'policy' | 'requestedBy'>,
): Promise<readonly unknown[]> {
  const policy = gates[asked.gate];
  if (!policy) throw new TypeError(`the assessment tells no policy of gate ${asked.gate}`);
  return passGate(run, { ...asked, policy, requestedBy: requestedBy ?? 'unknown' });
}

/**
 * New tokens; or those that the run holds already, from before it was taken over or before its plan changed, where the
 * holders were asked for what is needed now.
 */
function tokensFor(run: Run, input: Asking, need: TokenNeed, plan: PlanDocument): OperationTokens {
  const { source, targets, essential } = need;
  const held = run.tokens;
  const covered = (essential ? [essential] : targets).every((target) => held?.covers(target) === true);
  const sameSource = held !== undefined && (held.ceremony === undefined) === (source === 'batch');
  if (covered && sameSource) return held;
  if (held?.ceremony && source === 'ceremony') {
    run.state.finding({
      severity: 'warning',
      code: 'shares-asked-again',
      text: 'The key holders were asked for tokens of other clusters or operations than this plan needs; they are asked again.',
    });
  }
  const ceremony =
    source === 'ceremony'
      ? ceremonyFor(run, {
          deployment: input.deployment,
          runbook: run.state.runbook,
          reason: input.reason,
          requestedBy: input.requestedBy ?? 'unknown',
          targets,
          inputDigest: plan.digest,
        })
      : undefined;
  return new OperationTokens(run, input.deployment, targets, ceremony);
}

/**
 * Nothing is changed before the window begins, and nothing is begun after its end: looked at after everything that may
 * have taken its time.
 *
 * @param left - what is told of a run that came too late
 * @returns whether the window was waited for
 */
export async function awaitWindow(
  run: Run,
  window: ChangeWindow | undefined,
  left = 'nothing was changed',
): Promise<boolean> {
  if (!window) return false;
  const from = window.notBefore === undefined ? 0 : Date.parse(window.notBefore);
  const early = Date.now() < from;
  if (early) {
    run.state.wait('window', { for: 'window', until: from });
    await run.waitFor(() => false, from - Date.now());
    run.state.waitOver('window');
  }
  if (Date.now() <= Date.parse(window.notAfter)) return early;
  throw run.stop(new RunStopped('the clock', `the change window ended at ${window.notAfter}; ${left}`));
}
