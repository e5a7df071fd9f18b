import { setTimeout as delay } from 'node:timers/promises';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { GateName } from '../../src/contracts/gates';
import { RunbookError, orElse } from '../../src/errors';
import { findDeployment } from '../../src/inventory';
import type { RecordedActivity, RunHistory } from '../../src/report/run-history';
import { readHistory } from '../../src/report/run-history';
import { clusterOf, fieldsOf, listOf } from '../../src/report/run-record';
import { STEPS_MS } from '../approvals/age';
import { ownHistory } from '../approvals/arrived-signals';
import { Deadline } from '../read-act-confirm';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import type { ActivityContext } from '../execution';
import { heartbeatAge, readKind } from '../observe';

const SETTLE_POLL_MS = 500;
/** Reading a cluster that does not answer takes seconds, and clients wait. */
const LAG_POLLS = 2;
/** How far the clocks of a node and of Temporal, both in whole seconds, may be apart. */
const CLOCKS_MS = 5_000;

/** A promotion, and the cluster that must not be primary for it. */
interface Promotion {
  readonly deployment: string;
  readonly kind: ReplicationKind;
  /** A demotion counts as proof for the gate's validFor plus an hour. */
  readonly gate: GateName;
  /** The cluster to promote. */
  readonly candidate: ClusterAccess;
  readonly other: ClusterAccess;
}

/** State between several proofs of one activity. */
export interface ProofMemory {
  /** A promotion with an unknown outcome was seen to have had no effect. */
  settled?: boolean;
}

/** The mode of a cluster as its nodes report it. */
export interface RoleOpinions {
  /** As reported by the node that all nodes agree is active; undefined if there is none or it does not know. */
  readonly active: string | undefined;
  /** What each node reports, or why it reports nothing. */
  readonly nodes: readonly string[];
  /** As reported by the active node. */
  readonly merkleRoot?: string | undefined;
}

/**
 * Proves that a cluster is not primary before another one is promoted. Either its active node says so and no other node
 * contradicts; or, if that node does not answer, a recent demotion by this run left it as a secondary, no role has
 * changed since, and the candidate has not heard from a primary since. A standby alone proves nothing: it may report an
 * old role.
 *
 * @returns the Merkle root that the cluster reported meanwhile, if it did
 * @throws RunbookError STATE_DIVERGED if it is primary; PRECONDITION_FAILED if the proof fails
 */
export async function proveNotPrimary(
  { inventory, signal, timing }: ActivityContext,
  promotion: Promotion,
  memory: ProofMemory,
): Promise<string | undefined> {
  const { deployment, other, kind, gate } = promotion;
  const { name } = other.entry;
  const first = await askUntilSettled(other, kind, timing.lagMs);
  refusePrimary(name, first, kind);
  const record = readHistory(await ownHistory());
  const promotions = promotionsIn(record, kind).filter((each) => clusterOf(each) === name);
  if (promotions.some(({ state }) => state === 'running'))
    throw unproven(name, first, `a promotion of ${name} is under way`, kind);

  if (reportsSecondary(first)) {
    const uncertain = promotions.some(({ state, failure }) => state !== 'completed' && failure?.outcomeKnown !== true);
    if (!uncertain || memory.settled) return first.merkleRoot;
    await awaitSettled(other, kind, timing.settleMs);
    memory.settled = true;
    return undefined;
  }
  const { gates } = findDeployment(inventory, deployment);
  const against = await againstDemotion(record, promotion, gates[gate].validForMs + STEPS_MS, signal);
  if (against !== undefined) throw unproven(name, first, against, kind);
  return undefined;
}

function promotionsIn({ activities }: RunHistory, kind: ReplicationKind): readonly RecordedActivity[] {
  return activities.filter(({ type, input }) => type === 'promoteSecondary' && input['kind'] === kind);
}

/** Whether it is certain that an activity changed nothing. */
function wasRefused({ state, failure }: RecordedActivity): boolean {
  return state === 'failed' && failure?.outcomeKnown === true;
}

/**
 * A DR member that does not report its role may be primary if this run may have promoted it before a failover took
 * over.
 *
 * @throws RunbookError STATE_DIVERGED
 */
export async function refusePossiblyPromoted(silent: readonly { readonly name: string }[]): Promise<void> {
  if (silent.length === 0) return;
  const promotions = promotionsIn(readHistory(await ownHistory()), 'dr');
  const uncertain = silent.find(({ name }) => promotions.some((each) => clusterOf(each) === name && !wasRefused(each)));
  if (!uncertain) return;
  const { name } = uncertain;
  throw new RunbookError('STATE_DIVERGED', `${name} does not report its role, and this run may have promoted it.`, {
    cluster: name,
    observed: `a promotion of ${name} that may have succeeded`,
    needed: `${name} answers as a secondary`,
    next: `Bring ${name} back. If it is gone, start a failover from it: {"from": "${name}"}.`,
  });
}

/**
 * Why the demotion in the run's history does not prove that the other cluster, which is silent, is not primary. Anybody
 * who can write to the namespace may have kept a run and its approvals open for weeks, with a true history.
 *
 * @returns undefined if nothing contradicts the proof
 */
async function againstDemotion(
  record: RunHistory,
  { candidate, other, kind }: Promotion,
  countsForMs: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  const pair = [candidate.entry.name, other.entry.name];
  const [candidateName = '', name = ''] = pair;
  // Either cluster may have been demoted: a demotion also checks that the other cluster is a live secondary. Outcome
  // `already` checked nothing and needed no approval; the demotion of a former primary checked that the other cluster
  // is primary.
  const demotion = record.activities.findLast(
    (each) =>
      each.type === 'demotePrimary' &&
      each.input['kind'] === kind &&
      each.input['former'] !== true &&
      each.state === 'completed' &&
      each.result['outcome'] === 'done' &&
      pair.includes(clusterOf(each) ?? ''),
  );
  if (demotion === undefined) return 'this run has no proof that it is not primary';
  const demoted = clusterOf(demotion) ?? '';
  const { closedAt = 0 } = demotion;
  const at = new Date(closedAt).toISOString();

  const promotions = promotionsIn(record, kind);
  if (promotions.some((each) => clusterOf(each) === name && !wasRefused(each)))
    return 'this run promoted it, or may have';
  const since = record.activities.filter(({ scheduledEventId }) => scheduledEventId > demotion.scheduledEventId);
  if (since.some((each) => promotions.includes(each) && each.state === 'completed'))
    return `roles changed after the demotion of ${demoted} at ${at}`;
  const seen = pair.find((each) => since.some((activity) => sawPrimary(activity, each, kind)));
  if (seen !== undefined) return `${seen} reported primary after the demotion of ${demoted} at ${at}`;

  // A worker's clock may be behind that of the server, which dated the demotion.
  const now = () => Math.max(Date.now(), record.lastEventAt);
  if (now() - closedAt > countsForMs)
    return `the demotion of ${demoted} was at ${at}, and counts as proof for only ${Math.round(countsForMs / 60_000)} minutes`;
  const age = heartbeatAge(await readKind(candidate, kind, signal));
  // A demoted cluster has no primary to hear from. A cluster that followed and reports nothing may have heard one.
  if (age === undefined)
    return demoted === candidateName
      ? undefined
      : `${candidateName} does not report when it last received a heartbeat from a primary`;
  const heardAt = now() - age;
  return heardAt > closedAt + CLOCKS_MS
    ? `${candidateName} received a heartbeat from a primary at ${new Date(heardAt).toISOString()}, after the demotion of ${demoted} at ${at}`
    : undefined;
}

/** Whether an activity saw the cluster as primary. */
function sawPrimary({ state, result }: RecordedActivity, name: string, kind: ReplicationKind): boolean {
  return (
    state === 'completed' &&
    listOf(result['observations'])
      .map(fieldsOf)
      .some((seen) => seen['cluster'] === name && fieldsOf(seen[kind])['mode'] === 'primary')
  );
}

/**
 * Asks every node. If only standbys say primary, they are asked again for a while: right after a demotion they report
 * the old role. The active node does not lag. What a standby reported counts until an active node contradicts it.
 */
export async function askUntilSettled(other: ClusterAccess, kind: ReplicationKind, lagMs: number) {
  const { signal } = currentExecution();
  const deadline = new Deadline(lagMs, LAG_POLLS);
  let withPrimary: RoleOpinions | undefined;
  for (;;) {
    const opinions = await deadline.poll(() => askRole(other, kind));
    if (opinions.nodes.includes('primary')) withPrimary = opinions;
    if (opinions.active === 'primary' || !opinions.nodes.includes('primary') || deadline.isOver)
      return opinions.active === undefined ? (withPrimary ?? opinions) : opinions;
    await delay(Math.min(SETTLE_POLL_MS, lagMs), undefined, { signal });
  }
}

/** A promotion with an unknown outcome may take effect late: its target must stay a secondary for longer than that. */
async function awaitSettled(other: ClusterAccess, kind: ReplicationKind, settleMs: number): Promise<void> {
  const { signal } = currentExecution();
  const { name } = other.entry;
  const until = performance.now() + settleMs;
  for (;;) {
    await delay(Math.min(SETTLE_POLL_MS, settleMs), undefined, { signal });
    const began = performance.now();
    const opinions = await askRole(other, kind);
    refusePrimary(name, opinions, kind);
    if (!reportsSecondary(opinions))
      throw unproven(name, opinions, `a promotion of ${name} without an answer may still take effect`, kind);
    if (began > until) return;
  }
}

function reportsSecondary({ active }: RoleOpinions): boolean {
  return active === 'secondary' || active === 'disabled';
}

/** @throws RunbookError STATE_DIVERGED if any node reports that it is primary */
export function refusePrimary(name: string, { nodes }: RoleOpinions, kind: ReplicationKind = 'dr'): void {
  if (nodes.includes('primary')) {
    throw new RunbookError(
      'STATE_DIVERGED',
      `${name} is still ${kind === 'dr' ? 'DR' : kind} primary: promoting another cluster would create a second primary.`,
      {
        cluster: name,
        observed: 'primary',
        needed: 'secondary or disabled',
        next: `Demote ${name} first, or decide promote-back.`,
      },
    );
  }
  if (nodes.includes('bootstrapping')) throw unproven(name, { active: undefined, nodes }, 'its role is changing', kind);
}

function unproven(name: string, opinions: RoleOpinions, why: string, kind: ReplicationKind): RunbookError {
  const instead =
    kind === 'dr'
      ? 'start drFailover with {"takeOver": true}, whose approvers attest the fence'
      : 'end this run and start performancePromotion with {"mode": "unplanned"}';
  return new RunbookError('PRECONDITION_FAILED', `It is not proven that ${name} is not primary: ${why}.`, {
    cluster: name,
    observed: `${name}: ${opinionsText(opinions)}`,
    needed: `the active node of ${name} answers as secondary, or a recent demotion by this run that nothing contradicts`,
    next: `Bring ${name} back and decide again. If it cannot come back, fence it (no clients, no cluster port) and ${instead}. Promoting now could create two primaries.`,
  });
}

export function opinionsText({ active, nodes }: RoleOpinions): string {
  return `active node ${active ?? 'not responding'}; nodes ${nodes.join(', ')}`;
}

/** Asks every node: an old active node that returns may disagree with the rest. */
export async function askRole({ entry, client }: ClusterAccess, kind: ReplicationKind = 'dr'): Promise<RoleOpinions> {
  const { signal } = currentExecution();
  client.forgetActiveNode();
  const silent = orElse(signal, () => undefined);
  const [activeNode, ...statuses] = await Promise.all([
    client.activeNode({ signal }).catch(silent),
    ...entry.addresses.map((node) => client[kind].status({ node, signal }).catch(silent)),
  ]);
  const nodes = statuses.map((status) => status?.mode ?? 'does not answer');
  const active = activeNode === undefined ? undefined : statuses[entry.addresses.indexOf(activeNode)];
  if (active === undefined || active.mode === 'unknown') return { active: undefined, nodes };
  return { active: active.mode, nodes, merkleRoot: 'merkleRoot' in active ? active.merkleRoot : undefined };
}
