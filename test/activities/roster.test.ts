/** The roster where it is used: who is invited, and that too few holders are told before anybody is asked. */
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { verifyInvitation } from '../../src/keys';
import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';

const USES = ['dr.promote'] as const;
const TARGETS = [{ cluster: 'west', uses: USES }];

function benchWith(
  ceremony: object,
  person: (name: string) => Readonly<Record<string, unknown>> | undefined = () => undefined,
) {
  return ActivityBench.start({ deployment: { ceremony: { collectFor: '30m', useFor: '30m', ...ceremony } }, person });
}

async function invitationOf(bench: ActivityBench, jws: string) {
  const pins = [{ environment: 'test', ...bench.workersKey }];
  return (await verifyInvitation(jws, { pins, now: Date.now(), holder: 'ada' })).invitation;
}

describe('the invitation', () => {
  it('names who has joined and says who stands by; the handle tells the workflow', async () => {
    const bench = await benchWith(
      { holders: ['ada', 'bert', 'cleo'], standBy: ['dora', 'emil'], inviteStandByAfter: '7m' },
      (name) => (['cleo', 'dora'].includes(name) ? { publicKeys: [] } : undefined),
    );
    const handle = await bench.ceremony(TARGETS);
    const names = { holders: ['ada', 'bert', 'emil'], standBy: ['emil'], threshold: 3 };
    expect(await invitationOf(bench, handle.invitation)).toMatchObject(names);
    expect(handle).toMatchObject({ ...names, inviteStandByAfterMs: 420_000, notJoined: ['cleo', 'dora'] });
    // The same again: a retry after a lost answer asks nobody twice.
    expect((await bench.ceremony(TARGETS)).invitation).toBe(handle.invitation);
    await bench.stop();
  });

  it('has no such members where the inventory has none', async () => {
    const bench = await ActivityBench.start();
    const handle = await bench.ceremony(TARGETS);
    const invitation = await invitationOf(bench, handle.invitation);
    for (const one of [handle, invitation])
      for (const member of ['standBy', 'notJoined']) expect(one).not.toHaveProperty(member);
    await bench.stop();
  });

  it('is not made for too few; the assessment says so before anybody is asked', async () => {
    const bench = await benchWith({ holders: ['ada', 'bert'] });
    const input = { deployment: DEPLOYMENT, runbook: 'drSwitchover', reason: 'a test', requestedBy: 'olga' };
    const failure = await bench.failure('createCeremony', { ...input, targets: TARGETS, epoch: 1, inputDigest: 'd' });
    expect(failure.code).toBe('INVALID_INPUT');
    expect(failure.details).toMatchObject({ needed: expect.any(String) as string, next: expect.any(String) as string });
    const asked = { deployment: DEPLOYMENT, cluster: 'west', uses: USES, keepFor: '1h', reason: 'a test' };
    const { preconditions } = await bench.call('assessCeremony', {
      input: RUNBOOK_INPUTS.operationTokenCeremony.parse(asked),
    });
    expect(preconditions).toContainEqual(expect.objectContaining({ name: 'enough key holders', verdict: 'fail' }));
    await bench.stop();
  });
});
