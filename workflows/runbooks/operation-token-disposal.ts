import { deleteProvidedToken, deleteRecordedTokens, forgetOrphans } from '../../src/moves/records';
import type { LedgerDisposal, LedgerToken } from '../../activities/tokens/operation-token-disposal';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { approvePlan } from '../procedures/approved-plan';
import { tokensFromPeople } from '../procedures/operation-tokens';
import type { Approvals } from '../engine/approvals';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';
import { failOver } from './dr-failover';

/**
 * Works through the generated tokens in the record: deletes each one and proves that the cluster refuses it. A token that
 * cannot be deleted now, or that nobody holds, is listed with who can end it and when. With `forget`, orphans are removed
 * from the record as people approved.
 */
export const operationTokenDisposal = runbook('operationTokenDisposal', dispose, { failOver });

type Disposed = LedgerToken &
  Pick<LedgerDisposal, 'text' | 'next'> & { readonly outcome: LedgerDisposal['state'] | 'skipped' };

async function dispose(run: Run, input: InputOf<'operationTokenDisposal'>): Promise<Ending> {
  // 1. What does the record hold, and which clusters can delete tokens now?
  const approved = await approvePlan(run, {
    input,
    assess: (call) => call.assessOperationTokenDisposal({ input }),
    gateIfNeeded: 'ceremony',
  });
  if ('outcome' in approved) return approved;
  const { provided } = input;
  if (provided !== undefined) return disposeProvided(run, input, provided, approved.approvals.authority.plan.digest);

  // 2. One cluster after the other. A refusal by one does not stop the rest.
  run.state.enterPhase('working');
  const { tokens } = approved.route;
  const disposed: Disposed[] = [];
  for (const cluster of new Set(tokens.map((token) => token.cluster))) {
    const ofCluster = tokens.filter((token) => token.cluster === cluster);
    disposed.push(...(await disposeOn(run, input, approved.approvals, cluster, ofCluster)));
  }

  // 3. What is left to do.
  run.state.enterPhase('finishing');
  return {
    outcome: 'completed',
    leftToDo: disposed
      .filter(({ outcome }) => outcome !== 'deleted' && outcome !== 'forgotten')
      .map(({ cluster, workflowId, runId, text, next }) =>
        `The token of ${cluster} made by ${workflowId} (run ${runId}): ${text}. ${next ?? ''}`.trim(),
      ),
    result: { deleted: disposed.filter(({ outcome }) => outcome === 'deleted').length, tokens: disposed },
  };
}

/** A token that a person holds. They give it as any run is given tokens: sealed to its key. */
async function disposeProvided(
  run: Run,
  { deployment, reason, requestedBy = 'unknown' }: InputOf<'operationTokenDisposal'>,
  cluster: string,
  inputDigest: string,
): Promise<Ending> {
  const uses = ['dr.operation-token.delete'] as const;
  const people = tokensFromPeople(run, 'provided', {
    ...{ deployment, runbook: 'operationTokenDisposal', reason, requestedBy, inputDigest },
    targets: [{ cluster, uses }],
  });
  run.onEnd(() => people.abandon());
  run.state.enterPhase('waiting-for-people');
  await people.ready();
  const token = await people.generate(cluster, uses);
  run.state.enterPhase('working');
  // A token that the cluster already refuses is dead, or not one of its own: there is nothing to delete.
  const isAlive = token !== undefined && (await people.takes(cluster));
  const disposed = isAlive
    ? await run.skippableStep(
        deleteProvidedToken(cluster),
        'it stays valid, sealed in the record for the next start',
        (call) => call.deleteOperationTokens({ deployment, tokens: [token] }),
      )
    : undefined;
  run.state.enterPhase('finishing');
  await people.close();
  const [state] = disposed?.disposals ?? [];
  const outcome = state?.state ?? (isAlive ? 'skipped' : 'refused');
  const left = {
    refused: `${cluster} refused the token that was given, before anything was deleted: it is no longer valid, or another cluster issued it.`,
    skipped: `The token of ${cluster} that was given is still valid, sealed in the record: its deletion was skipped. Start operationTokenDisposal again.`,
  };
  const unproven = `The token of ${cluster} that was given is not proven deleted (${state?.text}). Start operationTokenDisposal again.`;
  return {
    outcome: 'completed',
    leftToDo: outcome === 'deleted' ? [] : [outcome === 'refused' || outcome === 'skipped' ? left[outcome] : unproven],
    result: { deleted: outcome === 'deleted' ? 1 : 0, provided: cluster, outcome },
  };
}

async function disposeOn(
  run: Run,
  { deployment, forget }: InputOf<'operationTokenDisposal'>,
  approvals: Approvals,
  cluster: string,
  tokens: readonly LedgerToken[],
): Promise<Disposed[]> {
  const results = new Map<string, LedgerDisposal>();
  await run.skippableStep(
    forget ? forgetOrphans(cluster) : deleteRecordedTokens(cluster),
    forget ? 'they stay in the record, for the next start' : 'they stay valid, sealed in the record for the next start',
    async (call) => {
      for (const { id } of tokens) {
        // A retry covers only what is not settled yet.
        if (results.has(id)) continue;
        const token = { deployment, cluster, entry: id };
        const disposal = forget
          ? await approvals.begin('ceremony', (authority) => call.forgetLedgerToken({ ...token, authority }))
          : await call.disposeLedgerToken(token);
        results.set(id, disposal);
      }
      return results;
    },
  );
  return tokens.map((token) => {
    const { state, text, next } = results.get(token.id) ?? { state: 'skipped', text: 'skipped' };
    return { ...token, outcome: state, text, ...(next === undefined ? {} : { next }) };
  });
}
