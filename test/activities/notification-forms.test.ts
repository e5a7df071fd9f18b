/** Signed webhooks, cards, and a proxy for targets: what leaves the worker, and that no secret is in it. */
import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import { connect } from 'node:net';
import { signatureOf } from '../../activities/notifications/signature';
import type { Notification } from '../../src/contracts/notifications';
import { closeAtOnce, listenOnLoopback } from '../../src/simulator';
import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';
import { WebhookServer } from '../support/notification-servers';

const secretOf = (letter: string) => `whsec_${Buffer.from(letter.repeat(32)).toString('base64')}`;
const SIGNING = secretOf('s');
const NEXT = secretOf('n');
const PROXY_PASSWORD = 'pAsSwOrDoFtHePrOxY';

it('a signature is the one of Standard Webhooks, one for each secret while they are replaced', () => {
  const secret = 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODk=';
  const expected = 'v1,yyh2bHS/6TLSC/HKqSQsXT+OFJAsk1W+1HWKPHVvQhE=';
  expect(signatureOf(secret, 'msg_1', '{"type":"x"}', 1_700_000_000_999)).toEqual({
    'webhook-id': 'msg_1',
    'webhook-timestamp': '1700000000',
    'webhook-signature': expected,
  });
  const two = signatureOf(`${NEXT}\n${secret}\n`, 'msg_1', '{"type":"x"}', 1_700_000_000_000);
  expect(two['webhook-signature']?.split(' ')).toEqual([expect.stringMatching(/^v1,/), expected]);
  expect(signatureOf(secret, 'ns.account/deployment:a/r/1', '{}')['webhook-id']).toBe('ns_account/deployment:a/r/1');
});

it.each([
  '',
  'secret',
  'whsec_',
  'whsec_c2hvcnQ=',
  `whsec_${'A'.repeat(88)}AAAA`,
  'whsec_not base64!',
  `${SIGNING} oops`,
])('does not sign with an invalid secret: %j', (secret) => {
  expect(() => signatureOf(secret, 'id', '{}')).toThrow('Its signing secret is not one of Standard Webhooks.');
  try {
    signatureOf(secret, 'id', '{}');
  } catch (error) {
    for (const word of secret.split(/\s/)) if (word.length > 6) expect(JSON.stringify(error)).not.toContain(word);
  }
});

describe('targets', () => {
  let bench: ActivityBench;
  let signed: WebhookServer;
  let card: WebhookServer;
  let proxied: WebhookServer;
  let proxy: Server;
  const tunnels: { readonly to: string; readonly authorization: string | undefined }[] = [];
  beforeAll(async () => {
    [signed, card, proxied] = await Promise.all([WebhookServer.start(), WebhookServer.start(), WebhookServer.start()]);
    proxy = createServer((_request, response) => response.writeHead(400).end());
    proxy.on('connect', ({ url = '', headers }, socket) => {
      tunnels.push({ to: url, authorization: headers['proxy-authorization'] });
      const [host = '', port = ''] = url.split(':');
      const through = connect(Number(port), host, () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        through.pipe(socket).pipe(through);
      });
      through.on('error', () => socket.destroy());
      socket.on('error', () => through.destroy());
    });
    const port = await listenOnLoopback(proxy);
    process.env['TEST_SIGNED_URL'] = `${signed.origin}/signed`;
    process.env['TEST_SIGNING_SECRET'] = `${SIGNING} ${NEXT}`;
    process.env['TEST_CARD_URL'] = `${card.origin}/workflows/sEcReTwOrKfLoW`;
    process.env['TEST_PROXIED_URL'] = `${proxied.origin}/through`;
    process.env['TEST_PROXY'] = `http://runbooks:${PROXY_PASSWORD}@127.0.0.1:${port}`;
    const timeout = '2s';
    const events = ['parked'];
    bench = await ActivityBench.start({
      deployment: {
        notifications: [
          {
            ...{ name: 'signed', kind: 'webhook', timeout, events },
            ...{ url: { env: 'TEST_SIGNED_URL' }, secret: { env: 'TEST_SIGNING_SECRET' } },
          },
          { name: 'card', kind: 'teams', url: { env: 'TEST_CARD_URL' }, timeout, events },
          {
            ...{ name: 'proxied', kind: 'slack', url: { env: 'TEST_PROXIED_URL' }, timeout, events },
            proxy: { env: 'TEST_PROXY' },
          },
        ],
      },
    });
    for (const [name, value] of Object.entries({ SIGNING, NEXT, PROXY_PASSWORD })) bench.canary(name, value);
    bench.canary('card', 'sEcReTwOrKfLoW');
  });
  afterAll(async () => {
    await Promise.all([bench, signed, card, proxied].map((each) => each.stop()));
    await closeAtOnce(proxy);
  });
  beforeEach(() => {
    for (const server of [signed, card, proxied]) server.posted.length = 0;
    tunnels.length = 0;
  });
  const parked: Notification = {
    ...({
      event: 'parked',
      severity: 'critical',
      runbook: 'drSwitchover',
      number: 4,
      subject: 'wait:parked:1',
    } as const),
    at: Date.UTC(2026, 0, 2),
    waiting: {
      ...({ for: 'decision', step: 'Promote west', parkingNo: 1, code: 'CONFIRMATION_TIMEOUT' } as const),
      ...{ message: '[read your share](evil.example/x) to *bob*', choices: [{ action: 'retry', effect: 'again' }] },
    },
  };
  const notify = () => bench.call('notify', { deployment: DEPLOYMENT, notification: parked });

  it('a webhook with a secret can verify what it gets, and that a repetition is one', async () => {
    signed.answers = [503, 200];
    expect(await notify()).toEqual({ told: 3, failed: [] });
    const [first, again] = signed.posted;
    const id = `default/${bench.run.wid}/${bench.run.rid}/4`;
    for (const posted of [first, again]) {
      if (posted === undefined) throw new Error('not posted');
      const { headers, body } = posted;
      const content = `${id}.${String(headers['webhook-timestamp'])}.${JSON.stringify(body)}`;
      const macs = [SIGNING, NEXT].map((secret) => {
        const mac = createHmac('sha256', Buffer.from(secret.slice(6), 'base64')).update(content);
        return `v1,${mac.digest('base64')}`;
      });
      expect([headers['webhook-id'], headers['webhook-signature']]).toEqual([id, macs.join(' ')]);
    }
    expect(first?.body['id']).toBe(id);
  });

  it('a card has title, quotations and commands as plain text, and links only the run', async () => {
    await notify();
    const [attachment] = card.posted[0]?.body['attachments'] as { contentType: string; content: { body: object[] } }[];
    expect(card.posted[0]?.body['type']).toBe('message');
    expect(attachment?.contentType).toBe('application/vnd.microsoft.card.adaptive');
    expect(attachment?.content).toMatchObject({ type: 'AdaptiveCard', version: '1.4' });
    const blocks = attachment?.content.body as { type: string; inlines: { text: string }[] }[];
    expect(new Set(blocks.map(({ type }) => type))).toEqual(new Set(['RichTextBlock']));
    const texts = blocks.map(({ inlines }) => inlines[0]?.text);
    expect(texts[0]).toContain('[CRITICAL] payments: drSwitchover waits for decision');
    expect(texts).toContain('runbook status deployment:payments');
    expect(JSON.stringify(attachment)).not.toContain('evil.example');
  });

  it('a target with a proxy is reached through it, and only that target', async () => {
    await notify();
    const authorization = `Basic ${Buffer.from(`runbooks:${PROXY_PASSWORD}`).toString('base64')}`;
    expect(tunnels).toEqual([{ to: new URL(proxied.origin).host, authorization }]);
    expect([signed, card, proxied].map(({ posted }) => posted.length)).toEqual([1, 1, 1]);
    expect(JSON.stringify(proxied.posted[0]?.headers)).not.toContain(authorization);
  });

  it('a proxy that is gone, or is none, is reported as a target that is down, without its address', async () => {
    const before = process.env['TEST_PROXY'];
    process.env['TEST_PROXY'] = `http://runbooks:${PROXY_PASSWORD}@127.0.0.1:1`;
    const gone = await notify();
    process.env['TEST_PROXY'] = `socks5://runbooks:${PROXY_PASSWORD}@127.0.0.1:1`;
    const none = await notify();
    process.env['TEST_PROXY'] = before;
    expect([gone.failed.map(({ target }) => target), none.failed]).toEqual([
      ['proxied'],
      [
        {
          ...{ target: 'proxied', kind: 'slack' },
          why: 'The environment variable TEST_PROXY does not hold the address of a proxy.',
        },
      ],
    ]);
    expect(JSON.stringify([gone, none])).not.toMatch(/127\.0\.0\.1|pAsSwOrD/);
  });

  it('the environment sets no proxy', async () => {
    const set = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy', 'ALL_PROXY'];
    for (const name of set) process.env[name] = process.env['TEST_PROXY'];
    await notify();
    for (const name of set) Reflect.deleteProperty(process.env, name);
    expect(tunnels).toHaveLength(1);
  });
});
