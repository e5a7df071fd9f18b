import { setTimeout as delay } from 'node:timers/promises';
import type { LossEvidence, OfKind } from '../../src/contracts/activities';
import type { WalIndex } from '../../src/contracts/observations';
import type { RunbookPlan } from '../../src/contracts/plan';
import { RunbookError, orElse } from '../../src/errors';
import type { SealKeyring } from '../../src/keys';
import { attest, isAttested } from '../../src/keys';
import type { RunContext } from '../../src/keys';
import type { ClusterAccess } from '../clusters';
import type { Execution } from '../execution';
import { currentExecution } from '../execution';
import { readStatus } from '../observe';
import type { ActivityDependencies } from '../dependencies';
import { QUOTA_HOLDS_MS, holdByQuota } from './quota';
import { whyNotHeld } from './releases';

/** The evidence that clients no longer write, right before a demotion. */
export interface HeldWrites {
  /** W: the last WAL index, read after the clients were stopped. */
  readonly wal: WalIndex;
  readonly how: string;
  /** Whether it stayed so until the demotion took effect. The exact time is unknown if the answer was lost. */
  readonly holds: (answered: boolean) => boolean;
  /** What stopped the clients: `quota`, `hook` or `attested`. */
  readonly by: string;
}

/**
 * Verifies right before a demotion that clients do not write. The quota is created again and refuses clients at every
 * node, or a hook or people vouch for it. Then the WAL index may rise only by the primary's own writes, which proves
 * that slow requests admitted earlier are over.
 *
 * @returns undefined if the plan quiesces nobody, or if loss is accepted and writes continue
 * @throws RunbookError PRECONDITION_FAILED if no loss is accepted and clients still write
 */
export async function verifyHeldWrites(
  { choices }: RunbookPlan,
  access: ClusterAccess,
  { kind }: OfKind,
): Promise<HeldWrites | undefined> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { name, deployment } = access.entry;
  const read = async () => (await readStatus(access, kind, signal)).lastWal;
  const by = choices['quiesce'];
  if (by !== 'quota' && by !== 'hook' && by !== 'attested') return undefined;
  const quota = by === 'quota' ? await holdByQuota(execution, access) : undefined;
  const { walStillMs, walStillEntries } = clusters.deployment(deployment).limits;
  // Read again: earlier writes, such as those during a login, do not count.
  const before = await read();
  await delay(walStillMs, undefined, { signal });
  const wal = await read();
  if (before === undefined || wal === undefined) return undefined;
  const rose = BigInt(wal) - BigInt(before);
  const seconds = `${walStillMs / 1000} s`;
  if (rose <= BigInt(walStillEntries)) {
    const byPeople = by === 'hook' ? 'the quiesce hook succeeded' : 'the approvers attested that no client writes';
    const how = `${quota?.observed ?? byPeople}, and the WAL index of ${name} then rose by ${rose} within ${seconds} (at most ${walStillEntries} allowed)`;
    return { wal, how, by, holds: (answered) => (quota ? performance.now() - quota.since < QUOTA_HOLDS_MS : answered) };
  }
  if (choices['acceptLoss'] === 'bounded') return undefined;
  throw new RunbookError('PRECONDITION_FAILED', `Clients still write to ${name}: it was not demoted.`, {
    cluster: name,
    observed: `its WAL index rose by ${rose} within ${seconds}`,
    needed: `at most ${walStillEntries} within ${seconds} (limits.walStillEntries): the writes of the service itself`,
    next: 'Find out which clients write and stop them, then retry. Or let the old primary continue to serve.',
  });
}

/** What a demotion proved, bound to its run and the two clusters. */
interface Demoted extends OfKind {
  readonly deployment: string;
  readonly from: string;
  readonly to: string;
  readonly wal: WalIndex;
  readonly at: number;
}

function marked(run: RunContext, { deployment, at, kind, from, to, wal }: Demoted) {
  const content = { ns: run.ns, wid: run.wid, rid: run.rid, kind, from, to, wal };
  return [{ deployment, kind: 'held-demotion', time: at }, content] as const;
}

/**
 * Evidence that no data is lost: clients were quiesced before W was read, the candidate had W before the demotion was
 * sent, and this run ordered no release until it took effect. It is marked by the worker, so that the promotion can
 * believe the history. A history that cannot be read proves nothing, and does not keep the outage from ending.
 *
 * @returns `notHeld`: for the result, why there is no such evidence
 */
export async function heldEvidence(
  { sealKeyring, run, signal }: Execution & ActivityDependencies,
  sides: Omit<Demoted, 'wal' | 'at'>,
  { wal, how, by }: HeldWrites,
): Promise<{ readonly mark?: LossEvidence; readonly notHeld?: string }> {
  const ifSilent = orElse(signal, ({ code }) => `the history of the run cannot be read (${code})`);
  const against = await whyNotHeld(by).catch(ifSilent);
  if (against !== undefined) return { notHeld: `; it is not proven that clients stayed held: ${against}` };
  const demoted = { ...sides, wal, at: Date.now() };
  const why = `${how}; ${sides.to} had reached that index before the demotion. Writes of the service itself after that, such as canaries, are not those of clients`;
  const mark = attest(sealKeyring, ...marked(run, demoted));
  return { mark: { loss: 'none', why, wal, at: demoted.at, attested: mark } };
}

/** @returns W, which the candidate must still have; undefined unless a worker marked it for this run and demotion */
export function believedEvidence(
  keyring: SealKeyring,
  run: RunContext,
  demoted: Omit<Demoted, 'wal' | 'at'>,
  { loss, wal, at, attested }: Readonly<Record<string, unknown>>,
): WalIndex | undefined {
  if (loss !== 'none' || typeof wal !== 'string' || typeof at !== 'number') return undefined;
  return isAttested(keyring, ...marked(run, { ...demoted, wal, at }), attested) ? wal : undefined;
}
