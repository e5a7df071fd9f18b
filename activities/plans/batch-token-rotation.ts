import { createBatchToken } from '../../src/moves/records';
import type { Assessment } from '../../src/contracts/activities';
import { deploymentWorkflowId } from '../../src/contracts/names';
import type { Check } from '../../src/contracts/plan';
import type { BatchTokenRotationEntry } from '../../src/inventory';
import { check } from '../checks/check';
import { credentialFacts, missingRights } from '../checks/credentials';
import type { CredentialFacts } from '../checks/credentials';
import { openRun, runText } from '../checks/runs';
import type { PolicyGrant } from '../checks/rights';
import { currentExecution } from '../execution';
import { neededGrants, rightsIn } from '../tokens/policies';
import { openBatchToken } from '../tokens/kept-batch-token';
import { chooseSet, opensCeremonies } from '../tokens/batch-tokens';
import { observe } from './observed';
import type { PlanInput } from './observed';

/** What `batchTokenRotation` follows. It holds facts about tokens: never a token, and no accessor. */
export interface BatchTokenRoute {
  readonly drSet: string;
  /** The cluster that creates the token. */
  readonly primary: string;
  /** Whether the current token has less than half of its TTL left, or is not usable. */
  readonly due: boolean;
  readonly why: string;
}

/** Reads and judges everything that a rotation depends on. Creates nothing. */
export async function assessBatchTokenRotation(
  request: PlanInput<'batchTokenRotation'>,
): Promise<Assessment<BatchTokenRoute>> {
  const { input } = request;
  const context = currentExecution();
  const { signal } = context;
  const observed = await observe('batchTokenRotation', request);
  const { deployment, observations } = observed;
  const base = observed.base();
  const chosen = chooseSet(deployment, input.drSet);
  if ('verdict' in chosen) return { ...base, preconditions: [chosen] };
  const { drSet, entry } = chosen;
  const members = observations.filter(({ cluster }) => deployment.drSets.get(drSet)?.includes(cluster) === true);
  const [primary, ...more] = members.filter(({ dr }) => dr?.mode === 'primary');
  const one = primary !== undefined && more.length === 0;
  const onePrimary = check('one primary that makes the token', primary?.cluster, one, {
    observed: members.map(({ cluster, dr, error }) => `${cluster} ${dr?.mode ?? error ?? 'not readable'}`).join(', '),
    needed: 'exactly one DR primary in the set',
    next: 'Without a primary no batch token can be created. The existing one is valid until it expires.',
  });
  if (primary === undefined || onePrimary.verdict === 'fail') return { ...base, preconditions: [onePrimary] };
  const { cluster } = primary;
  const access = observed.access(cluster);
  const needed = neededGrants(opensCeremonies(deployment, drSet, members));
  const [busy, own, present] = await Promise.all([
    noOutage(input.deployment),
    observed.rights([], { [cluster]: { [`auth/token/create/${entry.role}`]: ['create|update'] } }),
    // According to the primary. A token that cannot be opened is not usable.
    credentialFacts(
      access,
      () => openBatchToken(context, { deployment: deployment.name, drSet }),
      needed.map(({ path }) => path),
      signal,
    ),
  ]);
  return {
    ...base,
    preconditions: [onePrimary, busy, ...own],
    plan: observed.plan({
      clusters: [primary],
      warnings: [
        `A batch token cannot be revoked: anyone who has this one can run DR operations on every secondary of ${cluster} for ${entry.ttlMs / 1000} s, or until policy ${entry.policy} is emptied.`,
      ],
      moves: [
        {
          step: createBatchToken(cluster),
          note: `an orphan with role ${entry.role}; verified, and sealed in the record`,
          ...(input.when === 'due' && { when: 'less than half of the TTL of the current one is left' }),
        },
      ],
      choices: { drSet, when: input.when, ttlSeconds: entry.ttlMs / 1000 },
    }),
    route: { drSet, primary: cluster, ...judgeDue(present, needed, entry) },
  };
}

/**
 * A rotation runs alongside every other run: a planned one that waits for days must not let the token expire. Roles
 * change only inside an outage.
 */
async function noOutage(deployment: string): Promise<Check> {
  const run = await openRun(deploymentWorkflowId(deployment));
  return check('no run moves the primary now', undefined, run?.phase !== 'outage', {
    observed: runText(run),
    needed: 'no run of the deployment in an outage',
    next: `Start again when that run has ended: \`runbook status ${deploymentWorkflowId(deployment)}\``,
  });
}

/** Pure. */
export function judgeDue(
  present: CredentialFacts,
  needed: readonly PolicyGrant[],
  { ttlMs }: Pick<BatchTokenRotationEntry, 'ttlMs'>,
): { readonly due: boolean; readonly why: string } {
  const due = (why: string) => ({ due: true, why });
  if (!present.usable) return due(`the current token is not usable: ${present.error ?? 'refused'}`);
  if (present.type !== 'batch' || present.orphan !== true) return due('the current token is not an orphan batch token');
  if (missingRights(present, rightsIn(needed)).length > 0) return due('the current token lacks needed rights');
  const left = present.ttlSeconds ?? 0;
  const life = `${left} s of ${ttlMs / 1000} s are left`;
  return left < ttlMs / 2000 ? due(life) : { due: false, why: `${life}: it is renewed when less than half is left` };
}
