import { setTimeout as delay } from 'node:timers/promises';
import type { RunbookActivities, TokenDisposal } from '../src/contracts/activities';
import type { OperationTokenReference } from '../src/contracts/ceremony';
import type { Finding } from '../src/contracts/run-facts';
import type { Sealed } from '../src/contracts/sealed';
import { isRunbookError } from '../src/errors';
import { openValue } from '../src/secrets';
import type { ActivityDependencies } from './dependencies';
import { readDr } from './dr-roles';
import type { ClusterAccess, Clusters } from './support/clusters';
import type { Execution } from './support/execution';
import { executeChange } from './support/execution';
import { readClusterId } from './support/operation-token';
import { CHANGE_TIMEOUT_MS } from './support/read-act-confirm';
import type { LedgerEntry } from './support/token-ledger';
import { TokenLedger } from './support/token-ledger';

const TRIES = 4;
/** After an answer that proves nothing; doubles with each try. */
const PAUSE_MS = 500;
/** As {@link PAUSE_MS}, where the cluster restarts or chooses another leader. */
const RESTART_PAUSE_MS = 1_000;
const REFUSALS: ReadonlySet<string> = new Set(['PERMISSION_DENIED', 'BAD_REQUEST']);

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
    // An answer was lost here, or with an attempt before this one: the token may be dead already.
    let mayBeDead = execution.doubt.mayHaveSent;
    let last = 'no clear answer';
    for (let tries = 1; tries <= TRIES; tries += 1) {
      execution.throwIfCancelled();
      let pauseMs = PAUSE_MS;
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
          const mode = await modeOf(access, signal);
          if (mode !== undefined && mode !== 'secondary')
            return { cluster, state: 'kept', text: `${cluster} is ${mode} and refuses deletion (${error.code})` };
          if (!REFUSALS.has(error.code)) return { cluster, state: 'unproven', text: error.code };
          if (accepted) return { cluster, state: 'deleted', text: 'deleted, and refused afterwards' };
          // A node that restarts refuses living tokens too: only a refusal that stays counts, and only after a deletion.
          if (tries === TRIES && mayBeDead)
            return { cluster, state: 'deleted', text: 'its deletion lost its answer, and it is refused since' };
          last = `refused (${error.code}) without a deletion before`;
        } else {
          last = accepted ? 'deleted, and no clear answer since' : 'no clear answer';
          pauseMs = Math.max(error.retryAfterMs ?? 0, RESTART_PAUSE_MS);
        }
      }
      if (tries < TRIES) await delay(pauseMs * 2 ** (tries - 1), undefined, { signal });
    }
    return { cluster, state: 'unproven', text: last };
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'REQUEST_CANCELLED') throw error;
    return { cluster, state: 'unproven', text: `${error.code}: ${error.message}` };
  }
}

/** The cluster's DR mode; undefined where it cannot be read now. */
async function modeOf(access: ClusterAccess, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await readDr(access, signal)).mode;
  } catch (error) {
    if (!isRunbookError(error) || !error.retryable) throw error;
    return undefined;
  }
}
