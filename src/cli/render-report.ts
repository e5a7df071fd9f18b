import type { OutageSplit, Report } from '../contracts/report';
import { inLines, inWords, terminalText } from './text';

/** The end of a run in a few lines: outcome, outage split, loss, findings, what is left to do. */
export function summaryLines(given: Report): string[] {
  const report = inLines(given);
  const lines = [
    '',
    `${report.runbook} of ${report.deployment ?? 'unknown deployment'}: ${report.outcome.toUpperCase()}`,
  ];
  if (report.outage !== undefined) lines.push(...outageLines(report.outage));
  if (report.loss !== undefined) lines.push(...terminalText(`Loss: ${report.loss.loss}. ${report.loss.why}`, '  '));
  const unprotected = report.withoutDrProtection?.totalMs;
  if (unprotected !== undefined) lines.push(`  Without DR protection: ${inWords(unprotected)}`);
  for (const { cluster, state, text } of report.tokens)
    lines.push(...terminalText(`Operation token of ${cluster}: ${state}. ${text}`, '  '));
  for (const { severity, text, next } of report.findings)
    lines.push(...terminalText(`Finding (${severity}): ${text}${next === undefined ? '' : ` Next: ${next}`}`, '  '));
  for (const left of report.leftToDo) lines.push(...terminalText(`Left to do: ${left}`, '  '));
  lines.push(`  History: ${report.historyEvents} events`);
  return lines;
}

/** How long clients had no primary, and where the time went. */
export function outageLines(outage: OutageSplit): string[] {
  const total = outage.totalMs === undefined ? 'not over' : inWords(outage.totalMs);
  const endedBy = outage.endedBy === 'probe' ? "first success through the clients' address" : 'service ready';
  const part = (ms: number | undefined): string => (ms === undefined ? 'unknown' : inWords(ms));
  return [
    `  Outage: ${total}${outage.endedBy === undefined ? '' : `, ended by ${endedBy}`}`,
    `    service ${part(outage.serviceMs)}, machine ${part(outage.machineMs)}, people ${part(outage.peopleMs)}`,
  ];
}
