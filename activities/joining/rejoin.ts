import type { Authority, BetweenClusters, ChangeResult, OfKind, SplitFacts } from '../../src/contracts/activities';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RunbookError } from '../../src/errors';
import type { ReplicationObservation } from '../../src/contracts/observations';
import type { Finding } from '../../src/contracts/run-facts';
import type { WalSample } from '../../src/contracts/wal-samples';
import { verifyOperation } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import { readWalSamples, unattestedSamples } from '../evidence/wal-samples';
import { currentExecution } from '../execution';
import { callHook } from '../hooks/run-hook';
import { connectedTo } from '../checks/replication';
import { demandNoNodePrimary, demandServing } from '../roles/other-side';
import type { RoleOpinions } from '../roles/prove-not-primary';
import { opinionsText } from '../roles/prove-not-primary';
import { awaitClusterId } from '../tokens/operation-token';
import { readBothKinds } from './onboarding-read';

/* A former primary comes back after a failover: `secondary` is the former primary, `primary` the one that serves (facts 8.4). */

/** How long a check waits for standby nodes that tell what was; a read must be over within its time. */
const CHECK_BUDGET_MS = 20_000;
/** What a node says that knows its role; anything else is no word about it. */
const KNOWN_MODES: readonly string[] = ['primary', 'secondary', 'disabled'];

/** A former primary of a kind of replication, and the one that serves. */
type Rejoining = BetweenClusters & OfKind;

/** Bounds what is lost by its joining with the samples of `walSampler`, where there are some: they are of DR replication. */
export async function describeSplit({ deployment, kind, primary, secondary }: Rejoining): Promise<SplitFacts> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const access = clusters.of(deployment, secondary);
  const [seen, known] = await Promise.all([
    readBothKinds(access, signal),
    kind === 'dr' ? readWalSamples(execution, deployment, signal) : { samples: [], unattested: 0 },
  ]);
  const loss =
    kind === 'dr'
      ? splitLoss(known.samples, secondary, primary, seen.dr)
      : { why: 'samples of walSampler bound DR replication only' };
  const amount =
    loss.atMostWalEntries === undefined ? 'how much is unknown' : `at most ${loss.atMostWalEntries} WAL entries`;
  return {
    ...loss,
    observed: `${secondary} wrote after the split: ${amount} (${loss.why})`,
    findings: [
      ...splitFindings({ former: secondary, primary, amount, why: loss.why, connected: connectedTo(kind, seen) }),
      ...unattestedSamples(known),
    ],
  };
}

/**
 * Reads what must hold before the former primary is let out, and after people did it: none of its nodes says primary,
 * its active node says secondary, and the other cluster serves as primary.
 */
export async function checkFormerPrimaryDemoted({
  deployment,
  kind,
  primary,
  secondary,
}: Rejoining): Promise<{ readonly observed: string; readonly at: number; readonly silentNodes: number }> {
  const { clusters } = currentExecution();
  const { demoteMs } = clusters.deployment(deployment).limits;
  const [access, other] = [clusters.of(deployment, secondary), clusters.of(deployment, primary)];
  const said = await requireDemoted(kind, access, other, Math.min(CHECK_BUDGET_MS, demoteMs));
  const silentNodes = said.nodes.filter((mode) => !KNOWN_MODES.includes(mode)).length;
  return { observed: `${secondary}: ${opinionsText(said)}; ${primary} serves`, at: Date.now(), silentNodes };
}

/** The `unfence` hook; refuses while any node of the former primary says that it is primary. */
export async function unfenceFormerPrimary(
  input: Rejoining & { readonly authority: Authority },
): Promise<ChangeResult> {
  const { deployment, kind, primary, secondary } = input;
  const execution = currentExecution();
  const { clusters } = execution;
  const { limits } = clusters.deployment(deployment);
  const [access, other] = [clusters.of(deployment, secondary), clusters.of(deployment, primary)];
  const on = { cluster: secondary, clusterId: await awaitClusterId(access, execution, limits.demoteMs) };
  const successor = { cluster: primary, clusterId: await awaitClusterId(other, execution, limits.demoteMs) };
  const doing = { operation: 'hook.unfence', on, with: successor } as const;
  await verifyOperation(input, doing);
  await requireDemoted(kind, access, other, limits.demoteMs);
  return callHook({ deployment, hook: 'unfence', from: secondary, to: primary });
}

/** The former primary is none, by the word of every node that answers, and the other cluster serves. */
async function requireDemoted(
  kind: ReplicationKind,
  access: ClusterAccess,
  other: ClusterAccess,
  budgetMs: number,
): Promise<RoleOpinions> {
  const { name } = access.entry;
  const said = await demandNoNodePrimary(access, kind, budgetMs);
  if (said.active !== 'secondary') {
    throw new RunbookError('PRECONDITION_FAILED', `It is not proven that ${name} is demoted: it must stay fenced.`, {
      cluster: name,
      observed: opinionsText(said),
      needed: 'its active node says secondary, and no node says primary',
      next: `Look at ${name}; do not unfence it by hand before it says secondary, and fence it again where it is let out.`,
    });
  }
  await demandServing(other, kind, `${name} must stay fenced`);
  return said;
}

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
function splitFindings(split: {
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
      next: `Compare with what clients of ${former} believe to have written; a snapshot from before its demotion is the only copy.`,
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
