/** Clusters that unseal themselves: holders have recovery key shares, and nobody unseals a node by hand. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { requestFacts, verifyRequest } from '../../src/documents/ceremony-request';
import { waitingText } from '../../src/words/status';
import { sealedNodes } from '../support/by-hand';
import { expectServiceOn } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { ceremonyToken } from '../support/least-privilege';
import { Scenario, temporaryDirectory } from '../support/scenario';

const ceremonyFile = join(temporaryDirectory('unseal'), 'ceremony-token');
const auto = { seal: { type: 'awskms' } } as const;

/** The secondary unseals itself; its recovery keys are the unseal keys of its primary (facts 8.9). */
const version = { nodes: 3, version: '2.0.3+ent' };
const mixed = new Lane(() =>
  Scenario.start({
    topology: {
      clusters: [
        { ...version, name: 'east' },
        { ...version, ...auto, name: 'west' },
      ],
    },
    cluster: () => ({ ceremonyCredential: { file: ceremonyFile } }),
  }),
);
const joining = new Lane(() => {
  const clusters = [
    { name: 'east', nodes: 1, ...auto },
    { name: 'west', nodes: 3, ...auto },
  ];
  return Scenario.start({ topology: { clusters, dr: [] } });
});

describe('auto-unseal', () => {
  runLanes(mixed, joining);

  mixed.it('a switchover asks for recovery key shares, and a restarted node comes back by itself', async (scenario) => {
    const { service } = scenario;
    // From version 2.0 the ceremony calls carry the credential that the inventory gives for them.
    writeFileSync(ceremonyFile, ceremonyToken(service.cluster('east'), scenario.inventory, scenario.name));
    await service.cluster('west').killNode(2);
    const run = await scenario.start();
    const planText = await run.planText();
    const invitation = await run.invitation();
    expect(planText).toContain("from the holders' recovery key shares");
    expect(planText).toContain('They unseal themselves once they run');
    const waiting = await run.waitsFor('shares');
    expect(waiting).toMatchObject({ recovery: true, threshold: 3 });
    expect(waitingText('w', waiting, String).title).toBe('Waiting for 3 recovery key shares');
    const pins = [{ environment: 'test', ...scenario.workersKey }];
    const request = await verifyRequest(invitation, { pins, now: Date.now(), holder: 'ada' });
    expect(JSON.stringify(requestFacts(request, Date.now()))).toContain(
      'it unseals itself, so your share is a RECOVERY key share',
    );
    await run.people();
    const report = await run.report();
    // As the service manager does, and nobody unseals it.
    await service.cluster('west').startNode(2, { sealed: true });

    expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'none' } });
    expect(scenario.state('west').nodes).toEqual([1, 2, 3].map(() => ({ up: true, sealed: false })));
    expect(report.finalState[1]?.seal).toEqual({ type: 'awskms', recovery: true, threshold: 3, shares: 5 });
    // Whether the calls are open to everybody is looked at by reading without a token.
    const attempts = service.calls.filter(
      ({ path, method }) => path.includes('generate-operation-token') && method !== 'GET',
    );
    expect(attempts.length).toBeGreaterThan(0);
    expect(attempts.every(({ token }) => token !== undefined)).toBe(true);
    await expectServiceOn(scenario, 'west');
  });

  mixed.it('back, it asks for key shares of the seal that the other one has: the same ones', async (scenario) => {
    const back = await scenario.start({ to: 'east' });
    expect(await back.waitsFor('shares')).not.toHaveProperty('recovery');
    await back.control('abort', { reason: 'seen' });
    expect((await back.report()).outcome).toBe('aborted');
  });

  joining.it('standbys of a new secondary are restarted, and no share is asked for them', async (scenario) => {
    const run = await scenario.run('drSecondaryOnboarding', { primary: 'east', secondary: 'west' });
    const planText = await run.planText();
    expect(planText).toContain(
      'The recovery keys of west are gone too: the recovery key shares of east are its recovery keys',
    );
    expect(planText).toContain('restart the service on each, which then unseals itself (awskms)');
    await run.approve('wipe');
    const { what, instructions } = await run.waitsFor('action');
    expect(what).toContain('restarted if they unseal themselves');
    expect(instructions.join('\n')).toContain('Restart a node that unseals itself instead');
    for (const { index } of await sealedNodes(scenario, 'west')) {
      await scenario.service.cluster('west').killNode(index);
      await scenario.service.cluster('west').startNode(index, { sealed: true });
    }
    expect((await run.report()).outcome).toBe('completed');
    expect(scenario.state('west').dr).toMatchObject({ connectedTo: 'east', state: 'stream-wals' });
  });
});
