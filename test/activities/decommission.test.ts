/** The activities that cut a secondary off or end replication look at authority and role themselves, right before they act. */
import type { Authority } from '../../src/contracts/activities';
import type { GateName } from '../../src/contracts/plan';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

let bench: ActivityBench;
/** East is DR primary of west and north, and performance primary of europe, which is DR primary of europe-dr. */
openBench((opened) => (bench = opened), {
  topology: {
    readings: { leaderChangeChance: 0 },
    clusters: ['east', 'west', 'north', 'europe', 'europe-dr'].map((name) => ({ name, nodes: 1 })),
    performance: { primary: 'east', secondaries: [{ name: 'europe' }] },
    dr: [
      { primary: 'east', secondaries: ['west', 'north'] },
      { primary: 'europe', secondaries: ['europe-dr'] },
    ],
  },
  drSets: { main: ['east', 'west', 'north'], eu: ['europe', 'europe-dr'] },
});
beforeEach(() => {
  bench.service.faults.clear();
  bench.service.calls.length = 0;
});
afterEach(() => expect(bench.changes().filter((call) => !/capabilities|public-key/.test(call))).toEqual([]));

const asked = { deployment: DEPLOYMENT, reason: 'a test' };
const idOf = (name: string) => bench.cluster(name).clusterId;

async function decommissioning(input: Readonly<Record<string, unknown>>, ...gates: GateName[]): Promise<Authority> {
  const parsed = RUNBOOK_INPUTS.secondaryDecommission.parse({ ...asked, kind: 'dr', primary: 'east', ...input });
  return bench.approved(await bench.call('assessSecondaryDecommission', { input: parsed }), ...gates);
}

async function teardown(input: Readonly<Record<string, unknown>>, ...gates: GateName[]): Promise<Authority> {
  const parsed = RUNBOOK_INPUTS.replicationTeardown.parse({ ...asked, ...input });
  return bench.approved(await bench.call('assessReplicationTeardown', { input: parsed }), ...gates);
}

describe('approved as it is, and refused all the same', () => {
  it('an id is revoked that the secondary of the plan has, and no other', async () => {
    const authority = await decommissioning({ secondary: 'west' }, 'revoke');
    const input = { kind: 'dr', deployment: DEPLOYMENT, cluster: 'east', secondary: 'west', authority } as const;
    await bench.refused('revokeSecondary', { ...input, id: idOf('north') }, 'PRECONDITION_FAILED');
  });

  it('a secondary forgets its primary that is not connected any more', async () => {
    const authority = await decommissioning({ secondary: 'west' }, 'revoke');
    const token = await bench.operationToken('west', ['dr.update-primary']);
    const west = { kind: 'dr', deployment: DEPLOYMENT, cluster: 'west', token, authority } as const;
    const connected = await bench.failure('forgetPrimary', west);
    expect(connected).toMatchObject({ code: 'PRECONDITION_FAILED', retryable: false });
    expect(connected.message).toContain('is connected to its primary');
  });

  it('a DR secondary is disabled with an operation token for that', async () => {
    const token = await bench.operationToken('west', ['dr.promote']);
    const authority = await teardown({ kind: 'dr', cluster: 'west' }, 'disable');
    const west = { kind: 'dr', deployment: DEPLOYMENT, cluster: 'west', token, authority } as const;
    await bench.refused('disableSecondary', west, 'SEALED_VALUE_INVALID', { details: { outcomeKnown: true } });
  });
});

describe('what changed since the approval counts', () => {
  it('a primary that knows another secondary than those that were approved is not disabled', async () => {
    const authority = await teardown({ kind: 'dr', cluster: 'europe' }, 'disable');
    const europe = bench.cluster('europe');
    const role = europe.effectiveRole('dr');
    if (role.mode !== 'primary') throw new Error('europe is no DR primary');
    const more = { id: 'new', certificate: 'c', activated: false };
    europe.setRole('dr', { ...role, knownSecondaries: [...role.knownSecondaries, more] }, bench.service.now());
    const asPrimary = { kind: 'dr', deployment: DEPLOYMENT, cluster: 'europe', authority } as const;
    const failed = await bench.failure('disablePrimary', asPrimary);
    europe.setRole('dr', role, bench.service.now());
    expect(failed).toMatchObject({ code: 'NOT_APPROVED' });
    expect(failed.message).toContain(`cuts off ${[idOf('europe-dr'), 'new'].sort().join(', ')}`);
  });

  it('the only DR secondary that is still connected is not revoked, although another one was when it was approved', async () => {
    const authority = await decommissioning({ secondary: 'west' }, 'revoke');
    await bench.cluster('north').kill();
    bench.service.advanceClock(10_000);
    const input = { deployment: DEPLOYMENT, cluster: 'east', id: idOf('west'), secondary: 'west', authority };
    const failed = await bench.failure('revokeSecondary', { kind: 'dr', ...input });
    expect(failed).toMatchObject({ code: 'PRECONDITION_FAILED', details: { outcomeKnown: true } });
    expect(failed.details['next']).toContain('acknowledgeLastSecondary');
    await bench.cluster('north').restart();
  });

  it('a secondary that was attached again while its token was made is not disabled by the plan of a decommission', async () => {
    const west = { deployment: DEPLOYMENT, cluster: 'west', token: await bench.operationToken('west', ['dr.disable']) };
    const authority = await decommissioning({ secondary: 'west', afterwards: 'disable' }, 'disable');
    const connected = await bench.failure('disableSecondary', { kind: 'dr', ...west, authority });
    expect(connected).toMatchObject({ code: 'PRECONDITION_FAILED', details: { outcomeKnown: true } });
    expect(connected.message).toBe('west is connected to its primary.');
    // Nor by the plan of a teardown that found it alone; that of one in use says that it is.
    const allowed = async () => {
      const { plan } = await teardown({ kind: 'dr', cluster: 'west' });
      const { operations } = JSON.parse(plan.text) as { operations: readonly { readonly detail?: string }[] };
      return operations.map(({ detail }) => detail);
    };
    expect(await allowed()).toEqual(['disconnected', 'also while connected']);
    const role = bench.cluster('east').effectiveRole('dr');
    if (role.mode !== 'primary') throw new Error('east is no DR primary');
    const knownSecondaries = role.knownSecondaries.filter(({ id }) => id !== idOf('west'));
    bench.cluster('east').setRole('dr', { ...role, knownSecondaries }, bench.service.now());
    bench.service.advanceClock(60_000);
    expect(await allowed()).toEqual(['disconnected']);
    bench.cluster('east').setRole('dr', role, bench.service.now());
  });

  it('the performance role of a DR secondary is not taken for disabled', async () => {
    const authority = await teardown({ kind: 'performance', cluster: 'europe' }, 'disable');
    const input = { deployment: DEPLOYMENT, cluster: 'europe-dr', authority };
    const failed = await bench.failure('disableSecondary', { kind: 'performance', ...input });
    expect(failed).toMatchObject({ code: 'PRECONDITION_FAILED' });
    expect(failed.message).toContain("its performance role is its primary's");
  });

  it('a secondary that is still connected is not gone', async () => {
    const gone = { deployment: DEPLOYMENT, cluster: 'east', kind: 'dr' as const, id: idOf('west'), secondary: 'west' };
    bench.limit({ streamingMs: 300 });
    const failed = await bench.failure('awaitSecondaryGone', gone);
    bench.limit();
    expect(failed).toMatchObject({ code: 'CONFIRMATION_TIMEOUT', retryable: false });
    expect(failed.details['observed']).toContain(`east knows ${idOf('west')} and is connected to it`);
  });
});
