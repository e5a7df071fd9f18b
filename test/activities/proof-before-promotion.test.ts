/**
 * What a promotion wants proven: the other cluster is no primary, by its own word or by this run's fresh demotion, and, where
 * the plan accepts no loss, nothing is lost. What an input or a history that was forged, or sent again, says is not believed.
 */
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import type { DecisionAction } from '../../src/contracts/signals';
import { demotePrimary } from '../../src/simulator/roles';
import { clusters, DEPLOYMENT, drDemotion, drPromotion, holding, openBench } from '../support/activity-environment';
import type { ActivityBench, SignedPlan } from '../support/activity-environment';
import type { ActivityEnd } from '../support/activity-events';
import { decisionOf } from '../support/people';

const HOUR = 3_600_000;
const MINUTE = 60_000;
const STATUS = 'GET /v1/sys/replication/dr/status';
const DONE = { outcome: 'done' };

let bench: ActivityBench;
let none: SignedPlan;
let bounded: SignedPlan;
let token: OperationTokenReference;
let setRolesBack: () => void;
let history: ActivityBench['history'];

openBench((opened) => (bench = opened), {
  topology: {
    clusters: clusters({ east: 3, west: 1 }),
    // A secondary that may have heard of the write before its primary was gone is refused by the activity, not by 503.
    readings: { leaderChangeChance: 0, promoteRefusedBehindDeadSource: false },
  },
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
  bench.service.faults.clear();
  bench.history = history;
  await bench.cluster('east').restart();
  setRolesBack();
  bench.cluster('west').holdStream('dr', false);
  bench.service.advanceClock(5_000);
});

const mode = (name: string) => bench.cluster(name).snapshotState().dr.mode;
const promote = (authority: SignedPlan) => bench.call('promoteSecondary', drPromotion(token, authority));
const refuses = (authority: SignedPlan, expected: object = {}, code = 'PRECONDITION_FAILED') =>
  bench.refusedUnsent('promoteSecondary', drPromotion(token, authority), code, expected);
/** East is to be primary again. */
const back = async (authority: SignedPlan) =>
  ({
    ...drPromotion(await bench.operationToken('east'), authority),
    ...{ cluster: 'east', otherCluster: 'west' },
  }) as const;

/** How this run's activities ended, as its history tells it. */
const demoted = (end: ActivityEnd = { result: DONE }, at = Date.now(), cluster = 'east') =>
  bench.happened('demotePrimary', { kind: 'dr', deployment: DEPLOYMENT, cluster }, end, at);
const promoted = (end: ActivityEnd = { result: DONE }, cluster = 'east') =>
  bench.happened('promoteSecondary', { kind: 'dr', mode: 'unplanned', cluster }, end);
const REFUSED = { code: 'NOT_CAUGHT_UP', outcomeKnown: true };
const DOUBTFUL = { code: 'CONFIRMATION_TIMEOUT', outcomeKnown: false };

/** The primary takes a write that its secondary does not get. */
function writeAlone(): void {
  bench.cluster('west').holdStream('dr', true);
  bench.cluster('east').write('kv/late', { at: bench.service.now() });
}

describe('a demotion whose plan accepts no loss', () => {
  it('is not sent while the successor lacks a write that the primary reports, whatever the input says', async () => {
    writeAlone();
    for (const reached of [{}, { reached: '1' }])
      await bench.refusedUnsent('demotePrimary', { ...drDemotion(none), ...reached }, 'PRECONDITION_FAILED', {
        details: { observed: holding('last remote WAL') },
      });
    expect(mode('east')).toBe('primary');
  });

  it('is not sent if the primary does not report how far it wrote', async () => {
    bench.always(STATUS, says('primary'), 'east');
    await bench.refusedUnsent('demotePrimary', drDemotion(none), 'PRECONDITION_FAILED', {
      message: 'east was not demoted: "a loss can be excluded" (east) does not hold.',
    });
  });

  it('is sent once the successor has it; the promotion is made if both have the same Merkle root', async () => {
    bench.cluster('east').write('kv/early', { at: bench.service.now() });
    expect(await bench.call('demotePrimary', drDemotion(none))).toMatchObject(DONE);
    expect(await promote(none)).toMatchObject(DONE);
  });
});

describe('a promotion whose plan accepts no loss', () => {
  /** Demoted with a write that only the old primary has. */
  async function demotedWithLoss(): Promise<void> {
    writeAlone();
    await bench.call('demotePrimary', drDemotion(bounded));
    demoted();
  }
  /** A result that says that nothing is lost, true or not. */
  const compared = () => {
    const result = { loss: 'none', why: 'it says so' };
    bench.happened('compareAfterDemotion', { oldPrimary: 'east', newPrimary: 'west' }, { result });
  };
  /** What a person decides about a step of the run. */
  async function decided(name: string, action: DecisionAction, step: string): Promise<void> {
    const decision = { ...bench.run, step, parkingNo: 1, action, reason: 'we accept the loss' };
    const claim = { ...decision, name, iat: 1 };
    bench.signaled('decide', [name === 'emil' ? claim : await decisionOf(bench.person(name), decision)]);
  }

  it('trusts the mark of the demotion although the roots were equal, if the old primary does not respond', async () => {
    bench.cluster('east').write('kv/early', { at: bench.service.now() });
    const result = await bench.call('demotePrimary', drDemotion(none));
    expect(result.evidence).toMatchObject({ loss: 'none', why: holding('Merkle roots') });
    await bench.cluster('east').kill();
    bench.happened('demotePrimary', { kind: 'dr', cluster: 'east', otherCluster: 'west' }, { result });
    expect(await promote(none)).toMatchObject(DONE);
  });

  it('is refused if the roots differ, compared or not, and whatever a result in the history says', async () => {
    await demotedWithLoss();
    await refuses(none, { message: holding('accepts no data loss') });
    compared();
    await refuses(none);
    // A plan that accepts it goes on.
    expect(await promote(bounded)).toMatchObject(DONE);
  });

  it('is made if a person who signs decided to continue, and not on a claim', async () => {
    await demotedWithLoss();
    const step = 'Compare the data of both clusters';
    await decided('grace', 'retry', step);
    await decided('grace', 'skip', 'Fence east');
    await decided('emil', 'skip', step);
    await refuses(none);
    await decided('grace', 'skip', step);
    expect(await promote(none)).toMatchObject(DONE);
  });

  it('trusts no comparison, and no quiesced clients without the mark of a worker, if the old primary does not respond', async () => {
    demotePrimary(bench.cluster('east'), 'dr');
    await bench.cluster('east').kill();
    const roots = { oldPrimaryRoot: 'a7f3c2', newPrimaryRoot: 'a7f3c2' };
    for (const said of [{ wal: '1', at: 1 }, roots]) {
      demoted({ result: { ...DONE, evidence: { loss: 'none', ...said } } });
      compared();
      await refuses(none);
    }
  });

  it('back to the old primary needs no evidence: it has every write', async () => {
    await demotedWithLoss();
    expect(await bench.call('promoteSecondary', await back(none))).toMatchObject(DONE);
  });
});

describe('a cluster that does not respond', () => {
  /** It is there, for everybody but this worker. */
  const unreachable = () => bench.always(/./, 'reset', 'east');
  /** Demoted, and gone with it: what the proof is for. */
  const demoteAndKill = async () => {
    demotePrimary(bench.cluster('east'), 'dr');
    await bench.cluster('east').kill();
  };
  const FORMER = { kind: 'dr', cluster: 'east', former: true };
  const seenAsPrimary = { result: { observations: [{ cluster: 'east', dr: { mode: 'primary' } }] } };

  it.each([
    ['was demoted by this run, and no heartbeat arrived since', [() => demoted()], true],
    ['was demoted, and a promotion of it was refused', [() => demoted(), () => promoted(REFUSED)], true],
    ['gave this run no proof', [], false],
    ['may have been demoted', [() => demoted(DOUBTFUL)], false],
    ['refused a promotion, and was never demoted', [() => promoted(REFUSED)], false],
    ['was promoted since, and the run says so', [() => demoted(), () => promoted()], false],
    ['may have been promoted since, by a failover', [() => demoted(), () => promoted(DOUBTFUL)], false],
    ['is being promoted', [() => demoted(), () => promoted('running')], false],
    ['gave its place to a candidate that follows again', [() => demoted(), () => promoted(undefined, 'west')], false],
    ['reported primary', [() => demoted(), () => bench.happened('readDeployment', {}, seenAsPrimary)], false],
    // That takes no approval.
    ['was found demoted', [() => demoted({ result: { outcome: 'already' } })], false],
    [
      'was demoted as a former primary, beside another one',
      [() => bench.happened('demotePrimary', FORMER, { result: DONE })],
      false,
    ],
    ['had its candidate found demoted', [() => demoted({ result: { outcome: 'already' } }, Date.now(), 'west')], false],
  ] as const)('that %s', async (_what, happened, proven) => {
    await demoteAndKill();
    for (const each of happened) each();
    if (proven) expect(await promote(bounded)).toMatchObject(DONE);
    else await refuses(bounded, { details: { next: holding('fence it') } });
  });

  it('that was to replace a demoted cluster is no primary either: the demoted one, which receives no heartbeat, is promoted back', async () => {
    await bench.call('demotePrimary', drDemotion(bounded));
    await bench.cluster('west').kill();
    const again = await back(bounded);
    await bench.refusedUnsent('promoteSecondary', again, 'PRECONDITION_FAILED');
    demoted();
    expect(await bench.call('promoteSecondary', again)).toMatchObject(DONE);
    await bench.cluster('west').restart();
  });

  it('may be primary again 60 days later: old approvals and the old demotion do not allow a promotion', async () => {
    demoted(undefined, Date.now() - 60 * 24 * HOUR);
    unreachable();
    const details = { observed: holding('east: active node not responding'), next: holding('fence it') };
    await refuses(bounded, { message: holding('the demotion of east was'), details });
  });

  it('is primary if a node said so before all stopped responding: somebody may have promoted it by hand', async () => {
    demotePrimary(bench.cluster('east'), 'dr');
    demoted();
    bench.service.faults.add({ cluster: 'east', endpoint: STATUS, action: says('primary') });
    bench.service.faults.add({ cluster: 'east', endpoint: STATUS, action: 'reset', skip: 1, times: Infinity });
    bench.always(/leader|health/, 'reset', 'east');
    await refuses(bounded, {}, 'STATE_DIVERGED');
  });

  it('is proven not to be primary for the validFor of the go and an hour, by the record of the server', async () => {
    await demoteAndKill();
    demoted(undefined, Date.now() - HOUR - 11 * MINUTE);
    await refuses(bounded);
    // The clock of a worker that is behind makes no demotion young again.
    bench.history = history;
    demoted();
    bench.happened('readDeployment', {}, { result: {} }, Date.now() + HOUR + 11 * MINUTE);
    await refuses(bounded);
    bench.history = history;
    demoted(undefined, Date.now() - HOUR - 9 * MINUTE);
    await refuses(bounded, { message: holding('west received a heartbeat from a primary at') });
  });

  it('is primary if the candidate received a heartbeat of a primary since', async () => {
    demoted(undefined, Date.now() - 30 * MINUTE);
    unreachable();
    await refuses(bounded, { message: holding('west received a heartbeat from a primary at') });
  });

  it('is not proven secondary if the candidate does not report its last heartbeat of a primary', async () => {
    await demoteAndKill();
    demoted();
    const data = { mode: 'secondary', state: 'stream-wals', primaries: [] };
    bench.always(STATUS, { status: 200, body: { data } }, 'west');
    await refuses(bounded, {
      message: holding('west does not report when it last received a heartbeat from a primary'),
    });
  });
});

const says = (as: string) => ({ status: 200, body: { data: { mode: as } } });

describe('a cluster that answers', () => {
  beforeEach(() => void bench.always(STATUS, says('secondary'), 'east'));
  const node = (index: number, as: string, times = Infinity) =>
    bench.service.faults.add({ cluster: 'east', node: index, endpoint: STATUS, action: says(as), times });
  const nobodyLeads = () => bench.always('GET /v1/sys/leader', { status: 503 }, 'east');
  const saysPrimary = () => bench.always(STATUS, says('primary'), 'east');
  const inDoubt = () => (demoted(), promoted(DOUBTFUL));
  const late = () =>
    bench.service.faults.add({ cluster: 'east', endpoint: STATUS, skip: 5, action: says('primary'), times: Infinity });

  it.each<[string, readonly (() => unknown)[], string]>([
    ['that it is primary is believed, whatever the history says', [saysPrimary, () => demoted()], 'STATE_DIVERGED'],
    ['as a secondary counts if its active node says so', [], 'done'],
    ['as a secondary and has no active node proves nothing', [nobodyLeads], 'PRECONDITION_FAILED'],
    ['as a secondary and has no active node, after its demotion', [nobodyLeads, () => demoted()], 'done'],
    ['as a secondary by its standbys alone proves nothing', [() => node(0, 'unknown')], 'PRECONDITION_FAILED'],
    [
      'by all nodes but one, which keeps reporting primary',
      [() => node(2, 'primary'), () => demoted()],
      'STATE_DIVERGED',
    ],
    ['as a secondary by all nodes but one, for a moment', [() => node(2, 'primary', 1), () => demoted()], 'done'],
    ['as a secondary until a promotion in doubt takes effect', [inDoubt, late], 'STATE_DIVERGED'],
    [
      'as a secondary while a promotion of it is under way',
      [() => demoted(), () => promoted('running')],
      'PRECONDITION_FAILED',
    ],
  ])('%s', async (_what, arrange, code) => {
    for (const each of arrange) each();
    if (code === 'done') expect(await promote(bounded)).toMatchObject(DONE);
    else await refuses(bounded, {}, code);
  });

  it('as a secondary is waited for if a promotion is in doubt, checked again and again, by a clock that cannot be set', async () => {
    const asked = () =>
      bench.service.calls.filter(({ cluster, path }) => cluster === 'east' && path.endsWith('dr/status')).length;
    inDoubt();
    const [before, began] = [asked(), performance.now()];
    const { now } = Date;
    const clock = jest.spyOn(Date, 'now').mockImplementation(() => now() + 60_000 * (asked() - before));
    expect(await promote(bounded)).toMatchObject(DONE);
    clock.mockRestore();
    // The simulated service read that clock too: without it west would restart for minutes.
    bench.service.advanceClock(60_000 * (asked() - before));
    expect(performance.now() - began).toBeGreaterThan(500);
    expect(asked() - before).toBeGreaterThanOrEqual(6);
  });
});
