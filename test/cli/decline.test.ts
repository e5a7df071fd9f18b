/** A holder who cannot give his share, as he says it on the command line, and as the others see it. */
import { ceremonyWorkflowId } from '../../src/contracts/names';
import { replayRun } from '../support/replay';
import { openScenario } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';
import { cli } from './support';

const WEST = ceremonyWorkflowId('west');

describe('runbook decline', () => {
  let scenario: Scenario;
  let run: TestRun;
  openScenario((opened) => (scenario = opened), {
    attestation: 'claimed',
    deployment: () => ({
      ceremony: {
        ...{ holders: ['ada', 'bert', 'cleo'], standBy: ['dora'], groups: [{ group: 'holders', shares: 2 }] },
        collectFor: '30m',
      },
    }),
  });
  beforeAll(async () => {
    run = await scenario.tokenCeremony();
    await run.waitsFor('shares');
  });

  const decline = (holder: string, reason: string, ...more: string[]) =>
    cli(['decline', WEST, '--holder', holder, '--reason', reason, ...more], { env: { ...scenario.environment } });

  it('status names who is asked, who stands by and from when, and what the groups lack', async () => {
    const { out } = await cli(['status', WEST], { env: { ...scenario.environment } });
    expect(out).toMatch(/Asked, not in hand yet: ada, bert, cleo\n +runbook share ceremony:west --holder ada\n/);
    expect(out).toMatch(
      /Standing by, asked at .* or as soon as somebody declines; may give now: dora\n +runbook share ceremony:west --holder dora\n/,
    );
    expect(out).toMatch(/Anyone who cannot give:\n +runbook decline ceremony:west\n/);
    expect(out).toMatch(
      /Groups \(our policy.*not Shamir's.*\):\n +holders: 0 of 2, needs 2 more of ada, bert, cleo, dora/,
    );
  });

  it.each([
    ['somebody who is not asked', 'grace', 'ill', 'does not ask you for a key share'],
    ['a reason that holds a secret', 'bert', 'c0ffee'.repeat(11), 'seems to hold a secret'],
  ])('nothing is sent for %s', async (_what, holder, reason, message) => {
    const { code, err } = await decline(holder, reason);
    expect(code).not.toBe(0);
    expect(err).toContain(message);
    expect((await run.status()).receipts).toEqual([]);
  });

  it('without a reason it is a wrong command line', async () => {
    const env = { ...scenario.environment };
    expect((await cli(['decline', WEST, '--holder', 'bert'], { env, interactive: false })).code).toBe(2);
  });

  it('says what became of it; who stands by is asked, and all see the claim as unverified', async () => {
    const { code, out, err } = await decline('bert', 'on a plane');
    expect([code, out]).toEqual([0, 'decline 1 from bert (UNVERIFIED): accepted. cannot give a share: on a plane']);
    expect(err).toContain('You may give it all the same: runbook share ceremony:west --holder bert');
    const status = await cli(['status', WEST], { env: { ...scenario.environment } });
    expect(status.out).toMatch(
      /Declined; may give all the same: bert \(UNVERIFIED: on a plane\)\n +runbook share ceremony:west --holder bert\n/,
    );
    expect(status.out).not.toContain('Standing by');
  });

  it('prints one line for the Web UI, which counts when it is pasted there', async () => {
    const { code, out } = await decline('cleo', 'ill', '--print');
    expect(code).toBe(0);
    const { receipts } = await run.status();
    expect(receipts.filter(({ signal }) => signal === 'decline')).toHaveLength(1);
    await run.handle.signal('decline', JSON.parse(out));
    const { declined } = await run.waitsFor('shares', (waiting) => waiting.declined?.length === 2);
    expect(declined?.map(({ by }) => by.name)).toEqual(['bert', 'cleo']);
  });

  it('is a claim of a past run once this one has ended', async () => {
    const aborted = await cli(['abort', WEST, '--name', 'grace', '--reason', 'seen'], { env: scenario.environment });
    expect(aborted.code).toBe(0);
    expect((await run.report()).holders).toContainEqual(
      expect.objectContaining({ name: 'dora', as: 'stand-by', why: 'bert declined' }),
    );
    const { code, err } = await decline('ada', 'too late');
    expect(code).not.toBe(0);
    expect(err).toMatch(/no open run|asks for no key shares/);
    await replayRun(run);
  });
});
