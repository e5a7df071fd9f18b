/** What samples prove of a loss and of a lag, and what they do not. */
import { lossBound, readWalSamples } from '../../../activities/evidence/wal-samples';
import type { SampledCluster, WalSample } from '../../../src/contracts/wal-samples';

const MINUTE = 60_000;
const primary = (lastWal: string, setId = 'set'): SampledCluster => ({
  cluster: 'east',
  answered: true,
  dr: { mode: 'primary', setId, lastWal },
});
const secondary = (lastRemoteWal: string, setId = 'set'): SampledCluster => ({
  cluster: 'west',
  answered: true,
  dr: { mode: 'secondary', setId, lastRemoteWal },
});
const silent = (cluster: string): SampledCluster => ({ cluster, answered: false, error: 'SERVICE_UNREACHABLE' });
const sample = (minute: number, ...clusters: SampledCluster[]): WalSample => ({ at: minute * MINUTE, clusters });
const now = (minute: number, received?: string) => ({ at: minute * MINUTE, received });

describe('loss bound', () => {
  it('is what the primary had written at its last sample and the secondary lacks now', () => {
    const samples = [
      sample(0, primary('1000'), secondary('990')),
      sample(1, primary('1600'), secondary('1500')),
      sample(2, silent('east'), secondary('1580')),
    ];
    const { bound, sampleAt, why } = lossBound(samples, 'east', 'west', now(3, '1580'));
    expect({ bound, sampleAt }).toEqual({ bound: '20', sampleAt: MINUTE });
    expect(why).toContain('120 s old');
    expect(why).toContain('lacks at least 20');
    expect(why).toContain('what east wrote after that sample is not known');
  });

  it('is 0 where the secondary has all of the last sample, and still says that later writes are not known', () => {
    const { bound, why } = lossBound([sample(0, primary('1000'), secondary('900'))], 'east', 'west', now(1, '1200'));
    expect(bound).toBe('0');
    expect(why).toContain('not known');
  });

  it('takes the samples of the secondary where nothing is known of it now', () => {
    expect(lossBound([sample(0, primary('1000'), secondary('900'))], 'east', 'west', now(1)).bound).toBe('100');
  });

  it('is exact for indexes above 2^53', () => {
    const samples = [sample(0, primary('18446744073709551615'), secondary('18446744073709551000'))];
    expect(lossBound(samples, 'east', 'west', now(1)).bound).toBe('615');
  });

  it.each([
    ['there are no samples', [], 'there are no WAL samples'],
    ['the primary never told', [sample(0, silent('east'), secondary('9'))], 'no WAL sample shows east as primary'],
    [
      'the primary was a secondary at its last answer',
      [
        sample(0, primary('1000'), secondary('900')),
        sample(1, { ...secondary('1000'), cluster: 'east' }, { ...primary('1000'), cluster: 'west' }),
      ],
      'since their last change of roles',
    ],
    [
      'they are of two sets',
      [sample(0, primary('1000', 'a'), secondary('900', 'b'))],
      'since their last change of roles',
    ],
    ['the secondary streamed nothing yet', [sample(0, primary('1000'), secondary('0'))], 'is not told'],
  ])('is not known where %s', (_case, samples, words) => {
    const { bound, why } = lossBound(samples, 'east', 'west', now(2));
    expect(bound).toBeUndefined();
    expect(why).toContain(words);
  });

  it('never compares across a change of the primary', () => {
    const samples = [
      sample(0, primary('9000'), secondary('100')),
      sample(1, { ...secondary('5'), cluster: 'east' }, { ...primary('5'), cluster: 'west' }),
      sample(2, primary('50'), secondary('45')),
    ];
    expect(lossBound(samples, 'east', 'west', now(3)).bound).toBe('5');
  });
});

it('a visibility store that cannot be asked gives no samples, and never an error', async () => {
  const warn = jest.fn();
  const dependencies = { temporal: {} as never, log: { warn } as never, sealKeyring: {} as never };
  expect(await readWalSamples(dependencies, 'payments', new AbortController().signal)).toEqual({
    samples: [],
    unattested: 0,
  });
  expect(warn).toHaveBeenCalledTimes(1);
});
