import type { KnownFilter, RepointingRoute } from '../../src/contracts/activities';
import type { SecondaryRepointingInput } from '../../src/contracts/runbook-inputs';
import { approvePlan } from '../procedures/approved-plan';
import type { OperationTokens } from '../procedures/operation-tokens';
import {
  STOP_HERE,
  followAsDrSecondary,
  repointPerformanceSecondary,
  sameFilterOnBothSides,
  seenFollowing,
} from '../procedures/re-protection';
import type { Begin } from '../procedures/re-protection';
import type { Approvals } from '../engine/approvals';
import type { Run } from '../engine/run';
import type { Ending, RunbookResult } from '../engine/runbook';
import { executeRunbook } from '../engine/runbook';
import { failOver } from './dr-failover';
import { readFinalState } from '../procedures/roles';

/**
 * A secondary follows another primary of its set. DR: by activation token only. Performance: by the cluster addresses of
 * the primary, which keeps id, certificate and filter, or by token, with which it may receive what its filter keeps away.
 */
export async function secondaryRepointing(input: unknown): Promise<RunbookResult> {
  return executeRunbook<SecondaryRepointingInput>({ name: 'secondaryRepointing', body: repoint, failOver }, input);
}

function repoint(run: Run, input: SecondaryRepointingInput): Promise<Ending> {
  return run.stoppable(async () => {
    // 0.-1. Read everything; refuse; people approve it, the key holders are asked meanwhile.
    const approved = await approvePlan<RepointingRoute>(run, {
      input,
      assess: (call, again) => call.assessSecondaryRepointing({ input, ...again }),
      gate: () => 'repoint',
      tokens: ({ tokenSource, secondary }) =>
        tokenSource && {
          source: tokenSource,
          targets: [{ cluster: secondary, uses: ['dr.update-primary', 'dr.operation-token.delete'] }],
        },
    });
    if ('outcome' in approved) return approved;
    const { route, tokens, approvals } = approved;

    // 2. Point it at the primary, and see that it follows.
    run.state.enterPhase('working');
    const follows = await point(run, input.deployment, route, approvals, tokens);

    // 3. What can be said of the data.
    if (follows) await compareRoots(run, input.deployment, route);

    // 4. Nothing of ours stays behind, and the last look is in the report.
    run.state.enterPhase('finishing');
    await tokens?.dispose();
    await readFinalState(run, input.deployment);
    return { outcome: 'completed', leftToDo: follows ? [] : [leftUndone(route)] };
  });
}

function point(
  run: Run,
  deployment: string,
  route: RepointingRoute,
  approvals: Approvals,
  tokens: OperationTokens | undefined,
): Promise<boolean> {
  const { kind, form, primary, secondary, filter } = route;
  const begin: Begin = (carryOut) => approvals.begin('repoint', carryOut);
  const following = { deployment, primary, secondary, authority: approvals.authority, begin };
  if (kind === 'dr') {
    if (!tokens) throw new TypeError('a DR secondary is re-pointed with an operation token');
    return followAsDrSecondary(run, tokens, following);
  }
  if (!filter) throw new TypeError('the plan says which filter a performance secondary has');
  return form === 'token'
    ? repointPerformanceSecondary(run, following, filter)
    : pointByAddresses(run, deployment, route, begin, filter);
}

/** The lighter form: nothing is written on the primary. */
async function pointByAddresses(
  run: Run,
  deployment: string,
  { primary, secondary, addressesId }: RepointingRoute,
  begin: Begin,
  { id, filter }: KnownFilter,
): Promise<boolean> {
  const pointed = await run.skippableStep(
    `Give ${secondary} the addresses of ${primary}`,
    `${secondary} keeps looking for the old primary`,
    (call) =>
      begin((authority) =>
        call.updatePerformancePrimaryByAddresses({
          deployment,
          primary,
          secondary,
          expected: { filter: filter ?? 'none' },
          authority,
        }),
      ),
    { note: ({ observed }) => observed, choices: [STOP_HERE] },
  );
  if (!pointed) return false;
  const seen = await seenFollowing(run, deployment, primary, [secondary], `Wait until ${secondary} follows`);
  const known = { id: addressesId ?? id, ...(filter && { filter }) };
  const equal = await sameFilterOnBothSides(run, { deployment, primary, secondary }, known);
  return seen.has(secondary) && equal;
}

async function compareRoots(
  run: Run,
  deployment: string,
  { kind, primary, secondary, filter }: RepointingRoute,
): Promise<void> {
  const filtered = filter?.filter !== undefined;
  const compared = await run.skippableStep(
    `Compare the Merkle roots of ${primary} and ${secondary}`,
    'whether both hold the same data is not known',
    (call) => call.compareMerkleRoots({ deployment, primary, secondary, kind, filtered }),
    { note: ({ observed }) => observed, choices: [STOP_HERE] },
  );
  if (!compared || compared.verdict === 'equal' || compared.verdict === 'not-comparable') return;
  run.state.finding({
    severity: 'info',
    code: 'merkle-roots-not-equal',
    text: `Equal Merkle roots of ${primary} and ${secondary} were not seen (${compared.observed}). While ${primary} takes writes this is normal and proves nothing.`,
    next:
      kind === 'dr'
        ? `Compare again in a quiet hour, or run merkleCheck on ${secondary}.`
        : `Compare the performance status of both in a quiet hour.`,
  });
}

function leftUndone({ kind, primary, secondary }: RepointingRoute): string {
  return kind === 'dr'
    ? `${secondary} was not seen streaming from ${primary}. Read its DR status; if it does not follow, start secondaryRepointing again.`
    : `${secondary} was not seen following ${primary} with its filter. Read its performance status and its dynamic filter on both sides; start secondaryRepointing again, or filterReconciliation where only the filter is not as it must be.`;
}
