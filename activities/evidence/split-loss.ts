import type { SplitFacts } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import type { Finding } from '../../src/contracts/run-facts';
import type { WalSample } from '../../src/contracts/wal-samples';

/**
 * Bounds what a former primary wrote and the primary lacks: its WAL index now, less what the primary was seen to have
 * received from it while it was its secondary. It may have received more between its last sample and the split, so that
 * this is a bound from above. A sample tells nothing where the sets differ or the index is not told.
 */
export function splitLoss(
  samples: readonly WalSample[],
  former: string,
  primary: string,
  seen: ReplicationObservation,
): Pick<SplitFacts, 'wal' | 'atMostWalEntries' | 'why'> {
  const { lastWal: wal, setId } = seen;
  if (wal === undefined) return { why: `${former} does not tell its last WAL index` };
  if (samples.length === 0) return { wal, why: 'there are no WAL samples of this deployment from before the split' };
  const before = samples
    .toSorted((a, b) => a.at - b.at)
    .findLast((sample) => {
      const [from, to] = [former, primary].map((name) => sample.clusters.find(({ cluster }) => cluster === name)?.dr);
      return (
        to?.mode === 'secondary' &&
        (to.lastRemoteWal ?? '0') !== '0' &&
        (setId === undefined || to.setId === setId) &&
        (from === undefined || from.mode === 'primary')
      );
    });
  const received = before?.clusters.find(({ cluster }) => cluster === primary)?.dr?.lastRemoteWal;
  if (before === undefined || received === undefined)
    return { wal, why: `no WAL sample shows ${primary} as the secondary of ${former}` };
  const entries = BigInt(wal) - BigInt(received);
  // Below what was received: the index began anew, and the two numbers have nothing to do with each other.
  if (entries < 0n) return { wal, why: `the WAL index of ${former} is lower than what ${primary} received from it` };
  return {
    wal,
    atMostWalEntries: entries.toString(),
    why: `${former} is at WAL ${wal}; ${primary} had received up to ${received} from it at ${new Date(before.at).toISOString()}`,
  };
}

/** What must be said before a former primary joins: what is lost, what it may have broken, what contradicts its fence. */
export function splitFindings(split: {
  readonly former: string;
  readonly primary: string;
  readonly amount: string;
  readonly why: string;
  readonly connected: readonly string[];
}): Finding[] {
  const { former, primary, amount, why, connected } = split;
  return [
    {
      severity: 'warning',
      code: 'writes-after-split-lost',
      text: `What ${former} wrote after ${primary} had become primary is lost when it joins: ${amount}. ${why}.`,
      next: `Compare with what clients of ${former} believe to have written; a dump from before its demotion is the only copy.`,
    },
    {
      severity: 'warning',
      code: 'leases-of-two-primaries',
      text: `While ${former} was active it may have revoked leases, and rotated credentials, that ${primary} had renewed or held meanwhile.`,
      next: `Look for refused credentials behind ${primary} (databases, clouds), and rotate or revoke there what no longer works.`,
    },
    ...(connected.length === 0
      ? []
      : [
          {
            severity: 'critical' as const,
            code: 'former-primary-not-fenced',
            text: `Secondaries were connected to ${former} while ${primary} was primary: ${connected.join(', ')}. They received what ${former} wrote.`,
            next: `Point each of them at ${primary} (secondaryRepointing), and compare their Merkle trees.`,
          },
        ]),
  ];
}
