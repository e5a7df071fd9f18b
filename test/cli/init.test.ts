/** `runbook init` judges what it finds: what the clusters report, and what lies in its directory. */
import { chmod, chown, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { loadInventory, readSigningKey } from '../../src/inventory';
import { formatPublicKey, newSigningKey } from '../../src/keys';
import { Secret } from '../../src/secret';
import { startSimulatedService } from '../../src/simulator';
import type { SimulatedCluster, SimulatedService } from '../../src/simulator';
import { ServiceClient } from '../../src/vault';
import { temporaryDirectory } from '../support/directory';
import { clusters } from '../support/site';
import { cli } from './support';

const folder = temporaryDirectory('init');
let service: SimulatedService;
beforeEach(async () => {
  service = await startSimulatedService({ clusters: clusters('east', 'west', 'north') });
});
afterEach(() => service.stop());

const clusterOption = (cluster: SimulatedCluster, name = cluster.name) => [
  '--cluster',
  `${name}=${cluster.addresses.join(',')}`,
];
const init = (directory: string, ...words: readonly string[]) =>
  cli([
    'init',
    '--yes',
    '--directory',
    resolve(folder, directory),
    '--deployment',
    'payments',
    '--people',
    'ada,ben,cyd',
    ...words,
  ]);
const inventoryOf = (directory: string) => loadInventory(join(folder, directory, 'inventory.yaml'));
const entryOf = async (directory: string, name: string) =>
  (await inventoryOf(directory)).deployments.get('payments')?.clusters.get(name);

async function enablePrimary(cluster: SimulatedCluster, primaryClusterAddr: string): Promise<void> {
  const client = new ServiceClient({ name: cluster.name, addresses: cluster.addresses });
  await client.dr.primary.enable({ primaryClusterAddr }, { token: new Secret('service-token', cluster.rootToken) });
  await client.close();
  // It restarts.
  service.advanceClock(1_000);
}

it.each([
  ['without a scheme, as the service takes it', 'lb.example:8201', 'https://lb.example:8201'],
  ['with another scheme: TLS is spoken there all the same', 'http://lb.example:8201/', 'https://lb.example:8201'],
  ['with the port that a URL drops', 'https://lb.example:443', 'https://lb.example:443'],
  ['of IPv6', '[2001:db8::1]:8201', 'https://[2001:db8::1]:8201'],
  ["at a node's own host", 'https://127.0.0.1:9999', 'node-address'],
])('init writes a primary_cluster_addr %s', async (what, reported, written) => {
  await enablePrimary(service.cluster('east'), reported);
  const { code, err } = await init(what, ...clusterOption(service.cluster('east')));
  expect([code, err]).toEqual([0, expect.not.stringContaining('primary_cluster_addr')]);
  expect((await entryOf(what, 'east'))?.advertisedClusterAddress).toBe(written);
});

it('init names an invalid primary_cluster_addr, and writes node-address', async () => {
  await enablePrimary(service.cluster('east'), 'https://lb.example:8201/path');
  const { code, err } = await init('odd', ...clusterOption(service.cluster('east')));
  expect([code, err]).toEqual([
    0,
    expect.stringContaining(
      'Warning: east reports "https://lb.example:8201/path" as primary_cluster_addr, which is no',
    ),
  ]);
  expect((await entryOf('odd', 'east'))?.advertisedClusterAddress).toBe('node-address');
});

it('init names clusters and people that make no inventory, and leaves none', async () => {
  const east = service.cluster('east');
  const twice = await init('twice', ...clusterOption(east), ...clusterOption(east, 'west'));
  expect(twice).toMatchObject({
    code: 3,
    err: expect.stringContaining('cluster east already has this address') as string,
  });
  const named = await init('twice', ...clusterOption(east), ...clusterOption(service.cluster('west'), 'east'));
  expect(named).toMatchObject({ code: 3, err: expect.stringContaining('Two clusters are named east') as string });
  for (const { err } of [twice, named]) expect(err).not.toMatch(/INVENTORY_INVALID|INTERNAL|inventory\.yaml/);
  await expect(readFile(join(folder, 'twice', 'inventory.yaml'))).rejects.toThrow('ENOENT');
  await expect(readFile(join(folder, 'twice', 'workers.key'))).rejects.toThrow('ENOENT');
});

it('init writes names that YAML would read as something else', async () => {
  const words = [...clusterOption(service.cluster('east'), 'null'), '--people', 'true,1e3,no'];
  expect(await init('names', ...words)).toMatchObject({ code: 0 });
  const { people, deployments } = await inventoryOf('names');
  expect([...people.keys()]).toEqual(['true', '1e3', 'no']);
  expect([...(deployments.get('payments')?.clusters.keys() ?? [])]).toEqual(['null']);
});

it('init names the cluster whose primary was not given', async () => {
  const other = await startSimulatedService({
    clusters: clusters('east', 'west'),
    dr: [{ primary: 'east', secondaries: ['west'] }],
  });
  try {
    const { err } = await init('orphan', ...clusterOption(other.cluster('west')));
    expect(err).toContain('Warning: the primary of west is not among these clusters. Name it too.');
  } finally {
    await other.stop();
  }
});

const withToken = async (directory: string, { clusters: all }: SimulatedService, ...words: readonly string[]) => {
  const file = join(folder, 'admin-token');
  const [primary] = all.values();
  await writeFile(file, primary?.rootToken ?? '', { mode: 0o600 });
  return init(
    directory,
    ...[...all.values()].flatMap((each) => clusterOption(each)),
    '--admin-token-file',
    file,
    ...words,
  );
};
const mayStartAgain = (directory: string) =>
  Promise.all(['inventory.yaml', 'worker.env', 'env.sh'].map((name) => rm(join(folder, directory, name))));
interface LivePoint {
  readonly id: string;
  readonly verdict: string;
  readonly cluster?: string;
}
async function livePoints(directory: string): Promise<readonly LivePoint[]> {
  const { out } = await cli(['inventory', 'check', join(folder, directory, 'inventory.yaml'), '--live', '--json']);
  return (JSON.parse(out) as { live: { points: LivePoint[] }[] }).live.flatMap(({ points }) => points);
}
/** Whether the workers' login works with what `init` wrote. */
async function logsIn(directory: string): Promise<boolean> {
  const points = (await livePoints(directory)).filter(({ id }) => id === 'credential-works');
  expect(points).not.toEqual([]);
  return points.every(({ verdict }) => verdict === 'ok');
}

it('init keeps no secret ID of a role that is gone beside a new role ID', async () => {
  const topology = { clusters: clusters('east', 'west'), dr: [{ primary: 'east', secondaries: ['west'] }] };
  const [one, other] = await Promise.all([startSimulatedService(topology), startSimulatedService(topology)]);
  try {
    expect(await withToken('secret', one)).toMatchObject({ code: 0 });
    expect(await logsIn('secret')).toBe(true);
    // Another primary: nothing is changed there, and the file stays.
    await mayStartAgain('secret');
    const before = await readFile(join(folder, 'secret', 'secret-id'), 'utf8');
    expect(await withToken('secret', other)).toMatchObject({
      ...{ code: 3, err: expect.stringContaining('secret-id exists: the secret ID of an earlier AppRole') as string },
    });
    expect(other.calls.filter(({ method }) => method !== 'GET')).toEqual([]);
    expect(await readFile(join(folder, 'secret', 'secret-id'), 'utf8')).toBe(before);
    // The same primary, after somebody removed the role.
    const { storage } = one.cluster('east');
    storage.write('auth/approle/role/runbooks', null, one.now());
    expect(await withToken('secret', one)).toMatchObject({ code: 0 });
    expect(await readFile(join(folder, 'secret', 'secret-id'), 'utf8')).not.toBe(before);
    one.advanceClock(1_000);
    expect(await logsIn('secret')).toBe(true);
  } finally {
    await Promise.all([one.stop(), other.stop()]);
  }
});

it("each person's line names the Temporal server and the namespace, and join stores them", async () => {
  const env = { TEMPORAL_ADDRESS: 'temporal.example:7233', TEMPORAL_NAMESPACE: 'runbooks' };
  const words = [
    'init',
    '--yes',
    '--deployment',
    'payments',
    '--people',
    'ada',
    ...clusterOption(service.cluster('east')),
  ];
  const away = await cli([...words, '--directory', join(folder, 'away')], { env });
  const here = await cli([...words, '--directory', join(folder, 'here')]);
  const line = /^ +runbook (join \S+ --address (\S+) --namespace (\S+))$/m;
  const [, own = '', address, namespace] = line.exec(away.out) ?? [];
  expect([address, namespace]).toEqual(['temporal.example:7233', 'runbooks']);
  expect(line.exec(here.out)?.slice(2, 4)).toEqual(['127.0.0.1:7233', 'default']);
  const notHere = '127.0.0.1:7233 is not this host: write the address at which people reach Temporal';
  expect([away.out.includes(notHere), here.out.includes(notHere)]).toEqual([false, true]);

  await writeFile(join(folder, 'passphrase'), 'a long enough passphrase', { mode: 0o600 });
  const joining = [...own.split(' '), '--yes', '--passphrase-file', join(folder, 'passphrase'), '--json'];
  const joined = await cli(joining, { env: { XDG_CONFIG_HOME: join(folder, 'of-ada'), TEMPORAL_CONFIG_FILE: '' } });
  expect(JSON.parse(joined.out)).toMatchObject({ settings: { ...env, RUNBOOKS_PERSON: 'ada' } });
});

it('init writes the paths filters that are in force, of each secondary under either id, and names those that it cannot read', async () => {
  const denies = { mode: 'deny' as const, paths: ['kv/us customers/'] };
  const other = await startSimulatedService({
    clusters: clusters('east', 'eu', 'asia', 'africa'),
    mounts: ['kv/', 'kv/us customers/'],
    performance: {
      primary: 'east',
      secondaries: [{ name: 'eu', filter: denies }, { name: 'asia' }, { name: 'africa' }],
    },
  });
  try {
    const [east, africa] = [other.cluster('east'), other.cluster('africa')];
    const client = new ServiceClient({ name: 'east', addresses: east.addresses });
    const token = new Secret('service-token', east.rootToken);
    // Under its cluster ID, not the id of its token.
    await client.performance.primary.pathsFilter.write({ id: africa.clusterId, mode: 'allow', paths: [] }, { token });
    await client.close();
    const { code, err } = await withToken('filters', other);
    expect([code, err]).toEqual([0, expect.stringContaining('eu: deny kv/us customers/ (written under pathsFilters)')]);
    const { pathsFilters } = (await inventoryOf('filters')).deployments.get('payments') ?? {};
    expect(pathsFilters).toEqual({ eu: denies, asia: 'none', africa: { mode: 'allow', paths: [] } });

    const all = [...other.clusters.values()].flatMap((each) => clusterOption(each));
    expect((await init('no-token', ...all)).err).toContain(
      'Warning: the paths filter of asia was not read (that needs a',
    );
    const read = {
      cluster: 'east',
      endpoint: `GET /v1/sys/replication/performance/primary/paths-filter/${africa.clusterId}`,
    };
    other.faults.add({ ...read, action: { status: 403 } });
    await mayStartAgain('filters');
    const again = await withToken('filters', other);
    expect(again.err).toContain('Warning: the paths filter of africa was not read (PERMISSION_DENIED)');
    expect(Object.keys((await inventoryOf('filters')).deployments.get('payments')?.pathsFilters ?? {})).toEqual([
      'eu',
      'asia',
    ]);
  } finally {
    await other.stop();
  }
});

it('a listed cluster that is not in its set yet is reported as such, and does not fail otherwise; alone beside the primary it fails', async () => {
  const other = await startSimulatedService({
    clusters: clusters('east', 'west', 'north'),
    dr: [{ primary: 'east', secondaries: ['west'] }],
  });
  try {
    expect(await withToken('listed', other)).toMatchObject({ code: 0 });
    const file = join(folder, 'listed', 'inventory.yaml');
    const written = await readFile(file, 'utf8');
    const ofNorth = async (sets: string) => {
      await writeFile(file, written.replace(/drSets: .*/, `drSets: ${sets}`));
      other.advanceClock(1_000);
      const bad = (await livePoints('listed')).filter(
        ({ cluster, verdict }) => cluster === 'north' && verdict !== 'ok',
      );
      return bad.map(({ id, verdict }) => [id, verdict]);
    };
    expect(await ofNorth('{ main: [east, west, north] }')).toEqual([['in-its-set', 'warn']]);
    expect(await ofNorth('{ main: [east, north], later: [west] }')).toEqual([['in-its-set', 'fail']]);
  } finally {
    await other.stop();
  }
});

it('holders who have only a browser are listed without a key, get no line to join, and the page is named', async () => {
  const words = ['--holders', 'ada,ben,cyd', '--browser-holders', 'dan,eve'];
  const east = clusterOption(service.cluster('east'));
  const { code, out } = await init('browsers', ...east, ...words);
  expect(code).toBe(0);
  const { people, deployments, workers } = await inventoryOf('browsers');
  const { ceremony, notJoined } = deployments.get('payments') ?? {};
  expect([people.get('dan')?.attestation, people.get('ada')?.attestation]).toEqual(['claimed', 'signed']);
  expect([ceremony?.holders, notJoined]).toEqual([
    ['ada', 'ben', 'cyd', 'dan', 'eve'],
    ['ada', 'ben', 'cyd'],
  ]);
  expect([...out.matchAll(/join production\/(\w+)/g)].map(([, name]) => name)).toEqual(['ada', 'ben', 'cyd']);
  expect(out).toContain('For holders with only a browser (dan, eve), make a page');
  const key = formatPublicKey(await readSigningKey(workers.signingKey));
  expect(out).toContain(`runbook holder-page --output holder-page.html --key ${key}`);
  const check = await cli(['inventory', 'check', join(folder, 'browsers', 'inventory.yaml')]);
  expect(check.out).not.toMatch(/(dan|eve) (is|are|has|have) /);

  const both = await init('both', ...east, '--browser-holders', 'ada');
  expect(both).toMatchObject({
    code: 3,
    err: expect.stringContaining('Who operates and approves needs a key') as string,
  });
});

describe('a file that another user of the host planted in the directory', () => {
  const elsewhere = join(folder, 'elsewhere');
  /** Only root can give a file away. */
  const giveAway = (path: string) => (process.getuid?.() === 0 ? chown(path, 12_345, 12_345) : chmod(path, 0o666));
  const key = (path: string) => writeFile(path, 'planted', { mode: 0o600 });

  it.each<readonly [string, (at: string) => Promise<unknown>, RegExp]>([
    ['a link in place of a key', (at) => symlink(elsewhere, join(at, 'workers.key')), /workers\.key: a link/],
    [
      'a link to a file that is not there yet',
      (at) => symlink(`${elsewhere}-new`, join(at, 'policy.hcl')),
      /hcl: a link/,
    ],
    [
      'a link in place of the inventory',
      (at) => symlink(`${elsewhere}-new`, join(at, 'inventory.yaml')),
      /yaml: a link/,
    ],
    [
      'seal keys that everybody can write',
      async (at) => {
        await key(join(at, 'seal-keys'));
        await chmod(join(at, 'seal-keys'), 0o602);
      },
      /seal-keys: owner \d+, mode 602/,
    ],
    [
      'a key of their own',
      async (at) => {
        await key(join(at, 'workers.key'));
        await giveAway(join(at, 'workers.key'));
      },
      /workers\.key: owner (12345|\d+, mode 666)/,
    ],
    ['a directory in place of a file', (at) => mkdir(join(at, 'secret-id')), /secret-id: no plain file/],
    ['a directory that everybody can change', (at) => chmod(at, 0o777), /planted-\d: owner \d+, mode 777/],
    ['a directory of their own', (at) => giveAway(at), /planted-\d: owner (12345|\d+, mode 666)/],
    ['a link in place of bin', (at) => symlink(folder, join(at, 'bin')), /bin: no plain directory/],
  ])('%s is neither adopted nor followed', async (_what, plant, why) => {
    await key(elsewhere);
    const at = join(folder, `planted-${planted++}`);
    await mkdir(at, { mode: 0o700 });
    await plant(at);
    const before = await readdir(at, { recursive: true });
    const { code, err } = await init(at, ...clusterOption(service.cluster('east')));
    expect([code, err]).toEqual([3, expect.stringMatching(why)]);
    expect(err).toContain('Another user may have put this here. Nothing was written.');
    expect(await readdir(at, { recursive: true })).toEqual(before);
    expect(await readFile(elsewhere, 'utf8')).toBe('planted');
    await expect(readFile(`${elsewhere}-new`)).rejects.toThrow('ENOENT');
    expect(service.calls).toEqual([]);
  });
  let planted = 0;
});

describe('an addition by init to an inventory', () => {
  let pairs: SimulatedService;
  let file: string;
  beforeEach(async () => {
    pairs = await startSimulatedService({
      clusters: clusters('east', 'west', 'north', 'eu', 'euro'),
      dr: [
        { primary: 'east', secondaries: ['west', 'north'] },
        { primary: 'eu', secondaries: ['euro'] },
      ],
    });
  });
  afterEach(() => pairs.stop());
  let made = 0;
  /** With a comment of a colleague, and a person who has joined. */
  const installation = async (): Promise<string> => {
    const directory = `installed-${++made}`;
    const two = ['east', 'west'].flatMap((name) => clusterOption(pairs.cluster(name)));
    expect(await init(directory, ...two, '--holders', 'ada,ben,cyd,dan')).toMatchObject({ code: 0 });
    file = join(folder, directory, 'inventory.yaml');
    const line = `ada/${formatPublicKey(newSigningKey().key)}`;
    expect(await cli(['inventory', 'add-person', line, '--yes', '--inventory', file])).toMatchObject({ code: 0 });
    await writeFile(file, `# by a colleague\n${await readFile(file, 'utf8')}`);
    return directory;
  };
  const add = (directory: string, ...words: readonly string[]) =>
    cli(['init', '--yes', '--directory', join(folder, directory), ...words]);
  const option = (name: string) => `${name}=${pairs.cluster(name).addresses.join(',')}`;
  const comments = (text: string) => text.match(/#.*/g) ?? [];

  it('a second deployment has files of its own; people, keys and comments of the first stay', async () => {
    const directory = await installation();
    const before = await readFile(file, 'utf8');
    const key = await readFile(join(folder, directory, 'workers.key'), 'utf8');
    const adminToken = join(folder, 'admin-token');
    await writeFile(adminToken, pairs.cluster('eu').rootToken, { mode: 0o600 });
    const second = ['--deployment', 'ledger', '--cluster', option('eu'), '--cluster', option('euro')];
    const words = [...second, '--people', 'ada,ben,fay', '--holders', 'ada,cyd,gus', '--admin-token-file', adminToken];
    const { code, out, err } = await add(directory, ...words);
    expect([code, err]).toEqual([0, expect.stringContaining('Created on eu: policy "runbooks"')]);
    const after = await readFile(file, 'utf8');
    expect(comments(after)).toEqual(expect.arrayContaining(comments(before)));
    const { people, deployments } = await loadInventory(file);
    expect([...deployments.keys()]).toEqual(['payments', 'ledger']);
    expect(people.get('ada')?.publicKeys).toHaveLength(1);
    expect([...people.keys()]).toEqual(['ada', 'ben', 'cyd', 'dan', 'fay', 'gus']);
    expect(deployments.get('ledger')?.clusters.get('euro')?.credential).toMatchObject({
      secretId: { file: join(folder, directory, 'secret-id-ledger') },
    });
    expect(deployments.get('payments')?.clusters.get('east')?.credential).toEqual({
      file: join(folder, directory, 'workers.token'),
    });
    expect(await readFile(join(folder, directory, 'workers.key'), 'utf8')).toBe(key);
    expect(out).toContain('runbook schedules apply');
    // Who has joined has no line to run.
    expect([...out.matchAll(/join production\/(\w+)/g)].map(([, name]) => name)).toEqual(['ben', 'cyd', 'fay', 'gus']);
    // Nobody gains a right in the other deployment.
    expect(people.get('ada')?.groups).toEqual(['approvers', 'operators', 'ledger-approvers', 'ledger-operators']);
    expect(people.get('fay')?.groups).toEqual(['ledger-approvers', 'ledger-operators']);
    expect([people.get('cyd')?.groups, people.get('gus')?.groups]).toEqual([['approvers', 'operators'], []]);
    const { gates, operators } = deployments.get('ledger') ?? {};
    expect([gates?.plan.groups, gates?.go.groups, operators]).toEqual([
      ['ledger-approvers'],
      ['ledger-approvers'],
      ['ledger-operators'],
    ]);
    expect(out).toContain('Its gates count the people in group ledger-approvers alone: ada, ben, fay.');

    expect(await add(directory, ...words)).toMatchObject({
      ...{ code: 3, err: expect.stringContaining('inventory.yaml exists; nothing was written') as string },
    });
    const taken = await add(directory, '--deployment', 'third', '--cluster', option('east'), '--people', 'ada,ben,cyd');
    expect(taken).toMatchObject({ code: 3, err: expect.stringContaining('cluster east already has this') as string });
    expect(await readFile(file, 'utf8')).toBe(after);
  });

  it('a cluster goes into the DR set in which it replicates, with the credential of that set; comments stay', async () => {
    const directory = await installation();
    const before = await readFile(file, 'utf8');
    const { code, out, err } = await add(directory, '--add-cluster', option('north'));
    expect([code, err]).toEqual([0, expect.stringMatching(/north +1 of 1 nodes answer .* DR secondary/)]);
    expect(out).toContain('Cluster north is in DR set main of payments now, with the credential of east.');
    expect(out).not.toContain('needs more rights');
    const after = await readFile(file, 'utf8');
    expect(comments(after)).toEqual(expect.arrayContaining(comments(before)));
    const { deployments } = await loadInventory(file);
    const { drSets, clusters: all } = deployments.get('payments') ?? {};
    expect(drSets?.get('main')).toEqual(['east', 'west', 'north']);
    expect(all?.get('north')).toMatchObject({
      addresses: pairs.cluster('north').addresses,
      clusterId: pairs.cluster('north').clusterId,
      credential: all?.get('east')?.credential,
    });
    const again = await add(directory, '--add-cluster', option('north'));
    expect(again).toMatchObject({ code: 3, err: expect.stringContaining('already has a cluster north') as string });
    expect(await readFile(file, 'utf8')).toBe(after);
  });

  it('a cluster that replicates with none of them needs the name of its set; a new set changes the policy, which is reported', async () => {
    const directory = await installation();
    const before = await readFile(file, 'utf8');
    const unknown = await add(directory, '--add-cluster', option('eu'));
    expect(unknown).toMatchObject({ code: 3, err: expect.stringContaining('The DR set of eu is unknown') as string });
    expect(unknown.err).toContain('There are: main (east, west)');
    expect(await readFile(file, 'utf8')).toBe(before);
    const added = await add(directory, '--add-cluster', option('eu'), '--dr-set', 'europe');
    expect(added).toMatchObject({ code: 0 });
    expect(added.out).toContain('runbook policy payments | vault policy write runbooks -');
    expect((await loadInventory(file)).deployments.get('payments')?.drSets.get('europe')).toEqual(['eu']);
  });
});
