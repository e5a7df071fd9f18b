import { randomUUID } from 'node:crypto';
import type { RunbookName } from '../../src/contracts/names';
import type { Scenario, TestRun } from './scenario';

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
  expect(await run.status()).toMatchObject({ runbook: 'drFailover', waiting: [] });
}
