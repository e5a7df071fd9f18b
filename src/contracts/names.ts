import { z } from 'zod';

/** Names of deployments and clusters, as the inventory gives them. */
export const deploymentName = z.string().regex(/^[a-z0-9-]+$/, 'must be lower-case letters, digits and hyphens');
export const clusterName = z.string().regex(/^[a-z0-9-]+$/, 'must be lower-case letters, digits and hyphens');

export const RUNBOOK_NAMES = ['drSwitchover', 'operationTokenCeremony'] as const;
/** The name of a runbook is its Temporal workflow type. */
export type RunbookName = (typeof RUNBOOK_NAMES)[number];

/** The task queue that every worker polls unless `RUNBOOKS_TASK_QUEUE` says otherwise. */
export const DEFAULT_TASK_QUEUE = 'runbooks';

/** The Workflow ID that is the lock of a deployment: one changing run at a time. */
export function deploymentWorkflowId(deployment: string): string {
  return `deployment:${deployment}`;
}

/** The Workflow ID of a ceremony that is a run of its own. */
export function ceremonyWorkflowId(cluster: string): string {
  return `ceremony:${cluster}`;
}

/** The task queue of the workers that hold the key directory `keyHome`. */
export function keyTaskQueue(keyHome: string): string {
  return `runbooks.keys.${keyHome}`;
}

/** The Workflow ID under which a runbook must run so that the lock holds. */
export function lockWorkflowId(runbook: RunbookName, input: { deployment: string; cluster?: string }): string {
  return runbook === 'operationTokenCeremony' && input.cluster !== undefined
    ? ceremonyWorkflowId(input.cluster)
    : deploymentWorkflowId(input.deployment);
}
