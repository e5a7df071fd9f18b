import type { Report, ReportedObjective } from '../contracts/report';
import type { RunObjectives } from '../contracts/run-facts';

/*
 * What the inventory wants of a change of the primary, beside what was measured. Nothing counts as met that was not
 * measured: what still lasts is missed once it lasts too long, and not measured before.
 */

type Measured = Pick<Report, 'runbook' | 'outage' | 'clientsHeld' | 'loss' | 'withoutDrProtection'>;

/** @param asOf - until when what has no end was seen to last, epoch ms */
export function objectivesOf(wanted: RunObjectives, report: Measured, asOf: number): Report['objectives'] {
  const { outage, clientsHeld: held, withoutDrProtection: unprotected } = report;
  if (!outage) return undefined;
  const lasted = (from: string, ms: number | undefined) => ms ?? Math.max(0, asOf - Date.parse(from));
  const known = outage.atLeast !== true;
  const over = outage.totalMs !== undefined && (!held || held.to !== undefined);
  // Clients that are held have no service either: from the first of both until the last is over.
  const from = held ? Math.min(Date.parse(held.from), Date.parse(outage.startedAt)) : Date.parse(outage.startedAt);
  const outageEnd = Date.parse(outage.startedAt) + lasted(outage.startedAt, outage.totalMs);
  const heldEnd = held?.to === undefined ? (held ? asOf : 0) : Date.parse(held.to);
  const felt = Math.max(outageEnd, heldEnd) - from;
  const without = unprotected && lasted(unprotected.from, unprotected.totalMs);
  const judged = [
    ...judge('outage', wanted.outageMs, felt, over && known),
    ...judge('loss', wanted.lossWalEntries, ...lost(report)),
    ...judge('unprotected', wanted.unprotectedMs, without, known && unprotected?.totalMs !== undefined),
  ];
  return judged.length === 0 ? undefined : judged;
}

/** The bound of a failover is that of a sample: what was written after it is not known. */
function lost({ loss, runbook }: Measured): [entries: number | undefined, isAll: boolean] {
  if (loss?.loss === 'none') return [0, true];
  const bound = loss?.boundWalEntries;
  if (bound === undefined || !/^\d+$/.test(bound)) return [undefined, false];
  return [Number(bound), runbook !== 'drFailover' && bound !== '0'];
}

/** @param isAll - whether the figure can grow no more */
function judge(
  objective: ReportedObjective['objective'],
  atMost: number | undefined,
  observed: number | undefined,
  isAll: boolean,
): ReportedObjective[] {
  if (atMost === undefined) return [];
  if (observed === undefined) return [{ objective, atMost, verdict: 'not-measured' }];
  return [{ objective, atMost, observed, verdict: observed > atMost ? 'missed' : isAll ? 'met' : 'not-measured' }];
}
