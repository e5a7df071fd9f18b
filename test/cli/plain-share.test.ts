import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatPublicKey, newSigningKey } from '../../src/keys';
import { cli } from './support';

const SHARE = createHash('shake256', { outputLength: 33 }).update('a share').digest('hex');

describe('a key share in plain text on a command line', () => {
  it.each([
    ['start', ['start', 'drSwitchover', '--deployment', 'payments', '--to', 'west', '--reason', `it is ${SHARE}`]],
    ['plan', ['plan', 'drSwitchover', '--deployment', 'payments', '--to', 'west', '--reason', SHARE]],
    ['pause', ['pause', 'deployment:payments', '--name', 'grace', '--reason', SHARE]],
    ['abort', ['abort', 'deployment:payments', '--name', 'grace', '--reason', SHARE]],
  ])('does not leave the machine: %s', async (_what, words) => {
    // There is no server: what would be sent would fail to connect.
    const { code, err } = await cli(words, { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } });
    expect([code, err]).toEqual([3, expect.stringContaining('Nothing was sent')]);
    expect(err).not.toContain(SHARE);
  });

  it('a key that is pinned already is not asked about again', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'pins-'));
    try {
      const words = [
        'keys',
        'trust',
        'production',
        formatPublicKey(newSigningKey().key),
        '--pins',
        join(directory, 'p'),
      ];
      expect((await cli(words, { answers: ['yes'] })).code).toBe(0);
      expect(await cli(words)).toMatchObject({ code: 0, questions: [] });
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});
