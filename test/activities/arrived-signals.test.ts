/**
 * What people sent, and whom the server saw send it. The development server has no authentication, so the history is made
 * here: each event carries the principal as a server with authentication stamps it.
 */
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import { HeldShares } from '../../workflows/procedures/token-generation';
import { DEPLOYMENT, signaledEvent as signaled, drDemotion, openBench } from '../support/activity-environment';
import type { ActivityBench, SignedPlan } from '../support/activity-environment';
import { envelopeOf } from '../support/people';

/** Grace and ada are attested by the server; henry signs, and olga claims who she is. */
const ATTESTED: Readonly<Record<string, string>> = { grace: 'user:grace', ada: 'user:ada' };

describe('the record of the server about the sender of a signal', () => {
  let bench: ActivityBench;
  let plan: SignedPlan['plan'];
  openBench((opened) => (bench = opened), {
    person: (name) =>
      name === 'olga'
        ? { attestation: 'claimed' }
        : ATTESTED[name] === undefined
          ? undefined
          : { attestation: 'principal', principal: ATTESTED[name] },
    deployment: { people: {}, laboratory: true },
  });
  beforeAll(async () => {
    ({ plan } = await bench.authorityOf('drSwitchover', { to: 'west', go: 'auto' }));
  });
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
  const check = (arrived: readonly number[], accepted: readonly number[] = []) =>
    bench.call('checkApprovals', {
      deployment: DEPLOYMENT,
      gate: 'plan',
      planDigest: plan.digest,
      requestedBy: 'olga',
      accepted,
      arrived,
    });

  it('counts an approval: the n-th signal of a name is the n-th event of that name, with the same content', async () => {
    const own = approval('grace');
    bench.history = {
      events: [
        signaled('share', { some: 'share' }, 'user:ada'),
        signaled('approve', { not: 'this one' }, 'user:henry'),
        signaled('approve', own, 'user:grace'),
      ],
    };
    const seen = await check([2]);
    expect(seen).toMatchObject({
      satisfied: true,
      verdicts: [{ arrival: 2, accepted: true, by: { name: 'grace', how: 'principal' } }],
    });
    // It still counts when further approvals come, and the same person counts once.
    const later = await check([2], [2]);
    expect(later).toMatchObject({ satisfied: true, verdicts: [{ code: 'repeated' }] });
  });

  it.each([
    ['somebody else sent it', 'user:henry', 'the server recorded somebody else as its sender'],
    ['the server records nobody', undefined, 'is authentication on?'],
  ] as const)('refuses an approval if %s', async (_why, principal, why) => {
    bench.history = { events: [signaled('approve', approval('grace'), principal)] };
    const { satisfied, verdicts } = await check([1]);
    expect(satisfied).toBe(false);
    expect(verdicts).toMatchObject([{ accepted: false, text: expect.stringContaining(why) as string }]);
  });

  it('an approval that an input claims is read and verified again: it counts as the history has it, or not at all', async () => {
    bench.history = { events: [signaled('approve', approval('grace'), 'user:henry')] };
    expect((await check([], [1])).satisfied).toBe(false);
    expect((await check([], [2])).satisfied).toBe(false);
    await expect(check([2])).rejects.toThrow('no such signal');
  });

  it('has a type and a name: the same name with another type is a different sender', async () => {
    const sent = (type: string) => ({
      ...signaled('approve', approval('grace')),
      principal: { type, name: 'user:grace' },
    });
    bench.history = { events: [sent('certificate'), sent('jwt')] };
    const { verdicts } = await check([1, 2]);
    expect(verdicts).toMatchObject([
      { accepted: false, text: expect.stringContaining('the server recorded somebody else as its sender') as string },
      { accepted: true },
    ]);
  });

  it('attests decisions', async () => {
    const decision = { ...bench.run, step: 'Demote east', parkingNo: 1, action: 'retry', reason: 'again', iat: 1 };
    const own = { ...decision, name: 'grace' };
    const decide = (principal: string | undefined) => {
      bench.history = { events: [signaled('decide', own, principal)] };
      return bench.call('checkDecisions', {
        deployment: DEPLOYMENT,
        parked: [{ step: 'Demote east', parkingNo: 1, choices: ['retry'] }],
        arrived: [1],
      });
    };
    expect((await decide('user:grace')).verdicts).toMatchObject([{ accepted: true, by: { how: 'principal' } }]);
    expect((await decide(undefined)).verdicts).toMatchObject([{ accepted: false, code: 'refused' }]);
  });

  describe('of a share', () => {
    let ceremony: CeremonyHandle;
    let own: unknown;
    beforeAll(async () => {
      ceremony = await bench.ceremony([{ cluster: 'west', uses: ['dr.promote'] }]);
      own = await envelopeOf(bench.person('ada'), ceremony.invitation, bench.workersKey, { unsigned: true });
    });

    it.each([
      ['user:ada', { code: 'accepted', holder: { name: 'ada', how: 'principal' } }],
      ['user:bert', { code: 'wrong-signer' }],
      [undefined, { code: 'wrong-signer', text: expect.stringContaining('is authentication on?') as string }],
    ])(
      'attests shares, and the receipt of a holder without an attestation says why: %s',
      async (principal, verdict) => {
        bench.history = { events: [signaled('share', own, principal)] };
        const { verdicts } = await bench.call('openEnvelopes', {
          deployment: DEPLOYMENT,
          ceremony,
          held: [],
          arrived: [1],
        });
        expect(verdicts).toMatchObject([verdict]);
      },
    );

    it('is read again when a share is used: an envelope that nobody, or somebody else, sent makes no token', async () => {
      const others = await bench.envelopes(ceremony.invitation, ['bert', 'cleo']);
      const generate = (principal: string | undefined) => {
        const documents = others.map((document) => signaled('share', { document }));
        bench.history = { events: [signaled('share', own, principal), ...documents] };
        const held = new HeldShares();
        held.take(
          ['ada', 'bert', 'cleo'].map((name, index) => ({
            ...{ arrival: index + 1, code: 'accepted', text: '', holder: { name, how: 'signed' } },
          })),
        );
        const about = { deployment: DEPLOYMENT, cluster: 'west', ceremony, uses: ['dr.promote'] as const };
        return { ...about, envelopes: [], held };
      };
      for (const principal of [undefined, 'user:bert']) {
        const refused = await bench.generationFailure(generate(principal));
        expect(refused).toMatchObject({ code: 'SHARES_MISSING', details: { needed: '3' } });
        expect(refused.details['observed']).toContain('2; ada: refused: not sent or signed by the named holder');
      }
      expect(bench.calls('west', 'generate-operation-token/update')).toBe(0);
      expect(await bench.generate(generate('user:ada'))).toMatchObject({ token: expect.anything() as unknown });
    });
  });

  it('in a laboratory a claim that is pasted again counts from then: the first one is unverified too', async () => {
    const own = approval('olga');
    const longAgo = Date.now() - 9 * 3_600_000;
    const demote = () => bench.failure('demotePrimary', drDemotion({ plan, approvals: [own] }));
    bench.service.partition('east', 'west');
    bench.service.advanceClock(6_000);
    bench.history = { events: [signaled('approve', own, undefined, longAgo)] };
    expect((await demote()).code).toBe('NOT_APPROVED');
    bench.signaled('approve', [own]);
    // It gets as far as the next look.
    expect((await demote()).code).toBe('PRECONDITION_FAILED');
    bench.service.heal();
  });

  it('is read again by the activity that demotes: the values in its input are no proof', async () => {
    const own = approval('grace');
    const numbered = (...arrivals: readonly number[]) => drDemotion({ plan, approvals: { plan: arrivals } });
    const demote = (...arrivals: readonly number[]) => bench.failure('demotePrimary', numbered(...arrivals));
    // A document, which is no number; a number without such a signal; and another person's signal.
    expect((await demote(own as never)).code).toBe('INVALID_INPUT');
    expect((await demote(1)).code).toBe('NOT_APPROVED');
    bench.history = { events: [signaled('approve', own, 'user:henry')] };
    expect((await demote(1)).code).toBe('NOT_APPROVED');
    // Right for another gate only.
    bench.history = { events: [signaled('approve', { ...own, gate: 'go' }, 'user:grace')] };
    expect((await demote(1)).code).toBe('NOT_APPROVED');
    expect(bench.calls('east', 'primary/demote')).toBe(0);

    // Not read is not refused.
    bench.historyError = new Error('deadline exceeded');
    expect(await demote(1)).toMatchObject({ code: 'TEMPORAL_UNAVAILABLE', retryable: true });
    bench.historyError = undefined;

    // The same words are pasted again when people are asked again: each counts from the signal that it names.
    const longAgo = Date.now() - 9 * 3_600_000;
    bench.history = {
      events: [signaled('approve', own, 'user:grace', longAgo), signaled('approve', own, 'user:grace')],
    };
    expect((await demote(1)).code).toBe('NOT_APPROVED');
    const done = await bench.call('demotePrimary', numbered(2));
    expect(done.outcome).toBe('done');
  });
});
