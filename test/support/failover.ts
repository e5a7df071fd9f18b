import { randomUUID } from 'node:crypto';
import type { RunbookName } from '../../src/contracts/names';
import { demotePrimary, joinSet } from '../../src/simulator/roles';
import { until } from './by-hand';
import { writable } from './faults';
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
  await until(`${former} follows ${primary}`, () => {
    const { dr } = back.snapshotState();
    return dr.mode === 'secondary' && dr.state === 'stream-wals' && dr.connectedTo === primary;
  });
  // A write streams, so that the last remote WAL says something.
  const stamp = { at: service.now() };
  source.write('kv/after-coming-back', stamp);
  await until('its write is there', () => {
    service.advance();
    return back.read('kv/after-coming-back')?.['at'] === stamp.at;
  });
}

/** Only this cluster takes a client's write. The lost primary may still believe to be one. */
export async function expectServesAlone(scenario: Scenario, cluster: string): Promise<void> {
  expect(scenario.service.cluster(cluster).snapshotState().dr.mode).toBe('primary');
  expect(await writable(scenario)).toEqual([cluster]);
}

/** The document with which somebody who may decide takes a run over. */
export async function takeOverBy(run: TestRun, name = 'grace'): Promise<string> {
  return (await run.controlDocument('takeOver', {}, name)).document;
}

/**
 * A failover takes the run over, which becomes that failover in the same execution, and then refuses: the primary is
 * there. What the failover itself does is tested with it.
 */
export async function expectTakenOver(scenario: Scenario, run: TestRun, runbook: RunbookName): Promise<void> {
  const { runId } = await run.handle.describe();
  const takeOverDocument = await takeOverBy(run);
  const asked = { deployment: scenario.name, reason: 'is the primary gone?', requestedBy: 'olga' };
  const input = { ...asked, takeOver: true, takeOverDocument };
  const starter = await scenario.startRunbook('drFailover', input, `ui-${randomUUID()}`);
  expect(await starter.handle.result()).toMatchObject({ outcome: 'handed-over', runId, tookOver: runbook });
  expect(await run.failure()).toMatchObject({ code: 'PRECONDITION_FAILED' });
  // Refused says that nothing was touched: what the run was before may have changed something.
  expect(await run.status()).toMatchObject({ runbook: 'drFailover', outcome: 'aborted', waiting: [] });
}
