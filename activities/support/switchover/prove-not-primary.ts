import { setTimeout as delay } from 'node:timers/promises';
import type { ReplicationKind } from '../../../src/contracts/runbook-inputs';
import { RunbookError, isRunbookError } from '../../../src/errors';
import { activityRecords } from '../../../src/report';
import type { RunContext } from '../../../src/secrets';
import type { ActivityDependencies } from '../../dependencies';
import { historyOf } from '../approvals/arrived-signals';
import { Budget } from '../budget';
import type { ClusterAccess } from '../clusters';
import { CHANGE_TIMEOUT_MS } from '../read-act-confirm';

/** Longer than a promotion without an answer can be under way. */
const SETTLE_MS = CHANGE_TIMEOUT_MS + 1_000;
const SETTLE_POLL_MS = 500;
/** Standbys mirror the active node and lag behind it right after a role change. */
const LAG_MS = 5_000;
/** A look at a cluster that does not answer takes seconds, and clients wait. */
const LAG_LOOKS = 2;

/** The activities that demote and promote, by the kind of replication. */
const ROLE_CHANGES = {
  dr: { demote: 'demoteDrPrimary', promote: 'promoteDrSecondary' },
  performance: { demote: 'demotePerformancePrimary', promote: 'promotePerformanceSecondary' },
} as const;

/** What is remembered between proofs of one activity. */
export interface ProofMemory {
  /** Whose role it is about; `dr` where nothing is given. */
  readonly kind?: ReplicationKind;
  /** How long a promotion in doubt must be without effect, ms. */
  readonly settleMs?: number;
  /** How long a standby may go on telling the role that the cluster had, ms. */
  readonly lagMs?: number;
  /** A promotion in doubt was seen to have had no effect. */
  settled?: boolean;
}

/** What the nodes of a cluster say of its mode. */
export interface RoleOpinions {
  /** What the node says that is active by the agreement of all; undefined where there is none or it does not know. */
  readonly active: string | undefined;
  /** What every node says, or why it says nothing. */
  readonly nodes: readonly string[];
}

/**
 * Proves that a cluster is not primary before another one is promoted: its active node says so and no other node says
 * otherwise; or, where that node does not answer, the demotion of this run left it as a secondary and every promotion of
 * it since was refused for certain. A standby's word alone proves nothing: it may tell what was.
 *
 * @throws RunbookError STATE_DIVERGED where it is primary; PRECONDITION_FAILED where it cannot be proven
 */
export async function proveNotPrimary(
  dependencies: ActivityDependencies,
  run: RunContext,
  other: ClusterAccess,
  signal: AbortSignal,
  memory: ProofMemory = {},
): Promise<void> {
  const { name } = other.entry;
  const { kind = 'dr' } = memory;
  const { demote, promote } = ROLE_CHANGES[kind];
  const first = await askOnceSettled(other, signal, kind, memory.lagMs ?? LAG_MS);
  refusePrimary(name, first, kind);
  const history = await historyOf(dependencies.temporal, run);
  const records = activityRecords(history);
  const promotions = records.filter((record) => record.cluster === name && record.type === promote);
  if (promotions.some((record) => record.outcome === 'running'))
    throw unproven(name, first, `a promotion of ${name} is under way`);

  if (saysSecondary(first)) {
    const inDoubt = promotions.some((record) => record.outcome !== 'completed' && record.outcomeKnown !== true);
    if (!inDoubt || memory.settled) return;
    await awaitSettled(other, signal, kind, memory.settleMs ?? SETTLE_MS);
    memory.settled = true;
    return;
  }
  // Whichever side was demoted: a demotion also looks at the other side, which must be a live secondary then.
  const demoted = records.some((record) => record.type === demote && record.outcome === 'completed');
  const refused = promotions.every((record) => record.outcome === 'failed' && record.outcomeKnown === true);
  if (refused && demoted) return;
  throw unproven(name, first, 'nothing in this run proves that it is not primary');
}

/**
 * Asks every node; where only standbys say primary while the active node says that it is none, they are asked again for
 * a while: right after a demotion they tell what was.
 */
async function askOnceSettled(
  other: ClusterAccess,
  signal: AbortSignal,
  kind: ReplicationKind,
  lagMs: number,
): Promise<RoleOpinions> {
  const budget = new Budget(lagMs, LAG_LOOKS);
  return budget.during(async () => {
    for (;;) {
      const said = await budget.look(() => askRole(other, signal, kind));
      if (!saysSecondary(said) || !said.nodes.includes('primary') || budget.isOver) return said;
      await delay(Math.min(SETTLE_POLL_MS, lagMs), undefined, { signal });
    }
  });
}

/** A promotion whose outcome is not known may take effect late: its target must stay a secondary for longer than that. */
async function awaitSettled(
  other: ClusterAccess,
  signal: AbortSignal,
  kind: ReplicationKind,
  settleMs: number,
): Promise<void> {
  const { name } = other.entry;
  const until = performance.now() + settleMs;
  for (;;) {
    await delay(Math.min(SETTLE_POLL_MS, settleMs), undefined, { signal });
    const began = performance.now();
    const said = await askRole(other, signal, kind);
    refusePrimary(name, said, kind);
    if (!saysSecondary(said))
      throw unproven(name, said, `a promotion of ${name} without an answer may still take effect`);
    if (began > until) return;
  }
}

function saysSecondary({ active }: RoleOpinions): boolean {
  return active === 'secondary' || active === 'disabled';
}

/** @throws RunbookError STATE_DIVERGED where any node says that it is primary */
export function refusePrimary(name: string, { nodes }: RoleOpinions, kind: ReplicationKind = 'dr'): void {
  if (nodes.includes('primary')) {
    throw new RunbookError(
      'STATE_DIVERGED',
      `${name} is still ${kind === 'dr' ? 'DR' : kind} primary: promoting another cluster would make two.`,
      {
        cluster: name,
        observed: 'primary',
        needed: 'secondary or disabled',
        next: `Demote ${name} first, or decide promote-back.`,
      },
    );
  }
  if (nodes.includes('bootstrapping')) throw unproven(name, { active: undefined, nodes }, 'its role is changing');
}

function unproven(name: string, said: RoleOpinions, why: string): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', `It is not proven that ${name} is not primary: ${why}.`, {
    cluster: name,
    observed: `${name}: active node ${said.active ?? 'silent'}; nodes ${said.nodes.join(', ')}`,
    needed: `the active node of ${name} answers as secondary, or ${name} is known to be fenced`,
    next: `Bring ${name} back or fence it (no clients, no cluster port), then decide. Promoting now could make two primaries.`,
  });
}

/** Asks every node: a returning old active node may hold another opinion than the rest. */
export async function askRole(
  { entry, client }: ClusterAccess,
  signal: AbortSignal,
  kind: ReplicationKind = 'dr',
): Promise<RoleOpinions> {
  const status = (node: string) =>
    kind === 'dr' ? client.dr.status({ node, signal }) : client.performance.status({ node, signal });
  client.forgetActiveNode();
  const [activeNode, ...nodes] = await Promise.all([
    orElse(undefined, () => client.activeNode({ signal })),
    ...entry.addresses.map((node) => orElse('does not answer', async () => (await status(node)).mode)),
  ]);
  const active = activeNode === undefined ? undefined : nodes[entry.addresses.indexOf(activeNode)];
  return { active: active === 'unknown' || active === 'does not answer' ? undefined : active, nodes };
}

async function orElse<T, E>(otherwise: E, read: () => Promise<T>): Promise<T | E> {
  try {
    return await read();
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'REQUEST_CANCELLED') throw error;
    return otherwise;
  }
}
