import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { CredentialFacts, Rights } from '../checks/credentials';
import {
  CREDENTIAL_LIFE_SECONDS,
  credentialFacts,
  credentialLives,
  missingRights,
  rightsText,
} from '../checks/credentials';
import { DEMOTE, REVOKE, SECONDARY_TOKEN } from '../checks/tokens';
import type { Look } from './look';
import { inspect } from './look';
import type { Question, Verdicts } from './point';
import { holds, judged, unread } from './point';
import type { ClusterView, SetView, World } from './world';

const WRITE = 'create|update';

/**
 * What the credential of a DR primary does in a switchover, and that of the cluster that becomes primary in switchover
 * and failover. Tokens are replicated within a DR set: what the primary knows of them holds on its successor.
 */
function neededRights(
  use: 'primary' | 'successor',
  { marker, performanceIds }: { readonly marker: string; readonly performanceIds: readonly string[] },
): Rights {
  const performance = 'sys/replication/performance/primary';
  const filters = performanceIds.flatMap((id) => [
    [`${performance}/paths-filter/${id}`, ['read', WRITE]],
    [`${performance}/dynamic-filter/${id}`, ['read']],
  ]);
  return {
    ...(use === 'primary' ? { [DEMOTE]: [WRITE] } : {}),
    [SECONDARY_TOKEN]: [WRITE, 'sudo'],
    [REVOKE]: [WRITE],
    [marker]: ['read', WRITE],
    [`${marker}-after`]: [WRITE],
    ...(performanceIds.length === 0
      ? {}
      : {
          [`${performance}/secondary-token`]: [WRITE, 'sudo'],
          [`${performance}/revoke-secondary`]: [WRITE],
          ...(Object.fromEntries(filters) as Rights),
        }),
  };
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
  const path = 'sys/replication/performance/secondary';
  const rights: Rights = { [`${path}/generate-public-key`]: [WRITE], [`${path}/update-primary`]: [WRITE] };
  return inspect(
    look,
    [question],
    (signal) => credentialFacts(access, () => access.credential(), Object.keys(rights), signal),
    (facts) => {
      if (!facts.usable) return judged(question, 'warn', `not usable: ${facts.error ?? 'refused'}`);
      const missing = missingRights(facts, rights);
      const observed = missing.length === 0 ? 'it may' : `no update on ${missing.join(' and ')}`;
      return holds(question, missing.length === 0, 'warn', observed);
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
  return inspect(
    look,
    questions,
    (signal) => credentialFacts(asked, () => own.credential(), Object.keys(rights), signal),
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
function judgeCredential(view: ClusterView, facts: CredentialFacts, rights: Rights): ReadinessPoint[] {
  const otherwise: Verdicts = view.part === 'primary' ? { switchover: 'fail' } : 'fail';
  if (!facts.usable) return judged(lifeQuestion(view), otherwise, `not usable: ${facts.error ?? 'refused'}`);
  const missing = missingRights(facts, rights);
  const lives = credentialLives(view.name, facts);
  const all = `all ${Object.keys(rights).length} paths`;
  const lacking = missing.map((path) => `${path}: ${rightsText(facts, path)} instead of ${rights[path]?.join(', ')}`);
  return [
    ...holds(lifeQuestion(view), lives.verdict === 'ok', otherwise, lives.observed),
    ...holds(rightsQuestion(view), missing.length === 0, otherwise, missing.length === 0 ? all : lacking.join('; ')),
  ];
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
