import { FINAL_STATE } from '../../src/moves/every-run';
import { READ_ROLES } from '../../src/moves/tokens';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { inParallel } from '../engine/failures';
import { rolesOf } from '../engine/left-to-do';
import type { Run } from '../engine/run';

/** Key of the left-to-do line that a secondary follows its primary. */
export const followingOf = (secondary: string) => `following ${secondary}`;

/** Key of the left-to-do line to check whether a secondary was pointed at a primary. */
export const pointingOf = (secondary: string) => `pointing ${secondary}`;

/** Key of the left-to-do line about the fence of a former primary. */
export const fenceOf = (cluster: string) => `fence of ${cluster}`;

/** How a run that changed something ends: its tokens and keys are deleted, and the report shows the role of each cluster now. */
export async function finishRun(
  run: Run,
  deployment: string,
  tokens?: { readonly dispose: () => Promise<void> },
): Promise<readonly ClusterObservation[]> {
  run.state.enterPhase('finishing');
  const [, seen] = await inParallel([
    tokens?.dispose(),
    run.skippableStep(FINAL_STATE, 'the report has no final state', (call) => call.readDeployment({ deployment })),
  ]);
  return seen?.observations ?? [];
}

/** Which clusters reported last that they are primary. */
interface FinalRoles {
  readonly primaries: readonly string[];
  /** Clusters that did not report a role. */
  readonly silent: readonly string[];
}

/**
 * Reads the roles once more, for a run that ends without knowing that a cluster serves. A failure never delays the end.
 *
 * @param clusters - of one DR set; a deployment may have several sets, each with a DR primary, but one performance primary
 */
export async function readFinalRoles(
  run: Run,
  deployment: string,
  clusters: readonly string[],
  kind: ReplicationKind = 'dr',
): Promise<FinalRoles> {
  let seen: readonly ClusterObservation[] = [];
  await run.cleanUp(READ_ROLES, async (call) => {
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
  /** The clusters that may be primary. */
  readonly clusters: readonly string[];
  /** How it ended, such as `The failover ended`. */
  readonly ended: string;
  /** What to do if some clusters report that they are primary, besides promoting nothing. */
  readonly ifReported: (primaries: string) => string;
  /** What to do if none does. */
  readonly otherwise: string;
}

/**
 * Reports which clusters said last that they are primary, never what is hoped: as the worst finding of the run, and as the
 * first thing that is left to do.
 *
 * @returns the clusters that reported it
 */
export async function reportPrimaries(
  run: Run,
  { deployment, kind, clusters, ended, ifReported, otherwise }: EndedWithoutPrimary,
): Promise<readonly string[]> {
  const { primaries, silent } = await readFinalRoles(run, deployment, clusters, kind);
  const role = kind === 'dr' ? 'primary' : 'performance primary';
  const unheard = silent.join(' and ');
  const noAnswer = unheard === '' ? '' : `; ${unheard} did not answer`;
  const keptApart = unheard === '' ? '' : `, and keep clients away from ${unheard} until confirmed not to be primary`;
  const [code, text, next] =
    primaries.length > 0
      ? [
          'ended-early',
          `${ended}; ${primaries.join(' and ')} reported being ${role}${noAnswer}.`,
          `Do not promote a cluster${keptApart}. ${ifReported(primaries.join(' and '))}`,
        ]
      : [
          kind === 'dr' ? 'no-primary' : 'no-performance-primary',
          `${ended} with no cluster confirmed as ${role}${noAnswer}.`,
          otherwise,
        ];
  // What was seen outranks what was done.
  if (unheard === '' || primaries.length > 0) run.state.left.settle(rolesOf(kind));
  run.state.finding({ severity: 'critical', code, text, next });
  run.state.left.add(`${text} ${next}`, `roles ${code}`);
  return primaries;
}
