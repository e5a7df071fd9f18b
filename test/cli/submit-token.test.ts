/** `runbook submit-token`: what people paste becomes the documented signal, or is refused without being repeated. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cli } from './support';

const ENCODED = Buffer.from(Array.from({ length: 180 }, (_, index) => (index * 37 + 11) % 256)).toString('base64');
const PLAIN = 'hvs.CANARYabcdefghijklmnopqr';
const WORDS = ['submit-token', 'deployment:payments', '--cluster', 'west', '--print'];
const SIGNAL = { cluster: 'west', encodedToken: ENCODED };

describe('runbook submit-token', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'submit-token-'));
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  it.each([
    ['alone', ENCODED],
    ['broken into lines by a terminal', ENCODED.replace(/(.{70})/g, '$1\n')],
    ["the service's answer", JSON.stringify({ nonce: 'n', complete: true, encoded_token: ENCODED, otp: '' })],
    ['two documents glued together', `${JSON.stringify({ encoded_token: ENCODED })}{"errors":["internal error"]}`],
    ['as the official command line prints it', `Nonce         n\nComplete      true\nEncoded Token    ${ENCODED}\n`],
  ])('prints the signal of what was pasted: %s', async (_what, pasted) => {
    const file = join(directory, 'answer');
    await writeFile(file, pasted);
    const fromFile = await cli([...WORDS, '--token-file', file]);
    expect([fromFile.code, JSON.parse(fromFile.out)]).toEqual([0, SIGNAL]);
    const piped = await cli([...WORDS, '--token-file', '-'], { input: pasted });
    expect(JSON.parse(piped.out)).toEqual(SIGNAL);
  });

  it('asks where nothing is given', async () => {
    const { code, out, questions } = await cli(WORDS, { answers: [ENCODED] });
    expect([code, JSON.parse(out), questions]).toEqual([0, SIGNAL, ['The encoded token']]);
  });

  it.each([
    ['a token in plain text', PLAIN, 'PLAIN TEXT'],
    ['a token for a one-time password', 'CTRASgBtJwpnJA9cEy1cHSJWNQl0PwN7MWUIRA', 'too short'],
    ['something else', 'not a token at all!', 'No encoded token'],
  ])('sends nothing and repeats nothing of %s', async (_what, pasted, why) => {
    const { code, out, err } = await cli(WORDS, { answers: [pasted] });
    expect(code).not.toBe(0);
    expect(err).toContain(why);
    expect(`${out}${err}`).not.toContain(pasted);
  });
});
