/** Whom a run that ends, or ended, keeps out: clients are let through where a cluster is known to serve. */
import type { ClusterObservation } from '../../src/contracts/observations';
import { stepFailure } from '../../workflows/engine/failures';
import { quiesceClients } from '../../workflows/procedures/held-clients';
import { serviceBack } from '../../workflows/procedures/service-back';
import { fakeRun } from '../support/fake-run';

jest.mock('@temporalio/workflow', () => ({
  ...jest.requireActual<object>('@temporalio/workflow'),
  workflowInfo: () => ({ runId: 'f3a1c0de-0000-4000-8000-000000000001' }),
}));

type Mode = 'primary' | 'secondary' | 'silent';

/** A run that held the clients of east by quota, and ends: what was released where, and what is left to do. */
async function endOf(outage: { outageSince?: number; serviceBackAt?: number }, east: Mode, west: Mode) {
  const released: unknown[] = [];
  const seen = { east, west };
  const calls = {
    readQuotas: () => Promise.resolve({ exempt: ['sys/health'], auditLogging: false }),
    readDeployment: () =>
      Promise.resolve({
        observations: Object.entries(seen)
          .filter(([, mode]) => mode !== 'silent')
          .map(([cluster, mode]) => ({ cluster, dr: { mode } }) as unknown as ClusterObservation),
      }),
    quiesceByQuota: () => Promise.resolve({}),
    releaseQuota: ({ cluster }: { cluster: string }) => Promise.resolve(void released.push(cluster)),
  };
  const { run, left, end } = fakeRun({ calls, state: outage });
  const approvals = { begin: (_: string, body: (authority: object) => unknown) => body({}) };
  const route = { from: 'east', to: 'west', quiesce: 'quota', hooks: { release: false } } as const;
  await quiesceClients(run, { deployment: 'payments', kind: 'dr', route, approvals: approvals as never, gate: 'go' });
  await end();
  return { released, held: left.texts.length > 0 };
}

it.each([
  ['before an outage, whoever answers', {}, 'silent', 'silent', ['east']],
  [
    'a failover took the run over, and the old primary answers again',
    { outageSince: 1 },
    'primary',
    'secondary',
    ['east'],
  ],
  ['the candidate became primary', { outageSince: 1 }, 'secondary', 'primary', ['west']],
  ['no cluster is primary', { outageSince: 1 }, 'secondary', 'secondary', []],
  ['both say to be primary', { outageSince: 1 }, 'primary', 'primary', []],
  ['the candidate, which may have been promoted, is silent', { outageSince: 1 }, 'primary', 'silent', []],
  [
    'service was back, and people skipped the release',
    { outageSince: 1, serviceBackAt: 2 },
    'secondary',
    'primary',
    [],
  ],
] as const)('clients that a quota refuses at the end of a run: %s', async (_, outage, east, west, released) => {
  expect(await endOf(outage, east, west)).toEqual({ released, held: released.length === 0 });
});

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
