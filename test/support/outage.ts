import type { Waiting } from '../../src/contracts/run-status';
import type { FaultHandle, SimulatedCluster } from '../../src/simulator';
import { CHANGING } from './faults';
import type { Scenario, TestRun } from './scenario';

/** Within this time a run that cannot go on by itself has parked and said so, on a slow machine too, ms. */
const PARKED_WITHIN_MS = 120_000;

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

/**
 * A cluster refuses to be promoted, and its promotion soon gives up. What is promoted after the first refusal has time
 * again; a promotion that is to give up once more needs the limit once more.
 */
export function refusePromotion(scenario: Scenario, cluster: string): FaultHandle {
  scenario.limit({ promote: '1s' });
  at(scenario, 'before', cluster, CHANGING.promote, () => scenario.limit());
  return scenario.service.faults.add({
    cluster,
    endpoint: CHANGING.promote,
    action: { status: 503 },
    times: Infinity,
  });
}

/** A write in the moment of a demotion, whose answer is lost: a demoted primary ships nothing more, and its secondary never heard of it. */
export function writeRightBeforeDemotion(
  scenario: Scenario,
  primary: string,
  secondary: string,
  { key, value, endpoint = CHANGING.demote }: LateWrite,
): void {
  scenario.limit({ merkleEvidence: '1s' }, 'compareAfterDemotion');
  at(scenario, 'before', primary, endpoint, (cluster) => {
    // However long the machine stands still between the two: nothing is on its way.
    scenario.service.partition(primary, secondary);
    cluster.write(key, value);
  });
  at(scenario, 'after', primary, endpoint, () => scenario.service.heal(primary, secondary));
  // When it took effect is not known then, and what was seen of the clients before vouches for nothing.
  scenario.service.faults.add({ cluster: primary, endpoint, action: 'lose-answer' });
}

interface LateWrite {
  readonly key: string;
  readonly value: Readonly<Record<string, string | number>>;
  readonly endpoint?: string;
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
