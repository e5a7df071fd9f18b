import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import type { WorkflowHandle } from '@temporalio/client';
import { ROOT } from './documents';
import type { RunbookName } from '../../src/contracts/names';
import type { Report } from '../../src/contracts/report';
import { WRITE_REPORT } from '../../src/moves/every-run';
import { planStepText, stepNumber } from '../../src/moves/steps';
import type { TestRun } from './scenario';

/** One folder for each released version, one compressed JSON file for each run. */
const HISTORIES = join(ROOT, 'test', 'histories');

/** `RECORD_HISTORIES=<version>`: runs without a fault, and a few others, are recorded again. */
export const recordedVersion = process.env['RECORD_HISTORIES'];

export interface RecordedHistory {
  readonly events: {
    readonly workflowExecutionStartedEventAttributes?: {
      workflowId: string;
      workflowType: { name: string };
    };
    readonly activityTaskScheduledEventAttributes?: { activityType: { name: string } };
  }[];
}

/** Paths of all recorded histories, below the folder of histories. */
export function recordedHistories(): string[] {
  return readdirSync(HISTORIES, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.json.gz'))
    .sort();
}

export function readHistory(file: string): RecordedHistory {
  return JSON.parse(historyText(file)) as RecordedHistory;
}

export function historyText(file: string): string {
  return gunzipSync(readFileSync(join(HISTORIES, file))).toString('utf8');
}

/** Saves the history of a run. It contains only sealed values, and their keys are lost when the test process ends. */
export async function saveHistory(name: string, handle: WorkflowHandle): Promise<void> {
  if (recordedVersion === undefined) return;
  const folder = join(HISTORIES, recordedVersion);
  mkdirSync(folder, { recursive: true });
  // Stack traces contain folders of this machine.
  const text = historyToJSON(await handle.fetchHistory()).replaceAll(`${ROOT}/`, '');
  writeFileSync(join(folder, `${name}.json.gz`), gzipSync(text, { level: 9 }));
}

/** Maximum number of history events of a run without a fault; docs/benchmarks.md has the same table. */
export const EVENT_LIMITS: Partial<Readonly<Record<RunbookName, number>>> = {
  drSecondaryOnboarding: 112,
  drSwitchover: 188,
  drFailover: 151,
  drRejoin: 196,
  performanceRejoin: 142,
  secondaryRepointing: 144,
  performancePromotion: 154,
  performanceSecondaryOnboarding: 145,
  primaryEnablement: 72,
  filterReconciliation: 80,
  secondaryDecommission: 143,
  replicationTeardown: 68,
  walSampler: 17,
  readiness: 28,
  deploymentStatus: 17,
  merkleCheck: 113,
  drReindex: 141,
  operationTokenDisposal: 44,
  rootTokenCeremony: 110,
  operationTokenCeremony: 90,
  ceremonyRehearsal: 100,
  batchTokenRotation: 37,
};

/** Checks and prints the number of events of a run without a fault; saves its history if histories are recorded. */
export async function expectFewEvents(runbook: RunbookName, run: TestRun): Promise<void> {
  await saveHistory(runbook, run.handle);
  const report = await run.report();
  expectTimelineOfPlan(report);
  if (PRINTED.includes(runbook)) printBesideTimeline(report);
  const events = await run.eventCount();
  process.stderr.write(`history events of ${runbook} without a fault: ${events}\n`);
  expect(events).toBeLessThanOrEqual(EVENT_LIMITS[runbook] ?? 0);
}

/**
 * The steps of a run without a fault are those of the plan that people signed, by text and number. A planned step that was not
 * taken had a condition.
 */
export function expectTimelineOfPlan({ plan, steps }: Pick<Report, 'plan' | 'steps'>): void {
  if (!plan) return;
  const planned = plan.content.steps;
  const taken = steps.filter(({ number }) => number > 0);
  expect(taken.filter(({ unforeseen }) => unforeseen).map(({ name }) => name)).toEqual([]);
  expect(taken.map(({ planned: number = 0, name }) => [number, planned[number - 1]?.step === name])).toEqual(
    taken.map(({ planned: number }) => [number, true]),
  );
  const names = new Set([...taken.map(({ name }) => name), WRITE_REPORT]);
  expect(planned.filter(({ step, when }) => !names.has(step) && when === undefined)).toEqual([]);
}

/** The plans that people sign most, beside what they see at night. */
const PRINTED: readonly RunbookName[] = [
  'drSwitchover',
  'drFailover',
  'performancePromotion',
  'drSecondaryOnboarding',
  'performanceSecondaryOnboarding',
];

function printBesideTimeline({ runbook, plan, steps }: Pick<Report, 'runbook' | 'plan' | 'steps'>): void {
  const signed = (plan?.content.steps ?? []).map((step, index) => `  ${index + 1}. ${planStepText(step)}`);
  const seen = steps.filter(({ number }) => number > 0).map((step) => `  ${stepNumber(step)}${step.name}`);
  process.stderr.write(`${runbook}, signed:\n${signed.join('\n')}\n${runbook}, at night:\n${seen.join('\n')}\n`);
}
