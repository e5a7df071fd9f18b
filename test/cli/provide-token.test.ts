/** The tool of a person who gives a token: it asks for nothing else, and lets nothing else out. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  addPin,
  createInvitation,
  formatPublicKey,
  KeyRecords,
  newSigningKey,
  openProvidedToken,
} from '../../src/keys';
import type { KeyRecord, PersonLookup } from '../../src/keys';
import { cli } from './support';
import type { Typed } from './support';

const RUN = { ns: 'default', wid: 'deployment:payments', rid: '01a1fba0-3c5c-71fc-a1a1-b10622813251' };
const TOKEN = `hvs.${'Qz7'.repeat(8)}`;
const SHARE = '5e'.repeat(32) + '01';

let directory: string;
let records: KeyRecords;
let pins: string;
const files = { tokens: '', shares: '' };
const invited = new Map<string, KeyRecord>();

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'provide-'));
  records = await KeyRecords.open({ directory: join(directory, 'keys'), storage: 'disk' });
  const workersKey = newSigningKey().key;
  pins = join(directory, 'pins.json');
  await addPin(pins, 'production', formatPublicKey(workersKey));
  for (const [kind, epoch] of [
    ['tokens', 1],
    ['shares', 2],
  ] as const) {
    const { jws } = await createInvitation(records, workersKey, RUN, {
      kind: 'operation-token',
      targets: ['west', 'north'].map((cluster) => ({
        ...{ cluster, clusterId: `id-${cluster}`, addresses: ['https://10.1.0.4:8200'], caSha256: '' },
        uses: ['dr.promote'] as const,
      })),
      requestedBy: { name: 'olga', how: 'claimed' },
      ...{ reason: 'planned maintenance', runbook: 'drSwitchover', inputDigest: 'digest', epoch },
      ...{ holders: ['ada', 'bert'], threshold: 1, collectForMs: 60_000, useForMs: 60_000 },
      ...(kind === 'tokens' && { collects: 'tokens' as const }),
    });
    files[kind] = join(directory, kind);
    await writeFile(files[kind], `${jws}\n`);
    const [record] = (await records.ofRun(RUN)).filter((each) => each.epoch === epoch);
    if (record) invited.set(kind, record);
  }
});
afterAll(() => rm(directory, { recursive: true }));

const give = (command: 'provide-token' | 'share', file: string, words: readonly string[], typed: Typed = {}) =>
  cli([command, RUN.wid, '--holder', 'ada', '--invitation-file', file, '--pins', pins, '--print', ...words], typed);
const claimed: PersonLookup = (name) => (name === 'ada' ? { name, attestation: 'claimed', publicKeys: [] } : undefined);

it('asks for the cluster and, hidden, for the token; what it prints opens with the key of the run alone', async () => {
  const { code, out, err, questions } = await give('provide-token', files.tokens, [], { answers: ['north', TOKEN] });
  expect(code).toBe(0);
  expect(questions).toEqual([expect.stringContaining('cluster of the token'), 'The operation token of north']);
  expect(err).toContain('Never a key share, never a root token');
  expect(out + err).not.toContain(TOKEN);
  const record = invited.get('tokens');
  if (!record) throw new Error('no record');
  const arrived = { content: JSON.parse(out) as unknown, at: Date.now() };
  const { receipt, provided } = await openProvidedToken(record, arrived, claimed);
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
  const { code, out, err } = await give('provide-token', files.tokens, ['--confirm', 'west', '--token-stdin'], {
    input: `${typed}\n`,
  });
  expect(code).toBe(3);
  expect(out).toBe('');
  expect(err).toMatch(new RegExp(words, 'i'));
  expect(err).not.toContain(typed);
});

it('asks for nothing where the run wants key shares, and share for nothing where it wants a token', async () => {
  const noToken = await give('provide-token', files.shares, ['--confirm', 'west'], { answers: [TOKEN] });
  expect(noToken).toMatchObject({ code: 3, questions: [] });
  expect(noToken.err).toContain('asks for no operation token');
  const noShare = await give('share', files.tokens, ['--confirm', 'west'], { answers: [SHARE] });
  expect(noShare).toMatchObject({ code: 3, questions: [] });
  expect(noShare.err).toContain('takes no key shares');
});

it('gives a token of no cluster but those of the invitation', async () => {
  const { code, err, questions } = await give('provide-token', files.tokens, ['--confirm', 'east'], {
    answers: [TOKEN],
  });
  expect(code).toBe(3);
  expect(questions).toEqual([]);
  expect(err).toContain('west or north');
});
