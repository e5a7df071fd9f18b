/** A root token reaches its recipient and nobody else: shares of separate holders, behind a gate, lost answers found out. */
import * as openpgp from 'openpgp';
import type { Report } from '../../src/contracts/report';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { callNode } from '../support/by-hand';
import { at, loseAnswers, refuse, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import type { Recipient } from '../support/recipient';
import { decrypted, newRecipient } from '../support/recipient';
import { Scenario } from '../support/scenario';
import type { Deed } from '../support/scenario';

const NAME = 'rootTokenCeremony';
const ATTEMPT = 'POST /v1/sys/generate-root/attempt';
const CANCEL = 'DELETE /v1/sys/generate-root/attempt';
const UPDATE = 'POST /v1/sys/generate-root/update';

const lane = new Lane(() => Scenario.start());
let recipient: Recipient;
const told: string[] = [];

const asked = (more: object = {}) => ({ cluster: 'east', recipientPgpKey: recipient.publicKey, ...more });
const start = (scenario: Scenario, ...deeds: readonly Deed[]) => scenario.begin(NAME, asked(), ...deeds);
const PEOPLE = ['approve ceremony', 'shares'] as const;

/** The token works: it is one of those that the cluster issued, and a root token. */
async function expectGoodToken(scenario: Scenario, report: Report): Promise<string> {
  const token = await decrypted(recipient, report);
  const east = scenario.service.cluster('east');
  expect(east.issuedSecrets).toContain(token);
  expect(east.tokens.identify(token, scenario.service.now())?.policies).toEqual(['root']);
  told.push(JSON.stringify(report));
  return token;
}

/** What somebody does at a node beside every runbook. */
async function attemptByHand(scenario: Scenario, method: 'POST' | 'DELETE', body: object = {}): Promise<void> {
  const [node = ''] = scenario.service.cluster('east').addresses;
  await callNode(node, method, 'sys/generate-root/attempt', { body });
}

describe('rootTokenCeremony', () => {
  beforeAll(async () => {
    recipient = await newRecipient();
  });
  runLanes(lane);

  const { it } = lane;

  it('no fault: its recipient alone reads it', async (scenario) => {
    const run = await start(scenario);
    const { planDigest } = await run.waitsFor('approval', ({ gate }) => gate === 'ceremony');
    // Nobody is asked for a share before the gate is open, and the approver sees to whom the token goes.
    const status = await run.status();
    expect(status.invitation).toBeUndefined();
    const fingerprint = recipient.privateKey.getFingerprint();
    expect(status).toMatchObject({ planDigest, planText: expect.stringContaining(fingerprint) as string });
    await run.do(...PEOPLE);
    const report = await run.report();

    const result = { cluster: 'east', recipientKey: fingerprint };
    expect(report).toMatchObject({ runbook: NAME, outcome: 'completed', parkings: [], findings: [], result });
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
    await expectFewEvents(NAME, run);
  });

  it('a key of an old kind is warned of, and its recipient reads the token', async (scenario) => {
    const old = await newRecipient({ type: 'rsa', rsaBits: 1024 });
    const run = await scenario.begin(NAME, asked({ recipientPgpKey: old.publicKey }));
    await run.waitsFor('approval', ({ gate }) => gate === 'ceremony');
    expect((await run.status()).planText).toContain('of an old or rare kind (RSA with 1024 bits)');
    await run.do(...PEOPLE);
    const token = await decrypted(old, await run.report());
    expect(scenario.service.cluster('east').issuedSecrets).toContain(token);
  });

  it('refused: DR secondary, a key that cannot encrypt, a foreign attempt; a dry run only reads', async (scenario) => {
    const keyOf = (key: openpgp.Key) => Buffer.from(key.write()).toString('base64');
    const { publicKey } = await openpgp.generateKey({
      userIDs: [{ name: 'Olga' }],
      ...({ type: 'ecc', curve: 'ed25519Legacy', subkeys: [], format: 'object' } as const),
    });
    const own = await newRecipient();
    for (const [more, said] of [
      [{ cluster: 'west' }, 'no DR secondary (west): observed secondary'],
      [{ recipientPgpKey: keyOf(publicKey) }, 'a key that cannot encrypt'],
      [{ recipientPgpKey: keyOf(own.privateKey) }, 'a PRIVATE key: treat it as exposed'],
      [{ recipientPgpKey: 'bm90IGEga2V5' }, 'not an OpenPGP key'],
    ] as const)
      expect((await (await scenario.run(NAME, asked(more))).failure()).message).toContain(said);

    await attemptByHand(scenario, 'POST');
    const foreign = "generation slot free (east): observed somebody else's attempt with a one-time";
    expect(await scenario.refusal(NAME, asked())).toContain(foreign);
    // Another's attempt is never cancelled.
    expect(statuses(scenario, 'east', CANCEL)).toEqual([]);
    await attemptByHand(scenario, 'DELETE');
    expect(await scenario.play(NAME, asked({ dryRun: true }))).toMatchObject({ outcome: 'planned' });
    expect(statuses(scenario, 'east', ATTEMPT)).toHaveLength(1);
  });

  it('lost answers: attempt, a share in the middle, the last share: another token, and the one that nobody holds is named', async (scenario) => {
    const before = scenario.service.cluster('east').issuedSecrets.length;
    loseAnswers(scenario, { east: [ATTEMPT, [UPDATE, 2], [UPDATE, 3]] });
    const report = await (await start(scenario, ...PEOPLE)).report();
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

  it('parked, retry: the generation, after its gate was too old and no holder gave a share twice', async (scenario) => {
    refuse(scenario, 'east', ATTEMPT, 403, 1);
    const run = await start(scenario);
    await approveLongAgo(scenario, run, 'ceremony');
    await run.shares();
    await approveAgain(run, 'ceremony');
    await run.waitsFor('decision', ({ code }) => code === 'PERMISSION_DENIED');
    await run.do('retry Generate root token on east');
    const report = await run.report();
    expect(report.outcome).toBe('completed');
    expect(report.parkings.map(({ code }) => code)).toEqual(['NOT_APPROVED', 'PERMISSION_DENIED']);
    expect(report.gates).toHaveLength(2);
    expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
    await expectGoodToken(scenario, report);
  });

  it('parked, abort: the generation; an attempt that came meanwhile is left to its owner', async (scenario) => {
    const run = await start(scenario, 'approve ceremony');
    await run.shares(['ada', 'bert']);
    // The recipient loses patience and begins by hand, with the very same key.
    await attemptByHand(scenario, 'POST', { pgp_key: recipient.publicKey });
    await run.share('cleo');
    expect((await run.parks('Generate root token on east')).code).toBe('ATTEMPT_FOREIGN');
    await run.do('abort');
    const report = await run.report();
    expect(report.outcome).toBe('aborted');
    expect(report.steps.map(({ name }) => name)).toContain('Destroy the ceremony keys');
    expect(report.result).toBeUndefined();
    expect(statuses(scenario, 'east', CANCEL)).toEqual([]);
    await attemptByHand(scenario, 'DELETE');
  });

  it('a stop that comes with the answer to the last share drops no token: the result of the stopped run has it', async (scenario) => {
    const run = await start(scenario);
    const stop = async () => {
      await run.control('abort', { reason: 'not today' });
      // A query is answered behind the signal.
      await run.status();
    };
    at(scenario, 'before', 'east', UPDATE, stop, 3);
    await run.do(...PEOPLE);
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'aborted', findings: [] });
    expect(report.leftToDo.join(' ')).toMatch(/stopped by grace.*Give the encrypted token/s);
    // A later ceremony of the cluster has the same Workflow ID.
    expect(report.leftToDo.join()).toContain(`report ${report.workflowId} --run-id ${report.runId} --format json`);
    await expectGoodToken(scenario, report);
  });

  it('works on a community edition, which has no replication status', async (scenario) => {
    const endpoint = /^GET \/v1\/sys\/replication/;
    scenario.service.faults.add({ cluster: 'east', endpoint, action: { status: 404 }, times: Infinity });
    const report = await (await start(scenario, ...PEOPLE)).report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    await expectGoodToken(scenario, report);
    scenario.shows(...told);
  });
});
