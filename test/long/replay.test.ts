import { ReplayError, Worker } from '@temporalio/worker';
import type { WorkflowBundleOption } from '@temporalio/worker';
import { replayRun } from '../../src/worker/workflow-code';
import type { RecordedHistory } from '../support/matrix';
import { readHistory, recordedHistories, recordedVersion, saveHistory } from '../support/matrix';
import { pair, Scenario } from '../support/scenario';
import { workflowBundle } from '../support/workflow-bundle';

/** The Workflow ID decides: a run under another one than the lock hands over. */
async function replay(bundle: WorkflowBundleOption, history: RecordedHistory): Promise<void> {
  const { workflowId = '' } = history.events[0]?.workflowExecutionStartedEventAttributes ?? {};
  await replayRun({ workflowBundle: bundle }, { history, workflowId });
}

describe('recorded histories', () => {
  let bundle: WorkflowBundleOption;
  beforeAll(async () => {
    bundle = await workflowBundle();
    if (recordedVersion !== undefined) await recordAll();
  });

  it('exist for a finished switchover and for one that parked and was aborted', () => {
    expect(recordedHistories().map((file) => file.replace(/^.*\//, ''))).toEqual(
      expect.arrayContaining(['drSwitchover.json.gz', 'drSwitchover-parked-aborted.json.gz']),
    );
  });

  it('replay with the workflows of this version', async () => {
    for (const file of recordedHistories()) await replay(bundle, readHistory(file));
  });

  const switchover = () =>
    readHistory(recordedHistories().find((each) => each.endsWith('/drSwitchover.json.gz')) ?? '');

  it('replay if the SDK lost the run once', async () => {
    const lost = new ReplayError('Tried to activate non running workflow');
    const replaying = jest.spyOn(Worker, 'runReplayHistory').mockRejectedValueOnce(lost);
    await replay(bundle, switchover());
    expect(replaying).toHaveBeenCalledTimes(2);
    replaying.mockRejectedValue(lost);
    await expect(replay(bundle, switchover())).rejects.toBe(lost);
    replaying.mockRestore();
  });

  it('fail to replay if the order of steps differs', async () => {
    const history = switchover();
    const scheduled = history.events.flatMap(
      ({ activityTaskScheduledEventAttributes: attributes }) => attributes ?? [],
    );
    const demotion = scheduled.find(({ activityType }) => activityType.name === 'demotePrimary');
    if (!demotion) throw new Error('no demotion in the history');
    demotion.activityType.name = 'promoteSecondary';
    await expect(replay(bundle, history)).rejects.toThrow(/determinism/i);
  });
});

/** Runs what is worth keeping: the histories hold sealed values only, and the keys are gone with this process. */
async function recordAll(): Promise<void> {
  const scenario = await Scenario.start({ topology: pair() });
  try {
    scenario.limit({ catchUp: '1s' });
    scenario.service.cluster('west').holdStream('dr', true);
    const parked = await scenario.start({ go: 'auto' });
    await parked.people({ go: false });
    await parked.decide('retry');
    await parked.waitsFor('decision', (waiting) => waiting.parkingNo === 2);
    await parked.decide('abort');
    await parked.report();
    await saveHistory('drSwitchover-parked-aborted', parked.handle);

    scenario.service.cluster('west').holdStream('dr', false);
    scenario.limit();
    const completed = await scenario.start();
    await completed.people();
    await completed.report();
    await saveHistory('drSwitchover', completed.handle);
  } finally {
    await scenario.stop();
  }
}
