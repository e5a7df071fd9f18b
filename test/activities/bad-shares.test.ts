/** What is wrong with a key share is told apart, and nobody is accused without proof. */
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import { clusters, DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

const USES = ['dr.promote', 'dr.operation-token.delete'] as const;

let bench: ActivityBench;
let ceremony: CeremonyHandle;
let held: readonly string[];
const wrong = (name: string) =>
  `${bench.person(name).share?.slice(0, -4) ?? ''}00${bench.person(name).share?.slice(-2) ?? ''}`;
openBench((opened) => (bench = opened), {
  topology: { clusters: clusters('east', 'west', 'north') },
  drSets: { main: ['east', 'west'], alone: ['north'] },
});
beforeAll(async () => {
  ceremony = await bench.ceremony([{ cluster: 'west', uses: USES }]);
  for (const name of ['ada', 'bert']) bench.canary(`a wrong share of ${name}`, wrong(name));
  held = await bench.envelopes(ceremony.invitation, ['bert', 'cleo']);
});

// A token that is in the ledger is not made again.
beforeEach(() => bench.forgetTokens());

async function envelope(name: string, share?: string): Promise<string> {
  const [document = ''] = await bench.envelopes(
    ceremony.invitation,
    [name],
    share === undefined ? {} : { [name]: share },
  );
  return document;
}

/** Of several holders, some of them with a wrong share. */
const envelopesOf = (holders: readonly string[], bad: readonly string[] = []) =>
  Promise.all(holders.map((name) => envelope(name, bad.includes(name) ? wrong(name) : undefined)));
const FIVE = ['ada', 'bert', 'cleo', 'dora', 'emil'];

const shareOfNorth = () => bench.cluster('north').keyShares[0] ?? '';

const burst = (envelopes: readonly string[]) => ({
  deployment: DEPLOYMENT,
  cluster: 'west',
  ceremony,
  uses: USES,
  envelopes,
});

it('a share of another cluster, which is undetectable before the threshold, is proven wrong once a further share is there', async () => {
  const foreign = await envelope('ada', shareOfNorth());
  const failure = await bench.generationFailure(burst([foreign, ...held]));
  expect(failure).toMatchObject({ code: 'SHARES_REJECTED', retryable: false });
  expect(failure.details['observed']).toBe('1 of 1 possible set tried, all rejected; holders: ada, bert, cleo');
  const { badShares, findings } = await bench.generate(burst([foreign, ...held, await envelope('dora')]));
  expect(badShares).toEqual(['ada']);
  expect(findings[0]?.text).toContain(
    'The key share of ada does not belong to west, unless holders whose shares worked altered theirs together: it is the only share of a rejected set',
  );
});

it('two wrong ones among five are found, and each is reported only once it is proven', async () => {
  const first = await bench.generate(burst(await envelopesOf(FIVE, ['ada', 'bert'])));
  expect([...first.badShares].sort()).toEqual(['ada', 'bert']);
  await bench.forgetTokens();
  // The good ones come first: the bad ones are never tried, and nobody is named.
  const second = await bench.generate(burst(await envelopesOf([...FIVE.slice(2), 'ada', 'bert'], ['ada', 'bert'])));
  expect([second.badShares, second.findings]).toEqual([[], []]);
});

describe('over the whole of a run', () => {
  const given = () => bench.calls('west', 'generate-operation-token/update');
  const count = async (act: () => Promise<unknown>) => {
    const before = given();
    await act();
    return (given() - before) / 3;
  };

  it('a rejected set is not tried again with the same envelopes; a correction is tried, and earlier results count', async () => {
    const four = await envelopesOf(FIVE.slice(0, 4), ['ada', 'bert']);
    const held = bench.shares(four);
    const fails = () => bench.generationFailure({ ...burst(four), held });
    expect(await count(fails)).toBe(4);
    expect(await count(fails)).toBe(0);
    const failure = await fails();
    expect(failure).toMatchObject({ code: 'SHARES_REJECTED', retryable: false });
    const tried = '4 of 4 possible sets tried, all rejected; holders: ada, bert, cleo, dora';
    expect(failure.details['observed']).toBe(tried);
    for (const told of ['which one is unknown', 'No set is tried twice'])
      expect(failure.details['next']).toContain(told);
    // Of six sets with the further share three have one bad share, one has both, and the first without any works.
    bench.shares([await envelope('emil')], held);
    let made: { readonly badShares: readonly string[] } = { badShares: [] };
    const tries = await count(async () => (made = await bench.generate({ ...burst(four), held })));
    expect(tries).toBe(6);
    expect([...made.badShares].sort()).toEqual(['ada', 'bert']);
    const corrected = bench.shares([await envelope('bert')], bench.shares(four.slice(1)));
    expect(await count(() => bench.generate({ ...burst(four), held: corrected }))).toBe(1);
  });

  it('a cluster is given a bounded number of sets before the holders are asked again, and then no set twice', async () => {
    const held = bench.shares(await envelopesOf(FIVE, FIVE.slice(0, 3)));
    const fails = () => bench.generationFailure({ ...burst([]), held });
    expect(await count(fails)).toBe(10);
    expect(await count(fails)).toBe(0);
    // Six sets have the corrected share, and one of them alone no wrong one.
    bench.shares([await envelope('cleo')], held);
    expect(await count(() => bench.generate({ ...burst([]), held }))).toBeLessThanOrEqual(6);
  });
});
