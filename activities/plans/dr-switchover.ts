import type { Assessment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { AllowedOperation, Check, PlanDocument } from '../../src/contracts/plan';
import type { DrSwitchoverInput, TokenSource } from '../../src/contracts/runbook-inputs';
import { drSetOf } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import { identityOf, planDocument } from '../approvals/planning';
import { breakGlassWarnings, ceremonyCallsAllowed } from '../ceremony/ceremony-access';
import { check, notCheckable } from '../checks/check';
import { credentialFacts, credentialLives, credentialMay, credentialWorks } from '../checks/credentials';
import type { CredentialFacts } from '../checks/credentials';
import { everyNodeAnswers, otherReadable, takesPart } from '../checks/nodes';
import { aliveByHeartbeat, healthyTree, lag, streams } from '../checks/replication';
import { onePrimary, rolesOf, sameSet, servesAsPrimary } from '../checks/roles';
import { coolDown } from '../checks/runs';
import {
  DEMOTE,
  PROMOTE,
  SECONDARY_TOKEN,
  UPDATE_PRIMARY,
  ceremonyEntryOf,
  judgeTokenSource,
  providedWarning,
  readTokenFacts,
} from '../checks/tokens';
import type { CeremonyEntry, TokenFacts } from '../checks/tokens';
import { compareVersions, majorVersion, versionsInOrder } from '../checks/versions';
import { currentExecution } from '../execution';
import { lastPrimaryChange } from '../roles/primary-changes';
import type { PrimaryChange } from '../roles/primary-changes';
import { observe } from './observed';
import type { PlanInput } from './observed';

export interface SwitchoverRoute {
  readonly from: string;
  readonly to: string;
  readonly otherDrSecondaries: readonly string[];
  readonly performanceSecondaries: readonly string[];
  readonly rejoin: boolean;
  readonly tokenSource: TokenSource;
  readonly hooks: {
    readonly quiesce: boolean;
    readonly release: boolean;
    readonly traffic: boolean;
    readonly probe: boolean;
  };
}

/** The old primary, the new one, the others of the DR set, and who follows their performance role. */
interface Sides {
  readonly from: ClusterObservation;
  readonly to: ClusterObservation;
  readonly others: readonly ClusterObservation[];
  readonly performanceSecondaries: readonly ClusterObservation[];
}

/** Everything that the checks of a switchover look at. */
export interface SwitchoverObserved extends Sides {
  readonly input: DrSwitchoverInput;
  readonly deployment: Deployment;
  /** The credential of the primary. */
  readonly credential: CredentialFacts;
  readonly tokenSource: TokenSource;
  readonly tokens: TokenFacts;
  /** The ceremonies of the other DR secondaries. */
  readonly otherCeremonies: readonly { readonly of: ClusterObservation; readonly entry: CeremonyEntry }[];
  readonly ownFingerprint?: string | undefined;
  /** The latest changes of the primary; absent where Temporal cannot tell. */
  readonly changes?: { readonly last?: PrimaryChange } | undefined;
  /** Epoch ms. */
  readonly now: number;
}

/** A planned change of the DR primary: what was read, judged, and may be approved. */
export async function assessDrSwitchover({
  input,
  ownFingerprint,
}: PlanInput<DrSwitchoverInput>): Promise<Assessment<SwitchoverRoute>> {
  const context = currentExecution();
  const { signal } = context;
  const observed = await observe(input.deployment, [input.to]);
  const { deployment, observations, access } = observed;
  const base = observed.base({ plan: true, go: input.go === 'required' });
  const sides = findSides(deployment, input, observations);
  if ('refused' in sides) return { ...base, preconditions: [sides.refused] };
  const { from, to, others, performanceSecondaries } = sides;
  const drSecondaries = others.filter((each) => each.dr?.mode === 'secondary');
  const primary = access(from.cluster);
  const [credential, { source: tokenSource, facts: tokens }, otherCeremonies, changes] = await Promise.all([
    credentialFacts(primary, () => primary.credential(), Object.keys(rightsOf(deployment)), signal),
    readTokenFacts({
      deployment,
      secondary: access(to.cluster),
      observation: to,
      primary,
      wanted: input.tokenSource,
      paths: [PROMOTE, UPDATE_PRIMARY],
      ownFingerprint,
      signal,
    }),
    Promise.all(
      drSecondaries.map(async (of) => ({ of, entry: await ceremonyEntryOf(access(of.cluster), of, signal) })),
    ),
    lastPrimaryChange(context, deployment.name),
  ]);
  const { hooks } = deployment;
  const route: SwitchoverRoute = {
    from: from.cluster,
    to: to.cluster,
    otherDrSecondaries: drSecondaries.map(({ cluster }) => cluster),
    performanceSecondaries: performanceSecondaries.map(({ cluster }) => cluster),
    rejoin: compareVersions(from.version ?? '', to.version ?? '') >= 0,
    tokenSource,
    hooks: {
      quiesce: hooks.quiesce !== undefined,
      release: hooks.release !== undefined,
      traffic: hooks.traffic !== undefined,
      probe: hooks.probe !== undefined,
    },
  };
  const world = { credential, tokenSource, tokens, otherCeremonies, ownFingerprint, changes, now: Date.now() };
  return {
    ...base,
    preconditions: switchoverChecks({ ...sides, ...world, input, deployment }),
    route,
    plan: switchoverPlan(input, route, sides, deployment),
  };
}

/** Who is primary is read, never configured. */
function findSides(
  deployment: Deployment,
  input: DrSwitchoverInput,
  observations: readonly ClusterObservation[],
): Sides | { readonly refused: Check } {
  const { members } = drSetOf(deployment, input.to);
  const inSet = observations.filter((each) => members.includes(each.cluster));
  const to = inSet.find((each) => each.cluster === input.to);
  const primaries = inSet.filter((each) => each.dr?.mode === 'primary');
  const from =
    input.from === undefined
      ? (primaries.find((each) => each.cluster !== input.to) ?? primaries[0])
      : inSet.find((each) => each.cluster === input.from);
  if (!to || !from || from === to) {
    return {
      refused: check(
        'a DR primary and its secondary',
        undefined,
        false,
        rolesOf(inSet, 'dr'),
        `${input.to} is a DR secondary and ${input.from ?? 'another member of its DR set'} is the primary`,
        from && from === to
          ? `${input.to} is the DR primary already: there is nothing to do.`
          : 'Where no primary answers, this is a failover and not a switchover.',
      ),
    };
  }
  const followsRole = ({ dr, performance }: ClusterObservation) =>
    performance?.mode === 'secondary' && performance.setId === from.performance?.setId && dr?.mode !== 'secondary';
  return {
    from,
    to,
    others: inSet.filter((each) => each !== from && each !== to),
    performanceSecondaries:
      from.performance?.mode === 'primary'
        ? observations.filter((each) => !inSet.includes(each) && followsRole(each))
        : [],
  };
}

/** Pure. */
export function switchoverChecks(world: SwitchoverObserved): Check[] {
  const { input, deployment, from, to, others, performanceSecondaries, credential } = world;
  const { heartbeatAgeMs, lagWalEntries, coolDownMs } = deployment.limits;
  const unread = [...others, ...performanceSecondaries].filter(({ reachable }) => !reachable);
  return [
    ...[from, to].flatMap((each) => [everyNodeAnswers(each), ...takesPart(each)]),
    servesAsPrimary(from, 'dr', `The DR primary is not ${from.cluster}: correct "from".`),
    streams(to, 'dr'),
    sameSet('dr', from, to, `${to.cluster} replicates from another primary.`),
    onePrimary('dr', [from, to, ...others]),
    aliveByHeartbeat(to, 'dr', heartbeatAgeMs),
    lag('dr', from, to, lagWalEntries),
    versionsForSwitch(from, to, input.acknowledgeNewerSecondary),
    ...[from, to].flatMap((each) => healthyTree(each, 'dr')),
    credentialWorks(from.cluster, credential),
    ...(credential.usable
      ? [credentialLives(from.cluster, credential), ...credentialMay(from.cluster, credential, rightsOf(deployment))]
      : []),
    ...tokenChecks(world),
    coolDown(world.changes, coolDownMs, world.now),
    ...unread.map((each) => otherReadable(each, `${each.cluster} may need attention after the switchover.`)),
  ];
}

function rightsOf({ marker }: Deployment) {
  return { [DEMOTE]: ['update'], [SECONDARY_TOKEN]: ['update', 'sudo'], [marker.path]: ['create|update'] };
}

/** A newer secondary can take over, but the old primary cannot follow it. */
function versionsForSwitch(from: ClusterObservation, to: ClusterObservation, acknowledged: boolean): Check {
  const judged = versionsInOrder(from, to);
  if (judged.verdict !== 'ok' || compareVersions(from.version ?? '', to.version ?? '') === 0) return judged;
  return check(
    judged.name,
    to.cluster,
    acknowledged,
    judged.observed,
    'the same version, or acknowledgeNewerSecondary',
    `With {"acknowledgeNewerSecondary": true} ${from.cluster} stays out until it is upgraded.`,
  );
}

/** Where the operation tokens come from must be ready before the outage, for the way there and the way back. */
function tokenChecks({
  deployment,
  from,
  to,
  tokenSource: source,
  tokens: facts,
  otherCeremonies,
  ownFingerprint,
}: SwitchoverObserved): Check[] {
  const paths = [PROMOTE, UPDATE_PRIMARY];
  const judged = judgeTokenSource({ deployment, observation: to, source, facts, paths, ownFingerprint });
  const name = 'exit: a token for the way back';
  const needed = 'an operation token on the old primary';
  switch (source) {
    case 'batch':
      return judged;
    case 'provided':
      return [
        // Inside the outage it would be too late to find out.
        ...judged.map((each) => (each.verdict === 'warn' ? { ...each, verdict: 'fail' as const } : each)),
        check(
          name,
          from.cluster,
          false,
          'none can be provided before: people would generate it on the demoted cluster, INSIDE the outage',
          needed,
          'Have as many holders as the threshold at their keyboards until service is back, or prepare a batch token.',
          'warn',
        ),
      ];
    case 'ceremony': {
      const shares = 'the same key shares serve it after its demotion';
      const closed = `its ceremony calls then need a credential that a DR secondary accepts (version ${from.version ?? 'not told'}), or a break-glass`;
      return [
        ...judged,
        ...otherCeremonies.map(({ of, entry }) =>
          ceremonyCallsAllowed(of.cluster, 'operation-token', of.version, entry),
        ),
        notCheckable(name, from.cluster, majorVersion(from.version) < 2 ? shares : `${shares}; ${closed}`, needed),
      ];
    }
  }
}

/** What the approval of the plan allows: each side may end as the primary, and the others follow that one. */
function switchoverPlan(
  input: DrSwitchoverInput,
  route: SwitchoverRoute,
  { from, to, others, performanceSecondaries }: Sides,
  deployment: Deployment,
): PlanDocument {
  const [former, next] = [identityOf(from), identityOf(to)];
  const following = others.filter(({ cluster }) => route.otherDrSecondaries.includes(cluster));
  const drSecondaries = following.map(identityOf);
  const followers = performanceSecondaries.map(identityOf);
  const followAs = (primary: AllowedOperation['on'], secondaries: readonly AllowedOperation['on'][]) => [
    ...secondaries.map((on) => ({ operation: 'dr.secondary.repoint-after-switchover', on, with: primary }) as const),
    ...followers.map(
      (on) => ({ operation: 'performance.secondary.repoint-after-switchover', on, with: primary }) as const,
    ),
  ];
  const { tokenSource, rejoin } = route;
  const { go, onStuck, acceptLoss } = input;
  return planDocument({
    runbook: 'drSwitchover',
    input,
    clusters: [from, to, ...following, ...performanceSecondaries],
    operations: [
      { operation: 'dr.primary.demote', on: former, with: next },
      { operation: 'dr.secondary.promote-after-demotion', on: next, with: former },
      { operation: 'dr.secondary.promote-after-demotion', on: former, with: next },
      // An older one cannot follow the new primary: it stays out.
      ...followAs(next, [...(rejoin ? [former] : []), ...drSecondaries]),
      ...followAs(former, [next, ...drSecondaries]),
    ],
    warnings: tokenSource === 'provided' ? [providedWarning(deployment, to.cluster)] : [],
    steps: planSteps(input, route, [to, ...following, from]),
    choices: { tokenSource, go, onStuck, acceptLoss, rejoin },
  });
}

function planSteps(
  input: DrSwitchoverInput,
  route: SwitchoverRoute,
  generateOn: readonly ClusterObservation[],
): string[] {
  const { from, to } = route;
  return [
    ...(route.tokenSource === 'ceremony'
      ? [
          ...breakGlassWarnings('operation-token', generateOn),
          `Generate an operation token on ${to} from the holders' key shares`,
        ]
      : []),
    ...(route.hooks.quiesce ? ['Quiesce the clients'] : []),
    `Write a marker on ${from} and wait until ${to} has it`,
    `Demote ${from} (OUTAGE begins)`,
    `Compare the Merkle roots; where loss cannot be excluded ${input.acceptLoss === 'none' ? `promote ${from} back` : 'go on and state the bound'}`,
    `Promote ${to}; where that gets stuck ${input.onStuck === 'promote-back' ? `promote ${from} back` : 'park'}`,
    `Wait until ${to} serves reads and writes${route.hooks.traffic ? ', lead the clients there' : ''} (OUTAGE ends)`,
    ...(route.rejoin ? [`Make ${from} a DR secondary of ${to}`] : [`Leave ${from} out until it is upgraded`]),
    ...route.otherDrSecondaries.map((cluster) => `Point ${cluster} at ${to}`),
    ...route.performanceSecondaries.map(
      (cluster) => `See that performance secondary ${cluster} follows ${to}, else re-point it with its paths filter`,
    ),
    ...(route.tokenSource !== 'batch' ? ['Delete the operation tokens and destroy the ceremony keys'] : []),
  ];
}
