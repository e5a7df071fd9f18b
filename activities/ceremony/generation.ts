import { randomUUID } from 'node:crypto';
import type { Authority, GenerationInput, GenerationOutcome } from '../../src/contracts/activities';
import { orphanFinding } from '../../src/contracts/alarms';
import { attemptMark } from '../../src/contracts/ceremony';
import type { CeremonyHandle, OwnAttempt, Sealed } from '../../src/contracts/ceremony';
import type { AllowedOperation } from '../../src/contracts/plan';
import type { Finding } from '../../src/contracts/run-facts';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import { RunbookError, isRunbookError, orElse } from '../../src/errors';
import type { KeyRecord, RecipientKey } from '../../src/keys';
import { isEncryptedOnlyTo, openToken, readOwnInvitation } from '../../src/keys';
import type { Secret } from '../../src/secret';
import { verifyBeginning, verifyOperation } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import type { ActivityContext } from '../execution';
import { currentExecution } from '../execution';
import { awaitIdentity, sealOperationToken } from '../tokens/operation-token';
import { ceremonyToken, endpointsOf } from './ceremony-access';
import { usableRecipient } from './ceremony';
import type { Subject } from './generation-notes';
import {
  alarm,
  attemptLeft,
  entryOf,
  noteLastShare,
  noteNoToken,
  noteToken,
  notedOf,
  tokenIn,
} from './generation-notes';
import type { ArrivedShare, Tried } from './generation-shares';
import { holdersOf, nextSet, openInHand, openLast } from './generation-shares';
import type { Slot } from './generation-slot';
import { cancelOwn, digestOf, give, isThis, readAttempt, settleLastShare, startOwn } from './generation-slot';

/** Attempts that one token generation may lose to leader changes and lost answers before it gives up. */
const MAX_LOST = 6;
/** An attempt that was seen longer ago, ms, is looked at again before its last share: the leader may be another by now. */
const FRESH_MS = 1_000;

/** What the invitation, which the holders saw, says of a token. */
interface Asked extends Subject {
  readonly invitation: Awaited<ReturnType<typeof readOwnInvitation<'ceremony'>>>['invitation'];
  readonly allowed: readonly string[];
}

/** One token generation that was verified: the holders were asked for exactly this. */
interface Generation extends Asked {
  readonly access: ClusterAccess;
  readonly record: KeyRecord;
  readonly slot: Slot;
  /** Of an operation token. */
  readonly uses: readonly TokenUse[];
  /** For whom the token is, where it is not for the run. */
  readonly recipient: RecipientKey | undefined;
}

/** What {@link startGeneration} is told beside what each activity is. */
interface StartInput extends GenerationInput, Tried {
  /** Arrival numbers of the shares in hand. */
  readonly shares: readonly number[];
  /** Attempts that were lost already. */
  readonly lost: number;
}

interface Started {
  readonly attempt: OwnAttempt;
  readonly attempts: number;
}

/**
 * Starts an attempt and gives all key shares but the last, of the first set that was not rejected. An attempt is lost where
 * a share is not seen to be taken: another one is started, so that no attempt gets a share twice.
 */
export async function startGeneration(input: StartInput): Promise<Started | GenerationOutcome> {
  const execution = currentExecution();
  // Nothing that is sent here makes a token, and an attempt of this run that is there is cancelled first.
  execution.doubt.mayHaveSent = false;
  const record = await keysOf(execution, input);
  // Opened while the cluster answers.
  const opening = openInHand(execution, record, input.shares);
  opening.catch(() => undefined);
  const generation = await prepare(await askedOf(execution, input, record), input, record, true);
  const { slot, cluster } = generation;
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
      const given = await giveAllButLast(generation, set, nonce, destroyAfter);
      if (given === 'given') {
        await execution.assertCurrentAttempt();
        return { attempt, attempts: lost - input.lost + 1 };
      }
      if (given !== 'lost') return await keepToken(generation, attempt, given, holdersOf(set));
    }
    throw lostAgainAndAgain(cluster);
  } catch (error) {
    // The slot is the service's only one: whatever went wrong, ours does not stay in it.
    if (!(await execution.mayBeGivenUp())) await cancelOwn(slot);
    throw error;
  }
}

/** @returns the token where somebody else gave our attempt a share, so that ours completed it */
async function giveAllButLast(
  { execution, slot, cluster }: Generation,
  set: readonly ArrivedShare[],
  nonce: string,
  destroyAfter: number,
): Promise<'given' | 'lost' | Secret> {
  for (const [progress, { share }] of set.slice(0, -1).entries()) {
    await demandUsable(execution, cluster, destroyAfter);
    const answer = await give(slot, share, nonce);
    if (answer.kind === 'denied') throw answer.error;
    if (answer.kind === 'attempt' && answer.attempt.encodedToken !== undefined) return answer.attempt.encodedToken;
    if (answer.kind === 'attempt' && answer.attempt.progress === progress + 1) continue;
    // Without a clear answer the state decides what the share did. An attempt with another nonce is not this one.
    const seen = await readAttempt(execution, slot);
    if (seen.nonce !== nonce || seen.progress !== progress + 1) return 'lost';
  }
  return 'given';
}

/**
 * Gives the last share, and is never tried again: that it is in the history is the note that a token may exist. Where it
 * does not say itself how it ended, {@link settleGeneration} finds it out; where the run was ended, the entry of the record
 * says it to the next worker that looks.
 */
export async function completeGeneration(
  input: GenerationInput & { readonly attempt: OwnAttempt },
): Promise<GenerationOutcome> {
  const execution = currentExecution();
  execution.doubt.mayHaveSent = false;
  const { attempt } = input;
  const record = await keysOf(execution, input);
  const { generation, last, givers, seen } = await lookUp(execution, input, record);
  const { slot, cluster } = generation;
  const waits = isThis(slot, attempt, seen) && seen.progress === seen.required - 1;
  if (!last || !waits || seen.nonce === undefined) {
    await cancelOwn(slot);
    await noteNoToken(generation, attempt);
    return { next: 'again', findings: [] };
  }
  await demandUsable(execution, cluster, record.destroyAfter);
  execution.doubt.mayHaveSent = true;
  const answer = await give(slot, last.share, seen.nonce);
  if (answer.kind === 'denied') {
    execution.doubt.mayHaveSent = false;
    throw answer.error;
  }
  if (answer.kind === 'attempt' && answer.attempt.encodedToken !== undefined)
    return keepToken(generation, attempt, answer.attempt.encodedToken, givers);
  // Nothing may stop what finds out whether there is a token.
  const onward = { ...execution, signal: new AbortController().signal, throwIfCancelled: () => undefined };
  const said = answer.kind === 'attempt' ? 'unknown' : answer.kind;
  const { next, ...ended } = await settleLastShare(onward, slot, attempt, said);
  if (next === 'alarm') return alarm(generation, attempt, ended);
  await noteNoToken(generation, attempt);
  return { next, findings: [] };
}

/**
 * All that the last share needs: what was verified, the share, its note in the record, and the attempt as the node has it
 * that leads now.
 */
async function lookUp(
  execution: ActivityContext,
  input: GenerationInput & { readonly attempt: OwnAttempt },
  record: KeyRecord,
) {
  const { signal } = execution;
  // May wait long for a silent cluster: a run that is terminated meanwhile leaves no note, and so no alarm.
  const generation = await prepare(await askedOf(execution, input, record), input, record, false);
  const { client } = generation.access;
  const look = async () => {
    // A share that finds no active node was certainly not sent; one that goes to the former one leaves a doubt.
    client.forgetActiveNode();
    await client.activeNode({ signal }).catch(orElse(signal, () => undefined));
    return readAttempt(execution, generation.slot);
  };
  const began = Date.now();
  // The record takes longest: it is written while everything else is looked up.
  const noting = noteLastShare(generation, input.attempt);
  noting.catch(() => undefined);
  const both = Promise.all([openLast(execution, record, input.attempt.set), look()]);
  const [inHand, seen] = await both.finally(() => noting);
  const isFresh = Date.now() - began <= FRESH_MS;
  return { generation, ...inHand, seen: isFresh ? seen : await look() };
}

/** Finds out by reads what became of an attempt of this run, and frees the slot. Any worker can: it needs no keys. */
export async function settleGeneration(input: {
  readonly deployment: string;
  readonly cluster: string;
  readonly ceremony: Pick<CeremonyHandle, 'cid' | 'invitation'>;
  /** Absent where the run does not know it: all shares but the last were not given. */
  readonly attempt?: OwnAttempt | undefined;
  /** Whether its last share may have been given. */
  readonly mayBeSent: boolean;
}): Promise<GenerationOutcome> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { deployment, cluster, attempt, mayBeSent } = input;
  const asked = await askedOf(execution, input, input.ceremony);
  // What the last share made, or what is known of it, was noted before the worker could say so.
  const noted = mayBeSent && attempt ? await notedOf(asked, attempt) : undefined;
  const made = tokenIn(noted);
  if (made) return made;
  // Told already; whether its attempt was cancelled is not known.
  const told = noted?.how === undefined ? [] : [orphanFinding(asked.kind, cluster, noted.how)];
  try {
    const access = clusters.of(deployment, cluster);
    const { version } = await access.client.sys.health({ signal });
    const slot = await slotOf(asked, access, version, attempt ? [attempt] : []);
    const answer = mayBeSent && told.length === 0 ? 'unknown' : 'not-sent';
    const { next, ...ended } = await settleLastShare(execution, slot, attempt ?? { nonceDigest: '' }, answer);
    if (next === 'alarm' && attempt) return await alarm(asked, attempt, ended);
    if (attempt) await noteNoToken(asked, attempt);
    return { next: 'again', findings: [...told, ...(ended.isFree ? [] : [attemptLeft(cluster, attempt)])] };
  } catch (error) {
    // No end: this attempt of the activity was cancelled, or nobody can say whether it counts.
    if (!isRunbookError(error) || signal.aborted || error.code === 'TEMPORAL_UNAVAILABLE') throw error;
    const how = 'what the last share did could not be read';
    if (mayBeSent && attempt && told.length === 0) return alarm(asked, attempt, { how, isFree: false });
    return {
      next: 'again',
      findings: [...told, attemptLeft(cluster, attempt, `it could not be read (${error.code})`)],
    };
  }
}

function keysOf(
  { keyRecords, run }: ActivityContext,
  { ceremony: { cid, epoch } }: GenerationInput,
): Promise<KeyRecord> {
  return keyRecords.read({ run, cid, epoch });
}

/** @throws RunbookError DOCUMENT_INVALID where this run asked nobody for a token of this cluster */
async function askedOf(
  execution: ActivityContext,
  { deployment, cluster }: { readonly deployment: string; readonly cluster: string },
  signed: Pick<CeremonyHandle, 'cid' | 'invitation'>,
): Promise<Asked> {
  const { run, signingKey } = execution;
  const { invitation } = await readOwnInvitation(signed, signingKey);
  const { kind, cid, wid, rid, targets } = invitation;
  const isOfRun = cid === signed.cid && wid === run.wid && rid === run.rid;
  const target = targets.find((each) => each.cluster === cluster);
  if (!target || !isOfRun)
    throw new RunbookError('DOCUMENT_INVALID', `This run asked nobody for a token of ${cluster}.`, {
      cluster,
      observed: isOfRun ? 'not a target of the invitation' : 'an invitation of another run',
      needed: 'an invitation of this run that names the cluster',
    });
  const { clusterId, uses: allowed } = target;
  return { kind, deployment, cluster, clusterId, cid, execution, invitation, allowed };
}

/** Verifies that exactly this was asked of the holders, and approved where it must be. */
async function prepare(asked: Asked, input: GenerationInput, record: KeyRecord, begins: boolean): Promise<Generation> {
  const { deployment, cluster, execution } = asked;
  const { wanted } = input;
  const { kind } = wanted;
  const forPerson = kind === 'root-token' || wanted.recipientPgpKey !== undefined;
  const recipient = forPerson ? await usableRecipient(wanted.recipientPgpKey ?? '') : undefined;
  const { pgpPublicKey, pgpFingerprint } = record.keys;
  const key = recipient ?? { pgpPublicKey, fingerprint: pgpFingerprint };
  const access = execution.clusters.of(deployment, cluster);
  const { limits } = execution.clusters.deployment(deployment);
  const budgetMs = kind === 'operation-token' ? limits.promoteMs : limits.serviceReadyMs;
  const { clusterId, version } = await awaitIdentity(access, execution, budgetMs);
  demandAsked(asked, wanted, { clusterId, fingerprint: key.fingerprint });
  if (recipient) {
    const operation = kind === 'root-token' ? 'root-token.generate' : 'operation-token.hand-over';
    const doing = { operation, on: { cluster, clusterId }, detail: key.fingerprint } as const;
    await verifyApproved(asked, wanted.authority, doing, begins);
  }
  const slot = await slotOf(asked, access, version, input.attempts, key.pgpPublicKey);
  const uses = kind === 'operation-token' ? wanted.uses : [];
  return { ...asked, access, record, slot, uses, recipient };
}

/** The slot, in which attempts are ours that have the key of the invitation: and, with a recipient's, one of these nonces. */
async function slotOf(
  { kind, cluster, execution, invitation: { pgp: pgpFingerprint, forPerson } }: Asked,
  access: ClusterAccess,
  version: string | undefined,
  attempts: readonly OwnAttempt[],
  pgpPublicKey = '',
): Promise<Slot> {
  const isRecipients = kind === 'root-token' || forPerson === true;
  const nonces = isRecipients ? new Set(attempts.map(({ nonceDigest }) => nonceDigest)) : undefined;
  const token = await ceremonyToken(access, version, kind, execution.signal);
  return { endpoints: endpointsOf(access, kind), kind, cluster, pgpPublicKey, pgpFingerprint, token, nonces };
}

/** @throws RunbookError DOCUMENT_INVALID where the invitation, which the holders saw, is for something else */
function demandAsked(
  { invitation, cluster, clusterId, allowed }: Asked,
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

/** Once key shares were sent, in whichever epoch of this ceremony, it is brought to its end. */
async function verifyApproved(
  { deployment, cid, execution: { keyRecords, run } }: Asked,
  authority: Authority | undefined,
  doing: AllowedOperation,
  begins: boolean,
): Promise<void> {
  if (!authority)
    throw new RunbookError('NOT_APPROVED', 'A token for a person needs approvals.', { needed: 'the approved plan' });
  const epochs = await keyRecords.ofRun(run);
  const wasUsed = epochs.some((each) => each.cid === cid && each.firstBurst !== undefined);
  const verify = begins && !wasUsed ? verifyBeginning : verifyOperation;
  await verify({ deployment, authority }, doing);
}

/** @throws RunbookError KEY_RECORD_MISSING where the time for which the holders gave their shares is over */
async function demandUsable(execution: ActivityContext, cluster: string, destroyAfter: number): Promise<void> {
  await execution.assertCurrentAttempt();
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
    next: 'Find out why the active node changes, then retry: no holder is asked again.',
  });
}

/**
 * The token exists: it is noted before anything else, so that what can be said of it is not lost with this worker.
 *
 * @throws RunbookError TOKEN_ORPHANED where nobody can use it: nothing may try on by itself, each try would leave another
 */
async function keepToken(
  generation: Generation,
  attempt: OwnAttempt,
  encoded: Secret,
  holders: readonly string[],
): Promise<GenerationOutcome> {
  const { cluster, execution } = generation;
  const received = await receive(generation, encoded).catch(() => undefined);
  if (!received) {
    const how = 'it was made, and cannot be opened or sealed here';
    const { findings } = await alarm(generation, attempt, { how, isFree: true });
    execution.doubt.mayHaveSent = false;
    const [{ text, next } = { text: '', next: undefined }] = findings;
    throw new RunbookError('TOKEN_ORPHANED', text, { cluster, findings, outcomeKnown: true, ...(next && { next }) });
  }
  const state =
    'sealed' in received
      ? ({ state: 'alive', sealed: received.sealed, ...keptFor(generation, holders) } as const)
      : ({ state: 'handed-over', encoded: received.encrypted } as const);
  const isNoted = await noteToken(execution, { ...entryOf(generation, attempt), ...state });
  const findings = isNoted || !('sealed' in received) ? [] : [notNoted(cluster)];
  return { next: 'token', ...received, findings };
}

/** Takes the answer of the last share. Throws where nobody can use it: the token is then one that nobody holds. */
async function receive(
  { recipient, record, uses, invitation: { keepFor }, ...on }: Generation,
  encoded: Secret,
): Promise<{ readonly sealed: Sealed<'operation-token'> } | { readonly encrypted: string }> {
  const text = encoded.reveal();
  if (!recipient) {
    const made = await openToken(record.keys, 'operation-token', text);
    return { sealed: await sealOperationToken(on, uses, made, keepFor) };
  }
  if (await isEncryptedOnlyTo(recipient, text)) return { encrypted: text };
  throw new RunbookError('RESPONSE_INVALID', 'The encoded token is not encrypted to the recipient alone.');
}

/** Where the record keeps the token for a later run. */
function keptFor({ invitation: { keepFor }, uses, execution }: Generation, holders: readonly string[]) {
  if (keepFor === undefined) return {};
  const { wid, rid } = execution.run;
  const now = Date.now();
  const until = new Date(now + keepFor * 1000).toISOString();
  return {
    kept: { until, uses: [...uses], holders: [...holders], wid, rid, at: new Date(now).toISOString() },
  };
}

/** The run holds the token, sealed, and deletes it; a run that ends without that leaves it to nobody. */
function notNoted(cluster: string): Finding {
  return {
    severity: 'critical',
    code: 'token-not-in-record',
    text: `The operation token of ${cluster} was generated, and the record could not be written afterwards.`,
    next: `This run deletes the token at its end. Should it be terminated before, delete the token with operation-token/delete.`,
  };
}
