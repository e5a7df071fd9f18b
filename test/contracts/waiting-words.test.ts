/** What people read of who is asked for key shares: every name, every command. */
import { messageOf, plainText } from '../../activities/notifications/notification-texts';
import type { Waiting } from '../../src/contracts/run-status';
import { waitingText } from '../../src/words/status';
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
const EVERYTHING: Asking = { ...ASKING, standBy: { holders: ['emil'], askedFrom: 60_000 }, notJoined: ['fred'] };

it('each person has his command, by what is known of him', () => {
  const command = (name: string) => [{ text: name, command: `runbook share ${WID} --holder ${name}` }];
  const asked = { text: 'Asked, not in hand yet', below: command('bert') };
  expect(waitingText(WID, ASKING, String).lines).toEqual([asked]);
  expect(waitingText(WID, EVERYTHING, String).lines).toEqual([
    asked,
    { text: 'Standing by, asked at 60000; may give now', below: command('emil') },
    { text: 'Not invited: fred, has not joined' },
  ]);
});

it.each<[Partial<Asking>, string]>([
  [{ held: [] }, '3 key shares'],
  [{}, '2 more key shares (of 3)'],
  [{ held: ['ada', 'bert'] }, '1 more key share (of 3)'],
  [{ held: ['ada', 'bert', 'cleo'] }, '3 key shares'],
])('says how much is still needed: %j', (more, words) => {
  expect(waitingText(WID, { ...ASKING, ...more }, String).title).toBe(`Waits for ${words}`);
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
  const deployments = new Map([['payments', { clusters: new Map() }]]);
  const inventory = { temporal: {}, people, deployments } as unknown as Inventory;
  const told = { ...about, at: 0, waiting: EVERYTHING };
  const message = messageOf(inventory, 'payments', told, { ns: 'default', wid: WID, rid: 'r' });
  expect(message.title).toBe('payments: drSwitchover still waits for key shares from bert.');
  expect(plainText(message)).toContain('bert:\n    runbook share deployment:payments --holder bert');
  expect(message.commands.at(-1)?.command).toBe('runbook status deployment:payments');
});
