import type { Report, ReportedObjective } from '../contracts/report';
import type { RunObjectives } from '../contracts/run-facts';

/*
 * What the inventory wants of a change of the primary, beside what was measured. Nothing counts as met that was not
 * measured: what still lasts is missed once it lasts too long, and not measured before.
 */

type Measured = Pick<Report, 'runbook' | 'outage' | 'clientsHeld' | 'loss' | 'withoutDrProtection'>;

/** @param asOf - until when what has no end was seen to last, epoch ms */
export function objectivesOf(wanted: RunObjectives, report: Measured, asOf: number): Report['objectives'] {
  const { outage, clientsHeld, withoutDrProtection: unprotected } = report;
  if (!outage) return undefined;
  const felt = [
    { from: outage.startedAt, ms: outage.totalMs },
    ...(clientsHeld ? [{ from: clientsHeld.from, ms: clientsHeld.totalMs }] : []),
  ].map((span) => lasted(span, asOf));
  const measured = [
    // Clients that are held have no service either: the longer of both counts.
    ...judged('outage', wanted.outageMs, longest(felt)),
    ...judged('loss', wanted.lossWalEntries, lost(report)),
    ...judged(
      'unprotected',
      wanted.unprotectedMs,
      unprotected && lasted({ from: unprotected.from, ms: unprotected.totalMs }, asOf),
    ),
  ];
  return measured.length === 0 ? undefined : measured;
}

/** A figure; one that is not the last word can only be too high already. */
interface Figure {
  readonly value: number;
  readonly final: boolean;
}

function lasted({ from, ms }: { readonly from: string; readonly ms: number | undefined }, asOf: number): Figure {
  return ms === undefined ? { value: Math.max(0, asOf - Date.parse(from)), final: false } : { value: ms, final: true };
}

function longest(figures: readonly Figure[]): Figure {
  return { value: Math.max(...figures.map(({ value }) => value)), final: figures.every(({ final }) => final) };
}

/** The bound of a failover is that of a sample: what was written after it is not known. */
function lost({ loss, runbook }: Measured): Figure | undefined {
  if (loss?.loss === 'none') return { value: 0, final: true };
  const bound = loss?.boundWalEntries;
  if (bound === undefined || !/^\d+$/.test(bound)) return undefined;
  return { value: Number(bound), final: runbook !== 'drFailover' && bound !== '0' };
}

function judged(
  objective: ReportedObjective['objective'],
  atMost: number | undefined,
  figure: Figure | undefined,
): ReportedObjective[] {
  if (atMost === undefined) return [];
  if (figure === undefined) return [{ objective, atMost, verdict: 'not-measured' }];
  const verdict = figure.value > atMost ? 'missed' : figure.final ? 'met' : 'not-measured';
  return [{ objective, atMost, observed: figure.value, verdict }];
}
