import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DOCUMENT_TYPES,
  addPin,
  followPins,
  formatPublicKey,
  newSigningKey,
  readPins,
  retirePin,
  signDocument,
  signKeyStatement,
  statementsFor,
  statementsIn,
} from '../../src/secrets';

const DAY = 24 * 3600;
const NOW = new Date('2026-11-21T12:00:00Z');
const seconds = Math.floor(NOW.getTime() / 1000);
const TIMES = { iat: seconds, exp: seconds + 90 * DAY, retire: seconds + 14 * DAY };
const later = (days: number) => new Date(NOW.getTime() + days * DAY * 1000);

describe('statements by which a signing key vouches for the next one', () => {
  const make = () => newSigningKey().key;
  const first = make();
  const second = make();
  const third = make();
  const thief = make();
  let directory: string;
  let file: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'statements-'));
    file = join(directory, 'pins.json');
    await addPin(file, 'production', formatPublicKey(first), NOW);
  });
  afterEach(() => rm(directory, { recursive: true }));
  const pinned = async (now = NOW) => (await readPins(file, now)).map(({ kid }) => kid);

  it('a pinned key vouches for the next: both count until the old one retires, and then the new one alone', async () => {
    const statement = await signKeyStatement(first, second, TIMES);
    expect(await followPins(file, [statement], { now: NOW })).toMatchObject([
      { environment: 'production', previous: first.kid, key: { kid: second.kid }, until: later(14) },
    ]);
    expect(await pinned()).toEqual([first.kid, second.kid]);
    expect(await pinned(later(14))).toEqual([second.kid]);
    // Taken again it changes nothing, and is no mistake.
    const before = await readFile(file, 'utf8');
    expect(await followPins(file, [statement], { now: later(1) })).toEqual([]);
    expect(await readFile(file, 'utf8')).toBe(before);
    await expect(addPin(file, 'production', formatPublicKey(first), later(20))).rejects.toThrow('does not count since');
  });

  it('a new key that was pinned by voice before its statement came ends the old one all the same, and is its only successor', async () => {
    await addPin(file, 'production', formatPublicKey(second), NOW);
    expect(await followPins(file, [await signKeyStatement(first, second, TIMES)], { now: NOW })).toEqual([]);
    expect(await pinned(later(13))).toEqual([first.kid, second.kid]);
    expect(await pinned(later(14))).toEqual([second.kid]);
    const fork = await signKeyStatement(first, thief, TIMES);
    await expect(followPins(file, [fork], { now: later(1) })).rejects.toThrow('another key followed the one');
  });

  it('a chain of several rotations is taken in any order, also long after', async () => {
    const one = await signKeyStatement(first, second, TIMES);
    const two = await signKeyStatement(second, third, {
      ...TIMES,
      iat: seconds + 20 * DAY,
      retire: seconds + 30 * DAY,
    });
    const followed = await followPins(file, [two, one], { now: later(40) });
    expect(followed.map(({ key }) => key.kid)).toEqual([second.kid, third.kid]);
    expect(await pinned(later(40))).toEqual([third.kid]);
  });

  it.each([
    ['forged: signed by a key that is not pinned', () => signKeyStatement(thief, second, TIMES)],
    [
      'signed by itself',
      () =>
        signDocument(DOCUMENT_TYPES.signingKey, { key: formatPublicKey(thief), previous: thief.kid, ...TIMES }, thief),
    ],
    [
      'signed by itself in the name of the pinned one',
      () =>
        signDocument(DOCUMENT_TYPES.signingKey, { key: formatPublicKey(thief), previous: first.kid, ...TIMES }, thief),
    ],
    [
      'in the name of another one',
      () =>
        signDocument(DOCUMENT_TYPES.signingKey, { key: formatPublicKey(second), previous: thief.kid, ...TIMES }, first),
    ],
    [
      'expired',
      () => signKeyStatement(first, second, { iat: seconds - 90 * DAY, exp: seconds, retire: seconds - DAY }),
    ],
    [
      'of the future',
      () => signKeyStatement(first, second, { iat: seconds + DAY, exp: seconds + 3 * DAY, retire: seconds + 2 * DAY }),
    ],
    [
      'valid for ever',
      () =>
        signDocument(
          DOCUMENT_TYPES.signingKey,
          { key: formatPublicKey(second), previous: first.kid, ...TIMES, exp: seconds + 401 * DAY },
          first,
        ),
    ],
    [
      'with a further member',
      () =>
        signDocument(
          DOCUMENT_TYPES.signingKey,
          { key: formatPublicKey(second), previous: first.kid, ...TIMES, environment: 'production' },
          first,
        ),
    ],
    [
      'of another kind of document',
      () =>
        signDocument(DOCUMENT_TYPES.decision, { key: formatPublicKey(second), previous: first.kid, ...TIMES }, first),
    ],
    [
      'changed after it was signed',
      async () => {
        const [header, , signature] = (await signKeyStatement(first, second, TIMES)).split('.');
        const payload = { key: formatPublicKey(thief), previous: first.kid, ...TIMES };
        return `${header}.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.${signature}`;
      },
    ],
  ])('is refused and pins nothing: %s', async (_what, make) => {
    const before = await readFile(file, 'utf8');
    await expect(followPins(file, [await make()], { now: NOW })).rejects.toMatchObject({ code: 'DOCUMENT_INVALID' });
    expect(await readFile(file, 'utf8')).toBe(before);
  });

  it('a key that was given up vouches for nothing, and is never vouched for again', async () => {
    const statement = await signKeyStatement(first, second, TIMES);
    await followPins(file, [statement], { now: NOW });
    await retirePin(file, second.kid, NOW);
    expect(await pinned()).toEqual([first.kid]);
    const next = await signKeyStatement(second, third, TIMES);
    await expect(followPins(file, [next], { now: later(1) })).rejects.toMatchObject({ code: 'DOCUMENT_INVALID' });
    await expect(followPins(file, [statement], { now: later(1) })).rejects.toThrow('given up on this machine');
    expect(await pinned(later(1))).toEqual([first.kid]);
    await expect(retirePin(file, third.kid)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('a retired key of a backup vouches for nothing any more', async () => {
    await followPins(file, [await signKeyStatement(first, second, TIMES)], { now: NOW });
    const stolen = await signKeyStatement(first, thief, { ...TIMES, iat: seconds + DAY });
    await expect(followPins(file, [stolen], { now: later(15) })).rejects.toMatchObject({ code: 'DOCUMENT_INVALID' });
    expect(await pinned(later(15))).toEqual([second.kid]);
  });

  it('a key is followed by one key only: a second one is refused, and the person told what that means', async () => {
    await followPins(file, [await signKeyStatement(first, second, TIMES)], { now: NOW });
    const fork = await signKeyStatement(first, thief, TIMES);
    await expect(followPins(file, [fork], { now: later(1) })).rejects.toMatchObject({
      code: 'DOCUMENT_INVALID',
      next: expect.stringContaining('somebody else may have the old key') as string,
    });
    expect(await pinned(later(1))).toEqual([first.kid, second.kid]);
  });

  it('of a file with a whole history, those are handed on that lead to the present key', async () => {
    const one = await signKeyStatement(first, second, TIMES);
    const two = await signKeyStatement(second, third, TIMES);
    const other = await signKeyStatement(thief, newSigningKey().key, TIMES);
    const text = `# rotations\n${two}\n${one}\n${other}\n${await signDocument(DOCUMENT_TYPES.decision, {}, first)}\n`;
    const lines = statementsIn(text);
    expect(lines).toEqual([two, one, other]);
    const now = NOW.getTime();
    expect(statementsFor(third.kid, lines, now)).toEqual([one, two]);
    expect(statementsFor(second.kid, lines, now)).toEqual([one]);
    expect(statementsFor(first.kid, lines, now)).toEqual([]);
    expect(statementsFor(third.kid, lines, later(91).getTime())).toEqual([]);
    await expect(signKeyStatement(first, first, TIMES)).rejects.toThrow('does not follow itself');
  });
});
