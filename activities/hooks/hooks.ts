import { request } from 'undici';
import type { Agent } from 'undici';
import type { ChangeResult } from '../../src/contracts/activities';
import { RunbookError } from '../../src/errors';
import type { ProbeHook } from '../../src/inventory';
import { currentExecution } from '../execution';
import { awaitState } from '../read-act-confirm';
import { agentFor } from './hook-call';
import { callHook } from './run-hook';
/* What lies outside the service: hooks that stop, lead and fence clients, and the probe through their address. */

/** `from`: the cluster that is or was primary; `to`: the one that clients are led to. */
interface HookInput {
  readonly deployment: string;
  readonly from: string;
  readonly to: string;
}

/** Runs a hook about clients; refuses every other one. */
export async function runHook(
  input: HookInput & { readonly hook: 'quiesce' | 'traffic' | 'release' },
): Promise<ChangeResult> {
  const execution = currentExecution();
  refuseGated(input.hook);
  return callHook(execution.clusters, input, execution);
}

/** The `dump` hook, which may run for hours: saves what `from` holds. */
export async function awaitDump(input: HookInput): Promise<ChangeResult> {
  const execution = currentExecution();
  return callHook(execution.clusters, { ...input, hook: 'dump' }, execution);
}

export interface ProbeResult {
  readonly firstSuccessAt: number;
  readonly tries: number;
}

/** Waits until the clients' address answers as the inventory's probe expects it. */
export async function probeService(input: {
  readonly deployment: string;
  readonly budgetMs?: number;
}): Promise<ProbeResult> {
  const { deployment, budgetMs } = input;
  const execution = currentExecution();
  const { clusters } = execution;
  const { probe } = clusters.deployment(deployment).hooks;
  if (!probe)
    throw new RunbookError('PRECONDITION_FAILED', 'The inventory has no probe.', {
      observed: 'no probe',
      needed: 'hooks.probe',
    });
  const agent = await agentFor('probe', probe.caFile, probe.timeoutMs);
  let tries = 0;
  try {
    await awaitState(execution, {
      read: async () => {
        tries += 1;
        return probeOnce(agent, probe, execution.signal);
      },
      until: (status) => probe.expectStatus.includes(status),
      budgetMs: budgetMs ?? clusters.deployment(deployment).limits.serviceReadyMs,
      describe: (status) => `status ${status}`,
      needed: `status ${probe.expectStatus.join(' or ')} at the clients' address`,
      pollMs: 250,
    });
    return { firstSuccessAt: Date.now(), tries };
  } finally {
    await agent.close();
  }
}

/** Hooks about clients alone. Every other one is run by an activity of its own, which verifies an approval where it needs one. */
const OPEN_HOOKS: readonly string[] = ['quiesce', 'traffic', 'release'];

/** The name comes from a history, which whoever writes to the namespace can make: its type proves nothing. */
function refuseGated(hook: string): void {
  if (OPEN_HOOKS.includes(hook)) return;
  throw new RunbookError('NOT_APPROVED', `The ${hook} hook is not run without an approved plan.`, {
    observed: hook,
    needed: OPEN_HOOKS.join(' or '),
    next: 'Start the runbook that this hook belongs to.',
  });
}

async function probeOnce(agent: Agent, probe: ProbeHook, signal: AbortSignal): Promise<number> {
  try {
    const { statusCode, body } = await request(probe.url, {
      dispatcher: agent,
      signal,
      headersTimeout: probe.timeoutMs,
      bodyTimeout: probe.timeoutMs,
    });
    await body.dump();
    return statusCode;
  } catch {
    if (signal.aborted) throw new RunbookError('REQUEST_CANCELLED', 'The probe was cancelled.');
    throw new RunbookError('UNREACHABLE', "The clients' address does not answer.");
  }
}
