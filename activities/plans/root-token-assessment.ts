import type { GenerationAttempt } from '../../src/vault';
import type { Assessment, RootTokenRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { PlanDocument, Precondition } from '../../src/contracts/plan';
import type { RootTokenCeremonyInput } from '../../src/contracts/runbook-inputs';
import { isRunbookError } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import { findCluster } from '../../src/inventory';
import type { RecipientKey } from '../../src/keys';
import { readRecipientKey } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';
import { judgeRoster } from '../ceremony/ceremony-roster';
import type { ClusterAccess, Clusters } from '../clusters';
import type { CeremonyWay } from '../ceremony/ceremony-access';
import { breakGlassWarnings, ceremonyCallsAllowed, ceremonyToken, judgeCeremonyWay } from '../ceremony/ceremony-access';
import { describeReplication, observeCluster } from '../observe';
import { gateFacts, identityOf, planDocument, siteFacts } from '../approvals/planning';
import { check } from '../checks/switchover-rule';

type Slot = GenerationAttempt<'root-token'> | { readonly error: string };

/** Reads the cluster and the recipient's key, and judges whether the holders can be asked. */
export async function assessRootToken(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  input: RootTokenCeremonyInput,
  signal: AbortSignal,
): Promise<Assessment<RootTokenRoute>> {
  const deployment = clusters.deployment(input.deployment);
  const access = clusters.access(findCluster(deployment, input.cluster));
  const [observation, recipient] = await Promise.all([
    observe(access, signal),
    readRecipientKey(input.recipientPgpKey),
  ]);
  const slot = observation.reachable ? await readSlot(access, observation.version, signal) : { error: 'not read' };
  const way = observation.reachable ? await wayIn(access, observation, signal) : undefined;
  const preconditions = [
    ...judge(observation, slot, recipient, deployment),
    ...(way ? [ceremonyCallsAllowed(input.cluster, 'root-token', observation.version, way)] : []),
  ];
  const base = {
    observations: [observation],
    preconditions,
    site: await siteFacts(dependencies, input.deployment),
    gates: { ceremony: gateFacts(dependencies.inventory, deployment, 'ceremony') },
  };
  if ('refused' in recipient) return base;
  return {
    ...base,
    route: { fingerprint: recipient.fingerprint },
    plan: planOf(input, observation, recipient),
  };
}

/** The community edition has no replication status: what has an active node can be asked for a root token all the same. */
async function observe(access: ClusterAccess, signal: AbortSignal): Promise<ClusterObservation> {
  const seen = await observeCluster(access, signal);
  if (seen.reachable) return seen;
  try {
    const activeNode = await access.client.activeNode({ signal });
    const { error: _without, ...rest } = seen;
    return { ...rest, reachable: true, activeNode };
  } catch (error) {
    if (signal.aborted || !isRunbookError(error)) throw error;
    return seen;
  }
}

async function wayIn(
  access: ClusterAccess,
  { version }: ClusterObservation,
  signal: AbortSignal,
): Promise<Pick<CeremonyWay, 'access' | 'from'>> {
  try {
    return await judgeCeremonyWay(access, { kind: 'root-token', version, signal });
  } catch (error) {
    if (signal.aborted || !isRunbookError(error)) throw error;
    return { access: 'refused' };
  }
}

async function readSlot(access: ClusterAccess, version: string | undefined, signal: AbortSignal): Promise<Slot> {
  try {
    return await access.client.sys.generateRoot.readAttempt({
      token: await ceremonyToken(access, version, 'root-token', signal),
      signal,
    });
  } catch (error) {
    if (signal.aborted || !isRunbookError(error)) throw error;
    return { error: error.code };
  }
}

function judge(
  { cluster, reachable, activeNode, error, nodes, dr, clusterId }: ClusterObservation,
  slot: Slot,
  recipient: RecipientKey | { readonly refused: string },
  deployment: Deployment,
): Precondition[] {
  const required = 'error' in slot ? undefined : slot.required;
  const roster = judgeRoster(deployment, required);
  const attempt = 'error' in slot ? slot.error : slot.started ? attemptInWords(slot) : 'free';
  return [
    check(
      "recipient's key",
      cluster,
      !('refused' in recipient),
      'refused' in recipient ? recipient.refused : `${recipient.fingerprint}, can encrypt`,
      'an OpenPGP public key of version 4 that can encrypt',
      'The recipient exports it: `gpg --export KEY | base64 -w0`.',
    ),
    check(
      'one active node',
      cluster,
      reachable && clusterId !== undefined,
      activeNode ?? error ?? 'none',
      'one active node that tells its cluster ID',
      `Look at the nodes of ${cluster}.`,
    ),
    check(
      'every node is unsealed',
      cluster,
      nodes.every((node) => node.sealed !== true),
      nodes.map((node) => `${node.address} ${node.sealed ? 'sealed' : 'unsealed'}`).join('; '),
      'every node is unsealed',
      `Unseal ${cluster}.`,
    ),
    check(
      'no DR secondary',
      cluster,
      dr?.mode !== 'secondary',
      dr ? describeReplication(dr) : 'tells no replication',
      'anything but a DR secondary',
      'A DR secondary has the tokens of its primary: generate the root token there.',
    ),
    // Where nothing lets us in yet, it is looked at by the burst: people open the calls before.
    'error' in slot && slot.error === 'CEREMONY_CLOSED'
      ? {
          name: 'generation slot free',
          cluster,
          observed: 'not readable without a credential',
          needed: 'free',
          verdict: 'not-checkable',
        }
      : check(
          'generation slot free',
          cluster,
          !('error' in slot) && !slot.started,
          attempt,
          'readable and free',
          'Let its owner finish or cancel it.',
        ),
    check('enough key holders', cluster, roster.good, roster.observed, roster.needed, roster.next),
  ];
}

function attemptInWords({ pgpFingerprint, progress, required }: GenerationAttempt): string {
  return `an attempt with ${pgpFingerprint ? `key ${pgpFingerprint}` : 'a one-time password'}, progress ${progress} of ${required}`;
}

function planOf(
  input: RootTokenCeremonyInput,
  observation: ClusterObservation,
  { fingerprint, userIds }: RecipientKey,
): PlanDocument {
  const { cluster } = input;
  return planDocument({
    runbook: 'rootTokenCeremony',
    input,
    clusters: [observation],
    operations: [{ operation: 'root-token.generate', on: identityOf(observation), detail: fingerprint }],
    warnings: [
      ...breakGlassWarnings('root-token', [observation]),
      `Whoever has the private key of ${fingerprint} can do anything on ${cluster}, until the token is revoked.`,
      `The key says that it belongs to ${userIds.join(', ') || 'nobody'}: compare the fingerprint with that person by voice.`,
    ],
    steps: [
      'Ask the key holders',
      `Generate a root token on ${cluster}, encrypted to ${fingerprint}`,
      'Destroy the ceremony keys',
      'Hand the encrypted token over: in the report, and of no use to anybody else',
    ],
    choices: { recipientKey: fingerprint },
  });
}
