/**
 * Batch tokens. One is made, proven and kept by one activity: it passes through Temporal sealed alone, and is never half
 * there. A run takes it where it lasts, and asks the holders where it does not.
 */
import { writeFileSync } from 'node:fs';
import { openBatchToken } from '../../activities/tokens/kept-batch-token';
import { policyFor, policyText } from '../../activities/tokens/policies';
import { readinessResult } from '../../src/contracts/readiness';
import { findDeployment } from '../../src/inventory';
import { callNode } from '../support/by-hand';
import {
  at,
  CHANGING,
  drPrimaries,
  expectServiceOn,
  expectLost,
  loseAnswers,
  statuses,
  underWay,
} from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import type { WebhookServer } from '../support/notification-servers';
import { openWebhook, WEBHOOK } from '../support/notification-servers';
import { replayRun } from '../support/replay';
import { openScenario, pair, Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

/** Of a switchover by batch token, each of whose changes a webhook is told. */
const BATCH_EVENTS = 180;
const CREATE = 'POST /v1/auth/token/create/runbooks-batch';
const PROMOTE = 'sys/replication/dr/secondary/promote';
const HOUR_MS = 3_600_000;
const prepared = new Lane(() => Scenario.start({ batchToken: true }));

let scenario: Scenario;
let hook: WebhookServer;
openWebhook((opened) => (hook = opened));

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
  return scenario.run('batchTokenRotation', more);
}

/** The token in the record, as another worker opens it, with what the service says of it. */
async function kept() {
  const keeper = { records: scenario.recordsOfAWorker(), sealKeyring: scenario.sealKeyring };
  const token = (await openBatchToken(keeper, { deployment: scenario.name, drSet: 'main' })).reveal();
  return { token, facts: scenario.service.cluster('east').tokens.identify(token, scenario.service.now()) };
}

describe('batch tokens', () => {
  runLanes(prepared);

  describe('the rotation of batch tokens', () => {
    openScenario((opened) => (scenario = opened), {
      topology: { ...pair(1, '2.0.3+ent'), pace: 'quick' },
      deployment: {
        batchTokens: { main: { ttl: '8h' } },
        notifications: [WEBHOOK],
      },
    });

    it('refused: a credential that may not make tokens', async () => {
      const east = scenario.service.cluster('east');
      writeFileSync(scenario.tokenFile, east.createToken({ policies: ['default'] }), { mode: 0o600 });
      const refusal = await scenario.refusal('batchTokenRotation');
      expect(refusal).toContain('credential may call auth/token/create/runbooks-batch');
      // From a Schedule nobody else sees it.
      expect(hook.values('event')).toEqual(['finished']);
      expect(hook.posted[0]?.body).toMatchObject({ severity: 'warning', outcome: 'refused' });
      expect(statuses(scenario, 'east', CREATE)).toEqual([]);
      writeFileSync(scenario.tokenFile, scenario.workersToken('east'), { mode: 0o600 });
    });

    it('parked, retry: no role, one of another kind, no policy: each with the command', async () => {
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
    });

    it('with exactly the documented rights; sealed in the record', async () => {
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

    it('when it is not due yet no token is created, and the run costs few events; a Schedule may come often', async () => {
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

    it('lost answer of the creation: another one is created', async () => {
      loseAnswers(scenario, { east: [CREATE] });
      const made = statuses(scenario, 'east', CREATE).length;
      expect(await (await rotate()).report()).toMatchObject({ outcome: 'completed', findings: [] });
      expectLost(scenario);
      expect(statuses(scenario, 'east', CREATE).slice(made)).toEqual([0, 200]);
    });

    it('parked, abort, kill switch: a token without rights is not kept, the one before stays', async () => {
      const before = await kept();
      // Its text still names the paths: only the token itself can tell.
      await writePolicy(`${printed()}\npath "${PROMOTE}" { capabilities = ["deny"] }`);
      const run = await rotate();
      const parked = await run.waitsFor('decision');
      expect(parked).toMatchObject({ code: 'PRECONDITION_FAILED' });
      expect(`${parked.observed} ${parked.next}`).toMatch(/promote: deny.*emptied on purpose/s);
      // Whoever looks is told, while the token that is kept lives on.
      const { points } = readinessResult.parse((await scenario.play('readiness', {})).result);
      expect(points.find(({ id }) => id === 'batch-token')).toMatchObject({
        verdict: 'fail',
        observed: expect.stringMatching(/deny/) as string,
      });
      await run.decide('abort');
      expect(await run.report()).toMatchObject({ outcome: 'aborted' });
      expect((await kept()).token).toBe(before.token);
      await writePolicy();
    });

    it('a switchover uses the rotated token: no holder is asked, no token is generated, and it costs few events', async () => {
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

  describe('the source of operation tokens', () => {
    const { it } = prepared;

    it('auto falls back to the ceremony if the batch token would expire too soon after the run', async (held) => {
      held.makeBatchToken('east', HOUR_MS / 4);
      const report = await (await underWay(held)).report();

      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
      expect(report.plan?.content.choices['tokenSource']).toBe('ceremony');
      expect(report.tokens.map(({ cluster, state }) => `${cluster} ${state}`)).toEqual(['west kept', 'east deleted']);
      await expectServiceOn(held, 'west');
    });

    it('a batch run deletes the tokens that an earlier ceremony had to leave behind while its cluster was primary', async (held) => {
      expect(held.state('west').operationTokens).toBe(1);
      held.makeBatchToken('west');
      const run = await held.start({ to: 'east', go: 'auto', tokenSource: 'batch' });
      // Without a go the approvals of the plan are what may be too old right before the demotion.
      await run.do('renew plan');
      const report = await run.report();

      expect(report.outcome).toBe('completed');
      expect(report.gates.map(({ gate, state }) => `${gate} ${state}`)).toEqual(['plan approved', 'plan approved']);
      expect(statuses(held, 'west', CHANGING.demote)).toEqual([200]);
      expect(held.state('west').operationTokens).toBe(0);
      expect(report.tokens).toContainEqual(expect.objectContaining({ cluster: 'west', state: 'deleted' }));
      await expectServiceOn(held, 'east');
    });

    it('a batch token that both clusters refuse in the outage: the holders are asked for the way back', async (held) => {
      held.makeBatchToken();
      at(held, 'after', 'east', CHANGING.demote, () => {
        for (const name of ['east', 'west']) held.service.cluster(name).writePolicy('dr-operations', []);
      });
      const run = await held.start({ go: 'auto', tokenSource: 'batch' });
      await run.approve('plan');
      await run.waitsFor('shares');
      expect(drPrimaries(held)).toEqual([]);
      const { choices } = await run.parks('Collect key shares in the outage');
      expect(choices.map(({ action }) => action)).toEqual(['promote-back', 'promote-secondary', 'leave']);
      await run.shares();
      const report = await run.report();

      expect(report.outcome).toBe('rolled-back');
      const endedAt = expect.any(String) as string;
      expect(report.parkings).toContainEqual(expect.objectContaining({ code: 'SHARES_MISSING', endedAt }));
      expect(report.findings).toContainEqual(expect.objectContaining({ code: 'batch-token-refused' }));
      expect(statuses(held, 'west', CHANGING.promote)).toEqual([403]);
      expect(statuses(held, 'east', CHANGING.promote)).toEqual([403, 200]);
      await expectServiceOn(held, 'east');
    });
  });
});
