import { approversOf, decidersOf, findDeployment, parseInventory, rosterOf } from '../../src/inventory';
import { changed, mistakes } from './example';

const CEREMONY = 'ceremony: { holders: [ben, cyd, dan], collectFor: 20m, tokenSource: auto, batchMargin: 45m }';

const inventoryWith = (ceremony: string) =>
  changed(CEREMONY, `ceremony:\n      ${ceremony.split('\n').join('\n      ')}`);

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
  expect([rosterOf(deployment), deployment.notJoined]).toEqual([{ holders: ['cyd', 'dan'], standBy: [] }, ['ben']]);
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
      'stand-by holders who are never asked',
      'holders: [ben]\nstandBy: [cyd]\ninviteStandByAfter: 20m\ncollectFor: 20m',
      2,
      'inviteStandByAfter: stand-by holders would never be asked: collectFor ends before',
    ],
    ['a holder whom only JavaScript knows', 'holders: [constructor]', 0, ''],
  ])('%s', (_what, ceremony, line, message) => {
    const text = inventoryWith(ceremony);
    const first = text.split('\n').findIndex((each) => each.includes('ceremony:')) + 2;
    const [found = ''] = mistakes(text);
    expect(found).toMatch(new RegExp(`^inventory.yaml:${first + line}:\\d+: deployments.payments.ceremony.`));
    expect(found).toContain(message);
  });
});
