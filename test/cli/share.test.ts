import { programVersion } from '../../src/dev-server/locations';
import {
  createInvitation,
  examineEnvelope,
  newSigningKey,
  openProvidedToken,
  openRehearsalAnswer,
  openShares,
  readPins,
  spokenFingerprint,
} from '../../src/keys';
import type { CreatedInvitation } from '../../src/keys';
import { processContext } from '../../src/cli/context';
import { lookup, rehearsalFacts, RUN } from '../keys/builders';
import { atTerminal, claimedAda, cli, HolderBench } from './support';
import type { Typed } from './support';

const SHARE = '5e'.repeat(32) + '01';
const PASSPHRASE = 'correct horse battery staple';

let bench: HolderBench;
let invitation: CreatedInvitation;
let invitationFile: string;
beforeAll(async () => {
  bench = await HolderBench.open();
  invitation = await bench.invite();
  invitationFile = await bench.file('invitation', `${invitation.jws}\n`);
});
afterAll(() => bench.close());

const share = (words: readonly string[] = [], typed: Typed = {}, file = invitationFile) =>
  bench.give(file, words, typed);

describe('at a terminal', () => {
  const press = (...keys: readonly string[]) => {
    for (const key of keys) process.stdin.emit('keypress', key === 'return' ? '\r' : key, { name: key, sequence: key });
  };

  it('input that is typed while a key is opened is not shown, in any case', () =>
    atTerminal(async (modes) => {
      const context = processContext(new AbortController().signal);
      const work = () => {
        expect(modes).toEqual([true]);
        return Promise.reject(new Error('damaged'));
      };
      await expect(context.quietly(work)).rejects.toThrow('damaged');
      expect(modes).toEqual([true, false]);
    }));

  it('input that is typed after an answer, and before a hidden question appears, is not shown', () =>
    atTerminal(async (modes, shown) => {
      const end = new AbortController();
      const context = processContext(end.signal);
      const asked = context.ask('The name');
      press('w', 'e', 's', 't', 'return', 'S', 'E', 'C', 'R', 'E', 'T');
      // The reader's own mode has ended, and the terminal keeps silent until the question after it can be asked.
      expect(modes).toEqual([true, false, true]);
      expect(await asked).toBe('west');
      expect(modes).toEqual([true, false, true, false]);
      expect(shown()).toMatch(/The name: [^]*west/);
      expect(shown()).not.toContain('S');
      const hidden = context.askHidden('Your key share');
      expect(modes.at(-1)).toBe(true);
      end.abort();
      await expect(hidden).rejects.toMatchObject({ code: 'REQUEST_CANCELLED' });
      expect(modes.at(-1)).toBe(false);
    }));

  it('Ctrl-C and a termination signal end a question', () =>
    atTerminal(async (modes) => {
      const end = new AbortController();
      const context = processContext(end.signal);
      const first = context.ask('The name');
      process.stdin.emit('keypress', '\u0003', { name: 'c', ctrl: true, sequence: '\u0003' });
      await expect(first).rejects.toMatchObject({ code: 'REQUEST_CANCELLED' });
      const second = context.ask('The name');
      end.abort();
      await expect(second).rejects.toMatchObject({ code: 'REQUEST_CANCELLED' });
      expect(modes.at(-1)).toBe(false);
    }));
});

describe('runbook share', () => {
  it('shows the invitation, asks for the cluster and the share, and prints an envelope that only the workers open', async () => {
    const { code, out, err, questions } = await share([], { answers: ['west', SHARE] });
    expect(code).toBe(0);
    expect(questions).toHaveLength(2);
    const { targets, requestedBy, reason } = invitation.invitation;
    const [target] = targets;
    const facts = [
      target?.cluster,
      target?.clusterId,
      target?.addresses[0],
      `${requestedBy.name} (UNVERIFIED)`,
      reason,
    ];
    for (const shown of [...facts, 'promote it to DR primary', 'ada, bert; 2 needed', RUN.rid])
      expect(err).toContain(shown);
    expect(out.split('\n')).toHaveLength(1);
    expect(out + err).not.toContain(SHARE);
    expect(await opened(JSON.parse(out))).toBe(SHARE);
  });

  it.each(['an option', 'the environment'])("signs with the holder's key if %s names one", async (way) => {
    const { file, person } = await bench.holderKey(PASSPHRASE);
    const words = ['--confirm', 'west', '--share-file', '-', ...(way === 'an option' ? ['--key-file', file] : [])];
    const env = way === 'an option' ? {} : { RUNBOOKS_KEY_FILE: file };
    const { out, code } = await share(words, { answers: [PASSPHRASE], input: `${SHARE}\n`, env });
    expect(code).toBe(0);
    const { cid, epoch, holders, exp } = invitation.invitation;
    const ceremony = { cid, epoch, holders, exp, invitationDigest: invitation.digest };
    const arrived = { content: JSON.parse(out) as unknown, at: Date.now() };
    expect(await examineEnvelope(arrived, ceremony, lookup(person))).not.toHaveProperty('refused');
  });

  it('a wrong passphrase is asked for again, three times in all, before the share; then the error says what to do', async () => {
    const { file: keyFile } = await bench.holderKey(PASSPHRASE);
    const give = (typed: Typed, ...more: string[]) =>
      share(['--key-file', keyFile, '--confirm', 'west', ...more], typed);
    const right = await give({ answers: ['wrong', 'canary-wrong', PASSPHRASE, SHARE] });
    expect([right.code, right.questions.length]).toEqual([0, 4]);
    expect(right.err).toContain('Try again (3 of 3)');
    const { code, err, questions } = await give({ answers: ['wrong', 'wrong', 'canary-wrong'] });
    expect(code).toBe(3);
    expect(questions).toEqual(Array(3).fill('Passphrase of the signing key'));
    expect(err).toMatch(
      /next: Look up the passphrase in your password manager[^]*call the operators now, at a number that you already know: another person must act in your place/,
    );
    expect(right.err + err).not.toContain('canary');
    // From a file, without a terminal, or of a file that is no key: once.
    const file = await bench.file('wrong-passphrase', 'wrong\n');
    expect(await give({}, '--passphrase-file', file)).toMatchObject({ code: 3, questions: [] });
    const dark = await give({ answers: ['wrong', PASSPHRASE], interactive: false });
    expect([dark.code, dark.questions.length]).toEqual([3, 1]);
    const other = await share(['--key-file', file, '--confirm', 'west'], { answers: [PASSPHRASE, PASSPHRASE] });
    expect([other.code, other.questions.length]).toEqual([3, 1]);
    expect(other.err).toContain('This is not a key file');
  });

  it.each<[string, () => Promise<{ readonly jws: string }>, string, string?]>([
    ['an expired one', () => bench.invite({ epoch: 3 }, bench.workersKey, Date.now() - 7_200_000), 'expired'],
    ['a changed one', () => Promise.resolve({ jws: changed(invitation.jws) }), 'refused'],
    ['something else', () => Promise.resolve({ jws: 'not an invitation' }), 'no invitation'],
    ['another run', () => bench.invite({ epoch: 5 }), 'belongs to a different run', 'deployment:other'],
  ])('refuses an invitation of %s and does not ask for the share', async (_, make, text, named = RUN.wid) => {
    const file = await bench.file('bad-invitation', (await make()).jws);
    const { code, err, questions } = await bench.give(file, [], { answers: ['west', SHARE] }, 'share', named);
    expect([code, questions]).toEqual([3, []]);
    expect(err).toContain(text);
  });

  it('refuses somebody who is not invited, and a wrong name of the target cluster, without asking for the share', async () => {
    expect((await share(['--holder', 'eve'], { answers: ['west', SHARE] })).questions).toEqual([]);
    const { code, err, questions } = await share([], { answers: ['east', 'east', 'east', SHARE] });
    expect([code, questions]).toEqual([3, Array(3).fill('To continue, type the name of the cluster')]);
    expect(err).toContain('If you expected a different one, stop and call the operators');
    // The question does not answer itself; a script's mistake is told.
    expect(err).not.toContain('needed: west');
    const script = await share(['--confirm', 'east']);
    expect([script.questions, script.err.includes('needed: west')]).toEqual([[], true]);
  });

  it('asks a holder who must sign for no share without their key, and rehearses it too', async () => {
    const { jws } = await bench.invite({ epoch: 15, mustSign: ['ada'] });
    const signed = await bench.file('must-sign', jws);
    const { code, out, err, questions } = await share(['--confirm', 'west'], { answers: [SHARE] }, signed);
    expect([code, out, questions]).toEqual([3, '', []]);
    expect(err).toContain('You must sign your answer: the operators list a public key for you.');
    expect(err).toContain('with their signature: ada');
    const { file } = await bench.holderKey(PASSPHRASE);
    const words = ['--confirm', 'west', '--key-file', file];
    expect((await share(words, { answers: [PASSPHRASE, SHARE] }, signed)).code).toBe(0);
  });

  it('stops at another fingerprint than the pinned one, and if none is pinned, with the command that pins it, without a question', async () => {
    const { key } = newSigningKey();
    const { jws } = await bench.invite({ epoch: 14 }, key);
    const file = await bench.file('of-another-key', `"${jws}"\n`);
    const fresh = bench.path('fresh-pins.json');
    for (const [pins, message] of [
      [bench.pins, 'STOP. The invitation is signed with a different key from the one pinned'],
      [fresh, 'signed with a key that is not pinned'],
    ] as const) {
      const { code, err, questions } = await share(
        [],
        { answers: ['yes', 'west', SHARE], env: { RUNBOOKS_PINS: pins } },
        file,
      );
      expect([code, questions]).toEqual([3, []]);
      for (const shown of [message, spokenFingerprint(key.kid)]) expect(err).toContain(shown);
      expect(err).toContain('runbook keys trust production KID:KEY');
      if (pins === bench.pins) expect(err).toContain(spokenFingerprint(bench.workersKey.kid));
    }
    expect((await readPins(bench.pins)).map(({ kid }) => kid)).toEqual([bench.workersKey.kid]);
    expect(await readPins(fresh)).toEqual([]);
  });

  it('passes on only envelopes: a plain-text share is not sent for anybody', async () => {
    for (const text of [SHARE, JSON.stringify({ share: SHARE }), JSON.stringify(SHARE), '']) {
      const file = await bench.file('not-an-envelope', text);
      const { code, err } = await cli(['share', RUN.wid, '--envelope-file', file, '--address', '127.0.0.1:1']);
      expect(code).toBe(3);
      expect(err).toContain('not an envelope');
      expect(err).not.toContain(SHARE);
    }
  });

  it('never repeats text that was typed instead of a share', async () => {
    const words = ['--confirm', 'west', '--debug'];
    const { code, out, err } = await share(words, { answers: Array<string>(3).fill('canary-not-a-share') });
    expect(code).toBe(3);
    expect(err).toContain('18 characters');
    expect(out + err).not.toContain('canary');
    expect((await share(words, { answers: ['canary-not-a-share', SHARE] })).code).toBe(0);
  });

  it('reads the share from a file, and warns if others can read it', async () => {
    const file = await bench.file('share.txt', `${SHARE}\n`, 0o644);
    const { code, out, err } = await share(['--confirm', 'west', '--share-file', file]);
    expect(code).toBe(0);
    expect(err).toContain('Warning');
    expect(await opened(JSON.parse(out))).toBe(SHARE);
  });
});

/** The tool of a person who gives a token: it asks for nothing else, and lets nothing else out. */
describe('runbook provide-token', () => {
  const TOKEN = `hvs.${'Qz7'.repeat(8)}`;
  let tokens: string;
  let cid: string;
  beforeAll(async () => {
    const targets = ['west', 'north'].map((cluster) => ({
      ...{ cluster, clusterId: `id-${cluster}`, addresses: ['https://10.1.0.4:8200'], caSha256: '' },
      uses: ['dr.promote' as const],
    }));
    const invited = await bench.invite({ targets, collects: 'tokens' });
    cid = invited.invitation.cid;
    tokens = await bench.file('tokens', invited.jws);
  });

  const provide = (file: string, words: readonly string[], typed: Typed = {}) =>
    bench.give(file, words, typed, 'provide-token');

  it('asks for the cluster and, hidden, for the token; its output opens with the key of the run alone', async () => {
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
  ])('refuses %s, and does not repeat it', async (_what, typed, words) => {
    const { code, out, err } = await provide(tokens, ['--confirm', 'west', '--token-file', '-'], {
      input: `${typed}\n`,
    });
    expect([code, out]).toEqual([3, '']);
    expect(err).toMatch(new RegExp(words, 'i'));
    expect(err).not.toContain(typed);
  });

  it('does not prompt if the run wants key shares, and share does not prompt if it wants a token', async () => {
    const noToken = await provide(invitationFile, ['--confirm', 'west'], { answers: [TOKEN] });
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
});

describe('runbook share in a rehearsal', () => {
  const run = { ...RUN, wid: 'rehearsal:payments' };
  const VERSION = programVersion();
  let cid: string;
  let file: string;
  beforeAll(async () => {
    const facts = rehearsalFacts(['ada', 'bert']);
    const { jws, invitation: rehearsal } = await createInvitation(
      bench.records,
      bench.workersKey,
      run,
      'rehearsal',
      facts,
    );
    ({ cid } = rehearsal);
    file = await bench.file('rehearsal', `${jws}\n`);
  });

  const rehearse = (words: readonly string[] = [], typed: Typed = {}) =>
    bench.give(file, words, typed, 'share', run.wid);

  async function answerIn(text: string, people = claimedAda) {
    const record = await bench.records.read({ run, cid, epoch: 1 });
    return (await openRehearsalAnswer(record, { content: JSON.parse(text), at: Date.now() }, people)).answer;
  }

  it('says that it is one, asks only for the name of the deployment, and prints an answer', async () => {
    const { code, out, err, questions } = await rehearse([], { answers: ['payments'] });
    expect(code).toBe(0);
    expect(questions).toEqual(['To continue with the REHEARSAL, type the name of the deployment']);
    for (const shown of ['do NOT give your key share', 'payments', 'olga (UNVERIFIED)', RUN.rid])
      expect(err).toContain(shown);
    expect(err.split('\n')[0]).toBe('REHEARSAL: no key share is asked for. Keep yours where it is.');
    expect(err).not.toContain('Warning');
    expect(await answerIn(out)).toEqual({ holder: 'ada', how: 'claimed', tool: `runbook ${VERSION}` });
  });

  it("signs with the holder's key, which is being rehearsed", async () => {
    const { file: keyFile, person } = await bench.holderKey(PASSPHRASE);
    const { out } = await rehearse(['--confirm', 'payments', '--key-file', keyFile], { answers: [PASSPHRASE] });
    const kid = person.publicKeys[0]?.kid;
    expect(await answerIn(out, lookup(person))).toMatchObject({ holder: 'ada', how: 'signed', kid });
  });

  it('takes no share, neither from a file nor from standard input, and does not even read it', async () => {
    const shareFile = await bench.file('share.txt', SHARE, 0o644);
    for (const from of [shareFile, '-']) {
      const given = await rehearse(['--share-file', from, '--confirm', 'payments'], { input: SHARE });
      expect(given).toMatchObject({ code: 3, out: '', questions: [] });
      expect(given.err).toContain('it asks for no key share, and none was read');
      expect(given.err).not.toContain('Warning: other users');
    }
  });
});

async function opened(envelope: unknown): Promise<string | undefined> {
  const { cid, epoch } = invitation.invitation;
  const record = await bench.records.read({ run: RUN, cid, epoch });
  const [given] = await openShares(record, [{ content: envelope, at: Date.now() }], claimedAda);
  return given?.share?.reveal();
}

function changed(jws: string): string {
  const [header = '', payload = '', signature = ''] = jws.split('.');
  const members = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>;
  return `${header}.${Buffer.from(JSON.stringify({ ...members, reason: 'another reason' })).toString('base64url')}.${signature}`;
}
