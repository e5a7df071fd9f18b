import { WorkflowNotFoundError } from '@temporalio/client';
import type { Assessment, TokenDisposal } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { Finding } from '../../src/contracts/run-facts';
import type { OperationTokenDisposalInput } from '../../src/contracts/runbook-inputs';
import type { Sealed } from '../../src/contracts/sealed';
import { orphanFinding } from '../../src/contracts/alarms';
import { observeDeployment, planDocument, siteFacts } from '../approvals/planning';
import { openEntries, notDelivered } from '../ceremony/alarms';
import type { LedgerEntry, TokenLedger } from '../ceremony/token-ledger';
import type { Clusters } from '../clusters';
import type { ActivityDependencies } from '../dependencies';
import type { Execution } from '../execution';
import { deleteToken } from './token-deletion';

/** A token of the record, as the plan names it: never the token, nor its sealed form. */
export interface LedgerToken {
  /** Id of the entry. */
  readonly id: string;
  readonly cluster: string;
  readonly kind: 'operation-token' | 'root-token';
  /** The run that made it. */
  readonly workflowId: string;
  readonly runId: string;
  /** ISO time of the last change of the entry. */
  readonly at: string;
  /**
   * `deletable`: sealed in the record. `orphan`: it may exist, and nobody holds it. `in-use`: its run is open, or cannot
   * be asked about. `undelivered`: a root token, encrypted to its recipient, that its run did not hand on.
   */
  readonly state: 'deletable' | 'orphan' | 'in-use' | 'undelivered';
}

export interface DisposalRoute {
  readonly tokens: readonly LedgerToken[];
}

/** What became of one token of the record. */
export interface LedgerDisposal extends TokenDisposal {
  /** Who can end it when, where it is not deleted. */
  readonly next?: string;
  readonly findings: readonly Finding[];
}

const DESCRIBE_DEADLINE_MS = 5_000;

/** What tokens the record of a deployment holds, and what can be done about them now. */
export async function assessDisposal(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  ledger: TokenLedger,
  input: OperationTokenDisposalInput,
  signal: AbortSignal,
): Promise<Assessment<DisposalRoute>> {
  const { deployment, cluster } = input;
  if (cluster !== undefined) clusters.of(deployment, cluster);
  const [entries, observations] = await Promise.all([
    entriesOf(dependencies, ledger, deployment, cluster),
    observeDeployment(clusters, deployment, signal),
  ]);
  const tokens: LedgerToken[] = [];
  for (const entry of entries) tokens.push(await tokenOf(dependencies, entry));
  const about = observations.filter((each) => tokens.some((token) => token.cluster === each.cluster));
  const deletable = tokens.filter(({ state }) => state === 'deletable');
  return {
    observations,
    site: await siteFacts(dependencies, deployment),
    gates: {},
    preconditions: about.flatMap((each) =>
      deletable.some((token) => token.cluster === each.cluster) ? [deletableOn(each)] : [],
    ),
    plan: planDocument({
      runbook: 'operationTokenDisposal',
      input,
      clusters: about,
      operations: [],
      steps: tokens.length === 0 ? ['The record holds no token: nothing is done'] : tokens.map(inWords),
      choices: cluster === undefined ? {} : { cluster },
    }),
    route: { tokens },
  };
}

/** Not deleted now is no refusal: the token is named with when it can be, and the others are deleted. */
function deletableOn({ cluster, dr, error }: ClusterObservation): Check {
  const good = dr?.mode === 'secondary';
  return {
    name: 'deletes operation tokens',
    cluster,
    observed: dr ? dr.mode : (error ?? 'not read'),
    needed: 'a DR secondary that answers',
    verdict: good ? 'ok' : 'warn',
    ...(good ? {} : { next: `Its tokens stay sealed in the record until ${cluster} is a DR secondary again.` }),
  };
}

/**
 * Deletes the token of one entry. The entry is read anew: what is not in the record is not touched, and neither is the
 * token of a run that is still open.
 */
export async function disposeEntry(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  ledger: TokenLedger,
  { deployment, cluster, id }: { readonly deployment: string; readonly cluster: string; readonly id: string },
  execution: Execution,
): Promise<LedgerDisposal> {
  const entries = await entriesOf(dependencies, ledger, deployment, cluster);
  const entry = entries.find((each) => each.id === id);
  if (!entry) return { cluster, state: 'deleted', text: 'it is not in the record any more', findings: [] };
  const { wid, rid } = entry;
  const { state } = await tokenOf(dependencies, entry);
  if (state === 'in-use') {
    const next = `End ${wid} (run ${rid}) first; it deletes its tokens itself, or start this runbook again.`;
    return { cluster, state: 'kept', text: `its run ${wid} is open, or cannot be asked about now`, next, findings: [] };
  }
  if (state === 'undelivered') return namedOnly('kept', cluster, notDelivered(entry));
  if (state === 'orphan' || entry.sealed === undefined) {
    const how = `shares were given by ${wid} (run ${rid}), noted ${entry.at}`;
    return namedOnly('unproven', cluster, orphanFinding(entry.kind ?? 'operation-token', cluster, how));
  }
  const disposal = await disposeSealed(dependencies, clusters, ledger, entry, execution);
  if (disposal.state === 'deleted') return { ...disposal, findings: [] };
  const of = `The operation token of ${cluster} made by ${wid} (run ${rid})`;
  const finding = notDeleted(disposal, of, `start operationTokenDisposal again`);
  return { ...disposal, next: finding.next, findings: [finding] };
}

/** Deletes what an entry holds sealed, and notes what became of it: it leaves the record only where it is proven dead. */
export async function disposeSealed(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  ledger: TokenLedger,
  entry: LedgerEntry,
  execution: Execution,
): Promise<TokenDisposal> {
  const { deployment, cluster, ns, wid, rid, sealed, deletionSentAt: sentAt, ...rest } = entry;
  const now = () => new Date().toISOString();
  // Before the call: a deletion whose outcome could not be noted must not leave a dead token unproven for ever.
  if (sentAt === undefined) await ledger.write({ ...entry, deletionSentAt: now() });
  const disposal = await deleteToken(
    dependencies,
    clusters,
    deployment,
    { source: 'sealed', cluster, value: sealed as Sealed<'operation-token'> },
    // The binding comes from the record, and never from input.
    { ns, wid, rid },
    execution,
    sentAt !== undefined,
  );
  if (disposal.state === 'deleted') await ledger.remove(entry);
  // A cluster that is primary refuses every deletion: it has had none.
  else if (disposal.state === 'kept')
    await ledger.write({ ...rest, deployment, cluster, ns, wid, rid, sealed, state: 'kept', at: now() });
  else await ledger.write({ ...entry, deletionSentAt: sentAt ?? now(), state: 'alive', at: now() });
  return disposal;
}

/** @param again what deletes it later */
export function notDeleted(
  { cluster, state, text }: TokenDisposal,
  of: string,
  again: string,
): Finding & { next: string } {
  return state === 'kept'
    ? {
        severity: 'warning',
        code: 'token-kept',
        text: `${of} could not be deleted: ${text}`,
        next: `It stays sealed in the record. When ${cluster} is a DR secondary again, as after the next switchover or a rejoin, ${again}: the token lives again then.`,
      }
    : {
        severity: 'critical',
        code: 'token-not-proven-dead',
        text: `${of} is not proven to be dead: ${text}`,
        next: `It stays sealed in the record. Find out why ${cluster} gives no clear answer, then ${again}; or delete it by hand with operation-token/delete.`,
      };
}

/** Nobody here can end the token: people can. */
function namedOnly(state: TokenDisposal['state'], cluster: string, finding: Finding): LedgerDisposal {
  const { text, next } = finding;
  return { cluster, state, text, ...(next !== undefined && { next }), findings: [finding] };
}

async function entriesOf(
  dependencies: ActivityDependencies,
  ledger: TokenLedger,
  deployment: string,
  cluster: string | undefined,
): Promise<LedgerEntry[]> {
  const entries = await openEntries(dependencies, ledger, deployment);
  return entries.filter((entry) => cluster === undefined || entry.cluster === cluster);
}

async function tokenOf(dependencies: ActivityDependencies, entry: LedgerEntry): Promise<LedgerToken> {
  const { id, cluster, kind = 'operation-token', wid, rid, at, sealed, encoded } = entry;
  const closed = await isClosed(dependencies, entry);
  return {
    id,
    cluster,
    kind,
    workflowId: wid,
    runId: rid,
    at,
    state:
      closed !== true
        ? 'in-use'
        : sealed !== undefined
          ? 'deletable'
          : encoded !== undefined
            ? 'undelivered'
            : 'orphan',
  };
}

/** Whether the run that made a token has ended; undefined where the server does not say. */
async function isClosed({ temporal }: ActivityDependencies, { wid, rid }: LedgerEntry): Promise<boolean | undefined> {
  try {
    const { status } = await temporal.withDeadline(Date.now() + DESCRIBE_DEADLINE_MS, () =>
      temporal.workflow.getHandle(wid, rid).describe(),
    );
    return status.name !== 'RUNNING';
  } catch (error) {
    // A run that the server does not know any more has ended too.
    return error instanceof WorkflowNotFoundError ? true : undefined;
  }
}

function inWords({ cluster, workflowId, runId, state, kind }: LedgerToken): string {
  const what = `the ${kind === 'root-token' ? 'root token' : 'operation token'} of ${cluster} made by ${workflowId} (run ${runId})`;
  switch (state) {
    case 'deletable':
      return `Delete ${what}, and prove that it is refused`;
    case 'orphan':
      return `Name ${what} as an orphan: nobody holds it, and only people can end it`;
    case 'undelivered':
      return `Name ${what}, encrypted to its recipient: its run did not hand it on`;
    case 'in-use':
      return `Leave ${what} alone: its run is open, or cannot be asked about`;
  }
}
