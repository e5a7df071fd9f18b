import type { RunReference } from './history';

/** Base address of the Web UI: `RUNBOOKS_TEMPORAL_UI`, where it is set. */
function webUi(env: NodeJS.ProcessEnv): string | undefined {
  const address = env['RUNBOOKS_TEMPORAL_UI'];
  return address === undefined || address === '' ? undefined : address.replace(/(?<!\/)\/+$/, '');
}

/** Link to a run in the Web UI, where its address is known. */
export function runLink(env: NodeJS.ProcessEnv, namespace: string, run: RunReference): string | undefined {
  const base = webUi(env);
  if (base === undefined) return undefined;
  const tail = run.runId === undefined ? '' : `/${encodeURIComponent(run.runId)}/history`;
  return `${base}/namespaces/${encodeURIComponent(namespace)}/workflows/${encodeURIComponent(run.workflowId)}${tail}`;
}

/** Link to the start form of the Web UI with Workflow ID, task queue and runbook filled in. */
export function startFormLink(
  env: NodeJS.ProcessEnv,
  namespace: string,
  form: { readonly workflowId: string; readonly taskQueue: string; readonly runbook: string },
): string | undefined {
  const base = webUi(env);
  if (base === undefined) return undefined;
  const query = new URLSearchParams({
    workflowId: form.workflowId,
    taskQueue: form.taskQueue,
    workflowType: form.runbook,
  });
  return `${base}/namespaces/${encodeURIComponent(namespace)}/workflows/start-workflow?${query.toString()}`;
}
