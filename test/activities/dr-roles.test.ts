/** The two role changes: what they refuse before anything reaches the service, and what they do after a lost answer. */
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { defaultPayloadConverter } from '@temporalio/common';
import type { Authority } from '../../src/contracts/activities';
import { findDeployment, inventoryDigest } from '../../src/inventory';
import type { FaultHandle } from '../../src/simulator';
import { ActivityBench, DEPLOYMENT, drDemotion, drPromotion, openBench } from '../support/activity-environment';
import { workersToken } from '../support/least-privilege';
import { approvalOf } from '../support/people';

const DEMOTE = 'dr/primary/demote';
const PROMOTE = 'dr/secondary/promote';
const STATUS = 'GET /v1/sys/replication/dr/status';
const SYNCING = { data: { mode: 'secondary', state: 'merkle-sync', last_remote_wal: 1_000_000, primaries: [] } };

describe('demote and promote without a valid approval', () => {
  let bench: ActivityBench;
  let authority: Authority;
  let token: Awaited<ReturnType<ActivityBench['operationToken']>>;
  openBench((opened) => (bench = opened));
  beforeAll(async () => {
    authority = await bench.authority({ requestedBy: 'olga' });
    token = await bench.operationToken('west');
  });

  /** A plan of this text, approved at both gates. */
  async function approved(text: string): Promise<Authority> {
    const plan = { text, digest: createHash('sha256').update(text).digest('base64url') };
    return bench.approved({ plan, preconditions: [] }, 'plan', ['go', 'henry']);
  }
  const withDocuments = (approvals: readonly unknown[]): Authority => ({ ...authority, approvals });
  const rejection = () => bench.approval('go', authority.plan.digest, 'grace', { verdict: 'reject' });

  it.each([
    ['an approval of one gate only', async () => authority.approvals.slice(0, 1)],
    ['the same approval twice instead of both gates', async () => [authority.approvals[0], authority.approvals[0]]],
    ['a rejection beside the approvals', async () => [...authority.approvals, await rejection()]],
  ])('%s: NOT_APPROVED, and nothing reaches the service', async (_name, make) => {
    const forged = withDocuments(await make());
    const before = bench.changes();
    const demoted = await bench.failure('demotePrimary', drDemotion(forged));
    const promoted = await bench.failure('promoteSecondary', drPromotion(token, forged));
    for (const failure of [demoted, promoted]) {
      expect(failure).toMatchObject({ code: 'NOT_APPROVED', retryable: false, details: { outcomeKnown: true } });
      expect(failure.details['observed']).toBeTruthy();
      expect(failure.details['needed']).toBeTruthy();
    }
    expect(bench.changes()).toEqual(before);
  });

  it('a cluster that the approved plan does not change is not touched', async () => {
    const before = bench.changes();
    const failures = [
      await bench.failure('demotePrimary', { ...drDemotion(authority), cluster: 'west', otherCluster: 'east' }),
      await bench.failure('promoteSecondary', { ...drPromotion(token, authority), otherCluster: 'west' }),
    ];
    // Another cluster behind the same name, in a plan that is approved as a whole.
    for (const name of ['east', 'west']) {
      const swapped = await approved(authority.plan.text.replaceAll(bench.cluster(name).clusterId, 'another-cluster'));
      failures.push(
        await bench.failure('demotePrimary', drDemotion(swapped)),
        await bench.failure('promoteSecondary', drPromotion(token, swapped)),
      );
    }
    for (const { details } of failures) expect(details['observed']).toContain('the plan does not allow');
    expect(failures.map(({ code }) => code)).toEqual(failures.map(() => 'NOT_APPROVED'));
    expect(bench.changes()).toEqual(before);
  });

  it('a cluster with another ID than the inventory pins is not changed, whatever was approved', async () => {
    const pinned = findDeployment(bench.inventory, DEPLOYMENT).clusters.get('east') ?? {};
    Object.assign(pinned, { clusterId: 'another-cluster' });
    const failure = await bench.failure('demotePrimary', drDemotion(authority));
    Object.assign(pinned, { clusterId: undefined });
    expect(failure).toMatchObject({ code: 'STATE_DIVERGED', details: { cluster: 'east', outcomeKnown: true } });
    expect(bench.calls('east', DEMOTE)).toBe(0);
  });

  it('a primary is not demoted while its successor hears nothing from it', async () => {
    bench.service.partition('east', 'west');
    bench.service.advanceClock(6_000);
    const failure = await bench.failure('demotePrimary', drDemotion(authority));
    expect(failure).toMatchObject({ code: 'PRECONDITION_FAILED', details: { outcomeKnown: true } });
    expect(bench.calls('east', DEMOTE)).toBe(0);
    bench.service.heal();
  });

  describe('whose approvals are older than they count', () => {
    const HOUR = 3_600_000;
    const demotion = (more: Partial<Authority> = {}) =>
      bench.failure('demotePrimary', drDemotion({ ...authority, ...more }));
    beforeAll(() => {
      // What stops the demotion where its approvals count.
      bench.service.partition('east', 'west');
      bench.service.advanceClock(6_000);
    });
    afterAll(() => bench.service.heal());
    afterEach(() => (bench.history = { events: [] }));

    it('no outage is begun, also where they are sent again: each counts from its first signal', async () => {
      bench.signaled('approve', authority.approvals, undefined, Date.now() - 2 * HOUR);
      bench.signaled('approve', authority.approvals);
      const refused = await demotion();
      expect(refused).toMatchObject({ code: 'NOT_APPROVED', retryable: false, details: { outcomeKnown: true } });
      expect(refused.details['observed']).toContain('gate go was met at');
      expect(refused.details['next']).toContain('Decide retry: gate go is asked again');
      expect(bench.calls('east', DEMOTE)).toBe(0);
    });

    it('nor where an update brought them first, and signals later', async () => {
      for (const each of authority.approvals) bench.updated('approve', each, Date.now() - 2 * HOUR);
      bench.signaled('approve', authority.approvals);
      expect((await demotion()).code).toBe('NOT_APPROVED');
      expect(bench.calls('east', DEMOTE)).toBe(0);
    });

    it('nor where no signal of this run brought them, and their people signed long ago', async () => {
      const iat = Math.floor((Date.now() - 2 * HOUR) / 1000);
      const of = (gate: string, name: string) =>
        approvalOf(bench.person(name), { ...bench.run, gate, planDigest: authority.plan.digest, iat });
      expect((await demotion({ approvals: [await of('plan', 'grace'), await of('go', 'henry')] })).code).toBe(
        'NOT_APPROVED',
      );
    });

    it('but those that people gave anew count from then, beside the old ones', async () => {
      const { digest } = authority.plan;
      const anew = await approvalOf(bench.person('henry'), { ...bench.run, gate: 'go', planDigest: digest, iat: 1 });
      bench.signaled('approve', authority.approvals, undefined, Date.now() - 9 * HOUR);
      bench.signaled('approve', [anew]);
      expect((await demotion({ approvals: [...authority.approvals, anew] })).code).toBe('PRECONDITION_FAILED');
      // Sent again, the old one is as old as it was.
      bench.signaled('approve', authority.approvals);
      expect((await demotion()).code).toBe('NOT_APPROVED');
    });

    it('they count within an hour of their end, from the beginning of the window, and not long after its end', async () => {
      bench.signaled('approve', authority.approvals, undefined, Date.now() - HOUR);
      expect((await demotion()).code).toBe('PRECONDITION_FAILED');
      const within = async (from: number, to: number) => {
        bench.history = { events: [startedIn(from, to)] };
        bench.signaled('approve', authority.approvals, undefined, Date.now() - 9 * HOUR);
        return (await demotion()).code;
      };
      expect(await within(-HOUR, HOUR)).toBe('PRECONDITION_FAILED');
      expect(await within(-3 * HOUR, HOUR)).toBe('NOT_APPROVED');
      expect(await within(2 * HOUR, 3 * HOUR)).toBe('NOT_APPROVED');
      bench.history = { events: [startedIn(-4 * HOUR, -2 * HOUR)] };
      bench.signaled('approve', authority.approvals);
      expect((await demotion()).code).toBe('NOT_APPROVED');
    });

    it('a fresh approval beside one that was too old for the open gate begins nothing', async () => {
      const { gates } = findDeployment(bench.inventory, DEPLOYMENT);
      const { go } = gates;
      Object.assign(gates, { go: { ...go, approvals: 2 } });
      // A plan of the inventory of now: it is the age alone that refuses.
      const inventory = inventoryDigest(bench.inventory, DEPLOYMENT);
      const held = await approved(JSON.stringify({ ...(JSON.parse(authority.plan.text) as object), inventory }));
      const fresh = await bench.approval('go', held.plan.digest, 'grace');
      const beside = async (age: number) => {
        bench.history = { events: [] };
        bench.signaled('approve', held.approvals, undefined, Date.now() - age);
        bench.signaled('approve', [fresh], undefined, Date.now() - 60_000);
        return demotion({ ...held, approvals: [...held.approvals, fresh] });
      };
      // The gate is open for its validFor, and what it approved counts for as long and an hour.
      expect((await beside(HOUR + 1.9 * go.validForMs)).code).toBe('PRECONDITION_FAILED');
      for (const age of [HOUR + 2.1 * go.validForMs, 90 * HOUR]) {
        const refused = await beside(age);
        expect(refused).toMatchObject({ code: 'NOT_APPROVED', details: { about: 'approvals too old' } });
        expect(refused.details['observed']).toContain('with an approval of');
      }
      Object.assign(gates, { go });
    });

    /** The beginning of a run whose window lies there, in ms from now. */
    const startedIn = (from: number, to: number) => {
      const [notBefore, notAfter] = [from, to].map((each) => new Date(Date.now() + each).toISOString());
      const input = defaultPayloadConverter.toPayload({ window: { notBefore, notAfter } });
      return { workflowExecutionStartedEventAttributes: { input: { payloads: [input] } } };
    };
  });

  it.each([
    ['does not stream', { state: 'merkle-sync', last_remote_wal: 1_000_000 }, undefined],
    ['has not reached what was caught up with', { last_remote_wal: 99 }, '100'],
    ['tells no WAL index', {}, '1'],
  ] as const)('a primary is not demoted while its successor %s', async (_name, said, reached) => {
    const heard = new Date(bench.service.now()).toISOString();
    const primaries = [{ connection_status: 'connected', last_heartbeat: heard, api_address: '', cluster_address: '' }];
    const fault = bench.always(
      'GET /v1/sys/replication/dr/status',
      { status: 200, body: { data: { mode: 'secondary', state: 'stream-wals', primaries, ...said } } },
      'west',
    );
    bench.limit({ catchUpMs: 500 });
    const failure = await bench.failure('demotePrimary', { ...drDemotion(authority), ...(reached && { reached }) });
    bench.limit();
    fault.remove();
    expect(failure).toMatchObject({ code: 'PRECONDITION_FAILED', details: { outcomeKnown: true } });
    expect(bench.calls('east', DEMOTE)).toBe(0);
  });

  it('a secondary is not promoted while the other cluster says that it is primary', async () => {
    const failure = await bench.failure('promoteSecondary', drPromotion(token, authority));
    expect(failure).toMatchObject({ code: 'STATE_DIVERGED', details: { observed: 'primary' } });
    expect(bench.calls('west', PROMOTE)).toBe(0);
    expect(bench.leaks()).toEqual([]);
  });

  it('a primary that refused a token is not demoted with another before another look at its successor', async () => {
    const file = join(bench.directory, 'token');
    bench.service.faults.add({
      endpoint: `POST /v1/sys/replication/${DEMOTE}`,
      action: async (east) => {
        east.storage.keys('token/').forEach((key) => east.storage.write(key, null, bench.service.now()));
        await writeFile(file, workersToken(east, bench.inventory, DEPLOYMENT));
        fault = bench.service.faults.add(silent);
      },
    });
    const silent = { cluster: 'west', endpoint: STATUS, action: { status: 200, body: SYNCING }, times: Infinity };
    let fault: FaultHandle | undefined;
    bench.limit({ catchUpMs: 500 });
    const failure = await bench.failure('demotePrimary', drDemotion(authority));
    bench.limit();
    fault?.remove();
    expect(failure).toMatchObject({ code: 'PRECONDITION_FAILED', details: { outcomeKnown: true } });
    expect(bench.calls('east', DEMOTE)).toBe(1);
  });
});

describe('a DR set with a third member', () => {
  let bench: ActivityBench;
  let authority: Authority;
  beforeEach(async () => {
    bench = await ActivityBench.start({
      topology: {
        clusters: ['east', 'west', 'north'].map((name) => ({ name, nodes: 1 })),
        dr: [{ primary: 'east', secondaries: ['west', 'north'] }],
        readings: { leaderChangeChance: 0 },
      },
    });
    authority = await bench.authority();
    await bench.call('demotePrimary', drDemotion(authority));
  });
  afterEach(() => bench.stop());
  const promotion = async () => drPromotion(await bench.operationToken('west'), authority);

  it('an outage that has begun is ended, however old the approvals are by then', async () => {
    bench.signaled('approve', authority.approvals, undefined, Date.now() - 48 * 3_600_000);
    const demotion = drDemotion(authority);
    expect(await bench.call('demotePrimary', demotion)).toMatchObject({ outcome: 'already' });
    expect(await bench.call('promoteSecondary', await promotion())).toMatchObject({ outcome: 'done' });
  });

  it('that says primary: nobody else is promoted', async () => {
    bench.always('GET /v1/sys/replication/dr/status', { status: 200, body: { data: { mode: 'primary' } } }, 'north');
    const failure = await bench.failure('promoteSecondary', await promotion());
    expect(failure).toMatchObject({ code: 'STATE_DIVERGED', details: { cluster: 'north' } });
    expect(bench.calls('west', PROMOTE)).toBe(0);
  });

  it('that is silent: promoted, with a warning', async () => {
    await bench.cluster('north').kill();
    expect(await bench.call('promoteSecondary', await promotion())).toMatchObject({
      outcome: 'done',
      findings: [expect.objectContaining({ severity: 'warning', code: 'dr-member-silent' })],
    });
  });
});
