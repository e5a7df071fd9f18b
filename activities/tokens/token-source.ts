import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { TokenSource, TokenSourceChoice } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { breakGlassWarnings, ceremonyCallsAllowed } from '../ceremony/ceremony-access';
import type { ClusterAccess } from '../clusters';
import { readBatchToken } from './operation-token';
import type { CredentialFacts } from '../checks/switchover-facts';
import { ATTEMPT, batchTokenOn, ceremonyAccess, credentialFacts } from '../checks/switchover-facts';
import { providedPreconditions, providedWarning } from '../checks/provided-rules';
import { batchTokenReady, batchTokenTaken, freeSlotOn, holdersSuffice } from '../checks/switchover-token-rules';

interface TokenSourceRequest {
  readonly deployment: Deployment;
  /** The DR secondary on which the token is used. */
  readonly secondary: ClusterAccess;
  readonly observation: ClusterObservation;
  /** Where the prepared batch token can be looked up; undefined while no primary answers. */
  readonly primary: ClusterAccess | undefined;
  readonly wanted: TokenSourceChoice | undefined;
  /** Paths on which the token needs `update`, such as `sys/replication/dr/secondary/promote`. */
  readonly paths: readonly string[];
  /** The fingerprint of this run's own ceremony, whose attempt is not foreign. */
  readonly ownFingerprint: string | undefined;
  readonly signal: AbortSignal;
}

/**
 * Where the token for a DR operation comes from, and whether that source is ready: the prepared batch token, looked up
 * on the primary, or the key holders. Without a primary nothing can be said of a batch token beforehand: `auto` asks the
 * holders then.
 */
export async function assessTokenSource(request: TokenSourceRequest): Promise<{
  readonly source: TokenSource;
  readonly preconditions: readonly Precondition[];
  /** What the plan says of it. The same each time it is read. */
  readonly warnings: readonly string[];
}> {
  const { deployment, secondary, observation, primary, paths, signal } = request;
  const wanted = request.wanted ?? deployment.ceremony.tokenSource;
  const batch =
    primary && (wanted === 'auto' || wanted === 'batch')
      ? await credentialFacts(primary, () => readBatchToken(secondary), [...paths, ATTEMPT], signal)
      : undefined;
  const source = wanted === 'auto' ? (batch && isReady(batch, deployment) ? 'batch' : 'ceremony') : wanted;
  if (source === 'batch') {
    const taken = await batchTokenOn(secondary, observation, signal);
    return {
      source,
      warnings: [],
      preconditions: [
        ...(batch
          ? batchTokenReady(batch, observation.cluster, deployment, paths)
          : [
              {
                name: 'batch token',
                cluster: observation.cluster,
                observed: 'no primary answers that could look it up',
                needed: 'an orphan batch token that the former primary made',
                verdict: 'not-checkable',
              } as const,
            ]),
        batchTokenTaken(batch ?? { usable: false, capabilities: {} }, observation, taken),
      ],
    };
  }
  if (source === 'provided')
    return {
      source,
      preconditions: providedPreconditions(deployment, observation),
      warnings: [providedWarning(deployment, observation.cluster)],
    };
  const way = await ceremonyAccess(secondary, observation, signal);
  return {
    source,
    preconditions: [
      freeSlotOn(observation, request.ownFingerprint),
      holdersSuffice(observation, deployment),
      ceremonyCallsAllowed(observation.cluster, 'operation-token', observation.version, way),
    ],
    warnings: breakGlassWarnings('operation-token', [observation]),
  };
}

function isReady({ usable, type, ttlSeconds }: CredentialFacts, deployment: Deployment): boolean {
  const livesOn = ttlSeconds === undefined || ttlSeconds * 1000 >= deployment.ceremony.batchMarginMs;
  return usable && type === 'batch' && livesOn;
}
