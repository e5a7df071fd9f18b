/** What a ceremony may be used for: only what its holders were asked for, in the run that asked them. */
import { randomUUID } from 'node:crypto';
import type { Burst } from '../support/activity-environment';
import { ActivityBench, DEPLOYMENT, failedOf, failing, openBench } from '../support/activity-environment';

const USES = ['dr.promote', 'dr.operation-token.delete'] as const;

let bench: ActivityBench;
let burst: Burst;
openBench((opened) => (bench = opened));
beforeAll(async () => void (burst = await bench.burst(USES)));

const failure = (more: object = {}, options: Parameters<typeof bench.failure>[2] = {}) =>
  bench.generationFailure({ ...burst, ...more }, options);

it('an invitation names the cluster, its uses, its holders and the threshold of the service', () => {
  const { ceremony } = burst;
  expect(ceremony).toMatchObject({ epoch: 1, threshold: 3, holders: ['ada', 'bert', 'cleo', 'dora', 'emil'] });
  expect(ceremony.collectUntil).toBeGreaterThan(Date.now());
  // No such members where the inventory has none.
  for (const member of ['standBy', 'notJoined']) expect(ceremony).not.toHaveProperty(member);
});

describe('the roster', () => {
  const roster = (ceremony: object) => ({ collectFor: '30m', useFor: '30m', ...ceremony });

  it('names who has joined and who stands by; the handle passes that to the workflow', async () => {
    const standBy = { standBy: ['dora', 'emil'], inviteStandByAfter: '7m' };
    const bench = await ActivityBench.start({
      deployment: { ceremony: roster({ holders: ['ada', 'bert', 'cleo'], ...standBy }) },
      person: (name) => (['cleo', 'dora'].includes(name) ? { publicKeys: [] } : undefined),
    });
    const cid = randomUUID();
    const handle = await bench.ceremony([{ cluster: 'west', uses: USES }], { cid });
    const names = { holders: ['ada', 'bert', 'emil'], standBy: ['emil'], threshold: 3 };
    const [, payload = ''] = handle.invitation.split('.');
    const mustSign = ['ada', 'bert', 'emil'];
    expect(JSON.parse(Buffer.from(payload, 'base64url').toString())).toMatchObject({ ...names, mustSign });
    expect(handle).toMatchObject({ ...names, inviteStandByAfterMs: 420_000, notJoined: ['cleo', 'dora'] });
    // The same again: a retry after a lost answer asks nobody twice.
    expect(await bench.ceremony([{ cluster: 'west', uses: USES }], { cid })).toEqual(handle);
    // Also where the inventory was changed meanwhile: who was invited stands in the first invitation.
    const deployment = bench.inventory.deployments.get(DEPLOYMENT);
    if (!deployment) throw new Error('no deployment');
    Object.assign(deployment.ceremony, { holders: ['ada', 'bert', 'cleo', 'emil'], standBy: ['dora'] });
    expect(await bench.ceremony([{ cluster: 'west', uses: USES }], { cid })).toEqual(handle);
    await bench.stop();
  });

  it('is not asked if it is too short; the assessment says so before', async () => {
    const bench = await ActivityBench.start({ deployment: { ceremony: roster({ holders: ['ada', 'bert'] }) } });
    const refused = await bench.ceremony([{ cluster: 'west', uses: USES }]).catch(failedOf);
    const told = expect.any(String) as string;
    expect(refused).toMatchObject({ code: 'INVALID_INPUT', details: { needed: told, next: told } });
    const asked = { deployment: DEPLOYMENT, cluster: 'west', uses: ['dr.promote'], keepFor: '1h', reason: 'a test' };
    const assessed = await bench.assess('operationTokenCeremony', asked);
    expect(failing(assessed)).toContainEqual(expect.objectContaining({ name: 'enough key holders' }));
    await bench.stop();
  });
});

it.each([
  ['another cluster', { cluster: 'east' }, 'not a target of the invitation'],
  ['a use that the holders were not asked for', { uses: ['dr.disable'] }, 'dr.promote'],
  ['no use', { uses: [] }, 'dr.promote'],
  ['one use more than was asked for', { uses: [...USES, 'dr.update-primary'] }, 'dr.promote'],
])('a token for %s is refused, and no request reaches the service', async (_name, more, observed) => {
  const before = bench.changes();
  const refused = await failure(more);
  expect(refused).toMatchObject({ code: 'DOCUMENT_INVALID', retryable: false });
  expect(refused.details['observed']).toContain(observed);
  expect(bench.changes()).toEqual(before);
});

it('if neither attempt nor seal report it at first, the seal is asked again for the threshold', async () => {
  const attempt = 'GET /v1/sys/replication/dr/secondary/generate-operation-token/attempt';
  bench.service.faults.add({ cluster: 'west', endpoint: attempt, action: { status: 400 }, times: Infinity });
  bench.service.faults.add({ cluster: 'west', endpoint: 'GET /v1/sys/seal-status', action: { status: 500 } });
  const told = await bench.ceremony([{ cluster: 'west', uses: USES }]).finally(() => bench.service.faults.clear());
  expect(told).toMatchObject({ threshold: 3 });
});

it('the attempt reports how many key shares are needed: the seal of a standby reports the number from before a rekey', async () => {
  const body = { type: 'shamir', initialized: true, sealed: false, t: 2, n: 5, progress: 0, recovery_seal: false };
  const before = { status: 200, body } as const;
  bench.service.faults.add({ cluster: 'west', endpoint: 'GET /v1/sys/seal-status', action: before, times: Infinity });
  const told = await bench.ceremony([{ cluster: 'west', uses: USES }]).finally(() => bench.service.faults.clear());
  expect(told).toMatchObject({ threshold: 3 });
});

it('too few shares, a repeated share, envelopes of another ceremony, or made-up verdicts make no token', async () => {
  const before = bench.changes();
  const { envelopes } = burst;
  const { envelopes: foreign } = await bench.burst();
  const plain = envelopes.map(() => bench.person('ada').share ?? '');
  const verdicts = [{ holder: 'ada', verdict: 'accepted' }];
  const twice = [envelopes[0], envelopes[0], envelopes[0]];
  for (const each of [[], envelopes.slice(0, 2), twice, foreign, plain, verdicts]) {
    expect(await failure({ envelopes: each })).toMatchObject({ code: 'SHARES_MISSING', details: { needed: '3' } });
  }
  expect(bench.changes()).toEqual(before);
});

it('another run, and a run that was reset, cannot use the keys', async () => {
  const before = bench.changes();
  for (const member of ['ns', 'wid', 'rid'] as const) {
    const run = { ...bench.run, [member]: 'another' };
    expect((await failure({}, { run })).code).toBe('KEY_RECORD_MISSING');
    const { ceremony } = burst;
    const given = { deployment: DEPLOYMENT, ceremony, held: [], arrived: [] };
    expect((await bench.failure('openEnvelopes', given, { run })).code).toBe('KEY_RECORD_MISSING');
    expect((await bench.call('destroyCeremonyKeys', { ceremony }, { run })).destroyed).toBe(false);
  }
  expect((await failure({}, { step: { originalRunId: 'before the reset' } })).code).toBe('RUN_WAS_RESET');
  expect(bench.changes()).toEqual(before);
});

it('envelopes are checked one by one, on arrival and on the host of the keys, without a share in any verdict', async () => {
  const { ceremony, envelopes } = burst;
  const sent = [...envelopes, 'not an envelope', bench.person('dora').share, { document: envelopes[0] }];
  const arrived = bench.signaled('share', sent);
  const opened = await bench.call('openEnvelopes', { deployment: DEPLOYMENT, ceremony, held: [], arrived });
  expect(opened.verdicts.map(({ code }) => code)).toEqual([
    ...['accepted', 'accepted', 'accepted', 'malformed', 'plain-text-share', 'repeated'],
  ]);
  expect(opened.verdicts[0]?.holder).toEqual({ name: 'ada', how: 'signed' });
  // While no ceremony is under way plain text is noticed all the same, with the event that is to be purged.
  const unasked = await bench.call('checkUnaskedShares', { deployment: DEPLOYMENT, arrived });
  const codes = unasked.verdicts.map(({ code }) => code);
  expect(codes.map((code) => code === 'no-ceremony')).toEqual([true, true, true, true, false, true]);
  expect(codes[4]).toBe('plain-text-share');
  expect(unasked.verdicts[4]?.eventId).toBeDefined();
});

it('destroyed keys no longer open anything', async () => {
  const gone = await bench.burst();
  // Where the sweeper, or an attempt whose answer was lost, came first nothing is left to do either.
  for (const text of ['keys of one round destroyed', 'already gone'])
    expect(await bench.call('destroyCeremonyKeys', { ceremony: gone.ceremony })).toEqual({ destroyed: true, text });
  expect((await failure(gone)).code).toBe('KEY_RECORD_MISSING');
});

describe('a run of somebody else on this host', () => {
  const stranger = { ns: 'default', wid: 'ceremony:theirs', rid: 'theirs' };
  const round = (epoch: number, cid: string, run = bench.run) =>
    bench.ceremony([{ cluster: 'west', uses: USES }], { epoch, cid }, { run });

  it('that gives the ID of a ceremony does not block the next rounds of its owner, nor end them', async () => {
    const own = await round(1, randomUUID());
    const theirs = await round(2, own.cid, stranger);
    const next = await round(2, own.cid);
    expect(next).toMatchObject({ cid: own.cid, epoch: 2 });
    expect(next.fingerprint).not.toBe(theirs.fingerprint);
    // Neither can be used by the other, nor destroyed.
    const used = await failure({ ceremony: theirs });
    expect(used.code).toBe('SHARES_MISSING');
    await bench.call('destroyCeremonyKeys', { ceremony: theirs }, { run: stranger });
    expect(await round(2, own.cid)).toMatchObject({ fingerprint: next.fingerprint });
  });

  it('has a bounded number of rounds at a time, and is refused with a plain text', async () => {
    const many = { ...stranger, rid: 'many' };
    let made = 0;
    const last = await (async () => {
      for (; made < 100; made += 1) await round(made + 1, randomUUID(), many);
    })().catch(failedOf);
    expect(made).toBe(32);
    expect(last).toMatchObject({ code: 'PRECONDITION_FAILED', retryable: false, details: { needed: 'fewer than 32' } });
    expect(await round(1, randomUUID())).toBeDefined();
  });
});
