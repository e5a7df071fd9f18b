/** A former primary: what its dangerous activities refuse. */
import { notePrimaryChange } from '../../activities/roles/primary-changes';
import { promoteSecondary } from '../../src/simulator/roles';
import { DEPLOYMENT, failing, openBench, replicating } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
import { CHANGING, statuses } from '../support/faults';
import { splitPrimaries } from '../support/by-hand';

const hooks = { unfence: { command: ['/bin/true'] } };
const between = { deployment: DEPLOYMENT, kind: 'dr' as const, primary: 'west', secondary: 'east' };
const former = { deployment: DEPLOYMENT, kind: 'dr', cluster: 'east', otherCluster: 'west', former: true } as const;

let bench: ActivityBench;
openBench((opened) => (bench = opened), { deployment: { hooks } });

const demotions = () => statuses(bench, 'east', CHANGING.demote);
const mode = () => bench.cluster('east').snapshotState().dr.mode;

/** Refusals of a rejoin of east, after a runbook noted that a cluster was promoted. */
async function refusals(on: ActivityBench, runbook: string, promoted: string, primary?: string) {
  const log = { warn: () => undefined } as never;
  await notePrimaryChange({ records: on.records, log }, DEPLOYMENT, {
    runbook,
    runId: 'run-1',
    cluster: promoted,
    at: Date.UTC(2026, 0, 2),
  });
  const asked = { cluster: 'east', ...(primary !== undefined && { primary }) };
  return failing(await on.assess(runbook.startsWith('dr') ? 'drRejoin' : 'performanceRejoin', asked));
}
const promotedLast = (runbook: string) => ({
  name: 'it was not promoted last',
  observed: `east was promoted last, by ${runbook}, run run-1, at 2026-01-02T00:00:00.000Z`,
});

/** The plan of east's rejoin with the approvals of these gates. */
const authority = (...gates: readonly string[]) => bench.authorityOf('drRejoin', { cluster: 'east' }, ...gates);

describe('while the other cluster is no primary', () => {
  it('no demotion is planned, and an approved demotion is refused', async () => {
    expect((await bench.assess('drRejoin', { cluster: 'east' })).plan).toBeUndefined();
    const sides = { on: bench.named('east'), with: bench.named('west') };
    const plan = bench.planOf([{ kind: 'dr', endpoint: 'primary/demote', gate: 'plan', ...sides }], {
      runbook: 'drRejoin',
    });
    const approved = await bench.approved({ plan, preconditions: [] }, 'plan');
    await bench.refusedUnsent('demotePrimary', { ...former, authority: approved }, 'PRECONDITION_FAILED', {
      ...{ message: 'east was not demoted: "DR primary" (west) does not hold.', retryable: false },
    });
    expect(mode()).toBe('primary');
  });
});

describe('while both clusters report primary', () => {
  beforeAll(() => splitPrimaries(bench, 'east', 'west'));

  it('the one that was promoted last does not count as the former one, unless the primary is named', async () => {
    expect(await refusals(bench, 'drFailover', 'east')).toMatchObject([promotedLast('drFailover')]);
    expect(await refusals(bench, 'drFailover', 'east', 'west')).toEqual([]);
    expect(await refusals(bench, 'drFailover', 'west')).toEqual([]);
  });

  it('stays fenced, approved or not', async () => {
    const plan = await authority('plan');
    await bench.refused('unfenceFormerPrimary', { ...between, authority: plan }, 'NOT_APPROVED');
    const both = await authority('plan', 'unfence');
    await bench.refused('unfenceFormerPrimary', { ...between, authority: both }, 'STATE_DIVERGED');
    // Nor may people be told to do it.
    await bench.refused('checkFormerPrimaryDemoted', between, 'STATE_DIVERGED', {
      details: { needed: 'no node reports primary' },
    });
  });

  it('approved, it is demoted once and then unfenced', async () => {
    const both = await authority('plan', 'unfence');
    const demoted = await bench.call('demotePrimary', { ...former, authority: both });
    expect(demoted).toMatchObject({ outcome: 'done', calls: 1 });
    const again = await bench.call('demotePrimary', { ...former, authority: both });
    expect(again).toMatchObject({ outcome: 'already', calls: 0 });
    expect(demotions()).toEqual([200]);
    expect(await bench.call('unfenceFormerPrimary', { ...between, authority: both })).toMatchObject({
      outcome: 'done',
      observed: 'unfence hook ended with exit code 0',
    });
    expect(await bench.call('checkFormerPrimaryDemoted', between)).toMatchObject({
      observed: 'east: active node secondary; nodes secondary; west serves',
      silentNodes: 0,
    });
    // Demoted, and yet not let out while nobody serves.
    const serving = bench.cluster('west').role('dr');
    bench.cluster('west').setRole('dr', { mode: 'disabled' }, bench.service.now());
    await bench.refused('checkFormerPrimaryDemoted', between, 'PRECONDITION_FAILED');
    bench.cluster('west').setRole('dr', serving, bench.service.now());
  });
});

describe('a former primary', () => {
  let other: ActivityBench;
  openBench((opened) => (other = opened), {
    ...replicating({ main: ['east'], eu: ['europe'] }, {}, { readings: { leaderChangeChance: 0 } }),
    deployment: { hooks },
  });

  it('of the performance set is not unfenced and does not join a primary before its demotion', async () => {
    other.service.partition('east', 'europe');
    promoteSecondary(other.cluster('europe'), 'performance', '', true);
    other.service.advanceClock(1_000);
    const last = 'performancePromotion';
    expect(await refusals(other, last, 'east')).toMatchObject([promotedLast(last)]);
    expect(await refusals(other, last, 'europe')).toEqual([]);
    const authority = await other.authorityOf('performanceRejoin', { cluster: 'east' }, 'promote', 'unfence');
    const sides = { deployment: DEPLOYMENT, kind: 'performance', primary: 'europe', secondary: 'east' } as const;
    const joining = { ...sides, by: 'token', expected: { filter: 'none' }, authority } as const;
    await other.refused('checkFormerPrimaryDemoted', sides, 'STATE_DIVERGED');
    await other.refusedUnsent('unfenceFormerPrimary', joining, 'STATE_DIVERGED');
    await other.refusedUnsent('updatePrimary', joining, 'PRECONDITION_FAILED');
    const demotion = { deployment: DEPLOYMENT, kind: 'performance', cluster: 'east', otherCluster: 'europe' } as const;
    const approvals = authority.approvals.slice(1);
    const without = { ...demotion, former: true, authority: { ...authority, approvals } };
    await other.refusedUnsent('demotePrimary', without, 'NOT_APPROVED');

    await other.call('demotePrimary', { ...without, authority });
    await other.call('unfenceFormerPrimary', joining);
    other.service.heal();
    expect(await other.call('updatePrimary', joining)).toMatchObject({ outcome: 'done', calls: 1 });
  });
});
