import type { RejoinRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { PlanDocument, Precondition } from '../../src/contracts/plan';
import type { DrRejoinInput, TokenSource, TokenSourceChoice } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import type { ClusterAccess } from '../clusters';
import { credentialMay } from '../roles/permissions';
import { identityOf, planDocument } from '../approvals/planning';
import { DEMOTE, SECONDARY_TOKEN, UPDATE_PRIMARY } from '../checks/switchover-facts';
import { assessTokenSource } from '../tokens/token-source';

const REVOKE = 'sys/replication/dr/primary/revoke-secondary';

interface TokenQuestion {
  readonly deployment: Deployment;
  readonly former: { readonly access: ClusterAccess; readonly observation: ClusterObservation };
  readonly primary: ClusterAccess;
  readonly wanted: TokenSourceChoice | undefined;
  readonly ownFingerprint: string | undefined;
  readonly signal: AbortSignal;
}

/** What the run must be able to do: demote, issue an activation token, and have an operation token afterwards. */
export async function rejoinTokens({
  deployment,
  former: { access, observation },
  primary,
  wanted,
  ownFingerprint,
  signal,
}: TokenQuestion): Promise<{
  readonly tokenSource: TokenSource;
  readonly preconditions: Precondition[];
  readonly warnings: readonly string[];
}> {
  const isPrimary = observation.dr?.mode === 'primary';
  const [{ source, preconditions, warnings }, ...credentials] = await Promise.all([
    assessTokenSource({
      deployment,
      secondary: access,
      observation,
      primary,
      wanted,
      paths: [UPDATE_PRIMARY],
      ownFingerprint,
      signal,
    }),
    credentialMay(primary, [SECONDARY_TOKEN], ['update', 'sudo'], signal),
    credentialMay(primary, [REVOKE], ['update'], signal),
    ...(isPrimary ? [credentialMay(access, [DEMOTE], ['update'], signal)] : []),
  ]);
  return {
    tokenSource: source,
    warnings,
    // A cluster that still is primary has no slot and takes no ceremony call: that shows after its demotion only.
    preconditions: [...credentials, ...preconditions.map((each) => (isPrimary ? afterDemotion(each) : each))],
  };
}

function afterDemotion(precondition: Precondition): Precondition {
  if (precondition.name !== 'ceremony calls allowed' || precondition.observed !== 'refused') return precondition;
  const { name, cluster, needed } = precondition;
  return { name, cluster, observed: 'a primary takes none', needed, verdict: 'not-checkable' };
}

/** The plan of a rejoin. Approving it attests the fence. */
export function rejoinPlan(
  input: DrRejoinInput,
  route: RejoinRoute,
  former: ClusterObservation,
  primary: ClusterObservation,
  ofTokens: readonly string[] = [],
): PlanDocument {
  const { cluster } = route;
  const demotes = route.former === 'primary';
  const [on, other] = [identityOf(former), identityOf(primary)];
  return planDocument({
    runbook: 'drRejoin',
    input,
    clusters: [former, primary],
    operations: [
      ...(demotes ? [{ operation: 'dr.primary.demote', on, with: other } as const] : []),
      { operation: 'hook.unfence', on, with: other },
      { operation: 'dr.secondary.repoint-after-unfence', on, with: other },
    ],
    warnings: [
      `Whoever approves attests that ${cluster} is still fenced: no clients reach it, it reaches no database or cloud, and its cluster port is closed.`,
      `Everything that ${cluster} wrote after ${route.primary} had become primary is lost: the data of ${route.primary} replace it.`,
      route.hooks.dump && demotes
        ? `The dump hook saves what ${cluster} holds before it is demoted; nobody else reads it back.`
        : `Nothing of what ${cluster} wrote is saved by this run${demotes ? ': save what is needed before approving' : ''}.`,
      `While ${cluster} was active it may have revoked leases and rotated credentials that ${route.primary} uses: clients may find them refused.`,
      route.hooks.unfence
        ? `The unfence hook is run after gate "unfence", which asks again.`
        : `There is no unfence hook: people take the fence away after the demotion, and attest it by approving gate "unfence".`,
      ...ofTokens,
    ],
    steps: [
      ...(route.tokenSource === 'ceremony' ? [`Collect key shares for an operation token on ${cluster}`] : []),
      `State what ${cluster} wrote after the split`,
      ...(demotes && route.hooks.dump ? [`Save what ${cluster} holds (dump hook)`] : []),
      ...(demotes ? [`Demote ${cluster}, where ${route.primary} serves as primary at that moment`] : []),
      'Ask gate "unfence"',
      ...(route.hooks.unfence ? [`Unfence ${cluster} (hook)`] : []),
      `Make ${cluster} a DR secondary of ${route.primary} with an activation token, and wait until it streams`,
      'Compare the Merkle roots',
      ...(route.tokenSource !== 'batch' ? ['Delete the operation token and destroy the ceremony keys'] : []),
      'Read the final state',
    ],
    choices: { former: route.former, tokenSource: route.tokenSource, ...route.hooks },
  });
}
