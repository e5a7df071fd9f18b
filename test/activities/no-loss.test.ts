/** A plan that accepts no loss binds the activities: what an input or a forged result says of the data is not believed. */
import type { Authority } from '../../src/contracts/activities';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import type { DecisionAction } from '../../src/contracts/signals';
import { demotePrimary } from '../../src/simulator/roles';
import { drDemotion, drPromotion, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
import { decisionOf } from '../support/people';

let bench: ActivityBench;
let none: Authority;
let bounded: Authority;
let token: OperationTokenReference;
let setRolesBack: () => void;
let history: ActivityBench['history'];

openBench((opened) => (bench = opened), {
  // A secondary that may have heard of the write before its primary was gone is refused by the activity, not by 503.
  topology: { readings: { leaderChangeChance: 0, promoteRefusedBehindDeadSource: false } },
  limits: { catchUp: '300ms' },
  person: (name) => (name === 'emil' ? { attestation: 'claimed', publicKeys: [] } : undefined),
});
beforeAll(async () => {
  none = await bench.authority();
  bounded = await bench.authority({ acceptLoss: 'bounded' });
  token = await bench.operationToken('west');
  setRolesBack = bench.rolesKept();
  history = bench.history;
});
beforeEach(async () => {
  bench.service.heal();
  bench.history = history;
  await bench.cluster('east').restart();
  setRolesBack();
  bench.cluster('west').holdStream('dr', false);
  bench.service.advanceClock(5_000);
});

const demotion = (authority: Authority) => drDemotion(authority);
const promotion = (authority = none) => drPromotion(token, authority);
const mode = (name: string) => bench.cluster(name).snapshotState().dr.mode;

/** The primary takes a write that its secondary does not get. */
function writeAlone(): void {
  bench.cluster('west').holdStream('dr', true);
  bench.cluster('east').write('kv/late', { at: bench.service.now() });
}
/** Demoted with a write that only the old primary has. */
async function demotedWithLoss(): Promise<void> {
  writeAlone();
  await bench.call('demotePrimary', demotion(bounded));
  bench.happened('demotePrimary', { kind: 'dr', cluster: 'east' }, { result: { outcome: 'done' } });
}
/** A result that says that nothing is lost, true or not. */
const compared = () =>
  bench.happened(
    'compareAfterDemotion',
    { oldPrimary: 'east', newPrimary: 'west' },
    { result: { loss: 'none', why: 'it says so' } },
  );
/** What a person decides about a step of the run. */
async function decided(name: string, action: DecisionAction, step: string): Promise<void> {
  const decision = { ...bench.run, step, parkingNo: 1, action, reason: 'we know what is lost' };
  const claim = { ...decision, name, iat: 1 };
  bench.signaled('decide', [name === 'emil' ? claim : await decisionOf(bench.person(name), decision)]);
}
const isNotPromoted = async () => {
  const before = bench.calls('west', 'dr/secondary/promote');
  const failed = await bench.failure('promoteSecondary', promotion());
  expect(failed).toMatchObject({ code: 'PRECONDITION_FAILED', details: { outcomeKnown: true } });
  expect([mode('west'), bench.calls('west', 'dr/secondary/promote') - before]).toEqual(['secondary', 0]);
  return failed;
};

describe('a demotion whose plan accepts no loss', () => {
  it('is not sent while the successor lacks a write that the primary tells of, whatever the input says', async () => {
    writeAlone();
    const before = bench.calls('east', 'dr/primary/demote');
    for (const reached of [undefined, '1'])
      await bench.refused(
        'demotePrimary',
        { ...demotion(none), ...(reached === undefined ? {} : { reached }) },
        'PRECONDITION_FAILED',
        { details: { outcomeKnown: true, observed: expect.stringContaining('last remote WAL') as string } },
      );
    expect([mode('east'), bench.calls('east', 'dr/primary/demote') - before]).toEqual(['primary', 0]);
  });

  it('is sent once the successor has it', async () => {
    bench.cluster('east').write('kv/early', { at: bench.service.now() });
    expect(await bench.call('demotePrimary', demotion(none))).toMatchObject({ outcome: 'done' });
  });
});

describe('a promotion whose plan accepts no loss', () => {
  it('is made where both have the same Merkle root', async () => {
    await bench.call('demotePrimary', demotion(none));
    expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'done' });
  });

  it('believes the mark of the demotion although the roots were equal, where the old primary is silent', async () => {
    bench.cluster('east').write('kv/early', { at: bench.service.now() });
    const result = await bench.call('demotePrimary', demotion(none));
    expect(result.evidence).toMatchObject({ loss: 'none', why: expect.stringContaining('Merkle roots') as string });
    await bench.cluster('east').kill();
    bench.happened('demotePrimary', { kind: 'dr', cluster: 'east', otherCluster: 'west' }, { result });
    expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'done' });
  });

  it('is refused where the roots differ, compared or not, and whatever a result in the history says', async () => {
    await demotedWithLoss();
    expect((await isNotPromoted()).message).toContain('accepts no loss');
    compared();
    await isNotPromoted();
    // A plan that accepts it goes on.
    expect(await bench.call('promoteSecondary', promotion(bounded))).toMatchObject({ outcome: 'done' });
  });

  it('is made where a person who signs decided to go on, and not on a claim', async () => {
    await demotedWithLoss();
    await decided('grace', 'retry', 'Compare the data of both clusters');
    await decided('grace', 'skip', 'Fence east');
    await decided('emil', 'skip', 'Compare the data of both clusters');
    await isNotPromoted();
    await decided('grace', 'skip', 'Compare the data of both clusters');
    expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'done' });
  });

  it('believes no comparison, and no clients that were held without the mark of a worker, where the old primary is silent', async () => {
    const input = { kind: 'dr', cluster: 'east', otherCluster: 'west' };
    demotePrimary(bench.cluster('east'), 'dr');
    await bench.cluster('east').kill();
    const roots = { oldPrimaryRoot: 'a7f3c2', newPrimaryRoot: 'a7f3c2' };
    for (const evidence of [
      { loss: 'none', wal: '1', at: 1 },
      { loss: 'none', ...roots },
    ]) {
      bench.happened('demotePrimary', input, { result: { outcome: 'done', evidence } });
      compared();
      await isNotPromoted();
    }
  });

  it('back to the old primary needs no evidence: it has every write', async () => {
    await demotedWithLoss();
    const back = { ...promotion(), cluster: 'east', otherCluster: 'west', token: await bench.operationToken('east') };
    expect(await bench.call('promoteSecondary', back)).toMatchObject({ outcome: 'done' });
  });
});
