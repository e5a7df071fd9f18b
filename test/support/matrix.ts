import type { RunbookName } from '../../src/contracts/names';
import { saveHistory } from './histories';
import type { TestRun } from './scenario';

/** What every runbook is put through. */
export type CellKind =
  | 'no fault'
  | 'refused'
  | 'lost answer'
  | 'parked, retry'
  | 'parked, skip'
  | 'parked, abort'
  | 'abort at'
  | 'taken over at';

/** The title of a test that is a cell of the table of runbooks and faults. `about`: the call, step or wait. */
export function cell(runbook: RunbookName, kind: CellKind, about = ''): string {
  return `[${runbook}] ${kind}${about === '' ? '' : `: ${about}`}`;
}

/** History events that a run without a fault may take at most; docs/benchmarks.md has the same table. */
export const EVENT_LIMITS: Partial<Readonly<Record<RunbookName, number>>> = {
  drSecondaryOnboarding: 110,
  drSwitchover: 186,
  drFailover: 141,
  drRejoin: 194,
  performanceRejoin: 140,
  secondaryRepointing: 142,
  performancePromotion: 152,
  performanceSecondaryOnboarding: 143,
  primaryEnablement: 70,
  filterReconciliation: 78,
  secondaryDecommission: 141,
  replicationTeardown: 66,
  walSampler: 17,
  readiness: 26,
  merkleCheck: 111,
  drReindex: 139,
  operationTokenDisposal: 42,
  rootTokenCeremony: 108,
  operationTokenCeremony: 88,
  ceremonyRehearsal: 98,
  batchTokenRotation: 35,
};

/** Guards the cost of a run without a fault, and prints it; where histories are recorded, its history is kept. */
export async function expectFewEvents(runbook: RunbookName, run: TestRun): Promise<void> {
  await saveHistory(runbook, run.handle);
  const events = await run.eventCount();
  process.stderr.write(`history events of ${runbook} without a fault: ${events}\n`);
  expect(events).toBeLessThanOrEqual(EVENT_LIMITS[runbook] ?? 0);
}
