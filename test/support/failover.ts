import { randomUUID } from 'node:crypto';
import type { RunbookName } from '../../src/contracts/names';
import { failoverInputDigest } from '../../src/keys';
import { demotePrimary, joinSet } from '../../src/simulator/roles';
import { until } from './by-hand';
import { writable } from './faults';
import type { Scenario, TestRun } from './scenario';

/** A failover waits only briefly for the silence of the primary; all other limits are long. */
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

/** Brings the lost primary back as a DR secondary of the new one, as after a rejoin, bypassing the HTTP interface. */
export async function bringBack(scenario: Scenario, former: string, primary: string): Promise<void> {
  const { service } = scenario;
  const [back, source] = [service.cluster(former), service.cluster(primary)];
  await back.restart();
  service.advance();
  if (back.role('dr').mode === 'primary') demotePrimary(back, 'dr');
  const role = source.role('dr');
  if (role.mode !== 'primary') throw new Error(`${primary} is not a primary`);
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
  // A write streams, so that the last remote WAL is meaningful.
  const stamp = { at: service.now() };
  source.write('kv/after-coming-back', stamp);
  await until('its write is there', () => {
    service.advance();
    return back.read('kv/after-coming-back')?.['at'] === stamp.at;
  });
}

/** Only this cluster accepts a client's write. The lost primary may still consider itself primary. */
export async function expectServesAlone(scenario: Scenario, cluster: string): Promise<void> {
  expect(scenario.service.cluster(cluster).snapshotState().dr.mode).toBe('primary');
  expect(await writable(scenario)).toEqual([cluster]);
}

/** The document with which an authorized person takes over a run, for a failover with this input. */
export async function takeOverBy(run: TestRun, input: object, name = 'grace'): Promise<string> {
  const inputDigest = failoverInputDigest(input);
  return (await run.controlDocument('takeOver', { inputDigest }, name)).document;
}

/**
 * A failover takes over the run, which becomes that failover in the same execution and then refuses, because the
 * primary is up. The failover itself is tested elsewhere.
 */
export async function expectTakenOver(scenario: Scenario, run: TestRun, runbook: RunbookName): Promise<void> {
  const { runId } = await run.handle.describe();
  const asked = { deployment: scenario.name, reason: 'is the primary gone?', requestedBy: 'olga' };
  const takeOverDocument = await takeOverBy(run, asked);
  const input = { ...asked, takeOver: true, takeOverDocument };
  const starter = await scenario.startRunbook('drFailover', input, `ui-${randomUUID()}`);
  expect(await starter.handle.result()).toMatchObject({ outcome: 'handed-over', runId, tookOver: runbook });
  expect(await run.failure()).toMatchObject({ code: 'PRECONDITION_FAILED' });
  // Not `refused`, which means that nothing was touched: the run may have changed something before.
  expect(await run.status()).toMatchObject({ runbook: 'drFailover', outcome: 'aborted', waiting: [] });
}
