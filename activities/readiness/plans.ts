import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { ceremonyCallsAllowed } from '../ceremony/ceremony-access';
import { asWarning } from '../checks/check';
import { QUOTA_LEFT_BEHIND, QUOTA_POSSIBLE } from '../checks/quiesce';
import { inStep, takesPart } from '../checks/replication';
import { FREE_SLOT, ceremonyEntryOf } from '../ceremony/token-source';
import type { TokenAssessment } from '../ceremony/token-source';
import { isBeforeMajor } from '../checks/versions';
import { candidateChecks } from '../plans/dr-failover';
import { findSides, formerChecks, sideChecks, tokenChecks } from '../plans/dr-switchover';
import { findFailoverSides } from '../checks/failover-sides';
import { observedOf } from '../plans/observed';
import type { Observed } from '../plans/observed';
import { FORMER_MS, READING_MS, concerning, readChecks } from './reading';
import { within } from '../checks/within';
import { PROMOTE, UPDATE_PRIMARY } from '../checks/rights';
import type { DrSet, Judged, ServiceContext } from './reading';

/** Checks whose findings may belong to an active run: a quota, and a generation attempt. */
const OF_A_RUN: readonly string[] = [QUOTA_LEFT_BEHIND, QUOTA_POSSIBLE, FREE_SLOT];

/**
 * The checks that the plans of a switchover and of a failover to each DR secondary would make now. For a failover the primary
 * counts as gone: no sign of that is judged.
 *
 * @param works whether a run of the deployment is active
 * @param takesKept whether a token that the record keeps counts
 */
export async function planChecks(context: ServiceContext, works: Promise<boolean>, takesKept: boolean) {
  const { deployment, sets, clusters, access, execution } = context;
  const { signal } = execution;
  const observations = clusters.map(({ observation }) => observation);
  const observed = observedOf({ access, signal }, deployment, observations, { input: {} });
  /** One after the other: sets with performance replication between them share the key next to the marker. */
  const formers = async () => {
    const judged: Judged[] = [];
    for (const set of sets) judged.push(...(await former(observed, set)));
    return judged;
  };
  const checks = await Promise.all([
    formers(),
    ...sets.flatMap((set) => set.secondaries.map(({ name }) => candidate(observed, set, name, works, takesKept))),
  ]);
  const owned = (await works) ? OF_A_RUN : [];
  return checks
    .flat()
    .map((each) => (owned.includes(each.name) ? asWarning(each, 'It may belong to the active run.') : each));
}

/** The inputs with which somebody would start the runbooks now. */
function inputsTo(deployment: string, to: string) {
  const given = { deployment, to, reason: 'readiness' };
  return { switchover: RUNBOOK_INPUTS.drSwitchover.parse(given), failover: RUNBOOK_INPUTS.drFailover.parse(given) };
}

/** What a switchover does on the primary is the same for every secondary. */
async function former(observed: Observed, { primaries, secondaries }: DrSet) {
  const [from, to] = [primaries[0]?.observation, secondaries[0]?.observation];
  if (from === undefined || to === undefined) return [];
  const asked = { name: 'switchover-begins', cluster: from.cluster, needed: 'what a switchover does on the primary' };
  return readChecks(
    observed.signal,
    asked,
    async (signal) => {
      const { switchover } = inputsTo(observed.deployment.name, to.cluster);
      const { checks } = await formerChecks(switchover, { ...observed, signal }, { from, to });
      return concerning('switchover', checks);
    },
    FORMER_MS,
  );
}

async function candidate(
  observed: Observed,
  { primaries: [primary] }: DrSet,
  cluster: string,
  works: Promise<boolean>,
  takesKept: boolean,
): Promise<Judged[]> {
  const { signal, deployment } = observed;
  const observation = observed.of(cluster);
  // Every other failure would follow from that.
  if (!observation.reachable) return takesPart(observation);
  const { switchover, failover } = inputsTo(deployment.name, cluster);
  const asked = { name: 'operation-token', cluster, needed: 'a source of the operation token' };
  const reading = within(signal, () => observed.tokens(cluster, [PROMOTE, UPDATE_PRIMARY], takesKept), READING_MS);
  reading.catch(() => undefined);
  const sides = findSides(switchover, observed);
  const planned =
    'verdict' in sides
      ? [{ ...sides, cluster }]
      : [
          ...sideChecks(switchover, observed, sides),
          ...(await readChecks(signal, asked, async () => tokenChecks(observed, await reading, sides))),
        ];
  const from = primary?.name;
  const found = findFailoverSides(deployment, { ...failover, from }, observed.observations);
  const unplanned =
    'verdict' in found
      ? [{ ...found, cluster }]
      : [
          ...candidateChecks(failover, observed, found),
          // Data that did not arrive is lost, but a failover starts anyway.
          ...inStep('dr', deployment.limits, found.from, found.to).map((each) => asWarning(each)),
        ];
  const ofTokens = await readChecks(signal, asked, async () => {
    const assessed = await reading;
    return [...concerning('failover', assessed.checks), ...(await callsAllowed(observed, cluster, assessed, works))];
  });
  return [...concerning('switchover', planned), ...concerning('failover', unplanned), ...ofTokens];
}

/** A plan only warns of break-glass access: it is a way out at night. Here there is time to do without, and to close it. */
async function callsAllowed(
  { access, of, signal }: Observed,
  cluster: string,
  { source }: TokenAssessment,
  works: Promise<boolean>,
): Promise<Judged[]> {
  const { version } = of(cluster);
  if (isBeforeMajor(2, version)) return [];
  const entry = await ceremonyEntryOf(access(cluster), of(cluster), signal);
  const judged = ceremonyCallsAllowed(cluster, 'operation-token', version, entry);
  const isOpen = entry.access === 'open';
  if (judged.verdict === 'ok' || (!isOpen && source !== 'ceremony'))
    return [judged.verdict === 'ok' ? judged : asWarning(judged)];
  return [{ ...judged, verdict: isOpen && (await works) ? 'warn' : 'fail' }];
}
