import { execFile } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import Ajv from 'ajv';
import addFormats from 'ajv-formats';
import { parse } from 'yaml';
import { DYNAMIC_CONFIG } from '../../src/dev-server/start-dev-server';
import { programFile, projectRoot } from '../../src/dev-server/locations';
import { parseInventory } from '../../src/inventory';
import { parseTopology } from '../../src/simulator';
import { ActivityBench } from '../support/activity-environment';
import { callNode } from '../support/by-hand';
import { temporaryDirectory } from '../support/scenario';

interface Service {
  readonly image: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly tmpfs?: readonly string[];
  readonly deploy?: { readonly replicas?: number };
  readonly mem_limit?: string;
  readonly memswap_limit?: string;
}

const read = (...path: string[]): string => readFileSync(join(projectRoot(), ...path), 'utf8');
const document: unknown = parse(read('docker-compose.yml'));
// The first test checks the document against the schema; these are the parts that the others look at.
const { services } = document as { readonly services: Readonly<Record<string, Service>> };
const service = (name: string): Service => {
  const found = services[name];
  if (found === undefined) throw new Error(`no service ${name}`);
  return found;
};

describe('docker-compose.yml', () => {
  it('is valid by the schema of the Compose Specification', () => {
    const ajv = addFormats(new Ajv({ strict: false, allErrors: true }));
    const schema = JSON.parse(read('test', 'support', 'compose', 'compose-spec.json')) as { $schema?: string };
    delete schema.$schema;
    const validate = ajv.compile(schema);
    validate(document);
    expect(validate.errors).toBeNull();
    expect(validate({ services: { temporal: { imagine: 'temporalio/server' } } })).toBe(false);
  });

  it('pins every image to a version, publishes ports on loopback only, and mounts only files that are there', () => {
    const images = Object.values(services).map(({ image }) => image);
    const bases = [...read('Dockerfile').matchAll(/^FROM (\S+)/gm)].map(([, image]) => image ?? '');
    for (const image of [...images, ...bases]) expect(image).toMatch(/:\d+\.\d+(\.\d+)?(-[a-z-]+)?$/);
    const ports = Object.values(services).flatMap((each) => each.ports ?? []);
    expect(ports).not.toEqual([]);
    for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/);
    const volumes = Object.values(services).flatMap((each) => each.volumes ?? []);
    const sources = volumes.flatMap((volume) => /^\.[^:]*/.exec(volume) ?? []);
    expect(sources).not.toEqual([]);
    expect(sources.filter((source) => !existsSync(join(projectRoot(), source)))).toEqual([]);
  });

  it('mounts the dynamic configuration that the dev server runs with', () => {
    const { environment, volumes } = service('temporal');
    expect(volumes).toContain(`./deploy/dynamic-config.yaml:${environment?.['DYNAMIC_CONFIG_FILE_PATH']}:ro`);
    const expected = Object.entries(DYNAMIC_CONFIG).map(([key, value]) => [key, [{ value }]]);
    expect(parse(read('deploy', 'dynamic-config.yaml'))).toEqual(Object.fromEntries(expected));
  });

  it('hides reset and terminate in the Web UI', () => {
    expect(service('temporal-ui').environment).toMatchObject({
      TEMPORAL_WORKFLOW_RESET_DISABLED: 'true',
      TEMPORAL_WORKFLOW_TERMINATE_DISABLED: 'true',
      TEMPORAL_BATCH_ACTIONS_DISABLED: 'true',
    });
  });

  it('keeps the memory of a worker inside: no core dumps, no capabilities, no way to more rights', () => {
    const { mem_limit: memory, memswap_limit: withSwap } = service('worker');
    expect(withSwap).toBe(memory ?? 'a limit');
    expect(service('worker')).toMatchObject({
      ulimits: { core: 0 },
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
    });
    expect(service('worker').tmpfs).toEqual([expect.stringContaining('mode=0700')]);
    // As anybody but root, and with nothing that opens the process.
    expect(read('Dockerfile')).toMatch(/^USER node$/m);
    expect(`${read('Dockerfile')}${read('docker-compose.yml')}`).not.toMatch(/--inspect|--heapsnapshot|NODE_DEBUG/);
  });

  it('gives two workers settings that they read, ceremony keys of their own in memory, and no secret in the environment', () => {
    const { deploy, environment = {}, tmpfs = [], volumes = [] } = service('worker');
    const known = [...read('docs', 'cli.md').matchAll(/^\| `([A-Z_]+)` \| [^|]*\bworker\b/gm)].map(([, name]) => name);
    expect(known.length).toBeGreaterThan(6);
    const own = Object.keys(environment).filter((name) => name.startsWith('RUNBOOKS_'));
    expect(own.filter((name) => !known.includes(name))).toEqual([]);
    const mounted = volumes.map((each) => each.split(':')[1]);
    expect(mounted).toContain(environment['RUNBOOKS_INVENTORY']);
    expect(deploy?.replicas).toBe(2);
    expect(tmpfs.map((each) => each.split(':')[0])).toEqual([environment['RUNBOOKS_KEY_DIR']]);
    expect(mounted).not.toContain(environment['RUNBOOKS_KEY_DIR']);
    expect(environment['RUNBOOKS_SEAL_KEYS_FILE']).toMatch(/^\/run\//);
  });

  const topology = parseTopology(read('deploy', 'topology.yaml'));
  const inventory = parseInventory(read('deploy', 'inventory.yaml'), 'deploy/inventory.yaml');
  const payments = inventory.deployments.get('payments');

  it('has an inventory whose clusters are those of the simulated service, at its addresses', () => {
    const simulated = topology.clusters.map(({ name, ports = [] }) => [
      name,
      ports.map((port) => `http://127.0.0.1:${port}`),
    ]);
    const known = [...(payments?.clusters.entries() ?? [])];
    expect(known.map(([name, { addresses }]) => [name, addresses])).toEqual(simulated);
  });

  it('has people for every gate: a failover wants two approvers, a ceremony one holder more than the threshold', () => {
    const approvers = [...inventory.people.values()].filter(({ groups }) => groups.includes('approvers'));
    expect(approvers.length).toBeGreaterThanOrEqual(2);
    const thresholds = topology.clusters.map(({ seal }) => seal?.threshold ?? 1);
    expect(payments?.ceremony.holders.length).toBeGreaterThan(Math.max(...thresholds));
  });
});

describe('the laboratory as deploy/prepare-laboratory.sh leaves it', () => {
  const directory = temporaryDirectory('laboratory');
  let bench: ActivityBench;

  /** The script as it is, but for where files are; `runbook` is the program of the build. */
  async function prepare(): Promise<void> {
    const clusters = [...bench.service.clusters.values()].map(({ name, addresses, rootToken }) => ({
      ...{ name, addresses, rootToken },
    }));
    writeFileSync(join(directory, 'state.json'), JSON.stringify({ clusters }));
    chmodSync(programFile(), 0o755);
    symlinkSync(programFile(), join(directory, 'runbook'));
    const script = read('deploy', 'prepare-laboratory.sh').replaceAll(/\/run\/(laboratory|simulator)/g, directory);
    const PATH = `${directory}:${process.env['PATH'] ?? ''}`;
    const RUNBOOKS_INVENTORY = join(projectRoot(), 'deploy', 'inventory.yaml');
    // Beside this process, which serves what it calls.
    await promisify(execFile)('sh', ['-c', script], { env: { PATH, RUNBOOKS_INVENTORY } });
  }

  beforeAll(async () => {
    const { clusters, dr } = parseTopology(read('deploy', 'topology.yaml'));
    const { deployments } = parse(read('deploy', 'inventory.yaml')) as Record<string, Record<string, object>>;
    const { quiesce } = deployments?.['payments'] as { readonly quiesce: string };
    bench = await ActivityBench.start({
      topology: { clusters: clusters.map(({ name, nodes, seal }) => ({ name, nodes, seal })), dr },
      cluster: (name) => ({ credential: { file: join(directory, `${name}.token`) } }),
      deployment: { laboratory: true, quiesce },
    });
    await prepare();
    bench.service.advance();
  });
  afterAll(() => bench.stop());

  it('gives the workers a token with the printed policy that lasts, and no root token', async () => {
    const [east, west] = ['east', 'west'].map((name) => readFileSync(join(directory, `${name}.token`), 'utf8'));
    expect(west).toBe(east);
    const { apiAddress } = bench.cluster('east');
    const { text } = await callNode(apiAddress, 'GET', 'auth/token/lookup-self', { token: east });
    const { data } = JSON.parse(text) as { readonly data: { readonly ttl: number } };
    expect(data).toMatchObject({ policies: ['default', 'runbooks'] });
    expect(data.ttl).toBeGreaterThan(31 * 24 * 3_600);
  });

  it('lets a switchover begin with only its target', async () => {
    const { preconditions } = await bench.call('assessDrSwitchover', { input: bench.input({}) });
    expect(preconditions.filter(({ verdict }) => verdict === 'fail')).toEqual([]);
    expect(preconditions).toContainEqual(
      expect.objectContaining({ name: 'clients can be stopped by a quota', verdict: 'ok' }),
    );
  });
});

describe('deploy/replication-runbooks-worker.service', () => {
  const unit = read('deploy', 'replication-runbooks-worker.service');
  it('keeps its memory inside, and is restarted without limit; an end by SIGTERM is no failure', () => {
    const lines =
      'LimitCORE=0 MemorySwapMax=0 UMask=0077 NoNewPrivileges=yes CapabilityBoundingSet= ProtectProc=invisible RuntimeDirectoryMode=0700 PrivateUsers=yes RemoveIPC=yes SuccessExitStatus=143 StartLimitIntervalSec=0';
    expect(unit.split('\n')).toEqual(expect.arrayContaining(lines.split(' ')));
  });

  it('forbids tracing, runs as an unprivileged user, and keeps ceremony keys on a tmpfs', () => {
    expect(unit).toMatch(/^SystemCallFilter=~.*@debug/m);
    expect(unit).toMatch(/^User=(?!root)/m);
    expect(unit).toMatch(/^Environment=RUNBOOKS_KEY_DIR=\/run\//m);
    expect(unit).toMatch(/^UnsetEnvironment=.*NODE_OPTIONS/m);
    // Secrets come from files: an environment is seen by whoever may look at the process.
    expect(unit).not.toMatch(/^Environment=.*(TOKEN|SEAL_KEYS=|PASS)/m);
  });
});
