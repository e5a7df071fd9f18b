import { setTimeout as delay } from 'node:timers/promises';
import { demotePrimary, joinSet } from '../../src/simulator/roles';
import { writable } from './faults';
import { WAIT_MS } from './scenario';
import type { Scenario, TestRun } from './scenario';

/** The silence that a failover waits for is one that tests can wait out; whatever else bounds has time. */
export const FAILOVER_LIMITS = { primaryGone: '1s' } as const;

/** Starts a failover of a deployment whose primary is gone. */
export function startFailover(scenario: Scenario, input: Readonly<Record<string, unknown>> = {}): Promise<TestRun> {
  return scenario.run('drFailover', input);
}

/** Everything that people do in a failover without a fault. */
export async function failoverPeople(run: TestRun, shares: readonly string[] = ['ada', 'bert', 'cleo']): Promise<void> {
  for (const holder of shares) await run.share(holder);
  await run.approve('promote');
}

/** Brings the lost primary back as DR secondary of the new one, past every interface: what a rejoin leaves. */
export async function bringBack(scenario: Scenario, former: string, primary: string): Promise<void> {
  const { service } = scenario;
  const [back, source] = [service.cluster(former), service.cluster(primary)];
  await back.restart();
  service.advance();
  if (back.role('dr').mode === 'primary') demotePrimary(back, 'dr');
  const role = source.role('dr');
  if (role.mode !== 'primary') throw new Error(`${primary} is no primary`);
  const certificate = `${former}-${service.now()}`;
  const known = { id: back.clusterId, certificate, activated: true };
  const others = role.knownSecondaries.filter(({ id }) => id !== back.clusterId);
  source.setRole('dr', { ...role, knownSecondaries: [...others, known] }, service.now());
  joinSet(back, 'dr', {
    setId: role.setId,
    secondaryId: back.clusterId,
    certificate,
    primaryClusterAddress: source.clusterAddress,
    source,
  });
  // A write streams, so that the last remote WAL says something.
  const stamp = { at: service.now() };
  const deadline = Date.now() + WAIT_MS;
  for (let written = false; JSON.stringify(back.read('kv/after-coming-back')) !== JSON.stringify(stamp);) {
    const { dr } = back.snapshotState();
    if (!written && dr.mode === 'secondary' && dr.state === 'stream-wals' && dr.connectedTo === primary) {
      source.write('kv/after-coming-back', stamp);
      written = true;
    }
    if (Date.now() > deadline) throw new Error(`${former} does not follow ${primary}: ${JSON.stringify(dr)}`);
    await delay(20);
  }
}

/** Only this cluster takes a client's write. The lost primary may still believe to be one. */
export async function expectServesAlone(scenario: Scenario, cluster: string): Promise<void> {
  expect(scenario.service.cluster(cluster).snapshotState().dr.mode).toBe('primary');
  expect(await writable(scenario)).toEqual([cluster]);
}
