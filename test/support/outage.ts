import type { Waiting } from '../../src/contracts/run-status';
import type { FaultHandle, SimulatedCluster } from '../../src/simulator';
import type { Scenario, TestRun } from './scenario';

/** Budgets of an outage that tests can wait out. */
export const SHORT_LIMITS = {
  demote: '3s',
  // A loaded machine needs more than the service: the budget must not end before the cluster has restarted.
  promote: '4s',
  // As soon as it ends a switchover goes back: shorter only where that is the test.
  merkleEvidence: '10s',
  catchUp: '2s',
  serviceReady: '3s',
  streaming: '5s',
} as const;

/** Within this time a run that cannot go on by itself has parked and said so, ms. */
const PARKED_WITHIN_MS = 60_000;

export type Parked = Extract<Waiting, { for: 'decision' }>;

/** Starts a switchover and does everything that people do before the outage. */
export async function underWay(scenario: Scenario, input: Readonly<Record<string, unknown>> = {}): Promise<TestRun> {
  const run = await scenario.start({ go: 'auto', ...input });
  await run.people({ go: false, shares: input['tokenSource'] === 'batch' ? [] : ['ada', 'bert', 'cleo'] });
  return run;
}

/** Waits until the run has parked inside the outage, and sees that it did so in time and tells it without a worker too. */
export async function parksInTime(run: TestRun, where: (parked: Parked) => boolean): Promise<Parked> {
  const parked = await run.waitsFor('decision', where);
  const { outageSince, serviceBackAt } = await run.status();
  expect(outageSince).toBeDefined();
  expect((serviceBackAt ?? Date.now()) - (outageSince ?? 0)).toBeLessThan(PARKED_WITHIN_MS);
  const { memo } = await run.handle.describe();
  expect(memo?.['waitingFor']).toContain(parked.step);
  return parked;
}

/** What may be decided there. */
export function actions(parked: Parked): string[] {
  return parked.choices.map(({ action }) => action);
}

/** Does something to the service at the moment of the nth call (from 1). */
export function at(
  scenario: Scenario,
  when: 'before' | 'after',
  cluster: string,
  endpoint: string,
  action: (cluster: SimulatedCluster) => void | Promise<void>,
  nth = 1,
): FaultHandle {
  return scenario.service.faults.add({ cluster, endpoint, when, action, skip: nth - 1 });
}
