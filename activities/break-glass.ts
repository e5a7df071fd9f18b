import { setTimeout as delay } from 'node:timers/promises';
import type { BreakGlassActivities, CeremonyClosed } from '../src/contracts/activities';
import { isRunbookError } from '../src/errors';
import type { CeremonyKind } from './support/ceremony-access';
import { OPENED_BY, closingInWords, endpointsOf, judgeCeremonyWay, inWords, isIn } from './support/ceremony-access';
import { Budget } from './support/budget';
import type { ClusterAccess, Clusters } from './support/clusters';
import type { Execution } from './support/execution';
import { execute } from './support/execution';
import { awaitState } from './support/read-act-confirm';

/** People change a file and send a signal: nothing is gained by looking more often. */
const POLL_MS = 1_000;

/** Opening the calls of a ceremony by configuration, and seeing that they are closed again (facts 5.6). */
export function createBreakGlassActivities(clusters: Clusters): BreakGlassActivities {
  return {
    describeBreakGlass: execute(async ({ deployment, cluster, kind }, { signal }) => {
      const access = clusters.of(deployment, cluster);
      const { version } = await access.client.sys.health({ signal });
      const way = await judgeCeremonyWay(access, { kind, version, signal });
      return {
        observed: `${inWords(way)} (version ${version ?? 'not told'})`,
        open: opening(access, kind),
        close: closingInWords(access, kind),
      };
    }),

    awaitCeremonyOpened: execute(async ({ deployment, cluster, kind }, execution) => {
      const access = clusters.of(deployment, cluster);
      const way = await awaitState(execution, {
        read: async () => {
          const { version } = await access.client.sys.health({ signal: execution.signal });
          return judgeCeremonyWay(access, { kind, version, signal: execution.signal });
        },
        until: ({ access: how }) => isIn(how),
        budgetMs: clusters.deployment(deployment).limits.breakGlassMs,
        pollMs: POLL_MS,
        describe: inWords,
        needed: `a credential that ${cluster} accepts for its ceremony calls, or the calls open without one`,
        cluster,
      });
      const { access: how } = way;
      return { access: how === 'accepted' || how === 'open' ? how : 'not-needed', observed: inWords(way) };
    }),

    checkCeremonyClosed: execute(({ deployment, cluster, kind }, execution) =>
      lookWithoutToken(clusters.of(deployment, cluster), kind, execution),
    ),

    awaitCeremonyClosed: execute(async ({ deployment, cluster, kind }, execution) => {
      const access = clusters.of(deployment, cluster);
      // What is not taken back by then is a critical finding of the run.
      const budget = new Budget(clusters.deployment(deployment).limits.takeBackMs);
      return budget.during(async () => {
        for (;;) {
          const seen = await budget.look(() => lookWithoutToken(access, kind, execution));
          if (seen.state === 'closed' || budget.isOver) return seen;
          execution.progress(`waiting until ${cluster} refuses calls without a token; ${seen.observed}`);
          await delay(POLL_MS, undefined, { signal: execution.signal });
        }
      });
    }),
  };
}

/** Only a refusal proves that the calls are closed. It is the active node's: standbys cannot be asked. */
async function lookWithoutToken(
  access: ClusterAccess,
  kind: CeremonyKind,
  { signal }: Execution,
): Promise<CeremonyClosed> {
  try {
    access.client.forgetActiveNode();
    await endpointsOf(access, kind).readAttempt({ signal });
    return { state: 'open', observed: 'a call without a token is answered' };
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    if (error.code === 'PERMISSION_DENIED') return { state: 'closed', observed: 'a call without a token is refused' };
    // It is let in, and then not served, as on a cluster that is primary by now.
    if (error.code === 'BAD_REQUEST') return { state: 'open', observed: 'a call without a token is let in' };
    return { state: 'unknown', observed: error.code };
  }
}

function opening({ entry }: ClusterAccess, kind: CeremonyKind): string[] {
  return [
    `Only where no credential can be had: an orphan batch token in the place of batchToken or ceremonyCredential of ${entry.name} lets the run go on at once, without any of this.`,
    `On every node of ${entry.name} (${entry.addresses.join(', ')}), also on standbys, because leadership may move, put this line into the server's configuration file, at its top level:`,
    `\`enable_unauthenticated_access = ["${OPENED_BY[kind]}"]\``,
    'Then let each node read its configuration anew: `kill -HUP $(pidof vault)`, or `systemctl reload vault`. No restart: it would seal the node.',
    'The run sees it and goes on by itself. Meanwhile anybody who reaches the cluster may occupy or cancel its one generation slot; without the key shares nobody gets a token.',
  ];
}
