import { setTimeout as delay } from 'node:timers/promises';
import type { ActivationToken, SecondaryPublicKey } from '../../src/vault';
import type { ActivationTokenResult } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import { RunbookError, isRunbookError } from '../../src/errors';
import { sealValue } from '../../src/keys';
import { Deadline } from '../deadline';
import { currentExecution } from '../execution';
import { CHANGE_TIMEOUT_MS, withCredential } from '../read-act-confirm';
import { awaitClusterId } from '../tokens/operation-token';
import { demandUnused } from './enable-secondary';
import { isAttached, primaryAddresses } from './following';
import type { JoinInput, JoinTarget } from './joining';
import { ANSWER_BUDGET_MS, joiningOf, readPrimary, updateToken, useOf } from './joining';
import { readKind } from './onboarding-read';
import { verifyJoining } from './repoint-authority';

/** Life of an activation token: it is used at once. */
const ACTIVATION_TOKEN_SECONDS = 600;
/** How long the primary is given to become able to issue tokens, ms. */
const ISSUE_BUDGET_MS = 60_000;
/** What of a call for a public key says that it is not to be had this way. */
const REFUSED: ReadonlySet<string> = new Set([
  'PERMISSION_DENIED',
  'BAD_REQUEST',
  'NOT_FOUND',
  'CREDENTIAL_UNAVAILABLE',
  'SERVICE_ERROR',
]);

interface IssueActivationToken extends JoinInput {
  /** `auto` where nothing is given. */
  readonly form?: 'auto' | 'public-key' | 'wrapped';
  /** As of `enableSecondary`. */
  readonly calledBefore?: boolean;
}

/**
 * Issues an activation token on the primary under the cluster ID of the secondary, sealed for the one call that uses it:
 * encrypted to a public key of the secondary, or wrapped. None where the secondary is attached already.
 */
export async function issueActivationToken(input: IssueActivationToken): Promise<ActivationTokenResult> {
  const execution = currentExecution();
  const { clusters } = execution;
  const { deployment, kind } = input;
  const { limits } = clusters.deployment(deployment);
  const none = { id: '', form: 'none', revokedBefore: false } as const;
  if (input.use === 'enable' && (await demandUnused(input))) return none;
  const target = clusters.of(deployment, input.secondary);
  const budgetMs = Math.min(ANSWER_BUDGET_MS, limits.streamingMs);
  const joining = joiningOf(input, await awaitClusterId(target, execution, budgetMs));
  const { clusterId: id, source } = joining;
  await verifyJoining(joining, { begun: false });
  const state = await readKind(target, kind, execution.signal);
  const addresses = await primaryAddresses(source, execution.signal);
  if (isAttached(state, addresses, limits.heartbeatAgeMs)) return { ...none, id };
  const key = await generatePublicKey(joining, input.form ?? 'auto');
  const { token, revokedBefore } = await issueUnlessUsed(joining, key?.publicKey);
  const spec = { kind: 'activation-token', cluster: target.entry.name, clusterId: id } as const;
  return {
    id,
    form: token.form,
    keyNode: token.form === 'encrypted' ? key?.node : undefined,
    revokedBefore,
    token: await sealValue(
      execution.sealKeyring,
      execution.run,
      { ...spec, uses: [useOf(joining)], src: source.entry.name, expSeconds: ACTIVATION_TOKEN_SECONDS },
      token.token,
    ),
  };
}

/** @returns `undefined` where the secondary makes no key and need not: the token is wrapped then */
async function generatePublicKey(
  joining: JoinTarget,
  form: NonNullable<IssueActivationToken['form']>,
): Promise<SecondaryPublicKey | undefined> {
  const { input, target } = joining;
  if (form === 'wrapped') return undefined;
  const execution = currentExecution();
  const { signal } = execution;
  // Which token the call takes on a demoted DR cluster differs by version (facts, points that only a real service settles).
  const token = input.kind === 'dr' && input.use === 'update-primary' ? await updateToken(joining) : undefined;
  const options = [
    ...(token ? [() => Promise.resolve({ token, signal, timeoutMs: CHANGE_TIMEOUT_MS })] : []),
    () => withCredential(target, execution),
  ];
  let refusal: RunbookError | undefined;
  for (const each of options) {
    try {
      return await target.client[input.kind].secondary.generatePublicKey(await each());
    } catch (error) {
      if (!isRunbookError(error) || !REFUSED.has(error.code)) throw error;
      refusal = error;
    }
  }
  if (form === 'public-key' && refusal) throw refusal;
  return undefined;
}

interface Issued {
  readonly token: ActivationToken;
  readonly revokedBefore: boolean;
}

/**
 * Issues the token. A lost answer leaves an id whose token nobody knows: that id is revoked and the token is issued again,
 * so that no usable token is left behind. The id of a cluster that is connected now is never revoked.
 *
 * @throws RunbookError PRECONDITION_FAILED where the id is taken by a cluster that is connected
 */
async function issueUnlessUsed(joining: JoinTarget, secondaryPublicKey: string | undefined): Promise<Issued> {
  const { source, clusterId: id } = joining;
  const execution = currentExecution();
  const { primary } = source.client[joining.input.kind];
  const deadline = new Deadline(ISSUE_BUDGET_MS);
  let revokedBefore = false;
  for (;;) {
    execution.throwIfCancelled();
    try {
      return await deadline.poll(async () => {
        const state = await readPrimary(joining);
        refuseConnected(id, source.entry.name, state);
        if (state.knownSecondaries?.includes(id)) {
          await primary.revokeSecondary({ id }, await withCredential(source, execution));
          revokedBefore = true;
        }
        const parameters = { id, ttl: `${ACTIVATION_TOKEN_SECONDS}s`, secondaryPublicKey };
        const token = await primary.secondaryToken(parameters, await withCredential(source, execution));
        return { token, revokedBefore };
      });
    } catch (error) {
      // 412 and 500 for some seconds after a promotion are normal; a lost answer is read at the next turn.
      if (!isRunbookError(error) || (!error.retryable && error.outcomeKnown)) throw error;
      if (deadline.isOver) throw notIssued(source.entry.name, deadline, error);
      execution.progress(`${error.code}; tried again until the budget ends`);
      await delay(Math.min(error.retryAfterMs ?? 500, 5_000), undefined, { signal: execution.signal });
    }
  }
}

function notIssued(cluster: string, deadline: Deadline, error: RunbookError): RunbookError {
  const message = `${cluster} issued no activation token within ${deadline.inWords}: ${error.message}`;
  return new RunbookError(error.code, message, {
    retryable: false,
    cluster,
    httpStatus: error.httpStatus,
    observed: error.code,
    needed: 'an activation token',
    next: `Look at ${cluster}, then retry: an id without a known token is revoked first.`,
  });
}

function refuseConnected(id: string, cluster: string, { peers }: ReplicationObservation): void {
  if (!peers.some((peer) => peer.id === id && peer.connected)) return;
  throw new RunbookError('PRECONDITION_FAILED', `A secondary with the id ${id} is connected to ${cluster} now.`, {
    cluster,
    observed: `${id} connected`,
    needed: 'an id that no connected secondary has: revoking it would cut that secondary off',
    next: `Compare the status of ${cluster} with that of the secondary. If the secondary follows, retry; if another cluster has this id, revoke it by hand first.`,
  });
}
