import { nextCommandOf } from '../../src/contracts/next-commands';
import { withNext } from '../../src/contracts/receipts';
import type { Attested } from '../../src/contracts/run-facts';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { isUndecodable } from '../../src/contracts/signals';
import type { ControlAction, DecisionAction, SignalName } from '../../src/contracts/signals';
import { escapeUntrusted } from '../../src/contracts/words';
import type { GateName } from '../../src/contracts/gates';
import { isRunbookError, orElse, RunbookError } from '../../src/errors';
import { approversOf, countsIn, decidersOf, findCluster, findDeployment } from '../../src/inventory';
import type { DocumentContext, RunContext, VerifiedApproval, VerifiedControl, VerifiedDecision } from '../../src/keys';
import { failoverInputDigest, verifyApproval, verifyControl, verifyDecision } from '../../src/keys';
import { currentExecution } from '../execution';
import type { ArrivedSignal } from './arrived-signals';
import { ArrivedSignals } from './arrived-signals';
import { judgeGate, NOT_COUNTED, sentApprovals, verifiedApprovals } from './gate';

/* What people sent, checked against the inventory (protocol: "Approvals and decisions"), read from the run's history. */

/** The verdict on something that a person sent, as its receipt shows it, and the order in it, if it is accepted. */
interface Verdict {
  readonly accepted: boolean;
  readonly code: string;
  readonly text: string;
  readonly by?: Attested;
  readonly decision?: Decided;
  readonly control?: Ordered;
  /** Distinguishes signed documents. */
  readonly digest?: string;
  /** With `takeOver`: the input of the failover. */
  readonly failover?: Failover | undefined;
}

type Decided = Pick<VerifiedDecision, 'step' | 'parkingNo' | 'action' | 'reason'> & { readonly rid: string };
type Failover = Omit<InputOf<'drFailover'>, 'takeOverDocument'>;

interface Ordered {
  readonly reason: string;
  /** Distinguishes documents: each counts once. Absent if the server's record attests the very signal, and for claims. */
  readonly digest?: string;
}

/** A verdict on the signal of this number. */
type JudgedSignal = Verdict & { readonly arrival: number };

const refused = (code: string, text: string, more: Pick<Verdict, 'by' | 'failover'> = {}): Verdict => {
  return { accepted: false, code, text, ...more };
};

/** An input never contains what people sent: only the numbers of the signals, whose content is in the run's history. */
interface Arrived {
  readonly deployment: string;
  readonly arrived: readonly number[];
}

/**
 * Judges what people sent, as it is in the run's history. What cannot be read, or is no valid document, is refused with
 * the reason.
 *
 * @param judge - throws RunbookError if a document does not verify
 */
async function judgeArrived(
  name: SignalName,
  arrived: readonly number[],
  judge: (signal: ArrivedSignal) => Promise<Verdict>,
  history = new ArrivedSignals(),
): Promise<JudgedSignal[]> {
  const verdicts: JudgedSignal[] = [];
  for (const signal of await history.of(name, arrived)) {
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
  /** Numbers of the signals that counted before. */
  readonly accepted: readonly number[];
  /** Digests of the signed documents that met the gate before it was opened again. */
  readonly metWith?: readonly string[] | undefined;
}

/** Verifies each document against the inventory and says whether the gate's policy is met. */
export async function checkApprovals(input: ApprovalsInput) {
  const { deployment, gate, planDigest, requestedBy, accepted, metWith = [], arrived } = input;
  const { inventory, run } = currentExecution();
  const approvals: VerifiedApproval[] = [...(await verifiedApprovals(gate, planDigest, accepted))];
  const judge = async ({ content, principal }: ArrivedSignal): Promise<Verdict> => {
    const context = { run, people: inventory.people, gate, planDigest, principal };
    const approval = await verifyApproval(content, context);
    const by: Attested = { name: approval.name, how: approval.how };
    if (approvals.some((each) => each.digest === approval.digest))
      return refused('repeated', 'this document has already arrived', { by });
    if (metWith.includes(approval.digest)) {
      const again = `approve or reject again: \`${nextCommandOf.approve(run.wid, gate)}\``;
      return refused('repeated', withNext(`gate ${gate} was already met with this document`, again), { by });
    }
    const mayNot = mayNotApprove(deployment, gate, requestedBy, approval);
    if (mayNot !== undefined) return refused('may-not-approve', mayNot, { by });
    approvals.push(approval);
    if (!countsIn(findDeployment(inventory, deployment), approval.how)) {
      const command = nextCommandOf.approve(run.wid, gate, approval.name);
      return refused('only-claimed', onlyClaimed(approval.name, command), { by });
    }
    const digest = approval.how === 'signed' ? { digest: approval.digest } : {};
    return { accepted: true, code: approval.verdict, text: `${approval.verdict}s gate ${gate}`, by, ...digest };
  };
  const { history } = await sentApprovals();
  const verdicts = await judgeArrived('approve', arrived, judge, history);
  return { verdicts, ...judgeGate(deployment, gate, requestedBy, approvals) };
}

/** Why a person's approval does not open a gate, however attested, and who may approve; undefined if it opens it. */
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
  const why = isMember ? `${name} requested this run` : `${name} is in none of its groups (${groups.join(', ')})`;
  return `gate ${gate} can be approved by ${may}: ${why}`;
}

/**
 * The receipt of a person whose claim does not count, and what they do instead.
 *
 * @param command - the command that they ran, without a key
 */
function onlyClaimed(name: string, command: string): string {
  return withNext(
    `the name ${escapeUntrusted(name)} is ${NOT_COUNTED}`,
    `sign it. Create a key with \`runbook join LINE\`; the operators give you the line. Once the inventory lists the key, with attestation signed, run \`${command} --key-file YOUR-KEY-FILE\``,
  );
}

/**
 * Why an order does not count, as the code and the text of its receipt; undefined if it counts. Outside a laboratory no
 * claim counts.
 *
 * @param command - the command that the person ran, without a key
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

/** Verifies decisions on parked steps. */
export async function checkDecisions({ deployment, parked, arrived }: DecisionsInput) {
  const { inventory, run } = currentExecution();
  const verdicts = await judgeArrived('decide', arrived, async ({ content, principal }) => {
    const verified = await verifyDecision(content, { run, people: inventory.people, principal });
    const { name, how, action, reason, step, parkingNo } = verified;
    const by: Attested = { name, how };
    const waiting = parked.find((each) => each.step === step && each.parkingNo === parkingNo);
    if (!waiting)
      return refused('not-parked', 'no step waits for this decision: wrong step, wrong parking, or already decided', {
        by,
      });
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
  const { inventory, run, signal } = currentExecution();
  const decisions: VerifiedDecision[] = [];
  for (const { content, principal } of await new ArrivedSignals().every('decide')) {
    const context = { run, people: inventory.people, principal };
    const decision = await verifyDecision(content, context).catch(orElse(signal, () => undefined));
    if (decision && mayNotDecide(deployment, decision) === undefined) decisions.push(decision);
  }
  return decisions;
}

/** The command that makes the document of an order. */
function howTo(action: ControlAction, { wid }: RunContext): string {
  return `\`${nextCommandOf.control(action, wid)}\``;
}

/**
 * Verifies an order to a run: a document of somebody who may decide in this deployment. Outside a laboratory no claim
 * counts.
 *
 * @throws RunbookError DOCUMENT_INVALID, NOT_APPROVED
 */
export async function demandControl(
  deployment: string,
  document: unknown,
  context: Omit<DocumentContext, 'people'> & {
    readonly action: ControlAction;
    readonly inputDigest?: string | undefined;
  },
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
  /** The people who ordered the take-over before. */
  readonly before: readonly Attested[];
  /** The requester of the failover. */
  readonly requestedBy?: string | undefined;
}

/**
 * Verifies orders to the run, all of one name. For `takeOver` it also returns, as text, who else must order it so that
 * gate `promote` is satisfied.
 */
export async function checkControls(input: ControlsInput) {
  const { deployment, action, arrived, before, requestedBy } = input;
  const { inventory, run } = currentExecution();
  const about = findDeployment(inventory, deployment);
  const accepted = { accepted: true, code: 'accepted', text: 'accepted' };
  let asker = requestedBy;
  const verdicts = await judgeArrived(action, arrived, async ({ content, principal }) => {
    let document = content;
    let failover: Failover | undefined;
    let inputDigest: string | undefined;
    if (action === 'takeOver') {
      const { data } = RUNBOOK_INPUTS.drFailover.safeParse(content);
      if (!data) return refused('malformed', 'needs the input object of drFailover');
      if (data.deployment !== deployment) return refused('other-deployment', `this run is for ${deployment}`);
      if (data.dryRun) return refused('dry-run', 'a dry run cannot take over a run: start it separately');
      // A run that became a failover accepts no other input.
      for (const name of [data.from, data.to, ...(data.alsoGone ?? [])])
        if (name !== undefined) findCluster(about, name);
      if (data.fencing === 'hook' && !about.hooks.fence)
        return refused('no-fence-hook', 'the inventory names no fence hook: omit "fencing"');
      ({ takeOverDocument: document, ...failover } = data);
      inputDigest = failoverInputDigest(data);
      asker ??= data.requestedBy;
    }
    if (document === undefined) {
      const text = withNext('a take-over needs a document of the person who orders it', howTo(action, run));
      if (!about.laboratory) return refused('not-signed', text, { failover });
      const by: Attested = { name: failover?.requestedBy ?? 'unknown', how: 'claimed' };
      return { ...accepted, by, control: { reason: '' }, failover };
    }
    const context = { run, action, principal, inputDigest };
    const control = await demandControl(deployment, document, context).catch((error: unknown) => {
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
