import { isDeepStrictEqual } from 'node:util';
import type { Assessment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { Finding } from '../../src/contracts/run-facts';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { secondReading, finalReading } from '../../src/moves/every-run';
import { directing } from '../../src/moves/clients';
import { followsAsDr } from '../../src/moves/following';
import type { Listed, Move, Named } from '../../src/moves/move';
import {
  demotion,
  promote,
  verifyWrite,
  waitFollowsPerformance,
  waitServes,
  writeMarker,
} from '../../src/moves/primary';
import { asking, claiming, disposing, obtaining } from '../../src/moves/tokens';
import { ceremonyCallsAllowed } from '../ceremony/ceremony-access';
import { asWarning, check } from '../checks/check';
import { credentialFacts, credentialMay } from '../checks/credentials';
import {
  bothAnswer,
  healthyTree,
  mayBeOneSet,
  mayHandOver,
  missingNodes,
  ofAnotherSet,
  otherReadable,
  rolesOf,
} from '../checks/replication';
import type { Quiescing } from '../checks/quiesce';
import { clientHooksOf, quiescing } from '../checks/quiesce';
import { coolDown } from '../checks/runs';
import { ceremonyEntryOf } from '../ceremony/token-source';
import type { TokenAssessment } from '../ceremony/token-source';
import { canFollow, isOlder, noneOlder, versionsInOrder } from '../checks/versions';
import { DEMOTE, PROMOTE, UPDATE_PRIMARY } from '../checks/rights';
import { currentExecution } from '../execution';
import { lastPrimaryChange } from '../roles/primary-changes';
import { snapshotWanted } from '../snapshots/snapshots';
import { comparing, followingPerformance, issuingRights, observe, repointing } from './observed';
import type { Observed, PlanInput } from './observed';

/** The old primary, the new one, the other members of the DR set, and the performance secondaries that follow. */
type Sides = Exclude<ReturnType<typeof findSides>, Check>;

/** A planned change of the DR primary: what was read, judged, and may be approved. */
export async function assessDrSwitchover(request: PlanInput<'drSwitchover'>): Promise<Assessment<SwitchoverRoute>> {
  const { input } = request;
  const observed = await observe('drSwitchover', request, [input.to, input.from]);
  const { deployment } = observed;
  const base = observed.base('plan', input.go === 'required' && 'go');
  const sides = findSides(input, observed);
  if ('verdict' in sides) return { ...base, preconditions: [sides] };
  const { from, to, drSecondaries, performanceSecondaries } = sides;
  const [tokens, { quiesce, snapshot, checks }, changes, ...afterwards] = await Promise.all([
    observed.tokens(to.cluster, [PROMOTE, UPDATE_PRIMARY], true, [...drSecondaries, from]),
    formerChecks(input, observed, sides),
    lastPrimaryChange(currentExecution(), deployment.name),
    candidateMay(observed, sides),
    observed.rights(performanceSecondaries.map((each) => repointing('performance', 'plan', each, from))),
  ]);
  // By then service is back, and followers usually follow by themselves: a missing right is no reason to refuse.
  const mayRepoint = afterwards.flat().map((each) => asWarning(each));
  const preconditions = [
    ...sideChecks(input, observed, sides),
    ...checks,
    ...mayRepoint,
    ...(await tokenChecks(observed, tokens, sides)),
    coolDown(changes, deployment.limits.coolDownMs, Date.now()),
  ];
  const beside = [...otherChecks(sides), ...mayRepoint];
  const route = routeOf(deployment, sides, tokens, quiesce, snapshot.wanted, beside);
  const { go, onStuck, acceptLoss } = input;
  const { tokenSource, rejoin } = route;
  const plan = observed.plan({
    clusters: [from, to, ...drSecondaries, ...performanceSecondaries],
    moves: movesOf(input, sides, route, { quiesce: quiesce.steps, snapshot: snapshot.move }),
    warnings: [...quiesce.warnings, ...[from, to].flatMap(missingNodes), ...tokens.warnings],
    choices: { tokenSource, go, onStuck, acceptLoss, rejoin, quiesce: quiesce.by },
  });
  return { ...base, preconditions, route, plan };
}

/** What the workflow follows. */
export type SwitchoverRoute = ReturnType<typeof routeOf>;

function routeOf(
  deployment: Deployment,
  { from, to, drSecondaries, performanceSecondaries, silent }: Sides,
  tokens: TokenAssessment,
  quiesce: Quiescing,
  snapshot: boolean,
  beside: readonly Check[],
) {
  return {
    from: from.cluster,
    to: to.cluster,
    otherDrSecondaries: drSecondaries.map(({ cluster }) => cluster),
    performanceSecondaries: performanceSecondaries.map(({ cluster }) => cluster),
    /** Clusters that may have to follow but cannot be read: people re-point them later. */
    silent: silent.map(({ cluster }) => cluster),
    /** What approvers must know, next to the plan, about clusters that may have to follow: which ones answer changes over time. */
    findings: beside.flatMap(({ verdict, cluster = '', name, observed, needed, next }): Finding[] => {
      const isSilent = silent.some((each) => each.cluster === cluster);
      const [code, text] = isSilent
        ? ['cluster-silent', `${cluster} cannot be read: ${observed}.`]
        : ['may-not-follow', `${cluster}, "${name}": ${observed}; needed: ${needed}.`];
      return verdict === 'ok' ? [] : [{ severity: 'warning', code, text, ...(next && { next }) }];
    }),
    /** Whether the old primary follows the new one: an older version cannot. */
    rejoin: !isOlder(from.version, to.version),
    tokenSource: tokens.source,
    /** The operation token of `to`, if the record keeps one. */
    kept: tokens.kept,
    /** Whether to take one of the old primary before its demotion. */
    snapshot,
    /** How clients are quiesced. */
    quiesce: quiesce.by,
    hooks: clientHooksOf(deployment),
  };
}

/** Judges what a switchover does on the old primary before its demotion: clients, marker, rights. */
export async function formerChecks(
  input: InputOf<'drSwitchover'>,
  { deployment, access, markerRights, signal }: Observed,
  { from, to }: Pick<Sides, 'from' | 'to'>,
) {
  const quiesce = await quiescing({ deployment, access, signal }, input, from, to.cluster);
  const snapshot = snapshotWanted(deployment, 'demotion', from.cluster);
  const rights = { ...quiesce.rights, [DEMOTE]: ['update'], ...issuingRights('dr'), ...snapshot.rights };
  return { quiesce, snapshot, checks: [...quiesce.checks, ...(await markerRights(from.cluster, rights, true))] };
}

/**
 * Whether the workers' credential for the new primary, if it is a different one, lets the others follow. The old primary
 * is asked: it has the same tokens.
 */
async function candidateMay({ access, signal }: Observed, { from, to }: Sides): Promise<Check[]> {
  const [source, target] = [access(from.cluster), access(to.cluster)];
  if (isDeepStrictEqual(source.entry.credential, target.entry.credential)) return [];
  const rights = issuingRights('dr');
  const facts = await credentialFacts(source, () => target.credential(), Object.keys(rights), signal);
  return credentialMay(target.entry, facts, rights);
}

/** Which cluster is primary is read, never configured. */
export function findSides(input: InputOf<'drSwitchover'>, { of, othersOf, observations }: Observed) {
  const inSet = [of(input.to), ...othersOf(input.to)];
  const [to] = inSet;
  const primaries = inSet.filter((each) => each.dr?.mode === 'primary');
  const from =
    input.from === undefined
      ? (primaries.find((each) => each !== to) ?? primaries[0])
      : inSet.find((each) => each.cluster === input.from);
  if (!to || !from || from === to) {
    return check('a DR primary and its secondary', undefined, false, {
      observed: rolesOf(inSet, 'dr'),
      needed: `${input.to} is a DR secondary and ${input.from ?? 'another member of its DR set'} is the primary`,
      next:
        from === to && to?.dr?.mode === 'primary'
          ? `${input.to} is already the DR primary: there is nothing to do. Is this the input of an earlier run, which the Web UI fills into its start form?`
          : 'If no primary answers, this is a failover and not a switchover.',
    });
  }
  const others = inSet.filter((each) => each !== from && each !== to);
  const secondaries = others.filter((each) => each.dr?.mode === 'secondary');
  const isOfSet = (each: ClusterObservation) => mayBeOneSet(each.dr?.setId, from.dr?.setId);
  const followsRole = ({ dr, performance }: ClusterObservation) =>
    performance?.mode === 'secondary' && performance.setId === from.performance?.setId && dr?.mode !== 'secondary';
  const outside = from.performance?.mode === 'primary' ? observations.filter((each) => !inSet.includes(each)) : [];
  return {
    ...{ from, to, others },
    drSecondaries: secondaries.filter(isOfSet),
    /** DR secondaries of another primary, whatever the inventory says. */
    strangers: secondaries.filter((each) => !isOfSet(each)),
    performanceSecondaries: outside.filter(followsRole),
    /** Clusters that may have to follow but cannot be read. */
    silent: [...others, ...outside].filter(({ reachable }) => !reachable),
  };
}

/** Judges what was read of the clusters: both sides, and the others that have to follow. */
export function sideChecks(input: InputOf<'drSwitchover'>, { deployment }: Observed, sides: Sides): Check[] {
  const { from, to, others, drSecondaries, performanceSecondaries } = sides;
  const handOver = mayHandOver('dr', deployment.limits, { from, to, inSet: [from, to, ...others] });
  if (!bothAnswer(from, to)) return handOver;
  return [
    ...handOver,
    versionsForSwitch(from, to, input.acknowledgeNewerSecondary),
    // A secondary that is older than its primary now is no worse off afterwards.
    ...[...drSecondaries, ...performanceSecondaries].map((each) =>
      noneOlder(from, each).verdict === 'ok' ? canFollow(to, each) : asWarning(canFollow(to, each)),
    ),
    ...[from, to].flatMap((each) => healthyTree(each, 'dr')),
    ...otherChecks(sides),
  ];
}

/** Judges clusters that the run leaves unchanged. */
function otherChecks({ from, silent, strangers }: Sides): Check[] {
  const next = (cluster: string) =>
    `${cluster} may need attention after the switchover: re-point it if it does not follow.`;
  return [
    ...silent.map((each) => otherReadable(each, next(each.cluster))),
    ...strangers.map((each) => ofAnotherSet(from, each)),
  ];
}

/** A newer secondary can take over, but the old primary cannot follow it. */
function versionsForSwitch(from: ClusterObservation, to: ClusterObservation, acknowledged: boolean): Check {
  const judged = versionsInOrder(from, to);
  if (judged.verdict !== 'ok' || !isOlder(from.version, to.version)) return judged;
  return check(judged.name, to.cluster, acknowledged, {
    observed: judged.observed,
    needed: 'the same version, or acknowledgeNewerSecondary',
    next: `With {"acknowledgeNewerSecondary": true} ${from.cluster} stays out until it is upgraded.`,
  });
}

/** The source of operation tokens must be ready before the outage, for the switchover and for a rollback. */
export async function tokenChecks(
  { access, signal }: Observed,
  { source, checks }: TokenAssessment,
  { from, drSecondaries }: Sides,
): Promise<Check[]> {
  const name = 'exit: a token for the rollback';
  const needed = 'an operation token on the old primary';
  switch (source) {
    case 'batch':
      return [...checks];
    case 'provided':
      return [
        // Inside the outage it would be too late to find out.
        ...checks.map((each) => (each.verdict === 'warn' ? { ...each, verdict: 'fail' as const } : each)),
        check(name, from.cluster, false, {
          observed:
            'none can be provided in advance: people would generate it on the demoted cluster, INSIDE the outage',
          needed,
          next: 'Keep as many holders as the threshold at their keyboards until service is back, or prepare a batch token.',
          otherwise: 'warn',
        }),
      ];
    case 'ceremony': {
      const others = drSecondaries.map(async (each) => {
        const entry = await ceremonyEntryOf(access(each.cluster), each, signal);
        return ceremonyCallsAllowed(each.cluster, 'operation-token', each.version, entry);
      });
      return [...checks, ...(await Promise.all(others))];
    }
  }
}

/** What the run does. Its approval also allows the way back: either side may end up as the primary, and the others follow it. */
function movesOf(
  { go, onStuck, acceptLoss }: InputOf<'drSwitchover'>,
  { from, to, drSecondaries, performanceSecondaries }: Sides,
  { kept, quiesce: by, rejoin, tokenSource: source, hooks }: SwitchoverRoute,
  { quiesce, snapshot }: { readonly quiesce: readonly Move[]; readonly snapshot: Move | false },
): Listed<Move> {
  const [old, now] = [from.cluster, to.cluster];
  const tokens = {
    source,
    kept,
    recovery: to.seal?.recovery,
    clusters: [now, old, ...drSecondaries.map(({ cluster }) => cluster)],
  };
  const follow = (primary: Named, on: Named) => repointing('dr', 'plan', on, primary);
  const promotion = (on: Named, other: Named) =>
    ({ kind: 'dr', endpoint: 'secondary/promote', gate: 'plan', on, with: other }) as const;
  const sides = { on: from, with: to };
  return [
    ...asking(tokens),
    ...claiming(tokens).map((each) => ({
      ...each,
      operations: [kept && ({ endpoint: 'operation-token/take', gate: 'plan', on: to, detail: kept.entry } as const)],
    })),
    ...obtaining(tokens, now),
    { ...secondReading, ...(go === 'required' && { note: 'then gate "go" opens' }) },
    snapshot,
    ...quiesce.map((each, index) => ({
      ...each,
      operations: [
        index === 0 &&
          by === 'quota' &&
          ({ kind: 'dr', endpoint: 'quotas/rate-limit', gate: 'plan', ...sides } as const),
      ],
    })),
    { step: writeMarker(old, now) },
    { ...demotion('dr', old, now), operations: [{ kind: 'dr', endpoint: 'primary/demote', gate: 'plan', ...sides }] },
    comparing(old, by, acceptLoss),
    {
      step: promote(now),
      note: `if that gets stuck, ${onStuck === 'promote-back' ? `promote ${old} back` : 'park'}`,
      operations: [promotion(to, from), promotion(from, to)],
    },
    { step: waitServes(now), note: 'the OUTAGE ends, unless a probe follows' },
    ...directing(by, hooks),
    from.performance?.mode === 'secondary' && { step: waitFollowsPerformance(now) },
    { step: verifyWrite(now) },
    ...(rejoin
      ? followsAsDr(tokens, old, now, { operations: [follow(to, from)] })
      : [{ warnings: [`${old} stays out until it is upgraded to the version of ${now}.`] }]),
    ...drSecondaries.flatMap((each) => followsAsDr(tokens, each.cluster, now, { operations: [follow(to, each)] })),
    ...followingPerformance(performanceSecondaries, to, 'plan'),
    // The way back.
    {
      operations: [
        ...[to, ...drSecondaries].map((each) => follow(from, each)),
        ...performanceSecondaries.map((each) => repointing('performance', 'plan', each, from)),
      ],
    },
    ...disposing(tokens),
    finalReading,
  ];
}
