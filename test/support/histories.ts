import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import type { WorkflowHandle } from '@temporalio/client';
import { ROOT } from './documents';

/** One folder for each released version, one compressed JSON file for each run. */
const HISTORIES = join(ROOT, 'test', 'histories');

/** `RECORD_HISTORIES=<version>`: runs without a fault, and a few others, are recorded anew. */
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
  return JSON.parse(gunzipSync(readFileSync(join(HISTORIES, file))).toString('utf8')) as RecordedHistory;
}

/** Keeps the history of a run. It holds sealed values only, and the keys are gone with the test's process. */
export async function saveHistory(name: string, handle: WorkflowHandle): Promise<void> {
  if (recordedVersion === undefined) return;
  const folder = join(HISTORIES, recordedVersion);
  mkdirSync(folder, { recursive: true });
  // Stack traces name the machine's folders.
  const text = historyToJSON(await handle.fetchHistory()).replaceAll(`${ROOT}/`, '');
  writeFileSync(join(folder, `${name}.json.gz`), gzipSync(text, { level: 9 }));
}
