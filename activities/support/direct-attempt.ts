import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { GeneratedTokenKind, GenerationAttempt } from '../../src/client';
import type { DirectAttempt, DirectAttemptSeen, DirectAttemptStarted } from '../../src/contracts/activities';
import type { Finding } from '../../src/contracts/run-facts';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { InvitationTarget, KeyRecord, RunContext } from '../../src/secrets';
import type { ClusterAccess } from './clusters';
import { ceremonyToken, majorVersion } from './clusters';
import type { Execution } from './execution';
import { digestOf, orphanFinding } from './generation-record';
import type { AttemptKey, Slot } from './generation-slot';
import { cancelOwn, foreignAttempt, keyInWords, readAttempt, readOwn } from './generation-slot';
import { CHANGE_TIMEOUT_MS } from './read-act-confirm';
import type { LedgerEntry, TokenLedger } from './token-ledger';

/** Between two looks at an attempt to which people give their shares. */
const FOLLOW_POLL_MS = 250;
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
  const slot = await slotOf(direct, version);
  const { endpoints, token } = slot;
  let started = false;
  for (let tries = 1; ; tries += 1) {
    execution.throwIfCancelled();
    const present = await readAttempt(execution, slot);
    const mine = await entriesOf(direct);
    if (present.started) {
      if (!started && !isOurs(direct, mine, present)) throw foreignAttempt(entry.name, present);
      if (present.pgpFingerprint === slot.key.pgpFingerprint) {
        await noteAttempt(direct, mine, present);
        return { outcome: started ? 'done' : 'already', ...(await shown(direct, version, present, execution)) };
      }
      // With the key of an earlier round, which opens nothing any more: the shares given to it are of no use.
      await endpoints.cancelAttempt({ token, signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS });
      continue;
    }
    const pending = newEntry(direct);
    await ledger.write(pending);
    started = true;
    try {
      const attempt = await endpoints.startAttempt(
        { pgpKey: slot.key.pgpPublicKey },
        { token, signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS },
      );
      await noteAttempt(direct, [pending], attempt);
      return { outcome: 'done', ...(await shown(direct, version, attempt, execution)) };
    } catch (error) {
      if (!isRunbookError(error)) throw error;
      const own = await readOwn(execution, slot);
      if (own) {
        await noteAttempt(direct, [pending], own);
        return { outcome: 'done', ...(await shown(direct, version, own, execution)) };
      }
      // Nobody gave a share to an attempt that nobody was told of.
      await ledger.remove(pending).catch(() => undefined);
      const fixed = error.outcomeKnown && !error.retryable && error.code !== 'BAD_REQUEST';
      if (fixed || tries >= MAX_STARTS) throw error;
      execution.progress(`${error.code} at ${record.cid}`);
    }
  }
}

/** Looks at the slot until it shows something else than `known`. What may pass is waited out. */
export async function followAttempt(
  execution: Execution,
  access: ClusterAccess,
  known: Pick<DirectAttempt, 'kind' | 'nonce' | 'fingerprint' | 'progress' | 'address'> & {
    readonly earlier: readonly string[];
    readonly budgetMs: number;
  },
): Promise<DirectAttemptSeen> {
  const deadline = Date.now() + known.budgetMs;
  const { signal } = execution;
  for (;;) {
    execution.throwIfCancelled();
    try {
      const { version } = await access.client.sys.health({ signal });
      const token = await ceremonyToken(access, version, known.kind, signal);
      const attempt = await endpointsOf(access, known.kind).readAttempt({ token, signal });
      const seen = judge(known, attempt);
      execution.progress(inWords(attempt));
      if (seen !== 'unchanged' || Date.now() >= deadline) {
        const { nonce = '', progress, required } = attempt;
        const address = await activeNode(access, known.address, signal);
        return { seen, nonce, progress, required, address, observed: inWords(attempt) };
      }
    } catch (error) {
      if (!isRunbookError(error) || signal.aborted) throw error;
      execution.progress(`cannot be read now: ${error.code}`);
      if (Date.now() >= deadline) {
        const { nonce, progress, address } = known;
        return { seen: 'unchanged', nonce, progress, required: 0, address, observed: error.code };
      }
    }
    await delay(FOLLOW_POLL_MS, undefined, { signal });
  }
}

/** Frees the slot from our attempt, and settles what the ledger knows of it. */
export async function endForHolders(
  execution: Execution,
  direct: DirectSlot,
  why: { readonly mayExist?: string | undefined; readonly ifGone?: string | undefined },
): Promise<{ readonly outcome: 'done' | 'already'; readonly observed: string; readonly findings: readonly Finding[] }> {
  const { ledger, access, kind } = direct;
  const cluster = access.entry.name;
  const { version } = await access.client.sys.health({ signal: execution.signal });
  const slot = await slotOf(direct, version);
  const present = await readAttempt(execution, slot);
  const mine = (await entriesOf(direct)).filter(({ state }) => state === 'pending');
  const there = present.started && isOurs(direct, mine, present);
  if (there) await cancelOwn(slot);
  const mayExist = why.mayExist ?? (there || mine.length === 0 ? undefined : why.ifGone);
  const findings: Finding[] = [];
  for (const entry of mine) {
    if (mayExist === undefined) await ledger.remove(entry);
    else await ledger.write({ ...entry, state: 'orphan', at: new Date().toISOString() });
  }
  if (mayExist !== undefined) findings.push(orphanFinding(kind, cluster, mayExist));
  return {
    outcome: there ? 'done' : 'already',
    observed: there ? 'our attempt was cancelled' : 'no attempt of ours in the slot',
    findings,
  };
}

/** What the ledger knows of the tokens of this ceremony on this cluster. */
export async function entriesOf({
  ledger,
  run,
  record,
  target,
}: Pick<DirectSlot, 'ledger' | 'run' | 'record' | 'target'>): Promise<readonly LedgerEntry[]> {
  return (await ledger.open()).filter(
    (entry) =>
      entry.ns === run.ns &&
      entry.wid === run.wid &&
      entry.rid === run.rid &&
      entry.cluster === target.cluster &&
      (entry.kind ?? 'operation-token') === record.kind &&
      entry.cid === record.cid,
  );
}

/**
 * Ours by the key of this ceremony. A recipient of a root token may use his key by hand: there it is ours only where the
 * ledger knows the attempt.
 */
function isOurs({ kind, key }: DirectSlot, mine: readonly LedgerEntry[], present: GenerationAttempt): boolean {
  const { pgpFingerprint, nonce = '' } = present;
  if (pgpFingerprint === undefined) return false;
  if (kind === 'root-token') return mine.some(({ attempt }) => attempt === digestOf(nonce));
  return pgpFingerprint === key.pgpFingerprint || mine.some((entry) => entry.key === pgpFingerprint);
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

async function slotOf(direct: DirectSlot, version: string | undefined): Promise<Slot> {
  const { access, kind, key } = direct;
  return {
    endpoints: endpointsOf(access, kind),
    cluster: access.entry.name,
    key,
    earlierKeys: new Set(),
    token: await ceremonyToken(access, version, kind),
  };
}

function endpointsOf(access: ClusterAccess, kind: GeneratedTokenKind): Slot['endpoints'] {
  return kind === 'root-token' ? access.client.sys.generateRoot : access.client.dr.secondary.generateOperationToken;
}

async function shown(
  { access, kind, target, key }: DirectSlot,
  version: string | undefined,
  { nonce, progress, required }: GenerationAttempt,
  { signal }: Execution,
): Promise<DirectAttempt> {
  const cluster = access.entry.name;
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
  };
}

function judge(
  { kind, nonce, fingerprint, progress, earlier }: Parameters<typeof followAttempt>[2],
  attempt: GenerationAttempt,
): DirectAttemptSeen['seen'] {
  if (!attempt.started) return 'gone';
  if (attempt.pgpFingerprint !== fingerprint) return 'foreign';
  if (attempt.nonce !== nonce)
    return kind === 'operation-token' || earlier.includes(attempt.nonce ?? '') ? 'reappeared' : 'foreign';
  if (attempt.progress > progress) return 'progress';
  return attempt.progress < progress ? 'rejected' : 'unchanged';
}

function inWords({ started, pgpFingerprint, progress, required }: GenerationAttempt): string {
  return started ? `${progress} of ${required} key shares, ${keyInWords(pgpFingerprint)}` : 'no attempt in the slot';
}

async function activeNode(access: ClusterAccess, otherwise: string, signal: AbortSignal): Promise<string> {
  try {
    access.client.forgetActiveNode();
    return await access.client.activeNode({ signal });
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    return otherwise;
  }
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
