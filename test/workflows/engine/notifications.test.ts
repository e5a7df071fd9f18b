/** Whom a wait is told to, and how often. */
import type * as TemporalWorkflow from '@temporalio/workflow';
import type { Notification } from '../../../src/contracts/notifications';
import type { Waiting } from '../../../src/contracts/run-status';
import { Notifications } from '../../../workflows/engine/notifications';

const mockTold: string[] = [];
const mockCloses: (readonly string[] | undefined)[] = [];
/** Holds back the answer to an event. */
let mockHeld: { readonly event: string; readonly until: Promise<void> } | undefined;
let mockSeverity = '';
let mockOver = false;
jest.mock('@temporalio/workflow', () => ({
  ...jest.requireActual<typeof TemporalWorkflow>('@temporalio/workflow'),
  proxyActivities: () => ({
    notify: async ({ notification: { event, severity, closes } }: { readonly notification: Notification }) => {
      mockTold.push(event);
      mockCloses.push(closes);
      if (mockHeld?.event === event) await mockHeld.until;
      mockSeverity = severity;
      mockOver = event === 'escalation';
      return { failed: [] };
    },
  }),
  // Each time passes at once.
  condition: () => (mockHeld ? mockHeld.until.then(() => true) : Promise.resolve(mockOver)),
  CancellationScope: { nonCancellable: (body: () => unknown) => body() },
}));

const SITE = { events: ['waiting-for-people', 'escalation'], remindAfterMs: 0, escalateAfterMs: 0 } as const;

it.each([
  [{}, ['waiting-for-people', 'escalation']],
  [{ toldOnce: true }, ['waiting-for-people']],
] as const)('a wait %o is reported as %o', async (more, told) => {
  [mockTold.length, mockOver] = [0, false];
  const waiting: Waiting = { for: 'action', what: 'nodes are unsealed', instructions: [], ...more };
  const waits = new Map([['unseal', waiting]]);
  const state = { runbook: 'drSecondaryOnboarding', findings: [], waiting: waits, incident: {} };
  const notifications = new Notifications(state as never);
  notifications.begin({ ...SITE });
  await new Promise(setImmediate);
  expect(mockTold).toEqual(told);
});

it.each([
  ['critical', ['CRITICAL: west took no write.']],
  ['warning', ['Direct the clients manually.']],
  ['info', []],
] as const)('the end of a run is reported as %s if this is left to do: %j', async (severity, leftToDo) => {
  const findings = [{ severity: 'critical', code: 'write-not-proven', text: 'west took no write.' }];
  const notifications = new Notifications({
    runbook: 'drSwitchover',
    findings,
    waiting: new Map(),
    incident: {},
  } as never);
  notifications.begin({ ...SITE, events: ['finished'] });
  notifications.finished('completed', leftToDo);
  await new Promise(setImmediate);
  expect(mockSeverity).toBe(severity);
});

it('that a run finished is sent once its start was sent, although a target is slow', async () => {
  let release = () => {};
  mockHeld = { event: 'started', until: new Promise((resolve) => (release = resolve)) };
  mockTold.length = 0;
  const notifications = new Notifications({
    runbook: 'drSwitchover',
    findings: [],
    waiting: new Map(),
    incident: {},
  } as never);
  notifications.begin({ ...SITE, events: ['started', 'finished'] });
  notifications.finished('refused', []);
  await new Promise(setImmediate);
  expect(mockTold).toEqual(['started']);
  release();
  await new Promise(setImmediate);
  expect(mockTold).toEqual(['started', 'finished']);
  mockHeld = undefined;
});

describe('an alert at a target', () => {
  const PAGER = ['parked', 'outage-started', 'critical-finding'] as const;
  const waiting = { for: 'decision', step: 'Promote west', parkingNo: 1, choices: [] } as unknown as Waiting;
  const notificationsOf = (state: object) => {
    mockTold.length = 0;
    mockCloses.length = 0;
    mockHeld = undefined;
    const full = { runbook: 'drSwitchover', findings: [], waiting: new Map(), incident: {}, ...state };
    const notifications = new Notifications(full as never);
    notifications.begin({ ...SITE, events: [...PAGER], opens: [...PAGER] });
    return notifications;
  };
  const settled = () => new Promise(setImmediate);

  it.each([
    [{}, ['wait:parked:1', 'outage']],
    [{ serviceIsOut: true }, ['wait:parked:1']],
    [{ holdsClients: true }, ['wait:parked:1']],
  ] as const)('is closed at the end of a run, but no outage that continues: %j', async (state, closes) => {
    const notifications = notificationsOf(state);
    notifications.waitBegan('parked:1', waiting);
    notifications.phaseChanged('preparing', 'outage');
    notifications.finished('aborted', []);
    await settled();
    expect([mockTold.at(-1), mockCloses.at(-1)]).toEqual(['finished', closes]);
  });

  it('stays open if a token may exist that nobody holds, and is closed if nothing critical is left', async () => {
    const orphan = { severity: 'critical', code: 'orphan-token', text: 'A token may exist.' } as const;
    const critical = notificationsOf({ findings: [orphan] });
    critical.alarm(orphan);
    critical.finished('completed', ['A token may exist. Find it.']);
    await settled();
    // Nothing to close, and no target wants to hear of the end.
    expect(mockTold).toEqual(['critical-finding']);
    const settledOne = notificationsOf({});
    settledOne.alarm(orphan);
    settledOne.finished('completed', []);
    await settled();
    expect(mockCloses.at(-1)).toEqual(['finding:orphan-token']);
  });

  it('is closed only after it has arrived', async () => {
    const notifications = notificationsOf({});
    let arrive = (): void => undefined;
    mockHeld = { event: 'parked', until: new Promise((resolve) => (arrive = resolve)) };
    notifications.waitBegan('parked:1', waiting);
    notifications.waitOver('parked:1');
    await settled();
    expect(mockTold).toEqual(['parked']);
    arrive();
    await settled();
    expect(mockTold).toEqual(['parked', 'over']);
    // It is told once, and a wait that nobody was told of is not told at all.
    notifications.waitOver('parked:1');
    notifications.waitOver('shares');
    notifications.finished('completed', []);
    await settled();
    expect(mockTold).toEqual(['parked', 'over']);
  });
});
