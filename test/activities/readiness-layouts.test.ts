/** Readiness of a layout with both kinds of replication, over TLS, on service version 2.0, with a batch token; and whom it tells. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pino from 'pino';
import { notifyOverdueReadiness } from '../../activities';
import { endsSoon } from '../../activities/readiness/credentials';
import type { ReadinessResult } from '../../src/contracts/readiness';
import { findDeployment } from '../../src/inventory';
import { ActivityBench, DEPLOYMENT, holding } from '../support/activity-environment';
import { ceremonyToken, workersToken } from '../support/least-privilege';
import type { WebhookServer } from '../support/notification-servers';
import { openWebhook, WEBHOOK } from '../support/notification-servers';
import { pointName, pointsOf } from '../support/readiness';
import { FOREIGN_CERTIFICATE, LOOPBACK_CERTIFICATE, LOOPBACK_TLS } from '../vault/support/loopback-certificate';

const VERSION = '2.0.3+ent';
const BATCH_POLICY = ['promote', 'update-primary'].map((each) => ({
  path: `sys/replication/dr/secondary/${each}`,
  capabilities: ['update'],
}));

const DR_SETS = { main: ['east', 'west'], europe: ['eu', 'euro'] };

/** Credentials come from variables, so that each test can change one. */
const variable = (name: string, what: string) => `TEST_READINESS_${name}_${what}`.toUpperCase();
const given: string[] = [];
const KINDS = ['credential', 'ceremony', 'batch'] as const;
function give(name: string, what: (typeof KINDS)[number], value: string): void {
  given.push(variable(name, what));
  process.env[variable(name, what)] = value;
}

describe('a DR set, its performance secondary, and the DR secondary of that', () => {
  let bench: ActivityBench;
  let hook: WebhookServer;
  const check = () => bench.readiness();
  const point = ({ points }: ReadinessResult, id: string, cluster?: string) =>
    points.find((each) => each.id === id && each.cluster === cluster);

  openWebhook((opened) => (hook = opened));
  beforeAll(async () => {
    const cluster = { nodes: 1, version: VERSION };
    bench = await ActivityBench.start({
      topology: {
        clusters: ['east', 'west', 'eu', 'euro'].map((name) => ({ name, ...cluster })),
        dr: [
          { primary: 'east', secondaries: ['west'] },
          { primary: 'eu', secondaries: ['euro'] },
        ],
        performance: { primary: 'east', secondaries: [{ name: 'eu', filter: { mode: 'deny', paths: ['secret/'] } }] },
        tls: LOOPBACK_TLS,
      },
      drSets: DR_SETS,
      cluster: (name) => ({
        caFile: LOOPBACK_TLS.certificateFile,
        credential: { env: variable(name, 'credential') },
        ceremonyCredential: { env: variable(name, 'ceremony') },
        ...(name === 'west' ? { batchToken: { env: variable(name, 'batch') } } : {}),
      }),
      deployment: {
        laboratory: true,
        pathsFilters: { eu: { mode: 'deny', paths: ['secret'] } },
        readiness: { overdueAfter: '2h' },
        notifications: [WEBHOOK],
      },
    });
    bench.openRuns = new Map();
    for (const [primary = '', secondary = ''] of Object.values(DR_SETS)) {
      const [cluster, { inventory }] = [bench.cluster(primary), bench];
      const [credential, ceremony] = [
        workersToken(cluster, inventory, DEPLOYMENT),
        ceremonyToken(cluster, inventory, DEPLOYMENT),
      ];
      for (const name of [primary, secondary]) {
        give(name, 'credential', credential);
        give(name, 'ceremony', ceremony);
      }
    }
    bench.cluster('east').writePolicy('dr-operations', BATCH_POLICY);
    batchTokenLives();
    bench.service.advance();
  });
  afterAll(async () => {
    for (const name of given) delete process.env[name];
    await bench.stop();
  });

  function batchTokenLives(ttlMs = 3_600_000): void {
    give('west', 'batch', bench.cluster('east').createToken({ policies: ['dr-operations'], type: 'batch', ttlMs }));
  }

  it('evaluates every set for itself; filters and batch token are reported', async () => {
    const result = await check();
    expect(pointsOf(result, 'fail')).toEqual([]);
    expect(pointsOf(result, 'warn')).toEqual(['wal-sampler both']);
    const candidates = result.candidates.map(({ drSet, cluster }) => `${drSet}: ${cluster}`);
    expect(candidates).toEqual(['main: west', 'europe: euro']);
    const good = Object.fromEntries(
      result.points.filter(({ verdict }) => verdict === 'ok').map((each) => [pointName(each), each.observed]),
    );
    expect(good).toMatchObject({
      'filter-as-wanted (eu) both': expect.stringMatching(/: deny secret\/$/) as string,
      'ceremony-calls-allowed (west) both': `accepted: ceremonyCredential (version ${VERSION})`,
      'batch-token (west) both': expect.stringMatching(/^3\d+ s left, with its rights$/) as string,
      'one-performance-primary both': 'east',
    });
  });

  it('without any stored credential that a DR secondary of version 2.0 accepts, failover fails', async () => {
    const east = bench.cluster('east');
    const [credential = '', ceremony = '', batch = ''] = KINDS.map((kind) => process.env[variable('west', kind)]);
    batchTokenLives(60_000);
    give('west', 'ceremony', east.createToken({ policies: ['default'] }));
    // It may do everything, and is no root token: no DR secondary takes it.
    east.writePolicy('everything', [
      { path: '*', capabilities: ['create', 'read', 'update', 'delete', 'list', 'sudo'] },
    ]);
    give('west', 'credential', east.createToken({ policies: ['everything'] }));
    const result = await check();
    give('west', 'batch', batch);
    expect(pointsOf(result, 'fail')).toEqual(['ceremony-calls-allowed (west) both']);
    expect(result.failover).toBe('not-ready');
    expect(point(result, 'ceremony-calls-allowed', 'west')?.observed).toBe(
      `refused: every credential that the inventory names (version ${VERSION})`,
    );
    expect(point(result, 'batch-token', 'west')?.observed).toContain('lives long enough');

    // The batch token is such a credential, and makes a ceremony unnecessary.
    const withBatch = await check();
    give('west', 'ceremony', ceremony);
    give('west', 'credential', credential);
    expect(pointsOf(withBatch, 'fail')).toEqual([]);
    expect(point(withBatch, 'ceremony-calls-allowed', 'west')?.verdict).toBe('warn');
  });

  it('ceremony calls that a break-glass left open fail, even if the cluster accepts them', async () => {
    bench.cluster('west').unauthenticatedAccess = ['generate-operation-token'];
    const result = await check();
    bench.cluster('west').unauthenticatedAccess = [];
    expect(pointsOf(result, 'fail')).toEqual(['ceremony-calls-allowed (west) both']);
    expect(point(result, 'ceremony-calls-allowed', 'west')?.observed).toBe(
      `open to everybody through enable_unauthenticated_access (version ${VERSION})`,
    );
  });

  it('a batch token whose policy is gone leaves the ceremony, and says so; a dropped filter is reported', async () => {
    const east = bench.cluster('east');
    east.writePolicy('dr-operations', []);
    east.storage.write(`cluster/filter/${bench.cluster('eu').clusterId}`, null, bench.service.now());
    const result = await check();
    east.writePolicy('dr-operations', BATCH_POLICY);
    expect(point(result, 'batch-token', 'west')).toMatchObject({ verdict: 'warn' });
    expect(point(result, 'ceremony-calls-allowed', 'west')).toMatchObject({ verdict: 'ok' });
    expect(point(result, 'filter-as-wanted', 'eu')).toMatchObject({
      verdict: 'warn',
      observed: expect.stringContaining(': no paths filter') as string,
      needed: 'deny secret/',
    });
  });

  it('a verdict that changes is reported, worse and better, and one that stays is not', async () => {
    await check();
    hook.posted.length = 0;
    expect(pointsOf(await check(), 'fail')).toEqual([]);
    expect(hook.posted).toEqual([]);

    const west = bench.service.cluster('west');
    west.sealNode(0);
    expect(await check()).toMatchObject({ switchover: 'not-ready' });
    await check();
    const [worse, ...more] = hook.posted.map(({ body }) => body);
    expect(more).toEqual([]);
    expect(worse).toMatchObject({
      ...{ event: 'readiness-changed', severity: 'warning', deployment: DEPLOYMENT, runbook: 'readiness' },
      text: expect.stringMatching(
        /^Readiness: switchover not ready, failover not ready\. Before: switchover ready/,
      ) as string,
      commands: [{ who: 'to see every point', command: `runbook readiness ${DEPLOYMENT}` }],
    });
    expect(JSON.stringify(worse?.['details'])).toContain('worse: ');

    west.unsealNode(0);
    while ((await check()).switchover === 'not-ready') bench.service.advance();
    expect(hook.posted.map(({ body }) => body).at(-1)).toMatchObject({ event: 'readiness-changed', severity: 'info' });
  });

  it('a token or a batch token that expires soon is reported once, although the verdict stays the same', async () => {
    const told = () => hook.posted.splice(0).map(({ body }) => [body['event'], JSON.stringify(body['details'])]);
    const worse = (point: string) => [['readiness-changed', expect.stringContaining(`worse: ${point}`)]];
    const west = bench.service.cluster('west');
    west.sealNode(0);
    expect(await check()).toMatchObject({ switchover: 'not-ready', failover: 'not-ready' });
    hook.posted.length = 0;

    const soon = bench.cluster('east').createToken({ policies: ['root'], ttlMs: 600_000 });
    for (const name of ['east', 'west']) give(name, 'credential', soon);
    expect(await check()).toMatchObject({ switchover: 'not-ready', failover: 'not-ready' });
    expect(told()).toEqual(worse('credential-lives-long-enough'));
    await check();
    expect(told()).toEqual([]);

    west.unsealNode(0);
    const batch = ({ points }: ReadinessResult) => points.find(({ id }) => id === 'batch-token')?.verdict;
    while (batch(await check()) !== 'ok') bench.service.advance();
    hook.posted.length = 0;
    batchTokenLives(600_000);
    expect(await check()).toMatchObject({ switchover: 'not-ready', failover: 'not-ready' });
    expect(told()).toEqual(worse('batch-token'));
  });

  it('that checks no longer finish is reported once, by the worker that sweeps first', async () => {
    const sweep = () => {
      const { inventory, records } = bench;
      return notifyOverdueReadiness({ inventory, records, log: pino({ level: 'silent' }) }, 'default', DEPLOYMENT);
    };
    const LAST = { switchover: 'ready', failover: 'ready', points: [] };
    const lastCheck = (ageMs: number) =>
      bench.records.change(DEPLOYMENT, () => ({
        put: { readiness: { ...LAST, at: new Date(Date.now() - ageMs).toISOString() } },
      }));
    hook.posted.length = 0;
    await lastCheck(3_600_000);
    await sweep();
    expect(hook.posted).toEqual([]);
    await lastCheck(3 * 3_600_000);
    await Promise.all([sweep(), sweep()]);
    await sweep();
    expect(hook.posted.map(({ body }) => body)).toEqual([
      expect.objectContaining({
        ...{ event: 'readiness-overdue', severity: 'warning', workflowId: `readiness:${DEPLOYMENT}` },
        text: holding('No readiness check has ended since'),
      }),
    ]);
    // Its end closes what it opened, once.
    const [overdue] = hook.posted;
    await lastCheck(1_000);
    await Promise.all([sweep(), sweep()]);
    await sweep();
    expect(hook.posted.slice(1).map(({ body }) => body)).toEqual([
      expect.objectContaining({
        ...{ event: 'readiness-overdue', severity: 'info', subject: overdue?.body['subject'] },
        ...{ closes: [overdue?.body['subject']], text: 'Readiness checks end again.' },
      }),
    ]);
  });

  it('a damaged certificate in a CA file is reported, and one that is not accepted is named with what to do', async () => {
    const east = findDeployment(bench.inventory, DEPLOYMENT).clusters.get('east');
    const change = async (name: string, text: string) => {
      const caFile = join(bench.directory, name);
      await writeFile(caFile, text);
      Object.assign(east ?? {}, { caFile });
      return check();
    };
    const damaged = '-----BEGIN CERTIFICATE-----\nMIIBbroken\n-----END CERTIFICATE-----\n';
    const told = await change('damaged.pem', LOOPBACK_CERTIFICATE + damaged);
    expect(point(told, 'ca-files')).toMatchObject({
      verdict: 'warn',
      observed: holding('damaged.pem: certificate 2 of 2 is damaged'),
    });
    const refused = await change('foreign.pem', FOREIGN_CERTIFICATE);
    Object.assign(east ?? {}, { caFile: LOOPBACK_TLS.certificateFile });
    expect(point(refused, 'ca-files')).toBeUndefined();
    for (const id of ['every-node-answers', 'one-active-node'])
      expect(point(refused, id, 'east')).toMatchObject({
        observed: holding('127.0.0.1 shows a certificate for 127.0.0.1, localhost, issued by itself'),
        next: holding('the CA file (caFile)'),
      });
  });

  it('two primaries in one set are a split, whichever nodes answer', async () => {
    const [east, west] = [bench.cluster('east').role('dr'), bench.cluster('west')];
    if (east.mode !== 'primary') throw new Error('east is no primary');
    west.setRole('dr', { ...east, knownSecondaries: [] }, bench.service.now());
    const result = await check();
    expect(pointsOf(result, 'fail')).toContain('one-dr-primary.main both');
    expect([result.switchover, result.failover]).toEqual(['not-ready', 'not-ready']);
  });
});

it('a credential that is never renewed is reported before it expires', () => {
  const day = 24 * 3_600_000;
  const soon = (left: number, of: number) =>
    endsSoon({ usable: true, capabilities: {}, ttlSeconds: left * 3_600, creationTtlSeconds: of * 3_600 }, day);
  // What is renewed at two thirds of its life never comes that near; a long one is told a day before.
  expect([soon(0.4, 1), soon(0.2, 1), soon(25, 768), soon(23, 768)]).toEqual([false, true, false, true]);
  expect(endsSoon({ usable: true, capabilities: {} }, day)).toBe(false);
});
