import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';

const TARGETS = [{ cluster: 'west', uses: ['dr.promote', 'dr.operation-token.delete'] }] as const;

describe('a key share in plain text', () => {
  let bench: ActivityBench;
  beforeEach(async () => {
    bench = await ActivityBench.start();
  });
  afterEach(() => bench.stop());

  it.each([
    ['its number', (plainShare: number) => ({ plainShare })],
    ['itself', () => ({ holder: 'emil', share: bench.person('emil').share })],
  ])('makes no token beside sealed ones: %s in the place of an envelope', async (_what, inPlaceOf) => {
    const ceremony = await bench.ceremony(TARGETS);
    const sealed = await bench.envelopes(ceremony.invitation, ['ada', 'bert']);
    const [arrival = 0] = bench.signaled('share', [{ holder: 'emil', share: bench.person('emil').share }]);
    const input = { deployment: DEPLOYMENT, cluster: 'west', ceremony, uses: TARGETS[0].uses };
    const failure = await bench.generationFailure({
      ...input,
      envelopes: [...sealed, inPlaceOf(arrival)],
    });
    expect(failure).toMatchObject({ code: 'SHARES_MISSING' });
    expect(failure.details['observed']).toMatch(/^2/);
    expect(bench.calls('west', 'attempt')).toBe(0);
    expect(bench.leaks()).toEqual([]);
  });

  it('is refused, and its event is told', async () => {
    const ceremony = await bench.ceremony(TARGETS);
    const held = await bench.envelopes(ceremony.invitation, ['ada']);
    const [ada, bert, emil] = ['ada', 'bert', 'emil'].map((name) => bench.person(name).share ?? '');
    const arrived = bench.signaled('share', [{ share: emil }, ada, { one: bert, other: emil }]);
    const { verdicts } = await bench.call('openEnvelopes', {
      ...{ deployment: DEPLOYMENT, ceremony, held: bench.shares(held).arrivals },
      arrived,
    });
    expect(verdicts.map(({ code, eventId }) => [code, typeof eventId])).toEqual(
      arrived.map(() => ['plain-text-share', 'number']),
    );
    expect(bench.leaks()).toEqual([]);
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
