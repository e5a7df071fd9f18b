/** What an ending scenario reports. */
import { Lane } from './lane';
import { Scenario } from './scenario';

describe('a secret that people were shown', () => {
  const shown = (scenario: Scenario) => scenario.shows(scenario.service.cluster('east').rootToken);
  const found = 'what was shown: root token of east';

  it('is found when a scenario ends, unless it was handed over', async () => {
    const [one, other] = await Promise.all([Scenario.start({ worker: 'none' }), Scenario.start({ worker: 'none' })]);
    shown(one);
    await expect(one.stop()).rejects.toThrow(found);
    shown(other);
    for (const { rootToken } of other.service.clusters.values()) other.handsOver(rootToken);
    await other.stop();
  });

  it('is found in the history of an earlier run under the same Workflow ID', async () => {
    const scenario = await Scenario.start({ worker: 'none' });
    const first = await scenario.start({ reason: scenario.service.cluster('east').rootToken });
    await first.handle.terminate();
    await scenario.start();
    await expect(scenario.stop()).rejects.toThrow(found);
  });

  it.each(['passed', 'failed'])('is found when a lane ends whose last test %s', async (how) => {
    const lane = new Lane(() => Scenario.start({ worker: 'none' }));
    const first = lane.test((scenario) => Promise.resolve(shown(scenario)))();
    const last = lane.test(() => (how === 'passed' ? Promise.resolve() : Promise.reject(new Error(how))))();
    await expect(lane.run()).rejects.toThrow(found);
    await first;
    expect(await last.then(() => 'passed').catch(({ message }: Error) => message)).toBe(how);
  });
});
