import type { InputOf } from '../../src/contracts/runbook-inputs';
import { approvePlan } from '../procedures/approved-plan';
import { checkMerkle, merkleFacts } from './dr-reindex';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';

/**
 * Whether the Merkle tree of a DR secondary is sound: a plain verdict with the damage by subtree, page and subpage. It
 * changes nothing and asks no approval, but needs a token for DR operations.
 */
export const merkleCheck = runbook('merkleCheck', check);

async function check(run: Run, input: InputOf<'merkleCheck'>): Promise<Ending> {
  const { deployment, cluster } = input;
  // 1. Is it a DR secondary that is not being reindexed, and where does the token come from?
  const approved = await approvePlan(run, {
    input,
    assess: (call, again) => call.assessMerkleCheck({ input, ...again }),
    gate: () => undefined,
    tokens: ({ tokenSource }) => ({
      source: tokenSource,
      targets: [{ cluster, uses: ['dr.merkle-check', 'dr.operation-token.delete'] }],
    }),
  });
  if ('outcome' in approved) return approved;
  const { tokens } = approved;

  // 2. The check itself, which takes as long as the service takes.
  const verdict = await checkMerkle(run, tokens, deployment, cluster);

  // 3. Nothing of ours stays behind.
  run.state.enterPhase('finishing');
  await tokens.dispose();
  return { outcome: 'completed', result: { merkle: merkleFacts(verdict) } };
}
