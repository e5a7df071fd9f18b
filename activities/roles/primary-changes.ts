import type { ChangeResult } from '../../src/contracts/activities';
import { deploymentWorkflowId } from '../../src/contracts/names';
import type { Limits } from '../../src/inventory';
import type { RecordedActivity } from '../../src/report/run-history';
import { readHistory } from '../../src/report/run-history';
import { attest, isAttested } from '../../src/keys';
import type { RunContext, SealKeyring } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';

/** A change of the primary of a deployment, attested by the activity that promoted; epoch ms. */
export interface PrimaryChange {
  readonly runbook: string;
  readonly runId: string;
  readonly at: number;
}

export interface PrimaryChanges {
  /** The latest first. */
  readonly changes: readonly PrimaryChange[];
  /** Run IDs under the lock whose histories tell of a promotion that no worker attested: what they did is not known. */
  readonly unattested: readonly string[];
}

/** The promotion of a cluster, with the mark by which a later run believes it. */
interface AttestedChange extends ChangeResult {
  readonly attested: string;
}

const CHANGERS: ReadonlySet<string> = new Set(['drSwitchover', 'drFailover', 'performancePromotion']);
/** The histories of more are not read. */
const HISTORIES_READ = 50;
const DEADLINE_MS = 5_000;

/** Marks what an activity changed as a change of the primary in its very run. */
export function attestPromotion(
  { sealKeyring }: Pick<ActivityDependencies, 'sealKeyring'>,
  run: RunContext,
  { deployment, cluster }: { readonly deployment: string; readonly cluster: string },
  change: ChangeResult,
): AttestedChange {
  const { facts, content } = promotionOf(run, deployment, cluster, change.confirmedAt);
  return { ...change, attested: attest(sealKeyring, facts, content) };
}

function promotionOf({ ns, wid, rid }: RunContext, deployment: string, cluster: string, time: number) {
  return { facts: { deployment, kind: 'primary-change', time }, content: { ns, wid, rid, cluster } } as const;
}

/**
 * The changes of the primary within the cool-down: promotions in the histories of closed runs
 * under the lock of the deployment.
 *
 * @returns undefined where Temporal cannot tell
 */
export async function readPrimaryChanges(
  dependencies: Sources,
  deployment: string,
  { coolDownMs }: Pick<Limits, 'coolDownMs'>,
  { ns, signal }: { readonly ns: string; readonly signal: AbortSignal },
): Promise<PrimaryChanges | undefined> {
  const { temporal, log } = dependencies;
  const since = new Date(Date.now() - coolDownMs);
  const query = [
    `WorkflowId = "${deploymentWorkflowId(deployment)}"`,
    'ExecutionStatus != "Running"',
    `CloseTime > "${since.toISOString()}"`,
  ].join(' AND ');
  try {
    return await temporal.withAbortSignal(signal, () =>
      temporal.withDeadline(Date.now() + DEADLINE_MS, () => readChanges(dependencies, query, deployment, ns)),
    );
  } catch (error) {
    if (signal.aborted) throw error;
    log.warn({ deployment, error: error instanceof Error ? error.name : 'unknown' }, 'closed runs cannot be read');
    return undefined;
  }
}

type Sources = Pick<ActivityDependencies, 'temporal' | 'log' | 'sealKeyring'>;

async function readChanges(
  { temporal, sealKeyring }: Sources,
  query: string,
  deployment: string,
  ns: string,
): Promise<PrimaryChanges> {
  const changes: PrimaryChange[] = [];
  const unattested: string[] = [];
  let read = 0;
  for await (const { workflowId: wid, runId, type, memo } of temporal.workflow.list({ query })) {
    const promotions = await promotionsIn(temporal, wid, runId);
    const told = [memo?.['runbook'], type].find((each) => typeof each === 'string' && CHANGERS.has(each));
    const times = promotions.map((each) => attestedTime(sealKeyring, { ns, wid, rid: runId }, deployment, each));
    const at = times.findLast((time) => time !== undefined);
    if (at !== undefined) changes.push({ runbook: typeof told === 'string' ? told : 'another run', runId, at });
    if (times.includes(undefined)) unattested.push(runId);
    read += 1;
    if (read === HISTORIES_READ) break;
  }
  return { changes: changes.toSorted((a, b) => b.at - a.at), unattested };
}

/** Whoever may write to the namespace may have written the history: the mark of the worker alone counts. */
async function promotionsIn(temporal: ActivityDependencies['temporal'], wid: string, rid: string) {
  const { activities } = readHistory(await temporal.workflow.getHandle(wid, rid).fetchHistory());
  return activities.filter(({ type, state }) => type === 'promoteSecondary' && state === 'completed');
}

function attestedTime(
  keyring: SealKeyring,
  run: RunContext,
  deployment: string,
  { input, result }: RecordedActivity,
): number | undefined {
  const [cluster, time] = [input['cluster'], result['confirmedAt']];
  if (typeof cluster !== 'string' || typeof time !== 'number') return undefined;
  const { facts, content } = promotionOf(run, deployment, cluster, time);
  return isAttested(keyring, facts, content, result['attested']) ? time : undefined;
}
