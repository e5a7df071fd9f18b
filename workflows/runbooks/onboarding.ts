import type { Authority, ChangeResult, SealsResult, SecondaryOnboardingRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { StepCalls } from '../engine/activity-calls';
import type { JoinUnit } from '../procedures/join-unit';
import { carryOutUnit } from '../procedures/join-unit';
import type { Choice } from '../engine/parking';
import type { Approvals } from '../engine/approvals';
import type { Run } from '../engine/run';
import { readFinalState } from '../procedures/roles';

/*
 * What the onboardings of both kinds have in common. From the enable on the secondary is wiped: whatever ends the run
 * early then leaves a cluster that people have to bring in order, and the report says how.
 */

const STOP_HERE: Choice = {
  action: 'abort',
  effect: 'end the run here: what was wiped stays wiped, the report says what is left to do',
};

export function kindOf(kind: ReplicationKind): string {
  return kind === 'dr' ? 'DR' : 'performance';
}

/** Makes a cluster primary of a kind of replication; a step that finds it there already says so. */
export async function enablePrimary(
  run: Run,
  kind: ReplicationKind,
  cluster: string,
  enable: (call: StepCalls) => Promise<ChangeResult>,
): Promise<void> {
  await run.step(`Enable ${cluster} as ${kindOf(kind)} primary`, enable, { note: ({ observed }) => observed });
}

/** Public key, activation token and enable, as one unit: the secondary is wiped here. New approvals get a new token. */
export async function enableSecondary(
  run: Run,
  { kind, primary, secondary }: SecondaryOnboardingRoute,
  approvals: Approvals,
  unit: (call: StepCalls, authority: Authority, calledBefore: () => boolean) => JoinUnit,
): Promise<void> {
  let called = false;
  const carryOut = ({ issue, use }: JoinUnit) =>
    carryOutUnit({
      issue,
      use: (activation) => {
        const using = use(activation);
        called = true;
        return using;
      },
    });
  await run.step(
    `Enable ${secondary} as ${kindOf(kind)} secondary of ${primary}`,
    (call) => approvals.begin('wipe', (authority) => carryOut(unit(call, authority, () => called))),
    { note: ({ observed }) => observed, choices: [STOP_HERE] },
  );
}

/** How far a join came; decides what the end of the run says. */
export interface Joining {
  streams: boolean;
}

/** Registered before the wipe: a run that ends without having seen the secondary stream says what people look at. */
export function registerLeftovers(run: Run, { kind, primary, secondary, id }: SecondaryOnboardingRoute): Joining {
  const joining: Joining = { streams: false };
  run.onEnd(() => {
    if (!joining.streams) {
      run.state.leftToDo.push(
        `${secondary} was not seen streaming: read its ${kindOf(kind)} status. If it is secondary, unseal its nodes with key shares of ${primary} and wait until it streams; if it has no replication, it was not wiped: revoke the id ${id} on ${primary} (primary/revoke-secondary), and start again.`,
      );
    }
    return Promise.resolve();
  });
  return joining;
}

/**
 * Waits until people have unsealed the nodes that sealed themselves, and until the first copy streams. Nodes that seal
 * themselves later are waited for again.
 *
 * @returns whether it streams; false where people skipped the watch
 */
export async function followUntilStreaming(
  run: Run,
  deployment: string,
  route: SecondaryOnboardingRoute,
): Promise<boolean> {
  const { kind, primary, secondary } = route;
  for (let sealedIsKnown = false; ;) {
    sealedIsKnown = !(await unsealed(run, deployment, route));
    const seen = await run.skippableStep(
      `Watch the first copy of ${secondary}`,
      `whether ${secondary} got everything that ${primary} holds is not known`,
      (call) => call.followBootstrap({ deployment, primary, secondary, kind, sealedIsKnown }),
      { note: ({ observed }) => observed, choices: [STOP_HERE] },
    );
    if (seen?.verdict !== 'sealed') return seen !== undefined;
  }
}

/** @returns false where people chose to leave nodes sealed */
async function unsealed(
  run: Run,
  deployment: string,
  { primary, secondary }: SecondaryOnboardingRoute,
): Promise<boolean> {
  const seals = await run.skippableStep(
    `Read the seals of ${secondary}`,
    `nodes of ${secondary} may be sealed and nobody is told`,
    (call) => call.readSeals({ deployment, cluster: secondary }),
    { note: ({ observed }) => observed, choices: [STOP_HERE] },
  );
  if (seals === undefined) return false;
  if (seals.nodes.every(({ sealed }) => sealed === false)) return true;
  run.state.wait('unseal', {
    for: 'action',
    what: `the nodes of ${secondary} are unsealed with key shares of ${primary}`,
    instructions: unsealing(primary, secondary, seals),
  });
  try {
    const opened = await run.skippableStep(
      `Wait until the nodes of ${secondary} are unsealed`,
      `nodes of ${secondary} stay sealed: it may have no active node, and does not survive the loss of one`,
      (call) => call.awaitUnsealed({ deployment, cluster: secondary }),
      { note: ({ observed }) => observed, choices: [STOP_HERE] },
    );
    return opened !== undefined;
  } finally {
    run.state.waitOver('unseal');
  }
}

/** What people have to do at each node, and when the cluster works again. */
function unsealing(primary: string, secondary: string, { nodes, threshold, shares }: SealsResult): string[] {
  const sealed = nodes.filter((node) => node.sealed === true);
  const silent = nodes.filter((node) => node.sealed === undefined);
  const quorum = Math.floor(nodes.length / 2) + 1;
  const open = nodes.length - sealed.length - silent.length;
  const count = threshold === undefined ? 'key shares' : `${threshold} of the ${shares ?? '?'} key shares`;
  return [
    `Only key shares of ${primary} open ${secondary} now (recovery keys where ${primary} unseals itself); those of ${secondary} are void. Never give a key share to this program.`,
    ...sealed.map(
      ({ address }) =>
        `${address}: its holders give ${count} of ${primary}, each by hand: \`VAULT_ADDR=${address} vault operator unseal\``,
    ),
    ...silent.map(({ address }) => `${address} does not answer: start it, and unseal it in the same way.`),
    open >= quorum
      ? `${open} of ${nodes.length} nodes are unsealed: ${secondary} works meanwhile, without all of its redundancy.`
      : `${open} of ${nodes.length} nodes are unsealed, ${quorum} are needed for a quorum: until then ${secondary} may have no active node, and nothing is copied.`,
  ];
}

/** One write on the primary is seen to arrive, and the roots of both sides are compared. */
export async function proveReplication(run: Run, deployment: string, route: SecondaryOnboardingRoute): Promise<void> {
  const { kind, primary, secondary, filter } = route;
  const marker = await run.skippableStep(
    `Write a marker on ${primary}`,
    'no write was seen to arrive',
    (call) => call.writeMarker({ deployment, cluster: primary, kind }),
    { note: ({ wal }) => `last WAL ${wal}`, choices: [STOP_HERE] },
  );
  if (marker) {
    await run.skippableStep(
      `See the marker arrive on ${secondary}`,
      `no write of ${primary} was seen to arrive on ${secondary}`,
      (call) => call.awaitCatchUp({ deployment, primary, secondary, wal: marker.wal, kind }),
      { note: ({ reached, target }) => `last_remote_wal ${reached}, needed ${target}`, choices: [STOP_HERE] },
    );
  }
  const compared = await run.skippableStep(
    'Compare the Merkle roots',
    `nothing is said of whether ${primary} and ${secondary} hold the same`,
    (call) => call.compareMerkleRoots({ deployment, primary, secondary, kind, filtered: filter !== undefined }),
    { note: ({ observed }) => observed, choices: [STOP_HERE] },
  );
  if (compared && compared.verdict !== 'equal') {
    run.state.finding({
      severity: 'info',
      code: 'merkle-roots-not-proven-equal',
      text: `That ${primary} and ${secondary} hold the same is not proven by their Merkle roots (${compared.verdict}): ${compared.observed}.`,
      next: `Run merkleCheck where the service offers it, and look at the lag of ${secondary} again later.`,
    });
  }
}

/** The last look: it is in the report, and shows whether the cluster has another ID since it was wiped. */
export async function lastLookAt(
  run: Run,
  deployment: string,
  { secondary, id }: SecondaryOnboardingRoute,
): Promise<void> {
  run.state.enterPhase('finishing');
  const seen = await readFinalState(run, deployment);
  const now = clusterIdOf(seen?.observations, secondary);
  if (now === undefined || now === id) return;
  run.state.finding({
    severity: 'warning',
    code: 'cluster-id-changed',
    text: `${secondary} has another cluster ID since it was wiped: ${now}, before ${id}. Its primary knows it by the former.`,
    next: `Where the inventory pins the clusterId of ${secondary}, write ${now} there. To revoke it, or to change its paths filter, use the id ${id}.`,
  });
}

function clusterIdOf(observations: readonly ClusterObservation[] | undefined, cluster: string): string | undefined {
  return observations?.find((each) => each.cluster === cluster)?.clusterId;
}
