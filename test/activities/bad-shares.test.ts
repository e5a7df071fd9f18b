/** What is wrong with a key share is told apart, and nobody is accused without proof. */
import { MAX_SETS_OF_EPOCH } from '../../activities/ceremony/share-sets';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';

const USES = ['dr.promote', 'dr.operation-token.delete'] as const;
const seal = { shares: 5, threshold: 3 };

let bench: ActivityBench;
let ceremony: CeremonyHandle;
let held: readonly string[];
const wrong = (name: string) =>
  `${bench.person(name).share?.slice(0, -4) ?? ''}00${bench.person(name).share?.slice(-2) ?? ''}`;
beforeAll(async () => {
  bench = await ActivityBench.start({
    topology: { clusters: ['east', 'west', 'north'].map((name) => ({ name, nodes: 1, seal })) },
    drSets: { main: ['east', 'west'], alone: ['north'] },
  });
  ceremony = await bench.ceremony([{ cluster: 'west', uses: USES }]);
  held = await bench.envelopes(ceremony.invitation, ['bert', 'cleo']);
});
afterAll(async () => {
  for (const name of ['ada', 'bert']) bench.canary(`a wrong share of ${name}`, wrong(name));
  expect(bench.leaks()).toEqual([]);
  await bench.stop();
});

// A token that is in the ledger is not made again.
beforeEach(() => bench.forgetTokens());

/** What a holder is told of what he sent, where others gave already. */
async function verdictOf(document: string, before: readonly string[] = held) {
  const arrived = bench.signaled('share', [{ document }]);
  const { verdicts } = await bench.call('openEnvelopes', { deployment: DEPLOYMENT, ceremony, held: before, arrived });
  return verdicts[0];
}

async function envelope(name: string, share?: string, invitation = ceremony.invitation): Promise<string> {
  const [document = ''] = await bench.envelopes(invitation, [name], share === undefined ? {} : { [name]: share });
  return document;
}

const shareOfNorth = () => bench.cluster('north').keyShares[0] ?? '';

describe('a holder is told apart', () => {
  it('the share that another holder gave', async () => {
    expect(await verdictOf(await envelope('ada', bench.person('bert').share))).toMatchObject({
      code: 'same-share-as-another',
      text: 'refused: another holder already gave this key share',
    });
  });

  it('a share of the wrong length', async () => {
    const { share = '' } = bench.person('ada');
    expect(await verdictOf(await envelope('ada', `${share.slice(0, 32)}${share.slice(-2)}`))).toMatchObject({
      code: 'wrong-length',
      text: 'refused: the key share does not have the length of a key share of this cluster',
    });
  });

  it("an envelope for another cluster's ceremony", async () => {
    const other = await bench.call('createCeremony', {
      deployment: DEPLOYMENT,
      runbook: 'operationTokenCeremony',
      reason: 'a test',
      requestedBy: 'olga',
      targets: [{ cluster: 'east', uses: USES }],
      epoch: 1,
      inputDigest: 'digest',
    });
    expect(await verdictOf(await envelope('ada', undefined, other.invitation))).toMatchObject({
      code: 'wrong-ceremony',
      text: 'refused: made for another invitation',
    });
  });

  it('his correction, which takes the place of what he gave before', async () => {
    const [first, corrected] = [await envelope('ada', wrong('ada')), await envelope('ada')];
    expect(await verdictOf(first)).toMatchObject({ code: 'accepted' });
    // Of two with the same number the first counts: the holder's tool counts on.
    expect(await verdictOf(corrected, [...held, first])).toMatchObject({ code: 'superseded' });
  });
});

const burst = (envelopes: readonly string[]) => ({
  deployment: DEPLOYMENT,
  cluster: 'west',
  ceremony,
  uses: USES,
  envelopes,
});

it('a share of another cluster, which nobody can tell before the threshold, is proven once a further share is there', async () => {
  const foreign = await envelope('ada', shareOfNorth());
  expect(await verdictOf(foreign)).toMatchObject({ code: 'accepted' });
  const failure = await bench.failure('generateOperationToken', burst([foreign, ...held]));
  expect(failure).toMatchObject({ code: 'SHARES_REJECTED', retryable: false });
  expect(failure.details['observed']).toBe('1 of 1 possible set tried, and all rejected; holders: ada, bert, cleo');
  const { badShares, findings } = await bench.call(
    'generateOperationToken',
    burst([foreign, ...held, await envelope('dora')]),
  );
  expect(badShares).toEqual(['ada']);
  expect(findings[0]?.text).toContain(
    "The key share of ada is not one of west's: proven by sets that differ in it alone",
  );
});

it('two bad ones among five are found, and told only where each is proven', async () => {
  const bad = async () => [await envelope('ada', wrong('ada')), await envelope('bert', wrong('bert'))];
  const good = [await envelope('cleo'), await envelope('dora'), await envelope('emil')];
  const first = await bench.call('generateOperationToken', burst([...(await bad()), ...good]));
  expect([...first.badShares].sort()).toEqual(['ada', 'bert']);
  await bench.forgetTokens();
  // The good ones come first: the bad ones are never tried, and nobody is named.
  const second = await bench.call('generateOperationToken', burst([...good, ...(await bad())]));
  expect([second.badShares, second.attempts, second.findings]).toEqual([[], 1, []]);
});

it('where nothing works nobody is named, and the sets that were tried are counted', async () => {
  const bad = [await envelope('ada', wrong('ada')), await envelope('bert', wrong('bert'))];
  const failure = await bench.failure(
    'generateOperationToken',
    burst([...bad, await envelope('cleo'), await envelope('dora')]),
  );
  expect(failure.details['observed']).toBe(
    '4 of 4 possible sets tried, and all rejected; holders: ada, bert, cleo, dora',
  );
  expect(failure.details['next']).toContain('none is proven to be');
});

describe('over the whole of a run', () => {
  const given = () => bench.calls('west', 'generate-operation-token/update');
  const count = async (act: () => Promise<unknown>) => {
    const before = given();
    await act();
    return (given() - before) / 3;
  };
  const fails = (envelopes: readonly string[]) => () => bench.failure('generateOperationToken', burst(envelopes));

  it('a set that was rejected is not tried again with the same envelopes: a correction is, and what was seen counts', async () => {
    const ada = await envelope('ada', wrong('ada'));
    const four = [ada, await envelope('bert', wrong('bert')), await envelope('cleo'), await envelope('dora')];
    expect(await count(fails(four))).toBe(4);
    expect(await count(fails(four))).toBe(0);
    const failure = await bench.failure('generateOperationToken', burst(four));
    expect(failure).toMatchObject({ code: 'SHARES_REJECTED', retryable: false });
    expect(failure.details['observed']).toContain('4 of 4 possible sets tried, and all rejected');
    expect(failure.details['next']).toContain('No set is tried twice');
    // Of six sets with the further share three have one bad share, one has both, and the first without any works.
    const five = [...four, await envelope('emil')];
    let made: { readonly badShares: readonly string[] } = { badShares: [] };
    const tries = await count(async () => (made = await bench.call('generateOperationToken', burst(five))));
    expect(tries).toBe(6);
    expect([...made.badShares].sort()).toEqual(['ada', 'bert']);
    await bench.forgetTokens();
    const corrected = [await envelope('bert'), ...four.slice(2)];
    expect(await count(() => bench.call('generateOperationToken', burst(corrected)))).toBe(1);
  });

  it('a cluster rejects a bounded number of sets under one invitation, whatever is given and corrected', async () => {
    const name = { run: bench.run, ...ceremony };
    const noted = await bench.keyRecords.rejectedSets(name, 'west');
    for (let set = noted.length; set < MAX_SETS_OF_EPOCH - 1; set += 1)
      await bench.keyRecords.noteRejectedSet(name, 'west', `set ${set}`);
    const next = async () => [await envelope('ada', wrong('ada')), ...held, await envelope('dora', wrong('dora'))];
    expect(await count(fails(await next()))).toBe(1);
    const failure = await bench.failure('generateOperationToken', burst(await next()));
    expect(failure.details['observed']).toContain('at most 35 in one burst and 210 in one epoch');
    // Not as for one wrong share: the run asks anew, and no choice is needed that an outage does not offer.
    expect(failure.code).toBe('SHARE_SETS_USED_UP');
    expect(failure.details['next']).toContain('the run asks the holders again with a new invitation');
    expect(await count(fails(await next()))).toBe(0);
    // What one cluster rejected says nothing of another.
    expect(await bench.keyRecords.rejectedSets(name, 'east')).toEqual([]);
  });
});
