import type { OnCluster } from '../../src/contracts/activities';
import type { Finding } from '../../src/contracts/run-facts';
import { RunbookError, isRunbookError, orElse } from '../../src/errors';
import type { BatchTokenRotationEntry } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import { missingRights, rightsText } from '../checks/credentials';
import { takenBy } from '../checks/tokens';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import type { Execution } from '../execution';
import { observeCluster, readKind } from '../observe';
import { chooseSet, opensCeremonies } from '../plans/batch-token-rotation';
import { CHANGE_TIMEOUT_MS } from '../deadline';
import { TOO_MUCH, neededGrants, policyCommand, rightsIn, roleCommand } from './batch-token-policy';
import { keptBatchTokens, sealBatchToken } from './kept-batch-token';
import { batchTokenProofs, proofOf } from './batch-token-proof';
import { readClusterId } from './operation-token';
import type { PolicyGrant } from './policies';

/** A rotation that is done: the new token is proven, and in the record. */
export type BatchTokenRotated = Awaited<ReturnType<typeof rotateBatchToken>>;

/* Batch tokens for DR operations, made on the primary and kept in the record (facts 5.7, 11.16). */

interface RotationInput extends OnCluster {
  readonly drSet: string;
}

/** The set's rotation, with its primary as it shows itself now. */
async function rotationOf({ deployment: name, drSet, cluster }: RotationInput) {
  const { clusters, signal } = currentExecution();
  const deployment = clusters.deployment(name);
  const chosen = chooseSet(deployment, drSet);
  if ('refused' in chosen) throw new RunbookError('PRECONDITION_FAILED', chosen.refused.name, chosen.refused);
  const primary = clusters.of(name, cluster);
  await mustBePrimary(primary, signal);
  return { deployment, entry: chosen.entry, primary };
}

/** Makes a token on the primary, proves it, and keeps it sealed in the record: all in here. */
export async function rotateBatchToken(input: RotationInput) {
  const { deployment: name, cluster, drSet } = input;
  const execution = currentExecution();
  const { clusters, signal, records, sealKeyring } = execution;
  const { deployment, entry, primary } = await rotationOf(input);
  const members = (deployment.drSets.get(drSet) ?? []).map((member) => clusters.of(name, member));
  const seen = await Promise.all(members.map((member) => observeCluster(member, signal)));
  const needed = neededGrants(opensCeremonies(deployment, drSet, seen));
  // Before anything is made: a token that cannot be kept would be one that nobody holds.
  await records.read(name);

  const token = await makeToken(execution, primary, entry);
  const proven = await proveToken(primary, token, entry, needed, signal);
  const taken = await Promise.all(
    seen
      .filter(({ dr }) => dr?.mode === 'secondary')
      .map(async (each) => ({
        cluster: each.cluster,
        how: await takenBy(clusters.of(name, each.cluster), each, token, signal),
      })),
  );
  const refusing = taken.filter(({ how }) => how === 'refused').map((each) => each.cluster);

  execution.throwIfCancelled();
  const proof = proofOf(token, { ttlSeconds: proven.ttlSeconds, capabilities: proven.rights });
  const sealed = await sealBatchToken({ records, sealKeyring }, { deployment: name, drSet }, token, proven.ttlSeconds);
  const kept = keptBatchTokens.changes([[drSet, { sealed, at: proof.at }]]);
  const proofs = batchTokenProofs.changes(members.map((member) => [member.entry.name, proof]));
  await records.change(name, () => ({ put: { ...kept.put, ...proofs.put } }));
  return {
    drSet,
    primary: cluster,
    expiresAt: proven.expiresAt,
    ttlSeconds: proven.ttlSeconds,
    /** By path, as the new token itself told them. */
    rights: proven.rights,
    /** DR secondaries that took it for a read, and those of which that cannot be known before it is used. */
    provenOn: taken.filter(({ how }) => how === 'taken').map((each) => each.cluster),
    notCheckableOn: taken.filter(({ how }) => how === 'not-checkable').map((each) => each.cluster),
    findings: [...proven.findings, ...refusing.map((each) => refusedBy(each))],
  };
}

/** A DR secondary or a lost primary must not be asked: what it makes would not be of its set's present data. */
async function mustBePrimary(access: ClusterAccess, signal: AbortSignal): Promise<void> {
  await readClusterId(access, signal);
  const { mode } = await readKind(access, 'dr', signal);
  if (mode === 'primary') return;
  throw new RunbookError('PRECONDITION_FAILED', `${access.entry.name} is not the DR primary now.`, {
    cluster: access.entry.name,
    observed: mode,
    needed: 'primary',
    next: 'Start batchTokenRotation again when a cluster of the set is primary.',
  });
}

function refusedBy(cluster: string): Finding {
  return {
    severity: 'warning',
    code: 'batch-token-refused',
    text: `${cluster} refuses the new batch token for reading its generation slot.`,
    next: `See that ${cluster} streams from the primary, and that the policy has reached it; then rotate again.`,
  };
}

/** Requests for one token: after a lost answer another one is made, and the one before ends with its lifetime. */
const MAX_REQUESTS = 3;
/** A token may live this much shorter than was asked for, seconds: the time of the calls, and clocks. */
const SHORTER_SECONDS = 60;

/** Makes a token by the role. A refusal is final; a lost answer is not: the next request makes another token. */
async function makeToken(
  execution: Execution,
  primary: ClusterAccess,
  { role, policy, ttlMs }: BatchTokenRotationEntry,
): Promise<Secret<'batch-token'>> {
  const seconds = Math.ceil(ttlMs / 1000);
  for (let tries = 1; ; tries += 1) {
    execution.throwIfCancelled();
    try {
      const made = await primary.client.sys.createBatchToken(
        { role, policies: [policy], ttl: `${seconds}s` },
        { token: await primary.credential(), timeoutMs: CHANGE_TIMEOUT_MS },
      );
      return made.token;
    } catch (error) {
      if (!isRunbookError(error) || (error.outcomeKnown && !error.retryable) || tries === MAX_REQUESTS)
        throw isRunbookError(error, 'BAD_REQUEST') ? withCommands(error, role, policy) : error;
      execution.progress(`${error.code}; another token is asked for`);
    }
  }
}

/** Role and policy are made by people, once. */
function withCommands(error: RunbookError, role: string, policy: string): RunbookError {
  const next = `Are there policy and role? \`${policyCommand(policy)}\`, \`${roleCommand(role, policy)}\`. ${error.next ?? ''}`;
  return error.with({ next: next.trim() });
}

/**
 * The token says of itself what it is: an orphan batch token of the asked life with every right that is needed.
 *
 * @throws RunbookError PRECONDITION_FAILED: the token is not kept then, and ends with its lifetime
 */
async function proveToken(
  primary: ClusterAccess,
  token: Secret<'batch-token'>,
  { role, policy, ttlMs }: BatchTokenRotationEntry,
  needed: readonly PolicyGrant[],
  signal: AbortSignal,
) {
  const cluster = primary.entry.name;
  const facts = await primary.client.sys.lookupSelf({ token, signal });
  const paths = needed.map(({ path }) => path);
  const rights = await primary.client.sys.capabilitiesSelf([...paths, ...TOO_MUCH], { token, signal });
  const refuse = (observed: string, wanted: string, next: string): RunbookError =>
    new RunbookError(
      'PRECONDITION_FAILED',
      `The new batch token of ${cluster} is not what is needed; it was not kept.`,
      {
        cluster,
        observed,
        needed: wanted,
        next: `${next} The token that was in use before stays; the new one ends with its lifetime.`,
      },
    );
  const kind = `${facts.type ?? 'type not told'}, ${facts.orphan === true ? 'orphan' : 'not orphan'}`;
  if (facts.type !== 'batch' || facts.orphan !== true) {
    // Of another kind it can be ended.
    if (facts.type !== 'batch')
      await primary.client.sys.revokeSelf({ token, signal }).catch(orElse(signal, () => undefined));
    throw refuse(kind, 'an orphan batch token', `Correct the role: \`${roleCommand(role, policy)}\`.`);
  }
  const others = facts.policies.filter((each) => each !== policy && each !== 'default');
  if (others.length > 0 || !facts.policies.includes(policy))
    throw refuse(
      facts.policies.join(', ') || 'no policy',
      `policy ${policy} and no other`,
      `Correct the role: \`${roleCommand(role, policy)}\`.`,
    );
  const asked = ttlMs / 1000;
  const ttlSeconds = facts.ttlSeconds ?? 0;
  if (ttlSeconds < Math.min(asked - SHORTER_SECONDS, asked * 0.9))
    throw refuse(`${ttlSeconds} s`, `${asked} s`, `Raise max_lease_ttl of auth/token on ${cluster}, or lower the ttl.`);
  const missing = missingRights({ capabilities: rights }, rightsIn(needed));
  if (missing.length > 0) {
    const observed = missing.map((path) => `${path}: ${rightsText({ capabilities: rights }, path)}`).join('; ');
    const wanted = missing.map((path) => `${rightsIn(needed)[path]?.join(', ')} on ${path}`).join('; ');
    throw refuse(
      observed,
      wanted,
      `Was the policy emptied on purpose? Otherwise write it: \`${policyCommand(policy)}\``,
    );
  }
  return {
    expiresAt: facts.expireTime ?? new Date(Date.now() + ttlSeconds * 1000).toISOString(),
    ttlSeconds,
    rights: Object.fromEntries(paths.map((path) => [path, rights[path] ?? []])),
    findings: tooMuch(cluster, policy, rights),
  };
}

/** Least privilege: a token that cannot be revoked must not be able to do more than it is for. */
function tooMuch(
  cluster: string,
  policy: string,
  rights: Readonly<Record<string, readonly string[]>>,
): readonly Finding[] {
  const broad = TOO_MUCH.filter((path) => (rights[path] ?? []).some((right) => right !== 'deny'));
  if (broad.length === 0) return [];
  return [
    {
      severity: 'warning',
      code: 'batch-token-too-broad',
      text: `The batch token of ${cluster} may do more than DR operations need: ${broad.join(', ')}. It cannot be revoked.`,
      next: `Write policy ${policy} as \`runbook policy DEPLOYMENT --for batchToken\` prints it, and look at policy "default".`,
    },
  ];
}
