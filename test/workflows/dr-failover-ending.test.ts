/** What a failover tells that ends before its promotion: who serves, and whom it cut off. */
import type { FailoverRoute } from '../../activities/plans/dr-failover';
import { ApplicationFailure } from '@temporalio/common';
import type { Authority } from '../../src/contracts/activities';
import { APPROVALS_TOO_OLD } from '../../src/contracts/plan';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { Approvals } from '../../workflows/engine/approvals';
import { approvePlan } from '../../workflows/procedures/approved-plan';
import { RunStopped } from '../../workflows/engine/failures';
import { passGate } from '../../workflows/engine/gates';
import { rolesOf } from '../../workflows/engine/left-to-do';
import { failOver } from '../../workflows/runbooks/dr-failover';
import { fakeRun } from '../support/fake-run';

jest.mock('../../workflows/procedures/approved-plan', () => ({ approvePlan: jest.fn() }));
jest.mock('../../workflows/engine/gates', () => ({ passGate: jest.fn() }));

const input = RUNBOOK_INPUTS.drFailover.parse({ deployment: 'payments', reason: 'a test' });
const ROUTE: FailoverRoute = {
  from: 'east',
  to: 'west',
  otherDrSecondaries: ['north'],
  silentDrSecondaries: ['south'],
  performanceSecondaries: [],
  silent: [],
  tokenSource: 'batch',
  kept: undefined,
  fencing: 'hook',
  snapshot: false,
  hooks: { release: false, traffic: false, probe: false },
  loss: { loss: 'unknown', why: 'a test' },
  findings: [],
};

const needs: unknown[] = [];

interface Early {
  readonly promote?: (asked: { readonly authority: Authority }) => Promise<unknown>;
  /** Who does not say whether it is primary. */
  readonly silent?: readonly string[];
  readonly lastHeardAt?: number;
  /** What the run knows of itself before, as one that is taken over. */
  readonly state?: object;
}

/** Ends right after the fence, as by an abort, with these DR primaries; gives what is told last. */
async function endsEarly(
  fence: (asked: { readonly authority: Authority }) => Promise<unknown>,
  primaries: readonly string[],
  { promote, silent = [], lastHeardAt, state }: Early = {},
) {
  const route = lastHeardAt === undefined ? ROUTE : { ...ROUTE, lastHeardAt };
  const modeOf = (cluster: string) => (primaries.includes(cluster) ? 'primary' : 'secondary');
  const observations = ['east', 'west', 'north', 'south', 'europe'].map((cluster) => ({
    cluster,
    ...(!silent.includes(cluster) && { dr: { mode: modeOf(cluster) } }),
  }));
  const calls = {
    awaitPrimaryGone: () => Promise.resolve({ observed: 'gone' }),
    fenceLostPrimary: fence,
    promoteSecondary: promote,
    readDeployment: () => Promise.resolve({ observations }),
  };
  const stopped = () => Promise.reject(new RunStopped('grace', 'enough'));
  const { run, findings, left, leftAt, end } = fakeRun({
    ...{ calls, state: { outageSince: 0, ...state } },
    run: promote ? {} : { outage: stopped },
  });
  left.add('Promote west, or promote east back', rolesOf('dr'));
  jest.mocked(approvePlan).mockImplementation(async (_run, request) => {
    await request.beforeGate?.(route);
    needs.push(request.tokens?.(ROUTE));
    const tokens = { of: () => Promise.resolve({ source: 'batch', cluster: 'west' }) };
    const policy = { approvals: 1, approvers: ['grace'], validForMs: 1 };
    const authority = { plan: { text: '', digest: '' }, approvals: {} };
    const approvals = new Approvals(run, input, { promote: policy }, authority);
    return { route, approvals, tokens } as never;
  });
  await expect(failOver(run, input)).rejects.toBeDefined();
  await end();
  const last = findings.at(-1);
  const said = left.texts.join(' ');
  expect(said).toContain(`${last?.text} ${last?.next}`);
  return { code: last?.code, said, leftAt, state: run.state };
}

const fenced = () => Promise.resolve({ outcome: 'done', observed: 'exit code 0' });
const failing = (outcomeKnown: boolean) => () =>
  Promise.reject(ApplicationFailure.create({ type: 'HOOK_FAILED', message: 'no', details: [{ outcomeKnown }] }));

it('a third member of the DR set that is primary is reported, and no one is sent to start again', async () => {
  const { code, said } = await endsEarly(fenced, ['north', 'europe']);
  expect(code).toBe('ended-early');
  expect(said).toContain('north reported being primary');
  expect(said).not.toContain('europe');
  expect(said).not.toContain('Start drFailover again');
});

it('if a cluster is primary the report does not ask to promote one, and one that does not respond stays isolated', async () => {
  const { said } = await endsEarly(fenced, ['west'], { silent: ['east'] });
  expect(said).toContain(
    'west reported being primary; east did not answer. Do not promote a cluster, and keep clients away from east',
  );
  expect(said).not.toContain('promote east back');
  expect((await endsEarly(fenced, [])).said).not.toContain('promote east back');
  expect((await endsEarly(fenced, [], { silent: ['east'] })).said).toContain('promote east back');
});

it('service that was back, in a run that was taken over, has ended again: clients have no primary', async () => {
  const outageBegan = jest.fn();
  const taken = { outageSince: 1_000, serviceBackAt: 5_000, outageBegan };
  expect((await endsEarly(fenced, [], { state: taken })).state.serviceBackAt).toBeUndefined();
  await endsEarly(fenced, [], { state: taken, lastHeardAt: 4_000 });
  await endsEarly(fenced, [], { state: taken, lastHeardAt: 9_000 });
  await endsEarly(fenced, [], { state: { outageSince: 1_000, outageBegan } });
  const why = expect.stringContaining('counted from the return of service') as string;
  const heard = 'the last heartbeat of east that a secondary received';
  expect(outageBegan.mock.calls).toEqual([
    [5_000, why],
    [5_000, why],
    [9_000, heard],
  ]);
});

it('approvals that are too old for the promotion are asked for again outside of the outage', async () => {
  const again = jest.mocked(passGate).mockResolvedValue({ promote: [2] });
  const tooOld = ApplicationFailure.create({
    type: 'NOT_APPROVED',
    message: 'too old',
    details: [{ about: APPROVALS_TOO_OLD, outcomeKnown: true }],
  });
  let tries = 0;
  const later = () => Promise.reject((tries += 1) === 1 ? tooOld : new RunStopped('grace', 'enough'));
  await endsEarly(fenced, [], { promote: later });
  expect([tries, again.mock.calls.map(([, { gate }]) => gate)]).toEqual([2, ['promote']]);
});

it('the holders are asked for every cluster that answers and may become the heir', () => {
  const uses = expect.arrayContaining(['dr.promote', 'dr.update-primary']) as unknown;
  const targets = ['west', 'north'].map((cluster) => ({ cluster, uses }));
  // Of a run that was taken over only what the promotion needs is asked for.
  const essential = { cluster: 'west', uses: ['dr.promote', 'dr.operation-token.delete'] };
  expect(needs[0]).toMatchObject({ targets, essential });
});

it('a cluster that the fence hook cut off is reported, and has to be unfenced if it shall serve', async () => {
  const gone = await endsEarly(fenced, []);
  expect(gone.code).toBe('no-primary');
  expect(gone.said).toContain('The fence hook of this run cut east off');
  expect(gone.said).toContain('bring east back and remove its fence');
  expect(gone.said).toContain('Remove the fence if east should serve again');
});

it('a fence hook whose outcome is unknown may have cut it off; one that was not begun did not', async () => {
  expect((await endsEarly(failing(false), [])).said).toContain('east may be cut off, completely or in part');
  expect((await endsEarly(failing(true), [])).said).not.toMatch(/fence hook/);
});
