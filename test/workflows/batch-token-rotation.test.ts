/** A batch token is made, proven and kept by one activity: it never passes through Temporal, and is never half there. */
import { lstatSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { policyFor, policyText } from '../../activities/tokens/policies';
import { findDeployment } from '../../src/inventory';
import { callNode } from '../support/by-hand';
import { loseAnswer, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { WebhookServer } from '../support/notification-servers';
import { cell, expectFewEvents } from '../support/matrix';
import { replayRun } from '../support/replay';
import { pair, Scenario, temporaryDirectory } from '../support/scenario';
import type { TestRun } from '../support/scenario';
import { readinessResult } from '../../src/contracts/readiness';
import type { Report } from '../../src/contracts/report';

const CREATE = 'POST /v1/auth/token/create/runbooks-batch';
const PROMOTE = 'sys/replication/dr/secondary/promote';
const directory = temporaryDirectory('batch-sink');
const file = join(directory, 'main');

let hook: WebhookServer;
const inFile = new Lane(async () => {
  hook = await WebhookServer.start();
  process.env['TEST_ROTATION_URL'] = hook.origin;
  return Scenario.start({
    topology: { pace: 'quick' },
    deployment: {
      batchTokens: { main: { ttl: '8h', sink: { file } } },
      notifications: [{ name: 'hook', kind: 'webhook', url: { env: 'TEST_ROTATION_URL' } }],
    },
  });
});
afterAll(() => hook.stop());
const inEngine = new Lane(() =>
  Scenario.start({
    topology: {
      ...pair(1, '2.0.3+ent'),
      clusters: [...pair(1, '2.0.3+ent').clusters, { name: 'keeper', nodes: 1 }],
    },
    drSets: { main: ['east', 'west'] },
    otherDeployments: { vault: { cluster: 'keeper' } },
    rights: { kinds: ['credential', 'createRoleAndPolicy'] },
    deployment: {
      batchTokens: {
        main: { sink: { keyValue: { deployment: 'vault', mount: 'shared', path: 'runbooks/batch-token' } } },
      },
    },
  }),
);

/** As the service's command line does it. */
async function call(scenario: Scenario, cluster: string, path: string, body: object, expected = 204): Promise<void> {
  const { apiAddress, rootToken } = scenario.service.cluster(cluster);
  expect((await callNode(apiAddress, 'POST', path, { token: rootToken, body })).status).toBe(expected);
}

/** As it is printed: of the credential for this runbook alone, or of the batch token. */
function printed({ inventory, name }: Scenario, policy: string): string {
  const kind = policy === 'runbooks-batch' ? 'batchToken' : 'credential';
  return policyText(policyFor(inventory, findDeployment(inventory, name), kind, ['batchTokenRotation']));
}

async function writePolicy(scenario: Scenario, name: string, text = printed(scenario, name)): Promise<void> {
  await call(scenario, 'east', `sys/policies/acl/${name}`, { policy: text });
}

const ROLE = { allowed_policies: ['runbooks-batch'], orphan: true, renewable: false, token_type: 'batch' };
const writeRole = (scenario: Scenario, more: object = {}) =>
  call(scenario, 'east', 'auth/token/roles/runbooks-batch', { ...ROLE, ...more });

/** The credential that the workers use from now on. */
function useToken(scenario: Scenario, policies: string[]): void {
  const token = scenario.service.cluster('east').createToken({ policies, ttlMs: 8 * 3_600_000 });
  writeFileSync(scenario.tokenFile, token, { mode: 0o600 });
}

function rotate(scenario: Scenario, more: Readonly<Record<string, unknown>> = {}): Promise<TestRun> {
  const id = `${more['dryRun'] === true ? 'plan' : 'batch-token'}:${scenario.name}`;
  return scenario.run('batchTokenRotation', more, id);
}

/** What the service says of the token that is kept. */
function kept(scenario: Scenario, token: string) {
  return scenario.service.cluster('east').tokens.identify(token, scenario.service.now());
}

const fileToken = () => readFileSync(file, 'utf8').trim();
const failedNames = ({ preconditions }: Report) =>
  preconditions.filter(({ verdict }) => verdict === 'fail').map(({ name }) => name);

describe('the rotation of batch tokens', () => {
  runLanes(inFile, inEngine);

  inFile.it('a dry run says exactly what is missing, with the commands; nothing is made', async (scenario) => {
    await writePolicy(scenario, 'runbooks-batch-rotation');
    useToken(scenario, ['runbooks-batch-rotation']);
    const report = await (await rotate(scenario, { dryRun: true })).report();
    expect(failedNames(report)).toEqual(['policy runbooks-batch', 'token role runbooks-batch']);
    const next = report.preconditions.map((each) => each.next ?? '').join('\n');
    expect(next).toContain(`path "${PROMOTE}" { capabilities = ["update"] }`);
    expect(next).toContain(
      'vault write auth/token/roles/runbooks-batch allowed_policies=runbooks-batch orphan=true renewable=false token_type=batch',
    );
    expect(statuses(scenario, 'east', CREATE)).toEqual([]);
  });

  inFile.it(
    cell('batchTokenRotation', 'refused', 'a role by which more could be made than the one kind of token'),
    async (scenario) => {
      await writePolicy(scenario, 'runbooks-batch');
      await writeRole(scenario, { allowed_policies: ['runbooks-batch', 'root-like'] });
      const failure = await (await rotate(scenario)).failure();
      expect(failure).toMatchObject({ code: 'PRECONDITION_FAILED' });
      expect(failure.message).toContain('token role runbooks-batch: allowed_policies');
      // From a Schedule nobody else sees it.
      expect(hook.values('event')).toEqual(['finished']);
      expect(hook.posted[0]?.body).toMatchObject({ severity: 'warning', outcome: 'refused' });
      await writeRole(scenario, { token_type: 'service' });
      expect((await (await rotate(scenario)).failure()).message).toContain('token_type');
      expect(statuses(scenario, 'east', CREATE)).toEqual([]);
      await writeRole(scenario);
    },
  );

  inFile.it(
    cell('batchTokenRotation', 'no fault', 'with exactly the documented rights; file of mode 0600'),
    async (scenario) => {
      const run = await rotate(scenario);
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', findings: [], leftToDo: [], parkings: [] });
      expect(report.result).toMatchObject({
        rotated: true,
        drSet: 'main',
        primary: 'east',
        sink: `file ${file}`,
        rights: { [PROMOTE]: ['update'] },
        // Before 2.0 a DR secondary serves nothing that would prove it without doing something.
        notCheckableOn: ['west'],
        extraTokens: 0,
      });
      expect(lstatSync(file).mode & 0o777).toBe(0o600);
      expect(readdirSync(directory)).toEqual(['main']);
      expect(kept(scenario, fileToken())).toMatchObject({
        type: 'batch',
        orphan: true,
        policies: ['default', 'runbooks-batch'],
      });
      await expectFewEvents('batchTokenRotation', run);
      await replayRun(run);
    },
  );

  inFile.it(
    'when it is not due yet nothing is made, and the run costs few events; a Schedule may come often',
    async (scenario) => {
      const before = fileToken();
      hook.posted.length = 0;
      const run = await rotate(scenario, { when: 'due' });
      expect(await run.handle.result()).toMatchObject({ outcome: 'completed', result: { rotated: false } });
      expect(await run.eventCount()).toBeLessThan(21);
      scenario.service.advanceClock(4.5 * 3_600_000);
      useToken(scenario, ['runbooks-batch-rotation']);
      const report = await (await rotate(scenario, { when: 'due' })).report();
      expect(report.result).toMatchObject({ rotated: true, replaced: { usable: true } });
      const { ageSeconds } = report.result?.['replaced'] as { ageSeconds: number };
      expect(ageSeconds).toBeGreaterThan(4.4 * 3_600);
      expect(fileToken()).not.toBe(before);
      // What goes well every few hours is told to nobody.
      expect(hook.posted).toEqual([]);
      // Overlapping: the one before is still good, for whoever read it a moment ago.
      expect(kept(scenario, before)).toMatchObject({ type: 'batch' });
    },
  );

  inFile.it(
    cell('batchTokenRotation', 'lost answer', 'of the creation: another one is made, and the extra one is told'),
    async (scenario) => {
      const lost = loseAnswer(scenario, 'east', CREATE);
      const report = await (await rotate(scenario)).report();
      expect(lost.hits).toBe(1);
      expect(report).toMatchObject({ outcome: 'completed', result: { extraTokens: 1 } });
      expect(report.findings.map(({ severity, code }) => [severity, code])).toEqual([['info', 'extra-batch-token']]);
      expect(statuses(scenario, 'east', CREATE)).toEqual([0, 200]);
    },
  );

  inFile.it(
    'a DR operation uses the rotated token, from where it was put, with nothing else in the inventory',
    async (scenario) => {
      writeFileSync(scenario.tokenFile, scenario.workersToken('east'));
      const run = await scenario.start({ tokenSource: 'batch', go: 'auto', dryRun: true }, `plan:${scenario.name}`);
      const { preconditions } = await run.report();
      const about = preconditions.filter(({ name }) => name.startsWith('batch token'));
      expect(about.map(({ verdict }) => verdict)).not.toContain('fail');
      expect(about.length).toBeGreaterThan(2);
      useToken(scenario, ['runbooks-batch-rotation']);
    },
  );

  inFile.it(
    cell('batchTokenRotation', 'parked, retry', 'kill switch: a token without rights is not kept, the old file stays'),
    async (scenario) => {
      const before = fileToken();
      // Its text still names the paths: only the token itself can tell.
      const text = printed(scenario, 'runbooks-batch');
      await writePolicy(scenario, 'runbooks-batch', `${text}\npath "${PROMOTE}" { capabilities = ["deny"] }`);
      const run = await rotate(scenario);
      const parked = await run.waitsFor('decision');
      expect(parked).toMatchObject({ code: 'PRECONDITION_FAILED' });
      expect(`${parked.observed} ${parked.next}`).toMatch(/promote: deny.*emptied on purpose/s);
      expect(fileToken()).toBe(before);
      // Whoever looks is told, while the token that is kept lives on.
      const ready = await scenario.startRunbook(
        'readiness',
        { deployment: scenario.name },
        `readiness:${scenario.name}`,
      );
      const { points } = readinessResult.parse((await ready.report()).result);
      expect(points.filter(({ id }) => id === 'batch-token')).toContainEqual(
        expect.objectContaining({ verdict: 'fail', observed: expect.stringMatching(/deny/) as string }),
      );
      expect(kept(scenario, before)).toMatchObject({ type: 'batch' });
      await writePolicy(scenario, 'runbooks-batch');
      await run.decide('retry');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', result: { rotated: true } });
      expect(fileToken()).not.toBe(before);
      await replayRun(run);
    },
  );

  inFile.it(
    cell('batchTokenRotation', 'parked, abort', 'nothing is kept, and the file stays as it is'),
    async (scenario) => {
      const before = fileToken();
      scenario.service.faults.add({ cluster: 'east', endpoint: CREATE, action: { status: 403 } });
      const run = await rotate(scenario);
      expect(await run.waitsFor('decision')).toMatchObject({ code: 'PERMISSION_DENIED' });
      await run.decide('abort');
      expect(await run.report()).toMatchObject({ outcome: 'aborted' });
      expect(fileToken()).toBe(before);
      expect(readdirSync(directory)).toEqual(['main']);
    },
  );

  inEngine.it(
    cell('batchTokenRotation', 'parked, skip', 'policy and role, which nobody made meanwhile: no token is made'),
    async (scenario) => {
      const engine = { type: 'kv', options: { version: '2' } };
      await call(scenario, 'keeper', 'sys/mounts/shared', engine);
      const refused = scenario.service.faults.add({
        ...{ cluster: 'east', endpoint: /acl\/runbooks-batch$/, action: { status: 403 }, times: Infinity },
        skip: 1,
      });
      const run = await rotate(scenario, { createRoleAndPolicy: true });
      expect(await run.waitsFor('decision')).toMatchObject({ step: 'Make policy and role on east' });
      await run.decide('skip', 'Make policy and role on east');
      const next = await run.waitsFor('decision', ({ step }) => step.startsWith('Make a batch token'));
      await run.decide('abort', next.step);
      const report = await run.report();
      refused.remove();
      expect(report.outcome).toBe('aborted');
      expect(report.leftToDo.join(' ')).toContain('a person makes them by hand');
      expect(scenario.service.cluster('keeper').storage.get('data/shared/data/runbooks/batch-token')).toBeUndefined();
    },
  );

  inEngine.it(
    cell('batchTokenRotation', 'no fault', 'policy and role made where absent; key of another deployment, from 2.0'),
    async (scenario) => {
      const run = await rotate(scenario, { createRoleAndPolicy: true });
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], parkings: [] });
      expect(report.steps.map(({ name }) => name)).toContain('Make policy and role on east');
      expect(report.result).toMatchObject({
        sink: 'shared/runbooks/batch-token of deployment vault',
        rights: { 'sys/replication/dr/secondary/generate-operation-token/update': ['update'] },
      });
      const stored = scenario.service.cluster('keeper').storage.get('data/shared/data/runbooks/batch-token');
      expect(stored).toMatchObject({ type: 'versioned-secret', version: 1 });

      const second = await (await rotate(scenario)).report();
      // The DR secondary takes the token for reading its slot: proven before anybody needs it.
      expect(second.result).toMatchObject({ rotated: true, provenOn: ['west'], replaced: { usable: true } });
      expect(scenario.service.cluster('keeper').storage.get('data/shared/data/runbooks/batch-token')).toMatchObject({
        version: 2,
      });
    },
  );

  inEngine.it(
    'a lost answer of the key-value engine is found out by reading; a foreign write in between is never overwritten',
    async (scenario) => {
      const write = 'POST /v1/shared/data/runbooks/batch-token';
      const lost = loseAnswer(scenario, 'keeper', write);
      expect((await (await rotate(scenario)).report()).outcome).toBe('completed');
      expect(lost.hits).toBe(1);
      expect(statuses(scenario, 'keeper', write)).toEqual([0]);

      scenario.service.faults.add({
        cluster: 'keeper',
        endpoint: write,
        action: () =>
          call(scenario, 'keeper', 'shared/data/runbooks/batch-token', { data: { token: 'of somebody else' } }, 200),
      });
      const run = await rotate(scenario);
      expect(await run.waitsFor('decision')).toMatchObject({ code: 'BAD_REQUEST' });
      await run.decide('abort');
      const report = await run.report();
      expect(report.outcome).toBe('aborted');
    },
  );
});
