/** Signatures of incident tools: the vectors that their documentation leads to, and what an attacker may send instead. */
import { triggers } from '../../src/inventory/triggers';
import type { Trigger } from '../../src/inventory';
import { BadSignature, verify } from '../../src/gateway/receive/signatures';

const NOW = 1_700_000_000_000;

function triggerOf(members: object): Trigger {
  const common = { name: 'gone', secret: { file: '/run/secret' }, match: { a: 'b' } };
  const [trigger] = triggers.parse([{ ...common, runbook: 'readiness', deployment: 'payments', ...members }]);
  if (trigger === undefined) throw new Error('no trigger');
  return trigger;
}

const SENDERS = {
  pagerduty: {
    trigger: triggerOf({ kind: 'pagerduty' }),
    secret: 'secret',
    body: '{"event":{"id":"1"}}',
    headers: { 'x-pagerduty-signature': 'v1=f75b30b2014d16304a1b88088373e561be42af985fc85fddf2b43de9a76a40bc' },
  },
  grafana: {
    trigger: triggerOf({ kind: 'grafana' }),
    secret: 'secret',
    body: '{"status":"firing"}',
    headers: {
      'x-grafana-alerting-signature-timestamp': '1700000000',
      'x-grafana-alerting-signature': 'd4c295899cbb5ad8d67037e9e6a248cd8bb9ccd61ff61113c3362159c35fbb39',
    },
  },
  standard: {
    trigger: triggerOf({ kind: 'standard' }),
    secret: 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODk=',
    body: '{"type":"x"}',
    headers: {
      'webhook-id': 'msg_1',
      'webhook-timestamp': '1700000000',
      'webhook-signature': 'v1,yyh2bHS/6TLSC/HKqSQsXT+OFJAsk1W+1HWKPHVvQhE=',
    },
  },
  rootly: {
    trigger: triggerOf({
      kind: 'hmac',
      signature: { header: 'X-Rootly-Signature', prefix: 'v1=' },
      time: { header: 'X-Rootly-Signature', prefix: 't=', separator: '' },
      id: 'event.id',
    }),
    secret: 'secret',
    body: '{"event":{}}',
    headers: {
      'x-rootly-signature': 't=1700000000,v1=4c9aee517adef44a541db9ccf3486a09f16f2eaa320a9cd3d291749448812b16',
    },
  },
  slack: {
    trigger: triggerOf({ kind: 'slack' }),
    secret: 'secret',
    body: 'a=b',
    headers: {
      'x-slack-request-timestamp': '1700000000',
      'x-slack-signature': 'v0=2ffb3fc2d007c80947a6a7a44bdc3b55b5a7e86be2fe1c14cbc99c040c671f92',
    },
  },
  alertmanager: {
    trigger: triggerOf({ kind: 'alertmanager' }),
    secret: 'a-long-token-of-alertmanager',
    body: '{"status":"firing"}',
    headers: { authorization: 'Bearer a-long-token-of-alertmanager' },
  },
} as const;
type Sender = keyof typeof SENDERS;
const each = Object.keys(SENDERS) as Sender[];
const signed = each.filter((sender) => sender !== 'alertmanager');
const timed = signed.filter((sender) => sender !== 'pagerduty');

interface Changes {
  readonly body?: string;
  readonly secrets?: readonly string[];
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>;
  readonly now?: number;
}

function verified(sender: Sender, changes: Changes = {}) {
  const { trigger, secret, body, headers } = SENDERS[sender];
  const { secrets = [secret], now = NOW } = changes;
  const message = { headers: { ...headers, ...changes.headers }, body: Buffer.from(changes.body ?? body) };
  return verify(trigger, message, secrets, now);
}
/** The headers with each value changed. */
const mapped = (sender: Sender, change: (value: string) => string) =>
  Object.fromEntries(Object.entries(SENDERS[sender].headers).map(([name, value]) => [name, change(value)]));

it.each(each)(
  'a message of %s is accepted with its documented signature, and with the second of two secrets',
  (sender) => {
    expect(verified(sender)).toEqual(
      sender === 'pagerduty' || sender === 'alertmanager'
        ? {}
        : { signedAt: NOW, ...(sender === 'standard' && { id: 'msg_1' }) },
    );
    expect(() => verified(sender, { secrets: ['another secret of 24 letters', SENDERS[sender].secret] })).not.toThrow();
  },
);

it.each(['pagerduty', 'standard'] as const)('one of several signatures of %s is enough', (sender) => {
  const other = { pagerduty: `v1=${'0'.repeat(64)},`, standard: `v1,${'A'.repeat(43)}= v1a,AAAA ` }[sender];
  const name = sender === 'pagerduty' ? 'x-pagerduty-signature' : 'webhook-signature';
  const own = Object.entries(SENDERS[sender].headers).find(([header]) => header === name)?.[1] ?? '';
  expect(() => verified(sender, { headers: { [name]: other + own } })).not.toThrow();
});

it('the headers of Svix are those of Standard Webhooks under another name', () => {
  const headers = Object.entries(SENDERS.standard.headers).flatMap(([name, value]) => [
    [name, undefined],
    [name.replace('webhook', 'svix'), value],
  ]);
  expect(verified('standard', { headers: Object.fromEntries(headers) as Record<string, string> })).toMatchObject({
    id: 'msg_1',
  });
});

describe('a message is refused', () => {
  it.each(signed)('if %s signed another body', (sender) => {
    expect(() => verified(sender, { body: `${SENDERS[sender].body} ` })).toThrow(BadSignature);
    expect(() => verified(sender, { body: '' })).toThrow(BadSignature);
  });

  it.each(each)('if it has another secret than that of %s, none, or none is configured', (sender) => {
    expect(() => verified(sender, { secrets: ['another secret of 24 letters'] })).toThrow(BadSignature);
    expect(() => verified(sender, { secrets: [] })).toThrow(BadSignature);
    expect(() => verified(sender, { headers: mapped(sender, () => '') })).toThrow(BadSignature);
    const missing = Object.fromEntries(Object.keys(SENDERS[sender].headers).map((name) => [name, undefined]));
    expect(() => verified(sender, { headers: missing })).toThrow(BadSignature);
  });

  it.each(each)('if the signature of %s is cut, longer, in other letters, or sent twice', (sender) => {
    const own = Object.keys(SENDERS[sender].headers).at(-1) ?? '';
    const value = Object.values(SENDERS[sender].headers).at(-1) ?? '';
    for (const changed of [
      value.slice(0, -2),
      `${value}00`,
      value.replace(/=.*|^[a-z0-9]+$/, ''),
      `${value.slice(0, -1)}é`,
    ].filter((each) => each !== value))
      expect(() => verified(sender, { headers: { [own]: changed } })).toThrow(BadSignature);
    expect(() => verified(sender, { headers: { [own]: [value, value] } })).toThrow(BadSignature);
  });

  it.each(timed)(
    'if %s signed it more than five minutes ago, or ahead of the clock here, and says by how much',
    (sender) => {
      expect(() => verified(sender, { now: NOW + 299_000 })).not.toThrow();
      expect(() => verified(sender, { now: NOW - 299_000 })).not.toThrow();
      expect(() => verified(sender, { now: NOW + 600_000 })).toThrow(/signed 600 s ago by the clock here/);
      expect(() => verified(sender, { now: NOW - 600_000 })).toThrow(/signed 600 s in the future by the clock here/);
    },
  );

  it.each(timed)('if the time of %s was changed, removed, or is no number', (sender) => {
    for (const time of ['1700000001', '', '1.7e9', ' 1700000000x', '-1'])
      expect(() => verified(sender, { headers: mapped(sender, (value) => value.replace('1700000000', time)) })).toThrow(
        BadSignature,
      );
  });

  it('if the ID of a standard webhook was changed, so that it would be another incident', () => {
    for (const id of ['msg_2', '', 'msg_1.1700000000', 'a b'])
      expect(() => verified('standard', { headers: { 'webhook-id': id } })).toThrow(BadSignature);
  });

  it('with the version of another scheme', () => {
    const signature = SENDERS.pagerduty.headers['x-pagerduty-signature'].replace('v1=', 'v2=');
    expect(() => verified('pagerduty', { headers: { 'x-pagerduty-signature': signature } })).toThrow(BadSignature);
  });
});
