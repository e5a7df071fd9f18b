import type { RunbookActivities, TokenDisposal } from '../../src/contracts/activities';
import type { Finding } from '../../src/contracts/run-facts';
import type { Sealed } from '../../src/contracts/sealed';
import type { ActivityDependencies } from '../dependencies';
import type { Clusters } from '../clusters';
import { ledgerOf } from '../ceremony/alarms';
import { execute, executeChange } from '../execution';
import { assessDisposal, disposeEntry } from './ledger-disposal';
import { deleteToken } from './token-deletion';
import { stateAfter } from '../ceremony/token-ledger';

/** Deletes generated operation tokens and proves that they are refused afterwards (interface 4.1: `operation-token/delete`). */
export function createOperationTokenDisposalActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Pick<RunbookActivities, 'deleteOperationTokens' | 'assessTokenDisposal' | 'disposeLedgerToken'> {
  const ledger = ledgerOf(dependencies);
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
        const disposal = await deleteToken(dependencies, clusters, deployment, token, execution.run, execution);
        const entry = known.find((each) => each.sealed === token.value);
        if (entry)
          await ledger.write({
            ...entry,
            state: stateAfter(disposal),
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

    assessTokenDisposal: execute(({ input }, { run, signal }) =>
      assessDisposal(dependencies, clusters, ledger, input, run.ns, signal),
    ),

    disposeLedgerToken: executeChange(({ deployment, cluster, entry }, execution) =>
      disposeEntry(dependencies, clusters, ledger, { deployment, cluster, id: entry }, execution),
    ),
  };
}
