/** docs/first-hour.md, command by command, as a new user gives them: programs, a simulated service over TLS, a real Temporal server. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startSimulatedService } from '../../src/simulator';
import type { SimulatedService } from '../../src/simulator';
import { temporaryDirectory } from '../support/directory';
import { pair } from '../support/site';
import { LOOPBACK_TLS } from '../vault/support/loopback-certificate';
import { findCanaries } from '../support/secret-search';
import { page, ROOT, shellLines } from '../support/documents';
import { temporalServer, uniqueTaskQueue } from '../support/temporal-server';

jest.setTimeout(180_000);

const PEOPLE = ['ada', 'ben', 'cyd', 'dan', 'eve'];
const PASSPHRASE = 'canary-passphrase-of-everybody';
const COMMANDS = shellLines(page('docs/first-hour.md'));

const folder = temporaryDirectory('first-hour-page');
let service: SimulatedService;
beforeAll(async () => {
  service = await startSimulatedService({
    ...pair(3),
    tls: LOOPBACK_TLS,
  });
  await writeFile(join(folder, 'passphrase'), PASSPHRASE, { mode: 0o600 });
  await writeFile(join(folder, 'admin-token'), `${service.cluster('east').rootToken}\n`, { mode: 0o600 });
});
afterAll(() => service.stop());

/** What a shell wrote, and how it ended. */
interface ShellResult {
  readonly code: number | null;
  readonly output: string;
}

/** Lines in one shell, in the clone. `as`: whose machine it is. */
async function shell(lines: readonly string[], as = 'operator'): Promise<ShellResult> {
  const { address, namespace } = temporalServer();
  const environment = {
    PATH: process.env['PATH'] ?? '',
    HOME: join(folder, `home-of-${as}`),
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
    RUNBOOKS_TASK_QUEUE: queue,
    RUNBOOKS_KEY_DIR: join(folder, 'ceremony-keys'),
    RUNBOOKS_KEY_STORAGE: 'disk',
    RUNBOOKS_ALLOW_ROOT: 'yes',
  };
  const child = spawn('bash', ['-c', lines.join('\n')], {
    cwd: ROOT,
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own: whatever the lines left running ends with them.
    detached: true,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const closed = once(child, 'close');
  const [code] = (await once(child, 'exit')) as [number | null];
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  } catch {
    // Nothing was left.
  }
  await closed;
  return { code, output };
}
const queue = uniqueTaskQueue('first-hour');

/** A command of the page with this site's addresses, files and people; what a terminal would ask was compared. */
function here(command: string): string {
  const addresses = (cluster: string) => `${cluster}=${service.cluster(cluster).addresses.join(',')}`;
  const answered = /main\.js init|add-person/.test(command) ? `${command} --yes` : command;
  return answered
    .replace(/.*\brunbook join .*/, (line) => `${line} --yes --passphrase-file ${join(folder, 'passphrase')}`)
    .replace(/\b(east|west)=\S+/g, (_whole, cluster: string) => addresses(cluster))
    .replaceAll('/etc/replication-runbooks', join(folder, 'site'))
    .replace('--ca-file ca.pem', `--ca-file ${LOOPBACK_TLS.certificateFile}`)
    .replace('--admin-token-file admin-token', `--admin-token-file ${join(folder, 'admin-token')}`);
}

it('docs/first-hour.md: at most eight commands from a clone to a green plan, one of them once per person', async () => {
  expect(COMMANDS.length).toBeLessThanOrEqual(8);
  expect(COMMANDS.filter((each) => /&&|;|\|/.test(each))).toEqual([]);
  const [install, build, init = '', source = '', joining = '', adding = '', worker = '', plan = '', ...none] = COMMANDS;
  // These two made the program that runs here.
  expect([install, build, none]).toEqual(['npm ci --ignore-scripts', 'npm run build', []]);
  const shown: string[] = [];
  const run = async (lines: readonly string[], as?: string): Promise<string> => {
    const { code, output } = await shell(lines, as);
    shown.push(output);
    expect([lines.at(-1), code, code === 0 ? '' : output]).toEqual([lines.at(-1), 0, '']);
    return output;
  };
  const initialised = await run([here(init)]);
  expect(initialised).toContain('Created on east: policy "runbooks", AppRole "runbooks" at auth/approle.');
  // Each line says which Temporal server people use, as the page does.
  const { address, namespace } = temporalServer();
  const own = [...initialised.matchAll(/^ +(runbook join \S+ --address (\S+) --namespace (\S+))$/gm)];
  expect(own.map(([, , at, of]) => [at, of])).toEqual(PEOPLE.map(() => [address, namespace]));
  const form = (line = '') => line.replaceAll(/\S+[/:]\S+|\S+$/g, '');
  expect(form(joining)).toBe(form(own[0]?.[1]));
  const joinLines = own.map(([, line = '']) => line);
  expect(joinLines).toHaveLength(PEOPLE.length);
  const sent = await Promise.all(
    joinLines.map(async (line, index) => {
      const joined = await run([here(source), here(line)], PEOPLE[index]);
      return /^ {2}([a-z]+\/\S+)$/m.exec(joined)?.[1] ?? '';
    }),
  );
  const listed = `${adding.split(' ').slice(0, 3).join(' ')} ${sent.join(' ')}`;
  expect(await run([here(source), here(listed)])).toContain('The inventory has no mistakes.');
  // As on the page: the worker in the background of the operator's shell, whose end ends it.
  const planned = await run([
    here(source),
    "trap 'kill %1; wait %1' EXIT",
    here(worker),
    here(plan),
    'planned=$?',
    'runbook doctor --json; echo "doctor ended with $?"',
    'exit $planned',
  ]);
  expect(planned).toContain('No precondition failed. Nothing was changed.');
  // The server of the tests keeps histories for a day, and the keys of ceremonies are on a disk here: warnings.
  expect(planned).toContain('doctor ended with 7');
  const failed = planned
    .split('\n')
    .filter((line) => line.startsWith('{"findings"') && line.includes('"verdict":"fail"'));
  expect(failed).toEqual([]);
  expect(planned).toMatch(/"id":"workers","verdict":"ok","observed":"[^"]+, version \d+\.\d+\.\d+"/);

  const read = (name: string) => readFile(join(folder, 'site', name), 'utf8');
  const { d } = JSON.parse(await read('workers.key')) as { d: string };
  const secrets = new Map([
    ['passphrase', PASSPHRASE],
    ['administrator', service.cluster('east').rootToken],
    ['secret ID', (await read('secret-id')).trim()],
    ['signing key', d],
    ['seal key', (await read('seal-keys')).trim().split(':')[1] ?? ''],
  ]);
  const names = ['inventory.yaml', 'worker.env', 'env.sh'];
  const written = await Promise.all([...names, 'policy.hcl', 'replication-runbooks-worker.service'].map(read));
  expect(findCanaries([...shown, ...written].join('\n'), secrets)).toEqual([]);
});
