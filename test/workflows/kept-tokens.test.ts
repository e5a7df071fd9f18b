/** Tokens of an `operationTokenCeremony`: kept for the next run, or a person's; both end proven dead. */
import { CHANGING, expectServiceOn, refuse, statuses } from '../support/faults';
import { FAILOVER_LIMITS, bringBack, expectServesAlone, startFailover } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { renderMarkdown } from '../../src/report/render';
import { provide } from '../support/provided';
import { decrypted, newRecipient } from '../support/recipient';
import { Scenario } from '../support/scenario';

const USES = ['dr.promote', 'dr.update-primary'] as const;
const kept = new Lane(() => Scenario.start({ limits: FAILOVER_LIMITS }));

const ceremony = (scenario: Scenario, more: object) => scenario.run('operationTokenCeremony', { uses: USES, ...more });
const keep = (scenario: Scenario, cluster: string) =>
  scenario.leaveToken(cluster, [...USES, 'dr.operation-token.delete'], {
    until: new Date(Date.now() + 7_200_000).toISOString(),
  });

describe('a token that the record keeps', () => {
  const { it } = kept;
  runLanes(kept);

  it('serves the next switchover: holders are asked for the other cluster alone', async (scenario) => {
    const made = await ceremony(scenario, { cluster: 'west', keepFor: '2h' });
    await made.shares();
    const left = await made.report();
    expect(left).toMatchObject({ outcome: 'completed', findings: [], gates: [] });
    expect(left.leftToDo).toEqual([
      expect.stringContaining('The record keeps it for the next drSwitchover or drFailover, for 2h'),
    ]);
    expect(left.tokens).toMatchObject([{ cluster: 'west', state: 'kept' }]);
    expect(renderMarkdown(left)).not.toContain('Later: the next run');
    scenario.service.calls.length = 0;
    const run = await scenario.start({ go: 'auto' });
    const planText = await run.planText();
    expect(planText).toContain('The record keeps an operation token for west, generated at');
    expect(planText).toContain('no holder is asked for west');
    const { targets } = await run.until('asked', ({ asked }) => asked);
    expect(targets.map(({ cluster }) => cluster)).toEqual(['east']);
    await run.people({ go: false });
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    expect(report.steps.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['Claim the kept operation token of west', 'Verify the operation token of west']),
    );
    expect(statuses(scenario, 'west', CHANGING.startAttempt)).toEqual([]);
    expect(report.tokens.map(({ cluster, state }) => [cluster, state])).toContainEqual(['west', 'kept']);
    await expectServiceOn(scenario, 'west');
  });

  it('serves the next failover: no holder is asked for a share', async (scenario) => {
    await keep(scenario, 'east');
    scenario.service.calls.length = 0;
    await scenario.service.cluster('west').kill();
    const run = await startFailover(scenario);
    await run.approve('promote');
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    expect(report.holders ?? []).toEqual([]);
    // The run's own right after the approval, before anything else is waited for.
    const names = report.steps.map(({ name }) => name);
    const [taken, again] = ['Claim the kept operation token of east', 'Read and check again'].map((name) =>
      names.indexOf(name),
    );
    expect([taken !== -1, (again ?? -1) > (taken ?? 0)]).toEqual([true, true]);
    expect(statuses(scenario, 'east', CHANGING.startAttempt)).toEqual([]);
    expect(statuses(scenario, 'east', CHANGING.promote)).toEqual([200]);
    await expectServesAlone(scenario, 'east');
  });

  it('that its cluster no longer accepts is found out before the outage: holders are asked', async (scenario) => {
    await bringBack(scenario, 'west', 'east');
    await keep(scenario, 'west');
    refuse(scenario, 'west', 'POST /v1/sys/replication/dr/secondary/merkle-check');
    const run = await scenario.start({ go: 'auto' });
    await run.people({ go: false });
    await run.until('asked again', ({ asked }) => asked?.targets.length === 2);
    scenario.service.faults.clear();
    await run.shares();
    await run.until('another plan', ({ waiting }) => waiting.some((each) => each.for === 'approval'));
    await run.approve('plan');
    const report = await run.report();
    expect(report.outcome).toBe('completed');
    expect(report.findings.map(({ code }) => code)).toContain('kept-token-refused');
    await expectServiceOn(scenario, 'west');
  });

  it('a token for a person is approved, read by them alone, and deleted when they give it', async (scenario) => {
    const recipient = await newRecipient();
    const run = await ceremony(scenario, { cluster: 'east', recipient: recipient.publicKey });
    expect(await run.planText()).toContain(recipient.privateKey.getFingerprint());
    expect(statuses(scenario, 'east', CHANGING.startAttempt).length).toBe(0);
    await run.do('approve ceremony', 'shares');
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', findings: [], parkings: [] });
    const token = await decrypted(recipient, report);
    expect(scenario.service.cluster('east').issuedSecrets).toContain(token);
    expect(report.leftToDo.join()).toContain('runbook start operationTokenDisposal --input');
    expect(report.leftToDo.join()).not.toMatch(/root token|not proven deleted/);
    expect(report.tokens).toMatchObject([{ cluster: 'east', state: 'handed-over' }]);

    const disposal = await scenario.run('operationTokenDisposal', { provided: 'east' });
    const asked = await disposal.waitsFor('action');
    expect(asked.what).toContain('the operation token of east that a person holds, which is to be deleted');
    expect(asked.instructions.join()).toContain('Do not generate another one');
    await provide(scenario, disposal, 'east', { token });
    expect(await disposal.report()).toMatchObject({
      ...{ outcome: 'completed', leftToDo: [] },
      result: { outcome: 'deleted' },
    });
    expect(scenario.state('east').operationTokens).toBe(0);

    // The same token once more: whatever says how the disposal ended says the same.
    const again = await scenario.run('operationTokenDisposal', { provided: 'east' });
    await provide(scenario, again, 'east', { token });
    const refused = await again.report();
    expect(refused).toMatchObject({ outcome: 'completed', result: { outcome: 'refused', deleted: 0 } });
    expect(refused.leftToDo).toEqual([expect.stringContaining('east refused the token')]);
    expect(JSON.stringify(refused.findings)).not.toContain('Generate one');
  });
});
