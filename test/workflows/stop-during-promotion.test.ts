import { reportOf } from '../support/reports';
import { pair, openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

describe('a stop of the run', () => {
  let scenario: Scenario;
  openScenario((opened) => (scenario = opened), { topology: pair() });

  it('is taken once, and nothing is repeated that looks like a secret', async () => {
    const run = await scenario.start({ go: 'auto' });
    await run.waitsFor('approval');
    const pasted = 'a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9011';
    await run.handle.signal('pause', { by: 'grace', reason: pasted });
    await run.control('abort', { reason: 'enough' });
    const report = await run.report();

    expect(report.receipts.map(({ signal, code }) => [signal, code])).toEqual(
      expect.arrayContaining([
        ['pause', 'plain-text-share'],
        ['abort', 'accepted'],
      ]),
    );
    expect(JSON.stringify(report)).not.toContain(pasted);
  });

  it('that comes during the promotion asks nobody and counts when service is back; the report says what is not protected', async () => {
    const run = await scenario.start({ go: 'auto' });
    scenario.service.faults.add({
      cluster: 'west',
      endpoint: 'POST /v1/sys/replication/dr/secondary/promote',
      when: 'after',
      action: async () => {
        await run.control('abort', { reason: 'second thoughts' });
      },
    });
    await run.people({ go: false });
    const report = await run.report();

    expect(report.outcome).toBe('aborted');
    expect(report.parkings).toEqual([]);
    expect(report.outage?.endedBy).toBe('service-ready');
    expect(scenario.state('west').dr.mode).toBe('primary');
    expect(scenario.state('east').dr.mode).toBe('secondary');
    expect(report.leftToDo.join('\n')).toMatch(/east/);
    expect(await reportOf(run)).toMatchObject({ outcome: 'aborted', leftToDo: report.leftToDo });
    expect(await scenario.leaks([JSON.stringify(report)])).toEqual([]);
  });
});
