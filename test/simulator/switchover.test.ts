import { startSimulatedService, type SimulatedService } from '../../src/simulator';
import { call, deployment, eventually, persistently } from './client';

let service: SimulatedService;
beforeEach(async () => {
  service = await startSimulatedService(deployment());
});
afterEach(() => service.stop());

const DR = 'sys/replication/dr';

describe('a planned switchover by hand', () => {
  it('moves the primary, keeps every write, and lets the old primary follow the new one', async () => {
    const east = service.cluster('east');
    const west = service.cluster('west');
    const root = east.rootToken;
    expect((await call(east, 'POST', 'secret/app', { token: root, body: { password: 'x' } })).status).toBe(204);
    const status = await call(east, 'GET', `${DR}/status`);
    expect(status.at('data')).toMatchObject({ mode: 'primary', state: 'running' });
    const wal = BigInt(status.textAt('data', 'last_dr_wal'));
    await eventually(async () => {
      const sample = await call(west, 'GET', `${DR}/status`);
      const streaming = sample.textAt('data', 'state') === 'stream-wals';
      return streaming && BigInt(sample.textAt('data', 'last_remote_wal')) >= wal ? true : undefined;
    });

    const batch = east.createToken({ policies: ['root'], type: 'batch' });
    expect((await call(east, 'POST', `${DR}/primary/demote`, { token: root })).textAt('warnings', 0)).toContain(
      'demoted to a replication secondary',
    );
    const demoted = await persistently(() => call(east, 'GET', `${DR}/status`));
    expect(demoted.at('data')).toMatchObject({ mode: 'secondary', state: 'idle' });
    const before = await call(west, 'GET', `${DR}/status`);
    expect(demoted.textAt('data', 'merkle_root')).toBe(before.textAt('data', 'merkle_root'));

    const promoted = await call(west, 'POST', `${DR}/secondary/promote`, {
      body: { dr_operation_token: batch, primary_cluster_addr: west.clusterAddress },
    });
    expect(promoted.status).toBe(200);
    await persistently(() => call(west, 'GET', 'secret/app', { token: root }));
    expect((await call(west, 'GET', 'secret/app', { token: root })).at('data')).toEqual({ password: 'x' });

    const key = await persistently(() => call(east, 'POST', `${DR}/secondary/generate-public-key`, { token: batch }));
    const token = await persistently(() =>
      call(west, 'POST', `${DR}/primary/secondary-token`, {
        token: root,
        body: { id: east.clusterId, secondary_public_key: key.textAt('data', 'secondary_public_key') },
      }),
    );
    const updated = await call(east, 'POST', `${DR}/secondary/update-primary`, {
      body: { dr_operation_token: batch, token: token.textAt('data', 'token') },
    });
    expect(updated.status).toBe(200);
    await eventually(() => (east.snapshotState().dr.state === 'stream-wals' ? true : undefined));
    expect(east.snapshotState().dr).toMatchObject({ connectedTo: 'west', mode: 'secondary' });
    await eventually(() =>
      service.cluster('north').snapshotState().performance.connectedTo === 'west' ? true : undefined,
    );
    await eventually(() =>
      east.snapshotState().dr.merkleRoot === west.snapshotState().dr.merkleRoot ? true : undefined,
    );
  });
});
