/** What the workers hold: a login alone, whose primary goes; a stored token that ends; tokens with exactly the printed policies. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { drPrimaries, expectFollows } from '../support/faults';
import { FAILOVER_LIMITS, failoverPeople, startFailover } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { printedRules, writePrintedPolicy } from '../support/least-privilege';
import { scenarioWithLogin } from '../support/logins';
import { callNode, until } from '../support/by-hand';
import { FILTER, replicating, Scenario, temporaryDirectory } from '../support/scenario';

const directory = temporaryDirectory('approle');
const batchFile = join(directory, 'batch-token');
const HOUR = 3_600_000;

const byLogin = new Lane(async () => {
  const { scenario, setUp } = await scenarioWithLogin('approle', directory, { limits: FAILOVER_LIMITS });
  scenario.guards(setUp.secrets);
  return scenario;
});
const shared = new Lane(async () => {
  const { scenario, setUp } = await scenarioWithLogin('approle', directory, { deployment: { quiesce: 'quota' } });
  scenario.guards(setUp.secrets);
  applications = { role_id: setUp.secrets.get('role ID'), secret_id: setUp.secrets.get('secret ID') };
  return scenario;
});
/** What applications log in with, at the mount of the workers. */
let applications: object;
const stored = new Lane(() => Scenario.start({ rights: { ttlMs: HOUR } }));
const printed = new Lane(async () => {
  // The harder way: the performance secondary has to be re-pointed, with its filter.
  const readings = { performanceSecondariesFollow: false };
  const scenario = await Scenario.start({
    ...replicating({ main: ['east', 'west'], eu: ['europe'] }, { europe: FILTER }, { readings }),
    cluster: () => ({ batchToken: { file: batchFile } }),
  });
  const { service, inventory, name } = scenario;
  const east = service.cluster('east');
  writePrintedPolicy(east, 'runbooks', printedRules(inventory, name));
  writePrintedPolicy(east, 'runbooks-readiness', printedRules(inventory, name, 'credential', ['readiness']));
  writePrintedPolicy(east, 'runbooks-batch', printedRules(inventory, name, 'batchToken'));
  return scenario;
});

describe('tokens of the workers', () => {
  runLanes(byLogin, shared, stored, printed);

  byLogin.it('fails over without a token: the worker logs in at the new primary, once it serves', async (scenario) => {
    const { service } = scenario;
    const statusesOf = (path: string) =>
      service.calls.filter((call) => call.path.endsWith(path)).map(({ cluster, status }) => `${cluster} ${status}`);
    const planned = await scenario.play('drSwitchover', { to: 'west', dryRun: true });
    expect(planned.preconditions.map(({ observed }) => observed).join()).toContain('login by approle');
    await scenario.stopWorker();
    expect(statusesOf('revoke-self')).toContain('east 204');
    // The revocation is a write too: a primary that dies before west has it leaves west behind.
    const [east, west] = [service.cluster('east'), service.cluster('west')];
    await until('west has every write', () => {
      service.advance();
      return west.streams.dr.lastRemoteWal >= east.storage.lastWalOf('dr');
    });
    await service.cluster('east').kill();
    service.calls.length = 0;
    await scenario.startWorker();
    const run = await startFailover(scenario);
    await failoverPeople(run);
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    expect(report.steps.map(({ name }) => name)).toContain('Verify that west accepts a write');
    expect(new Set(statusesOf('/login'))).toEqual(new Set(['west 200']));
  });

  shared.it(
    'switches over without loss while applications log in without a pause at the same mount: they are refused too',
    async (scenario) => {
      const { service } = scenario;
      const run = await scenario.start({ go: 'auto' });
      await run.do('shares');
      await run.waitsFor('approval', ({ gate }) => gate === 'plan');
      let ended = false;
      const path = 'auth/approle/login';
      // Nodes restart with the change of roles.
      const noNode = () => undefined;
      const logsIn = async () => {
        while (!ended)
          for (const cluster of ['east', 'west'])
            await callNode(service.cluster(cluster).apiAddress, 'POST', path, { body: applications }).catch(noNode);
      };
      const busy = [logsIn(), logsIn()];
      try {
        await run.do('approve plan');
        const report = await run.report();
        expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [], loss: { loss: 'none' } });
        expect(report.plan?.content.warnings.join()).toContain(
          'Workers log in at auth/approle/login, where applications may',
        );
      } finally {
        ended = true;
        await Promise.all(busy);
      }
      const statuses = service.calls.flatMap(({ path, status }) => (path.endsWith('approle/login') ? [status] : []));
      expect(statuses).toEqual(expect.arrayContaining([200, 429]));
    },
  );

  stored.it(
    'with a stored token that ends in the middle the step parks and names its file; another one there, and it goes on',
    async (scenario) => {
      const { tokenFile } = scenario;
      const run = await scenario.start();
      await run.do('shares', 'approve plan');
      await run.waitsFor('approval', ({ gate }) => gate === 'go');
      scenario.service.advanceClock(2 * HOUR);
      await run.do('approve go');
      const next = `Renew the credential of east: file ${tokenFile}; then retry.`;
      expect(await run.parks()).toMatchObject({ code: 'PERMISSION_DENIED', next });
      writeFileSync(tokenFile, scenario.workersToken('east'));
      await run.do('retry');
      expect((await run.report()).outcome).toBe('completed');
    },
  );

  describe('tokens with exactly the printed policies', () => {
    const { it } = printed;
    const tokenOf = (scenario: Scenario, cluster: string, policy: string, type: 'service' | 'batch' = 'service') =>
      scenario.service.cluster(cluster).createToken({ policies: [policy], type, ttlMs: 8 * HOUR });

    it('the one for readiness is refused before any change', async (scenario) => {
      writeFileSync(scenario.tokenFile, tokenOf(scenario, 'east', 'runbooks-readiness'));
      writeFileSync(batchFile, tokenOf(scenario, 'east', 'runbooks-batch', 'batch'));
      const report = await scenario.play('drSwitchover', { to: 'west', dryRun: true });
      const failed = report.preconditions.filter(({ verdict }) => verdict === 'fail').map(({ name }) => name);
      for (const each of ['demote', 'secondary-token'])
        expect(failed).toContain(`credential may call sys/replication/dr/primary/${each}`);
    });

    it('the others carry a switchover out, with a performance secondary that has to be re-pointed', async (scenario) => {
      writeFileSync(scenario.tokenFile, tokenOf(scenario, 'east', 'runbooks'));
      writeFileSync(scenario.tokenFileOf('europe'), tokenOf(scenario, 'europe', 'runbooks'));
      // That it does not follow by itself is seen when that time is over.
      scenario.limit({ streaming: '1s' }, 'awaitPerformanceSecondaries');
      const id = scenario.state('europe').performance.secondaryId ?? '';
      const asked = { to: 'west', tokenSource: 'batch', go: 'auto' };
      const report = await scenario.play('drSwitchover', asked, 'approve plan');
      expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [], loss: { loss: 'none' } });
      expect(report.findings.filter(({ severity }) => severity === 'critical')).toEqual([]);
      const refused = scenario.service.calls.filter(({ status }) => status === 403);
      // Before 2.0 a demoted cluster refuses the ordinary token for a public key: the activation token is wrapped then.
      expect(refused.filter(({ path }) => !path.endsWith('generate-public-key'))).toEqual([]);
      expect(report.steps.map(({ name }) => name).filter((name) => name.includes('europe'))).toEqual([
        'Read the paths filter of europe',
        'Write the paths filter of europe (before update-primary)',
        'Point europe at west (performance)',
        'Write the paths filter of europe (after update-primary)',
        'Wait until europe follows',
        'Compare the dynamic filter of europe on both clusters',
      ]);
      // The simulated service drops the filter with update-primary: it stands again at the end.
      expect(scenario.state('west').filters).toContain(id);
      expectFollows(scenario, 'europe', 'west', 'performance');
      expect(drPrimaries(scenario)).toEqual(['west']);
    });
  });
});
