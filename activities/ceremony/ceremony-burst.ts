import type { GeneratedTokenKind, GenerationEndpoints } from '../../src/vault';
import { UNFIT_SHARES } from '../../src/contracts/ceremony';
import type { Envelope } from '../../src/contracts/ceremony';
import type { EnvelopeReceipt } from '../../src/contracts/receipts';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import type { Finding } from '../../src/contracts/run-facts';
import { satisfiesGroups } from '../../src/contracts/share-groups';
import { RunbookError } from '../../src/errors';
import { findDeployment } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import type { KeyRecord, RunContext } from '../../src/keys';
import { openShares } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';
import { ceremonyEntry } from './ceremony-access';
import { requireGroups } from './ceremony-roster';
import type { AttemptKey } from './burst';
import { runBurst } from './burst';
import type { ClusterAccess } from '../clusters';
import type { Execution } from '../execution';
import type { MadeFacts } from './generation-record';
import { GenerationRecord } from './generation-record';
import { ArrivedSignals } from '../approvals/arrived-signals';
import { personLookup } from '../approvals/person-lookup';
import { RejectedSets } from './share-sets';
import type { TokenLedger } from './token-ledger';

/** The keys of a ceremony of this very run. @throws RunbookError KEY_RECORD_MISSING */
export function ownRecord(
  { keyRecords }: ActivityDependencies,
  { cid, epoch }: { readonly cid: string; readonly epoch: number },
  run: RunContext,
): Promise<KeyRecord> {
  return keyRecords.read({ run, cid, epoch });
}

/** What the holders were asked for, and what is made of it. */
interface CeremonyBurst<K extends GeneratedTokenKind, T> {
  readonly kind: K;
  readonly deployment: string;
  readonly access: ClusterAccess;
  readonly clusterId: string;
  readonly record: KeyRecord;
  readonly envelopes: readonly Envelope[];
  readonly endpoints: GenerationEndpoints<K>;
  readonly key: AttemptKey;
  readonly mayBeThere: boolean;
  /** Texts of the alarms that the run knows. */
  readonly told: readonly string[] | undefined;
  readonly receive: (encoded: Secret<K>) => Promise<T>;
}

/**
 * Opens the envelopes and turns the shares into a token by one burst. The ledger knows of the token before it exists.
 *
 * @returns the token, the ledger's entry for the caller to settle, and what else there is to tell of it
 * @throws RunbookError SHARES_MISSING, also where the shares do not satisfy the groups of the inventory; those of the burst
 */
export async function burstOfCeremony<K extends GeneratedTokenKind, T>(
  dependencies: ActivityDependencies,
  ledger: TokenLedger,
  execution: Execution,
  request: CeremonyBurst<K, T>,
): Promise<{
  readonly token: T;
  readonly generation: GenerationRecord;
  readonly made: MadeFacts;
}> {
  const { kind, deployment, access, clusterId, record, envelopes, endpoints, key, mayBeThere, receive } = request;
  const { run, signal } = execution;
  const cluster = access.entry.name;
  const history = new ArrivedSignals(run);
  const person = personLookup(dependencies.inventory);
  const { shares, receipts } = await openShares(record, envelopes, person, (each) => history.sendersOfShare(each));
  if (shares.length < record.threshold) {
    throw new RunbookError('SHARES_MISSING', `Only ${shares.length} of ${record.threshold} key shares verify.`, {
      cluster,
      about: UNFIT_SHARES,
      observed: `${shares.length}${unfitInWords(receipts)}`,
      needed: `${record.threshold}`,
      next: 'Who is named gives his share again, or a further holder gives his.',
    });
  }
  const groups = findDeployment(dependencies.inventory, deployment).shareGroups;
  const holders = shares.map(({ holder }) => holder);
  requireGroups(groups, holders, record.threshold, cluster);
  const { keyRecords } = dependencies;
  const { destroyAfter } = await keyRecords.markFirstBurst(record, Date.now());
  const { version } = await access.client.sys.health({ signal });
  const { token, closeAfterwards } = await ceremonyEntry(access, { kind, version, signal });
  const { cid, epoch, threshold } = record;
  const subject = { kind, deployment, cluster, clusterId, run, cid, epoch, key: key.pgpFingerprint, threshold };
  const generation = await GenerationRecord.begin(ledger, subject, request.told);
  const result = await runBurst(execution, {
    kind,
    endpoints,
    cluster,
    key,
    earlierKeys: generation.earlierKeys,
    mayBeThere,
    // The recipient may be generating one by hand, with the very same key.
    ...(kind === 'root-token' && { isOwnNonce: (nonce: string) => generation.startedAttempt(nonce) }),
    shares,
    threshold: record.threshold,
    fits: groups.length === 0 ? undefined : (names) => satisfiesGroups(groups, names),
    token,
    receive,
    lookForActiveNode: () => access.client.forgetActiveNode(),
    notes: generation,
    rejected: await RejectedSets.read(keyRecords, record, cluster),
    usableUntil: destroyAfter * 1000,
  }).catch(async (error: unknown): Promise<never> => {
    if (!(await execution.mayBeGivenUp())) await generation.withoutToken().catch(() => undefined);
    throw error;
  });
  const { token: made, attempts, badShares } = result;
  const close = closeAfterwards === undefined ? {} : { closeAfterwards: [...closeAfterwards] };
  return { token: made, generation, made: { attempts, badShares: [...badShares], ...close } };
}

/** Some mistakes show only beside the shares of others, such as an odd length: whose share counts no more, and why. */
function unfitInWords(receipts: readonly EnvelopeReceipt[]): string {
  const unfit = receipts.filter(({ verdict }) => verdict !== 'accepted' && verdict !== 'superseded');
  return unfit.map(({ holder = 'somebody', verdict }) => `; ${holder}: ${ENVELOPE_VERDICTS[verdict]}`).join('');
}

/** What an activity tells beside the token that it made, or that an attempt before it made. */
export function toldOf(
  cluster: string,
  { attempts, badShares, closeAfterwards }: MadeFacts,
  alarms: readonly Finding[],
) {
  return {
    attempts,
    badShares,
    findings: [...alarms, ...badShareFindings(cluster, badShares)],
    ...(closeAfterwards && { closeAfterwards }),
  };
}

function badShareFindings(cluster: string, holders: readonly string[]): Finding[] {
  return holders.map((holder) => ({
    severity: 'warning',
    code: 'bad-share',
    text: `The key share of ${holder} is not one of ${cluster}'s: proven by sets that differ in it alone (unless holders whose shares worked altered theirs together).`,
    next: `${holder} looks for the right share before the next event.`,
  }));
}
