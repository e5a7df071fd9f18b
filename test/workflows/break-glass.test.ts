/**
 * Version 2.0 and later: where no credential in hand lets a ceremony in, people are told exactly what to open, the run
 * goes on by itself, and it ends only when it is closed again, or says loudly that it is not.
 */
import { takeOverBy } from '../support/take-over';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { CHANGING, statuses } from '../support/faults';
import { FAILOVER_LIMITS, expectServesAlone, failoverPeople, startFailover } from '../support/failover';
import { Lane, Lanes, LANE_TEST_MS } from '../support/lane';
import { newRecipient } from '../support/recipient';
import { replayRun } from '../support/replay';
import { pair, Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

jest.setTimeout(LANE_TEST_MS);

const ATTEMPT = '/v1/sys/replication/dr/secondary/generate-operation-token/attempt';
const DR_CALLS = ['generate-operation-token'] as const;

const open = (limits: Readonly<Record<string, string>> = {}) =>
  Scenario.start({ topology: pair(1, '2.0.3+ent'), limits });
const tokens = new Lane(() => open());
const switchover = new Lane(() => open());
const outage = new Lane(() => open(FAILOVER_LIMITS));
const failover = new Lane(() => open({ ...FAILOVER_LIMITS, takeBack: '1s' }));

/** A credential that may do everything and is no root token: no DR secondary takes it. */
function useOrdinaryCredential(scenario: Scenario, without: readonly string[] = []): void {
  const east = scenario.service.cluster('east');
  const capabilities = ['create', 'read', 'update', 'delete', 'list', 'sudo'];
  east.writePolicy('everything', [
    { path: '*', capabilities },
    ...without.map((path) => ({ path, capabilities: ['deny'] })),
  ]);
  writeFileSync(scenario.tokenFile, east.createToken({ policies: ['everything'], ttlMs: 8 * 3_600_000 }));
}

/** Until the DR secondary has everything, the new credential too. */
async function streamed({ service }: Scenario): Promise<void> {
  const root = (name: string) => service.cluster(name).snapshotState().dr.merkleRoot;
  while (root('east') !== root('west')) await delay(20);
}

const opens = (run: TestRun, cluster: string) =>
  run.waitsFor('action', ({ what }) => what.startsWith(`the ceremony calls of ${cluster} are opened`));
const closes = (run: TestRun, cluster: string) =>
  run.waitsFor('action', ({ what }) => what.startsWith(`the ceremony calls of ${cluster} are closed`));

describe('the break-glass of version 2.0', () => {
  const lanes = new Lanes(tokens, switchover, outage, failover);
  beforeAll(() => lanes.start());
  afterAll(() => lanes.ended());

  it(
    'a ceremony alone waits with the exact line, signal and nodes; a credential that appears does as well',
    tokens.test(async (scenario) => {
      useOrdinaryCredential(scenario);
      const input = { deployment: scenario.name, cluster: 'west', uses: ['dr.promote'], reason: 'a token' };
      const run = await scenario.startRunbook('operationTokenCeremony', input, 'ceremony:west');
      for (const holder of ['ada', 'bert', 'cleo']) await run.share(holder);
      const { instructions } = await opens(run, 'west');
      const text = instructions.join('\n');
      expect(text).toContain('enable_unauthenticated_access = ["generate-operation-token"]');
      expect(text).toMatch(/kill -HUP/);
      for (const address of scenario.service.cluster('west').addresses) expect(text).toContain(address);
      expect((await run.status()).findings).toContainEqual(expect.objectContaining({ code: 'break-glass' }));

      // The primary's root token is such a credential, too.
      writeFileSync(scenario.tokenFile, scenario.service.cluster('east').rootToken);
      const report = await run.report();
      expect(report.outcome).toBe('completed');
      expect(report.findings.map(({ code }) => code)).not.toContain('break-glass-left-open');
      expect(report.steps.map(({ name }) => name)).toContain('See that the ceremony calls of west are closed again');
      await replayRun(run);
      expect(await scenario.leaks([JSON.stringify(report)])).toEqual([]);
    }),
  );

  it(
    'a run that ends early waits for nobody: it looks, and what is open is a critical finding with what to do',
    tokens.test(async (scenario) => {
      useOrdinaryCredential(scenario);
      const west = scenario.service.cluster('west');
      const input = { deployment: scenario.name, cluster: 'west', uses: ['dr.promote'], reason: 'a token' };
      const run = await scenario.startRunbook('operationTokenCeremony', input, 'ceremony:west');
      for (const holder of ['ada', 'bert', 'cleo']) await run.share(holder);
      await opens(run, 'west');
      scenario.service.faults.add({ cluster: 'west', endpoint: `POST ${ATTEMPT}`, action: { status: 403 } });
      west.configureUnauthenticatedAccess(DR_CALLS);
      await run.decide('abort');
      const report = await run.report();
      west.configureUnauthenticatedAccess([]);
      expect(report.outcome).toBe('aborted');
      expect(report.findings).toContainEqual(
        expect.objectContaining({ severity: 'critical', code: 'break-glass-left-open' }),
      );
      expect(report.leftToDo.join('\n')).toContain('SIGHUP');
    }),
  );

  it(
    'what people opened before the burst is taken back, too: the run waits for it',
    tokens.test(async (scenario) => {
      useOrdinaryCredential(scenario);
      const west = scenario.service.cluster('west');
      west.configureUnauthenticatedAccess(DR_CALLS);
      const input = { deployment: scenario.name, cluster: 'west', uses: ['dr.promote'], reason: 'a token' };
      const run = await scenario.startRunbook('operationTokenCeremony', input, 'ceremony:west');
      for (const holder of ['ada', 'bert', 'cleo']) await run.share(holder);
      expect((await closes(run, 'west')).instructions.join('\n')).toContain('take "generate-operation-token" out of');
      west.configureUnauthenticatedAccess([]);
      const report = await run.report();
      expect(report.outcome).toBe('completed');
      expect(report.findings.map(({ code }) => code)).not.toContain('break-glass');
      await replayRun(run);
    }),
  );

  it(
    'a root token of a primary needs generate-root opened, and nothing else',
    tokens.test(async (scenario) => {
      useOrdinaryCredential(scenario, ['sys/generate-root/attempt', 'sys/generate-root/update']);
      const east = scenario.service.cluster('east');
      const { publicKey } = await newRecipient();
      const input = { deployment: scenario.name, cluster: 'east', recipientPgpKey: publicKey, reason: 'a root token' };
      const run = await scenario.startRunbook('rootTokenCeremony', input, 'ceremony:east');
      await run.approve('ceremony');
      for (const holder of ['ada', 'bert', 'cleo']) await run.share(holder);
      expect((await opens(run, 'east')).instructions.join('\n')).toContain('["generate-root"]');
      east.configureUnauthenticatedAccess(DR_CALLS);
      east.configureUnauthenticatedAccess(['generate-root']);
      await closes(run, 'east');
      east.configureUnauthenticatedAccess([]);
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed' });
      expect(report.findings.map(({ code }) => code)).not.toContain('break-glass-left-open');
    }),
  );

  it(
    'a switchover says it in its plan, waits for each cluster when its turn comes, and for both to be closed',
    switchover.test(async (scenario) => {
      useOrdinaryCredential(scenario);
      const [east, west] = ['east', 'west'].map((name) => scenario.service.cluster(name));
      await streamed(scenario);
      const dry = await scenario.start({ dryRun: true, tokenSource: 'ceremony' }, `plan:${scenario.name}`);
      expect((await dry.report()).preconditions).toContainEqual(
        expect.objectContaining({
          name: 'ceremony calls allowed',
          cluster: 'west',
          verdict: 'warn',
          observed: 'refused: what the inventory names (version 2.0.3+ent)',
          next: expect.stringContaining('break-glass') as string,
        }),
      );
      const run = await scenario.start({ go: 'auto', tokenSource: 'ceremony' });
      const { planText = '' } = await run.until('a plan', (status) => (status.planText ? status : undefined));
      expect(planText).toContain('From version 2.0 the ceremony calls of west, east need a credential');
      await run.people({ go: false });
      await opens(run, 'west');
      expect(scenario.calls('east', '/primary/demote')).toBe(0);
      west?.configureUnauthenticatedAccess(DR_CALLS);
      await opens(run, 'east');
      east?.configureUnauthenticatedAccess(DR_CALLS);
      await closes(run, 'west');
      west?.configureUnauthenticatedAccess([]);
      await closes(run, 'east');
      east?.configureUnauthenticatedAccess([]);
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'none' } });
      const about = report.preconditions.filter(({ name }) => name === 'ceremony calls allowed');
      expect(about).toEqual([
        // As it was read right before the demotion.
        expect.objectContaining({
          cluster: 'west',
          verdict: 'warn',
          next: expect.stringContaining('take enable_unauthenticated_access back') as string,
        }),
      ]);
      expect(report.findings.map(({ code }) => code)).not.toContain('break-glass-left-open');
      await replayRun(run);
      expect(await scenario.leaks([JSON.stringify(report)])).toEqual([]);
    }),
  );

  it(
    'inside of an outage nobody is held by the wait: people go another way, and a failover takes the run over',
    outage.test(async (scenario) => {
      useOrdinaryCredential(scenario);
      const west = scenario.service.cluster('west');
      await streamed(scenario);
      scenario.limit({ promote: '1s' });
      const refusal = scenario.service.faults.add({
        cluster: 'west',
        endpoint: CHANGING.promote,
        action: { status: 503 },
        times: Infinity,
      });
      const run = await scenario.start({ go: 'auto', onStuck: 'park', tokenSource: 'ceremony' });
      await run.people({ go: false });
      await opens(run, 'west');
      west.configureUnauthenticatedAccess(DR_CALLS);
      await run.decide('promote-back', 'Promote west');
      await opens(run, 'east');
      await run.decide('promote-secondary', 'Open the ceremony calls of east in the outage');
      await run.decide('promote-back', 'Promote west');
      const { choices } = await run.waitsFor('decision', ({ step }) => step.startsWith('Open the ceremony calls'));
      expect(choices.map(({ action }) => action)).toEqual(['promote-secondary', 'leave']);
      refusal.remove();
      scenario.limit();
      const takeOverDocument = await takeOverBy(run);
      const asked = { deployment: scenario.name, reason: 'no primary', takeOver: true, takeOverDocument };
      await scenario.startRunbook('drFailover', asked, `ui-${randomUUID()}`);
      await run.approve('promote');
      await closes(run, 'west');
      west.configureUnauthenticatedAccess([]);
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', takenOver: { by: 'grace' } });
      await expectServesAlone(scenario, 'west');
      await replayRun(run);
      expect(await scenario.leaks([JSON.stringify(report)])).toEqual([]);
    }),
  );

  it(
    'a failover is not refused for want of a credential; what is not closed again is a critical finding with what to do',
    failover.test(async (scenario) => {
      useOrdinaryCredential(scenario);
      const west = scenario.service.cluster('west');
      await streamed(scenario);
      await scenario.service.cluster('east').kill();
      const run = await startFailover(scenario, { to: 'west', tokenSource: 'ceremony' });
      await failoverPeople(run);
      await opens(run, 'west');
      west.configureUnauthenticatedAccess(DR_CALLS);
      const report = await run.report();
      expect(report.outcome).toBe('completed');
      expect(report.steps.map(({ name }) => name)).toContain('See that the ceremony calls of west are closed again');
      const left = report.findings.filter(({ code }) => code === 'break-glass-left-open');
      expect(left).toEqual([expect.objectContaining({ severity: 'critical' })]);
      expect(left[0]?.next).toContain('take "generate-operation-token" out of enable_unauthenticated_access');
      expect(report.leftToDo.join('\n')).toContain('SIGHUP');
      await expectServesAlone(scenario, 'west');
      expect(statuses(scenario, 'west', `POST ${ATTEMPT}`)).toEqual([200]);
      expect(await scenario.leaks([JSON.stringify(report)])).toEqual([]);
    }),
  );
});
