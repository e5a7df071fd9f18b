import { Secret } from '../../src/secret';
import { SealKeyring, missingSealKeys, newSealKey, sealValue } from '../../src/keys';

describe('readiness of the keys of the workers', () => {
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
