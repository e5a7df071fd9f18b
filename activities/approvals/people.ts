import { nextCommandOf } from '../../src/contracts/next-commands';
import type { GateName } from '../../src/contracts/plan';
import { withNext } from '../../src/contracts/receipts';
import type { Attested } from '../../src/contracts/run-facts';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { isUndecodable } from '../../src/contracts/signals';
import type { ControlAction, DecisionAction, SignalName } from '../../src/contracts/signals';
import { escapeUntrusted } from '../../src/contracts/words';
import { isRunbookError, RunbookError } from '../../src/errors';
import { approversOf, countsIn, decidersOf, findCluster, findDeployment } from '../../src/inventory';
import type { DocumentContext, RunContext, VerifiedApproval, VerifiedControl, VerifiedDecision } from '../../src/keys';
import { verifyApproval, verifyControl, verifyDecision } from '../../src/keys';
import { currentExecution } from '../execution';
import type { ArrivedSignal } from './arrived-signals';
import { ArrivedSignals } from './arrived-signals';
import { judgeGate, NOT_COUNTED, verifiedApprovals } from './authority';

/* What people sent, checked against the inventory (protocol: "Approvals and decisions"), read where it arrived. */

/** What becomes of something that a person sent, as its receipt says it; and what it orders, where it is accepted. */
interface Verdict {
  readonly accepted: boolean;
  readonly code: string;
  readonly text: string;
  readonly by?: Attested;
  readonly decision?: Decided;
  readonly control?: Ordered;
  /** With `takeOver`: the input of the failover. */
  readonly failover?: Failover | undefined;
}

type Decided = Pick<VerifiedDecision, 'step' | 'parkingNo' | 'action' | 'reason'> & { readonly rid: string };
type Failover = Omit<InputOf<'drFailover'>, 'takeOverDocument'>;

interface Ordered {
  readonly reason: string;
  /** Tells documents apart: each counts once. Absent where the server's record attests the very signal, and of claims. */
  readonly digest?: string;
}

/** A verdict on the signal of this number. */
interface JudgedSignal extends Verdict {
  readonly arrival: number;
}

const refused = (code: string, text: string, more: Pick<Verdict, 'by' | 'failover'> = {}): Verdict => {
  return { accepted: false, code, text, ...more };
};

/** What people sent is never in an input: the numbers of the signals, whose content is read in the run's history. */
interface Arrived {
  readonly deployment: string;
  readonly arrived: readonly number[];
}

/**
 * Judges what people sent, each where it arrived. What cannot be read, or is no valid document, is refused with the
 * reason.
 *
 * @param judge - throws RunbookError where a document does not verify
 */
async function judgeArrived(
  name: SignalName,
  arrived: readonly number[],
  judge: (signal: ArrivedSignal) => Promise<Verdict>,
): Promise<JudgedSignal[]> {
  const verdicts: JudgedSignal[] = [];
  for (const signal of await new ArrivedSignals(currentExecution().run).of(name, arrived)) {
    const { arrival, content } = signal;
    const verdict = isUndecodable(content)
      ? refused('undecodable', 'the payload could not be read; send JSON, with encoding json/plain')
      : await judge(signal).catch((error: unknown) => {
          if (!isRunbookError(error)) throw error;
          return refused('refused', withNext(error.message, error.next));
        });
    verdicts.push({ arrival, ...verdict });
  }
  return verdicts;
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
  // As numbers, so that no document stands in an input once more.
  const before = await new ArrivedSignals(run).of('approve', accepted);
  const documents = before.map(({ content, arrival }) => ({ approval: content, arrival }));
  const approvals: VerifiedApproval[] = await verifiedApprovals(gate, planDigest, documents);
  const verdicts = await judgeArrived('approve', arrived, async ({ content, principal }) => {
    const context = { run, people: inventory.people, gate, planDigest, principal };
    const approval = await verifyApproval(content, context);
    const by: Attested = { name: approval.name, how: approval.how };
    if (approvals.some((each) => each.digest === approval.digest))
      return refused('repeated', 'this very document is in hand', { by });
    const mayNot = mayNotApprove(deployment, gate, requestedBy, approval);
    if (mayNot !== undefined) return refused('may-not-approve', mayNot, { by });
    approvals.push(approval);
    if (!countsIn(findDeployment(inventory, deployment), approval.how)) {
      const command = nextCommandOf.approve(run.wid, gate, approval.name);
      return refused('only-claimed', onlyClaimed(approval.name, command), { by });
    }
    return { accepted: true, code: approval.verdict, text: `${approval.verdict}s gate ${gate}`, by };
  });
  return { verdicts, ...judgeGate(deployment, gate, requestedBy, approvals) };
}

/** Why somebody's approval opens no such gate, whoever attests it, with who may; undefined where it may. */
function mayNotApprove(
  deploymentName: string,
  gate: GateName,
  requestedBy: string,
  { name, verdict }: VerifiedApproval,
): string | undefined {
  const { inventory } = currentExecution();
  const deployment = findDeployment(inventory, deploymentName);
  const { groups, excludeRequester } = deployment.gates[gate];
  const isMember = inventory.people.get(name)?.groups.some((group) => groups.includes(group)) === true;
  const asked = excludeRequester && name === requestedBy;
  if (isMember && !(asked && verdict === 'approve')) return undefined;
  const others = approversOf(inventory, deployment, gate).map((each) => each.name);
  const may = others.filter((each) => !excludeRequester || each !== requestedBy).join(', ') || 'nobody';
  const why = isMember ? `${name} asked for this run` : `${name} is in none of its groups (${groups.join(', ')})`;
  return `gate ${gate} is approved by ${may}: ${why}`;
}

/**
 * What somebody is told whose claim counts for nothing, and what they do instead.
 *
 * @param command - what they gave, without a key
 */
function onlyClaimed(name: string, command: string): string {
  return withNext(
    `${escapeUntrusted(name)} is ${NOT_COUNTED}`,
    `sign it. \`runbook join LINE\` makes a key, with a line of the operators; once the inventory lists it, with attestation signed: \`${command} --key-file YOUR-KEY-FILE\``,
  );
}

/**
 * Why what somebody orders does not count, as the code and the text of its receipt; undefined where it does. Outside of a
 * laboratory no claim counts.
 *
 * @param command - what they gave, without a key
 */
function mayNotOrder(
  deploymentName: string,
  { name, how }: Attested,
  action: string,
  command: string,
): Pick<Verdict, 'code' | 'text'> | undefined {
  const { inventory } = currentExecution();
  const deployment = findDeployment(inventory, deploymentName);
  if (!countsIn(deployment, how)) return { code: 'only-claimed', text: onlyClaimed(name, command) };
  const deciders = decidersOf(inventory, deployment).map((each) => each.name);
  if (deciders.includes(name)) return undefined;
  const text = `"${action}" is for the approvers and operators of this deployment: ${deciders.join(', ')}`;
  return { code: 'may-not-decide', text };
}

function mayNotDecide(deployment: string, decision: VerifiedDecision): ReturnType<typeof mayNotOrder> {
  const { name, parkingNo, action } = decision;
  const command = nextCommandOf.decide(currentExecution().run.wid, parkingNo, action, name);
  return mayNotOrder(deployment, decision, action, command);
}

interface DecisionsInput extends Arrived {
  readonly parked: readonly {
    readonly step: string;
    readonly parkingNo: number;
    readonly choices: readonly DecisionAction[];
  }[];
}

/** Verifies decisions on steps that parked. */
export async function checkDecisions({ deployment, parked, arrived }: DecisionsInput): Promise<{
  readonly verdicts: readonly JudgedSignal[];
}> {
  const { inventory, run } = currentExecution();
  const verdicts = await judgeArrived('decide', arrived, async ({ content, principal }) => {
    const verified = await verifyDecision(content, { run, people: inventory.people, principal });
    const { name, how, action, reason, step, parkingNo } = verified;
    const by: Attested = { name, how };
    const waiting = parked.find((each) => each.step === step && each.parkingNo === parkingNo);
    if (!waiting)
      return refused(
        'not-parked',
        'no step waits for this decision: another step, another parking, or decided already',
        {
          by,
        },
      );
    const { choices } = waiting;
    if (!choices.includes(action))
      return refused('no-such-choice', `"${action}" is not a choice here; choices: ${choices.join(', ')}`, { by });
    const mayNot = mayNotDecide(deployment, verified);
    if (mayNot) return refused(mayNot.code, mayNot.text, { by });
    const decision = { step, parkingNo, action, reason, rid: run.rid };
    return { accepted: true, code: 'accepted', text: `${action} "${step}"`, by, decision };
  });
  return { verdicts };
}

/** The decisions that people sent to this run, verified here: those that count in this deployment. */
export async function decisionsOf(deployment: string): Promise<readonly VerifiedDecision[]> {
  const { inventory, run } = currentExecution();
  const decisions: VerifiedDecision[] = [];
  for (const { content, principal } of await new ArrivedSignals(run).every('decide')) {
    const context = { run, people: inventory.people, principal };
    const decision = await verifyDecision(content, context).catch((error: unknown) => {
      if (isRunbookError(error)) return undefined;
      throw error;
    });
    if (decision && mayNotDecide(deployment, decision) === undefined) decisions.push(decision);
  }
  return decisions;
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
  context: Omit<DocumentContext, 'people'> & { readonly action: ControlAction },
): Promise<VerifiedControl> {
  const { action, run } = context;
  const control = await verifyControl(document, { ...context, people: currentExecution().inventory.people });
  const command = nextCommandOf.control(action, run.wid, control.name);
  const mayNot = mayNotOrder(deployment, control, action, command);
  if (mayNot) throw new RunbookError('NOT_APPROVED', mayNot.text);
  return control;
}

interface ControlsInput extends Arrived {
  readonly action: ControlAction;
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
  readonly verdicts: readonly JudgedSignal[];
  readonly missing: readonly string[];
}> {
  const { deployment, action, arrived, before, requestedBy } = input;
  const { inventory, run } = currentExecution();
  const about = findDeployment(inventory, deployment);
  const accepted = { accepted: true, code: 'accepted', text: 'accepted' };
  let asker = requestedBy;
  const verdicts = await judgeArrived(action, arrived, async ({ content, principal }) => {
    let document = content;
    let failover: Failover | undefined;
    if (action === 'takeOver') {
      const { data } = RUNBOOK_INPUTS.drFailover.safeParse(content);
      if (!data) return refused('malformed', 'needs the input object of drFailover');
      if (data.deployment !== deployment) return refused('other-deployment', `this run is about ${deployment}`);
      if (data.dryRun) return refused('dry-run', 'a dry run takes nothing over: start it on its own');
      // A run that became a failover takes no other input any more.
      for (const name of [data.from, data.to, ...(data.alsoGone ?? [])])
        if (name !== undefined) findCluster(about, name);
      if (data.fencing === 'hook' && !about.hooks.fence)
        return refused('no-fence-hook', 'the inventory names no fence hook: leave "fencing" out');
      ({ takeOverDocument: document, ...failover } = data);
      asker ??= data.requestedBy;
    }
    if (document === undefined) {
      const text = withNext('a take-over needs a document of who orders it', howTo(action, run));
      if (!about.laboratory) return refused('not-signed', text, { failover });
      const by: Attested = { name: failover?.requestedBy ?? 'unknown', how: 'claimed' };
      return { ...accepted, by, control: { reason: '' }, failover };
    }
    const control = await demandControl(deployment, document, { run, action, principal }).catch((error: unknown) => {
      if (!isRunbookError(error) || error.code === 'NOT_APPROVED') throw error;
      throw error.with({ message: withNext(error.message, howTo(action, run)) });
    });
    const { name, how, reason, digest } = control;
    const order = { reason, ...(how === 'signed' ? { digest } : {}) };
    return { ...accepted, by: { name, how }, control: order, failover };
  });
  const by = [...before, ...verdicts.flatMap((each) => (each.accepted && each.by ? [each.by] : []))];
  // Inside an outage a take-over needs what gate promote needs.
  const ordered = by.map((each) => ({ ...each, verdict: 'approve' as const }));
  return { verdicts, missing: action === 'takeOver' ? judgeGate(deployment, 'promote', asker, ordered).missing : [] };
}
