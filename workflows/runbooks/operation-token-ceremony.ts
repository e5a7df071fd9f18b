import type { OperationTokenCeremonyInput } from '../../src/contracts/runbook-inputs';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import { tokensFromPeople } from '../procedures/operation-tokens';
import { awaitWindow } from '../engine/approvals';
import { stepFailure } from '../engine/failures';
import type { Run } from '../engine/run';
import type { Ending, RunbookResult } from '../engine/runbook';
import { executeRunbook } from '../engine/runbook';

/** One DR operation token for one cluster, as a run of its own: the block that every other runbook uses, alone. */
export async function operationTokenCeremony(input: unknown): Promise<RunbookResult> {
  return executeRunbook<OperationTokenCeremonyInput>(
    {
      name: 'operationTokenCeremony',
      body: generate,
    },
    input,
  );
}

async function generate(run: Run, input: OperationTokenCeremonyInput): Promise<Ending> {
  const { deployment, cluster, uses, reason } = input;
  return run.abortable(async () => {
    // 1. Is it a DR secondary, is its slot free, do the holders suffice?
    const assessed = await run.step(
      'Read and check the cluster',
      (call) => call.assessCeremony({ deployment, cluster, uses }),
      { onFailure: 'throw' },
    );
    run.state.learnSite(assessed.site);
    if (input.dryRun) return { outcome: 'planned' };
    const failed = assessed.preconditions.filter((each) => each.verdict === 'fail');
    if (failed.length > 0) {
      const lines = failed.map((each) => `${each.name}: observed ${each.observed}, needed ${each.needed}`);
      return {
        outcome: 'refused',
        failure: stepFailure('PRECONDITION_FAILED', `Nothing was touched. ${lines.join('; ')}`),
      };
    }

    // 2. Ask the holders.
    const ceremony = tokensFromPeople(run, 'ceremony', {
      deployment,
      runbook: 'operationTokenCeremony',
      reason,
      requestedBy: input.requestedBy ?? 'unknown',
      targets: [{ cluster, uses: [...new Set([...uses, 'dr.operation-token.delete' as const])] }],
      inputDigest: `${deployment}/${cluster}/${uses.join('+')}`,
    });
    run.onEnd(() => ceremony.abandon());
    run.state.enterPhase('waiting-for-people');
    await ceremony.ready();
    await ceremony.collect();
    await awaitWindow(run, input.window);

    // 3. One burst; the token stays sealed in the result of this step and in the ledger.
    run.state.enterPhase('preparing');
    let leftOver: readonly OperationTokenReference[] | undefined;
    // Stopped from here on, nobody wants it, and it has no lifetime; one that was just made is in the ledger alone.
    run.onEnd(async () => {
      if (!leftOver) return;
      const tokens = leftOver;
      await run.cleanUp('Delete the operation tokens', async (call) => {
        await call.deleteOperationTokens({ deployment, tokens });
      });
    });
    leftOver = [];
    const made = await ceremony.generate(cluster, [...new Set([...uses, 'dr.operation-token.delete' as const])]);
    if (made) leftOver = [made];

    // 4. The keys are not needed any more.
    run.state.enterPhase('finishing');
    await ceremony.close();
    leftOver = undefined;
    return {
      outcome: 'completed',
      leftToDo: [
        `The operation token of ${cluster} has no lifetime: use it and delete it. It is sealed in this run and listed in the record.`,
      ],
    };
  });
}
