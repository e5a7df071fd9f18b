import type { Authority, OnCluster } from '../../src/contracts/activities';
import type { KeptToken, Sealed } from '../../src/contracts/ceremony';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { GatedOperation } from '../../src/contracts/plan';
import { RunbookError, orElse } from '../../src/errors';
import { openValue } from '../../src/keys';
import { verifyOneOf, verifyOperation } from '../approvals/authority';
import type { LedgerEntry } from '../ceremony/token-ledger';
import { ledgerOf, runOf, isOfSameRun, isReserved } from '../ceremony/token-ledger';
import { currentExecution } from '../execution';
import { ANSWER_BUDGET_MS, awaitIdentity, sealOperationToken } from './operation-token';

/** What a plan that takes a kept token allows. */
const TAKES: readonly GatedOperation[] = ['operation-token.take', 'operation-token.take-for-failover'];

/**
 * A token that the record keeps for a run such as this one; what the run itself took already is told in the same words. Where
 * the record cannot be read the holders are asked: a promotion is not held back by that.
 *
 * @returns `why` where the record does not tell
 */
export async function keptTokenFor(
  deployment: string,
  { cluster, clusterId }: ClusterObservation,
  paths: readonly string[],
  marginMs: number,
): Promise<{ readonly kept?: KeptToken; readonly why?: string }> {
  const execution = currentExecution();
  const uses = paths.map((path) => `dr.${path.split('/').at(-1) ?? ''}`);
  const own = { ...execution.run, cluster };
  const entries = await ledgerOf(execution)
    .all(deployment)
    .catch(orElse(execution.signal, () => undefined));
  if (entries === undefined)
    return { why: `The record cannot be read: whether it keeps an operation token of ${cluster} is not known.` };
  const fits = (entry: LedgerEntry) =>
    entry.cluster === cluster &&
    entry.clusterId === clusterId &&
    uses.every((use) => entry.kept?.uses.some((each) => each === use)) &&
    (isOfSameRun(entry, own) || isReserved(entry, Date.now() + marginMs));
  for (const entry of entries.filter(fits)) {
    const { id, kept } = entry;
    // A run that is open may still be stopped, and deletes its token then.
    const isFree = isOfSameRun(entry, own) || (await runOf(execution, entry).catch(() => 'open')) !== 'open';
    if (!kept || !isFree) continue;
    const { at, wid, rid, holders, until } = kept;
    const text = `Operation token for ${cluster} kept since ${at} by ${wid} (run ${rid}), from key shares of ${holders.join(', ')}, until ${until}: no holder is asked for ${cluster}.`;
    return { kept: { cluster, entry: id, text } };
  }
  return {};
}

/**
 * Seals a token that the record keeps again, for this run alone, as its approved plan allows. The record gives it to one run:
 * from then on it is a token of that run, which deletes it, or leaves it to the next disposal.
 */
export async function takeKeptToken(
  input: OnCluster & { readonly entry: string; readonly authority: Authority },
): Promise<{ readonly token: Sealed<'operation-token'>; readonly observed: string }> {
  const { deployment, cluster, entry: id } = input;
  const execution = currentExecution();
  const { clusters, run, sealKeyring } = execution;
  const ledger = ledgerOf(execution);
  const access = clusters.of(deployment, cluster);
  const { clusterId } = await awaitIdentity(access, ANSWER_BUDGET_MS);
  const doing = { on: { cluster, clusterId }, detail: id };
  await verifyOneOf(TAKES.map((operation) => () => verifyOperation(input, { operation, ...doing })));
  const entry = (await ledger.all(deployment)).find((each) => each.id === id && each.cluster === cluster);
  const { kept, sealed } = entry ?? {};
  if (!entry || !kept || sealed === undefined) throw notKept(cluster, 'no such token in the record');
  const observed = `kept since ${kept.at}, made by ${kept.wid}`;
  // An attempt before this one took it, and its answer was lost.
  if (isOfSameRun(entry, { ...run, cluster })) return { token: sealed, observed };
  if (!isReserved(entry)) throw notKept(cluster, `kept until ${kept.until}, now with ${entry.wid} (run ${entry.rid})`);
  const { ns, wid, rid } = entry;
  const use = 'dr.operation-token.delete';
  const bound = { kind: 'operation-token', cluster, clusterId } as const;
  const token = await openValue(sealKeyring, { ns, wid, rid }, sealed, { ...bound, use });
  const mine = await sealOperationToken(bound, kept.uses, token);
  const taken = { ...entry, ns: run.ns, wid: run.wid, rid: run.rid, sealed: mine, at: new Date().toISOString() };
  if (await ledger.settle(entry, taken)) return { token: mine, observed };
  // A late copy of this very attempt may have taken it meanwhile.
  const now = (await ledger.all(deployment)).find((each) => each.id === id && isOfSameRun(each, { ...run, cluster }));
  if (now?.sealed === undefined) throw notKept(cluster, 'another run took it a moment ago');
  return { token: now.sealed, observed };
}

function notKept(cluster: string, observed: string): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', `The record keeps no operation token of ${cluster} for this run.`, {
    ...{ cluster, observed, needed: 'the token that the plan names, taken by no other run' },
    next: 'Abort and start again: the new plan says where the token comes from.',
  });
}
