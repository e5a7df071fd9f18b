/**
 * Where the other cluster is silent, only this demotion proves that it is no primary: a truthful history of an earlier
 * one, sent again by a writer to the namespace, promotes nothing.
 */
import type { Authority } from '../../src/contracts/activities';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import { demotePrimary } from '../../src/simulator/roles';
import { DEPLOYMENT, drPromotion, drDemotion, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

const HOUR = 3_600_000;
const MINUTE = 60_000;
const STATUS = 'GET /v1/sys/replication/dr/status';

let bench: ActivityBench;
let authority: Authority;
let token: OperationTokenReference;
let setRolesBack: () => void;
let history: ActivityBench['history'];

openBench((opened) => (bench = opened), { topology: { readings: { leaderChangeChance: 0 } } });
beforeAll(async () => {
  authority = await bench.authority({ acceptLoss: 'bounded' });
  token = await bench.operationToken('west');
  setRolesBack = bench.rolesKept();
  history = bench.history;
});
beforeEach(async () => {
  bench.service.faults.clear();
  bench.history = history;
  await bench.cluster('east').restart();
  setRolesBack();
  bench.service.advanceClock(2_000);
});

const demoted = (at = Date.now(), outcome = 'done', cluster = 'east') =>
  bench.happened('demotePrimary', { kind: 'dr', deployment: DEPLOYMENT, cluster }, { result: { outcome } }, at);
const promotion = () => drPromotion(token, authority);
const promotes = async () => {
  const before = bench.calls('west', 'dr/secondary/promote');
  const failed = await bench.failure('promoteSecondary', promotion());
  expect([failed.code, bench.calls('west', 'dr/secondary/promote') - before]).toEqual(['PRECONDITION_FAILED', 0]);
  return failed;
};
/** It is there, for everybody but this worker. */
const unreachable = () => bench.always(/./, 'reset', 'east');
/** Demoted, and gone with it: what the proof is for. */
const demoteAndKill = async () => {
  demotePrimary(bench.cluster('east'), 'dr');
  await bench.cluster('east').kill();
};

describe('a silent cluster that this run demoted', () => {
  it('is no primary where the demotion is of this hour and nobody was heard since: the other one is promoted', async () => {
    await demoteAndKill();
    demoted();
    expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'done' });
  });

  it('and that was to take its place is no primary either: a demoted cluster, which hears nobody, is promoted back', async () => {
    await bench.call('demotePrimary', drDemotion(authority));
    await bench.cluster('west').kill();
    const back = { ...promotion(), cluster: 'east', otherCluster: 'west', token: await bench.operationToken('east') };
    expect((await bench.failure('promoteSecondary', back)).code).toBe('PRECONDITION_FAILED');
    demoted();
    expect(await bench.call('promoteSecondary', back)).toMatchObject({ outcome: 'done' });
    await bench.cluster('west').restart();
  });

  it('may be primary again 60 days later: the approvals and the demotion of then promote nothing', async () => {
    demoted(Date.now() - 60 * 24 * HOUR);
    unreachable();
    const failed = await promotes();
    expect(failed.details['observed']).toContain('east: active node silent');
    expect(failed.message).toContain('the demotion of east was');
    expect(failed.details['next']).toContain('fence it');
  });

  it('is primary where a node said so before all fell silent: somebody may have promoted it by hand', async () => {
    await demoteAndKill();
    await bench.cluster('east').restart();
    demoted();
    const primary = { status: 200, body: { data: { mode: 'primary' } } };
    bench.service.faults.add({ cluster: 'east', endpoint: STATUS, action: primary });
    bench.service.faults.add({ cluster: 'east', endpoint: STATUS, action: 'reset', skip: 1, times: Infinity });
    bench.always(/leader|health/, 'reset', 'east');
    const before = bench.calls('west', 'dr/secondary/promote');
    const failed = await bench.failure('promoteSecondary', promotion());
    expect([failed.code, bench.calls('west', 'dr/secondary/promote') - before]).toEqual(['STATE_DIVERGED', 0]);
  });

  it('counts for the validFor of the go and an hour, by the server’s record', async () => {
    await demoteAndKill();
    demoted(Date.now() - HOUR - 11 * MINUTE);
    await promotes();
    // The clock of a worker that is behind makes no demotion young again.
    bench.history = history;
    demoted();
    bench.happened('readDeployment', {}, { result: {} }, Date.now() + HOUR + 11 * MINUTE);
    await promotes();
    bench.history = history;
    demoted(Date.now() - HOUR - 9 * MINUTE);
    expect((await promotes()).message).toContain('west heard a primary at');
  });

  it('is primary where the candidate heard a primary since', async () => {
    demoted(Date.now() - 30 * MINUTE);
    unreachable();
    const failed = await promotes();
    expect(failed.message).toContain('west heard a primary at');
  });

  it('proves nothing where the candidate does not tell when it heard a primary last', async () => {
    await demoteAndKill();
    demoted();
    const said = { mode: 'secondary', state: 'stream-wals', primaries: [] };
    bench.always(STATUS, { status: 200, body: { data: said } }, 'west');
    expect((await promotes()).message).toContain('west does not tell when it heard a primary last');
  });

  it.each([
    [
      'was promoted since, and the run says so',
      () => bench.happened('promoteSecondary', { kind: 'dr', cluster: 'east' }, { result: { outcome: 'done' } }),
    ],
    [
      'may have been promoted since, by a failover',
      () =>
        bench.happened(
          'promoteSecondary',
          { kind: 'dr', mode: 'unplanned', cluster: 'east' },
          { code: 'CONFIRMATION_TIMEOUT', outcomeKnown: false },
        ),
    ],
    [
      'gave its place to the candidate, which is a secondary again',
      () => bench.happened('promoteSecondary', { kind: 'dr', cluster: 'west' }, { result: { outcome: 'done' } }),
    ],
    [
      'was seen as primary since',
      () =>
        bench.happened(
          'readDeployment',
          {},
          { result: { observations: [{ cluster: 'east', dr: { mode: 'primary' } }] } },
        ),
    ],
  ])('is no proof where it %s', async (_name, since) => {
    await demoteAndKill();
    demoted();
    since();
    await promotes();
  });

  it('is no proof where the run found it demoted and sent nothing: that takes no approval', async () => {
    await demoteAndKill();
    demoted(Date.now(), 'already');
    await promotes();
    bench.history = history;
    demoted(Date.now(), 'already', 'west');
    await promotes();
  });
});
