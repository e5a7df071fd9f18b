import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatPublicKey, newSigningKey, readPins, spokenFingerprint } from '../../src/keys';
import { cli } from './support';

describe('a new signing key of the workers', () => {
  let directory: string;
  const { key: first } = newSigningKey();
  const { key: second } = newSigningKey();
  const pins = () => ['--pins', join(directory, 'pins.json')];
  const pinned = async () => (await readPins(join(directory, 'pins.json'))).map(({ kid }) => kid);

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'signing-keys-'));
    expect((await cli(['keys', 'trust', 'production', formatPublicKey(first), '--yes', ...pins()])).code).toBe(0);
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('is pinned again, beside the earlier one: both fingerprints are shown before, and how to give the earlier one up', async () => {
    const trust = ['keys', 'trust', 'production', formatPublicKey(second), ...pins()];
    const refused = await cli(trust, { answers: ['no'] });
    expect(refused.code).toBe(3);
    expect(await pinned()).toEqual([first.kid]);
    const { code, out, err } = await cli(trust, { answers: ['yes'] });
    expect(code).toBe(0);
    expect(err).toContain(`so far: ${spokenFingerprint(first.kid)}. This is ANOTHER key`);
    expect(err).toContain(spokenFingerprint(second.kid));
    expect(out).toContain(`runbook keys distrust ${first.kid}`);
    expect(await pinned()).toEqual([first.kid, second.kid]);
  });

  it('distrust gives a key up: it counts no more', async () => {
    await cli(['keys', 'trust', 'production', formatPublicKey(second), '--yes', ...pins()]);
    const given = await cli(['keys', 'distrust', spokenFingerprint(first.kid), ...pins()]);
    expect([given.code, given.out.includes(`Still trusted: ${spokenFingerprint(second.kid)}`)]).toEqual([0, true]);
    expect(await pinned()).toEqual([second.kid]);
    expect((await cli(['keys', 'distrust', first.kid, ...pins()])).code).not.toBe(0);
    expect((await cli(['keys', 'distrust', 'abc', ...pins()])).code).toBe(3);
  });

  it('a key whose name begins with a hyphen is no option: it is pinned and given up like any other', async () => {
    let { key } = newSigningKey();
    while (!key.kid.startsWith('-')) ({ key } = newSigningKey());
    expect((await cli(['keys', 'trust', 'production', formatPublicKey(key), '--yes', ...pins()])).code).toBe(0);
    expect(await pinned()).toContain(key.kid);
    expect((await cli(['keys', 'distrust', key.kid, ...pins()])).code).toBe(0);
    expect(await pinned()).not.toContain(key.kid);
  });
});
