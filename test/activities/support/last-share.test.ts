/** The core of a token generation: what follows from the answer to the last share, and from a look afterwards. */
import { AFTER_LAST_SHARE, seenAs } from '../../../activities/ceremony/last-share';
import type { LastAnswer, Next, SeenAfter } from '../../../activities/ceremony/last-share';
import { digestOf } from '../../../activities/ceremony/generation-slot';
import type { Slot } from '../../../activities/ceremony/generation-slot';
import type { GenerationAttempt } from '../../../src/vault';

const SEEN: readonly SeenAfter[] = ['waiting', 'reset', 'gone', 'unreadable'];
/** By answer, in the order of {@link SEEN}. */
const TABLE: Readonly<Record<LastAnswer, readonly Next[]>> = {
  refused: ['again', 'next-set', 'again', 'again'],
  'not-sent': ['again', 'again', 'again', 'again'],
  // An attempt that is there proves nothing: what was sent may arrive after the look.
  unknown: ['alarm', 'alarm', 'alarm', 'alarm'],
};

it.each(Object.entries(TABLE))('after the answer "%s" follows what the table says', (answer, nexts) => {
  expect(SEEN.map((seen) => AFTER_LAST_SHARE[answer as LastAnswer][seen])).toEqual(nexts);
});

describe('an attempt is this one', () => {
  const key = { pgpPublicKey: '', pgpFingerprint: 'ours' };
  const slot: Slot = {
    key,
    kind: 'operation-token',
    cluster: 'west',
    token: undefined,
    endpoints: {} as Slot['endpoints'],
  };
  const attempt = { nonceDigest: digestOf('nonce') };
  const seen: GenerationAttempt = {
    ...{ started: true, nonce: 'nonce', progress: 2, required: 3, complete: false, pgpFingerprint: 'ours' },
  };
  it.each([
    ['with its nonce and our key', seen, 'waiting'],
    ['put back to no share', { ...seen, progress: 0 }, 'reset'],
    ['that waits for more than the last', { ...seen, progress: 1 }, 'waiting'],
    ['not with another nonce', { ...seen, nonce: 'another' }, 'gone'],
    ['not with another key', { ...seen, pgpFingerprint: 'another' }, 'gone'],
    ['not with a one-time password', { ...seen, pgpFingerprint: undefined }, 'gone'],
    ['not where none is there', { ...seen, started: false, nonce: undefined }, 'gone'],
  ])('%s', (_what, shown, as) => {
    expect(seenAs(slot, attempt, shown)).toBe(as);
  });

  it("and with a recipient's key only where this run started it", () => {
    expect(seenAs({ ...slot, nonces: new Set() }, attempt, seen)).toBe('gone');
    expect(seenAs({ ...slot, nonces: new Set([attempt.nonceDigest]) }, attempt, seen)).toBe('waiting');
  });
});
