/** A root token reaches its recipient and nobody else: shares of separate holders, behind a gate, lost answers found out. */
import * as openpgp from 'openpgp';
import { ceremonyWorkflowId } from '../../src/contracts/names';
import type { Report } from '../../src/contracts/report';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { loseAnswer, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import type { Recipient } from '../support/recipient';
import { decrypted, newRecipient } from '../support/recipient';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

const ATTEMPT = 'POST /v1/sys/generate-root/attempt';
const CANCEL = 'DELETE /v1/sys/generate-root/attempt';
const UPDATE = 'POST /v1/sys/generate-root/update';
const LOCK = ceremonyWorkflowId('east');

const lane = new Lane(() => Scenario.start());
let recipient: Recipient;
const told: string[] = [];

const input = (scenario: Scenario, more: Readonly<Record<string, unknown>> = {}) => ({
  deployment: scenario.name,
  cluster: 'east',
  recipientPgpKey: recipient.publicKey,
  reason: 'a new audit device is needed',
  requestedBy: 'olga',
  ...more,
});
const start = (scenario: Scenario, more = {}, workflowId = LOCK) =>
  scenario.startRunbook('rootTokenCeremony', input(scenario, more), workflowId);

async function people(run: TestRun): Promise<void> {
  await run.approve('ceremony');
  await run.shares();
}

/** The token works: it is one of those that the cluster issued, and a root token. */
async function expectGoodToken(scenario: Scenario, report: Report): Promise<string> {
  const token = await decrypted(recipient, report);
  const east = scenario.service.cluster('east');
  expect(east.issuedSecrets).toContain(token);
  expect(east.tokens.identify(token, scenario.service.now())?.policies).toEqual(['root']);
  told.push(JSON.stringify(report));
  return token;
}

describe('rootTokenCeremony', () => {
  beforeAll(async () => {
    recipient = await newRecipient();
  });
  runLanes(lane);

  lane.it('no fault: its recipient alone reads it', async (scenario) => {
    const run = await start(scenario);
    const { planDigest } = await run.waitsFor('approval', ({ gate }) => gate === 'ceremony');
    // Nobody is asked for a share before the gate is open, and the approver sees to whom the token goes.
    const status = await run.status();
    expect(status.invitation).toBeUndefined();
    const fingerprint = recipient.privateKey.getFingerprint();
    expect(status).toMatchObject({ planDigest, planText: expect.stringContaining(fingerprint) as string });
    await people(run);
    const report = await run.report();

    expect(report).toMatchObject({
      runbook: 'rootTokenCeremony',
      outcome: 'completed',
      parkings: [],
      findings: [],
      result: { cluster: 'east', recipientKey: fingerprint },
    });
    expect(report.steps.map(({ name }) => name)).toEqual([
      'Read and check the deployment',
      'Read and check again',
      'Invite the key holders',
      'Check key shares',
      'Generate root token on east',
      'Destroy the ceremony keys',
      'Write the report',
    ]);
    expect(report.leftToDo.join(' ')).toMatch(/gpg --decrypt.*revokes it/);
    expect(statuses(scenario, 'east', UPDATE)).toEqual([200, 200, 200]);
    await expectGoodToken(scenario, report);
    await expectFewEvents('rootTokenCeremony', run);
  });

  lane.it('refused: DR secondary, a key that cannot encrypt, a foreign attempt', async (scenario) => {
    const onSecondary = await start(scenario, { cluster: 'west' }, ceremonyWorkflowId('west'));
    expect((await onSecondary.failure()).message).toContain('no DR secondary (west): observed secondary');

    const { publicKey } = await openpgp.generateKey({
      userIDs: [{ name: 'Olga' }],
      type: 'ecc',
      curve: 'ed25519Legacy',
      subkeys: [],
      format: 'object',
    });
    const signOnly = Buffer.from(publicKey.write()).toString('base64');
    const blind = await start(scenario, { recipientPgpKey: signOnly });
    expect((await blind.failure()).message).toContain('a key that cannot encrypt');
    const own = Buffer.from((await newRecipient()).privateKey.write()).toString('base64');
    const exposed = await start(scenario, { recipientPgpKey: own });
    expect((await exposed.failure()).message).toContain('a PRIVATE key: treat it as exposed');
    const nonsense = await start(scenario, { recipientPgpKey: 'bm90IGEga2V5' });
    expect((await nonsense.failure()).message).toContain('not an OpenPGP key');

    const [node] = scenario.service.cluster('east').addresses;
    await fetch(`${node}/v1/sys/generate-root/attempt`, { method: 'POST', body: '{}' });
    const foreign = await start(scenario);
    expect(await foreign.failure()).toMatchObject({
      code: 'PRECONDITION_FAILED',
      message: expect.stringContaining(
        'generation slot free (east): observed an attempt of somebody else with a one-time',
      ) as string,
    });
    // Another's attempt is never cancelled.
    expect(statuses(scenario, 'east', CANCEL)).toEqual([]);
    await fetch(`${node}/v1/sys/generate-root/attempt`, { method: 'DELETE' });
    const dry = await start(scenario, { dryRun: true }, `dry-${scenario.name}`);
    expect(await dry.report()).toMatchObject({ outcome: 'planned' });
    expect(statuses(scenario, 'east', ATTEMPT)).toHaveLength(1);
  });

  lane.it('lost answer: attempt, a share in the middle, the last share: another token', async (scenario) => {
    const before = scenario.service.cluster('east').issuedSecrets.length;
    loseAnswer(scenario, 'east', ATTEMPT);
    loseAnswer(scenario, 'east', UPDATE, 2);
    loseAnswer(scenario, 'east', UPDATE, 3);
    const run = await start(scenario);
    await people(run);
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    expect(report.findings).toMatchObject([
      { severity: 'critical', code: 'orphan-root-token', next: expect.stringContaining('accessor') as string },
    ]);
    expect(statuses(scenario, 'east', ATTEMPT)).toEqual([0, 200]);
    expect(statuses(scenario, 'east', UPDATE)).toEqual([200, 0, 0, 200, 200, 200]);
    // No holder was asked again.
    expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
    expect(scenario.service.cluster('east').issuedSecrets.length).toBe(before + 2);
    await expectGoodToken(scenario, report);
  });

  lane.it('parked, retry: the burst, after its gate was too old', async (scenario) => {
    scenario.service.faults.add({ cluster: 'east', endpoint: ATTEMPT, action: { status: 403 } });
    const run = await start(scenario);
    await approveLongAgo(scenario, run, 'ceremony');
    await run.shares();
    await approveAgain(run, 'ceremony');
    const parked = await run.waitsFor('decision', ({ code }) => code === 'PERMISSION_DENIED');
    expect(parked).toMatchObject({ step: 'Generate root token on east', code: 'PERMISSION_DENIED' });
    await run.decide('retry');
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed' });
    expect(report.parkings.map(({ code }) => code)).toEqual(['NOT_APPROVED', 'PERMISSION_DENIED']);
    expect(report.gates).toHaveLength(2);
    expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
    await expectGoodToken(scenario, report);
  });

  lane.it('parked, abort: the burst; an attempt that came meanwhile is left to its owner', async (scenario) => {
    const run = await start(scenario);
    await run.approve('ceremony');
    await run.share('ada');
    await run.share('bert');
    // The recipient loses patience and begins by hand, with the very same key.
    const [node] = scenario.service.cluster('east').addresses;
    const body = JSON.stringify({ pgp_key: recipient.publicKey });
    await fetch(`${node}/v1/sys/generate-root/attempt`, { method: 'POST', body });
    await run.share('cleo');
    const parked = await run.waitsFor('decision');
    expect(parked).toMatchObject({ step: 'Generate root token on east', code: 'ATTEMPT_FOREIGN' });
    await run.decide('abort');
    const report = await run.report();
    expect(report.outcome).toBe('aborted');
    expect(report.steps.map(({ name }) => name)).toContain('Destroy the ceremony keys');
    expect(report.result).toBeUndefined();
    expect(statuses(scenario, 'east', CANCEL)).toEqual([]);
    await fetch(`${node}/v1/sys/generate-root/attempt`, { method: 'DELETE' });
  });

  lane.it('abort at: gate ceremony, which is rejected, and key shares', async (scenario) => {
    const rejected = await start(scenario);
    await rejected.approve('ceremony', 'henry', 'reject');
    expect(await rejected.report()).toMatchObject({ outcome: 'aborted', gates: [{ state: 'rejected' }] });
    const atShares = await start(scenario);
    await atShares.approve('ceremony');
    await atShares.share('ada');
    await atShares.waitsFor('shares', ({ held }) => held.length === 1);
    await atShares.control('abort', { reason: 'not today' });
    const report = await atShares.report();
    expect(report.outcome).toBe('aborted');
    expect(report.steps.map(({ name }) => name)).toContain('Destroy the ceremony keys');
    expect(statuses(scenario, 'east', ATTEMPT)).toEqual([]);
  });

  lane.it('a stop that comes with the answer to the last share drops no token', async (scenario) => {
    const run = await start(scenario);
    scenario.service.faults.add({
      ...{ cluster: 'east', endpoint: UPDATE, skip: 2 },
      action: async () => {
        await run.control('abort', { reason: 'not today' });
        // A query is answered behind the signal.
        await run.status();
      },
    });
    await people(run);
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'aborted', findings: [] });
    expect(report.leftToDo.join(' ')).toMatch(/stopped by grace.*Give the encrypted token/s);
    await expectGoodToken(scenario, report);
  });

  lane.it('works on a community edition, which has no replication status', async (scenario) => {
    const status = /^GET \/v1\/sys\/replication/;
    scenario.service.faults.add({ cluster: 'east', endpoint: status, action: { status: 404 }, times: Infinity });
    const run = await start(scenario);
    await people(run);
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    await expectGoodToken(scenario, report);
    scenario.shows(...told);
  });
});
