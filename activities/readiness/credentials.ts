import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { CredentialFacts } from '../checks/credentials';
import { credentialFacts } from '../checks/credentials';
import type { Look } from './look';
import { inspect } from './look';
import type { Question, Verdicts } from './point';
import { holds, judged, unread } from './point';
import type { ClusterView, SetView, World } from './world';

/** Seconds for which a credential must live on: at least twice what a run may take. */
const CREDENTIAL_LIFE_SECONDS = 1_800;

/** A path with the capabilities that a runbook needs there. */
interface NeededRight {
  readonly path: string;
  /** All of them; `write` is create or update. */
  readonly capabilities: readonly ('read' | 'write' | 'sudo' | 'delete')[];
}

const write = (path: string): NeededRight => ({ path, capabilities: ['write'] });
const writeAsSudo = (path: string): NeededRight => ({ path, capabilities: ['write', 'sudo'] });

/**
 * What the credential of a DR primary does in a switchover, and that of the cluster that becomes primary in switchover
 * and failover. Tokens are replicated within a DR set: what the primary knows of them holds on its successor.
 */
function neededRights(
  use: 'primary' | 'successor',
  { marker, performanceIds }: { readonly marker: string; readonly performanceIds: readonly string[] },
): readonly NeededRight[] {
  const filters = performanceIds.flatMap((id): NeededRight[] => [
    { path: `sys/replication/performance/primary/paths-filter/${id}`, capabilities: ['read', 'write'] },
    { path: `sys/replication/performance/primary/dynamic-filter/${id}`, capabilities: ['read'] },
  ]);
  return [
    ...(use === 'primary' ? [write('sys/replication/dr/primary/demote')] : []),
    writeAsSudo('sys/replication/dr/primary/secondary-token'),
    write('sys/replication/dr/primary/revoke-secondary'),
    { path: marker, capabilities: ['read', 'write'] },
    write(`${marker}-after`),
    ...(performanceIds.length === 0
      ? []
      : [
          writeAsSudo('sys/replication/performance/primary/secondary-token'),
          write('sys/replication/performance/primary/revoke-secondary'),
          ...filters,
        ]),
  ];
}

/** The credentials of every member of each DR set, asked on its primary by lookup-self and capabilities-self. */
export async function credentials(look: Look, world: World): Promise<ReadinessPoint[]> {
  const points = await Promise.all([
    ...world.sets.flatMap((set) => set.members.map((view) => credentialOf(look, view, set, world))),
    ...world.clusters
      .filter(({ observation }) => observation.performance?.mode === 'secondary')
      .map((view) => repointing(look, view, world)),
  ]);
  return points.flat();
}

/** A performance secondary has tokens of its own: where it does not follow by itself it is re-pointed with one of these. */
function repointing(look: Look, view: ClusterView, { deployment }: World): Promise<ReadinessPoint[]> {
  const question: Question = {
    id: 'credential-repointing',
    cluster: view.name,
    source: 'api',
    needed: 'a token of its own that may point it at the new primary',
    next: `Correct the credential of ${view.name} or its policy: docs/operations.md has it.`,
  };
  const access = look.clusters.of(deployment.name, view.name);
  const rights = ['generate-public-key', 'update-primary'].map((each) =>
    write(`sys/replication/performance/secondary/${each}`),
  );
  return inspect(
    look,
    [question],
    (signal) =>
      credentialFacts(
        access,
        () => access.credential(),
        rights.map(({ path }) => path),
        signal,
      ),
    ({ usable, error, capabilities }) => {
      if (!usable) return judged(question, 'warn', `not usable: ${error ?? 'refused'}`);
      const missing = rights.filter((right) => !grants(capabilities[right.path] ?? [], right));
      return holds(
        question,
        missing.length === 0,
        'warn',
        missing.length === 0 ? 'it may' : `no update on ${missing.map(({ path }) => path).join(' and ')}`,
      );
    },
  );
}

async function credentialOf(look: Look, view: ClusterView, set: SetView, world: World): Promise<ReadinessPoint[]> {
  const { deployment } = world;
  const [primary] = set.primaries;
  const questions = [lifeQuestion(view), rightsQuestion(view)];
  if (primary === undefined)
    return questions.flatMap((question) => unread(question, 'there is no primary that could look the token up'));
  const asked = look.clusters.of(deployment.name, primary.name);
  const own = look.clusters.of(deployment.name, view.name);
  const rights = neededRights(view.part === 'primary' ? 'primary' : 'successor', {
    marker: deployment.marker.path,
    performanceIds: performanceIds(primary, world),
  });
  const paths = rights.map(({ path }) => path);
  return inspect(
    look,
    questions,
    (signal) => credentialFacts(asked, () => own.credential(), paths, signal),
    (facts) => judgeCredential(view, facts, rights),
  );
}

/** IDs of the performance secondaries that a primary of both kinds re-points. */
function performanceIds(primary: ClusterView, { clusters }: World): string[] {
  if (primary.observation.performance?.mode !== 'primary') return [];
  const setId = primary.observation.performance.setId;
  return clusters
    .filter(
      ({ observation }) => observation.performance?.mode === 'secondary' && observation.performance.setId === setId,
    )
    .flatMap(({ observation }) => observation.clusterId ?? []);
}

/** Pure. */
function judgeCredential(view: ClusterView, facts: CredentialFacts, rights: readonly NeededRight[]): ReadinessPoint[] {
  const { usable, error, ttlSeconds, capabilities, type } = facts;
  const otherwise: Verdicts = view.part === 'primary' ? { switchover: 'fail' } : 'fail';
  if (!usable) return judged(lifeQuestion(view), otherwise, `not usable: ${error ?? 'refused'}`);
  const missing = rights.filter((right) => !grants(capabilities[right.path] ?? [], right));
  const life = ttlSeconds === undefined ? 'no end' : `${ttlSeconds} s left`;
  return [
    ...holds(
      lifeQuestion(view),
      ttlSeconds === undefined || ttlSeconds >= CREDENTIAL_LIFE_SECONDS,
      otherwise,
      `${type ?? 'token'}, ${life}`,
    ),
    ...holds(
      rightsQuestion(view),
      missing.length === 0,
      otherwise,
      missing.length === 0
        ? `all ${rights.length} paths`
        : missing
            .map(
              ({ path, capabilities: needed }) =>
                `${path}: ${(capabilities[path] ?? []).join(', ') || 'none'} instead of ${needed.join(', ')}`,
            )
            .join('; '),
    ),
  ];
}

function grants(given: readonly string[], { capabilities }: NeededRight): boolean {
  if (given.includes('root')) return true;
  return capabilities.every((needed) =>
    needed === 'write' ? given.includes('update') || given.includes('create') : given.includes(needed),
  );
}

function lifeQuestion({ name }: ClusterView): Question {
  return {
    id: 'credential-life',
    cluster: name,
    source: 'api',
    needed: `a token that the primary accepts, for at least ${CREDENTIAL_LIFE_SECONDS} s`,
    next: `Renew the credential of ${name} at its source.`,
  };
}

function rightsQuestion({ name }: ClusterView): Question {
  return {
    id: 'credential-rights',
    cluster: name,
    source: 'api',
    needed: 'the rights that switchover and failover use on the primary',
    next: `Correct the policy of the credential of ${name}: docs/operations.md has it.`,
  };
}
