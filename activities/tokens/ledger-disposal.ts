import { WorkflowNotFoundError } from '@temporalio/client';
import type { Assessment, DisposalRoute, LedgerDisposal, LedgerToken } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { OperationTokenDisposalInput } from '../../src/contracts/runbook-inputs';
import type { Sealed } from '../../src/contracts/sealed';
import type { ActivityDependencies } from '../dependencies';
import type { Clusters } from '../clusters';
import { openEntries } from '../ceremony/alarms';
import { notDelivered } from '../ceremony/ceremony-settlement';
import type { Execution } from '../execution';
import { orphanFinding } from '../ceremony/generation-record';
import { observeDeployment, planDocument, siteFacts } from '../approvals/planning';
import { deleteToken } from './token-deletion';
import type { LedgerEntry, TokenLedger } from '../ceremony/token-ledger';
import { stateAfter } from '../ceremony/token-ledger';

const DESCRIBE_DEADLINE_MS = 5_000;

/** What the ledger of this worker holds of a deployment, and what can be done about it now. */
export async function assessDisposal(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  ledger: TokenLedger,
  input: OperationTokenDisposalInput,
  namespace: string,
  signal: AbortSignal,
): Promise<Assessment<DisposalRoute>> {
  const { deployment, cluster } = input;
  if (cluster !== undefined) clusters.of(deployment, cluster);
  const [entries, observations] = await Promise.all([
    entriesOf(dependencies, ledger, deployment, namespace, cluster),
    observeDeployment(clusters, deployment, signal),
  ]);
  const tokens: LedgerToken[] = [];
  for (const entry of entries) tokens.push(await tokenOf(dependencies, entry));
  const about = observations.filter((each) => tokens.some((token) => token.cluster === each.cluster));
  const deletable = tokens.filter(({ state }) => state === 'deletable');
  return {
    observations,
    site: siteFacts(dependencies, deployment),
    gates: {},
    preconditions: about.flatMap((each) =>
      deletable.some((token) => token.cluster === each.cluster) ? [deletableOn(each)] : [],
    ),
    plan: planDocument({
      runbook: 'operationTokenDisposal',
      input,
      clusters: about,
      operations: [],
      steps: tokens.length === 0 ? ['The ledger holds no token: nothing is done'] : tokens.map(inWords),
      choices: cluster === undefined ? {} : { cluster },
    }),
    route: { tokens },
  };
}

/** Not deleted now is no refusal: the token is named with when it can be, and the others are deleted. */
function deletableOn({ cluster, dr, error }: ClusterObservation): Precondition {
  const good = dr?.mode === 'secondary';
  return {
    name: 'deletes operation tokens',
    cluster,
    observed: dr ? dr.mode : (error ?? 'not read'),
    needed: 'a DR secondary that answers',
    verdict: good ? 'ok' : 'warn',
    ...(good ? {} : { next: `Its tokens stay sealed in the ledger until ${cluster} is a DR secondary again.` }),
  };
}

/**
 * Deletes the token of one entry. The entry is read anew: what is not in the ledger of this worker is not touched, and
 * neither is the token of a run that is still open.
 */
export async function disposeEntry(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  ledger: TokenLedger,
  { deployment, cluster, id }: { readonly deployment: string; readonly cluster: string; readonly id: string },
  execution: Execution,
): Promise<LedgerDisposal> {
  const entry = (await entriesOf(dependencies, ledger, deployment, execution.run.ns, cluster)).find(
    (each) => each.id === id,
  );
  if (!entry) return { cluster, state: 'deleted', text: 'it is not in the ledger any more', findings: [] };
  const { sealed, ns, wid, rid } = entry;
  const { state } = await tokenOf(dependencies, entry);
  if (state === 'in-use') {
    const next = `End ${wid} (run ${rid}) first; it deletes its tokens itself, or start this runbook again.`;
    return { cluster, state: 'kept', text: `its run ${wid} is open, or cannot be asked about now`, next, findings: [] };
  }
  if (state === 'undelivered') {
    const finding = notDelivered(entry);
    return {
      cluster,
      state: 'kept',
      text: finding.text,
      ...(finding.next && { next: finding.next }),
      findings: [finding],
    };
  }
  if (state === 'orphan' || sealed === undefined) return orphanDisposal(entry);
  const token = { source: 'sealed', cluster, value: sealed as Sealed<'operation-token'> } as const;
  // The binding comes from the ledger of this worker, and never from input.
  const sentBefore = entry.deletionSentAt !== undefined;
  const sent = { ...entry, deletionSentAt: entry.deletionSentAt ?? new Date().toISOString() };
  // Before the call: a deletion whose outcome could not be noted must not leave a dead token unproven for ever.
  if (!sentBefore) await ledger.write(sent);
  const disposal = await deleteToken(
    dependencies,
    clusters,
    deployment,
    token,
    { ns, wid, rid },
    execution,
    sentBefore,
  );
  // A cluster that is primary refuses every deletion: it has had none.
  const { deletionSentAt, ...unsent } = sent;
  await ledger.write({
    ...(disposal.state === 'kept' ? unsent : { ...unsent, deletionSentAt }),
    state: stateAfter(disposal),
    at: new Date().toISOString(),
    ...(disposal.state === 'deleted' ? { sealed: undefined } : {}),
  });
  if (disposal.state === 'deleted') return { ...disposal, findings: [] };
  const of = `The operation token of ${cluster} made by ${wid} (run ${rid})`;
  if (disposal.state === 'kept') {
    const next = `Start operationTokenDisposal when ${cluster} is a DR secondary again, as after the next switchover or a rejoin: the token lives again then.`;
    const text = `${of} could not be deleted: ${disposal.text}`;
    return { ...disposal, next, findings: [{ severity: 'warning', code: 'token-kept', text, next }] };
  }
  const next = `It stays sealed in the ledger. Find out why ${cluster} gives no clear answer, then start operationTokenDisposal again.`;
  const text = `${of} is not proven to be dead: ${disposal.text}`;
  return { ...disposal, next, findings: [{ severity: 'critical', code: 'token-not-proven-dead', text, next }] };
}

/** Nobody holds the token: no program can delete it, only people can end it. */
function orphanDisposal({ kind = 'operation-token', cluster, wid, rid, at }: LedgerEntry): LedgerDisposal {
  const finding = orphanFinding(kind, cluster, `shares were given by ${wid} (run ${rid}), noted ${at}`);
  return {
    cluster,
    state: 'unproven',
    text: `orphan: ${finding.text}`,
    ...(finding.next === undefined ? {} : { next: finding.next }),
    findings: [finding],
  };
}

async function entriesOf(
  dependencies: ActivityDependencies,
  ledger: TokenLedger,
  deployment: string,
  namespace: string,
  cluster: string | undefined,
): Promise<LedgerEntry[]> {
  const entries = await openEntries(dependencies, ledger);
  return entries.filter(
    (entry) =>
      entry.deployment === deployment &&
      // The runs of another namespace are not ours to judge.
      entry.ns === namespace &&
      (cluster === undefined || entry.cluster === cluster),
  );
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
