import { judgeSigningKey } from '../../activities/readiness/keys';
import { Secret } from '../../src/secret';
import {
  SealKeyring,
  missingSealKeys,
  newSealKey,
  newSigningKey,
  sealValue,
  signKeyStatement,
} from '../../src/secrets';

const DAY = 24 * 3600;

describe('readiness of the keys of the workers', () => {
  it('a signing key needs a statement of the one before it, which holders can still take', async () => {
    const [one, two] = [newSigningKey().key, newSigningKey().key];
    const now = Date.now();
    const iat = Math.floor(now / 1000);
    const statement = await signKeyStatement(one, two, { iat, exp: iat + 90 * DAY, retire: iat + 14 * DAY });
    const forged = await signKeyStatement(newSigningKey().key, two, { iat, exp: iat + DAY, retire: iat });
    const verdicts = async (...args: Parameters<typeof judgeSigningKey>) =>
      (await judgeSigningKey(...args)).map(({ id, verdict }) => [id, verdict]);
    expect(await verdicts(one, [one], [], now)).toEqual([['signing-key', 'ok']]);
    expect(await verdicts(two, [one, two], [], now)).toEqual([['signing-key', 'warn']]);
    expect(await verdicts(two, [one, two], [forged], now)).toEqual([['signing-key', 'warn']]);
    expect(await verdicts(two, [one, two], [forged, statement], now)).toEqual([['signing-key', 'ok']]);
    expect(await verdicts(two, [one, two], [statement], now + 91 * DAY * 1000)).toEqual([['signing-key', 'warn']]);
  });

  it('a seal key that is still needed is named, wherever the value stands; one that is there is not', async () => {
    const [old, next] = [newSealKey('old').reveal(), newSealKey('next').reveal()];
    const run = { ns: 'default', wid: 'deployment:payments', rid: 'r' };
    const spec = {
      kind: 'operation-token',
      cluster: 'west',
      clusterId: 'c',
      uses: ['dr.promote'],
      expSeconds: 60,
    } as const;
    const sealed = await sealValue(SealKeyring.parse(old), run, spec, new Secret('operation-token', 'a token'));
    const event = { payload: new TextEncoder().encode(JSON.stringify({ value: sealed })) };
    expect(missingSealKeys(SealKeyring.parse(next), [{ event }])).toEqual(['old']);
    expect(missingSealKeys(SealKeyring.parse(next), { sealed })).toEqual(['old']);
    expect(missingSealKeys(SealKeyring.parse(`${next},${old}`), [{ event }, { sealed }])).toEqual([]);
    expect(missingSealKeys(SealKeyring.parse(next), { text: 'eyJh..a.b.c' })).toEqual([]);
  });
});
