/** What Prometheus scrapes from the gateway, of a deployment that is switched over while something is wrong, and while nobody answers. */
import { X509Certificate } from 'node:crypto';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { Client } from '@temporalio/client';
import { METRICS } from '../../src/gateway/metrics/names';
import { samplesOf } from '../../src/gateway/metrics/readings';
import { openMetrics } from '../../src/gateway/metrics/server';
import type { MetricsOptions } from '../../src/gateway/metrics/server';
import { parseInventory } from '../../src/inventory';
import type { Inventory } from '../../src/inventory';
import { connectUntilClosed, lazyUntilClosed } from '../../src/worker/connection';
import { cli } from '../cli/support';
import { EXAMPLE } from '../inventory/example';
import { until } from '../support/by-hand';
import { temporaryDirectory } from '../support/directory';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';
import { temporalServer } from '../support/temporal-server';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY, LOOPBACK_TLS } from '../vault/support/loopback-certificate';

const directory = temporaryDirectory('metrics');
const TRAFFIC = 'Direct clients to the new primary';
const { address: server, namespace } = temporalServer();
const opened: (() => unknown)[] = [];
afterAll(async () => {
  for (const close of opened.reverse()) await close();
});

/** The values of one scrape, by name and labels as Prometheus writes them. */
class Scrape {
  readonly values = new Map<string, number>();
  constructor(
    readonly text: string,
    readonly tookMs: number,
  ) {
    for (const line of text.split('\n').filter((each) => each !== '' && !each.startsWith('#'))) {
      const cut = line.lastIndexOf(' ');
      this.values.set(line.slice(0, cut), Number(line.slice(cut + 1)));
    }
  }
  /** The value whose labels include these. */
  of(metric: string, labels: Readonly<Record<string, string>> = {}): number | undefined {
    const all = [...this.values].filter(
      ([key]) =>
        key.split('{')[0] === metric &&
        Object.entries(labels).every(([name, value]) => key.includes(`${name}="${value}"`)),
    );
    expect([metric, all.length]).toEqual([metric, Math.min(all.length, 1)]);
    return all[0]?.[1];
  }
}

async function exporter(options: Partial<MetricsOptions> & Pick<MetricsOptions, 'client' | 'inventory'>) {
  const door = await openMetrics({
    ...{ address: '127.0.0.1:0', namespace, taskQueue: 'runbooks', version: '1.2.3', freshMs: 0 },
    ...options,
  });
  opened.push(() => door.close());
  return async (): Promise<Scrape> => {
    const began = performance.now();
    const response = await fetch(`http://${door.address}/metrics`);
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      expect.stringContaining('text/plain'),
    ]);
    return new Scrape(await response.text(), performance.now() - began);
  };
}

/** Accepts connections, and never answers. */
async function silentServer(): Promise<string> {
  const sockets = new Set<{ destroy(): void }>();
  const silent = createServer((socket) => void sockets.add(socket.on('error', () => undefined)));
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  opened.push(() => {
    sockets.forEach((socket) => socket.destroy());
    silent.close();
  });
  return `127.0.0.1:${(silent.address() as AddressInfo).port}`;
}

describe('of a deployment', () => {
  let scenario: Scenario;
  let scrape: () => Promise<Scrape>;
  openScenario((given) => (scenario = given), {
    batchToken: true,
    limits: { primaryGone: '1s' },
    deployment: {
      hooks: { traffic: { command: ['/usr/bin/test', '-e', join(directory, 'never')], timeout: '60s' } },
      notifications: [
        { name: 'pager', kind: 'webhook', url: { env: 'TEST_METRICS_NOWHERE' }, events: ['parked'] },
        { name: 'chat', kind: 'webhook', url: { env: 'TEST_METRICS_NOWHERE' }, events: ['reminder'] },
      ],
    },
  });
  const sampled = async () => {
    await (
      await scenario.run('walSampler', { samples: 1 }, `walSampler:${scenario.name}:${Date.now()}`)
    ).handle.result();
    return Date.now() / 1_000;
  };
  /** Closed runs are listed a moment after they end. */
  const once = async (what: string, isSo: (scraped: Scrape) => boolean): Promise<Scrape> => {
    let last = await scrape();
    await until(what, async () => isSo((last = await scrape())));
    return last;
  };
  beforeAll(async () => {
    scrape = await exporter({
      client: scenario.client,
      taskQueue: scenario.taskQueue,
      inventory: () => scenario.inventory,
    });
    scenario.makeBatchToken();
  });

  it('before the first check: no verdict, no sample, no token, no run, and the time of the reading', async () => {
    const first = await scrape();
    expect(first.of('runbooks_info', { version: '1.2.3' })).toBe(1);
    expect(first.of('runbooks_readiness')).toBeUndefined();
    expect(first.of('runbooks_sample_timestamp_seconds')).toBe(0);
    expect(first.of('runbooks_readiness_timestamp_seconds')).toBe(0);
    expect(first.of('runbooks_runs_open')).toBeUndefined();
    expect(first.of('runbooks_outage_since_timestamp_seconds')).toBe(0);
    expect(first.of('runbooks_parked_since_timestamp_seconds')).toBe(0);
    expect(first.of('runbooks_tokens', { state: 'orphan' })).toBe(0);
    for (const source of ['readiness', 'samples', 'runs', 'record', 'certificates'])
      expect(Date.now() / 1_000 - (first.of('runbooks_read_timestamp_seconds', { source }) ?? 0)).toBeLessThan(60);
  });

  it('readiness, replication, credentials and workers are those of the last check and sample', async () => {
    const report = await (await scenario.run('readiness')).report();
    const { at, switchover } = report.result as { readonly at: string; readonly switchover: string };
    const by = await sampled();
    const { name: deployment } = scenario;
    const found = await once(
      'both are listed',
      (each) =>
        each.of('runbooks_sample_timestamp_seconds') !== 0 &&
        each.of('runbooks_readiness_timestamp_seconds') !== 0 &&
        each.of('runbooks_workers') === 1,
    );
    const level = ['not-ready', 'ready-with-warnings', 'ready'].indexOf(switchover);
    expect(found.of('runbooks_readiness', { deployment, question: 'switchover' })).toBe(level);
    expect(found.of('runbooks_readiness_timestamp_seconds', { deployment })).toBe(Date.parse(at) / 1_000);
    expect(by - (found.of('runbooks_sample_timestamp_seconds', { deployment }) ?? 0)).toBeLessThan(30);
    for (const cluster of ['east', 'west']) expect(found.of('runbooks_cluster_answers', { cluster })).toBe(1);
    expect(found.of('runbooks_dr_primaries', { deployment })).toBe(1);
    expect(found.of('runbooks_replication_connected', { cluster: 'west', kind: 'dr' })).toBe(1);
    expect(found.of('runbooks_replication_lag_entries', { cluster: 'west', kind: 'dr' })).toBeGreaterThanOrEqual(0);
    expect(by - (found.of('runbooks_heartbeat_timestamp_seconds', { cluster: 'west', kind: 'dr' }) ?? 0)).toBeLessThan(
      60,
    );
    const expires = (credential: string, cluster: string) =>
      (found.of('runbooks_credential_expires_timestamp_seconds', { credential, cluster }) ?? 0) - by;
    expect(expires('batch-token', 'west')).toBeGreaterThan(3_600);
    expect(expires('workers-token', 'east')).toBeGreaterThan(600);
  });

  it('a parked run, a target that was not notified, and a token: since when, and how many', async () => {
    const began = Date.now() / 1_000;
    const run = await scenario.begin(
      'drSwitchover',
      { to: 'west', tokenSource: 'ceremony' },
      'shares',
      'approve plan',
      'approve go',
    );
    await run.parks(TRAFFIC);
    const { name: deployment } = scenario;
    const parked = await once(
      'the run is parked',
      (each) =>
        (each.of('runbooks_parked_since_timestamp_seconds') ?? 0) > 0 &&
        each.of('runbooks_notification_failed_runs', { target: 'pager' }) === 1,
    );
    expect(parked.of('runbooks_parked_since_timestamp_seconds')).toBeGreaterThan(began);
    const { phase } = await run.status();
    expect(parked.of('runbooks_runs_open', { deployment, runbook: 'drSwitchover', phase })).toBe(1);
    expect(parked.of('runbooks_notification_failed_runs', { target: 'chat' })).toBe(0);
    await run.decide('skip');
    await run.report();
    const after = await once('the run is closed', (each) => each.of('runbooks_runs_open') === undefined);
    expect(after.of('runbooks_parked_since_timestamp_seconds')).toBe(0);
    const alive = after.of('runbooks_tokens', { state: 'alive' }) ?? 0;
    await scenario.leaveToken('east', ['dr.promote']);
    await once('the token is in the record', (each) => each.of('runbooks_tokens', { state: 'alive' }) === alive + 1);
    await once(
      'the report of the ended run is read',
      (each) => each.of('runbooks_notification_failed_runs', { target: 'pager' }) === 1,
    );
  });

  it('a killed primary, and the outage that a failover counts', async () => {
    await scenario.service.cluster('west').kill();
    const by = await sampled();
    const run = await scenario.run('drFailover', { to: 'east' });
    await run.waitsFor('approval');
    const found = await once(
      'the outage is known',
      (each) => each.of('runbooks_dr_primaries') === 0 && (each.of('runbooks_outage_since_timestamp_seconds') ?? 0) > 0,
    );
    expect(found.of('runbooks_cluster_answers', { cluster: 'west' })).toBe(0);
    expect(found.of('runbooks_cluster_answers', { cluster: 'east' })).toBe(1);
    expect(Math.abs((found.of('runbooks_outage_since_timestamp_seconds') ?? 0) - by)).toBeLessThan(60);
    await run.handle.terminate('the end of the test');
  });

  it('no label has a value of people: text of people is never a metric', async () => {
    const { text } = await scrape();
    expect(text).not.toContain('a test');
    expect(text).not.toContain('olga');
    const labels = new Map<string, Set<string>>();
    for (const [, name = '', value = ''] of text.matchAll(/(\w+)="([^"]*)"/g))
      labels.set(name, (labels.get(name) ?? new Set()).add(value));
    expect(Object.fromEntries([...labels].map(([name, values]) => [name, [...values].sort()]))).toEqual({
      ...{
        version: ['1.2.3'],
        deployment: ['', scenario.name],
        cluster: ['east', 'west'],
        question: ['failover', 'switchover'],
      },
      ...{
        source: ['certificates', 'readiness', 'record', 'runs', 'samples', 'workers'],
        dr_set: expect.any(Array) as string[],
      },
      ...{ kind: ['dr'], credential: ['batch-token', 'workers-token'], target: ['chat', 'pager'] },
      state: ['alive', 'handed-over', 'kept', 'orphan', 'under-way'],
      ...(labels.has('phase') && { phase: expect.any(Array) as string[], runbook: ['drFailover'] }),
    });
    expect(new Set(text.match(/^runbooks_\w+/gm))).toEqual(
      new Set(Object.keys(METRICS).filter((name) => new RegExp(`^${name}[ {]`, 'm').test(text))),
    );
  });

  it('as the command opens it, by the settings of its environment', async () => {
    const stop = new AbortController();
    let said = '';
    const ended = cli(['gateway', '--metrics', '127.0.0.1:0'], {
      env: scenario.environment,
      stop: stop.signal,
      hear: (line) => (said += line),
    });
    await until('where it listens', () => said.includes('namespace'));
    const [address = ''] = /http:\S+/.exec(said) ?? [];
    expect(await (await fetch(address)).text()).toContain(`runbooks_dr_primaries{deployment="${scenario.name}"`);
    for (const [path, method] of [
      ['', 'POST'],
      ['/..', 'GET'],
    ])
      expect((await fetch(`${address}${path ?? ''}`, { method })).status).toBe(404);
    stop.abort();
    expect((await ended).code).toBe(0);
  });

  it('while Temporal is lost: the last known values, with their time, within 5 s', async () => {
    const { connection, close } = await connectUntilClosed({ address: server });
    const lossy = await exporter({
      client: new Client({ connection, namespace }),
      taskQueue: scenario.taskQueue,
      inventory: () => scenario.inventory,
    });
    const before = await lossy();
    await close();
    const after = await lossy();
    expect(after.tookMs).toBeLessThan(5_000);
    const read = { source: 'samples' };
    expect(after.of('runbooks_read_timestamp_seconds', read)).toBe(before.of('runbooks_read_timestamp_seconds', read));
    for (const metric of [
      'runbooks_sample_timestamp_seconds',
      'runbooks_dr_primaries',
      'runbooks_readiness_timestamp_seconds',
    ])
      expect([metric, after.of(metric)]).toEqual([metric, before.of(metric)]);
    expect(before.of('runbooks_dr_primaries')).toBe(0);
  });

  it('without a worker: everything but the facts that only a worker has', async () => {
    await scenario.stopWorker();
    // Whoever writes to the namespace chooses memos.
    const memo = { deployment: scenario.name, runbook: 'hostile', phase: 'hostile', waitingFor: 'hostile' };
    const hostile = { workflowId: `deployment:${scenario.name}`, taskQueue: scenario.taskQueue, args: [{}], memo };
    const started = await scenario.client.workflow.start('drRejoin', hostile);
    const alone = await exporter({
      client: scenario.client,
      taskQueue: scenario.taskQueue,
      inventory: () => scenario.inventory,
    });
    const found = await alone();
    expect(found.tookMs).toBeLessThan(5_000);
    expect(found.of('runbooks_dr_primaries')).toBe(0);
    expect(found.of('runbooks_tokens', { state: 'alive' })).toBeUndefined();
    expect(found.of('runbooks_read_timestamp_seconds', { source: 'record' })).toBe(0);
    let text = '';
    await until('the run is listed', async () => (text = (await alone()).text).includes('runbook="drRejoin"'));
    expect(text).toContain('runbook="drRejoin",phase="not-picked-up"} 1');
    expect(text).not.toContain('hostile');
    await started.terminate('the end of the test');
  });
});

describe('a scrape is answered within 5 s', () => {
  const inventoryWith = (address: string, caFile = ''): Inventory =>
    parseInventory(
      EXAMPLE.replace('https://10.1.0.4:8200', `https://${address}`)
        .replace(", 'https://10.1.0.5:8200'", '')
        .replace('https://10.2.0.4:8200', 'http://127.0.0.1:1')
        .replace('caFile: /etc/runbooks/ca.pem', caFile === '' ? '' : `caFile: ${caFile}`),
      'inventory.yaml',
    );

  it.each([
    ['is down', () => Promise.resolve('127.0.0.1:1')],
    ['hangs', silentServer],
  ])('while Temporal %s', async (_how, address) => {
    const { connection, close } = lazyUntilClosed({ address: await address() });
    opened.push(close);
    const scrape = await exporter({
      client: new Client({ connection, namespace }),
      inventory: () => inventoryWith('127.0.0.1:1'),
    });
    const found = await scrape();
    expect(found.tookMs).toBeLessThan(5_000);
    expect(found.of('runbooks_info')).toBe(1);
    expect(found.of('runbooks_read_timestamp_seconds', { source: 'runs' })).toBe(0);
  });

  it('while a cluster hangs; the certificate of another is read', async () => {
    const { connection, close } = await connectUntilClosed({ address: server });
    opened.push(close);
    const client = new Client({ connection, namespace });
    const hanging = await silentServer();
    const scrape = await exporter({ client, inventory: () => inventoryWith(hanging) });
    const found = await scrape();
    expect(found.tookMs).toBeLessThan(5_000);
    expect(found.of('runbooks_read_timestamp_seconds', { source: 'runs', deployment: 'payments' })).toBeGreaterThan(0);
    const tls = createTlsServer({ cert: LOOPBACK_CERTIFICATE, key: LOOPBACK_KEY });
    await new Promise<void>((resolve) => tls.listen(0, '127.0.0.1', resolve));
    opened.push(() => tls.close());
    const address = `127.0.0.1:${(tls.address() as AddressInfo).port}`;
    const other = await exporter({ client, inventory: () => inventoryWith(address, LOOPBACK_TLS.certificateFile) });
    const ends = (await other()).of('runbooks_credential_expires_timestamp_seconds', {
      cluster: 'east',
      credential: 'certificate',
    });
    expect(ends).toBe(Date.parse(new X509Certificate(LOOPBACK_CERTIFICATE).validTo) / 1_000);
  });
});

describe('a sample', () => {
  const payments = parseInventory(EXAMPLE, 'inventory.yaml').deployments.get('payments');
  const dr = (mode: string, more: object = {}) => ({ mode, setId: 'set', ...more });
  const valuesOf = (...clusters: readonly object[]) => {
    if (!payments) throw new Error('no deployment');
    const found = samplesOf(payments, { at: 1_000_000, clusters: clusters as never });
    return Object.fromEntries(
      found.map(({ metric, labels, value }) => [
        `${metric} ${labels['cluster'] ?? labels['dr_set'] ?? ''}`.trim(),
        value,
      ]),
    );
  };

  it('of two primaries counts both, and compares no index of theirs', () => {
    const found = valuesOf(
      { cluster: 'east', answered: true, dr: dr('primary', { lastWal: '10' }) },
      { cluster: 'west', answered: true, dr: dr('primary', { lastWal: '20' }) },
    );
    expect(found).toMatchObject({ 'runbooks_dr_primaries main': 2 });
    expect(Object.keys(found).filter((name) => name.includes('lag'))).toEqual([]);
  });

  it('compares no indexes of different sets, and none that is missing', () => {
    const other = { ...dr('secondary', { lastRemoteWal: '7' }), setId: 'another' };
    const primary = { cluster: 'east', answered: true, dr: dr('primary', { lastWal: '10' }) };
    for (const each of [other, dr('secondary')])
      expect(
        Object.keys(valuesOf(primary, { cluster: 'west', answered: true, dr: each })).filter((name) =>
          name.includes('lag'),
        ),
      ).toEqual([]);
  });

  it('has the lag, whether the secondary is connected, and the times of heartbeat and canary', () => {
    expect(
      valuesOf(
        { cluster: 'east', answered: true, dr: dr('primary', { lastWal: '18446744073709551615' }) },
        {
          cluster: 'west',
          answered: true,
          dr: dr('secondary', {
            lastRemoteWal: '18446744073709551610',
            connected: false,
            heartbeatAgeMs: 4_000,
            canaryAgeMs: 9_000,
          }),
        },
        { cluster: 'stranger', answered: true },
      ),
    ).toEqual({
      runbooks_sample_timestamp_seconds: 1_000,
      ...{ 'runbooks_cluster_answers east': 1, 'runbooks_cluster_answers west': 1, 'runbooks_dr_primaries main': 1 },
      ...{ 'runbooks_replication_connected west': 0, 'runbooks_replication_lag_entries west': 5 },
      ...{ 'runbooks_heartbeat_timestamp_seconds west': 996, 'runbooks_canary_timestamp_seconds west': 991 },
    });
  });
});
