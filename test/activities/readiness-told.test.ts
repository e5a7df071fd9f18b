/** People hear of readiness when it changes, once, and when nobody checks it any more; a check that finds the same is silent. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pino from 'pino';
import { tellOverdueReadiness } from '../../activities';
import type { ReadinessResult } from '../../src/contracts/readiness';
import { endsSoon } from '../../activities/readiness/credentials';
import { ActivityBench, DEPLOYMENT, holding } from '../support/activity-environment';
import { WebhookServer } from '../support/notification-servers';
import { pair } from '../support/scenario';

const BATCH = 'TEST_READINESS_BATCH';
const BATCH_POLICY = ['promote', 'update-primary'].map((each) => ({
  path: `sys/replication/dr/secondary/${each}`,
  capabilities: ['update'],
}));
let bench: ActivityBench;
let hook: WebhookServer;
beforeAll(async () => {
  hook = await WebhookServer.start();
  process.env['TEST_READINESS_URL'] = hook.origin;
  bench = await ActivityBench.start({
    topology: pair(1),
    cluster: (name) => (name === 'west' ? { batchToken: { env: BATCH } } : {}),
    deployment: {
      laboratory: true,
      readiness: { overdueAfter: '2h' },
      notifications: [{ name: 'hook', kind: 'webhook', url: { env: 'TEST_READINESS_URL' } }],
    },
  });
  bench.openRuns = new Map();
  bench.cluster('east').writePolicy('dr-operations', BATCH_POLICY);
  batchTokenLives(3_600_000);
});
afterAll(async () => {
  expect(bench.leaks()).toEqual([]);
  await Promise.all([bench.stop(), hook.stop()]);
});
beforeEach(() => {
  hook.posted.length = 0;
});

function batchTokenLives(ttlMs: number): void {
  process.env[BATCH] = bench.cluster('east').createToken({ policies: ['dr-operations'], type: 'batch', ttlMs });
}

const check = async () => (await bench.call('assessReadiness', { deployment: DEPLOYMENT })).readiness;

it('a verdict that changes is told, worse and better, and one that stays is not', async () => {
  const first = await check();
  expect(first.points.filter(({ verdict }) => verdict === 'fail')).toEqual([]);
  await check();
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
    commands: [{ who: 'every point, as of now', command: `runbook readiness ${DEPLOYMENT}` }],
  });
  expect(JSON.stringify(worse?.['details'])).toContain('worse: ');

  west.unsealNode(0);
  while ((await check()).switchover === 'not-ready') bench.service.advance();
  expect(hook.posted.map(({ body }) => body).at(-1)).toMatchObject({ event: 'readiness-changed', severity: 'info' });
});

it('a token or a batch token that nears its end is told once, although the verdict stays what it was', async () => {
  const told = () => hook.posted.splice(0).map(({ body }) => [body['event'], JSON.stringify(body['details'])]);
  const worse = (point: string) => [['readiness-changed', expect.stringContaining(`worse: ${point}`)]];
  const west = bench.service.cluster('west');
  west.sealNode(0);
  expect(await check()).toMatchObject({ switchover: 'not-ready', failover: 'not-ready' });
  hook.posted.length = 0;

  const soon = { policies: ['root'], ttlMs: 600_000 };
  await writeFile(join(bench.directory, 'token'), bench.cluster('east').createToken(soon));
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

it('a credential that nothing renews is noticed before its end', () => {
  const day = 24 * 3_600_000;
  const soon = (left: number, of: number) =>
    endsSoon({ usable: true, capabilities: {}, ttlSeconds: left * 3_600, creationTtlSeconds: of * 3_600 }, day);
  // What is renewed at two thirds of its life never comes that near; a long one is told a day before.
  expect([soon(0.4, 1), soon(0.2, 1), soon(25, 768), soon(23, 768)]).toEqual([false, true, false, true]);
  expect(endsSoon({ usable: true, capabilities: {} }, day)).toBe(false);
});

it('that no check ends any more is told once, by whichever worker sweeps first', async () => {
  const sweep = () => {
    const { inventory, records } = bench;
    return tellOverdueReadiness({ inventory, records, log: pino({ level: 'silent' }) }, 'default', DEPLOYMENT);
  };
  const LAST = { switchover: 'ready', failover: 'ready', points: [] };
  const lastCheck = (ageMs: number) =>
    bench.records.change(DEPLOYMENT, () => ({
      put: { readiness: { ...LAST, at: new Date(Date.now() - ageMs).toISOString() } },
    }));
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
});
