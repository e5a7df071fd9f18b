import type { TeardownRoute } from '../../activities/plans/ending';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { approvePlan } from '../procedures/approved-plan';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';
import { failOver } from './dr-failover';
import { disablingInDoubt, finishRun, kindName, seeDisabled } from '../procedures/roles';

/**
 * One kind of replication ends on one cluster, primary or secondary. The other kind stays as it is, and no data is
 * wiped; but what replicated with it can do so again only after a wipe, which the plan names secondary by secondary.
 */
export const replicationTeardown = runbook('replicationTeardown', tearDown, { failOver });

async function tearDown(run: Run, input: InputOf<'replicationTeardown'>): Promise<Ending> {
  const { deployment, kind, cluster } = input;

  // 0./1. Read the role and who is cut off; gate `disable` while the key holders are asked.
  const approved = await approvePlan<TeardownRoute>(run, {
    input,
    assess: (call, again) => call.assessReplicationTeardown({ input, ...again }),
    gate: ({ gates }) => (gates.disable?.needed === true ? 'disable' : undefined),
    // A DR secondary does nothing without an operation token.
    tokens: ({ tokenSource: source }) =>
      source && { source, targets: [{ cluster, uses: ['dr.disable', 'dr.operation-token.delete'] }] },
  });
  if ('outcome' in approved) return approved;
  const { route, tokens, approvals } = approved;

  // 2. The role ends. A run that is stopped afterwards says what is left all the same.
  const { role } = route;
  if (role !== 'disabled') {
    await tokens?.of(cluster);
    run.state.enterPhase('working');
    await run.step(`Disable ${kindName(kind)} replication on ${cluster}`, (call) =>
      approvals.begin('disable', async (authority) => {
        const ending = { deployment, kind, cluster, authority };
        const token = role === 'primary' ? undefined : await tokens?.of(cluster);
        return run.state.left.during(`disabling ${cluster}`, disablingInDoubt(kind, role, cluster), () =>
          role === 'primary' ? call.disablePrimary(ending) : call.disableSecondary({ ...ending, token }),
        );
      }),
    );
    for (const text of leftToDo(input, route)) run.state.left.add(text);
  }

  // 3. Every node says so; nothing of ours stays behind; the last look is in the report.
  await seeDisabled(run, { deployment, kind, cluster });
  await finishRun(run, deployment, tokens);
  return {
    outcome: 'completed',
    result: {
      cluster,
      kind,
      was: route.role,
      cutOff: route.cutOff,
      undo: undoInWords(input, route),
    },
  };
}

/** What the others still believe, and how to end that. */
function leftToDo({ kind, cluster }: InputOf<'replicationTeardown'>, { cutOff, knownBy }: TeardownRoute): string[] {
  return [
    ...cutOff.map(({ id, cluster: name }) =>
      name === undefined
        ? `The secondary with the id ${id} is not in the inventory: disable its replication, or wipe it and onboard it elsewhere.`
        : `${name} is still a secondary and looks for ${cluster}: end that with replicationTeardown {"kind": "${kind}", "cluster": "${name}"}, or wipe it and onboard it to another primary.`,
    ),
    ...(knownBy
      ? [
          `${knownBy.primary} still knows ${cluster}: revoke it with secondaryDecommission {"kind": "${kind}", "primary": "${knownBy.primary}", "id": "${knownBy.id}", "afterwards": "nothing"}${kind === 'dr' ? ', with "acknowledgeLastSecondary": true where no other DR secondary is connected' : ''}.`,
        ]
      : []),
  ];
}

function undoInWords({ kind, cluster }: InputOf<'replicationTeardown'>, { role, cutOff }: TeardownRoute): string {
  if (role === 'disabled') return 'Nothing was changed.';
  const onboarding = kind === 'dr' ? 'drSecondaryOnboarding' : 'performanceSecondaryOnboarding';
  if (role === 'secondary') return `There is no way back but ${onboarding}, which wipes ${cluster}.`;
  const again = `primaryEnablement makes ${cluster} a primary again, of a new replication set`;
  return cutOff.length === 0
    ? `${again}.`
    : `${again}; each of its ${cutOff.length} former secondaries then needs ${onboarding}, which wipes it.`;
}
