/**
 * Sealed values that were copied from elsewhere or made up are refused by the activity that would use them, with true
 * approvals in hand; and no activity signs or encrypts what it is passed.
 */
import { z } from 'zod';
import { INPUT_MEMBERS } from '../../activities/inputs';
import { Secret } from '../../src/secret';
import { sealValue } from '../../src/keys';
import type { RunContext } from '../../src/keys';
import {
  ActivityBench,
  DEPLOYMENT,
  drDemotion,
  drPromotion,
  failedOf,
  openBench,
} from '../support/activity-environment';
import type { SignedPlan } from '../support/activity-environment';

/** The clean-up of a run may delete what an earlier run of the workflow left, and what is past its time. */
const MAY_BE_DELETED = ['of an earlier run of the same workflow', 'that is expired', 'for another use'];
const DAY_MS = 24 * 3_600_000;

/** What happens as if it had happened a day ago. */
async function yesterday<T>(work: () => Promise<T>): Promise<T> {
  const then = Date.now() - DAY_MS;
  const clock = jest.spyOn(Date, 'now').mockReturnValue(then);
  try {
    return await work();
  } finally {
    clock.mockRestore();
  }
}

describe('a sealed operation token', () => {
  let bench: ActivityBench;
  let authority: SignedPlan;
  openBench((opened) => (bench = opened));
  beforeAll(async () => {
    authority = await bench.authority();
    // Both are secondaries now: what stops a promotion from here on is the token alone.
    await bench.call('demotePrimary', drDemotion(authority));
  });

  const sealed = async (
    more: {
      readonly run?: Partial<RunContext>;
      readonly cluster?: string;
      readonly clusterId?: string;
      readonly kind?: 'operation-token' | 'root-token';
      readonly uses?: readonly string[];
    } = {},
  ) => {
    const { cluster = 'west', kind = 'operation-token', uses = ['dr.promote'] } = more;
    const secret = bench.cluster('west').tokens.createOperationToken(bench.service.now());
    bench.canary(`token ${secret.slice(-4)}`, secret);
    const { clusterId = bench.cluster(cluster).clusterId } = more;
    return (await sealValue(
      bench.sealKeyring,
      { ...bench.run, ...more.run },
      { kind: kind as 'operation-token', cluster, clusterId, uses, expSeconds: 3_600 },
      new Secret('operation-token', secret),
    )) as Awaited<ReturnType<ActivityBench['sealOperationToken']>>;
  };
  const other = (member: keyof RunContext) => () => sealed({ run: { [member]: 'another' } });

  it.each([
    ['of another namespace', other('ns')],
    ['of another workflow', other('wid')],
    ['of an earlier run of the same workflow', other('rid')],
    ['for another cluster', () => sealed({ cluster: 'east' })],
    ['for a cluster of the same name with another ID', () => sealed({ clusterId: 'another' })],
    ['for another use', () => sealed({ uses: ['dr.reindex', 'dr.operation-token.delete'] })],
    ['that holds another kind of secret', () => sealed({ kind: 'root-token' })],
    ['that is expired', () => yesterday(() => sealed())],
    ['that was changed', async () => (await sealed()).replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')) as never],
    ['that was made up', () => Promise.resolve('eyJhbGciOiJkaXIifQ....' as never)],
  ])('%s does not promote', async (which, make) => {
    const value = await make();
    const before = bench.changes();
    for (const [token, code] of [
      [{ source: 'sealed', cluster: 'west', value }, 'SEALED_VALUE_INVALID'],
      [{ source: 'sealed', cluster: 'east', value }, 'SEALED_VALUE_INVALID'],
      [{ source: 'batch', cluster: 'west' }, 'TOKEN_SOURCE_UNAVAILABLE'],
    ] as const)
      await bench.refusedUnsent('promoteSecondary', drPromotion(token, authority), code, { retryable: false });
    // Deleting is a use of its own: of another workflow, cluster or kind it deletes nothing either.
    if (!MAY_BE_DELETED.includes(which)) {
      const token = { source: 'sealed', cluster: 'west', value } as const;
      const { disposals } = await bench.call('deleteOperationTokens', { deployment: DEPLOYMENT, tokens: [token] });
      expect(disposals).toEqual([expect.objectContaining({ state: 'unproven' })]);
    }
    expect(bench.changes()).toEqual(before);
  });
});

describe('no activity signs or encrypts values from its input', () => {
  /** Members of inputs that a caller could choose: none may be a key, a recipient, an address or bytes. */
  const SUSPICIOUS =
    /recipient|key(?!s?\b)|jwk|identity|bytes|payload|header|signature|address|url|caFile|path$|secret|password|nonce|otp|holders|threshold|erasure/i;
  const EXCEPTIONS: Readonly<Record<string, string>> = {
    recipientPgpKey: 'a root token is for somebody outside: holders and approvers read the fingerprint of his key',
    keyHome: 'of a handle; the record is found by run, cid and epoch alone',
    addresses: 'that a secondary is pointed at: verified by the detail of the approved plan, each of them',
    address: 'of an attempt that is followed: compared with the one that is read',
    nonce: 'of an attempt that is followed: compared with the one that is read',
    holders: 'of a handle, and of a rehearsal: each is looked up in the inventory',
    nonceDigest: 'of an attempt of this run: compared with the one that is read',
    threshold: 'of a handle; the record of the keys has it',
    path: 'of the marker: a mount and name of the inventory are looked up by it',
    nonces: 'of attempts that are ended: they count only beside the key in the verified invitation of this run',
  };

  it('by the schema of all inputs, without which no member compiles', () => {
    const named = new Set<string>();
    const schema = z.toJSONSchema(z.object(INPUT_MEMBERS), { unrepresentable: 'any' });
    JSON.stringify(schema, (name, value: unknown) => {
      if (SUSPICIOUS.test(name)) named.add(name);
      return value;
    });
    expect([...named].filter((name) => !(name in EXCEPTIONS))).toEqual([]);
    // The pattern sees what it is there for.
    expect([...named]).toEqual(expect.arrayContaining(['recipientPgpKey', 'nonceDigest']));
  });

  it('an invitation has recipient, addresses, holders and run from keys, inventory, service and context', async () => {
    const bench = await ActivityBench.start();
    const evil = 'age1pq1evil';
    const hostile = {
      ...{ recipient: evil, pgp: 'ee'.repeat(20), holders: ['mallory'], threshold: 1 },
      ...{ erasure: 'memory', ns: 'evil', wid: 'evil', rid: 'evil', exp: 9_999_999_999, useFor: 9_999_999 },
      ...{
        run: { ns: 'evil', wid: 'evil', rid: 'evil' },
        keys: { recipient: evil },
        signingKey: evil,
        keyHome: 'evil',
      },
      ...{ collectForMs: 1e12, useForMs: 1e12, typ: 'runbooks-approval-v1', iat: 1 },
    };
    const target = {
      ...{ cluster: 'west', uses: ['dr.promote'] as const },
      ...{ addresses: ['https://evil.example'], clusterId: 'evil', caSha256: 'ee'.repeat(32) },
    };
    const { invitation } = await bench.ceremony([target], { epoch: 1, ...hostile });
    const [header = '', payload = ''] = invitation.split('.');
    const decode = (part: string): Record<string, unknown> =>
      JSON.parse(Buffer.from(part, 'base64url').toString('utf8')) as Record<string, unknown>;
    expect(decode(header)).toEqual({ alg: 'Ed25519', typ: 'runbooks-invitation-v1', kid: bench.workersKey.kid });
    const said = decode(payload);
    expect(JSON.stringify(said)).not.toContain('evil');
    expect(said).toMatchObject({
      ...bench.run,
      kind: 'operation-token',
      threshold: 3,
      erasure: 'best-effort',
      holders: ['ada', 'bert', 'cleo', 'dora', 'emil'],
      targets: [
        {
          cluster: 'west',
          clusterId: bench.cluster('west').clusterId,
          addresses: [...bench.cluster('west').addresses],
        },
      ],
      // What a caller says of himself is never shown as proven.
      requestedBy: { name: 'olga', how: 'claimed' },
    });
    expect(said['recipient']).toMatch(/^age1pq1[a-z0-9]{1000,}$/);
    expect(Number(said['exp']) * 1000).toBeLessThan(Date.now() + 31 * 60_000);
    for (const [cluster, refusal] of [
      ['nowhere', 'UNKNOWN_CLUSTER'],
      ['../east', 'INVALID_INPUT'],
      ['', 'INVALID_INPUT'],
    ] as const) {
      const targets = [{ cluster, uses: ['dr.promote'] as const }];
      expect(await bench.ceremony(targets, { epoch: 2 }).catch(failedOf)).toMatchObject({ code: refusal });
    }
    await bench.stop();
  });
});
