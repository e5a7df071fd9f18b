/** Whom a wait is told to, and how often. */
import type * as TemporalWorkflow from '@temporalio/workflow';
import type { Notification } from '../../../src/contracts/notifications';
import type { Waiting } from '../../../src/contracts/run-status';
import { Notifications } from '../../../workflows/engine/notifications';

const mockTold: string[] = [];
let mockSeverity = '';
let mockOver = false;
/** Holds what is told, and what is waited for, until it is released. */
let mockHeld: Promise<void> | undefined;
jest.mock('@temporalio/workflow', () => ({
  ...jest.requireActual<typeof TemporalWorkflow>('@temporalio/workflow'),
  proxyActivities: () => ({
    notify: ({ notification: { event, severity } }: { readonly notification: Notification }) => {
      mockTold.push(event);
      mockSeverity = severity;
      mockOver = event === 'escalation';
      return (mockHeld ?? Promise.resolve()).then(() => ({ failed: [] }));
    },
  }),
  // Each time passes at once.
  condition: () => (mockHeld ? mockHeld.then(() => true) : Promise.resolve(mockOver)),
  CancellationScope: { nonCancellable: (body: () => unknown) => body() },
}));

const SITE = { events: ['waiting-for-people', 'escalation'], remindAfterMs: 0, escalateAfterMs: 0 } as const;

it.each([
  [{}, ['waiting-for-people', 'escalation']],
  [{ toldOnce: true }, ['waiting-for-people']],
] as const)('a wait %o is told as %o', async (more, told) => {
  [mockTold.length, mockOver] = [0, false];
  const waiting: Waiting = { for: 'action', what: 'nodes are unsealed', instructions: [], ...more };
  const state = { runbook: 'drSecondaryOnboarding', findings: [], waiting: new Map([['unseal', waiting]]) };
  const notifications = new Notifications(state as never);
  notifications.begin({ ...SITE });
  await new Promise(setImmediate);
  expect(mockTold).toEqual(told);
});

it.each([
  ['critical', ['CRITICAL: west took no write.']],
  ['warning', ['Direct the clients manually.']],
  ['info', []],
] as const)('the end of a run is told as %s where this is left to do: %j', async (severity, leftToDo) => {
  const findings = [{ severity: 'critical', code: 'write-not-proven', text: 'west took no write.' }];
  const notifications = new Notifications({ runbook: 'drSwitchover', findings, waiting: new Map() } as never);
  notifications.begin({ ...SITE, events: ['finished'] });
  notifications.finished('completed', leftToDo);
  await new Promise(setImmediate);
  expect(mockSeverity).toBe(severity);
});

it('that a run finished is told once it was told that it started, although a target is slow', async () => {
  let release = () => {};
  mockHeld = new Promise((resolve) => (release = resolve));
  mockTold.length = 0;
  const notifications = new Notifications({ runbook: 'drSwitchover', findings: [], waiting: new Map() } as never);
  notifications.begin({ ...SITE, events: ['started', 'finished'] });
  notifications.finished('refused', []);
  await new Promise(setImmediate);
  expect(mockTold).toEqual(['started']);
  release();
  await new Promise(setImmediate);
  expect(mockTold).toEqual(['started', 'finished']);
  mockHeld = undefined;
});
