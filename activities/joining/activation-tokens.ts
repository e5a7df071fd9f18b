import { setTimeout as delay } from 'node:timers/promises';
import type { ActivationToken } from '../../src/vault';
import type { ReplicationObservation } from '../../src/contracts/observations';
import { RunbookError, isRunbookError } from '../../src/errors';
import { Deadline } from '../deadline';
import type { Execution } from '../execution';

interface Issuing {
  readonly id: string;
  readonly cluster: string;
  readonly budgetMs: number;
  /** Status of the primary: the ids of all tokens that it knows, used or not, and who is connected to it. */
  readonly readPrimary: () => Promise<ReplicationObservation>;
  readonly issue: () => Promise<ActivationToken>;
  readonly revoke: () => Promise<unknown>;
}

interface Issued {
  readonly token: ActivationToken;
  readonly revokedBefore: boolean;
}

/**
 * Issues an activation token. A lost answer leaves an id whose token nobody knows: that id is revoked and the token is
 * issued again, so that no usable token is left behind. The id of a cluster that is connected now is never revoked.
 *
 * @throws RunbookError PRECONDITION_FAILED where the id is taken by a cluster that is connected
 */
export function issueActivationToken(execution: Execution, issuing: Issuing): Promise<Issued> {
  const deadline = new Deadline(issuing.budgetMs);
  return issueWithin(execution, issuing, deadline);
}

async function issueWithin(execution: Execution, issuing: Issuing, deadline: Deadline): Promise<Issued> {
  let revokedBefore = false;
  for (;;) {
    execution.throwIfCancelled();
    try {
      return await deadline.poll(async () => {
        const primary = await issuing.readPrimary();
        refuseConnected(issuing, primary);
        if (primary.knownSecondaries?.includes(issuing.id)) {
          await issuing.revoke();
          revokedBefore = true;
        }
        return { token: await issuing.issue(), revokedBefore };
      });
    } catch (error) {
      if (!isRunbookError(error)) throw error;
      // 412 and 500 for some seconds after a promotion are normal; a lost answer is read at the next turn.
      const again = error.retryable || !error.outcomeKnown;
      if (!again) throw error;
      if (deadline.isOver) {
        throw new RunbookError(
          error.code,
          `${issuing.cluster} issued no activation token within ${deadline.inWords}: ${error.message}`,
          {
            retryable: false,
            cluster: issuing.cluster,
            httpStatus: error.httpStatus,
            observed: error.code,
            needed: 'an activation token',
            next: `Look at ${issuing.cluster}, then retry: an id without a known token is revoked first.`,
          },
        );
      }
      execution.progress(`${error.code}; tried again until the budget ends`);
      await delay(Math.min(error.retryAfterMs ?? 500, 5_000), undefined, { signal: execution.signal });
    }
  }
}

function refuseConnected({ id, cluster }: Issuing, { peers }: ReplicationObservation): void {
  if (!peers.some((peer) => peer.id === id && peer.connected)) return;
  throw new RunbookError('PRECONDITION_FAILED', `A secondary with the id ${id} is connected to ${cluster} now.`, {
    cluster,
    observed: `${id} connected`,
    needed: 'an id that no connected secondary has: revoking it would cut that secondary off',
    next: `Compare the status of ${cluster} with that of the secondary. If the secondary follows, retry; if another cluster has this id, revoke it by hand first.`,
  });
}
