import { randomUUID } from 'node:crypto';
import type { GenerationInput, GenerationOutcome } from '../../src/contracts/activities';
import { orphanFinding } from '../../src/contracts/run-status';
import { attemptMark } from '../../src/contracts/ceremony';
import type { CeremonyHandle, OwnAttempt } from '../../src/contracts/ceremony';
import { RunbookError, isRunbookError, orElse } from '../../src/errors';
import type { KeyRecord } from '../../src/keys';
import { readOwnInvitation } from '../../src/keys';
import type { Secret } from '../../src/secret';
import type { GenerationAttempt } from '../../src/vault';
import { verifyBeginning, verifyOperation } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { CHANGE_TIMEOUT_MS } from '../timing';
import { awaitIdentity } from '../tokens/operation-token';
import { usableRecipient } from './ceremony';
import { ceremonyToken, endpointsOf } from './ceremony-access';
import type { Asked, Wanted } from './generation-notes';
import { alarm, attemptLeft, keepToken, noteLastShare, noteNoToken, notedOf, tokenIn } from './generation-notes';
import type { Slot } from './generation-slot';
import { cancelOwn, digestOf, isThis, readAttempt, settleLastShare, startOwn } from './generation-slot';
import type { ArrivedShare, Tried } from './shares';
import { holdersOf, nextSet, openInHand, openLast } from './shares';

/** Attempts that one token generation may lose to leader changes and lost answers before it fails. */
const MAX_LOST = 6;
/** An attempt last read longer ago, ms, is read again before its last share: the leader may have changed. */
const FRESH_MS = 1_000;

/** One verified token generation: the holders were asked for exactly this. */
interface Generation extends Wanted {
  readonly access: ClusterAccess;
  readonly slot: Slot;
}

/** The input of {@link startGeneration} besides what each activity gets. */
interface StartInput extends GenerationInput, Tried {
  /** Arrival numbers of the collected shares. */
  readonly shares: readonly number[];
  /** Attempts that were already lost. */
  readonly lost: number;
}

/**
 * Starts an attempt and gives all key shares but the last, from the first set that was not rejected. If the state does
 * not confirm a share, the attempt counts as lost and another one is started, so that no attempt gets a share twice.
 */
export async function startGeneration(
  input: StartInput,
): Promise<{ readonly attempt: OwnAttempt } | GenerationOutcome> {
  const execution = currentExecution();
  const record = await keysOf(input);
  // Open the shares while waiting for the cluster.
  const opening = openInHand(record, input.shares);
  opening.catch(() => undefined);
  const generation = await prepare(await askedOf(input, record), input, record, true);
  const { slot } = generation;
  const set = nextSet(input, record, await opening);
  const { destroyAfter } = await execution.keyRecords.markFirstBurst(record, Date.now());
  try {
    for (let lost = input.lost; lost <= MAX_LOST; lost += 1) {
      const { nonce } = await startOwn(execution, slot);
      if (nonce === undefined) continue;
      const attempt = {
        ...{ id: randomUUID(), mark: attemptMark(nonce), nonceDigest: digestOf(nonce) },
        set: set.map(({ arrival }) => arrival),
      };
      const given = await giveAllButLast(slot, set, nonce, destroyAfter);
      if (given === 'given') {
        await execution.assertCurrentAttempt();
        return { attempt };
      }
      if (given !== 'lost') return await keepToken(generation, attempt, given, holdersOf(set));
    }
    throw lostAgainAndAgain(slot.cluster);
  } catch (error) {
    // The service has only one slot: whatever went wrong, ours must not stay in it. If it may, the run must know.
    execution.doubt.mayHaveSent = (await execution.mayBeReplaced()) || !(await cancelOwn(slot));
    throw error;
  }
}

/** @returns the token, if somebody else gave our attempt a share, so that our share completed it */
async function giveAllButLast(
  slot: Slot,
  set: readonly ArrivedShare[],
  nonce: string,
  destroyAfter: number,
): Promise<'given' | 'lost' | Secret> {
  for (const [progress, { share }] of set.slice(0, -1).entries()) {
    await demandUsable(slot.cluster, destroyAfter);
    const answer = await give(slot, share, nonce);
    if (answer.kind === 'denied') throw answer.error;
    if (answer.kind === 'attempt' && answer.attempt.encodedToken !== undefined) return answer.attempt.encodedToken;
    if (answer.kind === 'attempt' && answer.attempt.progress === progress + 1) continue;
    // Without a clear answer, the state shows what the share did. An attempt with another nonce is not this one.
    const seen = await readAttempt(currentExecution(), slot);
    if (seen.nonce !== nonce || seen.progress !== progress + 1) return 'lost';
  }
  return 'given';
}

/** The service's answer to one share. */
type Given =
  | { readonly kind: 'attempt'; readonly attempt: GenerationAttempt }
  | { readonly kind: 'refused' }
  /** The service accepts nothing from us. */
  | { readonly kind: 'denied'; readonly error: RunbookError }
  /** No clear answer. `not-sent`: the share certainly did not arrive. */
  | { readonly kind: 'unknown' | 'not-sent' };

async function give({ endpoints, token }: Slot, key: Secret<'key-share'>, nonce: string): Promise<Given> {
  try {
    const attempt = await endpoints.update({ key, nonce }, { token, timeoutMs: CHANGE_TIMEOUT_MS });
    return { kind: 'attempt', attempt };
  } catch (error) {
    if (!isRunbookError(error)) throw error;
    if (error.code === 'PERMISSION_DENIED') return { kind: 'denied', error };
    if (error.code === 'BAD_REQUEST') return { kind: 'refused' };
    return { kind: error.outcomeKnown ? 'not-sent' : 'unknown' };
  }
}

/**
 * Gives the last share. Never retried: its presence in the history means that a token may exist. If it does not report
 * how it ended, {@link settleGeneration} finds out. If the run was ended, the entry in the record tells the next worker
 * that checks.
 */
export async function completeGeneration(
  input: GenerationInput & { readonly attempt: OwnAttempt },
): Promise<GenerationOutcome> {
  const execution = currentExecution();
  const { doubt } = execution;
  doubt.mayHaveSent = false;
  const { attempt } = input;
  const record = await keysOf(input);
  // May wait long for a silent cluster: a run that is terminated during this wait leaves no note, and so no alarm.
  const generation = await prepare(await askedOf(input, record), input, record, false);
  const { slot } = generation;
  const given = await giveLast(generation, attempt).catch(async (error: unknown) => {
    // The share was not given and never will be. Its note may still be on its way to the record.
    if (!doubt.mayHaveSent) await noteNoToken(generation, attempt);
    throw error;
  });
  if (given?.kind === 'attempt' && given.attempt.encodedToken !== undefined)
    return keepToken(generation, attempt, given.attempt.encodedToken, given.givers);
  let next: 'again' | 'next-set' = 'again';
  if (given) {
    // Nothing may interrupt finding out whether there is a token.
    const uninterrupted = { ...execution, signal: new AbortController().signal, throwIfCancelled: () => undefined };
    const seen = await settleLastShare(uninterrupted, slot, attempt, given.kind === 'attempt' ? 'unknown' : given.kind);
    if (seen.next === 'alarm') return alarm(generation, attempt, seen);
    next = seen.next;
  }
  await noteNoToken(generation, attempt);
  return { next, findings: [] };
}

/** @returns undefined if the attempt is no longer there as it was left: nothing was given, and the slot is freed */
async function giveLast(generation: Generation, attempt: OwnAttempt) {
  const execution = currentExecution();
  const { doubt, signal } = execution;
  const { slot, record } = generation;
  const { client } = generation.access;
  const check = async () => {
    // A share that finds no active node was certainly not sent; for one sent to the former active node that is
    // uncertain.
    client.forgetActiveNode();
    await client.activeNode({ signal }).catch(orElse(signal, () => undefined));
    return readAttempt(execution, slot);
  };
  const began = Date.now();
  // Writing the record takes longest: everything else is read meanwhile.
  const noting = noteLastShare(generation, attempt);
  noting.catch(() => undefined);
  const both = Promise.all([openLast(record, attempt.set), check()]);
  const [{ last, givers }, first] = await both.finally(() => noting);
  const isFresh = Date.now() - began <= FRESH_MS;
  const seen = isFresh ? first : await check();
  const waits = isThis(slot, attempt, seen) && seen.progress === seen.required - 1;
  if (!last || !waits || seen.nonce === undefined) {
    await cancelOwn(slot);
    return undefined;
  }
  await demandUsable(slot.cluster, record.destroyAfter);
  doubt.mayHaveSent = true;
  const answer = await give(slot, last, seen.nonce);
  if (answer.kind !== 'denied') return { ...answer, givers };
  doubt.mayHaveSent = false;
  throw answer.error;
}

/**
 * Determines by reads what became of an attempt of this run, and frees the slot. Needs no keys: any worker can do it.
 */
export async function settleGeneration(input: {
  readonly deployment: string;
  readonly cluster: string;
  readonly ceremony: Pick<CeremonyHandle, 'cid' | 'invitation'>;
  /** Absent if the run does not know it: then not even all shares but the last were given. */
  readonly attempt?: OwnAttempt | undefined;
  /** Whether its last share may have been given. */
  readonly mayBeSent: boolean;
}): Promise<GenerationOutcome> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { deployment, cluster, attempt } = input;
  const asked = await askedOf(input, input.ceremony);
  const { kind } = asked.invitation;
  // The result of the last share was written to the record before the worker could report it.
  const { noted, isUnread = false } = attempt ? await noteOf(asked, attempt, input.mayBeSent) : {};
  // The note decides, and not what the run says of itself: the share may have been given, whoever denies it.
  const mayBeSent = input.mayBeSent || noted !== undefined || isUnread;
  const made = tokenIn(noted);
  if (made) return made;
  // Already reported; whether its attempt was cancelled is unknown.
  const reported = noted?.how === undefined ? [] : [orphanFinding(kind, cluster, noted.how)];
  try {
    const access = clusters.of(deployment, cluster);
    const { version } = await access.client.sys.health({ signal });
    const slot = await slotOf(asked, access, version, attempt ? [attempt] : []);
    const answer = mayBeSent && reported.length === 0 ? 'unknown' : 'not-sent';
    const { next, ...ended } = await settleLastShare(execution, slot, attempt ?? { nonceDigest: '' }, answer);
    if (next === 'alarm' && attempt) return await alarm(asked, attempt, ended);
    if (attempt) await noteNoToken(asked, attempt);
    return { next: 'again', findings: [...reported, ...(ended.isFree ? [] : [attemptLeft(cluster, attempt)])] };
  } catch (error) {
    // Not settled: this attempt of the activity was cancelled, or it is unknown whether it counts.
    if (!isRunbookError(error) || signal.aborted || error.code === 'TEMPORAL_UNAVAILABLE') throw error;
    const how = 'the effect of the last share could not be read';
    if (mayBeSent && attempt && reported.length === 0) return alarm(asked, attempt, { how, isFree: false });
    return {
      next: 'again',
      findings: [...reported, attemptLeft(cluster, attempt, `it could not be read (${error.code})`)],
    };
  }
}

/** The note about a last share. If the run does not wait for one, a record that cannot be read keeps no slot occupied. */
async function noteOf(asked: Asked, attempt: OwnAttempt, isAwaited: boolean) {
  try {
    return { noted: await notedOf(asked, attempt) };
  } catch (error) {
    if (isAwaited || !isRunbookError(error)) throw error;
    return { isUnread: true };
  }
}

function keysOf({ ceremony: { cid, epoch } }: GenerationInput): Promise<KeyRecord> {
  const { keyRecords, run } = currentExecution();
  return keyRecords.read({ run, cid, epoch });
}

/** @throws RunbookError DOCUMENT_INVALID if this run asked nobody for a token of this cluster */
async function askedOf(
  { deployment, cluster }: { readonly deployment: string; readonly cluster: string },
  signed: Pick<CeremonyHandle, 'cid' | 'invitation'>,
): Promise<Asked> {
  const { run, signingKey } = currentExecution();
  const { invitation } = await readOwnInvitation(signed, signingKey);
  const { cid, wid, rid, targets } = invitation;
  const isOfRun = cid === signed.cid && wid === run.wid && rid === run.rid;
  const target = targets.find((each) => each.cluster === cluster);
  if (target && isOfRun) return { deployment, invitation, target };
  throw new RunbookError('DOCUMENT_INVALID', `This run did not ask for a token of ${cluster}.`, {
    cluster,
    observed: isOfRun ? 'not a target of the invitation' : 'an invitation of another run',
    needed: 'an invitation of this run that names the cluster',
  });
}

/** Verifies that the holders were asked for exactly this and, if approval is required, that people approved it. */
async function prepare(asked: Asked, input: GenerationInput, record: KeyRecord, begins: boolean): Promise<Generation> {
  const { deployment, invitation, target } = asked;
  const { cluster } = target;
  const execution = currentExecution();
  const { wanted } = input;
  const { kind } = wanted;
  const forPerson = kind === 'root-token' || wanted.recipientPgpKey !== undefined;
  const recipient = forPerson ? await usableRecipient(wanted.recipientPgpKey ?? '') : undefined;
  const { pgpPublicKey, pgpFingerprint } = record.keys;
  const key = recipient ?? { pgpPublicKey, fingerprint: pgpFingerprint };
  const access = execution.clusters.of(deployment, cluster);
  const { limits } = execution.clusters.deployment(deployment);
  const budgetMs = kind === 'operation-token' ? limits.promoteMs : limits.serviceReadyMs;
  const { clusterId, version } = await awaitIdentity(access, budgetMs);
  demandAsked(asked, wanted, { clusterId, fingerprint: key.fingerprint });
  if (recipient) {
    const endpoint = kind === 'root-token' ? 'root-token/generate' : 'operation-token/hand-over';
    const { authority } = wanted;
    if (!authority)
      throw new RunbookError('NOT_APPROVED', 'A token for a person needs approvals.', { needed: 'the approved plan' });
    // A ceremony that has sent key shares, in any epoch, is completed: it needs no authority to begin again.
    const epochs = await execution.keyRecords.ofRun(execution.run);
    const wasUsed = epochs.some(({ cid, firstBurst }) => cid === invitation.cid && firstBurst !== undefined);
    const verify = begins && !wasUsed ? verifyBeginning : verifyOperation;
    const approved = { deployment, authority };
    await verify(approved, { endpoint, gate: 'ceremony', on: { cluster, clusterId }, detail: key.fingerprint });
  }
  const slot = await slotOf(asked, access, version, input.attempts, key.pgpPublicKey);
  const uses = kind === 'operation-token' ? wanted.uses : [];
  return { ...asked, access, record, slot, uses, recipient };
}

/** The slot. An attempt is ours if it has the key of the invitation and, for a recipient's key, one of these nonces. */
async function slotOf(
  { target: { cluster }, invitation: { kind, pgp: pgpFingerprint, forPerson } }: Asked,
  access: ClusterAccess,
  version: string | undefined,
  attempts: readonly OwnAttempt[],
  pgpPublicKey = '',
): Promise<Slot> {
  const isRecipients = kind === 'root-token' || forPerson === true;
  const nonces = isRecipients ? new Set(attempts.map(({ nonceDigest }) => nonceDigest)) : undefined;
  const token = await ceremonyToken(access, version, kind, currentExecution().signal);
  return { endpoints: endpointsOf(access, kind), kind, cluster, pgpPublicKey, pgpFingerprint, token, nonces };
}

/** @throws RunbookError DOCUMENT_INVALID if the invitation that the holders saw is for something else */
function demandAsked(
  { invitation, target: { cluster, clusterId, uses: allowed } }: Asked,
  wanted: GenerationInput['wanted'],
  present: { readonly clusterId: string; readonly fingerprint: string },
): void {
  const { kind } = wanted;
  const uses = kind === 'operation-token' ? wanted.uses : (['root-token.generate'] as const);
  const isAsked = invitation.kind === kind && invitation.pgp === present.fingerprint && clusterId === present.clusterId;
  if (isAsked && uses.length > 0 && uses.every((use) => allowed.includes(use))) return;
  const what = `for ${uses.join(', ')} on ${cluster}`;
  throw new RunbookError('DOCUMENT_INVALID', `The holders were not asked for this: a token ${what}.`, {
    cluster,
    observed: `${invitation.kind} for ${allowed.join(', ')} on cluster ID ${clusterId}, to key ${invitation.pgp}`,
    needed: `${kind} ${what}, cluster ID ${present.clusterId}, to key ${present.fingerprint}`,
  });
}

/** @throws RunbookError KEY_RECORD_MISSING if the time for which the holders gave their shares is over */
async function demandUsable(cluster: string, destroyAfter: number): Promise<void> {
  await currentExecution().assertCurrentAttempt();
  if (Date.now() < destroyAfter * 1000) return;
  throw new RunbookError('KEY_RECORD_MISSING', 'The time for which the holders gave their key shares is over.', {
    retryable: false,
    cluster,
    observed: `over since ${new Date(destroyAfter * 1000).toISOString()}`,
    needed: 'key shares that may still be used',
    next: 'The run asks the holders again with a new invitation.',
  });
}

function lostAgainAndAgain(cluster: string): RunbookError {
  return new RunbookError('ATTEMPT_LOST', `The generation attempt on ${cluster} was lost ${MAX_LOST + 1} times.`, {
    retryable: false,
    cluster,
    observed: 'the attempt disappears between the shares',
    needed: 'an active node that stays active for a few seconds',
    next: 'Find out why the active node changes, then retry. No holder is asked again.',
  });
}
