/** Results of earlier runs that a later run believes: what no worker attested counts as unknown, and is said. */
import type { WalSampling } from '../../src/contracts/observations';
import { walSamplerIdPrefix } from '../../src/contracts/observations';
import pino from 'pino';
import { notePrimaryChange } from '../../activities/roles/primary-changes';
import { Clusters } from '../../activities/clusters';
import type { ClusterAccess } from '../../activities/clusters';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

const sampled = (result: WalSampling) => ({
  workflowId: `${walSamplerIdPrefix(DEPLOYMENT)}1`,
  runId: 'sampled',
  result: { outcome: 'completed', result: JSON.parse(JSON.stringify(result)) as WalSampling },
});

describe('the loss bound of a failover', () => {
  let bench: ActivityBench;
  let sampling: WalSampling;
  openBench((opened) => (bench = opened), { limits: { primaryGone: '1s' } });
  beforeAll(async () => {
    sampling = await bench.call('sampleWal', { deployment: DEPLOYMENT, samples: 2, everyMs: 10 });
    bench.cluster('east').sealNode(0);
    bench.service.advanceClock(5_000);
  });
  const assess = async (result?: WalSampling) => {
    bench.closedRuns = result === undefined ? [] : [sampled(result)];
    const { route, plan } = await bench.assess('drFailover');
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

  it('rests on attested samples of the sampler', async () => {
    const { loss, codes } = await assess(sampling);
    expect(loss).toBe('bounded');
    expect(codes).not.toContain('samples-not-attested');
  });

  it('is not taken from another deployment or from a result whose mark belongs to other content', async () => {
    expect((await assess({ ...sampling, to: sampling.to + 1 })).loss).toBe('unknown');
    expect((await assess({ ...sampling, from: 0 })).loss).toBe('unknown');
  });

  it('is sampled fewer times of many clusters, so that Temporal accepts the result', async () => {
    const silent = { entry: { name: 'any' }, client: { forgetActiveNode: () => undefined } };
    const all = jest.spyOn(Clusters.prototype, 'all').mockReturnValue(Array(900).fill(silent) as ClusterAccess[]);
    const { samples } = await bench.call('sampleWal', { deployment: DEPLOYMENT, samples: 200, everyMs: 0 });
    all.mockRestore();
    expect(samples).toHaveLength(2);
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
  openBench((opened) => (bench = opened), { limits: { coolDown: '10m' } });

  const coolDown = async (to = 'west') =>
    (await bench.assess('drSwitchover', { to })).preconditions.find(({ name }) => name.startsWith('cool-down'));

  it('is read from the note of the promoting activity in the record', async () => {
    expect(await coolDown()).toMatchObject({ verdict: 'ok', observed: 'none' });
    await bench.switchOver(await bench.authority());
    const observed = expect.stringMatching(/^drSwitchover .* ago/) as string;
    expect(await coolDown('east')).toMatchObject({ verdict: 'fail', observed });
  });

  it('is unknown if the record does not have it, which does not delay a promotion', async () => {
    bench.recordServer.failure = new Error('silent');
    expect(await coolDown('east')).toMatchObject({ verdict: 'not-checkable' });
    // A token that is kept is not known either: the holders are asked, and the plan says why.
    const { plan } = await bench.assess('drSwitchover', { to: 'east' });
    expect(plan?.text).toContain('unknown whether it keeps an operation token of east');
    await notePrimaryChange({ records: bench.records, log: pino({ level: 'silent' }) }, DEPLOYMENT, {
      ...{ runbook: 'drSwitchover', runId: 'r', cluster: 'west', at: Date.now() },
    });
    bench.recordServer.failure = undefined;
  });
});

describe('readiness', () => {
  let bench: ActivityBench;
  openBench((opened) => (bench = opened));

  it('is compared with the last check in the record', async () => {
    const first = await bench.readiness();
    expect(first.changes).toEqual([]);
    // Keys on a disk, and no laboratory.
    expect(first.points).toContainEqual(expect.objectContaining({ id: 'key-storage', verdict: 'warn' }));
    const points = [{ id: 'key-storage', about: 'both', verdict: 'ok' }];
    await bench.records.change(DEPLOYMENT, () => ({ put: { readiness: { ...first, points } } }));
    const run = { ...bench.run, rid: 'the next' };
    const second = await bench.readiness({ run });
    expect(second.changes).toEqual([{ change: 'worse', id: 'key-storage', about: 'both', before: 'ok', now: 'warn' }]);
    bench.recordServer.failure = new Error('silent');
    const third = await bench.readiness({ run });
    bench.recordServer.failure = undefined;
    expect(third.changes).toEqual([]);
    expect(third.points).toContainEqual(
      expect.objectContaining({ id: 'recorded-tokens', verdict: 'fail', unread: true }),
    );
  });
});
