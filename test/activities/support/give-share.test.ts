/** What ends the doubt about a share that may be under way: never a look alone. */
import { endDoubt } from '../../../activities/ceremony/last-share';
import type { GeneratedTokenKind, GenerationAttempt, GenerationEndpoints } from '../../../src/vault';
import { RunbookError } from '../../../src/errors';

const NONCE = 'a-nonce';
const seen = (progress: number, required = 3): GenerationAttempt => ({
  ...({ started: true, nonce: NONCE, progress, required, complete: false } as GenerationAttempt),
});

/** A slot that says `answers` to shares, and shows `looks`, one after the other. */
function slot(answers: readonly (GenerationAttempt | RunbookError)[], looks: readonly GenerationAttempt[]) {
  const [given, shown] = [[...answers], [...looks]];
  const keys: string[] = [];
  const endpoints = {
    update: async ({ key }: { key: { reveal(): string } }) => {
      keys.push(key.reveal());
      const answer = given.shift();
      if (answer instanceof Error || answer === undefined) throw answer ?? new RunbookError('CONNECTION_LOST', 'lost');
      return answer;
    },
    readAttempt: async () => shown.shift() ?? seen(0),
  } as unknown as GenerationEndpoints<GeneratedTokenKind>;
  return { calls: { endpoints, token: undefined }, keys };
}

const refused = new RunbookError('BAD_REQUEST', 'aborted');
const denied = new RunbookError('PERMISSION_DENIED', 'no');
const gone: GenerationAttempt = { ...seen(0), started: false, nonce: undefined };

it.each([
  ['it was put back to no share: no later one completes it', 2, [refused], [seen(0)], 'certain', 'certain'],
  ['the late share came after that, and is one of too few', 2, [refused], [seen(1)], 'certain', 'certain'],
  ['it is gone: the late share, or somebody, was faster', 2, [refused], [gone], 'gone', 'gone'],
  ['another attempt is there', 2, [refused], [{ ...seen(0), nonce: 'another' }], 'gone', 'gone'],
  ['a look shows it without shares, and the next one shows that it was over', 0, [], [gone], 'gone', 'open'],
  ['so does one after the useless share', 2, [refused], [seen(0), gone], 'gone', 'gone'],
  ['the answer was lost, and it was put back', 2, [], [seen(0)], 'certain', 'open'],
  ['the answer was lost, and it waits: once more', 2, [undefined, refused], [seen(2), seen(0)], 'certain', 'certain'],
  ['nothing arrives', 2, [], [seen(2), seen(2), seen(2)], 'open', 'open'],
  ['it takes nothing from us', 2, [denied], [], 'open', 'open'],
  // With a recipient's key the service may die over the token that it made, and leave the attempt at no share.
  ['it was at no share before', 0, [], [], 'certain', 'open'],
  ['it was put back before, and takes it as a first share', 2, [seen(1)], [seen(1)], 'certain', 'open'],
] as const)('%s', async (_what, progress, answers, looks, operation, root) => {
  const lost = new RunbookError('CONNECTION_LOST', 'lost');
  const given = answers.map((each) => each ?? lost);
  expect(await endDoubt(slot(given, looks).calls, 'operation-token', seen(progress))).toBe(operation);
  expect(await endDoubt(slot(given, looks).calls, 'root-token', seen(progress))).toBe(root);
});

it('is never ended where one share alone makes a token, and nothing is sent then', async () => {
  const { calls, keys } = slot([refused], [seen(0, 1)]);
  expect([await endDoubt(calls, 'operation-token', seen(0, 1)), keys]).toEqual(['open', []]);
});

it('is ended where two shares make a token: no attempt is given a share twice, so one alone is under way', async () => {
  for (const kind of ['operation-token', 'root-token'] as const)
    expect(await endDoubt(slot([refused], [seen(0, 2), seen(0, 2)]).calls, kind, seen(1, 2))).toBe('certain');
});

it.each([
  ['was taken', seen(1, 2)],
  ['had no answer', new RunbookError('CONNECTION_LOST', 'lost')],
])("is open for a recipient's key where two shares make a token and the useless one %s", async (_what, answer) => {
  // The service died over the token that it made, and the attempt took the useless share as its first one.
  const looks = [seen(1, 2), seen(0, 2)];
  expect(await endDoubt(slot([answer, refused], looks).calls, 'root-token', seen(1, 2))).toBe('open');
});

it('what is sent has the length of a share, and is another one each time', async () => {
  const { calls, keys } = slot([], [seen(2), seen(2), seen(2)]);
  await endDoubt(calls, 'operation-token', seen(2));
  expect(keys.map((key) => Buffer.from(key, 'hex').length)).toEqual([33, 33, 33]);
  expect(new Set(keys).size).toBe(3);
});
