/** People's whole way through the gateway, on a real server, with the commands that they type. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import { Connection } from '@temporalio/client';
import { addPin, formatPublicKey } from '../../src/keys';
import { cli } from '../cli/support';
import type { Typed } from '../cli/support';
import { until } from '../support/by-hand';
import { temporaryDirectory } from '../support/directory';
import { CERTIFICATE_HEADER, openTestDoor } from '../support/door';
import type { TestDoor } from '../support/door';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';
import { serverThatDenies } from '../support/refusing-server';
import { temporalClient, temporalServer, uniqueTaskQueue } from '../support/temporal-server';
import {
  FOREIGN_CERTIFICATE,
  FOREIGN_KEY,
  LOOPBACK_CERTIFICATE,
  LOOPBACK_KEY,
  LOOPBACK_TLS,
} from '../vault/support/loopback-certificate';

const directory = temporaryDirectory('people-of-the-gateway');
const TRAFFIC = 'Direct clients to the new primary';

describe('behind the gateway', () => {
  let scenario: Scenario;
  let door: TestDoor;
  openScenario((opened) => (scenario = opened), {
    attestation: 'claimed',
    // Parks until somebody decides.
    deployment: { hooks: { traffic: { command: ['/usr/bin/test', '-e', join(directory, 'never')], timeout: '60s' } } },
  });
  beforeAll(async () => {
    door = await openTestDoor(scenario.taskQueue);
    await addPin(pins, 'production', formatPublicKey(scenario.workersKey));
  });
  afterAll(() => door.close());

  const pins = join(directory, 'pins.json');
  const runbook = async (person: string, words: readonly string[], typed: Typed = {}) => {
    const { code, out, err } = await cli(words, {
      ...typed,
      env: {
        ...scenario.environment,
        ...{ RUNBOOKS_PINS: pins, RUNBOOKS_PERSON: person, TEMPORAL_GRPC_META_X_CLIENT_CERTIFICATE: person },
        TEMPORAL_ADDRESS: person === 'olga' ? door.addresses.operators : door.addresses.people,
      },
    });
    expect([words, code, err]).toEqual([words, 0, err]);
    return `${out}\n${err}`;
  };

  it('an approval arrives as an update too', async () => {
    const run = await scenario.start();
    await run.waitsFor('shares');
    const ada = await door.through('people', 'ada');
    const handle = ada.workflow.getHandle(scenario.workflowId);
    expect(await handle.executeUpdate('approve', { args: [{ name: 'nobody' }] })).toBe(1_000_001);
    await runbook('grace', ['abort', scenario.workflowId, '--reason', 'the end of the test']);
    expect(await run.report()).toMatchObject({ outcome: 'aborted' });
  });

  it('operators start, holders share, approvers approve and decide, and everybody reads, each with a certificate of their own', async () => {
    const { workflowId: lock, name } = scenario;
    const input = ['--deployment', name, '--to', 'west', '--reason', 'a test of the gateway'];
    expect(await runbook('olga', ['plan', 'drSwitchover', ...input])).toContain('west');
    await runbook('olga', ['start', 'drSwitchover', ...input]);
    const run = scenario.attach();
    const watched = runbook('wendy', ['watch', lock]);
    await run.waitsFor('shares');
    expect(await runbook('ada', ['status', lock])).toContain('share');
    for (const holder of ['ada', 'bert', 'cleo']) {
      const answers = ['west', scenario.person(holder).share ?? ''];
      expect(await runbook(holder, ['share', lock, '--holder', holder], { answers })).toContain('accepted');
    }
    await run.waitsFor('approval', ({ gate }) => gate === 'plan');
    await runbook('grace', ['approve', lock, '--gate', 'plan', '--name', 'grace'], { answers: ['approve'] });
    await run.waitsFor('approval', ({ gate }) => gate === 'go');
    await runbook('henry', ['approve', lock, '--gate', 'go', '--name', 'henry'], { answers: ['approve'] });
    await run.parks(TRAFFIC);
    const decided = await runbook('grace', ['decide', lock, '--action', 'skip'], { answers: ['why'] });
    expect(decided).toMatch(new RegExp(`^To be decided: ${TRAFFIC} \\(parking 1\\)\\.`, 'm'));
    expect(await run.report()).toMatchObject({ outcome: 'completed' });
    await watched;
    expect(await runbook('wendy', ['report', lock])).toContain(TRAFFIC);
    expect(await runbook('wendy', ['list'])).toContain(lock);
  });

  it('a person who may not start a runbook reads the answer of the gateway, and who can help', async () => {
    const input = '{"deployment":"payments","requestedBy":"olga","reason":"a test","to":"west"}';
    const { code, err } = await cli(['start', 'drSwitchover', '--input', input], {
      env: {
        ...scenario.environment,
        TEMPORAL_ADDRESS: door.addresses.people,
        TEMPORAL_GRPC_META_X_CLIENT_CERTIFICATE: 'ada',
      },
    });
    expect([code, err]).toEqual([1, expect.stringMatching(/^Error TEMPORAL_UNAVAILABLE: .* denies a request of this/)]);
    expect(err).toMatch(/needed: permission .*\n +next: .* ask your Temporal administrators/);
  });
});

describe('the gateway', () => {
  /** What the test opened. A failed one must not keep Jest from ending. */
  const opened: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of opened.splice(0).reverse()) await close();
  });

  /** `runbook gateway`, with what it says. */
  async function gateway(words: readonly string[], env: Readonly<Record<string, string>>) {
    const stop = new AbortController();
    let said = '';
    const ended = cli(['gateway', ...words], { env, stop: stop.signal, hear: (line) => (said += line) });
    opened.push(() => {
      stop.abort();
      return ended;
    });
    await until('where it listens', () => said.includes('namespace'));
    return { said, addresses: [...said.matchAll(/ on (127\.\S+?:\d+)/g)].map(([, address = '']) => address) };
  }

  it("passes a person's own token on, adds none of its own, and passes neither the certificate's header nor others", async () => {
    const heard: grpc.Metadata[] = [];
    const frontend = new grpc.Server();
    const path = '/temporal.api.workflowservice.v1.WorkflowService/GetSystemInfo';
    const asIs = (bytes: Buffer) => bytes;
    const method = { path, requestStream: false, responseStream: false } as const;
    frontend.addService(
      {
        info: {
          ...method,
          ...{ requestSerialize: asIs, requestDeserialize: asIs, responseSerialize: asIs, responseDeserialize: asIs },
        },
      },
      {
        info: (call: grpc.ServerUnaryCall<Buffer, Buffer>, answer: grpc.sendUnaryData<Buffer>) => {
          heard.push(call.metadata);
          answer(null, Buffer.alloc(0));
        },
      },
    );
    const port = await new Promise<number>((resolve, reject) => {
      frontend.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) =>
        error === null ? resolve(bound) : reject(error),
      );
    });
    opened.push(() => frontend.forceShutdown());
    const words = ['--frontend', '127.0.0.1:0', '--certificate-header', CERTIFICATE_HEADER];
    const { said, addresses } = await gateway(words, {
      ...{ TEMPORAL_ADDRESS: `127.0.0.1:${port}`, TEMPORAL_API_KEY: 'canary-of-the-gateway', TEMPORAL_TLS: 'false' },
      TEMPORAL_GRPC_META_AUTHORIZATION: 'Bearer canary-of-the-gateway',
    });
    const caller = new grpc.Client(addresses[0] ?? '', grpc.credentials.createInsecure());
    opened.push(() => caller.close());
    const ask = (own: Readonly<Record<string, string>>) => {
      const metadata = new grpc.Metadata();
      for (const [name, value] of Object.entries(own)) metadata.set(name, value);
      return new Promise<void>((resolve, reject) => {
        caller.makeUnaryRequest(path, asIs, asIs, Buffer.alloc(0), metadata, (error) =>
          error ? reject(error) : resolve(),
        );
      });
    };
    const own = { [CERTIFICATE_HEADER]: 'ada', 'client-name': 'a-test', 'client-version': '1.0.0' };
    await ask({ ...own, authorization: 'Bearer of-ada', 'caller-type': 'system', 'x-other': 'y' });
    await ask({ ...own, 'temporal-namespace': 'another' });
    const seen = heard.map((metadata) => metadata.getMap());
    expect(seen).toMatchObject([
      { authorization: 'Bearer of-ada', 'client-name': 'a-test' },
      { 'temporal-namespace': 'default' },
    ]);
    expect(seen[1]).not.toHaveProperty('authorization');
    for (const each of seen)
      for (const name of ['caller-type', 'x-other', CERTIFICATE_HEADER]) expect(each).not.toHaveProperty(name);
    expect(said).not.toContain('canary');
  });

  it('with TLS, asks for client certificates, of operators by another authority, and counts by certificate', async () => {
    const { certificateFile, keyFile } = LOOPBACK_TLS;
    const foreign = join(directory, 'operators.pem');
    await writeFile(foreign, FOREIGN_CERTIFICATE);
    const { address, namespace } = temporalServer();
    const tlsWords = ['--tls-cert', certificateFile, '--tls-key', keyFile, '--client-ca', certificateFile];
    const words = ['--frontend', '127.0.0.1:0', '--operators', '127.0.0.1:0', '--operators-client-ca', foreign];
    const env = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace };
    const [people, operators] = (await gateway([...words, ...tlsWords], env)).addresses;
    const serverRootCACertificate = Buffer.from(LOOPBACK_CERTIFICATE);
    const connect = async (to = '', pair?: readonly [certificate: string, key: string]) => {
      const [crt, key] = (pair ?? []).map((text) => Buffer.from(text));
      const clientCertPair = crt && key && { crt, key };
      const tls = { serverRootCACertificate, ...(clientCertPair && { clientCertPair }) };
      const connection = await Connection.connect({ address: to, tls, interceptors: [], connectTimeout: 2_000 });
      opened.push(() => connection.close());
      return connection;
    };
    const holder = [LOOPBACK_CERTIFICATE, LOOPBACK_KEY] as const;
    const operator = [FOREIGN_CERTIFICATE, FOREIGN_KEY] as const;
    const others = [connect(people), connect(people, operator), connect(operators, holder), connect(operators)];
    for (const { status } of await Promise.allSettled(others)) expect(status).toBe('rejected');
    const connections = [
      await connect(people, holder),
      await connect(people, holder),
      await connect(operators, operator),
    ];
    const abort = ({ workflowService }: Connection) =>
      workflowService
        .signalWorkflowExecution({ namespace, workflowExecution: { workflowId: 'nobody' }, signalName: 'abort' })
        .then(
          () => 0,
          ({ code }: { readonly code: number }) => code,
        );
    const codes = [];
    for (let index = 0; index < 30; index += 1) codes.push(await abort(connections[index % 2] as Connection));
    // Not found, until there are too many.
    expect(codes.slice(0, 20)).toEqual(Array.from({ length: 20 }, () => 5));
    expect(codes.slice(24)).toEqual(Array.from({ length: 6 }, () => 8));
    expect(await abort(connections[2] as Connection)).toBe(5);
  });

  it.each([
    [['--frontend', '10.0.0.1:7335'], 'Plain gRPC on 10.0.0.1:7335'],
    [['--frontend', '0.0.0.0:7335'], 'Plain gRPC on 0.0.0.0:7335'],
    [['--frontend', 'localhost:7335'], 'Plain gRPC on localhost:7335'],
    [['--frontend', '127.0.0.1:0', '--operators', '[::]:7336'], 'Plain gRPC on [::]:7336'],
    [['--frontend', '127.0.0.1:0', '--tls-cert', 'x.pem'], 'The TLS settings for people are incomplete'],
    [
      [
        ...['--frontend', '127.0.0.1:0', '--operators', '127.0.0.1:0'],
        ...['--tls-cert', 'x', '--tls-key', 'x', '--client-ca', 'x'],
      ],
      'The TLS settings for operators are incomplete',
    ],
  ])('does not open by the words %j', async (words, said) => {
    // One that opened all the same would end at once.
    const { code, err } = await cli(['gateway', ...words], { stop: AbortSignal.abort() });
    expect([code, err]).toEqual([3, expect.stringContaining(said)]);
    expect(err).toContain('next: ');
  });
});

it('the gateway warns if tokens of people would cross a network in plain text', async () => {
  const opened = (env: Readonly<Record<string, string>>) =>
    cli(['gateway', '--frontend', '127.0.0.1:0'], { env, stop: AbortSignal.abort() });
  const readable = "Warning: people's tokens are readable on the network to 10.0.0.1:7233.";
  expect((await opened({ TEMPORAL_ADDRESS: '10.0.0.1:7233' })).err).toContain(readable);
  for (const address of ['127.0.0.1:7233', 'localhost:7233'])
    expect((await opened({ TEMPORAL_ADDRESS: address })).err).not.toContain('Warning');
  const byTls = { TEMPORAL_ADDRESS: '10.0.0.1:7233', TEMPORAL_TLS: 'true' };
  expect((await opened(byTls)).err).not.toContain('Warning');
});

describe('if a server denies a method', () => {
  const without = async <T>(
    method: string,
    work: (env: Readonly<Record<string, string>>) => Promise<T>,
  ): Promise<T> => {
    const server = await serverThatDenies(method, temporalServer().address);
    try {
      return await work({ TEMPORAL_ADDRESS: server.address, TEMPORAL_NAMESPACE: temporalServer().namespace });
    } finally {
      await server.stop();
    }
  };

  it('doctor reports a namespace that may not be read by its name, and a server that refuses it not as unreachable', async () => {
    const doctor = async (env: Readonly<Record<string, string>>) => (await cli(['doctor'], { env })).out;
    const unread = await without('DescribeNamespace', doctor);
    expect(unread).toMatch(/fail {2}namespace\n.*cannot be read\n.*"Rights in Temporal"/);
    expect(unread).not.toContain('namespace create');
    expect(await without('GetSystemInfo', doctor)).toMatch(
      /fail {2}temporal\n.*refuses this client[^]*TEMPORAL_API_KEY/,
    );
  });

  it('status and report show a server that refuses the query not as a missing worker', async () => {
    const workflowId = `deployment:unasked-${process.pid}`;
    const direct = await temporalClient();
    const run = await direct.workflow.start('drSwitchover', {
      ...{ taskQueue: uniqueTaskQueue('nobody'), workflowId, args: [{}] },
    });
    const said = await without('QueryWorkflow', async (env) => {
      const results = [];
      for (const command of ['status', 'report']) results.push(await cli([command, workflowId], { env }));
      return results;
    });
    await run.terminate();
    for (const { code, err } of said) {
      expect([code, err]).toEqual([1, expect.stringMatching(/TEMPORAL_UNAVAILABLE: .* denies a request of this/)]);
      expect(err).toMatch(/next: .*"runbook list" whether it did[^]*ask your Temporal administrators/);
      expect(err).not.toMatch(/No worker/);
    }
  });
});
