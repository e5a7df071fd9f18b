/** Webhooks of incident tools, on a real server: one incident makes one run, and nothing else makes any. */
import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { Client } from '@temporalio/client';
import { openReceiver } from '../../src/gateway/receive/server';
import type { ReceiverOptions } from '../../src/gateway/receive/server';
import type { Inventory } from '../../src/inventory';
import { triggers } from '../../src/inventory/triggers';
import { lazyUntilClosed } from '../../src/worker/connection';
import { until } from '../support/by-hand';
import { temporaryDirectory } from '../support/directory';
import { temporalClient, temporalServer, uniqueTaskQueue } from '../support/temporal-server';

const directory = temporaryDirectory('webhooks');
const taskQueue = uniqueTaskQueue('webhooks');
const { namespace } = temporalServer();
/** In Base64 it is a Standard Webhooks secret too. */
const SECRET = randomBytes(24).toString('base64');
const KINDS = ['pagerduty', 'alertmanager', 'grafana', 'slack', 'standard', 'hmac'] as const;
type Kind = (typeof KINDS)[number];

let direct: Client;
/** Each test has a deployment of its own. */
let deployment: string;
let logged: string[];
const opened: (() => unknown)[] = [];

beforeAll(async () => {
  direct = await temporalClient();
  await writeFile(join(directory, 'secret'), `an-earlier-secret-of-some-length\n${SECRET}\n`);
});
beforeEach(() => {
  deployment = `hooks-${randomUUID().slice(0, 8)}`;
  logged = [];
});
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
  for await (const { workflowId } of direct.workflow.list({
    query: `TaskQueue = "${taskQueue}" AND ExecutionStatus = "Running"`,
  }))
    await direct.workflow
      .getHandle(workflowId)
      .terminate()
      .catch(() => undefined);
});

interface Opened {
  readonly client?: Client;
  readonly answerMs?: number;
  readonly triggers?: readonly object[];
}

/** A gateway with a trigger of each kind, named after it. */
async function gateway({ client = direct, answerMs = 20_000, triggers: more = [] }: Opened = {}) {
  const match = {
    pagerduty: 'event.data.service.id',
    alertmanager: 'commonLabels.alertname',
    grafana: 'commonLabels.alertname',
    slack: 'command',
    standard: 'type',
    hmac: 'type',
  };
  const common = { secret: { file: join(directory, 'secret') }, deployment, runbook: 'drFailover' };
  const list = triggers.parse([
    ...KINDS.map((kind) => ({
      ...{ name: kind, kind, match: { [match[kind]]: 'PrimaryGone' }, ...common },
      ...(kind === 'hmac' && { signature: { header: 'X-Signature' }, time: { header: 'X-Time' }, id: 'id' }),
    })),
    ...more.map((each) => ({ ...common, ...each })),
  ]);
  const inventory = (): Inventory => ({ triggers: list }) as unknown as Inventory;
  const log = (line: string) => void logged.push(line);
  const options: ReceiverOptions = { address: '127.0.0.1:0', client, namespace, taskQueue, inventory, log, answerMs };
  const door = await openReceiver({ ...options, webUi: 'http://ui.example' });
  opened.push(() => door.close());
  const send = async ({ trigger, headers, body }: Message) => {
    const response = await fetch(`http://${door.address}/triggers/${trigger}`, { method: 'POST', headers, body });
    const answer = (await response.json()) as Readonly<Record<string, unknown>>;
    return { status: response.status, answer, retryAfter: response.headers.get('retry-after') };
  };
  return { ...door, send };
}
type Gateway = Awaited<ReturnType<typeof gateway>>;

interface Message {
  readonly trigger: string;
  readonly headers: Record<string, string>;
  readonly body: string;
}

interface Told {
  /** The incident. */
  readonly id?: string;
  readonly trigger?: string;
  readonly at?: number;
  readonly change?: (body: Record<string, unknown>) => unknown;
  readonly body?: string;
  readonly secret?: string;
}

const BODIES: Readonly<Record<Kind, (id: string, at: Date) => Record<string, unknown>>> = {
  // As the vendors' documentation shows them.
  pagerduty: (id, at) => ({
    event: {
      ...{ id: randomUUID(), event_type: 'incident.triggered', resource_type: 'incident' },
      ...{ occurred_at: at.toISOString(), agent: null, client: null },
      data: {
        ...{ id, type: 'incident', number: 2, status: 'triggered', incident_key: `key-of-${id}`, title: 'It is down' },
        ...{ html_url: `https://acme.pagerduty.com/incidents/${id}`, service: { id: 'PrimaryGone', summary: 'Vault' } },
        ...{ priority: null, urgency: 'high', created_at: at.toISOString() },
      },
    },
  }),
  alertmanager: (id, at) => alerts(id, at),
  grafana: (id, at) => ({ ...alerts(id, at), orgId: 1, title: '[FIRING:1]', message: 'It is down' }),
  slack: (id) => ({ command: 'PrimaryGone', text: 'now', user_id: 'U1', trigger_id: id }),
  standard: () => ({ type: 'PrimaryGone', timestamp: '2026-11-29T14:00:00Z', data: {} }),
  hmac: (id) => ({ type: 'PrimaryGone', id }),
};

function alerts(id: string, at: Date) {
  const labels = { alertname: 'PrimaryGone', severity: 'critical' };
  return {
    ...{ version: '4', groupKey: `{}:{alertname="${id}"}`, truncatedAlerts: 0, status: 'firing', receiver: 'runbooks' },
    ...{ groupLabels: labels, commonLabels: labels, commonAnnotations: {}, externalURL: 'http://alertmanager:9093' },
    alerts: [
      {
        ...{ status: 'firing', labels, annotations: {}, startsAt: at.toISOString(), endsAt: '0001-01-01T00:00:00Z' },
        ...{ generatorURL: 'http://prometheus:9090', fingerprint: '1d2e3f' },
      },
    ],
  };
}

/** A message of an incident tool, as it signs it. */
function message(kind: Kind, { id = 'INC1', trigger = kind, at = Date.now(), change, ...told }: Told = {}): Message {
  const made = BODIES[kind](id, new Date(at));
  const object = change ? change(made) : made;
  const isForm = kind === 'slack';
  const body =
    told.body ?? (isForm ? String(new URLSearchParams(object as Record<string, string>)) : JSON.stringify(object));
  const secret = told.secret ?? SECRET;
  const time = String(Math.floor(at / 1_000));
  const hmac = (before: string, encoding: 'hex' | 'base64' = 'hex', key: string | Buffer = secret) =>
    createHmac('sha256', key).update(before).update(body).digest(encoding);
  const headers: Readonly<Record<Kind, Record<string, string>>> = {
    pagerduty: { 'X-PagerDuty-Signature': `v1=${'0'.repeat(64)},v1=${hmac('')}`, 'x-webhook-id': randomUUID() },
    alertmanager: { authorization: `Bearer ${secret}` },
    grafana: {
      'X-Grafana-Alerting-Signature-Timestamp': time,
      'x-gRAFANA-alerting-SIGNATURE': hmac(`${time}:`),
    },
    slack: { 'X-Slack-Request-Timestamp': time, 'X-Slack-Signature': `v0=${hmac(`v0:${time}:`)}` },
    standard: {
      'Webhook-Id': id,
      'WEBHOOK-TIMESTAMP': time,
      'webhook-signature': `v1,${hmac(`${id}.${time}.`, 'base64', Buffer.from(secret, 'base64'))}`,
    },
    hmac: { 'X-Signature': hmac(`${time}.`), 'X-Time': time },
  };
  const type = isForm ? 'application/x-www-form-urlencoded' : 'application/json';
  return { trigger, headers: { 'content-type': type, ...headers[kind] }, body };
}

const runs = async (workflowId = `deployment:${deployment}`) => {
  const found = [];
  // Newly started runs become visible within a second.
  for await (const run of direct.workflow.list({ query: `WorkflowId = "${workflowId}"` })) found.push(run);
  return found;
};
const runIdOf = ({ answer }: { readonly answer: Readonly<Record<string, unknown>> }) =>
  (answer['run'] as { readonly runId: string }).runId;
const describeLock = () => direct.workflow.getHandle(`deployment:${deployment}`).describe();

/** How many runs there are once the server shows this one. */
async function runsOnceShown(runId: string) {
  let found: Awaited<ReturnType<typeof runs>> = [];
  await until('the run is listed', async () => (found = await runs()).some((run) => run.runId === runId));
  return found;
}

describe('a message that a secret of the trigger signed', () => {
  it.each(KINDS)('starts the run of its trigger under the lock, with ticket and link (%s)', async (kind) => {
    const { send } = await gateway();
    const { status, answer } = await send(message(kind));
    const run = await describeLock();
    expect([status, answer]).toEqual([
      kind === 'slack' ? 200 : 202,
      {
        ...{ started: true, duplicate: false, runbook: 'drFailover', state: 'running' },
        run: { workflowId: `deployment:${deployment}`, runId: run.runId },
        link: `http://ui.example/namespaces/${namespace}/workflows/deployment%3A${deployment}/${run.runId}/user-metadata`,
        text: expect.stringContaining('Started drFailover') as string,
      },
    ]);
    expect(run).toMatchObject({ type: 'drFailover', taskQueue, memo: { runbook: 'drFailover', deployment } });
    const { events } = await direct.workflow.getHandle(run.workflowId).fetchHistory();
    const [payload] = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
    const ticket = {
      pagerduty: 'key-of-INC1',
      alertmanager: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
      grafana: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
      slack: 'INC1',
      standard: 'INC1',
      hmac: 'INC1',
    }[kind];
    expect(JSON.parse(Buffer.from(payload?.data ?? []).toString())).toEqual({
      ...{ deployment, reason: `started by the trigger ${kind}`, requestedBy: `trigger ${kind}`, ticket },
      // PagerDuty has it under this key.
      ...(['pagerduty', 'alertmanager', 'grafana'].includes(kind) && { incidentKey: ticket }),
    });
    expect(logged).toEqual([expect.stringContaining(`Trigger ${kind} started drFailover`)]);
  });

  it.each(KINDS)('ten times, by two gateways at once, starts one run, and each answer names it (%s)', async (kind) => {
    const gateways = [await gateway(), await gateway()];
    const at = Date.now();
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) => (gateways[index % 2] as Gateway).send(message(kind, { at }))),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([kind === 'slack' ? 200 : 202]));
    expect(new Set(answers.map(runIdOf)).size).toBe(1);
    expect(answers.filter(({ answer }) => answer['duplicate'] === false)).toHaveLength(1);
    expect(await runsOnceShown(runIdOf(answers[0] as never))).toHaveLength(1);
  });

  it('starts no second run after the first has ended, nor after another has held the lock since', async () => {
    const first = await gateway();
    const started = await first.send(message('pagerduty'));
    const handle = direct.workflow.getHandle(`deployment:${deployment}`);
    await handle.terminate('the end of the test');
    // Another gateway remembers nothing: the server does.
    const second = await gateway();
    const again = await second.send(message('pagerduty'));
    expect([runIdOf(again), again.answer]).toEqual([
      runIdOf(started),
      expect.objectContaining({ started: true, duplicate: true, state: 'terminated' }),
    ]);
    await direct.workflow.start('drRejoin', { workflowId: `deployment:${deployment}`, taskQueue });
    await runsOnceShown((await describeLock()).runId);
    const third = await gateway();
    expect(runIdOf(await third.send(message('pagerduty')))).toBe(runIdOf(started));
    await handle.terminate('the end of the test');
    expect(runIdOf(await third.send(message('pagerduty')))).toBe(runIdOf(started));
    expect(await runs()).toHaveLength(2);
  });

  it('about another incident starts no run while a run holds the lock, and names that run; afterwards it starts one', async () => {
    const { send } = await gateway();
    const first = await send(message('pagerduty'));
    const other = await send(message('pagerduty', { id: 'INC2' }));
    expect([other.status, other.answer, runIdOf(other)]).toEqual([
      202,
      expect.objectContaining({
        started: false,
        duplicate: false,
        text: expect.stringContaining('holds the lock') as string,
      }),
      runIdOf(first),
    ]);
    await direct.workflow.getHandle(`deployment:${deployment}`).terminate('the end of the test');
    const later = await send(message('pagerduty', { id: 'INC2' }));
    expect(later.answer).toMatchObject({ started: true, duplicate: false });
    expect(runIdOf(later)).not.toBe(runIdOf(first));
  });

  it('starts a readiness check, or a plan, once', async () => {
    const match = { 'event.data.service.id': 'PrimaryGone' };
    const { send } = await gateway({
      triggers: [
        { name: 'check', kind: 'pagerduty', match, runbook: 'readiness' },
        { name: 'plan', kind: 'pagerduty', match, runbook: 'drSwitchover', input: { to: 'west', dryRun: true } },
      ],
    });
    const check = await send(message('pagerduty', { trigger: 'check' }));
    expect(check.answer).toMatchObject({ started: true, run: { workflowId: `readiness:${deployment}` } });
    const plans = [];
    for (const id of ['INC1', 'INC1', 'INC2']) plans.push(await send(message('pagerduty', { trigger: 'plan', id })));
    expect(plans.map(({ answer }) => answer['duplicate'])).toEqual([false, true, false]);
    expect(new Set(plans.map(runIdOf)).size).toBe(2);
    const { workflowId } = plans[0]?.answer['run'] as { readonly workflowId: string };
    expect(workflowId).toMatch(new RegExp(`^plan:${deployment}:[0-9a-f-]{36}$`));
    await direct.workflow.getHandle(workflowId).terminate('the end of the test');
    expect((await send(message('pagerduty', { trigger: 'plan' }))).answer).toMatchObject({ duplicate: true });
  });

  it('that was recorded and sent again starts no other run, and the answer has the present state', async () => {
    const { send } = await gateway();
    const recorded = message('grafana');
    const first = await send(recorded);
    await direct.workflow.getHandle(`deployment:${deployment}`).terminate('the end of the test');
    const replayed = await send(recorded);
    expect(replayed.answer).toMatchObject({ duplicate: true, state: 'terminated', run: first.answer['run'] });
  });

  it('of Slack that checks the endpoint is answered, and starts no run', async () => {
    const { send } = await gateway();
    const told = message('slack', { body: '{"type":"url_verification","challenge":"abc"}' });
    const asked = { ...told, headers: { ...told.headers, 'content-type': 'application/json' } };
    expect(await send(asked)).toMatchObject({ status: 200, answer: { started: false, challenge: 'abc' } });
    await expect(describeLock()).rejects.toThrow();
  });
});

describe('a signed message that is not wanted is accepted, so that its sender does not give up, and starts no run', () => {
  const event = (body: Record<string, unknown>, changes: object) => ({
    event: { ...(body['event'] as object), ...changes },
  });
  const data = (body: Record<string, unknown>, changes: object) =>
    event(body, { data: { ...(body['event'] as { data: object }).data, ...changes } });
  const HOUR = 3_600_000;
  const cases: readonly (readonly [string, Kind, Told])[] = [
    ['of another service', 'pagerduty', { change: (body) => data(body, { service: { id: 'Other' } }) }],
    ['about another event', 'pagerduty', { change: (body) => event(body, { event_type: 'incident.resolved' }) }],
    ['about a service', 'pagerduty', { change: (body) => data(body, { type: 'service' }) }],
    ['an event of yesterday', 'pagerduty', { at: Date.now() - 24 * HOUR }],
    ['an event without a time', 'pagerduty', { change: (body) => event(body, { occurred_at: undefined }) }],
    [
      'an event of tomorrow',
      'pagerduty',
      { change: (body) => event(body, { occurred_at: new Date(Date.now() + 24 * HOUR).toISOString() }) },
    ],
    ['without the ID of the incident', 'pagerduty', { change: (body) => data(body, { id: undefined }) }],
    ['a resolved group', 'alertmanager', { change: (body) => ({ ...body, status: 'resolved' }) }],
    ['a group that was cut', 'alertmanager', { change: (body) => ({ ...body, truncatedAlerts: 3 }) }],
    ['a group without alerts', 'alertmanager', { change: (body) => ({ ...body, alerts: [] }) }],
    ['an alert of last week', 'alertmanager', { at: Date.now() - 7 * 24 * HOUR }],
    ['alerts that are no list', 'alertmanager', { change: (body) => ({ ...body, alerts: { length: 1 } }) }],
    ['malformed JSON', 'pagerduty', { body: '{"event":' }],
    ['JSON that is no object', 'pagerduty', { body: '"event"' }],
    ['nothing', 'pagerduty', { body: '' }],
    ['bytes that are no UTF-8', 'pagerduty', { body: '\ud800' }],
    ['100,000 levels of lists', 'pagerduty', { body: '['.repeat(100_000) + ']'.repeat(100_000) }],
    ['100,000 levels of objects', 'hmac', { body: '{"a":'.repeat(40_000) + '1' + '}'.repeat(40_000) }],
    ['members that only a prototype has', 'hmac', { body: '{"__proto__":{"type":"PrimaryGone","id":"1"}}' }],
  ];
  it.each(cases)('%s', async (_what, kind, told) => {
    const { send } = await gateway();
    expect(await send(message(kind, told))).toMatchObject({
      status: 202,
      answer: { started: false, why: expect.any(String) as string },
    });
    await expect(describeLock()).rejects.toThrow();
  });
});

describe('a message that nobody signed for this trigger is refused, and starts no run', () => {
  const NOBODY = randomBytes(24).toString('base64');
  const cases: readonly (readonly [string, (kind: Kind) => Message])[] = [
    ['with a guessed secret', (kind) => message(kind, { secret: NOBODY })],
    [
      'with the signature of another body',
      (kind) => ({ ...message(kind), body: message(kind, { id: 'INC2', body: '{"x":1}' }).body }),
    ],
    ['with no headers', (kind) => ({ ...message(kind), headers: { 'content-type': 'application/json' } })],
    ['cut in the middle', (kind) => ({ ...message(kind), body: message(kind).body.slice(0, -3) })],
    ['signed an hour ago', (kind) => message(kind, { at: Date.now() - 3_600_000 })],
    ['by a clock that is ten minutes ahead', (kind) => message(kind, { at: Date.now() + 600_000 })],
  ];
  const applies = (what: string, kind: Kind) =>
    // Nothing of the body is signed by Alertmanager, and no time by PagerDuty.
    !(kind === 'alertmanager' && !/secret|headers/.test(what)) && !(kind === 'pagerduty' && /ago|clock/.test(what));
  it.each(cases)('%s', async (what, made) => {
    const { send } = await gateway();
    for (const kind of KINDS.filter((each) => applies(what, each))) {
      const { status, answer } = await send(made(kind));
      expect([kind, status, answer]).toEqual([kind, 401, { started: false, why: expect.any(String) as string }]);
    }
    await expect(describeLock()).rejects.toThrow();
    expect(logged.join('\n')).toMatch(/^Refused a message of trigger \w+: (The|No) /);
    expect(logged.join('\n')).not.toContain(SECRET);
  });

  it('with the signature for another trigger, whose secret differs', async () => {
    await writeFile(join(directory, 'other'), `${NOBODY}\n`);
    const match = { 'event.data.service.id': 'PrimaryGone' };
    const other = { name: 'other', kind: 'pagerduty', match, secret: { file: join(directory, 'other') } };
    const { send } = await gateway({ triggers: [other] });
    expect(await send(message('pagerduty', { trigger: 'other' }))).toMatchObject({ status: 401 });
    expect(await send(message('pagerduty', { trigger: 'other', secret: NOBODY }))).toMatchObject({ status: 202 });
  });

  it('larger than 256 KiB: it is not even read', async () => {
    const { send } = await gateway();
    const large = message('pagerduty', { body: ' '.repeat(256 * 1024 + 1) });
    expect(await send(large)).toMatchObject({ status: 413, answer: { why: 'the body is larger than 256 KiB' } });
    expect(await send(message('pagerduty', { body: ' '.repeat(256 * 1024) }))).toMatchObject({ status: 202 });
  });

  it('to an unknown trigger or path, or with an unknown method', async () => {
    const { address, send } = await gateway();
    expect(await send({ ...message('pagerduty'), trigger: 'unknown' })).toMatchObject({ status: 404 });
    for (const path of ['/', '/triggers/', '/triggers/pagerduty/x', '/triggers/%2e%2e', '/metrics'])
      expect([path, (await fetch(`http://${address}${path}`, { method: 'POST' })).status]).toEqual([path, 404]);
    expect((await fetch(`http://${address}/triggers/pagerduty`)).status).toBe(404);
  });
});

describe('a message that cannot be carried out now is answered so that its sender sends it again', () => {
  it('while Temporal is down, within a second', async () => {
    const { connection, close } = lazyUntilClosed({ address: '127.0.0.1:1' });
    opened.push(close);
    const { address, send } = await gateway({ client: new Client({ connection, namespace }), answerMs: 900 });
    expect(address).toMatch(/^127/);
    const began = performance.now();
    const answer = await send(message('pagerduty'));
    expect(performance.now() - began).toBeLessThan(2_000);
    expect(answer).toEqual({
      status: 503,
      retryAfter: '30',
      answer: { started: false, why: expect.stringContaining('Temporal') as string },
    });
    // A gateway that reaches Temporal carries it out later.
    expect(await (await gateway()).send(message('pagerduty'))).toMatchObject({
      status: 202,
      answer: { started: true, duplicate: false },
    });
  });

  it('after a gateway was killed between the start and its answer: the next one names that run', async () => {
    // Its start arrives, and no answer ever leaves.
    const lost = await gateway();
    const { host, headers, body } = { host: lost.address, ...message('pagerduty') };
    const [, port = ''] = host.split(':');
    const socket = createConnection(Number(port), '127.0.0.1');
    const lines = Object.entries({ ...headers, host, 'content-length': String(Buffer.byteLength(body)) });
    socket.write(
      `POST /triggers/pagerduty HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`,
    );
    await until('the run was started', () =>
      describeLock().then(
        () => true,
        () => false,
      ),
    );
    socket.destroy();
    await lost.close();
    const { runId } = await describeLock();
    const again = await (await gateway()).send(message('pagerduty'));
    expect([runIdOf(again), again.answer]).toEqual([
      runId,
      expect.objectContaining({ started: true, duplicate: true }),
    ]);
  });

  it('while the secret cannot be read, or can be guessed', async () => {
    await writeFile(join(directory, 'short'), 'secret\n');
    const match = { type: 'x' };
    const secrets = { short: 'short', gone: 'gone' };
    const { send } = await gateway({
      triggers: Object.entries(secrets).map(([name, file]) => ({
        name,
        kind: 'pagerduty',
        match,
        secret: { file: join(directory, file) },
      })),
    });
    for (const trigger of Object.keys(secrets))
      expect(await send(message('pagerduty', { trigger, secret: 'secret' }))).toMatchObject({
        status: 503,
        answer: { why: 'CREDENTIAL_UNAVAILABLE' },
      });
    expect(logged).toEqual([expect.stringContaining('is too short'), expect.stringContaining('ENOENT')]);
  });

  it('beyond 20 incidents at once', async () => {
    const { send } = await gateway({
      triggers: [
        {
          name: 'plan',
          kind: 'hmac',
          match: { type: 'PrimaryGone' },
          input: { dryRun: true },
          signature: { header: 'X-Signature' },
          time: { header: 'X-Time' },
          id: 'id',
        },
      ],
    });
    const statuses = [];
    for (let index = 0; index < 22; index += 1)
      statuses.push((await send(message('hmac', { trigger: 'plan', id: `INC${index}` }))).status);
    expect([statuses.filter((status) => status === 202).length >= 20, statuses.at(-1)]).toEqual([true, 429]);
  });
});
