/** A failover after a switchover that was terminated: the quota of that switchover came along to the new primary. */
import { stepFailure } from '../../workflows/engine/failures';
import { serviceBack } from '../../workflows/procedures/service-back';
import { fakeRun } from '../support/fake-run';

jest.mock('@temporalio/workflow', () => ({
  ...jest.requireActual<object>('@temporalio/workflow'),
  workflowInfo: () => ({ runId: 'f3a1c0de-0000-4000-8000-000000000001' }),
}));

/** Service comes back at west: what it said of itself, and whether its quotas can be read; what was released, and told. */
async function back(ready: object | undefined, quotas: 'read' | 'refused' = 'read', held?: object) {
  const released: unknown[] = [];
  // Where it parked it would be thrown as it is.
  const failed = () => Promise.reject(stepFailure('UNREACHABLE', ''));
  const calls = {
    awaitServiceReady: () => (ready ? Promise.resolve(ready) : failed()),
    releaseQuota: ({ cluster }: { cluster: string }) =>
      quotas === 'read' ? Promise.resolve({ released: released.push(cluster) }) : failed(),
  };
  const { run, left } = fakeRun({ calls, run: { held } });
  const hooks = { traffic: false, probe: false };
  const west = { primary: 'west', from: 'east', credentialOf: 'east' };
  await serviceBack(run, { kind: 'dr', deployment: 'payments', hooks, ...west });
  return { released, told: left.texts.join('\n') };
}

it('a quota that came along to the new primary is deleted, also where that was not seen to serve', async () => {
  expect((await back({})).released).toEqual([]);
  expect((await back({ clientsRefused: 'by-quota' })).released).toEqual(['west']);
  expect((await back({ clientsRefused: 'not-known' })).released).toEqual(['west']);
  expect((await back(undefined)).released).toEqual(['west']);
  const quota = { by: 'quota', cluster: 'east', before: { exempt: [], auditLogging: false } };
  // Its own is deleted once.
  expect((await back(undefined, 'read', quota)).released).toEqual(['west']);
});

it('where that cannot be read either nobody is waited for: what is left has its command', async () => {
  for (const ready of [undefined, { clientsRefused: 'not-known' }])
    expect((await back(ready, 'refused')).told).toContain('vault delete sys/quotas/rate-limit/runbooks-');
});
