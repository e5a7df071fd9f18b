import type { Assessment, Authority, OnCluster, TokenDisposal } from '../../src/contracts/activities';
import { orphanFinding } from '../../src/contracts/run-status';
import type { OperationTokenReference, Sealed } from '../../src/contracts/ceremony';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { Finding } from '../../src/contracts/run-facts';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { attestedName, escapeUntrusted } from '../../src/contracts/words';
import { RunbookError } from '../../src/errors';
import { gateOf, judgeGate, verifiedApprovals, verifyBeginning } from '../approvals/authority';
import { gateFacts, observeDeployment, planDocument, siteFacts } from '../approvals/planning';
import type { LedgerEntry } from '../ceremony/token-ledger';
import {
  ledgerOf,
  notDelivered,
  openEntries,
  runOf,
  tellAlarm,
  isOfSameRun,
  isReserved,
} from '../ceremony/token-ledger';
import { asWarning, check } from '../checks/check';
import { currentExecution } from '../execution';
import { deleteToken } from './operation-token';

/** A token of the record, as the plan names it: never the token, nor its sealed form. */
export type LedgerToken = Awaited<ReturnType<typeof tokensOf>>[number];

type SealedEntry = LedgerEntry & { readonly sealed: Sealed<'operation-token'> };

function isSealed(entry: LedgerEntry): entry is SealedEntry {
  return entry.sealed !== undefined;
}

/** What became of one token of the record. */
export interface LedgerDisposal extends TokenDisposal {
  /** Who can end it when, where it is not deleted. */
  readonly next?: string;
  readonly findings: readonly Finding[];
}

/** Deletes generated operation tokens and proves that they are refused afterwards (interface 4.1: `operation-token/delete`). */
export async function deleteOperationTokens(input: {
  readonly deployment: string;
  readonly tokens: readonly OperationTokenReference[];
}): Promise<{ readonly disposals: readonly TokenDisposal[]; readonly findings: readonly Finding[] }> {
  const { deployment } = input;
  const execution = currentExecution();
  const entries = await ledgerOf(execution).open(deployment);
  const known = entries.filter(isSealed).filter(({ wid }) => wid === execution.run.wid);
  const asked = input.tokens.filter((token) => token.source === 'sealed');
  // Earlier runs may have left a token behind that could not be deleted then: it can be now. What this run itself keeps
  // for another one goes too: it was stopped before it could say so.
  const left = known.filter((entry) => {
    const isForAnother = isReserved(entry) && !isOfSameRun(entry, { ...execution.run, cluster: entry.cluster });
    return !isForAnother && !asked.some(({ value }) => value === entry.sealed);
  });
  const done = await Promise.all([
    ...asked.map(async (token) => {
      const entry = known.find(({ sealed }) => sealed === token.value) ?? beforeItWasMade(entries, token);
      const disposal = await (entry ? disposeSealed(entry) : deleteToken(deployment, token, execution.run));
      return { disposal, of: `The operation token of ${token.cluster}`, isOurs: true, isNoted: entry !== undefined };
    }),
    ...left.map(async (entry) => {
      const of = `The operation token of ${entry.cluster}, made by an earlier run,`;
      return { disposal: await disposeSealed(entry), of, isOurs: false, isNoted: true };
    }),
  ]);
  const again = `the next run on ${deployment} deletes it`;
  return {
    disposals: done.flatMap(({ disposal, isOurs }) => (isOurs || disposal.state === 'deleted' ? [disposal] : [])),
    findings: done
      .filter(({ disposal: { state }, isOurs }) => state === 'unproven' || (isOurs && state !== 'deleted'))
      .map(({ disposal, of, isNoted }) => (isNoted ? notDeleted(disposal, of, again) : lost(disposal, of))),
  };
}

/** The note of a last share, where the record could not be written any more once it had made this token of this run. */
function beforeItWasMade(
  entries: readonly LedgerEntry[],
  { cluster, entry: id, value: sealed }: Extract<OperationTokenReference, { source: 'sealed' }>,
): SealedEntry | undefined {
  const own = { ...currentExecution().run, cluster };
  const note = entries.find((each) => each.id === id && each.state === 'under-way' && isOfSameRun(each, own));
  return note && { ...note, state: 'alive', sealed };
}

/** What tokens the record of a deployment holds, and what can be done about them now. */
export async function assessOperationTokenDisposal({
  input,
}: {
  readonly input: InputOf<'operationTokenDisposal'>;
}): Promise<Assessment<{ readonly tokens: readonly LedgerToken[] }>> {
  const execution = currentExecution();
  const { clusters, inventory, signal } = execution;
  const { deployment, cluster, forget, provided } = input;
  for (const named of [cluster, provided]) if (named !== undefined) clusters.of(deployment, named);
  const [all, observations] = await Promise.all([
    tokensOf(deployment),
    observeDeployment(clusters, deployment, signal),
  ]);
  const tokens = all.filter(
    (token) =>
      (cluster === undefined || token.cluster === cluster) &&
      (forget === undefined || forget.includes(token.number)) &&
      provided === undefined,
  );
  const about = observations.filter(
    (each) => each.cluster === provided || tokens.some((token) => token.cluster === each.cluster),
  );
  const deletable = tokens.filter(({ state }) => state === 'deletable');
  return {
    observations,
    site: await siteFacts(execution, deployment),
    gates: forget
      ? { ceremony: gateFacts(inventory, clusters.deployment(deployment), 'ceremony', input.requestedBy) }
      : {},
    preconditions: forget
      ? forget.map((number) => isOrphan(number, tokens))
      : about
          .filter((each) => each.cluster === provided || deletable.some((token) => token.cluster === each.cluster))
          .map(deletesTokens),
    plan: planDocument({
      runbook: 'operationTokenDisposal',
      input,
      clusters: about,
      operations: (forget ? tokens : []).map(forgetting),
      warnings: forget
        ? ['Nobody is reminded of a forgotten token again: approve where it was ended, or where its risk is accepted.']
        : [],
      steps:
        provided !== undefined
          ? [
              `A person gives the operation token of ${provided} that they hold; it is deleted, and proven to be refused`,
            ]
          : tokens.length === 0
            ? ['The record holds no such token: nothing is done']
            : tokens.map(inWords(forget, cluster)),
      choices: {
        ...(cluster !== undefined && { cluster }),
        ...(forget && { forget: forget.join(', ') }),
        ...(provided !== undefined && { provided }),
      },
    }),
    // What is kept for the next run goes only where people name its cluster.
    route: { tokens: tokens.filter(({ state }) => state !== 'reserved' || cluster !== undefined) },
  };
}

function forgetting({ id, cluster, clusterId }: Pick<LedgerToken, 'id' | 'cluster' | 'clusterId'>) {
  return { operation: 'record.forget-token', on: { cluster, clusterId }, detail: id } as const;
}

/** What nobody holds can only be forgotten; what can be deleted is deleted. */
function isOrphan(number: number, tokens: readonly LedgerToken[]): Check {
  const token = tokens.find((each) => each.number === number);
  const next = 'Start with {"dryRun": true} and without "forget": the plan numbers the tokens of the record.';
  const observed = token?.state ?? 'no such entry';
  return check(`entry ${number}`, token?.cluster, observed === 'orphan', { observed, needed: 'an orphan', next });
}

/** Not deleted now is no refusal: the token is named with when it can be, and the others are deleted. */
function deletesTokens({ cluster, dr, error }: ClusterObservation): Check {
  const observed = dr ? dr.mode : (error ?? 'not read');
  const next = `Its tokens stay sealed in the record until ${cluster} is a DR secondary again.`;
  const needed = 'a DR secondary that answers';
  return asWarning(check('deletes operation tokens', cluster, dr?.mode === 'secondary', { observed, needed, next }));
}

/**
 * Deletes one token of the record, whichever run of this deployment made it, and proves that it is refused. The entry is
 * read anew: what is not in the record is not touched, and neither is the token of a run that is still open.
 */
export async function disposeLedgerToken(input: OnCluster & { readonly entry: string }): Promise<LedgerDisposal> {
  const { deployment, cluster } = input;
  const entry = await entryIn(input);
  if (!entry) return { cluster, state: 'deleted', text: 'it is not in the record any more', findings: [] };
  const { wid, rid } = entry;
  const state = await stateOf(entry);
  if (state === 'in-use') {
    const next = `End ${wid} (run ${rid}) first; it deletes its tokens itself, or start this runbook again.`;
    return { cluster, state: 'kept', text: `its run ${wid} is open, or cannot be asked about now`, next, findings: [] };
  }
  if (state === 'undelivered') return namedOnly('kept', cluster, notDelivered(entry));
  if (!isSealed(entry)) {
    const how = `shares were given by ${wid} (run ${rid}), noted ${entry.at}`;
    return namedOnly('unproven', cluster, orphanFinding(entry.kind ?? 'operation-token', cluster, how));
  }
  const disposal = await disposeSealed(entry);
  if (disposal.state === 'deleted') return { ...disposal, findings: [] };
  const of = `The operation token of ${cluster} made by ${wid} (run ${rid})`;
  const finding = notDeleted(disposal, of, `start operationTokenDisposal on ${deployment} again`);
  return { ...disposal, next: finding.next, findings: [finding] };
}

/** Takes an orphan off the record, as people approved. Everybody who was told of it is told who forgot it, and why. */
export async function forgetLedgerToken(
  input: OnCluster & { readonly entry: string; readonly authority: Authority },
): Promise<LedgerDisposal> {
  const { deployment, cluster, authority } = input;
  const execution = currentExecution();
  const entry = await entryIn(input);
  if (!entry)
    return { cluster, state: 'forgotten', text: 'it is not in the record any more', findings: [goneBefore(cluster)] };
  const doing = forgetting(entry);
  const { requestedBy = 'unknown', reason } = await verifyBeginning(input, doing);
  // Who is to be named is found out first: once it is off the record, nothing may keep that from being told.
  const gate = gateOf(doing.operation);
  const approvals = await verifiedApprovals(gate, authority.plan.digest, authority.approvals);
  const { approvedBy } = judgeGate(deployment, gate, requestedBy, approvals);
  const by = approvedBy.map((each) => escapeUntrusted(attestedName(each))).join(', ');
  const what = `${kindInWords(entry.kind)} of ${cluster} that nobody holds (attempt ${entry.mark ?? 'not known'}, made by ${entry.wid}, in the record since ${entry.at})`;
  const finding: Finding = {
    severity: 'warning',
    code: 'orphan-forgotten',
    text: `The ${what} was taken off the record: asked for by ${escapeUntrusted(requestedBy)}, approved by ${by}; reason: ${escapeUntrusted(reason)}.`,
    next: 'Where it was not ended it is alive: nothing and nobody is reminded of it again.',
  };
  // Changed since it was read: then it is what somebody works with.
  if ((await stateOf(entry)) !== 'orphan' || !(await ledgerOf(execution).settle(entry, undefined)))
    throw new RunbookError('PRECONDITION_FAILED', `A token of ${cluster} that somebody holds is not forgotten.`, {
      cluster,
      needed: 'an orphan',
      next: 'Start operationTokenDisposal without "forget": it deletes what is sealed in the record.',
    });
  tellAlarm(execution, entry, finding);
  return { cluster, state: 'forgotten', text: finding.text, findings: [finding] };
}

/** An attempt before this one may have taken it off, and may have told nobody. */
function goneBefore(cluster: string): Finding {
  return {
    severity: 'warning',
    code: 'orphan-forgotten',
    text: `A token of ${cluster} that was to be forgotten is not in the record any more: this run may have taken it off before, as its plan allows.`,
    next: 'The report of this run has the plan, which names the token and why, and who approved it.',
  };
}

/** Deletes what an entry holds sealed, and notes what became of it: it leaves the record only where it is proven dead. */
async function disposeSealed(entry: SealedEntry): Promise<TokenDisposal> {
  const ledger = ledgerOf(currentExecution());
  const { deployment, cluster, ns, wid, rid, sealed } = entry;
  let { deletionSentAt } = entry;
  const now = () => new Date().toISOString();
  const sentBefore = deletionSentAt !== undefined;
  // Before the call: a deletion whose outcome could not be noted must not leave a dead token unproven for ever.
  const beforeSending = async (): Promise<void> => {
    if (sentBefore) return;
    deletionSentAt = now();
    await ledger.write({ ...entry, deletionSentAt });
  };
  const token = { source: 'sealed' as const, cluster, value: sealed };
  // The binding comes from the record, and never from input.
  const disposal = await deleteToken(deployment, token, { ns, wid, rid }, { sentBefore, beforeSending });
  if (disposal.state === 'deleted') await ledger.remove(entry);
  // A cluster that is primary refuses every deletion: it has had none, but for one that was sent before.
  else if (disposal.state === 'kept') await ledger.write({ ...entry, state: 'kept', at: now() });
  else await ledger.write({ ...entry, deletionSentAt, state: 'alive', at: now() });
  return disposal;
}

/** @param again what deletes it later */
function notDeleted(
  { cluster, state, text, unanswered }: TokenDisposal,
  of: string,
  again: string,
): Finding & { next: string } {
  if (unanswered)
    return {
      severity: 'warning',
      code: 'token-not-proven-dead',
      text: `${of} could not be deleted, because ${cluster} does not answer. It is sealed in the record; nobody else holds it.`,
      next: `Nothing now. When ${cluster} answers as a DR secondary, ${again}.`,
    };
  return state === 'kept'
    ? {
        severity: 'info',
        code: 'token-kept',
        text: `${of} is kept, which is normal: ${text}`,
        next: `Nothing now. It stays sealed in the record. When ${cluster} is a DR secondary again, as after the next switchover or a rejoin, the token lives again, and ${again}.`,
      }
    : {
        severity: 'critical',
        code: 'token-not-proven-dead',
        text: `${of} is not proven to be dead: ${text}`,
        next: `It stays sealed in the record. Find out why ${cluster} gives no clear answer, then ${again}; or delete it by hand with operation-token/delete.`,
      };
}

/** Alive, and in no record: that could not be written when it was made. */
function lost({ cluster, text }: TokenDisposal, of: string): Finding {
  return {
    severity: 'critical',
    code: 'token-not-proven-dead',
    text: `${of} is not proven to be dead: ${text}. The record does not have it: no later run finds it, and nobody can read it.`,
    next: `Ask the service's vendor how to end it, or end all of them by disabling and re-enabling DR on ${cluster} when it is safe; look for its use in the audit log until then.`,
  };
}

/** Nobody here can end the token: people can. */
function namedOnly(state: TokenDisposal['state'], cluster: string, finding: Finding): LedgerDisposal {
  const { text, next } = finding;
  return { cluster, state, text, ...(next !== undefined && { next }), findings: [finding] };
}

async function entryIn({ deployment, cluster, entry: id }: OnCluster & { readonly entry: string }) {
  const entries = await openEntries(currentExecution(), deployment);
  return entries.find((each) => each.cluster === cluster && each.id === id);
}

/** Numbered by age, from 1, so that a number says the same in the next plan as long as nothing older goes. */
async function tokensOf(deployment: string) {
  const entries = await openEntries(currentExecution(), deployment);
  const sorted = entries.toSorted((one, other) => one.at.localeCompare(other.at));
  return Promise.all(
    sorted.map(async (entry, index) => {
      const { id, cluster, clusterId, kind = 'operation-token', wid: workflowId, rid: runId, at } = entry;
      return { number: index + 1, id, cluster, clusterId, kind, workflowId, runId, at, state: await stateOf(entry) };
    }),
  );
}

/**
 * `deletable`: sealed in the record. `orphan`: it may exist, and nobody holds it. `in-use`: its run is open, or cannot
 * be asked about. `reserved`: kept for the next run. `undelivered`: encrypted to its recipient, and not handed on.
 */
async function stateOf(entry: LedgerEntry) {
  const run = await runOf(currentExecution(), entry).catch(() => 'open');
  if (run === 'open') return 'in-use' as const;
  if (entry.sealed !== undefined) return isReserved(entry) ? ('reserved' as const) : ('deletable' as const);
  return entry.encoded === undefined ? ('orphan' as const) : ('undelivered' as const);
}

function kindInWords(kind: LedgerEntry['kind']): string {
  return kind === 'root-token' ? 'root token' : 'operation token';
}

const inWords = (forget: readonly number[] | undefined, named: string | undefined) => (token: LedgerToken) => {
  const { number, cluster, workflowId, runId, at, state, kind } = token;
  const what = `the ${kindInWords(kind)} of ${cluster} made by ${workflowId} (run ${runId}), entry ${number} since ${at}`;
  if (forget) return `Forget ${what}: it leaves the record, and stays alive where nobody ended it`;
  switch (state) {
    case 'deletable':
      return `Delete ${what}, and prove that it is refused`;
    case 'reserved':
      return named === undefined
        ? `Leave ${what} alone: it is kept for the next run. To delete it all the same, start with {"cluster": "${cluster}"}`
        : `Delete ${what}, which is kept for the next run, and prove that it is refused`;
    case 'orphan':
      return `Name ${what} as an orphan: nobody holds it, and only people can end it`;
    case 'undelivered':
      return `Name ${what}, encrypted to its recipient: its run did not hand it on`;
    case 'in-use':
      return `Leave ${what} alone: its run is open, or cannot be asked about`;
  }
};
