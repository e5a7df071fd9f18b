/**
 * The roster where it is used: who is invited, whose decline counts, and that a set of shares that does not satisfy the
 * groups of the inventory makes no token, whatever the activity is passed.
 */
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { verifyInvitation } from '../../src/keys';
import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';
import { declineOf } from '../support/people';
import { newRecipient } from '../support/recipient';

const USES = ['dr.promote'] as const;
const TARGETS = [{ cluster: 'west', uses: USES }];
const SECURITY: Readonly<Record<string, object>> = {
  bert: { groups: ['holders', 'security'] },
  emil: { groups: ['holders', 'security'] },
};

function benchWith(ceremony: object, person: (name: string) => object | undefined = () => undefined) {
  return ActivityBench.start({
    deployment: { ceremony: { collectFor: '30m', useFor: '30m', ...ceremony } },
    person: (name) => ({ ...SECURITY[name], ...person(name) }),
  });
}

async function invitationOf(bench: ActivityBench, jws: string) {
  const pins = [{ environment: 'test', ...bench.workersKey }];
  return (await verifyInvitation(jws, { pins, now: Date.now(), holder: 'ada' })).invitation;
}

describe('the invitation', () => {
  it('names who is in office, says who stands by and which groups must give; the handle tells the workflow', async () => {
    const bench = await benchWith({
      holders: ['ada', { name: 'bert', until: '9999-12-31' }, { name: 'cleo', from: '9998-01-01' }],
      standBy: [{ name: 'dora', until: '2020-01-31' }, 'emil'],
      inviteStandByAfter: '7m',
      groups: [{ group: 'security', shares: 1 }],
    });
    const handle = await bench.ceremony(TARGETS);
    const invitation = await invitationOf(bench, handle.invitation);
    expect(invitation).toMatchObject({ holders: ['ada', 'bert', 'emil'], standBy: ['emil'], threshold: 3 });
    expect(invitation.groups).toEqual([{ group: 'security', shares: 1 }]);
    expect(handle).toMatchObject({
      holders: ['ada', 'bert', 'emil'],
      standBy: ['emil'],
      inviteStandByAfterMs: 420_000,
      groups: [{ group: 'security', shares: 1, members: ['bert', 'emil'] }],
      outOfTerm: [
        { name: 'cleo', why: 'in office from 9998-01-01' },
        { name: 'dora', why: 'in office until 2020-01-31' },
      ],
    });
    // The same again: a retry after a lost answer asks nobody twice.
    expect((await bench.ceremony(TARGETS)).invitation).toBe(handle.invitation);
    // What came of somebody who is out of office is not accepted.
    const [envelope] = await bench.envelopes(handle.invitation, ['ada']);
    const arrived = bench.signaled('share', [{ document: envelope }]);
    const { verdicts } = await bench.call('openEnvelopes', {
      deployment: DEPLOYMENT,
      ceremony: handle,
      held: [],
      arrived,
    });
    expect(verdicts).toMatchObject([{ code: 'accepted' }]);
    await bench.stop();
  });

  it('has no such members where the inventory has none', async () => {
    const bench = await ActivityBench.start();
    const handle = await bench.ceremony(TARGETS);
    const invitation = await invitationOf(bench, handle.invitation);
    for (const one of [handle, invitation])
      for (const member of ['standBy', 'groups', 'outOfTerm']) expect(one).not.toHaveProperty(member);
    await bench.stop();
  });

  it.each([
    ['too few in office', { holders: ['ada', 'bert', { name: 'cleo', until: '2020-01-01' }] }, 'INVALID_INPUT'],
    [
      'groups that as many shares as make a token cannot satisfy',
      {
        holders: ['ada', 'bert', 'cleo', 'emil'],
        groups: [
          { group: 'security', shares: 2 },
          { group: 'finance', shares: 2 },
        ],
      },
      'PRECONDITION_FAILED',
    ],
  ])('is not made for %s; the assessment says so before anybody is asked', async (_what, ceremony, code) => {
    const bench = await benchWith(ceremony, (name) =>
      ['ada', 'cleo'].includes(name) ? { groups: ['holders', 'finance'] } : undefined,
    );
    const input = { deployment: DEPLOYMENT, runbook: 'drSwitchover', reason: 'a test', requestedBy: 'olga' };
    const failure = await bench.failure('createCeremony', { ...input, targets: TARGETS, epoch: 1, inputDigest: 'd' });
    expect(failure.code).toBe(code);
    expect(failure.details).toMatchObject({ needed: expect.any(String) as string, next: expect.any(String) as string });
    const asked = { deployment: DEPLOYMENT, cluster: 'west', uses: USES, keepFor: '1h', reason: 'a test' };
    const { preconditions } = await bench.call('assessCeremony', {
      input: RUNBOOK_INPUTS.operationTokenCeremony.parse(asked),
    });
    expect(preconditions).toContainEqual(expect.objectContaining({ name: 'enough key holders', verdict: 'fail' }));
    await bench.stop();
  });
});

describe('groups, where shares are used', () => {
  let bench: ActivityBench;
  let ceremony: CeremonyHandle;
  const all = new Map<string, string>();
  beforeAll(async () => {
    bench = await benchWith({
      holders: ['ada', 'bert', 'cleo', 'dora', 'emil'],
      groups: [{ group: 'security', shares: 1 }],
    });
    const { fingerprint: _fingerprint, ...handle } = await bench.ceremony(TARGETS);
    ceremony = handle;
    const names = ['ada', 'cleo', 'dora', 'emil'];
    const envelopes = await bench.envelopes(ceremony.invitation, names);
    names.forEach((name, index) => all.set(name, envelopes[index] ?? ''));
    const [bad] = await bench.envelopes(ceremony.invitation, ['bert'], { bert: `${'42'.repeat(32)}ee` });
    all.set('badBert', bad ?? '');
  });
  afterAll(async () => {
    expect(bench.leaks()).toEqual([]);
    await bench.stop();
  });

  const input = (names: readonly string[], more: Partial<CeremonyHandle> = {}) => ({
    ...{ deployment: DEPLOYMENT, cluster: 'west', uses: USES, ceremony: { ...ceremony, ...more } },
    envelopes: names.map((name) => all.get(name) ?? ''),
  });

  it('a set that does not satisfy them makes no token: not even a generation attempt', async () => {
    const failure = await bench.generationFailure(input(['ada', 'cleo', 'dora']));
    expect(failure).toMatchObject({
      code: 'SHARES_MISSING',
      details: {
        observed: 'shares of ada, cleo, dora',
        needed: expect.stringMatching(/^3 shares, of them 1 of security .*not Shamir's/) as string,
        next: expect.stringContaining('1 more of security (bert, emil)') as string,
      },
    });
    expect(bench.calls('west', 'generate-operation-token/attempt')).toBe(0);
  });

  it.each([
    ['a handle without groups', {}],
    ['a handle with other groups', { groups: [{ group: 'security', shares: 1, members: ['ada', 'cleo', 'dora'] }] }],
    ['a lower threshold', { threshold: 1 }],
  ])('what the activity is passed does not count: %s', async (_what, forged) => {
    const { groups: _groups, ...without } = ceremony;
    const failure = await bench.generationFailure({
      ...input(['ada', 'cleo', 'dora']),
      ceremony: { ...without, ...forged },
    });
    expect(failure.code).toBe('SHARES_MISSING');
    expect(bench.calls('west', 'generate-operation-token/attempt')).toBe(0);
  });

  it('of more shares than needed only sets that satisfy them are given, also where the service rejects some', async () => {
    const failure = await bench.generationFailure(input(['ada', 'cleo', 'dora', 'badBert']));
    // Without the groups the first set would have worked: ada, cleo and dora.
    expect(failure.code).toBe('SHARES_REJECTED');
    expect(failure.details['observed']).toContain('3 of 4 possible sets tried, those that the groups allow');
    const { badShares, token } = await bench.generate(input(['ada', 'cleo', 'dora', 'emil']));
    expect(badShares).toEqual([]);
    expect(token).toEqual(expect.any(String));
  });

  it('hold for root tokens too', async () => {
    const recipient = await newRecipient();
    const about = { deployment: DEPLOYMENT, cluster: 'east', recipientPgpKey: recipient.publicKey };
    const { fingerprint: _fingerprint, ...handle } = await bench.call('createCeremony', {
      ...({ kind: 'root-token', targets: [{ cluster: 'east', uses: [] }] } as const),
      ...{ deployment: DEPLOYMENT, recipientPgpKey: recipient.publicKey },
      ...{ runbook: 'rootTokenCeremony', reason: 'a test', requestedBy: 'olga', inputDigest: 'd', epoch: 1 },
      cid: '0b6f8f9e-2d0f-4c35-9a54-1f9f0d0f0002',
    });
    expect(handle).toMatchObject({ groups: [{ group: 'security' }] });
    const asked = RUNBOOK_INPUTS.rootTokenCeremony.parse({ ...about, reason: 'a test', requestedBy: 'olga' });
    const { plan } = await bench.call('assessRootTokenCeremony', { input: asked });
    if (!plan) throw new Error('no plan');
    const failure = await bench.generationFailure({
      ...about,
      ceremony: handle,
      authority: { plan, approvals: [await bench.approval('ceremony', plan.digest)] },
      envelopes: await bench.envelopes(handle.invitation, ['ada', 'cleo', 'dora']),
    });
    expect(failure.code).toBe('SHARES_MISSING');
    expect(bench.calls('east', 'sys/generate-root/attempt')).toBe(0);
  });
});

describe('a decline', () => {
  let bench: ActivityBench;
  const CID = '0b6f8f9e-2d0f-4c35-9a54-1f9f0d0f0003';
  const ceremony = { cid: CID, epoch: 2, holders: ['ada', 'bert', 'cleo', 'dora'] };
  beforeAll(async () => {
    const attested: Readonly<Record<string, object>> = {
      bert: { attestation: 'principal', principal: 'user:bert' },
      cleo: { attestation: 'claimed' },
    };
    bench = await benchWith({ holders: ['ada', 'bert', 'cleo', 'dora', 'emil'] }, (name) => attested[name]);
  });
  afterAll(() => bench.stop());

  const members = (name: string, more: object = {}) => ({
    ...{ ...bench.run, cid: CID, epoch: 2, reason: 'ill', name, iat: 1 },
    ...more,
  });
  const check = async (content: unknown, principal?: string) => {
    const arrived = bench.signaled('decline', [content], principal);
    const { verdicts } = await bench.call('checkDeclines', { deployment: DEPLOYMENT, ceremony, arrived });
    return verdicts[0];
  };

  it('counts as strongly as the inventory demands of the person', async () => {
    expect(await check(await declineOf(bench.person('ada'), members('ada')))).toMatchObject({
      accepted: true,
      by: { name: 'ada', how: 'signed' },
      reason: 'ill',
      text: 'cannot give a share: ill',
    });
    expect(await check(members('bert'), 'user:bert')).toMatchObject({ by: { name: 'bert', how: 'principal' } });
    expect(await check(members('cleo'))).toMatchObject({ accepted: true, by: { name: 'cleo', how: 'claimed' } });
    for (const [content, principal] of [
      [members('ada'), undefined],
      [members('bert'), undefined],
      [members('bert'), 'user:ada'],
      [await declineOf(bench.person('dora'), members('ada')), undefined],
    ] as const)
      expect(await check(content, principal)).toMatchObject({ accepted: false, code: 'refused' });
  });

  it.each([
    ['another run', { rid: '0b6f8f9e-2d0f-4c35-9a54-1f9f0d0f0009' }, 'another run'],
    ['another workflow', { wid: 'deployment:other' }, 'another workflow'],
    ['another ceremony', { cid: '0b6f8f9e-2d0f-4c35-9a54-1f9f0d0f0009' }, 'another ceremony'],
    ['an earlier epoch', { epoch: 1 }, 'another round'],
    ['a member too many', { share: 'x' }, 'does not have the members'],
  ])('for %s is refused', async (_what, more, why) => {
    const verdict = await check(members('cleo', more));
    expect(verdict).toMatchObject({ accepted: false, code: 'refused' });
    expect(verdict?.text).toContain(why);
  });

  it('of somebody who is not invited is refused; an approval is no decline', async () => {
    expect((await check(await declineOf(bench.person('emil'), members('emil'))))?.text).toContain('not asked');
    expect(await check(await bench.approval('plan', 'd', 'ada'))).toMatchObject({ accepted: false, code: 'refused' });
    expect(await check({ undecodable: 'json/protobuf' })).toMatchObject({ code: 'undecodable' });
  });

  it('with a key share in its reason is refused and never repeated', async () => {
    const share = bench.person('dora').share ?? '';
    expect(await check(members('cleo', { reason: `my share is ${share}` }))).toMatchObject({
      accepted: false,
      code: 'plain-text-share',
      eventId: expect.any(Number) as number,
    });
    expect(await check(share)).toMatchObject({ code: 'plain-text-share' });
    // In a signed one it is not looked for, and is redacted.
    await check(await declineOf(bench.person('ada'), members('ada', { reason: `my share is ${share}` })));
    expect(bench.leaks()).toEqual([]);
  });

  it('is one line, whatever it holds', async () => {
    const verdict = await check(members('cleo', { reason: 'ill\n\n**CRITICAL**: no' }));
    expect(verdict?.reason).toBe('ill **CRITICAL**: no');
    expect(await check(members('cleo', { reason: '' }))).toMatchObject({ reason: 'no reason given' });
  });
});
