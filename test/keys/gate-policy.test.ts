import fc from 'fast-check';
import { evaluateGate } from '../../src/keys/approvals';
import type { CountedApproval } from '../../src/keys/approvals';

const approve = (name: string, ...groups: string[]): CountedApproval => ({ name, groups, verdict: 'approve' });
const reject = (name: string, ...groups: string[]): CountedApproval => ({ name, groups, verdict: 'reject' });
const one = { approvals: 1, groups: ['approvers'], excludeRequester: true };
const two = { ...one, approvals: 2 };
const both = { approvals: 2, groups: ['approvers', 'security'], excludeRequester: true };

describe('the policy of a gate', () => {
  it.each<[string, Parameters<typeof evaluateGate>, boolean]>([
    ['one of one', [one, 'req', [approve('ada', 'approvers')]], true],
    ['nobody yet', [one, 'req', []], false],
    ['somebody of no listed group', [one, 'req', [approve('ada', 'holders')]], false],
    ['the requester alone, excluded', [one, 'ada', [approve('ada', 'approvers')]], false],
    ['the requester alone, allowed', [{ ...one, excludeRequester: false }, 'ada', [approve('ada', 'approvers')]], true],
    ['no known requester', [one, undefined, [approve('ada', 'approvers')]], true],
    ['the same person twice', [two, 'req', [approve('ada', 'approvers'), approve('ada', 'approvers')]], false],
    ['two people', [two, 'req', [approve('ada', 'approvers'), approve('ben', 'approvers')]], true],
    [
      'two of one group where two groups are needed',
      [both, 'req', [approve('ada', 'approvers'), approve('ben', 'approvers')]],
      false,
    ],
    ['one of each group', [both, 'req', [approve('ada', 'approvers'), approve('sam', 'security')]], true],
    ['one person of both groups where two are needed', [both, 'req', [approve('ada', 'approvers', 'security')]], false],
    [
      'one person of both groups where one is enough',
      [{ ...both, approvals: 1 }, 'req', [approve('ada', 'approvers', 'security')]],
      true,
    ],
  ])('%s', (_what, args, satisfied) => {
    const result = evaluateGate(...args);
    expect(result.satisfied).toBe(satisfied);
    expect(result.missing.length === 0).toBe(satisfied);
  });

  it('closes at a rejection by anyone who may approve, whenever it comes', () => {
    const approved = [approve('ada', 'approvers')];
    expect(evaluateGate(one, 'req', [...approved, reject('ben', 'approvers')])).toMatchObject({
      satisfied: false,
      rejectedBy: 'ben',
    });
    expect(evaluateGate(one, 'req', [...approved, reject('ada', 'approvers')])).toMatchObject({
      satisfied: false,
      rejectedBy: 'ada',
    });
    expect(evaluateGate(one, 'req', [reject('req', 'approvers'), ...approved])).toMatchObject({
      satisfied: false,
      rejectedBy: 'req',
    });
    expect(evaluateGate(one, 'req', [...approved, reject('eve', 'holders')])).toMatchObject({ satisfied: true });
  });

  it('says what is missing in words', () => {
    expect(evaluateGate(both, 'req', [approve('ada', 'approvers')]).missing).toEqual([
      '1 more approval out of approvers, security, other than req, who asked',
      'an approval by a member of security, other than req, who asked',
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
