import { randomUUID } from 'node:crypto';
import type { RunbookActivities } from '../../src/contracts/activities';
import type { EnvelopeVerdict } from '../../src/contracts/ceremony';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import type { EnvelopeVerdictCode } from '../../src/contracts/receipts';
import type { Sealed } from '../../src/contracts/sealed';
import { isUndecodable } from '../../src/contracts/signals';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { InvitationTarget, KeyRecord } from '../../src/keys';
import { openProvidedToken, readOwnInvitation, sealValue } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';
import { readKind } from '../joining/onboarding-read';
import { ArrivedSignals } from '../approvals/arrived-signals';
import type { ArrivedSignal } from '../approvals/arrived-signals';
import { personLookup } from '../approvals/person-lookup';
import { ownRecord } from './ceremony-burst';
import { isOfRun } from './generation-record';
import { TokenLedger } from './token-ledger';
import type { ClusterAccess, Clusters } from '../clusters';
import { execute, executeChange } from '../execution';
import type { Execution } from '../execution';
import { awaitClusterId, openOperationToken } from '../tokens/operation-token';
import { awaitState } from '../read-act-confirm';

/** How long a sealed operation token can be opened. The token itself has no lifetime. */
const SEALED_SECONDS = 24 * 3600;
const LOOKUP_TIMEOUT_MS = 5_000;
/** So many refusals in a row, so far apart, are one. */
const REFUSALS = 3;
const REFUSED_PAUSE_MS = 500;
const ANSWER_BUDGET_MS = 30_000;
/** The check answers when it is through, which takes long on a large store. */
const LONGEST_CHECK_MS = 3_600_000;
const PLAIN_TOKEN = /(?<![A-Za-z0-9+/_-])(?:hv[sbr]|[sbr])\.[A-Za-z0-9_-]{16,}/;

type ProvidedTokenActivities = Pick<RunbookActivities, 'takeProvidedTokens' | 'probeProvidedToken'>;
type Taken = Awaited<ReturnType<RunbookActivities['takeProvidedTokens']>>['verdicts'][number];

/** Operation tokens that people generated themselves and gave to a run (protocol: "Provided token"). */
export function createProvidedTokenActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): ProvidedTokenActivities {
  const { signingKey } = dependencies;
  const ledger = new TokenLedger(dependencies.records);

  return {
    takeProvidedTokens: executeChange(async ({ deployment, ceremony, arrived }, execution) => {
      const { run } = execution;
      const record = await ownRecord(dependencies, ceremony, run);
      const { invitation } = await readOwnInvitation(record, signingKey);
      if (invitation.collects !== 'tokens')
        throw new RunbookError('DOCUMENT_INVALID', 'The people were not asked for operation tokens.');
      const asked = { dependencies, clusters, ledger, deployment, record, targets: invitation.targets };
      const verdicts: Taken[] = [];
      for (const signal of await new ArrivedSignals(run).all('share', arrived))
        verdicts.push(await takeOne(asked, signal, execution));
      return { verdicts };
    }),

    probeProvidedToken: execute(async ({ deployment, cluster, token }, execution) => {
      const { run, signal } = execution;
      const access = clusters.of(deployment, cluster);
      const clusterId = await awaitClusterId(access, execution, ANSWER_BUDGET_MS);
      const use = 'dr.operation-token.delete';
      const drOperationToken = await openOperationToken(dependencies, run, access, clusterId, token, use);
      const { reindexMs } = clusters.deployment(deployment).limits;
      let tries = 0;
      const probed = await awaitState(execution, {
        read: async () => {
          const { mode } = await readKind(access, 'dr', signal);
          if (mode !== 'secondary')
            throw new RunbookError('PRECONDITION_FAILED', `${cluster} takes no operation token now.`, {
              ...{ cluster, observed: mode, needed: 'a DR secondary' },
            });
          return probe(access, drOperationToken, { signal, timeoutMs: Math.min(LONGEST_CHECK_MS, reindexMs) });
        },
        // A node that restarts refuses living tokens too: only a refusal that stays counts.
        until: ({ state }) => state !== 'refused' || (tries += 1) === REFUSALS,
        pollMs: REFUSED_PAUSE_MS,
        budgetMs: ANSWER_BUDGET_MS,
        describe: ({ text }) => text,
        needed: `an answer of ${cluster}`,
        cluster,
      });
      if (probed.state === 'refused') {
        // Nobody may try to delete what is no operation token of this cluster: it would be called undead for ever.
        const entry = (await ledger.open(deployment)).find(
          ({ sealed }) => token.source === 'sealed' && sealed === token.value,
        );
        if (entry) await ledger.settle(entry, undefined);
      }
      return probed;
    }),
  };
}

/** What people were asked for, with the keys that open it. */
interface AskedTokens {
  readonly dependencies: ActivityDependencies;
  readonly clusters: Clusters;
  readonly ledger: TokenLedger;
  readonly deployment: string;
  readonly record: KeyRecord;
  readonly targets: readonly InvitationTarget[];
}

async function takeOne(
  { dependencies: { inventory, sealKeyring }, clusters, ledger, deployment, record, targets }: AskedTokens,
  signal: ArrivedSignal,
  execution: Execution,
): Promise<Taken> {
  const { run } = execution;
  const person = personLookup(inventory);
  const { arrival, eventId, content, at, principal } = signal;
  if (isUndecodable(content)) {
    const text = `the payload could not be read (encoding ${content.undecodable}); send JSON`;
    return { arrival, code: 'undecodable', text };
  }
  const { receipt, provided } = await openProvidedToken(record, content, { person, receivedAt: at, principal });
  const { holder: name, seq, envelopeDigest } = receipt;
  const verdict = (code: EnvelopeVerdictCode): EnvelopeVerdict => ({
    ...{ arrival, code, seq, text: ENVELOPE_VERDICTS[code] },
    holder: name === undefined ? undefined : { name, how: person(name)?.attestation ?? 'claimed' },
    digest: envelopeDigest === '' ? undefined : envelopeDigest,
  });
  if (receipt.verdict === 'plain-text-share')
    return { ...verdict(PLAIN_TOKEN.test(textOf(content)) ? 'plain-text-token' : 'plain-text-share'), eventId };
  if (provided === undefined) return verdict(receipt.verdict);
  const { cluster, token } = provided;
  const target = targets.find((each) => each.cluster === cluster);
  if (!target) return verdict('wrong-cluster');
  const { clusterId, uses } = target;
  const mine = (await ledger.open(deployment)).filter((entry) => isOfRun(entry, run) && entry.cluster === cluster);
  // An attempt of this activity before this one took it, and its answer was lost; or it came twice.
  const before = mine.find((entry) => entry.provided === envelopeDigest && entry.sealed !== undefined);
  const taken = { ...verdict('accepted'), cluster };
  if (before?.sealed !== undefined) return { ...taken, token: before.sealed as Sealed<'operation-token'> };
  if (await isOrdinary(othersOf(clusters, deployment, cluster), token, execution)) return verdict('ordinary-token');
  const spec = { kind: 'operation-token', cluster, clusterId, uses, expSeconds: SEALED_SECONDS } as const;
  const sealed = await sealValue(sealKeyring, run, spec, token);
  const { ns, wid, rid } = run;
  await ledger.write({
    ...({ version: 1, state: 'alive' } as const),
    ...{ id: randomUUID(), deployment, cluster, clusterId, ns, wid, rid, cid: record.cid, sealed },
    provided: envelopeDigest,
    at: new Date().toISOString(),
  });
  return { ...taken, token: sealed };
}

/** The other clusters of the DR set. */
function othersOf(clusters: Clusters, deployment: string, cluster: string): ClusterAccess[] {
  const { drSet } = clusters.of(deployment, cluster).entry;
  return clusters.all(deployment).filter(({ entry }) => entry.drSet === drSet && entry.name !== cluster);
}

/** The Merkle check is the one of the six operations that changes nothing (interface 4.1, facts 7). */
async function probe(
  { client, entry }: ClusterAccess,
  drOperationToken: Secret,
  options: { readonly signal: AbortSignal; readonly timeoutMs: number },
): ReturnType<RunbookActivities['probeProvidedToken']> {
  try {
    await client.dr.secondary.merkleCheck({ drOperationToken }, options);
    return { state: 'alive', text: `${entry.name} takes it` };
  } catch (error) {
    if (!isRunbookError(error)) throw error;
    const { code } = error;
    if (code === 'NOT_FOUND' || code === 'METHOD_NOT_ALLOWED')
      return { state: 'not-checkable', text: `${entry.name} has no Merkle check (${code})` };
    if (code === 'PERMISSION_DENIED' || code === 'BAD_REQUEST')
      return { state: 'refused', text: `${entry.name} refuses it (${code})` };
    throw error;
  }
}

/**
 * Whether a primary of the same set knows the token: then it is a root token, or that of somebody, and no operation token,
 * which only the cluster knows that made it. Where none answers it is not known.
 */
async function isOrdinary(
  others: readonly ClusterAccess[],
  token: Secret<'operation-token'>,
  { signal }: Execution,
): Promise<boolean> {
  const known = await Promise.all(
    others.map(async (access) => {
      try {
        if ((await readKind(access, 'dr', signal)).mode !== 'primary') return false;
        await access.client.sys.lookupSelf({ token, signal, timeoutMs: LOOKUP_TIMEOUT_MS });
        return true;
      } catch (error) {
        if (!isRunbookError(error) || signal.aborted) throw error;
        return false;
      }
    }),
  );
  return known.includes(true);
}

function textOf(content: unknown): string {
  try {
    return (typeof content === 'string' ? content : JSON.stringify(content)).slice(0, 64 * 1024);
  } catch {
    return '';
  }
}
