import { randomUUID } from 'node:crypto';
import type { EnvelopeVerdict, OperationTokenReference, Sealed } from '../../src/contracts/ceremony';
import type { EnvelopeVerdictCode } from '../../src/contracts/receipts';
import { RunbookError, isRunbookError, orElse } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { InvitationTarget, KeyRecord } from '../../src/keys';
import { openProvidedToken, readOwnInvitation } from '../../src/keys';
import { readKind } from '../observe';
import { ArrivedSignals } from '../approvals/arrived-signals';
import type { ArrivedSignal } from '../approvals/arrived-signals';
import { verdictOf } from './shares';
import type { Collecting } from './shares';
import { ledgerOf } from '../tokens/token-ledger';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { othersOfSet } from '../joining/enable-secondary';
import { awaitIdentity, openOperationToken, sealOperationToken } from '../tokens/operation-token';
import { awaitState } from '../read-act-confirm';

const LOOKUP_TIMEOUT_MS = 5_000;
/** Refusals in a row that count as a real refusal. */
const REFUSALS = 3;
const ANSWER_BUDGET_MS = 30_000;
/** The check answers when it is complete, which takes long on a large store. */
const LONGEST_CHECK_MS = 3_600_000;

type Taken = EnvelopeVerdict & { readonly cluster?: string; readonly token?: Sealed<'operation-token'> };

/**
 * Accepts operation tokens that people generated themselves and gave to a run (protocol: "Provided token"). Seals each
 * valid one for its cluster and uses, and notes it in the record before it reports it.
 */
export async function takeProvidedTokens({ deployment, ceremony, arrived }: Collecting) {
  const { run, keyRecords, signingKey } = currentExecution();
  const record = await keyRecords.read({ run, cid: ceremony.cid, epoch: ceremony.epoch });
  const { invitation } = await readOwnInvitation(record, signingKey);
  if (invitation.collects !== 'tokens')
    throw new RunbookError('DOCUMENT_INVALID', 'This run did not ask people for operation tokens.');
  const verdicts: Taken[] = [];
  for (const signal of await new ArrivedSignals().of('share', arrived))
    verdicts.push(await takeOne(deployment, invitation.targets, record, signal));
  return { verdicts };
}

/** Whether the cluster accepts a provided token now, tested by the one operation that only reads: the Merkle check. */
export async function probeProvidedToken(input: {
  readonly deployment: string;
  readonly cluster: string;
  readonly token: OperationTokenReference;
}): ReturnType<typeof probe> {
  const execution = currentExecution();
  const { signal, clusters } = execution;
  const { deployment, cluster, token } = input;
  const access = clusters.of(deployment, cluster);
  const { clusterId } = await awaitIdentity(access, ANSWER_BUDGET_MS);
  const use = 'dr.operation-token.delete';
  const drOperationToken = await openOperationToken(access, clusterId, token, use);
  const { reindexMs } = clusters.deployment(deployment).limits;
  let tries = 0;
  const probed = await awaitState(execution, {
    read: async () => {
      const { mode } = await readKind(access, 'dr', signal);
      if (mode !== 'secondary')
        throw new RunbookError('PRECONDITION_FAILED', `${cluster} accepts no operation token now.`, {
          ...{ cluster, observed: mode, needed: 'a DR secondary' },
        });
      return probe(access, drOperationToken, { signal, timeoutMs: Math.min(LONGEST_CHECK_MS, reindexMs) });
    },
    // A restarting node refuses valid tokens too: only a repeated refusal counts.
    until: ({ state }) => state !== 'refused' || (tries += 1) === REFUSALS,
    pollMs: execution.timing.refusalMs,
    budgetMs: ANSWER_BUDGET_MS,
    describe: ({ text }) => text,
    needed: `an answer from ${cluster}`,
    cluster,
  });
  if (probed.state === 'refused') {
    // Drop what is not an operation token of this cluster: a deletion could never be proven.
    const ledger = ledgerOf(execution);
    const entry = (await ledger.open(deployment)).find(
      ({ sealed }) => token.source === 'sealed' && sealed === token.value,
    );
    if (entry) await ledger.settle(entry, undefined);
    const issuer = await issuerOf(deployment, cluster, drOperationToken);
    if (issuer !== undefined)
      return { ...probed, text: `${probed.text}: it is a root token or an ordinary token of ${issuer}` };
  }
  return probed;
}

/** @param targets - what people were asked for @param record - has the keys that open the envelope */
async function takeOne(
  deployment: string,
  targets: readonly InvitationTarget[],
  record: KeyRecord,
  signal: ArrivedSignal,
): Promise<Taken> {
  const execution = currentExecution();
  const { run, inventory } = execution;
  const ledger = ledgerOf(execution);
  const { people } = inventory;
  const { receipt, provided } = await openProvidedToken(record, signal, people);
  const { envelopeDigest } = receipt;
  const verdict = (code: EnvelopeVerdictCode) => verdictOf(people, signal, { ...receipt, verdict: code });
  if (provided === undefined) return verdict(receipt.verdict);
  const { cluster, token } = provided;
  const target = targets.find((each) => each.cluster === cluster);
  if (!target) return verdict('wrong-cluster');
  const { clusterId, uses } = target;
  const mine = (await ledger.open(deployment)).filter(
    ({ wid, rid, ...entry }) => wid === run.wid && rid === run.rid && entry.cluster === cluster,
  );
  // An earlier attempt of this activity accepted it and its answer was lost, or it came twice.
  const before = mine.find((entry) => entry.provided === envelopeDigest && entry.sealed !== undefined);
  const taken = { ...verdict('accepted'), cluster };
  if (before?.sealed !== undefined) return { ...taken, token: before.sealed };
  const sealed = await sealOperationToken(target, uses, token);
  const { ns, wid, rid } = run;
  await ledger.write({
    ...({ version: 1, state: 'alive' } as const),
    ...{ id: randomUUID(), deployment, cluster, clusterId, ns, wid, rid, cid: record.cid, sealed },
    provided: envelopeDigest,
    at: new Date().toISOString(),
  });
  return { ...taken, token: sealed };
}

/**
 * Uses the Merkle check: the only one of the six operations that changes nothing (interface 4.1, facts 7).
 *
 * @returns `not-checkable`: this version of the service has no such check. A token that is `refused` is no longer kept
 */
async function probe(
  { client, entry }: ClusterAccess,
  drOperationToken: Secret,
  options: { readonly signal: AbortSignal; readonly timeoutMs: number },
) {
  try {
    await client.dr.secondary.merkleCheck({ drOperationToken }, options);
    return { state: 'alive' as const, text: `${entry.name} accepts it` };
  } catch (error) {
    if (!isRunbookError(error)) throw error;
    const { code } = error;
    if (code === 'NOT_FOUND' || code === 'METHOD_NOT_ALLOWED')
      return { state: 'not-checkable' as const, text: `${entry.name} has no Merkle check (${code})` };
    if (code === 'PERMISSION_DENIED' || code === 'BAD_REQUEST')
      return { state: 'refused' as const, text: `${entry.name} refuses it (${code})` };
    throw error;
  }
}

/**
 * The primary of the same set that knows a token, which is a root token or an ordinary token then. Called only for a
 * token that its own cluster refused: an operation token is shown to no other cluster, which could be the one that a
 * failover leaves.
 *
 * @returns undefined if no primary that answers knows it
 */
async function issuerOf(deployment: string, cluster: string, token: Secret): Promise<string | undefined> {
  const { clusters, signal } = currentExecution();
  const ifKnown = async (name: string): Promise<string | undefined> => {
    const access = clusters.of(deployment, name);
    if ((await readKind(access, 'dr', signal)).mode !== 'primary') return undefined;
    await access.client.sys.lookupSelf({ token, signal, timeoutMs: LOOKUP_TIMEOUT_MS });
    return name;
  };
  const others = othersOfSet(clusters.deployment(deployment), 'dr', cluster);
  const known = await Promise.all(others.map((name) => ifKnown(name).catch(orElse(signal, () => undefined))));
  return known.find((name) => name !== undefined);
}
