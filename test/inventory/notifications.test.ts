import { RunbookError } from '../../src/errors';
import { parseInventory } from '../../src/inventory/load';
import { EXAMPLE } from './example';

const targets = (...lines: readonly string[]) =>
  parseInventory(
    `${EXAMPLE}    notifications:\n${lines.map((line) => `      - ${line}\n`).join('')}`,
    'inventory.yaml',
  ).deployments.get('payments')?.notifications;

function mistake(line: string): string {
  try {
    targets(line);
  } catch (error) {
    if (error instanceof RunbookError && error.code === 'INVENTORY_INVALID') return error.message;
    throw error;
  }
  return '';
}

const MAIL = 'name: mail, kind: email, host: smtp.example.com, port: 587, from: a@example.com, to: [b@example.com]';

describe('notifications of an inventory', () => {
  it('are none by default, and people are reminded after 10 and escalated after 20 minutes', () => {
    const payments = parseInventory(EXAMPLE, 'inventory.yaml').deployments.get('payments');
    expect(payments?.notifications).toEqual([]);
    expect(payments?.people).toEqual({ remindAfterMs: 600_000, escalateAfterMs: 1_200_000 });
  });

  it('have defaults: every event, but only what wakes people for a pager', () => {
    const [chat, pager, mail] =
      targets(
        '{ name: chat, kind: slack, url: { env: CHAT } }',
        '{ name: pager, kind: pagerduty, routingKey: { file: /run/key } }',
        `{ ${MAIL} }`,
      ) ?? [];
    expect(chat).toMatchObject({ timeoutMs: 5_000, url: { env: 'CHAT' } });
    expect(chat?.events).toContain('protected-again');
    expect(pager?.events).toEqual(['parked', 'escalation', 'outage-started', 'service-ready', 'critical-finding']);
    expect(mail).toMatchObject({ security: 'starttls', port: 587 });
  });

  it.each([
    [
      'an address that everybody could read',
      '{ name: a, kind: slack, url: https://hooks.example/secret }',
      'a source is',
    ],
    ['an unknown event', '{ name: a, kind: slack, url: { env: A }, events: [birthday] }', 'events[0]'],
    ['no event at all', '{ name: a, kind: slack, url: { env: A }, events: [] }', 'never be told anything'],
    ['an unknown kind', '{ name: a, kind: pigeon, url: { env: A } }', 'kind'],
    ['a long time limit', '{ name: a, kind: webhook, url: { env: A }, timeout: 1m }', '10 s at most'],
    ['mail in plain text', `{ ${MAIL}, security: none }`, 'loopback hosts only'],
    ['a user without a password', `{ ${MAIL}, username: u }`, 'given together'],
    ['no mailbox', `{ ${MAIL.replace('b@example.com', 'b')} }`, 'an e-mail address'],
    [
      'a relay in plain text',
      '{ name: a, kind: pagerduty, routingKey: { env: A }, url: http://x.example/ }',
      'plain http',
    ],
  ])('refuse %s', (_what, line, text) => {
    expect(mistake(line)).toContain(text);
  });

  it('refuse two targets of one name, since findings name them', () => {
    const line = '{ name: chat, kind: slack, url: { env: CHAT } }';
    expect(() => targets(line, line)).toThrow('chat is listed twice');
  });
});
