/** People without access to Temporal: their whole way through the gateway's mailbox, with the commands that they type. */
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { armor, Encrypter } from 'age-encryption';
import { KeyObject } from 'node:crypto';
import { askMailbox } from '../../src/documents/mailbox';
import type { MailboxAccess } from '../../src/documents/mailbox';
import { signRequest } from '../../src/documents/signed-request';
import { addPin, formatPublicKey } from '../../src/keys';
import { firstValue } from '../../src/report/run-history';
import { cli } from '../cli/support';
import type { Typed } from '../cli/support';
import { until } from '../support/by-hand';
import { temporaryDirectory } from '../support/directory';
import { approvalOf, controlOf } from '../support/people';
import type { TestPerson } from '../support/people';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';
import { LOOPBACK_TLS } from '../vault/support/loopback-certificate';

const directory = temporaryDirectory('mailbox');
const pins = join(directory, 'pins.json');
const TRAFFIC = 'Direct clients to the new primary';
const PASSPHRASE = 'a passphrase of the test';

let scenario: Scenario;
/** What the test opened. A failed one must not keep Jest from ending. */
const opened: (() => unknown)[] = [];
/** `runbook gateway --people`, and where it listens. */
async function gateway(words: readonly string[] = [], env: Readonly<Record<string, string>> = {}) {
  const stop = new AbortController();
  const said: string[] = [];
  const command = ['gateway', '--people', '127.0.0.1:0', ...words];
  const ended = cli(command, {
    env: { ...scenario.environment, ...env },
    stop: stop.signal,
    hear: (line) => void said.push(line),
  });
  opened.push(() => {
    stop.abort();
    return ended;
  });
  await until('where it listens', () => said.some((line) => line.startsWith('Mailbox of people on ')));
  return { origin: /https?:\/\/\S+/.exec(said.join('\n'))?.[0] ?? '', said };
}

/** The key file of a person, which `runbook join` makes on their machine. */
async function keyFileOf({ name, key }: TestPerson): Promise<string> {
  const encrypter = new Encrypter();
  encrypter.setPassphrase(PASSPHRASE);
  encrypter.setScryptWorkFactor(4);
  if (!(key.privateKey instanceof KeyObject)) throw new Error('not a key of the test');
  const jwk = JSON.stringify(key.privateKey.export({ format: 'jwk' }));
  const file = join(directory, `${name}.key`);
  await writeFile(file, armor.encode(await encrypter.encrypt(jwk)), { mode: 0o600 });
  return file;
}

/** A command of a person whose machine knows a gateway, and cannot reach Temporal. */
async function person(name: string, origin: string, words: readonly string[], typed: Typed = {}) {
  const passphrase = join(directory, 'passphrase');
  await writeFile(passphrase, PASSPHRASE, { mode: 0o600 });
  return cli([...words, '--passphrase-file', passphrase], {
    ...typed,
    env: {
      ...{ RUNBOOKS_GATEWAY: origin, RUNBOOKS_PERSON: name, RUNBOOKS_PINS: pins, TEMPORAL_ADDRESS: '127.0.0.1:1' },
      RUNBOOKS_KEY_FILE: await keyFileOf(scenario.person(name)),
      ...typed.env,
    },
  });
}

const accessOf = (name: string, origin: string): MailboxAccess => ({ origin, name, key: scenario.person(name).key });

async function signalsOf(workflowId: string, name: string): Promise<unknown[]> {
  const { events } = await scenario.client.workflow.getHandle(workflowId).fetchHistory();
  return (events ?? []).flatMap(({ workflowExecutionSignaledEventAttributes: sent }) =>
    sent?.signalName === name ? [firstValue(sent.input)] : [],
  );
}

describe('people without access to Temporal', () => {
  openScenario((opened) => (scenario = opened), {
    // Parks until somebody decides.
    deployment: { hooks: { traffic: { command: ['/usr/bin/test', '-e', join(directory, 'never')], timeout: '60s' } } },
  });
  afterAll(async () => {
    for (const close of opened.splice(0).reverse()) await close();
  });

  describe('through the mailbox', () => {
    beforeAll(() => addPin(pins, 'production', formatPublicKey(scenario.workersKey)));

    it('a document that arrives twice, also through another gateway, is recorded once and has one receipt', async () => {
      const [one, other] = [await gateway(), await gateway()];
      const run = await scenario.start();
      await run.waitsFor('shares');
      const { workflowId } = scenario;
      const { runId } = await run.status();
      const order = await controlOf(scenario.person('grace'), {
        ...{ ns: scenario.environment['TEMPORAL_NAMESPACE'] ?? '', wid: workflowId, rid: runId, action: 'pause' },
      });
      const path = `/v1/runs/${encodeURIComponent(workflowId)}/${runId}/pause`;
      // The first answer is lost on its way.
      let lost = 0;
      const losing: NonNullable<MailboxAccess['fetch']> = async (url, init) => {
        const answer = await fetch(url, init);
        if ((lost += 1) > 1) return answer;
        throw new TypeError('fetch failed');
      };
      const first = await askMailbox({ ...accessOf('grace', one.origin), fetch: losing }, path, order);
      const again = await askMailbox(accessOf('grace', other.origin), path, order);
      expect(lost).toBe(2);
      expect(first).toMatchObject({ sent: true, arrival: 1, receipt: { verdict: 'accepted', arrival: 1 } });
      expect(again).toEqual(first);
      expect(await signalsOf(workflowId, 'pause')).toEqual([order]);
      expect((await run.status()).receipts.filter(({ signal }) => signal === 'pause')).toHaveLength(1);
      const aborted = await person('grace', one.origin, ['abort', scenario.name, '--reason', 'the end of the test']);
      expect([aborted.code, aborted.err]).toEqual([0, aborted.err]);
      expect(await run.report()).toMatchObject({ outcome: 'aborted' });
      const late = await person('grace', one.origin, ['abort', scenario.name]);
      expect([late.code, late.err]).toEqual([5, expect.stringContaining('There is no open run')]);
    });

    it('a gateway that shows the plan of another run gets an approval that the run refuses', async () => {
      const { origin } = await gateway();
      const run = await scenario.start();
      for (const holder of ['ada', 'bert', 'cleo']) {
        await run.waitsFor('shares', ({ missingHolders }) => missingHolders.includes(holder));
        const answers = ['west', scenario.person(holder).share ?? ''];
        expect(await person(holder, origin, ['share', scenario.name], { answers })).toMatchObject({ code: 0 });
      }
      await run.waitsFor('approval', ({ gate }) => gate === 'plan');
      const { planText = '', planDigest = '', runId } = await run.status();
      const harmless = planText.replace(/"reason":"[^"]*"/, '"reason":"nothing of importance"');
      const digest = await digestOf(harmless);
      expect(digest).not.toBe(planDigest);
      const liar = await listening(
        createServer((request, response) => {
          let body = '';
          request.setEncoding('utf8').on('data', (part: string) => (body += part));
          request.on('end', () => {
            const headers = { authorization: request.headers.authorization ?? '' };
            const init = { method: request.method, headers, ...(body !== '' && { body }) };
            void fetch(`${origin}${request.url ?? ''}`, init).then(async (answer) => {
              const lie = (await answer.text())
                .replaceAll(JSON.stringify(planText).slice(1, -1), JSON.stringify(harmless).slice(1, -1))
                .replaceAll(planDigest, digest);
              response.writeHead(answer.status, { 'content-type': 'application/json' }).end(lie);
            });
          });
        }),
      );
      const deceived = await person('grace', liar, ['approve', scenario.name, '--gate', 'plan'], {
        answers: ['approve'],
      });
      expect(deceived.err).toContain('nothing of importance');
      expect([deceived.code, deceived.out]).toEqual([3, expect.stringContaining('it is for another plan')]);
      // A plan whose digest is not that of its text does not come that far.
      const lazyLiar = { ...(await run.status()), planText: harmless };
      expect(await digestOf(lazyLiar.planText)).not.toBe(lazyLiar.planDigest);
      // The gateway cannot make an approval of its own either: it has no key.
      const forged = await approvalOf(
        { ...scenario.person('grace'), key: scenario.person('ada').key },
        {
          ns: scenario.environment['TEMPORAL_NAMESPACE'] ?? '',
          wid: scenario.workflowId,
          rid: runId,
          gate: 'plan',
          planDigest,
        },
      );
      await run.handle.signal('approve', forged);
      await until('its receipt', async () =>
        (await run.status()).receipts.some(({ arrival, verdict }) => arrival === 2 && verdict === 'refused'),
      );
      expect((await run.status()).waiting.some((each) => each.for === 'approval')).toBe(true);
      expect((await person('grace', origin, ['abort', scenario.name])).code).toBe(0);
      expect(await run.report()).toMatchObject({ outcome: 'aborted' });
    });

    it('a run that does not answer yet is asked again until the time of the person is over', async () => {
      let asked = 0;
      const slow = await listening(
        createServer((request, response) => {
          asked += request.method === 'POST' ? 1 : 0;
          const view = {
            ...{
              namespace: 'default',
              workflowId: 'deployment:x',
              runId: 'r',
              runbook: 'drSwitchover',
              state: 'running',
            },
            ...{ taskQueue: 'q', startedAt: '2026-11-29T19:00:00Z', asOfEvent: 1, pendingActivities: [] },
          };
          const answer = request.method === 'POST' ? { sent: true } : view;
          response.writeHead(request.method === 'POST' ? 202 : 200).end(JSON.stringify(answer));
        }),
      );
      const { code, out } = await person('grace', slow, ['abort', 'x', '--timeout', '1']);
      expect([code, out]).toEqual([4, expect.stringContaining('Sent and recorded by Temporal; no receipt yet')]);
      expect(asked).toBeGreaterThan(1);
    });

    it('holders share, approvers approve, operators decide, and everybody sees what waits for them', async () => {
      const { certificateFile, keyFile } = LOOPBACK_TLS;
      const { origin, said } = await gateway(['--tls-cert', certificateFile, '--tls-key', keyFile]);
      const env = { RUNBOOKS_GATEWAY_CA_FILE: certificateFile };
      const does = async (name: string, words: readonly string[], answers: readonly string[] = []) => {
        const { code, out, err, questions } = await person(name, origin, words, { answers, env });
        expect([words, code, err]).toEqual([words, 0, err]);
        expect(questions).toHaveLength(answers.length);
        return `${out}\n${err}`;
      };
      const { workflowId: lock, name } = scenario;
      const run = await scenario.start();
      await run.waitsFor('shares');
      expect(await does('ada', ['waiting'])).toContain(`runbook share ${lock} --holder ada`);
      expect(await does('ada', ['invitation', name])).toContain('eyJ');
      // With the inventory and access to Temporal, no gateway is needed.
      const direct = await cli(['waiting', '--name', 'ada', '--json'], { env: scenario.environment });
      expect(JSON.parse(direct.out)).toMatchObject({ person: 'ada', items: [{ kind: 'share', workflowId: lock }] });
      const neither = await cli(['waiting', '--name', 'ada'], { env: {} });
      expect([neither.code, neither.err]).toEqual([3, expect.stringContaining('--gateway, or RUNBOOKS_INVENTORY')]);
      for (const holder of ['ada', 'bert', 'cleo'])
        expect(await does(holder, ['share', name], ['west', scenario.person(holder).share ?? ''])).toContain(
          'accepted',
        );
      await run.waitsFor('approval', ({ gate }) => gate === 'plan');
      expect(await does('grace', ['status', name])).toContain('Waiting for approval of gate plan');
      expect(await does('grace', ['waiting'])).toContain(`runbook approve ${lock} --gate plan --name grace`);
      expect(await does('grace', ['approve', name, '--gate', 'plan'], ['approve'])).toContain('accepted');
      await run.waitsFor('approval', ({ gate }) => gate === 'go');
      expect(await does('henry', ['pause', name, '--reason', 'a look'])).toContain('accepted');
      expect(await does('grace', ['resume', name])).toContain('accepted');
      expect(await does('henry', ['approve', name, '--gate', 'go'], ['approve'])).toContain('accepted');
      await run.parks(TRAFFIC);
      expect(await does('grace', ['waiting'])).toContain(
        `runbook decide ${lock} --parking 1 --action skip --name grace`,
      );
      expect(await does('grace', ['decide', name, '--action', 'skip'], ['why'])).toContain('accepted');
      expect(await run.report()).toMatchObject({ outcome: 'completed' });
      expect(await does('ada', ['waiting', '--json'])).toContain('"items":[]');
      // One line for each request, without content.
      const logged = said.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as object);
      expect(logged).toContainEqual(
        expect.objectContaining({ person: 'ada', method: 'POST', signal: 'share', workflowId: lock, status: 200 }),
      );
      expect(said.join('\n')).not.toMatch(/eyJ|a look/);
    });
  });

  describe('a person learns through the mailbox', () => {
    it('that Temporal does not answer the gateway', async () => {
      const { origin } = await gateway([], { TEMPORAL_ADDRESS: '127.0.0.1:1' });
      const headers = { authorization: await proof(origin, '/v1/waiting') };
      const answer = await fetch(`${origin}/v1/waiting`, { headers });
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5']);
      const { code, err } = await person('grace', origin, ['status', scenario.name]);
      expect([code, err]).toEqual([1, expect.stringMatching(/^Error TEMPORAL_UNAVAILABLE: Temporal does not answer/)]);
    });

    const proof = (origin: string, path: string) =>
      signRequest({ origin, method: 'GET', path, name: 'grace' }, scenario.person('grace').key);

    it('that they need their key, before anything is asked of the gateway', async () => {
      const env = { RUNBOOKS_GATEWAY: 'http://127.0.0.1:1', XDG_CONFIG_HOME: join(directory, 'empty') };
      const { code, err } = await cli(['status', 'payments', '--name', 'grace'], { env });
      expect([code, err]).toEqual([3, expect.stringContaining('there is no key of yours')]);
      expect(err).toContain('runbook join');
    });

    it('that they speak for themselves only', async () => {
      const { origin } = await gateway();
      const words = [
        'abort',
        scenario.name,
        '--name',
        'henry',
        '--key-file',
        await keyFileOf(scenario.person('grace')),
      ];
      const { code, err } = await person('henry', origin, words);
      expect([code, err]).toEqual([3, expect.stringContaining('names another person')]);
    });

    it('that the certificate of the gateway is not trusted, at once', async () => {
      const { certificateFile, keyFile } = LOOPBACK_TLS;
      const { origin } = await gateway(['--tls-cert', certificateFile, '--tls-key', keyFile]);
      const { code, err } = await person('grace', origin, ['status', 'payments']);
      expect([code, err]).toEqual([1, expect.stringMatching(/^Error TLS_FAILED: .*\n.*SELF_SIGNED/)]);
      const missing = await person('grace', origin, ['status', 'payments', '--gateway-ca', join(directory, 'none')]);
      expect(missing.code).toBe(5);
    });

    it('that a take-over needs access to Temporal, and what to give instead of a wrong address', async () => {
      const { origin } = await gateway();
      const run = await scenario.start({ to: 'east' });
      await run.waitsFor('shares');
      const order = await person('grace', origin, ['take-over', scenario.name, '--reason', 'the site is down']);
      expect([order.code, order.err]).toEqual([3, expect.stringContaining('passes no take-over')]);
      expect((await person('grace', origin, ['abort', scenario.name])).code).toBe(0);
      await run.report();
      const plain = await person('grace', 'http://gateway.example', ['status', 'payments']);
      expect([plain.code, plain.err]).toEqual([1, expect.stringContaining('INSECURE_ADDRESS')]);
    });
  });
});

async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  opened.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function digestOf(text: string): Promise<string> {
  return Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(text))).toString('base64url');
}
