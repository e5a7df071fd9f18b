/** A snapshot before what cannot be undone is whole, in a file of its own, or there is none. */
import { createHash } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { gunzipSync, gzipSync } from 'node:zlib';
import { SnapshotArchive } from '../../activities/snapshots/snapshots';
import type { SnapshotEvent } from '../../src/contracts/names';
import type { ServiceAnswer } from '../../src/simulator/messages';
import { DEPLOYMENT, holding, openBench } from '../support/activity-environment';
import type { ActivityBench, SignedPlan } from '../support/activity-environment';

const ENDPOINT = 'GET /v1/sys/storage/raft/snapshot';

let bench: ActivityBench;
let directory = '';
openBench((opened) => (bench = opened), {
  topology: { clusters: ['east', 'west', 'north'].map((name) => ({ name, nodes: 1 })) },
  drSets: { main: ['east', 'west', 'north'] },
  deployment: {
    snapshot: { to: '/placeholder', before: ['demotion', 'wipe'] },
    hooks: { snapshot: { command: ['/bin/true'] } },
  },
});
beforeAll(async () => {
  directory = join(bench.directory, 'snapshots');
  await mkdir(directory, { mode: 0o700 });
  keepIn(directory);
});

/** Where the inventory wants them, from now on. */
function keepIn(to: string): void {
  Object.assign(bench.inventory.deployments.get(DEPLOYMENT)?.snapshot ?? {}, { to });
}

const asked = (cluster: string, event: SnapshotEvent, authority: SignedPlan) =>
  ({ deployment: DEPLOYMENT, cluster, event, authority }) as const;

/** What the service sends instead, once. */
function answering(change: (bytes: Buffer) => Buffer): void {
  const action = (_cluster: unknown, answer?: ServiceAnswer) =>
    void Object.assign(answer ?? {}, { bytes: change(answer?.bytes ?? Buffer.alloc(0)) });
  bench.service.faults.add({ endpoint: ENDPOINT, when: 'after', action });
}

async function sent(): Promise<Buffer> {
  const { addresses, rootToken } = bench.cluster('east');
  const answer = await fetch(`${addresses[0]}/v1/sys/storage/raft/snapshot`, {
    headers: { 'X-Vault-Token': rootToken },
  });
  return gunzipSync(Buffer.from(await answer.arrayBuffer()));
}

function mistakeIn(archive: Buffer, chunk = archive.length): string | undefined {
  const reading = new SnapshotArchive();
  for (let at = 0; at < archive.length; at += chunk) reading.add(archive.subarray(at, at + chunk));
  return reading.mistake;
}

it('an archive is read in chunks of any size, and one that ends early or was changed is not whole', async () => {
  const archive = await sent();
  for (const chunk of [1, 511, 512, 513, 70_000, archive.length]) expect(mistakeIn(archive, chunk)).toBeUndefined();
  expect(mistakeIn(archive.subarray(0, 100_000))).toBe('it ends in the middle of a file');
  expect(mistakeIn(Buffer.alloc(0))).toBe('it has no meta.json');
  // The sealed sums come last: an archive that the service ended cleanly before them looks whole otherwise.
  const sealed = archive.indexOf('SHA256SUMS.sealed');
  expect(mistakeIn(Buffer.concat([archive.subarray(0, sealed), Buffer.alloc(1024)]))).toBe(
    'it has no SHA256SUMS.sealed',
  );
  const changed = Buffer.from(archive);
  changed[100_000] = (changed[100_000] ?? 0) ^ 1;
  expect(mistakeIn(changed)).toBe('state.bin does not match SHA256SUMS');
  expect(() => mistakeIn(Buffer.alloc(512, 'x'))).toThrow(RangeError);
});

it('an archive with any number of other files costs no memory, and only the four names count', async () => {
  const archive = await sent();
  const other = Buffer.alloc(512);
  other.write('00000000000', 124, 'latin1');
  const reading = new SnapshotArchive();
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const used = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const before = used();
  for (let each = 0; each < 100_000; each += 1) {
    other.write(`file-${String(each).padStart(20, '0')}`, 0, 'latin1');
    reading.add(other);
  }
  expect(used() - before).toBeLessThan(4_000_000);
  reading.add(archive);
  expect(reading.mistake).toBeUndefined();
});

it('before an approved demotion: a file for the worker alone, named when it is complete, with size and checksum', async () => {
  const authority = await bench.authority();
  expect(JSON.parse(authority.plan.text)).toMatchObject({
    steps: expect.arrayContaining([
      { step: 'Take a snapshot of east', note: `before its demotion, into ${directory}` },
    ]) as object[],
  });
  const { outcome, observed } = await bench.call('takeSnapshot', asked('east', 'demotion', authority));
  const [name = '', ...others] = await readdir(directory);
  expect([outcome, others]).toEqual(['done', []]);
  expect(name).toMatch(new RegExp(`^payments-east-\\d{8}T\\d{9}Z-before-demotion-${bench.run.rid}\\.snap$`));
  const content = await readFile(join(directory, name));
  const sum = createHash('sha256').update(content).digest('hex');
  expect(observed).toBe(`snapshot of east: ${join(directory, name)}, ${content.length} bytes, SHA-256 ${sum}`);
  expect((await stat(join(directory, name))).mode & 0o777).toBe(0o600);
  expect(mistakeIn(gunzipSync(content))).toBeUndefined();
});

it('removes the files that a killed attempt of this run left, and none of another run', async () => {
  const partial = (rid: string) => `.payments-east-20260102T030405678Z-before-demotion-${rid}.snap.partial`;
  const [left, other] = [partial(bench.run.rid), partial('another-run')];
  for (const name of [left, other]) await writeFile(join(directory, name), 'a part');
  await bench.call('takeSnapshot', asked('east', 'demotion', await bench.authority()));
  expect((await readdir(directory)).filter((name) => name.startsWith('.'))).toEqual([other]);
  await rm(join(directory, other));
});

it('readiness warns of a directory that the worker cannot write into', async () => {
  const point = async () => {
    const { points } = await bench.readiness();
    return points.find(({ id }) => id === 'snapshot-directory');
  };
  expect(await point()).toMatchObject({ verdict: 'ok' });
  keepIn(join(directory, 'nowhere'));
  expect(await point()).toMatchObject({ verdict: 'warn', about: 'switchover', observed: 'ENOENT' });
  keepIn(directory);
});

it('one that breaks off, is cut cleanly, or is no snapshot fails, and no file is kept', async () => {
  const authority = await bench.authority();
  const before = await readdir(directory);
  for (const change of [
    (bytes: Buffer) => bytes.subarray(0, bytes.length / 2),
    (bytes: Buffer) => gzipSync(gunzipSync(bytes).subarray(0, 512 * 10)),
    () => Buffer.from('<html>a load balancer</html>'),
    () => Buffer.alloc(0),
  ]) {
    answering(change);
    await bench.refused('takeSnapshot', asked('east', 'demotion', authority), 'RESPONSE_INVALID', {
      retryable: false,
      details: { outcomeKnown: true },
    });
  }
  keepIn(join(directory, 'nowhere'));
  const refused = async (details: object) => {
    const input = asked('east', 'demotion', await bench.authority());
    expect(await bench.failure('takeSnapshot', input)).toMatchObject({ details });
  };
  await refused({ observed: holding('is not a directory on this worker') });
  // A directory in which nobody makes files.
  keepIn(process.platform === 'linux' ? '/proc' : '/dev');
  await refused({ next: holding('ReadWritePaths= of the systemd unit (EROFS)') });
  keepIn(directory);
  await chmod(directory, 0o500);
  const failure = await bench.failure('takeSnapshot', asked('east', 'demotion', authority)).catch(() => undefined);
  await chmod(directory, 0o700);
  // Root writes where it may not.
  if (failure) expect(failure.details['observed']).toContain('cannot write into');
  else expect(process.getuid?.()).toBe(0);
  expect((await readdir(directory)).filter((name) => name.startsWith('.'))).toEqual([]);
  expect((await readdir(directory)).length - before.length).toBe(failure ? 0 : 1);
});

it('only of a cluster that an approved plan is about to demote, wipe or promote by force, and only if it is wanted', async () => {
  const authority = await bench.authority();
  const reads = () => bench.service.calls.filter(({ path }) => path.endsWith('raft/snapshot')).length;
  const before = reads();
  for (const refused of [
    asked('east', 'demotion', { ...authority, approvals: [] }),
    asked('west', 'demotion', authority),
    asked('east', 'wipe', authority),
  ])
    await bench.refused('takeSnapshot', refused, 'NOT_APPROVED');
  // The plan had one, or nobody would ask: somebody took it out of the inventory since.
  await bench.refused('takeSnapshot', asked('west', 'forced-promotion', authority), 'PRECONDITION_FAILED', {
    details: { observed: 'the inventory wants no snapshot before a forced-promotion' },
  });
  expect(reads()).toBe(before);
});

it('of a cluster that is wiped; by the hook if the inventory says so', async () => {
  const planned = async () => {
    const assessed = await bench.assess('drSecondaryOnboarding', { primary: 'east', secondary: 'north' });
    expect(assessed.route?.snapshot).toBe(true);
    return bench.approved(assessed, 'wipe');
  };
  expect(await bench.call('takeSnapshot', asked('north', 'wipe', await planned()))).toMatchObject({ outcome: 'done' });
  keepIn('hook');
  const { observed } = await bench.call('takeSnapshot', asked('north', 'wipe', await planned()));
  expect(observed).toBe('snapshot hook ended with exit code 0');
  keepIn(directory);
});
