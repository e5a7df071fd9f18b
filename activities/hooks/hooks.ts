import { request } from 'undici';
import type { Agent } from 'undici';
import type { RunbookActivities } from '../../src/contracts/activities';
import { RunbookError } from '../../src/errors';
import type { ProbeHook } from '../../src/inventory';
import type { Clusters } from '../clusters';
import { execute, executeChange } from '../execution';
import { agentFor } from './hook-call';
import { awaitState } from '../read-act-confirm';
import { runHook } from './run-hook';

/** What lies outside the service: hooks that stop, lead and fence clients, and the probe through their address. */
export function createHookActivities(
  clusters: Clusters,
): Pick<RunbookActivities, 'runHook' | 'awaitDump' | 'probeService'> {
  return {
    runHook: executeChange((input, execution) => {
      refuseGated(input.hook);
      return runHook(clusters, input, execution);
    }),

    awaitDump: executeChange((input, execution) => runHook(clusters, { ...input, hook: 'dump' }, execution)),

    probeService: execute(async ({ deployment, budgetMs }, execution) => {
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
    }),
  };
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
