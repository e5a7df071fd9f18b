/**
 * Whom the server saw send a signal. The development server has no authentication, so the history is made here: each
 * event carries the principal as a server with authentication stamps it.
 */
import { defaultPayloadConverter } from '@temporalio/common';
import type { temporal } from '@temporalio/proto';
import type { Authority } from '../../src/contracts/activities';
import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';
import { envelopeOf } from '../support/people';

/** Grace and ada are attested by the server; henry signs. */
const ATTESTED: Readonly<Record<string, string>> = { grace: 'user:grace', ada: 'user:ada' };

function signaled(signalName: string, input: unknown, principal?: string): temporal.api.history.v1.IHistoryEvent {
  return {
    workflowExecutionSignaledEventAttributes: {
      signalName,
      input: { payloads: [defaultPayloadConverter.toPayload(input)] },
    },
    ...(principal === undefined ? {} : { principal: { type: 'jwt', name: principal } }),
  };
}

describe("the server's record of who sent a signal", () => {
  let bench: ActivityBench;
  let plan: Authority['plan'];
  beforeAll(async () => {
    bench = await ActivityBench.start({
      person: (name) =>
        ATTESTED[name] === undefined ? undefined : { attestation: 'principal', principal: ATTESTED[name] },
      deployment: { people: {} },
    });
    const assessed = await bench.call('assessDrSwitchover', { input: bench.input({ go: 'auto' }) });
    if (!assessed.plan) throw new Error('no plan');
    plan = assessed.plan;
  });
  afterAll(() => bench.stop());
  beforeEach(() => {
    bench.history = { events: [] };
  });

  const approval = (name: string, more = {}) => ({
    ...bench.run,
    gate: 'plan',
    planDigest: plan.digest,
    verdict: 'approve',
    comment: '',
    name,
    iat: 1,
    ...more,
  });
  const check = (arrived: readonly { arrival: number; input: unknown }[], options = {}, accepted: unknown[] = []) =>
    bench.call(
      'checkApprovals',
      {
        deployment: DEPLOYMENT,
        gate: 'plan',
        planDigest: plan.digest,
        requestedBy: 'olga',
        accepted,
        arrived: arrived.map((each) => ({ ...each, receivedAt: 1 })),
      },
      options,
    );

  it('lets an approval count: the n-th signal of a name is the n-th event of that name, with the same content', async () => {
    const own = approval('grace');
    bench.history = {
      events: [
        signaled('share', { some: 'share' }, 'user:ada'),
        signaled('approve', { not: 'this one' }, 'user:henry'),
        signaled('approve', own, 'user:grace'),
      ],
    };
    const seen = await check([{ arrival: 2, input: own }]);
    expect(seen).toMatchObject({
      satisfied: true,
      verdicts: [{ arrival: 2, accepted: true, by: { name: 'grace', how: 'principal' } }],
    });
    // It still counts when further approvals come, and the same person counts once.
    const later = await check([{ arrival: 2, input: own }], {}, [{ approval: own, arrival: 2 }]);
    expect(later).toMatchObject({ satisfied: true, verdicts: [{ code: 'repeated' }] });
  });

  it.each([
    ['somebody else sent it', 'user:henry', {}, 1, 'the server saw somebody else send it'],
    ['the server records nobody', undefined, {}, 1, 'is authentication on?'],
    ['the event says something else', 'user:grace', { comment: 'another' }, 1, 'no such signal with this content'],
    ['there is no such event', 'user:grace', {}, 2, 'no such signal with this content'],
  ] as const)('refuses an approval where %s', async (_why, principal, inHistory, arrival, why) => {
    const own = approval('grace');
    bench.history = { events: [signaled('approve', { ...own, ...inHistory }, principal)] };
    const { satisfied, verdicts } = await check([{ arrival, input: own }]);
    expect(satisfied).toBe(false);
    expect(verdicts).toMatchObject([{ accepted: false, text: expect.stringContaining(why) as string }]);
  });

  it('is not read by a local activity, and not at all where nobody needs it', async () => {
    const own = approval('grace');
    expect(await check([{ arrival: 1, input: own }], { local: true })).toMatchObject({
      needsSenders: true,
      verdicts: [],
      satisfied: false,
    });
    const signed = await bench.approval('plan', plan.digest, 'henry');
    const cheap = await check([{ arrival: 1, input: signed }], { local: true });
    expect(cheap).toMatchObject({ satisfied: true, verdicts: [{ by: { name: 'henry', how: 'signed' } }] });
    expect(cheap.needsSenders).toBeUndefined();
  });

  it('attests decisions', async () => {
    const decision = { ...bench.run, step: 'Demote east', parkingNo: 1, action: 'retry', reason: 'again', iat: 1 };
    const own = { ...decision, name: 'grace' };
    const decide = (principal: string | undefined) => {
      bench.history = { events: [signaled('decide', own, principal)] };
      return bench.call('checkDecisions', {
        deployment: DEPLOYMENT,
        parked: [{ step: 'Demote east', parkingNo: 1, choices: ['retry'] }],
        arrived: [{ arrival: 1, receivedAt: 1, input: own }],
      });
    };
    expect((await decide('user:grace')).verdicts).toMatchObject([{ accepted: true, by: { how: 'principal' } }]);
    expect((await decide(undefined)).verdicts).toMatchObject([{ accepted: false, code: 'refused' }]);
  });

  it('attests shares, and a holder without it learns why', async () => {
    const { fingerprint: _fingerprint, ...ceremony } = await bench.ceremony([
      { cluster: 'west', uses: ['dr.promote'] },
    ]);
    const own = await envelopeOf(bench.person('ada'), ceremony.invitation, bench.workersKey, { unsigned: true });
    const inspect = async (principal: string | undefined, options = {}) => {
      bench.history = { events: [signaled('share', own, principal)] };
      return bench.call(
        'inspectEnvelopes',
        { deployment: DEPLOYMENT, ceremony, arrived: [{ arrival: 1, receivedAt: Date.now(), input: own }] },
        options,
      );
    };
    expect((await inspect('user:ada', { local: true })).needsSenders).toBe(true);
    expect((await inspect('user:ada')).verdicts).toMatchObject([
      { code: 'accepted', holder: { name: 'ada', how: 'principal' } },
    ]);
    expect((await inspect('user:bert')).verdicts).toMatchObject([{ code: 'wrong-signer' }]);
    expect((await inspect(undefined)).verdicts).toMatchObject([
      { code: 'wrong-signer', text: expect.stringContaining('is authentication on?') as string },
    ]);
  });

  it('is read again by the activity that demotes: what arrives in its input proves nothing', async () => {
    const own = approval('grace');
    const demote = (approvals: readonly unknown[]) =>
      bench.failure('demoteDrPrimary', { deployment: DEPLOYMENT, cluster: 'east', authority: { plan, approvals } });
    // The bare document, a number without such a signal, and another person's signal.
    expect((await demote([own])).code).toBe('NOT_APPROVED');
    expect((await demote([{ approval: own, arrival: 1 }])).code).toBe('NOT_APPROVED');
    bench.history = { events: [signaled('approve', own, 'user:henry')] };
    expect((await demote([{ approval: own, arrival: 1 }])).code).toBe('NOT_APPROVED');
    expect(bench.calls('east', 'primary/demote')).toBe(0);

    bench.history = { events: [signaled('approve', own, 'user:grace')] };
    const authority = { plan, approvals: [{ approval: own, arrival: 1 }] };
    const done = await bench.call('demoteDrPrimary', { deployment: DEPLOYMENT, cluster: 'east', authority });
    expect(done.outcome).toBe('done');
  });
});
