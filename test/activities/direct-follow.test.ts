/** What is known of an attempt that could not be looked at for a while. */
import { LeaderlessTime } from '../../activities/support/ceremony/leaderless-time';
import { followAttempt } from '../../activities/support/ceremony/direct-follow';
import type { ClusterAccess } from '../../activities/support/clusters';
import type { Execution } from '../../activities/support/execution';
import { RunbookError } from '../../src/errors';

jest.mock('node:timers/promises', () => ({ setTimeout: () => Promise.resolve() }));

const NODES = ['https://west-1:8200', 'https://west-2:8200', 'https://west-3:8200'];
const SECOND = 1_000;
const FAILING_LOOKS = 8;

const follows = (leaderAddress?: string) => ({ haEnabled: true, isSelf: false, leaderAddress });
const refused = new RunbookError('UNREACHABLE', 'GET sys/leader: no connection could be made (ECONNREFUSED)');
type Opinion = object | Error;

afterEach(() => jest.restoreAllMocks());

/** Seen once, then not for eight looks, two seconds apart; then gone. What each node says of the leader meanwhile. */
async function followed(opinions: readonly Opinion[], addresses = NODES) {
  let now = 0;
  jest.spyOn(Date, 'now').mockImplementation(() => now);
  let looks = 0;
  const attempt = { nonce: 'n', progress: 0, required: 3, pgpFingerprint: 'own' };
  const readAttempt = () => {
    looks += 1;
    if (looks === 1) return Promise.resolve({ ...attempt, started: true });
    now += 2 * SECOND;
    if (looks > FAILING_LOOKS + 1) return Promise.resolve({ ...attempt, started: false });
    return Promise.reject(new RunbookError('SERVICE_ERROR', 'local node not active but active cluster node not found'));
  };
  const leader = ({ node }: { node: string }) => {
    const opinion = opinions[addresses.indexOf(node)];
    return opinion instanceof Error ? Promise.reject(opinion) : Promise.resolve(opinion);
  };
  const access = {
    entry: { name: 'west', addresses },
    client: {
      sys: { health: () => Promise.resolve({ version: '1.16.0' }), leader },
      dr: { secondary: { generateOperationToken: { readAttempt } } },
      forgetActiveNode: () => undefined,
      activeNode: () => Promise.resolve(NODES[1]),
    },
  } as unknown as ClusterAccess;
  const execution = {
    signal: new AbortController().signal,
    progress: () => undefined,
    throwIfCancelled: () => undefined,
  } as unknown as Execution;
  const known = {
    kind: 'operation-token',
    nonce: 'n',
    fingerprint: 'own',
    progress: 0,
    address: NODES[0] ?? '',
  } as const;
  const seen = await followAttempt(execution, access, { ...known, seenAt: 0, earlier: [], budgetMs: 1e9 });
  expect(seen.seen).toBe('gone');
  return seen.lookedAt - seen.seenAt;
}

describe('an attempt that is gone after an election of 16 s', () => {
  it.each([
    ['each node names nobody', [follows(), follows(), follows()]],
    ['the former leader is not there, and is still named', [refused, follows(NODES[0]), follows(NODES[0])]],
    ['the former leader is sealed', [new RunbookError('SERVICE_SEALED', 'sealed'), follows(), follows()]],
  ])('was without a leader since the first look that failed, where %s', async (_what, opinions) => {
    expect(await followed(opinions)).toBe(2 * SECOND);
  });

  it.each([
    ['one node does not answer', [new RunbookError('REQUEST_TIMEOUT', 'late'), follows(NODES[0]), follows(NODES[0])]],
    ['one leads, and only its attempt cannot be read', [{ haEnabled: true, isSelf: true }, follows(), follows()]],
    ['one names a leader that is not known here', [follows('https://west-9:8200'), follows(), follows()]],
    ['none answers', [refused, refused, refused]],
  ])('may have got its shares meanwhile, where %s', async (_what, opinions) => {
    expect(await followed(opinions)).toBe(16 * SECOND);
  });
});

it('what lies between two looks that are far apart does not count: somebody may have led', async () => {
  let now = 0;
  jest.spyOn(Date, 'now').mockImplementation(() => now);
  const client = { sys: { leader: () => Promise.resolve(follows()) } };
  const access = { entry: { addresses: NODES }, client } as unknown as ClusterAccess;
  const time = new LeaderlessTime();
  for (const at of [0, 2, 8, 9]) {
    now = at * SECOND;
    await time.look(access, new AbortController().signal);
  }
  expect(time.totalMs).toBe(3 * SECOND);
  time.reset();
  expect(time.totalMs).toBe(0);
});
