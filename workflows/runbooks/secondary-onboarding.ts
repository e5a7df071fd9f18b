import { kindName } from '../../src/moves/kinds';
import {
  checkCredential,
  enableSecondary,
  followCopy,
  issueToken,
  waitConnected,
  writeFirstFilter,
} from '../../src/moves/joining';
import { writeMarker } from '../../src/moves/primary';
import type { PathsFilterFacts, SecondaryOnboardingRoute } from '../../src/contracts/activities';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { Finding } from '../../src/contracts/run-facts';
import type { InputOf, OutsideSecondary } from '../../src/contracts/runbook-inputs';
import type { Approvals } from '../engine/approvals';
import { failureFacts } from '../engine/failures';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';
import type { PlanRequest } from '../procedures/approved-plan';
import { approvePlan } from '../procedures/approved-plan';
import { changingFilter, compareRoots, sameFilterOnBothSides } from '../procedures/repoint';
import { finishRun, followingOf } from '../procedures/roles';
import { takeSnapshot } from '../procedures/service-back';
import { failOver } from './dr-failover';
import { enablePrimary, PREPARED } from './primary-enablement';
import type { Choice } from '../engine/parking';

/** A cluster without replication becomes a DR secondary. **Everything on it is wiped**: gate `wipe` must approve it. */
export const drSecondaryOnboarding = runbook(
  'drSecondaryOnboarding',
  (run, input) => onboard(run, input, (call) => call.assessDrSecondaryOnboarding({ input })),
  { failOver },
);

/** The same for a performance secondary. Its paths filter keeps away, from the first byte on, what the secondary must not have. */
export const performanceSecondaryOnboarding = runbook(
  'performanceSecondaryOnboarding',
  (run, input) => onboard(run, input, (call) => call.assessPerformanceSecondaryOnboarding({ input })),
  { failOver },
);

async function onboard(
  run: Run,
  input: InputOf<'drSecondaryOnboarding'> | InputOf<'performanceSecondaryOnboarding'>,
  assess: PlanRequest<SecondaryOnboardingRoute>['assess'],
): Promise<Ending> {
  const { deployment } = input;
  // 1. Read and check. People approve that this cluster is wiped, and what it will receive.
  const approved = await approvePlan(run, { input, assess, gate: 'wipe' });
  if ('outcome' in approved) return approved;
  const { route, approvals } = approved;
  const { kind, primary, secondary, id, filter, form, outside } = route;

  // 2. Take a snapshot if the inventory wants one, and enable the primary if it is not one yet.
  const { left } = run.state;
  run.state.enterPhase('working');
  await takeSnapshot(run, route.snapshot, { deployment, cluster: secondary, event: 'wipe' }, approvals.authority);
  if (route.enablesPrimary) await enablePrimary(run, { deployment, kind, cluster: primary }, approvals, 'wipe');

  // 3. Write the paths filter before there is an activation token: what it keeps away never leaves the primary.
  if (filter) {
    await run.step(writeFirstFilter(secondary, primary), (call) => {
      const { authority } = approvals;
      const written = { deployment, cluster: primary, id, filter, authority, ...(!outside && { secondary }) };
      return changingFilter(run, written, () => call.writePathsFilter(written));
    });
    left.add(
      `The paths filter of ${id} is on ${primary} and no secondary was connected to it. Read it before you connect a secondary under that id.`,
      PREPARED.filter,
    );
  }
  if (outside) return admitOutside(run, deployment, { ...route, outside }, approvals);

  // 4. The wipe: public key, activation token and enable. It is refused unless exactly that filter is in place.
  // Added also for an enable that is refused: the primary may know the id of the secondary by then.
  left.add(notStreaming(route), followingOf(secondary));
  let calledBefore = false;
  const expected = kind === 'performance' ? { filter: filter ?? ('none' as const) } : undefined;
  const { nodes } = await run.step(
    enableSecondary(kind, secondary, primary),
    (call) =>
      approvals.begin('wipe', async (authority) => {
        const input = { deployment, kind, primary, secondary, authority, form, expected, calledBefore };
        // An enable may be under way: nobody is told that nothing was connected.
        const enable = () => left.during(PREPARED.filter, undefined, () => call.enableSecondary(input));
        try {
          return await left.during(PREPARED.primary, undefined, enable);
        } catch (error) {
          calledBefore ||= failureFacts(error)?.outcomeKnown !== true;
          throw error;
        }
      }),
    { choices: [STOP_HERE] },
  );
  // It is wiped. However the run ends now, people hear what that cost and what they have to do.
  run.state.finding(credentialsGone(route));
  for (const [about, text] of kind === 'dr' ? leftOfDr(route) : leftOfPerformance(deployment, route))
    left.add(text, about);

  if (nodes.length > 1) left.add(sealedStandbys(route, nodes), SEALS);

  // 5. People unseal its standbys, and the initial copy finishes.
  if (await followUntilStreaming(run, deployment, route, nodes)) left.settle(followingOf(secondary));

  // 6. Verify that a write arrives, and that both clusters hold the same data.
  await proveReplication(run, deployment, route);

  // 7. Verify that both clusters filter the same. The secondary needs a new credential before it can report its filter.
  if (filter) await compareFilters(run, deployment, route, filter);

  // 8. Read the final state for the report.
  const seen = await finishRun(run, deployment);
  noteNewId(run, route, seen.find(({ cluster }) => cluster === secondary)?.clusterId);
  return { outcome: 'completed' };
}

/** Step 4 for a secondary of another team: issues a token that only they can use, and waits until it is connected. */
async function admitOutside(
  run: Run,
  deployment: string,
  route: SecondaryOnboardingRoute & { readonly outside: OutsideSecondary },
  approvals: Approvals,
): Promise<Ending> {
  const { kind, primary: cluster, id, filter, outside } = route;
  const expected = kind === 'performance' ? { filter: filter ?? ('none' as const) } : undefined;
  const revoke = { deployment, kind, primary: cluster, id, afterwards: 'nothing', reason: `${id} did not join` };
  run.state.left.add(
    `${id} has not been confirmed as connected to ${cluster}. If it should not join any more: \`${nextCommandOf.start('secondaryDecommission', revoke)}\`.`,
    followingOf(id),
  );
  const issued = await run.step(
    issueToken(id, cluster),
    (call) =>
      approvals.begin('wipe', (authority) =>
        call.issueOutsideToken({ deployment, kind, cluster, outside, expected, authority }),
      ),
    { choices: [STOP_HERE] },
  );
  run.state.left.settle(PREPARED.primary, PREPARED.filter);
  run.state.enterPhase('waiting-for-people');
  const waiting = {
    for: 'action',
    what: `the other team enables ${id} with the activation token`,
    instructions: [
      `Give the other team this token within ${outside.ttl}. It is encrypted to their public key and useless to anybody else: ${issued.encryptedToken}`,
      `They use it on the node that made the key, which must still be the active node. It WIPES their cluster: POST v1/sys/replication/${kind}/secondary/enable {"token": "<the token>"}`,
      `Then they unseal their nodes with key shares of ${cluster}.`,
    ],
  } as const;
  const seen = await run.state.whileWaiting('outside', waiting, () =>
    run.skippableStep(
      waitConnected(id, cluster),
      `unknown whether ${id} joined`,
      (call) => call.awaitOutsideSecondary({ deployment, kind, cluster, outside }),
      { choices: [STOP_HERE] },
    ),
  );
  const connected = seen !== undefined;
  if (connected) run.state.left.settle(followingOf(id));
  await finishRun(run, deployment);
  return { outcome: 'completed', result: { encryptedToken: issued.encryptedToken, connected } };
}

/** What is left to do if the run ends without having seen the secondary stream. */
function notStreaming({ kind, primary, secondary, id }: SecondaryOnboardingRoute): string {
  return `${secondary} has not been confirmed to stream. Read its ${kindName(kind)} status. If it is secondary, unseal its nodes with key shares of ${primary} (restart those that unseal themselves) and wait until it streams. If it has no replication, it was not wiped: revoke the id ${id} on ${primary} (primary/revoke-secondary), and start again.`;
}

/** Key of the left-to-do line about standbys that seal themselves. */
const SEALS = 'sealed standbys';

/** What is left to do unless each standby was seen sealed and then unsealed. */
function sealedStandbys({ primary, secondary }: SecondaryOnboardingRoute, nodes: readonly string[]): string {
  const commands = nodes.map((address) => `\`VAULT_ADDR=${address} vault operator unseal\``);
  return `The standbys of ${secondary} seal themselves after the join, and were not all confirmed sealed and then unsealed. Read the seal status of each node. Unseal a sealed node with key shares of ${primary} (restart it if it unseals itself): ${commands.join(', ')}.`;
}

/** Writes on the primary, waits until the secondary has it, and compares the Merkle roots of both. */
async function proveReplication(run: Run, deployment: string, route: SecondaryOnboardingRoute): Promise<void> {
  const { kind, primary, secondary, filter } = route;
  await run.skippableStep(
    writeMarker(primary, secondary),
    `no write of ${primary} was confirmed to arrive on ${secondary}`,
    (call) => call.writeMarker({ deployment, kind, cluster: primary, secondary }),
    { choices: [STOP_HERE] },
  );
  await compareRoots(run, { deployment, kind, primary, secondary }, filter);
}

/** Keys of the left-to-do lines about the cluster ID in the inventory and about the token of the workers. */
const [PINNED, TOKEN] = ['pinned cluster ID', 'token of the workers'];

/** A wiped cluster may have a new cluster ID. An inventory that pins the former one stops every later run on it. */
function noteNewId(run: Run, { secondary, id }: SecondaryOnboardingRoute, now: string | undefined): void {
  if (now === undefined) return;
  run.state.left.settle(PINNED);
  if (now === id) return;
  run.state.finding({
    severity: 'warning',
    code: 'cluster-id-changed',
    text: `${secondary} has another cluster ID since it was wiped: now ${now}, before ${id}. Its primary lists it under the former one.`,
    next: `To revoke it, or to change its paths filter, use the id ${id}.`,
  });
  run.state.left.add(
    `If the inventory pins the clusterId of ${secondary} (init pins it), write ${now} there. Until then a run that needs ${secondary} parks with STATE_DIVERGED.`,
  );
}

/** The same, before its new cluster ID was read. */
function clusterIdUnknown({ secondary, id }: SecondaryOnboardingRoute): readonly [about: string, text: string] {
  const text = `${secondary} may have another cluster ID since it was wiped. Before it was ${id}, and its primary lists it under that ID. If the inventory pins its clusterId (init pins it), write there what its sys/health reports.`;
  return [PINNED, text];
}

async function compareFilters(
  run: Run,
  deployment: string,
  { primary, secondary, id }: SecondaryOnboardingRoute,
  filter: PathsFilterFacts,
): Promise<void> {
  const skipped = `the dynamic filter of ${secondary} was not compared on both clusters: the workers' token for ${secondary} is gone with its data`;
  const taken = await run.skippableStep(checkCredential(secondary), skipped, (call) =>
    call.checkCredential({ deployment, cluster: secondary }),
  );
  if (!taken) return;
  run.state.left.settle(TOKEN);
  await sameFilterOnBothSides(run, { deployment, primary, secondary }, { id, filter });
}

function credentialsGone({ kind, primary, secondary }: SecondaryOnboardingRoute): Finding {
  const code = 'secondary-credentials-gone';
  if (kind === 'dr') {
    return {
      severity: 'info',
      code,
      text: `Credentials, root token and audit devices of ${secondary} are gone with its data. Those of ${primary} apply to it, and work there once it is promoted.`,
      next: `Set the credential of ${secondary} in the inventory to a token of ${primary}. It is first used after a promotion.`,
    };
  }
  return {
    severity: 'warning',
    code,
    text: `Every token of ${secondary} (its root token too), its local mounts and its audit devices are gone with its data. Its policies and login methods are those of ${primary}. Its tokens and leases are its own from now on.`,
    next: `Log in on ${secondary} with a login method of ${primary}, or generate a root token with the key shares of ${primary}.`,
  };
}

type ToDo = readonly (readonly [about: string, text: string])[];

function leftOfDr(route: SecondaryOnboardingRoute): ToDo {
  const { primary, secondary } = route;
  return [
    [
      TOKEN,
      `The credential of ${secondary} in the inventory is void. Point it at a place that holds a token of ${primary}.`,
    ],
    [
      'batch token',
      `If batch tokens are used for DR operations, create one on ${primary} for ${secondary} and enter it as batchToken of ${secondary} in the inventory.`,
    ],
    clusterIdUnknown(route),
  ];
}

/** What people need on the new secondary, each with the exact input or body. */
function leftOfPerformance(deployment: string, route: SecondaryOnboardingRoute): ToDo {
  const { secondary } = route;
  const ceremony = {
    deployment,
    cluster: secondary,
    reason: `first token of ${secondary} after its onboarding`,
    recipientPgpKey: "<base64 of the recipient's PGP public key>",
  };
  const audit = { type: 'file', local: true, options: { file_path: '/var/log/vault/audit.log' } };
  const mount = { type: 'kv', local: true };
  return [
    [
      TOKEN,
      `Generate a root token of ${secondary}: \`${nextCommandOf.start('rootTokenCeremony', ceremony)}\`. Create a token for the workers with it, put it where the inventory's credential of ${secondary} is read from, and revoke the root token.`,
    ],
    [
      'audit device',
      `Enable an audit device on ${secondary}, if no audit device of its primary writes there: POST v1/sys/audit/local-file ${JSON.stringify(audit)}.`,
    ],
    [
      'local mounts',
      `Create the local mounts of ${secondary} again, if it had any: POST v1/sys/mounts/<path> ${JSON.stringify(mount)}.`,
    ],
    clusterIdUnknown(route),
  ];
}

/** From the enable on, the secondary is wiped. A run that ends early leaves a cluster that people put in order. */
const STOP_HERE: Choice = {
  action: 'abort',
  effect: 'end the run here: a wiped cluster stays wiped, and the report lists what is left to do',
};

/**
 * Waits until people have unsealed the nodes that sealed themselves, and until the initial copy is done and the secondary
 * streams.
 *
 * @returns whether it streams; false if people skipped the step
 */
async function followUntilStreaming(
  run: Run,
  deployment: string,
  { kind, primary, secondary }: SecondaryOnboardingRoute,
  nodes: readonly string[],
): Promise<boolean> {
  const waiting = {
    for: 'action',
    what: `the sealed nodes of ${secondary} are unsealed, or restarted if they unseal themselves`,
    instructions: [
      `Only key shares of ${primary} unseal ${secondary} now (recovery key shares if ${primary} unseals itself). Those of ${secondary} are void. Never give a key share to this program.`,
      ...nodes.map(
        (address) =>
          `${address}, if it is sealed: each holder of ${primary} enters their key share: \`VAULT_ADDR=${address} vault operator unseal\``,
      ),
      'Restart a node that unseals itself instead, for example with `systemctl restart vault`. Start a node that does not answer.',
      'If every node is unsealed, there is nothing to do: the initial copy continues.',
    ],
    toldOnce: true,
  } as const;
  const seen = await run.state.whileWaiting('unseal', waiting, () =>
    run.skippableStep(
      followCopy(secondary),
      `unknown whether ${secondary} received everything that ${primary} holds, and whether any of its nodes is still sealed`,
      (call) => call.followBootstrap({ deployment, primary, secondary, kind }),
      { choices: [STOP_HERE] },
    ),
  );
  if (seen?.sealsSeen === true) run.state.left.settle(SEALS);
  return seen !== undefined;
}
