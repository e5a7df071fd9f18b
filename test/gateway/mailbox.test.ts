/** The mailbox of the gateway, with runs that a test makes up: whose requests it takes, and what it passes on. */
import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { request as httpRequest } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { MailboxError } from '../../src/contracts/mailbox';
import type { RunStatus } from '../../src/contracts/run-status';
import { signDocument } from '../../src/documents/documents';
import { signRequest } from '../../src/documents/signed-request';
import type { UnsignedRequest } from '../../src/documents/signed-request';
import { RunbookError } from '../../src/errors';
import { Proofs } from '../../src/gateway/mailbox/proofs';
import { openMailbox } from '../../src/gateway/mailbox/server';
import type { MailboxOptions } from '../../src/gateway/mailbox/server';
import type { OpenRun, Runs } from '../../src/gateway/mailbox/runs';
import { parseInventory } from '../../src/inventory';
import { newSigningKey } from '../../src/keys';
import type { SigningKey } from '../../src/keys';
import { shareText } from '../keys/builders';
import { approvalOf, controlOf, decisionOf, makePerson } from '../support/people';
import type { TestPerson } from '../support/people';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from '../vault/support/loopback-certificate';

const ada = makePerson('ada', ['approvers']);
const bea = makePerson('bea', ['approvers']);
const hal = makePerson('hal', ['holders']);
const eve = makePerson('eve', ['others']);
const pia = makePerson('pia', ['approvers']);
const INVENTORY = parseInventory(
  `version: 1
workers: { signingKey: { file: /run/runbooks/workers.jwk } }
people:
${[ada, bea, hal, eve, pia]
  .map(({ name, groups, publicKey }) => {
    const how = name === 'pia' ? "attestation: principal, principal: 'user:pia'" : 'attestation: signed';
    return `  ${name}: { groups: [${groups.join()}], ${how}, publicKeys: ['${publicKey}'] }`;
  })
  .join('\n')}
  nan: { groups: [approvers], attestation: claimed }
deployments:
  payments:
    clusters:
      east: { addresses: ['https://10.1.0.4:8200'], advertisedClusterAddress: node-address, credential: { env: EAST } }
      west: { addresses: ['https://10.2.0.4:8200'], advertisedClusterAddress: node-address, credential: { env: WEST } }
    drSets: { main: [east, west] }
    ceremony: { holders: [hal] }
    gates:
      plan: { approvals: 1, groups: [approvers], validFor: 4h }
      go: { approvals: 1, groups: [approvers], validFor: 10m }
`,
  'inventory.yaml',
);

const RUN = { workflowId: 'deployment:payments', runId: randomUUID() };
const IN_RUN = { ns: 'runbooks', wid: RUN.workflowId, rid: RUN.runId };
const PLAN = JSON.stringify({
  ...{ runbook: 'drSwitchover', deployment: 'payments', clusters: [], operations: [], warnings: [], steps: [] },
  ...{ choices: {}, reason: 'a test', requestedBy: 'bea' },
});
const STATUS: RunStatus = {
  ...{ ...RUN, namespace: 'runbooks', runbook: 'drSwitchover', deployment: 'payments', phase: 'waiting-for-people' },
  paused: false,
  ...{ steps: [], receipts: [], findings: [], planText: PLAN, planDigest: 'digest', invitation: 'eyJ.a.b' },
  asked: { kind: 'operation-token', targets: [], requestedBy: { name: 'bea', how: 'signed' }, reason: 'a test' },
  waiting: [
    { for: 'approval', gate: 'plan', planDigest: 'digest', missing: ['1 of ada'], approved: [], until: 1e12 },
    { for: 'shares', cid: 'c', epoch: 1, held: [], missingHolders: ['hal'], threshold: 1, until: 1e12 },
    {
      ...({ for: 'decision', step: 'Demote east', parkingNo: 1, code: 'UNREACHABLE', message: 'It is away.' } as const),
      choices: [{ action: 'retry', effect: 'tries again' }],
    },
  ],
};
const OPEN: OpenRun = {
  ...{ ...RUN, deployment: 'payments', runbook: 'drSwitchover', phase: 'waiting-for-people' },
  ...{ startedAt: '2026-11-29T19:00:00.000Z', status: STATUS },
};
const ACCEPTED = { signal: 'approve', arrival: 1, verdict: 'accepted', code: 'approve', text: 'approves' } as const;

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const door of opened.splice(0)) await door.close();
});

async function mailbox(runs: Partial<Runs> = {}, options: Partial<MailboxOptions> = {}) {
  const sent: unknown[][] = [];
  const logged: string[] = [];
  let reads = 0;
  const door = await openMailbox({
    address: '127.0.0.1:0',
    inventory: () => INVENTORY,
    origins: [],
    log: (line) => void logged.push(line),
    runs: {
      namespace: 'runbooks',
      open: () => Promise.resolve((reads += 1) > 0 ? [OPEN] : []),
      view: () => Promise.resolve({ view: { workflowId: RUN.workflowId }, deployment: 'payments' }),
      send: (...given) => {
        sent.push(given);
        return Promise.resolve({ sent: true, arrival: 1, receipt: ACCEPTED });
      },
      ...runs,
    },
    ...options,
  });
  opened.push(door);
  return { address: door.address, origin: `http://${door.address}`, sent, logged, reads: () => reads };
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: { readonly error?: MailboxError['error'] } & Readonly<Record<string, unknown>>;
}

type Asked = Partial<UnsignedRequest> & {
  readonly key?: SigningKey;
  /** Sends this instead of the signed one. */
  readonly instead?: { readonly method?: string; readonly path?: string; readonly body?: string };
  readonly authorization?: string;
  readonly headers?: Readonly<Record<string, string>>;
};

async function proofOf(origin: string, { name }: TestPerson, path: string, { key, ...asked }: Asked = {}) {
  const method = asked.body === undefined ? 'GET' : 'POST';
  const person = [ada, bea, hal, eve, pia].find((each) => each.name === name) ?? ada;
  return signRequest({ origin, method, path, name, ...asked }, key ?? person.key);
}

/** Sends one signed request on a connection of its own. */
async function ask(origin: string, person: TestPerson, path: string, asked: Asked = {}): Promise<Answer> {
  const authorization = asked.authorization ?? (await proofOf(origin, person, path, asked));
  const { method = asked.body === undefined ? 'GET' : 'POST', ...instead } = asked.instead ?? {};
  const body = instead.body ?? asked.body;
  return new Promise((resolve, reject) => {
    const url = `${origin}${instead.path ?? path}`;
    const headers = { authorization, ...asked.headers };
    const sending = httpRequest(url, { method, headers, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('end', () => {
        const parsed = (text === '' ? {} : JSON.parse(text)) as Answer['body'];
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: parsed });
      });
    });
    sending.on('error', reject).end(body);
  });
}

const WAITING = '/v1/waiting';
const addressOf = (signal: string, run = RUN) =>
  `/v1/runs/${encodeURIComponent(run.workflowId)}/${run.runId}/${signal}`;
const refusal = (code: string, message: RegExp | string) => ({
  error: expect.objectContaining({
    code,
    message: typeof message === 'string' ? message : (expect.stringMatching(message) as string),
    next: expect.any(String) as string,
  }) as object,
});

describe('the mailbox answers a person with', () => {
  it('what waits for them, and nothing that waits for others', async () => {
    const { origin, reads } = await mailbox();
    const { status, body } = await ask(origin, ada, WAITING);
    expect([status, body]).toEqual([
      200,
      {
        ...{ schema: 'runbooks/waiting/v1', at: expect.any(String) as string, person: 'ada', unreachable: [] },
        items: [
          expect.objectContaining({
            ...{
              kind: 'approval',
              gate: 'plan',
              plan: PLAN,
              planDigest: 'digest',
              requestedBy: 'bea',
              namespace: 'runbooks',
            },
            ...{ reason: 'a test', missing: ['1 of ada'], approvals: [], until: '2001-09-09T01:46:40.000Z', ...RUN },
          }),
          expect.objectContaining({ kind: 'decision', step: 'Demote east', parkingNo: 1 }),
        ],
        runs: [expect.objectContaining({ ...RUN, deployment: 'payments', phase: 'waiting-for-people' })],
      },
    ]);
    // Requested it, and so may not approve it.
    expect(await kinds(origin, bea)).toEqual(['decision']);
    expect(await kinds(origin, hal)).toEqual(['share']);
    expect((await ask(origin, hal, WAITING)).body).toMatchObject({
      items: [{ invitation: 'eyJ.a.b', holder: 'hal' }],
      runs: [],
    });
    expect(await kinds(origin, eve)).toEqual([]);
    expect(reads()).toBe(1);
  });

  const kinds = async (origin: string, person: TestPerson) =>
    ((await ask(origin, person, WAITING)).body['items'] as { kind: string }[]).map(({ kind }) => kind);

  it('for which runs no worker answers', async () => {
    const { origin } = await mailbox({ open: () => Promise.resolve([{ ...OPEN, status: undefined }]) });
    expect((await ask(origin, ada, WAITING)).body).toMatchObject({ items: [], unreachable: [RUN] });
    expect((await ask(origin, eve, WAITING)).body).toMatchObject({ items: [], unreachable: [] });
  });

  it('the status of a run of their deployments, and of no other', async () => {
    const { origin } = await mailbox();
    const path = '/v1/runs/deployment%3Apayments';
    expect(await ask(origin, hal, path)).toMatchObject({ status: 200, body: { workflowId: RUN.workflowId } });
    expect((await ask(origin, eve, path)).body).toEqual(refusal('REQUEST_REFUSED', /no part in the deployment/));
    expect(await ask(origin, ada, '/v1/runs/record%3Apayments')).toMatchObject({ status: 404 });
  });
});

describe('the mailbox takes a request only if it', () => {
  const denied = async (asked: Asked, person = ada, options: Partial<MailboxOptions> = {}) => {
    const { origin, sent, logged } = await mailbox({}, options);
    const { status, body } = await ask(origin, person, asked.path ?? WAITING, asked);
    expect([status, sent]).toEqual([401, []]);
    expect(logged.join('\n')).toContain('"status":401');
    return body;
  };

  it('is signed', async () => {
    for (const authorization of ['', 'Bearer x', 'Runbooks x.y.z', `Runbooks ${'x'.repeat(5_000)}`])
      expect(await denied({ authorization })).toEqual(refusal('REQUEST_REFUSED', /./));
  });

  it('is signed by a person of the inventory, in their own name', async () => {
    const stranger = newSigningKey().key;
    expect(await denied({ key: stranger })).toEqual(refusal('REQUEST_REFUSED', /lists for no person/));
    // Nan has no key, so no key is hers.
    expect(await denied({ name: 'nan', key: stranger })).toEqual(refusal('REQUEST_REFUSED', /lists for no person/));
    expect(await denied({ name: 'nan', key: ada.key })).toEqual(refusal('REQUEST_REFUSED', /names another person/));
    expect(await denied({ name: 'ada', key: bea.key })).toEqual(refusal('REQUEST_REFUSED', /names another person/));
    const forged = { ...stranger, kid: ada.key.kid };
    expect(await denied({ key: forged })).toEqual(refusal('REQUEST_REFUSED', /signature does not verify/));
  });

  it('is of the type of requests', async () => {
    const members = {
      aud: 'x',
      method: 'GET',
      path: WAITING,
      body: '',
      name: 'ada',
      iat: Math.floor(Date.now() / 1000),
    };
    const other = await signDocument('runbooks-control-v1', { ...members, jti: randomUUID() }, ada.key);
    expect(await denied({ authorization: `Runbooks ${other}` })).toEqual(refusal('REQUEST_REFUSED', /not of type/));
    const less = await signDocument('runbooks-request-v1', members, ada.key);
    expect(await denied({ authorization: `Runbooks ${less}` })).toEqual(refusal('REQUEST_REFUSED', /required members/));
  });

  it('is signed for this call: method, address and body', async () => {
    const abort = JSON.stringify(await controlOf(ada, { ...IN_RUN, action: 'abort' }));
    const other = { instead: { path: '/v1/runs/deployment%3Apayments' } };
    expect(await denied(other)).toEqual(refusal('REQUEST_REFUSED', /for another call/));
    expect(await denied({ instead: { path: `${WAITING}?x=1` } })).toEqual(
      refusal('REQUEST_REFUSED', /for another call/),
    );
    expect(await denied({ method: 'POST' })).toEqual(refusal('REQUEST_REFUSED', /for another call/));
    const changed = { path: addressOf('abort'), body: abort, instead: { body: abort.replace('eyJ', 'eyK') } };
    expect(await denied(changed)).toEqual(refusal('REQUEST_REFUSED', /body is not the one/));
    const none = { path: addressOf('abort'), body: abort, instead: { body: '' } };
    expect(await denied(none)).toEqual(refusal('REQUEST_REFUSED', /body is not the one/));
  });

  it('is signed for this gateway, if the operators say how people reach it', async () => {
    const options = { origins: ['https://runbooks.example'] };
    expect(await denied({}, ada, options)).toEqual(refusal('REQUEST_REFUSED', /for another gateway/));
    const { origin } = await mailbox({}, options);
    expect(await ask(origin, ada, WAITING, { origin: 'https://runbooks.example' })).toMatchObject({ status: 200 });
  });

  it('was signed within a minute of its own clock; otherwise it says both times', async () => {
    const now = Date.parse('2026-11-29T19:00:00Z');
    const at = { now: () => now };
    const late = await denied({ now: now - 5 * 60_000 }, ada, at);
    expect(late.error).toEqual({
      code: 'REQUEST_REFUSED',
      message: 'The clocks of your device and of the gateway differ by 5 min 0 s.',
      observed: 'the request was signed at 2026-11-29T18:55:00.000Z',
      needed: 'a time at most 60 s from that of the gateway, 2026-11-29T19:00:00.000Z',
      next: expect.stringContaining('Set the clock') as string,
    });
    expect((await denied({ now: now + 61_000 }, ada, at)).error?.observed).toContain('19:01:01');
    const { origin } = await mailbox({}, at);
    for (const off of [-59_000, 59_000])
      expect(await ask(origin, ada, WAITING, { now: now + off })).toMatchObject({ status: 200 });
  });

  it('was not used before: a stolen one is worth nothing', async () => {
    let now = Date.now();
    const { origin, sent } = await mailbox({}, { now: () => now });
    const body = JSON.stringify(await controlOf(ada, { ...IN_RUN, action: 'abort' }));
    const path = addressOf('abort');
    const authorization = await proofOf(origin, ada, path, { body, now: now + 59_000 });
    expect(await ask(origin, ada, path, { body, authorization })).toMatchObject({ status: 200 });
    // As long as its time is accepted.
    now += 118_000;
    expect((await ask(origin, ada, path, { body, authorization })).body).toEqual(
      refusal('REQUEST_REFUSED', 'This request has already arrived.'),
    );
    expect(sent).toHaveLength(1);
  });
});

it('proofs are remembered within bounds: if there is no room, none is accepted rather than one twice', async () => {
  let now = Date.now();
  const proofs = new Proofs({ people: () => INVENTORY.people, origins: [], now: () => now, most: 2 });
  const proof = () => proofOf('https://runbooks.example', ada, WAITING, { now });
  const [first, second] = [await proof(), await proof()];
  const verify = async (given: string) => {
    const proven = await proofs.verify(given, 'GET', WAITING);
    return proofs.useOnce(proven, () => proven);
  };
  await verify(first);
  await verify(second);
  await expect(verify(await proof())).rejects.toMatchObject({ code: 'GATEWAY_UNAVAILABLE', httpStatus: 429 });
  await expect(verify(first)).rejects.toMatchObject({ code: 'REQUEST_REFUSED' });
  // Both have become too old to be accepted.
  now += 121_000;
  await expect(verify(await proof())).resolves.toMatchObject({ person: { name: 'ada' } });
});

describe('the mailbox passes on', () => {
  it.each(['pause', 'resume', 'abort'] as const)('a signed %s of the person, unchanged', async (action) => {
    const { origin, sent, logged } = await mailbox();
    const document = await controlOf(ada, { ...IN_RUN, action });
    const answer = await ask(origin, ada, addressOf(action), { body: JSON.stringify(document) });
    expect(answer).toMatchObject({ status: 200, body: { sent: true, receipt: ACCEPTED } });
    expect(sent).toEqual([[RUN, action, document, expect.any(String)]]);
    expect(JSON.parse(logged.join())).toMatchObject({ person: 'ada', signal: action, ...RUN, status: 200 });
    expect(logged.join()).not.toContain('eyJ');
  });

  it('an approval and a decision, and says if the run has not answered yet', async () => {
    const { origin, sent } = await mailbox({ send: () => Promise.resolve({ sent: true }) });
    const approval = await approvalOf(ada, { ...IN_RUN, gate: 'plan', planDigest: 'digest' });
    const decision = await decisionOf(ada, { ...IN_RUN, step: 'Demote east', parkingNo: 1, action: 'retry' });
    for (const [signal, document] of [
      ['approve', approval],
      ['decide', decision],
    ] as const)
      expect(await ask(origin, ada, addressOf(signal), { body: JSON.stringify(document) })).toMatchObject({
        ...{ status: 202, body: { sent: true } },
      });
    expect(sent).toEqual([]);
  });

  const refused = async (person: TestPerson, signal: string, body: unknown, status = 400) => {
    const { origin, sent, logged } = await mailbox();
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const answer = await ask(origin, person, addressOf(signal), { body: text });
    expect([answer.status, sent]).toEqual([status, []]);
    expect(logged.join()).not.toContain('eyJ');
    return answer.body;
  };

  it('no document of another person, and none for another run or order', async () => {
    const order = { ...IN_RUN, action: 'abort' } as const;
    // Ada's own key under bea's name.
    const inBeasName = await controlOf({ ...ada, name: 'bea' }, order);
    expect(await refused(ada, 'abort', inBeasName, 403)).toEqual(refusal('REQUEST_REFUSED', /names another person/));
    expect(await refused(bea, 'abort', await controlOf(ada, order))).toEqual(refusal('DOCUMENT_INVALID', /refused/));
    for (const other of [{ rid: randomUUID() }, { wid: 'deployment:other' }, { ns: 'other' }])
      expect(await refused(ada, 'abort', await controlOf(ada, { ...order, ...other }))).toEqual(
        refusal('DOCUMENT_INVALID', /for another run/),
      );
    const pause = await controlOf(ada, { ...IN_RUN, action: 'pause' });
    expect(await refused(ada, 'abort', pause)).toEqual(refusal('DOCUMENT_INVALID', /orders something else/));
    expect(await refused(ada, 'decide', pause)).toEqual(refusal('DOCUMENT_INVALID', /not of type/));
  });

  it('nothing that is not one signed document', async () => {
    const signed = await controlOf(ada, { ...IN_RUN, action: 'abort' });
    for (const body of ['', 'null', '{}', '"eyJ"', { document: 'x' }, { ...signed, more: 1 }, [signed]])
      expect(await refused(ada, 'abort', body)).toEqual(refusal('DOCUMENT_INVALID', /not one signed document/));
    const plain = { ...IN_RUN, action: 'abort', name: 'ada', reason: '', iat: 1 };
    expect(await refused(ada, 'abort', plain)).toEqual(refusal('DOCUMENT_INVALID', /not one signed document/));
    expect(await refused(ada, 'share', signed)).toEqual(refusal('DOCUMENT_INVALID', /not an envelope/));
  });

  it('no key share in plain text: it would be recorded for good', async () => {
    const leak = await controlOf(ada, { ...IN_RUN, action: 'abort', reason: `use ${shareText(3)}` });
    expect(await refused(ada, 'abort', leak)).toEqual(refusal('PLAIN_TEXT_SHARE', /plain text/));
  });

  it('nothing of a person whom only Temporal can attest: the gateway is the sender there', async () => {
    const order = await controlOf(pia, { ...IN_RUN, action: 'abort' });
    expect(await refused(pia, 'abort', order, 403)).toEqual(refusal('REQUEST_REFUSED', /Temporal recorded you/));
  });

  it("a holder's sealed and signed share, also if somebody else passes it on", async () => {
    const { origin, sent, logged } = await mailbox();
    const members = { cid: randomUUID(), epoch: 1, inv: 'i', holder: 'hal', seq: 1, iat: 1, ct: 'c' };
    const document = await signDocument('runbooks-share-v1', members, hal.key);
    const answer = await ask(origin, ada, addressOf('share'), { body: JSON.stringify({ document }) });
    expect([answer.status, sent]).toEqual([200, [[RUN, 'share', { document }, expect.any(String)]]]);
    expect(JSON.parse(logged.join())).toMatchObject({ person: 'ada', signer: 'hal' });
    const forged = await signDocument('runbooks-share-v1', members, ada.key);
    expect(await refused(ada, 'share', { document: forged })).toEqual(refusal('DOCUMENT_INVALID', /unknown key/));
  });

  it.each(['takeOver', 'start', 'terminate', '__proto__'])('no %s', async (signal) => {
    const { origin, sent } = await mailbox();
    const body = JSON.stringify(await controlOf(ada, { ...IN_RUN, action: 'abort' }));
    expect(await ask(origin, ada, addressOf(signal), { body })).toMatchObject({ status: 404 });
    const record = addressOf('abort', { ...RUN, workflowId: 'record:payments' });
    expect(await ask(origin, ada, record, { body })).toMatchObject({ status: 404 });
    expect(sent).toEqual([]);
  });
});

describe('the mailbox bears', () => {
  it('a body of 100 MB, of which it reads next to nothing', async () => {
    const { origin, address } = await mailbox();
    const [host = '', port = ''] = address.split(':');
    const read = async (authorization: string, large: number) => {
      const socket = connect(Number(port), host);
      const answer = new Promise<string>((resolve, reject) => {
        let text = '';
        socket.setEncoding('utf8').on('data', (part: string) => (text += part));
        socket.on('error', (error) => (text === '' ? reject(error) : resolve(text))).on('close', () => resolve(text));
      });
      const head = `POST ${addressOf('abort')} HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization}\r\ncontent-length: ${large}\r\n\r\n`;
      socket.write(head);
      let written = 0;
      const part = Buffer.alloc(1024 * 1024);
      while (!socket.destroyed && written < large) {
        written += part.length;
        if (!socket.write(part)) await new Promise((resolve) => socket.once('drain', resolve).once('close', resolve));
      }
      return { answer: await answer, written };
    };
    const known = await read(await proofOf(origin, ada, addressOf('abort'), { body: 'x' }), 100 * 1024 * 1024);
    expect(known.answer).toMatch(/^HTTP\/1.1 413 [^]*INVALID_INPUT/);
    expect(known.written).toBeLessThan(50 * 1024 * 1024);
    const stranger = await read('', 100 * 1024 * 1024);
    expect(stranger.answer).toMatch(/^HTTP\/1.1 401 /);
    expect(stranger.written).toBeLessThan(50 * 1024 * 1024);
  });

  it('a thousand requests of one person at once: others are answered, and the person later', async () => {
    const { origin } = await mailbox();
    const proofs = await Promise.all(Array.from({ length: 1_000 }, () => proofOf(origin, ada, WAITING)));
    const began = performance.now();
    const flood = Promise.all(
      proofs.map((authorization) => ask(origin, ada, WAITING, { authorization }).catch(() => undefined)),
    );
    const [answers, other] = await Promise.all([flood, untilAnswered(origin, bea)]);
    expect(other).toMatchObject({ status: 200 });
    const statuses = answers.map((each) => each?.status);
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(0);
    // The burst, and one each second.
    const most = 61 + (performance.now() - began) / 1_000;
    expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(most);
    const busy = answers.find((each) => each?.status === 429);
    expect(busy).toMatchObject({ headers: { 'retry-after': '2' }, body: refusal('GATEWAY_UNAVAILABLE', /You /) });
    expect(await untilAnswered(origin, ada)).toMatchObject({ status: 200 });
  });

  /** A full server drops connections. */
  async function untilAnswered(origin: string, person: TestPerson): Promise<Answer> {
    for (;;) {
      const answer = await ask(origin, person, WAITING).catch(() => undefined);
      if (answer !== undefined && answer.status !== 429) return answer;
      await delay(50);
    }
  }

  it('a person whose requests do not end: it takes no more than 8 places, and others have theirs', async () => {
    let answer = (): void => undefined;
    const waited = new Promise<readonly OpenRun[]>((resolve) => (answer = () => resolve([])));
    const { origin } = await mailbox({ open: () => waited });
    const hanging = Array.from({ length: 8 }, () => ask(origin, ada, WAITING));
    // Until all of them are in, one more finds a place too.
    for (;;) {
      const more = await Promise.race([ask(origin, ada, WAITING), delay(2_000).then(() => undefined)]);
      if (more?.status === 429) break;
    }
    const other = ask(origin, hal, '/v1/runs/deployment%3Apayments');
    expect(await other).toMatchObject({ status: 200 });
    answer();
    for (const each of hanging) expect([200, 429]).toContain((await each).status);
    expect(await ask(origin, ada, WAITING)).toMatchObject({ status: 200 });
  });

  it('no more than 20 documents of a person at once: histories have little room', async () => {
    const { origin, sent } = await mailbox();
    const answers: Answer[] = [];
    for (let count = 0; count < 22; count += 1) {
      const body = JSON.stringify(await controlOf(ada, { ...IN_RUN, action: 'pause', reason: `number ${count}` }));
      answers.push(await ask(origin, ada, addressOf('pause'), { body }));
    }
    expect(sent).toHaveLength(20);
    expect(answers.at(-1)).toMatchObject({ status: 429, headers: { 'retry-after': '2' } });
  });

  it('a Temporal that is down: 503, and when to ask again', async () => {
    const away = new RunbookError('TEMPORAL_UNAVAILABLE', 'It is away.', { next: 'Wait.' });
    const { origin, logged } = await mailbox({ open: () => Promise.reject(away), send: () => Promise.reject(away) });
    const body = JSON.stringify(await controlOf(ada, { ...IN_RUN, action: 'pause' }));
    for (const answer of [await ask(origin, ada, WAITING), await ask(origin, ada, addressOf('pause'), { body })])
      expect(answer).toMatchObject({
        ...{ status: 503, headers: { 'retry-after': '5' }, body: refusal('TEMPORAL_UNAVAILABLE', 'It is away.') },
      });
    expect(logged.join()).toContain('"status":503');
  });

  it('a defect, whose text nobody sees', async () => {
    const { origin, logged } = await mailbox({ open: () => Promise.reject(new TypeError('secret of a run')) });
    expect(await ask(origin, ada, WAITING)).toMatchObject({ status: 500, body: refusal('INTERNAL', /./) });
    expect(logged.join()).toContain('TypeError');
    expect(logged.join()).not.toContain('secret of a run');
  });
});

describe('pages', () => {
  it('that were saved may read the answers, and pages of servers may not', async () => {
    const { origin } = await mailbox();
    const preflight = { instead: { method: 'OPTIONS' }, authorization: '' };
    const saved = await ask(origin, ada, WAITING, { ...preflight, headers: { origin: 'null' } });
    expect([saved.status, saved.headers]).toEqual([
      204,
      expect.objectContaining({
        'access-control-allow-origin': 'null',
        'access-control-allow-methods': 'GET, POST',
        'access-control-allow-headers': 'authorization, content-type',
      }),
    ]);
    const answered = await ask(origin, ada, WAITING, { headers: { origin: 'null' } });
    expect(answered).toMatchObject({ status: 200, headers: { 'access-control-allow-origin': 'null' } });
    expect(answered.headers['set-cookie']).toBeUndefined();
    expect(answered.headers['access-control-allow-credentials']).toBeUndefined();
    const refused = await ask(origin, ada, WAITING, { authorization: '', headers: { origin: 'null' } });
    expect(refused).toMatchObject({ status: 401, headers: { 'access-control-allow-origin': 'null' } });
    const served = await ask(origin, ada, WAITING, { headers: { origin: 'https://elsewhere.example' } });
    expect(served.headers['access-control-allow-origin']).toBeUndefined();
  });
});

describe('the mailbox listens', () => {
  it('with TLS, or on loopback only', async () => {
    await expect(mailbox({}, { address: '0.0.0.0:0' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    const tls = { certificate: Buffer.from(LOOPBACK_CERTIFICATE), key: Buffer.from(LOOPBACK_KEY) };
    const { address } = await mailbox({}, { tls });
    const authorization = await proofOf(`https://${address}`, ada, WAITING);
    const status = await new Promise((resolve, reject) => {
      const options = { headers: { authorization }, ca: LOOPBACK_CERTIFICATE, agent: false as const };
      httpsRequest(`https://${address}${WAITING}`, options, (response) => resolve(response.resume().statusCode))
        .on('error', reject)
        .end();
    });
    expect(status).toBe(200);
  });

  it('to people whose key is listed, as the inventory says now', async () => {
    let people = INVENTORY.people;
    const { origin } = await mailbox({}, { inventory: () => ({ ...INVENTORY, people }) });
    expect(await ask(origin, ada, WAITING)).toMatchObject({ status: 200 });
    people = new Map([...people].filter(([name]) => name !== 'ada'));
    expect(await ask(origin, ada, WAITING)).toMatchObject({ status: 401 });
  });
});
