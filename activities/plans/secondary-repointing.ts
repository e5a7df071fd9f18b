import type { Assessment, RepointingRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check, PlanDocument } from '../../src/contracts/plan';
import type { SecondaryRepointingInput } from '../../src/contracts/runbook-inputs';
import { isRunbookError } from '../../src/errors';
import { drSetOf } from '../../src/inventory';
import { identityOf, planDocument } from '../approvals/planning';
import { check, refuses } from '../checks/check';
import type { Rights } from '../checks/credentials';
import { mayCall } from '../checks/credentials';
import { noKnownDefect } from '../checks/known-bugs';
import { takesPart } from '../checks/nodes';
import { hasRole, mayBeOneSet, onePrimary, roleText, sameSet } from '../checks/roles';
import { UPDATE_PRIMARY, assessTokenSource } from '../checks/tokens';
import { compareVersions, versionsInOrder, versionsOf, versionsText } from '../checks/versions';
import { currentExecution } from '../execution';
import { describeFilter } from '../filters/paths-filters';
import { findFilter, keptAway } from '../filters/wanted-filter';
import { follows, primaryAddresses } from '../joining/following';
import { kindName } from '../joining/onboarding-read';
import { isAlive } from '../observe';
import type { Observed, PlanInput } from './observed';
import { observe } from './observed';

/** `update_primary_addrs` exists from this version on. */
const ADDRESSES_SINCE = '1.13.0';

interface RepointingObserved {
  readonly input: SecondaryRepointingInput;
  readonly observed: Observed;
  readonly primary: ClusterObservation;
  readonly secondary: ClusterObservation;
  /** Cluster addresses by which a secondary may know the primary. */
  readonly addresses: ReadonlySet<string>;
}

/** A secondary follows another primary. */
export async function assessSecondaryRepointing({
  input,
  ownFingerprint,
}: PlanInput<SecondaryRepointingInput>): Promise<Assessment<RepointingRoute>> {
  const { signal } = currentExecution();
  const { kind, form } = input;
  const observed = await observe(input.deployment, [input.primary, input.secondary]);
  const { deployment, access, of } = observed;
  const [primary, secondary] = [of(input.primary), of(input.secondary)];
  const [source, target] = [access(input.primary), access(input.secondary)];
  const base = observed.base({ repoint: true });
  const addresses = await primaryAddresses(source, signal).catch((error: unknown): ReadonlySet<string> => {
    if (!isRunbookError(error) || signal.aborted) throw error;
    return new Set();
  });
  const judged = repointingChecks({ input, observed, primary, secondary, addresses });
  // Without the roles there is nothing to ask filters, tokens and rights of.
  if (refuses(judged)) return { ...base, preconditions: judged };
  const checks: Check[] = [...judged];
  let ofTokens: readonly string[] = [];
  let route: RepointingRoute = { kind, primary: input.primary, secondary: input.secondary, form };
  if (kind === 'dr') {
    const tokens = await assessTokenSource({
      deployment,
      secondary: target,
      observation: secondary,
      primary: source,
      wanted: input.tokenSource,
      paths: [UPDATE_PRIMARY],
      ownFingerprint,
      signal,
    });
    checks.push(...tokens.checks);
    ofTokens = tokens.warnings;
    route = { ...route, tokenSource: tokens.source };
  } else {
    const { known, judged: filter } = await findFilter(
      source,
      target,
      deployment.pathsFilters[input.secondary],
      signal,
    );
    const id = secondary.performance?.secondaryId;
    const path = 'sys/replication/performance/secondary/update-primary';
    checks.push(filter, ...(await mayCall(target, { [path]: ['update'] }, signal)));
    route = { ...route, filter: known, ...(form === 'addresses' && id ? { addressesId: id } : {}) };
  }
  if (form === 'token') checks.push(...(await mayCall(source, rightsOnPrimary(input, route), signal)));
  const plan = repointingPlan(input, primary, secondary, route, checks, ofTokens);
  return { ...base, preconditions: checks, route, plan };
}

/** What the workers' credential must be able to do on the primary, for the token form. */
function rightsOnPrimary({ kind }: SecondaryRepointingInput, { filter }: RepointingRoute): Rights {
  const base = `sys/replication/${kind}/primary`;
  return {
    [`${base}/secondary-token`]: ['update', 'sudo'],
    [`${base}/revoke-secondary`]: ['update'],
    ...(filter?.filter === undefined ? {} : { [`${base}/paths-filter/${filter.id}`]: ['read', 'create|update'] }),
  };
}

function repointingChecks(world: RepointingObserved): Check[] {
  const { input, observed, primary, secondary } = world;
  const { kind, form } = input;
  const setId = primary[kind]?.setId;
  const other = `${secondary.cluster} belongs to another set: it is onboarded again, which wipes it.`;
  return [
    ...(kind === 'dr' ? drForm(world) : form === 'addresses' ? addressesForm(world) : []),
    ...[primary, secondary].flatMap(takesPart),
    hasRole(primary, kind, 'primary', `Name the ${kindName(kind)} primary; status says which cluster it is.`),
    hasRole(
      secondary,
      kind,
      'secondary',
      `Only a ${kindName(kind)} secondary can be re-pointed; a cluster without replication is onboarded.`,
    ),
    onePrimary(
      kind,
      observed.observations.filter((each) => mayBeOneSet(each[kind]?.setId, setId)),
    ),
    sameSet(kind, primary, secondary, other),
    versionsInOrder(primary, secondary),
    ...[primary, secondary].map((each) =>
      noKnownDefect(each, kind, `update-primary by ${form}`, input.acknowledgeKnownBugs),
    ),
    ...connection(world),
  ];
}

function drForm({ input, observed }: RepointingObserved): Check[] {
  const { primary, secondary, form } = input;
  const { members } = drSetOf(observed.deployment, primary);
  return [
    check(
      'form of update-primary',
      secondary,
      form === 'token',
      form,
      'token: addresses are not allowed on a demoted DR cluster, and ended the server in some versions',
      'Start again with {"form": "token"}.',
    ),
    check(
      'members of one DR set',
      secondary,
      members.includes(secondary) && primary !== secondary,
      `${primary} with ${members.filter((name) => name !== primary).join(', ') || 'nobody'}`,
      `${secondary} in the DR set of ${primary}`,
      'Correct drSets in the inventory, or the names in the input.',
    ),
  ];
}

function addressesForm({ input, primary, secondary }: RepointingObserved): Check[] {
  const next = 'Start again with {"form": "token"}.';
  const id = secondary.performance?.secondaryId ?? '';
  const versions = [...versionsOf(primary), ...versionsOf(secondary)];
  const known = primary.performance?.knownSecondaries ?? [];
  return [
    check(
      'addresses can be given',
      input.secondary,
      versions.length > 0 && versions.every((version) => compareVersions(version, ADDRESSES_SINCE) >= 0),
      versionsText(primary, secondary),
      `version ${ADDRESSES_SINCE} or later`,
      next,
    ),
    check(
      'attached before, and not demoted since',
      input.secondary,
      id !== '',
      id === '' ? `${roleText(secondary, 'performance')}, no id` : `id ${id}`,
      'a secondary with the id of its activation token: a demoted cluster takes a token only',
      next,
    ),
    check(
      'the primary knows the secondary',
      input.primary,
      id !== '' && known.includes(id),
      `known: ${known.join(', ') || 'nobody'}`,
      `${id === '' ? 'the id of the secondary' : id} among the known secondaries: addresses bring no certificate`,
      next,
    ),
  ];
}

/** Nothing to do where it follows already; whom it leaves where it follows somebody else. */
function connection({ input, observed, primary, secondary, addresses }: RepointingObserved): Check[] {
  const { cluster, [input.kind]: seen } = secondary;
  if (seen?.mode !== 'secondary') return [];
  const alive = isAlive(seen, observed.deployment.limits.heartbeatAgeMs);
  const here = follows(seen, addresses);
  const to = seen.peers.find((peer) => peer.connected)?.clusterAddress ?? seen.primaryClusterAddress ?? 'nobody';
  if (here && alive && seen.state === 'stream-wals') {
    return [
      check(
        'something to do',
        cluster,
        false,
        `${roleText(secondary, input.kind)}, connected to ${to}`,
        `${cluster} does not follow ${primary.cluster} yet`,
        `${cluster} follows ${primary.cluster} already: there is nothing to do.`,
      ),
    ];
  }
  return [
    check(
      'connected to nobody else',
      cluster,
      here || !alive,
      alive ? `connected to ${to}` : `connected to nobody; last known ${seen.primaryClusterAddress || 'nobody'}`,
      'no live connection to another primary',
      `${cluster} follows another primary now and leaves it. Make sure that this is meant.`,
      'warn',
    ),
  ];
}

/** What people approve before a secondary is re-pointed. */
function repointingPlan(
  input: SecondaryRepointingInput,
  primary: ClusterObservation,
  secondary: ClusterObservation,
  route: RepointingRoute,
  preconditions: readonly Check[],
  ofTokens: readonly string[],
): PlanDocument {
  const filter = route.filter?.filter;
  return planDocument({
    runbook: 'secondaryRepointing',
    input,
    clusters: [primary, secondary],
    operations: [
      {
        operation:
          route.kind === 'dr' ? 'dr.secondary.repoint-by-token' : `performance.secondary.repoint-by-${route.form}`,
        on: identityOf(secondary),
        with: identityOf(primary),
        ...(route.kind === 'performance' ? { detail: describeFilter(filter) } : {}),
      },
    ],
    warnings: [
      ...exposure(route),
      ...(route.kind === 'dr'
        ? [`Until ${secondary.cluster} streams again it protects nothing: do not plan a failover to it meanwhile.`]
        : [`Until ${secondary.cluster} streams again its clients read old data, and their writes fail.`]),
      `What ${secondary.cluster} has and ${primary.cluster} has not is removed from ${secondary.cluster} when their data is compared.`,
      ...preconditions
        .filter(({ name, verdict }) => name.startsWith('no known defect') && verdict === 'warn')
        .map(({ cluster, observed }) => `Acknowledged defect on ${cluster ?? 'a cluster'}: ${observed}`),
      ...ofTokens,
    ],
    steps: steps(route, secondary.cluster, primary.cluster),
    choices: {
      kind: route.kind,
      form: route.form,
      ...(route.tokenSource && { tokenSource: route.tokenSource }),
      ...(route.filter && { filter: describeFilter(filter), filterId: route.filter.id }),
      acknowledgeKnownBugs: input.acknowledgeKnownBugs,
    },
  });
}

/** What a secondary may receive that it must not have, between update-primary and the second writing of its filter. */
export function exposureInWords(secondary: string, filter: Parameters<typeof keptAway>[0]): string {
  return `Between update-primary and the second writing of its filter ${secondary} may receive what is kept away from it: ${keptAway(filter)}.`;
}

function exposure({ kind, form, secondary, filter }: RepointingRoute): string[] {
  if (kind === 'dr' || form === 'addresses') return [];
  if (!filter?.filter) return [`${secondary} has no paths filter: it receives everything that is not local.`];
  return [exposureInWords(secondary, filter.filter)];
}

function steps({ kind, form, tokenSource, filter }: RepointingRoute, secondary: string, primary: string): string[] {
  const write = filter?.filter
    ? [`Write the paths filter of ${secondary} on ${primary} under ${filter.id}: ${describeFilter(filter.filter)}`]
    : [];
  const join = [
    `Issue a ${kindName(kind)} activation token on ${primary} with the cluster ID of ${secondary} as its id, and use it`,
  ];
  return [
    ...(tokenSource === 'ceremony' ? [`Generate an operation token on ${secondary} from the holders' key shares`] : []),
    ...(form === 'addresses' ? [`Give ${secondary} the cluster addresses of ${primary}`] : [...write, ...join]),
    ...(form === 'token' && write.length > 0 ? ['Make sure of the filter again, and compare it'] : []),
    `Wait until ${secondary} ${kind === 'dr' ? 'streams from' : 'follows'} ${primary}`,
    ...(kind === 'performance' ? ['Compare the dynamic filter on both sides'] : []),
    'Compare the Merkle roots, where they can be compared',
    ...(tokenSource && tokenSource !== 'batch' ? ['Delete the operation token and destroy the ceremony keys'] : []),
    'Read the final state',
  ];
}
