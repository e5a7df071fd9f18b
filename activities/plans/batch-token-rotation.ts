import type { Assessment } from '../../src/contracts/activities';
import { deploymentWorkflowId } from '../../src/contracts/names';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { orElse } from '../../src/errors';
import type { BatchTokenRotationEntry, Deployment } from '../../src/inventory';
import { planDocument } from '../approvals/planning';
import { check, notCheckable } from '../checks/check';
import { credentialFacts, missingRights } from '../checks/credentials';
import type { CredentialFacts } from '../checks/credentials';
import { openRun, runText } from '../checks/runs';
import { majorVersion } from '../checks/versions';
import type { ClusterAccess } from '../clusters';
import type { ActivityDependencies } from '../dependencies';
import { currentExecution } from '../execution';
import { neededGrants, policyChecks, rightsIn, roleChecks } from '../tokens/batch-token-policy';
import type { PolicyGrant } from '../tokens/policies';
import { storeOf } from '../tokens/batch-token-store';
import { observe } from './observed';
import type { PlanInput } from './observed';

/** What `batchTokenRotation` follows. Of tokens only facts: never one of them, and no accessor. */
export interface BatchTokenRoute {
  readonly drSet: string;
  /** The cluster that makes the token. */
  readonly primary: string;
  /** Where the token is kept, in words. */
  readonly sink: string;
  /** Whether the present token has less than half of its life left, or is of no use. */
  readonly due: boolean;
  readonly why: string;
  /** What is absent on the primary and will be made: nothing where the input does not ask for it. */
  readonly prepare: readonly ('policy' | 'role')[];
}

/** Everything that a rotation rests on. Nothing is made. */
export async function assessBatchTokenRotation(
  request: PlanInput<InputOf<'batchTokenRotation'>>,
): Promise<Assessment<BatchTokenRoute>> {
  const { input } = request;
  const context = currentExecution();
  const { clusters, signal } = context;
  const observed = await observe(request);
  const { deployment, observations } = observed;
  const base = observed.base({});
  const chosen = chooseSet(deployment, input.drSet);
  if ('refused' in chosen) return { ...base, preconditions: [chosen.refused] };
  const { drSet, entry } = chosen;
  const members = observations.filter(({ cluster }) => deployment.drSets.get(drSet)?.includes(cluster) === true);
  const [primary, ...more] = members.filter(({ dr }) => dr?.mode === 'primary');
  const one = primary !== undefined && more.length === 0;
  const onePrimary = check('one primary that makes the token', primary?.cluster, one, {
    observed: members.map(({ cluster, dr, error }) => `${cluster} ${dr?.mode ?? error ?? 'says nothing'}`).join(', '),
    needed: 'exactly one DR primary in the set',
    next: 'Without a primary no batch token can be made: the one that is there counts until its end.',
  });
  if (primary === undefined || onePrimary.verdict === 'fail') return { ...base, preconditions: [onePrimary] };
  const { cluster } = primary;
  const access = observed.access(cluster);
  const needed = neededGrants(opensCeremonies(deployment, drSet, members));
  const store = storeOf(clusters, entry.sink);
  const reading = async () => ({ token: await access.credential(), signal });
  const [busy, own, sink, present, role, policy] = await Promise.all([
    noOutage(context, input),
    observed.rights(cluster, { [`auth/token/create/${entry.role}`]: ['create|update'] }),
    sinkUsable(store, signal),
    presentToken(access, store, needed, signal),
    ifAllowed(async () => access.client.sys.tokenRole(entry.role, await reading()), signal),
    ifAllowed(async () => access.client.sys.policy(entry.policy, await reading()), signal),
  ]);
  const read = { policy, role };
  const isAbsent = (name: keyof typeof read) => 'found' in read[name] && read[name].found === undefined;
  const prepare = input.createRoleAndPolicy ? (['policy', 'role'] as const).filter(isAbsent) : [];
  return {
    ...base,
    preconditions: [
      onePrimary,
      busy,
      ...own,
      sink,
      ...('found' in policy
        ? policyChecks(cluster, entry.policy, policy.found, needed, prepare.includes('policy'))
        : [unread(cluster, `policy ${entry.policy}`, policy.code)]),
      ...('found' in role
        ? roleChecks(cluster, entry.role, entry.policy, role.found, prepare.includes('role'))
        : [unread(cluster, `token role ${entry.role}`, role.code)]),
    ],
    plan: planDocument({
      runbook: 'batchTokenRotation',
      input,
      clusters: [primary],
      operations: [],
      warnings: [
        `A batch token cannot be revoked: whoever has this one may do DR operations on every secondary of ${cluster} for ${entry.ttlMs / 1000} s, or until policy ${entry.policy} is emptied.`,
      ],
      steps: [
        prepare.length > 0 && `Make ${prepare.join(' and ')} on ${cluster}`,
        `Make an orphan batch token on ${cluster} by role ${entry.role}, prove it, and put it into ${store.where}`,
      ],
      choices: { drSet, when: input.when, ttlSeconds: entry.ttlMs / 1000 },
    }),
    route: { drSet, primary: cluster, sink: store.where, ...judgeDue(present, needed, entry), prepare },
  };
}

function unread(cluster: string, name: string, code: string): Check {
  const next = 'What it makes is proven on each token before it is kept.';
  return notCheckable(name, cluster, { observed: `not readable (${code})`, needed: 'read', next });
}

/** The rotation of a DR set; the only one where none is named. */
export function chooseSet(
  deployment: Deployment,
  named: string | undefined,
): { readonly drSet: string; readonly entry: BatchTokenRotationEntry } | { readonly refused: Check } {
  const sets = Object.entries(deployment.batchTokens);
  const [found] = named === undefined && sets.length === 1 ? sets : sets.filter(([set]) => set === named);
  if (found) return { drSet: found[0], entry: found[1] };
  const names = sets.map(([set]) => set).join(', ');
  return {
    refused: check('a DR set whose batch token is rotated', undefined, false, {
      observed: named ?? 'none named',
      needed: names === '' ? 'batchTokens in the inventory' : `drSet is one of ${names}`,
      next: 'docs/runbooks/batch-token-rotation.md has the members of the inventory.',
    }),
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
  { deployment, createRoleAndPolicy }: InputOf<'batchTokenRotation'>,
): Promise<Check> {
  const run = await openRun(dependencies, deploymentWorkflowId(deployment));
  const inTheWay = run !== undefined && (createRoleAndPolicy || run.phase === 'outage');
  return check('no run moves the primary now', undefined, !inTheWay, {
    observed: runText(run),
    needed: createRoleAndPolicy ? 'no open run of the deployment' : 'no run of the deployment in an outage',
    next: `Start again when it has ended: \`runbook status ${deploymentWorkflowId(deployment)}\``,
  });
}

async function sinkUsable(store: ReturnType<typeof storeOf>, signal: AbortSignal): Promise<Check> {
  const [name, place] = ['the token can be kept', 'a place that only the workers read'];
  return store.check(signal).then(
    () => check(name, undefined, true, { observed: store.where, needed: place }),
    orElse(signal, ({ code, observed = code, needed = place, next }) =>
      check(name, undefined, false, { observed: `${store.where}: ${observed}`, needed, next }),
    ),
  );
}

async function presentToken(
  primary: ClusterAccess,
  store: ReturnType<typeof storeOf>,
  needed: readonly PolicyGrant[],
  signal: AbortSignal,
): Promise<CredentialFacts | undefined> {
  const paths = needed.map(({ path }) => path);
  return store.read(signal).then(
    (token) => token && credentialFacts(primary, () => Promise.resolve(token), paths, signal),
    orElse(signal, ({ code }) => ({ usable: false, error: code, capabilities: {} })),
  );
}

/** Pure. */
export function judgeDue(
  present: CredentialFacts | undefined,
  needed: readonly PolicyGrant[],
  { ttlMs }: Pick<BatchTokenRotationEntry, 'ttlMs'>,
): { readonly due: boolean; readonly why: string } {
  const due = (why: string) => ({ due: true, why });
  if (present === undefined) return due('there is none');
  if (!present.usable) return due(`the present one is not usable: ${present.error ?? 'refused'}`);
  if (present.type !== 'batch' || present.orphan !== true) return due('the present one is no orphan batch token');
  if (missingRights(present, rightsIn(needed)).length > 0) return due('the present one lacks rights that are needed');
  const left = present.ttlSeconds ?? 0;
  const life = `${left} s of ${ttlMs / 1000} s are left`;
  return left < ttlMs / 2000 ? due(life) : { due: false, why: `${life}: renewed when less than half is left` };
}

/** What can be read; else the code with which it was refused: a credential with fewest rights may not look. */
function ifAllowed<T>(
  read: () => Promise<T>,
  signal: AbortSignal,
): Promise<{ readonly found: T } | { readonly code: string }> {
  return read().then(
    (found) => ({ found }),
    orElse(signal, ({ code }) => ({ code })),
  );
}
