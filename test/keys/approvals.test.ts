import fc from 'fast-check';
import { evaluateGate, verifyApproval } from '../../src/keys/approvals';
import type { CountedApproval } from '../../src/keys/approvals';
import type { Principal } from '../../src/contracts/run-facts';
import { DOCUMENT_TYPES, signDocument } from '../../src/documents/documents';
import { failureOf, jwt, lookup, person, RUN } from './builders';

const ada = person('ada');
const ben = person('ben', 'claimed');
const pia = person('pia', 'principal', 'user:pia');
const context = { run: RUN, people: lookup(ada, ben, pia), gate: 'plan' as const, planDigest: 'digest-of-the-plan' };
const approval = {
  ...RUN,
  gate: 'plan',
  planDigest: 'digest-of-the-plan',
  verdict: 'approve' as const,
  comment: 'looks good',
  name: 'ada',
  iat: 1_900_000_000,
};
const CANARY = 'canary-of-an-approver';

async function refused(document: unknown, changes: { principal?: Principal } = {}): Promise<string> {
  const { code, text } = await failureOf(() => verifyApproval(document, { ...context, ...changes }));
  expect(code).toBe('DOCUMENT_INVALID');
  expect(text).not.toContain(CANARY);
  return text;
}

describe('an approval', () => {
  it('counts as the inventory declares its person', async () => {
    const signed = await verifyApproval(await signDocument(DOCUMENT_TYPES.approval, approval, ada.key), context);
    expect(signed).toMatchObject({ name: 'ada', how: 'signed', verdict: 'approve', comment: 'looks good' });
    // As the start form of a browser likes it.
    const document = await signDocument(DOCUMENT_TYPES.approval, approval, ada.key);
    await expect(verifyApproval({ document }, context)).resolves.toMatchObject({ name: 'ada', how: 'signed' });
    const claimed = await verifyApproval({ ...approval, name: 'ben' }, context);
    expect(claimed).toMatchObject({ name: 'ben', how: 'claimed' });
    const seen = await verifyApproval({ ...approval, name: 'pia' }, { ...context, principal: jwt('user:pia') });
    expect(seen).toMatchObject({ name: 'pia', how: 'principal' });
    expect(new Set([signed.digest, claimed.digest, seen.digest]).size).toBe(3);
  });

  it('cannot be claimed for a person who signs, nor for one whom the server must attest', async () => {
    expect(await refused(approval)).toContain('requires a signature');
    await refused({ ...approval, name: 'pia' });
    await refused({ ...approval, name: 'pia' }, { principal: jwt('user:ben') });
    await refused(await signDocument(DOCUMENT_TYPES.approval, { ...approval, name: 'pia' }, pia.key));
  });

  it("is not signed with another person's key, nor as another document", async () => {
    await refused(await signDocument(DOCUMENT_TYPES.approval, approval, ben.key));
    await refused(await signDocument('runbooks-decision-v1', approval, ada.key));
  });

  it.each([
    ['another namespace', { ns: 'other' }],
    ['another workflow', { wid: 'deployment:other' }],
    ['another run', { rid: 'other' }],
    ['another gate', { gate: 'go' }],
    ['another plan', { planDigest: 'other' }],
    ['a person who is not in the inventory', { name: CANARY }],
    ['an unknown verdict', { verdict: CANARY }],
    ['a further member', { extra: CANARY }],
  ])('is refused for %s', async (_what, changes) => {
    await refused(await signDocument('runbooks-approval-v1', { ...approval, ...changes }, ada.key));
    await refused({ ...approval, name: 'ben', ...changes });
  });

  it.each([[undefined], [null], [CANARY], [{ undecodable: true }], [[]], [`eyJ.${CANARY}.c`]])(
    'is refused if it is none: %p',
    async (value) => {
      await refused(value);
    },
  );

  it('shows no secret from its comment', async () => {
    const leaking = { ...approval, name: 'ben', comment: 'use hvs.CAESIJ3dKxGZ0bYt2lPq0w8example' };
    expect((await verifyApproval(leaking, context)).comment).toBe('use [redacted]');
  });
});

const approve = (name: string, ...groups: string[]): CountedApproval => ({ name, groups, verdict: 'approve' });
const reject = (name: string, ...groups: string[]): CountedApproval => ({ name, groups, verdict: 'reject' });
const [byAda, byBen] = [approve('ada', 'approvers'), approve('ben', 'approvers')];
const ofBoth = approve('ada', 'approvers', 'security');
const one = { approvals: 1, groups: ['approvers'], excludeRequester: true, approvers: ['ada', 'ben', 'req'] };
const two = { ...one, approvals: 2 };
const both = { ...two, groups: ['approvers', 'security'], approvers: ['ada', 'req', 'sam'] };

describe('the policy of a gate', () => {
  it.each([
    ['one of one', one, 'req', [byAda], true],
    ['nobody yet', one, 'req', [], false],
    ['somebody of no listed group', one, 'req', [approve('ada', 'holders')], false],
    ['the requester alone, excluded', one, 'ada', [byAda], false],
    ['the requester alone, allowed', { ...one, excludeRequester: false }, 'ada', [byAda], true],
    ['no known requester', one, undefined, [byAda], true],
    ['the same person twice', two, 'req', [byAda, byAda], false],
    ['two people', two, 'req', [byAda, byBen], true],
    ['two of one group if two groups are needed', both, 'req', [byAda, byBen], false],
    ['one of each group', both, 'req', [byAda, approve('sam', 'security')], true],
    ['one person of both groups if two are needed', both, 'req', [ofBoth], false],
    ['one person of both groups if one is enough', { ...both, approvals: 1 }, 'req', [ofBoth], true],
  ] as const)('%s', (_what, policy, requester, approvals, satisfied) => {
    const result = evaluateGate(policy, requester, approvals);
    expect([result.satisfied, result.missing.length === 0]).toEqual([satisfied, satisfied]);
  });

  it('closes at a rejection by anyone who may approve, at any time', () => {
    for (const [approvals, rejectedBy] of [
      [[byAda, reject('ben', 'approvers')], 'ben'],
      [[byAda, reject('ada', 'approvers')], 'ada'],
      [[reject('req', 'approvers'), byAda], 'req'],
      [[byAda, reject('eve', 'holders')], undefined],
    ] as const) {
      const result = evaluateGate(one, 'req', approvals);
      expect([result.satisfied, result.rejectedBy]).toEqual([rejectedBy === undefined, rejectedBy]);
    }
  });

  it('says in words who is missing', () => {
    expect(evaluateGate(both, 'req', [approve('ada', 'approvers')]).missing).toEqual([
      '1 more of sam',
      'an approval by a member of security, other than the requester req',
    ]);
  });

  it('never opens with fewer different people than it needs, and never loses an approval by a further one', () => {
    const anyApproval = fc.record({
      name: fc.constantFrom('ada', 'ben', 'cyd', 'req'),
      groups: fc.subarray(['approvers', 'security', 'holders']),
      verdict: fc.constant('approve' as const),
    });
    fc.assert(
      fc.property(
        fc.array(anyApproval, { maxLength: 8 }),
        anyApproval,
        fc.boolean(),
        (approvals, further, excludeRequester) => {
          const policy = { ...both, excludeRequester };
          const result = evaluateGate(policy, 'req', approvals);
          const people = new Set(
            approvals.map(({ name }) => name).filter((name) => !excludeRequester || name !== 'req'),
          );
          if (result.satisfied) expect(people.size).toBeGreaterThanOrEqual(2);
          if (result.satisfied) expect(evaluateGate(policy, 'req', [...approvals, further]).satisfied).toBe(true);
        },
      ),
      { seed: 19, numRuns: 300 },
    );
  });
});
