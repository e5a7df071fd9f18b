import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { WorkerInterceptors, WorkflowBundleOption } from '@temporalio/worker';
import { projectRoot } from '../dev-server/locations';
import { DATA_CONVERTER } from './connection';

/**
 * One turn of a workflow may take longer than the SDK's five seconds: it ends one that does in the middle of its promises,
 * which aborts the whole process (Node 20: "async hook stack has become corrupted"). A replay of a long history takes long
 * on a busy host. Not in the SDK's types.
 */
export const WORKFLOW_TURN_LIMIT = { isolateExecutionTimeout: '1 minute' } as const;

/**
 * How histories are replayed: in threads of their own. By its default for replays (`debugMode`, which its type leaves out)
 * the SDK runs them in the calling thread, where its hook on promises stays for ever; it throws at promises of Node 24's
 * cryptography, and so ends the process.
 */
export const REPLAY = {
  ...WORKFLOW_TURN_LIMIT,
  debugMode: false,
  dataConverter: DATA_CONVERTER,
};

/** The workflows as the SDK takes them: bundled at build time, or bundled at start. */
export type WorkflowCode = { readonly interceptors?: Pick<WorkerInterceptors, 'workflowModules'> } & (
  { readonly workflowBundle: WorkflowBundleOption } | { readonly workflowsPath: string }
);

/** The modules of the workflows' sources that are bundled: the interceptors are a part of the bundle too. */
export function workflowSources(): { readonly workflowsPath: string; readonly workflowInterceptorModules: string[] } {
  const folder = join(projectRoot(), 'workflows');
  return {
    workflowsPath: join(folder, 'index.ts'),
    workflowInterceptorModules: [join(folder, 'engine', 'interceptors.ts')],
  };
}

/** The bundle that the build made, or else the sources. */
export function workflowCode(bundle?: WorkflowBundleOption): WorkflowCode {
  if (bundle !== undefined) return { workflowBundle: bundle };
  const root = projectRoot();
  const codePath = join(root, 'dist', 'workflow-bundle.js');
  // A program that runs from its sources must not run an old build's workflows.
  const compiled = __filename.endsWith('.js');
  if (compiled && existsSync(codePath)) return { workflowBundle: { codePath } };
  const { workflowsPath, workflowInterceptorModules: workflowModules } = workflowSources();
  return { workflowsPath, interceptors: { workflowModules } };
}
