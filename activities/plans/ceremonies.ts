import type { Assessment, RootTokenRoute } from '../../src/contracts/activities';
import { usesInWords } from '../../src/contracts/asked';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check, PlanDocument } from '../../src/contracts/plan';
import type { OperationTokenCeremonyInput, RootTokenCeremonyInput } from '../../src/contracts/runbook-inputs';
import { keyShares } from '../../src/contracts/words';
import { isRunbookError } from '../../src/errors';
import { findCluster } from '../../src/inventory';
import type { RecipientKey } from '../../src/keys';
import { readRecipientKey } from '../../src/keys';
import { gateFacts, identityOf, planDocument, siteFacts } from '../approvals/planning';
import { breakGlassWarnings, ceremonyCallsAllowed, ceremonyToken, isIn } from '../ceremony/ceremony-access';
import { check, notCheckable } from '../checks/check';
import { takesPart } from '../checks/nodes';
import { hasRole, roleText } from '../checks/replication';
import { ceremonyEntryOf, enoughHolders, freeSlot } from '../checks/tokens';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { observeCluster } from '../observe';
import type { PlanInput } from './observed';

/** Whether the holders can be asked for an operation token. One for a person is approved; one that is kept is, by the run that takes it. */
export async function assessCeremony({
  input,
}: PlanInput<OperationTokenCeremonyInput>): Promise<Assessment<Partial<RootTokenRoute>>> {
  const context = currentExecution();
  const { clusters, inventory, signal } = context;
  const { deployment: name, cluster, uses, recipient: key, keepFor } = input;
  const deployment = clusters.deployment(name);
  const access = clusters.access(findCluster(deployment, cluster));
  const [observation, recipient] = await Promise.all([observeCluster(access, signal), key && readRecipientKey(key)]);
  const entry = await ceremonyEntryOf(access, observation, signal);
  const { attempt, version } = observation;
  const base = {
    observations: [observation],
    site: await siteFacts(context, name),
    gates: { ceremony: gateFacts(inventory, deployment, 'ceremony', key !== undefined) },
    preconditions: [
      ...(recipient ? [recipientUsable(cluster, recipient)] : []),
      ...takesPart(observation),
      hasRole(observation, 'dr', 'secondary', 'Operation tokens exist on DR secondaries only.'),
      ceremonyCallsAllowed(cluster, 'operation-token', version, entry),
      // From version 2.0 people may have to open the calls first.
      ...(attempt === undefined && isIn(entry.access) ? [slotUnreadable(cluster)] : [freeSlot(observation, undefined)]),
      enoughHolders(observation, deployment),
    ],
  };
  if (recipient && 'refused' in recipient) return base;
  const to = recipient ? recipient.fingerprint : undefined;
  const plan = planDocument({
    runbook: 'operationTokenCeremony',
    input,
    clusters: [observation],
    operations: [
      to !== undefined && { operation: 'operation-token.hand-over', on: identityOf(observation), detail: to },
    ],
    warnings: [
      ...breakGlassWarnings('operation-token', [observation]),
      recipient &&
        `Whoever has the private key of ${recipient.fingerprint} can ${usesInWords(uses)} on ${cluster}, past every gate, until the token is deleted. The key says that it belongs to ${recipient.userIds.join(', ') || 'nobody'}: compare the fingerprint with that person by voice.`,
    ],
    steps: [
      `Ask the key holders for ${keyShares(observation.seal?.recovery)}`,
      to === undefined
        ? `Generate an operation token on ${cluster}, sealed; the record keeps it for the next run, for ${keepFor ?? ''}`
        : `Generate an operation token on ${cluster}, encrypted to ${to}`,
      'Destroy the ceremony keys',
    ],
    choices: { uses: uses.join(', '), ...(to === undefined ? { keepFor: keepFor ?? '' } : { recipientKey: to }) },
  });
  return { ...base, route: to === undefined ? {} : { fingerprint: to }, plan };
}

function slotUnreadable(cluster: string, why = 'not readable'): Check {
  const next = `Look at the active node of ${cluster}.`;
  return check('generation slot free', cluster, false, { observed: why, needed: 'readable and free', next });
}

/** Reads the cluster and the recipient's key, and judges whether the holders can be asked for a root token. */
export async function assessRootTokenCeremony({
  input,
}: PlanInput<RootTokenCeremonyInput>): Promise<Assessment<RootTokenRoute>> {
  const context = currentExecution();
  const { clusters, inventory, signal } = context;
  const { cluster } = input;
  const deployment = clusters.deployment(input.deployment);
  const access = clusters.access(findCluster(deployment, cluster));
  const [observation, recipient] = await Promise.all([
    observe(access, signal),
    readRecipientKey(input.recipientPgpKey),
  ]);
  const { reachable, version, clusterId } = observation;
  const slot = reachable ? await readSlot(access, version, signal) : 'not read';
  const seen = typeof slot === 'string' ? observation : { ...observation, attempt: slot };
  const callsAllowed = async () => {
    const entry = await ceremonyEntryOf(access, observation, signal, 'root-token');
    return ceremonyCallsAllowed(cluster, 'root-token', version, entry);
  };
  const preconditions = [
    recipientUsable(cluster, recipient),
    ...takesPart({ ...observation, reachable: reachable && clusterId !== undefined }),
    noDrSecondary(observation),
    // Where nothing lets us in yet, it is looked at once people have opened the calls.
    typeof slot !== 'string'
      ? freeSlot(seen, undefined)
      : slot === 'CEREMONY_CLOSED'
        ? notCheckable('generation slot free', cluster, {
            observed: 'not readable without a credential',
            needed: 'free',
          })
        : slotUnreadable(cluster, slot),
    enoughHolders(seen, deployment),
    ...(reachable ? [await callsAllowed()] : []),
  ];
  const base = {
    observations: [observation],
    preconditions,
    site: await siteFacts(context, input.deployment),
    gates: { ceremony: gateFacts(inventory, deployment, 'ceremony') },
  };
  if ('refused' in recipient) return base;
  return { ...base, route: { fingerprint: recipient.fingerprint }, plan: rootTokenPlan(input, observation, recipient) };
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

/** The attempt slot, or the code with which reading it was refused. */
async function readSlot(access: ClusterAccess, version: string | undefined, signal: AbortSignal) {
  try {
    const token = await ceremonyToken(access, version, 'root-token', signal);
    const { started, pgpFingerprint, progress, required } = await access.client.sys.generateRoot.readAttempt({
      token,
      signal,
    });
    return { started, progress, required, ...(pgpFingerprint === undefined ? {} : { fingerprint: pgpFingerprint }) };
  } catch (error) {
    if (signal.aborted || !isRunbookError(error)) throw error;
    return error.code;
  }
}

function recipientUsable(cluster: string, recipient: RecipientKey | { readonly refused: string }): Check {
  return check("recipient's key", cluster, !('refused' in recipient), {
    observed: 'refused' in recipient ? recipient.refused : `${recipient.fingerprint}, can encrypt`,
    needed: 'an OpenPGP public key of version 4 that can encrypt',
    next: 'The recipient exports it: `gpg --export KEY | base64 -w0`.',
  });
}

function noDrSecondary(observation: ClusterObservation): Check {
  const { cluster, dr } = observation;
  return check('no DR secondary', cluster, dr?.mode !== 'secondary', {
    observed: dr ? roleText(observation, 'dr') : 'tells no replication',
    needed: 'anything but a DR secondary',
    next: 'A DR secondary has the tokens of its primary: generate the root token there.',
  });
}

function rootTokenPlan(
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
      `Ask the key holders for ${keyShares(observation.seal?.recovery)}`,
      `Generate a root token on ${cluster}, encrypted to ${fingerprint}`,
      'Destroy the ceremony keys',
      'Hand the encrypted token over: in the report, and of no use to anybody else',
    ],
    choices: { recipientKey: fingerprint },
  });
}
