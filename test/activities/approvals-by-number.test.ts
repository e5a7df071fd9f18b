/**
 * An activity gets the numbers of the signals that brought its approvals. While clients are quiesced, it reads the history of
 * its run once, checks each signature of its gates once, and then looks only at the clock.
 */
import type { Authority } from '../../src/contracts/activities';
import { DEPLOYMENT, drDemotion, holding, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

const STATUS = 'GET /v1/sys/replication/dr/status';
/** Status reads of a candidate that has not caught up yet. */
const POLLS = 6;
const HOUR = 3_600_000;

let bench: ActivityBench;
let authority: Authority;
openBench((opened) => (bench = opened), { topology: { readings: { leaderChangeChance: 0 } } });
beforeAll(async () => {
  const { plan, approvals } = await bench.authority({ quiesce: 'attested' });
  bench.signaled('approve', approvals);
  // As the run passes them on.
  authority = { plan, approvals: { plan: [1], go: [2] } };
});
afterEach(() => {
  jest.restoreAllMocks();
  bench.service.faults.clear();
});

/** The candidate lags behind for some status reads. */
function lagging() {
  const data = { mode: 'secondary', state: 'stream-wals', last_remote_wal: 1, primaries: [] };
  const action = { status: 200, body: { data } };
  return bench.service.faults.add({ cluster: 'west', endpoint: STATUS, action, times: POLLS });
}

it('a signed approval that met a gate does not meet it again, however it is wrapped', async () => {
  const { plan } = authority;
  const { document } = await bench.approval('go', plan.digest, 'henry');
  const check = (arrived: readonly number[], metWith?: readonly string[]) => {
    const about = { gate: 'go', planDigest: plan.digest, requestedBy: 'olga', accepted: [] } as const;
    return bench.call('checkApprovals', { deployment: DEPLOYMENT, ...about, arrived, metWith });
  };
  const wrapped = bench.signaled('approve', [{ document }]);
  const bare = bench.signaled('approve', [document]);
  const met = await check(wrapped);
  const digest = expect.any(String) as string;
  expect(met).toMatchObject({ satisfied: true, verdicts: [{ accepted: true, digest }] });
  const text = `gate go was already met with this document. Next: approve or reject again: \`runbook approve ${bench.run.wid} --gate go\``;
  expect(await check([...wrapped, ...bare], [met.verdicts[0]?.digest ?? ''])).toMatchObject({
    satisfied: false,
    verdicts: [
      { accepted: false, code: 'repeated', text },
      { accepted: false, code: 'repeated', text },
    ],
  });
});

it('a demotion reads the history once for its approvals and once for releases, and checks one signature for each gate', async () => {
  const setRolesBack = bench.rolesKept();
  const behind = lagging();
  const checked = jest.spyOn(globalThis.crypto.subtle, 'verify');
  const before = bench.historyReads;
  expect(await bench.call('demotePrimary', drDemotion(authority))).toMatchObject({ outcome: 'done', calls: 1 });
  // When the documents themselves were passed on: 8 reads and 46 checks.
  expect({ polls: behind.hits, reads: bench.historyReads - before, checks: checked.mock.calls.length }).toEqual({
    polls: POLLS,
    reads: 2,
    checks: 2,
  });
  setRolesBack();
  bench.service.advanceClock(1_000);
});

// Comes last: what the service does meanwhile, it does at the later time.
it('a demotion is not begun if its approvals become too old while it waits for the candidate', async () => {
  const behind = lagging();
  const now = Date.now.bind(Date);
  jest.spyOn(Date, 'now').mockImplementation(() => now() + (behind.hits < POLLS / 2 ? 0 : 9 * HOUR));
  const details = { about: 'approvals too old', observed: holding('gate go was met at') };
  await bench.refusedUnsent('demotePrimary', drDemotion(authority), 'NOT_APPROVED', { details });
  expect(behind.hits).toBe(POLLS / 2);
});
