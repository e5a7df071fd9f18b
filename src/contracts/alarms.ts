import type { Finding } from './run-facts';

/** A token may exist that nobody holds: told before everything else, because each minute counts. */
const ORPHANS: ReadonlySet<string> = new Set(['orphan-token', 'orphan-root-token']);
/** One such token was handed in. */
export const HELD_AFTER_ALL = 'orphan-held-after-all';

export function isOrphanAlarm({ code }: Pick<Finding, 'code'>): boolean {
  return ORPHANS.has(code);
}

/** The alarms that a run knows, for an activity that tells those which are in the ledger alone. */
export function alarmsTold(findings: readonly Finding[]): { readonly told?: readonly string[] } {
  const told = findings.filter(isOrphanAlarm).map(({ text }) => text);
  return told.length === 0 ? {} : { told };
}

/** Whether more alarms were raised than tokens were handed in. */
export function alarmsOpen(findings: readonly Finding[]): boolean {
  return findings.filter(isOrphanAlarm).length > findings.filter(({ code }) => code === HELD_AFTER_ALL).length;
}

/** The alarms first, whatever came before them. */
export function alarmsFirst<F extends Finding>(findings: readonly F[]): F[] {
  return [...findings.filter(isOrphanAlarm), ...findings.filter((each) => !isOrphanAlarm(each))];
}
