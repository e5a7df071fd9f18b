import { post, until } from '../support/by-hand';
import { expectFollows, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import { replicating, Scenario } from '../support/scenario';

const NAME = 'performanceRejoin';
const BASE = '/v1/sys/replication/performance';
const DEMOTE = `POST ${BASE}/primary/demote`;
const TOKEN = `POST ${BASE}/primary/secondary-token`;
const UPDATE = `POST ${BASE}/secondary/update-primary`;
const FILTER = { mode: 'deny' as const, paths: ['eu-customers/'] };

/** East is performance primary of europe and asia, and DR primary of west; as a secondary it must not see everything. */
const world = new Lane(() => {
  const more = { mounts: ['kv/', 'secret/', ...FILTER.paths], readings: { leaderChangeChance: 0 } };
  const site = replicating({ main: ['east', 'west'], eu: ['europe'], ap: ['asia'] }, {}, more);
  return Scenario.start({ ...site, deployment: { pathsFilters: { east: FILTER } } });
});

const role = (scenario: Scenario, cluster: string) => scenario.state(cluster).performance;
const demoted = (scenario: Scenario, cluster: string) => scenario.begin(NAME, { cluster }, 'approve promote');

/** What an unplanned promotion leaves: the former primary is cut off, takes itself for the primary, and was written to. */
async function split(scenario: Scenario, former: string, next: string): Promise<void> {
  const { service } = scenario;
  service.partition(former, next);
  await post(scenario, next, 'performance/secondary/promote', { force: true });
  await until(`${next} is primary`, () => role(scenario, next).mode === 'primary');
  service.advanceClock(1_000);
  service.cluster(former).write('secret/lost', { on: former });
  service.cluster(next).write('eu-customers/smith', { on: next });
}

describe('a former performance primary comes back', () => {
  const { it } = world;
  runLanes(world);

  it('refused: no other cluster is primary, or two others are', async (scenario) => {
    expect(await scenario.refusal(NAME, { cluster: 'east' })).toContain('one other performance primary serves');
    await split(scenario, 'east', 'europe');
    expect(await scenario.refusal(NAME, { cluster: 'asia' })).toContain('one other performance primary serves');
    expect(statuses(scenario, 'east', DEMOTE)).toEqual([]);
  });

  it('abort at gate unfence: demoted, and still fenced', async (scenario) => {
    const run = await demoted(scenario, 'east');
    await run.waitsFor('approval', ({ gate }) => gate === 'unfence');
    expect(role(scenario, 'east').mode).toBe('secondary');
    await run.control('abort', { reason: 'the firewall is not ready' });
    const report = await run.report();
    expect(report.outcome).toBe('aborted');
    const asia = scenario.state('asia').clusterId;
    const connected = report.findings.find(({ code }) => code === 'former-primary-not-fenced');
    expect(connected?.text).toContain(`while europe was primary: ${asia}.`);
    expect(report.leftToDo.join('\n')).toMatch(
      /east is fenced[^]*`runbook start performanceRejoin .*"cluster":"east","primary":"europe"/,
    );
    expect(statuses(scenario, 'east', UPDATE)).toEqual([]);
    expect(await scenario.refusal(NAME, { cluster: 'west' })).toContain('no DR secondary (west)');
    // As somebody would who promotes it back by hand, against all advice.
    await post(scenario, 'east', 'performance/secondary/promote', { force: true });
    scenario.service.cluster('east').write('secret/lost', { on: 'east' });
  });

  it('demoted first, then unfenced, and filtered before it follows the one that serves', async (scenario) => {
    const { service } = scenario;
    const orderOf = (cluster: string, endpoint: string) =>
      service.calls.findIndex((call) => call.cluster === cluster && `${call.method} ${call.path}` === endpoint);
    const filter = `POST ${BASE}/primary/paths-filter/${service.cluster('east').clusterId}`;
    const run = await demoted(scenario, 'east');
    const { instructions } = await run.waitsFor('action');
    expect(instructions.join('\n')).toContain('east is no longer primary');
    expect(role(scenario, 'east').mode).toBe('secondary');
    expect(orderOf('europe', TOKEN)).toBe(-1);
    service.heal();
    await run.do('approve unfence');
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', parkings: [], loss: { loss: 'unknown' } });
    expectFollows(scenario, 'east', 'europe', 'performance');
    const order = [
      orderOf('east', DEMOTE),
      orderOf('europe', filter),
      orderOf('europe', TOKEN),
      orderOf('east', UPDATE),
    ];
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(order).not.toContain(-1);
    // What it wrote is replaced, and what its filter keeps away is not there.
    expect(service.cluster('east').read('secret/lost')).toBeUndefined();
    expect(service.cluster('east').read('eu-customers/smith')).toBeUndefined();
    expect(scenario.state('west').dr).toMatchObject({ connectedTo: 'east' });
    const codes = report.findings.map(({ code }) => code);
    expect(codes).toEqual(expect.arrayContaining(['writes-after-split-lost', 'leases-of-two-primaries']));
    // Its own DR secondary is no sign that it is not fenced.
    expect(codes).not.toContain('former-primary-not-fenced');
    expect(report.leftToDo).toEqual([
      expect.stringContaining(
        'asia is not connected to a primary. Point it at europe: `runbook start secondaryRepointing',
      ),
      expect.stringContaining('start performancePromotion to it'),
    ]);
    await expectFewEvents(NAME, run);
  });
});
