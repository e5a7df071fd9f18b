import type { Seals } from '../../activities/joining/onboarding-read';
import type { SecondaryOnboardingRoute } from '../../src/contracts/activities';
import type { Choice } from '../engine/parking';
import type { Run } from '../engine/run';

/** From the enable on the secondary is wiped: what ends the run early leaves a cluster that people bring in order. */
export const STOP_HERE: Choice = {
  action: 'abort',
  effect: 'end the run here: what was wiped stays wiped, the report says what is left to do',
};

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
      { choices: [STOP_HERE] },
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
    { choices: [STOP_HERE] },
  );
  if (seals === undefined) return false;
  if (seals.nodes.every(({ sealed }) => sealed === false)) return true;
  run.state.wait('unseal', {
    for: 'action',
    what: seals.unsealsItself
      ? `the sealed nodes of ${secondary} are restarted: they unseal themselves`
      : `the nodes of ${secondary} are unsealed with key shares of ${primary}`,
    instructions: unsealing(primary, secondary, seals),
  });
  try {
    const opened = await run.skippableStep(
      `Wait until the nodes of ${secondary} are unsealed`,
      `nodes of ${secondary} stay sealed: it may have no active node, and does not survive the loss of one`,
      (call) => call.awaitUnsealed({ deployment, cluster: secondary }),
      { choices: [STOP_HERE] },
    );
    return opened !== undefined;
  } finally {
    run.state.waitOver('unseal');
  }
}

/** What people have to do at each node, and when the cluster works again. */
function unsealing(primary: string, secondary: string, { nodes, threshold, shares, unsealsItself }: Seals): string[] {
  const sealed = nodes.filter((node) => node.sealed === true);
  const silent = nodes.filter((node) => node.sealed === undefined);
  const quorum = Math.floor(nodes.length / 2) + 1;
  const open = nodes.length - sealed.length - silent.length;
  const count = threshold === undefined ? 'key shares' : `${threshold} of the ${shares ?? '?'} key shares`;
  const byHand = [
    `Only key shares of ${primary} open ${secondary} now (recovery key shares where ${primary} unseals itself); those of ${secondary} are void. Never give a key share to this program.`,
    ...sealed.map(
      ({ address }) =>
        `${address}: its holders give ${count} of ${primary}, each by hand: \`VAULT_ADDR=${address} vault operator unseal\``,
    ),
    ...silent.map(({ address }) => `${address} does not answer: start it, and unseal it in the same way.`),
  ];
  const byItself = [
    `${secondary} unseals itself (${unsealsItself ?? ''}): nobody gives a key share. Its recovery key shares are those of ${primary} now.`,
    ...sealed.map(
      ({ address }) => `${address} is sealed: restart the service there, such as \`systemctl restart vault\`.`,
    ),
    ...silent.map(({ address }) => `${address} does not answer: start it.`),
  ];
  return [
    ...(unsealsItself === undefined ? byHand : byItself),
    open >= quorum
      ? `${open} of ${nodes.length} nodes are unsealed: ${secondary} works meanwhile, without all of its redundancy.`
      : `${open} of ${nodes.length} nodes are unsealed, ${quorum} are needed for a quorum: until then ${secondary} may have no active node, and nothing is copied.`,
  ];
}
