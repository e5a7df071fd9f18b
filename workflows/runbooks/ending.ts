import { kindName } from '../../src/moves/kinds';
import {
  disabling,
  forgetting,
  revocation,
  teardownCommand,
  verifyDisabled as verifyDisabledStep,
  verifyGone,
} from '../../src/moves/ending';
import type { DecommissionRoute, TeardownRoute } from '../../activities/plans/ending';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { InputOf, ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { Approvals } from '../engine/approvals';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';
import type { TokenNeed } from '../procedures/approved-plan';
import { approvePlan } from '../procedures/approved-plan';
import type { OperationTokens } from '../procedures/operation-tokens';
import { finishRun } from '../procedures/roles';
import { failOver } from './dr-failover';

/**
 * Cuts a secondary off for good: revokes it on its primary, then makes it forget the primary or disables its replication.
 * The secondary keeps its data; nothing is wiped.
 */
export const secondaryDecommission = runbook('secondaryDecommission', decommission, { failOver });

async function decommission(run: Run, input: InputOf<'secondaryDecommission'>): Promise<Ending> {
  // 0./1. Read and check. Gate `revoke` while the key holders are asked; then gate `disable` if that follows.
  const approved = await approvePlan<DecommissionRoute>(run, {
    input,
    assess: (call, again) => call.assessSecondaryDecommission({ input, ...again }),
    gate: 'revoke',
    tokens: tokenNeed,
  });
  if ('outcome' in approved) return approved;
  const { route, tokens, approvals } = approved;
  // Both approvals before the first change, so that a rejection of the second leaves nothing half done.
  if (route.afterwards === 'disable') {
    run.state.enterPhase('waiting-for-people');
    await approvals.further('disable');
  }
  // The token is generated before anything is changed. Without it the secondary would be left half done.
  if (route.secondary !== undefined) await tokens?.of(route.secondary);

  // 2. On the primary. A run that is stopped from here on reports what is left to do.
  run.state.enterPhase('working');
  await cutOff(run, input, route, approvals);

  // 3. On the secondary.
  await settle(run, input, route, approvals, tokens);

  // 4. Delete what this run made, and read the final state for the report.
  await finishRun(run, input.deployment, tokens);
  return { outcome: 'completed' };
}

/** Nothing can be done on a DR secondary without an operation token. */
function tokenNeed({ tokenSource, secondary, afterwards }: DecommissionRoute): TokenNeed | undefined {
  if (tokenSource === undefined || secondary === undefined) return undefined;
  const use = afterwards === 'disable' ? 'dr.disable' : 'dr.update-primary';
  return { source: tokenSource, targets: [{ cluster: secondary, uses: [use, 'dr.operation-token.delete'] }] };
}

/** Step 2: revokes the secondary, and verifies that it is gone. */
async function cutOff(
  run: Run,
  input: InputOf<'secondaryDecommission'>,
  route: DecommissionRoute,
  approvals: Approvals,
): Promise<void> {
  const { deployment, kind } = input;
  const { primary: cluster, id, secondary } = route;
  const whose = secondary ?? id;
  const { step, ifUnknown } = revocation(kind, whose, cluster, id);
  await run.step(step, (call) =>
    approvals.begin('revoke', (authority) => {
      const order = () => call.revokeSecondary({ deployment, kind, cluster, id, secondary, authority });
      return run.state.left.during(SECONDARY_SIDE, ifUnknown, order, secondarySide(input, route));
    }),
  );
  for (const text of filterLeft(input, route)) run.state.left.add(text);
  await run.skippableStep(verifyGone(whose), `unknown whether ${whose} is disconnected from ${cluster}`, (call) =>
    call.awaitSecondaryGone({ deployment, cluster, kind, id, secondary }),
  );
}

/** Step 3: what the run does on the secondary is no longer left to people. */
async function settle(
  run: Run,
  input: InputOf<'secondaryDecommission'>,
  route: DecommissionRoute,
  approvals: Approvals,
  tokens: OperationTokens | undefined,
): Promise<void> {
  const { deployment, kind } = input;
  const { secondary: cluster, afterwards } = route;
  if (cluster === undefined || afterwards === 'nothing') return;
  const forgets = afterwards === 'forget-primary';
  const { step, ifUnknown } = forgets ? forgetting(kind, cluster) : disabling(kind, 'secondary', cluster);
  const settled = await run.skippableStep(
    step,
    forgets
      ? `${cluster} keeps looking for a primary that refuses it`
      : `${cluster} stays a ${kindName(kind)} secondary and keeps looking for a primary that refuses it`,
    (call) =>
      approvals.begin(forgets ? 'revoke' : 'disable', async (authority) => {
        const ending = { deployment, kind, cluster, authority, token: await tokens?.of(cluster) };
        return run.state.left.during(`settling ${cluster}`, ifUnknown, () =>
          forgets ? call.forgetPrimary(ending) : call.disableSecondary(ending),
        );
      }),
  );
  if (!settled) return;
  run.state.left.settle(SECONDARY_SIDE);
  if (!forgets) await verifyDisabled(run, { deployment, kind, cluster });
}

const SECONDARY_SIDE = 'side of the secondary';

/** What is left to do on the secondary once its primary has revoked it. */
function secondarySide(
  { deployment, kind, secondary: named }: InputOf<'secondaryDecommission'>,
  { id, secondary: cluster }: DecommissionRoute,
): string {
  if (cluster === undefined) {
    const name = named ?? `the secondary with the id ${id}`;
    return `Nothing was done on ${name}. Send it update-primary with "token": "" so that it forgets its primary, or disable its ${kindName(kind)} replication. It keeps a copy of the data either way: erase it if it is not wanted.`;
  }
  return `${cluster} is still a ${kindName(kind)} secondary with a copy of the data, and it keeps looking for its primary. Disable it with ${teardownCommand(deployment, kind, cluster)}.`;
}

/** The filter of a revoked performance secondary is not touched: it keeps data away if the id is used again. */
function filterLeft(
  { deployment }: InputOf<'secondaryDecommission'>,
  { primary, id, secondary, filterLeft: filter }: DecommissionRoute,
): string[] {
  if (filter === undefined) return [];
  const how =
    secondary === undefined
      ? `DELETE sys/replication/performance/primary/paths-filter/${id} on ${primary}`
      : `\`${nextCommandOf.start('filterReconciliation', { deployment, primary, filters: { [secondary]: 'none' }, reason: `${secondary} was decommissioned` })}\``;
  return [
    `The paths filter of ${id} is still on ${primary} (${filter}), so that nothing more is sent if the id is used again. To delete it: ${how}.`,
  ];
}

/**
 * Ends one kind of replication on one cluster, primary or secondary. The other kind is unchanged and no data is wiped. But
 * what replicated with the cluster can do so again only after a wipe; the plan names each such secondary.
 */
export const replicationTeardown = runbook('replicationTeardown', tearDown, { failOver });

async function tearDown(run: Run, input: InputOf<'replicationTeardown'>): Promise<Ending> {
  const { deployment, kind, cluster } = input;

  // 0./1. Read the role and which clusters are cut off. Gate `disable` while the key holders are asked.
  const approved = await approvePlan<TeardownRoute>(run, {
    input,
    assess: (call, again) => call.assessReplicationTeardown({ input, ...again }),
    gateIfNeeded: 'disable',
    // Nothing can be done on a DR secondary without an operation token.
    tokens: ({ tokenSource: source }) =>
      source && { source, targets: [{ cluster, uses: ['dr.disable', 'dr.operation-token.delete'] }] },
  });
  if ('outcome' in approved) return approved;
  const { route, tokens, approvals } = approved;

  // 2. The role ends. A run that is stopped afterwards still reports what is left to do.
  const { role } = route;
  if (role !== 'disabled') {
    await tokens?.of(cluster);
    run.state.enterPhase('working');
    const { step, ifUnknown } = disabling(kind, role, cluster);
    await run.step(step, (call) =>
      approvals.begin('disable', async (authority) => {
        const ending = { deployment, kind, cluster, authority };
        const token = role === 'primary' ? undefined : await tokens?.of(cluster);
        return run.state.left.during(`disabling ${cluster}`, ifUnknown, () =>
          role === 'primary' ? call.disablePrimary(ending) : call.disableSecondary({ ...ending, token }),
        );
      }),
    );
    for (const text of leftOfTeardown(input, route)) run.state.left.add(text);
  }

  // 3. Verify on every node, delete what this run made, and read the final state for the report.
  await verifyDisabled(run, { deployment, kind, cluster });
  await finishRun(run, deployment, tokens);
  return {
    outcome: 'completed',
    result: { cluster, kind, was: role, cutOff: route.cutOff },
  };
}

/** What the other clusters still believe, and how to end that. */
function leftOfTeardown(
  { deployment, kind, cluster }: InputOf<'replicationTeardown'>,
  { cutOff, knownBy }: TeardownRoute,
): string[] {
  const revoke = { deployment, kind, ...knownBy, afterwards: 'nothing', reason: `${cluster} was torn down` };
  return [
    ...cutOff.map(({ id, cluster: name }) =>
      name === undefined
        ? `The secondary with the id ${id} is not in the inventory: disable its replication, or wipe it and onboard it elsewhere.`
        : `${name} is still a secondary and keeps looking for ${cluster}. End that with ${teardownCommand(deployment, kind, name)}, or wipe it and onboard it to another primary.`,
    ),
    ...(knownBy
      ? [
          `${knownBy.primary} still lists ${cluster}. Revoke it with \`${nextCommandOf.start('secondaryDecommission', revoke)}\`${kind === 'dr' ? ', with "acknowledgeLastSecondary": true if no other DR secondary is connected' : ''}.`,
        ]
      : []),
  ];
}

/** Verifies on every node of a cluster that a kind of replication is disabled. */
function verifyDisabled(run: Run, asked: { deployment: string; kind: ReplicationKind; cluster: string }) {
  return run.skippableStep(
    verifyDisabledStep(asked.cluster),
    `unknown whether every node of ${asked.cluster} ended its replication`,
    (call) => call.awaitReplicationDisabled(asked),
  );
}
