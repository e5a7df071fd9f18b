/** Inside an outage a step that only reads, or that sent nothing, waits for no person: the old primary serves. */
import type { FailureFacts } from '../../workflows/engine/failures';
import { RunStopped, TakenOver, stepFailure } from '../../workflows/engine/failures';
import { changePrimary } from '../../workflows/procedures/change-primary';
import type { PrimaryChange } from '../../workflows/procedures/change-primary';
import { fakeRun } from '../support/fake-run';

jest.mock('../../workflows/procedures/service-back', () => ({ serviceBack: jest.fn() }));

const COMPARE = 'Compare the data of both clusters';
const READ = 'Read the roles';

const BOUNDED = { loss: 'bounded', why: 'the roots differ' };
const UNREACHABLE: FailureFacts = { code: 'UNREACHABLE', message: 'nobody answers', outcomeKnown: true };

interface Asked {
  readonly acceptLoss?: 'none' | 'bounded';
  readonly onStuck?: 'promote-back' | 'park';
  readonly compared?: object;
  /** The role of east where it is read. */
  readonly east?: string;
  /** Somebody rejects the gate that is asked again before the demotion, or takes the run over there. */
  readonly stopped?: RunStopped;
  /** Of a change of the DR primary, which needs a token. */
  readonly dr?: { readonly tokens: object; readonly promoteSecondary: unknown };
}

/**
 * A change whose steps fail so, one after the other; where a step parks it is tried again, and in the end left. The steps in
 * their order, which of them parked, and what was told.
 */
async function change(failing: Readonly<Record<string, readonly FailureFacts[]>>, given: Asked = {}) {
  const { acceptLoss = 'none', onStuck = 'promote-back', compared = {}, east, stopped, dr } = given;
  const observations = east === undefined ? [] : [{ cluster: 'east', performance: { mode: east } }];
  const calls = {
    demotePrimary: () => Promise.resolve({}),
    compareAfterDemotion: () => (compared instanceof Error ? Promise.reject(compared) : Promise.resolve(compared)),
    readDeployment: () => Promise.resolve({ observations }),
    promoteSecondary: dr?.promoteSecondary ?? (() => Promise.resolve({})),
  };
  const began: (number | undefined)[] = [];
  const state = { outageBegan: (since: number | undefined) => void began.push(since) };
  const { run, ...told } = fakeRun({ calls, failing, state });
  const asked = {
    ...{ kind: dr ? 'dr' : 'performance', tokens: dr?.tokens },
    ...{ deployment: 'payments', gate: 'promote', onStuck, acceptLoss },
    route: { from: 'east', to: 'west', hooks: {} },
    approvals: {
      begin: (_gate: string, body: (authority: object) => unknown) => (stopped ? Promise.reject(stopped) : body({})),
      authority: {},
    },
    marker: { wal: '7' },
    becamePrimary: () => undefined,
  } as unknown as PrimaryChange;
  const side = await changePrimary(run, asked).catch((error: unknown) => error);
  return { side, outageSince: run.state.outageSince, began, ...told };
}

it('a comparison that fails is no proof: the plan decides which cluster serves, at once', async () => {
  const back = await change({ [COMPARE]: [UNREACHABLE] });
  expect(back).toMatchObject({ side: 'old', steps: ['Demote east', COMPARE, READ, 'Promote east back'] });
  expect(back.findings).toEqual([expect.objectContaining({ code: 'loss-not-excluded' })]);
  expect(back.findings[0]?.text).toContain('accepts no loss, and it could not be proven that no data was lost');
  const on = await change({ [COMPARE]: [UNREACHABLE] }, { acceptLoss: 'bounded' });
  expect(on).toMatchObject({ side: 'new', steps: ['Demote east', COMPARE, 'Promote west'] });
  expect(on.findings).toEqual([expect.objectContaining({ code: 'loss-not-excluded' })]);
});

it('nor do unreadable roles block the way back: the promotion makes its own proof', async () => {
  const { side, steps } = await change({ [READ]: [UNREACHABLE] }, { compared: BOUNDED });
  expect([side, steps.at(-1)]).toEqual(['old', 'Promote east back']);
});

describe('a demotion that was refused', () => {
  const observed = { message: 'Clients still write to east.', observed: 'rose by 9' };
  const writes: FailureFacts = { ...observed, code: 'PRECONDITION_FAILED', outcomeKnown: true };
  const tooOld = { ...writes, code: 'NOT_APPROVED' };

  it.each([
    ['at once', [writes]],
    ['after approvals that were too old', [tooOld, writes]],
  ])('for certain, because of its observations, lets the old primary keep serving: %s', async (_, failures) => {
    const done = await change({ 'Demote east': failures }, { east: 'primary' });
    expect(done).toMatchObject({ side: 'old', steps: ['Demote east', READ] });
    expect(done.parked).toHaveLength(failures.length - 1);
    expect(done.findings).toEqual([expect.objectContaining({ code: 'not-demoted' })]);
    expect(done.findings[0]?.text).toContain('rose by 9');
  });

  const silent = { ...UNREACHABLE, cluster: 'west' };

  it.each(['CONFIRMATION_TIMEOUT', 'UNREACHABLE', 'REQUEST_TIMEOUT', 'NO_ACTIVE_NODE', 'SERVICE_SEALED'])(
    'because the candidate does not respond, by %s, lets the old primary keep serving',
    async (code) => {
      const done = await change({ 'Demote east': [{ ...silent, code }] }, { east: 'primary' });
      expect(done).toMatchObject({ side: 'old', steps: ['Demote east', READ], parked: [] });
      expect(done.findings).toEqual([expect.objectContaining({ code: 'not-demoted' })]);
    },
  );

  it('by a go that was asked again and rejected, lets the old primary keep serving', async () => {
    const done = await change({}, { east: 'primary', stopped: new RunStopped('henry', 'no') });
    expect(done).toMatchObject({ side: 'old', steps: ['Demote east', READ], parked: [], findings: [] });
  });

  it.each([
    ['may have been sent', [{ ...writes, outcomeKnown: false }], undefined],
    ['may have been sent by an earlier try', [{ ...UNREACHABLE, outcomeKnown: false }, writes], undefined],
    ['may have been sent, and the candidate does not respond', [{ ...silent, outcomeKnown: false }], undefined],
    ['may have been sent before a reset', [{ ...writes, code: 'RUN_WAS_RESET' }, silent], undefined],
    ['met an old primary that does not respond', [{ ...silent, cluster: 'east' }], undefined],
    ['was refused for another reason', [{ ...writes, code: 'PERMISSION_DENIED' }], undefined],
    ['was refused, and the input wants people to be asked', [writes], 'park'],
  ] as const)('parks if it %s', async (_, failures, onStuck) => {
    const done = await change({ 'Demote east': failures }, { east: 'primary', onStuck });
    expect(done).toMatchObject({ side: 'nowhere', parked: failures.map(() => 'Demote east') });
  });
});

describe('a failover that takes the run over', () => {
  const taken = new TakenOver({ reason: 'gone' } as never, 'grace');

  const told = [{ severity: 'critical', code: 'no-performance-primary' }];
  const since = expect.any(Number) as unknown;

  it('if the old primary was just confirmed to serve finds no outage, and raises no alarm', async () => {
    const done = await change({}, { stopped: taken, east: 'primary' });
    expect(done).toMatchObject({ side: taken, outageSince: undefined, findings: [], steps: ['Demote east', READ] });
  });

  it.each([
    ['was demoted', 'secondary', {}],
    ['cannot be read', undefined, { [READ]: [UNREACHABLE] }],
    ['is not reported by any node', undefined, {}],
  ])('if the old primary %s continues in the outage, and reports it', async (_, east, failing) => {
    const done = await change(failing, { stopped: taken, ...(east && { east }) });
    expect(done).toMatchObject({ side: taken, outageSince: since, findings: told });
    expect(done.began).toEqual([done.outageSince]);
  });

  it('after the demotion, for DR alone: reports that no cluster may be performance primary', async () => {
    expect(await change({}, { compared: taken })).toMatchObject({ side: taken, outageSince: since, findings: told });
  });
});

describe('a batch token that is refused', () => {
  const refused = stepFailure('PERMISSION_DENIED', 'It has ended.');
  const withBatchToken = () => {
    let source = 'batch';
    const tokens = {
      of: () => Promise.resolve({ source }),
      canReplace: () => source === 'batch',
      replaceRefused: () => Promise.resolve((source = 'sealed')),
    };
    const promoteSecondary = ({ cluster, token }: { readonly cluster: string; readonly token: { source: string } }) =>
      cluster === 'east' && token.source === 'batch' ? Promise.reject(refused) : Promise.resolve({});
    return { tokens, promoteSecondary };
  };

  it('on the way back, if no other source is left, is replaced by one of the holders', async () => {
    const done = await change({}, { compared: BOUNDED, dr: withBatchToken() });
    expect(done).toMatchObject({ side: 'old', parked: [] });
    expect(done.steps.slice(3)).toEqual(['Promote east back', 'Promote east back']);
  });

  const denied = { code: 'PERMISSION_DENIED', message: 'It has ended.', outcomeKnown: true };

  it.each([
    ['does not block until holders came: people may choose the way back, or repair it', [denied], 'batch'],
    ['again, if people chose to retry, is replaced by one of the holders', [denied, denied], 'sealed'],
  ])('by the new primary %s', async (_, refusals, source) => {
    const dr = withBatchToken();
    const done = await change({ 'Promote west': refusals }, { onStuck: 'park', compared: { loss: 'none' }, dr });
    expect(done).toMatchObject({ side: 'nowhere' });
    expect(done.parked[0]).toBe('Promote west');
    expect(await dr.tokens.of()).toEqual({ source });
  });
});
