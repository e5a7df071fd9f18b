import type { Run } from '../../../workflows/building-blocks/run';
import { sharesOf } from '../../../workflows/building-blocks/ceremony-for';

const runAt = (site: object) => ({ state: { site } }) as unknown as Run;

describe('how key shares reach the service', () => {
  it('is what the start of the run says, else what the deployment says', () => {
    expect(sharesOf(runAt({}), {})).toBe('sealed');
    expect(sharesOf(runAt({ shares: 'direct' }), {})).toBe('direct');
    expect(sharesOf(runAt({ shares: 'direct' }), { shares: 'sealed' })).toBe('sealed');
    expect(sharesOf(runAt({}), { shares: 'direct' })).toBe('direct');
  });

  it('is refused before anybody is asked where groups are wanted, which nobody sees in direct mode', () => {
    const site = { shareGroups: '1 of security' };
    expect(sharesOf(runAt(site), {})).toBe('sealed');
    expect(() => sharesOf(runAt(site), { shares: 'direct' })).toThrow(
      expect.objectContaining({
        type: 'PRECONDITION_FAILED',
        details: [expect.objectContaining({ needed: '1 of security' })],
      }) as Error,
    );
  });
});
