import type { Finding } from './run-facts';
import type { RunStatus } from './run-status';

/** A token may exist that nobody holds: told before everything else, because each minute counts. */
const ORPHANS: ReadonlySet<string> = new Set(['orphan-token', 'orphan-root-token']);

export function isOrphanAlarm({ code }: Pick<Finding, 'code'>): boolean {
  return ORPHANS.has(code);
}

/** The alarm about a token that may exist and that nobody holds. */
export function orphanFinding(kind: 'operation-token' | 'root-token', cluster: string, how: string): Finding {
  if (kind === 'root-token') {
    return {
      severity: 'critical',
      code: 'orphan-root-token',
      text: `A root token of ${cluster} may exist that nobody holds: ${how}.`,
      next: `Whoever has the encoded answer gives it to the recipient. A root token has no lifetime. Go through \`auth/token/accessors\` of ${cluster} and revoke by accessor each token with policy root whose creation time is that of this run; look for its use in the audit log.`,
    };
  }
  return {
    severity: 'critical',
    code: 'orphan-token',
    text: `An operation token of ${cluster} may exist that nobody holds: ${how}.`,
    next: `An operation token has no lifetime. Ask the service's vendor how to end it, or end all of them by disabling and re-enabling DR on ${cluster} when it is safe; look for its use in the audit log until then. Once that is done, \`operationTokenDisposal\` with \`forget\` takes it off the record.`,
  };
}

/** What stands against a run that was refused, and why a run failed. */
export const CHECK_FAILED = 'check-failed';

/** What people must know before they read whom the run waits for: alarms, what is critical, that key shares were rejected. */
export function urgentFindings({ findings, waiting }: Pick<RunStatus, 'findings' | 'waiting'>): Finding[] {
  const alarms = findings.filter(isOrphanAlarm);
  const critical = findings.filter((each) => each.severity === 'critical' && !isOrphanAlarm(each));
  const holdersAsked = waiting.some((each) => each.for === 'shares');
  const rejected = holdersAsked ? findings.findLast(({ code }) => code === 'shares-rejected') : undefined;
  const refused = findings.filter(({ code }) => code === CHECK_FAILED);
  return [...new Set([...alarms, ...critical, ...refused, ...(rejected ? [rejected] : [])])];
}

/** The alarms first, whatever came before them. */
export function alarmsFirst<F extends Finding>(findings: readonly F[]): F[] {
  return [...findings.filter(isOrphanAlarm), ...findings.filter((each) => !isOrphanAlarm(each))];
}
