import { nextCommandOf } from '../../src/contracts/next-commands';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { inParallel } from '../engine/failures';
import { rolesOf } from '../engine/left-to-do';
import type { Run } from '../engine/run';

/** A kind of replication in a sentence. */
export function kindName(kind: ReplicationKind): string {
  return kind === 'dr' ? 'DR' : 'performance';
}

/** The call that tells the role of a cluster. */
export function statusOf(kind: ReplicationKind): string {
  return `sys/replication/${kind}/status`;
}

/** Under what it is left to do that a secondary follows its primary. */
export const followingOf = (secondary: string) => `following ${secondary}`;

/** Under what it is left to do to look whether a secondary was pointed at a primary. */
export const pointingOf = (secondary: string) => `pointing ${secondary}`;

/** Under what it is left to do that a former primary is fenced, or not any more. */
export const fenceOf = (cluster: string) => `fence of ${cluster}`;

/** What is left to do where nobody knows what became of a promotion. */
export function promotionInDoubt(kind: ReplicationKind, cluster: string, other: string, keep = ''): string {
  return `The promotion of ${cluster} was under way and its outcome was not recorded: read ${statusOf(kind)} of ${other} and ${cluster} first${keep}. Only one of them may be ${kind === 'dr' ? 'primary' : 'performance primary'}.`;
}

/** The command that ends a role. */
export function teardownCommand(deployment: string, kind: ReplicationKind, cluster: string): string {
  const reason = `${cluster} is to have no ${kindName(kind)} replication`;
  return `\`${nextCommandOf.start('replicationTeardown', { deployment, kind, cluster, reason })}\``;
}

/** How a run that changed something ends: nothing of ours stays behind, and the report shows who has which role now. */
export async function finishRun(
  run: Run,
  deployment: string,
  tokens?: { readonly dispose: () => Promise<void> },
): Promise<readonly ClusterObservation[]> {
  run.state.enterPhase('finishing');
  const [, seen] = await inParallel([
    tokens?.dispose(),
    run.skippableStep('Read the final state', 'the report has no final state', (call) =>
      call.readDeployment({ deployment }),
    ),
  ]);
  return seen?.observations ?? [];
}

/** What clusters said last of who is primary. */
interface LastLook {
  readonly primaries: readonly string[];
  /** Clusters that did not say. */
  readonly silent: readonly string[];
}

/**
 * Reads the roles once more, for a run that ends without knowing that a cluster serves. A failure never holds the end.
 *
 * @param clusters - of one DR set; a deployment may have several, each with its DR primary, but one performance primary
 */
export async function lastLook(
  run: Run,
  deployment: string,
  clusters: readonly string[],
  kind: ReplicationKind = 'dr',
): Promise<LastLook> {
  let seen: readonly ClusterObservation[] = [];
  await run.cleanUp('Read the roles', async (call) => {
    seen = (await call.readDeployment({ deployment })).observations;
  });
  return {
    primaries: seen
      .filter((each) => each[kind]?.mode === 'primary' && (kind === 'performance' || clusters.includes(each.cluster)))
      .map(({ cluster }) => cluster),
    silent: clusters.filter((cluster) => !seen.some((each) => each.cluster === cluster && each[kind])),
  };
}

/** A run that ends without knowing that a cluster serves. */
interface EndedWithoutPrimary {
  readonly deployment: string;
  readonly kind: ReplicationKind;
  /** Who may be primary. */
  readonly clusters: readonly string[];
  /** How it ended, such as `The failover ended`. */
  readonly ended: string;
  /** What is to be done where some say to be primary, beside promoting nothing. */
  readonly seeTo: (primaries: string) => string;
  /** What is to be done where none does. */
  readonly otherwise: string;
}

/**
 * Who said last to be primary, never what is hoped: the worst of the run's findings, and the first that is left to do.
 *
 * @returns the clusters that said so
 */
export async function tellWhoIsPrimary(
  run: Run,
  { deployment, kind, clusters, ended, seeTo, otherwise }: EndedWithoutPrimary,
): Promise<readonly string[]> {
  const { primaries, silent } = await lastLook(run, deployment, clusters, kind);
  const role = kind === 'dr' ? 'primary' : 'performance primary';
  const unheard = silent.join(' and ');
  const noAnswer = unheard === '' ? '' : `; ${unheard} did not answer`;
  const keptApart = unheard === '' ? '' : `, and keep clients away from ${unheard} until seen to be no primary`;
  const [code, text, next] =
    primaries.length > 0
      ? [
          'ended-early',
          `${ended}; ${primaries.join(' and ')} said to be ${role}${noAnswer}.`,
          `Promote nothing${keptApart}. ${seeTo(primaries.join(' and '))}`,
        ]
      : [
          kind === 'dr' ? 'no-primary' : 'no-performance-primary',
          `${ended} with no cluster seen as ${role}${noAnswer}.`,
          otherwise,
        ];
  // What was seen counts more than what was done.
  if (unheard === '' || primaries.length > 0) run.state.left.settle(rolesOf(kind));
  run.state.finding({ severity: 'critical', code, text, next });
  run.state.left.add(`${text} ${next}`, `roles ${code}`);
  return primaries;
}
