/**
 * Version 2.0 and later: where no credential in hand lets a ceremony in, the generation step parks and says exactly what
 * to open; retry goes on, and the report says what is left open.
 */
import { writeFileSync } from 'node:fs';
import { until } from '../support/by-hand';
import { CHANGING, refuse, statuses } from '../support/faults';
import { FAILOVER_LIMITS, expectServesAlone, failoverPeople, startFailover } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { ceremonyToken } from '../support/least-privilege';
import { newRecipient } from '../support/recipient';
import { replayRun } from '../support/replay';
import { pair, Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

const ATTEMPT = '/v1/sys/replication/dr/secondary/generate-operation-token/attempt';
const DR_CALLS = ['generate-operation-token'] as const;

const open = (limits: Readonly<Record<string, string>> = {}) =>
  Scenario.start({ topology: pair(1, '2.0.3+ent'), limits });
const tokens = new Lane(() => open());
const outage = new Lane(() => open(FAILOVER_LIMITS));
const failover = new Lane(() => open(FAILOVER_LIMITS));

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
function streamed({ service }: Scenario): Promise<boolean> {
  const root = (name: string) => service.cluster(name).snapshotState().dr.merkleRoot;
  return until('west has everything', () => root('east') === root('west'));
}

const closed = (run: TestRun, after = 0) =>
  run.waitsFor('decision', ({ code, parkingNo }) => code === 'CEREMONY_CLOSED' && parkingNo > after);

describe('a ceremony without a credential that is accepted, from version 2.0', () => {
  runLanes(tokens, outage, failover);

  tokens.it(
    'parks with the exact line, signal and nodes; with a credential that appears, retry continues with the collected shares',
    async (scenario) => {
      useOrdinaryCredential(scenario);
      const run = await scenario.tokenCeremony();
      await run.shares();
      const { next = '' } = await closed(run);
      expect(next).toContain('enable_unauthenticated_access = ["generate-operation-token"]');
      expect(next).toMatch(/kill -HUP/);
      for (const address of scenario.service.cluster('west').addresses) expect(next).toContain(address);

      writeFileSync(
        scenario.tokenFile,
        ceremonyToken(scenario.service.cluster('east'), scenario.inventory, scenario.name),
      );
      await streamed(scenario);
      await run.decide('retry');
      const report = await run.report();
      expect(report.outcome).toBe('completed');
      await replayRun(run);
    },
  );

  tokens.it('a root token of a primary needs generate-root opened, and nothing else', async (scenario) => {
    useOrdinaryCredential(scenario, ['sys/generate-root/attempt', 'sys/generate-root/update']);
    const east = scenario.service.cluster('east');
    const { publicKey } = await newRecipient();
    const input = { cluster: 'east', recipientPgpKey: publicKey };
    const run = await scenario.begin('rootTokenCeremony', input, 'approve ceremony', 'shares');
    const { next, parkingNo } = await closed(run);
    expect(next).toContain('["generate-root"]');
    east.unauthenticatedAccess = DR_CALLS;
    await run.decide('retry');
    await closed(run, parkingNo);
    east.unauthenticatedAccess = ['generate-root'];
    await run.decide('retry');
    const report = await run.report();
    east.unauthenticatedAccess = [];
    expect(report).toMatchObject({ outcome: 'completed' });
  });

  outage.it(
    'a switchover says it in its plan; inside an outage the run does not block: people go another way',
    async (scenario) => {
      useOrdinaryCredential(scenario);
      const west = scenario.service.cluster('west');
      await streamed(scenario);
      const dry = await scenario.start({ dryRun: true, tokenSource: 'ceremony' }, `plan:${scenario.name}`);
      expect((await dry.report()).preconditions).toContainEqual(
        expect.objectContaining({
          name: 'ceremony calls allowed',
          cluster: 'west',
          verdict: 'warn',
          observed: 'refused: every credential that the inventory names (version 2.0.3+ent)',
          next: expect.stringContaining('break-glass') as string,
        }),
      );
      scenario.limit({ promote: '1s' });
      const refusal = refuse(scenario, 'west', CHANGING.promote, 503);
      const run = await scenario.start({ go: 'auto', onStuck: 'park', tokenSource: 'ceremony' });
      expect(await run.planText()).toContain('From version 2.0 the ceremony calls of west, east need a credential');
      await run.people({ go: false });
      await closed(run);
      expect(scenario.calls('east', '/primary/demote')).toBe(0);
      west.unauthenticatedAccess = DR_CALLS;
      await run.do('retry', 'promote-back Promote west');
      const { choices, parkingNo } = await closed(run, 1);
      expect(choices.map(({ action }) => action)).toEqual(
        expect.arrayContaining(['retry', 'promote-secondary', 'leave']),
      );
      refusal.remove();
      scenario.limit();
      await run.decide('promote-secondary');
      // Service is back; the former primary is re-protected with a token of its own.
      await closed(run, parkingNo);
      scenario.service.cluster('east').unauthenticatedAccess = DR_CALLS;
      await run.decide('retry');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed' });
      await expectServesAlone(scenario, 'west');
      await replayRun(run);
    },
  );

  failover.it('a failover is not refused for want of a credential: it parks with what to do', async (scenario) => {
    useOrdinaryCredential(scenario);
    const west = scenario.service.cluster('west');
    await streamed(scenario);
    await scenario.service.cluster('east').kill();
    const run = await startFailover(scenario, { to: 'west', tokenSource: 'ceremony' });
    await failoverPeople(run);
    await closed(run);
    west.unauthenticatedAccess = DR_CALLS;
    await run.decide('retry');
    const report = await run.report();
    expect(report.outcome).toBe('completed');
    await expectServesAlone(scenario, 'west');
    expect(statuses(scenario, 'west', `POST ${ATTEMPT}`)).toEqual([200]);
  });
});
