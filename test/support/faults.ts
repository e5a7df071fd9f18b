import type { FaultHandle, SimulatedCluster } from '../../src/simulator';
import { ROUTES } from '../../src/simulator/router';
import { callNode, until } from './by-hand';
import type { Parked, Scenario, TestRun } from './scenario';

const DR = '/v1/sys/replication/dr';

/** The changing calls of a switchover, in the form that faults use. */
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
 * Loses the answer of the first call, or the nth call (from 1), of each of these endpoints after the call took effect.
 * {@link expectLost} checks at the end that each answer was lost.
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

/** Checks that every answer that {@link loseAnswers} announced was lost. The lane of a test calls it at the end. */
export function expectLost({ losing }: Scenario): void {
  expect(losing.splice(0).filter(({ handle }) => handle.hits !== 1)).toEqual([]);
}

/** Makes a cluster refuse these calls, a number of times or until the fault is removed. */
export function refuse(scenario: Scenario, cluster: string, endpoint: string, status = 403, times = Infinity) {
  return scenario.service.faults.add({ cluster, endpoint, action: { status }, times });
}

/** Statuses of all calls of an endpoint on a cluster, in order; 0 if the connection was broken. */
export function statuses(scenario: Pick<Scenario, 'service'>, cluster: string, endpoint: string): number[] {
  return scenario.service.calls
    .filter((call) => call.cluster === cluster && `${call.method} ${call.path}` === endpoint)
    .map((call) => call.status);
}

/**
 * How often a changing endpoint was called on a cluster.
 *
 * @param endpoint - `POST` and the complete path, or the end of a path
 * @throws TypeError if the service has no such endpoint, so that no test waits for an impossible call
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
  if (!isServed) throw new TypeError(`the service has no changing endpoint ${endpoint}`);
  return calls.filter((call) => call.cluster === cluster && call.method !== 'GET' && call.path.endsWith(end)).length;
}

/** Names of the clusters with the role of DR primary, up or not. */
export function drPrimaries(scenario: Scenario): string[] {
  return [...scenario.service.clusters.values()]
    .map((cluster) => cluster.snapshotState())
    .filter((state) => state.dr.mode === 'primary')
    .map((state) => state.name);
}

/** Clusters that accept a client's write now. */
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

/** Exactly one cluster serves: it is the only DR primary, and only it accepts a client's write. */
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

/** Data that the primary's filter excludes reaches none of `filtered`; other data reaches `filtered` and `others`. */
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

/** A promise that the caller resolves. */
export function signalled<T = void>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let settle: (value: T) => void = () => undefined;
  const promise = new Promise<T>((resolve) => {
    settle = resolve;
  });
  return { promise, resolve: settle };
}

/** Time in ms within which a run that cannot continue by itself must have parked and reported it, even on a slow machine. */
const PARKED_WITHIN_MS = 120_000;

/** Starts a switchover and does everything that people do before the outage. */
export async function underWay(scenario: Scenario, input: Readonly<Record<string, unknown>> = {}): Promise<TestRun> {
  const run = await scenario.start({ go: 'auto', ...input });
  await run.people({ go: false });
  return run;
}

/** Waits until the run has parked in the outage; checks that it parked in time and that its memo shows it without a worker. */
export async function parksInTime(run: TestRun, step: string, after = 0): Promise<Parked> {
  const parked = await run.parks(step, after);
  const { outageSince, serviceBackAt } = await run.status();
  expect(outageSince).toBeDefined();
  expect((serviceBackAt ?? Date.now()) - (outageSince ?? 0)).toBeLessThan(PARKED_WITHIN_MS);
  const { memo } = await run.handle.describe();
  expect(memo?.['waitingFor']).toContain(parked.step);
  return parked;
}

/** The choices at a parked step. */
export function actions(parked: Parked): string[] {
  return parked.choices.map(({ action }) => action);
}

/**
 * Makes a cluster refuse its promotion, with a short limit, so that the step soon stops trying. After the first refusal
 * the usual limit applies again; a test that needs another short promotion must set the limit again.
 */
export function refusePromotion(scenario: Scenario, cluster: string, endpoint: string = CHANGING.promote): FaultHandle {
  scenario.limit({ promote: '1s' });
  at(scenario, 'before', cluster, endpoint, () => scenario.limit());
  return refuse(scenario, cluster, endpoint, 503);
}

/** Makes a write right before a demotion whose answer is lost: the demoted primary does not ship it, and its secondary never learns of it. */
export function writeRightBeforeDemotion(
  scenario: Scenario,
  primary: string,
  secondary: string,
  { key, value, endpoint = CHANGING.demote }: LateWrite,
): void {
  scenario.limit({ merkleEvidence: '1s' }, 'compareAfterDemotion');
  at(scenario, 'before', primary, endpoint, (cluster) => {
    // Cut the link first, so that the write cannot stream even if the machine pauses here.
    scenario.service.partition(primary, secondary);
    cluster.write(key, value);
  });
  at(scenario, 'after', primary, endpoint, () => scenario.service.heal());
  // With the answer lost, the time of the demotion is unknown, and earlier observations of the clients prove nothing.
  scenario.service.faults.add({ cluster: primary, endpoint, action: 'lose-answer' });
}

interface LateWrite {
  readonly key: string;
  readonly value: Readonly<Record<string, string | number>>;
  readonly endpoint?: string;
}

/** Writes to a primary continuously, so that every two reads differ, even if the machine pauses. @returns a function that stops it */
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

/** Holds the nth such call (from 1) until `letGo` is called. */
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
