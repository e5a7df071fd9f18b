import { nextCommandOf } from '../../src/contracts/next-commands';
import type { GateName } from '../../src/contracts/plan';
import type { Attested } from '../../src/contracts/run-facts';
import type { ControlAction, DecisionAction } from '../../src/contracts/signals';
import { isRunbookError, RunbookError } from '../../src/errors';
import { countsIn, findDeployment } from '../../src/inventory';
import type { DocumentContext, RunContext, VerifiedApproval, VerifiedControl, VerifiedDecision } from '../../src/keys';
import { verifyApproval, verifyControl, verifyDecision } from '../../src/keys';
import { withNext } from '../../src/contracts/receipts';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { currentExecution } from '../execution';
import type { ArrivedSignal, JudgedSignal, Verdict } from './arrived-signals';
import { ArrivedSignals, judgeArrived } from './arrived-signals';
import {
  judgeGate,
  mayNotApprove,
  mayNotDecide,
  mayNotOrder,
  onlyClaimed,
  personLookup,
  verifiedApprovals,
} from './person-lookup';

/* What people sent, checked against the inventory (protocol: "Approvals and decisions"), read where it arrived. */

/** What people sent is never in an input: the numbers of the signals, whose content is read in the run's history. */
interface Arrived {
  readonly deployment: string;
  readonly arrived: readonly number[];
}

interface ApprovalsInput extends Arrived {
  readonly gate: GateName;
  readonly planDigest: string;
  readonly requestedBy: string;
  /** Numbers of those that counted before. */
  readonly accepted: readonly number[];
}

/** Verifies each document against the inventory and says whether the gate's policy is met. */
export async function checkApprovals(
  input: ApprovalsInput,
): Promise<ReturnType<typeof judgeGate> & { readonly verdicts: readonly JudgedSignal[] }> {
  const { deployment, gate, planDigest, requestedBy, accepted, arrived } = input;
  const { inventory, run } = currentExecution();
  const signals = new ArrivedSignals(run);
  // As numbers, so that no document stands in an input once more.
  const before = (await signals.all('approve', accepted)).map(({ content: approval, arrival }) => ({
    approval,
    arrival,
  }));
  const approvals: VerifiedApproval[] = await verifiedApprovals(gate, planDigest, before);
  const person = personLookup(inventory);
  const verdicts = await judgeArrived(
    await signals.all('approve', arrived),
    async ({ content, principal }): Promise<Verdict> => {
      const approval = await verifyApproval(content, { run, person, gate, planDigest, principal });
      const by: Attested = { name: approval.name, how: approval.how };
      if (approvals.some((each) => each.digest === approval.digest))
        return { accepted: false, code: 'repeated', text: 'this very document is in hand', by };
      const mayNot = mayNotApprove(deployment, gate, requestedBy, approval);
      if (mayNot !== undefined) return { accepted: false, code: 'may-not-approve', text: mayNot, by };
      approvals.push(approval);
      if (!countsIn(findDeployment(inventory, deployment), approval.how)) {
        const text = onlyClaimed(approval.name, nextCommandOf.approve(run.wid, gate, approval.name));
        return { accepted: false, code: 'only-claimed', text, by };
      }
      const text = approval.verdict === 'approve' ? `approves gate ${gate}` : `rejects gate ${gate}`;
      return { accepted: true, code: approval.verdict, text, by };
    },
  );
  return { verdicts, ...judgeGate(deployment, gate, requestedBy, approvals) };
}

interface DecisionsInput extends Arrived {
  readonly parked: readonly {
    readonly step: string;
    readonly parkingNo: number;
    readonly choices: readonly DecisionAction[];
  }[];
}

/** What an accepted decision orders. */
type Decided = Pick<VerifiedDecision, 'step' | 'parkingNo' | 'action' | 'reason'> & { readonly rid: string };

/** Verifies decisions on steps that parked. */
export async function checkDecisions({ deployment, parked, arrived }: DecisionsInput): Promise<{
  readonly verdicts: readonly (JudgedSignal & { readonly decision?: Decided })[];
}> {
  const { inventory, run } = currentExecution();
  const person = personLookup(inventory);
  const judge = async ({ content, principal }: ArrivedSignal) => {
    const verified = await verifyDecision(content, { run, person, principal });
    const { name, how, action, reason, step, parkingNo } = verified;
    const by: Attested = { name, how };
    const waiting = parked.find((each) => each.step === step && each.parkingNo === parkingNo);
    if (!waiting) {
      const text = 'no step waits for this decision: another step, another parking, or decided already';
      return { accepted: false, code: 'not-parked', text, by };
    }
    if (!waiting.choices.includes(action)) {
      const text = `"${action}" is not a choice here; choices: ${waiting.choices.join(', ')}`;
      return { accepted: false, code: 'no-such-choice', text, by };
    }
    const mayNot = mayNotDecide(deployment, verified);
    if (mayNot !== undefined) return { accepted: false, ...mayNot, by };
    const decision = { step, parkingNo, action, reason, rid: run.rid };
    return { accepted: true, code: 'accepted', text: `${action} "${step}"`, by, decision };
  };
  return { verdicts: await judgeArrived(await new ArrivedSignals(run).all('decide', arrived), judge) };
}

/** The decisions that people sent to this run, verified here: those that count in this deployment. */
export async function decisionsOf(deployment: string): Promise<readonly VerifiedDecision[]> {
  const { inventory, run } = currentExecution();
  const person = personLookup(inventory);
  const decisions: VerifiedDecision[] = [];
  for (const { content, principal } of await new ArrivedSignals(run).every('decide')) {
    const decision = await verifyDecision(content, { run, person, principal }).catch((error: unknown) => {
      if (isRunbookError(error)) return undefined;
      throw error;
    });
    if (decision && mayNotDecide(deployment, decision) === undefined) decisions.push(decision);
  }
  return decisions;
}

/** What an accepted order says; of `takeOver` with the input of the failover. */
interface More {
  readonly control?: Ordered;
  readonly failover?: Omit<InputOf<'drFailover'>, 'takeOverDocument'> | undefined;
}

interface Ordered {
  readonly reason: string;
  readonly before?: string;
  /** Tells documents apart: each counts once. Absent where the server's record attests the very signal, and of claims. */
  readonly digest?: string;
}

/** Who must give such an order, and with what: the command that makes it. */
function howTo(action: ControlAction, { wid }: RunContext): string {
  return `\`${nextCommandOf.control(action, wid)}\``;
}

/**
 * Verifies an order to a whole run: a document of somebody who may decide in this deployment. Outside of a laboratory no
 * claim counts.
 *
 * @throws RunbookError DOCUMENT_INVALID, NOT_APPROVED
 */
export async function demandControl(
  deployment: string,
  document: unknown,
  context: Omit<DocumentContext, 'person'> & { readonly action: ControlAction },
): Promise<VerifiedControl> {
  const { action, run } = context;
  const control = await verifyControl(document, { ...context, person: personLookup(currentExecution().inventory) });
  const command = nextCommandOf.control(action, run.wid, control.name);
  const mayNot = mayNotOrder(deployment, control, action, command);
  if (mayNot) throw new RunbookError('NOT_APPROVED', mayNot.text);
  return control;
}

interface ControlsInput {
  readonly deployment: string;
  readonly action: ControlAction;
  /** Numbers of the signals: each order is read where it arrived. */
  readonly arrived: readonly number[];
  /** Who ordered the take-over before. */
  readonly before: readonly Attested[];
  /** Who asked for the failover. */
  readonly requestedBy?: string | undefined;
}

/**
 * Verifies orders to the whole run, all of one name. Of `takeOver` it also says who else must order it, in words, for gate
 * `promote` to be satisfied.
 */
export async function checkControls(input: ControlsInput): Promise<{
  readonly verdicts: readonly (JudgedSignal & Partial<More>)[];
  readonly missing: readonly string[];
}> {
  const { deployment, action, arrived, before, requestedBy } = input;
  const { inventory, run } = currentExecution();
  const { laboratory } = findDeployment(inventory, deployment);
  const accepted = { accepted: true, code: 'accepted', text: 'accepted' };
  const signals = await new ArrivedSignals(run).all(action, arrived);
  let asker = requestedBy;
  const verdicts = await judgeArrived<More>(signals, async ({ content, principal }) => {
    let document = content;
    let failover: Omit<InputOf<'drFailover'>, 'takeOverDocument'> | undefined;
    if (action === 'takeOver') {
      const { data } = RUNBOOK_INPUTS.drFailover.safeParse(content);
      if (!data) return { accepted: false, code: 'malformed', text: 'needs the input object of drFailover' };
      ({ takeOverDocument: document, ...failover } = data);
      asker ??= data.requestedBy;
    }
    if (document === undefined) {
      const text = withNext('a take-over needs a document of who orders it', howTo(action, run));
      if (!laboratory) return { accepted: false, code: 'not-signed', text, failover };
      const by: Attested = { name: failover?.requestedBy ?? 'unknown', how: 'claimed' };
      return { ...accepted, by, control: { reason: '' }, failover };
    }
    const control = await demandControl(deployment, document, { run, action, principal }).catch((error: unknown) => {
      if (!isRunbookError(error) || error.code === 'NOT_APPROVED') throw error;
      throw error.with({ message: withNext(error.message, howTo(action, run)) });
    });
    const { name, how, reason, digest, before: step } = control;
    const order = { reason, ...(step === undefined ? {} : { before: step }), ...(how === 'signed' ? { digest } : {}) };
    return { ...accepted, by: { name, how }, control: order, failover };
  });
  const by = [...before, ...verdicts.flatMap((each) => (each.accepted && each.by ? [each.by] : []))];
  return { verdicts, missing: action === 'takeOver' ? missingFor(deployment, asker, by) : [] };
}

/** Inside an outage a take-over needs what gate promote needs. */
function missingFor(deployment: string, requestedBy: string | undefined, by: readonly Attested[]): readonly string[] {
  const ordered = by.map((each) => ({ ...each, verdict: 'approve' as const, comment: '', iat: 0, digest: '' }));
  return judgeGate(deployment, 'promote', requestedBy, ordered).missing;
}
