import type { Client } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { createPeopleActivities } from '../../activities/people';
import type { ActivityDependencies } from '../../activities/dependencies';
import type { DecisionAction } from '../../src/contracts/signals';
import { parseInventory } from '../../src/inventory';
import { signDecision } from '../../src/secrets';
import { adaKey, EXAMPLE } from '../inventory/example';
import { signaledEvent } from '../support/activity-environment';

const RUN = { ns: 'default', wid: 'deployment:payments', rid: 'run-1' };
const CHOICES: DecisionAction[] = ['retry', 'skip', 'abort', 'promote-back', 'leave'];

/** The verdict on a decision of ben, who is only claimed, or of ada, who signs. */
async function verdictOn(
  action: DecisionAction,
  name: 'ada' | 'ben',
  laboratory: boolean,
): Promise<string | undefined> {
  const text = laboratory ? EXAMPLE.replace('  payments:\n', '  payments:\n    laboratory: true\n') : EXAMPLE;
  // Checking a decision uses nothing but the inventory.
  const dependencies = { inventory: parseInventory(text, 'example') } as unknown as ActivityDependencies;
  const decision = { ...RUN, step: 'Promote west', parkingNo: 1, action, reason: 'decided in a test', name, iat: 1 };
  const sent = name === 'ada' ? { document: await signDecision(decision, adaKey) } : decision;
  const fetchHistory = () => Promise.resolve({ events: [signaledEvent('decide', sent)] });
  const withAbortSignal = <T>(_signal: unknown, body: () => Promise<T>) => body();
  const environment = new MockActivityEnvironment(
    { workflowNamespace: RUN.ns, workflowExecution: { workflowId: RUN.wid, runId: RUN.rid } },
    { client: { withAbortSignal, workflow: { getHandle: () => ({ fetchHistory }) } } as unknown as Client },
  );
  const { checkDecisions } = createPeopleActivities(dependencies);
  const input: Parameters<typeof checkDecisions>[0] = {
    deployment: 'payments',
    parked: [{ step: 'Promote west', parkingNo: 1, choices: CHOICES }],
    arrived: [1],
  };
  const { verdicts } = await environment.run<
    [typeof input],
    Awaited<ReturnType<typeof checkDecisions>>,
    typeof checkDecisions
  >(checkDecisions, input);
  expect(verdicts).toHaveLength(1);
  return verdicts[0]?.code;
}

describe('a decision about a parked step', () => {
  it.each(['skip', 'leave'] as const)('to %s never rests on a claimed name, except in a laboratory', async (action) => {
    expect(await verdictOn(action, 'ben', false)).toBe('only-claimed');
    expect(await verdictOn(action, 'ada', false)).toBe('accepted');
    expect(await verdictOn(action, 'ben', true)).toBe('accepted');
  });

  it.each(['retry', 'abort', 'promote-back'] as const)(
    'to %s may be claimed where the inventory lets the person',
    async (action) => {
      expect(await verdictOn(action, 'ben', false)).toBe('accepted');
    },
  );
});
