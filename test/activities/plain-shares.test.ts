import { defaultPayloadConverter } from '@temporalio/common';
import { plainShareStep } from '../../src/contracts/plain-shares';
import type { DecisionAction } from '../../src/contracts/signals';
import { shareIn } from '../../activities/support/ceremony/plain-shares';
import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';
import { decisionOf } from '../support/people';

const TARGETS = [{ cluster: 'west', uses: ['dr.promote', 'dr.operation-token.delete'] }] as const;

describe('a key share in plain text, where it would be used', () => {
  let bench: ActivityBench;
  beforeEach(async () => {
    bench = await ActivityBench.start();
  });
  afterEach(() => bench.stop());

  const startedAs = (type: string, requestedBy?: string) => {
    const input = { payloads: [defaultPayloadConverter.toPayload({ requestedBy })] };
    const started = { workflowExecutionStartedEventAttributes: { workflowType: { name: type }, input } };
    bench.history = { events: [started, ...(bench.history.events ?? [])] };
  };
  const decides = async (
    name: string,
    arrival: number,
    more: {
      readonly action?: DecisionAction;
      readonly rid?: string;
      readonly by?: string;
      readonly parkingNo?: number;
    } = {},
  ) => {
    const { action = 'use-share', rid = bench.run.rid, by = name, parkingNo = 1 } = more;
    const step = plainShareStep(arrival);
    const signer = { ...bench.person(name), key: bench.person(by).key };
    const payload = { ...bench.run, rid, step, parkingNo, action };
    bench.signaled('decide', [await decisionOf(signer, payload)]);
  };
  /** Two sealed shares and a plain one in signal 1. */
  const burst = async () => {
    const ceremony = await bench.ceremony(TARGETS);
    const sealed = await bench.envelopes(ceremony.invitation, ['ada', 'bert']);
    const [plainShare = 0] = bench.signaled('share', [{ holder: 'emil', share: bench.person('emil').share }]);
    const input = { deployment: DEPLOYMENT, cluster: 'west', ceremony, uses: TARGETS[0].uses };
    return { ...input, envelopes: [...sealed, { plainShare }] };
  };

  it('is read from its signal where two approvers of gate promote accepted it, in a failover', async () => {
    const input = await burst();
    startedAs('drFailover');
    await decides('grace', 1);
    await decides('henry', 1);
    const { token } = await bench.call('generateOperationToken', input);
    expect(token).toMatch(/^eyJ/);
    expect(bench.calls('west', 'update')).toBe(3);
    expect(bench.leaks()).toEqual([]);
  });

  it.each([
    ['nobody accepted it', 'drFailover', () => Promise.resolve()],
    ['one accepted it twice', 'drFailover', async () => [await decides('grace', 1), await decides('grace', 1)]],
    ['they accepted another one', 'drFailover', async () => [await decides('grace', 2), await decides('henry', 2)]],
    [
      'they left it',
      'drFailover',
      async () => [await decides('grace', 1), await decides('henry', 1, { action: 'leave' })],
    ],
    ['a holder accepted it', 'drFailover', async () => [await decides('grace', 1), await decides('dora', 1)]],
    [
      'one signed for the other',
      'drFailover',
      async () => [await decides('grace', 1), await decides('henry', 1, { by: 'grace' })],
    ],
    [
      'it was in the run before a reset',
      'drFailover',
      async () => [await decides('grace', 1), await decides('henry', 1, { rid: 'an-earlier-run' })],
    ],
    [
      'each answered another question',
      'drFailover',
      async () => [await decides('grace', 1), await decides('henry', 1, { parkingNo: 2 })],
    ],
    ['it is no failover', 'drSwitchover', async () => [await decides('grace', 1), await decides('henry', 1)]],
  ] as const)('is refused where %s', async (_what, type, deciding) => {
    const input = await burst();
    startedAs(type);
    await deciding();
    expect(await bench.failure('generateOperationToken', input)).toMatchObject({ code: 'NOT_APPROVED' });
    expect(bench.calls('west', 'attempt')).toBe(0);
    expect(bench.leaks()).toEqual([]);
  });

  it('is refused where one of the two asked for the failover, unless further shares do without it', async () => {
    const input = await burst();
    startedAs('drFailover', 'henry');
    await decides('grace', 1);
    await decides('henry', 1);
    const failure = await bench.failure('generateOperationToken', input);
    expect(failure).toMatchObject({ code: 'NOT_APPROVED' });
    expect(failure.details['observed']).toContain('1 more approval');
    const [cleo = ''] = await bench.envelopes(input.ceremony.invitation, ['cleo']);
    const { token } = await bench.call('generateOperationToken', { ...input, envelopes: [...input.envelopes, cleo] });
    expect(token).toMatch(/^eyJ/);
  });

  it('is refused where a group of gate promote is not among them', async () => {
    const both = await ActivityBench.start({
      deployment: {
        gates: {
          plan: { approvals: 1, groups: ['approvers'], validFor: '4h' },
          go: { approvals: 1, groups: ['approvers'], validFor: '10m' },
          promote: { approvals: 2, groups: ['approvers', 'holders'], validFor: '4h' },
        },
      },
    });
    try {
      const first = bench;
      bench = both;
      const input = await burst();
      startedAs('drFailover');
      await decides('grace', 1);
      await decides('henry', 1);
      expect(await both.failure('generateOperationToken', input)).toMatchObject({ code: 'NOT_APPROVED' });
      await decides('dora', 1);
      expect((await both.call('generateOperationToken', input)).attempts).toBe(1);
      // The run is told the same, decision by decision, with who is still needed.
      const parked = [{ step: plainShareStep(1), parkingNo: 1, choices: ['use-share', 'leave'] as const }];
      const { verdicts } = await both.call('checkDecisions', { deployment: DEPLOYMENT, parked, arrived: [1, 2, 3] });
      const group = 'an approval by a member of holders';
      expect(verdicts.map(({ accepted, decision }) => [accepted, decision?.missing])).toEqual([
        [true, ['1 more approval out of approvers, holders', group]],
        [true, [group]],
        [true, []],
      ]);
      expect(verdicts[1]?.text).toContain(`still needed: ${group}`);
      bench = first;
    } finally {
      await both.stop();
    }
  });

  it('is told to be usable only where one share can be read, which nobody gave', async () => {
    const ceremony = await bench.ceremony(TARGETS);
    const held = await bench.envelopes(ceremony.invitation, ['ada']);
    const [ada, bert, emil] = ['ada', 'bert', 'emil'].map((name) => bench.person(name).share ?? '');
    const arrived = bench.signaled('share', [{ share: emil }, ada, { one: bert, other: emil }]);
    const { verdicts } = await bench.call('openEnvelopes', { deployment: DEPLOYMENT, ceremony, held, arrived });
    expect(verdicts.map(({ code, usable }) => [code, usable])).toEqual([
      ['plain-text-share', true],
      ['plain-text-share', false],
      ['plain-text-share', false],
    ]);
    expect(verdicts.map(({ eventId }) => typeof eventId)).toEqual(['number', 'number', 'number']);
    expect(bench.leaks()).toEqual([]);
  });

  it('is never accepted on a name that anybody may use, not even in a laboratory', async () => {
    const laboratory = await ActivityBench.start({
      deployment: { laboratory: true },
      person: (name) => (name === 'henry' ? { attestation: 'claimed' } : undefined),
    });
    try {
      const step = plainShareStep(1);
      const payload = { ...laboratory.run, step, parkingNo: 1, action: 'use-share' as const, reason: 'take it' };
      const claimed = { ...payload, name: 'henry', iat: 1 };
      const arrived = laboratory.signaled('decide', [
        claimed,
        await decisionOf(laboratory.person('dora'), payload),
        await decisionOf(laboratory.person('grace'), payload),
      ]);
      const parked = [{ step, parkingNo: 1, choices: ['use-share', 'leave'] as const }];
      const { verdicts } = await laboratory.call('checkDecisions', { deployment: DEPLOYMENT, parked, arrived });
      expect(verdicts.map(({ code }) => code)).toEqual(['not-an-approver', 'may-not-decide', 'accepted']);
    } finally {
      await laboratory.stop();
    }
  });

  it('the one share is found in whatever surrounds it, and nothing in what holds none', () => {
    const share = bench.person('ada').share ?? '';
    const base64 = Buffer.from(share, 'hex').toString('base64');
    for (const content of [share, share.toUpperCase(), base64, `my share: ${share}.`, { a: [{ b: base64 }] }])
      expect(shareIn(content)?.reveal()).toBe(share);
    for (const content of [
      undefined,
      7,
      'hello',
      { cid: '01963f2e-7c1b-7f3a-9b1c-0123456789ab' },
      [share, `00${share.slice(2)}`],
    ])
      expect(shareIn(content)).toBeUndefined();
  });

  it('the events of signals are told by name and number, those of unknown names too', async () => {
    bench.signaled('pause', [{}, {}]);
    const other = { workflowExecutionSignaledEventAttributes: { signalName: 'helo' } };
    bench.history = { events: [...(bench.history.events ?? []), { eventId: 99 as never, ...other }] };
    const signals = [
      { signal: 'pause', arrival: 2 },
      { signal: 'unknown', arrival: 1 },
    ] as const;
    const { events } = await bench.call('readSignalEvents', { signals });
    expect(events).toMatchObject([
      { signal: 'pause', arrival: 2 },
      { signal: 'unknown', arrival: 1, eventId: 99 },
    ]);
  });
});
