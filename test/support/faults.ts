import type { FaultHandle, SimulatedCluster } from '../../src/simulator';
import { ROUTES } from '../../src/simulator/router';
import { callNode, until } from './by-hand';
import type { Parked, Scenario, TestRun } from './scenario';

const DR = '/v1/sys/replication/dr';

/** The changing calls of a switchover, as faults name them. */
export const CHANGING = {
  demote: `POST ${DR}/primary/demote`,
  promote: `POST ${DR}/secondary/promote`,
  secondaryToken: `POST ${DR}/primary/secondary-token`,
  updatePrimary: `POST ${DR}/secondary/update-primary`,
  startAttempt: `POST ${DR}/secondary/generate-operation-token/attempt`,
  giveShare: `POST ${DR}/secondary/generate-operation-token/update`,
  deleteToken: `POST ${DR}/secondary/operation-token/delete`,
} as const;

/**
 * Lets the first call of each of these endpoints of a cluster, or the nth one (from 1), take effect and loses its answer;
 * {@link expectLost} sees in the end that each was lost.
 */
export function loseAnswers(
  scenario: Scenario,
  clusters: Readonly<Record<string, readonly (string | readonly [endpoint: string, nth: number])[]>>,
): void {
  for (const [cluster, endpoints] of Object.entries(clusters))
    for (const each of endpoints) {
      const [endpoint, nth] = typeof each === 'string' ? [each, 1] : each;
      const fault = { cluster, endpoint, action: 'lose-answer', skip: nth - 1 } as const;
      scenario.losing.push({ ...fault, handle: scenario.service.faults.add(fault) });
    }
}

/** Every answer that was to be lost was lost. The lane of a test sees to it at its end. */
export function expectLost({ losing }: Scenario): void {
  expect(losing.splice(0).filter(({ handle }) => handle.hits !== 1)).toEqual([]);
}

/** A cluster refuses these calls until that is removed, or so often. */
export function refuse(scenario: Scenario, cluster: string, endpoint: string, status = 403, times = Infinity) {
  return scenario.service.faults.add({ cluster, endpoint, action: { status }, times });
}

/** Statuses of all calls of an endpoint on a cluster, in order; 0 where the connection was broken. */
export function statuses(scenario: Pick<Scenario, 'service'>, cluster: string, endpoint: string): number[] {
  return scenario.service.calls
    .filter((call) => call.cluster === cluster && `${call.method} ${call.path}` === endpoint)
    .map((call) => call.status);
}

/**
 * How often a changing endpoint was called on a cluster.
 *
 * @param endpoint - `POST` and its whole path, or the end of a path
 * @throws TypeError where the service has no such endpoint, so that nobody waits for a call that nobody can make
 */
export function changingCalls(
  { calls }: Pick<Scenario['service'], 'calls'>,
  cluster: string,
  endpoint: string,
): number {
  const end = endpoint.slice(endpoint.lastIndexOf(' ') + 1);
  const segments = end.replace(/^\/(v1\/)?/, '').split('/');
  const isServed = ROUTES.some(({ method, path }) => {
    const last = path.split('/').slice(-segments.length);
    const fits = last.every((each, index) => each.startsWith(':') || each === segments[index]);
    return method !== 'GET' && fits && last.length === segments.length && last.some((each) => !/^[:*]/.test(each));
  });
  if (!isServed) throw new TypeError(`nothing of the service is changed at ${endpoint}`);
  return calls.filter((call) => call.cluster === cluster && call.method !== 'GET' && call.path.endsWith(end)).length;
}

/** Names of the clusters that hold the role of DR primary, whether they are up or not. */
export function drPrimaries(scenario: Scenario): string[] {
  return [...scenario.service.clusters.values()]
    .map((cluster) => cluster.snapshotState())
    .filter((state) => state.dr.mode === 'primary')
    .map((state) => state.name);
}

/** Clusters that take a client's write now. */
export async function writable(scenario: Scenario): Promise<string[]> {
  const write = async ({ addresses, name, rootToken: token }: SimulatedCluster): Promise<string[]> => {
    const body = { data: { written: name } };
    const answer = callNode(addresses[0] ?? '', 'POST', 'kv/data/a-client-writes', { token, body });
    return answer.then(
      ({ status }) => (status < 300 ? [name] : []),
      () => [],
    );
  };
  return (await Promise.all([...scenario.service.clusters.values()].map(write))).flat();
}

/** Service is on exactly one cluster: one DR primary, and only there a client's write is taken. */
export async function expectServiceOn(scenario: Scenario, cluster: string): Promise<void> {
  expect(drPrimaries(scenario)).toEqual([cluster]);
  expect(await writable(scenario)).toEqual([cluster]);
}

/** A secondary streams from its primary. */
export function expectFollows(
  scenario: Scenario,
  secondary: string,
  primary: string,
  kind: 'dr' | 'performance' = 'dr',
): void {
  const { mode, connectedTo, state } = scenario.state(secondary)[kind];
  const following = { mode: 'secondary', connectedTo: primary, state: 'stream-wals' };
  expect([secondary, { mode, connectedTo, state }]).toEqual([secondary, following]);
}

/** What the primary's filter keeps away reaches none of these, and what it does not reaches them and the others. */
export async function expectFiltered(
  { service }: Scenario,
  primary: string,
  filtered: readonly string[],
  others: readonly string[] = [],
): Promise<void> {
  const stamp = `${primary} ${service.now()}`;
  for (const path of ['us-customers/smith', 'secret/for-all']) service.cluster(primary).write(path, { stamp });
  for (const each of [...filtered, ...others])
    await until(`${each} has it`, () => service.cluster(each).read('secret/for-all')?.['stamp'] === stamp);
  for (const each of filtered) expect(service.cluster(each).read('us-customers/smith')).toBeUndefined();
}

/** A promise that is settled from outside. */
export function signalled<T = void>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let settle: (value: T) => void = () => undefined;
  const promise = new Promise<T>((resolve) => {
    settle = resolve;
  });
  return { promise, resolve: settle };
}

/** Within this time a run that cannot go on by itself has parked and said so, on a slow machine too, ms. */
const PARKED_WITHIN_MS = 120_000;

/** Starts a switchover and does everything that people do before the outage. */
export async function underWay(scenario: Scenario, input: Readonly<Record<string, unknown>> = {}): Promise<TestRun> {
  const run = await scenario.start({ go: 'auto', ...input });
  await run.people({ go: false });
  return run;
}

/** Waits until the run has parked inside the outage, and sees that it did so in time and tells it without a worker too. */
export async function parksInTime(run: TestRun, step: string, after = 0): Promise<Parked> {
  const parked = await run.parks(step, after);
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
export function refusePromotion(scenario: Scenario, cluster: string, endpoint: string = CHANGING.promote): FaultHandle {
  scenario.limit({ promote: '1s' });
  at(scenario, 'before', cluster, endpoint, () => scenario.limit());
  return refuse(scenario, cluster, endpoint, 503);
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
  at(scenario, 'after', primary, endpoint, () => scenario.service.heal());
  // When it took effect is not known then, and what was seen of the clients before vouches for nothing.
  scenario.service.faults.add({ cluster: primary, endpoint, action: 'lose-answer' });
}

interface LateWrite {
  readonly key: string;
  readonly value: Readonly<Record<string, string | number>>;
  readonly endpoint?: string;
}

/** A primary that is written to all the time: between two looks more than nothing, however long the machine stood still. */
export function keepWriting({ service }: Pick<Scenario, 'service'>, cluster: string): () => void {
  const write = () => service.cluster(cluster).write('kv/busy', { at: service.now() });
  const timer = setInterval(() => {
    for (let entries = 0; entries < 5; entries += 1) write();
  }, 20);
  return () => clearInterval(timer);
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

/** Holds the nth such call (from 1) until it is let go. */
export function hold(
  scenario: Scenario,
  when: 'before' | 'after',
  cluster: string,
  endpoint: string,
  nth = 1,
): { readonly reached: Promise<void>; readonly letGo: () => void } {
  const [reached, over] = [signalled(), signalled()];
  const held = () => {
    reached.resolve();
    return over.promise;
  };
  at(scenario, when, cluster, endpoint, held, nth);
  return { reached: reached.promise, letGo: over.resolve };
}
