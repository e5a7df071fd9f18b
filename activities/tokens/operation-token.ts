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
import { awaitAnswer, withCredential } from '../read-act-confirm';
import { readStatus } from '../observe';
import { CHANGE_TIMEOUT_MS } from '../timing';

/** How long to wait for a cluster that does not answer before its step parks, ms. */
export const ANSWER_BUDGET_MS = 30_000;

/**
 * Opens the token for one DR operation on one cluster.
 *
 * @param use - what the calling activity is about to do
 * @throws RunbookError SEALED_VALUE_INVALID, or TOKEN_SOURCE_UNAVAILABLE if the inventory has no batch token
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

/**
 * Body and options that authorize a change on a secondary: for DR an operation token in the body, otherwise the
 * credential.
 */
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

/** For a call that only a token for DR operations authorizes: if the token is refused, adds how to get another one. */
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
      needed: `a token for DR operations that ${cluster} accepts`,
      next: isBatch
        ? `Check its policy and its age, then retry. Or stop here, and use another run with {"tokenSource": "ceremony"}.`
        : `Retry once: a restarting node refuses valid tokens too. If it is refused again, somebody ended that token: stop here, and use another run, which makes a new one.`,
    });
  });
}

/** How long a sealed operation token can be opened. The token itself has no lifetime. */
const SEALED_SECONDS = 24 * 3600;

/** Seals a token for this run. @param expSeconds - how long it can be opened */
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

/** The prepared batch token. It works on every secondary of the primary that created it. */
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

/** A cluster as plans name it, with its current cluster ID. */
export async function awaitIdentityOf(access: ClusterAccess, budgetMs: number): Promise<AllowedOperation['on']> {
  const { clusterId } = await awaitIdentity(access, budgetMs);
  return { cluster: access.entry.name, clusterId };
}

/**
 * As {@link readIdentity}, but waits for the budget if the problem may pass, and then fails the activity: its step
 * parks and pages, instead of retrying unseen.
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

/** The `cluster_id` from `sys/health`, compared with the inventory's pin if there is one. */
export async function readClusterId(access: ClusterAccess, signal: AbortSignal): Promise<string> {
  return (await readIdentity(access, signal)).clusterId;
}

export async function readIdentity(access: ClusterAccess, signal: AbortSignal): Promise<Identity> {
  const { clusterId, version, replicationDrMode: drMode } = await access.client.sys.health({ signal });
  const { name, clusterId: pinned } = access.entry;
  if (clusterId === undefined)
    throw new RunbookError('SERVICE_SEALED', `${name} reports no cluster ID: it is sealed or not initialized.`, {
      cluster: name,
    });
  if (pinned !== undefined && pinned !== clusterId) {
    throw new RunbookError('STATE_DIVERGED', `${name} is not the cluster that the inventory describes.`, {
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
 * @param deletion - facts about this token. `sentBefore`: an earlier deletion may have taken effect, so a token that
 * stays refused is dead; `beforeSending` is called right before the first call
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
    // A primary refuses the deletion, and accepts the token again once it is a secondary.
    if (drMode === 'primary')
      return { cluster, state: 'kept', text: `${cluster} is primary, and deletes no tokens now` };
    let accepted = false;
    // An answer was lost here or in an earlier attempt: the token may already be dead.
    let mayBeDead = deletion?.sentBefore ?? execution.doubt.mayHaveSent;
    await deletion?.beforeSending();
    let last = 'no clear answer';
    for (let tries = 1; tries <= TRIES; tries += 1) {
      execution.throwIfCancelled();
      // Pause after an answer that proves nothing. Doubles with each try; a pause that the cluster requests does not.
      let pauseMs = timing.refusalMs * 2 ** (tries - 1);
      try {
        await access.client.dr.secondary.deleteOperationToken(
          { drOperationToken },
          { signal, timeoutMs: CHANGE_TIMEOUT_MS },
        );
        accepted = true;
        last = 'still accepted after its deletion';
        // Delete once more at once, on purpose: a dead token is refused, which is the proof.
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
          // A restarting node refuses valid tokens too: only a repeated refusal counts, and only after a deletion.
          if (tries === TRIES && mayBeDead)
            return {
              cluster,
              state: 'deleted',
              text: 'the answer to its deletion was lost, and it has been refused since',
            };
          last = `refused (${error.code}), but no earlier deletion explains it`;
        } else {
          last = accepted ? 'deleted, but no clear answer since' : 'no clear answer';
          // The cluster is restarting or electing a leader.
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

/** The cluster's DR mode; undefined if it cannot be read now. */
async function modeOf(access: ClusterAccess, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await readStatus(access, 'dr', signal)).mode;
  } catch (error) {
    if (!isRunbookError(error) || !error.retryable) throw error;
    return undefined;
  }
}
