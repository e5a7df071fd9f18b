import type { ExpectedFilter, RunbookActivities } from '../../src/contracts/activities';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { ActivityDependencies } from '../dependencies';
import type { Clusters } from '../clusters';
import type { Execution } from '../execution';
import { execute, executeChange } from '../execution';
import type { Joining } from './join-secondary';
import { issueFor, readPrimary, updatePrimaryWith } from './join-secondary';
import { describeReplication, heartbeatAge, isAlive } from '../observe';
import { readKind } from './onboarding-read';
import { awaitClusterId, openOperationToken } from '../tokens/operation-token';
import { CHANGE_TIMEOUT_MS, awaitState, beforeSending, withCredential } from '../read-act-confirm';
import { requireFilter } from '../filters/wanted-filter';
import { verifyRepointing } from './repoint-authority';

/** How long a secondary that does not answer is waited for before its step parks, ms. */
const ANSWER_BUDGET_MS = 30_000;
/** What of a call for a public key says that it is not to be had this way. */
const REFUSED: ReadonlySet<string> = new Set([
  'PERMISSION_DENIED',
  'BAD_REQUEST',
  'NOT_FOUND',
  'CREDENTIAL_UNAVAILABLE',
  'SERVICE_ERROR',
]);

type Repointing = Parameters<RunbookActivities['issueActivationToken']>[0];

/** Attaching a secondary to a primary by token (interface 4.1, 4.2: `secondary-token`, `update-primary`; facts 2.11, 4). */
export function createSecondaryJoiningActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Pick<RunbookActivities, 'issueActivationToken' | 'updatePrimary' | 'awaitDrStreaming'> {
  const joiningOf = async (input: Repointing, execution: Execution): Promise<Joining> => {
    const { deployment, kind } = input;
    const target = clusters.of(deployment, input.secondary);
    const { heartbeatAgeMs, streamingMs } = clusters.deployment(deployment).limits;
    return {
      kind,
      source: clusters.of(deployment, input.primary),
      target,
      clusterId: await awaitClusterId(target, execution, Math.min(ANSWER_BUDGET_MS, streamingMs)),
      heartbeatAgeMs,
      read: (access) => readKind(access, kind, execution.signal),
    };
  };
  const operationToken = ({ target, clusterId }: Joining, { token }: Repointing, { run }: Execution) =>
    openOperationToken(dependencies, run, target, clusterId, token, 'dr.update-primary');

  return {
    issueActivationToken: executeChange(async (input, execution) => {
      const joining = await joiningOf(input, execution);
      const { deployment, authority, kind } = input;
      const filter = expectedOf(input)?.filter;
      await verifyRepointing(dependencies, execution, deployment, joining, authority, { filter, begun: false });
      return issueFor(dependencies, execution, joining, async () => {
        // Which token the call takes on a demoted DR cluster differs by version (facts, points that only a real service settles).
        const tokens = kind === 'dr' ? [await operationToken(joining, input, execution)] : [];
        return generatePublicKey(joining, tokens, execution);
      });
    }),

    updatePrimary: executeChange(async (input, execution) => {
      const joining = await joiningOf(input, execution);
      const { deployment, authority } = input;
      const { source, target, clusterId } = joining;
      const { signal } = execution;
      const expected = expectedOf(input);
      const filter = expected?.filter;
      await verifyRepointing(dependencies, execution, deployment, joining, authority, { filter, begun: true });
      await readPrimary(joining);
      return updatePrimaryWith(dependencies, execution, joining, input.activation, async () => {
        if (expected === undefined) {
          const drOperationToken = await operationToken(joining, input, execution);
          return (parameters) =>
            target.client.dr.secondary.updatePrimary(
              { drOperationToken, ...parameters },
              { signal, timeoutMs: CHANGE_TIMEOUT_MS },
            );
        }
        const options = await withCredential(target, execution);
        return async (parameters) => {
          await beforeSending(() => requireFilter(source, input.secondary, clusterId, expected, signal));
          execution.throwIfCancelled();
          return target.client.performance.secondary.updatePrimary(parameters, options);
        };
      });
    }),

    awaitDrStreaming: execute(async ({ deployment, primary, secondary }, execution) => {
      const { signal } = execution;
      const source = clusters.of(deployment, primary);
      const target = clusters.of(deployment, secondary);
      const { limits } = clusters.deployment(deployment);
      let needed: bigint | undefined;
      const state = await awaitState(execution, {
        read: async () => {
          const dr = await readKind(target, 'dr', signal);
          const from = await readKind(source, 'dr', signal);
          needed ??= from.lastWal === undefined ? undefined : BigInt(from.lastWal);
          return { dr, from };
        },
        until: ({ dr, from }) => {
          const streams = dr.mode === 'secondary' && dr.state === 'stream-wals' && isAlive(dr, limits.heartbeatAgeMs);
          // 0 means that nothing was streamed yet, which equal roots can prove to be enough.
          const caughtUp =
            (needed !== undefined && BigInt(dr.lastRemoteWal ?? '0') >= needed) ||
            (dr.merkleRoot !== undefined && dr.merkleRoot === from.merkleRoot);
          return streams && caughtUp;
        },
        budgetMs: limits.streamingMs,
        describe: ({ dr }) => describeReplication(dr),
        needed: `${secondary} streams from ${primary}, connected and caught up`,
        cluster: secondary,
      });
      const age = heartbeatAge(state.dr);
      return {
        state: state.dr.state ?? '',
        connectedTo: state.dr.peers.find((peer) => peer.connected)?.clusterAddress,
        at: Date.now(),
        observed: `${describeReplication(state.dr)}, heartbeat ${age === undefined ? 'age not told' : `${Math.round(age / 1000)} s old`}`,
      };
    }),
  };
}

/** The filter that a performance secondary must have: without knowing it nothing is sent. */
function expectedOf({ kind, expected }: Repointing): ExpectedFilter | undefined {
  if (kind === 'dr') return undefined;
  if (expected === undefined)
    throw new RunbookError('INVALID_INPUT', 'A performance secondary follows with the filter that it must have.');
  return expected;
}

/**
 * The public-key flow needs no call from the secondary to the primary's API. Tried with each of the tokens, then with the
 * cluster's own credential; where it takes none of them, the wrapped form is used.
 */
async function generatePublicKey({ kind, target }: Joining, tokens: readonly Secret[], execution: Execution) {
  const options = [
    ...tokens.map((token) => () => ({ token, signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS })),
    () => withCredential(target, execution),
  ];
  for (const each of options) {
    try {
      return await target.client[kind].secondary.generatePublicKey(await each());
    } catch (error) {
      if (!isRunbookError(error) || !REFUSED.has(error.code)) throw error;
    }
  }
  return undefined;
}
