/** Activities of a rehearsal: no call of the service, no foreign keys, records of successes, and what readiness makes of them. */
import { randomUUID } from 'node:crypto';
import { judgeRehearsals } from '../../activities/readiness/site';
import { keepRehearsal, rehearsals } from '../../activities/ceremony/rehearsal';
import type { RehearsalRecord } from '../../activities/ceremony/rehearsal';
import { rosterOfRehearsal } from '../../activities/ceremony/ceremony';
import type { Records } from '../../activities';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import { parseInventory } from '../../src/inventory';
import type { Deployment, Inventory } from '../../src/inventory';
import { createRehearsalEnvelope, newSigningKey, verifyInvitation } from '../../src/keys';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
import { EXAMPLE } from '../inventory/example';

const DAY_MS = 86_400_000;

describe('the activities', () => {
  let bench: ActivityBench;
  let handle: CeremonyHandle;
  openBench((opened) => (bench = opened));
  beforeAll(async () => {
    handle = await create(bench.run);
  });
  afterEach(() => expect(bench.changes()).toEqual([]));

  const create = (run: ActivityBench['run']) => {
    const asked = { deployment: DEPLOYMENT, holders: ['ada', 'bert'], collectFor: '1d', epoch: 1, cid: randomUUID() };
    const by = { reason: 'a test', requestedBy: 'olga', inputDigest: 'digest' };
    return bench.call('createRehearsal', { ...asked, ...by }, { run });
  };
  const answerOf = async (holder: string, invitation = handle.invitation) => {
    const pins = [{ environment: 'test', ...bench.workersKey }];
    const { invitation: rehearsal, digest } = await verifyInvitation(
      invitation,
      { pins, now: Date.now(), holder },
      'rehearsal',
    );
    const facts = { invitation: rehearsal, invitationDigest: digest, holder, seq: 1, tool: 'page 1.0.0' };
    return { document: await createRehearsalEnvelope({ ...facts, signingKey: bench.person(holder).key }) };
  };
  const open = (arrived: readonly number[], ceremony = handle) =>
    bench.call('openRehearsal', { deployment: DEPLOYMENT, ceremony, arrived });

  it('the invitation names those who must sign, so that a tool shows it before they type anything', async () => {
    const pins = [{ environment: 'test', ...bench.workersKey }];
    const checks = { pins, now: Date.now(), holder: 'ada' };
    const { invitation } = await verifyInvitation(handle.invitation, checks, 'rehearsal');
    expect(invitation.mustSign).toEqual(['ada', 'bert']);
  });

  it('an answer is a proof, and is kept before the activity returns; the same one again makes no changes', async () => {
    const arrived = bench.signaled('share', [await answerOf('ada'), { share: 'e1'.repeat(33) }]);
    const { verdicts, proofs } = await open(arrived);
    expect(verdicts.map(({ code }) => code)).toEqual(['accepted', 'plain-text-share']);
    expect(verdicts[1]?.eventId).toBeDefined();
    expect(proofs).toMatchObject([{ name: 'ada', how: 'signed', tool: 'page 1.0.0' }]);
    await open(arrived);
    const { people } = await bench.call('assessRehearsal', { deployment: DEPLOYMENT, holders: ['ada'] });
    expect(people).toEqual([{ name: 'ada', standBy: false, before: proofs[0]?.at }]);
    // Not a single call, of whatever method, by any activity of a rehearsal so far.
    expect(bench.service.calls).toEqual([]);
  });

  it('a rehearsal is opened by its own run alone, and its keys open no ceremony', async () => {
    const other = await create({ ...bench.run, rid: randomUUID() });
    const arrived = bench.signaled('share', [await answerOf('bert', other.invitation)]);
    const foreign = { deployment: DEPLOYMENT, ceremony: other, arrived };
    expect((await bench.failure('openRehearsal', foreign)).code).toBe('KEY_RECORD_MISSING');
    const asCeremony = { deployment: DEPLOYMENT, ceremony: handle, held: [], arrived };
    expect(['DOCUMENT_INVALID', 'KEY_RECORD_MISSING']).toContain(
      (await bench.failure('openEnvelopes', asCeremony)).code,
    );
    const burst = { deployment: DEPLOYMENT, cluster: 'west', uses: ['dr.promote'] as const, ceremony: handle };
    const { code } = await bench.generationFailure({ ...burst, envelopes: [] });
    expect(['DOCUMENT_INVALID', 'KEY_RECORD_MISSING']).toContain(code);
  });

  it('answers count for the deployment of the record, not for the one in the input', async () => {
    const own = await create(bench.run);
    const arrived = bench.signaled('share', [await answerOf('bert', own.invitation)]);
    await bench.call('openRehearsal', { deployment: 'other', ceremony: own, arrived });
    expect([...(await rehearsals.all(bench.records, DEPLOYMENT)).keys()].sort()).toEqual(['ada', 'bert']);
    const path = await bench.failure('openRehearsal', { deployment: '../../x', ceremony: own, arrived });
    expect(path).toMatchObject({ code: 'INVALID_INPUT', retryable: false });
  });
});

const recorded = (changes: Partial<RehearsalRecord> = {}): RehearsalRecord => ({
  ...{ version: 1, deployment: 'payments', holder: 'ada', at: '2026-03-01T10:00:00.000Z', how: 'signed' },
  ...{ kid: 'kid', tool: 'runbook 1.0.0', workers: 'w', wid: 'rehearsal:payments', rid: 'r' },
  ...changes,
});

describe('the record', () => {
  let bench: ActivityBench;
  openBench((opened) => (bench = opened));

  it('keeps the last success of each person, from any worker, and none of another deployment', async () => {
    const [one, other] = [bench.records, bench.recordsOfAWorker()];
    const at = (day: number) => `2026-03-${String(day).padStart(2, '0')}T10:00:00.000Z`;
    const keep = (records: Records, changes: Partial<RehearsalRecord>) => keepRehearsal(records, recorded(changes));
    await Promise.all([3, 9, 5].flatMap((day) => [keep(one, { at: at(day) }), keep(other, { at: at(day - 1) })]));
    await keep(one, { at: at(4) });
    await keep(other, { holder: 'bert' });
    await keep(other, { deployment: 'payments-eu' });
    const known = await rehearsals.all(other, 'payments');
    expect([...known].map(([name, { at: last }]) => [name, last]).sort()).toEqual([
      ['ada', at(9)],
      ['bert', at(1)],
    ]);
  });

  it('accepts only rehearsals, and reports if it cannot be written', async () => {
    const before = bench.recordServer.values('record:payments');
    for (const changes of [{ deployment: '../../x' }, { holder: '../x' }, { at: 'today' }])
      await expect(keepRehearsal(bench.records, recorded(changes))).rejects.toThrow();
    expect(bench.recordServer.values('record:payments')).toEqual(before);
    bench.recordServer.failure = new Error('silent');
    await expect(keepRehearsal(bench.records, recorded())).rejects.toMatchObject({ code: 'RECORD_UNAVAILABLE' });
    bench.recordServer.failure = undefined;
  });
});

describe('readiness', () => {
  const now = Date.parse('2026-05-01T00:00:00Z');
  const key = newSigningKey().key;
  const inventory: Inventory = parseInventory(EXAMPLE, 'inventory.yaml');
  const payments = (changes: Partial<Deployment> = {}): Deployment => {
    const found = inventory.deployments.get('payments');
    if (!found) throw new Error('no deployment');
    return { ...found, laboratory: false, ...changes };
  };
  const ada = payments().ceremony.holders[0] ?? '';
  const people = new Map(
    [...inventory.people].map(([name, person]) => [
      name,
      { ...person, attestation: 'signed' as const, publicKeys: [{ kid: key.kid, x: key.x }] },
    ]),
  );
  const judge = (record: Partial<RehearsalRecord> | undefined, deployment: Deployment) => {
    const last = record ? [[ada, recorded({ holder: ada, kid: key.kid, ...record })] as const] : [];
    return judgeRehearsals(deployment, { people, workers: 'w' }, new Map(last), now);
  };
  const { ceremony } = payments();
  const batch = payments({ ceremony: { ...ceremony, tokenSource: 'batch' } });
  const good = { at: '2026-04-21T00:00:00.000Z' };

  it.each<[string, Partial<RehearsalRecord> | undefined, Deployment, string, string]>([
    ['never', undefined, payments(), 'warn', 'never'],
    ['in a laboratory', undefined, payments({ laboratory: true }), 'ok', 'this is a laboratory'],
    ['if no holders are needed', undefined, batch, 'ok', 'none needed'],
    ['too long ago', { at: new Date(now - 91 * DAY_MS).toISOString() }, payments(), 'warn', '91 days ago'],
    [
      "with another key of the workers'",
      { ...good, workers: 'other' },
      payments(),
      'warn',
      'have changed their signing key',
    ],
    [
      'with a key that is not listed any more',
      { ...good, kid: 'gone' },
      payments(),
      'warn',
      'no longer in the inventory',
    ],
    ['with an attestation that counts no more', { ...good, how: 'claimed' }, payments(), 'warn', 'signed'],
    ['well', good, payments(), 'ok', '10 days ago, signed, with runbook 1.0.0'],
  ])('%s', (_, record, deployment, verdict, observed) => {
    expect(judge(record, deployment)[0]).toMatchObject({
      ...{ verdict, observed: expect.stringContaining(observed) as string },
    });
  });

  it('everyone who needs a rehearsal is named in the one command that is enough for all', () => {
    const { holders } = ceremony;
    const all = judge(undefined, payments()).map(({ next }) => next);
    expect(new Set(all)).toEqual(new Set([expect.stringContaining(JSON.stringify(holders))]));
    const others = judge(good, payments()).map(({ next }) => next);
    expect(others[0]).toBeUndefined();
    expect(new Set(others.slice(1))).toEqual(new Set([expect.stringContaining(JSON.stringify(holders.slice(1)))]));
  });

  it('stand-by holders are asked too', () => {
    const deployment = payments({ ceremony: { ...ceremony, standBy: ['sten'] } });
    expect(rosterOfRehearsal(deployment).at(-1)).toEqual({ name: 'sten', standBy: true });
  });
});
