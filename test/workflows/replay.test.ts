import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import type { WorkflowHandle } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import type { WorkflowBundleOption } from '@temporalio/worker';
import { PAYLOAD_CONVERTER_PATH } from '../../src/worker/workflow-code';
import { pair, Scenario } from '../support/scenario';
import { workflowBundle } from '../support/workflow-bundle';

/** One folder for each released version; `RECORD_HISTORIES=<version>` records anew. */
const HISTORIES = join(__dirname, '..', 'histories');
const record = process.env['RECORD_HISTORIES'];

interface RecordedHistory {
  readonly events: {
    readonly workflowExecutionStartedEventAttributes?: { workflowId: string };
    readonly activityTaskScheduledEventAttributes?: { activityType: { name: string } };
  }[];
}

const recorded = (): string[] =>
  readdirSync(HISTORIES, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.json'))
    .sort();
const read = (file: string): RecordedHistory =>
  JSON.parse(readFileSync(join(HISTORIES, file), 'utf8')) as RecordedHistory;

/** The Workflow ID decides: a run under another one than the lock hands over. */
async function replay(bundle: WorkflowBundleOption, history: RecordedHistory): Promise<void> {
  const workflowId = history.events[0]?.workflowExecutionStartedEventAttributes?.workflowId;
  await Worker.runReplayHistory(
    { workflowBundle: bundle, dataConverter: { payloadConverterPath: PAYLOAD_CONVERTER_PATH } },
    history,
    workflowId,
  );
}

async function save(name: string, handle: WorkflowHandle): Promise<void> {
  mkdirSync(join(HISTORIES, record ?? ''), { recursive: true });
  // Stack traces name the machine's folders.
  const text = historyToJSON(await handle.fetchHistory()).replaceAll(`${join(__dirname, '..', '..')}/`, '');
  writeFileSync(join(HISTORIES, record ?? '', `${name}.json`), text);
}

describe('recorded histories', () => {
  let bundle: WorkflowBundleOption;
  beforeAll(async () => {
    bundle = await workflowBundle();
    if (record !== undefined) await recordAll();
  });

  it('exist for a finished switchover and for one that parked and was aborted', () => {
    expect(recorded().map((file) => file.replace(/^.*\//, ''))).toEqual(
      expect.arrayContaining(['switchover-completed.json', 'switchover-parked-aborted.json']),
    );
  });

  it('replay with the workflows of this version', async () => {
    for (const file of recorded()) await replay(bundle, read(file));
  });

  it('fail to replay where the order of steps differs', async () => {
    const [file] = recorded().filter((each) => each.endsWith('switchover-completed.json'));
    const history = read(file ?? '');
    const scheduled = history.events.flatMap(
      ({ activityTaskScheduledEventAttributes: attributes }) => attributes ?? [],
    );
    const demotion = scheduled.find(({ activityType }) => activityType.name === 'demoteDrPrimary');
    if (!demotion) throw new Error('no demotion in the history');
    demotion.activityType.name = 'promoteDrSecondary';
    await expect(replay(bundle, history)).rejects.toThrow(/determinism/i);
  });
});

/** Runs what is worth keeping: the histories hold sealed values only, and the keys are gone with this process. */
async function recordAll(): Promise<void> {
  const scenario = await Scenario.start({ topology: pair(), limits: { catchUp: '1s' } });
  try {
    scenario.service.cluster('west').holdStream('dr', true);
    const parked = await scenario.start({ go: 'auto' });
    await parked.people({ go: false });
    await parked.decide('retry');
    await parked.waitsFor('decision', (waiting) => waiting.parkingNo === 2);
    await parked.decide('abort');
    await parked.report();
    await save('switchover-parked-aborted', parked.handle);

    scenario.service.cluster('west').holdStream('dr', false);
    const completed = await scenario.start();
    await completed.people();
    await completed.report();
    await save('switchover-completed', completed.handle);
  } finally {
    await scenario.stop();
  }
}
