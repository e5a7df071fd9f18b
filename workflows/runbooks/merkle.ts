import { checkTree, checkTreeAfter, checkTreeBefore, reindexing } from '../../src/moves/records';
import type { ReindexRoute } from '../../activities/plans/merkle';
import type { MerkleCheckResult } from '../../activities/merkle/trees';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { approvePlan } from '../procedures/approved-plan';
import { stepFailure } from '../engine/failures';
import type { OperationTokens } from '../procedures/operation-tokens';
import type { Approvals } from '../engine/approvals';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';
import { failOver } from './dr-failover';
import type { RunbookFindings } from '../../src/contracts/report';
import type { StepCalls } from '../engine/activity-calls';

/**
 * Rebuilds the Merkle tree of a DR secondary. The tree is checked first, because a reindex of a sound tree costs time and
 * fixes nothing, and checked again afterwards. Never on a primary, and never while the primary changes.
 */
export const drReindex = runbook('drReindex', reindex, { failOver });

async function reindex(run: Run, input: InputOf<'drReindex'>): Promise<Ending> {
  const { deployment, cluster } = input;
  // 1. Read and check. Gate `reindex` is open while the key holders are asked.
  const approved = await approvePlan(run, {
    input,
    assess: (call, again) => call.assessDrReindex({ input, ...again }),
    gate: 'reindex',
    tokens: ({ tokenSource }) => ({
      source: tokenSource,
      targets: [{ cluster, uses: ['dr.merkle-check', 'dr.reindex', 'dr.operation-token.delete'] }],
    }),
  });
  if ('outcome' in approved) return approved;
  const { tokens, route } = approved;

  // 2. Would a reindex help?
  const before = await run.step(checkTreeBefore(cluster), await probing(tokens, deployment, cluster));
  const refusal = refusalOf(input, route, before);
  if (refusal) {
    run.state.enterPhase('finishing');
    await tokens.dispose();
    return { outcome: 'refused', failure: refusal, result: { before: merkleFacts(before) } };
  }

  // 3. Start the reindex, and follow it to its end however long it takes.
  run.state.enterPhase('working');
  const reindexed = await carryOut(run, input, route, approved.approvals, tokens);

  // 4. Did it help?
  const unknown = 'unknown whether the reindex helped';
  const after = await run.skippableStep(checkTreeAfter(cluster), unknown, await probing(tokens, deployment, cluster));

  // 5. Delete the tokens of this run.
  run.state.enterPhase('finishing');
  await tokens.dispose();
  return {
    outcome: 'completed',
    leftToDo: leftToDo(input, after),
    result: { before: merkleFacts(before), reindex: reindexed, after: merkleFacts(after) },
  };
}

/** A sound tree is not reindexed. */
function refusalOf({ force }: InputOf<'drReindex'>, route: ReindexRoute, { verdict, text }: MerkleCheckResult) {
  if (force || verdict === 'corrupted' || route.corruptedByStatus) return undefined;
  return stepFailure('PRECONDITION_FAILED', `${text} A reindex would not help; none was started.`, {
    observed: 'sound',
    needed: 'a corrupted tree, or "force": true',
    next: 'A reindex does not fix lag or a broken connection. To reindex anyway, start again with {"force": true}.',
  });
}

/** One step. If it parks, `retry` reads the state first, follows a reindex that is under way, and restarts one that was lost. */
async function carryOut(
  run: Run,
  { deployment, cluster, diff, force, skipFlush }: InputOf<'drReindex'>,
  { epochBefore }: ReindexRoute,
  approvals: Approvals,
  tokens: OperationTokens,
) {
  const { left } = run.state;
  const { step, ifUnknown, done } = reindexing(cluster);
  await tokens.of(cluster);
  const result = await run.step(step, async (call) => {
    const options = { diff, force, skipFlush };
    // The check before may have taken hours.
    await approvals.begin('reindex', async (authority) => {
      const token = await tokens.of(cluster);
      const order = () => call.startDrReindex({ deployment, cluster, token, authority, options, epochBefore });
      return left.during(REINDEX, ifUnknown, order, done);
    });
    return call.followDrReindex({ deployment, cluster, epochBefore });
  });
  left.settle(REINDEX);
  return result;
}

const REINDEX = 'reindex under way';

function leftToDo({ cluster, skipFlush }: InputOf<'drReindex'>, after: MerkleCheckResult | undefined): string[] {
  return [
    ...(skipFlush
      ? [
          `Do not kill a node of ${cluster} until the flush is done. Its server log shows that; its status does not. A clean shutdown flushes.`,
        ]
      : []),
    ...(after?.verdict === 'corrupted'
      ? [
          `After the reindex: ${after.text} Reindex with {"diff": true} to find out what is wrong, or set ${cluster} up again from scratch. Ask the vendor before you reindex the primary.`,
        ]
      : []),
  ];
}

/**
 * The check of the Merkle tree of a DR secondary, as the body of a step; its findings say what to do about the verdict. The
 * run must have asked for tokens with the use `dr.merkle-check`. A token that has to be generated is generated before.
 */
async function probing(tokens: OperationTokens, deployment: string, cluster: string) {
  await tokens.of(cluster);
  return async (call: StepCalls) => call.probeMerkleTree({ deployment, cluster, token: await tokens.of(cluster) });
}

/** A check as the result of a run keeps it. Its findings are among the findings of the report. */
function merkleFacts(result: MerkleCheckResult | undefined): RunbookFindings {
  if (!result) return { verdict: 'skipped' };
  const { findings, checkedAt, ...facts } = result;
  void findings;
  return { ...facts, checkedAt: new Date(checkedAt).toISOString() };
}

/**
 * Whether the Merkle tree of a DR secondary is sound: a plain verdict, with the damage by subtree, page and subpage. It
 * changes nothing and needs no approval, but it needs a token for DR operations.
 */
export const merkleCheck = runbook('merkleCheck', check);

async function check(run: Run, input: InputOf<'merkleCheck'>): Promise<Ending> {
  const { deployment, cluster } = input;
  // 1. Is it a DR secondary that is not being reindexed, and where does the token come from?
  const approved = await approvePlan(run, {
    input,
    assess: (call, again) => call.assessMerkleCheck({ input, ...again }),
    tokens: ({ tokenSource }) => ({
      source: tokenSource,
      targets: [{ cluster, uses: ['dr.merkle-check', 'dr.operation-token.delete'] }],
    }),
  });
  if ('outcome' in approved) return approved;
  const { tokens } = approved;

  // 2. The check itself, which takes as long as the service takes.
  const verdict = await run.step(checkTree(cluster), await probing(tokens, deployment, cluster));

  // 3. Delete the tokens of this run.
  run.state.enterPhase('finishing');
  await tokens.dispose();
  return { outcome: 'completed', result: { merkle: merkleFacts(verdict) } };
}
