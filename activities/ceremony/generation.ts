import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Authority, GenerationInput, GenerationOutcome } from '../../src/contracts/activities';
import { orphanFinding } from '../../src/contracts/alarms';
import { UNFIT_SHARES, attemptMark } from '../../src/contracts/ceremony';
import type { CeremonyHandle, OwnAttempt, Sealed } from '../../src/contracts/ceremony';
import type { AllowedOperation } from '../../src/contracts/plan';
import type { EnvelopeReceipt } from '../../src/contracts/receipts';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import type { Finding } from '../../src/contracts/run-facts';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import { RunbookError, isRunbookError, orElse } from '../../src/errors';
import type { KeyRecord, OpenedShare } from '../../src/keys';
import { isEncryptedOnlyTo, openShares, openToken, readOwnInvitation } from '../../src/keys';
import type { Secret } from '../../src/secret';
import type { GeneratedTokenKind } from '../../src/vault';
import type { ArrivedSignal } from '../approvals/arrived-signals';
import { ArrivedSignals } from '../approvals/arrived-signals';
import { verifyBeginning, verifyOperation } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import type { ActivityContext, Execution } from '../execution';
import { currentExecution } from '../execution';
import { awaitIdentity, sealOperationToken } from '../tokens/operation-token';
import type { LedgerEntry } from './token-ledger';
import { ledgerOf, isOfSameRun } from './token-ledger';
import { ceremonyToken, endpointsOf } from './ceremony-access';
import { usableRecipient } from './ceremony';
import type { Slot } from './generation-slot';
import { cancelOwn, digestOf, readAttempt, startOwn } from './generation-slot';
import { give, isThis, settleLastShare } from './last-share';
import { MAX_SETS, countSets, setsToTry } from './share-sets';

/** Attempts that one token generation may lose to leader changes and lost answers before it gives up. */
const MAX_LOST = 6;
/** How often the entry of a token that was made is written, where that fails. */
const MAX_WRITES = 3;
const WRITE_AGAIN_MS = 100;
/** For how long the last share waits for its note in the record, ms. */
const NOTE_WAIT_MS = 5_000;

/** Whether an error is no end: this attempt of the activity was cancelled, or nobody can say whether it counts. */
function isForNextAttempt({ signal }: Execution, { code }: RunbookError): boolean {
  return signal.aborted || code === 'TEMPORAL_UNAVAILABLE';
}

/** Which token of which run an attempt is for. */
interface Subject {
  readonly kind: GeneratedTokenKind;
  readonly deployment: string;
  readonly cluster: string;
  readonly clusterId: string;
  readonly cid: string;
  readonly execution: ActivityContext;
}

/** One token generation that was verified: the holders were asked for exactly this. */
interface Generation extends Subject {
  readonly access: ClusterAccess;
  readonly record: KeyRecord;
  readonly slot: Slot;
  /** Where the record keeps the token for a later run. */
  readonly keep?: { readonly until: string; readonly uses: readonly TokenUse[] };
  /** Takes the answer of the last share. Throws where nobody can use it: the token is then one that nobody holds. */
  readonly receive: (
    encoded: Secret,
  ) => Promise<{ readonly sealed: Sealed<'operation-token'> } | { readonly encrypted: string }>;
}

/** What {@link startGeneration} is told beside what each activity is. */
interface StartInput extends GenerationInput {
  /** Arrival numbers of the shares in hand. */
  readonly shares: readonly number[];
  /** The sets that this cluster rejected. */
  readonly rejected: readonly (readonly number[])[];
  /** How many of them since the shares in hand changed. */
  readonly tried: number;
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
  const [generation, signals] = await Promise.all([prepare(input, execution, true), arrivedShares(input.shares)]);
  const { record, slot, cluster } = generation;
  const set = nextSet(input, record, await openInHand(execution, record, signals, record.threshold));
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
  set: readonly OpenedShare[],
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
  const [generation, signals] = await Promise.all([prepare(input, execution, false), arrivedShares(attempt.set)]);
  const { access, record, slot, cluster } = generation;
  const noted = { ...entryOf(generation, attempt), state: 'under-way' } as const;
  const noting = beginNote(execution, noted);
  /** No token came of the attempt, and none will. */
  const giveUp = async () => {
    await cancelOwn(slot);
    await noTokenOf(execution, noted);
  };
  let answer: Awaited<ReturnType<typeof give>>;
  let givers: readonly string[];
  try {
    // A share that finds no active node was certainly not sent; one that goes to the former one leaves a doubt.
    access.client.forgetActiveNode();
    const { signal } = execution;
    const [inHand] = await Promise.all([
      openLast(execution, record, signals),
      noting(),
      access.client.activeNode({ signal }).catch(orElse(signal, () => undefined)),
    ]);
    givers = inHand.givers;
    const { last } = inHand;
    const seen = await readAttempt(execution, slot);
    const waits = isThis(slot, attempt, seen) && seen.progress === seen.required - 1;
    if (!last || !waits || seen.nonce === undefined) {
      await giveUp();
      return { next: 'again', findings: [] };
    }
    await demandUsable(execution, cluster, record.destroyAfter);
    execution.doubt.mayHaveSent = true;
    answer = await give(slot, last.share, seen.nonce);
  } catch (error) {
    // Whoever was given up leaves the slot to the one who finds out what became of the attempt.
    if (!execution.doubt.mayHaveSent && !(await execution.mayBeGivenUp())) await giveUp();
    throw error;
  }
  if (answer.kind === 'attempt' && answer.attempt.encodedToken !== undefined)
    return keepToken(generation, attempt, answer.attempt.encodedToken, givers);
  if (answer.kind === 'denied') {
    execution.doubt.mayHaveSent = false;
    await giveUp();
    throw answer.error;
  }
  const known = answer.kind === 'unclear' && answer.outcomeKnown ? 'not-sent' : 'unknown';
  // Nothing may stop what finds out whether there is a token.
  const onward = { ...execution, signal: new AbortController().signal, throwIfCancelled: () => undefined };
  const ended = await settleLastShare(onward, slot, attempt, answer.kind === 'refused' ? 'refused' : known);
  if (ended.next === 'alarm') return alarm(generation, attempt, ended);
  await noTokenOf(execution, noted);
  return { next: ended.next, findings: [] };
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
  const { clusters, signingKey } = execution;
  const { deployment, cluster, attempt, mayBeSent } = input;
  const { invitation } = await readOwnInvitation(input.ceremony, signingKey);
  const { kind, pgp, cid, wid, rid, targets, forPerson } = invitation;
  const target = targets.find((each) => each.cluster === cluster);
  if (!target || cid !== input.ceremony.cid || wid !== execution.run.wid || rid !== execution.run.rid)
    throw new RunbookError('DOCUMENT_INVALID', `This run asked nobody for a token of ${cluster}.`, { cluster });
  const subject = { kind, deployment, cluster, clusterId: target.clusterId, cid, execution };
  // What the last share made, or what is known of it, was noted before the worker could say so.
  const noted = mayBeSent && attempt ? await notedOf(subject, attempt) : undefined;
  const made = tokenIn(noted);
  if (made) return made;
  if (noted?.how !== undefined) return { next: 'again', findings: [orphanFinding(kind, cluster, noted.how)] };
  const isRecipients = kind === 'root-token' || forPerson === true;
  const nonces = isRecipients ? new Set(attempt ? [attempt.nonceDigest] : []) : undefined;
  try {
    const access = clusters.of(deployment, cluster);
    const { version } = await access.client.sys.health({ signal: execution.signal });
    const token = await ceremonyToken(access, version, kind, execution.signal);
    const key = { pgpPublicKey: '', pgpFingerprint: pgp };
    const slot: Slot = { endpoints: endpointsOf(access, kind), kind, cluster, key, token, ...(nonces && { nonces }) };
    const answer = mayBeSent ? 'unknown' : 'not-sent';
    const ended = await settleLastShare(execution, slot, attempt ?? { nonceDigest: '' }, answer);
    if (ended.next === 'alarm' && attempt) return await alarm(subject, attempt, ended);
    if (noted) await noTokenOf(execution, noted);
    return { next: 'again', findings: ended.isFree ? [] : [attemptLeft(cluster, attempt, NOT_SEEN_GONE)] };
  } catch (error) {
    if (!isRunbookError(error) || isForNextAttempt(execution, error)) throw error;
    const how = 'what the last share did could not be read';
    if (mayBeSent && attempt) return alarm(subject, attempt, { how, isFree: false });
    return { next: 'again', findings: [attemptLeft(cluster, attempt, `it could not be read (${error.code})`)] };
  }
}

/** Verifies that exactly this was asked of the holders, and approved where it must be. */
async function prepare(input: GenerationInput, execution: ActivityContext, begins: boolean): Promise<Generation> {
  const { clusters, keyRecords, signingKey } = execution;
  const { deployment, cluster, wanted, attempts } = input;
  const { run, signal } = execution;
  const { kind } = wanted;
  const { cid, epoch } = input.ceremony;
  const forPerson = kind === 'root-token' || wanted.recipientPgpKey !== undefined;
  const recipient = forPerson ? await usableRecipient(wanted.recipientPgpKey ?? '') : undefined;
  const record = await keyRecords.read({ run, cid, epoch });
  const key = recipient ? { pgpPublicKey: recipient.pgpPublicKey, pgpFingerprint: recipient.fingerprint } : record.keys;
  const access = clusters.of(deployment, cluster);
  const { limits } = clusters.deployment(deployment);
  const budgetMs = kind === 'operation-token' ? limits.promoteMs : limits.serviceReadyMs;
  const [{ clusterId, version }, { invitation }] = await Promise.all([
    awaitIdentity(access, execution, budgetMs),
    readOwnInvitation(record, signingKey),
  ]);
  const uses = kind === 'operation-token' ? wanted.uses : (['root-token.generate'] as const);
  demandAsked(invitation, { kind, uses, fingerprint: key.pgpFingerprint }, { cluster, clusterId });
  if (recipient) {
    const operation = kind === 'root-token' ? 'root-token.generate' : 'operation-token.hand-over';
    const doing = { operation, on: { cluster, clusterId }, detail: key.pgpFingerprint } as const;
    await verifyApproved(execution, input, wanted.authority, doing, { cid, begins });
  }
  const { keepFor } = invitation;
  const until = new Date(Date.now() + (keepFor ?? 0) * 1000).toISOString();
  const token = await ceremonyToken(access, version, kind, signal);
  const nonces = recipient && new Set(attempts.map(({ nonceDigest }) => nonceDigest));
  return {
    ...{ kind, deployment, cluster, clusterId, cid, execution, access, record },
    slot: { endpoints: endpointsOf(access, kind), kind, cluster, key, token, ...(nonces && { nonces }) },
    ...(keepFor !== undefined && kind === 'operation-token' && { keep: { until, uses: wanted.uses } }),
    receive: async (encoded) => {
      const text = encoded.reveal();
      if (recipient) {
        if (await isEncryptedOnlyTo(recipient, text)) return { encrypted: text };
        throw new RunbookError('RESPONSE_INVALID', 'The encoded token is not encrypted to the recipient alone.');
      }
      const made = await openToken(record.keys, 'operation-token', text);
      return { sealed: await sealOperationToken({ cluster, clusterId }, uses, made, keepFor) };
    },
  };
}

/** @throws RunbookError DOCUMENT_INVALID where the invitation, which the holders saw, is for something else */
function demandAsked(
  invitation: Awaited<ReturnType<typeof readOwnInvitation<'ceremony'>>>['invitation'],
  wanted: { readonly kind: GeneratedTokenKind; readonly uses: readonly string[]; readonly fingerprint: string },
  { cluster, clusterId }: { readonly cluster: string; readonly clusterId: string },
): void {
  const { kind, uses, fingerprint } = wanted;
  const target = invitation.targets.find((each) => each.cluster === cluster);
  const isAsked = invitation.kind === kind && invitation.pgp === fingerprint && target?.clusterId === clusterId;
  const allowed: readonly string[] = target?.uses ?? [];
  if (isAsked && uses.length > 0 && uses.every((use) => allowed.includes(use))) return;
  const what = `for ${uses.join(', ')} on ${cluster}`;
  throw new RunbookError('DOCUMENT_INVALID', `The holders were not asked for this: a token ${what}.`, {
    cluster,
    observed: target
      ? `${invitation.kind} for ${allowed.join(', ')} on cluster ID ${target.clusterId}, to key ${invitation.pgp}`
      : 'not a target of the invitation',
    needed: `${kind} ${what}, cluster ID ${clusterId}, to key ${fingerprint}`,
  });
}

/** Once key shares were sent, in whichever epoch of this ceremony, it is brought to its end. */
async function verifyApproved(
  { keyRecords, run }: ActivityContext,
  { deployment }: GenerationInput,
  authority: Authority | undefined,
  doing: AllowedOperation,
  { cid, begins }: { readonly cid: string; readonly begins: boolean },
): Promise<void> {
  if (!authority)
    throw new RunbookError('NOT_APPROVED', 'A token for a person needs approvals.', { needed: 'the approved plan' });
  const epochs = await keyRecords.ofRun(run);
  const wasUsed = epochs.some((each) => each.cid === cid && each.firstBurst !== undefined);
  const verify = begins && !wasUsed ? verifyBeginning : verifyOperation;
  await verify({ deployment, authority }, doing);
}

/** A share in hand, with the number of the signal that brought it. */
interface ArrivedShare extends OpenedShare {
  readonly arrival: number;
}

/** The signals that brought shares, in the order of the numbers. */
function arrivedShares(arrivals: readonly number[]): Promise<readonly ArrivedSignal[]> {
  return new ArrivedSignals(currentExecution().run).of('share', arrivals);
}

/**
 * The shares that signals brought, in their order.
 *
 * @throws RunbookError SHARES_MISSING where fewer than `needed` fit together
 */
async function openInHand(
  { inventory }: ActivityContext,
  record: KeyRecord,
  signals: readonly ArrivedSignal[],
  needed: number,
): Promise<ArrivedShare[]> {
  const { shares, receipts } = await openShares(record, signals, inventory.people);
  const arrivalOf = new Map(
    receipts.flatMap(({ verdict, envelopeDigest }, index) =>
      verdict === 'accepted' ? [[envelopeDigest, signals[index]?.arrival ?? 0] as const] : [],
    ),
  );
  if (shares.length < needed) throw sharesMissing(receipts, needed);
  return shares.map((share) => ({ ...share, arrival: arrivalOf.get(share.envelopeDigest) ?? 0 }));
}

/** The last share of a set, which alone is opened, and whose shares the set has: the others were given already. */
async function openLast({ inventory }: ActivityContext, record: KeyRecord, signals: readonly ArrivedSignal[]) {
  const { shares, receipts } = await openShares(record, signals, inventory.people, signals.length - 1);
  const givers = new Set(receipts.flatMap(({ verdict, holder }) => (verdict === 'accepted' ? (holder ?? []) : [])));
  if (givers.size < signals.length) throw sharesMissing(receipts, signals.length);
  return { last: shares[0], givers: [...givers] };
}

function sharesMissing(receipts: readonly EnvelopeReceipt[], needed: number): RunbookError {
  const fit = receipts.filter(({ verdict }) => verdict === 'accepted').length;
  return new RunbookError('SHARES_MISSING', `Only ${fit} of ${needed} key shares verify.`, {
    about: UNFIT_SHARES,
    observed: `${fit}${unfitInWords(receipts)}`,
    needed: `${needed}`,
    next: 'Who is named gives his share again, or a further holder gives his.',
  });
}

function holdersOf(shares: readonly ArrivedShare[]): string[] {
  return shares.map(({ holder }) => holder);
}

/** Some mistakes show only beside the shares of others, such as an odd length: whose share counts no more, and why. */
function unfitInWords(receipts: readonly EnvelopeReceipt[]): string {
  const unfit = receipts.filter(({ verdict }) => verdict !== 'accepted' && verdict !== 'superseded');
  return unfit.map(({ holder = 'somebody', verdict }) => `; ${holder}: ${ENVELOPE_VERDICTS[verdict]}`).join('');
}

/**
 * The set of shares to try now.
 *
 * @throws RunbookError SHARES_REJECTED where none is left, or enough were tried since the shares in hand changed
 */
function nextSet(
  { cluster, rejected, tried }: StartInput,
  { threshold }: KeyRecord,
  shares: readonly ArrivedShare[],
): readonly ArrivedShare[] {
  const markOf = (arrivals: readonly number[]) => arrivals.toSorted((one, other) => one - other).join(' ');
  const known = new Set(rejected.map(markOf));
  const isNew = (shares: readonly ArrivedShare[]) => !known.has(markOf(shares.map(({ arrival }) => arrival)));
  const [set] = setsToTry(shares, threshold, isNew);
  if (set && tried < MAX_SETS) return set;
  const all = countSets(shares.length, threshold);
  throw new RunbookError(
    'SHARES_REJECTED',
    `${cluster} rejected ${tried} ${tried === 1 ? 'set' : 'sets'} of ${threshold} out of ${shares.length} key shares.`,
    {
      cluster,
      observed: `${tried} of ${all} possible ${all === 1 ? 'set' : 'sets'} tried, ${tried < all ? `at most ${MAX_SETS} at a time, ` : ''}and all rejected; holders: ${holdersOf(shares).join(', ')}`,
      needed: `${threshold} shares of this cluster's key`,
      next: 'At least one of these shares is wrong, and none is proven to be. A holder corrects his, or a further holder gives his: then subsets tell which. No set is tried twice.',
    },
  );
}

/** @throws RunbookError KEY_RECORD_MISSING where the time for which the holders gave their shares is over */
async function demandUsable(execution: Execution, cluster: string, destroyAfter: number): Promise<void> {
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
  const { cluster, execution, receive, keep } = generation;
  const received = await receive(encoded).catch(() => undefined);
  if (!received) {
    const how = 'it was made, and cannot be opened or sealed here';
    const { findings } = await alarm(generation, attempt, { how, isFree: true });
    execution.doubt.mayHaveSent = false;
    const [{ text, next } = { text: '', next: undefined }] = findings;
    throw new RunbookError('TOKEN_ORPHANED', text, { cluster, findings, outcomeKnown: true, ...(next && { next }) });
  }
  const { wid, rid } = execution.run;
  const kept = keep && { ...keep, uses: [...keep.uses], holders: [...holders], wid, rid, at: new Date().toISOString() };
  const state =
    'sealed' in received
      ? ({ state: 'alive', sealed: received.sealed, ...(kept && { kept }) } as const)
      : ({ state: 'handed-over', encoded: received.encrypted } as const);
  const isNoted = await insist(() => ledgerOf(execution).write({ ...entryOf(generation, attempt), ...state }));
  const findings = isNoted || !('sealed' in received) ? [] : [notNoted(cluster)];
  return { next: 'token', ...received, findings };
}

/** A record that fails once is no reason for an alarm about a token that the run holds. */
async function insist(write: () => Promise<void>): Promise<boolean> {
  for (let tries = 1; tries <= MAX_WRITES; tries += 1) {
    const done = await write().then(
      () => true,
      () => false,
    );
    if (done) return true;
    await delay(tries * WRITE_AGAIN_MS);
  }
  return false;
}

/**
 * A token may exist that nobody holds: told here and now, and kept among the generated tokens. Where its attempt may still
 * be in the slot that is told too.
 */
async function alarm(
  subject: Subject,
  attempt: OwnAttempt,
  ended: { readonly how: string; readonly isFree: boolean },
): Promise<GenerationOutcome> {
  const how = `attempt ${attempt.mark}: ${ended.how}`;
  // The ledger tells it also where it cannot be written.
  const isOrphan = await ledgerOf(subject.execution)
    .writeOrphan({ ...entryOf(subject, attempt), state: 'orphan', how })
    .catch(() => true);
  const made = isOrphan ? undefined : tokenIn(await notedOf(subject, attempt));
  if (made) return made;
  const left = ended.isFree ? [] : [attemptLeft(subject.cluster, attempt, NOT_SEEN_GONE)];
  return { next: 'again', findings: [orphanFinding(subject.kind, subject.cluster, how), ...left] };
}

/**
 * Notes that the last share is about to be given, while that is prepared. A record that cannot be written holds no token
 * back: while its run is open, the run knows.
 *
 * @returns waits for the note, a while
 * @throws RunbookError STATE_DIVERGED where the record has another token there: then nothing is given
 */
function beginNote(execution: ActivityContext, entry: LedgerEntry): () => Promise<void> {
  const noting = ledgerOf(execution)
    .begin(entry)
    .then(
      () => undefined,
      (error: unknown) => (isRunbookError(error, 'STATE_DIVERGED') ? error : undefined),
    );
  return async () => {
    const taken = await Promise.race([noting, delay(NOTE_WAIT_MS, undefined, { ref: false })]);
    if (taken) throw taken;
  };
}

/** What the record has of this attempt of this run. */
async function notedOf({ deployment, cluster, cid, execution }: Subject, { id }: OwnAttempt) {
  const entries = await ledgerOf(execution).all(deployment);
  const own = { ...execution.run, cluster };
  return entries.find((each) => each.id === id && each.cid === cid && isOfSameRun(each, own));
}

function tokenIn(noted: LedgerEntry | undefined): GenerationOutcome | undefined {
  if (noted?.sealed !== undefined) return { next: 'token', sealed: noted.sealed, findings: [] };
  return noted?.encoded === undefined ? undefined : { next: 'token', encrypted: noted.encoded, findings: [] };
}

/** No token came of an attempt: its entry goes. Where it cannot be written now an alarm too many follows the end of the run. */
async function noTokenOf(execution: ActivityContext, entry: LedgerEntry): Promise<void> {
  await ledgerOf(execution)
    .settle(entry, undefined)
    .catch(() => undefined);
}

function entryOf(
  { kind, deployment, cluster, clusterId, cid, execution }: Subject,
  { id, mark }: OwnAttempt,
): Omit<LedgerEntry, 'state'> {
  const { ns, wid, rid } = execution.run;
  return {
    ...({ version: 1 } as const),
    ...(kind === 'operation-token' ? {} : { kind }),
    ...{ id, mark, deployment, cluster, clusterId, ns, wid, rid, cid },
    at: new Date().toISOString(),
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

const NOT_SEEN_GONE = 'it was not seen to be gone';

function attemptLeft(cluster: string, attempt: OwnAttempt | undefined, why: string): Finding {
  const which = attempt === undefined ? 'A generation attempt' : `The generation attempt ${attempt.mark}`;
  return {
    severity: 'critical',
    code: 'attempt-not-cancelled',
    text: `${which} of this run may still be in the slot of ${cluster}: ${why}. Who gives its last key share makes a token that nobody waits for.`,
    next: `No holder gives a share to it any more. Once ${cluster} answers: \`vault operator generate-root -status\` (for an operation token with \`-dr-token\`), and cancel it with \`-cancel\` where it is that of this run.`,
  };
}
