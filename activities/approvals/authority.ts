import { isDeepStrictEqual } from 'node:util';
import { Context } from '@temporalio/activity';
import { z } from 'zod';
import type { Authority } from '../../src/contracts/activities';
import type { Operation } from '../../src/contracts/operations';
import { isSameOperation, operationName } from '../../src/contracts/operations';
import type { AllowedOperation, RunbookPlan } from '../../src/contracts/plan';
import { APPROVALS_TOO_OLD, planIn } from '../../src/contracts/plan';
import { runbookPlan } from '../../src/contracts/payloads';
import { escapeUntrusted } from '../../src/contracts/words';
import { isRunbookError, RunbookError } from '../../src/errors';
import { approversOf, countsIn, findDeployment, inventoryDigest } from '../../src/inventory';
import type { ReplicationObservation } from '../../src/contracts/observations';
import { nextCommandOf } from '../../src/contracts/next-commands';
import { unwrapDocument } from '../../src/contracts/signals';
import type { Attested } from '../../src/contracts/run-facts';
import type { GateName } from '../../src/contracts/gates';
import type { CountedApproval, VerifiedApproval } from '../../src/keys';
import { evaluateGate, verifyApproval } from '../../src/keys';
import { currentExecution } from '../execution';
import { heartbeatAge } from '../observe';
import { planDigest } from './planning';
import type { ArrivedSignal } from './arrived-signals';
import { ArrivedSignals, noSuchSignal } from './arrived-signals';

/** What a dangerous activity receives as proof that people approved it. */
export interface Approved {
  readonly deployment: string;
  readonly authority: Authority;
}

/**
 * Verifies independently that one dangerous operation was approved: the approved plan allows exactly this operation, on
 * the clusters with these cluster IDs, and the gate of the operation is satisfied under the policy of the inventory.
 *
 * @param intended - the operation to run; `on` and `with` are as read from the service
 * @throws RunbookError NOT_APPROVED
 */
export async function verifyOperation(approved: Approved, intended: AllowedOperation): Promise<RunbookPlan> {
  const plan = readPlan(approved);
  if (!plan.operations.some((allowed) => isSame(allowed, intended))) {
    throw notApproved(
      `the plan does not allow ${operationName(intended)} on ${describe(intended.on)}${intended.with ? ` with ${describe(intended.with)}` : ''}${intended.detail === undefined ? '' : ` (${intended.detail})`}`,
      NEEDED_PLAN,
    );
  }
  for (const gate of gatesOf(plan, intended)) await requireGate(approved, gate, plan);
  return plan;
}

/**
 * As {@link verifyOperation}, right before a call that starts something: the approvals must also not be too old, and the
 * inventory must be the one that people approved with. A call that ends an outage is judged by the current inventory: a
 * hook may have had to be corrected in the meantime.
 *
 * @throws RunbookError NOT_APPROVED
 */
export async function verifyBeginning(approved: Approved, intended: AllowedOperation): Promise<RunbookPlan> {
  const plan = await verifyOperation(approved, intended);
  if (isOfAnotherInventory(plan))
    throw notApproved('the inventory has changed since the plan was made', INVENTORY_AS_APPROVED, PUT_BACK);
  const { requestedBy } = plan;
  await demandInTime({ ...approved, gate: lastGateOf(plan, intended), requestedBy });
  return plan;
}

/**
 * How the plan identifies the other cluster of an operation, to be compared with what is read from that cluster.
 *
 * @param cluster - its name
 * @throws RunbookError NOT_APPROVED if it allows no such operation
 */
export function otherSideOf(
  approved: Approved,
  { on, ...operation }: Operation & Pick<AllowedOperation, 'on'>,
  cluster: string,
): AllowedOperation['on'] {
  const { operations } = readPlan(approved);
  const found = operations.find(
    (each) => isSameOperation(each, operation) && each.on.cluster === on.cluster && each.with?.cluster === cluster,
  );
  if (found?.with) return found.with;
  throw notApproved(
    `the plan does not allow ${operationName(operation)} on ${describe(on)} with ${cluster}`,
    NEEDED_PLAN,
  );
}

/**
 * Verifies that one of several operations, tried in this order, is approved.
 *
 * @throws RunbookError NOT_APPROVED: the refusal that new approvals would resolve, if there is one; otherwise the first
 */
export async function verifyOneOf(operations: readonly (() => Promise<unknown>)[]): Promise<void> {
  let refusal: RunbookError | undefined;
  for (const verify of operations) {
    try {
      await verify();
      return;
    } catch (error) {
      if (!isRunbookError(error, 'NOT_APPROVED')) throw error;
      if (refusal === undefined || error.about === APPROVALS_TOO_OLD) refusal = error;
    }
  }
  if (refusal) throw refusal;
}

/** The gate that is passed last before an operation of this plan. */
export function lastGateOf(plan: RunbookPlan, operation: Operation): GateName {
  return gatesOf(plan, operation).at(-1) ?? operation.gate;
}

/** Every gate that must be met: if the plan has a go, it is the last gate before every operation of the plan. */
function gatesOf({ choices }: RunbookPlan, { endpoint, gate }: Operation): readonly GateName[] {
  // A token is available, and verified, before anybody approves the go.
  const before = endpoint === 'operation-token/take';
  return choices['go'] === 'required' && !before ? [gate, 'go'] : [gate];
}

const NEEDED_PLAN = 'an operation that the approved plan allows, on the clusters that it names';

function isSame(allowed: AllowedOperation, intended: AllowedOperation): boolean {
  const same = (a: AllowedOperation['with'], b: AllowedOperation['with']) =>
    a?.cluster === b?.cluster && a?.clusterId === b?.clusterId && a?.clusterId !== '';
  return (
    isSameOperation(allowed, intended) &&
    same(allowed.on, intended.on) &&
    same(allowed.with, intended.with) &&
    allowed.detail === intended.detail
  );
}

function describe({ cluster, clusterId }: AllowedOperation['on']): string {
  return `${cluster} (cluster ID ${clusterId})`;
}

function readPlan({ deployment, authority }: Approved): RunbookPlan {
  // Only an input that was made manually has none.
  if ((authority as Authority | undefined) === undefined) throw notApproved('no plan was given', NEEDED_PLAN);
  const { text, digest } = authority.plan;
  if (planDigest(text) !== digest)
    throw notApproved('the digest does not belong to the plan', 'the plan that was approved, byte for byte');
  const { data: plan } = runbookPlan.safeParse(planIn(text));
  if (!plan) throw notApproved('the plan cannot be read', 'the plan that was approved');
  if (plan.deployment !== deployment)
    throw notApproved('the plan is for another deployment', `a plan for ${deployment}`);
  return plan;
}

async function requireGate({ deployment, authority }: Approved, gate: GateName, plan: RunbookPlan): Promise<void> {
  const verified = await verifiedApprovals(gate, authority.plan.digest, authority.approvals);
  const judged = judgeGate(deployment, gate, plan.requestedBy, verified);
  const needed = `gate ${gate} approved`;
  if (judged.rejectedBy)
    throw notApproved(`${escapeUntrusted(judged.rejectedBy.name)} rejected at gate ${gate}`, needed);
  if (judged.satisfied) return;
  const changed = isOfAnotherInventory(plan);
  const why = changed ? ' (the inventory has changed since the plan was made)' : '';
  throw notApproved(
    `gate ${gate} is missing ${judged.missing.join('; ')}${why}`,
    needed,
    changed ? PUT_BACK : undefined,
  );
}

function isOfAnotherInventory(plan: RunbookPlan): boolean {
  return plan.inventory !== inventoryDigest(currentExecution().inventory, plan.deployment);
}

const INVENTORY_AS_APPROVED =
  'the people, gates, clusters, hooks, ceremony, quiesce, walStill limits and snapshot of the approved plan';
const PUT_BACK =
  'Restore the inventory to what it was when people approved, and decide retry; or end the run and start again: the new plan uses the current inventory.';

export function notApproved(
  why: string,
  needed: string,
  next = 'Start the runbook again; its gates ask for what is missing.',
): RunbookError {
  return new RunbookError('NOT_APPROVED', `This is not approved: ${why}.`, { observed: why, needed, next });
}

/** Added to `validFor`: the time limit for the steps between an open gate and its change, ms. */
export const STEPS_MS = 60 * 60_000;

/** When the approvals that a gate needs arrived, epoch ms. */
interface Given {
  readonly oldest: number;
  /** The approval that met the gate. */
  readonly met: number;
  /** The latest time that the server recorded: of this attempt, or of the newest event of its run. */
  readonly recorded: number;
}

/** Whose approvals are judged. */
interface Judged extends Approved {
  readonly gate: GateName;
  readonly requestedBy: string | undefined;
}

/**
 * Called right before a change that starts something, with verified approvals: they count for the `validFor` of their
 * gate plus an hour. That time runs from when the gate was met, by the server's record of the signals, but at most from
 * `validFor` after the oldest approval, because a gate is open for that long. If the window begins later, it runs from
 * there. Never called for what ends an outage (decision 40).
 *
 * @throws RunbookError NOT_APPROVED if they are older, or if the window has not begun or is long over
 */
async function demandInTime(judged: Judged): Promise<void> {
  const history = new ArrivedSignals();
  const { notBefore, notAfter } = await history.window();
  const { gate } = judged;
  const now = Date.now();
  if (notBefore !== undefined && now < notBefore - STEPS_MS)
    throw tooLate(gate, `the window begins at ${iso(notBefore)}`, 'the window of the run');
  if (notAfter !== undefined && now > notAfter + STEPS_MS)
    throw tooLate(gate, `the window ended at ${iso(notAfter)}`, 'the window of the run');
  const next = `Nothing was sent. Decide retry: the run asks gate ${gate} again, and continues with what it has. If new approvals are refused too, compare the clocks of the workers and of the Temporal server.`;
  demandYoung(judged, await givenAt(history, judged), notBefore ?? 0, next);
}

/** @param from - the beginning of the window, epoch ms */
function demandYoung({ deployment, gate }: Judged, { oldest, met, recorded }: Given, from: number, next: string): void {
  const { validForMs } = findDeployment(currentExecution().inventory, deployment).gates[gate];
  const until = Math.max(Math.min(met, oldest + validForMs), from) + validForMs + STEPS_MS;
  // A worker's clock may be behind the server's, which dated the approvals.
  const now = Math.max(Date.now(), recorded);
  if (now <= until) return;
  const late = met > oldest + validForMs ? ` with an approval of ${iso(oldest)}` : '';
  const observed = `gate ${gate} was met at ${iso(met)}${late}, which counts until ${iso(until)}; it is ${iso(now)} here, and Temporal's latest record is from ${iso(recorded)}`;
  const needed = `approvals of gate ${gate} that are not older than its validFor plus an hour`;
  throw tooLate(gate, observed, needed, { about: APPROVALS_TOO_OLD, next });
}

/**
 * As {@link demandInTime} without a window, for a promotion whose primary is gone, and for its fence: if nobody heard the
 * primary since the first needed approval, this is still the outage that people approved to end, and none is too old.
 *
 * @param candidate - the replication status of the cluster to promote; if it reports no heartbeat, nothing shows that the primary came back
 */
export async function demandSameOutage(judged: Judged, candidate: ReplicationObservation): Promise<void> {
  const age = heartbeatAge(candidate);
  if (age === undefined) return;
  const heardAt = Date.now() - age;
  const given = await givenAt(new ArrivedSignals(), judged);
  // No window counts here: a run that waits for its window may have been taken over by the failover.
  if (heardAt > given.oldest) demandYoung(judged, given, 0, anotherOutage(judged.gate, heardAt));
}

/**
 * When the approvals that their gate needs arrived. A signed approval counts from its first signal in the history of the
 * run, so sending it again makes it no younger; one attested by the server's record, from the very signal that it names;
 * a claim, from its last signal. An approval that no signal of this run brought does not count. If people were asked
 * again, older approvals that the gate no longer needs are left out.
 *
 * @throws RunbookError NOT_APPROVED if those that signals of this run brought do not meet the gate
 */
async function givenAt(history: ArrivedSignals, { deployment, gate, requestedBy, authority }: Judged): Promise<Given> {
  const arrived = await history.every('approve');
  const timed: (VerifiedApproval & { readonly at: number })[] = [];
  for (const approval of await verifiedApprovals(gate, authority.plan.digest, authority.approvals)) {
    const at = arrivedAt(arrived, approval);
    if (at !== undefined) timed.push({ ...approval, at });
  }
  timed.sort((one, other) => one.at - other.at);
  const satisfied = (some: typeof timed) => judgeGate(deployment, gate, requestedBy, some).satisfied;
  if (!satisfied(timed)) throw notBrought(gate);
  let counted = timed;
  while (counted.length > 0 && satisfied(counted.slice(1))) counted = counted.slice(1);
  const last = counted.findIndex((_, index) => satisfied(counted.slice(0, index + 1)));
  const met = counted[last]?.at ?? 0;
  const recorded = Math.max(Context.current().info.currentAttemptScheduledTimestampMs, await history.newest());
  return { met, oldest: counted[0]?.at ?? met, recorded };
}

function arrivedAt(
  arrived: readonly ArrivedSignal[],
  { how, signaled: { approval, arrival } }: SignaledApproval,
): number | undefined {
  // Its sender was read from this very signal. A signature says nothing about the signal that brought it.
  if (how === 'principal' && arrival !== undefined) return arrived.find((each) => each.arrival === arrival)?.at;
  const sent = unwrapDocument(approval);
  const same = ({ content }: ArrivedSignal) => sameContent(unwrapDocument(content), sent);
  return (how === 'claimed' ? arrived.findLast(same) : arrived.find(same))?.at;
}

/** Anyone who has a document can pass it to an activity: only the run's own history shows that people sent it here, and when. */
function notBrought(gate: GateName): RunbookError {
  const { wid } = currentExecution().run;
  return notApproved(
    `no signal of this run brought the approvals of gate ${gate}`,
    `gate ${gate} met by approvals that were sent to this run`,
    `Nothing was sent. Send them to the run: \`${nextCommandOf.approve(wid, gate)}\`.`,
  );
}

function tooLate(
  gate: GateName,
  observed: string,
  needed: string,
  more: { readonly about?: string; readonly next?: string } = {},
): RunbookError {
  return new RunbookError('NOT_APPROVED', `The change that gate ${gate} approved is not started now: ${observed}.`, {
    observed,
    needed,
    next: 'Nothing was sent, and no new approval helps: end the run (with "promote-back" if it offers that: then the old primary still serves), and start the runbook again with another window.',
    ...more,
  });
}

function anotherOutage(gate: GateName, heardAt: number): string {
  return `Nothing was sent. The old primary was heard at ${iso(heardAt)}, after approvals that the gate needs: check whether it serves now. If it does not, decide retry: the run asks gate ${gate} again, and keeps its shares and tokens.`;
}

function iso(time: number): string {
  return new Date(time).toISOString();
}

/** An approval that the server's record of its sender attests, with the number of the signal that brought it. */
const ofSender = z.strictObject({ approval: z.unknown().refine((each) => each !== undefined), arrival: z.number() });

/** A verified approval as it was signaled, and the number of its signal, if given. */
type SignaledApproval = VerifiedApproval & {
  readonly signaled: { readonly approval: unknown; readonly arrival?: number | undefined };
};

/**
 * Verifies documents for one gate; those that do not verify are left out.
 *
 * @throws RunbookError TEMPORAL_UNAVAILABLE if the history that shows who sent them cannot be read
 */
export async function verifiedApprovals(gate: GateName, planDigest: string, documents: readonly unknown[]) {
  const { inventory, run } = currentExecution();
  const { people } = inventory;
  const history = new ArrivedSignals();
  const verified: SignaledApproval[] = [];
  for (const document of documents) {
    const signaled: SignaledApproval['signaled'] = ofSender.safeParse(document).data ?? { approval: document };
    const { approval, arrival } = signaled;
    try {
      const [sent] = arrival === undefined ? [] : await history.of('approve', [arrival]);
      if (sent && !sameContent(sent.content, approval)) throw noSuchSignal();
      const context = { run, people, gate, planDigest, principal: sent?.principal };
      verified.push({ ...(await verifyApproval(approval, context)), signaled });
    } catch (error) {
      // A failed read is not a refusal: a retry may succeed.
      if (!(error instanceof RunbookError) || error.retryable) throw error;
    }
  }
  return verified;
}

/** Whether the contents of two signals are equal, wherever their objects were created. */
function sameContent(one: unknown, other: unknown): boolean {
  const plain = (content: unknown): unknown => JSON.parse(JSON.stringify(content ?? null));
  return isDeepStrictEqual(plain(one), plain(other));
}

/** Gate force needs two different people, whatever the inventory says. */
const FORCE_APPROVALS = 2;

/**
 * Evaluates a gate's policy over verified approvals. Every gate is judged here: outside a laboratory a claim neither
 * opens nor closes it.
 */
export function judgeGate(
  deploymentName: string,
  gate: GateName,
  requestedBy: string | undefined,
  approvals: readonly (Attested & Pick<VerifiedApproval, 'verdict'>)[],
) {
  const { inventory } = currentExecution();
  const deployment = findDeployment(inventory, deploymentName);
  const counted: CountedApproval[] = approvals
    .filter(({ how }) => countsIn(deployment, how))
    .map(({ name, verdict }) => ({ name, verdict, groups: inventory.people.get(name)?.groups ?? [] }));
  const policy = deployment.gates[gate];
  const needed = gate === 'force' ? Math.max(FORCE_APPROVALS, policy.approvals) : policy.approvals;
  const approvers = approversOf(inventory, deployment, gate).map(({ name }) => name);
  const evaluation = evaluateGate({ ...policy, approvals: needed, approvers }, requestedBy ?? 'unknown', counted);
  const claims = new Set(approvals.filter(({ how }) => !countsIn(deployment, how)).map(({ name }) => name));
  const unmet = evaluation.missing.length > 0 && claims.size > 0;
  const attested = (name: string): Attested => ({
    name,
    how: approvals.find((each) => each.name === name)?.how ?? 'claimed',
  });
  return {
    satisfied: evaluation.satisfied,
    missing: unmet ? [...evaluation.missing, claimsText([...claims])] : evaluation.missing,
    approvedBy: evaluation.approvedBy.map(attested),
    rejectedBy: evaluation.rejectedBy === undefined ? undefined : attested(evaluation.rejectedBy),
  };
}

export const NOT_COUNTED = 'only claimed, which does not count outside a laboratory';

function claimsText(names: readonly string[]): string {
  const [first = '', ...others] = names;
  return others.length === 0
    ? `the name ${escapeUntrusted(first)} is ${NOT_COUNTED}: that approval must be signed`
    : `the names ${escapeUntrusted(names.join(' and '))} are ${NOT_COUNTED}: those approvals must be signed`;
}
