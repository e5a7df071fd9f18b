import type { Envelope } from '../../../src/contracts/ceremony';
import { plainShareHolder, plainShareReference, plainShareStep } from '../../../src/contracts/plain-shares';
import type { Attestation } from '../../../src/contracts/run-facts';
import { isUndecodable } from '../../../src/contracts/signals';
import { RunbookError, isRunbookError } from '../../../src/errors';
import { findDeployment } from '../../../src/inventory';
import type { Inventory } from '../../../src/inventory';
import type { Secret } from '../../../src/secret';
import { evaluateGate, openShares, parseShare, placeOf, verifyDecision } from '../../../src/secrets';
import type { CountedApproval, KeyRecord, OpenedShare, RunContext } from '../../../src/secrets';
import { ArrivedSignals } from '../approvals/arrived-signals';
import { personLookup } from '../approvals/people';

/** People who must accept a share that arrived in plain text. */
const NEEDED = 2;
const TOKEN = /[A-Za-z0-9+/]{22,66}={0,2}/g;
const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi;
const MAX_DEPTH = 6;

/** Envelopes as they travel to an activity, told from references to shares in plain text. */
export function splitEnvelopes(envelopes: readonly Envelope[]): {
  readonly sealed: readonly Envelope[];
  readonly plain: readonly number[];
} {
  return {
    sealed: envelopes.filter((each) => plainShareReference(each) === undefined),
    plain: envelopes.flatMap((each) => plainShareReference(each)?.plainShare ?? []),
  };
}

/**
 * The shares that count for a burst: out of the envelopes, and those in plain text that two approvers accepted, which are
 * read where they arrived. Of two for the same place in the key the one in an envelope counts.
 *
 * @throws RunbookError NOT_APPROVED where a share in plain text is named that was not accepted, and the others do not suffice
 */
export async function sharesInHand(
  inventory: Inventory,
  { deployment, run, record }: { readonly deployment: string; readonly run: RunContext; readonly record: KeyRecord },
  envelopes: readonly Envelope[],
): Promise<readonly OpenedShare[]> {
  const { sealed, plain } = splitEnvelopes(envelopes);
  const history = new ArrivedSignals(run);
  const { shares } = await openShares(record, sealed, personLookup(inventory), (each) => history.sendersOfShare(each));
  if (plain.length === 0) return shares;
  const all = [...shares];
  let notAccepted: RunbookError | undefined;
  for (const arrival of plain) {
    try {
      await requireAcceptance(inventory, deployment, run, arrival);
    } catch (error) {
      if (!isRunbookError(error, 'NOT_APPROVED')) throw error;
      notAccepted ??= error;
      continue;
    }
    const [share] = await plainShares(history, [arrival]);
    if (share === undefined) throw refused('the signal that it names holds no key share');
    if (all.some((each) => placeOf(each.share, record.threshold) === placeOf(share, record.threshold))) continue;
    all.push({ holder: plainShareHolder(arrival), seq: 0, envelopeDigest: '', share });
  }
  if (notAccepted && all.length < record.threshold) throw notAccepted;
  return all;
}

/** The key shares that signals hold in plain text; one that holds none, or several that differ, gives none. */
export async function plainShares(
  history: ArrivedSignals,
  arrivals: readonly number[],
): Promise<readonly Secret<'key-share'>[]> {
  const signals = await history.all('share', arrivals);
  return signals.flatMap(({ content }) => shareIn(content) ?? []);
}

/** The one key share that can be read out of anything. */
export function shareIn(content: unknown): Secret<'key-share'> | undefined {
  const found = new Map<string, Secret<'key-share'>>();
  const search = (part: unknown, depth: number): void => {
    if (depth > MAX_DEPTH) return;
    if (typeof part === 'string') {
      for (const [token] of part.replace(UUID, ' ').matchAll(TOKEN)) {
        const share = tolerant(token);
        if (share) found.set(share.reveal(), share);
      }
    } else if (typeof part === 'object' && part !== null) {
      Object.values(part).forEach((member) => search(member, depth + 1));
    }
  };
  if (!isUndecodable(content)) search(content, 0);
  const [only, ...others] = found.values();
  return others.length === 0 ? only : undefined;
}

function tolerant(token: string): Secret<'key-share'> | undefined {
  try {
    return parseShare(token);
  } catch {
    return undefined;
  }
}

/**
 * Why a person may not accept a share in plain text; undefined where he may. Never on a name that anybody may use.
 *
 * @param requesters - who asked for the failover
 */
export function mayNotAccept(
  inventory: Inventory,
  deployment: string,
  { name, how }: { readonly name: string; readonly how: Attestation },
  requesters: readonly string[],
): string | undefined {
  if (how === 'claimed') return `"use-share" needs a person who signs; ${name} is only claimed`;
  const { groups, excludeRequester } = findDeployment(inventory, deployment).gates.promote;
  if (excludeRequester && requesters.includes(name))
    return `"use-share" is not for ${name}, who asked for the failover`;
  const belongs = inventory.people.get(name)?.groups.some((group) => groups.includes(group)) ?? false;
  return belongs ? undefined : `"use-share" is for the approvers of gate promote (${groups.join(', ')})`;
}

/** What people accepted of one share, at one asking. */
interface Acceptance {
  readonly parkingNo: number;
  readonly satisfied: boolean;
  /** Who is still missing, in words for people. */
  readonly missing: readonly string[];
}

/**
 * Judges who accepted one share by the whole policy of gate promote, two people at least. Only answers to the same
 * question count together. The run asks with it who is still missing, and the activity that uses the share whether to.
 *
 * @param upTo - the number of the last decision that counts
 */
export async function acceptancesOf(
  inventory: Inventory,
  deployment: string,
  run: RunContext,
  history: ArrivedSignals,
  asked: { readonly step: string; readonly upTo?: number },
): Promise<readonly Acceptance[]> {
  const requesters = await history.failoverRequesters();
  const accepted = new Map<number, CountedApproval[]>();
  for (const { content, principal, arrival } of await history.every('decide')) {
    if (arrival > (asked.upTo ?? Infinity)) break;
    try {
      const decision = await verifyDecision(content, { run, person: personLookup(inventory), principal });
      const { action, step, parkingNo, name } = decision;
      if (action !== 'use-share' || step !== asked.step) continue;
      if (mayNotAccept(inventory, deployment, decision, requesters) !== undefined) continue;
      const { groups = [] } = inventory.people.get(name) ?? {};
      accepted.set(parkingNo, [...(accepted.get(parkingNo) ?? []), { name, groups, verdict: 'approve' }]);
    } catch (error) {
      if (!isRunbookError(error)) throw error;
    }
  }
  const { promote } = findDeployment(inventory, deployment).gates;
  const policy = { ...promote, approvals: Math.max(NEEDED, promote.approvals) };
  return [...accepted].map(([parkingNo, approvals]) => ({
    parkingNo,
    ...evaluateGate(policy, undefined, approvals),
  }));
}

/** Reads for itself that this very share was accepted, in a failover, by people who satisfy the policy. */
async function requireAcceptance(
  inventory: Inventory,
  deployment: string,
  run: RunContext,
  arrival: number,
): Promise<void> {
  const history = new ArrivedSignals(run);
  if (!(await history.isFailover())) throw refused('only a failover may use a key share in plain text');
  const judged = await acceptancesOf(inventory, deployment, run, history, { step: plainShareStep(arrival) });
  if (judged.some(({ satisfied }) => satisfied)) return;
  const [best] = [...judged].sort((one, other) => one.missing.length - other.missing.length);
  throw refused(`gate promote misses ${best?.missing.join('; ') ?? 'everybody'}`);
}

function refused(why: string): RunbookError {
  return new RunbookError('NOT_APPROVED', `A key share in plain text is not used: ${why}.`, {
    observed: why,
    needed: 'at least two people who satisfy gate promote and accepted this very share, in a run of drFailover',
    next: 'The holder gives his share with `runbook share`.',
  });
}
