import type { ReadinessPoint, ReadinessResult } from '../../src/contracts/readiness';
import type { WalSample } from '../../src/contracts/observations';
import { walSamplerIdPrefix } from '../../src/contracts/observations';
import { attest } from '../../src/keys';
import type { SealKeyring } from '../../src/keys';

/** Points with a verdict, as `id (cluster) about`, sorted. */
export function pointsOf({ points }: Pick<ReadinessResult, 'points'>, verdict: ReadinessPoint['verdict']): string[] {
  return points
    .filter((point) => point.verdict === verdict)
    .map(pointName)
    .sort();
}

export function pointName({ id, cluster, about }: ReadinessPoint): string {
  return `${id}${cluster === undefined ? '' : ` (${cluster})`} ${about}`;
}

/** A closed run of `walSampler`, attested by a worker. Its samples, one per minute until now, show these lags of west behind east. */
export function closedSampling(keyring: SealKeyring, deployment: string, lags: readonly number[], now = Date.now()) {
  const samples = lags.map((lag, index): WalSample => {
    const replication = { setId: 'set', connected: true };
    return {
      at: now - (lags.length - 1 - index) * 60_000,
      clusters: [
        { cluster: 'east', answered: true, dr: { ...replication, mode: 'primary', lastWal: '5000' } },
        {
          cluster: 'west',
          answered: true,
          dr: { ...replication, mode: 'secondary', lastRemoteWal: String(5000 - lag) },
        },
      ],
    };
  });
  const content = { deployment, from: now, to: now, samples };
  const attested = attest(keyring, { deployment, kind: 'wal-samples', time: now }, content);
  return {
    workflowId: `${walSamplerIdPrefix(deployment)}1`,
    runId: `sampling-${lags.join('-')}`,
    result: { result: { ...content, attested } },
  };
}
