/** A batch token is made, proven and kept by one activity: it passes through Temporal sealed alone, and is never half there. */
import { writeFileSync } from 'node:fs';
import { openBatchToken } from '../../activities/tokens/kept-batch-token';
import { policyFor, policyText } from '../../activities/tokens/policies';
import { readinessResult } from '../../src/contracts/readiness';
import { findDeployment } from '../../src/inventory';
import { callNode } from '../support/by-hand';
import { CHANGING, expectServiceOn, loseAnswer, statuses } from '../support/faults';
import { cell, expectFewEvents } from '../support/matrix';
import { WebhookServer } from '../support/notification-servers';
import { replayRun } from '../support/replay';
import { openScenario, pair } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';

/** Of a switchover by batch token, each of whose changes a webhook is told. */
const BATCH_EVENTS = 180;
const CREATE = 'POST /v1/auth/token/create/runbooks-batch';
const PROMOTE = 'sys/replication/dr/secondary/promote';

let scenario: Scenario;
let hook: WebhookServer;
beforeAll(async () => {
  hook = await WebhookServer.start();
  process.env['TEST_ROTATION_URL'] = hook.origin;
});
afterAll(() => hook.stop());

/** As the service's command line does it. */
async function call(path: string, body: object): Promise<void> {
  const { apiAddress, rootToken } = scenario.service.cluster('east');
  expect((await callNode(apiAddress, 'POST', path, { token: rootToken, body })).status).toBe(204);
}

/** The policy of the batch token as it is printed. */
const printed = () => policyText(policyFor(findDeployment(scenario.inventory, scenario.name), 'batchToken'));
const writePolicy = (text = printed()) => call('sys/policies/acl/runbooks-batch', { policy: text });

const ROLE = { allowed_policies: ['runbooks-batch'], orphan: true, renewable: false, token_type: 'batch' };
const writeRole = (more: object = {}) => call('auth/token/roles/runbooks-batch', { ...ROLE, ...more });

function rotate(more: Readonly<Record<string, unknown>> = {}): Promise<TestRun> {
  return scenario.run('batchTokenRotation', more, `batch-token:${scenario.name}`);
}

/** The token in the record, as another worker opens it, with what the service says of it. */
async function kept() {
  const keeper = { records: scenario.recordsOfAWorker(), sealKeyring: scenario.sealKeyring };
  const token = (await openBatchToken(keeper, { deployment: scenario.name, drSet: 'main' })).reveal();
  return { token, facts: scenario.service.cluster('east').tokens.identify(token, scenario.service.now()) };
}

describe('the rotation of batch tokens', () => {
  openScenario((opened) => (scenario = opened), {
    topology: { ...pair(1, '2.0.3+ent'), pace: 'quick' },
    deployment: {
      batchTokens: { main: { ttl: '8h' } },
      notifications: [{ name: 'hook', kind: 'webhook', url: { env: 'TEST_ROTATION_URL' } }],
    },
  });

  it(cell('batchTokenRotation', 'refused', 'a credential that may not make tokens'), async () => {
    const east = scenario.service.cluster('east');
    writeFileSync(scenario.tokenFile, east.createToken({ policies: ['default'] }), { mode: 0o600 });
    const failure = await (await rotate()).failure();
    expect(failure).toMatchObject({ code: 'PRECONDITION_FAILED' });
    expect(failure.message).toContain('credential may call auth/token/create/runbooks-batch');
    // From a Schedule nobody else sees it.
    expect(hook.values('event')).toEqual(['finished']);
    expect(hook.posted[0]?.body).toMatchObject({ severity: 'warning', outcome: 'refused' });
    expect(statuses(scenario, 'east', CREATE)).toEqual([]);
    writeFileSync(scenario.tokenFile, scenario.workersToken('east'), { mode: 0o600 });
  });

  it(
    cell('batchTokenRotation', 'parked, retry', 'no role, one of another kind, no policy: each with the command'),
    async () => {
      const run = await rotate();
      const absent = await run.waitsFor('decision');
      expect(absent).toMatchObject({ code: 'BAD_REQUEST' });
      expect(absent.next).toContain(`path "${PROMOTE}" { capabilities = ["update"] }`);
      expect(absent.next).toContain(
        'vault write auth/token/roles/runbooks-batch allowed_policies=runbooks-batch orphan=true renewable=false token_type=batch',
      );
      await writeRole({ token_type: 'service' });
      await run.decide('retry');
      const bound = await run.waitsFor('decision', ({ code }) => code === 'PRECONDITION_FAILED');
      expect(bound).toMatchObject({ observed: 'service, orphan' });
      expect(statuses(scenario, 'east', 'POST /v1/auth/token/revoke-self')).toEqual([204]);
      await writeRole();
      await run.decide('retry');
      const powerless = await run.waitsFor('decision', ({ observed }) => observed?.includes(PROMOTE) === true);
      expect(powerless.next).toContain('vault policy write runbooks-batch');
      await expect(kept()).rejects.toMatchObject({ code: 'CREDENTIAL_UNAVAILABLE' });
      await writePolicy();
      await run.decide('retry');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', result: { rotated: true } });
      await replayRun(run);
    },
  );

  it(cell('batchTokenRotation', 'no fault', 'with exactly the documented rights; sealed in the record'), async () => {
    const run = await rotate();
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', findings: [], leftToDo: [], parkings: [] });
    expect(report.result).toMatchObject({
      ...{ rotated: true, drSet: 'main', primary: 'east' },
      rights: { [PROMOTE]: ['update'], 'sys/replication/dr/secondary/generate-operation-token/update': ['update'] },
      // The DR secondary takes the token for reading its slot: proven before anybody needs it.
      provenOn: ['west'],
    });
    expect((await kept()).facts).toMatchObject({
      type: 'batch',
      orphan: true,
      policies: ['default', 'runbooks-batch'],
    });
    await expectFewEvents('batchTokenRotation', run);
    await replayRun(run);
  });

  it('when it is not due yet nothing is made, and the run costs few events; a Schedule may come often', async () => {
    const before = await kept();
    hook.posted.length = 0;
    const run = await rotate({ when: 'due' });
    expect(await run.handle.result()).toMatchObject({ outcome: 'completed', result: { rotated: false } });
    expect(await run.eventCount()).toBeLessThan(21);
    scenario.service.advanceClock(4.5 * 3_600_000);
    writeFileSync(scenario.tokenFile, scenario.workersToken('east'), { mode: 0o600 });
    const report = await (await rotate({ when: 'due' })).report();
    expect(report.result).toMatchObject({ rotated: true });
    expect((await kept()).token).not.toBe(before.token);
    // What goes well every few hours is told to nobody.
    expect(hook.posted).toEqual([]);
    // Overlapping: the one before is still good, for whoever read it a moment ago.
    const { tokens } = scenario.service.cluster('east');
    expect(tokens.identify(before.token, scenario.service.now())).toMatchObject({ type: 'batch' });
  });

  it(cell('batchTokenRotation', 'lost answer', 'of the creation: another one is made'), async () => {
    const lost = loseAnswer(scenario, 'east', CREATE);
    const made = statuses(scenario, 'east', CREATE).length;
    expect(await (await rotate()).report()).toMatchObject({ outcome: 'completed', findings: [] });
    expect(lost.hits).toBe(1);
    expect(statuses(scenario, 'east', CREATE).slice(made)).toEqual([0, 200]);
  });

  it(
    cell(
      'batchTokenRotation',
      'parked, abort',
      'kill switch: a token without rights is not kept, the one before stays',
    ),
    async () => {
      const before = await kept();
      // Its text still names the paths: only the token itself can tell.
      await writePolicy(`${printed()}\npath "${PROMOTE}" { capabilities = ["deny"] }`);
      const run = await rotate();
      const parked = await run.waitsFor('decision');
      expect(parked).toMatchObject({ code: 'PRECONDITION_FAILED' });
      expect(`${parked.observed} ${parked.next}`).toMatch(/promote: deny.*emptied on purpose/s);
      // Whoever looks is told, while the token that is kept lives on.
      const check = { deployment: scenario.name };
      const ready = await scenario.startRunbook('readiness', check, `readiness:${scenario.name}`);
      const { points } = readinessResult.parse((await ready.report()).result);
      expect(points.find(({ id }) => id === 'batch-token')).toMatchObject({
        verdict: 'fail',
        observed: expect.stringMatching(/deny/) as string,
      });
      await run.decide('abort');
      expect(await run.report()).toMatchObject({ outcome: 'aborted' });
      expect((await kept()).token).toBe(before.token);
      await writePolicy();
    },
  );

  it('a switchover takes the rotated token: no holder is asked, no token is generated, and it costs few events', async () => {
    const run = await scenario.start();
    await run.people({ shares: [] });
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'none' }, tokens: [], leftToDo: [] });
    expect(report.plan?.content.choices['tokenSource']).toBe('batch');
    for (const cluster of ['east', 'west']) expect(statuses(scenario, cluster, CHANGING.startAttempt)).toEqual([]);
    const events = await run.eventCount();
    process.stderr.write(`history events of a switchover by batch token: ${events}\n`);
    expect(events).toBeLessThanOrEqual(BATCH_EVENTS);
    await expectServiceOn(scenario, 'west');
  });
});
