/**
 * People whom only the server's record of the sender attests. The server of the tests records none, so what they send is
 * refused with that reason, and whoever signs is heard all the same. That it counts where the server records it:
 * `test/activities/arrived-signals.test.ts`.
 */
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

describe('a person attested by the server, where authentication is off', () => {
  let scenario: Scenario;
  openScenario((opened) => (scenario = opened), {
    person: (name) =>
      ['ada', 'grace'].includes(name) ? { attestation: 'principal', principal: `user:${name}` } : undefined,
  });

  it('gives no approval and no share; the receipts say why', async () => {
    const run = await scenario.start({ go: 'auto' });
    await run.share('ada', { unsigned: true });
    await run.approve('plan', 'grace');
    const receipts = await run.until('both receipts', (status) => status.receipts.length >= 2 && status.receipts);
    for (const signal of ['share', 'approve'])
      expect(receipts.find((each) => each.signal === signal)).toMatchObject({
        verdict: 'refused',
        text: expect.stringContaining('is authentication on?') as string,
      });
    await run.share('bert');
    await run.approve('plan', 'henry');
    await run.waitsFor('shares', ({ held }) => held.length === 1 && held[0] === 'bert');
    await run.until('the approval', (status) =>
      status.receipts.some(({ signal, verdict }) => signal === 'approve' && verdict === 'accepted'),
    );
    await run.control('abort', { reason: 'seen' }, 'henry');
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'aborted', gates: [{ state: 'approved', by: [{ name: 'henry' }] }] });
  });
});
