/** Readiness of a layout with both kinds of replication, over TLS, on service version 2.0, with a batch token. */
import { join } from 'node:path';
import type { ReadinessResult } from '../../src/contracts/readiness';
import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';
import { ceremonyToken, workersToken } from '../support/least-privilege';
import { pointName, pointsOf } from '../support/readiness';

const VERSION = '2.0.3+ent';
const FIXTURES = join(__dirname, '../simulator/fixtures');
const CERTIFICATE = join(FIXTURES, 'loopback-certificate.pem');
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
  const check = async (): Promise<ReadinessResult> =>
    (await bench.call('assessReadiness', { deployment: DEPLOYMENT })).readiness;
  const point = ({ points }: ReadinessResult, id: string, cluster?: string) =>
    points.find((each) => each.id === id && each.cluster === cluster);

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
        tls: { certificateFile: CERTIFICATE, keyFile: join(FIXTURES, 'loopback-key.pem') },
      },
      drSets: DR_SETS,
      cluster: (name) => ({
        caFile: CERTIFICATE,
        credential: { env: variable(name, 'credential') },
        ceremonyCredential: { env: variable(name, 'ceremony') },
        ...(name === 'west' ? { batchToken: { env: variable(name, 'batch') } } : {}),
      }),
      deployment: {
        laboratory: true,
        pathsFilters: { eu: { mode: 'deny', paths: ['secret'] } },
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
    give('west', 'batch', bench.cluster('east').createToken({ policies: ['dr-operations'], type: 'batch' }));
    bench.service.advance();
  });
  afterAll(async () => {
    for (const name of given) delete process.env[name];
    await bench.stop();
  });

  it('judges every set for itself; filters and batch token are seen', async () => {
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

  it('without any stored credential that a DR secondary of version 2.0 accepts, failover is red', async () => {
    const east = bench.cluster('east');
    const [credential = '', ceremony = '', batch = ''] = KINDS.map((kind) => process.env[variable('west', kind)]);
    give('west', 'batch', east.createToken({ policies: ['dr-operations'], type: 'batch', ttlMs: 60_000 }));
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
      `refused: what the inventory names (version ${VERSION})`,
    );
    expect(point(result, 'batch-token', 'west')?.observed).toContain('lives long enough');

    // The batch token is such a credential, and makes a ceremony unnecessary.
    const withBatch = await check();
    give('west', 'ceremony', ceremony);
    give('west', 'credential', credential);
    expect(pointsOf(withBatch, 'fail')).toEqual([]);
    expect(point(withBatch, 'ceremony-calls-allowed', 'west')?.verdict).toBe('warn');
  });

  it('ceremony calls that a break-glass left open are red, whatever the cluster accepts', async () => {
    bench.cluster('west').configureUnauthenticatedAccess(['generate-operation-token']);
    const result = await check();
    bench.cluster('west').configureUnauthenticatedAccess([]);
    expect(pointsOf(result, 'fail')).toEqual(['ceremony-calls-allowed (west) both']);
    expect(point(result, 'ceremony-calls-allowed', 'west')?.observed).toBe(
      `open to everybody by enable_unauthenticated_access (version ${VERSION})`,
    );
  });

  it('a batch token whose policy is gone leaves the ceremony, and says so; a dropped filter is seen', async () => {
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

  it('two primaries in one set are a split, whoever answers', async () => {
    const [east, west] = [bench.cluster('east').role('dr'), bench.cluster('west')];
    if (east.mode !== 'primary') throw new Error('east is no primary');
    west.setRole('dr', { ...east, knownSecondaries: [] }, bench.service.now());
    const result = await check();
    expect(pointsOf(result, 'fail')).toContain('one-dr-primary.main both');
    expect([result.switchover, result.failover]).toEqual(['not-ready', 'not-ready']);
    expect(bench.leaks()).toEqual([]);
  });
});
