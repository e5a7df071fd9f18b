/** The tool of a person who gives a token: it asks for nothing else, and lets nothing else out. */
import { openProvidedToken } from '../../src/keys';
import { RUN } from '../keys/builders';
import { claimedAda, HolderBench } from './support';
import type { Typed } from './support';

const TOKEN = `hvs.${'Qz7'.repeat(8)}`;
const SHARE = '5e'.repeat(32) + '01';

let bench: HolderBench;
let tokens: string;
let shares: string;
let cid: string;
beforeAll(async () => {
  bench = await HolderBench.open();
  const targets = ['west', 'north'].map((cluster) => ({
    ...{ cluster, clusterId: `id-${cluster}`, addresses: ['https://10.1.0.4:8200'], caSha256: '' },
    uses: ['dr.promote' as const],
  }));
  const invited = await bench.invite({ targets, collects: 'tokens' });
  cid = invited.invitation.cid;
  tokens = await bench.file('tokens', invited.jws);
  shares = await bench.file('shares', (await bench.invite({ epoch: 2 })).jws);
});
afterAll(() => bench.close());

const provide = (file: string, words: readonly string[], typed: Typed = {}) =>
  bench.give(file, words, typed, 'provide-token');

it('asks for the cluster and, hidden, for the token; what it prints opens with the key of the run alone', async () => {
  const { code, out, err, questions } = await provide(tokens, [], { answers: ['north', TOKEN] });
  expect(code).toBe(0);
  expect(questions).toEqual([expect.stringContaining('cluster of the token'), 'The operation token of north']);
  expect(err).toContain('Never a key share, never a root token');
  expect(out + err).not.toContain(TOKEN);
  const record = await bench.records.read({ run: RUN, cid, epoch: 1 });
  const arrived = { content: JSON.parse(out) as unknown, at: Date.now() };
  const { receipt, provided } = await openProvidedToken(record, arrived, claimedAda);
  expect(receipt).toMatchObject({ verdict: 'accepted', holder: 'ada' });
  expect([provided?.cluster, provided?.token.reveal()]).toEqual(['north', TOKEN]);
});

it.each([
  ['a key share in hexadecimal', SHARE, 'KEY SHARE'],
  ['a key share in base64', Buffer.from(SHARE, 'hex').toString('base64'), 'KEY SHARE'],
  ['a batch token', `hvb.${'Ab3'.repeat(40)}`, 'batch token'],
  ['a recovery token', `hvr.${'Ab3'.repeat(8)}`, 'another kind'],
  ['an ordinary service token', `hvs.CAES${'Ab3'.repeat(30)}`, 'another kind'],
  ['the encoded token', 'Qz7'.repeat(12), 'not decoded'],
])('refuses %s, and repeats nothing of it', async (_what, typed, words) => {
  const { code, out, err } = await provide(tokens, ['--confirm', 'west', '--token-stdin'], { input: `${typed}\n` });
  expect([code, out]).toEqual([3, '']);
  expect(err).toMatch(new RegExp(words, 'i'));
  expect(err).not.toContain(typed);
});

it('asks for nothing where the run wants key shares, and share for nothing where it wants a token', async () => {
  const noToken = await provide(shares, ['--confirm', 'west'], { answers: [TOKEN] });
  expect(noToken).toMatchObject({ code: 3, questions: [] });
  expect(noToken.err).toContain('asks for no operation token');
  const noShare = await bench.give(tokens, ['--confirm', 'west'], { answers: [SHARE] });
  expect(noShare).toMatchObject({ code: 3, questions: [] });
  expect(noShare.err).toContain('takes no key shares');
});

it('gives a token of no cluster but those of the invitation', async () => {
  const { code, err, questions } = await provide(tokens, ['--confirm', 'east'], { answers: [TOKEN] });
  expect([code, questions]).toEqual([3, []]);
  expect(err).toContain('west or north');
});
