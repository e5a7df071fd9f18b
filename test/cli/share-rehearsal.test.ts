/** `runbook share` in a rehearsal: it says so, asks for no share, takes none, and makes the value itself. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programVersion } from '../../src/cli/command';
import { Secret } from '../../src/secret';
import {
  addPin,
  createHolderKey,
  createRehearsal,
  formatPublicKey,
  KeyRecords,
  newSigningKey,
  openRehearsalAnswer,
} from '../../src/keys';
import type { CreatedInvitation, PersonLookup, SigningKey } from '../../src/keys';
import { cli } from './support';
import type { CliResult, Typed } from './support';

const RUN = { ns: 'default', wid: 'rehearsal:payments', rid: '01a1fba0-3c5c-71fc-a1a1-b10622813251' };
const SHARE = '5e'.repeat(32) + '01';
const VERSION = programVersion();

let directory: string;
let records: KeyRecords;
let workersKey: SigningKey;
let pins: string;
let invited: CreatedInvitation<'rehearsal'>;
let invitationFile: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'share-rehearsal-'));
  records = await KeyRecords.open({ directory: join(directory, 'keys'), storage: 'disk' });
  workersKey = newSigningKey().key;
  pins = join(directory, 'pins.json');
  await addPin(pins, 'production', formatPublicKey(workersKey));
  invited = await createRehearsal(records, workersKey, RUN, {
    deployment: 'payments',
    requestedBy: { name: 'olga', how: 'claimed' },
    ...{ reason: 'every quarter', runbook: 'ceremonyRehearsal', inputDigest: 'payments/ada+bert' },
    ...{ holders: ['ada', 'bert'], epoch: 1, collectForMs: 60_000 },
  });
  invitationFile = join(directory, 'invitation');
  await writeFile(invitationFile, `${invited.jws}\n`);
});
afterAll(() => rm(directory, { recursive: true }));

function share(words: readonly string[] = [], typed: Typed = {}): Promise<CliResult> {
  const from = ['--invitation-file', invitationFile, '--pins', pins, '--print'];
  return cli(['share', RUN.wid, '--holder', 'ada', ...from, ...words], typed);
}

const claimed: PersonLookup = (name) => (name === 'ada' ? { name, attestation: 'claimed', publicKeys: [] } : undefined);

async function opened(text: string, person = claimed) {
  const record = await records.read({ run: RUN, cid: invited.invitation.cid, epoch: 1 });
  return openRehearsalAnswer(record, { content: JSON.parse(text), at: Date.now() }, person);
}

describe('runbook share, in a rehearsal', () => {
  it('tells the version of package.json', () => expect(VERSION).toMatch(/^\d+\.\d+\.\d+/));

  it('says that it is one, asks for nothing but the name of the deployment, and prints an answer', async () => {
    const { code, out, err, questions } = await share([], { answers: ['payments'] });
    expect(code).toBe(0);
    expect(questions).toEqual(['To go on with the REHEARSAL, type the name of the deployment']);
    for (const shown of ['REHEARSAL', 'your key share is NOT asked for', 'payments', 'olga (UNVERIFIED)', RUN.rid])
      expect(err).toContain(shown);
    expect(err.split('\n')[0]).toBe('REHEARSAL: no key share is asked for. Keep yours where it is.');
    expect(err).not.toContain('Warning');
    expect(out.split('\n')).toHaveLength(1);
    expect((await opened(out)).answer).toEqual({ holder: 'ada', how: 'claimed', tool: `runbook ${VERSION}` });
  });

  it("signs with the holder's key, which is what is rehearsed, into a file that somebody else sends", async () => {
    const passphrase = new Secret('passphrase', 'correct horse battery staple');
    const key = await createHolderKey(passphrase, 2);
    const [keyFile, output] = [join(directory, 'ada.key'), join(directory, 'ada.envelope')];
    await writeFile(keyFile, key.file, { mode: 0o600 });
    const words = ['--invitation-file', invitationFile, '--pins', pins, '--output', output, '--confirm', 'payments'];
    const { code } = await cli(['share', RUN.wid, '--holder', 'ada', ...words, '--key-file', keyFile], {
      answers: [passphrase.reveal()],
    });
    expect(code).toBe(0);
    const publicKeys = [{ kid: key.kid, x: key.inventoryLine.split(':')[1] ?? '' }];
    const signed: PersonLookup = (name) => (name === 'ada' ? { name, attestation: 'signed', publicKeys } : undefined);
    const { answer } = await opened(await readFile(output, 'utf8'), signed);
    expect(answer).toMatchObject({ holder: 'ada', how: 'signed', kid: key.kid });
  });

  it('takes no share, neither from a file nor from standard input, and does not even read it', async () => {
    const file = join(directory, 'share.txt');
    await writeFile(file, SHARE, { mode: 0o644 });
    for (const words of [['--share-file', file], ['--share-stdin']]) {
      const { code, out, err, questions } = await share([...words, '--confirm', 'payments'], { input: SHARE });
      expect(code).toBe(3);
      expect(err).toContain('it asks for no key share, and none was read');
      expect([out, questions]).toEqual(['', []]);
      expect(err).not.toContain('Warning: other users');
    }
  });

  it('a wrong name, another run, somebody who is not invited: nothing is made', async () => {
    expect((await share(['--confirm', 'west'])).err).toContain('not the name of the deployment');
    const other = ['share', 'rehearsal:other', '--holder', 'ada', '--invitation-file', invitationFile, '--pins', pins];
    expect((await cli([...other, '--print'])).err).toContain('belongs to another run');
    const dora = ['share', RUN.wid, '--holder', 'dora', '--invitation-file', invitationFile, '--pins', pins];
    expect((await cli([...dora, '--print'])).err).toContain('does not invite you');
  });
});
