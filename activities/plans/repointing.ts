import { finalReading, secondReading } from '../../src/moves/every-run';
import { compareRoots, followsAsDr, followsAsPerformance } from '../../src/moves/following';
import type { Listed, Move } from '../../src/moves/move';
import { asking, disposing } from '../../src/moves/tokens';
import { operationsOf } from '../approvals/planning';
import type { Assessment, KnownFilter } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { InputOf, TokenSource } from '../../src/contracts/runbook-inputs';
import { orElse } from '../../src/errors';
import { check, refuses } from '../checks/check';
import {
  attachedBefore,
  hasRole,
  knowsSecondary,
  mayBeOneSet,
  missingNodes,
  onePrimary,
  roleText,
  sameSet,
  takesPart,
} from '../checks/replication';
import { versionsInOrder } from '../checks/versions';
import { UPDATE_PRIMARY } from '../checks/rights';
import { describeFilter, findFilter } from '../filters/paths-filters';
import { follows, readSource } from '../joining/following';
import { addressesDetail } from '../joining/repoint-authority';
import { isAlive, kindName } from '../observe';
import type { Observed, PlanInput } from './observed';
import { exposureText, observe, repointing } from './observed';

interface Pair {
  readonly input: InputOf<'secondaryRepointing'>;
  readonly observed: Observed;
  readonly primary: ClusterObservation;
  readonly secondary: ClusterObservation;
}

/** A secondary follows another primary. */
export async function assessSecondaryRepointing(
  request: PlanInput<'secondaryRepointing'>,
): Promise<Assessment<RepointingRoute>> {
  const { input } = request;
  const { kind, addresses } = input;
  const observed = await observe('secondaryRepointing', request, [input.primary, input.secondary]);
  const { signal } = observed;
  const pair: Pair = { input, observed, primary: observed.of(input.primary), secondary: observed.of(input.secondary) };
  const { primary, secondary } = pair;
  const [source, target] = [observed.access(input.primary), observed.access(input.secondary)];
  const base = observed.base('repoint');
  const known = await readSource(source, kind, signal).catch(orElse(signal, () => undefined));
  const judged = repointingChecks(pair, known?.addresses ?? new Set());
  // Without the required roles there is nothing to read filters, tokens and rights from.
  if (refuses(judged)) return { ...base, preconditions: judged };
  const tokens = kind === 'dr' ? await observed.tokens(input.secondary, [UPDATE_PRIMARY]) : undefined;
  const wanted = observed.deployment.pathsFilters[input.secondary];
  const filter = kind === 'dr' ? undefined : await findFilter(source, target, wanted, signal);
  const route = routeOf(input, secondary, tokens?.source, filter?.known);
  const moves = movesOf(route, pair, filter?.known);
  const plan = observed.plan({
    clusters: [primary, secondary],
    moves,
    warnings: [
      ...warningsOf(route),
      ...((tokens ?? filter)?.warnings ?? []),
      ...[primary, secondary].flatMap(missingNodes),
    ],
    choices: {
      kind,
      form: input.form,
      ...(addresses && { addresses: addresses.join(', ') }),
      ...(tokens && { tokenSource: tokens.source }),
      ...(filter && { filter: describeFilter(filter.known.filter), filterId: route.filter?.id ?? '' }),
    },
  });
  // Without a public key the activation token is wrapped, unless people asked for an encrypted one.
  const needsKey = input.form === 'public-key' && kind === 'performance';
  const key = { 'sys/replication/performance/secondary/generate-public-key': ['update'] };
  const rights = await observed.rights(operationsOf(moves), { [input.secondary]: needsKey ? key : {} });
  const preconditions = [...judged, ...(tokens?.checks ?? []), ...(filter ? [filter.judged] : []), ...rights];
  return { ...base, preconditions, route, plan };
}

/** What the workflow follows. */
export type RepointingRoute = ReturnType<typeof routeOf>;

function routeOf(
  { kind, primary, secondary, form, addresses }: InputOf<'secondaryRepointing'>,
  observation: ClusterObservation,
  tokenSource: TokenSource | undefined,
  known: KnownFilter | undefined,
) {
  const byAddresses = form === 'addresses';
  const id = observation[kind]?.secondaryId;
  return {
    ...{ kind, primary, secondary },
    form: byAddresses ? ('addresses' as const) : ('token' as const),
    /** How the activation token leaves the primary. */
    activation: form === 'public-key' || form === 'wrapped' ? form : ('auto' as const),
    /** By addresses: those of the input. */
    addresses,
    /** DR: where the operation token comes from. */
    tokenSource,
    /** Performance: the paths filter that it must keep; by addresses, under the id that it already has. */
    filter: known && { ...known, ...(byAddresses && id && { id }) },
  };
}

function repointingChecks(pair: Pair, addresses: ReadonlySet<string>): Check[] {
  const { input, observed, primary, secondary } = pair;
  const { kind } = input;
  const form = input.form === 'addresses' ? 'addresses' : 'token';
  const setId = primary[kind]?.setId;
  const name = kindName(kind);
  const inSet = observed.observations.filter((each) => mayBeOneSet(each[kind]?.setId, setId));
  const noSecondary = `Only a ${name} secondary can be re-pointed; a cluster without replication is onboarded.`;
  const otherSet = `${secondary.cluster} belongs to another set: onboard it again, which wipes it.`;
  return [
    ...(kind === 'dr' ? [oneDrSet(pair)] : []),
    ...(form === 'addresses' ? [attachedBefore(secondary, kind), knowsSecondary(primary, secondary, kind)] : []),
    ...[primary, secondary].flatMap((each) => takesPart(each)),
    hasRole(primary, kind, 'primary', `Name the ${name} primary; the status shows which cluster that is.`),
    hasRole(secondary, kind, 'secondary', noSecondary),
    onePrimary(kind, inSet),
    sameSet(kind, primary, secondary, otherSet),
    versionsInOrder(primary, secondary),
    ...connection(pair, addresses),
  ];
}

function oneDrSet({ input, observed }: Pair): Check {
  const { primary, secondary } = input;
  const others = observed.othersOf(primary).map(({ cluster }) => cluster);
  return check('members of one DR set', secondary, others.includes(secondary), {
    observed: `${primary} with ${others.join(', ') || 'no others'}`,
    needed: `${secondary} in the DR set of ${primary}`,
    next: 'Correct drSets in the inventory, or the names in the input.',
  });
}

/** Refuses if the secondary already follows the primary; warns if it is connected to another one. */
function connection({ input, observed, primary, secondary }: Pair, addresses: ReadonlySet<string>): Check[] {
  const { cluster, [input.kind]: seen } = secondary;
  if (seen?.mode !== 'secondary') return [];
  const alive = isAlive(seen, observed.deployment.limits.heartbeatAgeMs);
  const here = follows(seen, addresses);
  const to = seen.peers.find((peer) => peer.connected)?.clusterAddress ?? seen.primaryClusterAddress ?? 'nobody';
  if (here && alive && seen.state === 'stream-wals') {
    return [
      check('something to do', cluster, false, {
        observed: `${roleText(secondary, input.kind)}, connected to ${to}`,
        needed: `${cluster} does not follow ${primary.cluster} yet`,
        next: `${cluster} already follows ${primary.cluster}: there is nothing to do.`,
      }),
    ];
  }
  return [
    check('connected to no other primary', cluster, here || !alive, {
      observed: alive
        ? `connected to ${to}`
        : `not connected; last known primary ${seen.primaryClusterAddress || 'none'}`,
      needed: 'no working connection to another primary',
      next: `${cluster} follows another primary now and will leave it. Make sure that this is intended.`,
      otherwise: 'warn',
    }),
  ];
}

function warningsOf({ kind, form, primary: to, secondary: cluster, filter: known }: RepointingRoute) {
  return [
    kind === 'performance' &&
      form === 'token' &&
      (known?.filter
        ? exposureText(cluster, known.filter)
        : `${cluster} has no paths filter: it receives everything that is not local.`),
    kind === 'dr'
      ? `Until ${cluster} streams again it protects nothing: do not plan a failover to it before then.`
      : `Until ${cluster} streams again its clients read old data, and their writes fail.`,
    `Data that ${cluster} has and ${to} lacks is removed from ${cluster} when their data is compared.`,
  ];
}

function movesOf(
  { kind, primary: to, secondary: cluster, form, activation, addresses, tokenSource: source }: RepointingRoute,
  { primary, secondary }: Pick<Pair, 'primary' | 'secondary'>,
  known: KnownFilter | undefined,
): Listed<Move> {
  const tokens = { source, recovery: secondary.seal?.recovery, clusters: [cluster] };
  const kept = known && (known.filter ?? 'none');
  const byToken = known && describeFilter(known.filter);
  const detail = form === 'token' ? byToken : addressesDetail(kept, addresses);
  const note =
    form === 'token'
      ? `by activation token, ${activation === 'auto' ? 'encrypted, otherwise wrapped' : activation}`
      : `by ${addresses ? `the addresses ${addresses.join(', ')}` : 'its known addresses'}`;
  const points = { note, operations: [repointing(kind, 'repoint', secondary, primary, detail)] };
  return [
    ...asking(tokens),
    secondReading,
    ...(kind === 'dr'
      ? followsAsDr(tokens, cluster, to, points)
      : followsAsPerformance(cluster, to, known?.filter && describeFilter(known.filter), form, points)),
    !known?.filter && { step: compareRoots(to, cluster) },
    ...disposing(tokens),
    finalReading,
  ];
}
