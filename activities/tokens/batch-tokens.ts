import type { OnCluster, ChangeResult } from '../../src/contracts/activities';
import type { Finding } from '../../src/contracts/run-facts';
import { RunbookError, isRunbookError, orElse } from '../../src/errors';
import type { BatchTokenRotationEntry } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import { missingRights, rightsText } from '../checks/credentials';
import { takenBy } from '../checks/tokens';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import type { Execution } from '../execution';
import { readKind } from '../joining/onboarding-read';
import { observeCluster } from '../observe';
import { chooseSet, opensCeremonies } from '../plans/batch-token-rotation';
import { CHANGE_TIMEOUT_MS } from '../read-act-confirm';
import { TOO_MUCH, neededGrants, policyCommand, rightsIn, roleCommand } from './batch-token-policy';
import { storeOf } from './batch-token-store';
import { batchTokenProofs, proofOf } from './batch-token-proof';
import { readClusterId } from './operation-token';
import { BATCH_TOKEN_GRANTS, hclOf } from './policies';
import type { PolicyGrant } from './policies';

/** A rotation that is done: the new token is where the inventory wants it, and proven. */
export type BatchTokenRotated = Awaited<ReturnType<typeof rotateBatchToken>>;

/* Batch tokens for DR operations, made on the primary and put where they are kept (facts 5.7, 11.16). */

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

/** Makes what is absent of policy and role; never changes one that is there. */
export async function prepareBatchTokenRole(input: RotationInput): Promise<ChangeResult> {
  const execution = currentExecution();
  const { signal } = execution;
  const { entry, primary } = await rotationOf(input);
  const { client } = primary;
  const reading = async () => ({ token: await primary.credential(), signal });
  const writing = async () => ({ token: await primary.credential(), timeoutMs: CHANGE_TIMEOUT_MS });
  const made: string[] = [];
  // What is there is never changed: a policy may have been emptied on purpose.
  if ((await client.sys.policy(entry.policy, await reading())) === undefined) {
    execution.throwIfCancelled();
    await client.sys.writePolicy({ name: entry.policy, policy: hclOf(BATCH_TOKEN_GRANTS) }, await writing());
    made.push(`policy ${entry.policy}`);
  }
  if ((await client.sys.tokenRole(entry.role, await reading())) === undefined) {
    execution.throwIfCancelled();
    await client.sys.writeBatchTokenRole({ role: entry.role, allowedPolicies: [entry.policy] }, await writing());
    made.push(`token role ${entry.role}`);
  }
  return {
    outcome: made.length > 0 ? 'done' : 'already',
    observed: made.length > 0 ? `made ${made.join(' and ')}` : 'both are there',
    confirmedAt: Date.now(),
    calls: made.length,
  };
}

/** Makes a token on the primary, proves it, puts it where it is kept and reads it back: all in here. */
export async function rotateBatchToken(input: RotationInput) {
  const { deployment: name, cluster, drSet } = input;
  const execution = currentExecution();
  const { clusters, signal, doubt } = execution;
  const triedBefore = doubt.mayHaveSent;
  const { deployment, entry, primary } = await rotationOf(input);
  const members = (deployment.drSets.get(drSet) ?? []).map((member) => clusters.of(name, member));
  const seen = await Promise.all(members.map((member) => observeCluster(member, signal)));
  const needed = neededGrants(opensCeremonies(deployment, drSet, seen));
  const store = storeOf(clusters, entry.sink);
  // Before anything is made: a token that cannot be kept would be one that nobody holds.
  await store.check(signal);
  const replaced = await replacedToken(primary, await store.read(signal), signal);

  const { token, extra } = await makeToken(execution, primary, entry);
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
  await store.replace(token, signal);
  const kept = await store.read(signal);
  if (kept?.reveal() !== token.reveal()) throw notKept(store.where);
  const proof = proofOf(token, { ttlSeconds: proven.ttlSeconds, capabilities: proven.rights });
  const changes = batchTokenProofs.changes(members.map((member) => [member.entry.name, proof]));
  await execution.records
    .change(name, () => changes)
    .catch((error: unknown) =>
      execution.log.warn({ error: String(error) }, 'the proof of the batch token was not kept'),
    );
  return {
    drSet,
    primary: cluster,
    sink: store.where,
    expiresAt: proven.expiresAt,
    ttlSeconds: proven.ttlSeconds,
    /** By path, as the new token itself told them. */
    rights: proven.rights,
    /** DR secondaries that took it for a read, and those of which that cannot be known before it is used. */
    provenOn: taken.filter(({ how }) => how === 'taken').map((each) => each.cluster),
    notCheckableOn: taken.filter(({ how }) => how === 'not-checkable').map((each) => each.cluster),
    /** Absent where there was none. */
    ...(replaced === undefined ? {} : { replaced }),
    /** That this step may have made, which nobody holds and which end with their lifetime. */
    extraTokens: extra + (triedBefore ? 1 : 0),
    findings: [
      ...proven.findings,
      ...refusing.map((each) => refusedBy(each)),
      ...extraToken(cluster, extra, triedBefore, proven.ttlSeconds),
    ],
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

function notKept(where: string): RunbookError {
  return new RunbookError('STATE_DIVERGED', `Another token than the new one is at ${where}.`, {
    observed: 'another token',
    needed: 'the new one',
    next: 'Find out who else writes there, then retry: another token is made.',
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

function extraToken(cluster: string, extra: number, triedBefore: boolean, ttlSeconds: number): readonly Finding[] {
  if (extra === 0 && !triedBefore) return [];
  const how =
    extra > 0
      ? `${extra} ${extra === 1 ? 'answer was' : 'answers were'} lost`
      : 'a worker was lost, or an earlier try failed';
  return [
    {
      severity: 'info',
      code: 'extra-batch-token',
      text: `While the batch token of ${cluster} was made, ${how}: a further token may exist that nobody holds. It ends by itself within ${ttlSeconds} s.`,
    },
  ];
}

/** Requests for one token: after a lost answer another one is made, and the one before ends with its lifetime. */
const MAX_REQUESTS = 3;
/** A token may live this much shorter than was asked for, seconds: the time of the calls, and clocks. */
const SHORTER_SECONDS = 60;

/**
 * Makes a token by the role. A refusal is final; a lost answer is not: the next request makes another token.
 *
 * @returns `extra`: tokens that lost answers may have left, which nobody holds
 */
async function makeToken(
  execution: Execution,
  primary: ClusterAccess,
  { role, policy, ttlMs }: BatchTokenRotationEntry,
) {
  const { client } = primary;
  const seconds = Math.ceil(ttlMs / 1000);
  for (let tries = 1, extra = 0; ; tries += 1) {
    execution.throwIfCancelled();
    try {
      const made = await client.sys.createBatchToken(
        { role, policies: [policy], ttl: `${seconds}s` },
        { token: await primary.credential(), timeoutMs: CHANGE_TIMEOUT_MS },
      );
      return { token: made.token, extra };
    } catch (error) {
      if (!isRunbookError(error) || (error.outcomeKnown && !error.retryable) || tries === MAX_REQUESTS) throw error;
      if (!error.outcomeKnown) extra += 1;
      execution.progress(`${error.code}; another token is asked for`);
    }
  }
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
  if (facts.type !== 'batch' || facts.orphan !== true)
    throw refuse(kind, 'an orphan batch token', `Correct the role: \`${roleCommand(role, policy)}\`.`);
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

/** The token before, as the primary knows it: for the result alone. */
async function replacedToken(
  primary: ClusterAccess,
  token: Secret<'batch-token'> | undefined,
  signal: AbortSignal,
): Promise<{ readonly usable: boolean; readonly ttlSeconds?: number; readonly ageSeconds?: number } | undefined> {
  if (token === undefined) return undefined;
  const looked = await primary.client.sys.lookupSelf({ token, signal }).catch(orElse(signal, () => undefined));
  if (looked?.ttlSeconds === undefined) return { usable: looked !== undefined };
  const { ttlSeconds, creationTtlSeconds } = looked;
  const age = creationTtlSeconds === undefined ? {} : { ageSeconds: Math.max(0, creationTtlSeconds - ttlSeconds) };
  return { usable: true, ttlSeconds, ...age };
}
