import type { Assessment, OnCluster, TokenDisposal } from '../../src/contracts/activities';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import type { Finding } from '../../src/contracts/run-facts';
import type { OperationTokenDisposalInput } from '../../src/contracts/runbook-inputs';
import { ledgerOf } from '../ceremony/alarms';
import { currentExecution } from '../execution';
import { assessDisposal, disposeEntry, disposeSealed, notDeleted } from './ledger-disposal';
import type { DisposalRoute, LedgerDisposal } from './ledger-disposal';
import { deleteToken } from './token-deletion';

/** Deletes generated operation tokens and proves that they are refused afterwards (interface 4.1: `operation-token/delete`). */
export async function deleteOperationTokens(input: {
  readonly deployment: string;
  readonly tokens: readonly OperationTokenReference[];
}): Promise<{ readonly disposals: readonly TokenDisposal[]; readonly findings: readonly Finding[] }> {
  const { deployment, tokens } = input;
  const execution = currentExecution();
  const { clusters } = execution;
  const ledger = ledgerOf(execution);
  const disposals: TokenDisposal[] = [];
  const findings: Finding[] = [];
  const known = (await ledger.open(deployment)).filter(({ wid }) => wid === execution.run.wid);
  const asked = tokens.flatMap((token) => (token.source === 'sealed' ? [token] : []));
  for (const token of asked) {
    const entry = known.find(({ sealed }) => sealed === token.value);
    const disposal = entry
      ? await disposeSealed(execution, clusters, ledger, entry, execution)
      : await deleteToken(execution, clusters, deployment, token, execution.run, execution);
    disposals.push(disposal);
    const of = `The operation token of ${token.cluster}`;
    if (disposal.state !== 'deleted')
      findings.push(notDeleted(disposal, of, `the next run on ${deployment} deletes it`));
  }
  // Earlier runs may have left a token behind that could not be deleted then: it can be now.
  for (const entry of known.filter(
    ({ sealed }) => sealed !== undefined && !asked.some(({ value }) => value === sealed),
  )) {
    const disposal = await disposeSealed(execution, clusters, ledger, entry, execution);
    if (disposal.state === 'deleted') disposals.push(disposal);
    const of = `The operation token of ${entry.cluster}, made by an earlier run,`;
    if (disposal.state === 'unproven')
      findings.push(notDeleted(disposal, of, `the next run on ${deployment} deletes it`));
  }
  return { disposals, findings };
}

/** Reads the record of the deployment. */
export async function assessTokenDisposal(given: {
  readonly input: OperationTokenDisposalInput;
}): Promise<Assessment<DisposalRoute>> {
  const { input } = given;
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const ledger = ledgerOf(execution);
  return assessDisposal(execution, clusters, ledger, input, signal);
}

/** Deletes one token of the record, whichever run of this deployment made it, and proves that it is refused. */
export async function disposeLedgerToken(input: OnCluster & { readonly entry: string }): Promise<LedgerDisposal> {
  const { deployment, cluster, entry } = input;
  const execution = currentExecution();
  const { clusters } = execution;
  const ledger = ledgerOf(execution);
  return disposeEntry(execution, clusters, ledger, { deployment, cluster, id: entry }, execution);
}
