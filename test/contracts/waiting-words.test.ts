/** What people read of who is asked for key shares: every name, every command, and whose policy the groups are. */
import { messageOf, plainText } from '../../activities/notifications/notification-texts';
import type { Waiting } from '../../src/contracts/run-status';
import { sharesStillNeeded, waitingText } from '../../src/words/status';
import type { Inventory } from '../../src/inventory';

type Asking = Extract<Waiting, { for: 'shares' }>;

const WID = 'deployment:payments';
const ASKING: Asking = {
  for: 'shares',
  cid: 'c',
  epoch: 1,
  held: ['ada'],
  missingHolders: ['bert'],
  threshold: 3,
  until: 0,
};
const EVERYTHING: Asking = {
  ...ASKING,
  standBy: { holders: ['emil'], askedFrom: 60_000 },
  declined: [{ by: { name: 'cleo', how: 'claimed' }, reason: 'ill' }],
  groups: [
    { group: 'security', needed: 1, held: [], outOf: ['bert', 'emil'] },
    { group: 'finance', needed: 1, held: ['ada'], outOf: [] },
    { group: 'audit', needed: 1, held: [], outOf: [] },
  ],
  outOfTerm: [{ name: 'fred', why: 'in office until 2026-10-31' }],
};

it('without stand-by holders, declines and groups only who is asked is named', () => {
  expect(waitingText(WID, ASKING, String).lines).toEqual([
    {
      text: 'Asked, not in hand yet',
      below: [{ text: 'bert', command: 'runbook share deployment:payments --holder bert' }],
    },
    {
      text: 'Anyone who cannot give',
      command: 'runbook decline deployment:payments',
    },
  ]);
});

it('each person has his command, by what is known of him', () => {
  const lines = waitingText(WID, EVERYTHING, String).lines;
  const text = JSON.stringify(lines);
  for (const name of ['bert', 'cleo', 'emil']) expect(text).toContain(`runbook share ${WID} --holder ${name}`);
  expect(text).not.toContain('--holder ada');
  expect(lines.map((line) => line.text)).toEqual([
    'Asked, not in hand yet',
    'Declined; may give all the same',
    'Standing by, asked at 60000 or as soon as somebody declines; may give now',
    'Anyone who cannot give',
    expect.stringMatching(/^Groups \(our policy.*not Shamir's/),
    'Not invited: fred, in office until 2026-10-31',
  ]);
  expect(lines[4]?.below?.map((line) => line.text)).toEqual([
    'security: 0 of 1, needs 1 more of bert, emil',
    'finance: 1 of 1 (ada), met',
    'audit: 0 of 1, needs 1 more of NOBODY who is left',
  ]);
});

it('groups that no set satisfies together are said to be so', () => {
  const groups = [{ group: 'security', needed: 1, held: ['ada'], outOf: [] }];
  const below = waitingText(WID, { ...ASKING, groups, groupsNotTogether: true }, String).lines.at(-1)?.below;
  expect(below?.at(-1)?.text).toContain('no set of shares that makes a token satisfies all of them at once');
});

it.each<[Partial<Asking>, string]>([
  [{ held: [] }, '3 key shares'],
  [{}, '2 more key shares (of 3)'],
  [{ held: ['ada', 'bert'] }, '1 more key share (of 3)'],
  [
    { held: ['ada', 'bert', 'cleo'], groups: [{ group: 'security', needed: 1, held: [], outOf: ['dora'] }] },
    'more key shares for the groups: 1 of security',
  ],
  [{ held: ['ada', 'bert', 'cleo'] }, '3 key shares'],
])('says how much is still needed: %j', (more, words) => {
  expect(sharesStillNeeded({ ...ASKING, ...more })).toBe(words);
});

it('a reminder names who is missing, with the exact command of each', () => {
  const about = {
    event: 'reminder',
    severity: 'info',
    runbook: 'drSwitchover',
    number: 1,
    subject: 'wait:shares',
  } as const;
  const people = new Map(['ada', 'bert', 'cleo', 'emil'].map((name) => [name, {}]));
  const shareGroups = ['security', 'finance', 'audit'].map((group) => ({ group }));
  const deployments = new Map([['payments', { clusters: new Map(), gates: {}, shareGroups }]]);
  const inventory = { temporal: {}, people, deployments } as unknown as Inventory;
  const told = { ...about, at: 0, waiting: EVERYTHING };
  const message = messageOf(inventory, 'payments', told, { ns: 'default', wid: WID, rid: 'r' });
  expect(message.commands.map(({ who, as }) => [who, as])).toEqual([
    ['bert', undefined],
    ['cleo', 'declined'],
    ['emil', 'stand-by'],
    ['anyone who cannot give', undefined],
  ]);
  const text = plainText(message);
  expect(text).toContain('cleo (declined):\n    runbook share deployment:payments --holder cleo');
  expect(text).toContain('- Declined; may give all the same: cleo (UNVERIFIED: "ill")');
  expect(text).toContain(
    '- Standing by, asked at 1970-01-01T00:01:00.000Z or as soon as somebody declines; may give now: emil',
  );
  expect(text).toMatch(/- Groups \(our policy.*not Shamir's/);
});
