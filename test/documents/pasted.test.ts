import { RunbookError } from '../../src/errors';
import { findInvitation } from '../../src/documents/pasted';
import { formatPublicKey, parseFingerprint, spokenFingerprint } from '../../src/documents/public-keys';
import { newSigningKey } from '../../src/keys';

const JWS = `eyJhbGciOiJFZDI1NTE5In0.${'Ab-_9'.repeat(60)}.${'Sig0'.repeat(20)}`;
const key = newSigningKey().key;

describe('an invitation in what was pasted', () => {
  it.each([
    ['alone', JWS],
    ['with a line end', `${JWS}\n`],
    ['as the Web UI shows the answer of a query', `[\n  "${JWS}"\n]`],
    ['broken into lines', JWS.replace(/(.{60})/g, '$1\r\n')],
    ['in a message', `Hello ben,\nplease give your share: ${JWS}\nThank you.`],
    ['twice the same', `${JWS}\n${JWS}`],
  ])('is found %s', (_, text) => {
    expect(findInvitation(text)).toMatchObject({ jws: JWS, keys: [] });
  });

  it('is found beside the public key, and with another line that is none', () => {
    const line = formatPublicKey(key);
    const { jws, keys } = findInvitation(`${JWS}\n${line}\n${line.replace(/.$/, '!')}`);
    expect([jws, keys]).toEqual([JWS, [{ kid: key.kid, x: key.x }]]);
  });

  it.each([
    ['nothing', ''],
    ['two', `${JWS} ${JWS}x`],
    ['too much', `${JWS} `.repeat(400)],
    ['a share', '5e'.repeat(33)],
  ])('is refused where there is %s, without repeating it', (_, text) => {
    const attempt = () => findInvitation(text);
    expect(attempt).toThrow(RunbookError);
    expect(attempt).toThrow(/invitation/);
    expect(attempt).not.toThrow(/5e5e/);
  });
});

describe('a fingerprint as a person noted it', () => {
  const spoken = spokenFingerprint(key.kid);
  it.each([
    ['in groups', spoken],
    ['without spaces, in capitals', spoken.replaceAll(' ', '').toUpperCase()],
    ['over several lines', `${spoken.slice(0, 40)}\n${spoken.slice(40)}`],
    ['as the thumbprint', key.kid],
    ['as the whole line', ` ${formatPublicKey(key)} `],
  ])('is read %s', (_, text) => expect(parseFingerprint(text)).toBe(key.kid));

  it.each([
    ['half', spoken.slice(0, 39)],
    ['too much', `${spoken} 00`],
    ['no hexadecimal', spoken.replace(/^../, 'zz')],
    ['nothing', ''],
    ['a line with a mistake', formatPublicKey(key).replace(/^./, (first) => (first === '_' ? '-' : '_'))],
  ])('is refused where it is %s', (_, text) => expect(parseFingerprint(text)).toBeUndefined());
});
