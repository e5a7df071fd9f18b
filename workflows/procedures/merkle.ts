import type { MerkleCheckResult } from '../../activities/merkle/trees';
import type { RunbookFindings } from '../../src/contracts/report';
import type { StepCalls } from '../engine/activity-calls';
import type { OperationTokens } from './operation-tokens';
import type { Run } from '../engine/run';

/** Where a check stands in a runbook that checks more than once. */
export interface MerkleChecking {
  /** Ends the step's name, such as `again`. */
  readonly when?: string;
  /** People may skip the check; says what skipping leaves behind. */
  readonly skipEffect?: string;
}

/**
 * Checks the Merkle tree of a DR secondary; findings say what to do about the verdict. The run's tokens must have been
 * asked for with the use `dr.merkle-check` on this cluster.
 *
 * @returns undefined where the check was skipped
 */
export async function checkMerkle(
  run: Run,
  tokens: OperationTokens,
  deployment: string,
  cluster: string,
  { when, skipEffect }: MerkleChecking = {},
): Promise<MerkleCheckResult | undefined> {
  await tokens.of(cluster);
  const name = `Check the Merkle tree of ${cluster}${when === undefined ? '' : ` ${when}`}`;
  const check = async (call: StepCalls) =>
    call.probeMerkleTree({ deployment, cluster, token: await tokens.of(cluster) });
  const options = { note: ({ verdict }: MerkleCheckResult) => verdict };
  return skipEffect === undefined
    ? run.step(name, check, options)
    : run.skippableStep(name, skipEffect, check, options);
}

/** A check as the result of a run keeps it; its findings stand among the findings of the report. */
export function merkleFacts(result: MerkleCheckResult | undefined): RunbookFindings {
  if (!result) return { verdict: 'skipped' };
  const { findings, checkedAt, ...facts } = result;
  void findings;
  return { ...facts, checkedAt: new Date(checkedAt).toISOString() };
}
