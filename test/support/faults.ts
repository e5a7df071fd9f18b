import type { FaultHandle, SimulatedCluster } from '../../src/simulator';
import { callNode } from './by-hand';
import type { Scenario } from './scenario';

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

/** Lets the nth matching call (from 1) take effect and loses its answer. */
export function loseAnswer(scenario: Scenario, cluster: string, endpoint: string, nth = 1): FaultHandle {
  return scenario.service.faults.add({ cluster, endpoint, action: 'lose-answer', skip: nth - 1 });
}

/** Statuses of all calls of an endpoint on a cluster, in order; 0 where the connection was broken. */
export function statuses(scenario: Pick<Scenario, 'service'>, cluster: string, endpoint: string): number[] {
  return scenario.service.calls
    .filter((call) => call.cluster === cluster && `${call.method} ${call.path}` === endpoint)
    .map((call) => call.status);
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

/** A promise that is settled from outside. */
export function signalled<T = void>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let settle: (value: T) => void = () => undefined;
  const promise = new Promise<T>((resolve) => {
    settle = resolve;
  });
  return { promise, resolve: settle };
}
