/** What a team does once: init, join, add-person. The whole page with its programs: test/long/first-hour-page.test.ts. */
import { appendFileSync, existsSync } from 'node:fs';
import { chmod, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Ajv from 'ajv';
import addFormats from 'ajv-formats';
import { parse, parseDocument } from 'yaml';
import { loadInventory } from '../../src/inventory';
import { temporaryDirectory } from '../support/directory';
import { behindLoadBalancers, pair } from '../support/site';
import { workersToken } from '../support/least-privilege';
import { formatPublicKey, newSigningKey, readHolderKey, readPins, spokenFingerprint } from '../../src/keys';
import { Secret } from '../../src/secret';
import { startSimulatedService } from '../../src/simulator';
import type { SimulatedService } from '../../src/simulator';
import { LOOPBACK_CERTIFICATE, LOOPBACK_TLS } from '../vault/support/loopback-certificate';
import { cli } from './support';
import type { CliResult } from './support';

const PEOPLE = ['ada', 'ben', 'cyd', 'dan', 'eve'];
const PASSPHRASE = 'canary-passphrase-of-everybody';

const folder = temporaryDirectory('first-hour');
let service: SimulatedService;
let initialised: CliResult;
let lines: string[];
let inventory: string;

const clusterOptions = () =>
  ['east', 'west'].flatMap((name) => ['--cluster', `${name}=${service.cluster(name).addresses.join(',')}`]);
const site = (name: string, ...more: readonly string[]) => [
  ...['init', '--directory', join(folder, name), '--deployment', 'payments', ...clusterOptions()],
  ...['--people', 'ada,ben,cyd', '--holders', PEOPLE.join(','), ...more],
];
/** The person's own machine: pins and key have places of their own. */
const machineOf = (name: string) => ({ XDG_CONFIG_HOME: join(folder, `of-${name}`) });
const joins = (line: string, name: string) =>
  cli(['join', line, '--yes', '--passphrase-file', join(folder, 'passphrase')], { env: machineOf(name) });
const refusal = (text: string) => ({ code: 3, err: expect.stringContaining(text) as string });
const sentBack = ({ out }: CliResult): string => /^ {2}([a-z]+\/\S+)$/m.exec(out)?.[1] ?? '';

beforeAll(async () => {
  await writeFile(join(folder, 'passphrase'), PASSPHRASE, { mode: 0o600 });
  service = await startSimulatedService(behindLoadBalancers(pair(3)));
  initialised = await cli(site('site', '--yes'), { interactive: false });
  lines = [...initialised.out.matchAll(/runbook join (\S+)/g)].map(([, line = '']) => line);
  inventory = join(folder, 'site', 'inventory.yaml');
});
afterAll(() => service.stop());

it('init reads the clusters, makes the keys once, and writes an inventory of one page that only lacks people', async () => {
  expect(initialised.code).toBe(0);
  expect(initialised.err).toMatch(/east +3 of 3 nodes answer +\S+ +DR primary +shamir seal, 5 key shares, threshold 3/);
  expect(initialised.err).toContain(
    'west: the leader names https://vault.west.example:8200 (api_addr), which is not among the addresses',
  );
  expect(lines.map((line) => line.split('/').slice(0, 2))).toEqual(PEOPLE.map((name) => ['production', name]));
  const text = await readFile(inventory, 'utf8');
  expect(text.split('\n').length).toBeLessThanOrEqual(30);
  expect(parse(text)).toMatchObject({
    deployments: { payments: { drSets: { main: ['east', 'west'] }, ceremony: { holders: PEOPLE } } },
  });
  expect(text).toContain(`clusterId: ${service.cluster('west').clusterId}`);
  for (const key of ['workers.key', 'seal-keys'])
    expect((await stat(join(folder, 'site', key))).mode & 0o777).toBe(0o600);
  const check = await cli(['inventory', 'check', inventory]);
  expect(check.out).toContain('gate plan: 1 of approvers. SHUT: none of them joined so far');
  expect(check.out).toContain(
    'ada, ben, cyd have not joined: in payments they cannot approve (any gate), decide on a parked step,',
  );
  expect(check.out).toContain('dan, eve have not joined: in payments they cannot give a key share');
  expect(check.out).toContain(`${join(folder, 'site', 'workers.token')} is not on this machine`);
  const unit = await readFile(join(folder, 'site', 'replication-runbooks-worker.service'), 'utf8');
  expect(unit).toContain(`EnvironmentFile=${join(folder, 'site', 'worker.env')}\n`);
  expect(unit).toMatch(/^ExecStart=\S+ --max-semi-space-size=4 --max-old-space-size=1024 \S+\/main\.js worker$/m);
  expect(unit).not.toMatch(/usr\/bin\/env|usr\/local|opt\/replication/);
  expect(initialised.out).toContain(
    `sudo cp ${join(folder, 'site', 'replication-runbooks-worker.service')} /etc/systemd/`,
  );
  const secret = JSON.parse(await readFile(join(folder, 'site', 'workers.key'), 'utf8')) as { d: string };
  expect(initialised.out).toContain(`runbook plan drSwitchover --deployment payments --to west --reason 'first plan'`);
  expect(initialised.out + initialised.err + text).not.toContain(secret.d);
});

it('init never overwrites a file, and a second one continues with the keys of the first', async () => {
  const before = await readFile(join(folder, 'site', 'workers.key'), 'utf8');
  const refused = await cli(site('site', '--yes'));
  expect([refused.code, refused.questions]).toEqual([3, []]);
  await mkdir(join(folder, 'again'));
  await writeFile(join(folder, 'again', 'workers.key'), before, { mode: 0o600 });
  const again = await cli(site('again', '--yes'), { columns: 80 });
  expect(again.code).toBe(0);
  // Longer than the terminal is wide, and copied all the same.
  expect(again.out).toContain(`sudo cp ${join(folder, 'again', 'replication-runbooks-worker.service')} /etc/systemd/`);
  expect(await readFile(join(folder, 'again', 'workers.key'), 'utf8')).toBe(before);
  expect(again.out).toContain(lines[0]);
});

it('init writes the objectives that it was given, and refuses others before it writes anything', async () => {
  const { code } = await cli([...site('objectives', '--yes'), '--rto', '15m', '--rpo', 'none']);
  const text = await readFile(join(folder, 'objectives', 'inventory.yaml'), 'utf8');
  expect([code, parse(text)]).toEqual([
    0,
    expect.objectContaining({
      deployments: { payments: expect.objectContaining({ objectives: { outage: '15m', loss: 'none' } }) as object },
    }),
  ]);
  const refused = await cli([...site('wrong-objectives', '--yes'), '--rto', 'soon', '--rpo', '-1']);
  expect(refused).toMatchObject({
    code: 3,
    err: expect.stringContaining('--rto: a duration such as 15m; --rpo: none') as string,
  });
  expect(existsSync(join(folder, 'wrong-objectives', 'inventory.yaml'))).toBe(false);
});

it('init asks for missing values, shows what it found, and writes no file without a yes', async () => {
  const [east = '', west = ''] = clusterOptions().filter((word) => word.includes('='));
  const words = ['init', '--directory', join(folder, 'asked')];
  const typed = ['payments', east, west, '', '', 'ada,ben', '', '15m', 'none', 'no'];
  const { code, questions, err } = await cli(words, { answers: typed });
  expect([code, questions.length, questions[6]]).toEqual([3, typed.length, 'Who holds a key share [ada,ben]']);
  expect(questions.slice(7, 9)).toEqual([expect.stringContaining('RTO'), expect.stringContaining('RPO')]);
  expect(questions[4]).toMatch(/system's root certificates\)$/);
  expect(err).toContain('Warning: 2 holders for a threshold of 3: there can never be enough shares');
  expect(err).toContain('Warning: only 2 to operate and approve: some gates cannot be opened');
  expect(initialised.err).not.toContain('Warning');
  await expect(stat(join(folder, 'asked', 'workers.key'))).rejects.toThrow('ENOENT');
  const missing = await cli(['init', '--yes', '--directory', join(folder, 'asked')]);
  expect(missing).toMatchObject(refusal('--deployment is missing'));
  const unreachable = [...words, '--yes', '--deployment', 'a', '--people', 'ada', '--cluster', 'x=http://127.0.0.1:1'];
  expect(await cli(unreachable)).toMatchObject({ ...refusal('Check that this machine can reach'), code: 1 });
  const alone = service.cluster('east').addresses.map((address, index) => {
    const of = ['--directory', join(folder, `alone-${index}`), '--cluster', `east=${address}`];
    return cli(['init', '--yes', '--deployment', 'a', '--people', 'ada', ...of]);
  });
  const told = (await Promise.all(alone)).filter(({ err }) =>
    err.includes('Name every node of east, and no load balancer'),
  );
  // All but the leader.
  expect(told).toHaveLength(2);
});

it('init shows the certificates that it trusts and those that it leaves out, and names the purpose of a certificate', async () => {
  const caFile = join(folder, 'ca.pem');
  await writeFile(
    caFile,
    `${LOOPBACK_CERTIFICATE}-----BEGIN CERTIFICATE-----\nMIIBbroken\n-----END CERTIFICATE-----\n`,
  );
  const { err } = await cli(site('with-ca', '--yes', '--ca-file', caFile));
  expect(err).toContain('CA: CN=simulated service for tests, SHA-256 ');
  expect(err).toContain(`Warning: ${caFile}: certificate 2 of 2 is damaged. It is left out.`);
  const secured = await startSimulatedService({ ...pair(1), tls: LOOPBACK_TLS });
  const cluster = `east=${secured.cluster('east').addresses.join(',')}`;
  const words = ['init', '--yes', '--directory', join(folder, 'no-ca'), '--deployment', 'a', '--people', 'ada'];
  const refused = await cli([...words, '--cluster', cluster]);
  await secured.stop();
  expect(refused).toMatchObject({
    code: 1,
    err: expect.stringContaining('127.0.0.1 shows a certificate for 127.0.0.1, localhost') as string,
  });
  expect(refused.err).toMatch(/Get the certificate of "simulated service for tests".*--ca-file/);
});

it('init replaces no policy and no AppRole without showing it, and continues after an interruption', async () => {
  const other = await startSimulatedService({
    clusters: ['north', 'east', 'west', 'far'].map((name) => ({ name, nodes: 1 })),
    dr: [{ primary: 'east', secondaries: ['far'] }],
  });
  try {
    const init = async (names: readonly string[], directory: string, addressesOf = (name: string) => [name]) => {
      const adminToken = join(folder, 'admin-token');
      const { rootToken } = other.cluster(names.at(-1) ?? '');
      await writeFile(adminToken, rootToken, { mode: 0o600 });
      const clusters = names.flatMap((name) => {
        const addresses = addressesOf(name).flatMap((each) => other.cluster(each).addresses);
        return ['--cluster', `${name}=${addresses.join(',')}`];
      });
      const words = ['init', '--yes', '--directory', join(folder, directory), '--deployment', 'payments', ...clusters];
      const ended = await cli([...words, '--people', 'ada,ben,cyd', '--admin-token-file', adminToken]);
      expect(ended.err).not.toContain(rootToken);
      return ended;
    };
    const changes = () => other.calls.filter(({ method, status }) => method !== 'GET' && status < 300).length;
    expect(await init(['far'], 'following')).toMatchObject(refusal('None of these clusters is a primary'));
    const mixed = await init(['east'], 'mixed', () => ['east', 'west']);
    expect(mixed).toMatchObject(refusal('The addresses of east belong to several clusters'));
    other.cluster('west').writePolicy('runbooks', [{ path: 'kv/data/of-others', capabilities: ['read'] }]);
    expect(await init(['west'], 'refused')).toMatchObject(refusal('already has a policy "runbooks"'));
    expect(changes()).toBe(0);
    // On the primary, although a cluster that is to join it is named first. Each time it comes one call further.
    const role = '/v1/auth/approle/role/runbooks';
    const calls = ['POST /v1/sys/auth/approle', `POST ${role}`, `POST ${role}/secret-id`, `GET ${role}/role-id`];
    for (const endpoint of calls) {
      other.faults.add({ cluster: 'east', endpoint, action: { status: 403 } });
      expect((await init(['north', 'east'], 'made')).code).not.toBe(0);
    }
    expect(await init(['north', 'east'], 'made')).toMatchObject({ code: 0 });
    const made = changes();
    expect(await init(['north', 'east'], 'another')).toMatchObject(refusal('already has an AppRole "runbooks"'));
    expect(changes()).toBe(made);
    // Nor where an earlier `init` without that token left this policy in its file.
    const { storage } = other.cluster('east');
    storage.write('policy/runbooks', null, other.now());
    for (const name of ['inventory.yaml', 'worker.env', 'env.sh']) await rm(join(folder, 'made', name));
    expect(await init(['north', 'east'], 'made')).toMatchObject(refusal('already has an AppRole "runbooks"'));
    expect(changes()).toBe(made);
  } finally {
    await other.stop();
  }
});

it('init --mount makes a mount for the workers alone, and does not use an existing one', async () => {
  const other = await startSimulatedService({ clusters: ['east', 'west'].map((name) => ({ name, nodes: 1 })) });
  try {
    const init = async (name: string, mount: string) => {
      const adminToken = join(folder, 'admin-token');
      await writeFile(adminToken, other.cluster(name).rootToken, { mode: 0o600 });
      const cluster = `${name}=${other.cluster(name).addresses.join(',')}`;
      const words = ['init', '--yes', '--directory', join(folder, `own-${name}-${mount}`), '--deployment', 'payments'];
      return cli([
        ...words,
        '--cluster',
        cluster,
        '--people',
        'ada',
        '--admin-token-file',
        adminToken,
        '--mount',
        mount,
      ]);
    };
    const mountsOf = (name: string) => other.cluster(name).storage.keys('auth/');
    expect(await init('east', 'the workers')).toMatchObject(refusal('Some names cannot be used'));
    expect(await init('east', 'workers')).toMatchObject({ code: 0 });
    const written = await loadInventory(join(folder, 'own-east-workers', 'inventory.yaml'));
    const login = written.deployments.get('payments')?.clusters.get('east')?.credential;
    expect(login).toMatchObject({ method: 'approle', mount: 'workers', ownMount: true });
    expect(mountsOf('east').slice(0, 2)).toEqual(['auth/workers', 'auth/workers/role/runbooks']);

    other.cluster('west').storage.write('auth/teams', { type: 'auth-mount', method: 'jwt', keys: [] }, other.now());
    expect(await init('west', 'teams')).toMatchObject(
      refusal("auth/teams exists: it is not a mount of the workers' own"),
    );
    expect(mountsOf('west')).toEqual(['auth/teams']);
  } finally {
    await other.stop();
  }
});

it('init names the schema of the file for editors, and the file fits it', async () => {
  const text = await readFile(inventory, 'utf8');
  const [, named = ''] = /^# yaml-language-server: \$schema=(file:\S+)\n/.exec(text) ?? [];
  const ajv = new Ajv({ strict: false });
  addFormats(ajv);
  const validate = ajv.compile(JSON.parse(await readFile(fileURLToPath(named), 'utf8')) as object);
  expect([validate(parse(text)), validate.errors]).toEqual([true, null]);
});

it('join pins, makes the key and gives one line; add-person lists it; comments stay; no secret is shown', async () => {
  const joined = await Promise.all(lines.map((line, index) => joins(line, PEOPLE[index] ?? '')));
  expect(joined.map(({ code }) => code)).toEqual(PEOPLE.map(() => 0));
  expect(joined.map(({ out }) => out + '').join('')).not.toContain('canary');
  const pins = await readPins(join(machineOf('ada').XDG_CONFIG_HOME, 'replication-runbooks', 'pins.json'));
  expect(pins.map(({ environment, kid }) => [environment, kid])).toEqual([['production', lines[0]?.split(/[/:]/)[2]]]);
  const keyFile = join(machineOf('ada').XDG_CONFIG_HOME, 'replication-runbooks', 'ada.key');
  const key = await readHolderKey(await readFile(keyFile, 'utf8'), new Secret('passphrase', PASSPHRASE));
  expect(joined.map(sentBack)[0]).toBe(`ada/${formatPublicKey(key)}`);

  const add = ['inventory', 'add-person', ...joined.map(sentBack), '--inventory', inventory];
  const before = await readFile(inventory, 'utf8');
  expect(await cli(add, { answers: ['no'] })).toMatchObject({ code: 3 });
  expect(await readFile(inventory, 'utf8')).toBe(before);
  const added = await cli(add, { answers: ['yes'] });
  expect(added.err).toContain(`ada: ${spokenFingerprint(key.kid)}`);
  expect(added.out).toContain('The inventory has no mistakes.');
  const after = await readFile(inventory, 'utf8');
  expect(after.match(/#.*/g)).toEqual(before.match(/#.*/g));
  const { people } = await loadInventory(inventory);
  expect([...people.values()].map(({ name, publicKeys }) => [name, publicKeys.length])).toEqual(
    PEOPLE.map((name) => [name, 1]),
  );
  expect((await cli(['inventory', 'check', inventory])).out).not.toContain('they cannot');
});

it('join makes a passphrase and shows it once, compares first, and makes no key that is not kept', async () => {
  const env = machineOf('gil');
  const line = (lines[0] ?? '').replace('/ada/', '/gil/');
  const keyFile = join(env.XDG_CONFIG_HOME, 'replication-runbooks', 'gil.key');
  const short = join(env.XDG_CONFIG_HOME, 'short');
  await mkdir(env.XDG_CONFIG_HOME, { recursive: true });
  await writeFile(short, 'short');
  const tries: readonly (readonly [words: readonly string[], answers: readonly string[]])[] = [
    [[], ['no']],
    [[], ['yes', 'wrong']],
    [['--passphrase-file', short], ['yes']],
  ];
  expect((await cli(['join', `${line}x`], { env })).code).toBe(3);
  for (const [words, answers] of tries)
    expect(await cli(['join', line, ...words], { env, answers })).toMatchObject({ code: 3 });
  await expect(stat(keyFile)).rejects.toThrow('ENOENT');
  const made = await cli(['join', line], {
    env,
    answers: [(shown) => (/manager\): (\S+)/.exec(shown)?.[1] ?? '').slice(-5)],
  });
  expect([made.code, made.questions.length]).toEqual([0, 1]);
  const passphrase = /manager\): ([a-z0-9-]{29})$/m.exec(made.err)?.[1] ?? '';
  await readHolderKey(await readFile(keyFile, 'utf8'), new Secret('passphrase', passphrase));
  expect((await stat(keyFile)).mode & 0o777).toBe(0o600);
  expect(made.out).not.toContain(passphrase);
});

it('a person who joins again keeps their key', async () => {
  const again = await cli(['join', lines[0] ?? ''], { env: machineOf('ada'), answers: [PASSPHRASE] });
  expect(again.code).toBe(0);
  expect((await loadInventory(inventory)).people.get('ada')?.publicKeys[0]?.kid).toBe(sentBack(again).split(/[/:]/)[1]);
});

const { key } = newSigningKey();
const line = (name: string) => `${name}/${formatPublicKey(key)}`;
const add = (...words: readonly string[]) =>
  cli(['inventory', 'add-person', ...words, '--yes'], { env: { RUNBOOKS_INVENTORY: inventory } });

it('a key that arrives replaces no other one, belongs to no other person, and adds no one to a group, unless that is specified', async () => {
  const before = await readFile(inventory, 'utf8');
  expect(await add(line('ada'))).toMatchObject(refusal('ada has another key'));
  expect(await add(line('fay'))).toMatchObject(refusal('--groups'));
  expect(await add(line('fay').slice(0, -1))).toMatchObject({ code: 3 });
  expect(await readFile(inventory, 'utf8')).toBe(before);
  expect(await add(line('fay'), '--groups', 'approvers, ')).toMatchObject({ code: 0 });
  expect((await loadInventory(inventory)).people.get('fay')?.groups).toEqual(['approvers']);
  expect(await add(line('ben'), '--replace')).toMatchObject(refusal('fay already has this'));
});

it('add-person keeps what a colleague changed in the file while fingerprints were compared', async () => {
  const file = join(folder, 'changed-meanwhile.yaml');
  await writeFile(file, await readFile(inventory, 'utf8'));
  const key = `hal/${formatPublicKey(newSigningKey().key)}`;
  const answer = () => {
    appendFileSync(file, '# by a colleague\n');
    return 'yes';
  };
  const words = ['inventory', 'add-person', key, '--groups', 'operators', '--inventory', file];
  expect((await cli(words, { answers: [answer] })).code).toBe(0);
  expect(await readFile(file, 'utf8')).toMatch(/hal:[^]*# by a colleague/);
});

it('claimed people see at the check what they cannot do, gate by gate, and a key solves it', async () => {
  const file = join(folder, 'claimed.yaml');
  const text = await readFile(inventory, 'utf8');
  await writeFile(file, text.replace(/^ {2}cyd: .*$/m, '  cyd: { groups: [approvers], attestation: claimed }'));
  const check = await cli(['inventory', 'check', file]);
  expect(check.code).toBe(0);
  expect(check.out).toContain(
    'cyd is only claimed, which counts only in a laboratory: in payments they cannot approve (any gate),',
  );
  expect(check.out).toContain('decide on a parked step, pause, abort or order a take-over');
  const key = `cyd/${formatPublicKey(newSigningKey().key)}`;
  expect((await cli(['inventory', 'add-person', key, '--yes', '--inventory', file])).code).toBe(0);
  expect((await cli(['inventory', 'check', file])).out).not.toContain('they cannot');
});

const check = (file = inventory) => cli(['inventory', 'check', file, '--live', '--json']);
interface Live {
  readonly live: readonly { readonly points: readonly { id: string; cluster?: string; verdict: string }[] }[];
}
const bad = ({ out }: CliResult): string[] =>
  (JSON.parse(out) as Live).live.flatMap(({ points }) =>
    points
      .filter(({ verdict }) => verdict === 'fail')
      .map(({ id, cluster }) => (cluster === undefined ? id : `${id} ${cluster}`)),
  );

it('inventory check --live compares the file with the clusters, from here: a credential, its rights, the marker, another cluster ID', async () => {
  const without = await check();
  expect(without.code).toBe(3);
  expect(bad(without)).toEqual(expect.arrayContaining(['credential-works east', 'credential-works west']));
  const { clusterId } = service.cluster('east');
  const token = workersToken(service.cluster('east'), await loadInventory(inventory), 'payments');
  await writeFile(join(folder, 'site', 'workers.token'), token, { mode: 0o600 });
  service.advanceClock(1_000);
  const complete = await check();
  expect([bad(complete), complete.code]).toEqual([[], 0]);
  expect(complete.out).toContain('"id":"marker-written-and-read-back"');
  expect(complete.out).not.toContain(token);
  const file = join(folder, 'other-id.yaml');
  await writeFile(file, (await readFile(inventory, 'utf8')).replace(clusterId, 'another'));
  expect(bad(await check(file))).toEqual(['cluster-id east']);
  const byQuota = join(folder, 'by-quota.yaml');
  const quota = parseDocument(await readFile(inventory, 'utf8'));
  quota.setIn(['deployments', 'payments', 'quiesce'], 'quota');
  await writeFile(byQuota, quota.toString());
  const entitled = workersToken(service.cluster('east'), await loadInventory(byQuota), 'payments');
  await writeFile(join(folder, 'site', 'workers.token'), entitled, { mode: 0o600 });
  service.advanceClock(1_000);
  const withQuota = await check(byQuota);
  expect(bad(withQuota)).toEqual([]);
  expect(withQuota.out).toContain('"id":"clients-can-be-stopped-by-a-quota"');
});

interface Findings {
  readonly findings: readonly { id: string; verdict: string; observed: string; next?: string }[];
}
const doctor = (env: NodeJS.ProcessEnv) =>
  cli(['doctor', '--json'], { env: { TEMPORAL_ADDRESS: '127.0.0.1:1', ...env } });
const found = ({ out, code }: CliResult) => {
  const { findings } = JSON.parse(out) as Findings;
  expect(code).toBe(findings.some(({ verdict }) => verdict === 'fail') ? 3 : 7);
  expect(findings.filter(({ verdict, next }) => verdict !== 'ok' && next === undefined)).toEqual([]);
  return new Map(findings.map((each) => [each.id, each]));
};

it('doctor reports each missing thing by itself, with its remedy, while everything else is down', async () => {
  const loose = join(folder, 'loose-seal-keys');
  await writeFile(loose, await readFile(join(folder, 'site', 'seal-keys')), { mode: 0o644 });
  const without = join(folder, 'without-ada.yaml');
  await writeFile(without, (await readFile(inventory, 'utf8')).replace(/^ {2}ada: .*$/m, '  ada: {}'));
  const host = {
    RUNBOOKS_INVENTORY: inventory,
    RUNBOOKS_SEAL_KEYS_FILE: join(folder, 'site', 'seal-keys'),
    XDG_CONFIG_HOME: join(folder, 'of-nobody'),
  };
  const ada = { RUNBOOKS_INVENTORY: inventory, ...machineOf('ada'), RUNBOOKS_PERSON: 'ada' };
  const nowhere = { ...host, RUNBOOKS_INVENTORY: '/nonexistent', RUNBOOKS_SEAL_KEYS_FILE: '/nonexistent' };
  const writable = join(folder, 'writable.yaml');
  await writeFile(writable, await readFile(inventory));
  await chmod(writable, 0o666);
  const shared = join(folder, 'shared-keys');
  await mkdir(shared, { mode: 0o755 });
  const [nothing, seen, open, person, stranger, unlisted, untrusting, changeable, sharing] = await Promise.all(
    [
      nowhere,
      { ...host, RUNBOOKS_KEY_DIR: '/proc/none/keys' },
      { ...host, RUNBOOKS_SEAL_KEYS_FILE: loose },
      ada,
      { ...ada, RUNBOOKS_PERSON: 'gil' },
      { ...ada, RUNBOOKS_INVENTORY: without },
      { ...ada, RUNBOOKS_PINS: join(folder, 'no-pins.json') },
      { ...ada, RUNBOOKS_INVENTORY: writable },
      { ...host, RUNBOOKS_KEY_DIR: shared },
    ].map(async (env) => found(await doctor(env))),
  );
  const failed = [...(nothing?.values() ?? [])].filter(({ verdict }) => verdict === 'fail');
  expect(failed.map(({ id }) => id)).toEqual(['inventory', 'temporal', 'worker host']);
  // Keys of workers, their storage and rights, and the clusters, without Temporal.
  for (const id of ['payments', "workers' key"]) expect(seen?.get(id)).toMatchObject({ verdict: 'ok' });
  const storage = { verdict: 'fail', next: expect.stringContaining('/dev/shm') as string };
  expect(seen?.get('key storage')).toMatchObject(storage);
  expect(sharing?.get('key storage')).toMatchObject({
    ...{
      verdict: 'fail',
      observed: expect.stringMatching(/KEY_STORAGE_REFUSED.*shared-keys: owner \d+, mode 755/) as string,
    },
  });
  expect(open?.get('key files')).toMatchObject({ verdict: 'fail', next: `\`chmod 600 ${loose}\`` });
  expect(changeable?.get('file')).toMatchObject({
    ...{ verdict: 'fail', observed: expect.stringMatching(/writable\.yaml: owner \d+, mode 666/) as string },
  });
  // Whether the inventory lists a person's key, and whether they trust that of the workers.
  for (const id of ['you', 'pins']) expect(person?.get(id)).toMatchObject({ verdict: 'ok' });
  expect(stranger?.get('you')).toMatchObject({ verdict: 'fail', next: expect.stringContaining('join') as string });
  const adding = expect.stringMatching(/^`runbook inventory add-person ada\//) as string;
  expect(unlisted?.get('you')).toMatchObject({ verdict: 'fail', next: adding });
  expect(untrusting?.get('pins')).toMatchObject({ next: expect.stringContaining('runbook keys trust') as string });
});
