import type { Check } from '../../src/contracts/plan';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { Deployment } from '../../src/inventory';
import type { CredentialFacts } from '../checks/credentials';
import type { Question } from './point';
import { judged } from './point';
import type { ClusterView } from './world';

/**
 * The batch token that is kept for a DR secondary: how long it lives on, since when it is in use, what it may do, and
 * whether it is renewed in time. Where its rotation is in the inventory people rely on it, unless the key holders are
 * always asked: a token without rights, as after its policy was emptied, is red then. Pure.
 */
export function batchTokenPoint(
  { name, drSet }: Pick<ClusterView, 'name' | 'drSet'>,
  { batchTokens, ceremony }: Deployment,
  batch: CredentialFacts,
  rules: readonly Check[],
): ReadinessPoint[] {
  const rotation = Object.hasOwn(batchTokens, drSet) ? batchTokens[drSet] : undefined;
  const question: Question = {
    id: 'batch-token',
    cluster: name,
    source: 'api',
    needed: rotation
      ? `alive, with its rights, renewed at half of its ${seconds(rotation.ttlMs)} s`
      : 'alive, with its rights',
    next: 'Start batchTokenRotation, and see that its Schedule runs. Was the policy emptied on purpose? Then take batch out of tokenSource.',
  };
  const { tokenSource } = ceremony;
  const reliedOn = tokenSource === 'batch' || (rotation !== undefined && tokenSource === 'auto');
  const bad = rules.filter(({ verdict }) => verdict === 'fail');
  const { usable, ttlSeconds, creationTtlSeconds } = batch;
  const told = usable
    ? [
        ttlSeconds === undefined ? 'no end' : `${ttlSeconds} s left`,
        ...(ttlSeconds === undefined || creationTtlSeconds === undefined
          ? []
          : [`made ${Math.max(0, creationTtlSeconds - ttlSeconds)} s ago`]),
        ...(bad.length === 0 ? ['with its rights'] : bad.map((each) => `${each.name}: ${each.observed}`)),
      ].join(', ')
    : `not usable: ${batch.error ?? 'refused'}`;
  if (bad.length > 0) return judged(question, reliedOn ? 'fail' : 'warn', told);
  // Renewed at half its life: with a quarter gone beyond that, the Schedule has not come for a while.
  if (rotation !== undefined && ttlSeconds !== undefined && ttlSeconds * 4 < seconds(rotation.ttlMs))
    return judged(question, 'warn', told, { reason: 'its rotation is overdue: two tokens no longer overlap by half' });
  return judged(question, 'ok', told);
}

function seconds(ms: number): number {
  return Math.round(ms / 1000);
}
