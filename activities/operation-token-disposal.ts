import { setTimeout as delay } from 'node:timers/promises';
import type { RunbookActivities, TokenDisposal } from '../src/contracts/activities';
import type { OperationTokenReference } from '../src/contracts/ceremony';
import type { Finding } from '../src/contracts/run-facts';
import type { Sealed } from '../src/contracts/sealed';
import { isRunbookError } from '../src/errors';
import { openValue } from '../src/secrets';
import type { ActivityDependencies } from './dependencies';
import { readDr } from './dr-roles';
import type { Clusters } from './support/clusters';
import type { Execution } from './support/execution';
import { executeChange } from './support/execution';
import { readClusterId } from './support/operation-token';
import { CHANGE_TIMEOUT_MS } from './support/read-act-confirm';
import type { LedgerEntry } from './support/token-ledger';
import { TokenLedger } from './support/token-ledger';

const TRIES = 4;
/** After an unclear answer, growing with each. */
const PAUSE_MS = 300;

/** Deletes generated operation tokens and proves that they are refused afterwards (interface 4.1: `operation-token/delete`). */
export function createOperationTokenDisposalActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Pick<RunbookActivities, 'deleteOperationTokens'> {
  const ledger = new TokenLedger(dependencies.ledgerDirectory);
  return {
    deleteOperationTokens: executeChange(async ({ deployment, tokens }, execution) => {
      const disposals: TokenDisposal[] = [];
      const findings: Finding[] = [];
      const known = (await ledger.open()).filter(
        (entry) => entry.deployment === deployment && entry.ns === execution.run.ns && entry.wid === execution.run.wid,
      );
      const asked = tokens.flatMap((token) => (token.source === 'sealed' ? [token] : []));
      // Earlier runs may have left a token behind that could not be deleted then: it can be now.
      const left = known
        .filter((entry) => entry.sealed !== undefined && !asked.some((token) => token.value === entry.sealed))
        .map((entry) => ({
          source: 'sealed' as const,
          cluster: entry.cluster,
          value: entry.sealed as Sealed<'operation-token'>,
        }));
      for (const token of [...asked, ...left]) {
        const disposal = await deleteOne(dependencies, clusters, deployment, token, execution);
        const entry = known.find((each) => each.sealed === token.value);
        if (entry)
          await ledger.write({
            ...entry,
            state: ledgerState(disposal),
            at: new Date().toISOString(),
            ...(disposal.state === 'deleted' ? { sealed: undefined } : {}),
          });
        if (!left.includes(token) || disposal.state === 'deleted') disposals.push(disposal);
        if (disposal.state === 'unproven') {
          findings.push({
            severity: 'critical',
            code: 'token-not-proven-dead',
            text: `The operation token of ${disposal.cluster} is not proven to be dead: ${disposal.text}`,
            next: `It is sealed in the ledger. The next run on ${deployment} deletes it; or delete it by hand with operation-token/delete.`,
          });
        } else if (disposal.state === 'kept' && !left.includes(token)) {
          findings.push({
            severity: 'warning',
            code: 'token-kept',
            text: `The operation token of ${disposal.cluster} could not be deleted: ${disposal.text}`,
            next: `It is kept sealed in the ledger and deleted by the next run in which ${disposal.cluster} is a DR secondary.`,
          });
        }
      }
      return { disposals, findings };
    }),
  };
}

function ledgerState(disposal: TokenDisposal): LedgerEntry['state'] {
  if (disposal.state === 'deleted') return 'deleted';
  return disposal.state === 'kept' ? 'kept' : 'alive';
}

async function deleteOne(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  deployment: string,
  token: Extract<OperationTokenReference, { source: 'sealed' }>,
  execution: Execution,
): Promise<TokenDisposal> {
  const { cluster } = token;
  const { signal, run } = execution;
  const access = clusters.of(deployment, cluster);
  try {
    const clusterId = await readClusterId(access, signal);
    const drOperationToken = await openValue(dependencies.sealKeyring, run, token.value, {
      kind: 'operation-token',
      cluster,
      clusterId,
      use: 'dr.operation-token.delete',
      forDeletion: true,
    });
    let accepted = false;
    for (let tries = 1; tries <= TRIES; tries += 1) {
      execution.throwIfCancelled();
      try {
        await access.client.dr.secondary.deleteOperationToken(
          { drOperationToken },
          { signal, timeoutMs: CHANGE_TIMEOUT_MS },
        );
        accepted = true;
        // Once more, on purpose: a dead token is refused, which is the proof.
      } catch (error) {
        if (!isRunbookError(error)) throw error;
        if (error.outcomeKnown && !error.retryable) {
          const dr = await readDr(access, signal);
          if (dr.mode !== 'secondary')
            return { cluster, state: 'kept', text: `${cluster} is ${dr.mode} and refuses deletion (${error.code})` };
          if (accepted || error.code === 'PERMISSION_DENIED' || error.code === 'BAD_REQUEST') {
            return {
              cluster,
              state: 'deleted',
              text: accepted ? 'deleted, and refused afterwards' : 'refused: it was dead already',
            };
          }
          return { cluster, state: 'unproven', text: error.code };
        }
        execution.progress(`${error.code} at ${cluster}`);
        // A restart or a leader change is over in a moment.
        if (tries < TRIES) await delay(error.retryAfterMs ?? PAUSE_MS * tries, undefined, { signal });
      }
    }
    return { cluster, state: 'unproven', text: accepted ? 'still accepted after its deletion' : 'no clear answer' };
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'REQUEST_CANCELLED') throw error;
    return { cluster, state: 'unproven', text: `${error.code}: ${error.message}` };
  }
}
