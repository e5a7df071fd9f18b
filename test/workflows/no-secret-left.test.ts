/**
 * One switchover with a ceremony by the programs themselves, each a process of its own: worker, command line, holders at
 * a file, at a pipe and at a terminal. Afterwards everything that left a process, or stayed on a disk, is searched for
 * every secret that there was.
 */
import { readFileSync, readdirSync, readlinkSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { request } from 'undici';
import { recordWorkflowId } from '../../src/contracts/record';
import { addPin, formatPublicKey } from '../../src/keys';
import { ceremonyKeyFiles } from '../support/directory';
import { CHANGING, statuses } from '../support/faults';
import { Program } from '../support/program';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';
import { SecretSearch } from '../support/secret-search';
import { temporalServer } from '../support/temporal-server';

jest.setTimeout(240_000);

/** Arguments and environments of every process that descends from this one, as every user of the machine, or root, sees them. */
class ProcessTable {
  readonly seen = new Map<string, { readonly cmdline: string; readonly environ: string }>();
  readonly #timer = setInterval(() => this.look(), 150);

  look(): void {
    const pids = readdirSync('/proc').filter((each) => /^\d+$/.test(each));
    const parentOf = (pid: string) => /^\d+ \(.*\) \S (\d+)/s.exec(readProc(`/proc/${pid}/stat`))?.[1] ?? '0';
    const parents = new Map(pids.map((pid) => [pid, parentOf(pid)]));
    for (const pid of pids) {
      let ancestor = parents.get(pid);
      while (ancestor !== undefined && ancestor !== `${process.pid}`) ancestor = parents.get(ancestor);
      const [cmdline = '', environ = ''] = ['cmdline', 'environ'].map((file) => readProc(`/proc/${pid}/${file}`));
      if (ancestor !== undefined && cmdline !== '') this.seen.set(`${pid} ${cmdline}`, { cmdline, environ });
    }
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

function readProc(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

/** Ports on which a process listens. */
function listening(pid: number): string[] {
  const socketOf = (fd: string) => {
    try {
      return /socket:\[(\d+)\]/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1];
    } catch {
      return undefined;
    }
  };
  const inodes = new Set(readdirSync(`/proc/${pid}/fd`).map(socketOf));
  return ['tcp', 'tcp6'].flatMap((table) =>
    readProc(`/proc/${pid}/net/${table}`)
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode]) => state === '0A' && inodes.has(inode))
      .map(([, local]) => local ?? ''),
  );
}

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile());
}

describe('a switchover with a ceremony, by processes', () => {
  let scenario: Scenario;
  let worker: Program;
  let run: TestRun;
  let processes: ProcessTable;
  const programs: Program[] = [];
  const secrets = new Map<string, string>();
  /** What we put there ourselves, so that the programs have something to read. */
  const planted = new Set<string>();

  const pins = () => join(scenario.directory, 'pins');
  const start = (name: string, words: readonly string[], how?: 'pipe' | 'terminal') => {
    const environment = { ...scenario.environment, RUNBOOKS_PINS: pins() };
    const program = new Program(join(scenario.directory, 'homes', name), environment, words, how);
    programs.push(program);
    return program;
  };

  beforeAll(async () => {
    const claimed = { attestation: 'claimed', publicKeys: undefined };
    const person = (name: string) => (['ada', 'bert', 'cleo'].includes(name) ? claimed : undefined);
    scenario = await Scenario.start({ worker: 'none', person });
    processes = new ProcessTable();
    for (const path of filesBelow(scenario.directory)) planted.add(path);
    const jwk = readFileSync(join(scenario.directory, 'workers.jwk'), 'utf8');
    secrets.set("the workers' signing key", (JSON.parse(jwk) as { d: string }).d);
    secrets.set('a seal key', readFileSync(join(scenario.directory, 'seal-keys'), 'utf8').trim().split(':')[1] ?? '');
    worker = start('worker', ['worker']);
    await worker.says('Worker ready');
  });
  afterAll(async () => {
    processes.stop();
    for (const { child } of programs) child.kill('SIGKILL');
    await scenario.stop();
  });

  it('ends well: shares come from a file, a pipe and a terminal', async () => {
    await addPin(pins(), 'test', formatPublicKey(scenario.workersKey));
    const words = `start drSwitchover --to west --reason test --requested-by olga --deployment ${scenario.name}`;
    expect(await start('operator', words.split(' ')).ended).toBe(0);
    run = scenario.attach();
    await run.waitsFor('shares');
    noteCeremonyKeys();

    // The worker lives on, and no debugger can be attached to it by anybody who may send it a signal.
    worker.child.kill('SIGUSR1');

    const share = (name: string) => scenario.person(name).share ?? '';
    const asked = (name: string) => ['share', scenario.workflowId, '--holder', name, '--confirm', 'west'] as const;
    const file = join(scenario.directory, 'share-of-ada');
    writeFileSync(file, share('ada'), { mode: 0o600 });
    planted.add(file);
    const ada = start('ada', [...asked('ada'), '--share-file', file]);
    const bert = start('bert', [...asked('bert'), '--share-file', '-']);
    bert.child.stdin?.end(`${share('bert')}\n`);
    const cleo = start('cleo', asked('cleo'), 'terminal');
    await cleo.says('Your key share');
    cleo.child.stdin?.write(`${share('cleo')}\r`);
    const watched = start('watcher', ['status', scenario.workflowId]);
    for (const each of [ada, bert, cleo, watched]) expect([await each.ended, each.output]).toEqual([0, each.output]);
    await run.approve('plan');
    noteCeremonyKeys();
    await run.approve('go', 'henry');
    expect(await run.report()).toMatchObject({ outcome: 'completed', loss: { loss: 'none' }, leftToDo: [] });
    expect(statuses(scenario, 'west', CHANGING.promote)).toEqual([200]);
    expect(await start('reporter', ['report', scenario.workflowId, '--json']).ended).toBe(0);

    expect(worker.child.exitCode).toBeNull();
    expect(worker.output).not.toContain('Debugger');
  });

  it('the worker listens on no port: it has no HTTP answers, metrics or debugger', () => {
    expect(listening(worker.child.pid ?? 0)).toEqual([]);
    // The look itself works: this process listens for the simulated service.
    expect(listening(process.pid).length).toBeGreaterThan(0);
  });

  it('the keys of the ceremony are gone from the disk', () => {
    expect(ceremonyKeyFiles(join(scenario.directory, 'keys'))).toEqual([]);
  });

  it('no secret is found: histories, outputs, arguments, environments, reports, record, files, core dump', async () => {
    // A worker that crashes leaves what the kernel writes of it.
    worker.child.kill('SIGABRT');
    await worker.ended;
    processes.stop();
    const { clusters } = scenario.service;
    for (const { name, rootToken, keyShares, issuedSecrets } of clusters.values()) {
      secrets.set(`root token of ${name}`, rootToken);
      keyShares.forEach((share, index) => secrets.set(`key share ${index + 1} of ${name}`, share));
      issuedSecrets.forEach((token, index) => secrets.set(`token ${index + 1} of ${name}`, token));
    }
    const search = new SecretSearch(secrets);

    const history = await run.handle.fetchHistory();
    search.value('history', history.events);
    const record = await scenario.client.workflow.getHandle(recordWorkflowId(scenario.name)).fetchHistory();
    search.value('history of the record', record.events);
    expect(record.events?.some((event) => event.workflowExecutionUpdateAcceptedEventAttributes)).toBe(true);
    const { httpAddress, namespace } = temporalServer();
    const url = `${httpAddress}/api/v1/namespaces/${namespace}/workflows/${encodeURIComponent(scenario.workflowId)}`;
    for (const path of ['', '/history']) {
      const { statusCode, body } = await request(`${url}${path}`);
      expect(statusCode).toBe(200);
      search.value(`the server's HTTP answer ${path}`, await body.text());
    }
    search.value('result', await run.handle.result());
    search.value('status, printed', inspect(await run.handle.describe(), { depth: null, showHidden: true }));
    for (const { child, output } of programs) search.value(`output of ${child.spawnargs.join(' ')}`, output);
    for (const [pid, { cmdline, environ }] of processes.seen) {
      search.value(`arguments of ${pid}`, cmdline.split('\0'));
      search.value(`environment of ${pid}`, environ.split('\0'));
    }
    const files = filesBelow(scenario.directory).filter((path) => !planted.has(path));
    for (const path of files) search.value(path, readFileSync(path));

    expect(search.found).toEqual([]);
    // What was searched was there.
    expect(secrets.size).toBeGreaterThan(15);
    expect(history.events?.length).toBeGreaterThan(100);
    const commands = [...processes.seen.values()].map(({ cmdline }) => cmdline.replaceAll('\0', ' '));
    for (const word of ['worker', 'share', 'start', 'report'])
      expect([word, commands.some((line) => line.includes(`main.js ${word}`))]).toEqual([word, true]);
    // Whether this host writes core files beside the program decides whether there is one to search.
    const core = readProc('/proc/sys/kernel/core_pattern').trim() === 'core' ? ['/cwd/core'] : [];
    for (const part of ['reports', 'typescript', ...core])
      expect([part, files.some((path) => path.includes(part))]).toEqual([part, true]);
  });

  it('the search would have found them: it finds planted ones', () => {
    for (const path of planted) {
      const search = new SecretSearch(secrets);
      search.value(path, readFileSync(path));
      const holds = !path.endsWith('inventory.yaml');
      expect([path, search.found.length > 0]).toEqual([path, holds]);
    }
  });

  /** The keys to which the shares are encrypted, from the key directory while they are there. */
  function noteCeremonyKeys(): void {
    const records = ceremonyKeyFiles(join(scenario.directory, 'keys')).filter((path) => path.endsWith('.key'));
    expect(records.length).toBeGreaterThan(0);
    for (const path of records) {
      const { keys } = JSON.parse(readFileSync(path, 'utf8')) as Record<'keys', Record<string, string>>;
      const { identity = '', pgpPrivateKey = '' } = keys;
      expect(identity).toMatch(/^AGE-SECRET-KEY-/);
      secrets.set(`age identity of ${path}`, identity);
      // The armour's first lines are the same for every key.
      const body = pgpPrivateKey.split('\n').filter((line) => line.length > 40);
      expect(body.length).toBeGreaterThan(2);
      secrets.set(`OpenPGP key of ${path}`, body[1] ?? '');
    }
  }
});
