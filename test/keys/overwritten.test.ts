/** What of a secret can be erased in JavaScript is erased, and errors and prints hold nothing of it. */
import { randomUUID } from 'node:crypto';
import { inspect } from 'node:util';
import { serialize } from 'node:v8';
import { Secret } from '../../src/secret';
import { newSealKey, openShares, openValue, parseShare, SealKeyring, sealValue } from '../../src/keys';
import { openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
import { SecretSearch } from '../support/secret-search';

const RUN = { ns: 'default', wid: 'deployment:payments', rid: randomUUID() };
const TOKEN = 'hvs.CANARYofTheOverwrittenBuffer';
const SPEC = { kind: 'operation-token', cluster: 'west', clusterId: 'id' } as const;
const seal = (keyring: SealKeyring) =>
  sealValue(keyring, RUN, { ...SPEC, uses: ['dr.promote'], expSeconds: 60 }, new Secret('operation-token', TOKEN));

let bench: ActivityBench;
openBench((opened) => (bench = opened));

/** Every buffer that was decoded to text while `work` ran, as it is afterwards. */
async function decodedDuring(work: () => Promise<unknown>): Promise<Buffer[]> {
  const buffers: Buffer[] = [];
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called with its own object below
  const decode = TextDecoder.prototype.decode;
  const spy = jest.spyOn(TextDecoder.prototype, 'decode').mockImplementation(function (
    this: InstanceType<typeof TextDecoder>,
    ...args
  ) {
    const [input] = args;
    if (ArrayBuffer.isView(input)) buffers.push(Buffer.from(input.buffer, input.byteOffset, input.byteLength));
    return decode.apply(this, args);
  });
  try {
    await work();
  } finally {
    spy.mockRestore();
  }
  return buffers;
}

const isZero = (buffer: Buffer) => buffer.every((byte) => byte === 0);

describe('bytes that held a secret', () => {
  it('are overwritten once a sealed value was opened', async () => {
    const keyring = SealKeyring.parse(newSealKey().reveal());
    const sealed = await seal(keyring);
    let opened = '';
    const buffers = await decodedDuring(async () => {
      opened = (await openValue(keyring, RUN, sealed, { ...SPEC, use: 'dr.promote' })).reveal();
    });
    expect(opened).toBe(TOKEN);
    const ofTheToken = buffers.filter(({ length }) => length === TOKEN.length);
    expect(ofTheToken.map(isZero)).toEqual([true]);
    expect(buffers.some((buffer) => buffer.includes(TOKEN))).toBe(false);
  });

  it('are overwritten once a value was sealed, and the keyring keeps working without the bytes of its keys', async () => {
    const from = jest.spyOn(Buffer, 'from');
    const line = newSealKey().reveal();
    const keyring = SealKeyring.parse(line);
    await seal(keyring);
    const made = from.mock.results.map(({ value }) => value as Buffer);
    from.mockRestore();
    const key = Buffer.from(line.split(':')[1] ?? '', 'base64');
    expect(made.length).toBeGreaterThan(1);
    expect(made.filter((buffer) => buffer.includes(TOKEN) || buffer.equals(key))).toEqual([]);
  });

  it('are overwritten once a share was read from its envelope', async () => {
    const { cid, invitation, epoch } = await bench.ceremony([{ cluster: 'west', uses: ['dr.promote'] }]);
    const envelopes = await bench.envelopes(invitation, ['ada', 'bert']);
    const record = await bench.keyRecords.read({ run: bench.run, cid, epoch });
    const arrived = envelopes.map((content) => ({ content, at: Date.now() }));
    const shares: string[] = [];
    const buffers = await decodedDuring(async () => {
      const opened = await openShares(record, arrived, bench.inventory.people);
      shares.push(...opened.map(({ share }) => share?.reveal() ?? ''));
    });
    expect(shares).toEqual([bench.person('ada').share, bench.person('bert').share]);
    for (const share of shares) expect(buffers.filter((buffer) => buffer.includes(share))).toEqual([]);
    expect(buffers.filter((buffer) => buffer.length > 150 && isZero(buffer)).length).toBeGreaterThanOrEqual(2);
  });
});

describe('errors and prints', () => {
  const searched = (secret: string, value: unknown) => {
    const search = new SecretSearch(new Map([['the secret', secret]]));
    search.value('here', value);
    search.value('printed', inspect(value, { depth: null, showHidden: true }));
    search.value('printed raw', inspect(value, { depth: null, showHidden: true, customInspect: false, getters: true }));
    search.value('as JSON', JSON.stringify(value));
    return search.found;
  };

  it('do not show a secret, however they are printed, cloned or joined into a text', () => {
    const secret = new Secret('operation-token', TOKEN);
    const error = new Error(`about ${String(secret)}`, { cause: Object.assign(new Error('x'), { details: [secret] }) });
    for (const value of [secret, { secret }, [secret], error, new Map([[secret, secret]]), serialize({ ...secret })])
      expect(searched(TOKEN, value)).toEqual([]);
    expect(searched(TOKEN, structuredClone({ secret }))).toEqual([]);
    expect(searched(TOKEN, Object.entries(secret))).toEqual([]);
  });

  it('hold no share, token or key that an activity failed over', async () => {
    const ceremony = await bench.ceremony([{ cluster: 'west', uses: ['dr.promote'] }]);
    const wrong = `${'5e'.repeat(32)}07`;
    const envelopes = await bench.envelopes(ceremony.invitation, ['ada', 'bert', 'cleo'], { cleo: wrong });
    const record = await bench.keyRecords.read({ run: bench.run, ...ceremony });
    const token = await bench.operationToken('west', ['dr.reindex']);
    const authority = await bench.authority();
    const input = { deployment: 'payments', cluster: 'west' };
    const target = { kind: 'dr', mode: 'planned', ...input, otherCluster: 'east', token, authority } as const;
    const attempts = [
      () => bench.generate({ ...input, ceremony, uses: ['dr.promote'], envelopes }),
      () => bench.call('promoteSecondary', target),
      () => bench.call('probeMerkleTree', { ...input, token }),
      async () => parseShare(`${wrong}zz`),
      async () => SealKeyring.parse(`k1:${wrong}`),
    ];
    const failures = await Promise.all(
      attempts.map((work): Promise<unknown> => work().catch((error: unknown) => error)),
    );
    for (const failure of failures) expect(failure).toBeInstanceOf(Error);
    const secrets = [
      ...['ada', 'bert', 'cleo'].map((name) => bench.person(name).share ?? ''),
      wrong,
      record.keys.identity.reveal(),
      ...bench.cluster('west').issuedSecrets,
    ];
    for (const secret of secrets) for (const failure of failures) expect(searched(secret, failure)).toEqual([]);
  });
});
