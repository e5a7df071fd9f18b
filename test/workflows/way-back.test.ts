/** Nobody is asked for key shares in the outage: what a way back needs is in hand when the demotion begins. */
import * as workflows from '../../workflows';
import { RUNBOOK_NAMES, deploymentWorkflowId, lockWorkflowId } from '../../src/contracts/names';
import type { RunbookName } from '../../src/contracts/names';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { drSwitchover } from '../../workflows/runbooks/dr-switchover';
import { performancePromotion } from '../../workflows/runbooks/performance-promotion';
import { approvePlan } from '../../workflows/procedures/approved-plan';
import { RunStopped } from '../../workflows/engine/failures';
import type { Run } from '../../workflows/engine/run';
import { changePrimary } from '../../workflows/procedures/change-primary';
import { fakeRun } from '../support/fake-run';

jest.mock('../../workflows/procedures/approved-plan', () => ({
  ...jest.requireActual<object>('../../workflows/procedures/approved-plan'),
  approvePlan: jest.fn(),
}));
let mockRun: Run;
type Body = (run: Run, input: unknown) => Promise<unknown>;
jest.mock('../../workflows/engine/runbook', () => {
  // Which runbooks a failover may take over.
  const takenOver: string[] = [];
  const runbook = (name: string, body: Body, more: object = {}) => {
    if ('failOver' in more) takenOver.push(name);
    return (input: unknown) => body(mockRun, input);
  };
  return { runbook, runbookInParts: runbook, takenOver };
});
jest.mock('../../workflows/procedures/change-primary', () => ({
  ...jest.requireActual<object>('../../workflows/procedures/change-primary'),
  changePrimary: jest.fn(),
}));

const ENDED = { notAfter: '2026-01-01T00:00:00Z' };

/** A change whose key shares are to be had for so long; in which order things happen. */
async function change(
  runbook: (input: unknown) => Promise<unknown>,
  { leftMs = 3_600_000, ...more }: { leftMs?: number; input?: object; route?: object },
): Promise<readonly string[]> {
  const [marker, done] = [{ wal: '7', reached: '7' }, () => Promise.resolve({})];
  const calls = { writeMarker: () => Promise.resolve(marker), takeSnapshot: done, runHook: done };
  const { run, steps: happened } = fakeRun({ calls });
  mockRun = run;
  const tokens = {
    of: (cluster: string) => Promise.resolve(void happened.push(`token of ${cluster}`)),
    lastsFor: (ms: number) => ms < leftMs,
    ceremony: { collectAgain: () => Promise.resolve(void happened.push('shares')) },
  };
  const between = { from: 'east', to: 'west', candidate: {}, otherDrSecondaries: [], performanceSecondaries: [] };
  const route = { ...between, tokenSource: 'ceremony', quiesce: 'attested', hooks: {}, ...more.route };
  jest.mocked(approvePlan).mockResolvedValue({ route, approvals: {}, tokens } as never);
  jest.mocked(changePrimary).mockImplementation(() => {
    happened.push('outage');
    return Promise.resolve('nowhere');
  });
  await runbook({ deployment: 'payments', go: 'auto', mode: 'planned', ...more.input }).catch((error: unknown) =>
    happened.push(String(error)),
  );
  return happened;
}
const switchOver = (leftMs: number) => change(drSwitchover, { leftMs });

const CAUGHT_UP = 'Write a marker on east and wait until west has it';

it('key shares that expired during a parked step are collected again before the demotion', async () => {
  expect(await switchOver(30_000)).toEqual([CAUGHT_UP, 'shares', 'token of west', 'outage']);
});

it('those that are still valid are not asked for again', async () => {
  expect(await switchOver(3_600_000)).toEqual([CAUGHT_UP, 'token of west', 'outage']);
});

const WITH_SNAPSHOT = { snapshot: true, quiesce: 'hook', hooks: { release: true } };

it('after a snapshot, which may take hours, shares are asked for before clients are quiesced', async () => {
  const happened = await change(drSwitchover, { leftMs: 120_000, route: WITH_SNAPSHOT });
  expect(happened.slice(0, 3)).toEqual(['Take a snapshot of east', 'shares', 'Quiesce clients']);
});

describe.each([
  ['a switchover', drSwitchover],
  ['a planned performance promotion', performancePromotion],
])('%s whose change window ended', (_, runbook) => {
  const ended = expect.stringContaining('the change window ended') as string;

  it('during the snapshot quiesces no clients', async () => {
    const happened = await change(runbook, { input: { window: ENDED }, route: WITH_SNAPSHOT });
    expect(happened).toEqual(['Take a snapshot of east', ended]);
  });

  it('once the secondary has caught up demotes no cluster', async () => {
    const happened = await change(runbook, { input: { window: ENDED } });
    expect(happened[0]).toBe(CAUGHT_UP);
    expect(happened.at(-1)).toEqual(ended);
    expect(happened).not.toContain('outage');
  });
});

describe('every runbook that changes something', () => {
  const takeWindow = RUNBOOK_NAMES.filter((name) => 'window' in RUNBOOK_INPUTS[name].shape);
  // A run without any step: what tries one fails otherwise.
  const atItsGate = () => ({ run: mockRun } = fakeRun({ run: { step: undefined, skippableStep: undefined } }));
  const input = { deployment: 'payments', uses: [], window: ENDED };

  it.each(takeWindow)('%s takes a change window: approved operations are not begun after it', async (name) => {
    atItsGate();
    let asked: unknown;
    jest.mocked(approvePlan).mockImplementation((_run, request: { readonly input: object }) => {
      asked = request.input;
      return Promise.resolve({ outcome: 'aborted' });
    });
    expect(await workflows[name](input)).toEqual({ outcome: 'aborted' });
    expect(asked).toMatchObject({ window: ENDED });
  });

  it.each(takeWindow)('%s is stopped at its gate without a change', async (name) => {
    atItsGate();
    const stopped = new RunStopped('grace', 'not today');
    jest.mocked(approvePlan).mockRejectedValue(stopped);
    await expect(workflows[name](input)).rejects.toBe(stopped);
  });

  it('is recognized by that; a failover takes over those that hold the lock of a deployment', () => {
    const others = RUNBOOK_NAMES.filter((name) => !takeWindow.includes(name));
    expect(others).toEqual(['ceremonyRehearsal', 'readiness', 'deploymentStatus', 'walSampler']);
    const { takenOver } = jest.requireMock<{ readonly takenOver: readonly string[] }>('../../workflows/engine/runbook');
    const lockOf = (name: RunbookName) => lockWorkflowId(name, { deployment: 'payments', cluster: 'west' });
    const ofDeployment = RUNBOOK_NAMES.filter((name) => lockOf(name) === deploymentWorkflowId('payments'));
    expect(new Set([...takenOver, 'drFailover'])).toEqual(new Set(ofDeployment));
  });
});
