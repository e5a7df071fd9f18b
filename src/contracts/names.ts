/** Every runbook, with what its Workflow ID locks: one changing run per deployment, one ceremony per cluster. */
const LOCKS = {
  drSwitchover: 'deployment',
  drFailover: 'deployment',
  drRejoin: 'deployment',
  performanceRejoin: 'deployment',
  drSecondaryOnboarding: 'deployment',
  performanceSecondaryOnboarding: 'deployment',
  performancePromotion: 'deployment',
  secondaryRepointing: 'deployment',
  filterReconciliation: 'deployment',
  secondaryDecommission: 'deployment',
  primaryEnablement: 'deployment',
  replicationTeardown: 'deployment',
  drReindex: 'deployment',
  operationTokenDisposal: 'deployment',
  operationTokenCeremony: 'ceremony',
  rootTokenCeremony: 'ceremony',
  ceremonyRehearsal: 'rehearsal',
  batchTokenRotation: 'batch-token',
  merkleCheck: 'merkle-check',
  readiness: 'readiness',
  deploymentStatus: 'status',
  walSampler: 'none',
} as const;

export type RunbookName = keyof typeof LOCKS;
export const RUNBOOK_NAMES = Object.keys(LOCKS) as readonly RunbookName[];

/** The runbooks that move the role of the primary from one cluster to another. */
export const CHANGES_PRIMARY: ReadonlySet<string> = new Set<RunbookName>([
  'drSwitchover',
  'drFailover',
  'performancePromotion',
]);

/** Events before which a snapshot can be taken, if the inventory wants it. */
export const SNAPSHOT_EVENTS = ['demotion', 'wipe', 'forced-promotion'] as const;
export type SnapshotEvent = (typeof SNAPSHOT_EVENTS)[number];

/**
 * The search attribute (Keyword) that tells in Temporal's list of runs how a run ended. Optional: runs set it only where a
 * worker found it registered, because one that is missing fails every task of a run.
 */
export const OUTCOME_ATTRIBUTE = 'RunbookOutcome';

/** The histogram of outages that workers export. */
export const OUTAGE_METRIC = 'runbooks_outage_seconds';

/** The task queue that every worker polls unless `RUNBOOKS_TASK_QUEUE` says otherwise. */
export const DEFAULT_TASK_QUEUE = 'runbooks';

/** The Workflow ID that is the lock of a deployment: one changing run at a time. */
export function deploymentWorkflowId(deployment: string): string {
  return `deployment:${deployment}`;
}

/** The rate-limit quota with which a run quiesces the clients of a primary. */
export function quotaName(runId: string): string {
  return `runbooks-${runId}`;
}

/** The Workflow ID of a ceremony that is its own run. */
export function ceremonyWorkflowId(cluster: string): string {
  return `ceremony:${cluster}`;
}

/** The task queue of the workers that hold the key directory `keyHome`. */
export function keyTaskQueue(keyHome: string): string {
  return `runbooks.keys.${keyHome}`;
}

/**
 * The Workflow ID under which a runbook must run so that its lock holds; undefined if it needs none, because it only reads and
 * many may run at once.
 */
export function lockWorkflowId(
  runbook: RunbookName,
  input: { readonly deployment: string; readonly cluster?: string | undefined },
): string | undefined {
  const lock = LOCKS[runbook];
  if (lock === 'none') return undefined;
  const ofCluster = lock === 'ceremony' || lock === 'merkle-check';
  return `${lock}:${ofCluster ? (input.cluster ?? input.deployment) : input.deployment}`;
}

/** What the Workflow IDs of plans begin with. */
export const PLAN_ID = 'plan:';

const LOCK_KINDS: ReadonlySet<string> = new Set(Object.values(LOCKS).filter((lock) => lock !== 'none'));
/** What the Workflow IDs of runs begin with. `plan` and the runbooks' names: runs without a lock. */
const RUN_KINDS: ReadonlySet<string> = new Set([...LOCK_KINDS, ...RUNBOOK_NAMES, 'plan']);

/** Whether a Workflow ID is some deployment's or cluster's lock. */
export function isLockWorkflowId(workflowId: string): boolean {
  return LOCK_KINDS.has(workflowId.split(':', 1)[0] ?? '') && workflowId.includes(':');
}

/**
 * Whether a Workflow ID can be one of a run: of a kind above, or a word of somebody's own, such as the UUID that the Web UI
 * proposes. Neither a record nor a workflow of the server can have such an ID.
 */
export function isRunWorkflowId(workflowId: string): boolean {
  const [kind = '', ...rest] = workflowId.split(':');
  return rest.length > 0 ? RUN_KINDS.has(kind) : /^(?!temporal-sys-)[\w.-]+$/.test(workflowId);
}

/** Whether the runbook holds the lock of its deployment, so that `drFailover` may take it over. */
export function holdsDeploymentLock(runbook: RunbookName): boolean {
  return LOCKS[runbook] === 'deployment';
}

/** The address of a run in the Web UI at `base`: the tab that says what the run waits for, and how it ended. */
export function webUiLink(base: string, namespace: string, workflowId: string, runId: string): string {
  const [inNamespace = '', id = '', run = ''] = [namespace, workflowId, runId].map(encodeURIComponent);
  return `${base.replace(/(?<!\/)\/+$/, '')}/namespaces/${inNamespace}/workflows/${id}/${run}/user-metadata`;
}
