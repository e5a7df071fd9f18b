/** A token that people generated themselves is taken from whom the inventory names, for this run alone, and proven. */
import { randomUUID } from 'node:crypto';
import { DOCUMENT_TYPES } from '../../src/documents/documents';
import { newSigningKey } from '../../src/keys';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench, CallOptions } from '../support/activity-environment';
import type { Providing } from '../support/provided';
import { providedBy } from '../support/provided';

const USES = ['dr.promote', 'dr.update-primary', 'dr.operation-token.delete'] as const;
const SHARE_LIKE = 'c0ffee'.repeat(11);
const MADE_UP = `hvs.${'Ab3'.repeat(8)}`;

describe('a provided token', () => {
  let bench: ActivityBench;
  let ceremony: Awaited<ReturnType<typeof asked>>;
  const ceremonyOf = { holders: ['ada', 'bert', 'cleo', 'dora', 'emil'], tokenProviders: ['ada', 'bert'] };
  const asked = (options: CallOptions = {}, collects: { readonly collects?: 'tokens' } = { collects: 'tokens' }) =>
    bench.ceremony([{ cluster: 'west', uses: USES }], collects, options);
  const generated = () => bench.cluster('west').tokens.createOperationToken(bench.service.now());
  const document = (by: string, providing: Partial<Providing>, invitation = ceremony.invitation) =>
    providedBy(bench.person(by), invitation, bench.workersKey, { cluster: 'west', token: MADE_UP, ...providing });
  const take = async (content: unknown, at?: number) => {
    const arrived = bench.signaled('share', [content], undefined, at);
    const { verdicts } = await bench.call('takeProvidedTokens', { deployment: DEPLOYMENT, ceremony, arrived });
    const [verdict] = verdicts;
    if (!verdict) throw new Error('no verdict');
    return verdict;
  };
  const sealed = ({ token }: Awaited<ReturnType<typeof take>>) => {
    if (token === undefined) throw new Error('no token');
    return { source: 'sealed', cluster: 'west', value: token } as const;
  };
  const probe = (token: ReturnType<typeof sealed>) =>
    bench.call('probeProvidedToken', { deployment: DEPLOYMENT, cluster: 'west', token });
  const inLedger = async () => (await bench.ledger.open(DEPLOYMENT)).length;

  openBench((opened) => (bench = opened), { deployment: { ceremony: ceremonyOf } });
  beforeAll(async () => {
    ceremony = await asked();
  });

  it('is asked of the people of the inventory, in an invitation that says so', () => {
    expect(ceremony).toMatchObject({ holders: ['ada', 'bert'], threshold: 1 });
    const [, claims = ''] = ceremony.invitation.split('.');
    expect(JSON.parse(Buffer.from(claims, 'base64url').toString())).toMatchObject({ collects: 'tokens' });
  });

  it('is sealed for its cluster and uses, is in the ledger once, and is readable nowhere', async () => {
    const content = await document('ada', { token: generated() });
    const first = await take(content);
    expect(first).toMatchObject({ code: 'accepted', cluster: 'west', holder: { name: 'ada', how: 'signed' } });
    // The answer of the activity was lost, or the same envelope came twice.
    expect(await take(content)).toMatchObject({ code: 'accepted', token: first.token });
    expect(await inLedger()).toBe(1);
    const token = sealed(first);
    expect(await probe(token)).toMatchObject({ state: 'alive' });
    const { disposals } = await bench.call('deleteOperationTokens', { deployment: DEPLOYMENT, tokens: [token] });
    expect(disposals).toMatchObject([{ cluster: 'west', state: 'deleted' }]);
    expect(await inLedger()).toBe(0);
  });

  it.each<[string, () => Promise<unknown>, string]>([
    ['somebody who may not provide tokens', () => document('cleo', {}), 'not-invited'],
    ["somebody else's signature", () => document('ada', { signingKey: bench.person('bert').key }), 'wrong-signer'],
    ['a key that nobody listed', () => document('ada', { signingKey: newSigningKey().key }), 'wrong-signer'],
    ["somebody else's name", () => document('cleo', { name: 'ada' }), 'wrong-signer'],
    ['no signature', () => document('ada', { unsigned: true }), 'not-signed'],
    ['a cluster that the run did not ask for', () => document('ada', { cluster: 'east' }), 'wrong-cluster'],
    ['another cluster inside', () => document('ada', { inside: { cluster: 'east' } }), 'mismatch'],
    ['what looks like a key share', () => document('ada', { token: SHARE_LIKE }), 'not-a-token'],
    ['a batch token', () => document('ada', { token: `hvb.${'Ab3'.repeat(40)}` }), 'not-a-token'],
    ['an ordinary service token', () => document('ada', { token: `hvs.CAES${'Ab3'.repeat(30)}` }), 'not-a-token'],
    ['the type of a key share', () => document('ada', { typ: DOCUMENT_TYPES.share }), 'malformed'],
    ['a token in plain text', () => Promise.resolve({ cluster: 'west', token: MADE_UP }), 'plain-text-token'],
    [
      'the same in pieces',
      () => Promise.resolve({ cluster: 'west', token: MADE_UP.replace(/.{9}/g, '$&\u200b') }),
      'plain-text-token',
    ],
    ['a key share in plain text', () => Promise.resolve({ cluster: 'west', token: SHARE_LIKE }), 'plain-text-share'],
  ])('is refused with %s', async (_what, content, code) => {
    const verdict = await take(await content());
    expect(verdict).toMatchObject({ code, text: expect.stringMatching(/^refused/) as string });
    expect(verdict.token).toBeUndefined();
    expect(await inLedger()).toBe(0);
  });

  it('is refused after the invitation expired, and in another run', async () => {
    const late = await take(await document('ada', { token: generated() }), ceremony.collectUntil + 1_000);
    expect(late).toMatchObject({ code: 'expired' });
    const run = { ...bench.run, rid: randomUUID() };
    const other = await asked({ run });
    expect(await take(await document('ada', { token: generated() }, other.invitation))).toMatchObject({
      code: 'wrong-ceremony',
    });
    const arrived = bench.signaled('share', [await document('ada', { token: generated() })]);
    const failure = await bench.failure('takeProvidedTokens', { deployment: DEPLOYMENT, ceremony, arrived }, { run });
    expect(failure.code).toBe('KEY_RECORD_MISSING');
    expect(await inLedger()).toBe(0);
  });

  it('is never accepted if key shares were asked for, nor a key share if a token was', async () => {
    const shares = await asked({}, {});
    const token = await providedBy(bench.person('ada'), shares.invitation, bench.workersKey, {
      ...{ cluster: 'west', token: generated() },
    });
    const arrived = bench.signaled('share', [token]);
    const { verdicts } = await bench.call('openEnvelopes', {
      ...{ deployment: DEPLOYMENT, ceremony: shares, held: [], arrived },
    });
    expect(verdicts).toMatchObject([{ code: 'other-kind' }]);
    const failure = await bench.failure('takeProvidedTokens', { deployment: DEPLOYMENT, ceremony: shares, arrived });
    expect(failure.code).toBe('DOCUMENT_INVALID');
    const envelopes = [await document('ada', { token: generated() })];
    const burst = await bench.generationFailure({
      ...{ deployment: DEPLOYMENT, cluster: 'west', ceremony, uses: USES, envelopes },
    });
    expect(burst.code).toBe('SHARES_MISSING');
  });

  it('that the cluster refuses has left the ledger: no run waits for its deletion', async () => {
    const taken = await take(await document('bert', { token: MADE_UP, seq: 2 }));
    expect(await inLedger()).toBe(1);
    const probed = await probe(sealed(taken));
    expect(probed).toMatchObject({ state: 'refused', text: expect.stringContaining('west refuses it') as string });
    expect(await inLedger()).toBe(0);
    expect(bench.changes().filter((call) => /promote|disable|update-primary|reindex/.test(call))).toEqual([]);
  });

  const shownTo = (name: string) =>
    bench.service.calls.filter(({ cluster, path }) => cluster === name && path.endsWith('auth/token/lookup-self'));

  it('is shown to its own cluster alone: the cluster that a failover leaves never gets it', async () => {
    bench.service.calls.length = 0;
    const token = sealed(await take(await document('ada', { token: generated(), seq: 3 })));
    expect(await probe(token)).toMatchObject({ state: 'alive' });
    expect(shownTo('east')).toEqual([]);
    await bench.call('deleteOperationTokens', { deployment: DEPLOYMENT, tokens: [token] });
  });

  it('that its cluster refused is looked up at the primary: a root token is named as one', async () => {
    const root = bench.cluster('east').rootToken;
    const probed = await probe(sealed(await take(await document('ada', { token: root, seq: 4 }))));
    expect(probed).toMatchObject({
      state: 'refused',
      text: expect.stringContaining('it is a root token or an ordinary token of east') as string,
    });
    expect(shownTo('east')).toHaveLength(1);
    expect(await inLedger()).toBe(0);
  });
});
