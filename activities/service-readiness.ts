import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { diagnoseServerError } from '../src/client';
import type { RunbookActivities } from '../src/contracts/activities';
import { RunbookError } from '../src/errors';
import { drSetOf } from '../src/inventory';
import type { CommandHook, Deployment, ProbeHook } from '../src/inventory';
import { readDr } from './dr-roles';
import type { Clusters } from './support/clusters';
import { execute, executeChange } from './support/execution';
import { describeReplication } from './support/observe';
import { CHANGE_TIMEOUT_MS, awaitState } from './support/read-act-confirm';

/** Reads in a row that must name the same active node. */
const STABLE_LEADER_READS = 3;

/** The end of the outage: the new primary serves, clients are led there, a probe through their address succeeds. */
export function createServiceReadinessActivities(
  clusters: Clusters,
): Pick<RunbookActivities, 'awaitServiceReady' | 'runHook' | 'probeService'> {
  return {
    awaitServiceReady: executeChange(async ({ deployment, cluster, credentialOf, marker }, execution) => {
      const { signal } = execution;
      const access = clusters.of(deployment, cluster);
      const entry = clusters.deployment(deployment);
      const { limits, marker: markerEntry } = entry;
      requireSameDrSet(entry, cluster, credentialOf);
      const deadline = Date.now() + limits.serviceReadyMs;
      const left = () => Math.max(1_000, deadline - Date.now());
      let primaryAt = 0;
      let sameNode = { node: '', reads: 0 };
      await awaitState(execution, {
        read: async () => ({ dr: await readDr(access, signal), node: await access.client.activeNode({ signal }) }),
        until: ({ dr, node }) => {
          const serves = dr.mode === 'primary' && dr.state === 'running';
          if (serves && primaryAt === 0) primaryAt = Date.now();
          sameNode =
            serves && node === sameNode.node ? { node, reads: sameNode.reads + 1 } : { node, reads: serves ? 1 : 0 };
          return sameNode.reads >= STABLE_LEADER_READS;
        },
        budgetMs: left(),
        describe: ({ dr, node }) => `${describeReplication(dr)}, active node ${node}`,
        needed: `${cluster} is primary and running with one stable active node`,
        cluster,
        pollMs: 200,
      });

      // The token is from before the switchover: it also proves that tokens came along.
      const token = await awaitState(execution, {
        read: () => clusters.of(deployment, credentialOf).credential(),
        until: () => true,
        budgetMs: left(),
        describe: () => 'read',
        needed: `the credential of ${credentialOf}`,
        cluster: credentialOf,
      });
      let markerReadAt: number | undefined;
      // A blocked audit device looks like a cluster that never gets ready: it is named.
      const named = <T>(call: Promise<T>): Promise<T> =>
        call.catch(async (error: unknown): Promise<never> => {
          throw await diagnoseServerError(access.client, error, { token, signal });
        });
      if (marker) {
        await awaitState(execution, {
          read: () => named(access.client.keyValue.read(markerEntry.path, { token, signal })),
          until: (data) => data?.['value'] === marker.value,
          budgetMs: left(),
          describe: (data) => (data === undefined ? 'no marker' : 'another marker'),
          needed: `the marker of this run on ${cluster}`,
          cluster,
          pollMs: 200,
        });
        markerReadAt = Date.now();
      }
      await awaitState(execution, {
        read: async () => {
          await named(
            access.client.keyValue.write(
              `${markerEntry.path}-after`,
              { writtenOn: cluster },
              { token, signal, timeoutMs: CHANGE_TIMEOUT_MS },
            ),
          );
          return true;
        },
        until: (written) => written,
        budgetMs: left(),
        describe: () => 'written',
        needed: `an authenticated write on ${cluster}`,
        cluster,
        pollMs: 200,
      });
      const readyAt = Date.now();
      return { primaryAt, stableActiveNode: sameNode.node, markerReadAt, writtenAt: readyAt, readyAt };
    }),

    runHook: executeChange(async ({ deployment, hook, from, to }, { signal }) => {
      const entry = clusters.deployment(deployment).hooks[hook];
      if (!entry)
        return { outcome: 'already', observed: `no ${hook} hook in the inventory`, confirmedAt: Date.now(), calls: 0 };
      const calledAt = Date.now();
      await runCommand(hook, entry, { deployment, from, to }, signal);
      return {
        outcome: 'done',
        observed: `${hook} hook ended with exit code 0`,
        calledAt,
        confirmedAt: Date.now(),
        calls: 1,
      };
    }),

    probeService: execute(async ({ deployment, budgetMs }, execution) => {
      const { probe } = clusters.deployment(deployment).hooks;
      if (!probe)
        throw new RunbookError('PRECONDITION_FAILED', 'The inventory has no probe.', {
          observed: 'no probe',
          needed: 'hooks.probe',
        });
      const agent = await probeAgent(probe);
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

/** A credential is shown to clusters of its own DR set only: those share their tokens. */
function requireSameDrSet(deployment: Deployment, cluster: string, credentialOf: string): void {
  const set = drSetOf(deployment, cluster);
  if (set.members.includes(credentialOf)) return;
  throw new RunbookError('PRECONDITION_FAILED', `The credential of ${credentialOf} is not for ${cluster}.`, {
    cluster,
    observed: `${credentialOf} is not in DR set ${set.name}`,
    needed: `one of ${set.members.join(', ')}`,
  });
}

async function probeAgent({ caFile }: ProbeHook): Promise<Agent> {
  if (caFile === undefined) return new Agent();
  try {
    return new Agent({ connect: { ca: await readFile(caFile, 'utf8') } });
  } catch {
    throw new RunbookError('TLS_FAILED', `The CA file ${caFile} of the probe cannot be read.`, {
      observed: 'not readable',
      needed: 'a PEM file',
    });
  }
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

/** Runs a hook without a shell. Its output is not read: it may hold anything. */
async function runCommand(
  hook: string,
  entry: CommandHook,
  about: { deployment: string; from: string; to: string },
  signal: AbortSignal,
): Promise<void> {
  const [program = '', ...args] = entry.command;
  const child = spawn(program, args, {
    stdio: 'ignore',
    signal,
    env: {
      ...inherited(),
      RUNBOOK_HOOK: hook,
      RUNBOOK_DEPLOYMENT: about.deployment,
      RUNBOOK_FROM: about.from,
      RUNBOOK_TO: about.to,
    },
  });
  const ended = new Promise<number | string>((resolve) => {
    child.once('error', (error) => resolve('code' in error ? String(error.code) : 'could not be started'));
    child.once('exit', (code, killedBy) => resolve(code ?? String(killedBy)));
  });
  const timer = new AbortController();
  const timedOut = delay(entry.timeoutMs, 'timed-out' as const, { signal: timer.signal }).catch(() => 'ended' as const);
  const result = await Promise.race([ended, timedOut]);
  timer.abort();
  if (result === 0) return;
  if (signal.aborted) throw new RunbookError('REQUEST_CANCELLED', `The ${hook} hook was cancelled and ended.`);
  if (result === 'timed-out') child.kill('SIGKILL');
  throw new RunbookError('CONFIRMATION_TIMEOUT', `The ${hook} hook did not succeed.`, {
    retryable: false,
    outcomeKnown: false,
    observed: result === 'timed-out' ? `still running after ${entry.timeoutMs / 1000} s, ended` : `exit ${result}`,
    needed: 'exit code 0',
    next: 'See what the hook did and why it failed; retry runs it again.',
  });
}

/** What a hook needs to find its programs. The worker's own environment holds keys and credentials. */
function inherited(): NodeJS.ProcessEnv {
  const names = ['PATH', 'HOME', 'LANG', 'TZ', 'TMPDIR'];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}
