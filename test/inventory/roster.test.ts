import { approversOf, decidersOf, findDeployment, outOfTerm, parseInventory, rosterAt } from '../../src/inventory';
import { changed, mistakes } from './example';

const CEREMONY = 'ceremony: { holders: [ben, cyd, dan], collectFor: 20m, tokenSource: auto, batchMargin: 45m }';

const inventoryWith = (ceremony: string) =>
  changed(CEREMONY, `ceremony:\n      ${ceremony.split('\n').join('\n      ')}`);
const at = (date: string) => Date.parse(date);

describe('a term of office', () => {
  it('includes its first and its last day, in UTC', () => {
    const term = { name: 'ben', from: '2026-01-01', until: '2026-06-30' };
    expect(outOfTerm(term, at('2025-12-31T23:59:59Z'))).toBe('in office from 2026-01-01');
    expect(outOfTerm(term, at('2026-01-01T00:00:00Z'))).toBeUndefined();
    expect(outOfTerm(term, at('2026-06-30T23:59:59Z'))).toBeUndefined();
    expect(outOfTerm(term, at('2026-07-01T00:00:00Z'))).toBe('in office until 2026-06-30');
    expect(outOfTerm(undefined, at('2026-07-01T00:00:00Z'))).toBeUndefined();
  });

  it('keeps a holder out of the roster and out of his groups, and says why', () => {
    const text = inventoryWith(
      [
        'holders: [ben, { name: cyd, until: 2026-06-30 }]',
        'standBy: [{ name: dan, from: 2026-07-01 }]',
        'groups: [{ group: holders, shares: 2 }]',
      ].join('\n'),
    );
    const deployment = findDeployment(parseInventory(text, 'i'), 'payments');
    expect(rosterAt(deployment, at('2026-06-01T00:00:00Z'))).toEqual({
      holders: ['ben', 'cyd'],
      standBy: [],
      outOfTerm: [{ name: 'dan', why: 'in office from 2026-07-01' }],
      groups: [{ group: 'holders', shares: 2, members: ['ben', 'cyd'] }],
    });
    expect(rosterAt(deployment, at('2026-07-02T00:00:00Z'))).toMatchObject({
      holders: ['ben'],
      standBy: ['dan'],
      outOfTerm: [{ name: 'cyd', why: 'in office until 2026-06-30' }],
      groups: [{ members: ['ben', 'dan'] }],
    });
  });
});

it('somebody who signs and has not joined is invited to nothing, approves nothing and decides nothing', () => {
  const text = changed(
    'ben: { groups: [holders], attestation: claimed }',
    'ben: { groups: [holders, approvers, operators] }',
  );
  expect(mistakes(text)).toEqual([]);
  const inventory = parseInventory(text, 'i');
  const deployment = findDeployment(inventory, 'payments');
  const names = decidersOf(inventory, deployment).map(({ name }) => name);
  expect([names, approversOf(inventory, deployment, 'plan').map(({ name }) => name)]).toEqual([['ada'], ['ada']]);
  expect(rosterAt(deployment, 0)).toMatchObject({
    holders: ['cyd', 'dan'],
    outOfTerm: [{ name: 'ben', why: 'has not joined' }],
  });
});

describe('a mistake in the roster has its line', () => {
  it.each([
    ['who stands by is nobody', 'holders: [ben, cyd]\nstandBy: [eve]', 1, 'standBy[0]: eve is not among the people'],
    ['stand-by twice', 'holders: [ben]\nstandBy:\n  - cyd\n  - cyd', 3, 'standBy[1]: cyd is listed twice'],
    [
      'holder and stand-by',
      'holders: [ben, cyd]\nstandBy:\n  - dan\n  - ben',
      3,
      'standBy[1]: ben is a holder already: stand-by holders are asked later',
    ],
    [
      'a term that ends before it begins',
      'holders:\n  - ben\n  - name: cyd\n    from: 2026-02-01\n    until: 2026-01-31',
      4,
      'holders[1].until: the term ends before it begins',
    ],
    ['a date that is none', 'holders: [{ name: ben, until: 2026-02-30 }]', 0, 'holders[0].until: '],
    [
      'a group of nobody',
      'holders: [ben, cyd]\ngroups:\n  - { group: approvers, shares: 1 }',
      2,
      'groups[0]: no holder, stand-by or not, is in group approvers',
    ],
    [
      'a group that is too small',
      'holders: [ben, cyd]\ngroups:\n  - group: holders\n    shares: 3',
      3,
      'groups[0].shares: 3 shares needed, but only ben, cyd may give one',
    ],
    [
      'a group twice',
      'holders: [ben, cyd]\ngroups:\n  - { group: holders, shares: 1 }\n  - { group: holders, shares: 2 }',
      3,
      'groups[1]: group holders is listed twice',
    ],
    [
      'stand-by holders who are never asked',
      'holders: [ben]\nstandBy: [cyd]\ninviteStandByAfter: 20m\ncollectFor: 20m',
      2,
      'inviteStandByAfter: stand-by holders would never be asked: collectFor ends before',
    ],
    ['a holder whom only JavaScript knows', 'holders: [constructor]\ngroups: [{ group: holders, shares: 1 }]', 0, ''],
  ])('%s', (_what, ceremony, line, message) => {
    const text = inventoryWith(ceremony);
    const first = text.split('\n').findIndex((each) => each.includes('ceremony:')) + 2;
    const [found = ''] = mistakes(text);
    expect(found).toMatch(new RegExp(`^inventory.yaml:${first + line}:\\d+: deployments.payments.ceremony.`));
    expect(found).toContain(message);
  });
});
