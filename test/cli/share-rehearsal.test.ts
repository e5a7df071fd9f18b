/** `runbook share` in a rehearsal: it says so, asks for no share, takes none, and makes the value itself. */
import { programVersion } from '../../src/dev-server/locations';
import { createRehearsal, openRehearsalAnswer } from '../../src/keys';
import type { CreatedInvitation } from '../../src/keys';
import { lookup, RUN } from '../keys/builders';
import { claimedAda, HolderBench } from './support';
import type { Typed } from './support';

const WID = 'rehearsal:payments';
const SHARE = '5e'.repeat(32) + '01';
const VERSION = programVersion();

let bench: HolderBench;
let invited: CreatedInvitation<'rehearsal'>;
let file: string;
beforeAll(async () => {
  bench = await HolderBench.open();
  const facts = { deployment: 'payments', requestedBy: { name: 'olga', how: 'claimed' } as const };
  invited = await createRehearsal(
    bench.records,
    bench.workersKey,
    { ...RUN, wid: WID },
    {
      ...{ ...facts, reason: 'every quarter', runbook: 'ceremonyRehearsal', inputDigest: 'payments/ada+bert' },
      ...{ holders: ['ada', 'bert'], epoch: 1, collectForMs: 60_000 },
    },
  );
  file = await bench.file('invitation', `${invited.jws}\n`);
});
afterAll(() => bench.close());

const share = (words: readonly string[] = [], typed: Typed = {}, wid = WID) =>
  bench.give(file, words, typed, 'share', wid);

async function opened(text: string, person = claimedAda) {
  const record = await bench.records.read({ run: { ...RUN, wid: WID }, cid: invited.invitation.cid, epoch: 1 });
  return openRehearsalAnswer(record, { content: JSON.parse(text), at: Date.now() }, person);
}

it('says that it is one, asks for nothing but the name of the deployment, and prints an answer', async () => {
  const { code, out, err, questions } = await share([], { answers: ['payments'] });
  expect(code).toBe(0);
  expect(questions).toEqual(['To go on with the REHEARSAL, type the name of the deployment']);
  for (const shown of ['your key share is NOT asked for', 'payments', 'olga (UNVERIFIED)', RUN.rid])
    expect(err).toContain(shown);
  expect(err.split('\n')[0]).toBe('REHEARSAL: no key share is asked for. Keep yours where it is.');
  expect(err).not.toContain('Warning');
  expect(out.split('\n')).toHaveLength(1);
  expect(VERSION).toMatch(/^\d+\.\d+\.\d+/);
  expect((await opened(out)).answer).toEqual({ holder: 'ada', how: 'claimed', tool: `runbook ${VERSION}` });
});

it("signs with the holder's key, which is what is rehearsed", async () => {
  const passphrase = 'correct horse battery staple';
  const { file: keyFile, person } = await bench.holderKey(passphrase);
  const given = await share(['--confirm', 'payments', '--key-file', keyFile], { answers: [passphrase] });
  expect(given.code).toBe(0);
  const { answer } = await opened(given.out, lookup(person));
  expect(answer).toMatchObject({ holder: 'ada', how: 'signed', kid: person.publicKeys[0]?.kid });
});

it('takes no share, neither from a file nor from standard input, and does not even read it', async () => {
  const shareFile = await bench.file('share.txt', SHARE, 0o644);
  for (const from of [shareFile, '-']) {
    const { code, out, err, questions } = await share(['--share-file', from, '--confirm', 'payments'], {
      input: SHARE,
    });
    expect([code, out, questions]).toEqual([3, '', []]);
    expect(err).toContain('it asks for no key share, and none was read');
    expect(err).not.toContain('Warning: other users');
  }
});

it('a wrong name, another run, somebody who is not invited: nothing is made', async () => {
  expect((await share(['--confirm', 'west'])).err).toContain('not the name of the deployment');
  expect((await share([], {}, 'rehearsal:other')).err).toContain('belongs to another run');
  expect((await share(['--holder', 'dora'])).err).toContain('does not invite you');
});
