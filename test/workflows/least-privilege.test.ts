/** The printed policies are enough: a switchover with tokens that have exactly these. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { drPrimaries } from '../support/faults';
import { printedRules, writePrintedPolicy } from '../support/least-privilege';
import { openScenario, temporaryDirectory } from '../support/scenario';
import type { Scenario } from '../support/scenario';

jest.setTimeout(180_000);
const directory = temporaryDirectory('least-privilege');
const batchFile = join(directory, 'batch-token');

describe('tokens with exactly the printed policies', () => {
  let scenario: Scenario;

  function writePolicies(): void {
    const { service, inventory, name } = scenario;
    const east = service.cluster('east');
    writePrintedPolicy(east, 'runbooks', printedRules(inventory, name));
    writePrintedPolicy(east, 'runbooks-readiness', printedRules(inventory, name, 'credential', ['readiness']));
    writePrintedPolicy(east, 'runbooks-batch', printedRules(inventory, name, 'batchToken'));
  }

  const tokenOf = (cluster: string, policy: string, type: 'service' | 'batch' = 'service'): string =>
    scenario.service.cluster(cluster).createToken({ policies: [policy], type, ttlMs: 8 * 3_600_000 });

  openScenario((opened) => (scenario = opened), {
    topology: {
      mounts: ['kv/', 'secret/'],
      // The harder way: the performance secondary has to be re-pointed, with its filter.
      readings: { performanceSecondariesFollow: false },
      clusters: ['east', 'west', 'europe'].map((name) => ({ name, nodes: 1 })),
      performance: {
        primary: 'east',
        secondaries: [{ name: 'europe', filter: { mode: 'deny', paths: ['secret/'] } }],
      },
      dr: [{ primary: 'east', secondaries: ['west'] }],
    },
    drSets: { main: ['east', 'west'], eu: ['europe'] },
    cluster: () => ({ batchToken: { file: batchFile } }),
  });
  beforeAll(() => writePolicies());

  it('the one for readiness is refused before anything is touched', async () => {
    writeFileSync(scenario.tokenFile, tokenOf('east', 'runbooks-readiness'));
    writeFileSync(batchFile, tokenOf('east', 'runbooks-batch', 'batch'));
    const report = await (await scenario.start({ dryRun: true }, `plan:${scenario.name}`)).report();
    const failed = report.preconditions.filter(({ verdict }) => verdict === 'fail').map(({ name }) => name);
    expect(failed).toEqual(
      expect.arrayContaining(
        ['demote', 'secondary-token'].map((each) => `credential may call sys/replication/dr/primary/${each}`),
      ),
    );
  });

  it('the others carry a switchover out, with a performance secondary that has to be re-pointed', async () => {
    writeFileSync(scenario.tokenFile, tokenOf('east', 'runbooks'));
    writeFileSync(scenario.tokenFileOf('europe'), tokenOf('europe', 'runbooks'));
    // That it does not follow by itself is seen when that time is over.
    scenario.limit({ streaming: '1s' }, 'awaitPerformanceSecondaries');
    const run = await scenario.start({ tokenSource: 'batch', go: 'auto' });
    await run.people({ go: false, shares: [] });
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [], loss: { loss: 'none' } });
    expect(report.findings.filter(({ severity }) => severity === 'critical')).toEqual([]);
    const refused = scenario.service.calls.filter(({ status }) => status === 403);
    // Before 2.0 a demoted cluster refuses the ordinary token for a public key: the activation token is wrapped then.
    expect(refused.filter(({ path }) => !path.endsWith('generate-public-key'))).toEqual([]);
    expect(report.steps.map(({ name }) => name)).toContain('Point europe at west (performance)');
    expect(drPrimaries(scenario)).toEqual(['west']);
  });
});
