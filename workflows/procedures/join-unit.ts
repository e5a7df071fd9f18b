import { ApplicationFailure } from '@temporalio/workflow';
import type { ActivationTokenResult, ChangeResult } from '../../src/contracts/activities';

/** How often the unit of public key, activation token and its use is done again before the step parks. */
const UNIT_TRIES = 3;

/** What makes a secondary join: an activation token is issued, and used at once. */
export interface JoinUnit {
  readonly issue: () => Promise<ActivationTokenResult>;
  readonly use: (activation: ActivationTokenResult) => Promise<ChangeResult>;
}

/** Public key, activation token and the call that uses them are one unit: where the token was of no use, all again. */
export async function carryOutUnit({ issue, use }: JoinUnit): Promise<ChangeResult> {
  for (let tries = 1; ; tries += 1) {
    const result = await use(await issue());
    if (result.outcome !== 'not-done') return result;
    if (tries === UNIT_TRIES) {
      throw ApplicationFailure.create({
        type: 'STATE_DIVERGED',
        nonRetryable: true,
        message: `The activation token could not be used ${UNIT_TRIES} times in a row. The last one: ${result.observed}.`,
        details: [
          {
            observed: result.observed,
            needed: 'an active node that stays active and takes the token',
            next: 'Find out why the secondary does not take it, then retry: the id of an unused token is revoked first.',
          },
        ],
      });
    }
  }
}
