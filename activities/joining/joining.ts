import type { Secret } from '../../src/secret';
import type { JoinParameters } from '../../src/vault';
import type {
  ActivationTokenResult,
  Authority,
  BetweenClusters,
  ChangeResult,
  ExpectedFilter,
  OfKind,
  SecondaryToken,
} from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import { isRunbookError } from '../../src/errors';
import { openValue } from '../../src/keys';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { CHANGE_TIMEOUT_MS, beforeSending, readActConfirm, resultOf } from '../read-act-confirm';
import { openOperationToken } from '../tokens/operation-token';
import { demandRole, readKind } from './onboarding-read';

/** How long a cluster that does not answer is waited for before its step parks, ms. */
export const ANSWER_BUDGET_MS = 30_000;

/** What says that an activation token was not taken; it serves once, so that another one is needed. */
const NOT_TAKEN: ReadonlySet<string> = new Set(['OUTCOME_UNKNOWN', 'CONFIRMATION_TIMEOUT', 'BAD_REQUEST']);

/** A secondary that is to follow a primary. */
export interface JoinInput extends BetweenClusters, OfKind, SecondaryToken {
  /** The call that an activation token is for. */
  readonly use: 'update-primary' | 'enable';
  /** Of a plan that lets this secondary follow this primary. */
  readonly authority: Authority;
  /** Demanded of kind `performance`: the filter that must be on the primary under the id of the secondary. */
  readonly expected?: ExpectedFilter;
}

/** A secondary that is to follow a primary, by the cluster ID that it has now: the id of its token and of its filter. */
export interface JoinTarget {
  readonly input: JoinInput;
  readonly source: ClusterAccess;
  readonly target: ClusterAccess;
  readonly clusterId: string;
}

export function joiningOf(input: JoinInput, clusterId: string): JoinTarget {
  const { clusters } = currentExecution();
  const of = (cluster: string) => clusters.of(input.deployment, cluster);
  return { input, source: of(input.primary), target: of(input.secondary), clusterId };
}

/** What a sealed activation token may be opened for. */
export function useOf({ input: { kind, use } }: JoinTarget): string {
  return `${kind}.${use}`;
}

/** Of a DR secondary, which does nothing without one. */
export function updateToken({ input, target, clusterId }: JoinTarget) {
  const execution = currentExecution();
  return openOperationToken(execution, execution.run, target, clusterId, input.token, 'dr.update-primary');
}

interface TokenUse<S> {
  /** `called`: whether the token was sent by this attempt. */
  readonly read: (called: boolean) => Promise<S>;
  readonly until: (state: S, called: boolean) => boolean;
  readonly describe: (state: S) => string;
  /** What is told of the state where it is there. */
  readonly observed: (state: S) => string;
  readonly needed: string;
  readonly budgetMs: number;
  readonly allow?: (state: S) => void;
  /** The last looks, right before the request: where they fail nothing was sent. Gives what sends it. */
  readonly prepare: () => Promise<
    (parameters: JoinParameters & { readonly token: Secret<'activation-token'> }) => Promise<unknown>
  >;
}

/**
 * Uses an activation token once. Addresses are given with a wrapped token only.
 *
 * @returns outcome `not-done` where the token is of no use any more: public key, token and call are done again together
 */
export async function useActivation<S>(
  joining: JoinTarget,
  activation: ActivationTokenResult,
  { read, until, observed, prepare, ...use }: TokenUse<S>,
): Promise<ChangeResult> {
  const { source, target, clusterId } = joining;
  const execution = currentExecution();
  const { name } = target.entry;
  const sent: { calls: number; calledAt?: number } = { calls: 0 };
  const notDone = (observed: string) => resultOf({ outcome: 'not-done', ...sent }, observed);
  if (activation.token === undefined) return notDone('there is no activation token yet');
  const token = await openValue(execution.sealKeyring, execution.run, activation.token, {
    kind: 'activation-token',
    cluster: name,
    clusterId,
    use: useOf(joining),
    expectedSource: source.entry.name,
  });
  const { keyNode } = activation;
  if (keyNode !== undefined && (await target.client.activeNode({ signal: execution.signal })) !== keyNode)
    return notDone(`the active node of ${name} changed: the private key of the activation is gone`);
  const wrapped = activation.form === 'wrapped';
  const primaryApiAddr = wrapped ? source.entry.apiAddressForPeers : undefined;
  const caFile = wrapped ? source.entry.caFileOnPeers : undefined;
  try {
    const changed = await readActConfirm(execution, {
      ...use,
      cluster: name,
      underWayMs: execution.changeUnderWayMs ?? CHANGE_TIMEOUT_MS,
      read: () => read(sent.calls > 0),
      until: (state) => until(state, sent.calls > 0),
      act: async () => {
        const send = await beforeSending(prepare);
        execution.throwIfCancelled();
        sent.calls += 1;
        sent.calledAt ??= Date.now();
        return send({ token, primaryApiAddr, caFile });
      },
    });
    return resultOf({ outcome: changed.outcome, ...sent }, observed(changed.state));
  } catch (error) {
    // While it may be under way, another token would revoke the id that it uses: the secondary would follow nobody.
    if (isRunbookError(error) && NOT_TAKEN.has(error.code) && sent.calls > 0 && !execution.doubt.mayHaveSent)
      return notDone(`${name} did not take the activation token (${error.code})`);
    throw error;
  }
}

/** Status of the primary, which must be one. */
export async function readPrimary({ input, source }: JoinTarget): Promise<ReplicationObservation> {
  const state = await readKind(source, input.kind, currentExecution().signal);
  demandRole(source.entry.name, input.kind, 'primary', state);
  return state;
}
