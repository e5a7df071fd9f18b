import type { GenerationAttempt } from '../../src/vault';
import type { BurstInLedger } from '../../src/contracts/activities';
import type { Finding } from '../../src/contracts/run-facts';
import type { RunbookError } from '../../src/errors';
import { isRunbookError } from '../../src/errors';
import { ceremonyToken, endpointsOf } from './ceremony-access';
import type { Clusters } from '../clusters';
import { cancelSeen, isForNextAttempt, notCancelled } from './cancel-attempt';
import type { Execution } from '../execution';
import { alarmOf, digestOf, isOfRun, orphanedByDeath, untold } from './generation-record';
import { endDoubt } from './give-share';
import type { LedgerEntry, TokenLedger } from './token-ledger';

/** The ceremony whose run has come to its end. */
interface EndedCeremony {
  readonly deployment: string;
  readonly cid: string;
  /** Texts of the alarms that the run knows. */
  readonly told: readonly string[];
  /** Root tokens, encrypted to their recipient, that the run hands on. */
  readonly inHand: readonly string[];
}

export interface SettledCeremony {
  readonly findings: readonly Finding[];
  /** Bursts of which this ledger has an entry. */
  readonly bursts?: readonly BurstInLedger[];
}

/**
 * What a ceremony leaves in the ledger, and in the slots, when its run has come to its end: tokens that may exist and that
 * the run does not know of yet, because the burst was cancelled or its worker died and no other took its place; and
 * attempts of such bursts, which nobody would end. Needs neither the keys nor their host.
 *
 * @throws RunbookError PRECONDITION_FAILED where the ledger cannot be read
 */
export async function settleCeremony(
  ledger: TokenLedger,
  clusters: Clusters,
  execution: Execution,
  { deployment, cid, told, inHand }: EndedCeremony,
): Promise<SettledCeremony> {
  const { run } = execution;
  const mine = (await ledger.all(deployment)).filter((entry) => isOfRun(entry, run) && entry.cid === cid);
  const findings: Finding[] = untold(mine, told).map(alarmOf);
  const tell = (finding: Finding): void => {
    if (!told.includes(finding.text)) findings.push(finding);
  };
  let unwritten: unknown;
  const becomes = async (entry: LedgerEntry, next: LedgerEntry | undefined): Promise<boolean> =>
    ledger.settle(entry, next).catch((error: unknown) => {
      unwritten = error;
      return true;
    });
  for (const entry of mine) {
    if (entry.state === 'handed-over') {
      // What the run says spares its words alone: the copy stays until the recorded result of the run has it.
      if (!inHand.some((each) => each === entry.encoded)) tell(notDelivered(entry));
      continue;
    }
    if (entry.state !== 'begun' && !isInDoubt(entry)) continue;
    const { madeNothing, notEnded } = await endAttempt(clusters, execution, entry, mine);
    if (notEnded) tell(notEnded);
    if (entry.state === 'begun' || madeNothing) {
      if (!notEnded) await becomes(entry, undefined);
      continue;
    }
    const orphan = orphanedByDeath(entry);
    // Who was thought dead may be slow: it goes on with its entry, and tells for itself.
    if (await becomes(entry, orphan)) tell(alarmOf(orphan));
  }
  if (unwritten !== undefined) findings.push(notSettled(unwritten, 'warning'));
  const bursts = mine.flatMap(({ cluster, epoch }) => (epoch === undefined ? [] : [{ cluster, epoch }]));
  return { findings, ...(bursts.length > 0 && { bursts }) };
}

/** Of a burst whose last share was sent. */
function isInDoubt({ state, mark }: LedgerEntry): boolean {
  return state === 'pending' && mark !== undefined;
}

interface Ended {
  /** It is certain that the attempt of the entry made no token, and that a share under way makes none. */
  readonly madeNothing: boolean;
  /** An attempt of ours was not seen to be gone. */
  readonly notEnded?: Finding;
}

/** Cancels the attempt of a burst that did not do so itself. Another's is left alone. */
async function endAttempt(
  clusters: Clusters,
  execution: Execution,
  entry: LedgerEntry,
  mine: readonly LedgerEntry[],
): Promise<Ended> {
  const { deployment, cluster, kind = 'operation-token', key, attempt } = entry;
  let present: GenerationAttempt | undefined;
  let madeNothing = false;
  try {
    const access = clusters.of(deployment, cluster);
    const { version } = await access.client.sys.health({ signal: execution.signal });
    const token = await ceremonyToken(access, version, kind, execution.signal);
    const slot = { endpoints: endpointsOf(access, kind), cluster, token };
    present = await slot.endpoints.readAttempt({ token, signal: execution.signal });
    const { started, nonce, pgpFingerprint } = present;
    const isOfEntry = started && nonce !== undefined && attempt === digestOf(nonce);
    if (isOfEntry && entry.state === 'pending') madeNothing = (await endDoubt(slot, kind, present)) === 'certain';
    const isOfKey = kind === 'operation-token' && pgpFingerprint !== undefined && pgpFingerprint === key;
    const now = nonce === undefined ? undefined : digestOf(nonce);
    // Its last share was sent: whether that made a token is found out when its own entry is judged, before it is cancelled.
    const isAnothers = mine.some((each) => each.id !== entry.id && isInDoubt(each) && each.attempt === now);
    if (isOfEntry || (started && isOfKey && !isAnothers)) await cancelSeen(execution, slot, present);
    return { madeNothing };
  } catch (error) {
    if (!isRunbookError(error) || isForNextAttempt(execution, error)) throw error;
    if (present) return { madeNothing, notEnded: notCancelled(cluster, present, error) };
    // What is no DR secondary any more has no such attempt.
    if (entry.state === 'begun' && kind === 'operation-token' && error.code === 'BAD_REQUEST') return { madeNothing };
    // Of one whose last share was sent the alarm says more.
    return entry.state === 'begun' ? { madeNothing, notEnded: notLookedAt(entry, error) } : { madeNothing };
  }
}

/** A ledger that cannot be read keeps no keys alive, and says nothing of tokens. */
export function notSettled(error: unknown, severity: Finding['severity']): Finding {
  const why = isRunbookError(error) ? (error.observed ?? error.code) : 'a defect of this program';
  return {
    severity,
    code: 'ledger-not-settled',
    text: `The token ledger of this worker could not be settled at the end of the ceremony (${why}).${
      severity === 'critical' ? ' Whether a token exists that nobody holds is not known: key shares were given.' : ''
    }`,
    next: "Put the worker's ledger directory in order, then start operationTokenDisposal: it names what is left there.",
  };
}

/** Nobody here can read it; whoever has the file can give it to the one who can. */
export function notDelivered({ id, cluster, wid }: LedgerEntry): Finding {
  return {
    severity: 'critical',
    code: 'orphan-root-token',
    text: `A root token of ${cluster} exists, made by ${wid} and encrypted to its recipient, that its run did not hand on (entry ${id} of the worker's ledger).`,
    next: `Who runs the worker gives the recipient the field \`encoded\` of ${id}.json in its ledger directory: he decrypts it, and revokes the token where it is not needed. A root token has no lifetime. Otherwise go through \`auth/token/accessors\` of ${cluster}, and revoke by accessor each token with policy root whose creation time is that of this run.`,
  };
}

function notLookedAt({ cluster, mark }: LedgerEntry, { code }: RunbookError): Finding {
  const which = mark === undefined ? 'A generation attempt' : `The generation attempt ${mark}`;
  return {
    severity: 'warning',
    code: 'attempt-not-cancelled',
    text: `${which} of this run may still be in the slot of ${cluster}: it could not be read (${code}).`,
    next: `Once ${cluster} answers: \`vault operator generate-root -status\` (for an operation token with \`-dr-token\`), and cancel it with \`-cancel\` where it is that of this run.`,
  };
}
