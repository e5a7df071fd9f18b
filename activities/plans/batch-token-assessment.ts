import type { Assessment, BatchTokenRoute } from '../../src/contracts/activities';
import { deploymentWorkflowId } from '../../src/contracts/names';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { BatchTokenRotationInput } from '../../src/contracts/runbook-inputs';
import { isRunbookError } from '../../src/errors';
import type { BatchTokenRotationEntry, Deployment } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import type { ActivityDependencies } from '../dependencies';
import { openRun } from '../readiness/site';
import type { PolicyGrant } from '../tokens/batch-token-policy';
import { missingRights, neededGrants, policyRules, roleRules } from '../tokens/batch-token-policy';
import { storeOf } from '../tokens/batch-token-store';
import type { ClusterAccess, Clusters } from '../clusters';
import { majorVersion } from '../clusters';
import { identityOf, observeDeployment, planDocument, siteFacts } from '../approvals/planning';
import { credentialFacts } from '../checks/switchover-facts';
import type { CredentialFacts } from '../checks/switchover-facts';
import { check } from '../checks/switchover-rule';

/** Reads everything that a rotation rests on, and judges it. Nothing is made. */
export async function assessRotation(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  input: BatchTokenRotationInput,
  signal: AbortSignal,
): Promise<Assessment<BatchTokenRoute>> {
  const deployment = clusters.deployment(input.deployment);
  const observations = await observeDeployment(clusters, input.deployment, signal);
  const base = { observations, site: await siteFacts(dependencies, input.deployment), gates: {} };
  const chosen = chooseSet(deployment, input.drSet);
  if ('refused' in chosen) return { ...base, preconditions: [chosen.refused] };
  const { drSet, entry } = chosen;
  const members = observations.filter(({ cluster }) => deployment.drSets.get(drSet)?.includes(cluster) === true);
  const [primary, ...more] = members.filter(({ dr }) => dr?.mode === 'primary');
  const onePrimary = check(
    'one primary that makes the token',
    primary?.cluster,
    primary !== undefined && more.length === 0,
    members.map(({ cluster, dr, error }) => `${cluster} ${dr?.mode ?? error ?? 'says nothing'}`).join(', '),
    'exactly one DR primary in the set',
    'Without a primary no batch token can be made: the one that is there counts until its end.',
  );
  if (primary === undefined || more.length > 0) return { ...base, preconditions: [onePrimary] };
  const access = clusters.of(input.deployment, primary.cluster);
  const needed = neededGrants(opensCeremonies(deployment, drSet, members));
  const store = storeOf(clusters, entry.sink);
  const [busy, own, sinkRule, present, role, policy] = await Promise.all([
    noOutage(dependencies, input),
    mayMake(access, entry, signal),
    sinkUsable(store, signal),
    presentToken(access, () => store.read(signal), needed, signal),
    readIfAllowed(async () => access.client.sys.tokenRole(entry.role, { token: await access.credential(), signal })),
    readIfAllowed(async () => access.client.sys.policy(entry.policy, { token: await access.credential(), signal })),
  ]);
  const prepare: ('policy' | 'role')[] = input.createRoleAndPolicy
    ? [
        ...('found' in policy && policy.found === undefined ? (['policy'] as const) : []),
        ...('found' in role && role.found === undefined ? (['role'] as const) : []),
      ]
    : [];
  const { due, why } = judgeDue(present, needed, entry);
  const unread = (name: string, code: string): Precondition => ({
    name,
    cluster: primary.cluster,
    observed: `not readable (${code})`,
    needed: 'read',
    verdict: 'not-checkable',
    next: 'What it makes is proven on each token before it is kept.',
  });
  return {
    ...base,
    preconditions: [
      onePrimary,
      busy,
      own,
      sinkRule,
      ...('found' in policy
        ? policyRules(primary.cluster, entry.policy, policy.found, needed, prepare.includes('policy'))
        : [unread(`policy ${entry.policy}`, policy.code)]),
      ...('found' in role
        ? roleRules(primary.cluster, entry.role, entry.policy, role.found, prepare.includes('role'))
        : [unread(`token role ${entry.role}`, role.code)]),
    ],
    plan: planDocument({
      runbook: 'batchTokenRotation',
      input,
      clusters: [primary],
      operations: [],
      warnings: [
        `A batch token cannot be revoked: whoever has this one may do DR operations on every secondary of ${identityOf(primary).cluster} for ${entry.ttlMs / 1000} s, or until policy ${entry.policy} is emptied.`,
      ],
      steps: [
        ...(prepare.length > 0 ? [`Make ${prepare.join(' and ')} on ${primary.cluster}`] : []),
        `Make an orphan batch token on ${primary.cluster} by role ${entry.role}, prove it, and put it into ${store.where}`,
      ],
      choices: { drSet, when: input.when, ttlSeconds: entry.ttlMs / 1000 },
    }),
    route: { drSet, primary: primary.cluster, sink: store.where, due, why, prepare },
  };
}

/** The rotation of a DR set; the only one where none is named. */
export function chooseSet(
  deployment: Deployment,
  named: string | undefined,
): { readonly drSet: string; readonly entry: BatchTokenRotationEntry } | { readonly refused: Precondition } {
  const sets = Object.entries(deployment.batchTokens);
  const [found] = named === undefined && sets.length === 1 ? sets : sets.filter(([set]) => set === named);
  if (found) return { drSet: found[0], entry: found[1] };
  return {
    refused: {
      name: 'a DR set whose batch token is rotated',
      observed: named ?? 'none named',
      needed:
        sets.length === 0 ? 'batchTokens in the inventory' : `drSet is one of ${sets.map(([set]) => set).join(', ')}`,
      verdict: 'fail',
      next: 'docs/runbooks/batch-token-rotation.md has the members of the inventory.',
    },
  };
}

/** From version 2.0 the batch token opens the calls of a ceremony too, unless every member has a credential for that. */
export function opensCeremonies(
  deployment: Deployment,
  drSet: string,
  observations: readonly Pick<ClusterObservation, 'cluster' | 'version'>[],
): boolean {
  const members = deployment.drSets.get(drSet) ?? [];
  return observations.some(
    ({ cluster, version }) =>
      members.includes(cluster) &&
      majorVersion(version) >= 2 &&
      deployment.clusters.get(cluster)?.ceremonyCredential === undefined,
  );
}

/**
 * A rotation runs beside every other run: a planned one that waits for days must not let the token die. Only inside an
 * outage roles are in motion, and with policy and role nothing else may be.
 */
async function noOutage(
  dependencies: ActivityDependencies,
  { deployment, createRoleAndPolicy }: BatchTokenRotationInput,
): Promise<Precondition> {
  const run = await openRun({ dependencies }, deploymentWorkflowId(deployment));
  const inTheWay = run !== undefined && (createRoleAndPolicy || run.phase === 'outage');
  return check(
    'no run moves the primary now',
    undefined,
    !inTheWay,
    run === undefined ? 'no run' : `${run.type}, run ${run.runId}, ${run.phase ?? 'phase not told'}`,
    createRoleAndPolicy ? 'no open run of the deployment' : 'no run of the deployment in an outage',
    `Start again when it has ended: \`runbook status ${deploymentWorkflowId(deployment)}\``,
  );
}

async function mayMake(
  access: ClusterAccess,
  { role }: BatchTokenRotationEntry,
  signal: AbortSignal,
): Promise<Precondition> {
  const path = `auth/token/create/${role}`;
  const { usable, error, capabilities } = await credentialFacts(access, () => access.credential(), [path], signal);
  const given = capabilities[path] ?? [];
  return check(
    'credential may make tokens by the role',
    access.entry.name,
    usable && given.some((right) => right === 'update' || right === 'create' || right === 'root'),
    usable ? given.join(', ') || 'none' : (error ?? 'not usable'),
    `update on ${path}`,
    `Give the credential of ${access.entry.name} the policy runbooks-batch-rotation of docs/operations.md.`,
  );
}

async function sinkUsable(store: ReturnType<typeof storeOf>, signal: AbortSignal): Promise<Precondition> {
  try {
    await store.check(signal);
    return check('the token can be kept', undefined, true, store.where, 'a place that only the workers read');
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    const { code, observed, needed = 'a place that only the workers read', next } = error;
    return check('the token can be kept', undefined, false, `${store.where}: ${observed ?? code}`, needed, next);
  }
}

async function presentToken(
  primary: ClusterAccess,
  read: () => Promise<Secret<'batch-token'> | undefined>,
  needed: readonly PolicyGrant[],
  signal: AbortSignal,
): Promise<CredentialFacts | undefined> {
  try {
    const token = await read();
    if (token === undefined) return undefined;
    return await credentialFacts(
      primary,
      () => Promise.resolve(token),
      needed.map(({ path }) => path),
      signal,
    );
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    return { usable: false, error: error.code, capabilities: {} };
  }
}

/** Pure. */
export function judgeDue(
  present: CredentialFacts | undefined,
  needed: readonly PolicyGrant[],
  { ttlMs }: Pick<BatchTokenRotationEntry, 'ttlMs'>,
): { readonly due: boolean; readonly why: string } {
  if (present === undefined) return { due: true, why: 'there is none' };
  if (!present.usable) return { due: true, why: `the present one is not usable: ${present.error ?? 'refused'}` };
  if (present.type !== 'batch' || present.orphan !== true)
    return { due: true, why: 'the present one is no orphan batch token' };
  if (missingRights(present.capabilities, needed).length > 0)
    return { due: true, why: 'the present one lacks rights that are needed' };
  const left = present.ttlSeconds ?? 0;
  const half = ttlMs / 2000;
  const life = `${left} s of ${ttlMs / 1000} s are left`;
  return left < half ? { due: true, why: life } : { due: false, why: `${life}: renewed when less than half is left` };
}

/** What can be read; else the code with which it was refused: a credential with fewest rights may not look. */
async function readIfAllowed<T>(read: () => Promise<T>): Promise<{ readonly found: T } | { readonly code: string }> {
  try {
    return { found: await read() };
  } catch (error) {
    if (!isRunbookError(error)) throw error;
    return { code: error.code };
  }
}
