/** The proxy that narrows what people may do with Temporal: its list of methods, and what comes of them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import protos from '@temporalio/proto/protos/root';
import type { Root } from 'protobufjs';
import { projectRoot } from '../../src/dev-server/locations';
import { cli } from '../cli/support';
import { allowedBy, proxyByList } from '../support/people-proxy';
import type { PeopleProxy, Side } from '../support/people-proxy';
import { temporalClient, temporalServer, uniqueTaskQueue } from '../support/temporal-server';

// Untyped there: the root of all definitions.
const definitions = protos as unknown as Root;
const configuration = readFileSync(join(projectRoot(), 'deploy', 'people-proxy.conf'), 'utf8');
const allowed = allowedBy(configuration);
const WORKFLOW = '/temporal.api.workflowservice.v1.WorkflowService/';

/** Methods of a service as the installed definitions have them. */
function methodsOf(name: string): string[] {
  return Object.keys(definitions.lookupService(name).methods);
}
const WORKFLOW_SERVICE = 'temporal.api.workflowservice.v1.WorkflowService';
const OPERATOR_SERVICE = 'temporal.api.operatorservice.v1.OperatorService';
const known = new Set([
  ...methodsOf(WORKFLOW_SERVICE).map((name) => `${WORKFLOW}${name}`),
  ...methodsOf(OPERATOR_SERVICE).map((name) => `/${OPERATOR_SERVICE}/${name}`),
  '/grpc.health.v1.Health/Check',
]);

describe('deploy/people-proxy.conf', () => {
  it('names methods that there are, and gives operators one method more than people: starting', () => {
    expect(allowed.people.size).toBeGreaterThan(10);
    expect([...allowed.operators].filter((path) => !known.has(path))).toEqual([]);
    expect([...allowed.operators].filter((path) => !allowed.people.has(path))).toEqual([
      `${WORKFLOW}StartWorkflowExecution`,
    ]);
  });

  it('lets nobody through to anything that ends, resets, deletes, polls, completes or starts activities', () => {
    const harmful = methodsOf(WORKFLOW_SERVICE).filter((name) =>
      /^(Terminate|Reset|Delete|Poll|Respond|Record|StartActivity|StartBatch|StopBatch|SignalWith|Execute|Update|Create|Register|Deprecate|Pause|Unpause|Shutdown|Set|Patch|Trigger|RequestCancel|StartNexus|Fetch)/.test(
        name,
      ),
    );
    for (const name of [
      'TerminateWorkflowExecution',
      'ResetWorkflowExecution',
      'PollActivityTaskQueue',
      'RespondWorkflowTaskCompleted',
      'StartActivityExecution',
    ])
      expect(harmful).toContain(name);
    // The approvals and decisions of a run that takes no signal any more.
    expect(harmful.filter((name) => allowed.operators.has(`${WORKFLOW}${name}`))).toEqual([
      'UpdateWorkflowExecution',
      'PollWorkflowExecutionUpdate',
    ]);
  });

  it('lets each client send signals and updates slowly, and nothing larger than 64 KiB, on both sides', () => {
    const limited = /map \$request_uri \$sends \{([^}]*)\}/.exec(configuration)?.[1] ?? '';
    for (const name of ['SignalWorkflowExecution', 'UpdateWorkflowExecution'])
      expect(limited).toContain(`${WORKFLOW}${name} "$remote_addr $ssl_client_fingerprint";`);
    expect(configuration).toContain('limit_req_zone $sends zone=signals:1m rate=6r/m;');
    expect(configuration.match(/limit_req zone=signals burst=20 nodelay;\n\s+grpc_pass/g)).toHaveLength(2);
    expect(configuration.match(/client_max_body_size 64k;/g)).toHaveLength(2);
    expect(configuration.match(/client_max_body_size/g)).toHaveLength(2);
  });

  it('asks whoever comes by TLS for a certificate, in the lines that are for production', () => {
    const tls = /^ *# {3}listen 7235 ssl http2;\n((?: *# {3}ssl_.*\n)+)/m.exec(configuration)?.[1] ?? '';
    expect(tls).toContain('ssl_verify_client on;');
    expect(tls).toMatch(/ssl_client_certificate \S+people\.pem;/);
    expect(configuration).toContain('Configure TLS as above, with their own certificates.');
  });

  it('refuses by default, by the address as it was sent, on both sides', () => {
    expect(configuration.match(/default 0;/g)).toHaveLength(1);
    expect(configuration).toContain('default $people_may;');
    expect(configuration.match(/if \(\$(people|operators)_may = 0\) \{ return 403; \}/g)).toHaveLength(2);
    expect(configuration.match(/grpc_pass/g)).toHaveLength(2);
    expect(configuration).not.toMatch(/map \$uri /);
  });
});

describe('people behind a proxy that keeps its list', () => {
  let proxy: PeopleProxy;
  let people: Client;
  let operators: Client;
  let direct: Client;
  const through = async (side: Side) => {
    const connection = await Connection.connect({ address: proxy.addresses[side] });
    return new Client({ connection, namespace: temporalServer().namespace });
  };
  beforeAll(async () => {
    proxy = await proxyByList(configuration, temporalServer().address);
    direct = await temporalClient();
    people = await through('people');
    operators = await through('operators');
  });
  afterAll(async () => {
    for (const { connection } of [people, operators]) await connection.close();
    await proxy.stop();
  });

  it('doctor calls a namespace that may not be read by its name, and a server that refuses it no silent one', async () => {
    const without = async (method: RegExp) => {
      const withheld = await proxyByList(configuration.replace(method, ''), temporalServer().address);
      const env = { TEMPORAL_ADDRESS: withheld.addresses.people, TEMPORAL_NAMESPACE: temporalServer().namespace };
      const { out } = await cli(['doctor'], { env });
      await withheld.stop();
      return out;
    };
    const unread = await without(/.*DescribeNamespace 1;\n/);
    expect(unread).toMatch(/fail {2}namespace\n.*cannot be read\n.*"Rights in Temporal"/);
    expect(unread).not.toContain('namespace create');
    expect(await without(/.*GetSystemInfo 1;\n/)).toMatch(
      /fail {2}temporal\n.*refuses this client[^]*TEMPORAL_API_KEY/,
    );
  });

  it('status and report call a server that refuses the question no silent worker', async () => {
    const withheld = await proxyByList(configuration.replace(/.*QueryWorkflow 1;\n/, ''), temporalServer().address);
    const env = { TEMPORAL_ADDRESS: withheld.addresses.people, TEMPORAL_NAMESPACE: temporalServer().namespace };
    const workflowId = `deployment:unasked-${process.pid}`;
    const run = await start(direct, workflowId);
    const said: (readonly [number, string])[] = [];
    for (const command of ['status', 'report']) {
      const { code, err } = await cli([command, workflowId], { env });
      said.push([code, err]);
    }
    await run.terminate();
    // Before anything is expected: a proxy that is left keeps Jest from ending.
    await withheld.stop();
    for (const [code, err] of said) {
      expect([code, err]).toEqual([1, expect.stringMatching(/TEMPORAL_UNAVAILABLE: .* denies a request of this/)]);
      expect(err).toMatch(/next: .*"runbook list" whether it did[^]*ask your Temporal administrators/);
      expect(err).not.toMatch(/No worker/);
    }
  });

  const refused = { code: 7 };
  const start = (client: Client, workflowId: string) =>
    client.workflow.start('drSwitchover', { taskQueue: uniqueTaskQueue('nobody'), workflowId, args: [{}] });

  it('whoever may not start a runbook is told what the server said, and who can help', async () => {
    const { namespace } = temporalServer();
    const input = '{"deployment":"payments","requestedBy":"olga","reason":"a test","to":"west"}';
    const connection = ['--address', proxy.addresses.people, '--namespace', namespace];
    const { code, err } = await cli(['start', 'drSwitchover', '--input', input, ...connection]);
    expect([code, err]).toEqual([1, expect.stringMatching(/^Error TEMPORAL_UNAVAILABLE: .* denies a request of this/)]);
    expect(err).toMatch(/needed: permission .*\n +next: .* ask your Temporal administrators/);
  });

  it('operators start, people read and signal, and neither side terminates, cancels, polls or completes', async () => {
    const workflowId = `proxied-${process.pid}`;
    await expect(start(people, workflowId)).rejects.toMatchObject({ cause: refused });
    await start(operators, workflowId);
    const seen = people.workflow.getHandle(workflowId);
    await seen.signal('abort', { reason: 'a test' });
    expect((await seen.describe()).status.name).toBe('RUNNING');
    expect((await seen.fetchHistory()).events?.length).toBe(3);
    expect((await people.workflow.count('WorkflowId = "none"')).count).toBe(0);
    const { namespace } = temporalServer();
    for (const client of [people, operators]) {
      const { workflowService: service } = client.connection;
      const handle = client.workflow.getHandle(workflowId);
      await expect(handle.terminate()).rejects.toMatchObject({ cause: refused });
      await expect(handle.cancel()).rejects.toMatchObject({ cause: refused });
      const polling = service.pollActivityTaskQueue({ namespace, taskQueue: { name: 'runbooks' } });
      await expect(polling).rejects.toMatchObject(refused);
      const completing = service.respondActivityTaskCompletedById({ namespace, workflowId, activityId: '1' });
      await expect(completing).rejects.toMatchObject(refused);
    }
    expect((await seen.describe()).status.name).toBe('RUNNING');
    await direct.workflow.getHandle(workflowId).terminate();
  });
});
