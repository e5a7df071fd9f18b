/** A run that ends while it holds clients lets them through where a cluster is known to serve. */
import type { ClusterObservation } from '../../src/contracts/observations';
import { quiesceClients } from '../../workflows/procedures/held-clients';
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
