/** Results of earlier runs that a later run believes: what no worker attested counts as unknown, and is said. */
import { defaultPayloadConverter } from '@temporalio/common';
import type { temporal } from '@temporalio/proto';
import { drFailoverInput } from '../../src/contracts/runbook-inputs';
import type { WalSampling } from '../../src/contracts/wal-samples';
import { walSamplerIdPrefix } from '../../src/contracts/wal-samples';
import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';

const input = () => drFailoverInput.parse({ deployment: DEPLOYMENT, reason: 'a test', requestedBy: 'olga' });
const sampled = (result: WalSampling) => ({
  workflowId: `${walSamplerIdPrefix(DEPLOYMENT)}1`,
  runId: 'sampled',
  result: { outcome: 'completed', result: JSON.parse(JSON.stringify(result)) as WalSampling },
});

describe('the loss bound of a failover', () => {
  let bench: ActivityBench;
  let sampling: WalSampling;
  beforeAll(async () => {
    bench = await ActivityBench.start({ limits: { primaryGone: '1s' } });
    sampling = await bench.call('sampleWal', { deployment: DEPLOYMENT, samples: 2, everyMs: 10 });
    bench.cluster('east').sealNode(0);
    bench.service.advanceClock(5_000);
  });
  afterAll(async () => {
    expect(bench.leaks()).toEqual([]);
    await bench.stop();
  });
  const assess = async (result?: WalSampling) => {
    bench.closedRuns = result === undefined ? [] : [sampled(result)];
    const { route, plan } = await bench.call('assessDrFailover', { input: input() });
    if (!route || !plan) throw new Error('no plan');
    return { loss: route.loss.loss, codes: route.findings.map(({ code }) => code), plan };
  };
  /** As if east had written far less than it had: "at most 0 entries". */
  const forged = (): WalSampling => ({
    ...sampling,
    samples: sampling.samples.map((sample) => ({
      ...sample,
      clusters: sample.clusters.map((each) =>
        each.cluster === 'east' && each.dr ? { ...each, dr: { ...each.dr, lastWal: '1' } } : each,
      ),
    })),
  });

  it('is not made smaller by a result that no worker attested: it counts as unknown, and is a finding', async () => {
    const { loss, codes } = await assess(forged());
    expect(loss).toBe('unknown');
    expect(codes).toContain('samples-not-attested');
  });

  it('rests on what the sampler attested', async () => {
    const { loss, codes } = await assess(sampling);
    expect(loss).toBe('bounded');
    expect(codes).not.toContain('samples-not-attested');
  });

  it('is not taken from another deployment or from a result whose mark belongs to another content', async () => {
    expect((await assess({ ...sampling, to: sampling.to + 1 })).loss).toBe('unknown');
    expect((await assess({ ...sampling, lags: [] })).loss).toBe('unknown');
  });

  it('is a part of the plan: people do not sign one loss and get another', async () => {
    const [unknown, bounded] = [await assess(), await assess(sampling)];
    expect(bounded.plan.digest).not.toBe(unknown.plan.digest);
    expect(unknown.plan.text).toContain('"loss":"unknown"');
    expect(bounded.plan.text).toContain('"loss":"bounded"');
    expect(bounded.plan.text).toContain('rounded up to a power of ten');
    // The same again later: what changes by itself is not in it.
    expect((await assess(sampling)).plan.digest).toBe(bounded.plan.digest);
  });
});

describe('the last change of the primary', () => {
  let bench: ActivityBench;
  beforeAll(async () => {
    bench = await ActivityBench.start({ limits: { coolDown: '10m' } });
  });
  afterAll(() => bench.stop());

  const closed = (history: temporal.api.history.v1.IHistory, result: object) => ({
    workflowId: `deployment:${DEPLOYMENT}`,
    runId: 'earlier',
    type: 'drSwitchover',
    closeTime: new Date(),
    result,
    history,
  });
  const promotion = (result: object, cluster = 'west'): temporal.api.history.v1.IHistory => ({
    events: [
      {
        eventId: 5 as never,
        activityTaskScheduledEventAttributes: {
          activityType: { name: 'promoteSecondary' },
          input: { payloads: [defaultPayloadConverter.toPayload({ deployment: DEPLOYMENT, cluster })] },
        },
      },
      {
        eventId: 6 as never,
        activityTaskCompletedEventAttributes: {
          scheduledEventId: 5 as never,
          result: { payloads: [defaultPayloadConverter.toPayload(result)] },
        },
      },
    ],
  });
  const coolDown = async (to = 'west') =>
    (await bench.call('assessDrSwitchover', { input: { ...bench.input(), to } })).preconditions.find(({ name }) =>
      name.startsWith('cool-down'),
    );

  it('is not made up by a result that no worker attested: it counts as unknown, and is said', async () => {
    const forged = { outcome: 'done', observed: 'east: primary', confirmedAt: Date.now(), calls: 1 };
    bench.closedRuns = [closed(promotion(forged), { outcome: 'completed' })];
    expect(await coolDown()).toMatchObject({
      verdict: 'warn',
      observed: expect.stringContaining('no worker attested') as string,
    });
  });

  it('is believed where the activity that promoted attested it, for this run and cluster alone', async () => {
    const authority = await bench.authority();
    const token = await bench.operationToken('west');
    await bench.call('demotePrimary', {
      kind: 'dr',
      otherCluster: 'west',
      deployment: DEPLOYMENT,
      cluster: 'east',
      authority,
    });
    const promoted = await bench.call('promoteSecondary', {
      kind: 'dr',
      mode: 'planned',
      ...{ deployment: DEPLOYMENT, cluster: 'west', otherCluster: 'east', token, authority },
    });
    const judged = (runId: string, cluster = 'west') => {
      bench.closedRuns = [{ ...closed(promotion(promoted, cluster), { outcome: 'completed' }), runId }];
      return coolDown('east');
    };
    expect(await judged(bench.run.rid)).toMatchObject({
      verdict: 'fail',
      observed: expect.stringContaining('drSwitchover') as string,
    });
    expect(await judged('another')).toMatchObject({ verdict: 'warn' });
    expect(await judged(bench.run.rid, 'east')).toMatchObject({ verdict: 'warn' });
  });
});

describe('readiness', () => {
  let bench: ActivityBench;
  beforeAll(async () => {
    bench = await ActivityBench.start();
  });
  afterAll(() => bench.stop());

  it('is compared only with a check that a worker attested; another one is named', async () => {
    const first = (await bench.call('assessReadiness', { deployment: DEPLOYMENT })).readiness;
    const closed = (result: object) => [{ workflowId: `readiness:${DEPLOYMENT}`, runId: 'before', result: { result } }];
    bench.closedRuns = closed(JSON.parse(JSON.stringify(first)) as object);
    const believed = (await bench.call('assessReadiness', { deployment: DEPLOYMENT })).readiness;
    expect(believed.comparedWith).toMatchObject({ runId: 'before', score: first.score });
    expect(believed.points.map(({ id }) => id)).not.toContain('attested-results');

    bench.closedRuns = closed({ ...first, score: 100 });
    const doubted = (await bench.call('assessReadiness', { deployment: DEPLOYMENT })).readiness;
    expect(doubted.comparedWith).toBeUndefined();
    expect(doubted.points).toContainEqual(expect.objectContaining({ id: 'attested-results', verdict: 'warn' }));
  });
});
