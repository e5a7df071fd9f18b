import { randomUUID } from 'node:crypto';
import type { GeneratedTokenKind, GenerationAttempt } from '../../../src/client';
import type {
  DirectAttempt,
  DirectAttemptStarted,
  DirectEnded,
  DirectSharesActivities,
} from '../../../src/contracts/activities';
import type { Finding } from '../../../src/contracts/run-facts';
import { RunbookError, isRunbookError } from '../../../src/errors';
import type { InvitationTarget, KeyRecord, RunContext } from '../../../src/secrets';
import type { ClusterAccess } from '../clusters';
import { ceremonyEntry, closingInWords, endpointsOf } from '../ceremony-access';
import { ceremonyToken, majorVersion } from '../clusters';
import { cancelSeen, isForNextAttempt, notCancelled } from './direct-cancel';
import type { DirectEntries } from './direct-entries';
import { entriesOf, everyEntryOf, isOf, isOurs } from './direct-entries';
import { activeNode } from './direct-follow';
import type { Execution } from '../execution';
import { digestOf, orphanFinding } from './generation-record';
import type { AttemptKey, Slot } from './generation-slot';
import { foreignAttempt, readAttempt, readOwn } from './generation-slot';
import { endDoubt } from './give-share';
import { CHANGE_TIMEOUT_MS } from '../read-act-confirm';
import type { LedgerEntry, TokenLedger } from './token-ledger';

const MAX_STARTS = 4;

/** An attempt that holders give their shares to themselves. */
export interface DirectSlot {
  readonly ledger: TokenLedger;
  readonly run: RunContext;
  readonly deployment: string;
  readonly access: ClusterAccess;
  readonly record: KeyRecord;
  readonly kind: GeneratedTokenKind;
  readonly target: InvitationTarget;
  /** Of the ceremony; of the recipient for a root token. */
  readonly key: AttemptKey;
  readonly handInMs: number;
}

interface EndedAttempt extends Pick<
  Parameters<DirectSharesActivities['endDirectAttempt']>[0],
  'nonces' | 'mayExist' | 'ifGone'
> {
  /** As a verified invitation of this very run says it. */
  readonly fingerprint: string | undefined;
}

/**
 * Starts an attempt that the holders will complete. Where one of ours is there already it stays, with the shares that
 * were given to it. The ledger knows of the token before the attempt can end in one.
 *
 * @throws RunbookError ATTEMPT_FOREIGN, and what the service refuses
 */
export async function startForHolders(execution: Execution, direct: DirectSlot): Promise<DirectAttemptStarted> {
  const { ledger, access, record } = direct;
  const { client, entry } = access;
  const { version } = await client.sys.health({ signal: execution.signal });
  const { slot, ...way } = await slotOf(direct, version, execution);
  const { endpoints, token } = slot;
  let started = false;
  /** The rest of what the ledger knew is settled only where this activity comes to its end: it tells of it. */
  const told = async (outcome: 'done' | 'already', attempt: GenerationAttempt): Promise<DirectAttemptStarted> => {
    const answer = await shown(direct, version, attempt, execution);
    return { outcome, ...answer, findings: await settleGone(direct, attempt), ...way };
  };
  for (let tries = 1; ; tries += 1) {
    execution.throwIfCancelled();
    const present = await readAttempt(execution, slot);
    const mine = await entriesOf(direct);
    if (present.started) {
      if (!started && !isOurs(direct.kind, slot.key, mine, present)) throw foreignAttempt(entry.name, present);
      if (present.pgpFingerprint === slot.key.pgpFingerprint) {
        await noteAttempt(direct, mine, present);
        return await told(started ? 'done' : 'already', present);
      }
      // With the key of an earlier round: the holders are shown a new one, and the shares given to it are of no use.
      const { madeNothing } = await cancelOurs(execution, slot, direct.kind, present);
      if (madeNothing) for (const entry of mine) if (isOf(entry, present)) await ledger.settle(entry, undefined);
      continue;
    }
    const pending = newEntry(direct);
    await ledger.write(pending);
    await execution.throwIfGivenUp();
    started = true;
    try {
      const attempt = await endpoints.startAttempt(
        { pgpKey: slot.key.pgpPublicKey },
        { token, signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS },
      );
      await noteAttempt(direct, [pending], attempt);
      return await told('done', attempt);
    } catch (error) {
      if (!isRunbookError(error)) throw error;
      const own = await readOwn(execution, slot);
      if (own) {
        await noteAttempt(direct, [pending], own);
        return await told('done', own);
      }
      // Nobody gave a share to an attempt that nobody was told of.
      await ledger.remove(pending).catch(() => undefined);
      const fixed = error.outcomeKnown && !error.retryable && error.code !== 'BAD_REQUEST';
      if (fixed || tries >= MAX_STARTS) throw error;
      execution.progress(`${error.code} at ${record.cid}`);
    }
  }
}

/**
 * Frees the slot from our attempt, and settles what the ledger knows of it: only once the attempt was seen gone. Needs
 * neither the keys nor their host, which may be what was lost.
 */
export async function endForHolders(
  execution: Execution,
  direct: DirectEntries & { readonly access: ClusterAccess; readonly kind: GeneratedTokenKind },
  { fingerprint, nonces, ...why }: EndedAttempt,
): Promise<{ readonly outcome: DirectEnded; readonly observed: string; readonly findings: readonly Finding[] }> {
  const { ledger, access, kind } = direct;
  const cluster = access.entry.name;
  const { version } = await access.client.sys.health({ signal: execution.signal });
  const slot = {
    endpoints: endpointsOf(access, kind),
    cluster,
    token: await ceremonyToken(access, version, kind),
  };
  const present = await readAttempt(execution, slot);
  const every = await everyEntryOf(direct);
  const all = await entriesOf(direct);
  const wasShown =
    fingerprint !== undefined &&
    present.pgpFingerprint === fingerprint &&
    (kind === 'operation-token' || nonces.includes(present.nonce ?? ''));
  const there = present.started && (wasShown || isOurs(kind, undefined, all, present));
  let { madeNothing, outcome }: Cancelled = { madeNothing: false, outcome: 'already' };
  if (there) {
    try {
      ({ madeNothing, outcome } = await cancelOurs(execution, slot, kind, present));
    } catch (error) {
      if (!isRunbookError(error) || isForNextAttempt(execution, error)) throw error;
      return {
        outcome: 'not-done',
        observed: `our attempt may still be in the slot: ${error.code}`,
        findings: [notCancelled(cluster, present, error)],
      };
    }
  }
  const mine = all.filter(({ state }) => state === 'pending');
  // Where the ledger knows nothing at all it is not the one of the worker that started the attempt.
  const open = mine.length > 0 || every.length === 0;
  const mayExist = why.mayExist ?? (madeNothing || !open ? undefined : why.ifGone);
  const becomes = { state: 'orphan', at: new Date().toISOString() } as const;
  // What was changed since it was read is settled by who did that, as where the token was handed in.
  let isUnsettled = mine.length === 0;
  for (const entry of mine)
    if (await ledger.settle(entry, mayExist === undefined ? undefined : { ...entry, ...becomes })) isUnsettled = true;
  const gone = there ? 'our attempt was gone before it was cancelled' : 'no attempt of ours in the slot';
  return {
    outcome,
    observed: outcome === 'done' ? 'our attempt was cancelled' : gone,
    findings: mayExist === undefined || !isUnsettled ? [] : [orphanFinding(kind, direct.run.wid, cluster, mayExist)],
  };
}

interface Cancelled {
  readonly madeNothing: boolean;
  readonly outcome: 'done' | 'already';
}

/**
 * Cancels our attempt, and says whether it makes no token: a holder may just give its last share, or the last ones. One
 * that was gone before it was cancelled may have ended in one.
 */
async function cancelOurs(
  execution: Execution,
  slot: Pick<Slot, 'endpoints' | 'token' | 'cluster'>,
  kind: GeneratedTokenKind,
  seen: GenerationAttempt,
): Promise<Cancelled> {
  const lacksOne = seen.required > 1 && seen.progress === seen.required - 1;
  const isCertain = lacksOne && (await endDoubt(slot, kind, seen)) === 'certain';
  const outcome = await cancelSeen(execution, slot, seen);
  return { madeNothing: isCertain || (!lacksOne && outcome === 'done'), outcome };
}

/**
 * What an earlier epoch left, beside the attempt that is in the slot now: an attempt that is gone may have ended in a
 * token that nobody was told of, and one that nobody was told of got no share.
 */
async function settleGone(direct: DirectSlot, present: GenerationAttempt): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const entry of await entriesOf(direct)) {
    if (entry.state !== 'pending' || isOf(entry, present)) continue;
    if (entry.attempt === undefined) await direct.ledger.settle(entry, undefined);
    else if (await direct.ledger.settle(entry, { ...entry, state: 'orphan', at: new Date().toISOString() })) {
      const how = 'an attempt of this run was gone when the next one was started, and nobody saw how it ended';
      findings.push(orphanFinding(direct.kind, entry.wid, entry.cluster, how));
    }
  }
  return findings;
}

async function noteAttempt(
  direct: DirectSlot,
  mine: readonly LedgerEntry[],
  { nonce = '' }: GenerationAttempt,
): Promise<void> {
  const attempt = digestOf(nonce);
  const entry =
    mine.find((each) => each.attempt === attempt) ??
    mine.find((each) => each.state === 'pending' && each.attempt === undefined) ??
    newEntry(direct);
  if (entry.state === 'pending') await direct.ledger.write({ ...entry, attempt, at: new Date().toISOString() });
}

/** From version 2.0 holders may be let in by opening the calls to everybody, before or while they are asked. */
async function slotOf({ access, kind, key }: DirectSlot, version: string | undefined, { signal }: Execution) {
  const { token, closeAfterwards } = await ceremonyEntry(access, { kind, version, signal });
  const slot: Slot = {
    endpoints: endpointsOf(access, kind),
    cluster: access.entry.name,
    key,
    earlierKeys: new Set(),
    token,
  };
  if (majorVersion(version) < 2) return { slot };
  return { slot, breakGlass: { open: closeAfterwards !== undefined, close: closingInWords(access, kind) } };
}

async function shown(
  { access, kind, target, key, handInMs }: DirectSlot,
  version: string | undefined,
  { nonce, progress, required }: GenerationAttempt,
  { signal }: Execution,
): Promise<DirectAttempt> {
  const cluster = access.entry.name;
  const seenAt = Date.now();
  if (nonce === undefined) throw new RunbookError('RESPONSE_INVALID', `${cluster} tells no nonce of the attempt.`);
  return {
    kind,
    nonce,
    fingerprint: key.pgpFingerprint,
    progress,
    required,
    address: await activeNode(access, target.addresses[0] ?? '', signal),
    caSha256: target.caSha256,
    needsToken: majorVersion(version) >= 2,
    seenAt,
    handInMs,
  };
}

function newEntry({ deployment, record, kind, target, run, key }: DirectSlot): LedgerEntry {
  return {
    version: 1,
    id: randomUUID(),
    ...(kind === 'operation-token' ? {} : { kind }),
    deployment,
    cluster: target.cluster,
    clusterId: target.clusterId,
    ns: run.ns,
    wid: run.wid,
    rid: run.rid,
    cid: record.cid,
    key: key.pgpFingerprint,
    state: 'pending',
    at: new Date().toISOString(),
  };
}
