/** Hooks stop, lead and fence clients: commands and calls, with their output; a probe proves that clients are served. */
import { access, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { IncomingHttpHeaders, Server, ServerResponse } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import type { Server as TcpServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type * as Undici from 'undici';
import { findDeployment } from '../../src/inventory';
import { hooks } from '../../src/inventory/schema';
import { listenOnLoopback } from '../../src/simulator';
import { ActivityBench, DEPLOYMENT, holding } from '../support/activity-environment';
import type { CallOptions } from '../support/activity-environment';
import { FOREIGN_CERTIFICATE, LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from '../vault/support/loopback-certificate';
import { ScriptedServer } from '../vault/support/scripted-server';

/** The HTTP library's own limits, which are minutes, are shorter than any answer here. */
jest.mock('undici', () => {
  const undici = jest.requireActual<typeof Undici>('undici');
  class Agent extends undici.Agent {
    constructor(options?: Undici.Agent.Options) {
      super({ headersTimeout: 100, bodyTimeout: 100, ...options });
    }
  }
  return { ...undici, Agent };
});

const CANARY = 'hvs.canaryOfAHook0123456789';
const HEADER = 'a-password-in-words-only';
const script = (text: string, more: object = {}) => ({ command: ['/bin/sh', '-c', text], timeout: '20s', ...more });
type HookOf = 'quiesce' | 'release' | 'traffic';
/** East is primary: clients are quiesced before west takes over, and led and let through to where service is. */
const hook = (name: HookOf) =>
  name === 'quiesce'
    ? ({ deployment: DEPLOYMENT, hook: name, from: 'east', to: 'west' } as const)
    : ({ deployment: DEPLOYMENT, hook: name, from: 'west', to: 'east' } as const);

let bench: ActivityBench;
let receiver: Server;
let address: string;
let silent: TcpServer;
let silentAddress: string;
let answer: (response: ServerResponse) => void;
const got: { readonly method?: string; readonly headers: IncomingHttpHeaders; readonly body: string }[] = [];

beforeAll(async () => {
  receiver = createServer((request, response) => {
    void text(request).then((body) => {
      got.push({ method: request.method, headers: request.headers, body });
      answer(response);
    });
  });
  address = `http://127.0.0.1:${await listenOnLoopback(receiver)}/hooks`;
  silent = createTcpServer((socket) => void socket.on('error', () => undefined).resume());
  silentAddress = `https://127.0.0.1:${await listenOnLoopback(silent)}/`;
  process.env['TEST_HOOK_HEADER'] = `Bearer ${HEADER}`;
  bench = await ActivityBench.start({
    deployment: {
      hooks: {
        quiesce: script('echo quiet; echo "and $RUNBOOK_FACTS"'),
        traffic: script(`echo ${CANARY}; echo ${CANARY} >&2; exit 3`),
        release: { url: address, headers: { authorization: { env: 'TEST_HOOK_HEADER' } }, timeout: '60s' },
        fence: { url: address },
        unfence: { url: address },
        probe: { url: address, expectStatus: [200, 204] },
      },
    },
  });
  bench.canary('what a hook writes', CANARY);
  bench.canary('a header', HEADER);
});
afterAll(async () => {
  await bench.stop();
  await Promise.all([receiver, silent].map((each) => new Promise((resolve) => each.close(resolve))));
});
beforeEach(() => {
  got.length = 0;
  answer = (response) => response.writeHead(204).end();
});

const run = (name: HookOf, options?: CallOptions) => bench.call('runHook', hook(name), options);
const refuses = (name: HookOf, code: string, expected: object, options?: CallOptions) =>
  bench.refused('runHook', hook(name), code, expected, options);
const IDEMPOTENT = () => ({ url: address, idempotent: true, timeout: '60s' });

/** With these hooks alone in the inventory. */
async function withHooks(entries: object, body: () => Promise<unknown>): Promise<void> {
  const deployment = findDeployment(bench.inventory, DEPLOYMENT);
  const { hooks: usual } = deployment;
  Object.assign(deployment, { hooks: hooks.parse(entries) });
  await body().finally(() => Object.assign(deployment, { hooks: usual }));
}
const withQuiesce = (entry: object, body: () => Promise<unknown>) => withHooks({ quiesce: entry }, body);

describe('a command', () => {
  it('runs once, ends well with exit code 0, and its output is in the result', async () => {
    const observed = /^quiesce hook ended with exit code 0; its output: quiet\nand \{"hook":"quiesce"/;
    const seen = expect.stringMatching(observed) as string;
    expect(await run('quiesce')).toMatchObject({ outcome: 'done', calls: 1, observed: seen });
  });

  it('that fails reports its exit code and its output, redacted', async () => {
    const observed = 'exit 3; its output: [redacted]\n[redacted]';
    const details = { observed, outcomeKnown: false, next: holding('retry runs it again') };
    await refuses('traffic', 'HOOK_FAILED', { retryable: false, details });
  });

  it('shows the last lines of long output, and no partial line', async () => {
    const lines = 'i=0; while [ $i -lt 9000 ]; do echo "line $i of many"; i=$((i+1)); done';
    await withQuiesce(script(lines), async () => {
      const { observed } = await run('quiesce');
      expect(observed.length).toBeLessThan(2_200);
      expect(observed).toMatch(/; its output: \.\.\. line \d+ of many\n/);
      expect(observed).toMatch(/line 8999 of many$/);
    });
    await withQuiesce(script('head -c 60000 /dev/zero | tr "\\0" x'), async () => {
      expect((await run('quiesce')).observed).toBe('quiesce hook ended with exit code 0');
    });
  });

  it('that is cancelled ends as cancelled, not as failed', async () => {
    await withQuiesce({ command: ['/bin/sleep', '600'], timeout: '60s' }, async () => {
      const onStart = (cancel: () => void) => void setTimeout(cancel, 50);
      await refuses('quiesce', 'CancelledFailure', {}, { onStart });
      expect((await run('traffic')).outcome).toBe('already');
    });
  });

  it('gets its location and the clusters, and none of the environment of the worker', async () => {
    const secret = 'canary-of-the-workers-environment';
    const given = ['RUNBOOKS_SEAL_KEYS', 'SOME_TOKEN'];
    for (const name of given) process.env[name] = secret;
    const file = join(bench.directory, 'environment');
    await writeFile(file, '');
    await withQuiesce(script(`env > ${file}`), () => run('quiesce'));
    for (const name of given) delete process.env[name];
    const seen = await readFile(file, 'utf8');
    for (const told of ['RUNBOOK_HOOK=quiesce', 'RUNBOOK_FROM=east', 'RUNBOOK_TO=west']) expect(seen).toContain(told);
    for (const untold of [secret, HEADER]) expect(seen).not.toContain(untold);
    expect(seen).not.toMatch(/^(HOME|TMPDIR|USER)=/m);
  });
});

describe('an attacker who forges the input of a hook', () => {
  /** As careless as a hook can be: a shell reads all that it is told. */
  const careless = script('sh -c "echo $RUNBOOK_FROM $RUNBOOK_TO"; eval "echo $RUNBOOK_FACTS"; exit 0');
  const planted = () => join(bench.directory, 'planted');
  const order = () => `$(touch ${planted()})`;

  it.each([
    ['from', () => ({ from: order() }), {}, 'INVALID_INPUT'],
    ['to', () => ({ to: order() }), {}, 'INVALID_INPUT'],
    ['a cluster of nobody', () => ({ to: 'south' }), {}, 'UNKNOWN_CLUSTER'],
    ['the number of a step', () => ({}), { number: 'one; two' as unknown as number }, 'INVALID_INPUT'],
  ])('gets no command into a shell by %s', async (_, forged, step, code) => {
    await withQuiesce(careless, async () => {
      await bench.refused('runHook', { ...hook('quiesce'), ...forged() }, code, { retryable: false }, { step });
      await expect(access(planted())).rejects.toThrow('ENOENT');
    });
  });

  it('gets none by the name of a step, which the worker composes, nor by a Workflow ID, which is the lock', async () => {
    await withQuiesce(careless, async () => {
      const { observed } = await run('quiesce', { step: { name: order() } });
      expect(observed).toContain('step:Quiesce clients');
      const elsewhere = { ...bench.run, wid: `deployment:${order()}` };
      await refuses('quiesce', 'PRECONDITION_FAILED', {}, { run: elsewhere });
      await expect(access(planted())).rejects.toThrow('ENOENT');
    });
  });

  it.each(['traffic', 'release'] as const)('directs no client to a cluster that is not primary: %s', async (name) => {
    await withHooks({ [name]: { url: address } }, async () => {
      await bench.refused('runHook', { ...hook(name), from: 'east', to: 'west' }, 'PRECONDITION_FAILED', {
        retryable: false,
        details: { cluster: 'west', observed: expect.stringMatching(/^secondary, /) as string, outcomeKnown: true },
      });
      expect(got).toEqual([]);
      await run(name);
      expect(got).toHaveLength(1);
    });
  });
});

describe('a call', () => {
  it('sends the facts and the headers of its sources, and accepts an expected status', async () => {
    answer = (response) => response.writeHead(200).end(`let through, ${HEADER}`);
    expect((await run('release')).observed).toBe(
      'release hook ended with status 200; its output: let through, [redacted]',
    );
    expect(got).toHaveLength(1);
    expect(got[0]).toMatchObject({ method: 'POST', headers: { authorization: `Bearer ${HEADER}` } });
    expect(JSON.parse(got[0]?.body ?? '')).toEqual({
      hook: 'release',
      deployment: DEPLOYMENT,
      from: 'west',
      to: 'east',
      workflowId: bench.run.wid,
      runId: bench.run.rid,
      step: 'Release clients',
      key: got[0]?.headers['idempotency-key'],
    });
  });

  it('may take as long as the inventory says: the HTTP library has no limit of its own', async () => {
    answer = (response) =>
      void setTimeout(() => {
        response.writeHead(200).write('begun, ');
        setTimeout(() => response.end('ended'), 1_200);
      }, 1_200);
    expect((await run('release')).observed).toBe('release hook ended with status 200; its output: begun, ended');
  });

  it('fails with any other status, and does not follow redirects', async () => {
    answer = (response) => response.writeHead(307, { location: address }).end();
    const details = { observed: 'status 307', needed: 'a status from 200 to 299' };
    await refuses('release', 'HOOK_FAILED', { retryable: false, details });
    expect(got).toHaveLength(1);
  });
});

const NOT_BEGUN = { retryable: false, details: { outcomeKnown: true } };
it.each([
  [
    'a command that does not end is ended with all that it started, and its effect is unknown',
    () => script('echo begun; sleep 600 & sleep 600', { timeout: '2s' }),
    { code: 'OUTCOME_UNKNOWN' },
    'still running after 2 s, terminated; its output: begun',
  ],
  [
    'a command that cannot be started certainly had no effect',
    () => ({ command: ['/nowhere/hook'] }),
    { code: 'HOOK_FAILED', ...NOT_BEGUN },
    'not started (ENOENT)',
  ],
  [
    'a call that could not be sent certainly had no effect',
    () => ({ url: 'http://127.0.0.1:1/', timeout: '60s' }),
    { code: 'HOOK_FAILED', ...NOT_BEGUN },
    'not sent (ECONNREFUSED)',
  ],
  [
    'nor did one to an address that takes the connection and never speaks TLS',
    () => ({ url: silentAddress, timeout: '1s' }),
    { code: 'HOOK_FAILED', ...NOT_BEGUN },
    undefined,
  ],
  [
    'nor did one whose header is not there',
    () => ({ url: address, headers: { 'x-key': { env: 'NO_SUCH_VARIABLE' } } }),
    { code: 'CREDENTIAL_UNAVAILABLE', ...NOT_BEGUN },
    undefined,
  ],
  [
    'nor did one whose CA file holds no certificate',
    () => ({ url: address, caFile: join(bench.directory, 'token') }),
    { code: 'TLS_FAILED', ...NOT_BEGUN },
    undefined,
  ],
  [
    'a call that is not answered in time may have done it',
    () => ({ url: address, timeout: '1s' }),
    { code: 'OUTCOME_UNKNOWN', details: { outcomeKnown: false } },
    'no answer within 1 s',
  ],
])('%s', async (_name, entry, expected, observed) => {
  answer = () => undefined;
  await withQuiesce(entry(), async () => {
    const failure = await bench.failure('runHook', hook('quiesce'));
    expect(failure).toMatchObject(expected);
    if (observed !== undefined) expect(failure.details['observed']).toBe(observed);
  });
  expect(got.length).toBe(observed === 'no answer within 1 s' ? 1 : 0);
});

it.each(['fence', 'unfence', 'snapshot', 'probe', 'constructor'])(
  'the %s hook is not run as a hook that needs no plan',
  async (name) => {
    const asked = { ...hook('quiesce'), hook: name as 'quiesce' };
    await bench.refused('runHook', asked, 'INVALID_INPUT', { retryable: false });
    expect(got).toEqual([]);
  },
);

describe('an attempt after one that was lost with its worker', () => {
  it('asks people if the hook is not idempotent, without running it', async () => {
    const told = {
      retryable: false,
      message: holding('an earlier attempt may have started it'),
      details: { outcomeKnown: false },
    };
    await refuses('release', 'OUTCOME_UNKNOWN', told, { attempt: 2 });
    expect(got).toEqual([]);
  });

  it('runs an idempotent hook again, which its receiver can recognize by the key; a second failure asks people', async () => {
    await withQuiesce(IDEMPOTENT(), async () => {
      await run('quiesce');
      expect(await run('quiesce', { attempt: 2 })).toMatchObject({ outcome: 'done' });
      const keys = got.map(({ method, headers }) => [method, headers['idempotency-key']]);
      expect(keys).toHaveLength(2);
      expect(keys[0]).toEqual(keys[1]);
      answer = (response) => response.writeHead(503).end('busy');
      await refuses('quiesce', 'HOOK_FAILED', { retryable: true });
      const details = { observed: 'status 503; its output: busy', outcomeKnown: false };
      await refuses('quiesce', 'HOOK_FAILED', { retryable: false, details }, { attempt: 2 });
    });
  });
});

it('a server whose certificate is not accepted gets no call: the error names the purpose of the certificate, and what to do', async () => {
  const stranger = await ScriptedServer.start({ cert: LOOPBACK_CERTIFICATE, key: LOOPBACK_KEY });
  const caFile = join(bench.directory, 'foreign.pem');
  await writeFile(caFile, FOREIGN_CERTIFICATE);
  const told =
    /127\.0\.0\.1 shows a certificate for 127\.0\.0\.1, localhost, issued by itself: .*not in .*foreign\.pem/;
  const entry = { url: `${stranger.address}/`, caFile };
  await withHooks({ quiesce: entry, probe: entry }, async () => {
    const failure = await bench.failure('runHook', hook('quiesce'));
    expect(failure).toMatchObject({ code: 'HOOK_FAILED', ...NOT_BEGUN });
    expect(failure.details['observed']).toMatch(told);
    expect(failure.details['next']).toContain('Get the certificate of "simulated service for tests"');
    bench.limit({ serviceReadyMs: 300 });
    const late = await bench.failure('probeService', { deployment: DEPLOYMENT });
    bench.limit();
    expect(late.details['observed']).toMatch(told);
  });
  expect(stranger.requests).toEqual([]);
  await stranger.stop();
});

describe('the probe', () => {
  const statuses = (...list: number[]) => {
    const left = [...list];
    answer = (response) => response.writeHead(left.length > 1 ? (left.shift() ?? 0) : (left[0] ?? 0)).end(CANARY);
  };

  it('succeeds with the first expected status, and counts its tries', async () => {
    statuses(503, 429, 200);
    expect(await bench.call('probeService', { deployment: DEPLOYMENT })).toMatchObject({
      observed: 'first success at try 3',
    });
  });

  it('fails with the last status within its budget, and does not show the body', async () => {
    statuses(503);
    bench.limit({ serviceReadyMs: 300 });
    const details = { observed: 'status 503' };
    await bench.refused('probeService', { deployment: DEPLOYMENT }, 'CONFIRMATION_TIMEOUT', { details });
    bench.limit();
  });

  it('makes no claim if the inventory has none, and says that no probe is configured', async () => {
    const ask = { deployment: DEPLOYMENT };
    await withHooks({}, () => bench.refused('probeService', ask, 'PRECONDITION_FAILED'));
    bench.limit({ serviceReadyMs: 100 });
    const details = { observed: holding('UNREACHABLE') };
    await withHooks({ probe: { url: 'http://127.0.0.1:1/' } }, () =>
      bench.refused('probeService', ask, 'CONFIRMATION_TIMEOUT', { details }),
    );
    bench.limit();
  });
});
