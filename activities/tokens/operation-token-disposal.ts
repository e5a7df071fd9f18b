import type { RunbookActivities, TokenDisposal } from '../../src/contracts/activities';
import type { Finding } from '../../src/contracts/run-facts';
import type { ActivityDependencies } from '../dependencies';
import type { Clusters } from '../clusters';
import { ledgerOf } from '../ceremony/alarms';
import { execute, executeChange } from '../execution';
import { assessDisposal, disposeEntry, disposeSealed, notDeleted } from './ledger-disposal';
import { deleteToken } from './token-deletion';

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
      const known = (await ledger.open(deployment)).filter(({ wid }) => wid === execution.run.wid);
      const asked = tokens.flatMap((token) => (token.source === 'sealed' ? [token] : []));
      for (const token of asked) {
        const entry = known.find(({ sealed }) => sealed === token.value);
        const disposal = entry
          ? await disposeSealed(dependencies, clusters, ledger, entry, execution)
          : await deleteToken(dependencies, clusters, deployment, token, execution.run, execution);
        disposals.push(disposal);
        const of = `The operation token of ${token.cluster}`;
        if (disposal.state !== 'deleted')
          findings.push(notDeleted(disposal, of, `the next run on ${deployment} deletes it`));
      }
      // Earlier runs may have left a token behind that could not be deleted then: it can be now.
      for (const entry of known.filter(
        ({ sealed }) => sealed !== undefined && !asked.some(({ value }) => value === sealed),
      )) {
        const disposal = await disposeSealed(dependencies, clusters, ledger, entry, execution);
        if (disposal.state === 'deleted') disposals.push(disposal);
        const of = `The operation token of ${entry.cluster}, made by an earlier run,`;
        if (disposal.state === 'unproven')
          findings.push(notDeleted(disposal, of, `the next run on ${deployment} deletes it`));
      }
      return { disposals, findings };
    }),

    assessTokenDisposal: execute(({ input }, { signal }) =>
      assessDisposal(dependencies, clusters, ledger, input, signal),
    ),

    disposeLedgerToken: executeChange(({ deployment, cluster, entry }, execution) =>
      disposeEntry(dependencies, clusters, ledger, { deployment, cluster, id: entry }, execution),
    ),
  };
}
