/** The client and the simulated service, written apart from each other, understand one another. */
import { ServiceClient } from '../../src/vault';
import type { GenerationAttempt } from '../../src/vault';
import { RunbookError } from '../../src/errors';
import { Secret } from '../../src/secret';
import { startSimulatedService } from '../../src/simulator';
import type { SimulatedService } from '../../src/simulator';
import { failureOf } from './support/scripted-cluster';

const DEADLINE_MS = 60_000;
const MARKER = { mount: 'secret', path: 'marker', version: 2 } as const;

describe('the client against the simulated service', () => {
  let service: SimulatedService;
  const clients: ServiceClient[] = [];
  const warnings: string[] = [];

  beforeEach(async () => {
    service = await startSimulatedService({
      seed: 11,
      clusters: [
        { name: 'east', nodes: 3, firstWal: '18014398509481985' },
        { name: 'west', nodes: 3 },
        { name: 'north', nodes: 1 },
      ],
      dr: [{ primary: 'east', secondaries: ['west'] }],
      performance: { primary: 'east', secondaries: [{ name: 'north' }] },
      readings: { optionalFieldMissingChance: 0 },
    });
  });
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.close()));
    await service.stop();
    warnings.length = 0;
  });

  function clientOf(name: string): ServiceClient {
    const { addresses } = service.cluster(name);
    const client = new ServiceClient({ name, addresses }, { onWarning: (warning) => warnings.push(warning) });
    clients.push(client);
    return client;
  }

  const rootOf = (name: string) => new Secret('service-token', service.cluster(name).rootToken);

  /** Repeats a read, or a call that was refused for the moment, until `done`. */
  async function until<T>(call: () => Promise<T>, done: (value: T) => boolean): Promise<T> {
    const deadline = Date.now() + DEADLINE_MS;
    for (;;) {
      const value = await call().catch((error: unknown) => {
        if (error instanceof RunbookError && error.retryable && Date.now() < deadline) return undefined;
        throw error;
      });
      if (value !== undefined && done(value)) return value;
      if (Date.now() > deadline) throw new Error('condition not met in time');
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  const reached = <T>(call: () => Promise<T>) => until(call, () => true);

  it('reads the state of every cluster, with WAL indexes beyond 2^53', async () => {
    const [east, west, north] = [clientOf('east'), clientOf('west'), clientOf('north')];
    const primary = await east.dr.status();
    expect(primary).toMatchObject({ mode: 'primary', state: 'running' });
    expect(primary.mode === 'primary' && (primary.lastReplicatedWal ?? 0n) > BigInt(Number.MAX_SAFE_INTEGER)).toBe(
      true,
    );
    expect(await west.dr.status()).toMatchObject({ mode: 'secondary', state: 'stream-wals' });
    expect(await north.performance.status()).toMatchObject({ mode: 'secondary' });
    expect((await east.sys.replicationStatus()).performance).toMatchObject({ mode: 'primary' });
    expect(await west.sys.health()).toMatchObject({ status: 472, sealed: false, replicationDrMode: 'secondary' });
    expect(await east.sys.sealStatus()).toMatchObject({ sealed: false, threshold: 3, shares: 5 });
    const active = await east.activeNode();
    expect(await east.sys.leader({ node: active })).toMatchObject({ isSelf: true, haEnabled: true });
    expect(warnings).toEqual([]);
  });

  it('reads audit devices, licence and automatic snapshots', async () => {
    const east = clientOf('east');
    const token = rootOf('east');
    expect((await east.sys.auditDevices({ token })).map(({ path }) => path)).toEqual(['file/', 'socket/']);
    expect((await east.sys.licenceStatus({ token })).expirationTime).toBe('2036-01-01T00:00:00Z');
    const ended = service.now();
    service.cluster('east').automaticSnapshots.set('hourly', { endedAt: ended, error: '' });
    expect(await east.sys.autoSnapshotStatus('hourly', { token })).toEqual({
      lastSnapshotEnd: new Date(ended).toISOString(),
      consecutiveErrors: 0,
    });
    expect(await failureOf(east.sys.autoSnapshotStatus('daily', { token }))).toMatchObject({
      code: 'NOT_FOUND',
    });
    const reader = service.cluster('east').createToken({ policies: ['default'] });
    const asReader = { token: new Secret('service-token', reader) };
    expect(await failureOf(east.sys.auditDevices(asReader))).toMatchObject({ code: 'PERMISSION_DENIED' });
    service.cluster('east').licenceExpiry = undefined;
    expect((await east.sys.health()).licence).toBeUndefined();
    expect(await failureOf(east.sys.licenceStatus({ token }))).toMatchObject({ code: 'NOT_FOUND' });
    expect(warnings).toEqual([]);
  });

  it('writes and reads values', async () => {
    const [east, token] = [clientOf('east'), rootOf('east')];
    await east.keyValue.write({ ...MARKER, data: { at: '12' } }, { token });
    expect(await east.keyValue.read(MARKER, { token })).toEqual({ at: '12' });
    expect(await east.keyValue.read({ ...MARKER, path: 'none' }, { token })).toBeUndefined();
    expect(await east.sys.mountOf('secret/marker', { token })).toMatchObject({ path: 'secret/', type: 'kv' });
    // The paths of version 1 are not those of a version 2 engine.
    const unversioned = { ...MARKER, version: 1 as const };
    expect(await east.keyValue.read(unversioned, { token })).toBeUndefined();
    const write = east.keyValue.write({ ...unversioned, data: { at: '12' } }, { token });
    expect(await failureOf(write)).toMatchObject({ httpStatus: 404 });
    expect(await failureOf(east.sys.mountOf('none/marker', { token }))).toMatchObject({ code: 'PERMISSION_DENIED' });
  });

  it('generates an operation token with a one-time password, uses it and deletes it', async () => {
    const west = clientOf('west');
    const { startAttempt, update } = west.dr.secondary.generateOperationToken;
    const started = await startAttempt({});
    let last: GenerationAttempt = started;
    for (const share of service.cluster('west').keyShares.slice(0, started.required))
      last = await update({ key: new Secret('key-share', share), nonce: started.nonce ?? '' });
    expect(started).toMatchObject({ started: true, progress: 0, required: 3, complete: false, otpLength: 28 });
    expect(last).toMatchObject({ progress: 3, complete: true });
    if (last.encodedToken === undefined || started.otp === undefined) throw new Error('no token or no password');
    const drOperationToken = new Secret('operation-token', xor(last.encodedToken.reveal(), started.otp.reveal()));
    expect(await west.dr.secondary.merkleCheck({ drOperationToken })).toMatchObject({ healthy: true });
    await west.dr.secondary.reindex({ drOperationToken });
    await west.dr.secondary.deleteOperationToken({ drOperationToken });
    const failure = await failureOf(west.dr.secondary.promote({ drOperationToken }));
    expect(failure).toMatchObject({ code: 'PERMISSION_DENIED', outcomeKnown: true });
  });

  it('switches a DR primary over by hand', async () => {
    const [east, west, token] = [clientOf('east'), clientOf('west'), rootOf('east')];
    const drOperationToken = new Secret(
      'batch-token',
      service.cluster('east').createToken({ policies: ['root'], type: 'batch' }),
    );
    await east.keyValue.write({ ...MARKER, data: { at: '14' } }, { token });
    const primary = await east.dr.status();
    const wal = primary.mode === 'primary' ? (primary.lastReplicatedWal ?? 0n) : 0n;
    await until(
      () => west.dr.status(),
      (status) => status.mode === 'secondary' && (status.lastRemoteWal ?? 0n) >= wal,
    );

    const demoted = await east.dr.primary.demote({ token });
    expect(demoted.warnings.join()).toContain('demoted');
    east.forgetActiveNode();
    await until(
      () => east.dr.status(),
      ({ mode }) => mode === 'secondary',
    );

    await reached(() =>
      west.dr.secondary.promote({ drOperationToken, primaryClusterAddr: service.cluster('west').clusterAddress }),
    );
    west.forgetActiveNode();
    await until(
      () => west.dr.status(),
      ({ mode }) => mode === 'primary',
    );
    expect(await reached(() => west.keyValue.read(MARKER, { token }))).toEqual({ at: '14' });

    const id = service.cluster('east').clusterId;
    const { publicKey } = await reached(() => east.dr.secondary.generatePublicKey({ token: drOperationToken }));
    const activation = await reached(() =>
      west.dr.primary.secondaryToken({ id, secondaryPublicKey: publicKey }, { token }),
    );
    expect(activation.form).toBe('encrypted');
    await east.dr.secondary.updatePrimary({ drOperationToken, token: activation.token });
    const joined = await until(
      () => east.dr.status(),
      (status) => status.mode === 'secondary' && status.state === 'stream-wals',
    );
    expect(joined).toMatchObject({ secondaryId: id });
    const wrapped = await west.dr.primary.secondaryToken({ id: 'another', ttl: '90s' }, { token });
    expect(wrapped).toMatchObject({
      form: 'wrapped',
      ttlSeconds: 90,
      claims: { addr: service.cluster('west').apiAddress },
    });
    expect((wrapped.claims?.exp ?? 0) - (wrapped.claims?.iat ?? 0)).toBe(90);
    await west.dr.primary.revokeSecondary({ id: 'another' }, { token });
  });
});

function xor(encoded: string, otp: string): string {
  const password = Buffer.from(otp);
  return Buffer.from(Buffer.from(encoded, 'base64').map((byte, index) => byte ^ (password[index] ?? 0))).toString();
}
