import { setTimeout as delay } from 'node:timers/promises';
import type { OperationTokenReference, Sealed } from '../../src/contracts/ceremony';
import type { AllowedOperation } from '../../src/contracts/plan';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import { isRunbookError, RunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { RunContext } from '../../src/keys';
import { openValue, sealValue } from '../../src/keys';
import type { OfKind, SecondaryToken, TokenDisposal } from '../../src/contracts/activities';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { CHANGE_TIMEOUT_MS, awaitAnswer, withCredential } from '../read-act-confirm';
import { readStatus } from '../observe';

/** How long a cluster that does not answer is waited for before its step parks, ms. */
export const ANSWER_BUDGET_MS = 30_000;

/**
 * Opens the token for one DR operation on one cluster.
 *
 * @param use - what the calling activity is about to do
 * @throws RunbookError SEALED_VALUE_INVALID, or TOKEN_SOURCE_UNAVAILABLE where the inventory has no batch token
 */
export async function openOperationToken(
  access: ClusterAccess,
  clusterId: string,
  reference: OperationTokenReference | undefined,
  use: TokenUse,
): Promise<Secret> {
  const { name } = access.entry;
  if (reference === undefined) throw new RunbookError('INVALID_INPUT', `There is no operation token for ${name}.`);
  if (reference.cluster !== name)
    throw new RunbookError('SEALED_VALUE_INVALID', `The token is for ${reference.cluster}, not for ${name}.`);
  if (reference.source === 'batch') return readBatchToken(access);
  const { sealKeyring, run } = currentExecution();
  return openValue(sealKeyring, run, reference.value, { kind: 'operation-token', cluster: name, clusterId, use });
}

/** What authorises a change on a secondary, and how it is sent: of DR an operation token in its body, else the credential. */
export async function authorisedOn(
  access: ClusterAccess,
  { kind, token }: OfKind & SecondaryToken,
  clusterId: string,
  use: TokenUse,
) {
  const execution = currentExecution();
  if (kind === 'performance') return { body: {}, options: await withCredential(access, execution) };
  const drOperationToken = await openOperationToken(access, clusterId, token, use);
  return { body: { drOperationToken }, options: { signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS } };
}

/** Sends what a token for DR operations authorises, and nothing else: where that is refused it says how another one is had. */
export async function sendWithToken<T>(
  { entry: { name: cluster } }: ClusterAccess,
  token: OperationTokenReference | undefined,
  sent: Promise<T>,
): Promise<T> {
  return sent.catch((error: unknown) => {
    if (token === undefined || !isRunbookError(error, 'PERMISSION_DENIED')) throw error;
    const isBatch = token.source === 'batch';
    throw error.with({
      cluster,
      observed: `${cluster} refused the ${isBatch ? 'batch token' : 'operation token of this run'}`,
      needed: `a token for DR operations that ${cluster} takes`,
      next: isBatch
        ? `Look at its policy and its age, then retry; or end this here, and do it by another run with {"tokenSource": "ceremony"}.`
        : `Retry once: a node that restarts refuses living ones too. Where it stays refused somebody ended that token: end this here, and do it by another run, which makes a new one.`,
    });
  });
}

/** How long a sealed operation token can be opened. The token itself has no lifetime. */
const SEALED_SECONDS = 24 * 3600;

/** Seals a token for this run. @param expSeconds - for how long it can be opened */
export function sealOperationToken(
  on: { readonly cluster: string; readonly clusterId: string },
  uses: readonly string[],
  token: Secret<'operation-token'>,
  expSeconds = SEALED_SECONDS,
): Promise<Sealed<'operation-token'>> {
  const { sealKeyring, run } = currentExecution();
  const { cluster, clusterId } = on;
  return sealValue(sealKeyring, run, { kind: 'operation-token', cluster, clusterId, uses, expSeconds }, token);
}

/** The prepared batch token: it works on every secondary of the primary that made it. */
export async function readBatchToken(access: ClusterAccess): Promise<Secret<'batch-token'>> {
  const token = access.batchToken();
  if (token === undefined) {
    throw new RunbookError('TOKEN_SOURCE_UNAVAILABLE', `The inventory names no batch token for ${access.entry.name}.`, {
      cluster: access.entry.name,
      observed: 'no batchToken',
      needed: 'batchTokens or a batchToken source in the inventory, or tokenSource ceremony',
      next: 'Start again with {"tokenSource": "ceremony"}.',
    });
  }
  return token;
}

/** How a plan names a cluster, by the ID that it has now. */
export async function awaitNamed(access: ClusterAccess, budgetMs: number): Promise<AllowedOperation['on']> {
  const { clusterId } = await awaitIdentity(access, budgetMs);
  return { cluster: access.entry.name, clusterId };
}

/**
 * As {@link readIdentity}, but what may pass is waited out for the budget and then ends the activity: its step parks
 * and pages, instead of being tried again unseen.
 *
 * @throws RunbookError CONFIRMATION_TIMEOUT; nothing was sent to the cluster by this attempt
 */
export function awaitIdentity(access: ClusterAccess, budgetMs: number): Promise<Identity> {
  const execution = currentExecution();
  return awaitAnswer(execution, {
    read: () => readIdentity(access, execution.signal),
    budgetMs,
    needed: `${access.entry.name} answers`,
    cluster: access.entry.name,
  });
}

interface Identity {
  readonly clusterId: string;
  readonly version: string | undefined;
  readonly drMode: string | undefined;
}

/** `sys/health` cluster_id of a cluster, compared with the inventory's pin where there is one. */
export async function readClusterId(access: ClusterAccess, signal: AbortSignal): Promise<string> {
  return (await readIdentity(access, signal)).clusterId;
}

export async function readIdentity(access: ClusterAccess, signal: AbortSignal): Promise<Identity> {
  const { clusterId, version, replicationDrMode: drMode } = await access.client.sys.health({ signal });
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
  return { clusterId, version, drMode };
}

const TRIES = 4;
const REFUSALS: ReadonlySet<string> = new Set(['PERMISSION_DENIED', 'BAD_REQUEST']);

/**
 * Deletes one generated operation token, and proves that it is refused afterwards (interface 4.1:
 * `operation-token/delete`).
 *
 * @param binding - the run that sealed the token: the activity's own, or the one that the record names
 * @param deletion - what is known of this token alone. `sentBefore`: an earlier deletion may have taken effect, and a token
 * that stays refused is dead then; `beforeSending` is called right before the first call
 */
export async function deleteToken(
  deployment: string,
  token: Extract<OperationTokenReference, { source: 'sealed' }>,
  binding: RunContext,
  deletion?: { readonly sentBefore: boolean; readonly beforeSending: () => Promise<void> },
): Promise<TokenDisposal> {
  const execution = currentExecution();
  const { clusters, sealKeyring, signal, timing } = execution;
  const { cluster } = token;
  try {
    const access = clusters.of(deployment, cluster);
    const { clusterId, drMode } = await readIdentity(access, signal);
    const drOperationToken = await openValue(sealKeyring, binding, token.value, {
      kind: 'operation-token',
      cluster,
      clusterId,
      use: 'dr.operation-token.delete',
      forDeletion: true,
    });
    // It would refuse, and would go on taking the token once it is a secondary again.
    if (drMode === 'primary') return { cluster, state: 'kept', text: `${cluster} is primary, and deletes none now` };
    let accepted = false;
    // An answer was lost here, or with an attempt before this one: the token may be dead already.
    let mayBeDead = deletion?.sentBefore ?? execution.doubt.mayHaveSent;
    await deletion?.beforeSending();
    let last = 'no clear answer';
    for (let tries = 1; tries <= TRIES; tries += 1) {
      execution.throwIfCancelled();
      // After an answer that proves nothing; doubles with each try. What the cluster asks for does not.
      let pauseMs = timing.refusalMs * 2 ** (tries - 1);
      try {
        await access.client.dr.secondary.deleteOperationToken(
          { drOperationToken },
          { signal, timeoutMs: CHANGE_TIMEOUT_MS },
        );
        accepted = true;
        last = 'still accepted after its deletion';
        // Once more, on purpose and at once: a dead token is refused, which is the proof.
        continue;
      } catch (error) {
        if (!isRunbookError(error) || error.code === 'REQUEST_CANCELLED') throw error;
        execution.progress(`${error.code} at ${cluster}`);
        mayBeDead ||= !error.outcomeKnown;
        if (error.outcomeKnown && !error.retryable) {
          if (accepted && REFUSALS.has(error.code))
            return { cluster, state: 'deleted', text: 'the service refuses it now' };
          const mode = await modeOf(access, signal);
          if (mode !== undefined && mode !== 'secondary')
            return { cluster, state: 'kept', text: `${cluster} is ${mode} and refuses deletion (${error.code})` };
          if (!REFUSALS.has(error.code)) return { cluster, state: 'unproven', text: error.code };
          // A node that restarts refuses living tokens too: only a refusal that stays counts, and only after a deletion.
          if (tries === TRIES && mayBeDead)
            return { cluster, state: 'deleted', text: 'its deletion lost its answer, and it is refused since' };
          last = `refused (${error.code}) without a deletion before`;
        } else {
          last = accepted ? 'deleted, and no clear answer since' : 'no clear answer';
          // The cluster restarts, or chooses another leader.
          pauseMs = Math.max(error.retryAfterMs ?? 0, 2 * pauseMs);
        }
      }
      if (tries < TRIES) await delay(pauseMs, undefined, { signal });
    }
    return { cluster, state: 'unproven', text: last };
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'REQUEST_CANCELLED') throw error;
    const silent = error.code === 'UNREACHABLE' || error.code === 'REQUEST_TIMEOUT';
    return { cluster, state: 'unproven', text: `${error.code}: ${error.message}`, ...(silent && { unanswered: true }) };
  }
}

/** The cluster's DR mode; undefined where it cannot be read now. */
async function modeOf(access: ClusterAccess, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await readStatus(access, 'dr', signal)).mode;
  } catch (error) {
    if (!isRunbookError(error) || !error.retryable) throw error;
    return undefined;
  }
}
