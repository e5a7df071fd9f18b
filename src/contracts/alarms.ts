import type { Finding } from './run-facts';
import type { RunStatus } from './run-status';

/** A token may exist that nobody holds: told before everything else, because each minute counts. */
const ORPHANS: ReadonlySet<string> = new Set(['orphan-token', 'orphan-root-token']);

export function isOrphanAlarm({ code }: Pick<Finding, 'code'>): boolean {
  return ORPHANS.has(code);
}

/** The alarms that a run knows, for an activity that tells those which are in the ledger alone. */
export function alarmsTold(findings: readonly Finding[]): { readonly told?: readonly string[] } {
  const told = findings.filter(isOrphanAlarm).map(({ text }) => text);
  return told.length === 0 ? {} : { told };
}

/** What people must know before they read whom the run waits for: alarms, what is critical, that too few holders are left. */
export function urgentFindings({ findings, waiting }: Pick<RunStatus, 'findings' | 'waiting'>): Finding[] {
  const alarms = findings.filter(isOrphanAlarm);
  const critical = findings.filter((each) => each.severity === 'critical' && !isOrphanAlarm(each));
  const holdersAsked = waiting.some((each) => each.for === 'shares' || each.for === 'action');
  const tooFew = holdersAsked ? findings.findLast(({ code }) => code === 'holders-too-few') : undefined;
  return [...new Set([...alarms, ...critical, ...(tooFew ? [tooFew] : [])])];
}

/** The alarms first, whatever came before them. */
export function alarmsFirst<F extends Finding>(findings: readonly F[]): F[] {
  return [...findings.filter(isOrphanAlarm), ...findings.filter((each) => !isOrphanAlarm(each))];
}
