/** Inputs come through Temporal, whose writers can put anything there: each is checked at the activity's border. */
import type { RunbookActivities } from '../../activities';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

let bench: ActivityBench;
openBench((opened) => (bench = opened));

const refused = async (name: keyof RunbookActivities, input: object) => {
  const before = bench.service.calls.length;
  const failure = await bench.failure(name, input as never);
  expect(bench.service.calls.length).toBe(before);
  return failure;
};

const between = { deployment: DEPLOYMENT, primary: 'east', secondary: 'west' };
it.each<[string, keyof RunbookActivities, object]>([
  ['more samples than a run takes', 'sampleWal', { deployment: DEPLOYMENT, samples: 201, everyMs: 0 }],
  ['no number of samples', 'sampleWal', { deployment: DEPLOYMENT, everyMs: 10 }],
  ['samples for longer than five hours', 'sampleWal', { deployment: DEPLOYMENT, samples: 200, everyMs: 3_600_000 }],
  ['samples without end', 'sampleWal', { deployment: DEPLOYMENT, samples: -1, everyMs: 10 }],
  ['a time of years', 'sampleWal', { deployment: DEPLOYMENT, samples: 1, everyMs: 1e12 }],
  ['a time that is no number', 'sampleWal', { deployment: DEPLOYMENT, samples: 1, everyMs: '1000' }],
  ['a WAL index that is none', 'demotePrimary', { ...between, kind: 'dr', reached: 'x' }],
  ['a WAL index of a million digits', 'demotePrimary', { ...between, kind: 'dr', reached: '9'.repeat(1_000_000) }],
  ['an id that leaves its path', 'awaitSecondaryGone', { ...between, cluster: 'east', kind: 'dr', id: '..' }],
  ['an id with a path in it', 'compareDynamicFilters', { ...between, id: 'x/../../../seal' }],
  ['a kind that there is not', 'awaitReplicationDisabled', { deployment: DEPLOYMENT, cluster: 'east', kind: '../x' }],
  ['arrivals without end', 'checkDecisions', { deployment: DEPLOYMENT, arrived: Array(100_001).fill(1) }],
  ['an epoch that is none', 'createCeremony', { deployment: DEPLOYMENT, epoch: 1.5 }],
  ['more targets than clusters', 'createCeremony', { deployment: DEPLOYMENT, targets: Array(1_001).fill({}) }],
  ['no kind of replication', 'disablePrimary', { deployment: DEPLOYMENT, cluster: 'east' }],
  ['a kind of token', 'disablePrimary', { deployment: DEPLOYMENT, cluster: 'east', kind: 'root-token' }],
  ['a DR secondary without a token', 'disableSecondary', { deployment: DEPLOYMENT, cluster: 'west', kind: 'dr' }],
  ['forgetting without a token', 'forgetPrimary', { deployment: DEPLOYMENT, cluster: 'west', kind: 'dr' }],
  ['re-pointing without a token', 'updatePrimary', { ...between, kind: 'dr' }],
  ['re-pointing without a filter', 'updatePrimary', { ...between, kind: 'performance' }],
  ['no filter for an activation token', 'enableSecondary', { ...between, kind: 'performance', expected: {} }],
  ['an input of another runbook', 'assessDrSwitchover', { input: { deployment: DEPLOYMENT, cluster: 'east' } }],
  ['a ledger entry with a path', 'disposeLedgerToken', { deployment: DEPLOYMENT, cluster: 'east', entry: '../x' }],
])('%s is refused before anything is read', async (_what, name, input) => {
  const failure = await refused(name, input);
  expect(failure).toMatchObject({ code: 'INVALID_INPUT', retryable: false });
  expect(failure.message).not.toContain('..');
});

it('every activity refuses a name that is none, and repeats nothing of it', async () => {
  for (const name of Object.keys(bench.activities) as (keyof RunbookActivities)[]) {
    const failure = await refused(name, { deployment: '../etc', cluster: 7, workflowId: 7, signals: 7 });
    expect([name, failure.code]).toEqual([name, 'INVALID_INPUT']);
    expect(failure.message).not.toContain('etc');
  }
});
