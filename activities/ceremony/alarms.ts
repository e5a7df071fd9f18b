import { randomUUID } from 'node:crypto';
import { WorkflowNotFoundError } from '@temporalio/client';
import { recordWorkflowId } from '../../src/contracts/record';
import { orphanFinding } from '../../src/contracts/alarms';
import type { Finding } from '../../src/contracts/run-facts';
import type { RunContext } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';
import { tellNow } from '../notifications/notifications';
import type { LedgerEntry } from './token-ledger';
import { TokenLedger } from './token-ledger';

const DEADLINE_MS = 5_000;

/** What telling needs. */
type Tellers = Pick<ActivityDependencies, 'inventory' | 'log'>;

type AlarmSubject = RunContext & { readonly id: string; readonly deployment: string; readonly cluster?: string };

/** The tokens of the records. Each orphan that is noted is told at once, whatever the run knows or says. */
export function ledgerOf(dependencies: Tellers & Pick<ActivityDependencies, 'records'>): TokenLedger {
  return new TokenLedger(dependencies.records, (entry) => tellAlarm(dependencies, entry, alarmOf(entry)));
}

/** In the log before it returns, and to the targets of the inventory that want critical findings, which is not waited for. */
export function tellAlarm(
  { inventory, log }: Tellers,
  about: AlarmSubject,
  { severity, code, text, next = '' }: Finding,
): void {
  const { id, deployment, cluster, ns, wid, rid } = about;
  log.error({ deployment, cluster, workflowId: wid, runId: rid, code }, `${text} ${next}`);
  const notification = {
    ...({ event: 'critical-finding', severity, runbook: 'operationTokenDisposal' } as const),
    ...{ number: 1, subject: `finding:${code}`, finding: code, words: text, at: Date.now() },
  };
  tellNow({ inventory, log }, deployment, notification, { ns, wid, rid }, { id }).catch((error: unknown) => {
    const why = error instanceof Error ? error.name : 'unknown';
    log.warn({ deployment, workflowId: wid, why }, 'nobody but this log was told of the alarm');
  });
}

/** As {@link tellAlarm}, of the record itself. */
export function tellRecordAlarm(tellers: Tellers, ns: string, deployment: string, finding: Finding): void {
  tellAlarm(tellers, { ns, wid: recordWorkflowId(deployment), rid: '', id: randomUUID(), deployment }, finding);
}

/**
 * Tells what no worker told yet: orphans of a worker that died before it could, last shares whose run was ended while they
 * were given, and root tokens whose run ended without handing them on. Removes those that the recorded result of their run
 * has.
 */
export async function sweepLedger(
  dependencies: Tellers & Pick<ActivityDependencies, 'temporal' | 'records'>,
  deployment: string,
): Promise<void> {
  const ledger = ledgerOf(dependencies);
  for (const entry of await ledger.all(deployment)) {
    const told = { ...entry, toldAt: new Date().toISOString() };
    if (entry.state === 'orphan' && entry.toldAt === undefined) {
      if (await ledger.settle(entry, told)) tellAlarm(dependencies, entry, alarmOf(entry));
    }
    if (entry.encoded === undefined && entry.state !== 'under-way') continue;
    const run = await runOf(dependencies, entry).catch(() => 'open');
    if (run === 'handed-on') await ledger.settle(entry, undefined);
    if (run !== 'ended') continue;
    // Nobody is left to find out what the last share did: the ledger tells it.
    if (entry.state === 'under-way')
      await ledger.settle(entry, { ...entry, state: 'orphan', how: endedUnderWay(entry) });
    else if (entry.toldAt === undefined && (await ledger.settle(entry, told)))
      tellAlarm(dependencies, entry, notDelivered(entry));
  }
}

function endedUnderWay({ mark = 'without-nonce' }: LedgerEntry): string {
  return `attempt ${mark}: its run was ended while the last share was given`;
}

/** The open entries of a deployment, without the root tokens that the recorded result of their run has. */
export async function openEntries(
  dependencies: Pick<ActivityDependencies, 'temporal' | 'records'>,
  deployment: string,
): Promise<LedgerEntry[]> {
  const open: LedgerEntry[] = [];
  for (const entry of await new TokenLedger(dependencies.records).open(deployment)) {
    const run = entry.encoded === undefined ? 'not asked' : await runOf(dependencies, entry).catch(() => 'open');
    if (run !== 'handed-on') open.push(entry);
  }
  return open;
}

/**
 * What became of the run that made a token. `handed-on`: its recorded result has the root token; nothing else is a reason to
 * remove what may be its only copy. A run that the server does not know any more has ended too.
 *
 * @throws where the server does not say
 */
export async function runOf(
  { temporal }: Pick<ActivityDependencies, 'temporal'>,
  { wid, rid, encoded }: LedgerEntry,
): Promise<'open' | 'ended' | 'handed-on'> {
  return temporal.withDeadline(Date.now() + DEADLINE_MS, async () => {
    const handle = temporal.workflow.getHandle(wid, rid, { followRuns: false });
    try {
      const { status } = await handle.describe();
      if (status.name === 'RUNNING') return 'open';
      if (status.name !== 'COMPLETED' || encoded === undefined) return 'ended';
      const result: unknown = await handle.result();
      return JSON.stringify(result ?? null).includes(JSON.stringify(encoded)) ? 'handed-on' : 'ended';
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return 'ended';
      throw error;
    }
  });
}

/** What is told of a token that may exist and that nobody holds. */
function alarmOf({ kind = 'operation-token', cluster, how = 'its generation did not end' }: LedgerEntry): Finding {
  return orphanFinding(kind, cluster, how);
}

/** Nobody here can read it; the record has it for the one who can. */
export function notDelivered({ id, deployment, cluster, wid, kind }: LedgerEntry): Finding {
  const where = `the field \`encoded\` of \`token:${id}\` in the record (query \`read\` of \`record:${deployment}\`)`;
  if (kind !== 'root-token')
    return {
      severity: 'critical',
      code: 'token-not-handed-on',
      text: `An operation token of ${cluster} exists, made by ${wid} and encrypted to its recipient, that its run did not hand on (entry token:${id} of the record).`,
      next: `Give the recipient ${where}. They decrypt it; where it is not needed, start operationTokenDisposal with {"provided": "${cluster}"}, and they give it to be deleted.`,
    };
  return {
    severity: 'critical',
    code: 'orphan-root-token',
    text: `A root token of ${cluster} exists, made by ${wid} and encrypted to its recipient, that its run did not hand on (entry token:${id} of the record).`,
    next: `Give the recipient ${where}: they decrypt it, and revoke the token where it is not needed. A root token has no lifetime. Otherwise go through \`auth/token/accessors\` of ${cluster}, and revoke by accessor each token with policy root whose creation time is that of this run.`,
  };
}
