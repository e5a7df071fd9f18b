import type { OperationTokenReference } from '../../src/contracts/ceremony';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import { RunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { RunContext } from '../../src/keys';
import { openValue } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';
import type { ClusterAccess } from '../clusters';
import type { Execution } from '../execution';
import { awaitState } from '../read-act-confirm';

/** How long a cluster that does not answer is waited for before its step parks, ms. */
export const ANSWER_BUDGET_MS = 30_000;

/**
 * Opens the token for one DR operation on one cluster.
 *
 * @param use - what the calling activity is about to do
 * @throws RunbookError SEALED_VALUE_INVALID, or TOKEN_SOURCE_UNAVAILABLE where the inventory has no batch token
 */
export async function openOperationToken(
  dependencies: ActivityDependencies,
  run: RunContext,
  access: ClusterAccess,
  clusterId: string,
  reference: OperationTokenReference | undefined,
  use: TokenUse,
): Promise<Secret> {
  const { name } = access.entry;
  if (reference === undefined) throw new RunbookError('INVALID_INPUT', `There is no operation token for ${name}.`);
  if (reference.cluster !== name)
    throw new RunbookError('SEALED_VALUE_INVALID', `The token is for ${reference.cluster}, not for ${name}.`);
  if (reference.source === 'sealed') {
    return openValue(dependencies.sealKeyring, run, reference.value, {
      kind: 'operation-token',
      cluster: name,
      clusterId,
      use,
    });
  }
  return readBatchToken(access);
}

/** The prepared batch token: it works on every secondary of the primary that made it. */
export async function readBatchToken(access: ClusterAccess): Promise<Secret<'batch-token'>> {
  const token = access.batchToken();
  if (token === undefined) {
    throw new RunbookError('TOKEN_SOURCE_UNAVAILABLE', `The inventory names no batch token for ${access.entry.name}.`, {
      cluster: access.entry.name,
      observed: 'no batchToken',
      needed: 'a batchToken source, or tokenSource ceremony',
      next: 'Start again with {"tokenSource": "ceremony"}.',
    });
  }
  return token;
}

/**
 * As {@link readClusterId}, but what may pass is waited out for the budget and then ends the activity: its step parks
 * and pages, instead of being tried again unseen.
 *
 * @throws RunbookError CONFIRMATION_TIMEOUT; nothing was sent to the cluster by this attempt
 */
export async function awaitClusterId(access: ClusterAccess, execution: Execution, budgetMs: number): Promise<string> {
  return (await awaitIdentity(access, execution, budgetMs)).clusterId;
}

/** As {@link awaitClusterId}, with the version of the service. */
export function awaitIdentity(access: ClusterAccess, execution: Execution, budgetMs: number): Promise<Identity> {
  return awaitState(execution, {
    read: () => readIdentity(access, execution.signal),
    until: () => true,
    budgetMs,
    describe: ({ clusterId }) => clusterId,
    needed: `${access.entry.name} answers`,
    cluster: access.entry.name,
  });
}

interface Identity {
  readonly clusterId: string;
  readonly version: string | undefined;
}

/** `sys/health` cluster_id of a cluster, compared with the inventory's pin where there is one. */
export async function readClusterId(access: ClusterAccess, signal: AbortSignal): Promise<string> {
  return (await readIdentity(access, signal)).clusterId;
}

async function readIdentity(access: ClusterAccess, signal: AbortSignal): Promise<Identity> {
  const { clusterId, version } = await access.client.sys.health({ signal });
  const { name, clusterId: pinned } = access.entry;
  if (clusterId === undefined)
    throw new RunbookError('SERVICE_SEALED', `${name} tells no cluster ID: it is sealed or not initialised.`, {
      cluster: name,
    });
  if (pinned !== undefined && pinned !== clusterId) {
    throw new RunbookError('STATE_DIVERGED', `${name} is not the cluster that the inventory means.`, {
      cluster: name,
      observed: `cluster ID ${clusterId}`,
      needed: `cluster ID ${pinned}`,
      next: 'Correct the addresses or the pinned clusterId in the inventory.',
    });
  }
  return { clusterId, version };
}
