import { secondReading } from '../../src/moves/every-run';
import type { Move, Named } from '../../src/moves/move';
import { DESTROY_KEYS, generateRootToken, generateToken, INVITE } from '../../src/moves/tokens';
import type { Assessment } from '../../src/contracts/activities';
import { usesText } from '../../src/contracts/next-commands';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import { keyShares } from '../../src/contracts/words';
import { orElse } from '../../src/errors';
import { findCluster } from '../../src/inventory';
import type { RecipientKey, RefusedRecipient } from '../../src/keys';
import { readRecipientKey } from '../../src/keys';
import type { GeneratedTokenKind } from '../../src/vault';
import { gateFacts, planDocument, siteFacts } from '../approvals/planning';
import type { Planning } from '../approvals/planning';
import { breakGlassWarnings, ceremonyCallsAllowed } from '../ceremony/ceremony-access';
import { check, notCheckable } from '../checks/check';
import { hasRole, noDrSecondary, takesPart } from '../checks/replication';
import { ceremonyEntryOf, enoughHolders, freeSlot } from '../ceremony/token-source';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { observeCluster, readSlot } from '../observe';
import type { PlanInput } from './observed';

/** Whether the holders can be asked for an operation token. A token for a person is approved here; a kept one, in the run that claims it. */
export function assessOperationTokenCeremony({ input }: PlanInput<'operationTokenCeremony'>) {
  const { cluster, uses, keepFor = '' } = input;
  return planCeremony('operation-token', input, input.recipient, (recipient, on) => {
    const to = recipient?.fingerprint;
    return {
      move: {
        step: generateToken(cluster),
        note: to === undefined ? `kept sealed in the record for the next run, for ${keepFor}` : `encrypted to ${to}`,
        operations: [
          to !== undefined && ({ endpoint: 'operation-token/hand-over', gate: 'ceremony', on, detail: to } as const),
        ],
      },
      warnings: [
        recipient &&
          `Anyone who has the private key of ${recipient.fingerprint} can ${usesText(uses)} on ${cluster}, bypassing every gate, until the token is deleted. ${compareByVoice(recipient)}`,
        ...(recipient?.warnings ?? []),
      ],
      choices: { uses: uses.join(', '), ...(to === undefined ? { keepFor } : { recipientKey: to }) },
    };
  });
}

/** Whether the holders can be asked for a root token, which is encrypted to its recipient. */
export function assessRootTokenCeremony({ input }: PlanInput<'rootTokenCeremony'>) {
  const { cluster, recipientPgpKey } = input;
  return planCeremony('root-token', input, recipientPgpKey, (recipient, on) => {
    const { fingerprint = '' } = recipient ?? {};
    return {
      move: {
        step: generateRootToken(cluster),
        note: `encrypted to ${fingerprint}; the report contains it, and only the recipient can decrypt it`,
        operations: [{ endpoint: 'root-token/generate', gate: 'ceremony', on, detail: fingerprint }],
      },
      warnings: [
        `Anyone who has the private key of ${fingerprint} can do anything on ${cluster}, until the token is revoked.`,
        ...aboutRecipient(recipient),
      ],
      choices: { recipientKey: fingerprint },
    };
  });
}

function aboutRecipient(recipient: RecipientKey | undefined): string[] {
  return recipient === undefined ? [] : [compareByVoice(recipient), ...recipient.warnings];
}

function compareByVoice({ userIds }: RecipientKey): string {
  return `The key claims to belong to ${userIds.join(', ') || 'nobody'}: compare the fingerprint with that person by voice.`;
}

/** What the plan of a ceremony says about its token. */
type TokenPlan = Pick<Required<Planning>, 'warnings' | 'choices'> & { readonly move: Move };

/** Reads and judges the cluster, its attempt slot, the holders, and the key of the token's recipient. */
async function planCeremony(
  kind: GeneratedTokenKind,
  input: Planning['input'] & { readonly cluster: string },
  key: string | undefined,
  about: (recipient: RecipientKey | undefined, on: Named) => TokenPlan,
): Promise<Assessment<TokenRoute>> {
  const { clusters, signal } = currentExecution();
  const { cluster } = input;
  const deployment = clusters.deployment(input.deployment);
  const access = clusters.access(findCluster(deployment, cluster));
  const [observation, recipient] = await Promise.all([
    observe(access, signal),
    key === undefined ? undefined : readRecipientKey(key),
  ]);
  const { reachable, version, clusterId } = observation;
  const entry = reachable ? await ceremonyEntryOf(access, observation, signal, kind) : undefined;
  const slot = reachable
    ? await readSlot(access, version, kind, signal).catch(orElse(signal, ({ code }) => code))
    : 'not readable';
  const attempt = typeof slot === 'string' ? undefined : slot;
  const theirs = 'A DR secondary has the tokens of its primary: generate the root token on the primary.';
  const base = {
    observations: [observation],
    site: await siteFacts(deployment.name),
    gates: key === undefined ? {} : { ceremony: gateFacts(deployment, 'ceremony', input.requestedBy) },
    preconditions: [
      ...(recipient ? [recipientUsable(cluster, recipient)] : []),
      ...takesPart({ ...observation, reachable: reachable && clusterId !== undefined }, { planned: false }),
      kind === 'root-token'
        ? noDrSecondary(observation, 'a cluster that is not a DR secondary', theirs)
        : hasRole(observation, 'dr', 'secondary', 'Operation tokens exist only on DR secondaries.'),
      ...(entry ? [ceremonyCallsAllowed(cluster, kind, version, entry)] : []),
      attempt ? freeSlot({ ...observation, attempt }, undefined, kind) : slotUnread(cluster, slot),
      enoughHolders({ cluster, attempt }, deployment),
    ],
  };
  if (recipient && 'refused' in recipient) return base;
  const { move, ...token } = about(recipient, observation);
  const plan = planDocument({
    runbook: kind === 'root-token' ? 'rootTokenCeremony' : 'operationTokenCeremony',
    input,
    clusters: [observation],
    ...token,
    warnings: [...breakGlassWarnings(kind, [observation]), ...token.warnings],
    moves: [
      key !== undefined && secondReading,
      { step: INVITE, note: `for ${keyShares(observation.seal?.recovery)}` },
      move,
      { step: DESTROY_KEYS },
    ],
  });
  return { ...base, route: { fingerprint: recipient?.fingerprint }, plan };
}

/** What a ceremony follows. */
export interface TokenRoute {
  /** Of the recipient's OpenPGP key, lower-case hexadecimal; absent if the record keeps the token. */
  readonly fingerprint?: string | undefined;
}

const CLOSED = 'CEREMONY_CLOSED';

/** If nothing authorizes the calls yet, the slot is read once people have opened them. */
function slotUnread(cluster: string, why: unknown): Check {
  const name = 'generation slot free';
  if (why === CLOSED)
    return notCheckable(name, cluster, { observed: 'not readable without a credential', needed: 'free' });
  const next = `Check the active node of ${cluster}.`;
  return check(name, cluster, false, { observed: String(why), needed: 'readable and free', next });
}

/** The Community edition has no replication status: a cluster with an active node can be asked for a token anyway. */
async function observe(access: ClusterAccess, signal: AbortSignal): Promise<ClusterObservation> {
  const seen = await observeCluster(access, signal);
  if (seen.reachable) return seen;
  return access.client.activeNode({ signal }).then(
    (activeNode) => ({ ...seen, error: undefined, reachable: true, activeNode }),
    orElse(signal, () => seen),
  );
}

function recipientUsable(cluster: string, recipient: RecipientKey | RefusedRecipient): Check {
  return check("recipient's key", cluster, !('refused' in recipient), {
    observed: 'refused' in recipient ? recipient.refused : `${recipient.fingerprint}, can encrypt`,
    needed: 'an OpenPGP public key of version 4 that can encrypt',
    next: 'next' in recipient ? recipient.next : undefined,
  });
}
